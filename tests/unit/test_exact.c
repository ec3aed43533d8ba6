/* Sums that do not depend on order. */
#include "ff_exact.h"
#include "ff_rng.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <setjmp.h>

#include <cmocka.h>

enum { N = 4000, SEED = 11 };

static double term(int64_t i)
{
    double u = 2 * ff_rng_uniform(SEED, 0, (uint64_t)i) - 1;
    return ldexp(u,
                 (int)(ff_rng_u64(SEED, 1, (uint64_t)i) % 40) - 30); /* magnitudes over forty powers of two */
}

static void any_order_gives_the_same_bits(void **state)
{
    (void)state;
    ff_exact up = {0}, down = {0}, parts[3] = {{0}};
    for (int64_t i = 0; i < N; i++) {
        ff_exact_add(&up, term(i));
        ff_exact_add(&down, term(N - 1 - i));
        ff_exact_add(&parts[i % 3], term(i));
    }
    parts[0].sum += parts[1].sum + parts[2].sum;
    assert_true(ff_exact_value(&up) == ff_exact_value(&down));
    assert_true(ff_exact_value(&up) == ff_exact_value(&parts[0]));
}

static void the_sum_is_that_of_long_double(void **state)
{
    (void)state;
    ff_exact a = {0};
    long double sum = 0, size = 0;
    for (int64_t i = 0; i < N; i++) {
        ff_exact_add(&a, term(i));
        sum += (long double)term(i);
        size += fabsl((long double)term(i));
    }
    double err = fabs((double)((long double)ff_exact_value(&a) - sum)), tol = (double)size * 0x1p-53;
    printf("error %.2e, %.3f of size x 2^-53 (one rounding at the end)\n", err, err / tol);
    assert_true(err <= tol);
}

static void tiny_and_cancelling_terms_survive(void **state)
{
    (void)state;
    ff_exact a = {0};
    ff_exact_add(&a, 0x1p40);
    ff_exact_add(&a, 0x1p-70);
    ff_exact_add(&a, -0x1p40);
    assert_true(ff_exact_value(&a) == 0x1p-70);
    ff_exact_add(&a, -3.25);
    ff_exact_add(&a, -0x1p-70);
    assert_true(ff_exact_value(&a) == -3.25);
    for (int k = -7; k <= 7; k += 2) { /* half way between two of the upper part's steps */
        ff_exact tie = {0};
        ff_exact_add(&tie, k * 0x1p-17);
        assert_true(ff_exact_value(&tie) == k * 0x1p-17);
    }
}

static void what_does_not_fit_is_not_a_number(void **state)
{
    (void)state;
    const double bad[] = {NAN, HUGE_VAL, -HUGE_VAL, 0x1p46, -0x1p50};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ff_exact a = {0};
        ff_exact_add(&a, 1);
        ff_exact_add(&a, bad[i]);
        assert_true(isnan(ff_exact_value(&a)));
    }
    ff_exact many = {0};
    for (int i = 0; i < 2; i++) ff_exact_add(&many, 0x1.fffffp45);
    assert_true(isnan(ff_exact_value(&many)));
}

static void words_and_value_round_trip(void **state)
{
    (void)state;
    ff_exact a[3] = {{0}};
    ff_exact_add(&a[0], -1.5);
    ff_exact_add(&a[1], 0x1p45);
    ff_exact_add(&a[2], -0x1p-79);
    assert_int_equal(ff_exact_allreduce(ff_comm_self(), a, 3), FF_OK);
    assert_true(ff_exact_value(&a[0]) == -1.5);
    assert_true(ff_exact_value(&a[1]) == 0x1p45);
    assert_true(ff_exact_value(&a[2]) == -0x1p-79);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_order_gives_the_same_bits),
        cmocka_unit_test(the_sum_is_that_of_long_double),
        cmocka_unit_test(tiny_and_cancelling_terms_survive),
        cmocka_unit_test(what_does_not_fit_is_not_a_number),
        cmocka_unit_test(words_and_value_round_trip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
