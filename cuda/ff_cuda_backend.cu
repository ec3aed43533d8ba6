/* The CUDA row of ff_pair_backend: networks, pair lists on the device, one call a layer and source.
 * Device memory comes from the stream-ordered pool of the current device; the lists of a job stay there, the rest
 * lives for one call. One stream; job_run returns when the rows are in host memory. */
#include "ff_cuda_impl.cuh"

extern "C" {
#include "ff_pair_adjoint.h"
}

#include <stdio.h>

struct ff_pair_job {
    ff_cuda_pool *pool; /* its blocks' */
    ff_cuda_lists lists;
    void *block[8];
};

static ff_status net_create(void *impl, const ff_globe_shape *s, const float *const *w, const float *const *b,
                            const double *gscalar, const double *gvector, double length, ff_pair_net **out)
{
    ff_cuda_net *net = NULL;
    const ff_cuda_impl *c = (const ff_cuda_impl *)impl;
    ff_status st = ff_cuda_net_create(s, w, b, gscalar, gvector, length, c->precision, c->stream, &net);
    *out = (ff_pair_net *)net;
    if (st != FF_OK) return st;
    ff_cuda_pool_count(c->pool, FF_CUDA_WEIGHTS, (int64_t)net->block_bytes);
    return ff_cuda_wait(c->pool); /* an evaluation may use it on another stream */
}

static void net_destroy(void *impl, ff_pair_net **net)
{
    ff_cuda_net *n = (ff_cuda_net *)*net;
    if (n != NULL)
        ff_cuda_pool_count(((ff_cuda_impl *)impl)->pool, FF_CUDA_WEIGHTS, -(int64_t)n->block_bytes);
    ff_cuda_net_destroy(&n);
    *net = NULL;
}

static void job_destroy(void *impl, ff_pair_job **jp)
{
    ff_pair_job *j = *jp;
    (void)impl;
    if (j == NULL) return;
    for (int k = 0; k < 8; k++) ff_cuda_free(j->pool, j->block[k]);
    ff_free(j);
    *jp = NULL;
}

static ff_status put(ff_cuda_impl *c, ff_pair_job *j, int slot, size_t bytes, const void *host)
{
    ff_status st = FF_OK;
    FF_TRY(ff_cuda_alloc(c->pool, bytes, &j->block[slot]));
    if (host != NULL && bytes > 0)
        FF_CU(cudaMemcpyAsync(j->block[slot], host, bytes, cudaMemcpyHostToDevice, c->stream));
done:
    return st;
}

static ff_status job_create(void *impl, const ff_pair_lists *l, ff_pair_job **out)
{
    ff_status st = FF_OK;
    ff_cuda_impl *c = (ff_cuda_impl *)impl;
    void *work = NULL;
    size_t n = (size_t)l->n_t, seg = (size_t)l->n_seg;
    ff_pair_job *j = (ff_pair_job *)ff_mem_alloc0(1, sizeof *j);
    *out = NULL;
    if (j == NULL) return FF_E_MEM;
    j->pool = c->pool;
    (void)ff_cuda_pool_kind(c->pool, FF_CUDA_LISTS);
    FF_GO(put(c, j, 0, 4 * n * sizeof(double), l->x_t));
    FF_GO(put(c, j, 1, (n + 1) * sizeof(int32_t), l->seg_off));
    FF_GO(put(c, j, 2, seg * sizeof(int64_t), l->seg_src));
    FF_GO(put(c, j, 3, seg * sizeof(int32_t), l->seg_cum));
    FF_GO(put(c, j, 4, n * sizeof(int32_t), l->n_pairs));
    FF_GO(put(c, j, 5, (size_t)l->n_src_ids * sizeof(int32_t), l->src));
    FF_GO(put(c, j, 6, (n + 1) * sizeof(int32_t), NULL));
    FF_GO(put(c, j, 7, (n + 1) * sizeof(int64_t), NULL));
    FF_GO(ff_cuda_alloc(c->pool, ff_cuda_cut_bytes(l->n_t), &work));
    j->lists.n_t = l->n_t;
    j->lists.d_x_t = (const double *)j->block[0];
    j->lists.d_seg_off = (const int32_t *)j->block[1];
    j->lists.d_seg_src = (const int64_t *)j->block[2];
    j->lists.d_seg_cum = (const int32_t *)j->block[3];
    j->lists.d_n_pairs = (const int32_t *)j->block[4];
    j->lists.d_src = (const int32_t *)j->block[5];
    j->lists.d_piece_off = (int32_t *)j->block[6];
    j->lists.d_group_off = (int64_t *)j->block[7];
    FF_GO(ff_cuda_lists_cut(&j->lists, work, c->stream));
    *out = j;
    j = NULL;
done:
    ff_cuda_free(c->pool, work);
    job_destroy(impl, &j);
    return st;
}

