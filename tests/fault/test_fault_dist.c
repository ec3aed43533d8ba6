/* The n-th allocation fails, n = 1, 2, ... until a run passes: the failure comes back as FF_E_MEM, and
 * nothing stays behind. One rank; mpi.dist_fault does the same with one rank of many. */
#include "ff_dist_steps.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

static void every_allocation_may_fail(void **state)
{
    (void)state;
    int64_t n = 0;
    bool hit = true;
    while (hit) {
        ff_dist_steps s = {.fail_phase = FF_DIST_CLOUD, .fail_at = ++n};
        size_t before = ff_mem_blocks();
        ff_status st = ff_dist_steps_run(ff_comm_self(), &s);
        hit = ff_mem_fault_hit();
        ff_mem_fail_at(0);
        ff_dist_steps_drop(&s);
        assert_int_equal(st, hit ? FF_E_MEM : FF_OK);
        if (hit) assert_non_null(strstr(ff_error_text(), "injected"));
        assert_int_equal(ff_mem_blocks(), before);
        ff_error_clear();
    }
    printf("%lld allocations\n", (long long)(n - 1));
    assert_true(n > 50); /* the loop met the steps at all */
}

static void study_allocations_may_fail(void **state)
{
    (void)state;
    ff_dist_steps s = {.node_rows = NULL};
    assert_int_equal(ff_dist_steps_run(ff_comm_self(), &s), FF_OK);
    bool hit = true;
    for (int64_t n = 1; hit; n++) {
        ff_dist_row row[5];
        size_t before = ff_mem_blocks();
        ff_mem_fail_at(n);
        ff_status st = ff_dist_study(s.let, 2, ff_dist_need, ff_dist_weight, 1.0, true, 5, row);
        hit = ff_mem_fault_hit();
        ff_mem_fail_at(0);
        assert_int_equal(st, hit ? FF_E_MEM : FF_OK);
        assert_int_equal(ff_mem_blocks(), before);
        ff_error_clear();
    }
    ff_dist_steps_drop(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(study_allocations_may_fail),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed != 0 || ff_mem_blocks() != 0;
}
