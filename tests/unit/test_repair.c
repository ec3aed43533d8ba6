/* Defects found cell by cell, safe repairs, parts of meshes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ff_bodies.h"
#include "ff_extract.h"
#include "ff_mem.h"
#include "ff_repair.h"
#include "ff_rng.h"
#include "ff_snap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SEED = 11 };

/* Triangles (edges in dim 2) from corner ids. */
static ff_mesh *mesh_of(int dim, const double *p, int64_t n_points, const int64_t *c, int64_t n_cells)
{
    ff_mesh *m = NULL;
    ff_read_opts opts = FF_READ_OPTS_INIT;
    assert_int_equal(ff_mesh_create(&m), FF_OK);
    m->dim = dim;
    m->n_points = n_points;
    m->n_cells = n_cells;
    assert_int_equal(FF_NEW(m->points, 3 * n_points), FF_OK);
    assert_int_equal(FF_NEW(m->cell_pts, dim * n_cells), FF_OK);
    memcpy(m->points, p, (size_t)(3 * n_points) * sizeof *p);
    memcpy(m->cell_pts, c, (size_t)(dim * n_cells) * sizeof *c);
    assert_int_equal(ff_mesh_finish(m, "test", &opts), FF_OK);
    return m;
}

/* An ellipsoid as STL has it, three points a facet, a third of the facets (by area less than half) turned
 * round, facet 5 twice, a facet of two equal corners laid into the edge of facet 7. Field "id": the facet it
 * came from. */
static ff_mesh *soup(int thirds)
{
    const double axes[3] = {2, 1, 0.5}, centre[3] = {0, 0, 0};
    ff_mesh *e = NULL, *m = NULL;
    double *id = NULL, *p;
    int64_t *c, k = 0;
    assert_int_equal(ff_body_ellipsoid(axes, centre, 4, &e), FF_OK);
    int64_t n = e->n_cells + 2;
    assert_int_equal(FF_NEW(p, 9 * n), FF_OK);
    assert_int_equal(FF_NEW(c, 3 * n), FF_OK);
    assert_int_equal(FF_NEW(id, n), FF_OK);
    for (int64_t f = 0; f < n; f++) {
        int64_t from = f < e->n_cells ? f : f == e->n_cells ? 5 : 7;
        const int64_t *v = e->cell_pts + 3 * from;
        bool turned = f < e->n_cells && ff_rng_u64(SEED, 0, (uint64_t)f) % 3 < (uint64_t)thirds;
        int64_t corner[3] = {v[0], v[turned ? 2 : 1], v[turned ? 1 : 2]};
        if (f == e->n_cells + 1) corner[2] = corner[1];
        for (int i = 0; i < 3; i++, k++) {
            c[k] = k;
            memcpy(p + 3 * k, e->points + 3 * corner[i], 3 * sizeof *p);
        }
        id[f] = (double)from;
    }
    m = mesh_of(3, p, 3 * n, c, n);
    assert_int_equal(ff_field_set_add(&m->cell_data, "id", 1, n, &id), FF_OK);
    ff_free(p);
    ff_free(c);
    ff_mesh_destroy(&e);
    return m;
}

