/* Random lists of pairs for the adjoint and their gradients in float64, one pair after the other; for the host's check
 * of the tile (unit) and the GPU's (gpu). Networks come from unit/globe_reference.h. */
#ifndef ADJ_CASE_H
#define ADJ_CASE_H

#include "ff_adj_cfg.h"
#include "ff_pair_backend.h"
#include "unit/globe_reference.h"

#include <stdio.h>

typedef struct adj_case {
    fixture f;
    ff_globe_net_f32 *net;
    ff_globe_net_f64 *net64;
    ff_adj_view v;
    ff_adj_lists *lists;
    float *src, *rec, *strength,
        *out_bar; /* [n_slot][n_src], [n_slot][rec_len], [n_slot], [n_target][n_comp] */
    /* Reference: as ff_adj_args, in double. */
    double *rows, *grad, *target, *raw_bar, *strength_bar, *x_bar;
} adj_case;

/* What a backend leaves; rows may be NULL. */
typedef struct adj_result {
    double *rows, *raw_bar, *strength_bar, *x_bar;
    int64_t *grad, *target;
    bool bad;
} adj_result;

static inline ff_status adj_result_open(const adj_case *q, const ff_adj_lists *l, adj_result *r)
{
    int64_t n = l->n_slot;
    memset(r, 0, sizeof *r);
    FF_TRY(FF_NEW0(r->rows, n * ff_adj_row_len(&q->v)));
    FF_TRY(FF_NEW0(r->raw_bar, n * q->f.n_src + 1));
    FF_TRY(FF_NEW0(r->strength_bar, n));
    FF_TRY(FF_NEW0(r->x_bar, n * q->f.s.dim));
    FF_TRY(FF_NEW0(r->grad, 2 * q->v.grad_len));
    return FF_NEW0(r->target, 2 * l->n_target * q->f.s.dim);
}

static inline void adj_result_close(adj_result *r)
{
    ff_free(r->rows);
    ff_free(r->raw_bar);
    ff_free(r->strength_bar);
    ff_free(r->x_bar);
    ff_free(r->grad);
    ff_free(r->target);
    memset(r, 0, sizeof *r);
}

/* The adjoint of q's sources over lists l, of which job was made, on a backend. */
static inline ff_status adj_case_run_job(const ff_pair_backend *b, const adj_case *q, const ff_adj_lists *l,
                                         const ff_adj_job *job, adj_result *r)
{
    ff_status st = FF_OK;
    ff_adj_net *net = NULL;
    ff_adj_args a = {.n_net = 1, .raw = q->src, .strength = q->strength, .out_bar = q->out_bar};
    FF_GO(adj_result_open(q, l, r));
    a.rows = r->rows;
    a.raw_bar = r->raw_bar;
    a.strength_bar = r->strength_bar;
    a.x_bar = r->x_bar;
    a.grad = r->grad;
    a.target = r->target;
    FF_GO(b->adjoint->net_create(b->impl, &q->v, &net));
    FF_GO(b->adjoint->run(b->impl, job, &net, &a));
    r->bad = a.bad;
done:
    if (net != NULL) b->adjoint->net_destroy(b->impl, &net);
    return st;
}

static inline ff_status adj_case_run(const ff_pair_backend *b, const adj_case *q, const ff_adj_lists *l,
                                     adj_result *r)
{
    ff_adj_job *job = NULL;
    memset(r, 0, sizeof *r);
    ff_status st = b->adjoint->job_create(b->impl, l, &job);
    if (st == FF_OK) st = adj_case_run_job(b, q, l, job, r);
    if (job != NULL) b->adjoint->job_destroy(b->impl, &job);
    return st;
}

static double adj_draw(uint64_t seed, uint64_t stream, uint64_t i)
{
    return 2.0 * ff_rng_uniform(seed, 900 + stream, i) - 1.0;
}

