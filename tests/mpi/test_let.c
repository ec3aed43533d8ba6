/* The locally essential tree: walks over it find exactly the serial plan, marks are exactly what plans name,
 * and payload reaches exactly the rows that are marked. Every rank also builds the complete trees from all
 * points. */
#include "ff_mpi_test.h"

#include "ff_let.h"
#include "ff_plan.h"
#include "ff_sets.h"

#include <string.h>

enum { N_SETS = 3 }; /* 0 and 1 are targets and sources, 2 is only a target */

typedef struct set_case {
    const char *name;
    ff_set_kind kind[N_SETS];
    int64_t n[N_SETS];
    int dim, leaf_size;
    double theta;
    bool expand;
    int spread;
} set_case;

static const uint8_t need[N_SETS * N_SETS] = {1, 1, 0, 1, 1, 0, 1, 1, 0};

typedef struct sets {
    const set_case *c;
    char what[128];
    ff_tree *full[N_SETS];
    ff_cloud *cloud[N_SETS];
    ff_let *let[N_SETS];
} sets;

static uint64_t value_of(int kind, int64_t id)
{
    return ff_rng_u64(FF_SET_SEED, 77 + (uint64_t)kind, (uint64_t)id) | 1;
}

/* ---- the held tree against the complete one ---- */

static bool same_box(const ff_node *a, const ff_node *b)
{
    return memcmp(a->lo, b->lo, sizeof a->lo) == 0 && memcmp(a->hi, b->hi, sizeof a->hi) == 0 &&
           a->diam2 == b->diam2;
}

static void check_node(ff_mt *t, const sets *s, int k, int32_t i)
{
    const ff_tree *h = s->let[k]->tree, *f = s->full[k];
    int64_t id = h->id[i], own_from = s->cloud[k]->cut[t->rank], own_to = s->cloud[k]->cut[t->rank + 1];
    const ff_node *n = &h->node[i], *want = &f->node[id]; /* a complete tree is in preorder: index = id */
    bool inside = h->start[i] >= own_from && h->start[i] + h->count[i] <= own_to;
    FF_EXPECT(t, same_box(n, want) && h->start[i] == f->start[id] && h->count[i] == f->count[id],
              "%s: set %d node %lld differs", s->what, k, (long long)id);
    FF_EXPECT(t, (n->right == FF_NODE_LEAF) == (want->right == FF_NODE_LEAF), "%s: node %lld: leaf", s->what,
              (long long)id);
    FF_EXPECT(t, !inside || n->right != FF_NODE_CUT, "%s: own node %lld is cut", s->what, (long long)id);
    FF_EXPECT(t, !inside || h->first[i] == s->let[k]->own_first + (int32_t)(h->start[i] - own_from),
              "%s: own node %lld: first", s->what, (long long)id);
    FF_EXPECT(t, n->right < 0 || (h->id[i + 1] == id + 1 && h->id[n->right] == want->right),
              "%s: children of node %lld", s->what, (long long)id);
    for (int64_t p = 0; n->right == FF_NODE_LEAF && h->first[i] >= 0 && p < h->count[i]; p++)
        FF_EXPECT(t, h->pos[h->first[i] + p] == h->start[i] + p, "%s: points of leaf %lld", s->what,
                  (long long)id);
}

static void check_tree(ff_mt *t, const sets *s, int k)
{
    const ff_tree *h = s->let[k]->tree, *f = s->full[k];
    const ff_cloud *c = s->cloud[k];
    for (int32_t i = 0; i < h->n_nodes; i++) {
        FF_EXPECT(t, i == 0 || h->id[i] > h->id[i - 1], "%s: ids do not ascend", s->what);
        check_node(t, s, k, i);
    }
    int64_t bad = 0;
    for (int32_t p = 0; p < h->n_held; p++) {
        bad += p > 0 && h->pos[p] <= h->pos[p - 1];
        bad += memcmp(h->x + (int64_t)p * h->dim, f->x + h->pos[p] * h->dim,
                      (size_t)h->dim * sizeof(float)) != 0;
    }
    for (int64_t i = 0; i < c->n_own; i++) bad += h->pos[s->let[k]->own_first + i] != c->cut[t->rank] + i;
    FF_EXPECT(t, bad == 0, "%s: set %d: %lld held points are wrong", s->what, k, (long long)bad);
    if (t->size == 1)
        FF_EXPECT(t,
                  h->n_nodes == f->n_nodes && h->n_held == f->n_held &&
                      memcmp(h->node, f->node, (size_t)f->n_nodes * sizeof *f->node) == 0,
                  "%s: one rank does not hold the complete tree", s->what);
}

