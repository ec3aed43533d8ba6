/* Dual traversal and pair lists on the GPU against those of the CPU: every array equal to the bit. */
#include "gpu_plan_case.h"

#ifndef FF_LARGEST
#define FF_LARGEST 20000
#endif

typedef struct plan_row {
    ff_test_kind kind;
    int64_t n_a, n_b;
    int dim, leaf_a, leaf_b;
    double theta;
} plan_row;

static const plan_row rows[] = {
    {POINTS_UNIFORM, 0, 5, 3, 1, 1, 1.0},          {POINTS_UNIFORM, 5, 0, 3, 1, 4, 1.0},
    {POINTS_UNIFORM, 1, 1, 3, 1, 1, 1.0},          {POINTS_UNIFORM, 2, 1, 2, 1, 1, 1.0},
    {POINTS_UNIFORM, 63, 64, 3, 1, 64, 0.5},       {POINTS_UNIFORM, 64, 65, 3, 4, 4, 1.0},
    {POINTS_UNIFORM, 65, 63, 2, 64, 1, 2.0},       {POINTS_UNIFORM, 1000, 300, 3, 1, 1, 0.5},
    {POINTS_UNIFORM, 1000, 300, 3, 4, 4, 0.5},     {POINTS_UNIFORM, 400, 200, 3, 1, 1, 0.0},
    {POINTS_UNIFORM, 400, 200, 3, 64, 4, 0.0},     {POINTS_UNIFORM, 700, 900, 2, 64, 64, 2.0},
    {POINTS_SPHERE, 1000, 1000, 3, 1, 1, 1.0},     {POINTS_SPHERE, 1000, 40, 3, 4, 4, 1.0},
    {POINTS_SPHERE, 40, 3000, 3, 64, 1, 1.0}, /* lists longer than a window */
    {POINTS_SPHERE, 1000, 1000, 3, 64, 64, 2.0},   {POINTS_SPHERE, 900, 800, 2, 5, 3, 1.3},
    {POINTS_CLUSTERS, 800, 800, 3, 1, 1, 1.0},     {POINTS_CLUSTERS, 800, 800, 3, 4, 64, 2.0},
    {POINTS_CLUSTERS, 300, 800, 2, 4, 1, 0.5},     {POINTS_DUPLICATES, 600, 600, 3, 1, 1, 1.0},
    {POINTS_DUPLICATES, 600, 600, 3, 4, 4, 2.0},   {POINTS_EQUAL, 150, 90, 3, 1, 4, 1.0},
    {POINTS_EQUAL, 150, 90, 2, 64, 1, 0.5},        {POINTS_LINE, 900, 500, 3, 1, 1, 1.0},
    {POINTS_LINE, 900, 500, 2, 4, 4, 1.0},         {POINTS_GRID, 1000, 729, 3, 1, 1, 1.0},
    {POINTS_GRID, 1000, 729, 2, 4, 1, 1.0},        {POINTS_OFFSET, 700, 800, 3, 1, 1, 1.0},
    {POINTS_OFFSET, 700, 800, 3, 8, 2, 0.7},
#if FF_LARGEST >= 20000
    {POINTS_SPHERE, 20000, 1000, 3, 1, 1, 1.0},    {POINTS_SPHERE, 20000, 1000, 3, 4, 4, 1.0},
    {POINTS_SPHERE, 20000, 1000, 3, 64, 64, 1.0},  {POINTS_UNIFORM, 20000, 500, 3, 1, 1, 1.0},
    {POINTS_UNIFORM, 3000, 20000, 3, 1, 1, 0.5},   {POINTS_UNIFORM, 3000, 5, 3, 1, 1, 0.0},
    {POINTS_CLUSTERS, 20000, 20000, 3, 1, 1, 2.0}, {POINTS_GRID, 20000, 300, 2, 1, 4, 1.0},
    {POINTS_EQUAL, 2000, 1500, 3, 1, 1, 1.0}, /* 3e6 near pairs under few nodes */
#endif
};
enum { N_ROWS = sizeof rows / sizeof *rows, SMALL = 2000 };
static bool small;

typedef struct clouds {
    plan_cloud a, b;
} clouds;

