/* Sums over points that coincide: every kernel against direct sums, the adjoint against the forward operator, and the pairs
 * counted. Seed 21. */
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
#include <string.h>

enum { N = 3000, N_KERNELS = 7, SAMPLED = 20 };

static const char *const kernels[] = {"1/r", "1/r^k", "log", "yukawa", "plummer", "dipole", "stokeslet"};
static double x[3 * N], y[3 * N], q[3 * N], u[3 * N], g[9 * N], cot[3 * N], dq[3 * N], dx[3 * N], dy[3 * N];

static ff_sum_opts options(const char *kernel)
{
    ff_sum_opts o = FF_SUM_OPTS_INIT;
    assert_int_equal(ff_sum_kernel_find(kernel, &o), FF_OK);
    o.parameter = o.kernel == FF_SUM_PLUMMER ? 0.1 : o.kernel == FF_SUM_POWER ? 2.5 : 1;
    o.dim = o.kernel == FF_SUM_LOG ? 2 : 3;
    o.rtol = 1e-5;
    o.gradient = true;
    return o;
}

/* All at one place; every second at one place; at three places, two of them equal in float32, with few others. */
enum { ONE, HALF, THREE, N_SETS };

static void place(int set, int dim, uint64_t seed, double *v)
{
    assert_int_equal(ff_generate("uniform", seed, 0, N, dim, v), FF_OK);
    for (int i = 0; i < N; i++)
        for (int d = 0; d < dim; d++)
            if (set == ONE || (set == HALF && i % 2 == 0) || (set == THREE && i % 10 != 0))
                v[i * dim + d] = 0.3 + (set == THREE ? (i % 3 == 0) * 1e-9 + (i % 3 == 1) * 0.2 : 0);
}

static void fill(int set, int dim)
{
    place(set, dim, 21, x);
    place((set + 1) % N_SETS, dim, 22, y);
    for (int i = 0; i < 3 * N; i++) {
        q[i] = 2 * ff_rng_uniform(21, 1, (uint64_t)i) - 1;
        cot[i] = 2 * ff_rng_uniform(21, 2, (uint64_t)i) - 1;
    }
}

/* Values and gradients [12] of in at a point by all pairs, in the layout of tiles. */
static void direct(const ff_sum_opts *o, unsigned in, const double *at, const double *from,
                   const double *density, double *out)
{
    const ff_sum_spec spec = {.kernel = o->kernel, .in = in, .grad = true, .parameter = o->parameter};
    const int n_in = ff_sum_spec_in(&spec);
    double p[3] = {0, 0, 0};
    for (int c = 0; c < 12; c++) out[c] = 0;
    for (int d = 0; d < o->dim; d++) p[d] = at[d];
    for (int j = 0; j < N; j++) {
        double r[3] = {0, 0, 0}, s[3] = {0, 0, 0};
        for (int d = 0; d < o->dim; d++) r[d] = p[d] - from[j * o->dim + d];
        for (int c = 0; c < n_in; c++) s[c] = density[j * n_in + c];
        ff_sum_pair_f64(&spec, r, s, out);
    }
}

/* The larger of the relative errors of values and gradients of some targets. */
static double error_of(const ff_sum_opts *o, const double *at)
{
    const bool stokes = o->kernel == FF_SUM_STOKESLET;
    const int n = stokes ? 3 : 1;
    double worst = 0, diff[2] = {0, 0}, size[2] = {0, 0};
    for (int k = 0; k < SAMPLED; k++) {
        const int i = k * (N / SAMPLED) + k % 4; /* of every place */
        double e[12];
        direct(o, stokes ? 0 : o->dipole ? 2 : 1, at + i * o->dim, x, q, e);
        for (int c = 0; c < n; c++) {
            diff[0] += pow(u[i * n + c] - e[c], 2);
            size[0] += e[c] * e[c];
            for (int d = 0; d < o->dim; d++) {
                diff[1] += pow(g[(i * n + c) * o->dim + d] - e[n + 3 * c + d], 2);
                size[1] += pow(e[n + 3 * c + d], 2);
            }
        }
    }
    for (int k = 0; k < 2; k++) worst = fmax(worst, diff[k] > 0 ? sqrt(diff[k] / size[k]) : 0);
    return worst;
}

