/* CGNS reader: every kind of section, boundary condition, connectivity and zone, in both containers, and damage. */
#include "../ff_test_scratch.h"
#include "ff_cgns_writer.h"

#include "ff_cgns.h"
#include "ff_log.h"

#include <math.h>

#define FILE_NAME "small.cgns"

enum { TRI_3 = 5, TRI_6, QUAD_4, QUAD_8, HEXA_8 = 17, MIXED = 20, NGON = 22, NFACE, BAR_2 = 3 };

/* The lattice 2 x 1 x 1: points 1 + i + 3 j + 6 k, two cells, their outer faces, and the one between them. */
static const int hexas[] = {1, 2, 5, 4, 7, 8, 11, 10, 2, 3, 6, 5, 8, 9, 12, 11};
static const int quads[10][4] = {{1, 7, 10, 4},  {3, 6, 12, 9}, {1, 2, 8, 7}, {2, 3, 9, 8},   {4, 10, 11, 5},
                                 {5, 11, 12, 6}, {1, 4, 5, 2},  {2, 5, 6, 3}, {7, 8, 11, 10}, {8, 9, 12, 11}};
static const int two[3] = {2, 1, 1};

static ff_status read_file(ff_mesh **m)
{
    ff_read_opts opts = FF_READ_OPTS_INIT;
    ff_error_clear();
    return ff_mesh_read(FILE_NAME, &opts, m);
}

static ff_mesh *must_read(int64_t cells, double area)
{
    ff_mesh *m;
    ff_mesh_stats s;
    if (read_file(&m) != FF_OK) fail_msg("%s", ff_error_text());
    assert_int_equal(ff_mesh_measure(m, &s), FF_OK);
    assert_int_equal(s.cells, cells);
    if (fabs(s.area - area) > 1e-12 * area) fail_msg("area %.17g, expected %g", s.area, area);
    return m;
}

/* Names as in want ("a,b,c", in any order: without libcgns files do not keep it) and the cells of each. */
static void patches(const ff_mesh *m, const char *want, const int64_t *cells)
{
    int n_names = 0;
    for (const char *p = want; p != NULL; n_names++) {
        size_t len = strcspn(p, ",");
        int64_t n = 0;
        for (int64_t c = 0; c < m->n_cells; c++) {
            const char *name = m->patch_name[m->cell_patch != NULL ? m->cell_patch[c] : 0];
            n += strlen(name) == len && memcmp(name, p, len) == 0;
        }
        if (n != cells[n_names])
            fail_msg("patch %.*s has %lld cells, expected %lld", (int)len, p, (long long)n,
                     (long long)cells[n_names]);
        p = p[len] == ',' ? p + len + 1 : NULL;
    }
    assert_int_equal(m->n_patches, n_names);
}

static void closed(const ff_mesh *m, double volume)
{
    ff_mesh_stats s;
    assert_int_equal(ff_mesh_measure(m, &s), FF_OK);
    assert_true(s.closed);
    assert_int_equal(s.misoriented_edges, 0);
    if (fabs(s.volume - volume) > 1e-12) fail_msg("volume %g, expected %g", s.volume, volume);
}

/* A file with one unstructured zone of the two cells. */
static place two_cells(writer *w, int kind, bool cells)
{
    place root = w_open(w, kind, FILE_NAME);
    w->wide = kind % 2 == 0;
    place zone = w_zone(w, w_base(w, root, "Base", 3, 3), "Zone", false, 3, two, 0);
    if (cells) (void)w_section(w, zone, "Hexas", HEXA_8, 1, 2, hexas, 16, NULL);
    return zone;
}