/* Branches are added in the model's order. */
static __global__ void add_rows(int64_t n, const float *more, float *rows)
{
    int64_t i = (int64_t)blockIdx.x * 256 + threadIdx.x;
    if (i < n) rows[i] += more[i];
}

enum { X, RAW, STRENGTH, REC, PART, OUT, MORE, N_BLOCKS };

static ff_status run_blocks(ff_cuda_impl *c, ff_pair_job *j, ff_pair_net *const *nets, int n_net,
                            int64_t n_src, const float *strength, float *rows, void **d)
{
    ff_status st = FF_OK;
    for (int b = 0; b < n_net; b++) {
        const ff_cuda_net *net = (const ff_cuda_net *)nets[b];
        size_t n_out = (size_t)j->lists.n_t * (size_t)net->d.n_comp;
        ff_cuda_pair_args a;
        FF_GO(ff_cuda_put(c->pool, d[STRENGTH], strength + (int64_t)b * n_src,
                          (size_t)n_src * sizeof *strength));
        FF_GO(ff_cuda_records(net, n_src, (const float *)d[RAW], d[REC], c->stream));
        a.lists = &j->lists;
        a.n_src = n_src;
        a.d_x_s = (const double *)d[X];
        a.d_strength = (const float *)d[STRENGTH];
        a.d_rec = d[REC];
        a.d_part = (float *)d[PART];
        a.d_out = (float *)d[b == 0 ? OUT : MORE];
        FF_GO(ff_cuda_pair_forward(net, &a, c->stream));
        if (b > 0) {
            add_rows<<<(unsigned)((n_out + 255) / 256), 256, 0, c->stream>>>(
                (int64_t)n_out, (const float *)d[MORE], (float *)d[OUT]);
            FF_CU(cudaGetLastError());
        }
        if (b == n_net - 1) FF_GO(ff_cuda_get(c->pool, rows, d[OUT], n_out * sizeof *rows));
    }
    FF_GO(ff_cuda_wait(c->pool));
done:
    return st;
}

static ff_status job_run(void *impl, ff_pair_job *j, ff_pair_net *const *nets, int n_net, int64_t n_src,
                         const double *x, const float *raw, const float *strength, float *rows)
{
    ff_status st = FF_OK;
    ff_cuda_impl *c = (ff_cuda_impl *)impl;
    const ff_cuda_net *net = (const ff_cuda_net *)nets[0];
    size_t n_raw = (size_t)(net->d.n_sscalar + net->d.dim * net->d.n_svec), n = (size_t)n_src;
    size_t n_comp = (size_t)net->d.n_comp, n_out = (size_t)j->lists.n_t * n_comp;
    size_t bytes[N_BLOCKS] = {4 * n * sizeof(double),
                              n_raw * n * sizeof(float),
                              n * sizeof(float),
                              ff_cuda_record_bytes(net, n_src),
                              (size_t)j->lists.n_piece * n_comp * sizeof(float),
                              n_out * sizeof(float),
                              n_net > 1 ? n_out * sizeof(float) : 0};
    void *d[N_BLOCKS] = {NULL, NULL, NULL, NULL, NULL, NULL, NULL};
    for (int b = 1; b < n_net; b++)
        if (ff_cuda_record_bytes((const ff_cuda_net *)nets[b], n_src) > bytes[REC])
            bytes[REC] = ff_cuda_record_bytes((const ff_cuda_net *)nets[b], n_src);
    if (n_out == 0) return FF_OK;
    (void)ff_cuda_pool_kind(c->pool, FF_CUDA_RECORDS);
    for (int k = 0; k < N_BLOCKS; k++) FF_GO(ff_cuda_alloc(c->pool, bytes[k], &d[k]));
    FF_GO(ff_cuda_put(c->pool, d[X], x, bytes[X]));
    FF_GO(ff_cuda_put(c->pool, d[RAW], raw, bytes[RAW]));
    FF_GO(run_blocks(c, j, nets, n_net, n_src, strength, rows, d));
done:
    for (int k = 0; k < N_BLOCKS; k++) ff_cuda_free(c->pool, d[k]);
    return st;
}

