/* Checked CUDA calls. */
#ifndef FF_CUDA_CHECK_CUH
#define FF_CUDA_CHECK_CUH

extern "C" {
#include "ff_status.h"
}

#include <cuda_runtime.h>

/* Dynamic shared memory that launches of kernel may ask for on the current device: at least bytes from now on. Never less
 * than before: threads launch the same kernel with different sizes.                               Local, any thread */
cudaError_t ff_cuda_shared(const void *kernel, int bytes);

/* Launch errors included: every call goes through here. */
#define FF_CU(call)                                                                                          \
    do {                                                                                                     \
        cudaError_t ff_cu_ = (call);                                                                         \
        if (ff_cu_ != cudaSuccess) {                                                                         \
            st = ff_fail(ff_cu_ == cudaErrorMemoryAllocation ? FF_E_MEM : FF_E_INTERNAL, "%s:%d: %s: %s",    \
                         __FILE__, __LINE__, #call, cudaGetErrorString(ff_cu_));                             \
            goto done;                                                                                       \
        }                                                                                                    \
    } while (0)

#endif
