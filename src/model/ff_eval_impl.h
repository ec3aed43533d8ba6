/* The layers, written once for both precisions (FF_REAL, FF_T). Included by ff_eval_f32.c and ff_eval_f64.c
 * only.
 *
 * One layer:  own source values (latents, strengths) -> aggregates -> payload exchange begins -> records of
 * what is here -> tasks that need nothing remote -> exchange ends -> records of the rest -> remaining tasks
 * -> outputs. */
#include "ff_eval_int.h"

#include "ff_dtt.h"
#include "ff_exact.h"
#include "ff_mem.h"
#include "ff_moment.h"
#include "ff_timer.h"

#include <math.h>
#include <string.h>

typedef FF_REAL real;
typedef FF_T(ff_globe_net) globe_net;

enum { TILE = FF_GLOBE_TILE, RECORD_CHUNK = 64 };

/* Source side of one layer: values and records of source j. */
typedef struct layer_source {
    real *dyn_point,
        *dyn_node;   /* [n_held], [n_nodes][n_dyn]: latents (raw feature order), strengths (sorted) */
    globe_net **net; /* [n_len], the model's order */
    real **rec_point, **rec_node;
    size_t rec_len;         /* the same for every branch */
    ff_pair_net **pair_net; /* [n_len] instead of net and records, with a backend */
    int64_t madds;          /* multiply-adds a pair */
    int n_raw;              /* raw source features of this layer */
} layer_source;

typedef struct layer {
    ff_eval *e;
    int index, n_comp;
    bool final;
    layer_source *src; /* [n_src] */
    real **out;        /* [n_cloud][n_own][n_comp]; NULL where the cloud is no target of this layer */
    size_t scratch_len;
    int64_t pairs, flop;
    ff_progress *progress;
} layer;

/* ---- records ---- */

/* Raw features in the kernel's order: latent scalars, physical scalars | latent vectors, normals, physical
 * vectors. */
static void raw_row(const layer *l, int j, const real *dyn, const double *stat, real *raw)
{
    const ff_eval *e = l->e;
    const ff_model_config *m = e->c->model->config;
    int n_ls = l->index > 0 ? m->n_latent_scalar : 0, n_lv = l->index > 0 ? m->n_latent_vector * e->dim : 0;
    int n_stat = e->set[j].n_stat, n_s = ff_names_count(&m->bc[e->c->source[j].bc].fields, 0);
    for (int k = 0; k < n_ls; k++) *raw++ = dyn[k];
    for (int k = 0; k < n_s; k++) *raw++ = (real)stat[k];
    for (int k = 0; k < n_lv; k++) *raw++ = dyn[n_ls + k];
    for (int k = n_s; k < n_stat; k++) *raw++ = (real)stat[k];
}

typedef enum pass { EARLY, LATE } pass;

static bool in_pass(bool late, pass p)
{
    return late == (p == LATE);
}

static ff_status record_rows(const layer *l, int j, int64_t n, const real *dyn, const double *stat,
                             const uint8_t *late, int64_t own_from, int64_t own_to, pass p, real **rec)
{
    const layer_source *s = &l->src[j];
    ff_status worker = FF_OK;
    int n_stat = l->e->set[j].n_stat, n_dyn = l->e->n_dyn;
#pragma omp parallel
    {
        real *raw = NULL;
        if (FF_NEW(raw, RECORD_CHUNK * s->n_raw + 1) != FF_OK) {
#pragma omp atomic write
            worker = FF_E_MEM;
        }
#pragma omp for schedule(dynamic, 16)
        for (int64_t c = 0; c < (n + RECORD_CHUNK - 1) / RECORD_CHUNK; c++) {
            if (raw == NULL) continue;
            int64_t to = (c + 1) * RECORD_CHUNK < n ? (c + 1) * RECORD_CHUNK : n;
            for (int64_t i = c * RECORD_CHUNK, run; i<to; i += run> 0 ? run : 1) {
                for (run = 0; i + run < to; run++) {
                    int64_t k = i + run;
                    bool remote = late != NULL ? late[k] != 0 : k < own_from || k >= own_to;
                    if (!in_pass(remote, p)) break;
                    raw_row(l, j, dyn + k * n_dyn, stat + k * n_stat, raw + run * s->n_raw);
                }
                for (int b = 0; b < l->e->n_len && run > 0; b++)
                    FF_T(ff_globe_records)(s->net[b], run, raw, rec[b] + (size_t)i * s->rec_len);
            }
        }
        ff_free(raw);
    }
    return worker;
}

static ff_status make_records(const layer *l, pass p)
{
    for (int j = 0; j < l->e->n_src; j++) {
        const layer_source *s = &l->src[j];
        const eval_set *set = &l->e->set[j];
        const ff_let *let = l->e->let[j];
        int64_t from = let->own_first, to = from + let->cloud->n_own;
        FF_TRY(record_rows(l, j, let->tree->n_held, s->dyn_point, set->stat_point, NULL, from, to, p,
                           s->rec_point));
        FF_TRY(record_rows(l, j, let->tree->n_nodes, s->dyn_node, set->stat_node, set->late_node, 0, 0, p,
                           s->rec_node));
    }
    return FF_OK;
}

/* ---- the stream of pairs of one thread ---- */

