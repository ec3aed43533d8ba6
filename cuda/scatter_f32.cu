/* Zonal scatter on the GPU in float32. */
#include "scatter_bwd.cuh"
#include "scatter_fwd.cuh"
#include "scatter_plain.cuh"

/* Up to 32 channels a channel a thread, else two. */
template <bool FULL> static cudaError_t forward(const scatter_job<float> *j, int vec, cudaStream_t s)
{
    if (j->n_chan > 32)
        return vec >= 4 ? fwd_groups<float, 2, 16, FULL>(j, s) : fwd_groups<float, 2, 4, FULL>(j, s);
    return vec >= 4 ? fwd_groups<float, 1, 16, FULL>(j, s) : fwd_groups<float, 1, 4, FULL>(j, s);
}

cudaError_t scatter_forward_f32(const scatter_job<float> *j, ff_scatter_path path, int vec, cudaStream_t s)
{
    if (path == FF_SCATTER_REFERENCE) return plain_forward_run(j, s);
    const bool full = j->spin != NULL || j->gate != NULL;
    cudaError_t e = full ? forward<true>(j, vec, s) : forward<false>(j, vec, s);
    const int64_t n = j->n_long * (j->n_rows + 1) * j->n_chan;
    if (e != cudaSuccess || n == 0) return e;
    scatter_pieces<<<plain_blocks(n * PIECE_LANES), SCATTER_BLOCK, 0, s>>>(*j);
    return cudaGetLastError();
}

/* 32 channels at once, or 64. */
template <bool FULL> static cudaError_t backward(const scatter_job<float> *j, int vec, cudaStream_t s)
{
    if (j->n_chan > 32)
        return vec >= 4 ? bwd_groups<float, 32, 16, FULL>(j, s) : bwd_groups<float, 32, 4, FULL>(j, s);
    return vec >= 4 ? bwd_groups<float, 16, 16, FULL>(j, s) : bwd_groups<float, 16, 4, FULL>(j, s);
}

cudaError_t scatter_backward_f32(const scatter_job<float> *j, ff_scatter_path path, int vec, cudaStream_t s)
{
    if (path == FF_SCATTER_REFERENCE) return plain_backward_run(j, s);
    const bool full = j->spin != NULL || j->gate != NULL || j->share != NULL;
    cudaError_t e = full ? backward<true>(j, vec, s) : backward<false>(j, vec, s);
    return e == cudaSuccess ? share_sum(j, s) : e;
}
