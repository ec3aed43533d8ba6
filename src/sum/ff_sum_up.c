/* Upward: weights of points to the expansions of their leaf, from there to the nodes above. */
#include "ff_sum_impl.h"

#include "ff_mem.h"

#include <string.h>

static void clear(const sum_job *j, int32_t i)
{
    memset(ff_sum_row_w(j, i), 0, (size_t)(j->n_w * j->s->n_proxy) * sizeof(double));
}

static void subtree_up(const sum_job *j, const sum_steps *step, int32_t i, double *tmp)
{
    const ff_tree *t = j->from->let->tree;
    clear(j, i);
    if (t->node[i].right == FF_NODE_LEAF) {
        step->leaf_up(j, i);
        return;
    }
    subtree_up(j, step, i + 1, tmp);
    subtree_up(j, step, t->node[i].right, tmp);
    step->children_up(j, i, tmp);
}

static void upper_up(const sum_job *j, const sum_steps *step, int32_t i, int64_t *next, double *tmp)
{
    const ff_let *let = j->from->let;
    if (*next < let->n_bottom && let->bottom_node[*next] == i) {
        ++*next;
        return;
    }
    clear(j, i);
    upper_up(j, step, i + 1, next, tmp);
    upper_up(j, step, let->tree->node[i].right, next, tmp);
    step->children_up(j, i, tmp);
}

/* Rows of own bottoms to everyone, so that all ranks hold those of all bottoms. Collective */
static ff_status share_bottoms(const sum_job *j)
{
    ff_status st = FF_OK;
    const ff_let *let = j->from->let;
    ff_comm *comm = j->s->comm;
    const size_t n = (size_t)(j->n_w * j->s->n_proxy), bytes = n * sizeof(double);
    double *own = NULL, *all = NULL;
    if (comm->size == 1) return FF_OK;
    st = FF_NEW(own, (size_t)(let->own_bottom_end - let->own_bottom_begin) * n + 1);
    if (st == FF_OK) st = FF_NEW(all, (size_t)let->n_bottom * n + 1);
    FF_GO(ff_agree(comm, st));
    for (int64_t b = let->own_bottom_begin; b < let->own_bottom_end; b++)
        memcpy(own + (size_t)(b - let->own_bottom_begin) * n, ff_sum_row_w(j, let->bottom_node[b]), bytes);
    FF_GO(ff_let_gather_bottom(let, bytes, own, all));
    for (int64_t b = 0; b < let->n_bottom; b++)
        memcpy(ff_sum_row_w(j, let->bottom_node[b]), all + (size_t)b * n, bytes);
done:
    ff_free(own);
    ff_free(all);
    return st;
}

ff_status ff_sum_up(const sum_job *j)
{
    const ff_let *let = j->from->let;
    const sum_steps *step = ff_sum_steps(j->s);
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t b = let->own_bottom_begin; b < let->own_bottom_end; b++) {
        double tmp[2 * FF_SUM_N1 * FF_SUM_N1 * FF_SUM_N1];
        subtree_up(j, step, let->bottom_node[b], tmp);
    }
    FF_TRY(share_bottoms(j));
    if (let->n_bottom > 0) {
        double tmp[2 * FF_SUM_N1 * FF_SUM_N1 * FF_SUM_N1];
        int64_t next = 0;
        upper_up(j, step, 0, &next, tmp);
    }
    return FF_OK;
}
