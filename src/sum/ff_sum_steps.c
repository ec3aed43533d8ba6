/* Steps of one node by interpolation: points to proxies of their leaf, proxies to those of the parent, and back. */
#include "ff_sum_impl.h"

/* w[z][y][x] += q Lx Ly Lz, the plane (y, x) at once. */
static void leaf_up(const sum_job *j, int32_t i)
{
    const ff_tree *t = j->from->let->tree;
    const int n1 = j->s->basis.n1, n_plane = n1 * n1, n_z = j->s->o.dim == 3 ? n1 : 1;
    for (int64_t p = t->first[i]; p < t->first[i] + t->count[i]; p++) {
        double l[3][FF_SUM_N1], plane[FF_SUM_N1 * FF_SUM_N1];
        l[2][0] = 1;
        ff_sum_point_basis(j->s, j->from, i, j->from->x + 3 * p, l);
        for (int y = 0; y < n1; y++)
            for (int x = 0; x < n1; x++) plane[y * n1 + x] = l[1][y] * l[0][x];
        for (int c = 0; c < j->n_w; c++)
            for (int z = 0; z < n_z; z++) {
                double *to = ff_sum_row_w(j, i) + ((int64_t)c * n_z + z) * n_plane;
                const double f = j->q[p * j->n_w + c] * l[2][z];
                for (int k = 0; k < n_plane; k++) to[k] += f * plane[k];
            }
    }
}

static void children_up(const sum_job *j, int32_t i, double *tmp)
{
    const int32_t child[2] = {i + 1, j->from->let->tree->node[i].right};
    const int64_t n = j->s->n_proxy;
    for (int k = 0; k < 2; k++) {
        sum_shift m;
        ff_sum_shift_init(j->s, j->from, i, child[k], &m);
        for (int c = 0; c < j->n_w; c++)
            ff_sum_shift_add(j->s, &m, true, ff_sum_row_w(j, child[k]) + c * n, ff_sum_row_w(j, i) + c * n,
                             tmp);
    }
}

static void children_down(const sum_job *j, int32_t i, double *tmp)
{
    const int32_t child[2] = {i + 1, j->to->let->tree->node[i].right};
    const int64_t n = j->s->n_proxy;
    for (int k = 0; k < 2; k++) {
        sum_shift m;
        ff_sum_shift_init(j->s, j->to, i, child[k], &m);
        for (int c = 0; c < j->n_a; c++)
            ff_sum_shift_add(j->s, &m, false, ff_sum_row_a(j, i) + c * n, ff_sum_row_a(j, child[k]) + c * n,
                             tmp);
    }
}

static void leaf_down(const sum_job *j, int32_t i)
{
    const ff_tree *t = j->to->let->tree;
    const int n1 = j->s->basis.n1, n_plane = n1 * n1, n_z = j->s->o.dim == 3 ? n1 : 1;
    for (int64_t p = t->first[i]; p < t->first[i] + t->count[i]; p++) {
        double l[3][FF_SUM_N1], plane[FF_SUM_N1 * FF_SUM_N1];
        l[2][0] = 1;
        ff_sum_point_basis(j->s, j->to, i, j->to->x + 3 * p, l);
        for (int c = 0; c < j->n_a; c++) {
            double sum = 0;
            for (int k = 0; k < n_plane; k++) plane[k] = 0;
            for (int z = 0; z < n_z; z++) {
                const double *from = ff_sum_row_a(j, i) + ((int64_t)c * n_z + z) * n_plane;
                for (int k = 0; k < n_plane; k++) plane[k] += l[2][z] * from[k];
            }
            for (int y = 0; y < n1; y++) {
                double line = 0;
                for (int x = 0; x < n1; x++) line += l[0][x] * plane[y * n1 + x];
                sum += l[1][y] * line;
            }
            j->u[(p - j->to->let->own_first) * j->n_a + c] += sum;
        }
    }
}

static const sum_steps interpolation = {leaf_up, children_up, children_down, leaf_down};

const sum_steps *ff_sum_steps(const ff_sum *s)
{
    return s->harm != NULL ? &ff_sum_steps_harm : &interpolation;
}
