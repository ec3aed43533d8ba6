/* Legacy VTK files in text and binary, both ways to list cells, and unstructured grids of VTK's XML (.vtu): surfaces,
 * boundaries of volumes, fields, damage. */
#include "../ff_test_mesh.h"

#include "ff_vtk.h"
#include "ff_vtp.h"

#include <math.h>

typedef struct {
    char s[1 << 14];
    size_t n;
    bool binary;
} bytes;

static void put(bytes *b, const void *p, size_t n)
{
    assert_true(b->n + n < sizeof b->s);
    memcpy(b->s + b->n, p, n);
    b->n += n;
    b->s[b->n] = 0;
}
static void text(bytes *b, const char *s)
{
    put(b, s, strlen(s));
}

/* n numbers of a type of size bytes (d: double, f: float, i: int, l: 64 bits, b: byte), big-endian or as words. */
static void numbers(bytes *b, char type, int n, const double *v)
{
    for (int i = 0; i < n; i++) {
        char word[40];
        float f = (float)v[i];
        int32_t w = (int32_t)v[i];
        int64_t l = (int64_t)v[i];
        uint8_t u = (uint8_t)v[i];
        size_t size = type == 'd' || type == 'l' ? 8 : type == 'b' ? 1 : 4;
        const void *p = type == 'd'   ? (const void *)&v[i]
                        : type == 'f' ? (const void *)&f
                        : type == 'i' ? (const void *)&w
                        : type == 'l' ? (const void *)&l
                                      : &u;
        (void)snprintf(word, sizeof word, "%.17g%s", v[i], i % 9 == 8 ? "\n" : " ");
        if (!b->binary) text(b, word);
        for (size_t k = 0; b->binary && k < size; k++) put(b, (const char *)p + size - 1 - k, 1);
    }
    text(b, "\n");
}

static void ids(bytes *b, char type, int n, const int *v)
{
    double d[64];
    for (int i = 0; i < n; i++) d[i] = v[i];
    numbers(b, type, n, d);
}

/* A quad, a triangle and a strip of two triangles, with fields of every kind of attribute. */
static void surface(bytes *b, bool binary, bool version5)
{
    static const double xyz[] = {0, 0, 0, 1, 0, 0, 1, 1, 0, 0, 1, 0, 2, 0, 0, 2, 1, 0};
    static const double p[] = {1, 2, 3},
                        v[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18};
    b->n = 0;
    b->binary = binary;
    text(b, version5 ? "# vtk DataFile Version 5.1\n" : "# vtk DataFile Version 3.0\n");
    text(b, "a title of any words\n");
    text(b, binary ? "BINARY\n" : "ASCII\n");
    text(b, "DATASET POLYDATA\nFIELD FieldData 1\nTIME 1 1 double\n");
    numbers(b, 'd', 1, p);
    text(b, "POINTS 6 float\n");
    numbers(b, 'f', 18, xyz);
    text(b, "METADATA\nINFORMATION 0\n\n");
    if (version5) {
        text(b, "POLYGONS 3 7\nOFFSETS vtktypeint64\n");
        ids(b, 'l', 3, (int[]){0, 4, 7});
        text(b, "CONNECTIVITY vtktypeint64\n");
        ids(b, 'l', 7, (int[]){0, 1, 2, 3, 0, 1, 2});
        text(b, "TRIANGLE_STRIPS 2 4\nOFFSETS vtktypeint64\n");
        ids(b, 'l', 2, (int[]){0, 4});
        text(b, "CONNECTIVITY int\n");
        ids(b, 'i', 4, (int[]){1, 4, 2, 5});
    } else {
        text(b, "POLYGONS 2 9\n");
        ids(b, 'i', 9, (int[]){4, 0, 1, 2, 3, 3, 0, 1, 2});
        text(b, "TRIANGLE_STRIPS 1 5\n");
        ids(b, 'i', 5, (int[]){4, 1, 4, 2, 5});
    }
    text(b, "CELL_DATA 3\nSCALARS p double\nLOOKUP_TABLE default\n");
    numbers(b, 'd', 3, p);
    text(b, "FIELD f 2\nq%20r 1 3 unsigned_char\n");
    numbers(b, 'b', 3, p);
    text(b, "METADATA\nCOMPONENT_NAMES\nx\n\nother 2 1 int\n");
    numbers(b, 'i', 2, p);
    text(b, "POINT_DATA 6\nVECTORS U double\n");
    numbers(b, 'd', 18, v);
    text(b, "LOOKUP_TABLE colours 1\n");
    numbers(b, binary ? 'b' : 'f', 4, p);
    text(b, "SCALARS s float 2\n");
    numbers(b, 'f', 12, v);
}