static void a_soup_becomes_a_clean_surface(void **state)
{
    (void)state;
    print_message("seed %d\n", SEED);
    ff_mesh *m = soup(1), *r = NULL;
    ff_repair_counts n;
    ff_mesh_stats s;
    assert_int_equal(ff_mesh_measure(m, &s), FF_OK);
    assert_int_equal(s.cells, 322);
    assert_int_equal(s.repeated_cells, 1);
    assert_int_equal(s.zero_area_cells, 1);
    assert_true(s.misoriented_edges > 100 && s.nonmanifold_edges > 0);
    assert_int_equal(ff_mesh_repair(m, false, &n, &r), FF_OK);
    assert_int_equal(n.welded_points, 3 * 322 - 162);
    assert_int_equal(n.dropped_points, 0);
    assert_int_equal(n.dropped_repeated, 1);
    assert_int_equal(n.dropped_zero_area, 1);
    assert_int_equal(n.kept_zero_area, 0);
    assert_int_equal(n.twisted_parts, 0);
    assert_true(n.flipped_cells > 50 && n.flipped_cells < 160);
    assert_int_equal(ff_mesh_measure(r, &s), FF_OK);
    assert_int_equal(s.points, 162);
    assert_int_equal(s.cells, 320);
    assert_true(s.closed && s.volume > 0);
    assert_int_equal(s.duplicate_points + s.repeated_cells + s.zero_area_cells + s.nonmanifold_edges +
                         s.misoriented_edges + s.unused_points,
                     0);
    assert_int_equal(s.parts, 1);
    assert_int_equal(s.winding_groups, 1);
    for (int64_t c = 0; c < 320; c++) assert_true(r->cell_data.field[0].value[c] == (double)c);
    ff_mesh *again = NULL;
    assert_int_equal(ff_mesh_repair(r, false, &n, &again), FF_OK); /* nothing is left to do */
    assert_int_equal(n.welded_points + n.dropped_repeated + n.dropped_zero_area + n.flipped_cells, 0);
    assert_memory_equal(again->cell_pts, r->cell_pts, 3 * 320 * sizeof *r->cell_pts);
    ff_mesh_destroy(&m);
    ff_mesh_destroy(&r);
    ff_mesh_destroy(&again);
    assert_int_equal(ff_mem_blocks(), 0);
}

/* Also where most facets are turned round; but all alike are believed. */
static void closed_parts_of_mixed_winding_turn_outwards(void **state)
{
    (void)state;
    for (int thirds = 2; thirds <= 3; thirds++) {
        ff_mesh *m = soup(thirds), *r = NULL;
        ff_repair_counts n;
        ff_mesh_stats s;
        assert_int_equal(ff_mesh_repair(m, false, &n, &r), FF_OK);
        assert_int_equal(ff_mesh_measure(r, &s), FF_OK);
        assert_true(s.closed && s.misoriented_edges == 0);
        assert_true(thirds == 2 ? s.volume > 0 && n.flipped_cells > 160
                                : s.volume < 0 && n.flipped_cells == 0);
        ff_mesh_destroy(&m);
        ff_mesh_destroy(&r);
    }
}

/* A slit (three corners on a line) closes a T-junction: dropping it would open three edges. */
static void a_slit_that_closes_edges_stays(void **state)
{
    (void)state;
    const double p[] = {0, 0, 0, 2, 0, 0, 1, 0, 0, 1, 1, 0, 1, -1, 0};
    const int64_t c[] = {0, 1, 3, /* above */ 0, 4, 2, 2, 4, 1, /* below, two */ 0, 2, 1 /* slit */};
    ff_mesh *m = mesh_of(3, p, 5, c, 4), *r = NULL;
    ff_repair_counts n;
    assert_int_equal(ff_mesh_repair(m, false, &n, &r), FF_OK);
    assert_int_equal(n.kept_zero_area, 1);
    assert_int_equal(n.dropped_zero_area, 0);
    assert_int_equal(n.flipped_cells, 0);
    assert_int_equal(r->n_cells, 4);
    ff_mesh_destroy(&r);
    ff_mesh_destroy(&m);
}

