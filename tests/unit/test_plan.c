/* Stored plans and the public header farfield_plan.h. */
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
#include <string.h>

enum { SEED = 23 };

static void must(ff_status st)
{
    if (st != FF_OK) fail_msg("%s", ff_error_text());
}

static ff_tree *tree_of(ff_test_kind kind, int64_t n, int dim, int leaf, uint64_t seed)
{
    ff_tree *t = NULL;
    float *x = ff_test_points(kind, n, dim, seed);
    must(ff_tree_build(x, n, dim, leaf, NULL, &t));
    free(x);
    return t;
}

static ff_plan *plan_of(const ff_tree *t, const ff_tree *s, double theta, bool expand, int64_t begin,
                        int64_t end)
{
    ff_plan *p = NULL;
    must(ff_plan_build(t, s, theta, expand, begin, end, &p));
    return p;
}

/* ---- a plan holds what the walk emits, row by row ---- */

typedef struct reader {
    const ff_plan *plan;
    int64_t row;
    bool equal;
} reader;

static ff_status read_row(void *ctx, const ff_dtt_lists *l)
{
    reader *r = ctx;
    ff_dtt_lists p;
    if (r->row >= r->plan->n_rows) {
        r->equal = false;
        return FF_OK;
    }
    ff_plan_row(r->plan, r->row++, &p);
    r->equal = r->equal && p.t == l->t && p.n_far == l->n_far && p.n_leaf == l->n_leaf &&
               memcmp(p.far_s, l->far_s, (size_t)l->n_far * sizeof *l->far_s) == 0 &&
               memcmp(p.leaf_s, l->leaf_s, (size_t)l->n_leaf * sizeof *l->leaf_s) == 0 &&
               memcmp(p.t_mask, l->t_mask, (size_t)l->n_leaf * sizeof *l->t_mask) == 0 &&
               memcmp(p.s_mask, l->s_mask, (size_t)l->n_leaf * sizeof *l->s_mask) == 0;
    return FF_OK;
}

static void check_plan(const ff_tree *t, const ff_tree *s, double theta, bool expand, int64_t begin,
                       int64_t end)
{
    ff_plan *p = plan_of(t, s, theta, expand, begin, end);
    reader r = {p, 0, true};
    ff_dtt_counts counts;
    must(ff_dtt_walk(t, s, theta, begin, end, read_row, &r));
    assert_true(r.equal);
    assert_int_equal(r.row, p->n_rows);
    must(ff_plan_validate(p, t, s));
    must(ff_dtt_count_range(t, s, theta, expand, begin, end, &counts, NULL, 0, NULL));
    assert_memory_equal(&counts, &p->counts, sizeof counts);
    ff_plan_destroy(&p);
    assert_null(p);
}

static void plan_holds_the_walk(void **state)
{
    (void)state;
    static const int64_t sizes[] = {0, 1, 7, 200, 333};
    print_message("seed %d\n", SEED);
    for (int k = 0; k < 5 * POINTS_KINDS * 2; k++) {
        int dim = 2 + k % 2, kind = k / 2 % POINTS_KINDS;
        int64_t n = sizes[k / 2 / POINTS_KINDS];
        ff_tree *t = tree_of((ff_test_kind)kind, n, dim, 1 + 3 * (k % 4), SEED);
        ff_tree *s = tree_of(POINTS_UNIFORM, 150, dim, k % 3 == 0 ? 1 : 5, SEED + 1);
        check_plan(t, t, 1.0, k % 2, 0, n);
        check_plan(t, s, 0.7, false, 0, n);
        check_plan(s, t, 1.5, true, 0, 150);
        check_plan(t, t, 1.0, k % 2, n / 3, n - n / 5);
        check_plan(t, t, 0.0, false, n / 2, n / 2);
        ff_tree_destroy(&t);
        ff_tree_destroy(&s);
    }
    assert_int_equal(ff_mem_blocks(), 0);
}

/* ---- invariance ---- */