static ff_status parse(const bytes *b, ff_mesh **m)
{
    return ff_test_parse_n(ff_vtk_parse, b->s, b->n, m);
}

static void surfaces_in_every_form(void **state)
{
    (void)state;
    static bytes b;
    static const int64_t off[] = {0, 4, 7, 10, 13}, pts[] = {0, 1, 2, 3, 0, 1, 2, 1, 4, 2, 2, 4, 5};
    static const double p[] = {1, 2, 3, 3};
    for (int form = 0; form < 4; form++) {
        ff_mesh *m;
        surface(&b, form & 1, form & 2);
        if (parse(&b, &m) != FF_OK) fail_msg("form %d: %s", form, ff_error_text());
        assert_int_equal(m->n_cells, 4);
        assert_int_equal(m->n_points, 6);
        assert_true(m->points_float32 && m->points[12] == 2);
        assert_memory_equal(m->cell_off, off, sizeof off);
        assert_memory_equal(m->cell_pts, pts, sizeof pts);
        assert_int_equal(m->cell_data.n, 2);
        assert_string_equal(m->cell_data.field[1].name, "q r");
        for (int i = 0; i < 2; i++) assert_memory_equal(m->cell_data.field[i].value, p, sizeof p);
        assert_int_equal(m->point_data.n, 2);
        const ff_field *s = ff_field_set_find(&m->point_data, "s"),
                       *u = ff_field_set_find(&m->point_data, "U");
        assert_true(s != NULL && s->n_comp == 2 && s->value[11] == 12);
        assert_true(u != NULL && u->n_comp == 3 && u->value[17] == 18);
        ff_mesh_destroy(&m);
    }
}

/* ---- unstructured grids: the same cells as .vtk and .vtu ---- */

typedef struct {
    int n_cells, type[4], n_conn, conn[64], end[4];
    const char *faces; /* .vtu: arrays of polyhedra */
    int64_t made;      /* cells of the mesh */
    double area, volume;
} grid_case;

