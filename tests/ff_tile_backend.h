/* A backend that evaluates pair lists with the CPU's own tiles: what lists and adding up are tested with. */
#ifndef FF_TILE_BACKEND_H
#define FF_TILE_BACKEND_H

#include "ff_mem.h"
#include "ff_pair_backend.h"

#include <string.h>

struct ff_pair_job {
    int32_t n_t, *seg_off, *seg_cum, *n_pairs, *src;
    int64_t *seg_src;
    double *x_t;
};

static inline ff_status tb_net_create(void *impl, const ff_globe_shape *s, const float *const *w,
                                      const float *const *b, const double *gs, const double *gv,
                                      double length, ff_pair_net **out)
{
    ff_globe_net_f32 *net = NULL;
    (void)impl;
    ff_status st = ff_globe_create_f32(s, w, b, gs, gv, length, &net);
    *out = (ff_pair_net *)net;
    return st;
}

static inline void tb_net_destroy(void *impl, ff_pair_net **net)
{
    ff_globe_net_f32 *n = (ff_globe_net_f32 *)*net;
    (void)impl;
    ff_globe_destroy_f32(&n);
    *net = NULL;
}

static inline void *tb_copy(const void *from, size_t bytes)
{
    void *p = ff_mem_alloc(bytes + 1, 1);
    if (p != NULL && bytes > 0) memcpy(p, from, bytes);
    return p;
}

static inline void tb_job_destroy(void *impl, ff_pair_job **jp)
{
    ff_pair_job *j = *jp;
    (void)impl;
    if (j == NULL) return;
    ff_free(j->seg_off);
    ff_free(j->seg_cum);
    ff_free(j->n_pairs);
    ff_free(j->src);
    ff_free(j->seg_src);
    ff_free(j->x_t);
    FF_FREE(*jp);
}

static inline ff_status tb_job_create(void *impl, const ff_pair_lists *l, ff_pair_job **out)
{
    size_t n = (size_t)l->n_t, seg = (size_t)l->n_seg;
    FF_TRY(FF_NEW0(*out, 1));
    ff_pair_job *j = *out;
    j->n_t = l->n_t;
    j->seg_off = tb_copy(l->seg_off, (n + 1) * sizeof *l->seg_off);
    j->seg_cum = tb_copy(l->seg_cum, seg * sizeof *l->seg_cum);
    j->n_pairs = tb_copy(l->n_pairs, n * sizeof *l->n_pairs);
    j->src = tb_copy(l->src, (size_t)l->n_src_ids * sizeof *l->src);
    j->seg_src = tb_copy(l->seg_src, seg * sizeof *l->seg_src);
    j->x_t = tb_copy(l->x_t, 4 * n * sizeof *l->x_t);
    if (j->seg_off != NULL && j->seg_cum != NULL && j->n_pairs != NULL && j->src != NULL &&
        j->seg_src != NULL && j->x_t != NULL)
        return FF_OK;
    tb_job_destroy(impl, out);
    return FF_E_MEM;
}

static inline ff_status tb_branch(const ff_pair_job *j, const ff_globe_net_f32 *net, int64_t n_src,
                                  const double *x, const float *raw, const float *strength, float *rows)
{
    ff_status st = FF_OK;
    const ff_globe_shape *s = ff_globe_shape_f32(net);
    size_t len = ff_globe_record_len_f32(net);
    int n_comp = ff_globe_n_comp(s), dim = s->dim;
    float *rec = NULL, *out = NULL, *scratch = NULL;
    double *sum = NULL;
    FF_GO(FF_NEW(rec, (size_t)n_src * len + 1));
    FF_GO(FF_NEW(out, n_comp + 1));
    FF_GO(FF_NEW(scratch, ff_globe_scratch_len_f32(net) + 1));
    FF_GO(FF_NEW(sum, n_comp + 1));
    ff_globe_records_f32(net, n_src, raw, rec);
    for (int32_t t = 0; t < j->n_t; t++) {
        int32_t done = 0;
        memset(sum, 0, (size_t)n_comp * sizeof *sum);
        for (int32_t g = j->seg_off[t]; g < j->seg_off[t + 1]; g++) {
            int32_t end = g + 1 < j->seg_off[t + 1] ? j->seg_cum[g + 1] : j->n_pairs[t];
            for (int64_t k = j->seg_src[g]; done < end; k++, done++) {
                float dx[3];
                int32_t i = j->src[k];
                const float *r = rec + (size_t)i * len;
                for (int d = 0; d < dim; d++) dx[d] = (float)(j->x_t[4 * t + d] - x[4 * (int64_t)i + d]);
                ff_globe_tile_f32(net, 1, dx, &r, &strength[i], out, scratch);
                for (int c = 0; c < n_comp; c++) sum[c] += (double)out[c];
            }
        }
        for (int c = 0; c < n_comp; c++) rows[(int64_t)t * n_comp + c] += (float)sum[c];
    }
done:
    ff_free(rec);
    ff_free(out);
    ff_free(scratch);
    ff_free(sum);
    return st;
}

static inline ff_status tb_job_run(void *impl, ff_pair_job *j, ff_pair_net *const *net, int n_net,
                                   int64_t n_src, const double *x, const float *raw, const float *strength,
                                   float *rows)
{
    (void)impl;
    const ff_globe_net_f32 *first = (const ff_globe_net_f32 *)net[0];
    memset(rows, 0, (size_t)j->n_t * (size_t)ff_globe_n_comp(ff_globe_shape_f32(first)) * sizeof *rows);
    for (int b = 0; b < n_net; b++)
        FF_TRY(tb_branch(j, (const ff_globe_net_f32 *)net[b], n_src, x, raw, strength + b * n_src, rows));
    return FF_OK;
}

static inline int64_t tb_peak(void *impl)
{
    (void)impl;
    return 0;
}

static const ff_pair_backend ff_tile_backend = {
    .name = "tiles",
    .net_create = tb_net_create,
    .net_destroy = tb_net_destroy,
    .job_create = tb_job_create,
    .job_destroy = tb_job_destroy,
    .job_run = tb_job_run,
    .device_peak = tb_peak,
};

#endif