static bool same_plan(const ff_plan *a, const ff_plan *b)
{
    size_t rows = (size_t)a->n_rows;
    if (a->n_rows != b->n_rows || memcmp(&a->counts, &b->counts, sizeof a->counts) != 0) return false;
    if (memcmp(a->far_off, b->far_off, (rows + 1) * sizeof *a->far_off) != 0) return false;
    if (memcmp(a->leaf_off, b->leaf_off, (rows + 1) * sizeof *a->leaf_off) != 0) return false;
    size_t far = (size_t)a->far_off[rows], leaf = (size_t)a->leaf_off[rows];
    return memcmp(a->t_node, b->t_node, rows * sizeof *a->t_node) == 0 &&
           memcmp(a->far_s, b->far_s, far * sizeof *a->far_s) == 0 &&
           memcmp(a->leaf_s, b->leaf_s, leaf * sizeof *a->leaf_s) == 0 &&
           memcmp(a->t_mask, b->t_mask, leaf * sizeof *a->t_mask) == 0 &&
           memcmp(a->s_mask, b->s_mask, leaf * sizeof *a->s_mask) == 0;
}

static void threads_leave_the_plan_unchanged(void **state)
{
    (void)state;
    enum { N = 5000 };
    ff_tree *t = tree_of(POINTS_SPHERE, N, 3, 3, SEED);
    omp_set_num_threads(1);
    ff_plan *alone = plan_of(t, t, 1.0, false, 0, N);
    for (int threads = 2; threads <= 7; threads += 5) {
        omp_set_num_threads(threads);
        ff_plan *p = plan_of(t, t, 1.0, false, 0, N);
        assert_true(same_plan(alone, p));
        assert_true(ff_plan_digest(p, t, t) == ff_plan_digest(alone, t, t));
        ff_plan_destroy(&p);
    }
    omp_set_num_threads(1);
    ff_plan_destroy(&alone);
    ff_tree_destroy(&t);
}

static void digests_of_parts_add_up(void **state)
{
    (void)state;
    enum { N = 777 };
    static const int64_t cuts[] = {0, 1, 13, 13, 400, 401, 776, 777};
    for (int k = 0; k < 8; k++) {
        ff_tree *t = tree_of(k < 4 ? POINTS_SPHERE : POINTS_GRID, N, 3, 1 + 2 * (k % 4), SEED);
        ff_plan *whole = plan_of(t, t, 1.0, k % 2, 0, N);
        uint64_t sum = 0;
        for (int c = 0; c + 1 < 8; c++) {
            ff_plan *part = plan_of(t, t, 1.0, k % 2, cuts[c], cuts[c + 1]);
            sum += ff_plan_digest(part, t, t);
            ff_plan_destroy(&part);
        }
        assert_true(sum == ff_plan_digest(whole, t, t));
        ff_plan_destroy(&whole);
        ff_tree_destroy(&t);
    }
}

static void digest_sees_every_change(void **state)
{
    (void)state;
    enum { N = 200 };
    ff_tree *t = tree_of(POINTS_SPHERE, N, 3, 4, SEED), *other = tree_of(POINTS_SPHERE, N, 3, 4, SEED + 1);
    ff_plan *p = plan_of(t, t, 1.0, false, 0, N), *q = plan_of(t, t, 1.0, true, 0, N);
    ff_plan *o = plan_of(other, other, 1.0, false, 0, N);
    uint64_t digest = ff_plan_digest(p, t, t);
    assert_true(digest != ff_plan_digest(q, t, t));
    assert_true(digest != ff_plan_digest(o, other, other));
    p->t_mask[0] ^= 1;
    assert_true(digest != ff_plan_digest(p, t, t));
    p->t_mask[0] ^= 1, p->s_mask[0] ^= 1;
    assert_true(digest != ff_plan_digest(p, t, t));
    p->s_mask[0] ^= 1, p->far_s[0] += 1;
    assert_true(digest != ff_plan_digest(p, t, t));
    p->far_s[0] -= 1;
    assert_true(digest == ff_plan_digest(p, t, t));
    ff_plan_destroy(&p), ff_plan_destroy(&q), ff_plan_destroy(&o);
    ff_tree_destroy(&t), ff_tree_destroy(&other);
}

/* ---- validation finds damage ---- */

static void expect_broken(const ff_plan *p, const ff_tree *t, const char *what)
{
    ff_error_clear();
    assert_int_equal(ff_plan_validate(p, t, t), FF_E_CHECK);
    if (strstr(ff_error_text(), what) == NULL) fail_msg("'%s' lacks '%s'", ff_error_text(), what);
}