/* ---- plans ---- */

static void same_rows(ff_mt *t, const sets *s, int i, int j, const ff_plan *held, const ff_plan *full)
{
    const ff_tree *ht = s->let[i]->tree, *hs = s->let[j]->tree;
    int64_t bad = 0;
    FF_EXPECT(t, held->n_rows == full->n_rows, "%s: %d <- %d: %lld rows, expected %lld", s->what, i, j,
              (long long)held->n_rows, (long long)full->n_rows);
    for (int64_t r = 0; r < held->n_rows && held->n_rows == full->n_rows; r++) {
        ff_dtt_lists a, b;
        ff_plan_row(held, r, &a);
        ff_plan_row(full, r, &b);
        bad += ht->id[a.t] != b.t || a.n_far != b.n_far || a.n_leaf != b.n_leaf;
        for (int64_t k = 0; k < a.n_far && a.n_far == b.n_far; k++) bad += hs->id[a.far_s[k]] != b.far_s[k];
        for (int64_t k = 0; k < a.n_leaf && a.n_leaf == b.n_leaf; k++)
            bad += hs->id[a.leaf_s[k]] != b.leaf_s[k] || a.t_mask[k] != b.t_mask[k] ||
                   a.s_mask[k] != b.s_mask[k];
    }
    FF_EXPECT(t, bad == 0, "%s: %d <- %d: %lld differences in the lists", s->what, i, j, (long long)bad);
}

/* Own part of the plan over the let against the same part of the plan over complete trees, list by list; and
 * the digests of all parts against the serial one's. Collective. */
static void check_plan(ff_mt *t, const sets *s, int i, int j, ff_plan **held)
{
    const set_case *c = s->c;
    int64_t begin = s->cloud[i]->cut[t->rank], end = s->cloud[i]->cut[t->rank + 1], n = s->cloud[i]->n;
    ff_plan *part = NULL, *serial = NULL;
    *held = NULL;
    FF_EXPECT_OK(t, ff_plan_build(s->let[i]->tree, s->let[j]->tree, c->theta, c->expand, begin, end, held));
    FF_EXPECT_OK(t, ff_plan_build(s->full[i], s->full[j], c->theta, c->expand, begin, end, &part));
    if (t->rank == 0)
        FF_EXPECT_OK(t, ff_plan_build(s->full[i], s->full[j], c->theta, c->expand, 0, n, &serial));
    int64_t sum = 0;
    if (*held != NULL && part != NULL) {
        same_rows(t, s, i, j, *held, part);
        sum = (int64_t)ff_plan_digest(*held, s->let[i]->tree, s->let[j]->tree);
    }
    FF_EXPECT_OK(t, ff_comm_allreduce(t->world, &sum, 1, FF_SUM_I64));
    uint64_t want = serial != NULL ? ff_plan_digest(serial, s->full[i], s->full[j]) : (uint64_t)sum;
    FF_EXPECT(t, (uint64_t)sum == want, "%s: %d <- %d: digest %016llx, serial %016llx", s->what, i, j,
              (unsigned long long)sum, (unsigned long long)want);
    ff_plan_destroy(&part);
    ff_plan_destroy(&serial);
}

/* ---- marks ---- */

/* What a plan names, worked out from its rows. */
static void named(const ff_plan *p, const ff_tree *t, uint8_t *node, uint8_t *leaf)
{
    for (int64_t r = 0; r < p->n_rows; r++) {
        ff_dtt_lists q;
        ff_plan_row(p, r, &q);
        for (int64_t k = 0; k < q.n_far; k++) node[q.far_s[k]] = 1;
        for (int64_t k = 0; k < q.n_leaf; k++) {
            int64_t n_t = t->count[q.t], near = __builtin_popcountll(q.t_mask[k]);
            if (near < n_t) node[q.leaf_s[k]] = 1;
            if (near > 0) leaf[q.leaf_s[k]] = 1;
        }
    }
}

