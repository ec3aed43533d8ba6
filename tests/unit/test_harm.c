/* Solid harmonics: each step against 1/R itself, on every instruction set; the same step back is the transpose. Seed 21. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "ff_mem.h"
#include "ff_rng.h"
#include "ff_sum_harm.h"
#include "ff_sum_isa.h"

#include <math.h>
#include <string.h>

enum { ORDER = 20, N = 21, N_FAR = 11, NODES = N_FAR + 3 };

/* Nodes 0 parent, 1 and 2 its children, 3 .. far from them, in directions with every degenerate case. */
typedef struct world {
    ff_harm *h;
    double mid[3 * NODES], radius[NODES], row[NODES][FF_HARM_MAX], x[NODES][3 * N], q[NODES][4 * N];
} world;

static world w;

static void place(int order)
{
    static const double at[NODES][3] = {{0.1, 0.2, 0.3}, {0.35, 0.2, 0.3}, {0.1, 0.2, 0.05}, {5, 0.2, 0.3},
                                        {0.1, 6, 0.3},   {0.1, 0.2, 7},    {0.1, 0.2, -7},   {-5, -4, 3},
                                        {4, 4, -4},      {0.1, -6, 0.3},   {-6, 0.2, 0.3},   {5, 5, 5},
                                        {3, -5, 1},      {-3, 5, 2}};
    assert_int_equal(ff_harm_create(order, &w.h), FF_OK);
    memset(w.row, 0, sizeof w.row);
    for (int i = 0; i < NODES; i++) {
        w.radius[i] = i == 0 ? 1 : i < 3 ? 0.7 : 0.4 + 0.05 * i;
        for (int d = 0; d < 3; d++) w.mid[3 * i + d] = at[i][d];
        for (int p = 0; p < N; p++) {
            double v[3], r = 0;
            for (int d = 0; d < 3; d++) {
                v[d] = 2 * ff_rng_uniform(21, (uint64_t)i, (uint64_t)(3 * p + d)) - 1;
                r += v[d] * v[d];
            }
            for (int d = 0; d < 3; d++) w.x[i][3 * p + d] = at[i][d] + w.radius[i] * v[d] / fmax(1, sqrt(r));
            for (int c = 0; c < 4; c++) w.q[i][4 * p + c] = cos(7.0 * i + 4 * p + c);
        }
    }
}

static ff_harm_nodes nodes(void)
{
    return (ff_harm_nodes){w.mid, w.radius, &w.row[0][0], FF_HARM_MAX};
}

static ff_harm_points points(int i)
{
    return (ff_harm_points){.n = N,
                            .ld = 4,
                            .x = w.x[i],
                            .mid = w.mid + 3 * i,
                            .radius = w.radius[i],
                            .charge = 1,
                            .dipole = 1,
                            .grad = 1};
}

/* Potential and gradient of charges and dipoles of node s at the points of node t: phi = q / R + m . d / R^3. */
static void add_direct(int s, int t, double *u)
{
    for (int a = 0; a < N; a++)
        for (int b = 0; b < N; b++) {
            const double *q = w.q[s] + 4 * b;
            double d[3], r2 = 0, md = 0;
            for (int k = 0; k < 3; k++) {
                d[k] = w.x[t][3 * a + k] - w.x[s][3 * b + k];
                r2 += d[k] * d[k];
                md += q[1 + k] * d[k];
            }
            const double r = sqrt(r2), r3 = r * r2;
            u[4 * a] += q[0] / r + md / r3;
            for (int k = 0; k < 3; k++)
                u[4 * a + 1 + k] += -q[0] * d[k] / r3 + q[1 + k] / r3 - 3 * md * d[k] / (r3 * r2);
        }
}

static double worst(const double *u, const double *v)
{
    double diff = 0, most = 0;
    for (int i = 0; i < 4 * N; i++) {
        diff = fmax(diff, fabs(u[i] - v[i]));
        most = fmax(most, fabs(v[i]));
    }
    return diff / most;
}

/* Sources of nodes 3 .. to the points of child 1, through every step: far nodes to the parent, parent to child. And sources
 * of both children through the parent to each far node. Ratio (1.15 + 1) / 5 and less: 0.43^21 = 2e-8 bounds the error. */