typedef struct stream {
    const layer *l;
    const layer_source *s;
    int n; /* pairs waiting */
    real dx[TILE * 3];
    double *acc[TILE]; /* row the value is added to; with a mask: row of bit 0 */
    uint64_t mask[TILE];
    const real **rec; /* [n_len][TILE] */
    real *strength;   /* [n_len][TILE] */
    real *out;        /* [n_len][TILE][n_comp] */
    real *scratch;
    int64_t pairs;
    /* the walk in progress */
    int i, j;                           /* target cloud, source */
    int64_t begin, end;                 /* sorted targets of the task */
    double *near, *near_far, *far_near; /* [targets of the task][n_comp] */
    double *node; /* [node_cap][n_comp]: far-far sums of target nodes, in the order met */
    int32_t *node_id;
    int64_t n_node, node_cap;
} stream;

/* The value of a pair is the sum over branches in the model's order; it is added in double. */
static void flush(stream *t)
{
    int n_comp = t->l->n_comp, n_len = t->l->e->n_len;
    if (t->n == 0) return;
    for (int b = 0; b < n_len; b++) FF_T(ff_globe_tile)
    (t->s->net[b], t->n, t->dx, t->rec + b * TILE, t->strength + b * TILE,
     t->out + (size_t)b * TILE * (size_t)n_comp, t->scratch);
    for (int b = 1; b < n_len; b++)
        for (int k = 0; k < t->n * n_comp; k++)
            t->out[k] += t->out[(size_t)b * TILE * (size_t)n_comp + (size_t)k];
    for (int p = 0; p < t->n; p++) {
        const real *v = t->out + (size_t)p * (size_t)n_comp;
        for (uint64_t m = t->mask[p]; m != 0; m &= m - 1) {
            double *acc = t->acc[p] + __builtin_ctzll(m) * n_comp;
            for (int c = 0; c < n_comp; c++) acc[c] += (double)v[c];
        }
    }
    t->pairs += (int64_t)t->n * n_len;
    t->n = 0;
}

static inline void push(stream *t, double *acc, uint64_t mask, const double *x_t, const double *x_s,
                        const real *dyn, real *const *rec, int64_t row)
{
    int n = t->n, dim = t->l->e->dim, n_len = t->l->e->n_len;
    const real *strength = dyn + t->l->e->n_lat;
    for (int d = 0; d < dim; d++) t->dx[n * dim + d] = (real)(x_t[d] - x_s[d]);
    for (int b = 0; b < n_len; b++) {
        t->rec[b * TILE + n] = rec[b] + (size_t)row * t->s->rec_len;
        t->strength[b * TILE + n] = strength[ff_model_length_slot(t->l->e->c->model->config, b)];
    }
    t->acc[n] = acc;
    t->mask[n] = mask;
    if (++t->n == TILE) flush(t);
}

static inline void push_point(stream *t, double *acc, uint64_t mask, const double *x_t, int64_t p)
{
    const ff_eval *e = t->l->e;
    push(t, acc, mask, x_t, e->set[t->j].x_point + p * e->dim, t->s->dyn_point + p * e->n_dyn,
         t->s->rec_point, p);
}

static inline void push_node(stream *t, double *acc, const double *x_t, int32_t i)
{
    const ff_eval *e = t->l->e;
    push(t, acc, 1, x_t, e->set[t->j].x_node + (int64_t)i * e->dim, t->s->dyn_node + (int64_t)i * e->n_dyn,
         t->s->rec_node, i);
}

/* mu-weighted where target and source tree are one boundary's, else the plain mean; prediction: plain. */
static const double *target_centroid(const stream *t, int32_t node)
{
    const ff_eval *e = t->l->e;
    const eval_set *s = &e->set[t->i];
    return (t->i == t->j && !t->l->final ? s->x_node : s->x_plain) + (int64_t)node * e->dim;
}

static uint64_t low_bits(int64_t n)
{
    return n >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << n) - 1;
}

static void emit_leaf(stream *t, const ff_dtt_lists *q)
{
    const ff_eval *e = t->l->e;
    const ff_tree *tt = e->let[t->i]->tree, *ts = e->let[t->j]->tree;
    int64_t n_t = tt->count[q->t], row = tt->start[q->t] - t->begin;
    const double *x = e->set[t->i].x_point + (int64_t)tt->first[q->t] * e->dim;
    size_t n_comp = (size_t)t->l->n_comp;
    for (int64_t k = 0; k < q->n_leaf; k++) {
        int32_t s = q->leaf_s[k];
        int64_t first = ts->first[s];
        for (uint64_t a = q->t_mask[k]; a != 0; a &= a - 1) {
            int i = __builtin_ctzll(a);
            for (uint64_t b = q->s_mask[k]; b != 0; b &= b - 1)
                push_point(t, t->near + (size_t)(row + i) * n_comp, 1, x + i * e->dim,
                           first + __builtin_ctzll(b));
        }
        for (uint64_t a = low_bits(n_t) & ~q->t_mask[k]; a != 0; a &= a - 1) {
            int i = __builtin_ctzll(a);
            push_node(t, t->near_far + (size_t)(row + i) * n_comp, x + i * e->dim, s);
        }
        if (q->t_mask[k] == 0) continue;
        for (uint64_t b = low_bits(ts->count[s]) & ~q->s_mask[k]; b != 0; b &= b - 1)
            push_point(t, t->far_near + (size_t)row * n_comp, q->t_mask[k], target_centroid(t, q->t),
                       first + __builtin_ctzll(b));
    }
}

