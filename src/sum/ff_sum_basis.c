/* Interpolation at Chebyshev points: boxes, cardinal functions, shifts between a node and its child. */
#include "ff_sum_impl.h"

#include <math.h>
#include <string.h>

void ff_sum_basis_init(sum_basis *b, int order)
{
    memset(b, 0, sizeof *b);
    const int n = b->n1 = order + 1;
    for (int k = 0; k < n; k++) b->t[k] = cos(3.14159265358979323846 * (2 * k + 1) / (2 * n));
    if (n % 2 != 0) b->t[n / 2] = 0;
    for (int k = 0; k < n; k++)
        for (int m = 0; m < n; m++)
            b->c[k][m] = (m == 0 ? 1.0 : 2.0) / n * cos(3.14159265358979323846 * m * (2 * k + 1) / (2 * n));
}

void ff_sum_basis_at(const sum_basis *b, double t, double *l)
{
    double cheb[FF_SUM_N1] = {1, t};
    for (int m = 2; m < b->n1; m++) cheb[m] = 2 * t * cheb[m - 1] - cheb[m - 2];
    for (int k = 0; k < b->n1; k++) {
        double sum = 0;
        for (int m = 0; m < b->n1; m++) sum += b->c[k][m] * cheb[m];
        l[k] = sum;
    }
}

void ff_sum_point_basis(const ff_sum *s, const sum_side *side, int32_t node, const double *x,
                        double l[3][FF_SUM_N1])
{
    const double *mid = side->mid + 3 * (int64_t)node, *half = side->half + 3 * (int64_t)node;
    for (int d = 0; d < s->o.dim; d++) ff_sum_basis_at(&s->basis, (x[d] - mid[d]) / half[d], l[d]);
}

void ff_sum_proxies(const ff_sum *s, const sum_side *side, int32_t node, const double origin[3], int64_t ld,
                    double *x)
{
    const double *mid = side->mid + 3 * (int64_t)node, *half = side->half + 3 * (int64_t)node;
    const int n1 = s->basis.n1;
    int64_t stride = 1;
    for (int d = 0; d < 3; d++) {
        for (int64_t i = 0; i < s->n_proxy; i++) {
            const double t = d < s->o.dim ? s->basis.t[i / stride % n1] : 0;
            x[d * ld + i] = mid[d] - origin[d] + half[d] * t;
        }
        stride *= n1;
    }
}

void ff_sum_shift_init(const ff_sum *s, const sum_side *side, int32_t parent, int32_t child, sum_shift *out)
{
    const double *pm = side->mid + 3 * (int64_t)parent, *ph = side->half + 3 * (int64_t)parent;
    const double *cm = side->mid + 3 * (int64_t)child, *ch = side->half + 3 * (int64_t)child;
    for (int d = 0; d < s->o.dim; d++)
        for (int j = 0; j < s->basis.n1; j++) {
            double l[FF_SUM_N1];
            ff_sum_basis_at(&s->basis, (cm[d] - pm[d] + ch[d] * s->basis.t[j]) / ph[d], l);
            for (int k = 0; k < s->basis.n1; k++) out->m[d][k][j] = l[k];
        }
}

/* One axis: out[o][a][r] = sum over b of m[a][b] in[o][b][r], or with m transposed. */
static void contract(int64_t n_outer, int n1, int64_t n_inner, const double m[FF_SUM_N1][FF_SUM_N1],
                     bool plain, const double *in, double *out)
{
    memset(out, 0, (size_t)(n_outer * n1 * n_inner) * sizeof *out);
    for (int64_t o = 0; o < n_outer; o++)
        for (int a = 0; a < n1; a++)
            for (int b = 0; b < n1; b++) {
                const double f = plain ? m[a][b] : m[b][a];
                const double *from = in + (o * n1 + b) * n_inner;
                double *to = out + (o * n1 + a) * n_inner;
                for (int64_t r = 0; r < n_inner; r++) to[r] += f * from[r];
            }
}

void ff_sum_shift_add(const ff_sum *s, const sum_shift *m, bool up, const double *from, double *to,
                      double *tmp)
{
    const int n1 = s->basis.n1;
    const double *in = from;
    int64_t inner = 1;
    for (int d = 0; d < s->o.dim; d++) {
        double *out = tmp + (d % 2) * s->n_proxy;
        contract(s->n_proxy / (inner * n1), n1, inner, m->m[d], up, in, out);
        in = out;
        inner *= n1;
    }
    for (int i = 0; i < s->n_proxy; i++) to[i] += in[i];
}

/* ---- boxes ---- */

/* Order 0: [3] sums of positions; the mean is what a node's count makes of it. */
static void centroid_of(const sum_side *side, double *sum, int32_t i)
{
    for (int d = 0; d < 3; d++) side->mid[3 * (int64_t)i + d] = sum[d] / (double)side->let->tree->count[i];
}

