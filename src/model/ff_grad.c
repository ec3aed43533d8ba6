#include "ff_grad_int.h"

#include "ff_mem.h"
#include "ff_timer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

bool ff_grad_faces(const ff_grad *g)
{
    return (g->want & FF_GRAD_FACES) != 0;
}

bool ff_grad_moves(const ff_grad *g)
{
    return (g->want & (FF_GRAD_POINTS | FF_GRAD_FACES)) != 0;
}

bool ff_grad_static(const ff_grad *g)
{
    return (g->want & (FF_GRAD_FIELDS | FF_GRAD_FACES)) != 0;
}

/* ---- parameters ---- */

bool ff_grad_many_weights(const ff_grad *g)
{
    const ff_model *m = g->e->c->model;
    int64_t n = 0;
    for (int i = 0; i < m->n_tensors; i++) n += (int64_t)m->tensor[i].n;
    return n > GRAD_MANY_WEIGHTS;
}

int ff_grad_tensor(const ff_grad *g, const float *value)
{
    const ff_model *m = g->e->c->model;
    int i = 0;
    while (i < m->n_tensors && m->tensor[i].value != value) i++;
    return i;
}

static double *bar_of(const ff_grad *g, const char *name)
{
    const ff_tensor *t = ff_model_tensor(g->e->c->model, name);
    return t != NULL ? g->v.tensor[t - g->e->c->model->tensor] : NULL;
}

double *ff_grad_scale_bar(const ff_grad *g, int layer, int bc, int len)
{
    const ff_model_config *m = g->e->c->model->config;
    char name[1024];
    (void)snprintf(name, sizeof name, "kernel_layers.%d.%s.log_scalefactors.%s", layer, m->bc[bc].name,
                   m->len[len]);
    return bar_of(g, name);
}

static double final_value(const ff_grad *g, const void *y, int64_t p)
{
    return g->e->opts.f64 ? ((const double *)y)[p] : (double)((const float *)y)[p];
}

/* Factors for the cotangents and the values, so that no sum of their products or of the cotangents exceeds 1. */
static ff_status calibration_scale(const ff_grad *g, const void *y, const double *out_bar, double scale[2])
{
    const ff_cloud *c = g->e->cloud[g->e->target];
    double top[3] = {0, 0, (double)c->n};
    int e[3];
    int64_t n = c->n_own * ff_names_comp(&g->e->c->model->config->outputs, g->e->dim);
    for (int64_t p = 0; p < n; p++) {
        top[0] = fmax(top[0], fabs(out_bar[p]));
        top[1] = fmax(top[1], fabs(final_value(g, y, p)));
    }
    FF_TRY(ff_sums_exponents(g->e->comm, 3, top, e));
    scale[0] = ldexp(1, -e[0] - e[2]);
    scale[1] = ldexp(1, -e[1]);
    return FF_OK;
}

/* Sums over own targets: [field][weight, bias]. */
static void calibration_terms(const ff_grad *g, const void *y, const double scale[2], double *out_bar,
                              ff_sums *sums)
{
    const ff_eval *e = g->e;
    const ff_name_list *f = &e->c->model->config->outputs;
    int n_comp = ff_names_comp(f, e->dim);
    for (int i = 0, at = 0; i < f->n; i++) {
        int comp = f->item[i].rank == 0 ? 1 : e->dim;
        double w, b;
        ff_model_calibration(e->c->model, i, &w, &b);
        for (int64_t k = 0; k < e->cloud[e->target]->n_own; k++)
            for (int d = 0; d < comp; d++) {
                int64_t p = k * n_comp + at + d;
                double bar = out_bar[p] * scale[0];
                ff_sums_add_one(sums, (int64_t)2 * i, bar * (final_value(g, y, p) * scale[1]));
                ff_sums_add_one(sums, (int64_t)2 * i + 1, bar);
                out_bar[p] *= w;
            }
        at += comp;
    }
}

