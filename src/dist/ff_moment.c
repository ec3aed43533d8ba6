#include "ff_moment.h"

#include "ff_mem.h"

#include <string.h>

/* Sums the subtree of node i into sum; scratch holds m doubles a level below. */
static void subtree_sum(const ff_tree *t, int32_t i, const ff_moment_ops *ops, double *sum, double *scratch)
{
    memset(sum, 0, (size_t)ops->m * sizeof *sum);
    if (t->node[i].right == FF_NODE_LEAF) {
        for (int64_t p = 0; p < t->count[i]; p++) ops->point(ops->ctx, t->first[i] + (int32_t)p, sum);
    } else {
        subtree_sum(t, i + 1, ops, sum, scratch + ops->m);
        subtree_sum(t, t->node[i].right, ops, scratch, scratch + ops->m);
        for (int k = 0; k < ops->m; k++) sum[k] += scratch[k];
    }
    ops->node(ops->ctx, i, sum);
}

/* Combines the replicated upper tree; *next counts the bottoms met so far. */
static void upper_sum(const ff_let *let, int32_t i, const ff_moment_ops *ops, const double *bottom,
                      int64_t *next, double *sum, double *scratch)
{
    const ff_tree *t = let->tree;
    if (*next < let->n_bottom && let->bottom_node[*next] == i) {
        memcpy(sum, bottom + *next * ops->m, (size_t)ops->m * sizeof *sum);
        bool own = *next >= let->own_bottom_begin && *next < let->own_bottom_end;
        ++*next;
        if (own) return; /* its node() was called with the subtree */
    } else {
        upper_sum(let, i + 1, ops, bottom, next, sum, scratch + ops->m);
        upper_sum(let, t->node[i].right, ops, bottom, next, scratch, scratch + ops->m);
        for (int k = 0; k < ops->m; k++) sum[k] += scratch[k];
    }
    ops->node(ops->ctx, i, sum);
}

ff_status ff_moment_upper(const ff_let *let, const ff_moment_ops *ops, const double *own)
{
    ff_status st = FF_OK;
    double *all = NULL, *scratch = NULL;
    size_t m = (size_t)ops->m, levels = (size_t)ff_topo_depth(let->cloud->n, let->cloud->leaf_size) + 2;
    if ((st = FF_NEW(all, (size_t)let->n_bottom * m + 1)) == FF_OK) st = FF_NEW(scratch, levels * m);
    if ((st = ff_agree(let->cloud->comm, st)) != FF_OK) goto done;
    FF_GO(ff_let_gather_bottom(let, m * sizeof *own, own, all));
    if (let->n_bottom > 0) {
        int64_t next = 0;
        upper_sum(let, 0, ops, all, &next, scratch, scratch + m);
    }
done:
    ff_free(all);
    ff_free(scratch);
    return st;
}

ff_status ff_moment_run(const ff_let *let, const ff_moment_ops *ops)
{
    ff_status st = FF_OK;
    double *own = NULL;
    size_t m = (size_t)ops->m;
    int64_t n_own = let->own_bottom_end - let->own_bottom_begin;
    size_t levels = (size_t)ff_topo_depth(let->cloud->n, let->cloud->leaf_size) + 2;
    FF_TRY(FF_NEW_ALL(let->cloud->comm, own, (size_t)n_own * m + 1));
    ff_status worker = FF_OK;
#pragma omp parallel
    {
        double *mine = NULL;
        if (FF_NEW(mine, levels * m) != FF_OK) {
#pragma omp atomic write
            worker = FF_E_MEM;
        }
#pragma omp for schedule(dynamic, 1)
        for (int64_t b = 0; b < n_own; b++)
            if (mine != NULL)
                subtree_sum(let->tree, let->bottom_node[let->own_bottom_begin + b], ops, own + (size_t)b * m,
                            mine);
        ff_free(mine);
    }
    FF_GO(ff_agree(let->cloud->comm, worker));
    FF_GO(ff_moment_upper(let, ops, own));
done:
    ff_free(own);
    return st;
}
