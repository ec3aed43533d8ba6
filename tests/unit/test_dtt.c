/* The target-major walk against the specification's recursion over node pairs, read literally. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ff_dtt.h"
#include "ff_mem.h"
#include "ff_test_points.h"

#include <omp.h>
#include <string.h>

enum { SEED = 17 };

static void must(ff_status st)
{
    if (st != FF_OK) fail_msg("%s", ff_error_text());
}

typedef struct record {
    int64_t t, s; /* target first: sorted records are the canonical order */
    uint64_t leaf, t_mask, s_mask;
} record;

typedef struct records {
    record *r;
    int64_t n, cap;
    bool ascending;
    int32_t last_t;
} records;

static void add(records *a, int64_t t, int64_t s, uint64_t leaf, uint64_t t_mask, uint64_t s_mask)
{
    must(ff_mem_reserve(&a->r, &a->cap, a->n + 1, sizeof *a->r));
    a->r[a->n++] = (record){t, s, leaf, t_mask, s_mask};
}

static int compare(const void *a, const void *b)
{
    const record *p = a, *q = b;
    if (p->t != q->t) return p->t < q->t ? -1 : 1;
    return p->s < q->s ? -1 : p->s > q->s;
}

/* ---- the specification, every operation rounded to float32 by a volatile store ---- */

static float spec_gap2(const float *a_lo, const float *a_hi, const float *b_lo, const float *b_hi)
{
    volatile float sum = 0.0f;
    for (int d = 0; d < 3; d++) {
        volatile float u = a_lo[d] - b_hi[d], v = b_lo[d] - a_hi[d], g = 0.0f;
        if (u > g) g = u;
        if (v > g) g = v;
        volatile float g2 = g * g;
        sum = sum + g2;
    }
    return sum;
}

typedef struct oracle {
    const ff_tree *t, *s;
    float theta2;
    records *out;
} oracle;

static uint64_t spec_near(const ff_tree *tree, const ff_node *box, int64_t node, float theta2)
{
    uint64_t mask = 0;
    for (int64_t i = 0; i < tree->count[node]; i++) {
        float x[3] = {0.0f, 0.0f, 0.0f};
        memcpy(x, tree->x + (tree->start[node] + i) * tree->dim, (size_t)tree->dim * sizeof *x);
        volatile float d2 = spec_gap2(x, x, box->lo, box->hi);
        d2 = d2 * theta2;
        if (!(d2 > box->diam2)) mask |= UINT64_C(1) << i;
    }
    return mask;
}

static void recurse(const oracle *o, int32_t t, int32_t s)
{
    const ff_node *T = &o->t->node[t], *S = &o->s->node[s];
    volatile float lhs = spec_gap2(T->lo, T->hi, S->lo, S->hi);
    lhs = lhs * o->theta2;
    volatile float a = sqrtf(T->diam2), b = sqrtf(S->diam2);
    volatile float reach = a + b;
    volatile float rhs = reach * reach;
    bool t_leaf = T->right == FF_NODE_LEAF, s_leaf = S->right == FF_NODE_LEAF;
    if (lhs > rhs) {
        add(o->out, t, s, 0, 0, 0);
        return;
    }
    if (t_leaf && s_leaf) {
        uint64_t t_mask = spec_near(o->t, S, t, o->theta2);
        add(o->out, t, s, 1, t_mask, t_mask == 0 ? 0 : spec_near(o->s, T, s, o->theta2));
        return;
    }
    bool split_t = !t_leaf && (s_leaf || T->diam2 >= S->diam2);
    bool split_s = !s_leaf && (t_leaf || S->diam2 >= T->diam2);
    int32_t ts[2] = {split_t ? t + 1 : t, T->right}, ss[2] = {split_s ? s + 1 : s, S->right};
    for (int i = 0; i < 1 + split_t; i++)
        for (int j = 0; j < 1 + split_s; j++) recurse(o, ts[i], ss[j]);
}

/* ---- the walk ---- */