static int64_t device_peak(void *impl)
{
    return ff_cuda_pool_peak(((ff_cuda_impl *)impl)->pool);
}

static void device_memory(void *impl, ff_device_memory *m)
{
    ff_cuda_peaks p;
    ff_cuda_pool_peaks(((ff_cuda_impl *)impl)->pool, &p);
    *m = {p.all,
          p.lists,
          p.rest,
          p.part[FF_CUDA_WEIGHTS],
          p.part[FF_CUDA_POINTS],
          p.part[FF_CUDA_RECORDS],
          p.part[FF_CUDA_CHUNK],
          p.part[FF_CUDA_OTHER]};
}

int ff_cuda_device_count(void)
{
    int n = 0;
    return cudaGetDeviceCount(&n) == cudaSuccess ? n : 0;
}

ff_status ff_cuda_device_name(int device, char *name, size_t size)
{
    ff_status st = FF_OK;
    cudaDeviceProp p;
    FF_CU(cudaGetDeviceProperties(&p, device));
    (void)snprintf(name, size, "%s, sm_%d%d, %.0f GiB", p.name, p.major, p.minor,
                   (double)p.totalGlobalMem / 1073741824.0);
done:
    return st;
}

/* ---- lanes: the same device for more threads ---- */

static ff_status lane_net_create(void *impl, const ff_globe_shape *s, const float *const *w,
                                 const float *const *b, const double *gscalar, const double *gvector,
                                 double length, ff_pair_net **out)
{
    ff_status st = FF_OK;
    const ff_cuda_impl *c = (const ff_cuda_impl *)impl;
    FF_CU(cudaSetDevice(c->device)); /* of this thread, whatever it has done before */
    st = ff_cuda_net_create(s, w, b, gscalar, gvector, length, c->precision, c->stream, (ff_cuda_net **)out);
    if (st == FF_OK)
        ff_cuda_pool_count(c->pool, FF_CUDA_WEIGHTS, (int64_t)((ff_cuda_net *)*out)->block_bytes);
done:
    return st;
}

static ff_status lane_job_create(void *impl, const ff_pair_lists *l, ff_pair_job **out)
{
    ff_status st = FF_OK;
    FF_CU(cudaSetDevice(((const ff_cuda_impl *)impl)->device));
    FF_TRY(job_create(impl, l, out));
    st = ff_cuda_wait(((const ff_cuda_impl *)impl)->pool); /* other streams may run it */
done:
    return st;
}

/* An adjoint's job and the lane it was made by. */
typedef struct lane_adj_job {
    ff_adj_job *job;
    ff_cuda_impl *of;
} lane_adj_job;

static void lane_adj_job_destroy(void *impl, ff_adj_job **jp)
{
    lane_adj_job *j = (lane_adj_job *)*jp;
    (void)impl;
    *jp = NULL;
    if (j == NULL) return;
    ff_cuda_adjoint_ops.job_destroy(j->of, &j->job);
    ff_free(j);
}

static ff_status lane_adj_job_create(void *impl, const ff_adj_lists *lists, ff_adj_job **out)
{
    ff_status st = FF_OK;
    lane_adj_job *j = (lane_adj_job *)ff_mem_alloc0(1, sizeof *j);
    *out = NULL;
    if (j == NULL) return FF_E_MEM;
    j->of = (ff_cuda_impl *)impl;
    FF_CU(cudaSetDevice(j->of->device));
    FF_GO(ff_cuda_adjoint_ops.job_create(impl, lists, &j->job));
    FF_GO(ff_cuda_wait(j->of->pool));
    *out = (ff_adj_job *)j;
    j = NULL;
done:
    lane_adj_job_destroy(impl, (ff_adj_job **)&j);
    return st;
}

static ff_status lane_adj_net_create(void *impl, const ff_adj_view *v, ff_adj_net **out)
{
    ff_status st = FF_OK;
    FF_CU(cudaSetDevice(((const ff_cuda_impl *)impl)->device));
    st = ff_cuda_adjoint_ops.net_create(impl, v, out);
done:
    return st;
}

static void lane_adj_net_destroy(void *impl, ff_adj_net **net)
{
    ff_cuda_adjoint_ops.net_destroy(impl, net);
}

