/* A backend whose pair adjoints are the device's text run on the host (ff_adj_host.h): what tiles, lists and their use in
 * gradients are tested with where there is no GPU. impl: the precision, an int. */
#ifndef FF_ADJ_BACKEND_H
#define FF_ADJ_BACKEND_H

#include "ff_adj_host.h"
#include "ff_adj_source.h"
#include "ff_mem.h"
#include "ff_pair_backend.h"

#include "ff_adj_tile.h"

#include <string.h>

enum { AB_SHARED = 232448, AB_CHUNK = 3 }; /* an H200's shared memory; blocks of a chunk */

struct ff_adj_job {
    const ff_adj_lists *lists;
    int32_t *target, *group_slot; /* ff_adj_lists_expand() */
};

struct ff_adj_net {
    ff_adj_cfg c;
    ff_adj_source source;
    uint32_t *image;
    float *bias, *w, *b, *gvec; /* of the tile; source matrix, its biases, global vectors */
};

/* One square of the weight gradients over a block, as the kernel adj_weights does it. */
static inline void ab_square(const ff_adj_cfg *c, const adj_io *io, adj_square q, int64_t begin, int64_t end)
{
    uint32_t a[ADJ_SLAB * ADJ_PITCH(ADJ_SIDE_MAX)], b[ADJ_SLAB * ADJ_PITCH(ADJ_SIDE_MAX)];
    adj_acc acc[8][ADJ_LANES];
    int threads = ADJ_GRAD_THREADS(c->side);
    int64_t per = FF_ADJ_GROUP / c->kpw, row = (begin - io->group_begin) * per,
            last = (end - io->group_begin) * per;
    memset(acc, 0, sizeof acc);
    for (; row < last; row += ADJ_SLAB) {
        for (int t = 0; t < threads; t++) adj_stage(c, io->chunk, q, c->side, row, last, a, b, t);
        for (int warp = 0; warp < threads / 32; warp++)
            adj_slab(c, c->prec, c->side, q, acc[warp], a, b, warp);
    }
    for (int warp = 0; warp < threads / 32; warp++)
        adj_square_add(c, io->grad, io->bad, c->side, q, acc[warp], warp);
}

/* All chunks of n_blocks blocks; io without lists, groups and chunk. Buffers hold NaN first: what is read unwritten
 * shows. */
static inline ff_status ab_chunks(const ff_adj_job *job, const ff_adj_cfg *c, int64_t n_blocks, adj_io *io,
                                  double *rows)
{
    ff_status st = FF_OK;
    const ff_adj_lists *l = job->lists;
    int64_t most = n_blocks * FF_ADJ_BLOCK, words = most * FF_ADJ_GROUP / c->kpw * c->row_words;
    char *shared = NULL;
    double *edge = NULL;
    FF_GO(FF_NEW(edge, 2 * n_blocks * c->row_len));
    FF_GO(FF_NEW(io->chunk, words));
    FF_GO(FF_NEW(io->group_rows, most * c->row_len));
    FF_GO(FF_NEW(shared, c->smem));
    memset(io->chunk, 0xff, (size_t)words * sizeof *io->chunk);
    memset(io->group_rows, 0xff, (size_t)(most * c->row_len) * sizeof *io->group_rows);
    io->x_s = l->x_s;
    io->x_t = l->x_t;
    io->group_slot = job->group_slot;
    io->target = job->target;
    for (int64_t b0 = 0; b0 < l->n_block; b0 += n_blocks) {
        int64_t b1 = b0 + n_blocks < l->n_block ? b0 + n_blocks : l->n_block, per = c->rows / FF_ADJ_GROUP;
        io->group_begin = l->block_off[b0];
        io->group_end = l->block_off[b1];
        for (int64_t t = 0; t * per < io->group_end - io->group_begin; t++) {
            memset(shared, 0xff, (size_t)c->smem);
            adj_tile(c, io, shared, t, c->prec, c->mt);
        }
        for (int64_t b = b0; b < b1; b++)
            for (int k = 0; k < c->squares; k++)
                ab_square(c, io, adj_square_of(c, k), l->block_off[b], l->block_off[b + 1]);
        memset(edge, 0xff, (size_t)(2 * n_blocks * c->row_len) * sizeof *edge);
        for (int64_t b = b0; b < b1; b++)
            for (int k = 0; k < c->row_len; k++)
                adj_block_rows(c, io, l->group_off, l->block_off[b], l->block_off[b + 1], k,
                               edge + 2 * (b - b0) * c->row_len, rows);
        for (int64_t b = b0; b < b1; b++)
            for (int k = 0; k < c->row_len; k++)
                adj_edge_rows(c, io, l->group_off, l->block_off + b0, (int)(b1 - b0), (int)(b - b0), k, edge,
                              rows);
    }
done:
    ff_free(io->chunk);
    ff_free(io->group_rows);
    ff_free(edge);
    ff_free(shared);
    return st;
}