static void sections_are_patches(void **state)
{
    (void)state;
    for (int kind = 0; kind < W_KINDS; kind++) {
        writer w;
        place z = two_cells(&w, kind, true);
        (void)w_section(&w, z, "left", QUAD_4, 3, 3, quads[0], 4, NULL);
        (void)w_section(&w, z, "right", QUAD_4, 4, 4, quads[1], 4, NULL);
        (void)w_section(&w, z, "a sides", QUAD_4, 5, 12, quads[2], 32, NULL);
        /* A condition on vertices, and one that covers a section: the sections' names stay. */
        place bc = w_empty(&w, z, "ZoneBC", "ZoneBC_t");
        (void)w_set(&w, bc, "bc1", "BC_t", "PointList", 1, 4, quads[0], NULL, "family");
        (void)w_set(&w, bc, "bc2", "BC_t", "PointRange", 1, 2, (int[]){5, 12}, "FaceCenter", NULL);
        w_close(&w);
        ff_mesh *m = must_read(10, 10);
        patches(m, "left,right,a sides", (int64_t[]){1, 1, 8});
        closed(m, 2);
        ff_mesh_destroy(&m);
    }
}

static void conditions_cut_sections(void **state)
{
    (void)state;
    static const struct {
        const char *key, *location;
        int dims, n, v[4];
    } rows[] = {{"PointList", "FaceCenter", 1, 2, {3, 4}},
                {"PointRange", "FaceCenter", 1, 2, {4, 3}},
                {"ElementList", NULL, 1, 2, {3, 4}},
                {"ElementRange", NULL, 1, 2, {3, 4}}};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (int kind = 0; kind < W_KINDS; kind++) {
            writer w;
            place z = two_cells(&w, kind, true);
            (void)w_section(&w, z, "skin", QUAD_4, 3, 12, quads[0], 40, NULL);
            place bc = w_empty(&w, z, "ZoneBC", "ZoneBC_t");
            (void)w_set(&w, bc, "ends", "BC_t", rows[r].key, 1, rows[r].n, rows[r].v, rows[r].location, NULL);
            (void)w_set(&w, bc, "floor", "BC_t", "PointRange", 1, 2, (int[]){9, 10}, "FaceCenter", "ground");
            w_close(&w);
            ff_mesh *m = must_read(10, 10);
            patches(m, "ends,skin,ground", (int64_t[]){2, 6, 2});
            closed(m, 2);
            ff_mesh_destroy(&m);
        }
}

/* Two triangles for the left face, the other faces as quads; volume elements in the same section. */
static void mixed_sections(void **state)
{
    (void)state;
    for (int kind = 0; kind < W_KINDS; kind++)
        for (int offsets = 0; offsets < 2; offsets++) {
            int conn[100], start[14], n = 0, e = 0;
            writer w;
            place z = two_cells(&w, kind, false);
            for (int c = 0; c < 2; c++) {
                start[e++] = n;
                conn[n++] = HEXA_8;
                for (int k = 0; k < 8; k++) conn[n++] = hexas[8 * c + k];
            }
            for (int t = 0; t < 2; t++) {
                start[e++] = n;
                conn[n++] = TRI_3;
                for (int k = 0; k < 3; k++) conn[n++] = quads[0][t == 0 ? k : (k + 2) % 4];
            }
            for (int q = 1; q < 10; q++) {
                start[e++] = n;
                conn[n++] = QUAD_4;
                for (int k = 0; k < 4; k++) conn[n++] = quads[q][k];
            }
            start[e] = n;
            (void)w_section(&w, z, "all", MIXED, 1, 13, conn, n, offsets ? start : NULL);
            w_close(&w);
            ff_mesh *m = must_read(11, 10);
            closed(m, 2);
            ff_mesh_destroy(&m);
        }
}

/* Faces 1 to 11: the outer ones and the inner one last; cells 12 and 13. inward: the inner face is negative for the
 * second cell, and so is outer face 10, turned round. */
static void polygons(writer *w, place z, bool version4, bool parents)
{
    static const int inner[4] = {2, 5, 11, 8};
    static const int cells[2][6] = {{1, 3, 5, 7, 9, 11}, {2, 4, 6, 8, -10, -11}};
    int conn[60], start[12], n = 0, parent[22] = {0};
    for (int f = 0; f < 11; f++) {
        start[f] = n;
        if (!version4) conn[n++] = 4;
        for (int k = 0; k < 4; k++) conn[n++] = f == 10 ? inner[k] : quads[f][f == 9 ? 3 - k : k];
    }
    start[11] = n;
    place s = w_section(w, z, "faces", NGON, 1, 11, conn, n, version4 ? start : NULL);
    if (parents) {
        for (int f = 0; f < 11; f++) parent[f] = f == 1 || (f < 10 && f >= 2 && f % 2 == 1) ? 13 : 12;
        parent[10 + 11] = 13;
        parent[9 + 11] = parent[9]; /* looks inwards: its cell is the right one */
        parent[9] = 0;
        (void)w_ints(w, s, "ParentElements", "DataArray_t", 11, 2, parent);
        return;
    }
    n = 0;
    for (int c = 0; c < 2; c++) {
        start[c] = n;
        if (!version4) conn[n++] = 6;
        for (int k = 0; k < 6; k++) conn[n++] = cells[c][k];
    }
    start[2] = n;
    (void)w_section(w, z, "cells", NFACE, 12, 13, conn, n, version4 ? start : NULL);
}

