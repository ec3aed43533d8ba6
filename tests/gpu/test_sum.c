/* Sums on the GPU against direct float64 sums on the CPU: every kernel and generator, potential and gradient, targets
 * unequal to sources, several densities, few points, bad input, equal bits. Seed 19 throughout.
 *   gpu_sum [--small [TEST]]   few points and each kernel with one generator, for compute-sanitizer; one test alone */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "farfield_sum.h"
#include "ff_generate.h"
#include "ff_gpu_test.h"
#include "ff_mem.h"
#include "ff_rng.h"
#include "ff_sum.h"
#include "ff_sum_tile.h"

#include <cuda_runtime_api.h>
#include <math.h>
#include <string.h>

enum { SEED = 19, MOST = 6000, SAMPLED = 40 };
static int n_points = MOST;
static bool is_small;

#define CU(call)                                                                                             \
    do {                                                                                                     \
        cudaError_t cu_ = (call);                                                                            \
        if (cu_ != cudaSuccess) fail_msg("%s: %s", #call, cudaGetErrorString(cu_));                          \
    } while (0)

static const char *const kernels[] = {"1/r", "1/r^k", "log", "yukawa", "plummer", "dipole", "stokeslet"};
static const char *const generators[] = {"uniform",  "sphere", "plummer", "galaxies",
                                         "airplane", "plate",  "point",   "line"};
enum { N_KERNELS = 7, N_GENERATORS = 8 };

static double x[3 * MOST], xt[3 * MOST], q[9 * MOST];
static double value[9 * MOST], gradient[27 * MOST], again[27 * MOST];

static ff_sum_opts options(const char *kernel, bool single)
{
    ff_sum_opts o = FF_SUM_OPTS_INIT;
    assert_int_equal(ff_sum_kernel_find(kernel, &o), FF_OK);
    o.parameter = o.kernel == FF_SUM_PLUMMER ? 0.01 : o.kernel == FF_SUM_POWER ? 2.5 : 1;
    o.dim = o.kernel == FF_SUM_LOG ? 2 : 3;
    o.gradient = true;
    o.single = single;
    o.rtol = o.theta = 0;
    return o;
}

static int n_in_of(const ff_sum_opts *o)
{
    return o->kernel == FF_SUM_STOKESLET ? 3 : o->dipole ? o->dim : 1;
}
static int n_out_of(const ff_sum_opts *o)
{
    return o->kernel == FF_SUM_STOKESLET ? 3 : 1;
}

static void fill(const char *generator, int n, int dim)
{
    assert_int_equal(ff_generate(generator, SEED, 0, n, dim, x), FF_OK);
    for (int i = 0; i < 9 * MOST; i++) q[i] = 2 * ff_rng_uniform(SEED, 1, (uint64_t)i) - 1;
}

/* Tests that are one run of racecheck each for a part of their cases: order 0 is without a far field. */
typedef struct sum_part {
    bool single;
    int order;
} sum_part;

/* With --small one of many cases of each row k: of is how many, i the number of this one. */
static bool left_out(int k, int i, int of)
{
    return is_small && (5 * k + i) % of != 0;
}

static double *to_device(const double *host, int64_t n)
{
    double *d = NULL;
    CU(cudaMalloc((void **)&d, (size_t)n * sizeof *d + 8));
    CU(cudaMemcpy(d, host, (size_t)n * sizeof *d, cudaMemcpyHostToDevice));
    return d;
}

static double *poisoned(int64_t n)
{
    double *d = NULL;
    CU(cudaMalloc((void **)&d, (size_t)n * sizeof *d + 8));
    CU(cudaMemset(d, 0xff, (size_t)n * sizeof *d + 8)); /* NaN */
    return d;
}

static void to_host(double *host, double *d, int64_t n)
{
    CU(cudaMemcpy(host, d, (size_t)n * sizeof *d, cudaMemcpyDeviceToHost));
    CU(cudaFree(d));
}

/* value, gradient of n_t targets (NULL: the sources) by the GPU; check (may be NULL): its own errors. */
static void by_gpu(const ff_sum_opts *o, const double *targets, int n_t, int n, double *v, double *g,
                   ff_sum_error check[2])
{
    ff_sum_cuda *s = NULL;
    const int64_t dens = o->n_densities, n_v = n_t * dens * n_out_of(o);
    double l2[2];
    double *d_xt = targets != NULL ? to_device(targets, (int64_t)n_t * o->dim) : NULL;
    double *d_x = to_device(x, (int64_t)n * o->dim), *d_q = to_device(q, n * dens * n_in_of(o));
    double *d_v = poisoned(n_v), *d_g = poisoned(n_v * o->dim);
    if (ff_sum_cuda_create(d_xt, n_t, d_x, n, o, NULL, &s) != FF_OK) fail_msg("%s", ff_error_text());
    if (ff_sum_cuda_apply(s, d_q, d_v, d_g) != FF_OK) fail_msg("%s", ff_error_text());
    if (check != NULL)
        assert_int_equal(ff_sum_cuda_check(s, d_xt, d_x, d_q, d_v, d_g, SAMPLED, &check[0], &check[1], l2),
                         FF_OK);
    CU(cudaDeviceSynchronize());
    ff_sum_cuda_destroy(&s);
    to_host(v, d_v, n_v);
    to_host(g, d_g, n_v * o->dim);
    CU(cudaFree(d_x));
    CU(cudaFree(d_q));
    if (d_xt != NULL) CU(cudaFree(d_xt));
}

/* Direct sum for target i of density k: out [12], value then gradient by threes. */
static void exact(const ff_sum_opts *o, const double *t, int n, int k, double *out)
{
    const int n_in = n_in_of(o);
    const ff_sum_spec spec = {o->kernel,
                              o->kernel == FF_SUM_STOKESLET ? 0
                              : o->dipole                   ? 2
                                                            : 1,
                              true, o->parameter, false};
    memset(out, 0, 12 * sizeof *out);
    for (int j = 0; j < n; j++) {
        double d[3] = {0, 0, 0};
        for (int c = 0; c < o->dim; c++) d[c] = t[c] - x[j * o->dim + c];
        ff_sum_pair_f64(&spec, d, q + (j * o->n_densities + k) * n_in, out);
    }
}

/* Largest error of sampled targets over the larger of the exact value and the root mean square. */
static double compare(const ff_sum_opts *o, const double *targets, int n_t, int n, const double *v,
                      const double *g)
{
    static double e[SAMPLED][12];
    const int n_out = n_out_of(o), dens = o->n_densities;
    const double *t = targets != NULL ? targets : x;
    double worst = 0;
    const int samples = n_t < SAMPLED ? n_t : SAMPLED;
    for (int k = 0; k < dens; k++) {
        double rms[2] = {0, 0};
        for (int i = 0; i < samples; i++) {
            exact(o, t + (int64_t)i * n_t / samples * o->dim, n, k, e[i]);
            for (int c = 0; c < 4 * n_out; c++) rms[c >= n_out] += e[i][c] * e[i][c] / samples;
        }
        for (int i = 0; i < samples; i++) {
            const int64_t at = ((int64_t)i * n_t / samples * dens + k) * n_out;
            double wrong[2] = {0, 0}, size[2] = {0, 0};
            for (int c = 0; c < n_out; c++)
                wrong[0] += pow(v[at + c] - e[i][c], 2), size[0] += e[i][c] * e[i][c];
            for (int c = 0; c < 3 * n_out; c++) {
                if (c % 3 >= o->dim) continue;
                wrong[1] += pow(g[at * o->dim + c / 3 * o->dim + c % 3] - e[i][n_out + c], 2);
                size[1] += e[i][n_out + c] * e[i][n_out + c];
            }
            for (int b = 0; b < 2; b++) {
                const double scale = sqrt(fmax(size[b], rms[b]));
                const double err = wrong[b] == 0 ? 0 : scale > 0 ? sqrt(wrong[b]) / scale : HUGE_VAL;
                if (!(err <= worst)) worst = err;
            }
        }
    }
    return worst;
}

/* float64: coordinates are rounded to 2^-53 of the width, and two points of a circle lie 1e-7 of it apart: 1e-9 of
 * their distance. float32: a root of 2^-22, 2^-31 of the width, and densities of both signs that cancel. */
static double tolerance(bool single)
{
    return single ? 1e-3 : 1e-9;
}

static void direct_sums(void **state)
{
    const bool single = ((const sum_part *)*state)->single;
    double used = 0;
    print_message("seed %d\n", SEED);
    for (int g = 0; g < N_GENERATORS; g++)
        for (int k = 0; k < N_KERNELS; k++) {
            const ff_sum_opts o = options(kernels[k], single);
            ff_sum_error own[2];
            if (left_out(k, g, N_GENERATORS)) continue;
            fill(generators[g], n_points, o.dim);
            by_gpu(&o, NULL, n_points, n_points, value, gradient, own);
            const double e = compare(&o, NULL, n_points, n_points, value, gradient);
            const double tol = tolerance(single);
            if (!(e <= tol)) fail_msg("%s, %s, single %d: error %g", generators[g], kernels[k], single, e);
            if (e / tol > used) used = e / tol;
            /* The GPU's own check samples the same targets. */
            const double mine = fmax(own[0].max, own[1].max);
            assert_true(fabs(mine - e) <= 0.01 * e + 1e-13);
        }
    print_message("used %.2f of the tolerances\n", used);
}

/* The far field: theta 0.6, the worst kernel being 1/R^2.5 with its gradient, for densities of both signs, the worst of value
 * and gradient over the root mean square of all. */
static void far_field(void **state)
{
    static const double bound[] = {0, 0, 0, 0.15, 0.05, 0.02, 0.01};
    const sum_part *p = *state;
    double worst = 0;
    for (int g = 0; g < N_GENERATORS; g++)
        for (int k = 0; k < N_KERNELS; k++) {
            ff_sum_opts o = options(kernels[k], p->single);
            if (left_out(k, g, N_GENERATORS)) continue;
            o.theta = 0.6;
            o.order = p->order;
            fill(generators[g], n_points, o.dim);
            by_gpu(&o, NULL, n_points, n_points, value, gradient, NULL);
            const double e = compare(&o, NULL, n_points, n_points, value, gradient);
            if (e > worst) worst = e;
        }
    print_message("worst %.2e of %.2e\n", worst, bound[p->order]);
    assert_true(worst <= bound[p->order]);
}

/* What rtol chooses: 99 % of the sampled targets have it, in every kernel and generator. */
static void meets_rtol(void **state)
{
    (void)state;
    static const double rtol[] = {1e-2, 1e-3, 1e-5, 1e-3, 1e-7};
    for (int i = 0; i < 5; i++) {
        double used = 0;
        for (int g = 0; g < N_GENERATORS; g++)
            for (int k = 0; k < N_KERNELS; k++) {
                ff_sum_opts o = options(kernels[k], i == 3);
                ff_sum_error own[2];
                o.rtol = rtol[i];
                if (left_out(k, g + i * N_GENERATORS, 5 * N_GENERATORS)) continue;
                fill(generators[g], n_points, o.dim);
                by_gpu(&o, NULL, n_points, n_points, value, gradient, own);
                const double e = fmax(own[0].p99, own[1].p99) / rtol[i];
                if (!(e <= 1)) fail_msg("%s, %s, rtol %g: %g of it", generators[g], kernels[k], rtol[i], e);
                if (e > used) used = e;
            }
        print_message("rtol %g, %s: used %.2f\n", rtol[i], i == 3 ? "f32" : "f64", used);
    }
}

/* Far: the sum of one target may cancel, so its error is of itself and larger than above. */
static void other_targets_and_densities(void **state)
{
    const bool far = ((const sum_part *)*state)->order > 0;
    static const int sizes[][2] = {{1, 500}, {33, 64}, {700, 1}, {129, 2047}, {31, 31}, {4000, 1500}};
    for (int single = 0; single < 2; single++)
        for (int k = 0; k < N_KERNELS; k++)
            for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
                const int n_t = is_small ? sizes[i][0] / 4 + 1 : sizes[i][0],
                          n = is_small ? sizes[i][1] / 4 + 1 : sizes[i][1];
                if (left_out(k, (int)i + 6 * single, 12)) continue;
                ff_sum_opts o = options(kernels[k], single);
                o.n_densities = 1 + (int)i % 3;
                o.theta = far ? 0.5 : 0;
                o.order = 6;
                fill("uniform", n, o.dim);
                assert_int_equal(ff_generate("sphere", SEED, 0, n_t, o.dim, xt), FF_OK);
                by_gpu(&o, xt, n_t, n, value, gradient, NULL);
                const double e = compare(&o, xt, n_t, n, value, gradient);
                if (!(e <= (far ? 0.05 : tolerance(single))))
                    fail_msg("%s, case %zu, single %d, far %d: error %g", kernels[k], i, single, far, e);
            }
}