/* One unit: n slots with 0 .. most pairs each, in mixed order; some targets coincide with a source. */
static ff_status adj_unit_lists(ff_adj_builder *b, const fixture *f, uint64_t seed, int unit, int n, int most,
                                const int32_t *targets, int n_targets)
{
    ff_status st = FF_OK;
    double *x = NULL;
    ff_adj_run *run = NULL;
    int64_t pairs = 0;
    uint64_t base = (uint64_t)unit * 100000;
    FF_GO(FF_NEW0(x, 4 * n));
    FF_GO(FF_NEW(run, n * most + 1));
    for (int s = 0; s < n; s++)
        for (int d = 0; d < f->s.dim; d++)
            x[4 * s + d] =
                s % 4 == 1 ? 0.25 * d : f->length * adj_draw(seed, 1, base + (uint64_t)(4 * s + d));
    for (int k = 0; k < n * most; k++) {
        int s = (int)(ff_rng_uniform(seed, 911, base + (uint64_t)k) * n);
        if (s % 5 == 4 || ff_rng_uniform(seed, 912, base + (uint64_t)k) < 0.3)
            continue; /* slot 4: no pairs */
        int at = (int)(ff_rng_uniform(seed, 913, base + (uint64_t)k) * n_targets),
            more = (int)(ff_rng_uniform(seed, 914, base + (uint64_t)k) * 4); /* some runs are longer */
        more = k % 3 == 0 && at + more < n_targets ? more : 0;
        run[pairs++] = (ff_adj_run){s, targets[at], 1 + more};
    }
    FF_GO(ff_adj_builder_slots(b, n, x));
    FF_GO(ff_adj_builder_runs(b, n, pairs, run));
done:
    ff_free(x);
    ff_free(run);
    return st;
}

static ff_status adj_case_lists(const fixture *f, uint64_t seed, int n_units, int most, ff_adj_lists **out)
{
    enum { N_TARGET = 40 };
    ff_status st = FF_OK;
    ff_adj_builder *b = NULL;
    int32_t t[N_TARGET];
    FF_GO(ff_adj_builder_create(&b));
    for (int k = 0; k < N_TARGET; k++) {
        double x[4] = {0, 0, 0, 0};
        for (int d = 0; d < f->s.dim; d++)
            x[d] = k == 7 ? 0.25 * d : f->length * adj_draw(seed, 2, (uint64_t)(4 * k + d));
        FF_GO(ff_adj_builder_target(b, x, &t[k]));
    }
    for (int u = 0; u < n_units; u++)
        FF_GO(adj_unit_lists(b, f, seed, u, u % 3 == 2 ? 1 : 7, most, t, N_TARGET));
    FF_GO(ff_adj_builder_finish(&b, out));
done:
    ff_adj_builder_destroy(&b);
    return st;
}

/* Gradients of one pair added to the reference. */
static void adj_ref_pair(adj_case *q, const double *rec, double *scratch, double *rec_bar, int32_t slot,
                         int32_t t)
{
    const ff_globe_shape *s = &q->f.s;
    double dx[3] = {0}, out_bar[MAX_OUT], strength = (double)q->strength[slot], strength_bar, dx_bar[3] = {0};
    const double *one[1] = {rec + (int64_t)slot * q->v.rec_len};
    double *row = q->rows + (int64_t)slot * ff_adj_row_len(&q->v), before = q->grad[q->v.at_length];
    for (int d = 0; d < s->dim; d++) dx[d] = q->lists->x_t[4 * t + d] - q->lists->x_s[4 * slot + d];
    for (int c = 0; c < q->v.n_comp; c++) out_bar[c] = (double)q->out_bar[t * q->v.n_comp + c];
    ff_globe_tile_adjoint_f64(q->net64, 1, dx, one, &strength, out_bar, rec_bar, &strength_bar, dx_bar,
                              q->grad, scratch);
    for (int k = 0; k < q->v.off_m; k++) row[k] += rec_bar[k];
    row += q->v.off_m;
    for (int k = 0; k < q->v.n_vec; k++, row += 5) {
        row[0] += rec_bar[q->v.off_m + k];
        row[1] += rec_bar[q->v.off_g + k];
        for (int d = 0; d < s->dim; d++) row[2 + d] += rec_bar[q->v.off_unit + k * s->dim + d];
    }
    row[0] += strength_bar;
    for (int d = 0; d < s->dim; d++) row[1 + d] += dx_bar[d];
    for (int d = 0; d < s->dim; d++) q->target[t * s->dim + d] += dx_bar[d];
    row[4] += q->grad[q->v.at_length] - before;
}