static void ngon_sections(void **state)
{
    (void)state;
    for (int kind = 0; kind < W_KINDS; kind++)
        for (int v = 0; v < 4; v++) {
            writer w;
            place z = two_cells(&w, kind, false);
            polygons(&w, z, v & 1, v & 2);
            place bc = w_empty(&w, z, "ZoneBC", "ZoneBC_t");
            (void)w_set(&w, bc, "inlet", "BC_t", "PointList", 1, 1, (int[]){1}, "FaceCenter", NULL);
            (void)w_set(&w, bc, "outlet", "BC_t", "PointList", 1, 4, quads[1], "Vertex", "out");
            w_close(&w);
            ff_mesh *m = must_read(10, 10);
            patches(m, "inlet,out,faces", (int64_t[]){1, 1, 8});
            closed(m, 2);
            ff_mesh_destroy(&m);
        }
}

static void only_conditions_name_ngon_faces(void **state)
{
    (void)state;
    writer w;
    place z = two_cells(&w, W_OWN, false);
    int conn[44];
    for (int f = 0; f < 10; f++) memcpy(conn + 4 * f, quads[f], sizeof quads[f]);
    int start[11] = {0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40};
    (void)w_section(&w, z, "faces", NGON, 1, 10, conn, 40, start);
    place bc = w_empty(&w, z, "ZoneBC", "ZoneBC_t");
    (void)w_set(&w, bc, "some", "BC_t", "PointRange", 1, 2, (int[]){2, 4}, "FaceCenter", NULL);
    w_close(&w);
    ff_mesh *m = must_read(3, 3);
    patches(m, "some", (int64_t[]){3});
    ff_mesh_destroy(&m);
    z = two_cells(&w, W_OWN, false);
    (void)w_section(&w, z, "faces", NGON, 1, 10, conn, 40, start);
    w_close(&w);
    ff_test_refused(read_file(&m), "nothing says which are the boundary");
}

static void faces_of_cells(void **state)
{
    (void)state;
    for (int kind = 0; kind < W_KINDS; kind++) {
        writer w;
        place z = two_cells(&w, kind, true);
        place bc = w_empty(&w, z, "ZoneBC", "ZoneBC_t");
        (void)w_set(&w, bc, "inlet", "BC_t", "PointList", 1, 4, quads[0], NULL, NULL);
        (void)w_set(&w, bc, "top", "BC_t", "PointRange", 1, 2, (int[]){7, 12}, "Vertex", NULL);
        w_close(&w);
        ff_mesh *m = must_read(10, 10);
        patches(m, "Zone,inlet,top", (int64_t[]){7, 1, 2});
        closed(m, 2);
        ff_mesh_destroy(&m);
    }
}

/* Two zones, one behind the other along x, joined at x = 2. how 0: by vertices, from cells; 1: by vertices, from
 * sections; 2: by faces, from sections. */
