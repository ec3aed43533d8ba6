/* What check and info count, on bodies whose figures are known, and against slow counting on random ones. */
#include "ff_test_mesh.h"

#include "ff_builder.h"
#include "ff_rng.h"
#include "ff_weld.h"

#include <math.h>

enum { SEED = 11 };

/* The six squares of a cube of side 2 at o, outward, each with its own four points (or sharing eight). */
static void add_cube(ff_builder *b, double ox, double oy, double oz, bool shared)
{
    static const int face[6][4] = {{0, 2, 3, 1}, {4, 5, 7, 6}, {0, 1, 5, 4},
                                   {2, 6, 7, 3}, {0, 4, 6, 2}, {1, 3, 7, 5}};
    int64_t base = b->m->n_points;
    for (int i = 0; i < 8 && shared; i++) {
        double x[3] = {ox + 2 * (i & 1), oy + (i & 2), oz + (i & 4) / 2};
        assert_int_equal(ff_builder_point(b, x), FF_OK);
    }
    for (int f = 0; f < 6; f++) {
        int64_t ids[4];
        for (int k = 0; k < 4; k++) {
            int i = face[f][k];
            double x[3] = {ox + 2 * (i & 1), oy + (i & 2), oz + (i & 4) / 2};
            ids[k] = shared ? base + i : b->m->n_points;
            if (!shared) assert_int_equal(ff_builder_point(b, x), FF_OK);
        }
        assert_int_equal(ff_builder_cell(b, ids, 4), FF_OK);
    }
}

static ff_mesh *finish(ff_builder *b)
{
    ff_read_opts opts = FF_READ_OPTS_INIT;
    ff_mesh *m = ff_builder_take(b);
    assert_int_equal(ff_mesh_finish(m, "mem", &opts), FF_OK);
    return m;
}

static ff_mesh *cube(bool shared)
{
    ff_builder b;
    assert_int_equal(ff_builder_begin(&b, 3), FF_OK);
    add_cube(&b, -1, -1, -1, shared);
    return finish(&b);
}

static ff_mesh_stats measure(const ff_mesh *m)
{
    ff_mesh_stats s;
    ff_error_clear();
    assert_int_equal(ff_mesh_measure(m, &s), FF_OK);
    return s;
}

static void a_cube_is_closed_however_its_points_are_stored(void **state)
{
    (void)state;
    for (int shared = 0; shared < 2; shared++) {
        ff_mesh *m = cube(shared != 0);
        ff_mesh_stats s = measure(m);
        assert_int_equal(s.points, shared ? 8 : 24);
        assert_int_equal(s.duplicate_points, shared ? 0 : 16);
        assert_int_equal(s.cells, 6);
        assert_int_equal(s.triangles, 12);
        assert_true(s.area == 24 && s.area_min == 4 && s.area_max == 4);
        assert_true(fabs(s.volume - 8) <= 1e-14); /* a sum of thirds */
        assert_true(s.closed);
        assert_int_equal(s.parts, 1);
        assert_int_equal(s.winding_groups, 1);
        assert_int_equal(s.open_edges + s.nonmanifold_edges + s.misoriented_edges + s.repeated_cells, 0);
        assert_int_equal(s.zero_area_cells + s.sliver_cells + s.unused_points, 0);
        for (int k = 0; k < 3; k++) assert_true(s.lo[k] == -1 && s.hi[k] == 1 && s.vector_area[k] == 0);
        ff_mesh_destroy(&m);
    }
}

static void a_turned_face_makes_a_winding_group(void **state)
{
    (void)state;
    ff_mesh *m = cube(true);
    int64_t t = m->cell_pts[1];
    m->cell_pts[1] = m->cell_pts[3];
    m->cell_pts[3] = t;
    ff_mesh_stats s = measure(m);
    assert_int_equal(s.misoriented_edges, 4);
    assert_int_equal(s.winding_groups, 2);
    assert_int_equal(s.parts, 1);
    assert_true(s.closed);
    assert_true(s.vector_area[2] == 8);
    ff_mesh_destroy(&m);
}

