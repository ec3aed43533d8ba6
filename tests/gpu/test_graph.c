/* Neighbour graphs built on the GPU against those of the CPU: equal to the bit, order and vectors included. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ff_cuda_graph.h"
#include "ff_gpu_test.h"
#include "ff_mem.h"
#include "head_case.h"

#include <string.h>

static ff_cuda_pool *pool;
static int64_t edges;
static bool small;

static void check_ok(ff_status st)
{
    if (st != FF_OK) fail_msg("%s", ff_error_text());
}

static void same(const void *a, const void *b, int64_t n, size_t size)
{
    if (n > 0) assert_memory_equal(a, b, (size_t)n * size);
}

static void same_graphs(const ff_graph *a, const ff_graph *b)
{
    assert_int_equal(a->n_nodes, b->n_nodes);
    assert_int_equal(a->n_edges, b->n_edges);
    assert_int_equal(a->n_coincident, b->n_coincident);
    assert_true(a->cutoff == b->cutoff);
    same(a->off, b->off, a->n_nodes + 1, sizeof *a->off);
    same(a->dst, b->dst, a->n_edges, sizeof *a->dst);
    same(a->src, b->src, a->n_edges, sizeof *a->src);
    same(a->vec, b->vec, 3 * a->n_edges, sizeof *a->vec);
    assert_int_equal(a->image == NULL, b->image == NULL);
    if (a->image != NULL) same(a->image, b->image, 3 * a->n_edges, sizeof *a->image);
}

/* Every skip-th held point is no node: what a rank holds as ghosts. 0: all are nodes. */
static void check_graph(const double *x, int64_t n, double cutoff, const ff_cell *cell, int64_t skip)
{
    ff_graph *cpu = NULL, *gpu = NULL;
    int32_t *node = calloc((size_t)n + 1, sizeof *node);
    ff_search s;
    ff_graph_points p = {n, n, x, NULL, NULL, 0, 1};
    if (skip > 0) {
        p.node = node, p.n_nodes = 0;
        for (int64_t i = 0; i < n; i++)
            if (i % skip != 0) node[p.n_nodes++] = (int32_t)i;
    }
    check_ok(ff_search_start(cutoff, cell, &s));
    check_ok(ff_search_box(&s, x, n, 0));
    ff_search_finish(&s, n);
    check_ok(ff_graph_build(&p, &s, &cpu));
    check_ok(ff_cuda_graph_build(pool, &p, &s, &gpu));
    same_graphs(cpu, gpu);
    edges += cpu->n_edges;
    ff_graph_destroy(&cpu);
    ff_graph_destroy(&gpu);
    assert_int_equal(ff_cuda_pool_blocks(pool), 0);
    free(node);
}

static void edges_are_those_of_the_cpu(void **state)
{
    const int64_t size[] = {0, 1, 2, 9, 130, small ? 600 : 3000};
    int no = 0;
    static const double cutoff[] = {0.05, 0.2, 0.25, 30};
    (void)state;
    print_message("seed %d\n", HEAD_SEED);
    for (int set = 0; set < HEAD_SETS; set++)
        for (int i = 0; i < 6; i++)
            for (int c = 0; c < (size[i] > 500 ? 3 : 4); c++)
                for (int64_t skip = 0; skip < 4; skip++) {
                    if (small && no++ % 11 != 0) continue;
                    double *x = head_points((head_set)set, size[i]);
                    check_graph(x, size[i], cutoff[c], NULL, skip);
                    free(x);
                }
    print_message("%lld edges\n", (long long)edges);
}

/* Points in the cell, and the same points moved to other cells; cells in which a point sees several of its images. */
static void periodic_edges_are_those_of_the_cpu(void **state)
{
    int no = 0;
    (void)state;
    for (int c = 1; c < HEAD_CELLS; c++)
        for (int set = 0; set < HEAD_SETS; set++)
            for (int moved = 0; moved < 2; moved++) {
                const int64_t n = small ? 100 : 300;
                if (small && no++ % 7 != 0) continue;
                double *x = head_points((head_set)set, n);
                for (int64_t i = 0; moved && i < n; i++)
                    for (int d = 0; d < 3; d++)
                        x[3 * i + d] += (double)(i % 3 - 1) * head_cell(c)->vector[i % 3][d];
                check_graph(x, n, 0.3, head_cell(c), 0);
                check_graph(x, n, 0.75, head_cell(c), 3);
                check_graph(x, 1, 2.3, head_cell(c), 0);
                free(x);
            }
    print_message("%lld edges\n", (long long)edges);
}

/* Where float32 of the tree's frame is coarse beside the cutoff, too. */
static void far_and_coincident_points(void **state)
{
    (void)state;
    const double one[] = {1, 2, 3, 1, 2, 3, 1, 2, 3};
    const int64_t n = small ? 100 : 500;
    double *x = head_points(HEAD_UNIFORM, n);
    check_graph(one, 3, 0.1, NULL, 0);
    for (int64_t i = 0; i < 3 * n; i++) x[i] += 1e9;
    check_graph(x, n, 0.3, NULL, 0);
    x[0] = -1e9;
    check_graph(x, n, 0.3, NULL, 0);
    free(x);
}

static void too_little_memory_is_an_error(void **state)
{
    (void)state;
    double *x = head_points(HEAD_UNIFORM, 1000);
    ff_graph *g = NULL;
    ff_search s;
    const ff_graph_points p = {1000, 1000, x, NULL, NULL, 0, 1};
    check_ok(ff_search_start(0.3, NULL, &s));
    check_ok(ff_search_box(&s, x, 1000, 0));
    ff_search_finish(&s, 1000);
    ff_cuda_pool_set_budget(pool, 1 << 18);
    assert_int_equal(ff_cuda_graph_build(pool, &p, &s, &g), FF_E_MEM);
    assert_null(g);
    assert_int_equal(ff_cuda_pool_blocks(pool), 0);
    ff_error_clear();
    ff_cuda_pool_set_budget(pool, 0);
    free(x);
}

static void memory_balances(void **state)
{
    (void)state;
    ff_cuda_pool_destroy(&pool);
    assert_int_equal(ff_mem_blocks(), 0);
}

int main(int argc, char **argv)
{
    ff_gpu_or_skip(1);
    small = ff_gpu_small(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(edges_are_those_of_the_cpu),
        cmocka_unit_test(periodic_edges_are_those_of_the_cpu),
        cmocka_unit_test(far_and_coincident_points),
        cmocka_unit_test(too_little_memory_is_an_error),
        cmocka_unit_test(memory_balances),
    };
    if (ff_cuda_pool_create(NULL, &pool) != FF_OK) return 1;
    return FF_GPU_RUN_TESTS(argc, argv, tests);
}
