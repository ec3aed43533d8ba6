/* A rank's samples by several threads, each with a lane of the backend, and samples that keep their pair lists: losses and
 * weights are those of samples one after the other, bit for bit. Also where a body occurs twice in a batch. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "ff_lanes_case.h"

#include <omp.h>

static void run(bool lanes, int64_t keep, outcome *out)
{
    assert_int_equal(train(ff_comm_self(), lanes, keep, out), FF_OK);
    assert_int_equal(out->r.skipped, 0);
}

static void lanes_and_kept_lists_change_no_bit(void **state)
{
    outcome alone, lanes, kept;
    (void)state;
    omp_set_num_threads(3);
    run(false, 0, &alone);
    assert_int_equal(n_lanes, 0);
    run(true, 0, &lanes);
    assert_int_equal(n_lanes, 3);
    run(true, INT64_C(1) << 40, &kept);
    assert_true(same(&alone, &lanes));
    assert_true(same(&alone, &kept));
    assert_int_equal(alone.jobs, lanes.jobs); /* 11 samples, two lists each */
    assert_true(kept.jobs < lanes.jobs);
    ff_model_destroy(&alone.m);
    ff_model_destroy(&lanes.m);
    ff_model_destroy(&kept.m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(lanes_and_kept_lists_change_no_bit)};
    printf("seeds 3, 5\n");
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed != 0 || ff_mem_blocks() != 0;
}
