/* Layers backward, written once for both precisions (FF_REAL, FF_T). Included by ff_grad_f32.c and ff_grad_f64.c only.
 *
 * One layer:  cotangents of the targets, scaled -> sums over target nodes, exchange -> layer inputs and aggregates of the own
 * sources again -> units of sources against all targets -> weight gradients (exact sums over ranks) -> cotangents of
 * nodes handed down to points -> cotangents of the previous layer's outputs. */
#include "ff_grad_int.h"

#include "ff_dtt.h"
#include "ff_log.h"
#include "ff_mem.h"
#include "ff_moment.h"
#include "ff_timer.h"

#include <math.h>
#include <string.h>

typedef FF_REAL real;
typedef FF_T(ff_globe_net) globe_net;

enum { TILE = FF_GLOBE_TILE };

/* Source j in one layer. */
typedef struct back_source {
    globe_net **net; /* [n_len] */
    ff_sums **sums;  /* [n_len] packed gradients */
    int n_raw, n_ls, n_lv,
        n_s; /* raw features; of them latent scalars, latent vectors' components, physical scalars */
    size_t rec_len, grad_len;
    real *point, *node; /* [n_own], [n_nodes][n_dyn]: layer inputs (latents, strengths), aggregates */
    double *point_bar, *node_bar; /* the same shapes */
} back_source;

typedef struct back {
    ff_grad *g;
    ff_eval *e;
    int index, n_comp;
    bool final;
    /* Powers of two, each the other's inverse: the layer works on scale times its outputs' cotangents, so that its exact
     * sums, which have a fixed unit, serve any units of lengths, areas and losses. */
    double scale, unscale;
    back_source *src; /* [n_src] */
    double **out_bar; /* [n_cloud][n_own][n_comp] of this layer's outputs; NULL: no target */
    real **t_point,
        **t_node; /* [n_cloud] rows of the transposed lets: cotangents of points, their sums over nodes */
    size_t scratch_len, rec_len, grad_len; /* the largest of all sources */
    int n_raw, max_slots;
    int64_t pairs;
    ff_progress *progress; /* of the units; NULL: not shown */
} back;

static bool is_target(const back *l, int i)
{
    return l->final ? i == l->e->target : i < l->e->n_src;
}

static int layer_comp(const ff_eval *e, int index)
{
    const ff_model_config *m = e->c->model->config;
    return index == m->n_comm ? ff_names_comp(&m->outputs, e->dim) : e->n_dyn;
}

#include "ff_grad_unit_impl.h"
#ifdef FF_BACKEND
#include "ff_grad_lists_impl.h"
#include "ff_grad_pairs_impl.h"
#endif

/* ---- opening and closing a layer ---- */

/* Network k of source j, and room for its gradient. */
static ff_status make_net(const back *l, int j, int k)
{
    const ff_eval *e = l->e;
    const ff_model_config *m = e->c->model->config;
    const float *w[FF_GLOBE_MAX_LAYERS + 1], *b[FF_GLOBE_MAX_LAYERS + 1];
    int bc = e->c->source[j].bc, *ranks = NULL;
    globe_net **net = &l->src[j].net[k];
    ff_globe_shape shape;
    FF_TRY(FF_NEW(ranks, ff_model_max_fields(m) + 1));
    ff_model_shape(m, l->index, bc, ranks, &shape);
    ff_model_network(e->c->model, l->index, bc, k, w, b);
    double length = e->c->length[k] * exp(ff_model_log_scale(e->c->model, l->index, bc, k));
    ff_status st = FF_T(ff_globe_create)(&shape, w, b, e->gscalar, e->gvector, length, net);
    if (st == FF_OK && e->opts.adjoint == NULL) st = FF_T(ff_globe_adjoint_prepare)(*net);
    if (st == FF_OK) st = ff_sums_create((int64_t)FF_T(ff_globe_grad_len)(*net), &l->src[j].sums[k]);
    ff_free(ranks);
    return st;
}