/* Row k; with --small of at most SMALL points: more than a window, and several blocks of a sort or a scan. */
static plan_row row_of(int k)
{
    plan_row r = rows[k];
    if (small && r.n_a > SMALL) r.n_a = SMALL;
    if (small && r.n_b > SMALL) r.n_b = SMALL;
    return r;
}

static void clouds_make(ff_cuda_pool *pool, const plan_row *r, clouds *c)
{
    cloud_make(pool, r->kind, r->n_a, r->dim, r->leaf_a, 3, &c->a);
    cloud_make(pool, r->kind, r->n_b, r->dim, r->leaf_b, 4, &c->b);
}

static void clouds_free(ff_cuda_pool *pool, clouds *c)
{
    cloud_free(pool, &c->a);
    cloud_free(pool, &c->b);
}

/* Compares device lists with the host's of the same targets. */
static int64_t check_lists(ff_cuda_pool *pool, const ff_pair_target *t, int n, const plan_cloud *source,
                           double theta, bool expand, const ff_cuda_lists *lists)
{
    ff_pair_lists *h = NULL, *back = NULL;
    check_ok(ff_pair_lists_build(t, n, source->h, theta, expand, &h));
    check_ok(ff_cuda_lists_download(pool, lists, &back));
    same_lists(h, back);
    int64_t pairs = h->pairs;
    ff_pair_lists_destroy(&h);
    ff_pair_lists_destroy(&back);
    return pairs;
}

/* Two clouds on each of two sources, both lists in one traversal: as a layer has them. */
static void lists_are_those_of_the_cpu(void **state)
{
    ff_cuda_pool *pool = NULL;
    (void)state;
    check_ok(ff_cuda_pool_create(NULL, &pool));
    for (int k = 0; k < 2 * N_ROWS; k += small ? 7 : 1) {
        const plan_row row = row_of(k / 2), *r = &row;
        bool expand = k % 2 == 1;
        clouds c;
        clouds_make(pool, r, &c);
        int64_t n_a = r->n_a, n_b = r->n_b, live = ff_cuda_pool_blocks(pool), pairs;
        ff_pair_target h[2] = {host_target(&c.a, 0, n_a), host_target(&c.b, 0, n_b)};
        ff_cuda_target d[2] = {device_target(&c.a, 0, n_a), device_target(&c.b, 0, n_b)};
        ff_cuda_lists_args args[2] = {{d, 2, c.a.d, r->theta, expand}, {d, 2, c.b.d, r->theta, expand}};
        ff_cuda_lists *lists[2];
        check_ok(ff_cuda_lists_build(pool, args, 2, lists));
        pairs = check_lists(pool, h, 2, &c.a, r->theta, expand, lists[0]);
        pairs += check_lists(pool, h, 2, &c.b, r->theta, expand, lists[1]);
        printf("%-10s %6lld %6lld points, %dD, leaves %2d %2d, theta %.1f, %s: %lld pairs, equal\n",
               ff_test_kind_name[r->kind], (long long)n_a, (long long)n_b, r->dim, r->leaf_a, r->leaf_b,
               r->theta, expand ? "expanded" : "far-far ", (long long)pairs);
        ff_cuda_lists_destroy(pool, &lists[0]);
        ff_cuda_lists_destroy(pool, &lists[1]);
        assert_int_equal(ff_cuda_pool_blocks(pool), live);
        clouds_free(pool, &c);
    }
    assert_int_equal(ff_cuda_pool_blocks(pool), 0);
    ff_cuda_pool_destroy(&pool);
    assert_int_equal(ff_mem_blocks(), 0);
}

