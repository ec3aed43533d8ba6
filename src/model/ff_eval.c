#include "ff_eval_int.h"

#include "ff_mem.h"
#include "ff_moment.h"
#include "ff_timer.h"

#include <math.h>
#include <string.h>

enum { TASK_POINTS = 256 };

/* ---- which pairs of clouds interact ---- */

static ff_status pick_pairs(ff_eval *e)
{
    const ff_model_config *m = e->c->model->config;
    int n = e->n_cloud;
    FF_TRY(FF_NEW0(e->need, n * n));
    FF_TRY(FF_NEW0(e->weight, n * n));
    for (int i = 0; i < n; i++)
        for (int j = 0; j < e->n_src; j++) {
            int layers = (i < e->n_src ? m->n_comm : 0) + (i == e->target ? 1 : 0);
            e->need[i * n + j] = layers > 0;
            e->weight[i * n + j] = (int64_t)layers * m->n_len;
        }
    return FF_OK;
}

static ff_status make_clouds(ff_eval *e)
{
    const ff_case *c = e->c;
    FF_TRY(FF_NEW0_ALL(e->comm, e->cloud, e->n_cloud));
    for (int i = 0; i < e->n_cloud; i++) {
        bool source = i < e->n_src;
        FF_TRY(ff_cloud_create(e->comm, source ? c->source[i].x32 : c->target_x32,
                               source ? c->source[i].n : c->n_targets, e->dim, c->leaf_size, &e->cloud[i]));
    }
    return FF_OK;
}

/* Targets in tasks of about TASK_POINTS, cut at block borders so that no leaf is shared. */
static ff_status make_tasks(eval_set *s, const ff_cloud *cloud)
{
    int64_t begin = cloud->cut[cloud->comm->rank], end = cloud->cut[cloud->comm->rank + 1];
    FF_TRY(FF_NEW(s->task, (end - begin) / (TASK_POINTS / 2) + 3));
    s->task[0] = begin;
    while (s->task[s->n_tasks] < end) {
        int64_t from = s->task[s->n_tasks], to = from + TASK_POINTS;
        to = to >= end ? end : ff_topo_border(cloud->n, cloud->leaf_size, to);
        s->task[++s->n_tasks] = to > from ? to : end;
    }
    FF_TRY(FF_NEW0(s->remote, s->n_tasks + 1));
    return FF_OK;
}

static ff_status mark_all(ff_eval *e)
{
    ff_status st = FF_OK;
    for (int i = 0; i < e->n_cloud && st == FF_OK; i++) {
        st = make_tasks(&e->set[i], e->cloud[i]);
        if (e->comm->size == 1) continue; /* all is own: nothing is read that has to come */
        for (int j = 0; j < e->n_src && st == FF_OK; j++)
            if (e->need[i * e->n_cloud + j])
                st = ff_let_mark(e->let[i], e->let[j], e->c->theta, e->c->expand_far, e->set[i].task,
                                 e->set[i].n_tasks, e->set[i].remote);
    }
    FF_TRY(ff_agree(e->comm, st));
    for (int j = 0; j < e->n_src; j++) FF_TRY(ff_let_finish(e->let[j]));
    return FF_OK;
}

/* ---- geometry: points to their owners, aggregates, payload ---- */

typedef struct geometry_ctx {
    const ff_eval *e;
    const ff_let *let;
    eval_set *s;
    bool source;
} geometry_ctx;

/* Row: count, plain sum of x; sources also mu, mu x, mu stat. */
static void geometry_point(void *ctx, int32_t p, double *sum)
{
    const geometry_ctx *g = ctx;
    int dim = g->e->dim;
    const double *x = g->s->x_point + (int64_t)p * dim;
    sum[0] += 1;
    for (int d = 0; d < dim; d++) sum[1 + d] += x[d];
    if (!g->source) return;
    double mu = g->s->mu_own[p - g->let->own_first], *w = sum + 1 + dim;
    w[0] += mu;
    for (int d = 0; d < dim; d++) w[1 + d] += mu * x[d];
    const double *stat = g->s->stat_point + (int64_t)p * g->s->n_stat;
    for (int k = 0; k < g->s->n_stat; k++) w[1 + dim + k] += mu * stat[k];
}