static inline void ab_job_destroy(void *impl, ff_adj_job **job)
{
    ff_adj_lists *l = (ff_adj_lists *)(uintptr_t)(*job)->lists;
    (void)impl;
    ff_adj_lists_destroy(&l);
    ff_free((*job)->target);
    ff_free((*job)->group_slot);
    FF_FREE(*job);
}

static inline ff_status ab_job_create(void *impl, const ff_adj_lists *l, ff_adj_job **out)
{
    ff_status st = FF_OK;
    const ff_adj_lists *one[1] = {l};
    ff_adj_lists *copy = NULL;
    ff_adj_job *j = NULL;
    *out = NULL;
    FF_GO(FF_NEW0(j, 1));
    FF_GO(ff_adj_lists_join(0, NULL, one, 1, &copy));
    j->lists = copy;
    FF_GO(FF_NEW(j->target, FF_ADJ_GROUP * l->n_group + 1));
    FF_GO(FF_NEW(j->group_slot, l->n_group + 1));
    ff_adj_lists_expand(l, j->target, j->group_slot);
    *out = j;
    j = NULL;
done:
    if (j != NULL) ab_job_destroy(impl, &j);
    return st;
}

static inline void ab_net_destroy(void *impl, ff_adj_net **net)
{
    (void)impl;
    ff_free((*net)->image);
    ff_free((*net)->bias);
    ff_free((*net)->w);
    ff_free((*net)->b);
    ff_free((*net)->gvec);
    FF_FREE(*net);
}

static inline ff_status ab_net_create(void *impl, const ff_adj_view *v, ff_adj_net **out)
{
    ff_status st = FF_OK;
    FF_TRY(FF_NEW0(*out, 1));
    ff_adj_net *n = *out;
    FF_GO(ff_adj_plan(v, *(const int *)impl, AB_SHARED, &n->c));
    FF_GO(FF_NEW0(n->image, n->c.image_words));
    FF_GO(FF_NEW0(n->bias, n->c.n_bias));
    ff_adj_pack(v, &n->c, n->image, n->bias);
    ff_adj_source_plan(v, &n->source);
    int n_w = v->off_m * v->source.n_in, n_g = v->s.n_gvector * (2 + v->s.dim);
    FF_GO(FF_NEW(n->w, n_w + 1));
    FF_GO(FF_NEW(n->b, v->off_m));
    FF_GO(FF_NEW(n->gvec, n_g + 1));
    memcpy(n->w, v->source.w, (size_t)n_w * sizeof *n->w);
    memcpy(n->b, v->source.b, (size_t)v->off_m * sizeof *n->b);
    memcpy(n->gvec, v->gvec, (size_t)n_g * sizeof *n->gvec);
done:
    if (st != FF_OK) ab_net_destroy(impl, out);
    return st;
}

/* ---- sources: the kernels of cuda/adj_source.cu ---- */

/* [n_slot][n_feat + 1], [n_slot][rec_len], [n_slot][n_feat], [n_slot][n_gvec][2 + dim] */
typedef struct ab_source {
    float *feat, *rec, *feat_bar, *gvec_bar;
    double *rows;
} ab_source;

static inline ff_status ab_source_open(const ff_adj_source *c, int64_t n, ab_source *s)
{
    FF_TRY(FF_NEW(s->feat, n * (c->n_feat + 1) + 1));
    FF_TRY(FF_NEW(s->rec, n * c->rec_len + 1));
    FF_TRY(FF_NEW(s->feat_bar, n * c->n_feat + 1));
    FF_TRY(FF_NEW(s->gvec_bar, n * c->n_gvec * (2 + c->dim) + 1));
    return FF_NEW(s->rows, n * c->row_len + 1);
}

static inline void ab_source_close(const ab_source *s)
{
    ff_free(s->feat);
    ff_free(s->rec);
    ff_free(s->feat_bar);
    ff_free(s->gvec_bar);
    ff_free(s->rows);
}

static inline void ab_source_in(const ff_adj_net *net, int64_t n, const float *raw, const ab_source *q)
{
    const ff_adj_source *c = &net->source;
    for (int64_t s = 0; s < n; s++) {
        float *feat = q->feat + s * (c->n_feat + 1), *rec = q->rec + s * c->rec_len;
        for (int i = 0; i < ff_adj_source_items(c); i++)
            ff_adj_source_item(c, raw + s * c->n_raw, net->gvec, i, feat, rec);
        for (int o = 0; o < c->off_m; o++) {
            rec[o] = net->b[o];
            for (int f = 0; f < c->n_feat; f++) rec[o] += net->w[ff_adj_source_at(c, o, f)] * feat[f];
        }
    }
}