/* Ranges that end at block borders, as ranks and chunks have them. */
static void ranges_are_those_of_the_cpu(void **state)
{
    static const int pick[] = {5, 8, 12, 13, 15, 18, 21, 29};
    ff_cuda_pool *pool = NULL;
    (void)state;
    check_ok(ff_cuda_pool_create(NULL, &pool));
    for (int k = 0; k < 8 * 3; k += small ? 5 : 1) {
        const plan_row row = row_of(pick[k / 3]), *r = &row;
        clouds c;
        clouds_make(pool, r, &c);
        int64_t begin = ff_topo_border(r->n_a, r->leaf_a, r->n_a * (k % 3) / 3);
        int64_t end = ff_topo_border(r->n_a, r->leaf_a, r->n_a * (k % 3 + 1) / 3);
        ff_pair_target h = host_target(&c.a, begin, end);
        ff_cuda_target d = device_target(&c.a, begin, end);
        for (int expand = 0; expand < 2; expand++) {
            ff_cuda_lists_args args = {&d, 1, c.b.d, r->theta, expand == 1};
            ff_cuda_lists *lists = NULL;
            check_ok(ff_cuda_lists_build(pool, &args, 1, &lists));
            (void)check_lists(pool, &h, 1, &c.b, r->theta, expand == 1, lists);
            ff_cuda_lists_destroy(pool, &lists);
        }
        clouds_free(pool, &c);
    }
    ff_cuda_pool_destroy(&pool);
    assert_int_equal(ff_mem_blocks(), 0);
}

/* A small budget gives many chunks; each has the lists of its range, and together they cover all. */
static void chunks_are_ranges(void **state)
{
    static const int pick[] = {7, 8, 12, 15};
    ff_cuda_pool *pool = NULL;
    (void)state;
    check_ok(ff_cuda_pool_create(NULL, &pool));
    for (int k = 0; k < 8; k += small ? 3 : 1) {
        const plan_row row = row_of(pick[k / 2]), *r = &row;
        clouds c;
        clouds_make(pool, r, &c);
        ff_cuda_target d = device_target(&c.a, 0, r->n_a);
        ff_cuda_lists_args args = {&d, 1, c.a.d, r->theta, k % 2 == 1};
        ff_cuda_density density = {0, 0, 0};
        int n_chunks = 0;
        for (int64_t at = 0; at < r->n_a; n_chunks++) {
            int64_t from = at;
            ff_cuda_lists *lists = NULL;
            check_ok(ff_cuda_lists_next(pool, &args, 600000, &at, &density, &lists));
            assert_true(at > from && at <= r->n_a);
            ff_pair_target h = host_target(&c.a, from, at);
            (void)check_lists(pool, &h, 1, &c.a, r->theta, k % 2 == 1, lists);
            ff_cuda_lists_destroy(pool, &lists);
        }
        printf("%d chunks\n", n_chunks);
        assert_true(n_chunks > 1);
        clouds_free(pool, &c);
    }
    ff_cuda_pool_destroy(&pool);
    assert_int_equal(ff_mem_blocks(), 0);
}

static void check_count(ff_cuda_pool *pool, const clouds *c, const plan_row *r, bool expand, int64_t begin,
                        int64_t end, int64_t budget)
{
    ff_plan *p = NULL;
    ff_dtt_counts counts;
    uint64_t digest = 0;
    check_ok(ff_plan_build(c->a.h, c->b.h, r->theta, expand, begin, end, &p));
    check_ok(
        ff_cuda_plan_count(pool, c->a.d, c->b.d, r->theta, expand, begin, end, budget, &counts, &digest));
    SAME(&p->counts, &counts, 1);
    assert_true(digest == ff_plan_digest(p, c->a.h, c->b.h));
    ff_plan_destroy(&p);
}

/* Any range, also one that cuts leaves, whole and in chunks. */
static void counts_and_digests_are_those_of_the_cpu(void **state)
{
    ff_cuda_pool *pool = NULL;
    (void)state;
    check_ok(ff_cuda_pool_create(NULL, &pool));
    for (int k = small ? 3 : 0; k < 2 * N_ROWS; k += small ? 7 : 1) {
        const plan_row row = row_of(k / 2), *r = &row;
        clouds c;
        clouds_make(pool, r, &c);
        check_count(pool, &c, r, k % 2 == 1, 0, r->n_a, 0);
        check_count(pool, &c, r, k % 2 == 1, r->n_a / 3 + 1 < r->n_a ? r->n_a / 3 + 1 : 0, r->n_a, 0);
        if (r->n_a <= 1000) check_count(pool, &c, r, k % 2 == 1, 0, r->n_a * 2 / 3, 400000);
        clouds_free(pool, &c);
    }
    ff_cuda_pool_destroy(&pool);
    assert_int_equal(ff_mem_blocks(), 0);
}