static void geometry_node(void *ctx, int32_t i, const double *sum)
{
    const geometry_ctx *g = ctx;
    int dim = g->e->dim;
    double *plain = g->s->x_plain + (int64_t)i * dim;
    for (int d = 0; d < dim; d++) plain[d] = sum[1 + d] / sum[0];
    if (!g->source) return;
    const double *w = sum + 1 + dim;
    bool some = w[0] != 0;
    g->s->mu_node[i] = w[0];
    for (int d = 0; d < dim; d++) g->s->x_node[(int64_t)i * dim + d] = some ? w[1 + d] / w[0] : plain[d];
    for (int k = 0; k < g->s->n_stat; k++)
        g->s->stat_node[(int64_t)i * g->s->n_stat + k] = some ? w[1 + dim + k] / w[0] : 0;
}

static ff_status alloc_set(ff_eval *e, int i)
{
    eval_set *s = &e->set[i];
    const ff_tree *t = e->let[i]->tree;
    int64_t np = t->n_held, nn = t->n_nodes;
    FF_TRY(FF_NEW(s->x_point, np * e->dim + 1));
    FF_TRY(FF_NEW(s->x_plain, nn * e->dim + 1));
    if (i >= e->n_src) return FF_OK;
    s->n_stat = e->dim + ff_names_comp(&e->c->model->config->bc[e->c->source[i].bc].fields, e->dim);
    FF_TRY(FF_NEW(s->x_node, nn * e->dim + 1));
    FF_TRY(FF_NEW(s->stat_point, np * s->n_stat + 1));
    FF_TRY(FF_NEW(s->stat_node, nn * s->n_stat + 1));
    FF_TRY(FF_NEW(s->mu_own, e->cloud[i]->n_own + 1));
    FF_TRY(FF_NEW0(s->mu_node, nn + 1));
    return FF_NEW0(s->late_node, nn + 1);
}

/* Static features of the home faces: physical scalars, normals, physical vectors. */
static ff_status pack_static(const ff_eval *e, int i, double **out)
{
    const ff_source *src = &e->c->source[i];
    const ff_name_list *f = &e->c->model->config->bc[src->bc].fields;
    int dim = e->dim, n_field = ff_names_comp(f, dim), n_s = ff_names_count(f, 0), n_stat = e->set[i].n_stat;
    FF_TRY(FF_NEW(*out, src->n * n_stat + 1));
    for (int64_t k = 0; k < src->n; k++) {
        double *row = *out + k * n_stat;
        const double *field = src->field + k * n_field;
        for (int a = 0; a < n_s; a++) row[a] = field[a];
        for (int d = 0; d < dim; d++) row[n_s + d] = src->normal[k * dim + d];
        for (int a = n_s; a < n_field; a++) row[dim + a] = field[a];
    }
    return FF_OK;
}

static ff_status push_rows(const ff_let *let, int n, double *node_rows, double *point_rows)
{
    ff_let_transfer *t = NULL;
    size_t bytes = (size_t)n * sizeof(double);
    FF_TRY(ff_let_push_begin(let, node_rows != NULL ? bytes : 0, node_rows, bytes, point_rows, &t));
    return ff_let_push_end(&t);
}

static ff_status source_to_own(ff_eval *e, int i)
{
    ff_status st = FF_OK;
    const ff_source *src = &e->c->source[i];
    const ff_let *let = e->let[i];
    eval_set *s = &e->set[i];
    double *stat = NULL;
    FF_GO(ff_agree(e->comm, pack_static(e, i, &stat)));
    FF_GO(ff_cloud_to_own(e->cloud[i], (size_t)e->dim * sizeof(double), src->x,
                          s->x_point + (int64_t)let->own_first * e->dim));
    FF_GO(ff_cloud_to_own(e->cloud[i], (size_t)s->n_stat * sizeof(double), stat,
                          s->stat_point + (int64_t)let->own_first * s->n_stat));
    FF_GO(ff_cloud_to_own(e->cloud[i], sizeof(double), src->mu, s->mu_own));
done:
    ff_free(stat);
    return st;
}

