#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ff_lbvh.h"
#include "ff_mem.h"
#include "ff_morton.h"
#include "ff_test_points.h"

#include <omp.h>
#include <string.h>

enum { SEED = 3 };

static void must(ff_status st)
{
    if (st != FF_OK) fail_msg("%s", ff_error_text());
}

/* ---- topology against plain recursion ---- */

static int64_t slow_nodes(int64_t n, int leaf)
{
    if (n == 0) return 0;
    return n <= leaf ? 1 : 1 + slow_nodes(n / 2, leaf) + slow_nodes(n - n / 2, leaf);
}

static int slow_depth(int64_t n, int leaf)
{
    if (n <= leaf) return 0;
    int l = slow_depth(n / 2, leaf), r = slow_depth(n - n / 2, leaf);
    return 1 + (l > r ? l : r);
}

static void topology_equals_plain_recursion(void **state)
{
    (void)state;
    static const int leaves[] = {1, 2, 3, 4, 7, 32, 63, 64};
    for (size_t k = 0; k < sizeof leaves / sizeof *leaves; k++) {
        for (int64_t n = 0; n < 700; n++) {
            assert_int_equal(ff_topo_nodes(n, leaves[k]), slow_nodes(n, leaves[k]));
            assert_int_equal(ff_topo_depth(n, leaves[k]), slow_depth(n, leaves[k]));
        }
    }
    assert_int_equal(ff_topo_nodes(INT64_C(1) << 40, 1), (INT64_C(1) << 41) - 1);
    assert_int_equal(ff_topo_nodes((INT64_C(1) << 40) + 1, 1), (INT64_C(1) << 41) + 1);
    assert_int_equal(ff_topo_depth((INT64_C(1) << 40) + 1, 1), 41);
}

/* Walks the tree by its definition and takes the next block where a subtree is small enough. */
static void expect_blocks(int64_t id, int64_t start, int64_t n, int leaf, int64_t largest,
                          const ff_subtree *block, int64_t *at)
{
    if (n <= largest || n <= leaf) {
        assert_int_equal(block[*at].id, id);
        assert_int_equal(block[*at].start, start);
        assert_int_equal(block[*at].count, n);
        (*at)++;
        return;
    }
    expect_blocks(id + 1, start, n / 2, leaf, largest, block, at);
    expect_blocks(id + 1 + slow_nodes(n / 2, leaf), start + n / 2, n - n / 2, leaf, largest, block, at);
}

static void blocks_are_maximal_subtrees(void **state)
{
    (void)state;
    static const int leaves[] = {1, 3, 32, 64};
    static const int64_t largest[] = {1, 2, 5, 32, 1000};
    for (int64_t n = 0; n < 500; n += n < 70 ? 1 : 13) {
        for (int k = 0; k < 20; k++) {
            ff_subtree *block;
            int64_t n_blocks, at = 0;
            must(ff_topo_blocks(n, leaves[k / 5], largest[k % 5], &block, &n_blocks));
            if (n > 0) expect_blocks(0, 0, n, leaves[k / 5], largest[k % 5], block, &at);
            assert_int_equal(n_blocks, at);
            ff_free(block);
        }
    }
}

static void border_is_the_last_block_start(void **state)
{
    (void)state;
    static const int leaves[] = {1, 5, 64};
    for (int64_t n = 0; n < 400; n += 7) {
        for (int k = 0; k < 3; k++) {
            ff_subtree *block;
            int64_t n_blocks, expected = 0, b = 0;
            int largest = leaves[k] > FF_BLOCK_POINTS ? leaves[k] : FF_BLOCK_POINTS;
            must(ff_topo_blocks(n, leaves[k], largest, &block, &n_blocks));
            for (int64_t pos = 0; pos < n; pos++) {
                while (b < n_blocks && block[b].start <= pos) expected = block[b++].start;
                assert_int_equal(ff_topo_border(n, leaves[k], pos), expected);
            }
            assert_int_equal(ff_topo_border(n, leaves[k], n), n);
            assert_int_equal(ff_topo_border(n, leaves[k], n + 5), n);
            ff_free(block);
        }
    }
}

