/* Upward: weights of points to the proxies of their leaf, from there to the nodes above. */
#include "ff_sum_impl.h"

#include "ff_mem.h"

#include <string.h>

typedef struct up_ctx {
    const ff_sum *s;
    const sum_side *side;
    int n_comp;
    const double *q;
    double *w;
} up_ctx;

static double *row(const up_ctx *u, int32_t i)
{
    return u->w + (int64_t)i * u->n_comp * u->s->n_proxy;
}

/* w[z][y][x] += q Lx Ly Lz, the plane (y, x) at once. */
static void leaf_up(const up_ctx *u, int32_t i)
{
    const ff_tree *t = u->side->let->tree;
    const int n1 = u->s->basis.n1, n_plane = n1 * n1, n_z = u->s->o.dim == 3 ? n1 : 1;
    for (int64_t p = t->first[i]; p < t->first[i] + t->count[i]; p++) {
        double l[3][FF_SUM_N1], plane[FF_SUM_N1 * FF_SUM_N1];
        l[2][0] = 1;
        ff_sum_point_basis(u->s, u->side, i, u->side->x + 3 * p, l);
        for (int y = 0; y < n1; y++)
            for (int x = 0; x < n1; x++) plane[y * n1 + x] = l[1][y] * l[0][x];
        for (int c = 0; c < u->n_comp; c++)
            for (int z = 0; z < n_z; z++) {
                double *to = row(u, i) + ((int64_t)c * n_z + z) * n_plane;
                const double f = u->q[p * u->n_comp + c] * l[2][z];
                for (int k = 0; k < n_plane; k++) to[k] += f * plane[k];
            }
    }
}

static void child_up(const up_ctx *u, int32_t i, int32_t child, double *tmp)
{
    sum_shift m;
    const int64_t n = u->s->n_proxy;
    ff_sum_shift_init(u->s, u->side, i, child, &m);
    for (int c = 0; c < u->n_comp; c++)
        ff_sum_shift_add(u->s, &m, true, row(u, child) + c * n, row(u, i) + c * n, tmp);
}

static void subtree_up(const up_ctx *u, int32_t i, double *tmp)
{
    const ff_tree *t = u->side->let->tree;
    memset(row(u, i), 0, (size_t)(u->n_comp * u->s->n_proxy) * sizeof(double));
    if (t->node[i].right == FF_NODE_LEAF) {
        leaf_up(u, i);
        return;
    }
    subtree_up(u, i + 1, tmp);
    subtree_up(u, t->node[i].right, tmp);
    child_up(u, i, i + 1, tmp);
    child_up(u, i, t->node[i].right, tmp);
}

static void upper_up(const up_ctx *u, int32_t i, int64_t *next, double *tmp)
{
    const ff_let *let = u->side->let;
    if (*next < let->n_bottom && let->bottom_node[*next] == i) {
        ++*next;
        return;
    }
    memset(row(u, i), 0, (size_t)(u->n_comp * u->s->n_proxy) * sizeof(double));
    upper_up(u, i + 1, next, tmp);
    upper_up(u, let->tree->node[i].right, next, tmp);
    child_up(u, i, i + 1, tmp);
    child_up(u, i, let->tree->node[i].right, tmp);
}

/* Rows of own bottoms to everyone, so that all ranks hold those of all bottoms. Collective */
static ff_status share_bottoms(const up_ctx *u)
{
    ff_status st = FF_OK;
    const ff_let *let = u->side->let;
    ff_comm *comm = u->s->comm;
    const size_t n = (size_t)(u->n_comp * u->s->n_proxy), bytes = n * sizeof(double);
    double *own = NULL, *all = NULL;
    if (comm->size == 1) return FF_OK;
    st = FF_NEW(own, (size_t)(let->own_bottom_end - let->own_bottom_begin) * n + 1);
    if (st == FF_OK) st = FF_NEW(all, (size_t)let->n_bottom * n + 1);
    FF_GO(ff_agree(comm, st));
    for (int64_t b = let->own_bottom_begin; b < let->own_bottom_end; b++)
        memcpy(own + (size_t)(b - let->own_bottom_begin) * n, row(u, let->bottom_node[b]), bytes);
    FF_GO(ff_let_gather_bottom(let, bytes, own, all));
    for (int64_t b = 0; b < let->n_bottom; b++)
        memcpy(row(u, let->bottom_node[b]), all + (size_t)b * n, bytes);
done:
    ff_free(own);
    ff_free(all);
    return st;
}

ff_status ff_sum_up(const ff_sum *s, const sum_side *side, int n_comp, const double *q, double *w)
{
    const ff_let *let = side->let;
    const up_ctx u = {s, side, n_comp, q, w};
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t b = let->own_bottom_begin; b < let->own_bottom_end; b++) {
        double tmp[2 * FF_SUM_N1 * FF_SUM_N1 * FF_SUM_N1];
        subtree_up(&u, let->bottom_node[b], tmp);
    }
    FF_TRY(share_bottoms(&u));
    if (let->n_bottom > 0) {
        double tmp[2 * FF_SUM_N1 * FF_SUM_N1 * FF_SUM_N1];
        int64_t next = 0;
        upper_up(&u, 0, &next, tmp);
    }
    return FF_OK;
}