static ff_status make_geometry(ff_eval *e)
{
    ff_status st = FF_OK;
    for (int i = 0; i < e->n_cloud && st == FF_OK; i++) st = alloc_set(e, i);
    FF_TRY(ff_agree(e->comm, st));
    for (int i = 0; i < e->n_cloud; i++) {
        eval_set *s = &e->set[i];
        const ff_let *let = e->let[i];
        geometry_ctx g = {e, let, s, i < e->n_src};
        ff_moment_ops ops = {1 + e->dim + (g.source ? 1 + e->dim + s->n_stat : 0), geometry_point,
                             geometry_node, &g};
        if (g.source) {
            FF_TRY(source_to_own(e, i));
        } else {
            FF_TRY(ff_cloud_to_own(e->cloud[i], (size_t)e->dim * sizeof(double), e->c->target_x,
                                   s->x_point + (int64_t)let->own_first * e->dim));
        }
        FF_TRY(ff_moment_run(let, &ops));
        if (!g.source) continue;
        FF_TRY(push_rows(let, e->dim, s->x_node, s->x_point));
        FF_TRY(push_rows(let, s->n_stat, s->stat_node, s->stat_point));
        int64_t n_recv = let->n_peers > 0 ? let->recv_node_off[let->n_peers] : 0;
        for (int64_t k = 0; k < n_recv; k++) s->late_node[let->recv_node[k]] = 1;
    }
    return FF_OK;
}

/* ---- public ---- */

static ff_status make_shapes(ff_eval *e)
{
    const ff_model_config *m = e->c->model->config;
    ff_status st = FF_NEW(e->gscalar, ff_names_count(&m->globals, 0) + m->n_len * m->n_len + 1);
    if (st == FF_OK) st = FF_NEW(e->gvector, ff_names_count(&m->globals, 1) * m->dim + 1);
    if (st == FF_OK) st = ff_model_globals(m, e->c->global, e->c->length, e->gscalar, e->gvector);
    if (st == FF_OK) st = pick_pairs(e);
    return ff_agree(e->comm, st);
}

static ff_status make_trees(ff_eval *e)
{
    ff_status st = FF_NEW0(e->set, e->n_cloud);
    if (st == FF_OK) st = FF_NEW0(e->let, e->n_cloud);
    FF_TRY(ff_agree(e->comm, st));
    ff_phase_begin("sort and cut");
    FF_TRY(make_clouds(e));
    FF_TRY(ff_let_balance(e->cloud, e->n_cloud, e->need, e->weight, e->c->theta, e->c->expand_far));
    ff_phase_begin("trees");
    FF_TRY(ff_let_build(e->cloud, e->n_cloud, e->need, e->c->theta, e->let));
    ff_phase_begin("plan");
    return mark_all(e);
}

/* On one rank, and where all points fit everywhere, a backend that keeps evaluations builds its own trees. */
static ff_status setup(ff_eval *e)
{
    bool resident = ff_eval_is_resident(e), lean = resident && e->opts.device_only && !e->opts.keep;
    if (lean && e->comm->size > 1 && e->res == NULL) FF_TRY(ff_eval_resident_whole(e));
    if (!lean || (e->comm->size > 1 && !e->whole)) FF_TRY(make_trees(e));
    if (!lean) {
        e->stats.dist = (ff_dist_row){0};
        if (!resident || e->comm->size > 1) /* else the device counts, when it lists its pairs */
            FF_TRY(ff_agree(e->comm, ff_let_figures(e->let, e->n_cloud, e->need, e->weight, e->c->theta,
                                                    e->c->expand_far, &e->stats.dist)));
        ff_phase_begin("geometry");
        FF_TRY(make_geometry(e));
    }
    if (resident) {
        ff_phase_begin("device set-up");
        FF_TRY(ff_eval_resident_start(e));
    }
    ff_phase_end();
    return FF_OK;
}