/* From the list of bottoms, not from the flag under test. */
static bool below_others_bottom(const ff_mt *t, const ff_let *let, int32_t i)
{
    int64_t lo = 0, hi = let->n_bottom - 1; /* the last bottom that starts at or before the node */
    while (lo < hi) {
        int64_t mid = lo + (hi - lo + 1) / 2;
        if (let->bottom[mid].start <= let->tree->start[i])
            lo = mid;
        else
            hi = mid - 1;
    }
    return let->bottom_owner[lo] != t->rank && let->tree->id[i] > let->bottom[lo].id;
}

static bool in_own_run(const ff_mt *t, const ff_let *let, int32_t i)
{
    return let->tree->start[i] >= let->cloud->cut[t->rank] &&
           let->tree->start[i] < let->cloud->cut[t->rank + 1];
}

/* Marks of cloud j with tasks of a few blocks; each task's remote flag against a plan of that task alone. */
static void check_tasks(ff_mt *t, const sets *s, int i, int j)
{
    const ff_cloud *c = s->cloud[i];
    ff_let *let = s->let[j];
    int64_t task[64], n_tasks = 0, begin = c->cut[t->rank], end = c->cut[t->rank + 1];
    uint8_t remote[64] = {0};
    for (int k = 0; k <= 5; k++) {
        int64_t at = k == 5 ? end : ff_topo_border(c->n, c->leaf_size, begin + (end - begin) * k / 5);
        task[n_tasks++] = at < begin ? begin : at;
    }
    n_tasks--;
    FF_EXPECT_OK(t, ff_let_mark(s->let[i], let, s->c->theta, s->c->expand, task, n_tasks, remote));
    for (int64_t k = 0; k < n_tasks; k++) {
        ff_plan *p = NULL;
        uint8_t *node = ff_mem_alloc0((size_t)let->tree->n_nodes, 2), *leaf = node + let->tree->n_nodes,
                want = 0;
        FF_EXPECT_OK(t, ff_plan_build(s->let[i]->tree, let->tree, s->c->theta, s->c->expand, task[k],
                                      task[k + 1], &p));
        if (p != NULL) named(p, s->let[i]->tree, node, leaf);
        for (int32_t n = 0; n < let->tree->n_nodes; n++)
            if ((node[n] && below_others_bottom(t, let, n)) || (leaf[n] && !in_own_run(t, let, n))) want = 1;
        FF_EXPECT(t, remote[k] == want, "%s: %d <- %d: task %d: remote %d, expected %d", s->what, i, j,
                  (int)k, remote[k], want);
        ff_plan_destroy(&p);
        ff_free(node);
    }
}

static void check_marks(ff_mt *t, const sets *s, int j, const uint8_t *node, const uint8_t *leaf)
{
    const ff_let *let = s->let[j];
    int64_t bad = 0, bad_remote = 0;
    for (int32_t i = 0; i < let->tree->n_nodes; i++) {
        bad += let->node_used[i] != node[i] || let->leaf_used[i] != leaf[i];
        bad_remote += let->node_remote[i] != below_others_bottom(t, let, i);
    }
    FF_EXPECT(t, bad == 0 && bad_remote == 0, "%s: set %d: %lld marks, %lld remote flags are wrong", s->what,
              j, (long long)bad, (long long)bad_remote);
}

/* After ff_let_finish nothing is held that no walk reads: a remote node stands where its parent was opened,
 * so that a mark lies in or beside it; remote points are those of marked leaves. */
static void check_least(ff_mt *t, const sets *s, int j)
{
    const ff_let *let = s->let[j];
    const ff_tree *h = let->tree;
    uint8_t *has = ff_mem_alloc0((size_t)h->n_nodes, 1);
    int64_t bad = 0, points = let->cloud->n_own;
    for (int32_t i = h->n_nodes - 1; i >= 0; i--) {
        int32_t right = h->node[i].right;
        has[i] = let->node_used[i] || let->leaf_used[i] || (right >= 0 && (has[i + 1] || has[right]));
        bad += right >= 0 && below_others_bottom(t, let, i + 1) && !has[i + 1] && !has[right];
        if (right == FF_NODE_LEAF && !in_own_run(t, let, i) && let->leaf_used[i]) points += h->count[i];
    }
    FF_EXPECT(t, bad == 0 && points == h->n_held,
              "%s: set %d: %lld nodes too many; %d points held, expected %lld", s->what, j, (long long)bad,
              h->n_held, (long long)points);
    ff_free(has);
}

/* ---- payload ---- */

enum { UNTOUCHED = 0 };