static void zones_meet(void **state)
{
    (void)state;
    for (int kind = 0; kind < W_KINDS; kind++)
        for (int how = 0; how < 3; how++) {
            writer w;
            place base = w_base(&w, w_open(&w, kind, FILE_NAME), "Base", 3, 3);
            for (int k = 0; k < 2; k++) {
                place z = w_zone(&w, base, k == 0 ? "A" : "B", false, 3, two, 2 * k);
                (void)w_section(&w, z, "Hexas", HEXA_8, 1, 2, hexas, 16, NULL);
                if (how > 0) (void)w_section(&w, z, "skin", QUAD_4, 3, 12, quads[0], 40, NULL);
                place g = w_empty(&w, z, "ZoneGridConnectivity", "ZoneGridConnectivity_t");
                int face = 3 + (k == 0);
                if (how < 2)
                    (void)w_set(&w, g, "to other", "GridConnectivity1to1_t", "PointList", 1, 4, quads[k == 0],
                                NULL, NULL);
                else
                    (void)w_set(&w, g, "to other", "GridConnectivity_t", "PointList", 1, 1, &face,
                                "FaceCenter", NULL);
            }
            w_close(&w);
            ff_mesh *m = must_read(18, 18);
            patches(m, how == 0 ? "A,B" : "A/skin,B/skin", (int64_t[]){9, 9});
            ff_mesh_stats s;
            assert_int_equal(ff_mesh_measure(m, &s), FF_OK);
            assert_int_equal(s.repeated_cells, 0);
            assert_true(s.closed && fabs(s.volume - 4) < 1e-12);
            ff_mesh_destroy(&m);
        }
}

static void structured_zones(void **state)
{
    (void)state;
    static const int n[3] = {3, 2, 4};
    for (int kind = 0; kind < W_KINDS; kind++) {
        writer w;
        place base = w_base(&w, w_open(&w, kind, FILE_NAME), "Base", 3, 3);
        for (int k = 0; k < 2; k++) {
            place z = w_zone(&w, base, k == 0 ? "A" : "B", true, 3, n, 3 * k);
            place g = w_empty(&w, z, "ZoneGridConnectivity", "ZoneGridConnectivity_t");
            int end = k == 0 ? 4 : 1;
            (void)w_set(&w, g, "join", "GridConnectivity1to1_t", "PointRange", 3, 2,
                        (int[]){end, 3, 1, end, 1, 5}, NULL, NULL);
            place bc = w_empty(&w, z, "ZoneBC", "ZoneBC_t");
            (void)w_set(&w, bc, "end", "BC_t", "PointRange", 3, 2,
                        k == 0 ? (int[]){1, 1, 1, 1, 3, 5} : (int[]){4, 1, 1, 4, 3, 5}, NULL, NULL);
            (void)w_set(&w, bc, "floor", "BC_t", "PointRange", 3, 2, (int[]){1, 1, 1, 3, 2, 1}, "KFaceCenter",
                        "ground");
            (void)w_set(&w, bc, "roof", "BC_t", "PointRange", 3, 2, (int[]){1, 1, 5, 3, 2, 5}, "FaceCenter",
                        "sky");
            (void)w_set(&w, bc, "side", "BC_t", "PointRange", 3, 2, (int[]){1, 1, 1, 4, 1, 5}, "Vertex",
                        "wall");
            (void)w_set(&w, bc, "other side", "BC_t", "PointRange", 3, 2, (int[]){1, 2, 1, 3, 2, 4},
                        "CellCenter", "wall");
            (void)w_set(&w, bc, "line", "BC_t", "PointRange", 3, 2, (int[]){1, 1, 1, 1, 1, 5}, "Vertex",
                        NULL);
        }
        w_close(&w);
        ff_mesh *m = must_read(2 * (8 + 6 + 6 + 12 + 12), 88);
        patches(m, "A/end,ground,sky,wall,B/end", (int64_t[]){8, 12, 12, 48, 8});
        closed(m, 6 * 2 * 4);
        ff_mesh_destroy(&m);
    }
}

/* No conditions: all six sides; lists of vertices and of faces as conditions. */
static void structured_variants(void **state)
{
    (void)state;
    writer w;
    ff_mesh *m;
    for (int v = 0; v < 3; v++) {
        place z =
            w_zone(&w, w_base(&w, w_open(&w, W_OWN, FILE_NAME), "Base", 3, 3), "Block", true, 3, two, 0);
        place bc = w_empty(&w, z, "ZoneBC", "ZoneBC_t");
        if (v == 1)
            (void)w_set(&w, bc, "end", "BC_t", "PointList", 3, 4, (int[]){1, 1, 1, 1, 2, 1, 1, 1, 2, 1, 2, 2},
                        NULL, NULL);
        if (v == 2)
            (void)w_set(&w, bc, "top", "BC_t", "PointList", 3, 2, (int[]){1, 1, 2, 2, 1, 2}, "KFaceCenter",
                        NULL);
        w_close(&w);
        m = must_read((int64_t[]){10, 1, 2}[v], (double[]){10, 1, 2}[v]);
        patches(m, ((const char *[]){"Block", "end", "top"})[v], &m->n_cells);
        if (v == 0) closed(m, 2);
        ff_mesh_destroy(&m);
    }
}

