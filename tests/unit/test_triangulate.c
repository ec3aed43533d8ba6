/* n - 2 triangles of the polygon's winding that add up to its vector area, for simple outlines of any shape;
 * and an end for the others. */
#include "ff_test_mesh.h"

#include "ff_builder.h"
#include "ff_rng.h"

#include <math.h>

enum { SEED = 7, MAX = 2000 };
static const double two_pi = 6.283185307179586;

static double random_unit(uint64_t stream, uint64_t i)
{
    return ff_rng_uniform(SEED, stream, i);
}

/* The outline q [n][2] as one cell, in a plane tilted and shifted by the numbers of this case. */
static ff_mesh *polygon(const double (*q)[2], int64_t n, uint64_t tilt, double shift)
{
    static int64_t ids[MAX];
    double a = two_pi * random_unit(90, tilt), b = two_pi * random_unit(91, tilt);
    double u[3] = {cos(a), sin(a), 0}, v[3] = {-sin(a) * cos(b), cos(a) * cos(b), sin(b)};
    ff_builder g;
    ff_mesh *m;
    ff_read_opts opts = FF_READ_OPTS_INIT;
    ff_error_clear();
    assert_int_equal(ff_builder_begin(&g, 3), FF_OK);
    for (int64_t i = 0; i < n; i++) {
        double x[3];
        for (int k = 0; k < 3; k++)
            x[k] = tilt == 0 ? (k < 2 ? q[i][k] + shift : shift) : q[i][0] * u[k] + q[i][1] * v[k] + shift;
        ids[i] = i;
        assert_int_equal(ff_builder_point(&g, x), FF_OK);
    }
    assert_int_equal(ff_builder_cell(&g, ids, n), FF_OK);
    m = ff_builder_take(&g);
    assert_int_equal(ff_mesh_finish(m, "mem", &opts), FF_OK);
    return m;
}

static double norm(const double *v)
{
    return sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
}

/* Triangulates and returns the sum of the triangles' areas over |vector area|. tol: relative, of the sums. */
static double area_share(const char *what, ff_mesh *m, double tol)
{
    ff_mesh *t;
    int64_t *parent, n;
    ff_mesh_stats s, st;
    (void)ff_mesh_cell(m, 0, &n);
    assert_int_equal(ff_mesh_triangulate(m, &t, &parent), FF_OK);
    if (t->n_cells != n - 2)
        fail_msg("%s: %lld triangles of %lld corners", what, (long long)t->n_cells, (long long)n);
    for (int64_t i = 0; i < t->n_cells; i++) assert_int_equal(parent[i], 0);
    assert_int_equal(ff_mesh_measure(m, &s), FF_OK);
    assert_int_equal(ff_mesh_measure(t, &st), FF_OK);
    for (int k = 0; k < 3; k++)
        if (!(fabs(st.vector_area[k] - s.vector_area[k]) <= tol * st.area))
            fail_msg("%s: vector area %d is %.15g, expected %.15g", what, k, st.vector_area[k],
                     s.vector_area[k]);
    double share = st.area / norm(s.vector_area);
    ff_mesh_destroy(&t);
    ff_mesh_destroy(&m);
    ff_free(parent);
    return share;
}

/* Rounding of the corners moves areas by about 1e-16 (size + shift) size each; 1e-10 leaves room for 2000 of
 * them. */
static void exact(const char *what, const double (*q)[2], int64_t n)
{
    for (uint64_t tilt = 0; tilt < 4; tilt++) {
        double share = area_share(what, polygon(q, n, tilt, tilt == 3 ? 1000 : 0), 1e-10);
        if (!(fabs(share - 1) <= 1e-10))
            fail_msg("%s, n = %lld, tilt %d: triangles cover %.12g of the area", what, (long long)n,
                     (int)tilt, share);
    }
}

static void simple_outlines_are_covered_once(void **state)
{
    (void)state;
    static const double l_shape[][2] = {{0, 0}, {2, 0}, {2, 1}, {1, 1}, {1, 2}, {0, 2}};
    static const double arrow[][2] = {{0, 0}, {4, -2}, {1, 0}, {4, 2}}; /* reflex corner seen from corner 0 */
    static const double back[][2] = {{4, 2}, {0, 0}, {4, -2}, {1, 0}};
    static const double u_shape[][2] = {{0, 0}, {5, 0}, {5, 3}, {4, 3}, {4, 1}, {1, 1}, {1, 3}, {0, 3}};
    static const double midpoints[][2] = {{0, 0}, {1, 0}, {2, 0}, {2, 1}, {2, 2}, {1, 2}, {0, 2}, {0, 1}};
    exact("L", l_shape, 6);
    exact("arrow", arrow, 4);
    exact("arrow from its tip", back, 4);
    exact("U", u_shape, 8);
    exact("square with midpoints", midpoints, 8);
}