static ff_status emit_far(stream *t, const ff_dtt_lists *q)
{
    size_t n_comp = (size_t)t->l->n_comp;
    if (t->n_node == t->node_cap) {
        flush(t); /* waiting pairs point into the rows that are about to move */
        int64_t cap = t->node_cap;
        FF_TRY(ff_mem_reserve(&t->node_id, &cap, t->n_node + 1, sizeof *t->node_id));
        double *rows = ff_mem_resize(t->node, (size_t)cap, n_comp * sizeof *rows);
        if (rows == NULL) return FF_E_MEM;
        t->node = rows;
        t->node_cap = cap;
    }
    double *row = t->node + (size_t)t->n_node * n_comp;
    memset(row, 0, n_comp * sizeof *row);
    t->node_id[t->n_node++] = q->t;
    for (int64_t k = 0; k < q->n_far; k++) push_node(t, row, target_centroid(t, q->t), q->far_s[k]);
    return FF_OK;
}

static void emit_expanded(stream *t, const ff_dtt_lists *q)
{
    const ff_eval *e = t->l->e;
    const ff_let *let = e->let[t->i];
    const ff_tree *tt = let->tree;
    int64_t from = tt->start[q->t], to = from + tt->count[q->t];
    int64_t own = let->cloud->cut[let->cloud->comm->rank];
    if (from < t->begin) from = t->begin;
    if (to > t->end) to = t->end;
    for (int64_t k = 0; k < q->n_far; k++)
        for (int64_t p = from; p < to; p++)
            push_node(t, t->near_far + (size_t)(p - t->begin) * (size_t)t->l->n_comp,
                      e->set[t->i].x_point + (let->own_first + p - own) * e->dim, q->far_s[k]);
}

static ff_status emit(void *ctx, const ff_dtt_lists *q)
{
    stream *t = ctx;
    if (q->n_leaf > 0) emit_leaf(t, q);
    if (q->n_far == 0) return FF_OK;
    if (!t->l->e->c->expand_far) return emit_far(t, q);
    emit_expanded(t, q);
    return FF_OK;
}

/* ---- one task: all sources, then the targets' sums ---- */

static void add_up(const stream *t, double *total)
{
    const ff_eval *e = t->l->e;
    const ff_tree *tt = e->let[t->i]->tree;
    int64_t n = (t->end - t->begin) * t->l->n_comp, n_comp = t->l->n_comp;
    for (int64_t r = 0; r < n; r++) t->near[r] = (t->near[r] + t->near_far[r]) + t->far_near[r];
    for (int64_t k = 0; k < t->n_node; k++) { /* preorder: from the root down for every target */
        int64_t from = tt->start[t->node_id[k]], to = from + tt->count[t->node_id[k]];
        if (from < t->begin) from = t->begin;
        if (to > t->end) to = t->end;
        for (int64_t p = from - t->begin; p < to - t->begin; p++)
            for (int64_t c = 0; c < n_comp; c++) t->near[p * n_comp + c] += t->node[k * n_comp + c];
    }
    for (int64_t r = 0; r < n; r++) total[r] += t->near[r];
}

static ff_status run_task(stream *t, int i, int64_t task, double *total)
{
    const layer *l = t->l;
    const ff_eval *e = l->e;
    const eval_set *set = &e->set[i];
    t->i = i;
    t->begin = set->task[task];
    t->end = set->task[task + 1];
    size_t bytes = (size_t)((t->end - t->begin) * l->n_comp) * sizeof(double);
    memset(total, 0, bytes);
    for (t->j = 0; t->j < e->n_src; t->j++) {
        t->s = &l->src[t->j];
        t->n_node = 0;
        memset(t->near, 0, bytes);
        memset(t->near_far, 0, bytes);
        memset(t->far_near, 0, bytes);
        FF_TRY(ff_dtt_walk(e->let[i]->tree, e->let[t->j]->tree, e->c->theta, t->begin, t->end, emit, t));
        flush(t);
        add_up(t, total);
    }
    real *out = l->out[i] + (t->begin - set->task[0]) * l->n_comp;
    for (int64_t r = 0; r < (t->end - t->begin) * l->n_comp; r++) out[r] = (real)total[r];
    return FF_OK;
}

static ff_status stream_alloc(stream *t, const layer *l, int64_t max_task)
{
    size_t n_len = (size_t)l->e->n_len, n_comp = (size_t)l->n_comp, rows = (size_t)max_task * n_comp + 1;
    memset(t, 0, sizeof *t);
    t->l = l;
    FF_TRY(FF_NEW(t->rec, n_len * TILE));
    FF_TRY(FF_NEW(t->strength, n_len * TILE));
    FF_TRY(FF_NEW(t->out, n_len * TILE * n_comp));
    FF_TRY(FF_NEW(t->scratch, l->scratch_len + 1));
    FF_TRY(FF_NEW(t->near, rows));
    FF_TRY(FF_NEW(t->near_far, rows));
    return FF_NEW(t->far_near, rows);
}

static void stream_free(stream *t)
{
    ff_free(t->rec);
    ff_free(t->strength);
    ff_free(t->out);
    ff_free(t->scratch);
    ff_free(t->near);
    ff_free(t->near_far);
    ff_free(t->far_near);
    ff_free(t->node);
    ff_free(t->node_id);
}

static bool is_target(const layer *l, int i)
{
    return l->final ? i == l->e->target : i < l->e->n_src;
}