static void every_step_against_direct_sums(void **state)
{
    (void)state;
    int32_t list[N_FAR];
    const int32_t child[2] = {1, 2};
    for (int k = 0; k < N_FAR; k++) list[k] = 3 + k;
    for (int level = 0; level <= 2; level++) {
        double u[4 * N] = {0}, exact[4 * N] = {0};
        ff_sum_isa_limit(level);
        place(ORDER);
        const ff_harm_nodes all = nodes();
        for (int i = 3; i < NODES; i++) {
            const ff_harm_points p = points(i);
            ff_harm_from_points(w.h, &p, w.q[i], w.row[i]);
            add_direct(i, 1, exact);
        }
        ff_harm_far(w.h, &all, list, N_FAR, &all, 0);
        ff_harm_down(w.h, &all, 0, child);
        ff_harm_points p = points(1);
        ff_harm_to_points(w.h, &p, w.row[1], u);
        const double inward = worst(u, exact);
        memset(w.row, 0, sizeof w.row);
        for (int i = 1; i < 3; i++) {
            p = points(i);
            ff_harm_from_points(w.h, &p, w.q[i], w.row[i]);
        }
        ff_harm_up(w.h, &all, 0, child);
        double outward = 0;
        for (int i = 3; i < NODES; i++) {
            const int32_t parent = 0;
            memset(u, 0, sizeof u);
            memset(exact, 0, sizeof exact);
            ff_harm_far(w.h, &all, &parent, 1, &all, i);
            p = points(i);
            ff_harm_to_points(w.h, &p, w.row[i], u);
            add_direct(1, i, exact);
            add_direct(2, i, exact);
            outward = fmax(outward, worst(u, exact));
        }
        print_message("%s: %.1e inward, %.1e outward\n", ff_sum_isa(), inward, outward);
        assert_true(inward < 2e-8 && outward < 2e-8);
        ff_harm_destroy(&w.h);
    }
    ff_sum_isa_limit(2);
}

/* <a, F b> = <F b of the way back, a>, to rounding, for each of the three steps. */
static void steps_back_are_transposes(void **state)
{
    (void)state;
    static double a[2][FF_HARM_MAX], b[FF_HARM_MAX];
    const int32_t child[2] = {1, 2}, three = 3, none = 0;
    place(9);
    const ff_harm_nodes all = nodes();
    double left = 0, right = 0;
    for (int i = 0; i < w.h->n; i++) {
        a[0][i] = cos(3.0 * i);
        a[1][i] = sin(2.0 * i + 1);
        b[i] = cos(5.0 * i + 2);
    }
    memcpy(w.row[1], a[0], sizeof a[0]);
    memcpy(w.row[2], a[1], sizeof a[1]);
    ff_harm_up(w.h, &all, 0, child);
    for (int i = 0; i < w.h->n; i++) left += b[i] * w.row[0][i];
    memset(w.row, 0, sizeof w.row);
    memcpy(w.row[0], b, sizeof b);
    ff_harm_down(w.h, &all, 0, child);
    for (int i = 0; i < w.h->n; i++) right += a[0][i] * w.row[1][i] + a[1][i] * w.row[2][i];
    assert_true(fabs(left - right) <= 1e-13 * fabs(left)); /* some 1e3 roundings */
    memset(w.row, 0, sizeof w.row);
    memcpy(w.row[3], b, sizeof b);
    ff_harm_far(w.h, &all, &three, 1, &all, 0);
    left = right = 0;
    for (int i = 0; i < w.h->n; i++) left += a[0][i] * w.row[0][i];
    memset(w.row, 0, sizeof w.row);
    memcpy(w.row[0], a[0], sizeof a[0]);
    ff_harm_far(w.h, &all, &none, 1, &all, 3);
    for (int i = 0; i < w.h->n; i++) right += b[i] * w.row[3][i];
    assert_true(fabs(left - right) <= 1e-13 * fabs(left));
    ff_harm_destroy(&w.h);
}

/* A child in the middle of its parent: no direction to turn to. */
static void a_shift_of_no_length(void **state)
{
    (void)state;
    const int32_t child[2] = {1, 2};
    place(6);
    const ff_harm_nodes all = nodes();
    for (int d = 0; d < 3; d++) w.mid[3 + d] = w.mid[6 + d] = w.mid[d];
    w.radius[1] = w.radius[2] = w.radius[0];
    for (int i = 0; i < w.h->n; i++) w.row[1][i] = i + 1;
    ff_harm_up(w.h, &all, 0, child);
    for (int i = 0; i < w.h->n; i++) assert_true(fabs(w.row[0][i] - (i + 1)) <= 1e-12);
    ff_harm_destroy(&w.h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_step_against_direct_sums),
        cmocka_unit_test(steps_back_are_transposes),
        cmocka_unit_test(a_shift_of_no_length),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed != 0 || ff_mem_blocks() != 0;
}
