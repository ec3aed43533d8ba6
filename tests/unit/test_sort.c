#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ff_mem.h"
#include "ff_rng.h"
#include "ff_sort.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>

enum { SEED = 11 };

typedef struct pair {
    uint64_t key;
    int64_t value;
} pair;

static int compare(const void *a, const void *b)
{
    const pair *p = a, *q = b;
    if (p->key != q->key) return p->key < q->key ? -1 : 1;
    return p->value < q->value ? -1 : p->value > q->value; /* values are the places: a stable order */
}

/* Sorts n keys, of which only the bits in mask vary, and compares with qsort. */
static void check(int64_t n, uint64_t mask)
{
    uint64_t *key = malloc((size_t)(n + 1) * sizeof *key), *alone = malloc((size_t)(n + 1) * sizeof *alone);
    int64_t *value = malloc((size_t)(n + 1) * sizeof *value);
    pair *expected = malloc((size_t)(n + 1) * sizeof *expected);
    for (int64_t i = 0; i < n; i++) {
        key[i] = alone[i] =
            (ff_rng_u64(SEED, 0, (uint64_t)i) & mask) | (~mask & UINT64_C(0x123456789abcdef0));
        value[i] = i;
        expected[i] = (pair){key[i], i};
    }
    qsort(expected, (size_t)n, sizeof *expected, compare);
    assert_int_equal(ff_sort_u64(key, value, n), FF_OK);
    assert_int_equal(ff_sort_u64(alone, NULL, n), FF_OK);
    for (int64_t i = 0; i < n; i++) {
        assert_true(key[i] == expected[i].key && value[i] == expected[i].value);
        assert_true(alone[i] == expected[i].key);
    }
    free(key), free(alone), free(value), free(expected);
}

static void sorts_like_a_stable_comparison_sort(void **state)
{
    (void)state;
    static const int64_t sizes[] = {0, 1, 2, 3, 255, 256, 257, 5000, 32768, 70000, 150000};
    static const uint64_t masks[] = {~UINT64_C(0),      7, UINT64_C(0xff00),
                                     UINT64_C(1) << 63, 0, UINT64_C(0x00ff0000000000ff)};
    print_message("seed %d\n", SEED);
    for (int threads = 1; threads <= 3; threads++) {
        omp_set_num_threads(threads);
        for (size_t a = 0; a < sizeof sizes / sizeof *sizes; a++)
            for (size_t m = 0; m < sizeof masks / sizeof *masks; m++) check(sizes[a], masks[m]);
    }
    assert_int_equal(ff_mem_blocks(), 0);
}

static void sorted_and_reversed_input(void **state)
{
    (void)state;
    enum { N = 100000 };
    uint64_t *up = malloc(N * sizeof *up), *down = malloc(N * sizeof *down);
    for (uint64_t i = 0; i < N; i++) {
        up[i] = i * UINT64_C(0x10001);
        down[N - 1 - i] = i * UINT64_C(0x10001);
    }
    assert_int_equal(ff_sort_u64(up, NULL, N), FF_OK);
    assert_int_equal(ff_sort_u64(down, NULL, N), FF_OK);
    for (uint64_t i = 0; i < N; i++) assert_true(up[i] == i * UINT64_C(0x10001) && down[i] == up[i]);
    free(up), free(down);
}

static void failed_allocation_leaves_the_keys(void **state)
{
    (void)state;
    for (int64_t n = 1; n <= 4; n++) {
        uint64_t key[4] = {3, 2, 1, 0};
        int64_t value[4] = {0, 1, 2, 3};
        ff_error_clear();
        ff_mem_fail_at(n);
        ff_status st = ff_sort_u64(key, value, 4);
        bool hit = ff_mem_fault_hit();
        ff_mem_fail_at(0);
        assert_int_equal(st, hit ? FF_E_MEM : FF_OK);
        assert_int_equal(key[0], hit ? 3 : 0);
        assert_int_equal(value[0], hit ? 0 : 3);
        assert_int_equal(hit, n < 4); /* three allocations */
        assert_int_equal(ff_mem_blocks(), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sorts_like_a_stable_comparison_sort),
                                       cmocka_unit_test(sorted_and_reversed_input),
                                       cmocka_unit_test(failed_allocation_leaves_the_keys)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