/* One point alone: 0. None: nothing is written and no kernel fails. */
static void few_points(void **state)
{
    (void)state;
    for (int single = 0; single < 2; single++)
        for (int n = 0; n < 3; n++) {
            const ff_sum_opts o = options("1/r", single);
            fill("uniform", 2, 3);
            by_gpu(&o, NULL, n, n, value, gradient, NULL);
            if (n == 1) assert_true(value[0] == 0 && gradient[0] == 0);
            if (n == 2) assert_true(compare(&o, NULL, 2, 2, value, gradient) <= tolerance(single));
            by_gpu(&o, x, 2, 0, value, gradient, NULL);
            assert_true(value[0] == 0 && value[1] == 0);
        }
}

/* Coincident points and a large offset: what coordinates hold is kept. */
static void offset_and_coincidence(void **state)
{
    (void)state;
    for (int single = 0; single < 2; single++) {
        const ff_sum_opts o = options("1/r", single);
        fill("uniform", 1000, 3);
        for (int i = 0; i < 3000; i++) x[i] = 1e7 + 0.001 * floor(100 * x[i]);
        for (int i = 0; i < 300; i++) x[2000 + i] = x[i]; /* a hundred points twice or more */
        by_gpu(&o, NULL, 1000, 1000, value, gradient, NULL);
        const double e = compare(&o, NULL, 1000, 1000, value, gradient);
        if (!(e <= (single ? 1e-3 : 1e-6))) fail_msg("single %d: error %g", single, e);
    }
}