static ff_status adj_case_reference(adj_case *q)
{
    ff_status st = FF_OK;
    const ff_adj_lists *l = q->lists;
    double *rec = NULL, *scratch = NULL, *rec_bar = NULL;
    FF_GO(FF_NEW(rec, l->n_slot * q->v.rec_len));
    FF_GO(FF_NEW(scratch, ff_globe_adjoint_scratch_len_f64(q->net64)));
    FF_GO(FF_NEW(rec_bar, q->v.rec_len));
    FF_GO(FF_NEW0(q->rows, l->n_slot * ff_adj_row_len(&q->v)));
    FF_GO(FF_NEW0(q->grad, q->v.grad_len));
    FF_GO(FF_NEW0(q->target, l->n_target * q->f.s.dim));
    for (int64_t k = 0; k < l->n_slot * q->v.rec_len; k++) rec[k] = (double)q->rec[k];
    for (int64_t k = 0; k < l->n_run; k++)
        for (int i = 0; i < l->run[k].n; i++)
            adj_ref_pair(q, rec, scratch, rec_bar, l->run[k].slot, l->run[k].first + i);
done:
    ff_free(rec);
    ff_free(scratch);
    ff_free(rec_bar);
    return st;
}

/* The reference's rows of slot s as cotangents of its record, and their adjoint. */
static void adj_ref_source(const adj_case *q, int64_t s, double *raw, double *rec_bar, double *scratch)
{
    const ff_globe_shape *f = &q->f.s;
    const double *row = q->rows + s * ff_adj_row_len(&q->v);
    memset(rec_bar, 0, (size_t)q->v.rec_len * sizeof *rec_bar);
    memcpy(rec_bar, row, (size_t)q->v.off_m * sizeof *rec_bar);
    row += q->v.off_m;
    for (int k = 0; k < q->v.n_vec; k++, row += 5) {
        rec_bar[q->v.off_m + k] = row[0];
        rec_bar[q->v.off_g + k] = row[1];
        for (int d = 0; d < f->dim; d++) rec_bar[q->v.off_unit + k * f->dim + d] = row[2 + d];
    }
    q->strength_bar[s] = row[0];
    for (int d = 0; d < f->dim; d++) q->x_bar[s * f->dim + d] = -row[1 + d];
    for (int k = 0; k < q->f.n_src; k++) raw[k] = (double)q->src[s * q->f.n_src + k];
    ff_globe_records_adjoint_f64(q->net64, 1, raw, rec_bar, q->raw_bar + s * q->f.n_src, q->grad, scratch);
}

static ff_status adj_case_source_reference(adj_case *q)
{
    ff_status st = FF_OK;
    double *raw = NULL, *rec_bar = NULL, *scratch = NULL;
    int64_t n = q->lists->n_slot;
    FF_GO(FF_NEW(raw, q->f.n_src + 1));
    FF_GO(FF_NEW(rec_bar, q->v.rec_len));
    FF_GO(FF_NEW(scratch, ff_globe_adjoint_scratch_len_f64(q->net64)));
    FF_GO(FF_NEW0(q->raw_bar, n * q->f.n_src + 1));
    FF_GO(FF_NEW0(q->strength_bar, n));
    FF_GO(FF_NEW0(q->x_bar, n * q->f.s.dim));
    for (int64_t s = 0; s < n; s++) adj_ref_source(q, s, raw, rec_bar, scratch);
done:
    ff_free(raw);
    ff_free(rec_bar);
    ff_free(scratch);
    return st;
}