static ff_status lane_adj_run(void *impl, const ff_adj_job *job, ff_adj_net *const *net, ff_adj_args *a)
{
    return ff_cuda_adjoint_ops.run(impl, ((const lane_adj_job *)job)->job, net, a);
}

static const ff_pair_adjoint_ops lane_adjoint_ops = {lane_adj_job_create, lane_adj_job_destroy,
                                                     lane_adj_net_create, lane_adj_net_destroy, lane_adj_run};

static void lane_destroy(ff_pair_backend **lane)
{
    ff_cuda_backend_destroy(lane);
}

/* A table with what backends and lanes have alike: a stream and a pool on it, a lane's beside that of the backend it is of
 * (else NULL). */
static ff_status table_create(int device, ff_cuda_precision precision, const ff_cuda_impl *of,
                              ff_pair_backend **out)
{
    ff_status st = FF_OK;
    ff_cuda_impl *c = (ff_cuda_impl *)ff_mem_alloc0(1, sizeof *c);
    ff_pair_backend *b = (ff_pair_backend *)ff_mem_alloc0(1, sizeof *b);
    *out = NULL;
    if (c == NULL || b == NULL) FF_GO(FF_E_MEM);
    c->device = device;
    c->precision = precision;
    FF_CU(cudaSetDevice(device));
    FF_CU(cudaStreamCreateWithFlags(&c->stream, cudaStreamNonBlocking));
    FF_GO(of != NULL ? ff_cuda_pool_create_beside(of->pool, c->stream, &c->pool)
                     : ff_cuda_pool_create(c->stream, &c->pool));
    b->name = "cuda";
    b->impl = c;
    b->net_destroy = net_destroy;
    b->job_destroy = job_destroy;
    b->job_run = job_run;
    b->device_peak = device_peak;
    b->device_memory = device_memory;
    *out = b;
    c = NULL;
    b = NULL;
done:
    if (c != NULL && c->stream != NULL) (void)cudaStreamDestroy(c->stream);
    ff_free(c);
    ff_free(b);
    return st;
}

static ff_status lane_create(void *impl, ff_pair_backend **out)
{
    const ff_cuda_impl *of = (const ff_cuda_impl *)impl;
    FF_TRY(table_create(of->device, of->precision, of, out));
    ((ff_cuda_impl *)(*out)->impl)->budget = of->budget;
    (*out)->net_create = lane_net_create;
    (*out)->job_create = lane_job_create;
    (*out)->adjoint = &lane_adjoint_ops;
    return FF_OK;
}

static void set_budget(ff_cuda_impl *c, int64_t bytes)
{
    c->budget = bytes;
    ff_cuda_pool_set_budget(c->pool, bytes);
}

void ff_cuda_backend_set_budget(ff_pair_backend *b, int64_t bytes)
{
    set_budget((ff_cuda_impl *)b->impl, bytes);
}

int64_t ff_cuda_backend_budget(const ff_pair_backend *b)
{
    return ((const ff_cuda_impl *)b->impl)->budget;
}

ff_status ff_cuda_backend_create(int device, ff_cuda_precision precision, ff_pair_backend **out)
{
    ff_status st = FF_OK;
    ff_pair_backend *b = NULL;
    size_t free_bytes = 0, all_bytes = 0;
    *out = NULL;
    FF_GO(table_create(device, precision, NULL, &b));
    FF_CU(cudaMemGetInfo(&free_bytes, &all_bytes));
    set_budget((ff_cuda_impl *)b->impl, (int64_t)(free_bytes / 10 * 9));
    b->net_create = net_create;
    b->job_create = job_create;
    b->resident = &ff_cuda_resident_ops;
    b->adjoint = &ff_cuda_adjoint_ops;
    b->lane_create = lane_create;
    b->lane_destroy = lane_destroy;
    *out = b;
    b = NULL;
done:
    ff_cuda_backend_destroy(&b);
    return st;
}

void ff_cuda_backend_destroy(ff_pair_backend **bp)
{
    if (*bp == NULL) return;
    ff_cuda_impl *c = (ff_cuda_impl *)(*bp)->impl;
    ff_cuda_pool_destroy(&c->pool);
    ff_adj_sides_close(&c->sides);
    (void)cudaStreamDestroy(c->stream);
    ff_free(c);
    ff_free(*bp);
    *bp = NULL;
}
