/* scatter_plain: the formula of farfield_scatter.h, a thread an element, no vectors: what the fused kernels are checked
 * against, and what serves radial features whose channels are not adjacent.
 * Order   edges of a node ascending; sums over channels and rows ascending. No atomics
 * Bound   not made to be fast: radial features are read once a row, cotangents once an edge
 * Oracle  reference path of the CPU, tests/gpu/test_scatter.c */
#ifndef FF_CUDA_SCATTER_PLAIN_CUH
#define FF_CUDA_SCATTER_PLAIN_CUH

#include "scatter.cuh"

static __device__ __forceinline__ int plain_degree(int row)
{
    int l = 1;
    while (row >= l * l + 2 * l) l++;
    return l;
}

template <typename T> static __device__ T plain_f(const scatter_job<T> &j, int64_t e, int row, int c)
{
    return j.f[e * j.s0 + (plain_degree(row) - 1) * j.s1 + c * j.s2];
}

template <typename T> static __device__ T plain_message(const scatter_job<T> &j, int64_t e, int row, int c)
{
    const T spin = j.spin != NULL && row < 3 ? j.spin[(e * 3 + row) * j.n_chan + c] : 0;
    return message(j.z[e * j.n_rows + row], plain_f(j, e, row, c), spin, j.gate != NULL ? j.gate[e] : 1);
}

template <typename T> static __global__ void plain_forward(const scatter_job<T> j)
{
    const int64_t at = (int64_t)blockIdx.x * SCATTER_BLOCK + threadIdx.x,
                  per_node = (int64_t)(j.n_rows + 1) * j.n_chan;
    if (at >= j.n_nodes * per_node) return;
    const int64_t n = at / per_node;
    const int row = (int)(at % per_node / j.n_chan) - 1, c = (int)(at % j.n_chan);
    T sum = 0;
    for (int64_t k = j.off[n]; row >= 0 && k < j.off[n + 1]; k++) sum += plain_message(j, j.edge[k], row, c);
    j.out[at] = row >= 0 && j.deg != NULL ? sum * j.deg[n] : sum;
}

/* What the loss changes by with the ungated message's element: cotangent x inv_sqrt_deg x gate. */
template <typename T> static __device__ T plain_d(const scatter_job<T> &j, int64_t e, int row, int c)
{
    const int64_t n = j.dst[e];
    const T cot = j.cot[(n * (j.n_rows + 1) + 1 + row) * j.n_chan + c];
    return cot * (j.deg != NULL ? j.deg[n] : 1) * (j.gate != NULL ? j.gate[e] : 1);
}

template <typename T> static __global__ void plain_coupling(const scatter_job<T> j)
{
    const int64_t at = (int64_t)blockIdx.x * SCATTER_BLOCK + threadIdx.x, e = at / j.n_rows;
    if (e >= j.n_edges) return;
    const int row = (int)(at % j.n_rows);
    T sum = 0;
    for (int c = 0; c < j.n_chan; c++) sum += plain_d(j, e, row, c) * plain_f(j, e, row, c);
    j.dz[at] = sum;
}

template <typename T> static __global__ void plain_radial(const scatter_job<T> j)
{
    const int64_t at = (int64_t)blockIdx.x * SCATTER_BLOCK + threadIdx.x,
                  e = at / ((int64_t)j.lmax * j.n_chan);
    if (e >= j.n_edges) return;
    const int l = (int)(at / j.n_chan % j.lmax) + 1, c = (int)(at % j.n_chan);
    T sum = 0;
    for (int row = l * l - 1; row < l * l + 2 * l; row++)
        sum += plain_d(j, e, row, c) * j.z[e * j.n_rows + row];
    j.df[at] = sum;
}