/* Points i + 3 j + 6 k of the lattice 2 x 1 x 1. */
#define HEX0 0, 1, 4, 3, 6, 7, 10, 9
#define HEX1 1, 2, 5, 4, 7, 8, 11, 10
static const grid_case grids[] = {
    {2, {12, 12}, 16, {HEX0, HEX1}, {8, 16}, NULL, 10, 10, 2},
    {2, {11, 12}, 16, {0, 1, 3, 4, 6, 7, 9, 10, HEX1}, {8, 16}, NULL, 10, 10, 2},
    /* Two wedges, wound as VTK has them, and a hexahedron. */
    {3, {13, 13, 12}, 20, {0, 4, 1, 6, 10, 7, 0, 3, 4, 6, 9, 10, HEX1}, {6, 12, 20}, NULL, 12, 10, 2},
    {2, {14, 10}, 9, {0, 1, 4, 3, 6, 6, 1, 4, 7}, {5, 9}, NULL, 7, 0, 0},
    {2,
     {42, 12},
     16,
     {HEX0, HEX1},
     {8, 16},
     "<DataArray type='Int64' Name='faces'>6 4 0 3 4 1 4 6 7 10 9 4 0 1 7 6 4 3 9 10 4 4 0 6 9 3 4 1 4 10 "
     "7</DataArray>"
     "<DataArray type='Int64' Name='faceoffsets'>31 -1</DataArray>",
     10,
     10,
     2},
    {2,
     {42, 12},
     16,
     {HEX0, HEX1},
     {8, 16},
     "<DataArray type='Int64' Name='face_connectivity'>0 3 4 1 6 7 10 9 0 1 7 6 3 9 10 4 0 6 9 3 1 4 10 "
     "7</DataArray>"
     "<DataArray type='Int64' Name='face_offsets'>4 8 12 16 20 24</DataArray>"
     "<DataArray type='Int64' Name='polyhedron_to_faces'>0 1 2 3 4 5</DataArray>"
     "<DataArray type='Int64' Name='polyhedron_offsets'>6 6</DataArray>",
     10,
     10,
     2},
    /* Surface cells win: pixel, triangle of six points; the line and the volume are left out. */
    {4, {8, 22, 12, 3}, 20, {0, 1, 3, 4, 1, 2, 5, 9, 9, 9, HEX0, 3, 4}, {4, 10, 18, 20}, NULL, 2, 1.5, 0},
    {2, {9, 5}, 7, {0, 1, 4, 3, 1, 2, 5}, {4, 7}, NULL, 2, 1.5, 0},
};

static void check_grid(const grid_case *g, const ff_mesh *m)
{
    ff_mesh_stats s;
    assert_int_equal(ff_mesh_measure(m, &s), FF_OK);
    assert_int_equal(s.cells, g->made);
    assert_int_equal(s.points, 12);
    if (g->area > 0) assert_true(fabs(s.area - g->area) < 1e-12);
    assert_int_equal(s.misoriented_edges, 0);
    if (g->volume > 0) assert_true(s.closed && fabs(s.volume - g->volume) < 1e-12);
    /* Each face has its cell's value. */
    const ff_field *c = ff_field_set_find(&m->cell_data, "c");
    assert_non_null(c);
    for (int64_t i = 0; i < m->n_cells && g->volume > 0 && g->n_cells == 2; i++) {
        int64_t n, at = ff_mesh_cell(m, i, &n);
        double x = 0;
        for (int64_t k = 0; k < n; k++) x += m->points[3 * m->cell_pts[at + k]] / (double)n;
        assert_true(c->value[i] == (x > 1 ? 11 : 10));
    }
}

