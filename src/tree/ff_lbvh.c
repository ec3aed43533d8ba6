#include "ff_lbvh.h"

#include "farfield_plan.h" /* exports ff_tree_destroy */
#include "ff_mem.h"
#include "ff_morton.h"
#include "ff_sort.h"

#include <math.h>

enum { PARALLEL_MIN = 1 << 14 };

/* What stays the same while one subtree is filled. */
typedef struct filler {
    ff_tree *t;
    int32_t at, first_held;
    ff_subtree s;
    const float *x;
} filler;

static void fill_ids(const filler *f, int32_t at, int64_t start, int64_t count)
{
    ff_tree *t = f->t;
    t->id[at] = f->s.id + (at - f->at);
    t->start[at] = start;
    t->count[at] = count;
    t->first[at] = f->first_held + (int32_t)(start - f->s.start);
}

/* Fills the subtree at node at; returns the index after it. */
static int32_t fill_serial(const filler *f, int32_t at, int64_t start, int64_t count)
{
    ff_tree *t = f->t;
    fill_ids(f, at, start, count);
    if (count <= t->leaf_size) {
        ff_node_from_points(&t->node[at], f->x + (start - f->s.start) * t->dim, count, t->dim);
        t->node[at].right = FF_NODE_LEAF;
        return at + 1;
    }
    int32_t right = fill_serial(f, at + 1, start, count / 2);
    int32_t end = fill_serial(f, right, start + count / 2, count - count / 2);
    ff_node_from_children(&t->node[at], &t->node[at + 1], &t->node[right]);
    t->node[at].right = right;
    return end;
}

static void fill_tasks(const filler *f, int32_t at, int64_t start, int64_t count)
{
    ff_tree *t = f->t;
    if (count <= PARALLEL_MIN) {
        (void)fill_serial(f, at, start, count);
        return;
    }
    fill_ids(f, at, start, count);
    int32_t right = at + 1 + (int32_t)ff_topo_nodes(count / 2, t->leaf_size);
#pragma omp task
    fill_tasks(f, at + 1, start, count / 2);
    fill_tasks(f, right, start + count / 2, count - count / 2);
#pragma omp taskwait
    ff_node_from_children(&t->node[at], &t->node[at + 1], &t->node[right]);
    t->node[at].right = right;
}

void ff_tree_fill(ff_tree *t, int32_t at, ff_subtree s, const float *x, int32_t first_held)
{
    filler f = {t, at, first_held, s, x};
    if (s.count <= 0) return;
#pragma omp parallel if (s.count > PARALLEL_MIN)
#pragma omp single
    fill_tasks(&f, at, s.start, s.count);
}

ff_status ff_tree_alloc(int dim, int leaf_size, int64_t n_points, int32_t n_nodes, int32_t n_held,
                        ff_tree **out)
{
    ff_status st = FF_OK;
    ff_tree *t = NULL;
    *out = NULL;
    if (dim != 2 && dim != 3) return ff_fail(FF_E_ARG, "tree: dim = %d, expected 2 or 3", dim);
    if (leaf_size < 1 || leaf_size > FF_LEAF_WHOLE_MAX)
        return ff_fail(FF_E_ARG, "tree: leaf_size = %d, expected 1 to %d", leaf_size, FF_LEAF_WHOLE_MAX);
    FF_GO(FF_NEW0(t, 1));
    t->dim = dim;
    t->leaf_size = leaf_size;
    t->n_points = n_points;
    t->n_nodes = n_nodes;
    t->n_held = n_held;
    FF_GO(FF_NEW(t->node, n_nodes));
    FF_GO(FF_NEW(t->id, n_nodes));
    FF_GO(FF_NEW(t->start, n_nodes));
    FF_GO(FF_NEW(t->count, n_nodes));
    FF_GO(FF_NEW(t->first, n_nodes));
    FF_GO(FF_NEW(t->x, (int64_t)n_held * dim));
    FF_GO(FF_NEW(t->pos, n_held));
    *out = t;
    t = NULL;
done:
    ff_tree_destroy(&t);
    return st;
}

void ff_tree_destroy(ff_tree **tree)
{
    ff_tree *t = *tree;
    if (t == NULL) return;
    ff_free(t->node);
    ff_free(t->id);
    ff_free(t->start);
    ff_free(t->count);
    ff_free(t->first);
    ff_free(t->x);
    ff_free(t->pos);
    ff_free(t);
    *tree = NULL;
}