static double dot(const double *a, const double *b, int n)
{
    double s = 0;
    for (int i = 0; i < n; i++) s += a[i] * b[i];
    return s;
}

/* The adjoint is the transpose of the operator as it is computed: <cot, A q> = <A^T cot, q>, far field included. */
static void adjoint_is_the_transpose(void **state)
{
    (void)state;
    static double cot[9 * MOST], cot_g[27 * MOST], d_q[9 * MOST];
    const int n = n_points < 3000 ? n_points : 3000, n_t = 2 * n / 3;
    for (int variant = 0; variant < 8; variant++)
        for (int k = 0; k < N_KERNELS; k++) {
            const bool single = variant & 1, far = variant & 2, apart = variant & 4;
            ff_sum_opts o = options(kernels[k], single);
            ff_sum_cuda *s = NULL;
            o.adjoint = true;
            o.theta = far ? 0.7 : 0;
            o.order = 4;
            if (left_out(k, variant, 8)) continue;
            const bool stokes = o.kernel == FF_SUM_STOKESLET;
            const int targets = apart ? n_t : n, n_v = targets * n_out_of(&o), n_g = n_v * o.dim;
            fill("uniform", n, o.dim);
            assert_int_equal(ff_generate("sphere", SEED, 0, n_t, o.dim, xt), FF_OK);
            for (int i = 0; i < n_v; i++) cot[i] = 2 * ff_rng_uniform(SEED, 3, (uint64_t)i) - 1;
            for (int i = 0; i < n_g; i++) cot_g[i] = stokes ? 0 : 0.1 * ff_rng_uniform(SEED, 4, (uint64_t)i);
            double *d_xt = apart ? to_device(xt, n_t * o.dim) : NULL, *d_x = to_device(x, n * o.dim);
            double *d_in = to_device(q, n * n_in_of(&o)), *d_v = poisoned(n_v), *d_g = poisoned(n_g);
            double *d_cv = to_device(cot, n_v), *d_cg = to_device(cot_g, n_g),
                   *d_out = poisoned(n * n_in_of(&o));
            if (ff_sum_cuda_create(d_xt, n_t, d_x, n, &o, NULL, &s) != FF_OK) fail_msg("%s", ff_error_text());
            assert_int_equal(ff_sum_cuda_apply(s, d_in, d_v, d_g), FF_OK);
            assert_int_equal(ff_sum_cuda_adjoint(s, d_cv, stokes ? NULL : d_cg, d_out), FF_OK);
            CU(cudaDeviceSynchronize());
            ff_sum_cuda_destroy(&s);
            to_host(value, d_v, n_v), to_host(gradient, d_g, n_g), to_host(d_q, d_out, n * n_in_of(&o));
            CU(cudaFree(d_x));
            CU(cudaFree(d_in));
            CU(cudaFree(d_cv));
            CU(cudaFree(d_cg));
            if (d_xt != NULL) CU(cudaFree(d_xt));
            const double left = dot(cot, value, n_v) + dot(cot_g, gradient, n_g),
                         right = dot(d_q, q, n * n_in_of(&o));
            const double scale = sqrt(dot(cot, cot, n_v) * dot(value, value, n_v)) +
                                 sqrt(dot(cot_g, cot_g, n_g) * dot(gradient, gradient, n_g));
            /* Rounding of pairs; float32: densities and cotangents are rounded too. */
            if (!(fabs(left - right) <= (single ? 1e-5 : 1e-9) * scale))
                fail_msg("%s, variant %d: %.12g and %.12g, scale %g", kernels[k], variant, left, right,
                         scale);
        }
}

