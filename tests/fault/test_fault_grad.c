/* The n-th allocation of a whole gradient fails, n = 1, 2, ... in slowly growing steps until a run passes: each run
 * returns FF_E_MEM and leaves nothing behind. */
#include "ff_grad.h"
#include "ff_random_case.h"

#include <omp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

static const ff_random_shape shape = {
    "{\"n_spatial_dims\": 3, \"output_field_ranks\": {\"p\": 0}, \"boundary_source_data_ranks\": {\"a\": "
    "{\"h\": 0}, \"b\": {}},"
    " \"reference_length_names\": [\"L\"], \"hidden_layer_sizes\": [8], \"n_latent_scalars\": 1, "
    "\"n_latent_vectors\": 1,"
    " \"n_communication_hyperlayers\": 1, \"theta\": 1.5, \"leaf_size\": 2}",
    {40, 12, -1},
    30};

static ff_status run(void)
{
    ff_random_case rc;
    ff_eval *e = NULL;
    ff_grad *g = NULL;
    double out[30], bar[30];
    ff_eval_opts opts = FF_EVAL_OPTS_INIT;
    opts.keep = true;
    for (int k = 0; k < 30; k++) bar[k] = 1;
    ff_status st = ff_random_case_make(&shape, 9, 0, 1, &rc);
    if (st == FF_OK) st = ff_eval_create(ff_comm_self(), rc.c, &opts, &e);
    if (st == FF_OK) st = ff_eval_run(e, out);
    if (st == FF_OK) st = ff_grad_create(e, FF_GRAD_ALL, &g);
    if (st == FF_OK) st = ff_grad_run(g, bar);
    ff_grad_destroy(&g);
    ff_eval_destroy(&e);
    ff_random_case_free(&rc);
    return st;
}

static void each_failed_allocation_is_survived(void **state)
{
    (void)state;
    int64_t n = 1, runs = 0;
    omp_set_num_threads(2);
    assert_int_equal(run(), FF_OK);
    for (;; n += 1 + n / 60, runs++) {
        ff_error_clear();
        ff_mem_fail_at(n);
        ff_status st = run();
        bool hit = ff_mem_fault_hit();
        ff_mem_fail_at(0);
        assert_int_equal(ff_mem_blocks(), 0);
        if (!hit) {
            assert_int_equal(st, FF_OK);
            break;
        }
        assert_int_equal(st, FF_E_MEM);
    }
    printf("%lld allocations failed, the last of them number %lld or before\n", (long long)runs,
           (long long)n);
    assert_true(runs > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_failed_allocation_is_survived)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