/* Sums over the sources of one unit. */
static inline void ab_source_unit(const ff_adj_source *c, const ab_source *q, int64_t begin, int64_t end,
                                  int64_t *grad, int *bad)
{
    int terms = c->n_gvec * (2 + c->dim) + 1;
    for (int o = 0; o < c->n_out; o++)
        for (int f = 0; f <= c->n_feat; f++) {
            float sum = 0.0f;
            for (int64_t s = begin; s < end; s++)
                sum += (float)q->rows[s * c->row_len + o] * q->feat[s * (c->n_feat + 1) + f];
            adj_exact_add(grad + 2 * (f < c->n_feat ? c->at_w + o * c->pitch + f : c->at_b + o), sum, bad);
        }
    for (int e = 0; e < terms; e++) {
        double sum = 0;
        for (int64_t s = begin; s < end; s++)
            sum += ff_adj_source_term(c, q->rows + s * c->row_len, q->gvec_bar + s * (int64_t)(terms - 1), e);
        adj_exact_add(grad + 2 * ff_adj_source_term_at(c, e), (float)sum, bad);
    }
}

static inline void ab_source_back(const ff_adj_net *net, const ff_adj_lists *l, const ab_source *q, int k,
                                  const ff_adj_args *a, int64_t *grad, int *bad)
{
    const ff_adj_source *c = &net->source;
    for (int64_t s = 0; s < l->n_slot; s++) {
        float *feat_bar = q->feat_bar + s * c->n_feat;
        ff_adj_source_bar out = {a->raw_bar + s * c->n_raw, a->strength_bar + k * l->n_slot + s,
                                 a->x_bar != NULL ? a->x_bar + s * c->dim : NULL,
                                 q->gvec_bar + s * c->n_gvec * (2 + c->dim), k == 0};
        for (int f = 0; f < c->n_feat; f++) {
            feat_bar[f] = 0.0f;
            for (int o = 0; o < c->n_out; o++)
                feat_bar[f] += net->w[ff_adj_source_at(c, o, f)] * (float)q->rows[s * c->row_len + o];
        }
        for (int i = 0; i < ff_adj_source_back_items(c); i++)
            ff_adj_source_back(c, q->rec + s * c->rec_len, q->rows + s * c->row_len, feat_bar, i, &out);
    }
    for (int64_t u = 0; u < l->n_unit; u++)
        ab_source_unit(c, q, l->unit_off[u], l->unit_off[u + 1], grad, bad);
}

static inline ff_status ab_run(void *impl, const ff_adj_job *job, ff_adj_net *const *net, ff_adj_args *a)
{
    ff_status st = FF_OK;
    const ff_adj_lists *l = job->lists;
    const ff_adj_cfg *c = &net[0]->c;
    ab_source q = {NULL, NULL, NULL, NULL, NULL};
    int bad = 0;
    (void)impl;
    FF_GO(ab_source_open(&net[0]->source, l->n_slot, &q));
    if (a->meanwhile != NULL) a->meanwhile(a->ctx);
    memset(a->grad, 0, (size_t)(2 * a->n_net * c->grad_len) * sizeof *a->grad);
    if (a->target != NULL) memset(a->target, 0, (size_t)(2 * l->n_target * c->dim) * sizeof *a->target);
    for (int k = 0; k < a->n_net; k++) {
        int64_t *grad = a->grad + 2 * k * c->grad_len;
        adj_io io = {.image = net[k]->image,
                     .bias = net[k]->bias,
                     .rec = q.rec,
                     .strength = a->strength + k * l->n_slot,
                     .out_bar = a->out_bar,
                     .target_words = a->target,
                     .grad = grad,
                     .bad = &bad};
        ab_source_in(net[k], l->n_slot, a->raw, &q);
        memset(q.rows, 0, (size_t)(l->n_slot * c->row_len) * sizeof *q.rows);
        FF_GO(ab_chunks(job, &net[k]->c, AB_CHUNK, &io, q.rows));
        ab_source_back(net[k], l, &q, k, a, grad, &bad);
        if (a->rows != NULL)
            memcpy(a->rows + k * l->n_slot * c->row_len, q.rows,
                   (size_t)(l->n_slot * c->row_len) * sizeof *q.rows);
    }
    a->bad = bad != 0;
done:
    ab_source_close(&q);
    return st;
}

static const ff_pair_adjoint_ops ab_ops = {ab_job_create, ab_job_destroy, ab_net_create, ab_net_destroy,
                                           ab_run};

/* prec: FF_ADJ_*, must outlive the backend's use. */
static inline ff_pair_backend ab_backend(int *prec)
{
    ff_pair_backend b;
    memset(&b, 0, sizeof b);
    b.name = "host";
    b.impl = prec;
    b.adjoint = &ab_ops;
    return b;
}

#endif
