#include "ff_moment.h"

#include "ff_mem.h"

#include <string.h>

/* Rows of the nodes above bottoms, in preorder: each comes from the rank that owns the node's first point. Starts ascend
 * in preorder, so ranks do. */
typedef struct upper_rows {
    int64_t n, next_bottom;
    int32_t *node;     /* [n] held indices */
    double *own, *all; /* [..][m], [n][m] */
    size_t *bytes;     /* [size] */
} upper_rows;

static void upper_free(upper_rows *u)
{
    ff_free(u->node);
    ff_free(u->own);
    ff_free(u->all);
    ff_free(u->bytes);
}

static void list_upper(const ff_let *let, int32_t i, upper_rows *u)
{
    if (let->bottom_node[u->next_bottom] == i) {
        u->next_bottom++;
        return;
    }
    u->node[u->n++] = i;
    list_upper(let, i + 1, u);
    list_upper(let, let->tree->node[i].right, u);
}

static ff_status upper_fill(const ff_let *let, const ff_moment_down_ops *ops, upper_rows *u)
{
    const ff_cloud *c = let->cloud;
    int size = c->comm->size, me = c->comm->rank;
    int64_t n_upper = let->n_bottom > 0 ? let->n_bottom - 1 : 0, mine = 0;
    size_t m = (size_t)ops->m;
    FF_TRY(FF_NEW(u->node, n_upper + 1));
    FF_TRY(FF_NEW0(u->bytes, size));
    FF_TRY(FF_NEW0(u->own, (size_t)n_upper * m + 1));
    FF_TRY(FF_NEW(u->all, (size_t)n_upper * m + 1));
    if (let->n_bottom > 0) list_upper(let, 0, u);
    for (int64_t k = 0; k < u->n; k++) {
        int owner = ff_cut_owner(c->cut, size, let->tree->start[u->node[k]]);
        u->bytes[owner] += m * sizeof(double);
        if (owner == me) ops->node(ops->ctx, u->node[k], u->own + (size_t)mine++ * m);
    }
    return FF_OK;
}

/* From the root to the own bottoms: row [m] of the parent in, rows of own bottoms out. */
typedef struct descent {
    const ff_let *let;
    const ff_moment_down_ops *ops;
    const upper_rows *u;
    int64_t next_upper, next_bottom;
    double *bottom; /* [own bottoms][m]: the parents' rows */
} descent;

static void descend(descent *d, int32_t i, const double *parent, double *scratch)
{
    const ff_let *let = d->let;
    size_t m = (size_t)d->ops->m;
    if (let->bottom_node[d->next_bottom] == i) {
        int64_t b = d->next_bottom++;
        if (b >= let->own_bottom_begin && b < let->own_bottom_end)
            memcpy(d->bottom + (size_t)(b - let->own_bottom_begin) * m, parent, m * sizeof *parent);
        return;
    }
    const double *own = d->u->all + (size_t)d->next_upper++ * m;
    for (size_t k = 0; k < m; k++) scratch[k] = parent[k] + own[k];
    descend(d, i + 1, scratch, scratch + m);
    descend(d, let->tree->node[i].right, scratch, scratch + m);
}

/* A node's own row is complete before it is added to its parent's, as above bottoms: where these lie depends on the rank
 * count, sums may not. */
static void subtree_down(const ff_tree *t, int32_t i, const ff_moment_down_ops *ops, const double *parent,
                         double *scratch)
{
    memset(scratch, 0, (size_t)ops->m * sizeof *scratch);
    ops->node(ops->ctx, i, scratch);
    for (int k = 0; k < ops->m; k++) scratch[k] = parent[k] + scratch[k];
    if (t->node[i].right == FF_NODE_LEAF) {
        for (int64_t p = 0; p < t->count[i]; p++) ops->point(ops->ctx, t->first[i] + (int32_t)p, scratch);
        return;
    }
    subtree_down(t, i + 1, ops, scratch, scratch + ops->m);
    subtree_down(t, t->node[i].right, ops, scratch, scratch + ops->m);
}

static ff_status run_down(const ff_let *let, const ff_moment_down_ops *ops, const double *bottom,
                          size_t levels)
{
    ff_status worker = FF_OK;
    size_t m = (size_t)ops->m;
#pragma omp parallel
    {
        double *scratch = NULL;
        if (FF_NEW(scratch, levels * m) != FF_OK) {
#pragma omp atomic write
            worker = FF_E_MEM;
        }
#pragma omp for schedule(dynamic, 1)
        for (int64_t b = let->own_bottom_begin; b < let->own_bottom_end; b++)
            if (scratch != NULL)
                subtree_down(let->tree, let->bottom_node[b], ops,
                             bottom + (size_t)(b - let->own_bottom_begin) * m, scratch);
        ff_free(scratch);
    }
    return worker;
}

ff_status ff_moment_down(const ff_let *let, const ff_moment_down_ops *ops)
{
    upper_rows u = {0};
    double *bottom = NULL, *scratch = NULL;
    size_t m = (size_t)ops->m, levels = (size_t)ff_topo_depth(let->cloud->n, let->cloud->leaf_size) + 3;
    ff_comm *comm = let->cloud->comm;
    ff_status st = upper_fill(let, ops, &u);
    if (st == FF_OK) st = FF_NEW(bottom, (size_t)(let->own_bottom_end - let->own_bottom_begin) * m + 1);
    if (st == FF_OK) st = FF_NEW0(scratch, levels * m + 1);
    FF_GO(ff_agree(comm, st));
    FF_GO(ff_comm_allgatherv(comm, u.own, u.bytes[comm->rank], u.all, u.bytes));
    descent d = {let, ops, &u, 0, 0, bottom};
    if (let->n_bottom > 0) descend(&d, 0, scratch, scratch + m);
    st = ff_agree(comm, run_down(let, ops, bottom, levels));
done:
    upper_free(&u);
    ff_free(bottom);
    ff_free(scratch);
    return st;
}