static void plane_bases_give_curves(void **state)
{
    (void)state;
    writer w;
    for (int v = 0; v < 3; v++) {
        place base = w_base(&w, w_open(&w, W_OWN, FILE_NAME), "Base", 2, 2);
        place z = w_zone(&w, base, "Plane", v == 0, 2, two, 0);
        if (v > 0) (void)w_section(&w, z, "cells", QUAD_4, 1, 2, (int[]){1, 2, 5, 4, 2, 3, 6, 5}, 8, NULL);
        if (v == 2)
            (void)w_section(&w, z, "bars", BAR_2, 3, 8, (int[]){1, 2, 2, 3, 3, 6, 6, 5, 5, 4, 4, 1}, 12,
                            NULL);
        w_close(&w);
        ff_mesh *m = must_read(6, 6);
        assert_int_equal(m->dim, 2);
        patches(m, v == 2 ? "bars" : "Plane", (int64_t[]){6});
        ff_mesh_stats s;
        assert_int_equal(ff_mesh_measure(m, &s), FF_OK);
        assert_true(s.closed && s.volume == 2);
        ff_mesh_destroy(&m);
    }
}

/* A surface base of quadratic elements, with solutions at vertices (with rind) and cells. */
static void surface_bases_and_fields(void **state)
{
    (void)state;
    for (int kind = 0; kind < W_KINDS; kind++) {
        writer w;
        double v[16], c[2] = {5, 6};
        place z = w_zone(&w, w_base(&w, w_open(&w, kind, FILE_NAME), "Base", 2, 3), "Skin", false, 3, two, 0);
        /* The zone claims two cells; its lattice has two. Nodes beyond the corners are any points. */
        (void)w_section(&w, z, "quad", QUAD_8, 1, 1, (int[]){1, 2, 5, 4, 9, 9, 9, 9}, 8, NULL);
        (void)w_section(&w, z, "tri", TRI_6, 2, 2, (int[]){2, 3, 5, 9, 9, 9}, 6, NULL);
        place s = w_empty(&w, z, "AtVertices", "FlowSolution_t");
        for (int i = 0; i < 15; i++) v[i] = i;
        (void)w_ints(&w, s, "Rind", "Rind_t", 2, 0, (int[]){1, 2});
        (void)w_reals(&w, s, "Pressure", 15, v);
        (void)w_reals(&w, s, "Short", 7, v);
        place t = w_empty(&w, z, "AtCells", "FlowSolution_t");
        (void)w_text(&w, t, "GridLocation", "GridLocation_t", "CellCenter");
        (void)w_reals(&w, t, "Cp", 2, c);
        w_close(&w);
        ff_mesh *m = must_read(2, 1.5);
        patches(m, "quad,tri", (int64_t[]){1, 1});
        assert_int_equal(m->point_data.n, 1);
        assert_true(m->point_data.field[0].value[0] == 1 && m->point_data.field[0].value[11] == 12);
        assert_int_equal(m->cell_data.n, 1);
        assert_true(m->cell_data.field[0].value[1] == 6);
        ff_mesh_destroy(&m);
    }
}

/* Values 5 and 6 in the two cells of a volume: each face has that of the cell behind it. how 0: structured, with rind;
 * 1: faces of the cells; 2: NGON with parents; 3: a section with parents; 4: without them, by the corners; 5: a file
 * without the cells tells nothing. */