static ff_status collect(void *ctx, const ff_dtt_lists *l)
{
    records *a = ctx;
    if (l->n_far == 0 && l->n_leaf == 0) a->ascending = false; /* such a node is not to be emitted */
    if (a->n > 0 && l->t <= a->last_t) a->ascending = false;
    a->last_t = l->t;
    for (int64_t k = 0; k < l->n_far; k++) {
        if (k > 0 && l->far_s[k] <= l->far_s[k - 1]) a->ascending = false;
        add(a, l->t, l->far_s[k], 0, 0, 0);
    }
    for (int64_t k = 0; k < l->n_leaf; k++) {
        if (k > 0 && l->leaf_s[k] <= l->leaf_s[k - 1]) a->ascending = false;
        add(a, l->t, l->leaf_s[k], 1, l->t_mask[k], l->s_mask[k]);
    }
    return FF_OK;
}

static records walk(const ff_tree *t, const ff_tree *s, double theta, int64_t begin, int64_t end)
{
    records a = {.ascending = true};
    must(ff_dtt_walk(t, s, theta, begin, end, collect, &a));
    assert_true(a.ascending);
    if (a.n > 0) qsort(a.r, (size_t)a.n, sizeof *a.r, compare);
    return a;
}

static void expect_same(const records *a, const records *b)
{
    assert_int_equal(a->n, b->n);
    for (int64_t k = 0; k < a->n; k++)
        if (memcmp(&a->r[k], &b->r[k], sizeof a->r[k]) != 0)
            fail_msg("pair %lld: (%lld, %lld) and (%lld, %lld) differ", (long long)k, (long long)a->r[k].t,
                     (long long)a->r[k].s, (long long)b->r[k].t, (long long)b->r[k].s);
}

/* The source-major walk: each row's pairs turned round. */
static ff_status collect_transposed(void *ctx, const ff_dtt_lists *l)
{
    records *a = ctx;
    if (a->n > 0 && l->t <= a->last_t) a->ascending = false;
    a->last_t = l->t;
    for (int64_t k = 0; k < l->n_far; k++) add(a, l->far_s[k], l->t, 0, 0, 0);
    for (int64_t k = 0; k < l->n_leaf; k++) add(a, l->leaf_s[k], l->t, 1, l->t_mask[k], l->s_mask[k]);
    return FF_OK;
}

/* All of it at once, and one node at a time: a node alone is what more_than leaves of its range. */
static void expect_transposed(const records *a, const ff_tree *t, const ff_tree *s, double theta)
{
    records whole = {.ascending = true}, single = {0};
    must(ff_dtt_walk_sources(s, t, theta, 0, s->n_points, 0, collect_transposed, &whole));
    assert_true(whole.ascending);
    if (whole.n > 0) qsort(whole.r, (size_t)whole.n, sizeof *whole.r, compare);
    expect_same(&whole, a);
    for (int32_t i = 0; i < s->n_nodes && s->n_points <= 64; i++) {
        int64_t from = s->start[i], to = from + s->count[i];
        records part = {0};
        must(ff_dtt_walk_sources(s, t, theta, from, to, s->count[i] - 1, collect_transposed, &part));
        for (int64_t k = 0; k < part.n; k++) {
            assert_true(part.r[k].s <= i); /* itself and nodes above */
            if (part.r[k].s == i)
                add(&single, part.r[k].t, i, part.r[k].leaf, part.r[k].t_mask, part.r[k].s_mask);
        }
        ff_free(part.r);
    }
    if (s->n_points <= 64) {
        if (single.n > 0) qsort(single.r, (size_t)single.n, sizeof *single.r, compare);
        expect_same(&single, a);
    }
    ff_free(whole.r);
    ff_free(single.r);
}

/* ---- what the pairs must add up to ---- */

static void expect_coverage(const records *a, const ff_tree *t, const ff_tree *s)
{
    int64_t n_s = s->n_points, n = t->n_points * n_s;
    uint8_t *times = calloc((size_t)n + 1, 1);
    for (int64_t k = 0; k < a->n; k++) {
        record r = a->r[k];
        for (int64_t i = 0; i < t->count[r.t]; i++)
            for (int64_t j = 0; j < s->count[r.s]; j++) {
                /* far, near-near, near-far or far-near: one of them holds for every point pair of the two
                 * nodes */
                int covers = !r.leaf ? 1
                                     : (r.t_mask >> i & 1 && r.s_mask >> j & 1) + !(r.t_mask >> i & 1) +
                                           (r.t_mask >> i & 1 && !(r.s_mask >> j & 1));
                times[(t->start[r.t] + i) * n_s + s->start[r.s] + j] += (uint8_t)covers;
            }
    }
    int64_t wrong = 0;
    for (int64_t k = 0; k < n; k++) wrong += times[k] != 1;
    assert_int_equal(wrong, 0);
    free(times);
}