static ff_status make_nets(const back *l)
{
    ff_status st = FF_OK;
    int n_len = l->e->n_len;
    for (int j = 0; j < l->e->n_src; j++) {
        FF_TRY(FF_NEW0(l->src[j].net, n_len));
        FF_TRY(FF_NEW0(l->src[j].sums, n_len));
    }
#pragma omp parallel for schedule(dynamic, 1) if (ff_grad_many_weights(l->g))
    for (int a = 0; a < l->e->n_src * n_len; a++) {
        ff_status mine = make_net(l, a / n_len, a % n_len);
        if (mine != FF_OK) {
#pragma omp atomic write
            st = mine;
        }
    }
    return st;
}

static void take_sizes(back *l, int j)
{
    back_source *s = &l->src[j];
    const ff_model_config *m = l->e->c->model->config;
    const globe_net *net = s->net[0];
    size_t scratch = FF_T(ff_globe_adjoint_scratch_len)(net);
    s->n_raw = ff_globe_n_source(FF_T(ff_globe_shape)(net));
    s->n_ls = l->index > 0 ? m->n_latent_scalar : 0;
    s->n_lv = l->index > 0 ? m->n_latent_vector * l->e->dim : 0;
    s->n_s = ff_names_count(&m->bc[l->e->c->source[j].bc].fields, 0);
    s->rec_len = FF_T(ff_globe_record_len)(net);
    s->grad_len = FF_T(ff_globe_grad_len)(net);
    l->scratch_len = scratch > l->scratch_len ? scratch : l->scratch_len;
    l->rec_len = s->rec_len > l->rec_len ? s->rec_len : l->rec_len;
    l->grad_len = s->grad_len > l->grad_len ? s->grad_len : l->grad_len;
    l->n_raw = s->n_raw > l->n_raw ? s->n_raw : l->n_raw;
}

/* The layer's inputs again: from the boundary in layer 0, else from the previous layer's kept outputs. */
static void fill_inputs(const back *l, int j)
{
    const ff_eval *e = l->e;
    const ff_model_config *m = e->c->model->config;
    int64_t n = e->cloud[j]->n_own;
#pragma omp parallel for schedule(static) if (n > GRAD_MANY_ROWS)
    for (int64_t k = 0; k < n; k++) {
        real *v = l->src[j].point + k * e->n_dyn;
        if (l->index == 0) {
            for (int a = 0; a < e->n_dyn; a++) v[a] = a < e->n_lat ? 0 : (real)e->set[j].mu_own[k];
            continue;
        }
        const real *out = (const real *)e->kept[(l->index - 1) * e->n_cloud + j] + k * e->n_dyn;
        memcpy(v, out, (size_t)e->n_dyn * sizeof *v);
        if (m->compression > 0) FF_T(ff_eval_compress)(m, e->dim, v);
        for (int a = e->n_lat; a < e->n_dyn; a++) v[a] = (real)((double)v[a] * e->set[j].mu_own[k]);
    }
}

static ff_status open_layer(back *l)
{
    ff_eval *e = l->e;
    l->scratch_len = l->rec_len = l->grad_len = 0;
    l->n_raw = 0;
    FF_TRY(make_nets(l));
    for (int j = 0; j < e->n_src; j++) {
        back_source *s = &l->src[j];
        int64_t n = e->cloud[j]->n_own * e->n_dyn, n_node = (int64_t)e->let[j]->tree->n_nodes * e->n_dyn;
        take_sizes(l, j);
        FF_TRY(FF_NEW(s->point, n + 1));
        FF_TRY(FF_NEW0(s->node, n_node + 1));
        FF_TRY(FF_NEW0(s->point_bar, n + 1));
        FF_TRY(FF_NEW0(s->node_bar, n_node + 1));
        fill_inputs(l, j);
    }
    for (int i = 0; i < e->n_cloud; i++) {
        const ff_tree *t = l->g->tlet[i]->tree;
        if (!is_target(l, i)) continue;
        FF_TRY(FF_NEW0(l->t_point[i], (int64_t)t->n_held * l->n_comp + 1));
        FF_TRY(FF_NEW0(l->t_node[i], (int64_t)t->n_nodes * l->n_comp + 1));
    }
    return FF_OK;
}