static void corners_on_a_line_or_doubled_are_let_pass(void **state)
{
    (void)state;
    static const double doubled[][2] = {{0, 0}, {0, 0}, {2, 0}, {2, 0}, {2, 2},
                                        {1, 1}, {1, 1}, {0, 2}, {0, 2}};
    static const double spike[][2] = {{0, 0}, {2, 0}, {3, 0}, {2, 0}, {2, 2}, {0, 2}};
    static const double first_is_flat[][2] = {{1, 0}, {2, 0}, {2, 2}, {0, 2}, {0, 0}};
    exact("doubled corners", doubled, 9);
    exact("spike", spike, 6);
    exact("corner 0 inside an edge", first_is_flat, 5);
}

/* A hole is joined to the outline by a slit, both corners of which occur twice. */
static void holes_behind_a_slit_stay_empty(void **state)
{
    (void)state;
    static const double one[][2] = {{0, 0}, {9, 0}, {9, 9}, {0, 9}, {0, 0},
                                    {3, 3}, {3, 6}, {6, 6}, {6, 3}, {3, 3}};
    static const double two[][2] = {{0, 0}, {9, 0}, {9, 9}, {7, 7}, {7, 6}, {6, 6}, {6, 7}, {7, 7},
                                    {9, 9}, {0, 9}, {0, 0}, {2, 2}, {2, 4}, {4, 4}, {4, 2}, {2, 2}};
    static const double chain[][2] = {{0, 0}, {9, 0}, {9, 9}, {0, 9}, {0, 0}, {1, 1}, {1, 3}, {3, 3},
                                      {5, 5}, {5, 7}, {7, 7}, {7, 5}, {5, 5}, {3, 3}, {3, 1}, {1, 1}};
    exact("hole", one, 10);
    exact("two holes", two, 16);
    exact("a hole behind a hole", chain, 16);
}

static void random_stars_combs_and_spirals(void **state)
{
    (void)state;
    static double q[MAX][2];
    printf("seed %d\n", SEED);
    for (uint64_t c = 0; c < 300; c++) {
        int64_t n = 4 + (int64_t)(60 * random_unit(1, c));
        for (int64_t i = 0; i < n; i++) {
            double r = pow(0.02, random_unit(2 + c, (uint64_t)i)), w = two_pi * (double)i / (double)n;
            q[i][0] = r * cos(w), q[i][1] = r * sin(w);
        }
        exact("star", (const double(*)[2])q, n);
    }
    for (int64_t teeth = 1; teeth <= 100; teeth *= 10) { /* comb: spine below, teeth of random height */
        int64_t n = 0;
        q[n][0] = 0, q[n++][1] = -1;
        q[n][0] = (double)teeth, q[n++][1] = -1;
        for (int64_t i = teeth; i-- > 0;) {
            double h = 1 + 9 * random_unit(400, (uint64_t)i);
            q[n][0] = (double)i + 1, q[n++][1] = 0;
            q[n][0] = (double)i + 0.9, q[n++][1] = h;
            q[n][0] = (double)i + 0.1, q[n++][1] = h;
            q[n][0] = (double)i, q[n++][1] = 0;
        }
        exact("comb", (const double(*)[2])q, n);
    }
    static const double cross[][2] = {{0, 0}, {4, 0}, {2, 0}, {2, 3}, {2, 0}, {4, 0}, {4, 5}, {0, 5}};
    exact("spike on a spike", cross, 8);
    int64_t half = 500; /* spiral of ten turns: out along one side, back along the other */
    for (int64_t i = 0; i < half; i++) {
        double w = two_pi * 10 * (double)i / (double)half, r = 3 + w;
        q[i][0] = r * cos(w), q[i][1] = r * sin(w);
        q[2 * half - 1 - i][0] = (r - 2) * cos(w), q[2 * half - 1 - i][1] = (r - 2) * sin(w);
    }
    exact("spiral", (const double(*)[2])q, 2 * half);
}

static void warped_quads_are_fans(void **state)
{
    (void)state;
    static const double q[][2] = {{0, 0}, {1, 0}, {1, 1}, {0, 1}};
    ff_mesh *m = polygon(q, 4, 0, 0), *t;
    int64_t *parent;
    m->points[3 * 2 + 2] = 0.3;
    assert_int_equal(ff_mesh_triangulate(m, &t, &parent), FF_OK);
    const int64_t want[6] = {0, 1, 2, 0, 2, 3};
    assert_memory_equal(t->cell_pts, want, sizeof want);
    ff_mesh_destroy(&t);
    ff_mesh_destroy(&m);
    ff_free(parent);
}