static void values_and_gradients(void **state)
{
    (void)state;
    for (int k = 0; k < N_KERNELS; k++)
        for (int set = 0; set < N_SETS; set++)
            for (int two = 0; two < 2; two++) {
                const ff_sum_opts o = options(kernels[k]);
                ff_sum *s = NULL;
                ff_sum_info info;
                fill(set, o.dim);
                assert_int_equal(ff_sum_create(two ? y : NULL, N, x, N, &o, &s), FF_OK);
                assert_int_equal(ff_sum_apply(s, q, u, g), FF_OK);
                ff_sum_get_info(s, &info);
                ff_sum_destroy(&s);
                const double e = error_of(&o, two ? y : x);
                if (!(e <= o.rtol)) print_message("%s, set %d, %d: %g\n", kernels[k], set, two, e);
                assert_true(e <= o.rtol);
                assert_true(info.n_sources == N && info.n_targets == N);
                assert_true(info.direct_pairs < N * N / 2); /* some points less on one side at least */
            }
}

/* <cot, A q> = <A^T cot, q>; derivatives by positions against direct sums. */
static void adjoint(void **state)
{
    (void)state;
    for (int k = 0; k < N_KERNELS; k++)
        for (int set = 0; set < N_SETS; set++) {
            ff_sum_opts o = options(kernels[k]);
            ff_sum *s = NULL;
            double left = 0, right = 0, size = 0, e[12], diff = 0, norm = 0;
            o.adjoint = true;
            fill(set, o.dim);
            assert_int_equal(ff_sum_create(y, N, x, N, &o, &s), FF_OK);
            assert_int_equal(ff_sum_apply(s, q, u, NULL), FF_OK);
            assert_int_equal(ff_sum_adjoint(s, cot, NULL, dq), FF_OK);
            for (int i = 0; i < ff_sum_n_out(s) * N; i++) left += cot[i] * u[i], size += fabs(cot[i] * u[i]);
            for (int i = 0; i < ff_sum_n_in(s) * N; i++) right += dq[i] * q[i];
            if (!(fabs(left - right) <= 1e-11 * size)) print_message("%s: %g, %g\n", kernels[k], left, right);
            assert_true(fabs(left - right) <= 1e-11 * size); /* roundings of 3e3 terms */
            if (!o.dipole && o.kernel != FF_SUM_STOKESLET) {
                assert_int_equal(ff_sum_adjoint_points(s, q, cot, dy, dx), FF_OK);
                for (int k2 = 0; k2 < SAMPLED; k2++) {
                    const int i = k2 * (N / SAMPLED) + k2 % 4;
                    direct(&o, 1, x + i * o.dim, y, cot, e);
                    for (int d = 0; d < o.dim; d++) {
                        diff += pow(dx[i * o.dim + d] - q[i] * e[1 + d], 2);
                        norm += pow(q[i] * e[1 + d], 2);
                    }
                }
                if (!(diff <= 1e-10 * norm))
                    print_message("%s, set %d: %g\n", kernels[k], set, sqrt(diff / norm));
                assert_true(diff <= 1e-10 * norm); /* rtol of sums */
            }
            ff_sum_destroy(&s);
        }
}

/* 128 groups of points, each of which one stands for. */
static void many_at_one_place(void **state)
{
    (void)state;
    enum { MANY = 100000 };
    ff_sum_opts o = options("plummer");
    ff_sum *s = NULL;
    ff_sum_info info;
    double *at = NULL, *ones = NULL, *value = NULL;
    assert_int_equal(FF_NEW(at, 3 * MANY), FF_OK);
    assert_int_equal(FF_NEW(ones, MANY), FF_OK);
    assert_int_equal(FF_NEW(value, MANY), FF_OK);
    for (int i = 0; i < 3 * MANY; i++) at[i] = 1e7 + 0.001 * (i % 3);
    for (int i = 0; i < MANY; i++) ones[i] = 1;
    assert_int_equal(ff_sum_create(NULL, 0, at, MANY, &o, &s), FF_OK);
    assert_int_equal(ff_sum_apply(s, ones, value, NULL), FF_OK);
    ff_sum_get_info(s, &info);
    for (int i = 0; i < MANY; i++) assert_true(fabs(value[i] - MANY / 0.1) <= 1e-9 * MANY / 0.1);
    assert_true(info.direct_pairs <= 128 * 128);
    ff_sum_destroy(&s);
    ff_free(at);
    ff_free(ones);
    ff_free(value);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(values_and_gradients), cmocka_unit_test(adjoint),
                                       cmocka_unit_test(many_at_one_place)};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed != 0 || ff_mem_blocks() != 0;
}