static void close_layer(back *l)
{
    for (int j = 0; j < l->e->n_src; j++) {
        back_source *s = &l->src[j];
        for (int b = 0; b < l->e->n_len; b++) {
            if (s->net != NULL) FF_T(ff_globe_destroy)(&s->net[b]);
            if (s->sums != NULL) ff_sums_destroy(&s->sums[b]);
        }
        FF_FREE(s->net);
        FF_FREE(s->sums);
        FF_FREE(s->point);
        FF_FREE(s->node);
        FF_FREE(s->point_bar);
        FF_FREE(s->node_bar);
    }
    for (int i = 0; i < l->e->n_cloud; i++) {
        FF_FREE(l->t_point[i]);
        FF_FREE(l->t_node[i]);
    }
}

/* ---- aggregates of the sources, as in the forward run ---- */

typedef struct dyn_ctx {
    const back *l;
    int j;
} dyn_ctx;

static void dyn_point(void *ctx, int32_t p, double *sum)
{
    const dyn_ctx *c = ctx;
    const ff_eval *e = c->l->e;
    int64_t k = p - e->let[c->j]->own_first;
    const real *v = c->l->src[c->j].point + k * e->n_dyn;
    double mu = e->set[c->j].mu_own[k];
    for (int a = 0; a < e->n_lat; a++) sum[a] += mu * (double)v[a];
    for (int a = e->n_lat; a < e->n_dyn; a++) sum[a] += (double)v[a];
}

static void dyn_node(void *ctx, int32_t i, const double *sum)
{
    const dyn_ctx *c = ctx;
    const ff_eval *e = c->l->e;
    real *v = c->l->src[c->j].node + (int64_t)i * e->n_dyn;
    double mu = e->set[c->j].mu_node[i];
    for (int a = 0; a < e->n_lat; a++) v[a] = mu != 0 ? (real)(sum[a] / mu) : 0;
    for (int a = e->n_lat; a < e->n_dyn; a++) v[a] = (real)sum[a];
}

static ff_status aggregate(const back *l)
{
    for (int j = 0; j < l->e->n_src; j++) {
        dyn_ctx ctx = {l, j};
        ff_moment_ops ops = {l->e->n_dyn, dyn_point, dyn_node, &ctx};
        FF_TRY(ff_moment_run(l->e->let[j], &ops));
    }
    return FF_OK;
}

/* ---- the scale ---- */

static double top_of(double top, const real *v, int64_t n)
{
    for (int64_t k = 0; k < n; k++) top = fmax(top, fabs((double)v[k]));
    return top;
}

static double top_f64(double top, const double *v, int64_t n)
{
#pragma omp parallel for schedule(static) reduction(max : top) if (n > 16 * GRAD_MANY_ROWS)
    for (int64_t k = 0; k < n; k++) top = fmax(top, fabs(v[k]));
    return top;
}

/* Largest magnitudes of own cotangents, strengths, and features or slopes of r, which no network knows. */
static void magnitudes(const back *l, double top[3])
{
    const ff_eval *e = l->e;
    top[2] = 1;
    for (int j = 0; j < e->n_src; j++)
        for (int b = 0; b < e->n_len; b++) {
            double log_scale = ff_model_log_scale(e->c->model, l->index, e->c->source[j].bc, b);
            top[2] = fmax(top[2], exp(-log_scale) / e->c->length[b]);
        }
    for (int i = 0; i < e->n_cloud; i++)
        if (is_target(l, i)) top[0] = top_f64(top[0], l->out_bar[i], e->cloud[i]->n_own * l->n_comp);
    for (int j = 0; j < e->n_src; j++) {
        const eval_set *set = &e->set[j];
        const double *stat = set->stat_point + (int64_t)e->let[j]->own_first * set->n_stat;
        int64_t n = e->cloud[j]->n_own;
        double strength = top[1], latent = top[2];
#pragma omp parallel for schedule(static) reduction(max : strength, latent) if (n > GRAD_MANY_ROWS)
        for (int64_t k = 0; k < n; k++) {
            const real *v = l->src[j].point + k * e->n_dyn;
            strength = top_of(strength, v + e->n_lat, e->n_dyn - e->n_lat);
            latent = top_of(latent, v, e->n_lat);
        }
        top[1] = strength;
        top[2] = top_f64(latent, stat, n * set->n_stat);
    }
}