static ff_dtt_counts count_records(const records *a, const ff_tree *t, const ff_tree *s, bool expand_far)
{
    ff_dtt_counts c = {0};
    for (int64_t k = 0; k < a->n; k++) {
        record r = a->r[k];
        int64_t n_t = __builtin_popcountll(r.t_mask), n_s = __builtin_popcountll(r.s_mask);
        if (!r.leaf) {
            c.far_node_pairs++;
            if (expand_far)
                c.near_far += t->count[r.t];
            else
                c.far_far++;
            continue;
        }
        c.leaf_pairs++;
        c.near_near += n_t * n_s;
        c.near_far += t->count[r.t] - n_t;
        if (n_t > 0) c.far_near += s->count[r.s] - n_s;
    }
    return c;
}

typedef struct cloud {
    ff_tree *tree;
    float *x;
} cloud;

static cloud make(ff_test_kind kind, int64_t n, int dim, int leaf, uint64_t seed)
{
    cloud c = {NULL, ff_test_points(kind, n, dim, seed)};
    must(ff_tree_build(c.x, n, dim, leaf, NULL, &c.tree));
    return c;
}

static void drop(cloud *c)
{
    ff_tree_destroy(&c->tree);
    free(c->x);
}

static void check_case(const ff_tree *t, const ff_tree *s, double theta)
{
    records ours = walk(t, s, theta, 0, t->n_points), spec = {0};
    oracle o = {t, s, (float)(theta * theta), &spec};
    if (t->n_nodes > 0 && s->n_nodes > 0) recurse(&o, 0, 0);
    if (spec.n > 0) qsort(spec.r, (size_t)spec.n, sizeof *spec.r, compare);
    expect_same(&ours, &spec);
    expect_coverage(&ours, t, s);
    expect_transposed(&spec, t, s, theta);
    for (int expand = 0; expand < 2; expand++) {
        ff_dtt_counts got, expected = count_records(&spec, t, s, expand);
        must(ff_dtt_count_range(t, s, theta, expand, 0, t->n_points, &got, NULL, 0, NULL));
        assert_memory_equal(&got, &expected, sizeof got);
    }
    ff_free(ours.r);
    ff_free(spec.r);
}

static const double thetas[] = {0.0, 0.5, 1.0, 2.5};

static void walk_equals_the_recursion(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1, 2, 3, 9, 33, 64, 130};
    static const int leaves[] = {1, 2, 3, 8, 33, 64};
    print_message("seed %d\n", SEED);
    for (int kind = 0; kind < POINTS_KINDS; kind++) {
        for (int k = 0; k < 7 * 6 * 2; k++) {
            int dim = 2 + k % 2;
            cloud c = make((ff_test_kind)kind, sizes[k / 12 % 7], dim, leaves[k / 2 % 6], SEED);
            for (int a = 0; a < 4; a++) check_case(c.tree, c.tree, thetas[a]);
            drop(&c);
        }
    }
}

static void targets_and_sources_may_differ(void **state)
{
    (void)state;
    static const int64_t sizes[] = {0, 1, 40, 131};
    for (int k = 0; k < 4 * 4 * POINTS_KINDS; k++) {
        int dim = 2 + k % 2, kind = k / 16;
        cloud t = make((ff_test_kind)kind, sizes[k % 4], dim, 1 + 4 * (k % 3), SEED);
        cloud s =
            make((ff_test_kind)((kind + k % 3) % POINTS_KINDS), sizes[k / 4 % 4], dim, 1 + k % 7, SEED + 1);
        for (int a = 0; a < 4; a++) check_case(t.tree, s.tree, thetas[a]);
        drop(&t);
        drop(&s);
    }
}

/* The larger sets would take the coverage table too long; the recursion is compared all the same. */
static void larger_sets_equal_the_recursion(void **state)
{
    (void)state;
    for (int kind = 0; kind < POINTS_KINDS; kind++) {
        int64_t n = kind == POINTS_EQUAL || kind == POINTS_DUPLICATES ? 700 : 5000;
        cloud c = make((ff_test_kind)kind, n, 3, 1 + kind % 3, SEED);
        records ours = walk(c.tree, c.tree, 1.0, 0, n), spec = {0};
        oracle o = {c.tree, c.tree, 1.0f, &spec};
        recurse(&o, 0, 0);
        qsort(spec.r, (size_t)spec.n, sizeof *spec.r, compare);
        expect_same(&ours, &spec);
        ff_free(ours.r), ff_free(spec.r);
        drop(&c);
    }
}