static int64_t most_in(int64_t n, int64_t start, int leaf, int64_t begin, int64_t end)
{
    if (start >= begin && start + n <= end) return n;
    if (n <= leaf) return 0;
    int64_t l = most_in(n / 2, start, leaf, begin, end),
            r = most_in(n - n / 2, start + n / 2, leaf, begin, end);
    return l > r ? l : r;
}

static void the_largest_subtree_of_a_range_is_found(void **state)
{
    (void)state;
    static const int leaves[] = {1, 5, 64};
    for (int64_t n = 1; n < 300; n += 23)
        for (int64_t k = 0; k < 3 * n * n; k += 7) {
            int leaf = leaves[k % 3];
            int64_t begin = k / 3 % n, end = begin + k / 3 / n % (n - begin + 1), id = 0, start = 0, m = n;
            ff_subtree s = ff_topo_largest(n, leaf, begin, end);
            assert_int_equal(s.count, end > begin ? most_in(n, 0, leaf, begin, end) : 0);
            if (s.count == 0) continue;
            assert_true(s.start >= begin && s.start + s.count <= end);
            while (m != s.count || start != s.start) { /* down to it */
                bool right = s.start >= start + m / 2;
                assert_true(m > leaf);
                id += right ? 1 + slow_nodes(m / 2, leaf) : 1;
                start += right ? m / 2 : 0;
                m = right ? m - m / 2 : m / 2;
            }
            assert_int_equal(s.id, id);
        }
    assert_int_equal(ff_topo_largest(0, 1, 0, 0).count, 0);
}

/* ---- built trees ---- */

static void check_order(const ff_tree *t, const float *x, const int64_t *order)
{
    float lo[3], hi[3];
    int64_t n = t->n_points;
    uint64_t *code = malloc((size_t)(n + 1) * sizeof *code);
    uint8_t *seen = calloc((size_t)n + 1, 1);
    ff_morton_box(x, n, t->dim, lo, hi);
    ff_morton_codes(x, n, t->dim, lo, hi, code);
    for (int64_t k = 0; k < n; k++) {
        assert_true(order[k] >= 0 && order[k] < n && !seen[order[k]]);
        seen[order[k]] = 1;
        assert_memory_equal(t->x + k * t->dim, x + order[k] * t->dim, (size_t)t->dim * sizeof *x);
        assert_int_equal(t->pos[k], k);
        if (k == 0) continue;
        uint64_t a = code[order[k - 1]], b = code[order[k]];
        assert_true(a < b || (a == b && order[k - 1] < order[k]));
    }
    free(code);
    free(seen);
}

/* Node i covers [start, start + count); returns the index after its subtree. */
static int64_t check_node(const ff_tree *t, int64_t i, int64_t start, int64_t count)
{
    const ff_node *node = &t->node[i];
    volatile float diam2 = 0.0f;
    assert_int_equal(t->id[i], i);
    assert_int_equal(t->start[i], start);
    assert_int_equal(t->count[i], count);
    assert_int_equal(t->first[i], start);
    for (int d = 0; d < 3; d++) {
        float lo = d < t->dim ? INFINITY : 0.0f, hi = d < t->dim ? -INFINITY : 0.0f;
        for (int64_t k = start; d < t->dim && k < start + count; k++) {
            lo = fminf(lo, t->x[k * t->dim + d]);
            hi = fmaxf(hi, t->x[k * t->dim + d]);
        }
        assert_true(node->lo[d] == lo && node->hi[d] == hi);
        volatile float e = hi - lo, e2 = e * e;
        diam2 = diam2 + e2;
    }
    assert_true(node->diam2 == diam2);
    if (count <= t->leaf_size) {
        assert_int_equal(node->right, FF_NODE_LEAF);
        return i + 1;
    }
    int64_t right = check_node(t, i + 1, start, count / 2);
    assert_int_equal(node->right, right);
    return check_node(t, right, start + count / 2, count - count / 2);
}

