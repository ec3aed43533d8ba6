/* Neighbour graph: edges equal to brute force in open and periodic space, opposite edges, bad input. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ff_mem.h"
#include "head_case.h"

#include <omp.h>

/* ---- against brute force ---- */

static bool has_image(const ff_cell *cell, const int32_t k[3])
{
    for (int a = 0; a < 3; a++)
        if (k[a] != 0 && (cell == NULL || !cell->periodic[a])) return false;
    return true;
}

/* Vector of one image by its definition; returns its length. */
static double plain_edge(const double *x, const ff_cell *cell, int64_t dst, int64_t src, const int32_t k[3],
                         double v[3])
{
    double d2 = 0;
    for (int i = 0; i < 3; i++) {
        double shift = 0;
        for (int a = 0; a < 3; a++)
            if (k[a] != 0) shift += (double)k[a] * cell->vector[a][i];
        v[i] = (x[3 * src + i] - x[3 * dst + i]) + shift;
        d2 += v[i] * v[i];
    }
    return sqrt(d2);
}

/* All edges in the order of the graph; images -reach .. reach. */
static void check_graph(const double *x, int64_t n, double cutoff, const ff_cell *cell, int reach,
                        int64_t *n_edges)
{
    ff_graph *g = NULL;
    int64_t e = 0;
    if (ff_graph_create(x, n, cutoff, cell, &g) != FF_OK) fail_msg("%s", ff_error_text());
    assert_int_equal(g->n_nodes, n);
    for (int64_t dst = 0; dst < n; dst++) {
        assert_int_equal(g->off[dst], e);
        for (int64_t src = 0; src < n; src++)
            for (int i = 0; i < (2 * reach + 1) * (2 * reach + 1) * (2 * reach + 1); i++) {
                const int w = 2 * reach + 1;
                const int32_t k[3] = {i / (w * w) - reach, i / w % w - reach, i % w - reach};
                double v[3];
                if (!has_image(cell, k) || (src == dst && k[0] == 0 && k[1] == 0 && k[2] == 0)) continue;
                if (!(plain_edge(x, cell, dst, src, k, v) < cutoff)) continue;
                assert_true(e < g->n_edges);
                assert_int_equal(g->dst[e], dst);
                assert_int_equal(g->src[e], src);
                if (cell != NULL) assert_memory_equal(g->image + 3 * e, k, sizeof k);
                for (int d = 0; d < 3; d++) assert_true(g->vec[3 * e + d] == v[d]);
                e++;
            }
    }
    assert_int_equal(g->n_edges, e);
    assert_int_equal(g->off[n], e);
    for (int64_t i = 0; i < e; i++) {
        const int64_t o = g->opposite[i];
        assert_int_equal(g->opposite[o], i);
        assert_int_equal(g->dst[o], g->src[i]);
        assert_int_equal(g->src[o], g->dst[i]);
        for (int d = 0; d < 3; d++) {
            assert_true(g->vec[3 * o + d] == -g->vec[3 * i + d]);
            if (cell != NULL) assert_int_equal(g->image[3 * o + d], -g->image[3 * i + d]);
        }
    }
    *n_edges += e;
    ff_graph_destroy(&g);
    assert_null(g);
}

static void edges_equal_brute_force(void **state)
{
    (void)state;
    static const int64_t size[] = {0, 1, 2, 9, 130};
    int64_t n_edges = 0;
    print_message("seed %d\n", HEAD_SEED);
    for (int set = 0; set < HEAD_SETS; set++)
        for (int i = 0; i < 5; i++) {
            double *x = head_points((head_set)set, size[i]);
            omp_set_num_threads(1 + i % 3);
            check_graph(x, size[i], 0.2, NULL, 0, &n_edges);
            check_graph(x, size[i], 0.25, NULL, 0, &n_edges); /* ties on the grid */
            check_graph(x, size[i], 30, NULL, 0, &n_edges);   /* everything */
            free(x);
        }
    omp_set_num_threads(2);
    print_message("%lld edges\n", (long long)n_edges);
}

/* Points in the cell, and the same points moved to other cells: an unwrapped trajectory. */
static void periodic_edges_equal_brute_force(void **state)
{
    (void)state;
    int64_t n_edges = 0;
    for (int c = 1; c < HEAD_CELLS; c++)
        for (int set = 0; set < HEAD_SETS; set += 2)
            for (int moved = 0; moved < 2; moved++) {
                const int64_t n = 40;
                double *x = head_points((head_set)set, n);
                for (int64_t i = 0; moved && i < n; i++)
                    for (int d = 0; d < 3; d++)
                        x[3 * i + d] += (double)(i % 3 - 1) * head_cell(c)->vector[i % 3][d];
                check_graph(x, n, 0.3, head_cell(c), 4, &n_edges);
                check_graph(x, n, 0.75, head_cell(c), 4, &n_edges); /* several images of a point */
                free(x);
            }
    print_message("%lld edges\n", (long long)n_edges);
}