static void trees_free(ff_eval *e)
{
    for (int i = 0; i < e->n_cloud; i++) {
        if (e->set != NULL) {
            eval_set *s = &e->set[i];
            ff_free(s->x_point);
            ff_free(s->x_node);
            ff_free(s->x_plain);
            ff_free(s->stat_point);
            ff_free(s->stat_node);
            ff_free(s->mu_own);
            ff_free(s->mu_node);
            ff_free(s->late_node);
            ff_free(s->task);
            ff_free(s->remote);
        }
        if (e->let != NULL) ff_let_destroy(&e->let[i]);
        if (e->cloud != NULL) ff_cloud_destroy(&e->cloud[i]);
    }
    FF_FREE(e->set);
    FF_FREE(e->let);
    FF_FREE(e->cloud);
}

ff_status ff_eval_create(ff_comm *comm, const ff_case *c, const ff_eval_opts *opts, ff_eval **out)
{
    ff_status st = FF_OK;
    const ff_model_config *m = c->model->config;
    double t0 = ff_now_s();
    *out = NULL;
    ff_eval *e = NULL;
    FF_TRY(FF_NEW0_ALL(comm, e, 1));
    e->comm = comm;
    e->c = c;
    e->opts = *opts;
    e->dim = m->dim;
    e->n_src = c->n_sources;
    e->n_cloud = c->n_sources + (c->target_source < 0 ? 1 : 0);
    e->target = c->target_source < 0 ? c->n_sources : c->target_source;
    e->n_lat = m->n_latent_scalar + m->dim * m->n_latent_vector;
    e->n_len = m->n_len;
    e->n_dyn = e->n_lat + e->n_len;
    st = make_shapes(e);
    if (st == FF_OK) st = setup(e);
    e->stats.t_setup_s = ff_now_s() - t0;
    if (st != FF_OK) ff_eval_destroy(&e);
    *out = e;
    return st;
}

ff_status ff_eval_refresh(ff_eval *e)
{
    double t0 = ff_now_s();
    ff_eval_jobs_free(e);
    ff_eval_drop_kept(e);
    if (!e->opts.f64) ff_eval_free_f32(e);
    if (e->opts.f64) ff_eval_free_f64(e);
    trees_free(e);
    ff_status st = setup(e);
    e->stats.t_setup_s = ff_now_s() - t0;
    return st;
}

ff_status ff_eval_rebind(ff_eval *e, const ff_pair_backend *lane)
{
    if (e->opts.backend != NULL) e->opts.backend = lane;
    if (e->opts.adjoint != NULL) e->opts.adjoint = lane;
    return ff_model_globals(e->c->model->config, e->c->global, e->c->length, e->gscalar, e->gvector);
}

ff_status ff_eval_run(ff_eval *e, double *out)
{
    double t0 = ff_now_s();
    e->stats.pairs = e->stats.flop = e->stats.bytes_sent = 0;
    e->stats.t_exchange_s = e->stats.t_wait_s = 0;
    ff_status st = FF_OK;
    if (ff_eval_is_resident(e)) {
        st = ff_eval_resident_run(e, out);
        if (st == FF_OK && !e->opts.device_only) st = ff_agree(e->comm, ff_eval_take_values_f32(e));
    } else {
        st = e->opts.f64 ? ff_eval_layers_f64(e, out) : ff_eval_layers_f32(e, out);
    }
    e->stats.t_layers_s = ff_now_s() - t0;
    return st;
}

void ff_eval_calibrate(const ff_eval *e, int64_t n, double *rows)
{
    const ff_name_list *f = &e->c->model->config->outputs;
    int n_comp = ff_names_comp(f, e->dim), at = 0;
    for (int i = 0; i < f->n; i++) {
        double w, b;
        int comp = f->item[i].rank == 0 ? 1 : e->dim;
        ff_model_calibration(e->c->model, i, &w, &b);
        for (int64_t k = 0; k < n; k++)
            for (int d = 0; d < comp; d++) {
                double *y = &rows[k * n_comp + at + d];
                *y = e->opts.f64 ? w * *y + b : (double)((float)w * (float)*y + (float)b);
            }
        at += comp;
    }
}

