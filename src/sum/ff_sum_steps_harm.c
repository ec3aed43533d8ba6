/* Steps of one node with solid harmonics: one expansion a density, whatever its sources carry. */
#include "ff_sum_impl.h"

/* Nodes of a side with the expansions of density k. */
static ff_harm_nodes nodes(const sum_job *j, const sum_side *side, double *rows, int n_rows, int k)
{
    const int64_t n = j->s->n_proxy;
    return (ff_harm_nodes){side->mid, side->radius, rows + k * n, n_rows * n};
}

static ff_harm_points points(const sum_job *j, const sum_side *side, int32_t i, int64_t ld)
{
    const ff_tree *t = side->let->tree;
    return (ff_harm_points){.n = t->count[i],
                            .ld = ld,
                            .x = side->x + 3 * (int64_t)t->first[i],
                            .mid = side->mid + 3 * (int64_t)i,
                            .radius = side->radius[i],
                            .charge = (j->spec.in & 1) != 0,
                            .dipole = (j->spec.in & 2) != 0,
                            .grad = j->spec.grad};
}

static void leaf_up(const sum_job *j, int32_t i)
{
    const ff_harm_points p = points(j, j->from, i, j->n_dens * j->n_in);
    const double *q = j->q + j->from->let->tree->first[i] * p.ld;
    for (int k = 0; k < j->n_dens; k++) {
        const ff_harm_nodes w = nodes(j, j->from, j->w, j->n_w, k);
        ff_harm_from_points(j->s->harm, &p, q + k * j->n_in, w.row + i * w.ld);
    }
}

static void children_up(const sum_job *j, int32_t i, double *tmp)
{
    const int32_t child[2] = {i + 1, j->from->let->tree->node[i].right};
    (void)tmp;
    for (int k = 0; k < j->n_dens; k++) {
        const ff_harm_nodes w = nodes(j, j->from, j->w, j->n_w, k);
        ff_harm_up(j->s->harm, &w, i, child);
    }
}

static void children_down(const sum_job *j, int32_t i, double *tmp)
{
    const int32_t child[2] = {i + 1, j->to->let->tree->node[i].right};
    (void)tmp;
    for (int k = 0; k < j->n_dens; k++) {
        const ff_harm_nodes a = nodes(j, j->to, j->a, j->n_a, k);
        ff_harm_down(j->s->harm, &a, i, child);
    }
}

static void leaf_down(const sum_job *j, int32_t i)
{
    const ff_harm_points p = points(j, j->to, i, j->n_dens * j->n_out);
    double *u = j->u + (j->to->let->tree->first[i] - j->to->let->own_first) * p.ld;
    for (int k = 0; k < j->n_dens; k++) {
        const ff_harm_nodes a = nodes(j, j->to, j->a, j->n_a, k);
        ff_harm_to_points(j->s->harm, &p, a.row + i * a.ld, u + k * j->n_out);
    }
}

void ff_sum_far_harm(const sum_job *j, const ff_dtt_lists *l)
{
    for (int k = 0; k < j->n_dens; k++) {
        const ff_harm_nodes w = nodes(j, j->from, j->w, j->n_w, k), a = nodes(j, j->to, j->a, j->n_a, k);
        ff_harm_far(j->s->harm, &w, l->far_s, l->n_far, &a, l->t);
    }
}

const sum_steps ff_sum_steps_harm = {leaf_up, children_up, children_down, leaf_down};