ff_status ff_grad_calibrate(ff_grad *g, const void *y, double *out_bar)
{
    const ff_name_list *f = &g->e->c->model->config->outputs;
    ff_sums *sums = NULL;
    double scale[2];
    FF_TRY(calibration_scale(g, y, out_bar, scale));
    FF_TRY(ff_agree(g->e->comm, ff_sums_create((int64_t)2 * f->n, &sums)));
    calibration_terms(g, y, scale, out_bar, sums);
    ff_status st = ff_sums_allreduce(g->e->comm, sums);
    for (int i = 0; i < f->n && st == FF_OK; i++)
        for (int k = 0; k < 2; k++) {
            char name[64];
            (void)snprintf(name, sizeof name, "final_field_transforms.%d.%s", i, k == 0 ? "weight" : "bias");
            double *bar = bar_of(g, name);
            if (bar != NULL)
                *bar = ff_sums_value(sums, (int64_t)2 * i + k) / scale[0] / (k == 0 ? scale[1] : 1);
        }
    ff_sums_destroy(&sums);
    return st;
}

static void clear_values(ff_grad *g)
{
    const ff_eval *e = g->e;
    const ff_model_config *m = e->c->model->config;
#pragma omp parallel for schedule(dynamic, 4) if (ff_grad_many_weights(g))
    for (int i = 0; i < e->c->model->n_tensors; i++)
        memset(g->v.tensor[i], 0, (size_t)e->c->model->tensor[i].n * sizeof(double));
    memset(g->v.global, 0, (size_t)ff_names_comp(&m->globals, m->dim) * sizeof(double));
    memset(g->v.length, 0, (size_t)m->n_len * sizeof(double));
    memset(g->gscalar_bar, 0,
           (size_t)(ff_names_count(&m->globals, 0) + m->n_len * m->n_len) * sizeof(double));
    memset(g->gvector_bar, 0, (size_t)(ff_names_count(&m->globals, 1) * m->dim) * sizeof(double));
    for (int j = 0; j < e->n_src; j++) {
        grad_set *s = &g->set[j];
        size_t own = (size_t)e->cloud[j]->n_own * sizeof(double);
        size_t nodes = (size_t)e->let[j]->tree->n_nodes * sizeof(double);
        size_t dim = (size_t)e->dim, n_stat = (size_t)e->set[j].n_stat;
        if (s->stat_bar != NULL) memset(s->stat_bar, 0, own * n_stat);
        if (s->stat_node_bar != NULL) memset(s->stat_node_bar, 0, nodes * n_stat);
        if (s->x_bar != NULL) memset(s->x_bar, 0, own * dim);
        if (s->x_node_bar != NULL) memset(s->x_node_bar, 0, nodes * dim);
        if (s->mu_bar != NULL) memset(s->mu_bar, 0, own);
    }
    g->stats = (ff_grad_stats){0};
}

static ff_status alloc_values(ff_grad *g)
{
    const ff_eval *e = g->e;
    const ff_model *model = e->c->model;
    const ff_model_config *m = model->config;
    FF_TRY(FF_NEW0(g->v.tensor, model->n_tensors + 1));
    for (int i = 0; i < model->n_tensors; i++) FF_TRY(FF_NEW(g->v.tensor[i], model->tensor[i].n + 1));
    FF_TRY(FF_NEW(g->v.global, ff_names_comp(&m->globals, m->dim) + 1));
    FF_TRY(FF_NEW(g->v.length, m->n_len + 1));
    FF_TRY(FF_NEW(g->gscalar_bar, ff_names_count(&m->globals, 0) + m->n_len * m->n_len + 1));
    FF_TRY(FF_NEW(g->gvector_bar, ff_names_count(&m->globals, 1) * m->dim + 1));
    if ((g->want & FF_GRAD_POINTS) != 0)
        FF_TRY(FF_NEW(g->v.points, e->cloud[e->target]->n_home * e->dim + 1));
    if ((g->want & FF_GRAD_FIELDS) != 0) FF_TRY(FF_NEW0(g->v.field, e->n_src + 1));
    if (ff_grad_faces(g)) {
        FF_TRY(FF_NEW0(g->v.centroid, e->n_src + 1));
        FF_TRY(FF_NEW0(g->v.normal, e->n_src + 1));
        FF_TRY(FF_NEW0(g->v.mu, e->n_src + 1));
    }
    for (int j = 0; j < e->n_src; j++) {
        int64_t n = e->cloud[j]->n_home;
        int n_field = ff_names_comp(&m->bc[e->c->source[j].bc].fields, m->dim);
        if (g->v.field != NULL) FF_TRY(FF_NEW(g->v.field[j], n * n_field + 1));
        if (!ff_grad_faces(g)) continue;
        FF_TRY(FF_NEW(g->v.centroid[j], n * m->dim + 1));
        FF_TRY(FF_NEW(g->v.normal[j], n * m->dim + 1));
        FF_TRY(FF_NEW(g->v.mu[j], n + 1));
    }
    return FF_OK;
}