static void validation_finds_damage(void **state)
{
    (void)state;
    enum { N = 120 };
    ff_tree *t = tree_of(POINTS_SPHERE, N, 3, 4, SEED);
    ff_plan *p = plan_of(t, t, 1.0, false, 0, N);
    int64_t far = p->far_off[p->n_rows], leaf = p->leaf_off[p->n_rows], r = 0;
    assert_true(far > 2 && leaf > 2);
    must(ff_plan_validate(p, t, t));
    p->far_off[p->n_rows]--;
    expect_broken(p, t, "not paired");
    p->far_off[p->n_rows]++;
    int32_t kept = p->far_s[far - 1];
    p->far_s[far - 1] = t->n_nodes;
    expect_broken(p, t, "expected 0 to");
    p->far_s[far - 1] = -1;
    expect_broken(p, t, "expected 0 to");
    p->far_s[far - 1] = 0; /* the root: pairs it with everything */
    ff_error_clear();
    assert_int_equal(ff_plan_validate(p, t, t), FF_E_CHECK);
    p->far_s[far - 1] = kept;
    while (p->far_off[r + 1] - p->far_off[r] < 2) r++;
    int32_t *two = p->far_s + p->far_off[r], first = two[0];
    two[0] = two[1], two[1] = first;
    expect_broken(p, t, "ascending");
    first = two[0], two[0] = two[1], two[1] = first;
    p->t_mask[0] |= UINT64_C(1) << 60;
    expect_broken(p, t, "masks");
    p->t_mask[0] &= ~(UINT64_C(1) << 60);
    int32_t node = p->t_node[1];
    p->t_node[1] = p->t_node[0];
    expect_broken(p, t, "ascending");
    p->t_node[1] = node;
    must(ff_plan_validate(p, t, t));
    ff_plan_destroy(&p);
    ff_tree_destroy(&t);
    assert_int_equal(ff_mem_blocks(), 0);
}

/* ---- the public header ---- */

static void public_calls_agree_with_each_other(void **state)
{
    (void)state;
    enum { N = 400 };
    double x[N * 3];
    int64_t order[N], order32[N], sum = 0, work[N];
    float *narrow = ff_test_points(POINTS_SPHERE, N, 3, SEED);
    for (int i = 0; i < N * 3; i++) x[i] = (double)narrow[i] * (1.0 + 1e-12);
    ff_tree_opts to = FF_TREE_OPTS_INIT;
    ff_plan_opts po = FF_PLAN_OPTS_INIT;
    for (int k = 0; k < 6; k++) {
        ff_tree *t = NULL, *t32 = NULL;
        ff_plan *p = NULL, *p32 = NULL;
        ff_dtt_counts counts, again;
        to.leaf_size = 1 + 3 * (k / 2);
        po.expand_far = k % 2;
        must(ff_tree_create_f64(x, N, 3, &to, order, &t));
        must(ff_tree_create(narrow, N, 3, &to, order32, &t32));
        assert_memory_equal(order, order32, sizeof order);
        assert_int_equal(ff_tree_n_points(t), N);
        assert_int_equal(ff_tree_n_nodes(t), ff_topo_nodes(N, to.leaf_size));
        must(ff_plan_create(t, t, &po, &p));
        must(ff_plan_create(t32, t, &po, &p32));
        must(ff_plan_count(t, t, &po, &again));
        ff_plan_counts(p, &counts);
        assert_memory_equal(&counts, &again, sizeof counts);
        assert_true(ff_plan_digest(p, t, t) == ff_plan_digest(p32, t32, t));
        assert_true(ff_plan_n_rows(p) == p->n_rows);
        must(ff_plan_leaf_work(p, t, t, work));
        sum = 0;
        for (int64_t i = 0; i < ff_tree_n_leaves(t); i++) sum += work[i];
        assert_int_equal(sum, counts.near_near + counts.near_far + counts.far_near + counts.far_far);
        ff_plan_destroy(&p), ff_plan_destroy(&p32);
        ff_tree_destroy(&t), ff_tree_destroy(&t32);
    }
    free(narrow);
}