/* All targets' cotangents times all sources' strengths times the largest feature, if it is above 1, become at most
 * 2^ROOM: that bounds a weight's gradient up to the network's own slopes, for which the sums have the rest (2^27 a term,
 * 2^37 a sum). float32 cotangents stay well inside their range. */
enum { ROOM = 8 };

static ff_status choose_scale(back *l)
{
    const ff_eval *e = l->e;
    double top[4] = {0}, n_t = 0, n_s = 0;
    int x[4], sum;
    magnitudes(l, top);
    for (int i = 0; i < e->n_cloud; i++) {
        n_t += is_target(l, i) ? (double)e->cloud[i]->n : 0;
        n_s += i < e->n_src ? (double)e->cloud[i]->n : 0;
    }
    top[3] = n_t * n_s;
    FF_TRY(ff_sums_exponents(e->comm, 4, top, x));
    sum = x[1] + x[2] + x[3] - ROOM;
    sum = x[0] + (sum > 90 ? 90 : sum < -90 ? -90 : sum);
    l->scale = ldexp(1, -sum);
    l->unscale = ldexp(1, sum);
    return FF_OK;
}

/* ---- cotangents of targets: sums over nodes, exchange ---- */

typedef struct target_ctx {
    const back *l;
    int i;
} target_ctx;

static void target_point(void *ctx, int32_t p, double *sum)
{
    const target_ctx *c = ctx;
    const real *v = c->l->t_point[c->i] + (int64_t)p * c->l->n_comp;
    for (int a = 0; a < c->l->n_comp; a++) sum[a] += (double)v[a];
}

static void target_node(void *ctx, int32_t n, const double *sum)
{
    const target_ctx *c = ctx;
    real *v = c->l->t_node[c->i] + (int64_t)n * c->l->n_comp;
    for (int a = 0; a < c->l->n_comp; a++) v[a] = (real)sum[a];
}

static ff_status share_targets(const back *l)
{
    ff_eval *e = l->e;
    for (int i = 0; i < e->n_cloud; i++) {
        if (!is_target(l, i)) continue;
        const ff_let *let = l->g->tlet[i];
        ff_let_transfer *transfer = NULL;
        target_ctx ctx = {l, i};
        ff_moment_ops ops = {l->n_comp, target_point, target_node, &ctx};
        real *own = l->t_point[i] + (int64_t)let->own_first * l->n_comp;
        for (int64_t k = 0; k < e->cloud[i]->n_own * l->n_comp; k++)
            own[k] = (real)(l->scale * l->out_bar[i][k]);
        FF_TRY(ff_moment_run(let, &ops));
        if (!l->g->own_tlet) continue; /* all is here */
        size_t bytes = (size_t)l->n_comp * sizeof(real);
        FF_TRY(ff_let_push_begin(let, bytes, l->t_node[i], bytes, l->t_point[i], &transfer));
        FF_TRY(ff_let_push_end(&transfer));
        if (let->n_peers > 0)
            l->g->stats.bytes_sent +=
                (let->send_node_off[let->n_peers] + let->send_point_off[let->n_peers]) * (int64_t)bytes;
    }
    return FF_OK;
}

/* ---- weight gradients ---- */

/* What all networks add to, [n_src][n_len] of each. */
typedef struct shared_bars {
    double *gscalar, *gvector, *length;
    int64_t n_gscalar, n_gvector;
} shared_bars;