/* Derivatives by positions of L = sum cot value, direct and far, against those of direct sums on the CPU. */
static void derivatives_by_positions(void **state)
{
    (void)state;
    static double cot[3 * MOST], d_x[3 * MOST], d_t[3 * MOST];
    const int n = n_points < 1500 ? n_points : 1500;
    for (int variant = 0; variant < 4; variant++)
        for (int k = 0; k < N_KERNELS; k++) {
            const bool far = variant & 1, apart = variant & 2;
            ff_sum_opts o = options(kernels[k], false);
            ff_sum_cuda *s = NULL;
            if (o.dipole || left_out(k, variant, 4)) continue;
            o.adjoint = true;
            o.gradient = false;
            o.theta = far ? 0.5 : 0;
            o.order = 6;
            const int n_out = n_out_of(&o), dim = o.dim;
            fill("uniform", n, dim);
            assert_int_equal(ff_generate("sphere", SEED, 0, n, dim, xt), FF_OK);
            for (int i = 0; i < n * n_out; i++) cot[i] = 2 * ff_rng_uniform(SEED, 3, (uint64_t)i) - 1;
            double *d_xt = apart ? to_device(xt, n * dim) : NULL, *d_xs = to_device(x, n * dim);
            double *d_q = to_device(q, n * n_out), *d_c = to_device(cot, n * n_out);
            double *d_dt = apart ? poisoned(n * dim) : NULL, *d_ds = poisoned(n * dim);
            assert_int_equal(ff_sum_cuda_create(d_xt, n, d_xs, n, &o, NULL, &s), FF_OK);
            assert_int_equal(ff_sum_cuda_adjoint_points(s, d_q, d_c, d_dt, d_ds), FF_OK);
            CU(cudaDeviceSynchronize());
            ff_sum_cuda_destroy(&s);
            to_host(d_x, d_ds, n * dim);
            if (apart) to_host(d_t, d_dt, n * dim);
            if (d_xt != NULL) CU(cudaFree(d_xt));
            CU(cudaFree(d_xs));
            CU(cudaFree(d_q));
            CU(cudaFree(d_c));
            const ff_sum_spec spec = {o.kernel, o.kernel == FF_SUM_STOKESLET ? 0 : 1, true, o.parameter,
                                      false};
            double wrong = 0, size = 0;
            for (int i = 0; i < n; i += n / 25) {
                double e[2][3] = {{0, 0, 0}, {0, 0, 0}}; /* by target i, by source i */
                for (int j = 0; j < n; j++)
                    for (int side = 0; side < 2; side++) {
                        const double *p = side == 0 && apart ? xt : x, *r = side == 1 && apart ? xt : x;
                        const double *from = side == 0 ? q : cot, *to = side == 0 ? cot : q;
                        double d[3] = {0, 0, 0}, out[12] = {0};
                        for (int c = 0; c < dim; c++) d[c] = p[i * dim + c] - r[j * dim + c];
                        ff_sum_pair_f64(&spec, d, from + j * n_out, out);
                        for (int v = 0; v < n_out; v++)
                            for (int c = 0; c < dim; c++)
                                e[side][c] += to[i * n_out + v] * out[n_out + 3 * v + c];
                    }
                for (int c = 0; c < dim; c++) {
                    const double by_source = apart ? e[1][c] : e[0][c] + e[1][c];
                    wrong += pow(d_x[i * dim + c] - by_source, 2), size += by_source * by_source;
                    if (apart) wrong += pow(d_t[i * dim + c] - e[0][c], 2), size += e[0][c] * e[0][c];
                }
            }
            if (!(sqrt(wrong / size) <= (far ? 5e-3 : 1e-9)))
                fail_msg("%s, variant %d: error %g", kernels[k], variant, sqrt(wrong / size));
        }
}