template <typename T> static __global__ void plain_spin(const scatter_job<T> j)
{
    const int64_t at = (int64_t)blockIdx.x * SCATTER_BLOCK + threadIdx.x, e = at / (3 * (int64_t)j.n_chan);
    if (e < j.n_edges) j.dspin[at] = plain_d(j, e, (int)(at / j.n_chan % 3), (int)(at % j.n_chan));
}

/* Gradient of the gate, and each edge's share in that of inv_sqrt_deg. */
template <typename T> static __global__ void plain_edge(const scatter_job<T> j)
{
    const int64_t e = (int64_t)blockIdx.x * SCATTER_BLOCK + threadIdx.x;
    if (e >= j.n_edges) return;
    const int64_t n = j.dst[e];
    double sum = 0;
    for (int row = 0; row < j.n_rows; row++)
        for (int c = 0; c < j.n_chan; c++) {
            const T spin = j.spin != NULL && row < 3 ? j.spin[(e * 3 + row) * j.n_chan + c] : 0;
            const T term = message(j.z[e * j.n_rows + row], plain_f(j, e, row, c), spin, (T)1);
            sum += (double)j.cot[(n * (j.n_rows + 1) + 1 + row) * j.n_chan + c] * (double)term;
        }
    if (j.dgate != NULL) j.dgate[e] = (T)(sum * (j.deg != NULL ? (double)j.deg[n] : 1.0));
    if (j.share != NULL) j.share[e] = sum * (j.gate != NULL ? (double)j.gate[e] : 1.0);
}

/* Shares of a node's edges: 128 threads take every 128th, then halve. One block a node; both paths use it. */
template <typename T> static __global__ void scatter_share(const scatter_job<T> j)
{
    __shared__ double sum[SCATTER_BLOCK];
    const int t = (int)threadIdx.x;
    const int64_t n = blockIdx.x;
    double mine = 0;
    for (int64_t k = j.off[n] + t; k < j.off[n + 1]; k += SCATTER_BLOCK) mine += j.share[j.edge[k]];
    sum[t] = mine;
    for (int half = SCATTER_BLOCK / 2; half > 0; half /= 2) {
        __syncthreads();
        if (t < half) sum[t] += sum[t + half];
    }
    if (t == 0) j.ddeg[n] = (T)sum[0];
}

static unsigned plain_blocks(int64_t n)
{
    return (unsigned)((n + SCATTER_BLOCK - 1) / SCATTER_BLOCK);
}

template <typename T> static cudaError_t share_sum(const scatter_job<T> *j, cudaStream_t s)
{
    if (j->ddeg != NULL && j->n_nodes > 0) scatter_share<<<(unsigned)j->n_nodes, SCATTER_BLOCK, 0, s>>>(*j);
    return cudaGetLastError();
}

template <typename T> static cudaError_t plain_forward_run(const scatter_job<T> *j, cudaStream_t s)
{
    const int64_t n = j->n_nodes * (j->n_rows + 1) * j->n_chan;
    if (n > 0) plain_forward<<<plain_blocks(n), SCATTER_BLOCK, 0, s>>>(*j);
    return cudaGetLastError();
}

template <typename T> static cudaError_t plain_backward_run(const scatter_job<T> *j, cudaStream_t s)
{
    const int64_t n = j->n_edges, c = j->n_chan;
    if (n > 0) {
        if (j->dz != NULL) plain_coupling<<<plain_blocks(n * j->n_rows), SCATTER_BLOCK, 0, s>>>(*j);
        if (j->df != NULL) plain_radial<<<plain_blocks(n * j->lmax * c), SCATTER_BLOCK, 0, s>>>(*j);
        if (j->dspin != NULL) plain_spin<<<plain_blocks(3 * n * c), SCATTER_BLOCK, 0, s>>>(*j);
        if (j->dgate != NULL || j->share != NULL) plain_edge<<<plain_blocks(n), SCATTER_BLOCK, 0, s>>>(*j);
    }
    cudaError_t e = cudaGetLastError();
    return e == cudaSuccess ? share_sum(j, s) : e;
}
#endif