/* Row `row` of the table with units of 7 and 1 slots, and its reference. */
static ff_status adj_case_open(adj_case *q, int row, int n_units, int most)
{
    ff_status st = FF_OK;
    uint64_t seed = SEED + (uint64_t)row;
    memset(q, 0, sizeof *q);
    fixture_open(&q->f, row);
    const float *const *w = (const float *const *)q->f.w, *const *b = (const float *const *)q->f.b;
    FF_GO(ff_globe_create_f32(&q->f.s, w, b, q->f.gscalar, q->f.gvector, q->f.length, &q->net));
    FF_GO(ff_globe_create_f64(&q->f.s, w, b, q->f.gscalar, q->f.gvector, q->f.length, &q->net64));
    FF_GO(ff_globe_adjoint_prepare_f64(q->net64));
    ff_globe_adj_view_f32(q->net, &q->v);
    FF_GO(adj_case_lists(&q->f, seed, n_units, most, &q->lists));
    int64_t n = q->lists->n_slot;
    FF_GO(FF_NEW(q->src, n * q->f.n_src + 1));
    FF_GO(FF_NEW(q->rec, n * q->v.rec_len));
    FF_GO(FF_NEW(q->strength, n));
    FF_GO(FF_NEW(q->out_bar, q->lists->n_target * q->v.n_comp));
    for (int64_t k = 0; k < n * q->f.n_src; k++) q->src[k] = (float)adj_draw(seed, 3, (uint64_t)k);
    for (int64_t k = 0; k < n; k++) q->strength[k] = (float)(1 + 0.5 * adj_draw(seed, 4, (uint64_t)k));
    for (int64_t k = 0; k < q->lists->n_target * q->v.n_comp; k++)
        q->out_bar[k] = (float)adj_draw(seed, 5, (uint64_t)k);
    ff_globe_records_f32(q->net, n, q->src, q->rec);
    FF_GO(adj_case_reference(q));
    FF_GO(adj_case_source_reference(q));
done:
    return st;
}

static void adj_case_close(adj_case *q)
{
    ff_adj_lists_destroy(&q->lists);
    ff_globe_destroy_f32(&q->net);
    ff_globe_destroy_f64(&q->net64);
    ff_free(q->src);
    ff_free(q->rec);
    ff_free(q->strength);
    ff_free(q->out_bar);
    ff_free(q->rows);
    ff_free(q->grad);
    ff_free(q->target);
    ff_free(q->raw_bar);
    ff_free(q->strength_bar);
    ff_free(q->x_bar);
    fixture_close(&q->f);
}

/* ---- comparison ---- */

static double adj_words_value(const int64_t *w)
{
    return ldexp((double)w[0], -24) + ldexp((double)w[1], -72);
}

/* Largest difference of n values every `step`, relative to the largest reference value (at least floor). */
static double adj_error(const double *a, const double *ref, int64_t n, int64_t step, int64_t len,
                        double floor)
{
    double worst = 0, top = floor;
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < len; k++) {
            double d = fabs(a[i * step + k] - ref[i * step + k]);
            if (!(d <= worst)) worst = d; /* NaN sticks */
            top = fmax(top, fabs(ref[i * step + k]));
        }
    return worst / top;
}

/* Errors of the parts of a result, each of its largest value. */
typedef struct adj_errors {
    int n;
    const char *name[2 * FF_GLOBE_MAX_LAYERS + 20];
    double err[2 * FF_GLOBE_MAX_LAYERS + 20];
} adj_errors;

static inline void adj_note(adj_errors *e, const char *name, double err)
{
    e->name[e->n] = name;
    e->err[e->n++] = err;
}