static void trees_follow_their_definition(void **state)
{
    (void)state;
    static const int64_t sizes[] = {0, 1, 2, 3, 5, 31, 64, 65, 333};
    static const int leaves[] = {1, 2, 5, 64};
    print_message("seed %d\n", SEED);
    for (int k = 0; k < 9 * 4 * 2 * POINTS_KINDS; k++) {
        int dim = 2 + k % 2, leaf = leaves[k / 2 % 4];
        int64_t n = sizes[k / 8 % 9], order[400];
        float *x = ff_test_points((ff_test_kind)(k / 72), n, dim, SEED);
        ff_tree *t = NULL;
        must(ff_tree_build(x, n, dim, leaf, order, &t));
        assert_int_equal(t->n_nodes, slow_nodes(n, leaf));
        assert_int_equal(t->n_held, n);
        if (n > 0) assert_int_equal(check_node(t, 0, 0, n), t->n_nodes);
        check_order(t, x, order);
        for (int64_t i = 0; i < t->n_nodes; i++) assert_int_equal(ff_tree_find(t, i), i);
        assert_int_equal(ff_tree_find(t, -1), -1);
        assert_int_equal(ff_tree_find(t, t->n_nodes), -1);
        ff_tree_destroy(&t);
        assert_null(t);
        free(x);
    }
    assert_int_equal(ff_mem_blocks(), 0);
}

static bool same_tree(const ff_tree *a, const ff_tree *b)
{
    size_t n = (size_t)a->n_nodes;
    return a->n_nodes == b->n_nodes && memcmp(a->node, b->node, n * sizeof *a->node) == 0 &&
           memcmp(a->start, b->start, n * sizeof *a->start) == 0 &&
           memcmp(a->count, b->count, n * sizeof *a->count) == 0 &&
           memcmp(a->first, b->first, n * sizeof *a->first) == 0 &&
           memcmp(a->id, b->id, n * sizeof *a->id) == 0 &&
           memcmp(a->x, b->x, (size_t)a->n_held * (size_t)a->dim * sizeof *a->x) == 0;
}

static void threads_leave_the_tree_unchanged(void **state)
{
    (void)state;
    enum { N = 70001 };
    float *x = ff_test_points(POINTS_SPHERE, N, 3, SEED);
    ff_tree *alone = NULL;
    omp_set_num_threads(1);
    must(ff_tree_build(x, N, 3, 2, NULL, &alone));
    assert_int_equal(check_node(alone, 0, 0, N), alone->n_nodes);
    for (int threads = 2; threads <= 5; threads += 3) {
        ff_tree *t = NULL;
        omp_set_num_threads(threads);
        must(ff_tree_build(x, N, 3, 2, NULL, &t));
        assert_true(same_tree(alone, t));
        ff_tree_destroy(&t);
    }
    ff_tree_destroy(&alone);
    free(x);
}

/* A rank fills its blocks one by one; together with the nodes above they are the serial tree. */
static void filled_subtrees_equal_the_whole(void **state)
{
    (void)state;
    enum { N = 1000, LEAF = 3 };
    float *x = ff_test_points(POINTS_UNIFORM, N, 3, SEED);
    ff_tree *whole = NULL, *part = NULL;
    ff_subtree *block;
    int64_t n_blocks;
    must(ff_tree_build(x, N, 3, LEAF, NULL, &whole));
    must(ff_topo_blocks(N, LEAF, 40, &block, &n_blocks));
    for (int64_t b = 0; b < n_blocks; b++) {
        ff_subtree s = block[b];
        int32_t nodes = (int32_t)ff_topo_nodes(s.count, LEAF);
        must(ff_tree_alloc(3, LEAF, N, nodes + 2, (int32_t)s.count + 7, &part));
        ff_tree_fill(part, 2, s, whole->x + s.start * 3, 7);
        for (int32_t i = 0; i < nodes; i++) {
            const ff_node *ours = &part->node[i + 2], *theirs = &whole->node[s.id + i];
            assert_memory_equal(ours->lo, theirs->lo, sizeof ours->lo);
            assert_memory_equal(ours->hi, theirs->hi, sizeof ours->hi);
            assert_true(ours->diam2 == theirs->diam2);
            assert_int_equal(part->id[i + 2], s.id + i);
            assert_int_equal(part->start[i + 2], whole->start[s.id + i]);
            assert_int_equal(part->first[i + 2], 7 + part->start[i + 2] - s.start);
            assert_int_equal(ours->right, theirs->right < 0 ? theirs->right : theirs->right - s.id + 2);
        }
        ff_tree_destroy(&part);
    }
    ff_free(block);
    ff_tree_destroy(&whole);
    free(x);
}

