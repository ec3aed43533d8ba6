/* Pair lists: the same pairs as the walk, and the same layers as the CPU's stream of tiles. */
#include "ff_eval.h"
#include "ff_list_split.h"
#include "ff_random_case.h"
#include "ff_test_points.h"
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

/* ---- lists in two: early pieces and the rest ---- */

static int32_t id_at(const ff_pair_lists *l, int64_t t, int32_t p)
{
    int32_t s = l->seg_off[t];
    while (s + 1 < l->seg_off[t + 1] && l->seg_cum[s + 1] <= p) s++;
    return l->src[l->seg_src[s] + p - l->seg_cum[s]];
}

static bool is_early(const ff_split_early *e, int32_t id)
{
    return (id >= e->point && id < e->point_end) || (id >= e->node && id < e->node_end);
}

/* The run's own list, read as a kernel reads it, holds the ids of its pieces. */
static void check_run(const ff_pair_lists *l, const ff_split_lists *v, int64_t t, const ff_split_early *e,
                      const ff_split_run *r)
{
    int32_t pairs = ff_split_pairs(v, t, r), at = 0;
    assert_true(r->n_seg > 0 && r->seg >= l->seg_off[t] && r->seg + r->n_seg <= l->seg_off[t + 1]);
    for (int32_t i = 0; i < r->n_seg; i++) {
        int64_t src, next_src;
        int32_t cum, next = pairs;
        ff_split_segment(v, r, i, &src, &cum);
        assert_int_equal(cum, at);
        if (i + 1 < r->n_seg) ff_split_segment(v, r, i + 1, &next_src, &next);
        for (; at < next; at++) {
            int32_t id = l->src[src + at - cum];
            assert_int_equal(id, id_at(l, t, r->piece * FF_LIST_PIECE + at));
            assert_true(!r->early || is_early(e, id));
        }
    }
    assert_int_equal(at, pairs);
}

/* Early pairs of all targets; what is not early has a source that is not, or points and nodes in one segment. */
static int64_t check_split(const ff_pair_lists *l, const ff_split_early *e)
{
    int64_t n_early = 0;
    ff_split_lists v = {l->seg_off, l->seg_cum, l->n_pairs, l->src, l->seg_src};
    for (int64_t t = 0; t < l->n_t; t++) {
        int32_t n = (l->n_pairs[t] + FF_LIST_PIECE - 1) / FF_LIST_PIECE, seg = l->seg_off[t];
        bool before = false;
        for (int32_t k = 0; k < n;) {
            ff_split_run r = ff_split_next(&v, t, e, k, seg);
            assert_true(r.piece == k && r.end > k && r.end <= n && (k == 0 || r.early != before));
            check_run(l, &v, t, e, &r);
            int64_t out = 0, nodes = 0, pairs = ff_split_pairs(&v, t, &r);
            for (int32_t p = 0; p < pairs; p++) {
                int32_t id = id_at(l, t, k * FF_LIST_PIECE + p);
                out += !is_early(e, id);
                nodes += id >= e->node;
            }
            assert_true(r.early || out > 0 || (nodes > 0 && nodes < pairs));
            if (r.early) n_early += pairs;
            before = r.early;
            k = r.end;
            seg = r.next_seg;
        }
    }
    return n_early;
}

static void lists_split_into_early_pieces_and_the_rest(void **state)
{
    (void)state;
    enum { N = 2500 };
    for (int k = 0; k < 8; k++) {
        int leaf = k % 4 == 0 ? 1 : k % 4 == 1 ? 3 : 20;
        float *x = ff_test_points((ff_test_kind)(k % 3), N, 3, 11 + (uint64_t)k);
        double *zero = NULL;
        ff_tree *tree;
        ff_pair_lists *l;
        assert_int_equal(ff_tree_build(x, N, 3, leaf, NULL, &tree), FF_OK);
        assert_int_equal(FF_NEW0(zero, 3 * (tree->n_nodes + N)), FF_OK);
        ff_pair_target target = {tree, zero, zero, 0, 0, N};
        assert_int_equal(ff_pair_lists_build(&target, 1, tree, 0.6, k < 4, &l), FF_OK);
        for (int part = 0; part < 3; part++) {
            ff_subtree s = ff_topo_largest(N, leaf, ff_topo_border(N, leaf, N * part / 3),
                                           ff_topo_border(N, leaf, N * (part + 1) / 3));
            ff_split_early e = {(int32_t)s.start, (int32_t)(s.start + s.count), (int32_t)(N + s.id),
                                (int32_t)(N + s.id + ff_topo_nodes(s.count, leaf))};
            int64_t early = check_split(l, &e);
            printf("case %d, part %d: %lld points, %.1f %% of %lld pairs early\n", k, part,
                   (long long)s.count, 100.0 * (double)early / (double)l->pairs, (long long)l->pairs);
            assert_true(early > 0);
        }
        ff_pair_lists_destroy(&l);
        ff_tree_destroy(&tree);
        ff_free(zero);
        free(x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(lists_give_the_layers_of_the_stream),
                                       cmocka_unit_test(lists_split_into_early_pieces_and_the_rest),
                                       cmocka_unit_test(failed_allocations_leave_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