static ff_status unpack_net(const back *l, int j, int b, const shared_bars *q)
{
    ff_status st = FF_OK;
    ff_grad *g = l->g;
    const ff_eval *e = l->e;
    const back_source *s = &l->src[j];
    const float *w[FF_GLOBE_MAX_LAYERS + 1], *bias[FF_GLOBE_MAX_LAYERS + 1];
    double *w_bar[FF_GLOBE_MAX_LAYERS + 1], *b_bar[FF_GLOBE_MAX_LAYERS + 1], *packed = NULL;
    int bc = e->c->source[j].bc;
    int64_t at = (int64_t)j * e->n_len + b;
    ff_model_network(e->c->model, l->index, bc, b, w, bias);
    for (int k = 0; k <= e->c->model->config->n_hidden; k++) {
        w_bar[k] = g->v.tensor[ff_grad_tensor(g, w[k])];
        b_bar[k] = g->v.tensor[ff_grad_tensor(g, bias[k])];
    }
    FF_TRY(FF_NEW(packed, s->grad_len));
    for (int64_t k = 0; k < (int64_t)s->grad_len; k++) packed[k] = l->unscale * ff_sums_value(s->sums[b], k);
    st = FF_T(ff_globe_unpack)(s->net[b], packed, w_bar, b_bar, q->gscalar + at * q->n_gscalar,
                               q->gvector + at * q->n_gvector, q->length + at);
    ff_free(packed);
    return st;
}

/* Terms of all networks, in their order. */
static void add_shared(const back *l, const shared_bars *q)
{
    ff_grad *g = l->g;
    const ff_eval *e = l->e;
    for (int j = 0; j < e->n_src; j++)
        for (int b = 0; b < e->n_len; b++) {
            int bc = e->c->source[j].bc;
            int64_t at = (int64_t)j * e->n_len + b;
            double scale = exp(ff_model_log_scale(e->c->model, l->index, bc, b));
            for (int64_t k = 0; k < q->n_gscalar; k++) g->gscalar_bar[k] += q->gscalar[at * q->n_gscalar + k];
            for (int64_t k = 0; k < q->n_gvector; k++) g->gvector_bar[k] += q->gvector[at * q->n_gvector + k];
            g->v.length[b] += q->length[at] * scale;
            *ff_grad_scale_bar(g, l->index, bc, b) = q->length[at] * e->c->length[b] * scale;
        }
}

static ff_status unpack_nets(const back *l)
{
    ff_status st = FF_OK;
    const ff_eval *e = l->e;
    const ff_model_config *m = e->c->model->config;
    int n_len = e->n_len, n = e->n_src * n_len;
    shared_bars q = {.n_gscalar = ff_names_count(&m->globals, 0) + m->n_len * m->n_len,
                     .n_gvector = ff_names_count(&m->globals, 1) * m->dim};
    FF_GO(FF_NEW0(q.gscalar, n * q.n_gscalar + 1));
    FF_GO(FF_NEW0(q.gvector, n * q.n_gvector + 1));
    FF_GO(FF_NEW0(q.length, n + 1));
#pragma omp parallel for schedule(dynamic, 1) if (ff_grad_many_weights(l->g))
    for (int a = 0; a < n; a++) {
        ff_status mine = unpack_net(l, a / n_len, a % n_len, &q);
        if (mine != FF_OK) {
#pragma omp atomic write
            st = mine;
        }
    }
    if (st == FF_OK) add_shared(l, &q);
done:
    ff_free(q.gscalar);
    ff_free(q.gvector);
    ff_free(q.length);
    return st;
}

static ff_status collect_weights(const back *l)
{
    for (int j = 0; j < l->e->n_src; j++)
        for (int b = 0; b < l->e->n_len; b++) FF_TRY(ff_sums_allreduce(l->e->comm, l->src[j].sums[b]));
    return ff_agree(l->e->comm, unpack_nets(l));
}

/* ---- from nodes down to points: rows [latents / mu, strengths, and for the measure: sum of (latents / mu) mean] ---- */

static void down_node(void *ctx, int32_t i, double *row)
{
    const dyn_ctx *c = ctx;
    const ff_eval *e = c->l->e;
    const back_source *s = &c->l->src[c->j];
    const double *bar = s->node_bar + (int64_t)i * e->n_dyn;
    const real *mean = s->node + (int64_t)i * e->n_dyn;
    double mu = e->set[c->j].mu_node[i];
    for (int a = 0; a < e->n_lat && mu != 0; a++) {
        row[a] += bar[a] / mu;
        row[e->n_dyn] += bar[a] / mu * (double)mean[a];
    }
    for (int a = e->n_lat; a < e->n_dyn; a++) row[a] += bar[a];
}