/* All tasks of one pass, of all target clouds, in one parallel loop. */
static ff_status run_tasks(layer *l, pass p)
{
    const ff_eval *e = l->e;
    ff_status worker = FF_OK;
    int64_t n_all = 0, max_task = 1, pairs = 0;
    for (int i = 0; i < e->n_cloud; i++) {
        n_all += is_target(l, i) ? e->set[i].n_tasks : 0;
        for (int64_t k = 0; k < e->set[i].n_tasks; k++)
            if (e->set[i].task[k + 1] - e->set[i].task[k] > max_task)
                max_task = e->set[i].task[k + 1] - e->set[i].task[k];
    }
#pragma omp parallel reduction(+ : pairs)
    {
        stream t;
        double *total = NULL;
        ff_status mine = stream_alloc(&t, l, max_task);
        if (mine == FF_OK) mine = FF_NEW(total, max_task * l->n_comp + 1);
#pragma omp for schedule(dynamic, 1) nowait
        for (int64_t a = 0; a < n_all; a++) {
            int64_t k = a;
            int i = 0;
            for (; !is_target(l, i) || k >= e->set[i].n_tasks; i++)
                k -= is_target(l, i) ? e->set[i].n_tasks : 0;
            if (mine != FF_OK || !in_pass(e->set[i].remote[k] != 0, p)) continue;
            mine = run_task(&t, i, k, total);
            ff_progress_add(l->progress, e->set[i].task[k + 1] - e->set[i].task[k]);
        }
        pairs += t.pairs;
        stream_free(&t);
        ff_free(total);
        if (mine != FF_OK) {
#pragma omp atomic write
            worker = mine;
        }
    }
    l->pairs += pairs;
    return worker;
}

/* ---- source values ---- */

typedef struct dyn_ctx {
    const ff_eval *e;
    const ff_let *let;
    const eval_set *set;
    const layer_source *s;
} dyn_ctx;

/* Latents: mu-weighted means; strengths: sums. */
static void dyn_point(void *ctx, int32_t p, double *sum)
{
    const dyn_ctx *c = ctx;
    const real *v = c->s->dyn_point + (int64_t)p * c->e->n_dyn;
    double mu = c->set->mu_own[p - c->let->own_first];
    for (int k = 0; k < c->e->n_lat; k++) sum[k] += mu * (double)v[k];
    for (int k = c->e->n_lat; k < c->e->n_dyn; k++) sum[k] += (double)v[k];
}

static void dyn_node(void *ctx, int32_t i, const double *sum)
{
    const dyn_ctx *c = ctx;
    real *v = c->s->dyn_node + (int64_t)i * c->e->n_dyn;
    double mu = c->set->mu_node[i];
    for (int k = 0; k < c->e->n_lat; k++) v[k] = mu != 0 ? (real)(sum[k] / mu) : 0;
    for (int k = c->e->n_lat; k < c->e->n_dyn; k++) v[k] = (real)sum[k];
}

static ff_status aggregate(layer *l)
{
    ff_eval *e = l->e;
    for (int j = 0; j < e->n_src; j++) {
        dyn_ctx ctx = {e, e->let[j], &e->set[j], &l->src[j]};
        ff_moment_ops ops = {e->n_dyn, dyn_point, dyn_node, &ctx};
        FF_TRY(ff_moment_run(e->let[j], &ops));
    }
    return FF_OK;
}

/* Layer 0: no latents, unit strengths times mu. */
static void first_values(layer *l)
{
    const ff_eval *e = l->e;
    for (int j = 0; j < e->n_src; j++) {
        const ff_let *let = e->let[j];
        for (int64_t k = 0; k < let->cloud->n_own; k++) {
            real *v = l->src[j].dyn_point + (let->own_first + k) * e->n_dyn;
            for (int a = 0; a < e->n_dyn; a++) v[a] = a < e->n_lat ? 0 : (real)e->set[j].mu_own[k];
        }
    }
}

void FF_T(ff_eval_compress)(const ff_model_config *m, int dim, real *v)
{
    double c = m->compression;
    int n_s = m->n_latent_scalar, n_v = m->n_latent_vector, n_len = m->n_len;
    for (int k = 0; k < n_s; k++) v[k] = (real)(c * asinh((double)v[k] / c));
    for (int k = 0; k < n_v; k++) {
        real *x = v + n_s + k * dim;
        double sq = m->eps * m->eps;
        for (int d = 0; d < dim; d++) sq += (double)x[d] * (double)x[d];
        double len = sqrt(sq), f = c * asinh(len / c) / len;
        for (int d = 0; d < dim; d++) x[d] = (real)((double)x[d] * f);
    }
    for (int k = n_s + n_v * dim; k < n_s + n_v * dim + n_len; k++)
        v[k] = (real)(c * asinh((double)v[k] / c));
}

/* A communication layer's outputs become the next layer's source values: strengths times mu. */
static void next_values(layer *l)
{
    const ff_eval *e = l->e;
    const ff_model_config *m = e->c->model->config;
    for (int j = 0; j < e->n_src; j++) {
        const ff_let *let = e->let[j];
        for (int64_t k = 0; k < let->cloud->n_own; k++) {
            real *v = l->src[j].dyn_point + (let->own_first + k) * e->n_dyn;
            memcpy(v, l->out[j] + k * e->n_dyn, (size_t)e->n_dyn * sizeof *v);
            if (m->compression > 0) FF_T(ff_eval_compress)(m, e->dim, v);
            for (int a = e->n_lat; a < e->n_dyn; a++) v[a] = (real)((double)v[a] * e->set[j].mu_own[k]);
        }
    }
}

/* ---- a layer ---- */

