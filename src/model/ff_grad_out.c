/* The end of a gradient: what nodes' static features, positions and measures bring to faces; rows in home order; corners
 * of faces. */
#include "ff_grad_int.h"

#include "ff_mem.h"
#include "ff_moment.h"

#include <math.h>
#include <string.h>

/* ---- from source nodes down to faces ---- */

typedef struct static_ctx {
    const ff_grad *g;
    int j;
} static_ctx;

/* Row: [n_stat] of weighted means / mu, [dim] of weighted centroids / mu, [dim] of plain ones (nodes without measure),
 * and the sum of (weighted / mu) mean. */
static void static_node(void *ctx, int32_t i, double *row)
{
    const static_ctx *c = ctx;
    const ff_eval *e = c->g->e;
    const eval_set *set = &e->set[c->j];
    const grad_set *s = &c->g->set[c->j];
    int n_stat = set->n_stat, dim = e->dim;
    double mu = set->mu_node[i], *sum = &row[n_stat + 2 * dim];
    for (int a = 0; a < n_stat && mu != 0; a++) {
        double bar = s->stat_node_bar[(int64_t)i * n_stat + a] / mu;
        row[a] += bar;
        *sum += bar * set->stat_node[(int64_t)i * n_stat + a];
    }
    for (int d = 0; d < dim && s->x_node_bar != NULL; d++) {
        double bar = s->x_node_bar[(int64_t)i * dim + d];
        if (mu != 0) {
            row[n_stat + d] += bar / mu;
            *sum += bar / mu * set->x_node[(int64_t)i * dim + d];
        } else {
            row[n_stat + dim + d] += bar / (double)e->let[c->j]->tree->count[i];
        }
    }
}

static void static_point(void *ctx, int32_t p, const double *row)
{
    const static_ctx *c = ctx;
    const ff_eval *e = c->g->e;
    const eval_set *set = &e->set[c->j];
    const grad_set *s = &c->g->set[c->j];
    int n_stat = set->n_stat, dim = e->dim;
    int64_t k = p - e->let[c->j]->own_first;
    double mu = set->mu_own[k], mu_bar = -row[n_stat + 2 * dim];
    for (int a = 0; a < n_stat; a++) {
        s->stat_bar[k * n_stat + a] += mu * row[a];
        mu_bar += row[a] * set->stat_point[(int64_t)p * n_stat + a];
    }
    if (s->x_bar == NULL) return;
    for (int d = 0; d < dim; d++) {
        s->x_bar[k * dim + d] += mu * row[n_stat + d] + row[n_stat + dim + d];
        mu_bar += row[n_stat + d] * set->x_point[(int64_t)p * dim + d];
    }
    s->mu_bar[k] += mu_bar;
}

ff_status ff_grad_static_collect(ff_grad *g)
{
    for (int j = 0; j < g->e->n_src; j++) {
        static_ctx ctx = {g, j};
        ff_moment_down_ops ops = {g->e->set[j].n_stat + 2 * g->e->dim + 1, static_node, static_point, &ctx};
        FF_TRY(ff_moment_down(g->e->let[j], &ops));
    }
    return FF_OK;
}

/* ---- home ---- */

/* Columns of the static features: physical scalars, normals, physical vectors; home rows of both. */
static void split_static(const ff_grad *g, int j, const double *stat)
{
    const ff_eval *e = g->e;
    const ff_name_list *f = &e->c->model->config->bc[e->c->source[j].bc].fields;
    int dim = e->dim, n_field = ff_names_comp(f, dim), n_s = ff_names_count(f, 0), n_stat = e->set[j].n_stat;
    for (int64_t k = 0; k < e->cloud[j]->n_home; k++) {
        const double *row = stat + k * n_stat;
        for (int a = 0; a < n_field && g->v.field != NULL; a++)
            g->v.field[j][k * n_field + a] = row[a < n_s ? a : a + dim];
        for (int d = 0; d < dim && g->v.normal != NULL; d++) g->v.normal[j][k * dim + d] = row[n_s + d];
    }
}

