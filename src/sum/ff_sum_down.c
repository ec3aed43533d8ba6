/* Downward: the expansion of a node to its children, at last to the points of leaves. */
#include "ff_sum_impl.h"

static void subtree_down(const sum_job *j, const sum_steps *step, int32_t i, double *tmp)
{
    const ff_tree *t = j->to->let->tree;
    if (t->node[i].right == FF_NODE_LEAF) {
        step->leaf_down(j, i);
        return;
    }
    step->children_down(j, i, tmp);
    subtree_down(j, step, i + 1, tmp);
    subtree_down(j, step, t->node[i].right, tmp);
}

static bool own(const sum_job *j, int32_t i)
{
    const ff_tree *t = j->to->let->tree;
    const ff_cloud *c = j->to->cloud;
    return t->start[i] < c->cut[c->comm->rank + 1] && t->start[i] + t->count[i] > c->cut[c->comm->rank];
}

/* Nodes above bottoms that hold own points. */
static void upper_down(const sum_job *j, const sum_steps *step, int32_t i, int64_t *next, double *tmp)
{
    const ff_let *let = j->to->let;
    if (*next < let->n_bottom && let->bottom_node[*next] == i) {
        ++*next;
        return;
    }
    if (own(j, i)) step->children_down(j, i, tmp);
    upper_down(j, step, i + 1, next, tmp);
    upper_down(j, step, let->tree->node[i].right, next, tmp);
}

ff_status ff_sum_down(const sum_job *j)
{
    const ff_let *let = j->to->let;
    const sum_steps *step = ff_sum_steps(j->s);
    if (let->n_bottom > 0) {
        double tmp[2 * FF_SUM_N1 * FF_SUM_N1 * FF_SUM_N1];
        int64_t next = 0;
        upper_down(j, step, 0, &next, tmp);
    }
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t b = let->own_bottom_begin; b < let->own_bottom_end; b++) {
        double tmp[2 * FF_SUM_N1 * FF_SUM_N1 * FF_SUM_N1];
        subtree_down(j, step, let->bottom_node[b], tmp);
    }
    return FF_OK;
}