static ff_status make_net(const layer *l, int j, int k, const ff_globe_shape *shape)
{
    const ff_eval *e = l->e;
    const float *w[FF_GLOBE_MAX_LAYERS + 1], *b[FF_GLOBE_MAX_LAYERS + 1];
    int bc = e->c->source[j].bc;
    layer_source *s = &l->src[j];
    ff_model_network(e->c->model, l->index, bc, k, w, b);
    double length = e->c->length[k] * exp(ff_model_log_scale(e->c->model, l->index, bc, k));
    const ff_pair_backend *be = e->opts.backend;
    if (s->pair_net != NULL)
        return be->net_create(be->impl, shape, w, b, e->gscalar, e->gvector, length, &s->pair_net[k]);
    return FF_T(ff_globe_create)(shape, w, b, e->gscalar, e->gvector, length, &s->net[k]);
}

static ff_status make_nets(layer *l, int j, bool on_backend)
{
    const ff_model_config *m = l->e->c->model->config;
    int *ranks = NULL;
    ff_globe_shape shape;
    layer_source *s = &l->src[j];
    FF_TRY(FF_NEW(ranks, ff_model_max_fields(m) + 1));
    ff_model_shape(m, l->index, l->e->c->source[j].bc, ranks, &shape);
    ff_status st = on_backend ? FF_NEW0(s->pair_net, m->n_len) : FF_NEW0(s->net, m->n_len);
    for (int k = 0; k < m->n_len && st == FF_OK; k++) st = make_net(l, j, k, &shape);
    if (st == FF_OK) {
        s->n_raw = ff_globe_n_source(&shape);
        s->madds = ff_globe_pair_madds(&shape);
        l->n_comp = ff_globe_n_comp(&shape);
    }
    if (st == FF_OK && !on_backend) {
        size_t scratch = FF_T(ff_globe_scratch_len)(s->net[0]);
        s->rec_len = FF_T(ff_globe_record_len)(s->net[0]);
        if (scratch > l->scratch_len) l->scratch_len = scratch;
    }
    ff_free(ranks);
    return st;
}

static ff_status make_record_space(layer *l, int j)
{
    const ff_tree *t = l->e->let[j]->tree;
    layer_source *s = &l->src[j];
    FF_TRY(FF_NEW0(s->rec_point, l->e->n_len));
    FF_TRY(FF_NEW0(s->rec_node, l->e->n_len));
    for (int b = 0; b < l->e->n_len; b++) {
        FF_TRY(FF_NEW(s->rec_point[b], (size_t)t->n_held * s->rec_len + 1));
        FF_TRY(FF_NEW(s->rec_node[b], (size_t)t->n_nodes * s->rec_len + 1));
    }
    return FF_OK;
}

static void drop_layer(layer *l)
{
    ff_eval *e = l->e;
    for (int j = 0; j < e->n_src; j++) {
        layer_source *s = &l->src[j];
        for (int b = 0; b < e->n_len; b++) {
            if (s->net != NULL) FF_T(ff_globe_destroy)(&s->net[b]);
            if (s->pair_net != NULL) e->opts.backend->net_destroy(e->opts.backend->impl, &s->pair_net[b]);
            if (s->rec_point != NULL) ff_free(s->rec_point[b]);
            if (s->rec_node != NULL) ff_free(s->rec_node[b]);
        }
        FF_FREE(s->net);
        FF_FREE(s->pair_net);
        FF_FREE(s->rec_point);
        FF_FREE(s->rec_node);
    }
    for (int i = 0; i < e->n_cloud; i++) {
        if (e->kept == NULL)
            ff_free(l->out[i]);
        else
            e->kept[l->index * e->n_cloud + i] = l->out[i];
        l->out[i] = NULL;
    }
}

static ff_status open_layer(layer *l)
{
    ff_eval *e = l->e;
    for (int j = 0; j < e->n_src; j++) {
        FF_TRY(make_nets(l, j, e->opts.backend != NULL));
        if (e->opts.backend == NULL) FF_TRY(make_record_space(l, j));
    }
    if (e->n_src == 0) l->n_comp = ff_names_comp(&e->c->model->config->outputs, e->dim);
    for (int i = 0; i < e->n_cloud; i++)
        if (is_target(l, i)) FF_TRY(FF_NEW(l->out[i], e->cloud[i]->n_own * l->n_comp + 1));
    return FF_OK;
}

static ff_status exchange_begin(layer *l, ff_let_transfer **transfer)
{
    const ff_eval *e = l->e;
    size_t bytes = (size_t)e->n_dyn * sizeof(real);
    for (int j = 0; j < e->n_src; j++) {
        const ff_let *let = e->let[j];
        FF_TRY(ff_let_push_begin(let, bytes, l->src[j].dyn_node, bytes, l->src[j].dyn_point, &transfer[j]));
        if (let->n_peers > 0)
            l->e->stats.bytes_sent +=
                (let->send_node_off[let->n_peers] + let->send_point_off[let->n_peers]) * (int64_t)bytes;
    }
    return FF_OK;
}

/* Ends what was begun, also after a failure. */
static ff_status exchange_end(const layer *l, ff_let_transfer **transfer)
{
    ff_status st = FF_OK;
    for (int j = 0; j < l->e->n_src; j++) {
        ff_status mine = ff_let_push_end(&transfer[j]);
        if (st == FF_OK) st = mine;
    }
    return st;
}