/* Of the packed gradient, layer by layer, then of what belongs to sources. */
static inline void adj_gradient_errors(const adj_case *q, const double *g, adj_errors *e)
{
    const ff_adj_view *v = &q->v;
    for (int l = 0; l <= q->f.s.n_hidden; l++) {
        int64_t len = v->layer[l].n_out * (int64_t)((v->layer[l].n_in + 15) / 16 * 16);
        adj_note(e, "weights", adj_error(g + v->layer[l].at_w, q->grad + v->layer[l].at_w, 1, 0, len, 1e-30));
        if (l == 0) continue;
        adj_note(e, "biases",
                 adj_error(g + v->layer[l].at_b, q->grad + v->layer[l].at_b, 1, 0, v->layer[l].n_out, 1e-30));
    }
    int64_t len = v->source.n_out * (int64_t)((v->source.n_in + 15) / 16 * 16), at = v->source.at_w;
    adj_note(e, "source weights", adj_error(g + at, q->grad + at, 1, 0, len, 1e-30));
    at = v->source.at_b;
    adj_note(e, "first biases", adj_error(g + at, q->grad + at, 1, 0, v->source.n_out, 1e-30));
    at = v->at_gvec;
    len = q->f.s.n_gvector * (2 + q->f.s.dim);
    adj_note(e, "global vectors", adj_error(g + at, q->grad + at, 1, 0, len, 1e-30));
    at = v->at_length;
    adj_note(e, "sum of lengths", adj_error(g + at, q->grad + at, 1, 0, 1, 1e-30));
}

static inline void adj_row_errors(const adj_case *q, const double *rows, adj_errors *e)
{
    static const char *const what[5] = {"h0", "vectors", "strength", "positions", "length"};
    const int64_t part[5] = {q->v.off_m, 5 * q->v.n_vec, 1, 3, 1};
    for (int64_t k = 0, at = 0; k < 5; at += part[k++])
        adj_note(e, what[k],
                 adj_error(rows + at, q->rows + at, q->lists->n_slot, ff_adj_row_len(&q->v), part[k], 1e-30));
}

/* Worst of all parts; prints those that miss tol. */
static inline double adj_case_error(const adj_case *q, const adj_result *r, double tol)
{
    double worst = 0, *g = ff_mem_alloc((size_t)q->v.grad_len, sizeof *g);
    int64_t n = q->lists->n_slot, n_t = q->lists->n_target * q->f.s.dim;
    double *t = ff_mem_alloc((size_t)n_t, sizeof *t);
    adj_errors e = {.n = 0};
    for (int64_t k = 0; k < q->v.grad_len; k++) g[k] = adj_words_value(r->grad + 2 * k);
    for (int64_t k = 0; k < n_t; k++) t[k] = adj_words_value(r->target + 2 * k);
    adj_gradient_errors(q, g, &e);
    adj_row_errors(q, r->rows, &e);
    adj_note(&e, "targets", adj_error(t, q->target, 1, 0, n_t, 1e-30));
    /* A third: sums over the units of the first layer cancel; TF32, eight layers: 3.6e-2 where other parts have 1.7e-2. */
    adj_note(&e, "raw features", adj_error(r->raw_bar, q->raw_bar, 1, 0, n * q->f.n_src, 1e-30) / 3);
    adj_note(&e, "strengths", adj_error(r->strength_bar, q->strength_bar, 1, 0, n, 1e-30));
    adj_note(&e, "sources", adj_error(r->x_bar, q->x_bar, 1, 0, n * q->f.s.dim, 1e-30));
    for (int k = 0; k < e.n; k++) {
        if (!(e.err[k] <= tol)) printf("    %s (%d): %.2e\n", e.name[k], k, e.err[k]);
        if (!(e.err[k] <= worst)) worst = e.err[k];
    }
    ff_free(g);
    ff_free(t);
    return worst;
}

#endif
