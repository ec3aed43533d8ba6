/* Zonal scatter on the GPU in float64. */
#include "scatter_bwd.cuh"
#include "scatter_chain.cuh"
#include "scatter_fwd.cuh"
#include "scatter_plain.cuh"

template <bool FULL> static cudaError_t forward(const scatter_job<double> *j, int vec, cudaStream_t s)
{
    cudaError_t e = vec >= 2 ? fwd_groups<double, 1, 16, FULL>(j, s) : fwd_groups<double, 1, 8, FULL>(j, s);
    return e != cudaSuccess ? e : vec >= 2 ? chain_launch<16, FULL>(j, s) : chain_launch<8, FULL>(j, s);
}

cudaError_t scatter_forward_f64(const scatter_job<double> *j, ff_scatter_path path, int vec, cudaStream_t s)
{
    if (path == FF_SCATTER_REFERENCE) return plain_forward_run(j, s);
    const bool full = j->spin != NULL || j->gate != NULL;
    return full ? forward<true>(j, vec, s) : forward<false>(j, vec, s);
}

template <bool FULL> static cudaError_t backward(const scatter_job<double> *j, int vec, cudaStream_t s)
{
    return vec >= 2 ? bwd_groups<double, 32, 16, FULL>(j, s) : bwd_groups<double, 32, 8, FULL>(j, s);
}

cudaError_t scatter_backward_f64(const scatter_job<double> *j, ff_scatter_path path, int vec, cudaStream_t s)
{
    if (path == FF_SCATTER_REFERENCE) return plain_backward_run(j, s);
    const bool full = j->spin != NULL || j->gate != NULL || j->share != NULL;
    cudaError_t e = full ? backward<true>(j, vec, s) : backward<false>(j, vec, s);
    return e == cudaSuccess ? share_sum(j, s) : e;
}