/* Outlines that cross themselves have no right answer, but n - 2 triangles and an end. */
static void hopeless_outlines_end(void **state)
{
    (void)state;
    static double q[MAX][2];
    static const double bow_tie[][2] = {{0, 0}, {1, 1}, {1, 0}, {0, 1}};
    (void)area_share("bow tie", polygon(bow_tie, 4, 1, 0), 1e-10);
    for (int i = 0; i < MAX; i++) q[i][0] = q[i][1] = 1;
    (void)area_share("one place", polygon((const double(*)[2])q, 50, 1, 0), 1e300);
    for (int i = 0; i < MAX; i++) q[i][0] = i * 0.37, q[i][1] = i;
    (void)area_share("one line", polygon((const double(*)[2])q, 50, 1, 0), 1e300);
    for (uint64_t c = 0; c < 200; c++) {
        int64_t n = 4 + (int64_t)(c % 40);
        for (int64_t i = 0; i < n; i++)
            for (uint64_t k = 0; k < 2; k++) /* on a coarse grid: many equal and collinear corners */
                q[i][k] = floor(6 * random_unit(500 + c, 2 * (uint64_t)i + k));
        (void)area_share("random", polygon((const double(*)[2])q, n, c % 2, 0), 1e-10);
    }
    for (int i = 0; i < 8; i++) q[i][0] = (i % 3 == 0) ? 1e-200 : i * 1e17, q[i][1] = (i % 2) * 1e17;
    ff_mesh *m = polygon((const double(*)[2])q, 8, 0, 0), *t;
    int64_t *parent;
    assert_int_equal(ff_mesh_triangulate(m, &t, &parent), FF_OK);
    assert_int_equal(t->n_cells, 6);
    ff_mesh_destroy(&t);
    ff_mesh_destroy(&m);
    ff_free(parent);
}

static void fields_and_patches_follow(void **state)
{
    (void)state;
    ff_builder b;
    ff_read_opts opts = FF_READ_OPTS_INIT;
    double x[5][3] = {{0, 0, 0}, {1, 0, 0}, {1, 1, 0}, {0, 1, 0}, {2, 0, 0}};
    int64_t quad[4] = {0, 1, 2, 3}, tri[3] = {1, 4, 2};
    assert_int_equal(ff_builder_begin(&b, 3), FF_OK);
    for (int i = 0; i < 5; i++) assert_int_equal(ff_builder_point(&b, x[i]), FF_OK);
    assert_int_equal(ff_builder_patch(&b, "tri", 3), FF_OK);
    assert_int_equal(ff_builder_cell(&b, tri, 3), FF_OK);
    assert_int_equal(ff_builder_patch(&b, "quad", 4), FF_OK);
    assert_int_equal(ff_builder_cell(&b, quad, 4), FF_OK);
    ff_mesh *m = ff_builder_take(&b), *t;
    double *u = ff_mem_alloc(4, sizeof *u), *p = ff_mem_alloc(5, sizeof *p);
    for (int i = 0; i < 4; i++) u[i] = i;
    for (int i = 0; i < 5; i++) p[i] = 10 * i;
    assert_int_equal(ff_field_set_add(&m->cell_data, "u", 2, 2, &u), FF_OK);
    assert_int_equal(ff_field_set_add(&m->point_data, "p", 1, 5, &p), FF_OK);
    assert_int_equal(ff_mesh_finish(m, "mem", &opts), FF_OK);
    int64_t *parent;
    assert_int_equal(ff_mesh_triangulate(m, &t, &parent), FF_OK);
    assert_int_equal(t->n_cells, 3);
    assert_int_equal(t->n_cells_global, 3);
    const int64_t want_parent[3] = {0, 1, 1};
    const int32_t want_patch[3] = {0, 1, 1};
    const double want_u[6] = {0, 1, 2, 3, 2, 3};
    assert_memory_equal(parent, want_parent, sizeof want_parent);
    assert_memory_equal(t->cell_patch, want_patch, sizeof want_patch);
    assert_memory_equal(ff_field_set_find(&t->cell_data, "u")->value, want_u, sizeof want_u);
    assert_true(ff_field_set_find(&t->point_data, "p")->value[4] == 40);
    assert_string_equal(t->patch_name[1], "quad");
    assert_null(t->cell_off);
    ff_mesh_destroy(&t);
    ff_free(parent);
    m->n_cells_global = 9; /* a part of a larger mesh: numbers of its triangles are not known here */
    assert_int_equal(ff_mesh_triangulate(m, &t, &parent), FF_OK);
    assert_int_equal(t->n_cells_global, -1);
    ff_mesh_destroy(&t);
    ff_free(parent);
    m->cell_off[1] = 2; /* a cell of two points, which no reader lets through */
    ff_error_clear();
    ff_test_refused(ff_mesh_triangulate(m, &t, &parent), "cell 0 has 2 points");
    assert_null(t);
    assert_null(parent);
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
        cmocka_unit_test_teardown(simple_outlines_are_covered_once, no_block_left),
        cmocka_unit_test_teardown(corners_on_a_line_or_doubled_are_let_pass, no_block_left),
        cmocka_unit_test_teardown(holes_behind_a_slit_stay_empty, no_block_left),
        cmocka_unit_test_teardown(random_stars_combs_and_spirals, no_block_left),
        cmocka_unit_test_teardown(warped_quads_are_fans, no_block_left),
        cmocka_unit_test_teardown(hopeless_outlines_end, no_block_left),
        cmocka_unit_test_teardown(fields_and_patches_follow, no_block_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
