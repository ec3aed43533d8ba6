/* Arrays of exact sums: order, threads and the two words. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ff_rng.h"
#include "ff_sums.h"

enum { N = 20000, ROUNDS = 3000 };

static float term(int64_t round, int64_t i)
{
    double u = 2 * ff_rng_uniform(5, (uint64_t)round, (uint64_t)i) - 1;
    return (float)(u * ldexp(1, (int)(i % 50) - 30)); /* 2^-30 .. 2^19 */
}

/* Rounds in two orders, one of them by threads: equal values, right to the unit. */
static void order_does_not_matter(void **state)
{
    (void)state;
    ff_sums *a = NULL, *b = NULL;
    float *v = NULL;
    enum { SOME = 100 }; /* the first of every stripe's entries are enough to compare with plain sums */
    long double plain[SOME] = {0};
    assert_int_equal(ff_sums_create(N, &a), FF_OK);
    assert_int_equal(ff_sums_create(N, &b), FF_OK);
    assert_int_equal(FF_NEW(v, (size_t)N), FF_OK);
    for (int64_t r = 0; r < ROUNDS; r++) {
        for (int64_t i = 0; i < SOME; i++) plain[i] += (long double)term(r, i);
        for (int64_t i = 0; i < SOME; i++) v[i] = term(r, i);
        ff_sums_add_f32(a, 0, SOME, v);
    }
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t r = ROUNDS - 1; r >= 0; r--)
        for (int64_t i = 0; i < SOME; i++) ff_sums_add_one(b, i, (double)term(r, i));
    for (int64_t i = 0; i < SOME; i++) {
        assert_true(ff_sums_value(a, i) == ff_sums_value(b, i));
        /* each term is a float: what rounding to 2^-72 leaves of 3000 terms, and one rounding to double */
        double err = fabs(ff_sums_value(a, i) - (double)plain[i]);
        assert_true(err <= ROUNDS * 0x1p-72 + 0x1p-52 * fabs((double)plain[i]));
    }
    ff_free(v);
    ff_sums_destroy(&a);
    ff_sums_destroy(&b);
}

static void long_arrays_by_threads(void **state)
{
    (void)state;
    ff_sums *a = NULL, *b = NULL;
    assert_int_equal(ff_sums_create(N, &a), FF_OK);
    assert_int_equal(ff_sums_create(N, &b), FF_OK);
    float *v = ff_mem_alloc(N, sizeof *v);
    for (int64_t r = 0; r < 40; r++) {
        for (int64_t i = 0; i < N; i++) v[i] = term(r, i);
        ff_sums_add_f32(a, 0, N, v);
    }
    ff_free(v);
#pragma omp parallel num_threads(4)
    {
        double *w = ff_mem_alloc(N, sizeof *w);
#pragma omp for schedule(dynamic, 1)
        for (int64_t r = 0; r < 40; r++) {
            for (int64_t i = 0; i < N; i++) w[i] = (double)term(r, i);
            ff_sums_add_f64(b, 0, 9000, w);
            ff_sums_add_f64(b, 9000, N - 9000, w + 9000);
        }
        ff_free(w);
    }
    assert_int_equal(ff_sums_allreduce(ff_comm_self(), b), FF_OK);
    for (int64_t i = 0; i < N; i++) assert_true(ff_sums_value(a, i) == ff_sums_value(b, i));
    for (int64_t i = 0; i < N; i++) { /* words move an entry */
        int64_t w[2];
        ff_sums_get_words(a, i, w);
        w[0] = -w[0], w[1] = -w[1];
        ff_sums_put_words(b, i, w);
        assert_true(ff_sums_value(b, i) == 0);
    }
    ff_sums_clear(a);
    assert_true(ff_sums_value(a, 7) == 0);
    ff_sums_destroy(&a);
    ff_sums_destroy(&b);
}

static void out_of_range_is_never_a_number(void **state)
{
    (void)state;
    static const double bad[] = {0x1p27, -0x1p27, 1e300, -1e300, INFINITY, NAN};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++)
        for (int one = 0; one < 2; one++) {
            ff_sums *s = NULL;
            assert_int_equal(ff_sums_create(3, &s), FF_OK);
            if (one)
                ff_sums_add_one(s, 1, bad[k]);
            else
                ff_sums_add_f64(s, 1, 1, &bad[k]);
            assert_true(ff_sums_bad(s) && isnan(ff_sums_value(s, 0)));
            ff_sums_destroy(&s);
        }
    ff_sums *s = NULL;
    double large = 0x1p27 - 1;
    assert_int_equal(ff_sums_create(1, &s), FF_OK);
    for (int i = 0; i < 1000; i++) ff_sums_add_f64(s, 0, 1, &large);
    assert_true(ff_sums_value(s, 0) == 1000 * large);
    for (int i = 0; i < 4000; i++) ff_sums_add_f64(s, 0, 1, &large); /* beyond 2^37 */
    assert_true(isnan(ff_sums_value(s, 0)));
    ff_sums_destroy(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_does_not_matter),
        cmocka_unit_test(long_arrays_by_threads),
        cmocka_unit_test(out_of_range_is_never_a_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