#if FF_EVAL_BACKEND
/* Source values in the backend's order: held points, then held nodes. */
static ff_status job_inputs(const layer *l, int j, float **raw, float **strength)
{
    const ff_eval *e = l->e;
    const layer_source *s = &l->src[j];
    const eval_set *set = &e->set[j];
    int64_t n_p = e->let[j]->tree->n_held, n = n_p + e->let[j]->tree->n_nodes;
    FF_TRY(FF_NEW(*raw, n * s->n_raw + 1));
    FF_TRY(FF_NEW(*strength, n * e->n_len + 1));
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++) {
        const real *dyn = i < n_p ? s->dyn_point + i * e->n_dyn : s->dyn_node + (i - n_p) * e->n_dyn;
        const double *stat =
            i < n_p ? set->stat_point + i * set->n_stat : set->stat_node + (i - n_p) * set->n_stat;
        raw_row(l, j, dyn, stat, *raw + i * s->n_raw);
        for (int b = 0; b < e->n_len; b++)
            (*strength)[b * n + i] = dyn[e->n_lat + ff_model_length_slot(e->c->model->config, b)];
    }
    return FF_OK;
}

static ff_status run_job(layer *l, int j, double *const *total)
{
    float *raw = NULL, *strength = NULL;
    ff_status st = job_inputs(l, j, &raw, &strength);
    eval_job_args a = {j, l->n_comp, l->final, l->src[j].pair_net, raw, strength, total};
    if (st == FF_OK) st = ff_eval_jobs_run(l->e, &a, &l->pairs);
    ff_free(raw);
    ff_free(strength);
    return st;
}

/* All pairs of the layer on the backend, sources in the model's order. */
static ff_status run_jobs(layer *l)
{
    const ff_eval *e = l->e;
    double **total = NULL;
    ff_status st = FF_NEW0(total, e->n_cloud + 1);
    for (int i = 0; i < e->n_cloud && st == FF_OK; i++)
        if (is_target(l, i)) st = FF_NEW0(total[i], e->cloud[i]->n_own * l->n_comp + 1);
    for (int j = 0; j < e->n_src && st == FF_OK; j++) st = run_job(l, j, total);
    for (int i = 0; i < e->n_cloud && st == FF_OK; i++)
        for (int64_t k = 0; is_target(l, i) && k < e->cloud[i]->n_own * l->n_comp; k++)
            l->out[i][k] = (real)total[i][k];
    for (int i = 0; i < e->n_cloud && total != NULL; i++) ff_free(total[i]);
    ff_free(total);
    return st;
}
#else
static ff_status run_jobs(layer *l)
{
    (void)l;
    return ff_fail(FF_E_UNSUPPORTED,
                   "run.precision = f64: the %s backend has no float64, use the cpu backend",
                   l->e->opts.backend->name);
}
#endif

/* Work with the exchange in flight. Every rank ends the exchange, whatever its own work came to. */
static ff_status compute(layer *l)
{
    ff_eval *e = l->e;
    ff_let_transfer **transfer = NULL;
    FF_TRY(FF_NEW0_ALL(e->comm, transfer, e->n_src + 1));
    ff_phase_begin("pairs");
    double t0 = ff_now_s();
    ff_status st = exchange_begin(l, transfer);
    bool on_cpu = e->opts.backend == NULL;
    ff_status work = st == FF_OK && on_cpu ? make_records(l, EARLY) : st;
    if (work == FF_OK && on_cpu) work = run_tasks(l, EARLY);
    ff_phase_begin("exchange wait");
    double t1 = ff_now_s();
    ff_status ended = exchange_end(l, transfer);
    if (st == FF_OK) st = ended;
    double t2 = ff_now_s();
    e->stats.t_exchange_s += t2 - t0;
    e->stats.t_wait_s += t2 - t1;
    ff_phase_begin("pairs");
    if (work == FF_OK) work = st;
    if (work == FF_OK && on_cpu) work = make_records(l, LATE);
    if (work == FF_OK) work = on_cpu ? run_tasks(l, LATE) : run_jobs(l);
    ff_phase_end();
    ff_free(transfer);
    return ff_agree(e->comm, work);
}

/* Home-order rows in double of target cloud i. */
static ff_status rows_home(const layer *l, int i, double *rows)
{
    const ff_cloud *cloud = l->e->cloud[i];
    real *home = NULL;
    FF_TRY(FF_NEW_ALL(l->e->comm, home, cloud->n_home * l->n_comp + 1));
    ff_status st = ff_cloud_to_home(cloud, (size_t)l->n_comp * sizeof *home, l->out[i], home);
    for (int64_t k = 0; k < cloud->n_home * l->n_comp && st == FF_OK; k++) rows[k] = (double)home[k];
    ff_free(home);
    return st;
}

static ff_status show_layer(const layer *l, int i)
{
    const ff_eval *e = l->e;
    double *rows = NULL;
    if (e->opts.layer == NULL) return FF_OK;
    FF_TRY(FF_NEW_ALL(e->comm, rows, e->cloud[i]->n_home * l->n_comp + 1));
    ff_status st = rows_home(l, i, rows);
    if (st == FF_OK) st = e->opts.layer(e->opts.ctx, l->index, l->final ? -1 : i, e->cloud[i]->n_home, rows);
    ff_free(rows);
    return st;
}

static int64_t count_targets(const layer *l)
{
    int64_t n = 0;
    for (int i = 0; i < l->e->n_cloud; i++) n += is_target(l, i) ? l->e->cloud[i]->n_own : 0;
    return n;
}