static void check_bottoms(ff_mt *t, const ff_let *let, const char *what)
{
    int64_t n_own = let->own_bottom_end - let->own_bottom_begin, bad = 0;
    uint64_t *own = ff_mem_alloc((size_t)n_own, 8), *all = ff_mem_alloc((size_t)let->n_bottom, 8);
    for (int64_t b = 0; b < n_own; b++) own[b] = value_of(0, let->bottom[let->own_bottom_begin + b].id);
    FF_EXPECT_OK(t, ff_let_gather_bottom(let, 8, own, all));
    for (int64_t b = 0; b < let->n_bottom; b++) {
        bad += all[b] != value_of(0, let->bottom[b].id) ||
               let->tree->id[let->bottom_node[b]] != let->bottom[b].id;
        bad += b > 0 && let->bottom[b].id <= let->bottom[b - 1].id;
        bad += (let->bottom_owner[b] == t->rank) != (b >= let->own_bottom_begin && b < let->own_bottom_end);
    }
    FF_EXPECT(t, bad == 0, "%s: %lld wrong bottoms", what, (long long)bad);
    ff_free(own), ff_free(all);
}

static void fill_own(ff_mt *t, const ff_let *let, uint64_t *node, uint64_t *point)
{
    const ff_tree *h = let->tree;
    for (int32_t i = 0; i < h->n_nodes; i++)
        node[i] = in_own_run(t, let, i) && h->start[i] + h->count[i] <= let->cloud->cut[t->rank + 1]
                      ? value_of(0, h->id[i])
                      : UNTOUCHED;
    for (int32_t p = 0; p < h->n_held; p++)
        point[p] = h->pos[p] >= let->cloud->cut[t->rank] && h->pos[p] < let->cloud->cut[t->rank + 1]
                       ? value_of(1, h->pos[p])
                       : UNTOUCHED;
}

static void check_rows(ff_mt *t, const ff_let *let, const uint64_t *node, const uint64_t *point,
                       const char *what)
{
    const ff_tree *h = let->tree;
    int64_t bad_node = 0, bad_point = 0;
    for (int32_t i = 0; i < h->n_nodes; i++) {
        bool own = in_own_run(t, let, i) && h->start[i] + h->count[i] <= let->cloud->cut[t->rank + 1];
        bool filled = own || (let->node_used[i] && below_others_bottom(t, let, i));
        bad_node += node[i] != (filled ? value_of(0, h->id[i]) : UNTOUCHED);
        if (h->node[i].right != FF_NODE_LEAF || h->first[i] < 0) continue;
        for (int64_t p = 0; p < h->count[i]; p++)
            bad_point += point[h->first[i] + p] !=
                         (own || let->leaf_used[i] ? value_of(1, h->start[i] + p) : UNTOUCHED);
    }
    FF_EXPECT(t, bad_node == 0 && bad_point == 0, "%s: push: %lld nodes, %lld points are wrong", what,
              (long long)bad_node, (long long)bad_point);
}

/* Two transfers of each source cloud under way at once: nodes and points; points alone of an odd row length.
 */
static void check_payload(ff_mt *t, const sets *s)
{
    ff_let_transfer *both[N_SETS] = {NULL}, *points[N_SETS] = {NULL};
    uint64_t *node[N_SETS], *point[N_SETS];
    unsigned char *odd[N_SETS];
    for (int j = 0; j < N_SETS; j++) {
        const ff_let *let = s->let[j];
        size_t n_held = (size_t)let->tree->n_held;
        node[j] = ff_mem_alloc((size_t)let->tree->n_nodes, 8);
        point[j] = ff_mem_alloc(n_held, 8);
        odd[j] = ff_mem_alloc0(n_held, 3);
        fill_own(t, let, node[j], point[j]);
        for (size_t p = 0; p < n_held; p++) memcpy(odd[j] + 3 * p, &point[j][p], 3);
        FF_EXPECT_OK(t, ff_let_push_begin(let, 8, node[j], 8, point[j], &both[j]));
        FF_EXPECT_OK(t, ff_let_push_begin(let, 0, NULL, 3, odd[j], &points[j]));
    }
    for (int j = 0; j < N_SETS; j++) {
        FF_EXPECT_OK(t, ff_let_push_end(&both[j]));
        FF_EXPECT_OK(t, ff_let_push_end(&points[j]));
        check_rows(t, s->let[j], node[j], point[j], s->what);
        int64_t bad = 0;
        for (int32_t p = 0; p < s->let[j]->tree->n_held; p++)
            bad += memcmp(odd[j] + 3 * p, &point[j][p], 3) != 0;
        FF_EXPECT(t, bad == 0, "%s: %lld rows of 3 bytes differ", s->what, (long long)bad);
        ff_free(node[j]), ff_free(point[j]), ff_free(odd[j]);
        check_bottoms(t, s->let[j], s->what);
    }
}

