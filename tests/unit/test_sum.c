/* The treecode of analytic kernels: errors against direct sums for every kernel and generator, the adjoint against the
 * forward operator and against difference quotients, bad input. Seed 11 throughout. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "ff_generate.h"
#include "ff_mem.h"
#include "ff_rng.h"
#include "ff_status.h"
#include "ff_sum.h"
#include "ff_sum_tile.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { N = 5000, SAMPLED = 30 };

static const char *const kernels[] = {"1/r", "1/r^k", "log", "yukawa", "plummer", "dipole", "stokeslet"};
static const char *const generators[] = {"uniform",  "sphere", "plummer", "galaxies",
                                         "airplane", "plate",  "point",   "line"};
enum { N_KERNELS = 7, N_GENERATORS = 8 };

static double x[3 * N], q[3 * N], value[3 * N], gradient[9 * N];

static ff_sum_opts options(const char *kernel)
{
    ff_sum_opts o = FF_SUM_OPTS_INIT;
    assert_int_equal(ff_sum_kernel_find(kernel, &o), FF_OK);
    o.parameter = o.kernel == FF_SUM_PLUMMER ? 0.01 : o.kernel == FF_SUM_POWER ? 2.5 : 1;
    o.dim = o.kernel == FF_SUM_LOG ? 2 : 3;
    return o;
}

static void fill(const char *generator, int dim)
{
    assert_int_equal(ff_generate(generator, 11, 0, N, dim, x), FF_OK);
    for (int i = 0; i < 3 * N; i++) q[i] = 2 * ff_rng_uniform(11, 1, (uint64_t)i) - 1;
}

/* The worse of value and gradient at the 99th percentile. */
static double run(const ff_sum_opts *o, int n, ff_sum_info *info)
{
    ff_sum *s = NULL;
    ff_sum_error e = {0, 0, 0, 0}, g = {0, 0, 0, 0};
    assert_int_equal(ff_sum_create(NULL, 0, x, n, o, &s), FF_OK);
    assert_int_equal(ff_sum_apply(s, q, value, o->gradient ? gradient : NULL), FF_OK);
    assert_int_equal(
        ff_sum_check(s, q, value, o->gradient ? gradient : NULL, SAMPLED, &e, o->gradient ? &g : NULL),
        FF_OK);
    if (info != NULL) ff_sum_get_info(s, info);
    ff_sum_destroy(&s);
    return fmax(e.p99, g.p99);
}

/* Every kernel and generator meets what is asked for; the share used is printed where it is the largest. Of the costly
 * tolerances every second and every fourth pair of kernel and generator is tried, each kernel and generator among them. */
static void meets_rtol(void **state)
{
    (void)state;
    static const double rtol[] = {1e-3, 1e-5, 1e-7};
    for (int t = 0; t < 3; t++) {
        double worst = 0;
        for (int k = 0; k < N_KERNELS; k++)
            for (int g = k % (1 << t); g < N_GENERATORS; g += 1 << t) {
                ff_sum_opts o = options(kernels[k]);
                o.rtol = rtol[t];
                o.gradient = true;
                fill(generators[g], o.dim);
                const double e = run(&o, N, NULL);
                if (e > rtol[t]) print_message("%s, %s: %g\n", kernels[k], generators[g], e);
                assert_true(e <= rtol[t]);
                worst = fmax(worst, e);
            }
        print_message("used %.2g of %g\n", worst / rtol[t], rtol[t]);
    }
}

/* theta 0 is exact to rounding, in both precisions and with every instruction set. */
static void direct_is_exact(void **state)
{
    (void)state;
    for (int level = 0; level <= 2; level++)
        for (int single = 0; single < 2; single++)
            for (int k = 0; k < N_KERNELS; k++) {
                ff_sum_opts o = options(kernels[k]);
                o.rtol = 0;
                o.theta = 0;
                o.gradient = true;
                o.single = single != 0;
                ff_sum_isa_limit(level);
                fill("uniform", o.dim);
                const double e = run(&o, N / 4, NULL),
                             most = single ? 2e-4 : 2e-12; /* 1e3 roundings a sum, close pairs */
                if (e > most) print_message("%s, level %d, single %d: %g\n", kernels[k], level, single, e);
                assert_true(e <= most);
            }
    ff_sum_isa_limit(2);
}

