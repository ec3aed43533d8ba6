/* What the set-up kernels of this room share: launches, and memory by element. */
#ifndef FF_CUDA_SCAN_CUH
#define FF_CUDA_SCAN_CUH

#include "ff_cuda_net.cuh"

extern "C" {
#include "ff_cuda_pool.h"
}

/* Blocks of 256 threads for n work items, each handled by lanes threads. */
static inline unsigned ff_grid(int64_t n, int lanes)
{
    int64_t blocks = (n * lanes + 255) / 256;
    return (unsigned)(blocks > 0 ? blocks : 1);
}

/* Running index of this thread in a grid of 256-thread blocks. */
static __device__ inline int64_t ff_thread(void)
{
    return (int64_t)blockIdx.x * 256 + threadIdx.x;
}

/* d [n] becomes the sums before each (pair_lists.cu); d_work: ff_cuda_cut_bytes(n) bytes. */
ff_status ff_scan_i32(int32_t *d, int32_t n, void *d_work, cudaStream_t s);

#define FF_ALLOC(pool, p, n) ff_cuda_alloc((pool), (size_t)(n) * sizeof *(p), &(p))

#endif
