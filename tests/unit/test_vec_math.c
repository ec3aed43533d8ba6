/* Float vector functions against the C library in double: relative error in units of 2^-24, over the whole range
 * the kernel can ask for. The plain vectors (no fused multiply-add) are the least accurate kind, so they are tested;
 * the others run the same text. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define real float
#define FF_W 4
#include "ff_vec_plain.h"

#include "ff_vec_math_f32.h"

typedef void (*bundle_fn)(vr *, int);
typedef double (*scalar_fn)(double);

/* n = 3 and n = 1 give the same bits, so one call serves both the value and that check. */
static float value(bundle_fn f, float x)
{
    vr v[BUNDLE], alone[BUNDLE];
    for (int i = 0; i < BUNDLE; i++) v[i] = alone[i] = v_set1(x);
    f(v, BUNDLE);
    f(alone, 1);
    if (!isnan(alone[0][0]))
        assert_memory_equal(&v[2], &alone[0], sizeof(vr)); /* a NaN's sign is the compiler's */
    assert_int_equal(isnan(v[2][0]), isnan(alone[0][0]));
    return v[1][FF_W - 1];
}

static void do_em1(vr *x, int n)
{
    if (n == 1)
        v_em1(x, 1);
    else
        v_em1(x, BUNDLE);
}
static void do_log1p(vr *x, int n)
{
    if (n == 1)
        v_log1p(x, 1);
    else
        v_log1p(x, BUNDLE);
}
static void do_s(vr *x, int n)
{
    if (n == 1)
        v_s(x, 1);
    else
        v_s(x, BUNDLE);
}
static void do_silu2(vr *x, int n)
{
    if (n == 1)
        v_silu2(x, 1);
    else
        v_silu2(x, BUNDLE);
}
static void do_tanh(vr *x, int n)
{
    if (n == 1)
        v_tanh(x, 1);
    else
        v_tanh(x, BUNDLE);
}

static double ref_em1(double x)
{
    return -expm1(-x);
}
static double ref_s(double x)
{
    return -expm1(-x) * log1p(x);
}
static double ref_silu2(double z)
{
    return z / (1.0 + exp2(-z));
}

/* Every 1009th float from lo to hi (both positive), and its negative where the function takes it. */
static void sweep(const char *name, bundle_fn f, scalar_fn ref, float lo, float hi, bool both, double limit)
{
    uint32_t a, b;
    double worst = 0.0, where = 0.0;
    memcpy(&a, &lo, sizeof a);
    memcpy(&b, &hi, sizeof b);
    for (uint32_t bits = a; bits <= b; bits += 1009)
        for (int sign = 0; sign < (both ? 2 : 1); sign++) {
            float x;
            memcpy(&x, &bits, sizeof x);
            x = sign ? -x : x;
            double want = ref((double)x), e = fabs((double)value(f, x) - want) / fabs(want) * 0x1p24;
            if (!(e <= worst)) worst = e, where = (double)x;
        }
    printf("%s: used %.2f of %.1f (units of 2^-24, at %.9g)\n", name, worst, limit, where);
    assert_true(worst <= limit);
}

static void accuracy(void **state)
{
    (void)state;
    /* one unit is a quarter to a half of a unit in the last place: limits of 1 to 2 ulp, a little over what is used */
    sweep("1 - exp(-x)", do_em1, ref_em1, 1e-30f, 1e30f, false, 2.0);
    sweep("log(1 + x)", do_log1p, log1p, 1e-30f, 1e37f, false, 2.5);
    sweep("S(x)", do_s, ref_s, 1e-18f, 1e37f, false, 4.5);
    sweep("tanh(x)", do_tanh, tanh, 1e-30f, 100.0f, true, 3.5);
    sweep("silu2(z), z > 0", do_silu2, ref_silu2, 1e-30f, 1e30f, false, 3.5);
    /* below z = -100 the true value is less than 1e-28; -100 x 2^-100 stands for it */
    sweep("silu2(z), |z| < 99", do_silu2, ref_silu2, 1e-30f, 99.0f, true, 5.5);
}

static void ends_of_the_range(void **state)
{
    (void)state;
    assert_true(value(do_em1, 0.0f) == 0.0f && value(do_log1p, 0.0f) == 0.0f && value(do_s, 0.0f) == 0.0f);
    assert_true(value(do_em1, INFINITY) == 1.0f);
    assert_true(isfinite(value(do_s, INFINITY)) && value(do_s, INFINITY) > 85.0f);
    assert_true(value(do_tanh, INFINITY) == 1.0f && value(do_tanh, -INFINITY) == -1.0f);
    assert_true(value(do_silu2, 0.0f) == 0.0f && value(do_silu2, 1e38f) == 1e38f);
    assert_true(fabsf(value(do_silu2, -1e38f)) < 1e-28f);
    bundle_fn all[] = {do_em1, do_log1p, do_s, do_silu2, do_tanh};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) assert_true(isnan(value(all[k], NAN)));
}

static void clamps_keep_nan(void **state)
{
    (void)state;
    vr nan = v_set1(NAN), one = v_set1(1.0f), two = v_set1(2.0f);
    assert_true(isnan(v_max(one, nan)[0]) && isnan(v_min(one, nan)[3]));
    assert_true(v_max(one, two)[1] == 2.0f && v_min(one, two)[2] == 1.0f && v_sqrt(v_set1(9.0f))[0] == 3.0f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accuracy),
        cmocka_unit_test(ends_of_the_range),
        cmocka_unit_test(clamps_keep_nan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