/* Small leaves, so that most pairs are far: the error falls with the order. */
static void error_falls_with_order(void **state)
{
    (void)state;
    static const int order[] = {0, 1, 2, 3, 4};
    for (int k = 0; k < N_KERNELS; k++) {
        double before = HUGE_VAL;
        for (int i = 0; i < 5; i++) {
            ff_sum_opts o = options(kernels[k]);
            ff_sum_info info;
            o.rtol = 0;
            o.theta = 1.5;
            o.order = order[i];
            o.leaf_size = 65;
            fill("uniform", o.dim);
            const double e = run(&o, N, &info);
            if (info.far_pairs < 100) print_message("%s: %d far pairs\n", kernels[k], (int)info.far_pairs);
            assert_true(info.far_pairs >= 100);
            /* harmonics: another criterion than order 0, ratio theta / 2 = 0.75 an order */
            const bool harmonic = o.kernel == FF_SUM_INV_R;
            const double most = !harmonic ? 0.5 * before : i == 1 ? HUGE_VAL : 0.75 * before;
            if (!(e < most)) print_message("%s, order %d: %g after %g\n", kernels[k], order[i], e, before);
            assert_true(e < most);
            before = e;
        }
    }
}

/* <cot, A q> = <A^T cot, q> to rounding, targets unequal to sources, two densities, gradients included. */
static void adjoint_is_the_transpose(void **state)
{
    (void)state;
    enum { N_T = 1500, N_S = 2000, D = 2 };
    static double cot[9 * D * N_T], out[9 * D * N_T], grad[9 * D * N_T], dq[3 * D * N_S], qs[3 * D * N_S];
    for (int k = 0; k < N_KERNELS; k++) {
        ff_sum_opts o = options(kernels[k]);
        ff_sum *s = NULL;
        const bool g = o.kernel != FF_SUM_STOKESLET;
        o.rtol = 0;
        o.order = 2;
        o.theta = 1.5;
        o.leaf_size = 65;
        o.n_densities = D;
        o.gradient = g;
        o.adjoint = true;
        fill("uniform", o.dim);
        assert_int_equal(ff_sum_create(x, N_T, x + o.dim * N_T, N_S, &o, &s), FF_OK);
        const int n_in = ff_sum_n_in(s), n_out = ff_sum_n_out(s);
        for (int i = 0; i < 9 * D * N_T; i++) cot[i] = cos(3.0 * i);
        for (int i = 0; i < 3 * D * N_S; i++) qs[i] = sin(2.0 * i);
        assert_int_equal(ff_sum_apply(s, qs, out, g ? grad : NULL), FF_OK);
        assert_int_equal(ff_sum_adjoint(s, cot, g ? cot + n_out * D * N_T : NULL, dq), FF_OK);
        double left = 0, right = 0, size = 0;
        for (int i = 0; i < n_out * D * N_T; i++) left += cot[i] * out[i], size += fabs(cot[i] * out[i]);
        for (int i = 0; g && i < o.dim * D * N_T; i++) {
            left += cot[n_out * D * N_T + i] * grad[i];
            size += fabs(cot[n_out * D * N_T + i] * grad[i]);
        }
        for (int i = 0; i < n_in * D * N_S; i++) right += dq[i] * qs[i];
        if (!(fabs(left - right) <= 1e-11 * size)) print_message("%s: %g and %g\n", kernels[k], left, right);
        assert_true(fabs(left - right) <= 1e-11 * size); /* roundings of 5e6 terms */
        ff_sum_destroy(&s);
    }
}

/* A gradient is the difference quotient of the potential, both with theta 0. */
static void gradient_is_a_difference_quotient(void **state)
{
    (void)state;
    const double h = 1e-6;
    for (int k = 0; k < N_KERNELS; k++) {
        ff_sum_opts o = options(kernels[k]);
        ff_sum *s = NULL;
        double t[7 * 3], v[7 * 3], g[7 * 9];
        o.rtol = 0;
        o.theta = 0;
        o.gradient = true;
        fill("uniform", o.dim);
        for (int i = 0; i < 7; i++)
            for (int d = 0; d < o.dim; d++)
                t[i * o.dim + d] = 0.4 + (i > 0 && (i - 1) / 2 == d ? (i % 2 != 0 ? h : -h) : 0);
        assert_int_equal(ff_sum_create(t, 7, x, 300, &o, &s), FF_OK);
        assert_int_equal(ff_sum_apply(s, q, v, g), FF_OK);
        const int n_out = ff_sum_n_out(s);
        for (int c = 0; c < n_out; c++)
            for (int d = 0; d < o.dim; d++) {
                const double quotient = (v[(1 + 2 * d) * n_out + c] - v[(2 + 2 * d) * n_out + c]) / (2 * h);
                assert_true(fabs(quotient - g[c * o.dim + d]) <=
                            1e-5 * (1 + fabs(quotient))); /* h^2 and 1e-16 / h */
            }
        ff_sum_destroy(&s);
    }
}