static void equal_bits(void **state)
{
    (void)state;
    ff_sum_opts o = options("1/r", true);
    o.theta = 0.6;
    fill("galaxies", n_points, 3);
    by_gpu(&o, NULL, n_points, n_points, value, gradient, NULL);
    for (int k = 0; k < 3; k++) {
        by_gpu(&o, NULL, n_points, n_points, again, again + MOST, NULL);
        assert_memory_equal(again, value, (size_t)n_points * sizeof *value);
        assert_memory_equal(again + MOST, gradient, 3 * (size_t)n_points * sizeof *value);
    }
}

static void expect_refusal(const double *points, int n, const ff_sum_opts *o, ff_status st, const char *part)
{
    ff_sum_cuda *s = NULL;
    double *d_x = to_device(points, 3 * (int64_t)n);
    assert_int_equal(ff_sum_cuda_create(NULL, 0, d_x, n, o, NULL, &s), st);
    assert_null(s);
    if (strstr(ff_error_text(), part) == NULL)
        fail_msg("message \"%s\", expected \"%s\" in it", ff_error_text(), part);
    ff_error_clear();
    CU(cudaFree(d_x));
}

static void bad_input(void **state)
{
    (void)state;
    ff_sum_opts o = options("1/r", false);
    fill("uniform", 300, 3);
    x[3 * 77 + 1] = NAN;
    expect_refusal(x, 300, &o, FF_E_INPUT, "sources: point 77: y is not finite");
    x[3 * 77 + 1] = 1e19;
    expect_refusal(x, 300, &o, FF_E_INPUT, "along y");
    x[3 * 77 + 1] = 0;
    o = options("1/r^k", false);
    o.parameter = 0;
    expect_refusal(x, 300, &o, FF_E_ARG, "exponent k = 0");
    o = options("yukawa", true);
    o.parameter = -1;
    expect_refusal(x, 300, &o, FF_E_ARG, "kappa = -1");
    o = options("1/r", true);
    o.rtol = 1e-6;
    expect_refusal(x, 300, &o, FF_E_ARG, "out of reach of float32");
}