static void bad_cells_say_why(void **state)
{
    (void)state;
    /* two triangles over one edge, both walking it the same way; apart, a sliver and a slit likewise */
    const double p[] = {0, 0, 0, 1, 0, 0, 0, 1, 0, 0, -1, 0, 5, 0, 0, 6, 0, 0, 5, 1e-3, 0, 7, 0, 0};
    const int64_t c[] = {0, 1, 2, 0, 1, 3, 4, 5, 6, 4, 5, 7};
    uint8_t bad[5];
    ff_mesh *m = mesh_of(3, p, 8, c, 4);
    assert_int_equal(ff_mesh_find_bad(m, bad), FF_OK);
    assert_int_equal(bad[0], FF_BAD_OPEN | FF_BAD_WINDING);
    assert_int_equal(bad[1], FF_BAD_OPEN | FF_BAD_WINDING);
    assert_int_equal(bad[2], FF_BAD_OPEN | FF_BAD_WINDING | FF_BAD_SLIVER);
    assert_int_equal(bad[3], FF_BAD_OPEN | FF_BAD_WINDING | FF_BAD_ZERO_AREA);
    ff_mesh_destroy(&m);
    const int64_t c2[] = {0, 1, 2, 1, 0, 3, 2, 1, 0};
    m = mesh_of(3, p, 8, c2, 3);
    assert_int_equal(ff_mesh_find_bad(m, bad), FF_OK);
    assert_int_equal(bad[0], FF_BAD_NONMANIFOLD);
    assert_int_equal(bad[1], FF_BAD_NONMANIFOLD | FF_BAD_OPEN);
    assert_int_equal(bad[2], FF_BAD_NONMANIFOLD | FF_BAD_REPEATED);
    ff_mesh_destroy(&m);
}

/* A band of triangles with a half turn: no winding fits. */
static void a_moebius_band_is_left_alone(void **state)
{
    (void)state;
    enum { N = 12 };
    double p[3 * 2 * N];
    int64_t c[3 * 2 * N];
    for (int i = 0; i < N; i++)
        for (int k = 0; k < 2; k++) {
            double phi = 2 * 3.14159265358979 * i / N, r = (k == 0 ? -0.3 : 0.3);
            double *q = p + 3 * (2 * i + k);
            q[0] = (1 + r * cos(phi / 2)) * cos(phi), q[1] = (1 + r * cos(phi / 2)) * sin(phi),
            q[2] = r * sin(phi / 2);
        }
    for (int i = 0; i < N; i++) {
        int64_t a = 2 * i, b = 2 * i + 1, a2 = i + 1 < N ? 2 * i + 2 : 1, b2 = i + 1 < N ? 2 * i + 3 : 0;
        const int64_t two[6] = {a, a2, b, b, a2, b2};
        memcpy(c + 6 * i, two, sizeof two);
    }
    ff_mesh *m = mesh_of(3, p, 2 * N, c, 2 * N), *r = NULL;
    ff_repair_counts n;
    assert_int_equal(ff_mesh_repair(m, false, &n, &r), FF_OK);
    assert_int_equal(n.twisted_parts, 1);
    assert_int_equal(n.flipped_cells, 0);
    assert_memory_equal(r->cell_pts, c, sizeof c);
    ff_mesh_destroy(&m);
    ff_mesh_destroy(&r);
}

static void a_curve_is_wound_one_way(void **state)
{
    (void)state;
    const double p[] = {0, 0, 0, 1, 0, 0, 1, 1, 0, 0, 1, 0, 0, 0, 0};
    const int64_t c[] = {0, 1, 2, 1,
                         2, 3, 3, 4}; /* the second edge the wrong way, the end is a copy of the start */
    ff_mesh *m = mesh_of(2, p, 5, c, 4), *r = NULL;
    ff_repair_counts n;
    ff_mesh_stats s;
    assert_int_equal(ff_mesh_repair(m, false, &n, &r), FF_OK);
    assert_int_equal(n.welded_points, 1);
    assert_int_equal(n.flipped_cells, 3); /* closed: outwards, though most edges said inwards */
    assert_int_equal(ff_mesh_measure(r, &s), FF_OK);
    assert_true(s.closed && s.misoriented_edges == 0 &&
                s.volume == -1); /* clockwise: normals (-dy, dx) outwards */
    ff_mesh_destroy(&m);
    ff_mesh_destroy(&r);
}

