/* Trees built on the GPU against those of the CPU: equal to the bit, the order of the points included. */
#include "gpu_plan_case.h"

#include <math.h>

#ifndef FF_LARGEST
#define FF_LARGEST 20000
#endif

static bool small;

static void check_tree(ff_cuda_pool *pool, ff_test_kind kind, int64_t n, int dim, int leaf_size)
{
    float *x = ff_test_points(kind, n, dim, 3);
    ff_tree *h = NULL, *back = NULL;
    ff_cuda_tree *d = NULL;
    int64_t *order = NULL, *order_back = NULL, *d_order = NULL;
    check_ok(FF_NEW(order, n + 1));
    check_ok(FF_NEW(order_back, n + 1));
    check_ok(ff_cuda_alloc(pool, (size_t)n * sizeof *d_order, &d_order));
    float *d_x = to_device(pool, x, (size_t)(n * dim) * sizeof *x);
    check_ok(ff_tree_build(x, n, dim, leaf_size, order, &h));
    check_ok(ff_cuda_tree_build(pool, d_x, n, dim, leaf_size, d_order, &d));
    check_ok(ff_cuda_tree_download(pool, d, &back));
    check_ok(ff_cuda_get(pool, order_back, d_order, (size_t)n * sizeof *order));
    check_ok(ff_cuda_wait(pool));
    same_trees(h, back);
    SAME(order, order_back, n);
    assert_int_equal(d->depth, ff_topo_depth(n, leaf_size));
    ff_tree_destroy(&h);
    ff_tree_destroy(&back);
    ff_cuda_tree_destroy(pool, &d);
    ff_cuda_free(pool, d_x);
    ff_cuda_free(pool, d_order);
    ff_free(order);
    ff_free(order_back);
    free(x);
    assert_int_equal(ff_cuda_pool_blocks(pool), 0);
}

static void trees_are_those_of_the_cpu(void **state)
{
    static const int64_t sizes[] = {0, 1, 2, 3, 5, 63, 64, 65, 1000, FF_LARGEST};
    static const int leaf_sizes[] = {1, 4, 64};
    ff_cuda_pool *pool = NULL;
    int no = 0;
    (void)state;
    check_ok(ff_cuda_pool_create(NULL, &pool));
    for (int kind = 0; kind < POINTS_KINDS; kind++)
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
            for (int dim = 2; dim <= 3; dim++)
                for (int l = 0; l < 3; l++)
                    if (!small || no++ % 13 == 0)
                        check_tree(pool, (ff_test_kind)kind, sizes[k], dim, leaf_sizes[l]);
    ff_cuda_pool_destroy(&pool);
    assert_int_equal(ff_mem_blocks(), 0);
}

static void a_tree_travels_there_and_back(void **state)
{
    ff_cuda_pool *pool = NULL;
    plan_cloud c;
    ff_tree *back = NULL;
    (void)state;
    check_ok(ff_cuda_pool_create(NULL, &pool));
    cloud_make(pool, POINTS_SPHERE, 700, 3, 4, 5, &c);
    check_ok(ff_cuda_tree_download(pool, c.d, &back));
    same_trees(c.h, back);
    ff_tree_destroy(&back);
    cloud_free(pool, &c);
    assert_int_equal(ff_cuda_pool_blocks(pool), 0);
    ff_cuda_pool_destroy(&pool);
}

static void bad_input_is_refused_like_on_the_cpu(void **state)
{
    float x[6] = {0, 1, 2, 3, INFINITY, 5};
    ff_cuda_pool *pool = NULL;
    ff_cuda_tree *d = NULL;
    (void)state;
    check_ok(ff_cuda_pool_create(NULL, &pool));
    float *d_x = to_device(pool, x, sizeof x);
    ff_error_clear();
    assert_int_equal(ff_cuda_tree_build(pool, d_x, 2, 3, 1, NULL, &d), FF_E_INPUT);
    assert_non_null(strstr(ff_error_text(), "point 1: y = inf"));
    assert_null(d);
    assert_int_equal(ff_cuda_tree_build(pool, d_x, 2, 4, 1, NULL, &d), FF_E_ARG);
    assert_int_equal(ff_cuda_tree_build(pool, d_x, 2, 3, 65, NULL, &d), FF_E_ARG);
    assert_int_equal(ff_cuda_tree_build(pool, d_x, -1, 3, 1, NULL, &d), FF_E_ARG);
    ff_error_clear();
    ff_cuda_free(pool, d_x);
    assert_int_equal(ff_cuda_pool_blocks(pool), 0);
    ff_cuda_pool_destroy(&pool);
}

static void refused_memory_leaves_nothing(void **state)
{
    ff_cuda_pool *pool = NULL;
    ff_cuda_tree *d = NULL;
    float *x = ff_test_points(POINTS_UNIFORM, 2000, 3, 1);
    int refused = 0;
    (void)state;
    check_ok(ff_cuda_pool_create(NULL, &pool));
    float *d_x = to_device(pool, x, 6000 * sizeof *x);
    for (int64_t budget = 26 << 10; d == NULL; budget += 16 << 10, refused++) {
        ff_cuda_pool_set_budget(pool, budget);
        ff_status st = ff_cuda_tree_build(pool, d_x, 2000, 3, 1, NULL, &d);
        assert_true(st == FF_OK || st == FF_E_MEM);
        assert_true(st == FF_OK || ff_cuda_pool_blocks(pool) == 1);
        assert_true(ff_cuda_pool_used(pool) <= budget);
    }
    ff_error_clear();
    printf("%d budgets were too small\n", refused - 1);
    assert_true(refused > 5);
    ff_cuda_tree_destroy(pool, &d);
    ff_cuda_free(pool, d_x);
    ff_cuda_pool_destroy(&pool);
    free(x);
    assert_int_equal(ff_mem_blocks(), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(trees_are_those_of_the_cpu),
                                       cmocka_unit_test(a_tree_travels_there_and_back),
                                       cmocka_unit_test(bad_input_is_refused_like_on_the_cpu),
                                       cmocka_unit_test(refused_memory_leaves_nothing)};
    ff_gpu_or_skip(1);
    small = ff_gpu_small(argc, argv);
    return FF_GPU_RUN_TESTS(argc, argv, tests);
}