ff_status ff_grad_rows_home(ff_grad *g)
{
    ff_eval *e = g->e;
    for (int j = 0; j < e->n_src && ff_grad_static(g); j++) {
        const grad_set *s = &g->set[j];
        int n_stat = e->set[j].n_stat;
        double *stat = NULL;
        FF_TRY(FF_NEW_ALL(e->comm, stat, e->cloud[j]->n_home * n_stat + 1));
        ff_status st = ff_cloud_to_home(e->cloud[j], (size_t)n_stat * sizeof *stat, s->stat_bar, stat);
        if (st == FF_OK) split_static(g, j, stat);
        ff_free(stat);
        FF_TRY(st);
        if (!ff_grad_faces(g)) continue;
        FF_TRY(ff_cloud_to_home(e->cloud[j], (size_t)e->dim * sizeof(double), s->x_bar, g->v.centroid[j]));
        FF_TRY(ff_cloud_to_home(e->cloud[j], sizeof(double), s->mu_bar, g->v.mu[j]));
    }
    return FF_OK;
}

/* ---- corners ---- */

/* c = 2 area times the normal (area in 2D): its cotangent from those of the unit normal and the area. */
static void cross_adjoint(int dim, const double *c, const double *normal_bar, double area_bar, double *c_bar)
{
    double len2 = 0, along = 0;
    for (int d = 0; d < dim; d++) len2 += c[d] * c[d];
    double len = sqrt(len2);
    for (int d = 0; d < dim; d++) {
        c_bar[d] = 0;
        along += len > 0 ? normal_bar[d] * c[d] / len : 0;
    }
    if (!(len > 0)) return;
    for (int d = 0; d < dim; d++)
        c_bar[d] = (normal_bar[d] - along * c[d] / len) / len + area_bar / (dim == 3 ? 2 : 1) * c[d] / len;
}

/* Adds a x b to out. */
static void add_cross(const double *a, const double *b, double sign, double *out)
{
    out[0] += sign * (a[1] * b[2] - a[2] * b[1]);
    out[1] += sign * (a[2] * b[0] - a[0] * b[2]);
    out[2] += sign * (a[0] * b[1] - a[1] * b[0]);
}

static void face_corners(int dim, const float *const *p, const double *normal_bar, double area_bar,
                         double (*bar)[3])
{
    double c[3] = {0, 0, 0}, c_bar[3], e1[3], e2[3], e1_bar[3] = {0, 0, 0}, e2_bar[3] = {0, 0, 0};
    if (dim == 2) {
        c[0] = -((double)p[1][1] - (double)p[0][1]);
        c[1] = (double)p[1][0] - (double)p[0][0];
        cross_adjoint(2, c, normal_bar, area_bar, c_bar);
        bar[1][1] -= c_bar[0], bar[0][1] += c_bar[0];
        bar[1][0] += c_bar[1], bar[0][0] -= c_bar[1];
        return;
    }
    for (int d = 0; d < 3; d++) {
        e1[d] = (double)p[1][d] - (double)p[0][d];
        e2[d] = (double)p[2][d] - (double)p[0][d];
    }
    add_cross(e1, e2, 1, c);
    cross_adjoint(3, c, normal_bar, area_bar, c_bar);
    add_cross(e2, c_bar, 1, e1_bar); /* c_bar . (de1 x e2) = de1 . (e2 x c_bar) */
    add_cross(e1, c_bar, -1, e2_bar);
    for (int d = 0; d < 3; d++) {
        bar[1][d] += e1_bar[d];
        bar[2][d] += e2_bar[d];
        bar[0][d] -= e1_bar[d] + e2_bar[d];
    }
}

void ff_grad_corners(int dim, const float *points, const int64_t *cells, int64_t n, const double *weight,
                     double reference_area, const double *centroid_bar, const double *normal_bar,
                     const double *mu_bar, double *point_bar)
{
    for (int64_t i = 0; i < n; i++) {
        const float *p[3] = {NULL, NULL, NULL};
        double bar[3][3] = {{0}};
        for (int k = 0; k < dim; k++) p[k] = points + cells[i * dim + k] * dim;
        double area_bar = mu_bar[i] * (weight != NULL ? weight[i] : 1) / reference_area;
        face_corners(dim, p, normal_bar + i * dim, area_bar, bar);
        for (int k = 0; k < dim; k++)
            for (int d = 0; d < dim; d++)
                point_bar[cells[i * dim + k] * dim + d] += bar[k][d] + centroid_bar[i * dim + d] / dim;
    }
}
