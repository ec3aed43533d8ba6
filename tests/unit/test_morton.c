#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ff_morton.h"
#include "ff_test_points.h"

#include <string.h>

enum { SEED = 5, N = 20000 };

/* The specification read literally, one bit at a time. */
static uint64_t slow_code(const float *x, int dim, const float lo[3], const float hi[3])
{
    int bits = 63 / dim < 62 ? 63 / dim : 62;
    int64_t max = (INT64_C(1) << bits) - 1;
    volatile float max_f = (float)max; /* volatile: every product is rounded to float32 */
    uint64_t code = 0;
    for (int d = 0; d < dim; d++) {
        volatile float extent = hi[d] - lo[d];
        if (extent == 0.0f) extent = 1.0f;
        volatile float v = x[d] - lo[d];
        v = v / extent;
        v = v * max_f;
        int64_t q = (int64_t)v;
        q = q < 0 ? 0 : q > max ? max : q;
        for (int b = 0; b < bits; b++) code |= (uint64_t)(q >> b & 1) << (b * dim + d);
    }
    return code;
}

static void codes_equal_the_definition(void **state)
{
    (void)state;
    print_message("seed %d\n", SEED);
    uint64_t *code = malloc(N * sizeof *code);
    for (int dim = 2; dim <= 3; dim++) {
        for (int kind = 0; kind < POINTS_KINDS; kind++) {
            float lo[3], hi[3], *x = ff_test_points((ff_test_kind)kind, N, dim, SEED);
            ff_morton_box(x, N, dim, lo, hi);
            ff_morton_codes(x, N, dim, lo, hi, code);
            for (int64_t i = 0; i < N; i++) assert_true(code[i] == slow_code(x + i * dim, dim, lo, hi));
            free(x);
        }
    }
    free(code);
}

static void corners_take_the_smallest_and_largest_code(void **state)
{
    (void)state;
    const float x[] = {-3.0f, 2.0f, 5.0f, 7.0f};
    const float y[] = {-3.0f, 2.0f, 0.0f, 5.0f, 7.0f, 1.0f};
    float lo[3], hi[3];
    uint64_t code[2];
    ff_morton_box(x, 2, 2, lo, hi);
    ff_morton_codes(x, 2, 2, lo, hi, code);
    assert_true(code[0] == 0);
    assert_true(code[1] == (UINT64_C(1) << 62) - 1); /* 2^31 as a float, clamped to 2^31 - 1 */
    ff_morton_box(y, 2, 3, lo, hi);
    ff_morton_codes(y, 2, 3, lo, hi, code);
    assert_true(code[0] == 0);
    assert_true(code[1] == (UINT64_C(1) << 63) - 1);
}

static void extent_of_zero_counts_as_one(void **state)
{
    (void)state;
    const float x[] = {4.0f, 4.0f, 4.0f, 4.0f, 4.0f, 4.0f};
    float lo[3], hi[3];
    uint64_t code[2];
    ff_morton_box(x, 2, 3, lo, hi);
    ff_morton_codes(x, 2, 3, lo, hi, code);
    assert_true(code[0] == 0 && code[1] == 0);
}

static void extremes_of_float32(void **state)
{
    (void)state;
    /* Denormals are kept; an extent that overflows to infinity still gives codes in range. */
    const float tiny[] = {0.0f, 0.0f, 1e-45f, 1e-45f}, huge[] = {-3e38f, -3e38f, 3e38f, 3e38f};
    float lo[3], hi[3];
    uint64_t code[2];
    ff_morton_box(tiny, 2, 2, lo, hi);
    ff_morton_codes(tiny, 2, 2, lo, hi, code);
    assert_true(code[0] == 0 && code[1] == (UINT64_C(1) << 62) - 1);
    ff_morton_box(huge, 2, 2, lo, hi);
    ff_morton_codes(huge, 2, 2, lo, hi, code);
    assert_true(code[0] < UINT64_C(1) << 62 && code[1] < UINT64_C(1) << 62);
}

static void box_of_nothing_is_empty(void **state)
{
    (void)state;
    float lo[3], hi[3];
    ff_morton_box(NULL, 0, 3, lo, hi);
    for (int d = 0; d < 3; d++) assert_true(lo[d] == INFINITY && hi[d] == -INFINITY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(codes_equal_the_definition),
                                       cmocka_unit_test(corners_take_the_smallest_and_largest_code),
                                       cmocka_unit_test(extent_of_zero_counts_as_one),
                                       cmocka_unit_test(extremes_of_float32),
                                       cmocka_unit_test(box_of_nothing_is_empty)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
