/* What the parts of the CUDA row share: one device, one stream, counted device memory. Private to cuda/. */
#ifndef FF_CUDA_IMPL_CUH
#define FF_CUDA_IMPL_CUH

#include "ff_cuda_net.cuh"
#include "ff_cuda_tree.h"

extern "C" {
#include "ff_mem.h"
#include "ff_resident.h"
}

typedef struct ff_adj_sides ff_adj_sides; /* pair_globe_adj.cu */

typedef struct ff_cuda_impl {
    ff_cuda_precision precision;
    cudaStream_t stream;
    ff_cuda_pool *pool;
    int64_t budget; /* device bytes the pool may hold; 0: unknown */
    int device;
    ff_adj_sides *sides; /* NULL until the adjoint has chunks beside each other */
} ff_cuda_impl;

/* FF_NEW0 for C++ */
#define FF_NEW_CUDA(p, n)                                                                                    \
    (((p) = (decltype(p))ff_mem_alloc0((size_t)(n), sizeof *(p))) != NULL ? FF_OK : FF_E_MEM)

extern const ff_resident_ops ff_cuda_resident_ops; /* ff_resident.cu */
extern "C" const ff_pair_adjoint_ops ff_cuda_adjoint_ops; /* pair_globe_adj.cu */
void ff_adj_sides_close(ff_adj_sides **s);                /* NULL inside is fine */

#endif