/* Nodes as in the whole tree, but only points [begin, end): what a rank's own targets look like. */
static ff_tree *tree_in_part(const ff_tree *whole, int64_t begin, int64_t end)
{
    ff_tree *t = NULL;
    check_ok(ff_tree_alloc(whole->dim, whole->leaf_size, whole->n_points, whole->n_nodes,
                           (int32_t)(end - begin), &t));
    memcpy(t->node, whole->node, (size_t)whole->n_nodes * sizeof *t->node);
    memcpy(t->id, whole->id, (size_t)whole->n_nodes * sizeof *t->id);
    memcpy(t->start, whole->start, (size_t)whole->n_nodes * sizeof *t->start);
    memcpy(t->count, whole->count, (size_t)whole->n_nodes * sizeof *t->count);
    memcpy(t->x, whole->x + begin * t->dim, (size_t)((end - begin) * t->dim) * sizeof *t->x);
    memcpy(t->pos, whole->pos + begin, (size_t)(end - begin) * sizeof *t->pos);
    for (int32_t i = 0; i < t->n_nodes; i++) {
        bool held = t->start[i] >= begin && t->start[i] + t->count[i] <= end;
        t->first[i] = held ? (int32_t)(t->start[i] - begin) : -1;
    }
    return t;
}

static void trees_held_in_part(void **state)
{
    ff_cuda_pool *pool = NULL;
    (void)state;
    check_ok(ff_cuda_pool_create(NULL, &pool));
    for (int leaf = 1; leaf <= 4; leaf += 3) {
        plan_row r = {POINTS_SPHERE, 1000, 500, 3, leaf, leaf, 1.0};
        clouds c;
        plan_cloud part;
        clouds_make(pool, &r, &c);
        int64_t begin = ff_topo_border(1000, leaf, 300), end = ff_topo_border(1000, leaf, 800);
        cloud_of_tree(pool, tree_in_part(c.a.h, begin, end), 0, begin, end, &part);
        ff_cuda_target d = device_target(&part, begin, end);
        ff_pair_target h = host_target(&part, begin, end);
        ff_cuda_lists_args args = {&d, 1, c.b.d, 1.0, false};
        ff_cuda_lists *lists = NULL;
        check_ok(ff_cuda_lists_build(pool, &args, 1, &lists));
        (void)check_lists(pool, &h, 1, &c.b, 1.0, false, lists);
        ff_cuda_lists_destroy(pool, &lists);

        ff_error_clear();
        args.source = part.d; /* points that are not held are read */
        args.theta = 0.0;     /* with one point a leaf, distinct points are far at any other */
        assert_int_equal(ff_cuda_lists_build(pool, &args, 1, &lists), FF_E_INTERNAL);
        assert_non_null(strstr(ff_error_text(), "of the source tree, whose points are not held"));
        ff_error_clear();
        args.source = c.b.d;
        d.begin = begin - 64;
        assert_int_equal(ff_cuda_lists_build(pool, &args, 1, &lists), FF_E_INTERNAL);
        assert_non_null(strstr(ff_error_text(), "of the target tree, whose points are not held"));
        ff_error_clear();
        cloud_free(pool, &part);
        clouds_free(pool, &c);
    }
    assert_int_equal(ff_cuda_pool_blocks(pool), 0);
    ff_cuda_pool_destroy(&pool);
    assert_int_equal(ff_mem_blocks(), 0);
}

