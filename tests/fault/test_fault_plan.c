/* The n-th allocation fails, n = 1, 2, ... until a run passes: each run returns FF_E_MEM and leaks nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "farfield_plan.h"
#include "ff_mem.h"
#include "ff_plan.h"
#include "ff_test_points.h"

#include <omp.h>

enum { SEED = 29, N = 150 };

/* Tree, counts with work, plan, leaf work, validation and bfs ids. */
static ff_status run(const double *x, int leaf_size)
{
    ff_status st = FF_OK;
    ff_tree *t = NULL;
    ff_plan *p = NULL;
    ff_subtree *block = NULL;
    int64_t n_blocks, work[2 * N];
    ff_dtt_counts counts;
    ff_tree_opts to = FF_TREE_OPTS_INIT;
    to.leaf_size = leaf_size;
    FF_GO(ff_tree_create_f64(x, N, 3, &to, NULL, &t));
    FF_GO(ff_topo_blocks(N, leaf_size, leaf_size > 32 ? leaf_size : 32, &block, &n_blocks));
    FF_GO(ff_dtt_count_range(t, t, 1.0, true, 0, N, &counts, block, n_blocks, work));
    FF_GO(ff_plan_create(t, t, NULL, &p));
    FF_GO(ff_plan_leaf_work(p, t, t, work));
    FF_GO(ff_plan_validate(p, t, t));
    FF_GO(ff_tree_bfs_ids(t, work));
done:
    ff_free(block);
    ff_plan_destroy(&p);
    ff_tree_destroy(&t);
    return st;
}

static void every_failed_allocation_is_returned(void **state)
{
    (void)state;
    float *narrow = ff_test_points(POINTS_SPHERE, N, 3, SEED);
    double x[3 * N];
    for (int i = 0; i < 3 * N; i++) x[i] = (double)narrow[i];
    print_message("seed %d\n", SEED);
    for (int k = 0; k < 4; k++) {
        omp_set_num_threads(1 + k / 2);
        int64_t n = 1;
        for (bool hit = true; hit; n++) {
            ff_error_clear();
            ff_mem_fail_at(n);
            ff_status st = run(x, k % 2 ? 4 : 1);
            hit = ff_mem_fault_hit();
            ff_mem_fail_at(0);
            assert_int_equal(st, hit ? FF_E_MEM : FF_OK);
            assert_int_equal(ff_mem_blocks(), 0);
            assert_int_equal(ff_mem_used(), 0);
        }
        print_message("leaf size %d, %d threads: %lld allocations\n", k % 2 ? 4 : 1, 1 + k / 2,
                      (long long)n - 2);
        assert_true(n > 40);
    }
    free(narrow);
}

static void a_budget_is_respected(void **state)
{
    (void)state;
    float *x = ff_test_points(POINTS_SPHERE, N, 3, SEED);
    ff_tree *t = NULL;
    ff_plan *p = NULL;
    assert_int_equal(ff_tree_build(x, N, 3, 1, NULL, &t), FF_OK);
    ff_mem_set_budget(ff_mem_used() + 20000);
    ff_error_clear();
    assert_int_equal(ff_plan_build(t, t, 1.0, false, 0, N, &p), FF_E_MEM);
    assert_null(p);
    ff_mem_set_budget(0);
    assert_int_equal(ff_plan_build(t, t, 1.0, false, 0, N, &p), FF_OK);
    ff_plan_destroy(&p);
    ff_tree_destroy(&t);
    free(x);
    assert_int_equal(ff_mem_blocks(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_failed_allocation_is_returned),
                                       cmocka_unit_test(a_budget_is_respected)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