const ff_eval_stats *ff_eval_get_stats(const ff_eval *e)
{
    return &e->stats;
}

int64_t ff_eval_n_targets_home(const ff_eval *e)
{
    return e->target < e->n_src ? e->c->source[e->target].n : e->c->n_targets;
}

int ff_eval_n_layers(const ff_eval *e)
{
    return e->c->model->config->n_comm + 1;
}

int ff_eval_lets(const ff_eval *e, ff_let *const **lets, const uint8_t **need, const int64_t **weight)
{
    *lets = e->let;
    *need = e->need;
    *weight = e->weight;
    return e->n_cloud;
}

void ff_eval_node(const ff_eval *e, int source, int32_t node, const double **x, const double **normal,
                  double *mu)
{
    const eval_set *s = &e->set[source];
    int n_scalar = ff_names_count(&e->c->model->config->bc[e->c->source[source].bc].fields, 0);
    *x = s->x_node + (int64_t)node * e->dim;
    *normal = s->stat_node + (int64_t)node * s->n_stat + n_scalar;
    *mu = s->mu_node[node];
}

/* Positions of the picked targets on every rank: each comes from the rank it is at home on. */
static ff_status gather_picks(ff_eval *e, const int64_t *pick, int64_t k, double *x)
{
    const ff_cloud *cloud = e->cloud[e->target];
    const double *home = e->target < e->n_src ? e->c->source[e->target].x : e->c->target_x;
    for (int64_t i = 0; i < k; i++)
        for (int d = 0; d < e->dim; d++) {
            int64_t at = pick[i] - cloud->home_begin;
            x[i * e->dim + d] = at >= 0 && at < cloud->n_home ? home[at * e->dim + d] : -HUGE_VAL;
        }
    return ff_comm_allreduce(e->comm, x, k * e->dim, FF_MAX_F64);
}

ff_status ff_eval_direct(ff_eval *e, const int64_t *pick, int64_t k, double *exact)
{
    double *x = NULL;
    FF_TRY(FF_NEW_ALL(e->comm, x, k * e->dim + 1));
    ff_status st = gather_picks(e, pick, k, x);
    if (st == FF_OK)
        st = e->opts.f64 ? ff_eval_direct_f64(e, x, k, exact) : ff_eval_direct_f32(e, x, k, exact);
    if (st == FF_OK) ff_eval_calibrate(e, k, exact);
    ff_free(x);
    return st;
}

int64_t ff_eval_bytes(const ff_eval *e)
{
    return (int64_t)ff_mem_used() + (e->opts.f64 ? ff_eval_layer_bytes_f64(e) : ff_eval_layer_bytes_f32(e));
}

ff_status ff_eval_pair_rate(const ff_eval *e, double *rate)
{
    return e->opts.f64 ? ff_eval_pair_rate_f64(e, rate) : ff_eval_pair_rate_f32(e, rate);
}

void ff_eval_drop_kept(ff_eval *e)
{
    for (int k = 0; e->kept != NULL && k < ff_eval_n_layers(e) * e->n_cloud; k++) ff_free(e->kept[k]);
    FF_FREE(e->kept);
}

void ff_eval_destroy(ff_eval **ep)
{
    ff_eval *e = *ep;
    if (e == NULL) return;
    ff_eval_jobs_free(e);
    ff_eval_drop_kept(e);
    if (e->opts.f64)
        ff_eval_free_f64(e);
    else
        ff_eval_free_f32(e);
    ff_eval_resident_free(e);
    trees_free(e);
    ff_free(e->need);
    ff_free(e->weight);
    ff_free(e->gscalar);
    ff_free(e->gvector);
    FF_FREE(*ep);
}