/* ---- units ---- */

/* Own nodes in preorder: those with more points than a block stand alone, a block goes with all below it. */
static ff_status list_units(const ff_grad *g, int j, grad_set *s)
{
    const ff_let *let = g->e->let[j];
    const ff_tree *t = let->tree;
    int64_t begin = let->cloud->cut[let->cloud->comm->rank], end = begin + let->cloud->n_own, n_single = 0;
    int64_t most = t->leaf_size > FF_BLOCK_POINTS ? t->leaf_size : FF_BLOCK_POINTS;
    for (int pass = 0; pass < 2; pass++) {
        int64_t single = 0, block = n_single;
        for (int32_t i = 0; i < t->n_nodes;) {
            bool own = t->start[i] >= begin && t->start[i]<end, is_single = t->count[i]> most;
            if (own && pass == 1) s->unit[is_single ? single : block] = (grad_unit){i, is_single};
            if (own && is_single) single++;
            if (own && !is_single) block++;
            i += own && !is_single ? (int32_t)ff_topo_nodes(t->count[i], t->leaf_size) : 1;
        }
        if (pass == 1) break;
        n_single = single;
        s->n_units = single + block;
        FF_TRY(FF_NEW(s->unit, s->n_units + 1));
    }
    return FF_OK;
}

static ff_status alloc_sources(ff_grad *g)
{
    const ff_eval *e = g->e;
    for (int j = 0; j < e->n_src; j++) {
        grad_set *s = &g->set[j];
        int64_t own = e->cloud[j]->n_own, nodes = e->let[j]->tree->n_nodes;
        FF_TRY(list_units(g, j, s));
        if (ff_grad_static(g)) {
            FF_TRY(FF_NEW(s->stat_bar, own * e->set[j].n_stat + 1));
            FF_TRY(FF_NEW(s->stat_node_bar, nodes * e->set[j].n_stat + 1));
        }
        if (!ff_grad_faces(g)) continue;
        FF_TRY(FF_NEW(s->x_bar, own * e->dim + 1));
        FF_TRY(FF_NEW(s->x_node_bar, nodes * e->dim + 1));
        FF_TRY(FF_NEW(s->mu_bar, own + 1));
    }
    return FF_OK;
}

/* ---- transposed trees ---- */

static ff_status make_trees(ff_grad *g)
{
    ff_eval *e = g->e;
    ff_status st = FF_OK;
    if (e->comm->size == 1) {
        for (int i = 0; i < e->n_cloud; i++) g->tlet[i] = e->let[i];
        return FF_OK;
    }
    FF_TRY(ff_let_build_transposed(e->cloud, e->n_cloud, e->need, e->c->theta, e->c->expand_far, g->tlet));
    g->own_tlet = true;
    for (int i = 0; i < e->n_cloud && st == FF_OK; i++)
        for (int j = 0; j < e->n_src && st == FF_OK; j++)
            if (e->need[i * e->n_cloud + j])
                st = ff_let_mark_transposed(e->let[j], g->tlet[i], e->c->theta, e->c->expand_far);
    FF_TRY(ff_agree(e->comm, st));
    for (int i = 0; i < e->n_cloud; i++) FF_TRY(ff_let_finish(g->tlet[i]));
    return FF_OK;
}

/* ---- public ---- */

ff_status ff_grad_create(ff_eval *e, unsigned want, ff_grad **out)
{
    ff_status st = FF_OK;
    ff_grad *g = NULL;
    *out = NULL;
    if (!e->opts.keep) return ff_fail(FF_E_ARG, "gradient: the evaluation was created without opts.keep");
    FF_TRY(FF_NEW0_ALL(e->comm, g, 1));
    g->e = e;
    g->want = want;
    st = FF_NEW0(g->tlet, e->n_cloud + 1);
    if (st == FF_OK) st = FF_NEW0(g->set, e->n_cloud + 1);
    FF_GO(ff_agree(e->comm, st));
    FF_GO(make_trees(g));
    st = alloc_values(g);
    if (st == FF_OK) st = alloc_sources(g);
    FF_GO(ff_agree(e->comm, st));
    FF_GO(ff_grad_points_create(g));
    if (e->opts.adjoint != NULL && !e->opts.f64) FF_GO(ff_agree(e->comm, ff_grad_lists_begin(g)));
    *out = g;
    g = NULL;
done:
    ff_grad_destroy(&g);
    return st;
}

