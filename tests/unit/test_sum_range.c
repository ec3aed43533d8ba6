/* Numbers at the ends of what sums take: widths, softening and densities that float32 or float64 cannot hold are refused or
 * give the right answer. Seed 31. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "ff_generate.h"
#include "ff_mem.h"
#include "ff_rng.h"
#include "ff_status.h"
#include "ff_sum.h"

#include <math.h>
#include <string.h>

enum { N = 300 };

static double x[3 * N], y[3 * N], q[4 * N], p[2 * N], u[2 * N], v[2 * N];

static ff_sum_opts options(ff_sum_kernel kernel, bool single)
{
    ff_sum_opts o = FF_SUM_OPTS_INIT;
    o.kernel = kernel;
    o.single = single;
    o.rtol = 1e-3;
    assert_int_equal(ff_generate("uniform", 31, 0, N, 3, x), FF_OK);
    for (int i = 0; i < 4 * N; i++) q[i] = ff_rng_uniform(31, 1, (uint64_t)i) - 0.5;
    return o;
}

/* Status of sums over points scaled by factor; the text names what is wrong. */
static ff_status scaled(const ff_sum_opts *o, double factor, double *out)
{
    ff_sum *s = NULL;
    ff_error_clear();
    for (int i = 0; i < 3 * N; i++) y[i] = x[i] * factor;
    const ff_status st = ff_sum_create(NULL, 0, y, N, o, &s);
    if (st == FF_OK) assert_int_equal(ff_sum_apply(s, q, out, NULL), FF_OK);
    ff_sum_destroy(&s);
    return st;
}

static void widths(void **state)
{
    (void)state;
    static const struct {
        bool single, gradient, dipole;
        double factor;
        ff_status st;
    } tried[] = {{false, false, false, 1e-19, FF_E_INPUT}, {false, false, false, 1e-17, FF_OK},
                 {false, false, false, 4e17, FF_OK},       {false, false, false, 1e19, FF_E_INPUT},
                 {true, false, false, 1e-13, FF_E_INPUT},  {true, false, false, 1e-11, FF_OK},
                 {true, false, false, 1e17, FF_OK},        {true, true, false, 1e13, FF_E_INPUT},
                 {true, false, true, 1e13, FF_E_INPUT},    {true, true, true, 1e8, FF_E_INPUT}};
    for (size_t k = 0; k < sizeof tried / sizeof *tried; k++) {
        ff_sum_opts o = options(FF_SUM_INV_R, tried[k].single);
        o.gradient = tried[k].gradient;
        o.dipole = tried[k].dipole;
        if (o.dipole) o.rtol = 1e-2;
        assert_int_equal(scaled(&o, 1, u), FF_OK);
        assert_int_equal(scaled(&o, tried[k].factor, v), tried[k].st);
        if (tried[k].st == FF_OK)
            for (int i = 0; i < N; i++) /* twice rtol of values about 5: coordinates are rounded otherwise */
                assert_true(fabs(v[i] * tried[k].factor - u[i]) <= 1e-2);
        else
            assert_non_null(strstr(ff_error_text(), "rescale them"));
    }
}

static void softening(void **state)
{
    (void)state;
    static const double refused[] = {0, -1, 1e-200, 1e200, NAN, INFINITY};
    ff_sum_opts o = options(FF_SUM_PLUMMER, false);
    for (int k = 0; k < 6; k++) {
        o.parameter = refused[k];
        assert_int_equal(scaled(&o, 1, u), FF_E_ARG);
        assert_non_null(strstr(ff_error_text(), "softening"));
    }
    o = options(FF_SUM_PLUMMER, true);
    o.parameter = 1e-20; /* its square is none in float32 */
    assert_int_equal(scaled(&o, 1, u), FF_E_ARG);
}

/* Two densities that one float32 cannot hold together, nor alone: values are those of moderate ones, times their size. */
static void densities_in_float32(void **state)
{
    (void)state;
    static const double size[2] = {1e200, 1e-150};
    ff_sum_opts o = options(FF_SUM_YUKAWA, true);
    ff_sum *s = NULL;
    o.n_densities = 2;
    for (int i = 0; i < 2 * N; i++) p[i] = q[i] * size[i % 2];
    assert_int_equal(ff_sum_create(NULL, 0, x, N, &o, &s), FF_OK);
    assert_int_equal(ff_sum_apply(s, q, u, NULL), FF_OK);
    assert_int_equal(ff_sum_apply(s, p, v, NULL), FF_OK);
    ff_sum_destroy(&s);
    double rms = 0;
    for (int i = 0; i < 2 * N; i++) rms += u[i] * u[i];
    rms = sqrt(rms / (2 * N));
    for (int i = 0; i < 2 * N; i++) /* roundings of float32, 300 terms */
        assert_true(fabs(v[i] / size[i % 2] - u[i]) <= 1e-5 * rms);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(widths), cmocka_unit_test(softening),
                                       cmocka_unit_test(densities_in_float32)};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed != 0 || ff_mem_blocks() != 0;
}
