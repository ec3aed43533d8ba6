/* The n-th allocation of a whole evaluation fails, n = 1, 2, ... until a run passes: each run returns
 * FF_E_MEM and leaves nothing behind. */
#include "ff_eval.h"
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
    {70, 20, -1},
    30};

static ff_status run(void)
{
    ff_random_case rc;
    ff_eval *e = NULL;
    double out[30];
    ff_eval_opts opts = FF_EVAL_OPTS_INIT;
    ff_status st = ff_random_case_make(&shape, 9, 0, 1, &rc);
    if (st == FF_OK) st = ff_eval_create(ff_comm_self(), rc.c, &opts, &e);
    if (st == FF_OK) st = ff_eval_run(e, out);
    ff_eval_destroy(&e);
    ff_random_case_free(&rc);
    return st;
}

static void each_failed_allocation_is_survived(void **state)
{
    (void)state;
    int64_t n = 0;
    omp_set_num_threads(2);
    assert_int_equal(run(), FF_OK);
    for (;;) {
        ff_error_clear();
        ff_mem_fail_at(++n);
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
    printf("%lld allocations failed in turn\n", (long long)n - 1);
    assert_true(n > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_failed_allocation_is_survived)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