static void down_point(void *ctx, int32_t p, const double *row)
{
    const dyn_ctx *c = ctx;
    const ff_eval *e = c->l->e;
    const back_source *s = &c->l->src[c->j];
    int64_t k = p - e->let[c->j]->own_first;
    double *bar = s->point_bar + k * e->n_dyn, mu = e->set[c->j].mu_own[k], mu_bar = -row[e->n_dyn];
    for (int a = 0; a < e->n_lat; a++) {
        bar[a] += mu * row[a];
        mu_bar += row[a] * (double)s->point[k * e->n_dyn + a];
    }
    for (int a = e->n_lat; a < e->n_dyn; a++) bar[a] += row[a];
    if (ff_grad_faces(c->l->g)) c->l->g->set[c->j].mu_bar[k] += mu_bar;
}

static ff_status hand_down(const back *l)
{
    for (int j = 0; j < l->e->n_src; j++) {
        dyn_ctx ctx = {l, j};
        ff_moment_down_ops ops = {l->e->n_dyn + 1, down_node, down_point, &ctx};
        FF_TRY(ff_moment_down(l->e->let[j], &ops));
    }
    return FF_OK;
}

/* ---- to the previous layer's outputs ---- */

/* Derivative of c asinh(x / c), and of a vector's x c asinh(m / c) / m: bar in place. */
static void compress_adjoint(const ff_model_config *m, int dim, const real *out, double *bar)
{
    double c = m->compression;
    int n_s = m->n_latent_scalar, n_v = m->n_latent_vector, n_all = n_s + n_v * dim + m->n_len;
    for (int k = 0; k < n_all; k++) {
        if (k >= n_s && k < n_s + n_v * dim) continue;
        double q = (double)out[k] / c;
        bar[k] /= sqrt(1 + q * q);
    }
    for (int k = 0; k < n_v; k++) {
        const real *x = out + n_s + k * dim;
        double *x_bar = bar + n_s + k * dim, sq = m->eps * m->eps, dot = 0;
        for (int d = 0; d < dim; d++) {
            sq += (double)x[d] * (double)x[d];
            dot += (double)x[d] * x_bar[d];
        }
        double len = sqrt(sq), f = c * asinh(len / c) / len, df = (1 / sqrt(1 + sq / (c * c)) - f) / len;
        for (int d = 0; d < dim; d++) x_bar[d] = f * x_bar[d] + df / len * dot * (double)x[d];
    }
}

/* Cotangents of the sources' values become those of the outputs they were made from; in layer 0 the measure's. */
static void previous_outputs(const back *l, int j)
{
    const ff_eval *e = l->e;
    const ff_model_config *m = e->c->model->config;
    double *mu_bar = l->g->set[j].mu_bar;
#pragma omp parallel for schedule(static) if (e->cloud[j]->n_own > GRAD_MANY_ROWS)
    for (int64_t k = 0; k < e->cloud[j]->n_own; k++) {
        double *bar = l->src[j].point_bar + k * e->n_dyn, mu = e->set[j].mu_own[k];
        if (l->index == 0) {
            for (int a = e->n_lat; a < e->n_dyn && mu_bar != NULL; a++) mu_bar[k] += bar[a];
            continue;
        }
        const real *out = (const real *)e->kept[(l->index - 1) * e->n_cloud + j] + k * e->n_dyn;
        for (int a = e->n_lat; a < e->n_dyn; a++) {
            double y = (double)out[a];
            if (m->compression > 0) y = m->compression * asinh(y / m->compression);
            if (mu_bar != NULL) mu_bar[k] += bar[a] * y;
            bar[a] *= mu;
        }
        if (m->compression > 0) compress_adjoint(m, e->dim, out, bar);
        memcpy(l->out_bar[j] + k * e->n_dyn, bar, (size_t)e->n_dyn * sizeof *bar);
    }
}

