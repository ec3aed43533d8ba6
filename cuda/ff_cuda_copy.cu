/* Copies between host and device, streams, and timing with events. */
#include "ff_cuda_check.cuh"

extern "C" {
#include "ff_cuda_copy.h"
}

static ff_status copy(ff_cuda_pool *pool, void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                      bool wait)
{
    ff_status st = FF_OK;
    cudaStream_t s = (cudaStream_t)ff_cuda_pool_stream(pool);
    if (bytes > 0) FF_CU(cudaMemcpyAsync(to, from, bytes, kind, s));
    if (wait) FF_CU(cudaStreamSynchronize(s));
done:
    return st;
}

ff_status ff_cuda_copy_in(ff_cuda_pool *pool, void *d_to, const void *from, size_t bytes)
{
    return copy(pool, d_to, from, bytes, cudaMemcpyHostToDevice, true);
}

ff_status ff_cuda_copy_out(ff_cuda_pool *pool, void *to, const void *d_from, size_t bytes)
{
    return copy(pool, to, d_from, bytes, cudaMemcpyDeviceToHost, true);
}

ff_status ff_cuda_copy_on(ff_cuda_pool *pool, void *d_to, const void *d_from, size_t bytes)
{
    return copy(pool, d_to, d_from, bytes, cudaMemcpyDeviceToDevice, false);
}

ff_status ff_cuda_stream_open(int device, ff_cuda_pool **pool)
{
    ff_status st = FF_OK;
    cudaStream_t s = NULL;
    *pool = NULL;
    FF_CU(cudaSetDevice(device));
    FF_CU(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    FF_GO(ff_cuda_pool_create(s, pool));
    s = NULL;
done:
    if (s != NULL) (void)cudaStreamDestroy(s);
    return st;
}

void ff_cuda_stream_close(ff_cuda_pool **pool)
{
    if (*pool == NULL) return;
    cudaStream_t s = (cudaStream_t)ff_cuda_pool_stream(*pool);
    ff_cuda_pool_destroy(pool);
    (void)cudaStreamDestroy(s);
}

ff_status ff_cuda_time(ff_cuda_pool *pool, ff_status (*call)(void *ctx), void *ctx, int n, double *t_s)
{
    ff_status st = FF_OK;
    cudaStream_t s = (cudaStream_t)ff_cuda_pool_stream(pool);
    cudaEvent_t from = NULL, to = NULL;
    float ms = 0;
    FF_CU(cudaEventCreate(&from));
    FF_CU(cudaEventCreate(&to));
    FF_CU(cudaEventRecord(from, s));
    for (int k = 0; k < n; k++) FF_GO(call(ctx));
    FF_CU(cudaEventRecord(to, s));
    FF_CU(cudaEventSynchronize(to));
    FF_CU(cudaEventElapsedTime(&ms, from, to));
    *t_s = 1e-3 * (double)ms / n;
done:
    if (from != NULL) (void)cudaEventDestroy(from);
    if (to != NULL) (void)cudaEventDestroy(to);
    return st;
}