static ff_status run_layer(layer *l, double *out)
{
    ff_eval *e = l->e;
    char what[64];
    (void)snprintf(what, sizeof what, "layer %d of %d", l->index + 1, e->c->model->config->n_comm + 1);
    ff_phase_begin("aggregates");
    ff_status st = open_layer(l);
    if (st == FF_OK && e->opts.progress) st = ff_progress_create(what, count_targets(l), &l->progress);
    if ((st = ff_agree(e->comm, st)) == FF_OK) st = aggregate(l);
    if (st == FF_OK) st = compute(l);
    ff_progress_destroy(&l->progress);
    for (int i = 0; i < e->n_cloud && st == FF_OK; i++)
        if (is_target(l, i)) st = show_layer(l, i);
    if (st == FF_OK && l->final) st = rows_home(l, e->target, out);
    if (st == FF_OK && !l->final) next_values(l);
    return st;
}

static ff_status values_alloc(layer *l)
{
    ff_eval *e = l->e;
    FF_TRY(FF_NEW0(l->src, e->n_src + 1));
    e->last_dyn = l->src; /* stays for ff_eval_direct */
    for (int j = 0; j < e->n_src; j++) {
        const ff_tree *t = e->let[j]->tree;
        FF_TRY(FF_NEW0(l->src[j].dyn_point, (int64_t)t->n_held * e->n_dyn + 1));
        FF_TRY(FF_NEW0(l->src[j].dyn_node, (int64_t)t->n_nodes * e->n_dyn + 1));
    }
    return FF_NEW0(l->out, e->n_cloud);
}

static int64_t net_flop(const layer *l)
{
    return l->e->n_src > 0 ? 2 * l->src[0].madds : 0;
}

ff_status FF_T(ff_eval_layers)(ff_eval *e, double *out)
{
    layer l = {.e = e};
    int n_comm = e->c->model->config->n_comm;
    FF_T(ff_eval_free)(e);
    ff_eval_drop_kept(e);
    ff_status st = values_alloc(&l);
    if (st == FF_OK && e->opts.keep) st = FF_NEW0(e->kept, (n_comm + 1) * e->n_cloud + 1);
    st = ff_agree(e->comm, st);
    if (st == FF_OK) first_values(&l);
    for (int k = 0; k <= n_comm && st == FF_OK; k++) {
        l.index = k;
        l.final = k == n_comm;
        l.pairs = 0;
        st = run_layer(&l, out);
        if (st == FF_OK) {
            e->stats.pairs += l.pairs;
            e->stats.flop += l.pairs * net_flop(&l);
        }
        drop_layer(&l);
    }
    ff_free(l.out);
    ff_phase_count("pairs", "evals", (double)e->stats.pairs, 0);
    ff_phase_count("exchange wait", "", 0, (double)e->stats.bytes_sent);
    if (st == FF_OK) ff_eval_calibrate(e, e->cloud[e->target]->n_home, out);
    return st;
}

void FF_T(ff_eval_free)(ff_eval *e)
{
    layer_source *s = e->last_dyn;
    for (int j = 0; j < e->n_src && s != NULL; j++) {
        ff_free(s[j].dyn_point);
        ff_free(s[j].dyn_node);
    }
    ff_free(s);
    e->last_dyn = NULL;
}

#if FF_EVAL_BACKEND
/* Last source values of own points from a backend that keeps evaluations. */
ff_status ff_eval_take_values_f32(ff_eval *e)
{
    layer l = {.e = e};
    ff_eval_free_f32(e);
    FF_TRY(values_alloc(&l));
    ff_free(l.out);
    for (int j = 0; j < e->n_src; j++)
        FF_TRY(ff_eval_resident_values(e, j, l.src[j].dyn_point + (int64_t)e->let[j]->own_first * e->n_dyn));
    return FF_OK;
}
#endif

/* ---- direct evaluation of the final layer at k points, for --check ---- */

/* Adds the own points of source j in chunks: records, tiles, exact sums [k][n_comp]. */
static ff_status direct_source(layer *l, int j, const double *x, int64_t k, ff_exact *sum)
{
    const ff_eval *e = l->e;
    const ff_let *let = e->let[j];
    stream t;
    double *row = NULL;
    real *raw = NULL, *rec = NULL;
    layer_source *s = &l->src[j];
    ff_status st = stream_alloc(&t, l, 1);
    if (st == FF_OK) st = FF_NEW(row, (int64_t)TILE * l->n_comp + 1);
    if (st == FF_OK) st = FF_NEW(raw, TILE * s->n_raw + 1);
    if (st == FF_OK) st = FF_NEW(rec, (size_t)TILE * s->rec_len + 1);
    for (int64_t p0 = 0; p0 < let->cloud->n_own && st == FF_OK; p0 += TILE) {
        int n = (int)(let->cloud->n_own - p0 < TILE ? let->cloud->n_own - p0 : TILE);
        for (int a = 0; a < n; a++) {
            int64_t p = let->own_first + p0 + a;
            raw_row(l, j, s->dyn_point + p * e->n_dyn, e->set[j].stat_point + p * e->set[j].n_stat,
                    raw + a * s->n_raw);
        }
        for (int b = 0; b < e->n_len; b++) {
            FF_T(ff_globe_records)(s->net[b], n, raw, rec);
            for (int64_t i = 0; i < k; i++) {
                for (int a = 0; a < n; a++) {
                    int64_t p = let->own_first + p0 + a;
                    for (int d = 0; d < e->dim; d++)
                        t.dx[a * e->dim + d] = (real)(x[i * e->dim + d] - e->set[j].x_point[p * e->dim + d]);
                    t.rec[a] = rec + (size_t)a * s->rec_len;
                    t.strength[a] =
                        s->dyn_point[p * e->n_dyn + e->n_lat + ff_model_length_slot(e->c->model->config, b)];
                }
                FF_T(ff_globe_tile)(s->net[b], n, t.dx, t.rec, t.strength, t.out, t.scratch);
                for (int a = 0; a < n * l->n_comp; a++)
                    ff_exact_add(&sum[i * l->n_comp + a % l->n_comp], (double)t.out[a]);
            }
        }
    }
    stream_free(&t);
    ff_free(row);
    ff_free(raw);
    ff_free(rec);
    return st;
}