ff_status ff_grad_run(ff_grad *g, const double *out_bar)
{
    ff_eval *e = g->e;
    double t0 = ff_now_s(), *own = NULL;
    int n_comp = ff_names_comp(&e->c->model->config->outputs, e->dim);
    if (e->kept == NULL) return ff_fail(FF_E_ARG, "gradient: needs an evaluation before it");
    clear_values(g);
    ff_grad_points_clear(g);
    FF_TRY(FF_NEW_ALL(e->comm, own, e->cloud[e->target]->n_own * n_comp + 1));
    ff_status st = ff_cloud_to_own(e->cloud[e->target], (size_t)n_comp * sizeof *own, out_bar, own);
    if (st == FF_OK) st = e->opts.f64 ? ff_grad_layers_f64(g, own) : ff_grad_layers_f32(g, own);
    ff_free(own);
    if (st == FF_OK && ff_grad_static(g)) st = ff_grad_static_collect(g);
    if (st == FF_OK) st = ff_grad_rows_home(g);
    if (st == FF_OK)
        st = ff_agree(e->comm, ff_model_globals_adjoint(e->c->model->config, e->c->length, g->gscalar_bar,
                                                        g->gvector_bar, g->v.global, g->v.length));
    g->stats.t_run_s = ff_now_s() - t0;
    return st;
}

const ff_grad_values *ff_grad_get(const ff_grad *g)
{
    return &g->v;
}

const ff_grad_stats *ff_grad_get_stats(const ff_grad *g)
{
    return &g->stats;
}

static void free_set(const ff_grad *g, int i)
{
    grad_set *s = &g->set[i];
    if (g->own_tlet) { /* else the evaluation's */
        ff_free(s->x_point);
        ff_free(s->x_plain);
        ff_free(s->x_node);
        ff_free(s->mu_node);
    }
    for (int f = 0; f < 2; f++) {
        ff_sums_destroy(&s->t_point[f]);
        ff_sums_destroy(&s->t_plain[f]);
    }
    ff_sums_destroy(&s->t_node);
    ff_free(s->unit);
    ff_free(s->stat_bar);
    ff_free(s->stat_node_bar);
    ff_free(s->x_bar);
    ff_free(s->x_node_bar);
    ff_free(s->mu_bar);
}

static void free_pairs(const ff_grad *g)
{
    const ff_pair_backend *b = g->e->opts.adjoint;
    for (int f = 0; f < 2; f++) {
        for (int j = 0; g->pairs[f] != NULL && j < g->e->n_src; j++) {
            grad_pairs *p = &g->pairs[f][j];
            if (p->job != NULL) b->adjoint->job_destroy(b->impl, &p->job);
            ff_adj_lists_destroy(&p->lists);
            ff_free(p->unit_slot);
            ff_free(p->point);
            ff_free(p->node);
            ff_free(p->some);
        }
        ff_free(g->pairs[f]);
    }
}

void ff_grad_destroy(ff_grad **gp)
{
    ff_grad *g = *gp;
    if (g == NULL) return;
    const ff_eval *e = g->e;
    ff_grad_lists_end(g);
    free_pairs(g);
    for (int i = 0; i < e->n_cloud; i++) {
        if (g->set != NULL) free_set(g, i);
        if (g->own_tlet) ff_let_destroy(&g->tlet[i]);
    }
    for (int i = 0; i < e->c->model->n_tensors && g->v.tensor != NULL; i++) ff_free(g->v.tensor[i]);
    for (int j = 0; j < e->n_src; j++) {
        if (g->v.field != NULL) ff_free(g->v.field[j]);
        if (g->v.centroid != NULL) ff_free(g->v.centroid[j]);
        if (g->v.normal != NULL) ff_free(g->v.normal[j]);
        if (g->v.mu != NULL) ff_free(g->v.mu[j]);
    }
    ff_free(g->v.tensor);
    ff_free(g->v.points);
    ff_free(g->v.field);
    ff_free(g->v.global);
    ff_free(g->v.length);
    ff_free(g->v.centroid);
    ff_free(g->v.normal);
    ff_free(g->v.mu);
    ff_free(g->gscalar_bar);
    ff_free(g->gvector_bar);
    ff_free(g->tlet);
    ff_free(g->set);
    FF_FREE(*gp);
}