static void a_missing_face_opens_the_body(void **state)
{
    (void)state;
    ff_mesh *m = cube(true);
    m->n_cells = 5;
    ff_mesh_stats s = measure(m);
    assert_int_equal(s.open_edges, 4);
    assert_false(s.closed);
    assert_int_equal(s.unused_points, 0);
    m->n_cells = 0;
    s = measure(m);
    assert_int_equal(s.unused_points, 8);
    assert_false(s.closed);
    assert_true(s.area == 0 && s.area_min == 0 && s.lo[0] == 0 && s.hi[0] == 0);
    assert_int_equal(s.parts, 0);
    m->n_cells = 6;
    ff_mesh_destroy(&m);
}

static void cubes_side_by_side(void **state)
{
    (void)state;
    ff_builder b;
    assert_int_equal(ff_builder_begin(&b, 3), FF_OK);
    add_cube(&b, 0, 0, 0, true);
    add_cube(&b, 10, 0, 0, false); /* apart */
    add_cube(&b, 2, 0, 0, true);   /* shares a face with the first: 4 edges with 4 cells, one cell twice */
    add_cube(&b, 12, 2, 2, true);  /* touches the second in a point: its own part */
    ff_mesh *m = finish(&b);
    ff_mesh_stats s = measure(m);
    assert_int_equal(s.parts, 3);
    assert_int_equal(s.nonmanifold_edges, 4);
    assert_int_equal(s.repeated_cells, 1);
    assert_true(s.closed);
    assert_true(fabs(s.volume - 32) <= 1e-13 * 32); /* sums of integers over 2 and 3 */
    ff_mesh_destroy(&m);
}

static ff_mesh *triangle_of(double x1, double y1, double x2, double y2)
{
    ff_builder b;
    int64_t ids[3] = {0, 1, 2};
    double x[3][3] = {{0, 0, 0}, {x1, y1, 0}, {x2, y2, 0}};
    assert_int_equal(ff_builder_begin(&b, 3), FF_OK);
    for (int i = 0; i < 3; i++) assert_int_equal(ff_builder_point(&b, x[i]), FF_OK);
    assert_int_equal(ff_builder_cell(&b, ids, 3), FF_OK);
    return finish(&b);
}