/* ---- a case ---- */

static void make_sets(ff_mt *t, const set_case *c, sets *s)
{
    *s = (sets){.c = c};
    (void)snprintf(s->what, sizeof s->what, "%s: dim %d leaf %d theta %g expand %d", c->name, c->dim,
                   c->leaf_size, c->theta, c->expand);
    for (int k = 0; k < N_SETS; k++) {
        int64_t begin = ff_set_home(c->n[k], t->size, t->rank, c->spread);
        int64_t end = ff_set_home(c->n[k], t->size, t->rank + 1, c->spread);
        float *x = ff_mem_alloc((size_t)(c->n[k] * c->dim), sizeof *x);
        ff_set_fill(c->kind[k], 0, c->n[k], c->dim, x);
        FF_EXPECT_OK(t, ff_tree_build(x, c->n[k], c->dim, c->leaf_size, NULL, &s->full[k]));
        FF_EXPECT_OK(t, ff_cloud_create(t->world, x + begin * c->dim, end - begin, c->dim, c->leaf_size,
                                        &s->cloud[k]));
        ff_free(x);
    }
}

static void drop_sets(sets *s)
{
    for (int k = 0; k < N_SETS; k++) {
        ff_let_destroy(&s->let[k]);
        ff_cloud_destroy(&s->cloud[k]);
        ff_tree_destroy(&s->full[k]);
    }
}

static void check_lets(ff_mt *t, sets *s)
{
    FF_EXPECT_OK(t, ff_let_build(s->cloud, N_SETS, need, s->c->theta, s->let));
    if (!ff_mt_good(t)) return;
    for (int k = 0; k < N_SETS; k++) check_tree(t, s, k);
    for (int j = 0; j < N_SETS; j++) {
        uint8_t *node = ff_mem_alloc0((size_t)s->let[j]->tree->n_nodes, 2),
                *leaf = node + s->let[j]->tree->n_nodes;
        for (int i = 0; i < N_SETS; i++) {
            ff_plan *held = NULL;
            if (!need[i * N_SETS + j]) continue;
            check_plan(t, s, i, j, &held);
            if (held != NULL) named(held, s->let[i]->tree, node, leaf);
            ff_plan_destroy(&held);
            if (i == 0)
                FF_EXPECT_OK(t, ff_let_mark(s->let[i], s->let[j], s->c->theta, s->c->expand, NULL, 0, NULL));
            else
                check_tasks(t, s, i, j);
        }
        check_marks(t, s, j, node, leaf);
        ff_free(node);
        FF_EXPECT_OK(t, ff_let_finish(s->let[j]));
    }
    if (!ff_mt_good(t)) return;
    for (int j = 0; j < N_SETS; j++) {
        ff_plan *held = NULL;
        check_tree(t, s, j);
        check_least(t, s, j);
        if (need[2 * N_SETS + j]) check_plan(t, s, 2, j, &held);
        ff_plan_destroy(&held);
    }
    check_payload(t, s);
}

static void try_case(ff_mt *t, const set_case *c)
{
    sets s;
    make_sets(t, c, &s);
    if (ff_mt_good(t)) check_lets(t, &s);
    drop_sets(&s);
}