static void host_memory_balances(void **state)
{
    (void)state;
    assert_int_equal(ff_mem_blocks(), 0);
}

int main(int argc, char **argv)
{
    ff_gpu_or_skip(1);
    is_small = ff_gpu_small(argc, argv);
    if (is_small) n_points = 300;
    const struct CMUnitTest tests[] = {
        {"direct_sums_f64", direct_sums, NULL, NULL, &(sum_part){false, 0}},
        {"direct_sums_f32", direct_sums, NULL, NULL, &(sum_part){true, 0}},
        {"far_field_3_f64", far_field, NULL, NULL, &(sum_part){false, 3}},
        {"far_field_3_f32", far_field, NULL, NULL, &(sum_part){true, 3}},
        {"far_field_4_f64", far_field, NULL, NULL, &(sum_part){false, 4}},
        {"far_field_4_f32", far_field, NULL, NULL, &(sum_part){true, 4}},
        {"far_field_5_f64", far_field, NULL, NULL, &(sum_part){false, 5}},
        {"far_field_5_f32", far_field, NULL, NULL, &(sum_part){true, 5}},
        {"far_field_6_f64", far_field, NULL, NULL, &(sum_part){false, 6}},
        {"far_field_6_f32", far_field, NULL, NULL, &(sum_part){true, 6}},
        cmocka_unit_test(meets_rtol),
        cmocka_unit_test(adjoint_is_the_transpose),
        cmocka_unit_test(derivatives_by_positions),
        {"other_targets_and_densities", other_targets_and_densities, NULL, NULL, &(sum_part){false, 0}},
        {"other_targets_far", other_targets_and_densities, NULL, NULL, &(sum_part){false, 6}},
        cmocka_unit_test(few_points),
        cmocka_unit_test(offset_and_coincidence),
        cmocka_unit_test(equal_bits),
        cmocka_unit_test(bad_input),
        cmocka_unit_test(host_memory_balances),
    };
    return FF_GPU_RUN_TESTS(argc, argv, tests);
}