static void grids_of_text(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof grids / sizeof *grids; i++) {
        static bytes b, x;
        const grid_case *g = &grids[i];
        char word[200];
        ff_mesh *m;
        ff_read_opts opts = FF_READ_OPTS_INIT;
        b.n = x.n = 0;
        text(&x,
             "<VTKFile type='UnstructuredGrid'><UnstructuredGrid><Piece NumberOfPoints='12' NumberOfCells='");
        (void)snprintf(word, sizeof word, "%d'><CellData><DataArray type='Int32' Name='c'>", g->n_cells);
        text(&x, word);
        text(&b, "# vtk DataFile Version 3.0\nt\nASCII\nDATASET UNSTRUCTURED_GRID\nPOINTS 12 double\n");
        for (int c = 0; c < g->n_cells; c++) (void)snprintf(word, sizeof word, "%d ", 10 + c), text(&x, word);
        text(&x, "</DataArray></CellData><Points><DataArray type='Float64' NumberOfComponents='3'>");
        for (int p = 0; p < 12; p++) {
            (void)snprintf(word, sizeof word, "%d %d %d ", p % 3, p / 3 % 2, p / 6);
            text(&x, word);
            text(&b, word);
        }
        text(&x, "</DataArray></Points><Cells><DataArray type='Int32' Name='connectivity'>");
        bool polyhedron = g->type[0] == 42;
        (void)snprintf(word, sizeof word, "\nCELLS %d %d\n", g->n_cells,
                       g->n_cells + (polyhedron ? 39 : g->n_conn));
        text(&b, word);
        for (int c = 0; c < g->n_cells; c++) {
            int from = c > 0 ? g->end[c - 1] : 0;
            (void)snprintf(word, sizeof word, "\n%d ", g->end[c] - from);
            if (polyhedron && c == 0)
                text(&b, "\n31 6 4 0 3 4 1 4 6 7 10 9 4 0 1 7 6 4 3 9 10 4 4 0 6 9 3 4 1 4 10 7 ");
            else
                text(&b, word);
            for (int k = from; k < g->end[c]; k++) {
                (void)snprintf(word, sizeof word, "%d ", g->conn[k]);
                text(&x, word);
                if (!polyhedron || c > 0) text(&b, word);
            }
        }
        text(&x, "</DataArray><DataArray type='Int32' Name='offsets'>");
        for (int c = 0; c < g->n_cells; c++)
            (void)snprintf(word, sizeof word, "%d ", g->end[c]), text(&x, word);
        text(&x, "</DataArray><DataArray type='UInt8' Name='types'>");
        (void)snprintf(word, sizeof word, "\nCELL_TYPES %d\n", g->n_cells);
        text(&b, word);
        for (int c = 0; c < g->n_cells; c++)
            (void)snprintf(word, sizeof word, "%d ", g->type[c]), text(&x, word), text(&b, word);
        (void)snprintf(word, sizeof word, "\nCELL_DATA %d\nSCALARS c int 1\n", g->n_cells);
        text(&b, word);
        for (int c = 0; c < g->n_cells; c++) (void)snprintf(word, sizeof word, "%d ", 10 + c), text(&b, word);
        text(&x, "</DataArray>");
        if (g->faces != NULL) text(&x, g->faces);
        text(&x, "</Cells></Piece></UnstructuredGrid></VTKFile>");
        text(&b, "\n");
        if (parse(&b, &m) != FF_OK) fail_msg("grid %zu: %s", i, ff_error_text());
        check_grid(g, m);
        ff_mesh_destroy(&m);
        ff_error_clear();
        if (ff_vtp_parse("mem.vtu", x.s, x.n, &opts, &m) != FF_OK)
            fail_msg("grid %zu: %s", i, ff_error_text());
        check_grid(g, m);
        ff_mesh_destroy(&m);
    }
}

/* ---- refusals ---- */

/* The text surface with the first occurrence of from changed. */
static void edit(bytes *b, const char *from, const char *to)
{
    static bytes whole;
    surface(&whole, false, false);
    char *at = strstr(whole.s, from);
    assert_non_null(at);
    b->n = 0;
    put(b, whole.s, (size_t)(at - whole.s));
    text(b, to);
    text(b, at + strlen(from));
}

static void wrong_files_are_refused(void **state)
{
    (void)state;
    static const char *const rows[][3] = {
        {"Version 3.0", "Version x", "version \"x\""},
        {"Version 3.0", "Version 6.0", "version 6, expected up to 5"},
        {"ASCII", "TEXT", "expected ASCII or BINARY"},
        {"POLYDATA", "STRUCTURED_POINTS",
         "DATASET \"STRUCTURED_POINTS\", expected POLYDATA or UNSTRUCTURED_GRID"},
        {"POINTS 6", "POINTS 5", "expected a keyword"},
        {"POINTS 6", "POINTS -6", "from 0 to 1e12"},
        {"POINTS 6", "POINTS 900000000000", "expected a number"},
        {"6 float", "6 floaty", "type \"floaty\""},
        {"POLYGONS 2 9", "POLYGONS 2 8", "expected"},
        {"POLYGONS 2 9", "POLYGONS 1 9", "use 5 numbers of the list, expected 9"},
        {"POLYGONS 2 9\n4 0 1", "POLYGONS 2 9\n9 0 1", "has 9 points"},
        {"POLYGONS 2 9\n4 0 1", "POLYGONS 2 9\n4 0 7", "point id 7, expected 0 <= id < 6"},
        {"POLYGONS 2 9\n4 0 1", "POLYGONS 2 9\n4 0 1.5", "expected a whole number"},
        {"POLYGONS 2 9", "CELLS 2 9", "cells of another kind"},
        {"CELL_DATA 3", "CELL_DATA 4", "CELL_DATA 4, expected 3"},
        {"CELL_DATA 3\n", "", "scalars before POINT_DATA"},
        {"1 2 3", "1 2 x", "\"x\""},
        {"q%20r 1 3", "q%20r 1", "expected a whole number"},
        {"TRIANGLE_STRIPS", "POLYGONS", "a second time"},
        {"POINTS", "POINT", "\"POINT\", expected a keyword"},
    };
    static bytes b;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t blocks = ff_mem_blocks();
        edit(&b, rows[i][0], rows[i][1]);
        ff_test_refuse_n(ff_vtk_parse, b.s, b.n, rows[i][2]);
        assert_int_equal(ff_mem_blocks(), blocks);
    }
}