static void parts_keep_fields_patches_and_polygons(void **state)
{
    (void)state;
    const double p[] = {0, 0, 0, 1, 0, 0, 1, 1, 0, 0, 1, 0, 9, 9, 9, 2, 0, 0};
    const int64_t c[] = {0, 1, 2, 3, 1, 5, 2}, off[] = {0, 4, 7};
    ff_mesh *m = NULL, *r = NULL;
    ff_read_opts opts = FF_READ_OPTS_INIT;
    double *f = NULL, *g = NULL;
    const uint8_t keep[] = {0, 1}, flip[] = {0, 1};
    assert_int_equal(ff_mesh_create(&m), FF_OK);
    m->n_points = 6, m->n_cells = 2, m->n_patches = 2;
    assert_int_equal(FF_NEW(m->points, 18), FF_OK);
    assert_int_equal(FF_NEW(m->cell_pts, 7), FF_OK);
    assert_int_equal(FF_NEW(m->cell_off, 3), FF_OK);
    assert_int_equal(FF_NEW(m->patch_name, 2), FF_OK);
    assert_int_equal(FF_NEW(m->cell_patch, 2), FF_OK);
    assert_int_equal(FF_NEW(f, 4), FF_OK);
    assert_int_equal(FF_NEW(g, 6), FF_OK);
    memcpy(m->points, p, sizeof p);
    memcpy(m->cell_pts, c, sizeof c);
    memcpy(m->cell_off, off, sizeof off);
    m->patch_name[0] = ff_strdup("quads"), m->patch_name[1] = ff_strdup("rest");
    m->cell_patch[0] = 0, m->cell_patch[1] = 1;
    for (int i = 0; i < 6; i++) g[i] = i;
    for (int i = 0; i < 4; i++) f[i] = 10 + i;
    assert_int_equal(ff_field_set_add(&m->cell_data, "f", 2, 2, &f), FF_OK);
    assert_int_equal(ff_field_set_add(&m->point_data, "g", 1, 6, &g), FF_OK);
    assert_int_equal(ff_mesh_finish(m, "test", &opts), FF_OK);
    assert_int_equal(ff_mesh_extract(m, keep, flip, NULL, &r), FF_OK);
    assert_int_equal(r->n_cells, 1);
    assert_int_equal(r->n_points, 3);
    assert_int_equal(r->n_patches, 1);
    assert_string_equal(r->patch_name[0], "rest");
    const int64_t expected[] = {0, 1, 2}; /* 1 5 2 turned: 1 2 5, renumbered */
    int64_t n = 0, at = ff_mesh_cell(r, 0, &n);
    assert_int_equal(n, 3);
    assert_memory_equal(r->cell_pts + at, expected, sizeof expected);
    assert_true(r->cell_data.field[0].value[0] == 12 && r->cell_data.field[0].value[1] == 13);
    assert_true(r->point_data.field[0].value[2] == 5);
    ff_mesh_destroy(&m);
    ff_mesh_destroy(&r);
    assert_int_equal(ff_mem_blocks(), 0);
}

static void every_failed_allocation_is_reported(void **state)
{
    (void)state;
    ff_mesh *m = soup(1);
    size_t before = ff_mem_blocks();
    bool fired = true;
    for (int64_t k = 1; fired; k++) {
        ff_mesh *r = NULL;
        ff_repair_counts n;
        ff_mem_fail_at(k);
        ff_status st = ff_mesh_repair(m, false, &n, &r);
        fired = ff_mem_fault_hit();
        ff_mem_fail_at(0);
        assert_int_equal(st, fired ? FF_E_MEM : FF_OK);
        ff_mesh_destroy(&r);
        assert_int_equal(ff_mem_blocks(), before);
    }
    ff_mesh_destroy(&m);
}