/* One point in a small cell sees nothing but its own images. */
static void a_point_sees_its_own_images(void **state)
{
    (void)state;
    const double x[3] = {7.3, -2.1, 0.4};
    int64_t n_edges = 0;
    check_graph(x, 1, 2.3, head_cell(1), 3, &n_edges);
    assert_int_equal(n_edges, 6 + 12 + 8 + 6 + 24); /* |k|^2 = 1, 2, 3, 4, 5 */
    check_graph(x, 1, 0.9, head_cell(1), 3, &n_edges);
    assert_int_equal(n_edges, 56);
}

/* Coordinates far from the origin keep their float64 differences. */
static void far_points_keep_their_edges(void **state)
{
    (void)state;
    int64_t n_edges = 0, here = 0;
    double *x = head_points(HEAD_UNIFORM, 100);
    check_graph(x, 100, 0.3, NULL, 0, &here);
    for (int i = 0; i < 300; i++) x[i] += 1e9;
    check_graph(x, 100, 0.3, NULL, 0, &n_edges);
    assert_in_range(n_edges, here - 10, here + 10);
    free(x);
}

static void coincident_points_are_neighbours(void **state)
{
    (void)state;
    const double x[] = {1, 2, 3, 1, 2, 3, 1, 2, 3};
    ff_graph *g = NULL;
    assert_int_equal(ff_graph_create(x, 3, 0.1, NULL, &g), FF_OK);
    assert_int_equal(g->n_edges, 6);
    assert_int_equal(g->n_coincident, 6);
    ff_graph_destroy(&g);
}

/* ---- bad input ---- */

static void expect_refused(const double *x, int64_t n, double cutoff, const ff_cell *cell, ff_status code,
                           const char *text)
{
    ff_graph *g = (ff_graph *)&g;
    ff_error_clear();
    assert_int_equal(ff_graph_create(x, n, cutoff, cell, &g), code);
    assert_null(g);
    if (strstr(ff_error_text(), text) == NULL) fail_msg("\"%s\" lacks \"%s\"", ff_error_text(), text);
}

static void bad_input_is_refused(void **state)
{
    (void)state;
    double x[9] = {0, 0, 0, 1, 0, 0, 0, 1, 0};
    const ff_cell negative = {{{1, 0, 0}, {0, -2, 0}, {0, 0, 1}}, {1, 1, 1}},
                  flat = {{{1, 0, 0}, {0, 1, 0}, {1, 1, 0}}, {1, 1, 1}},
                  zero = {{{1, 0, 0}, {0, 1, 0}, {0, 0, 0}}, {1, 1, 1}},
                  not_finite = {{{1, 0, 0}, {0, NAN, 0}, {0, 0, 1}}, {1, 1, 1}},
                  tiny = {{{1e-3, 0, 0}, {0, 1e-3, 0}, {0, 0, 1e-3}}, {1, 1, 1}};
    expect_refused(x, 3, 0, NULL, FF_E_ARG, "cutoff = 0, expected a positive length");
    expect_refused(x, 3, -1, NULL, FF_E_ARG, "cutoff = -1");
    expect_refused(x, 3, NAN, NULL, FF_E_ARG, "cutoff = nan");
    expect_refused(x, 3, INFINITY, NULL, FF_E_ARG, "cutoff = inf");
    expect_refused(x, -1, 1, NULL, FF_E_ARG, "n_points = -1");
    expect_refused(NULL, 3, 1, NULL, FF_E_ARG, "points is NULL");
    expect_refused(x, 3, 1, &negative, FF_E_ARG, "vector 1 = (0, -2, 0), expected a positive length");
    expect_refused(x, 3, 1, &flat, FF_E_ARG, "lie in one plane");
    expect_refused(x, 3, 1, &zero, FF_E_ARG, "vector 2 = (0, 0, 0), expected a positive length");
    expect_refused(x, 3, 1, &not_finite, FF_E_ARG, "vector 1");
    expect_refused(x, 3, 1, &tiny, FF_E_ARG, "images of a cell");
    x[4] = NAN;
    expect_refused(x, 3, 1, NULL, FF_E_INPUT, "point 1: y = nan, expected a finite coordinate");
    x[4] = 0, x[8] = -INFINITY;
    expect_refused(x, 3, 1, NULL, FF_E_INPUT, "point 2: z = -inf");
    x[8] = 1e17;
    expect_refused(x, 3, 0.1, head_cell(1), FF_E_INPUT, "point 2: (0, 1, 1e+17) lies more than");
    assert_int_equal(ff_graph_create(x, 1, 1, NULL, NULL), FF_E_ARG);
    assert_int_equal(ff_mem_blocks(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(edges_equal_brute_force),
                                       cmocka_unit_test(periodic_edges_equal_brute_force),
                                       cmocka_unit_test(a_point_sees_its_own_images),
                                       cmocka_unit_test(far_points_keep_their_edges),
                                       cmocka_unit_test(coincident_points_are_neighbours),
                                       cmocka_unit_test(bad_input_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