static ff_status run_pairs(back *l)
{
#ifdef FF_BACKEND
    if (l->e->opts.adjoint != NULL) return run_units_backend(l);
#endif
    return run_units(l);
}

/* Pairs of the layer, and how far they are. */
static ff_status work_pairs(back *l)
{
    char what[64];
    int64_t n = 0;
    int layers = l->e->c->model->config->n_comm + 1;
    for (int j = 0; j < l->e->n_src; j++) n += l->g->set[j].n_units;
    (void)snprintf(what, sizeof what, "way back, layer %d of %d", layers - l->index, layers);
    if (l->e->opts.progress) FF_TRY(ff_progress_create(what, n, &l->progress));
    ff_status st = run_pairs(l);
    ff_progress_destroy(&l->progress);
    return st;
}

static ff_status run_layer(back *l)
{
    ff_eval *e = l->e;
    FF_TRY(ff_agree(e->comm, open_layer(l)));
    FF_TRY(choose_scale(l));
    FF_TRY(aggregate(l));
    FF_TRY(share_targets(l));
    FF_TRY(ff_agree(e->comm, work_pairs(l)));
    FF_TRY(collect_weights(l));
    if (ff_grad_moves(l->g)) FF_TRY(ff_grad_points_collect(l->g, l->final, l->unscale));
    FF_TRY(hand_down(l));
    ff_status st = FF_OK;
    for (int i = 0; i < e->n_cloud; i++) FF_FREE(l->out_bar[i]);
    for (int j = 0; j < e->n_src && l->index > 0 && st == FF_OK; j++)
        st = FF_NEW(l->out_bar[j], e->cloud[j]->n_own * e->n_dyn + 1);
    FF_TRY(ff_agree(e->comm, st));
    for (int j = 0; j < e->n_src; j++) previous_outputs(l, j);
    return FF_OK;
}

/* Sources of the largest unit: the points and nodes of a block. */
static int most_slots(const ff_eval *e)
{
    int leaf = e->c->leaf_size, most = leaf > FF_BLOCK_POINTS ? leaf : FF_BLOCK_POINTS, slots = 1;
    for (int n = 1; n <= most; n++) {
        int k = n + (int)ff_topo_nodes(n, leaf);
        slots = k > slots ? k : slots;
    }
    return slots;
}

ff_status FF_T(ff_grad_layers)(ff_grad *g, const double *out_bar)
{
    ff_eval *e = g->e;
    int n_comm = e->c->model->config->n_comm, n_out = layer_comp(e, n_comm);
    int64_t n = e->cloud[e->target]->n_own * n_out;
    back l = {.g = g, .e = e, .max_slots = most_slots(e)};
    ff_status st = FF_NEW0(l.src, e->n_src + 1);
    if (st == FF_OK) st = FF_NEW0(l.out_bar, e->n_cloud + 1);
    if (st == FF_OK) st = FF_NEW0(l.t_point, e->n_cloud + 1);
    if (st == FF_OK) st = FF_NEW0(l.t_node, e->n_cloud + 1);
    if (st == FF_OK) st = FF_NEW(l.out_bar[e->target], n + 1);
    FF_GO(ff_agree(e->comm, st));
    memcpy(l.out_bar[e->target], out_bar, (size_t)n * sizeof *out_bar);
    FF_GO(ff_grad_calibrate(g, e->kept[n_comm * e->n_cloud + e->target], l.out_bar[e->target]));
    for (l.index = n_comm; l.index >= 0 && st == FF_OK; l.index--) {
        l.final = l.index == n_comm;
        l.n_comp = layer_comp(e, l.index);
        st = run_layer(&l);
        close_layer(&l);
    }
    g->stats.pairs = l.pairs;
done:
    for (int i = 0; i < e->n_cloud && l.out_bar != NULL; i++) ff_free(l.out_bar[i]);
    ff_free(l.out_bar);
    ff_free(l.src);
    ff_free(l.t_point);
    ff_free(l.t_node);
    return st;
}