/* The reference's numbering by its own rule: the level's inner nodes in frontier order get children (id, id +
 * 1); the next frontier is all left children, then all right children. */
static void bfs_ids_follow_the_reference(void **state)
{
    (void)state;
    enum { MAX = 300 };
    for (int64_t n = 0; n < MAX / 2; n++) {
        int64_t frontier[2 * MAX], next[2 * MAX], start[2 * MAX], count[2 * MAX], bfs[2 * MAX], next_id = 1;
        int64_t n_frontier = n > 0;
        frontier[0] = 0, start[0] = 0, count[0] = n;
        while (n_frontier > 0) {
            int64_t inner = 0, rights[2 * MAX];
            for (int64_t k = 0; k < n_frontier; k++) {
                int64_t f = frontier[k], half = count[f] / 2;
                if (count[f] <= 1) continue;
                start[next_id] = start[f], count[next_id] = half;
                start[next_id + 1] = start[f] + half, count[next_id + 1] = count[f] - half;
                next[inner] = next_id, rights[inner++] = next_id + 1;
                next_id += 2;
            }
            for (int64_t k = 0; k < inner; k++) frontier[k] = next[k], frontier[inner + k] = rights[k];
            n_frontier = 2 * inner;
        }
        float *x = ff_test_points(POINTS_UNIFORM, n, 2, SEED);
        ff_tree *t = NULL;
        must(ff_tree_build(x, n, 2, 1, NULL, &t));
        must(ff_tree_bfs_ids(t, bfs));
        for (int32_t i = 0; i < t->n_nodes; i++) {
            assert_int_equal(start[bfs[i]], t->start[i]);
            assert_int_equal(count[bfs[i]], t->count[i]);
        }
        ff_tree_destroy(&t);
        free(x);
    }
}

static void bad_arguments_are_named(void **state)
{
    (void)state;
    ff_tree *t = NULL;
    float x[9] = {0, 1, 2, 3, 4, 5, 6, NAN, 8};
    ff_error_clear();
    assert_int_equal(ff_tree_build(x, 3, 3, 1, NULL, &t), FF_E_INPUT);
    assert_non_null(strstr(ff_error_text(), "point 2: y = nan"));
    assert_null(t);
    x[7] = 7;
    x[3] = INFINITY;
    ff_error_clear();
    assert_int_equal(ff_tree_build(x, 3, 3, 1, NULL, &t), FF_E_INPUT);
    assert_non_null(strstr(ff_error_text(), "point 1: x = inf"));
    x[3] = 3;
    static const int bad_leaf[] = {0, -1, FF_LEAF_WHOLE_MAX + 1}, bad_dim[] = {0, 1, 4};
    for (int k = 0; k < 3; k++) {
        ff_error_clear();
        assert_int_equal(ff_tree_build(x, 3, 3, bad_leaf[k], NULL, &t), FF_E_ARG);
        assert_non_null(strstr(ff_error_text(), "leaf_size"));
        ff_error_clear();
        assert_int_equal(ff_tree_build(x, 2, bad_dim[k], 1, NULL, &t), FF_E_ARG);
        assert_non_null(strstr(ff_error_text(), "dim"));
    }
    assert_int_equal(ff_tree_build(x, -1, 3, 1, NULL, &t), FF_E_ARG);
    assert_int_equal(ff_tree_build(x, INT64_C(1) << 33, 3, 1, NULL, &t), FF_E_ARG);
    assert_null(t);
    assert_int_equal(ff_mem_blocks(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(topology_equals_plain_recursion),
                                       cmocka_unit_test(blocks_are_maximal_subtrees),
                                       cmocka_unit_test(border_is_the_last_block_start),
                                       cmocka_unit_test(the_largest_subtree_of_a_range_is_found),
                                       cmocka_unit_test(trees_follow_their_definition),
                                       cmocka_unit_test(threads_leave_the_tree_unchanged),
                                       cmocka_unit_test(filled_subtrees_equal_the_whole),
                                       cmocka_unit_test(bfs_ids_follow_the_reference),
                                       cmocka_unit_test(bad_arguments_are_named)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