static void cell_values_reach_the_boundary(void **state)
{
    (void)state;
    for (int kind = 0; kind < W_KINDS; kind++)
        for (int how = 0; how < 6; how++) {
            writer w;
            double v[3] = {5, 6, -1};
            int parents[20] = {0};
            place root = w_open(&w, kind, FILE_NAME), base = w_base(&w, root, "Base", 3, 3);
            place z = w_zone(&w, base, "Zone", how == 0, 3, two, 0);
            if (how == 2) {
                polygons(&w, z, true, true);
                (void)w_section(&w, z, "cells", HEXA_8, 12, 13, hexas, 16, NULL);
            }
            if (how == 1 || how == 3 || how == 4)
                (void)w_section(&w, z, "Hexas", HEXA_8, 1, 2, hexas, 16, NULL);
            if (how > 2) {
                place s = w_section(&w, z, "skin", QUAD_4, 3, 12, quads[0], 40, NULL);
                for (int f = 0; f < 10; f++) parents[f] = f % 2 ? 2 : 1;
                if (how == 3) (void)w_ints(&w, s, "ParentElements", "DataArray_t", 10, 2, parents);
            }
            place t = w_empty(&w, z, "AtCells", "FlowSolution_t");
            (void)w_text(&w, t, "GridLocation", "GridLocation_t", "CellCenter");
            if (how == 0) (void)w_ints(&w, t, "Rind", "Rind_t", 6, 0, (int[]){0, 1, 0, 0, 0, 0});
            (void)w_reals(&w, t, "Cp", how == 0 ? 3 : 2, v);
            w_close(&w);
            ff_mesh *m = must_read(10, 10);
            assert_int_equal(m->cell_data.n, how < 5);
            for (int64_t c = 0; how < 5 && c < 10; c++) {
                int64_t n, at = ff_mesh_cell(m, c, &n);
                double x = 0; /* of the face's centre: below 1 in the first cell */
                for (int64_t i = at; i < at + n; i++) x += m->points[3 * m->cell_pts[i]] / 4;
                assert_true(m->cell_data.field[0].value[c] == (x < 1 ? 5 : 6));
            }
            ff_mesh_destroy(&m);
        }
}

static void structured_surface_with_rind(void **state)
{
    (void)state;
    writer w;
    double x[20], y[20], zero[20] = {0};
    place z = w_ints(&w, w_base(&w, w_open(&w, W_OWN, FILE_NAME), "Base", 2, 3), "Sheet", "Zone_t", 2, 3,
                     (int[]){3, 2, 2, 1, 0, 0});
    place g = w_empty(&w, z, "GridCoordinates", "GridCoordinates_t");
    for (int i = 0; i < 20; i++) x[i] = i % 5 - 1, y[i] = i / 5 - 1;
    (void)w_ints(&w, g, "Rind", "Rind_t", 4, 0, (int[]){1, 1, 1, 1});
    (void)w_reals(&w, g, "CoordinateX", 20, x);
    (void)w_reals(&w, g, "CoordinateY", 20, y);
    (void)w_reals(&w, g, "CoordinateZ", 20, zero);
    (void)w_text(&w, z, "FamilyName", "FamilyName_t", "hull");
    w_close(&w);
    ff_mesh *m = must_read(2, 2);
    patches(m, "hull", (int64_t[]){2});
    assert_true(m->points[0] == 0 && m->points[3 * 5] == 2);
    ff_mesh_destroy(&m);
}

/* ---- refusals ---- */

static void refused(const char *words)
{
    ff_mesh *m;
    size_t blocks = ff_mem_blocks();
    ff_status st = read_file(&m);
    if (st == FF_OK) fail_msg("accepted, expected \"%s\"", words);
    ff_test_refused(st, words);
    assert_int_equal(ff_mem_blocks(), blocks);
}

