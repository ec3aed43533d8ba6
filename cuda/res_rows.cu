/* Rows of points: from the order given to own order, first source values, packing for the exchange. Small kernels, a
 * thread a point or a word; memory-bound, some ten microseconds for 80,000 faces. */
#include "ff_resident.cuh"

enum { BLOCK = 256 };

static unsigned blocks(int64_t n)
{
    return (unsigned)((n + BLOCK - 1) / BLOCK);
}

/* Held index of the first of the points that are given here: all of them, or the own ones of a tree held in part. */
static int32_t first_row(const ff_res_cloud *c)
{
    return c->d_order != NULL ? 0 : c->own_first;
}

typedef struct point_rows {
    const int64_t *order;
    double *xp, *xs, *mu;
    float *stat;
    int64_t n;
    int32_t own_first;
    int dim, n_scalar, n_stat;
} point_rows;

static __global__ void take_points(point_rows r, ff_res_input in)
{
    int64_t k = (int64_t)blockIdx.x * BLOCK + threadIdx.x;
    if (k >= r.n) return;
    int64_t from = r.order != NULL ? r.order[k] : k, p = r.own_first + k;
    for (int d = 0; d < r.dim; d++) r.xp[p * r.dim + d] = in.x[from * r.dim + d];
    if (r.xs == NULL) return;
    for (int d = 0; d < 4; d++) r.xs[p * 4 + d] = d < r.dim ? in.x[from * r.dim + d] : 0.0;
    r.mu[p] = in.mu[from];
    int n_field = r.n_stat - r.dim;
    float *stat = r.stat + p * r.n_stat;
    const double *field = in.field + from * n_field;
    for (int a = 0; a < r.n_scalar; a++) stat[a] = (float)field[a];
    for (int d = 0; d < r.dim; d++) stat[r.n_scalar + d] = (float)in.normal[from * r.dim + d];
    for (int a = r.n_scalar; a < n_field; a++) stat[r.dim + a] = (float)field[a];
}

ff_status ff_res_take(const ff_res_cloud *c, int dim, const ff_res_input *in, cudaStream_t s)
{
    ff_status st = FF_OK;
    point_rows r = {c->d_order, c->d_xp,      c->d_xs, c->d_mu,     c->d_stat,
                    c->n,       first_row(c), dim,     c->n_scalar, c->n_stat};
    if (c->n == 0) return FF_OK;
    take_points<<<blocks(c->n), BLOCK, 0, s>>>(r, *in);
    FF_CU(cudaGetLastError());
done:
    return st;
}

/* Layer 0: no latents, unit strengths times mu. */
static __global__ void first_values(int64_t n, int n_lat, int n_dyn, const double *mu, float *dyn)
{
    int64_t i = (int64_t)blockIdx.x * BLOCK + threadIdx.x;
    if (i < n * n_dyn) dyn[i] = i % n_dyn < n_lat ? 0.0f : (float)mu[i / n_dyn];
}

ff_status ff_res_first_values(const ff_res_cloud *c, int n_lat, int n_dyn, cudaStream_t s)
{
    ff_status st = FF_OK;
    if (c->n == 0 || n_dyn == 0) return FF_OK;
    first_values<<<blocks(c->n * n_dyn), BLOCK, 0, s>>>(c->n, n_lat, n_dyn, c->d_mu + first_row(c),
                                                        c->d_dyn + (int64_t)first_row(c) * n_dyn);
    FF_CU(cudaGetLastError());
done:
    return st;
}

/* ---- rows of source ids <-> messages, as words of 4 bytes ---- */

typedef struct message_rows {
    const int32_t *id;
    uint32_t *msg;
    double *xp, *xn, *xs;
    float *stat, *dyn;
    int64_t n;
    int32_t n_held;
    int dim, n_stat, n_dyn;
} message_rows;

template <bool SEND, bool GEO> static __global__ void message(message_rows r)
{
    int words = GEO ? 2 * r.dim + r.n_stat : r.n_dyn;
    int64_t k = (int64_t)blockIdx.x * BLOCK + threadIdx.x;
    if (k >= r.n * words) return;
    int64_t i = r.id[k / words];
    int w = (int)(k % words);
    uint32_t *at, *copy = NULL;
    if (!GEO) {
        at = (uint32_t *)(r.dyn + i * r.n_dyn) + w;
    } else if (w < 2 * r.dim) {
        at = (uint32_t *)(i < r.n_held ? r.xp + i * r.dim : r.xn + (i - r.n_held) * r.dim) + w;
        copy = (uint32_t *)(r.xs + i * 4) + w;
    } else {
        at = (uint32_t *)(r.stat + i * r.n_stat) + w - 2 * r.dim;
    }
    if (SEND) {
        r.msg[k] = *at;
    } else {
        *at = r.msg[k];
        if (copy != NULL) *copy = r.msg[k];
    }
}

size_t ff_res_row_bytes(const ff_res_cloud *c, int dim, int n_dyn, bool geometry)
{
    return sizeof(uint32_t) * (size_t)(geometry ? 2 * dim + c->n_stat : n_dyn);
}

ff_status ff_res_pack(const ff_res_cloud *c, bool send, int dim, int n_dyn, bool geometry, cudaStream_t s)
{
    ff_status st = FF_OK;
    message_rows r = {send ? c->d_send : c->d_recv,
                      (uint32_t *)c->d_msg[send ? 0 : 1],
                      c->d_xp,
                      c->d_xn,
                      c->d_xs,
                      c->d_stat,
                      c->d_dyn,
                      send ? c->n_send : c->n_recv,
                      c->n_held,
                      dim,
                      c->n_stat,
                      n_dyn};
    int64_t n = r.n * (int64_t)(ff_res_row_bytes(c, dim, n_dyn, geometry) / sizeof(uint32_t));
    if (n == 0) return FF_OK;
    if (send && geometry)
        message<true, true><<<blocks(n), BLOCK, 0, s>>>(r);
    else if (send)
        message<true, false><<<blocks(n), BLOCK, 0, s>>>(r);
    else if (geometry)
        message<false, true><<<blocks(n), BLOCK, 0, s>>>(r);
    else
        message<false, false><<<blocks(n), BLOCK, 0, s>>>(r);
    FF_CU(cudaGetLastError());
done:
    return st;
}