static void centroids_below(const sum_side *side, int32_t i, double *sum)
{
    const ff_tree *t = side->let->tree;
    memset(sum, 0, 3 * sizeof *sum);
    if (t->node[i].right == FF_NODE_LEAF) {
        for (int64_t p = t->first[i]; p < t->first[i] + t->count[i]; p++)
            for (int d = 0; d < 3; d++) sum[d] += side->x[3 * p + d];
    } else {
        double right[3];
        centroids_below(side, i + 1, sum);
        centroids_below(side, t->node[i].right, right);
        for (int d = 0; d < 3; d++) sum[d] += right[d];
    }
    centroid_of(side, sum, i);
}

static void centroids_above(const sum_side *side, int32_t i, const double *bottom, int64_t *next, double *sum)
{
    const ff_let *let = side->let;
    if (*next < let->n_bottom && let->bottom_node[*next] == i) {
        memcpy(sum, bottom + 3 * *next, 3 * sizeof *sum);
        ++*next;
    } else {
        double right[3];
        centroids_above(side, i + 1, bottom, next, sum);
        centroids_above(side, let->tree->node[i].right, bottom, next, right);
        for (int d = 0; d < 3; d++) sum[d] += right[d];
    }
    centroid_of(side, sum, i);
}

ff_status ff_sum_centroids(const sum_side *side)
{
    const ff_let *let = side->let;
    ff_comm *comm = side->cloud->comm;
    ff_let_transfer *t = NULL;
    double *own = NULL, *all = NULL, sum[3];
    ff_status st = FF_NEW(own, 3 * (let->own_bottom_end - let->own_bottom_begin) + 1);
    if (st == FF_OK) st = FF_NEW(all, 3 * let->n_bottom + 1);
    FF_GO(ff_agree(comm, st));
    for (int64_t b = let->own_bottom_begin; b < let->own_bottom_end; b++)
        centroids_below(side, let->bottom_node[b], own + 3 * (b - let->own_bottom_begin));
    FF_GO(ff_let_gather_bottom(let, 3 * sizeof *own, own, all));
    if (let->n_bottom > 0) {
        int64_t next = 0;
        centroids_above(side, 0, all, &next, sum);
    }
    if (let->peer != NULL) { /* finished, hence read by others */
        FF_GO(ff_let_push_begin(let, 3 * sizeof *side->mid, side->mid, 0, NULL, &t));
        FF_GO(ff_let_push_end(&t));
    }
done:
    ff_free(own);
    ff_free(all);
    return st;
}

/* The boxes of the tree are float32; a step outwards they hold the float64 points and have no zero width. */
static void box_of(const ff_sum *s, sum_side *side, int64_t i)
{
    const ff_node *n = &side->let->tree->node[i];
    for (int d = 0; d < 3; d++) {
        const double lo = nextafterf(n->lo[d], -HUGE_VALF), hi = nextafterf(n->hi[d], HUGE_VALF);
        side->mid[3 * i + d] = d < s->o.dim ? 0.5 * (lo + hi) : 0;
        side->half[3 * i + d] = d < s->o.dim ? 0.5 * (hi - lo) : 0;
    }
}

/* With its middle as box a node is far if the distance of middles * theta > sum of diameters: theta / 2 bounds the ratio
 * that expansions converge with, whatever the shape of the boxes. No such distance is less than the gap of the boxes,
 * so trees held for these hold what is opened then. */
void ff_sum_middles(ff_tree *t)
{
    for (int64_t i = 0; i < t->n_nodes; i++) {
        ff_node *n = &t->node[i];
        for (int d = 0; d < 3; d++) n->lo[d] = n->hi[d] = (float)(0.5 * ((double)n->lo[d] + n->hi[d]));
    }
}

/* Middle and radius of what ff_sum_middles left; more than 0, and enough for points rounded to float32. */
static void sphere_of(sum_side *side, int64_t i)
{
    const ff_node *n = &side->let->tree->node[i];
    side->radius[i] = 0.5 * sqrt((double)n->diam2) + 1e-37;
    for (int d = 0; d < 3; d++) {
        side->mid[3 * i + d] = n->lo[d];
        side->radius[i] += 0x1p-22 * fabs((double)n->lo[d]);
    }
}

ff_status ff_sum_boxes(const ff_sum *s, sum_side *side)
{
    const int64_t n = side->let->tree->n_nodes;
    FF_TRY(FF_NEW(side->mid, 3 * n + 1));
    if (s->harm != NULL) {
        FF_TRY(FF_NEW(side->radius, n + 1));
        for (int64_t i = 0; i < n; i++) sphere_of(side, i);
    } else {
        FF_TRY(FF_NEW(side->half, 3 * n + 1));
        for (int64_t i = 0; i < n; i++) box_of(s, side, i);
    }
    return FF_OK;
}