/* Positions: difference quotients of L = sum cot u, for one set and for two. */
static void positions_against_differences(void **state)
{
    (void)state;
    enum { M = 900, M_T = 400 };
    static double cot[3 * M], u[3 * M], dt[3 * M], ds[3 * M], y[3 * M];
    static const char *const tried[] = {"1/r", "log", "yukawa", "plummer", "stokeslet"};
    for (int k = 0; k < 10; k++) {
        ff_sum_opts o = options(tried[k / 2]);
        const bool two = k % 2 != 0;
        const int n_t = two ? M_T : M, n_s = two ? M - M_T : M;
        const double h = 1e-6;
        ff_sum *s = NULL;
        o.rtol = 1e-7;
        o.adjoint = true;
        fill("uniform", o.dim);
        memcpy(y, x, sizeof y);
        double *xs = two ? y + o.dim * M_T : y;
        const int at[2] = {5, o.dim * M_T + 4}; /* with two sets: of a target, of a source */
        for (int i = 0; i < 3 * M; i++) cot[i] = cos(5.0 * i);
        assert_int_equal(ff_sum_create(two ? y : NULL, n_t, xs, n_s, &o, &s), FF_OK);
        assert_int_equal(ff_sum_adjoint_points(s, q, cot, two ? dt : NULL, ds), FF_OK);
        const int n_out = ff_sum_n_out(s);
        ff_sum_destroy(&s);
        for (int c = 0; c < 2; c++) {
            double l[2] = {0, 0};
            for (int side = 0; side < 2; side++) {
                y[at[c]] = x[at[c]] + (side == 0 ? h : -h);
                assert_int_equal(ff_sum_create(two ? y : NULL, n_t, xs, n_s, &o, &s), FF_OK);
                assert_int_equal(ff_sum_apply(s, q, u, NULL), FF_OK);
                ff_sum_destroy(&s);
                for (int i = 0; i < n_t * n_out; i++) l[side] += cot[i] * u[i];
            }
            y[at[c]] = x[at[c]];
            const double quotient = (l[0] - l[1]) / (2 * h);
            const double got = !two ? ds[at[c]] : c == 0 ? dt[at[c]] : ds[at[c] - o.dim * M_T];
            if (!(fabs(quotient - got) <= 1e-4 * (1 + fabs(got))))
                print_message("%s, %d: %g and %g\n", tried[k / 2], at[c], quotient, got);
            assert_true(fabs(quotient - got) <= 1e-4 * (1 + fabs(got))); /* h^2 K''' and roundings / h */
        }
    }
}

static void odd_sets(void **state)
{
    (void)state;
    ff_sum *s = NULL;
    ff_sum_opts o = options("1/r");
    double two[6] = {1, 2, 3, 1, 2, 3}, u[2] = {7, 7};
    assert_int_equal(ff_sum_create(NULL, 0, two, 0, &o, &s), FF_OK);
    assert_int_equal(ff_sum_apply(s, q, u, NULL), FF_OK);
    ff_sum_destroy(&s);
    assert_int_equal(ff_sum_create(NULL, 0, two, 1, &o, &s), FF_OK);
    assert_int_equal(ff_sum_apply(s, q, u, NULL), FF_OK);
    assert_true(u[0] == 0);
    ff_sum_destroy(&s);
    assert_int_equal(ff_sum_create(NULL, 0, two, 2, &o, &s),
                     FF_OK); /* coincident points know nothing of each other */
    assert_int_equal(ff_sum_apply(s, q, u, NULL), FF_OK);
    assert_true(u[0] == 0 && u[1] == 0);
    ff_sum_destroy(&s);
}

/* Leaves of volumes are smaller than those of surfaces, where far pairs are dear; a size given stays. */
static void leaves_by_shape(void **state)
{
    (void)state;
    enum { MANY = 70000 };
    static const struct {
        const char *generator;
        int given, leaf;
    } cases[] = {{"uniform", 0, 65}, {"sphere", 0, 96}, {"airplane", 0, 96}, {"sphere", 80, 80}};
    double *many = NULL;
    assert_int_equal(FF_NEW(many, 3 * MANY), FF_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ff_sum *s = NULL;
        ff_sum_info info;
        ff_sum_opts o = options("1/r");
        o.leaf_size = cases[i].given;
        assert_int_equal(ff_generate(cases[i].generator, 11, 0, MANY, 3, many), FF_OK);
        assert_int_equal(ff_sum_create(NULL, 0, many, MANY, &o, &s), FF_OK);
        ff_sum_get_info(s, &info);
        assert_int_equal(info.leaf_size, cases[i].leaf);
        ff_sum_destroy(&s);
    }
    ff_free(many);
}

