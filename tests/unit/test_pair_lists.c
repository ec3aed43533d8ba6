/* Pair lists: the same pairs as the walk, and the same layers as the CPU's stream of tiles. */
#include "ff_eval.h"
#include "ff_random_case.h"
#include "ff_tile_backend.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#define HEAD                                                                                                 \
    "{\"n_spatial_dims\": 3, \"output_field_ranks\": {\"C_p\": 0, \"C_f\": 1},"                              \
    " \"boundary_source_data_ranks\": {\"body\": {\"b\": 0}, \"floor\": {}},"                                \
    " \"reference_length_names\": [\"L\", \"delta\"], \"hidden_layer_sizes\": [12, 9],"                      \
    " \"n_latent_scalars\": 3, \"n_latent_vectors\": 2"

static const ff_random_shape shapes[] = {
    {HEAD ", \"theta\": 1.0, \"leaf_size\": 1, \"expand_far_targets\": true}", {400, 60, -1}, -1},
    {HEAD ", \"theta\": 1.0, \"leaf_size\": 1}", {400, 60, -1}, 80},
    {HEAD ", \"theta\": 1.7, \"leaf_size\": 4}", {350, 70, -1}, -1},
    {HEAD ", \"theta\": 1.3, \"leaf_size\": 5, \"expand_far_targets\": true}", {300, 0, -1}, 44},
    {HEAD ", \"theta\": 0.0, \"leaf_size\": 64}", {90, 20, -1}, 10},
    {HEAD ", \"theta\": 2.5, \"leaf_size\": 64}", {300, 20, -1}, -1},
    {HEAD ", \"theta\": 1.0, \"leaf_size\": 2}", {1, 1, -1}, 1},
};

static ff_status evaluate(const ff_random_shape *s, const ff_pair_backend *b, double **out, int64_t *n,
                          int64_t *pairs)
{
    ff_random_case rc;
    ff_eval *e = NULL;
    ff_eval_opts opts = FF_EVAL_OPTS_INIT;
    opts.backend = b;
    ff_status st = ff_random_case_make(s, 5, 0, 1, &rc);
    *n = rc.n_targets * 4;
    if (st == FF_OK) st = FF_NEW(*out, *n);
    if (st == FF_OK) st = ff_eval_create(ff_comm_self(), rc.c, &opts, &e);
    if (st == FF_OK) st = ff_eval_run(e, *out);
    if (st == FF_OK) *pairs = ff_eval_get_stats(e)->pairs;
    ff_eval_destroy(&e);
    ff_random_case_free(&rc);
    return st;
}

static void lists_give_the_layers_of_the_stream(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof shapes / sizeof shapes[0]; k++) {
        double *a = NULL, *b = NULL, worst = 0, top = 0;
        int64_t n = 0, pairs[2];
        assert_int_equal(evaluate(&shapes[k], NULL, &a, &n, &pairs[0]), FF_OK);
        assert_int_equal(evaluate(&shapes[k], &ff_tile_backend, &b, &n, &pairs[1]), FF_OK);
        for (int64_t i = 0; i < n; i++) {
            worst = fmax(worst, fabs(a[i] - b[i]));
            top = fmax(top, fabs(a[i]));
        }
        /* rows of a target are rounded to float32 once more, and branches are added in another order */
        printf("shape %zu: %lld pairs, difference %.1e of the largest value, used %.2f of 2e-6\n", k,
               (long long)pairs[0], worst / top, worst / top / 2e-6);
        assert_true(pairs[0] == pairs[1]);
        assert_true(top > 0 && worst <= 2e-6 * top);
        ff_free(a);
        ff_free(b);
        assert_int_equal(ff_mem_blocks(), 0);
    }
}

static void failed_allocations_leave_nothing(void **state)
{
    (void)state;
    int64_t n = 0, runs = 0, len, pairs;
    for (bool hit = true; hit; n += 1 + n / 30, runs++) {
        double *out = NULL;
        ff_error_clear();
        ff_mem_fail_at(n + 1);
        ff_status st = evaluate(&shapes[2], &ff_tile_backend, &out, &len, &pairs);
        hit = ff_mem_fault_hit();
        ff_mem_fail_at(0);
        ff_free(out);
        assert_int_equal(st, hit ? FF_E_MEM : FF_OK);
        assert_int_equal(ff_mem_blocks(), 0);
    }
    printf("%lld runs up to allocation %lld\n", (long long)runs, (long long)n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(lists_give_the_layers_of_the_stream),
                                       cmocka_unit_test(failed_allocations_leave_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
