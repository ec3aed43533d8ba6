/* Downward: values at the proxies of a node to its children, at last to the points of leaves. */
#include "ff_sum_impl.h"

typedef struct down_ctx {
    const ff_sum *s;
    const sum_side *side;
    int n_comp;
    double *a, *u;
} down_ctx;

static double *row(const down_ctx *d, int32_t i)
{
    return d->a + (int64_t)i * d->n_comp * d->s->n_proxy;
}

static void leaf_down(const down_ctx *d, int32_t i)
{
    const ff_tree *t = d->side->let->tree;
    const int n1 = d->s->basis.n1, n_plane = n1 * n1, n_z = d->s->o.dim == 3 ? n1 : 1;
    for (int64_t p = t->first[i]; p < t->first[i] + t->count[i]; p++) {
        double l[3][FF_SUM_N1], plane[FF_SUM_N1 * FF_SUM_N1];
        l[2][0] = 1;
        ff_sum_point_basis(d->s, d->side, i, d->side->x + 3 * p, l);
        for (int c = 0; c < d->n_comp; c++) {
            double sum = 0;
            for (int k = 0; k < n_plane; k++) plane[k] = 0;
            for (int z = 0; z < n_z; z++) {
                const double *from = row(d, i) + ((int64_t)c * n_z + z) * n_plane;
                for (int k = 0; k < n_plane; k++) plane[k] += l[2][z] * from[k];
            }
            for (int y = 0; y < n1; y++) {
                double line = 0;
                for (int x = 0; x < n1; x++) line += l[0][x] * plane[y * n1 + x];
                sum += l[1][y] * line;
            }
            d->u[(p - d->side->let->own_first) * d->n_comp + c] += sum;
        }
    }
}

static void child_down(const down_ctx *d, int32_t i, int32_t child, double *tmp)
{
    sum_shift m;
    const int64_t n = d->s->n_proxy;
    ff_sum_shift_init(d->s, d->side, i, child, &m);
    for (int c = 0; c < d->n_comp; c++)
        ff_sum_shift_add(d->s, &m, false, row(d, i) + c * n, row(d, child) + c * n, tmp);
}

static void subtree_down(const down_ctx *d, int32_t i, double *tmp)
{
    const ff_tree *t = d->side->let->tree;
    if (t->node[i].right == FF_NODE_LEAF) {
        leaf_down(d, i);
        return;
    }
    child_down(d, i, i + 1, tmp);
    child_down(d, i, t->node[i].right, tmp);
    subtree_down(d, i + 1, tmp);
    subtree_down(d, t->node[i].right, tmp);
}

static bool own(const down_ctx *d, int32_t i)
{
    const ff_tree *t = d->side->let->tree;
    const ff_cloud *c = d->side->cloud;
    return t->start[i] < c->cut[c->comm->rank + 1] && t->start[i] + t->count[i] > c->cut[c->comm->rank];
}

/* Nodes above bottoms that hold own points. */
static void upper_down(const down_ctx *d, int32_t i, int64_t *next, double *tmp)
{
    const ff_let *let = d->side->let;
    if (*next < let->n_bottom && let->bottom_node[*next] == i) {
        ++*next;
        return;
    }
    const int32_t child[2] = {i + 1, let->tree->node[i].right};
    for (int k = 0; k < 2; k++)
        if (own(d, i) && own(d, child[k])) child_down(d, i, child[k], tmp);
    for (int k = 0; k < 2; k++) upper_down(d, child[k], next, tmp);
}

ff_status ff_sum_down(const ff_sum *s, const sum_side *side, int n_comp, double *a, double *u)
{
    const ff_let *let = side->let;
    const down_ctx d = {s, side, n_comp, a, u};
    if (let->n_bottom > 0) {
        double tmp[2 * FF_SUM_N1 * FF_SUM_N1 * FF_SUM_N1];
        int64_t next = 0;
        upper_down(&d, 0, &next, tmp);
    }
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t b = let->own_bottom_begin; b < let->own_bottom_end; b++) {
        double tmp[2 * FF_SUM_N1 * FF_SUM_N1 * FF_SUM_N1];
        subtree_down(&d, let->bottom_node[b], tmp);
    }
    return FF_OK;
}