static void flat_and_thin_cells(void **state)
{
    (void)state;
    static const struct {
        double x1, y1, x2, y2;
        int zero, sliver;
    } cases[] = {
        {1, 0, 0.5, 0, 1, 0},       /* three corners on a line */
        {0, 0, 0, 0, 1, 0},         /* one place */
        {1, 0, 0, 0, 1, 0},         /* two places */
        {1, 0, 0.5, 1.9e-10, 1, 0}, /* area 0.95e-10 of the longest edge squared */
        {1, 0, 0.5, 2.1e-10, 0, 1}, /* area 1.05e-10 of it */
        {1, 0, 0.5, 0.0099, 0, 1},  /* height just below 1/100 of the longest edge */
        {1, 0, 0.5, 0.0101, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (double size = 1e-3; size < 1e4; size *= 1000) { /* whatever the unit */
            ff_mesh *m =
                triangle_of(size * cases[i].x1, size * cases[i].y1, size * cases[i].x2, size * cases[i].y2);
            ff_mesh_stats s = measure(m);
            if (s.zero_area_cells != cases[i].zero || s.sliver_cells != cases[i].sliver)
                fail_msg("case %zu at size %g: zero %lld, sliver %lld", i, size, (long long)s.zero_area_cells,
                         (long long)s.sliver_cells);
            ff_mesh_destroy(&m);
        }
}

static void edges_of_no_length_do_not_count(void **state)
{
    (void)state;
    ff_mesh *m = triangle_of(1, 0, 0, 0); /* corners 0 and 2 are one place: one edge, there and back */
    ff_mesh_stats s = measure(m);
    assert_int_equal(s.open_edges, 0);
    assert_int_equal(s.nonmanifold_edges, 0);
    ff_mesh_destroy(&m);
}

static void a_closed_curve(void **state)
{
    (void)state;
    ff_builder b;
    double x[5][3] = {{0, 0, 0}, {2, 0, 0}, {2, 3, 0}, {0, 3, 0}, {-0.0, 0, 0}}; /* -0 = 0 closes it */
    assert_int_equal(ff_builder_begin(&b, 2), FF_OK);
    for (int i = 0; i < 5; i++) assert_int_equal(ff_builder_point(&b, x[i]), FF_OK);
    for (int64_t i = 0; i < 4; i++) assert_int_equal(ff_builder_cell(&b, (int64_t[]){i, i + 1}, 2), FF_OK);
    ff_mesh *m = finish(&b);
    ff_mesh_stats s = measure(m);
    assert_true(s.area == 10 && s.volume == 6 && s.vector_area[0] == 0 && s.vector_area[1] == 0);
    assert_true(s.closed);
    assert_int_equal(s.duplicate_points, 1);
    assert_int_equal(s.triangles, 0);
    assert_int_equal(s.parts, 1);
    assert_int_equal(s.misoriented_edges, 0);
    m->cell_pts[6] = 4, m->cell_pts[7] = 3; /* turn the last edge */
    s = measure(m);
    assert_int_equal(s.misoriented_edges, 2);
    assert_int_equal(s.winding_groups, 2);
    m->n_cells = 3;
    s = measure(m);
    assert_int_equal(s.open_edges, 2);
    assert_false(s.closed);
    double len[3];
    ff_mesh_cell_areas(m, len);
    assert_true(len[0] == 2 && len[1] == 3 && len[2] == 2);
    m->n_cells = 4;
    ff_mesh_destroy(&m);
}

/* Triangles between random points of a coarse grid: many equal points, edges and cells. */
static ff_mesh *random_mesh(uint64_t c, int64_t n)
{
    ff_builder b;
    assert_int_equal(ff_builder_begin(&b, 3), FF_OK);
    for (int64_t i = 0; i < 3 * n; i++) {
        double x[3];
        for (uint64_t k = 0; k < 3; k++) x[k] = floor(3 * ff_rng_uniform(SEED, c, 3 * (uint64_t)i + k)) - 1;
        if (i % 2 == 1 && x[0] == 0) x[0] = -0.0;
        assert_int_equal(ff_builder_point(&b, x), FF_OK);
    }
    for (int64_t i = 0; i < n; i++)
        assert_int_equal(ff_builder_cell(&b, (int64_t[]){3 * i, 3 * i + 1, 3 * i + 2}, 3), FF_OK);
    return finish(&b);
}

static int64_t first_equal_point(const ff_mesh *m, int64_t i)
{
    for (int64_t j = 0;; j++) {
        const double *a = m->points + 3 * i, *b = m->points + 3 * j;
        if (a[0] == b[0] && a[1] == b[1] && a[2] == b[2]) return j;
    }
}

static bool same_corners(const int64_t *a, const int64_t *b)
{
    int used = 0;
    for (int i = 0; i < 3; i++) {
        int j = 0;
        while (j < 3 && ((used >> j & 1) || a[i] != b[j])) j++;
        if (j == 3) return false;
        used |= 1 << j;
    }
    return true;
}

/* Counts the uses of every edge by looking at all cells. */
static void count_slowly(const int64_t *t, int64_t n, int64_t n_points, ff_mesh_stats *s)
{
    for (int64_t a = 0; a < n_points; a++)
        for (int64_t b = a + 1; b < n_points; b++) {
            int forth = 0, uses = 0;
            for (int64_t i = 0; i < 3 * n; i++) {
                int64_t p = t[i], q = t[i % 3 < 2 ? i + 1 : i - 2];
                forth += p == a && q == b;
                uses += (p == a && q == b) || (p == b && q == a);
            }
            s->open_edges += uses == 1;
            s->nonmanifold_edges += uses > 2;
            s->misoriented_edges += uses == 2 && forth != 1;
        }
    for (int64_t c = 0; c < n; c++) {
        int64_t d = 0;
        while (d < c && !same_corners(t + 3 * c, t + 3 * d)) d++;
        s->repeated_cells += d < c;
    }
}

static void counts_equal_slow_counting(void **state)
{
    (void)state;
    printf("seed %d\n", SEED);
    for (uint64_t c = 0; c < 40; c++) {
        int64_t n = 1 + (int64_t)(c * 2), t[300], distinct = 0, id[300], n_distinct;
        ff_mesh *m = random_mesh(c, n);
        ff_mesh_stats s = measure(m), slow = {0};
        for (int64_t i = 0; i < 3 * n; i++) {
            t[i] = first_equal_point(m, i);
            distinct += t[i] == i;
        }
        count_slowly(t, n, 3 * n, &slow);
        assert_int_equal(s.duplicate_points, 3 * n - distinct);
        assert_int_equal(s.open_edges, slow.open_edges);
        assert_int_equal(s.nonmanifold_edges, slow.nonmanifold_edges);
        assert_int_equal(s.misoriented_edges, slow.misoriented_edges);
        assert_int_equal(s.repeated_cells, slow.repeated_cells);
        assert_int_equal(ff_weld_points(m, id, &n_distinct), FF_OK);
        for (int64_t i = 0, next = 0; i < 3 * n; i++) { /* numbers by first occurrence */
            assert_int_equal(id[i], t[i] == i ? next : id[t[i]]);
            next += t[i] == i;
        }
        ff_mesh_destroy(&m);
    }
}

static void large_polygons_are_compared_too(void **state)
{
    (void)state;
    enum { N = 60 };
    ff_builder b;
    int64_t ids[N], back[N];
    assert_int_equal(ff_builder_begin(&b, 3), FF_OK);
    for (int64_t i = 0; i < N; i++) {
        double x[3] = {cos((double)i * 0.1), sin((double)i * 0.1), 0};
        assert_int_equal(ff_builder_point(&b, x), FF_OK);
        ids[i] = i;
        back[i] = (2 * N - i + 5) % N;
    }
    assert_int_equal(ff_builder_cell(&b, ids, N), FF_OK);
    assert_int_equal(ff_builder_cell(&b, back, N), FF_OK);
    assert_int_equal(ff_builder_cell(&b, ids, N - 1), FF_OK);
    ff_mesh *m = finish(&b);
    assert_int_equal(measure(m).repeated_cells, 1);
    ff_mesh_destroy(&m);
}

/* What ff_mesh_warn_units writes to standard error. */
static const char *warnings(const ff_mesh_stats *s)
{
    static char text[2048];
    (void)fflush(stderr);
    int keep = dup(2);
    FILE *f = fopen("measure_warnings.txt", "w+");
    assert_true(keep >= 0 && f != NULL && dup2(fileno(f), 2) == 2);
    ff_mesh_warn_units("hull", s);
    (void)fflush(stderr);
    assert_int_equal(dup2(keep, 2), 2);
    rewind(f);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    (void)fclose(f);
    (void)close(keep);
    return text;
}

static void units_place_and_winding_are_warned_about(void **state)
{
    (void)state;
    ff_mesh *m = cube(true);
    ff_mesh_stats s = measure(m);
    assert_string_equal(warnings(&s), "");
    s.hi[1] = 305;
    assert_non_null(
        strstr(warnings(&s), "hull: largest extent 306 m; if the file is in millimetres use --scale 0.001"));
    s.lo[1] = 4785270, s.hi[1] = 4785280;
    assert_non_null(strstr(warnings(&s), "coordinates up to 4.78528e+06 are 4.79e+05 times the extent"));
    assert_null(strstr(warnings(&s), "millimetres"));
    s = measure(m);
    s.misoriented_edges = 3, s.winding_groups = 2;
    assert_non_null(
        strstr(warnings(&s), "3 edges have two cells of opposite winding (2 winding groups in 1 parts)"));
    s.cells = 0;
    assert_string_equal(warnings(&s), "");
    ff_mesh_destroy(&m);
}

static int no_block_left(void **state)
{
    (void)state;
    return ff_mem_blocks() == 0 ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_cube_is_closed_however_its_points_are_stored, no_block_left),
        cmocka_unit_test_teardown(a_turned_face_makes_a_winding_group, no_block_left),
        cmocka_unit_test_teardown(a_missing_face_opens_the_body, no_block_left),
        cmocka_unit_test_teardown(cubes_side_by_side, no_block_left),
        cmocka_unit_test_teardown(flat_and_thin_cells, no_block_left),
        cmocka_unit_test_teardown(edges_of_no_length_do_not_count, no_block_left),
        cmocka_unit_test_teardown(a_closed_curve, no_block_left),
        cmocka_unit_test_teardown(counts_equal_slow_counting, no_block_left),
        cmocka_unit_test_teardown(large_polygons_are_compared_too, no_block_left),
        cmocka_unit_test_teardown(units_place_and_winding_are_warned_about, no_block_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