/* A leaf's work is the count over its own points, but for far pairs kept once at a node's first leaf. */
static void leaf_work_is_the_leaf_s_count(void **state)
{
    (void)state;
    enum { N = 150 };
    ff_tree *t = tree_of(POINTS_SPHERE, N, 3, 3, SEED);
    for (int k = 0; k < 4; k++) {
        int64_t work[N], begin = k < 2 ? 0 : 31, end = k < 2 ? N : 140, at = 0;
        ff_plan *p = plan_of(t, t, 1.0, k % 2, begin, end);
        must(ff_plan_leaf_work(p, t, t, work));
        for (int64_t i = 0; i < t->n_nodes; i++) {
            ff_dtt_counts c = {0};
            int64_t a = t->start[i], b = a + t->count[i];
            if (t->node[i].right != FF_NODE_LEAF) continue;
            if (a < begin) a = begin;
            if (b > end) b = end;
            if (a < b) must(ff_dtt_count_range(t, t, 1.0, k % 2, a, b, &c, NULL, 0, NULL));
            assert_int_equal(work[at++], c.near_near + c.near_far + c.far_near + c.far_far);
        }
        assert_int_equal(at, ff_tree_n_leaves(t));
        ff_plan_destroy(&p);
    }
    ff_tree_destroy(&t);
}

static void nodes_can_be_queried(void **state)
{
    (void)state;
    const float x[] = {0, 0, 1, 0, 0, 2, 5, 5};
    ff_tree *t = NULL;
    ff_node_info n;
    must(ff_tree_create(x, 4, 2, NULL, NULL, &t));
    assert_int_equal(ff_tree_n_nodes(t), 7);
    assert_int_equal(ff_tree_n_leaves(t), 4);
    must(ff_tree_node(t, 0, &n));
    assert_true(n.start == 0 && n.count == 4 && n.left == 1 && n.right == 4);
    assert_true(n.lo[0] == 0 && n.hi[0] == 5 && n.hi[1] == 5 && n.hi[2] == 0 && n.diam2 == 50);
    must(ff_tree_node(t, 6, &n));
    assert_true(n.start == 3 && n.count == 1 && n.left == -1 && n.right == -1 && n.diam2 == 0);
    assert_int_equal(ff_tree_node(t, 7, &n), FF_E_ARG);
    assert_int_equal(ff_tree_node(t, -1, &n), FF_E_ARG);
    ff_tree_destroy(&t);
    ff_tree_destroy(&t);
}

static void public_errors_name_the_cause(void **state)
{
    (void)state;
    double x[] = {0, 1, 2, 3, 1e300, 5};
    ff_tree *t = NULL;
    ff_plan *p = NULL;
    ff_tree_opts to = FF_TREE_OPTS_INIT;
    ff_plan_opts po = FF_PLAN_OPTS_INIT;
    ff_error_clear();
    assert_int_equal(ff_tree_create_f64(x, 2, 3, NULL, NULL, &t), FF_E_INPUT);
    assert_non_null(strstr(ff_error_text(), "point 1: y = 1e+300"));
    x[4] = 4;
    to.leaf_size = 65;
    assert_int_equal(ff_tree_create_f64(x, 2, 3, &to, NULL, &t), FF_E_ARG);
    assert_int_equal(ff_tree_create_f64(x, 2, 5, NULL, NULL, &t), FF_E_ARG);
    to = (ff_tree_opts)FF_TREE_OPTS_INIT;
    to.size += 8;
    assert_int_equal(ff_tree_create_f64(x, 2, 3, &to, NULL, &t), FF_E_ARG);
    must(ff_tree_create_f64(x, 2, 3, NULL, NULL, &t));
    po.theta = -2;
    ff_error_clear();
    assert_int_equal(ff_plan_create(t, t, &po, &p), FF_E_ARG);
    assert_non_null(strstr(ff_error_text(), "theta = -2"));
    po = (ff_plan_opts)FF_PLAN_OPTS_INIT;
    po.t_end = 3;
    assert_int_equal(ff_plan_create(t, t, &po, &p), FF_E_ARG);
    assert_null(p);
    ff_tree_destroy(&t);
    assert_int_equal(ff_mem_blocks(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plan_holds_the_walk),           cmocka_unit_test(threads_leave_the_plan_unchanged),
        cmocka_unit_test(digests_of_parts_add_up),       cmocka_unit_test(digest_sees_every_change),
        cmocka_unit_test(validation_finds_damage),       cmocka_unit_test(public_calls_agree_with_each_other),
        cmocka_unit_test(leaf_work_is_the_leaf_s_count), cmocka_unit_test(nodes_can_be_queried),
        cmocka_unit_test(public_errors_name_the_cause)};
    omp_set_num_threads(1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