/* ---- ranges ---- */

static bool node_meets(const ff_tree *t, int64_t node, int64_t begin, int64_t end)
{
    return t->start[node] < end && t->start[node] + t->count[node] > begin;
}

static void restricted_walks_make_up_the_whole(void **state)
{
    (void)state;
    enum { N = 500 };
    for (int k = 0; k < 12; k++) {
        cloud c = make(k % 2 ? POINTS_SPHERE : POINTS_GRID, N, 3, 1 + k, SEED);
        records whole = walk(c.tree, c.tree, 1.0, 0, N);
        for (int expand = 0; expand < 2; expand++) {
            ff_dtt_counts sum = {0}, all, part;
            must(ff_dtt_count_range(c.tree, c.tree, 1.0, expand, 0, N, &all, NULL, 0, NULL));
            static const int64_t cuts[] = {0, 0, 1, 37, 38, 250, 251, 499, 500};
            for (int p = 0; p + 1 < 9; p++) {
                int64_t begin = cuts[p], end = cuts[p + 1], at = 0;
                records r = walk(c.tree, c.tree, 1.0, begin, end);
                for (int64_t i = 0; i < whole.n;
                     i++) { /* exactly the whole's pairs whose target meets the range */
                    if (!node_meets(c.tree, whole.r[i].t, begin, end) || begin == end) continue;
                    assert_true(at < r.n);
                    assert_memory_equal(&whole.r[i], &r.r[at], sizeof whole.r[i]);
                    at++;
                }
                assert_int_equal(at, r.n);
                must(ff_dtt_count_range(c.tree, c.tree, 1.0, expand, begin, end, &part, NULL, 0, NULL));
                ff_dtt_counts_add(&sum, &part);
                ff_free(r.r);
            }
            assert_memory_equal(&sum, &all, sizeof all);
        }
        ff_free(whole.r);
        drop(&c);
    }
}

static int64_t evaluations(const ff_dtt_counts *c)
{
    return c->near_near + c->near_far + c->far_near + c->far_far;
}

/* Work of blocks: each block's own count, minus far pairs of nodes above it unless they are expanded. */
static void check_work(const ff_tree *t, int64_t largest, bool expand)
{
    ff_subtree *block;
    int64_t n_blocks, sum = 0, far_above = 0, n = t->n_points, work[200];
    must(ff_topo_blocks(n, t->leaf_size, largest, &block, &n_blocks));
    assert_in_range(n_blocks, 2, 200);
    ff_dtt_counts all, own;
    must(ff_dtt_count_range(t, t, 1.0, expand, 0, n, &all, block, n_blocks, work));
    records whole = walk(t, t, 1.0, 0, n);
    for (int64_t i = 0; i < whole.n; i++)
        far_above += t->count[whole.r[i].t] > largest && t->count[whole.r[i].t] > t->leaf_size;
    for (int64_t b = 0; b < n_blocks; b++) {
        int64_t begin = block[b].start, end = begin + block[b].count;
        sum += work[b];
        if (!expand) continue;
        must(ff_dtt_count_range(t, t, 1.0, true, begin, end, &own, NULL, 0, NULL));
        assert_int_equal(work[b], evaluations(&own));
    }
    assert_int_equal(sum, evaluations(&all) - (expand ? 0 : far_above));
    assert_true(expand || t->leaf_size > 1 || largest > 100 || far_above > 0);
    ff_free(whole.r);
    ff_free(block);
}

static void work_of_blocks_adds_up(void **state)
{
    (void)state;
    static const int leaves[] = {1, 4, 64};
    omp_set_num_threads(3);
    for (int k = 0; k < 12; k++) {
        cloud c = make(POINTS_SPHERE, 3000, 3, leaves[k / 4], SEED);
        check_work(c.tree, k % 2 ? 32 : 500, k / 2 % 2); /* 500: blocks that span tasks */
        drop(&c);
    }
    omp_set_num_threads(1);
}