ff_status FF_T(ff_eval_direct)(ff_eval *e, const double *x, int64_t k, double *exact)
{
    layer l = {.e = e, .index = e->c->model->config->n_comm, .final = true, .src = e->last_dyn};
    ff_exact *sum = NULL;
    ff_status st = l.src == NULL ? ff_fail(FF_E_ARG, "direct evaluation needs a run before it") : FF_OK;
    if (st == FF_OK) st = FF_NEW0(l.out, e->n_cloud);
    l.n_comp = ff_names_comp(&e->c->model->config->outputs, e->dim);
    for (int j = 0; j < e->n_src && st == FF_OK; j++) st = make_nets(&l, j, false);
    if (st == FF_OK) st = FF_NEW0(sum, k * l.n_comp + 1);
    for (int j = 0; j < e->n_src && st == FF_OK; j++) st = direct_source(&l, j, x, k, sum);
    st = ff_agree(e->comm, st);
    if (st == FF_OK) st = ff_exact_allreduce(e->comm, sum, (int)(k * l.n_comp));
    for (int64_t i = 0; i < k * l.n_comp && st == FF_OK; i++) exact[i] = ff_exact_value(&sum[i]);
    void **kept = e->kept; /* not a layer's run: nothing is kept of it */
    e->kept = NULL;
    if (l.src != NULL && l.out != NULL) drop_layer(&l);
    e->kept = kept;
    ff_free(l.out);
    ff_free(sum);
    return st;
}

/* ---- estimates for the dry run ---- */

/* Values of all sources, records of the widest layer, outputs. */
int64_t FF_T(ff_eval_layer_bytes)(const ff_eval *e)
{
    const ff_model_config *m = e->c->model->config;
    int64_t bytes = 0, most = 0;
    for (int i = 0; i < e->n_cloud; i++) {
        bytes += e->cloud[i]->n_own * e->n_dyn * (int64_t)sizeof(real);
        if (i < e->n_src)
            bytes += ((int64_t)e->let[i]->tree->n_held + e->let[i]->tree->n_nodes) * e->n_dyn *
                     (int64_t)sizeof(real);
    }
    for (int k = 0; k <= m->n_comm; k++) {
        layer_source *src = NULL;
        layer l = {.e = (ff_eval *)(uintptr_t)e, .index = k, .final = k == m->n_comm};
        int64_t rec = 0;
        if (FF_NEW0(src, e->n_src + 1) != FF_OK) return bytes;
        l.src = src;
        for (int j = 0; j < e->n_src; j++) {
            const ff_tree *t = e->let[j]->tree;
            if (make_nets(&l, j, false) == FF_OK)
                rec +=
                    ((int64_t)t->n_held + t->n_nodes) * (int64_t)(src[j].rec_len * sizeof(real)) * e->n_len;
            for (int b = 0; b < e->n_len && src[j].net != NULL; b++) FF_T(ff_globe_destroy)(&src[j].net[b]);
            ff_free(src[j].net);
        }
        ff_free(src);
        if (rec > most) most = rec;
    }
    return bytes + most;
}

/* Full tiles of the final layer's network of the first source, on one thread. */
ff_status FF_T(ff_eval_pair_rate)(const ff_eval *e, double *rate)
{
    ff_status st = FF_OK;
    layer_source src = {0};
    stream t = {0};
    real *raw = NULL, *rec = NULL;
    layer l = {
        .e = (ff_eval *)(uintptr_t)e, .index = e->c->model->config->n_comm, .final = true, .src = &src};
    *rate = 1;
    if (e->n_src == 0) return FF_OK;
    FF_GO(make_nets(&l, 0, false));
    FF_GO(stream_alloc(&t, &l, 1));
    FF_GO(FF_NEW0(raw, TILE * src.n_raw + 1));
    FF_GO(FF_NEW(rec, (size_t)TILE * src.rec_len + 1));
    FF_T(ff_globe_records)(src.net[0], TILE, raw, rec);
    for (int a = 0; a < TILE; a++) {
        t.rec[a] = rec + (size_t)a * src.rec_len;
        t.strength[a] = 1;
        for (int d = 0; d < e->dim; d++) t.dx[a * e->dim + d] = (real)(1 + a);
    }
    double t0 = ff_now_s(), t1 = t0;
    int64_t n = 0;
    for (; t1 - t0 < 0.3; t1 = ff_now_s(), n += TILE)
        FF_T(ff_globe_tile)(src.net[0], TILE, t.dx, t.rec, t.strength, t.out, t.scratch);
    *rate = (double)n / (t1 - t0);
done:
    for (int b = 0; b < e->n_len && src.net != NULL; b++) FF_T(ff_globe_destroy)(&src.net[b]);
    ff_free(src.net);
    stream_free(&t);
    ff_free(raw);
    ff_free(rec);
    return st;
}