static void wrong_grids_are_refused(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"CELLS 1 4\n3 0 1 2\nCELL_TYPES 1\n99\n", "type 99 is no cell type"},
        {"CELLS 1 4\n3 0 1 2\nCELL_TYPES 1\n9\n", "points 3, expected at least 4"},
        {"CELLS 1 4\n3 0 1 3\nCELL_TYPES 1\n5\n", "point id 3, expected 0 <= id < 3"},
        {"CELLS 1 4\n3 0 1 2\nCELL_TYPES 2\n5 5\n", "CELL_TYPES 2, expected 1"},
        {"CELLS 1 4\n3 0 1 2\n", "file ends without CELL_TYPES"},
        {"", "file ends without CELLS"},
        {"CELLS 1 4\n3 1 3 0\nCELL_TYPES 1\n42\n", "corners of a face 3, expected 0 to 1"},
        {"CELLS 1 6\n5 1 3 0 1 9\nCELL_TYPES 1\n42\n", "point id 9"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        static bytes b;
        b.n = 0;
        text(&b, "# vtk DataFile Version 2.0\nt\nASCII\nDATASET UNSTRUCTURED_GRID\nPOINTS 3 float\n0 0 0 1 0 "
                 "0 0 1 0\n");
        text(&b, rows[i][0]);
        ff_test_refuse_n(ff_vtk_parse, b.s, b.n, rows[i][1]);
    }
}

/* A cut file is refused unless what is left is a whole file: all its cells, and attributes up to the end of one. */
static void prefixes_are_refused(void **state)
{
    (void)state;
    static bytes b;
    for (int form = 0; form < 4; form++) {
        surface(&b, form & 1, form & 2);
        size_t whole = b.n, taken = 0;
        const char *data = NULL;
        for (size_t i = 0; i + 9 < whole && data == NULL; i++)
            if (memcmp(b.s + i, "CELL_DATA", 9) == 0) data = b.s + i;
        assert_non_null(data);
        for (b.n = 0; b.n < whole; b.n++) {
            ff_mesh *m = NULL;
            ff_status st = parse(&b, &m);
            if (st != FF_OK) {
                ff_test_refused(st, "mem");
                continue;
            }
            /* Strips may be missing with their section; numbers of text may lose digits and blanks at the end. */
            assert_true(m->n_cells == 4 || m->n_cells == 2);
            if (m->n_cells == 4) assert_true(b.s + b.n >= data - 2);
            ff_mesh_destroy(&m);
            taken++;
        }
        b.n = whole;
        if (taken > 40) fail_msg("form %d: %zu of %zu prefixes are read", form, taken, whole);
    }
    assert_int_equal(ff_mem_blocks(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(surfaces_in_every_form),  cmocka_unit_test(grids_of_text),
        cmocka_unit_test(wrong_files_are_refused), cmocka_unit_test(wrong_grids_are_refused),
        cmocka_unit_test(prefixes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
