/* A backend whose pair adjoints are the device's text run on the host (ff_adj_host.h): what tiles, lists and their use in
 * gradients are tested with where there is no GPU. impl: the precision, an int. */
#ifndef FF_ADJ_BACKEND_H
#define FF_ADJ_BACKEND_H

#include "ff_adj_host.h"
#include "ff_mem.h"
#include "ff_pair_backend.h"

#include "ff_adj_tile.h"

#include <string.h>

enum { AB_SHARED = 232448, AB_CHUNK = 3 }; /* an H200's shared memory; blocks of a chunk */

struct ff_adj_job {
    const ff_adj_lists *lists;
};

struct ff_adj_net {
    ff_adj_cfg c;
    uint32_t *image;
    float *bias;
};

/* One square of the weight gradients over a block, as the kernel adj_weights does it. */
static inline void ab_square(const ff_adj_cfg *c, const adj_io *io, adj_square q, int64_t begin, int64_t end,
                             int64_t part)
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
        adj_square_add(c, io->grad + 2 * c->grad_len * part, io->bad, c->side, q, acc[warp], warp);
}

/* All chunks of n_blocks blocks; io without lists, groups and chunk. Buffers hold NaN first: what is read unwritten
 * shows. */
static inline ff_status ab_chunks(const ff_adj_lists *l, const ff_adj_cfg *c, int64_t n_blocks, adj_io *io,
                                  double *rows)
{
    ff_status st = FF_OK;
    int64_t most = n_blocks * FF_ADJ_BLOCK, words = most * FF_ADJ_GROUP / c->kpw * c->row_words;
    char *shared = NULL;
    FF_GO(FF_NEW(io->chunk, words));
    FF_GO(FF_NEW(io->group_rows, most * c->row_len));
    FF_GO(FF_NEW(shared, c->smem));
    memset(io->chunk, 0xff, (size_t)words * sizeof *io->chunk);
    memset(io->group_rows, 0xff, (size_t)(most * c->row_len) * sizeof *io->group_rows);
    io->x_s = l->x_s;
    io->x_t = l->x_t;
    io->group_slot = l->group_slot;
    io->target = l->target;
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
                ab_square(c, io, adj_square_of(c, k), l->block_off[b], l->block_off[b + 1], l->block_part[b]);
        for (int64_t s = 0; s < l->n_slot; s++)
            for (int k = 0; k < c->row_len; k++) adj_reduce(c, io, l->group_off, s, k, rows);
    }
done:
    ff_free(io->chunk);
    ff_free(io->group_rows);
    ff_free(shared);
    return st;
}

static inline ff_status ab_job_create(void *impl, const ff_adj_lists *l, ff_adj_job **out)
{
    const ff_adj_lists *one[1] = {l};
    ff_adj_lists *copy = NULL;
    (void)impl;
    *out = NULL;
    FF_TRY(ff_adj_lists_join(0, NULL, one, 1, &copy));
    memcpy(copy->block_part, l->block_part, (size_t)l->n_block * sizeof *l->block_part);
    copy->n_part = l->n_part;
    if (FF_NEW0(*out, 1) != FF_OK) {
        ff_adj_lists_destroy(&copy);
        return FF_E_MEM;
    }
    (*out)->lists = copy;
    return FF_OK;
}

static inline void ab_job_destroy(void *impl, ff_adj_job **job)
{
    ff_adj_lists *l = (ff_adj_lists *)(uintptr_t)(*job)->lists;
    (void)impl;
    ff_adj_lists_destroy(&l);
    FF_FREE(*job);
}

static inline void ab_net_destroy(void *impl, ff_adj_net **net)
{
    (void)impl;
    ff_free((*net)->image);
    ff_free((*net)->bias);
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
done:
    if (st != FF_OK) ab_net_destroy(impl, out);
    return st;
}

static inline ff_status ab_run(void *impl, const ff_adj_job *job, const ff_adj_net *net, ff_adj_args *a)
{
    int bad = 0;
    adj_io io = {.image = net->image,
                 .bias = net->bias,
                 .rec = a->rec,
                 .strength = a->strength,
                 .out_bar = a->out_bar,
                 .target_words = a->target,
                 .grad = a->grad,
                 .bad = &bad};
    (void)impl;
    memset(a->rows, 0, (size_t)(job->lists->n_slot * net->c.row_len) * sizeof *a->rows);
    memset(a->grad, 0, (size_t)(2 * job->lists->n_part * net->c.grad_len) * sizeof *a->grad);
    ff_status st = ab_chunks(job->lists, &net->c, AB_CHUNK, &io, a->rows);
    a->bad = bad != 0;
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