static ff_status check_finite(const float *x, int64_t n, int dim)
{
    int64_t bad = INT64_MAX;
#pragma omp parallel for schedule(static) reduction(min : bad) if (n > PARALLEL_MIN)
    for (int64_t i = 0; i < n * dim; i++)
        if (!isfinite(x[i]) && i < bad) bad = i;
    if (bad == INT64_MAX) return FF_OK;
    return ff_fail(FF_E_INPUT, "points: point %lld: %c = %g, expected a finite coordinate",
                   (long long)(bad / dim), "xyz"[bad % dim], (double)x[bad]);
}

/* Original index at each sorted position: order [n]. */
static ff_status morton_order(const float *x, int64_t n, int dim, int64_t *order)
{
    ff_status st = FF_OK;
    uint64_t *code = NULL;
    float lo[3], hi[3];
    FF_GO(FF_NEW(code, n));
    ff_morton_box(x, n, dim, lo, hi);
    ff_morton_codes(x, n, dim, lo, hi, code);
#pragma omp parallel for schedule(static) if (n > PARALLEL_MIN)
    for (int64_t i = 0; i < n; i++) order[i] = i;
    FF_GO(ff_sort_u64(code, order, n));
done:
    ff_free(code);
    return st;
}

ff_status ff_tree_build(const float *x, int64_t n, int dim, int leaf_size, int64_t *order, ff_tree **out)
{
    ff_status st = FF_OK;
    ff_tree *t = NULL;
    int64_t *own_order = NULL;
    int32_t n_nodes, n_held;
    *out = NULL;
    if (n < 0) return ff_fail(FF_E_ARG, "tree: n = %lld, expected n >= 0", (long long)n);
    if (leaf_size < 1) return ff_tree_alloc(dim, leaf_size, n, 0, 0, out); /* fails, with the message */
    FF_TRY(ff_to_i32(n, "points of one tree", &n_held));
    FF_TRY(ff_to_i32(ff_topo_nodes(n, leaf_size), "nodes of one tree", &n_nodes));
    if (dim == 2 || dim == 3) FF_TRY(check_finite(x, n, dim));

    if (order == NULL) {
        FF_GO(FF_NEW(own_order, n));
        order = own_order;
    }
    FF_GO(ff_tree_alloc(dim, leaf_size, n, n_nodes, n_held, &t));
    FF_GO(morton_order(x, n, dim, order));
#pragma omp parallel for schedule(static) if (n > PARALLEL_MIN)
    for (int64_t i = 0; i < n; i++) {
        for (int d = 0; d < dim; d++) t->x[i * dim + d] = x[order[i] * dim + d];
        t->pos[i] = i;
    }
    ff_tree_fill(t, 0, (ff_subtree){0, 0, n}, t->x, 0);
    *out = t;
    t = NULL;
done:
    ff_tree_destroy(&t);
    ff_free(own_order);
    return st;
}

ff_status ff_tree_bfs_ids(const ff_tree *t, int64_t *bfs)
{
    ff_status st = FF_OK;
    int32_t *level = NULL, *next = NULL;
    int64_t n_level = t->n_nodes > 0, next_id = 1;
    FF_GO(FF_NEW(level, t->n_nodes + 1));
    FF_GO(FF_NEW(next, t->n_nodes + 1));
    level[0] = 0;
    if (n_level > 0) bfs[0] = 0;
    while (n_level > 0) {
        int64_t n_inner = 0;
        for (int64_t k = 0; k < n_level; k++) { /* keep the inner nodes, in the level's order */
            if (t->node[level[k]].right == FF_NODE_LEAF) continue;
            if (t->node[level[k]].right == FF_NODE_CUT) FF_GO(ff_fail(FF_E_ARG, "tree is not complete"));
            level[n_inner++] = level[k];
        }
        for (int64_t k = 0; k < n_inner; k++) { /* next level: all left children, then all right ones */
            next[k] = level[k] + 1;
            next[n_inner + k] = t->node[level[k]].right;
            bfs[next[k]] = next_id++;
            bfs[next[n_inner + k]] = next_id++;
        }
        int32_t *swap = level;
        level = next;
        next = swap;
        n_level = 2 * n_inner;
    }
done:
    ff_free(level);
    ff_free(next);
    return st;
}

int32_t ff_tree_find(const ff_tree *t, int64_t id)
{
    int32_t lo = 0, hi = t->n_nodes;
    while (lo < hi) {
        int32_t mid = lo + (hi - lo) / 2;
        if (t->id[mid] < id)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < t->n_nodes && t->id[lo] == id ? lo : -1;
}