static void every_case(ff_mt *t, int dim)
{
    static const struct {
        ff_set_kind kind[N_SETS];
        int64_t n[N_SETS];
        const char *name;
    } set[] = {
        {{FF_SET_SPHERE, FF_SET_SPHERE, FF_SET_GRID}, {700, 311, 200}, "sphere"},
        {{FF_SET_CLUSTERS, FF_SET_SPHERE, FF_SET_CLUSTERS}, {500, 33, 300}, "clusters"},
        {{FF_SET_GRID, FF_SET_CLUSTERS, FF_SET_SPHERE}, {1000, 150, 64}, "grid"},
        {{FF_SET_EQUAL, FF_SET_PAIRS, FF_SET_EQUAL}, {200, 233, 65}, "equal"},
        {{FF_SET_PAIRS, FF_SET_GRID, FF_SET_PAIRS}, {3, 1, 2}, "few"},
        {{FF_SET_SPHERE, FF_SET_SPHERE, FF_SET_SPHERE}, {500, 0, 0}, "some empty"},
        {{FF_SET_SPHERE, FF_SET_SPHERE, FF_SET_SPHERE}, {0, 0, 20}, "no source"},
    };
    static const int leaf[] = {1, 4, 64};
    static const double theta[] = {0.0, 0.7, 1.0, 2.0};
    for (size_t k = 0; k < sizeof set / sizeof *set; k++)
        for (size_t l = 0; l < 3; l++)
            for (size_t h = 0; h < 4; h++) {
                if ((k + l + h + (size_t)dim) % 2 == 0) continue; /* the other dimension takes this one */
                set_case c = {.name = set[k].name, .dim = dim, .leaf_size = leaf[l], .theta = theta[h]};
                memcpy(c.kind, set[k].kind, sizeof c.kind);
                memcpy(c.n, set[k].n, sizeof c.n);
                for (int j = 0; h == 0 && j < N_SETS; j++)
                    c.n[j] = c.n[j] > 150 ? c.n[j] / 3 : c.n[j]; /* all pairs */
                c.expand = (k + l + h) % 2 == 1;
                c.spread = (int)(k + l + h) % FF_SPREADS;
                try_case(t, &c);
            }
}

static void plans_and_payload_in_3d(void **state)
{
    ff_mt *t = *state;
    if (t->rank == 0) printf("seed %d\n", (int)FF_SET_SEED);
    every_case(t, 3);
    ff_mt_verdict(t);
}

static void plans_and_payload_in_2d(void **state)
{
    ff_mt *t = *state;
    every_case(t, 2);
    ff_mt_verdict(t);
}

/* Enough points for bottoms above block size, and to see that no rank holds the whole. */
static void larger_set(void **state)
{
    ff_mt *t = *state;
    set_case c = {.name = "large sphere", .n = {20000, 50, 50}, .dim = 3, .leaf_size = 1, .theta = 1.0};
    sets s;
    make_sets(t, &c, &s);
    if (ff_mt_good(t)) check_lets(t, &s);
    if (ff_mt_good(t) && t->size >= 4) {
        /* Leaves of one point have no extent: beyond its run a rank sees a thinning tree. */
        const ff_tree *h = s.let[0]->tree;
        FF_EXPECT(t, h->n_held < 20000 / 3 && h->n_nodes < s.full[0]->n_nodes / 2,
                  "rank holds %d points and %d of %d nodes", h->n_held, h->n_nodes, s.full[0]->n_nodes);
        if (t->rank == 0)
            printf("rank 0 holds %d of 20000 points, %d of %d nodes\n", h->n_held, h->n_nodes,
                   s.full[0]->n_nodes);
    }
    drop_sets(&s);
    ff_mt_verdict(t);
}

static void bad_arguments(void **state)
{
    ff_mt *t = *state;
    set_case c = {"bad", {FF_SET_SPHERE, FF_SET_SPHERE, FF_SET_SPHERE}, {50, 50, 50}, 3, 4, 1.0, true, 0};
    sets s;
    make_sets(t, &c, &s);
    if (ff_mt_good(t)) {
        double bad[] = {-1.0, (double)NAN, (double)INFINITY};
        for (int k = 0; k < 3; k++) {
            FF_EXPECT(t, ff_let_build(s.cloud, N_SETS, need, bad[k], s.let) == FF_E_ARG,
                      "theta %g is accepted", bad[k]);
            FF_EXPECT(t, s.let[0] == NULL && s.let[2] == NULL, "lets are not NULL after a failure");
            ff_error_clear();
        }
        FF_EXPECT_OK(t, ff_let_build(s.cloud, N_SETS, need, 1.0, s.let));
        ff_let_transfer *tr = NULL;
        if (ff_mt_good(t))
            FF_EXPECT(t, ff_let_push_begin(s.let[0], 0, NULL, 0, NULL, &tr) == FF_E_INTERNAL && tr == NULL,
                      "a push before the lists is accepted");
    }
    drop_sets(&s);
    ff_mt_verdict(t);
}

static const struct CMUnitTest tests[] = {
    FF_MT(plans_and_payload_in_3d),
    FF_MT(plans_and_payload_in_2d),
    FF_MT(larger_set),
    FF_MT(bad_arguments),
};
FF_MT_MAIN(tests)