/* An inward sphere is turned on request alone; its sum of vector areas is nothing before and after. */
static void closed_parts_turn_outwards_on_request(void **state)
{
    (void)state;
    for (int outward = 0; outward <= 1; outward++) {
        ff_mesh *m = soup(3), *r = NULL; /* all facets turned round */
        ff_repair_counts n;
        ff_mesh_stats s;
        assert_int_equal(ff_mesh_repair(m, outward, &n, &r), FF_OK);
        assert_int_equal(n.turned_parts, outward);
        assert_int_equal(n.flipped_cells, outward * 320);
        assert_int_equal(ff_mesh_measure(r, &s), FF_OK);
        assert_true(s.closed && (s.volume > 0) == outward);
        for (int k = 0; k < 3; k++) assert_true(fabs(s.vector_area[k]) <= 1e-14 * s.area);
        ff_mesh_destroy(&m);
        ff_mesh_destroy(&r);
    }
}

/* Copies of a grid's points, each shaken by less than a third of the tolerance: as many places as the grid has. */
static void near_points_become_one(void **state)
{
    (void)state;
    enum { SIDE = 12, COPIES = 4, N = SIDE * SIDE * COPIES };
    const double tol = 1e-3, offset[3] = {0, -7.3, 1e4};
    double p[3 * N];
    int64_t c[3] = {0, 1, SIDE}, moved = 0;
    for (int i = 0; i < N; i++)
        for (int k = 0; k < 3; k++) {
            int at = i % (SIDE * SIDE);
            double shake = (ff_rng_uniform(SEED, 3, (uint64_t)(3 * i + k)) - 0.5) * tol / 4;
            p[3 * i + k] = offset[k] + (k == 0 ? at % SIDE : k == 1 ? at / SIDE : 0) * 2.5 * tol + shake;
        }
    ff_mesh *m = mesh_of(3, p, N, c, 1);
    assert_int_equal(ff_mesh_snap(m, tol, &moved), FF_OK);
    assert_int_equal(moved, N - SIDE * SIDE);
    for (int i = 0; i < 3 * N; i++) {
        assert_true(m->points[i] == p[i % (3 * SIDE * SIDE)]); /* the first copy stays */
        assert_true(fabs(m->points[i] - p[i]) <= tol);
    }
    assert_int_equal(ff_mesh_snap(m, tol, &moved), FF_OK);
    assert_int_equal(moved, 0);
    assert_int_equal(ff_mesh_snap(m, 1e-14, &moved), FF_E_ARG);
    assert_int_equal(ff_mesh_snap(m, 0, &moved), FF_E_ARG);
    ff_mesh_destroy(&m);
}

/* A row of points closer than the tolerance to the next: none moves further than the tolerance. */
static void snapping_makes_no_chains(void **state)
{
    (void)state;
    double p[3 * 40] = {0};
    int64_t c[3] = {0, 1, 2}, moved = 0;
    for (int i = 0; i < 40; i++) p[3 * i] = 0.6 * i;
    ff_mesh *m = mesh_of(3, p, 40, c, 1);
    assert_int_equal(ff_mesh_snap(m, 1, &moved), FF_OK);
    assert_int_equal(moved, 20);
    for (int i = 0; i < 40; i++) assert_true(m->points[3 * i] == p[3 * (i - i % 2)]);
    ff_mesh_destroy(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(closed_parts_turn_outwards_on_request),
        cmocka_unit_test(near_points_become_one),
        cmocka_unit_test(snapping_makes_no_chains),
        cmocka_unit_test(a_soup_becomes_a_clean_surface),
        cmocka_unit_test(closed_parts_of_mixed_winding_turn_outwards),
        cmocka_unit_test(a_slit_that_closes_edges_stays),
        cmocka_unit_test(bad_cells_say_why),
        cmocka_unit_test(a_moebius_band_is_left_alone),
        cmocka_unit_test(a_curve_is_wound_one_way),
        cmocka_unit_test(parts_keep_fields_patches_and_polygons),
        cmocka_unit_test(every_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