static void threads_leave_counts_unchanged(void **state)
{
    (void)state;
    enum { N = 4000 };
    cloud c = make(POINTS_SPHERE, N, 3, 2, SEED);
    ff_dtt_counts alone, many;
    omp_set_num_threads(1);
    must(ff_dtt_count_range(c.tree, c.tree, 1.0, false, 0, N, &alone, NULL, 0, NULL));
    omp_set_num_threads(5);
    must(ff_dtt_count_range(c.tree, c.tree, 1.0, false, 0, N, &many, NULL, 0, NULL));
    omp_set_num_threads(1);
    assert_memory_equal(&alone, &many, sizeof alone);
    drop(&c);
}

/* ---- errors ---- */

static ff_status refuse(void *ctx, const ff_dtt_lists *l)
{
    int *left = ctx;
    (void)l;
    return (*left)-- > 0 ? FF_OK : ff_fail(FF_E_IO, "refused");
}

static void errors_stop_the_walk(void **state)
{
    (void)state;
    cloud c = make(POINTS_UNIFORM, 100, 3, 1, SEED), flat = make(POINTS_UNIFORM, 100, 2, 1, SEED);
    int left = 5;
    ff_dtt_counts counts;
    assert_int_equal(ff_dtt_walk(c.tree, c.tree, 1.0, 0, 100, refuse, &left), FF_E_IO);
    assert_int_equal(left, -1);
    static const double bad[] = {-1.0, -1e-300, NAN, INFINITY};
    for (int k = 0; k < 4; k++) {
        ff_error_clear();
        assert_int_equal(ff_dtt_walk(c.tree, c.tree, bad[k], 0, 100, refuse, &left), FF_E_ARG);
        assert_int_equal(ff_dtt_count_range(c.tree, c.tree, bad[k], false, 0, 100, &counts, NULL, 0, NULL),
                         FF_E_ARG);
        assert_non_null(strstr(ff_error_text(), "theta"));
    }
    assert_int_equal(ff_dtt_walk(c.tree, flat.tree, 1.0, 0, 100, refuse, &left), FF_E_ARG);
    assert_int_equal(ff_dtt_walk(c.tree, c.tree, 1.0, -1, 100, refuse, &left), FF_E_ARG);
    assert_int_equal(ff_dtt_walk(c.tree, c.tree, 1.0, 0, 101, refuse, &left), FF_E_ARG);
    assert_int_equal(ff_dtt_walk(c.tree, c.tree, 1.0, 60, 50, refuse, &left), FF_E_ARG);
    drop(&c);
    drop(&flat);
}

/* A tree held in part: what lies beyond a cut is an internal error if opened, and invisible if not. */
static void cut_nodes_are_not_opened(void **state)
{
    (void)state;
    enum { N = 256 };
    cloud t = make(POINTS_CLUSTERS, N, 3, 4, SEED), s = make(POINTS_CLUSTERS, N, 3, 4, SEED);
    records whole = walk(t.tree, s.tree, 1.0, 0, N / 8);
    int32_t last = 0; /* the last cluster: far from the first as a whole */
    while (s.tree->count[last] > N / 8) last = s.tree->node[last].right;
    int32_t right = s.tree->node[last].right;
    s.tree->node[last].right = FF_NODE_CUT;
    records cut = walk(t.tree, s.tree, 1.0, 0, N / 8);
    expect_same(&whole, &cut);
    int left = INT32_MAX;
    ff_error_clear();
    assert_int_equal(ff_dtt_walk(t.tree, s.tree, 1.0, 0, N, refuse, &left), FF_E_INTERNAL);
    assert_non_null(strstr(ff_error_text(), "not held"));
    s.tree->node[last].right = right;
    while (s.tree->node[last].right != FF_NODE_LEAF) last++;
    s.tree->first[last] = -1;
    assert_int_equal(ff_dtt_walk(t.tree, s.tree, 1.0, 0, N, refuse, &left), FF_E_INTERNAL);
    ff_free(whole.r), ff_free(cut.r);
    drop(&t);
    drop(&s);
    assert_int_equal(ff_mem_blocks(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(walk_equals_the_recursion),
                                       cmocka_unit_test(targets_and_sources_may_differ),
                                       cmocka_unit_test(larger_sets_equal_the_recursion),
                                       cmocka_unit_test(restricted_walks_make_up_the_whole),
                                       cmocka_unit_test(work_of_blocks_adds_up),
                                       cmocka_unit_test(threads_leave_counts_unchanged),
                                       cmocka_unit_test(errors_stop_the_walk),
                                       cmocka_unit_test(cut_nodes_are_not_opened)};
    omp_set_num_threads(1); /* thousands of tiny cases; threads have their own test */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