static void wrong_sections_are_refused(void **state)
{
    (void)state;
    static const struct {
        int type, first, last, n, conn[10], offsets[4];
        const char *words;
    } rows[] = {
        {QUAD_4, 1, 1, 4, {1, 2, 5, 13}, {-1}, "/Base/Zone/s: element 1: vertex 13, expected 1 to 12"},
        {QUAD_4, 1, 1, 4, {1, 2, 5, 0}, {-1}, "vertex 0"},
        {QUAD_4, 1, 1, 3, {1, 2, 5}, {-1}, "3 numbers, expected 4 for each of 1"},
        {QUAD_4, 1, 9, 4, {1, 2, 5, 4}, {-1}, "9 elements but only 4 numbers"},
        {QUAD_4, 0, 1, 8, {1, 2, 5, 4, 1, 2, 5, 4}, {-1}, "ElementRange 0 to 1"},
        {QUAD_4, 2, 1, 4, {1, 2, 5, 4}, {-1}, "ElementRange 2 to 1"},
        {99, 1, 1, 4, {1, 2, 5, 4}, {-1}, "element type is not known"},
        {MIXED, 1, 1, 4, {7, 2, 5, 4}, {-1}, "ends inside element 1"},
        {MIXED, 1, 2, 5, {7, 1, 2, 5, 4}, {-1}, "ends inside element 2"},
        {MIXED, 1, 1, 6, {7, 1, 2, 5, 4, 7}, {-1}, "has 6 numbers, expected 5"},
        {MIXED, 1, 1, 5, {77, 1, 2, 5, 4}, {-1}, "element 1 has type 77"},
        {MIXED, 1, 1, 5, {7, 1, 2, 5, 4}, {0, 4}, "expected rising offsets from 0 to 5"},
        {MIXED, 1, 1, 5, {5, 1, 2, 5, 4}, {0, 5}, "has 5 entries, expected 4"},
        {NGON, 1, 1, 5, {5, 1, 2, 5, 4}, {-1}, "ends inside element 1"},
        {NGON, 1, 1, 5, {-4, 1, 2, 5, 4}, {-1}, "ends inside element 1"},
        {NGON, 1, 2, 4, {1, 2, 5, 4}, {0, 5, 4}, "rising offsets"},
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (int kind = 0; kind < W_KINDS; kind++) {
            writer w;
            place z = two_cells(&w, kind, false);
            (void)w_section(&w, z, "s", rows[r].type, rows[r].first, rows[r].last, rows[r].conn, rows[r].n,
                            rows[r].offsets[0] < 0 ? NULL : rows[r].offsets);
            w_close(&w);
            refused(rows[r].words);
        }
}

static void wrong_trees_are_refused(void **state)
{
    (void)state;
    writer w;
    place root = w_open(&w, W_OWN, FILE_NAME), z, base;
    w_close(&w);
    refused("holds no CGNS zone");
    (void)root;
    root = w_open(&w, W_OWN, FILE_NAME);
    base = w_base(&w, root, "Base", 4, 3);
    (void)w_zone(&w, base, "Zone", false, 3, two, 0);
    w_close(&w);
    refused("/Base: cell dimension 4");
    base = w_base(&w, w_open(&w, W_OWN, FILE_NAME), "Base", 3, 3);
    (void)w_zone(&w, base, "Zone", false, 3, two, 0);
    w_close(&w);
    refused("no boundary faces");
    base = w_base(&w, w_open(&w, W_OWN, FILE_NAME), "Base", 3, 3);
    (void)w_ints(&w, base, "Zone", "Zone_t", 3, 3, (int[]){3, 2, 2, 2, 2, 1, 0, 0, 0});
    w_close(&w);
    refused("direction 2 has 2 vertices and 2 cells");
    base = w_base(&w, w_open(&w, W_OWN, FILE_NAME), "Base", 3, 3);
    z = w_ints(&w, base, "Zone", "Zone_t", 1, 3, (int[]){4, 1, 0});
    (void)w_text(&w, z, "ZoneType", "ZoneType_t", "Unstructured");
    place g = w_empty(&w, z, "GridCoordinates", "GridCoordinates_t");
    (void)w_reals(&w, g, "CoordinateR", 4, (double[]){1, 2, 3, 4});
    w_close(&w);
    refused("CoordinateX is missing (there is CoordinateR), expected Cartesian");
    base = w_base(&w, w_open(&w, W_OWN, FILE_NAME), "Base", 3, 3);
    z = w_ints(&w, base, "Zone", "Zone_t", 1, 3, (int[]){400000000, 1, 0});
    (void)w_text(&w, z, "ZoneType", "ZoneType_t", "Unstructured");
    g = w_empty(&w, z, "GridCoordinates", "GridCoordinates_t");
    (void)w_reals(&w, g, "CoordinateX", 4, (double[]){1, 2, 3, 4});
    w_close(&w);
    refused("has 4 values, expected 400000000");
    z = two_cells(&w, W_OWN, true);
    (void)w_set(&w, w_empty(&w, z, "ZoneBC", "ZoneBC_t"), "far", "BC_t", "PointList", 1, 1, (int[]){13}, NULL,
                NULL);
    w_close(&w);
    refused("index 13, expected 1 to 12");
}

static size_t load(char *buf, size_t size)
{
    FILE *f = fopen(FILE_NAME, "rb");
    assert_non_null(f);
    size_t n = fread(buf, 1, size, f);
    assert_true(n < size);
    (void)fclose(f);
    return n;
}

/* Where the header of an ADF file says that its content ends. */
static size_t adf_end(const char *file)
{
    char word[13] = "";
    memcpy(word, file + 146, 12);
    unsigned long long block = 0, offset = 0;
    assert_int_equal(sscanf(word, "%8llx%4llx", &block, &offset), 2);
    return (size_t)(4096 * block + offset);
}

/* HDF5 of libcgns is like our own: cut at every 7th byte, the others at each. ADF fills its last block with nothing: what
 * lacks that only is whole, with a warning. */
static void every_prefix_is_refused(void **state)
{
    (void)state;
    static char whole[1 << 17];
    ff_log_set_level(FF_LOG_ERROR);
    for (int kind = 0; kind < W_KINDS; kind++) {
        writer w;
        ff_mesh *m;
        place z = two_cells(&w, kind, true);
        (void)w_section(&w, z, "skin", QUAD_4, 3, 12, quads[0], 40, NULL);
        w_close(&w);
        size_t n = load(whole, sizeof whole);
        for (size_t cut = n, step = kind == W_HDF5 ? 7 : 1; cut > step;) {
            cut -= step;
            assert_int_equal(truncate(FILE_NAME, (off_t)cut), 0);
            ff_status st = read_file(&m);
            if (st == FF_OK && kind == W_ADF && cut > adf_end(whole)) {
                assert_int_equal(m->n_cells, 10);
                ff_mesh_destroy(&m);
                continue;
            }
            if (st == FF_OK) fail_msg("container %d cut at %zu of %zu is accepted", kind, cut, n);
            ff_test_refused(st, FILE_NAME);
        }
    }
    ff_log_set_level(FF_LOG_INFO);
    assert_int_equal(unlink(FILE_NAME), 0);
    assert_int_equal(ff_mem_blocks(), 0);
}

static void other_files_are_named(void **state)
{
    (void)state;
    ff_mesh *m;
    ff_read_opts opts = FF_READ_OPTS_INIT;
    ff_test_write(FILE_NAME, "solid nothing\n", 14);
    ff_error_clear();
    ff_test_refused(ff_cgns_read(FILE_NAME, &opts, &m), "is no CGNS file, expected an HDF5 or ADF container");
    writer w;
    (void)two_cells(&w, W_OWN, true);
    w_close(&w);
    opts.step = 1;
    ff_error_clear();
    ff_test_refused(ff_mesh_read(FILE_NAME, &opts, &m), "read as one step");
    assert_int_equal(unlink(FILE_NAME), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sections_are_patches),
        cmocka_unit_test(conditions_cut_sections),
        cmocka_unit_test(mixed_sections),
        cmocka_unit_test(ngon_sections),
        cmocka_unit_test(only_conditions_name_ngon_faces),
        cmocka_unit_test(faces_of_cells),
        cmocka_unit_test(zones_meet),
        cmocka_unit_test(structured_zones),
        cmocka_unit_test(structured_variants),
        cmocka_unit_test(plane_bases_give_curves),
        cmocka_unit_test(surface_bases_and_fields),
        cmocka_unit_test(cell_values_reach_the_boundary),
        cmocka_unit_test(structured_surface_with_rind),
        cmocka_unit_test(wrong_sections_are_refused),
        cmocka_unit_test(wrong_trees_are_refused),
        cmocka_unit_test(every_prefix_is_refused),
        cmocka_unit_test(other_files_are_named),
    };
    char folder[64];
    if (!ff_scratch_make(folder) || chdir(folder) != 0) return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)unlink(FILE_NAME);
    return failed != 0 || !ff_scratch_remove(folder);
}