static void nodes_whose_children_are_not_held(void **state)
{
    ff_cuda_pool *pool = NULL;
    plan_row r = {POINTS_SPHERE, 300, 300, 3, 1, 1, 1.0};
    clouds c;
    (void)state;
    check_ok(ff_cuda_pool_create(NULL, &pool));
    clouds_make(pool, &r, &c);
    ff_cuda_target d = device_target(&c.a, 0, 300);
    ff_cuda_lists_args args = {&d, 1, c.b.d, 1.0, false};
    ff_cuda_lists *lists = NULL;
    for (int target = 0; target < 2; target++) {
        plan_cloud *cut = target ? &c.a : &c.b;
        int32_t right = cut->h->node[1].right;
        cut->h->node[1].right = FF_NODE_CUT;
        check_ok(ff_cuda_put(pool, cut->d->d_node, cut->h->node, 300 * sizeof *cut->h->node));
        ff_error_clear();
        assert_int_equal(ff_cuda_lists_build(pool, &args, 1, &lists), FF_E_INTERNAL);
        assert_non_null(strstr(ff_error_text(), target ? "opens node 1 of the target tree, whose children"
                                                       : "opens node 1 of the source tree, whose children"));
        assert_null(lists);
        cut->h->node[1].right = right;
        check_ok(ff_cuda_put(pool, cut->d->d_node, cut->h->node, 300 * sizeof *cut->h->node));
    }
    ff_error_clear();
    args.theta = -1;
    assert_int_equal(ff_cuda_lists_build(pool, &args, 1, &lists), FF_E_ARG);
    args.theta = 1;
    d.end = 301;
    assert_int_equal(ff_cuda_lists_build(pool, &args, 1, &lists), FF_E_ARG);
    ff_error_clear();
    clouds_free(pool, &c);
    assert_int_equal(ff_cuda_pool_blocks(pool), 0);
    ff_cuda_pool_destroy(&pool);
    assert_int_equal(ff_mem_blocks(), 0);
}

/* Device budgets and host allocations that are refused: one code, nothing left behind. */
static void refused_memory_leaves_nothing(void **state)
{
    ff_cuda_pool *pool = NULL;
    plan_row r = {POINTS_SPHERE, 300, 200, 3, 4, 4, 1.0};
    clouds c;
    int refused = 0;
    (void)state;
    check_ok(ff_cuda_pool_create(NULL, &pool));
    clouds_make(pool, &r, &c);
    ff_cuda_target d = device_target(&c.a, 0, 300);
    ff_cuda_lists_args args = {&d, 1, c.b.d, 1.0, false};
    ff_cuda_lists *lists = NULL;
    int64_t live = ff_cuda_pool_blocks(pool), used = ff_cuda_pool_used(pool);
    size_t host = ff_mem_blocks();
    for (int64_t more = 4096; lists == NULL; more += more / (small ? 2 : 16), refused++) {
        ff_cuda_pool_set_budget(pool, used + more);
        ff_status st = ff_cuda_lists_build(pool, &args, 1, &lists);
        assert_true(st == FF_OK || st == FF_E_MEM);
        assert_true(st == FF_OK || ff_cuda_pool_blocks(pool) == live);
        assert_true(st == FF_OK || ff_mem_blocks() == host);
    }
    ff_cuda_lists_destroy(pool, &lists);
    ff_cuda_pool_set_budget(pool, 0);
    bool hit = true;
    for (int64_t n = 1; hit; n += small ? 4 : 1, refused++) {
        ff_mem_fail_at(n);
        ff_status st = ff_cuda_lists_build(pool, &args, 1, &lists);
        hit = ff_mem_fault_hit();
        ff_mem_fail_at(0);
        assert_int_equal(st, hit ? FF_E_MEM : FF_OK);
        ff_cuda_lists_destroy(pool, &lists);
        assert_int_equal(ff_cuda_pool_blocks(pool), live);
        assert_int_equal(ff_mem_blocks(), host);
    }
    ff_error_clear();
    printf("%d refusals\n", refused - 2);
    clouds_free(pool, &c);
    ff_cuda_pool_destroy(&pool);
    assert_int_equal(ff_mem_blocks(), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(lists_are_those_of_the_cpu),
                                       cmocka_unit_test(ranges_are_those_of_the_cpu),
                                       cmocka_unit_test(chunks_are_ranges),
                                       cmocka_unit_test(counts_and_digests_are_those_of_the_cpu),
                                       cmocka_unit_test(trees_held_in_part),
                                       cmocka_unit_test(nodes_whose_children_are_not_held),
                                       cmocka_unit_test(refused_memory_leaves_nothing)};
    ff_gpu_or_skip(1);
    small = ff_gpu_small(argc, argv);
    return FF_GPU_RUN_TESTS(argc, argv, tests);
}