/* Sources that all coincide: each far pair is of a node and a point, and there errors are near their bound. */
static void targets_beside_a_point(void **state)
{
    (void)state;
    static double targets[3 * N];
    static const double rtol[] = {1e-3, 1e-5, 1e-7};
    assert_int_equal(ff_generate("plate", 11, 0, N, 3, targets), FF_OK);
    for (int k = 0; k < N_KERNELS; k++)
        for (int t = 0; t < 3; t++) {
            ff_sum *s = NULL;
            ff_sum_error e, g;
            ff_sum_opts o = options(kernels[k]);
            if (o.dim != 3) continue;
            o.rtol = rtol[t];
            o.gradient = true;
            fill("point", 3);
            for (int i = 0; i < 3 * N; i++) q[i] = 1;
            assert_int_equal(ff_sum_create(targets, N, x, 600, &o, &s), FF_OK);
            assert_int_equal(ff_sum_apply(s, q, value, gradient), FF_OK);
            assert_int_equal(ff_sum_check(s, q, value, gradient, 500, &e, &g), FF_OK);
            ff_sum_destroy(&s);
            if (fmax(e.p99, g.p99) > rtol[t])
                print_message("%s: %g, %g of %g\n", kernels[k], e.p99, g.p99, rtol[t]);
            assert_true(e.p99 <= rtol[t] && g.p99 <= rtol[t]);
        }
}

/* Points 1e-3 apart at 1e7: the same sums as at the origin up to the rounding of such coordinates (2e-9 / 1e-3). */
static void far_from_the_origin(void **state)
{
    (void)state;
    enum { M = 10 };
    static double at_0[3 * M * M * M], at_1[3 * M * M * M], u0[M * M * M], u1[M * M * M];
    const int n = M * M * M;
    ff_sum_opts o = options("1/r");
    ff_sum *s = NULL;
    for (int i = 0; i < n; i++)
        for (int d = 0; d < 3; d++) {
            at_0[3 * i + d] = 1e-3 * (d == 0 ? i % M : d == 1 ? i / M % M : i / (M * M));
            at_1[3 * i + d] = 1e7 + at_0[3 * i + d];
            q[3 * i + d] = 1;
        }
    assert_int_equal(ff_sum_create(NULL, 0, at_0, n, &o, &s), FF_OK);
    assert_int_equal(ff_sum_apply(s, q, u0, NULL), FF_OK);
    ff_sum_destroy(&s);
    assert_int_equal(ff_sum_create(NULL, 0, at_1, n, &o, &s), FF_OK);
    assert_int_equal(ff_sum_apply(s, q, u1, NULL), FF_OK);
    ff_sum_destroy(&s);
    for (int i = 0; i < n; i++) assert_true(fabs(u1[i] - u0[i]) <= 1e-5 * u0[i]);
}

static void expect_failure(const ff_sum_opts *o, ff_status st, const char *word)
{
    ff_sum *s = NULL;
    ff_error_clear();
    assert_int_equal(ff_sum_create(NULL, 0, x, 10, o, &s), st);
    assert_null(s);
    assert_non_null(strstr(ff_error_text(), word));
}

static void bad_input(void **state)
{
    (void)state;
    ff_sum_opts o = options("1/r^k");
    ff_sum *s = NULL;
    fill("uniform", 3);
    o.parameter = 0;
    expect_failure(&o, FF_E_ARG, "exponent k = 0");
    o.parameter = -1;
    expect_failure(&o, FF_E_ARG, "exponent k = -1");
    o = options("1/r");
    o.rtol = 1e-15;
    expect_failure(&o, FF_E_ARG, "rtol = 1e-15");
    o = options("1/r");
    o.single = true;
    o.rtol = 1e-7;
    expect_failure(&o, FF_E_ARG, "rtol = 1e-07");
    o = options("1/r");
    o.dim = 4;
    expect_failure(&o, FF_E_ARG, "dim = 4");
    o = options("1/r");
    x[7] = NAN;
    expect_failure(&o, FF_E_INPUT, "point 2: y = nan");
    fill("uniform", 3);
    assert_int_equal(ff_sum_create(NULL, 0, x, 10, &o, &s), FF_OK);
    q[3] = INFINITY;
    ff_error_clear();
    assert_int_equal(ff_sum_apply(s, q, value, NULL), FF_E_INPUT);
    assert_non_null(strstr(ff_error_text(), "number 3 is inf"));
    ff_sum_destroy(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(direct_is_exact),
        cmocka_unit_test(error_falls_with_order),
        cmocka_unit_test(adjoint_is_the_transpose),
        cmocka_unit_test(gradient_is_a_difference_quotient),
        cmocka_unit_test(positions_against_differences),
        cmocka_unit_test(odd_sets),
        cmocka_unit_test(leaves_by_shape),
        cmocka_unit_test(targets_beside_a_point),
        cmocka_unit_test(far_from_the_origin),
        cmocka_unit_test(bad_input),
        cmocka_unit_test(meets_rtol),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed != 0 || ff_mem_blocks() != 0;
}
