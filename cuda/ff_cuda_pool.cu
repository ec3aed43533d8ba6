/* Counted device memory: the blocks of one rank, a few dozen at a time, in a list. */
#include "ff_cuda_net.cuh"

extern "C" {
#include "ff_cuda_pool.h"
#include "ff_mem.h"
}

typedef struct pool_block {
    void *p;
    int64_t bytes;
} pool_block;

struct ff_cuda_pool {
    cudaStream_t stream;
    int64_t used, peak, budget;
    pool_block *block; /* [n] */
    int64_t n, cap;
};

ff_status ff_cuda_pool_create(void *stream, ff_cuda_pool **out)
{
    ff_status st = FF_OK;
    ff_cuda_pool *p = (ff_cuda_pool *)ff_mem_alloc0(1, sizeof *p);
    cudaMemPool_t pool;
    uint64_t keep = UINT64_MAX; /* freed memory stays with the process: no call into the system a layer */
    int device = 0;
    *out = NULL;
    if (p == NULL) return FF_E_MEM;
    p->stream = (cudaStream_t)stream;
    FF_CU(cudaGetDevice(&device));
    FF_CU(cudaDeviceGetDefaultMemPool(&pool, device));
    FF_CU(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
    *out = p;
    p = NULL;
done:
    ff_free(p);
    return st;
}

void ff_cuda_pool_destroy(ff_cuda_pool **pool)
{
    ff_cuda_pool *p = *pool;
    if (p == NULL) return;
    for (int64_t k = 0; k < p->n; k++) (void)cudaFreeAsync(p->block[k].p, p->stream);
    ff_free(p->block);
    ff_free(p);
    *pool = NULL;
}

void *ff_cuda_pool_stream(const ff_cuda_pool *pool)
{
    return pool->stream;
}

static double mib(int64_t bytes)
{
    return (double)bytes / 1048576;
}

ff_status ff_cuda_alloc(ff_cuda_pool *p, size_t bytes, void *out)
{
    ff_status st = FF_OK;
    int64_t size = ((int64_t)bytes + 511) / 256 * 256;
    void *block = NULL;
    *(void **)out = NULL;
    if (p->budget > 0 && p->used + size > p->budget)
        return ff_fail(FF_E_MEM,
                       "device memory: %.1f MiB asked for with %.1f MiB in use, budget %.1f MiB; use more "
                       "ranks or a larger budget",
                       mib(size), mib(p->used), mib(p->budget));
    FF_TRY(ff_mem_reserve(&p->block, &p->cap, p->n + 1, sizeof *p->block));
    cudaError_t e = cudaMallocAsync(&block, (size_t)size, p->stream);
    if (e == cudaErrorMemoryAllocation) {
        (void)cudaGetLastError(); /* not sticky: the process goes on */
        return ff_fail(FF_E_MEM, "device memory: %.1f MiB asked for with %.1f MiB in use: %s", mib(size),
                       mib(p->used), cudaGetErrorString(e));
    }
    FF_CU(e);
    p->block[p->n++] = {block, size};
    p->used += size;
    if (p->used > p->peak) p->peak = p->used;
    *(void **)out = block;
done:
    return st;
}

void ff_cuda_free(ff_cuda_pool *p, const void *block)
{
    for (int64_t k = p->n; block != NULL && k-- > 0;) {
        if (p->block[k].p != block) continue;
        (void)cudaFreeAsync(p->block[k].p, p->stream);
        p->used -= p->block[k].bytes;
        p->block[k] = p->block[--p->n];
        return;
    }
}

ff_status ff_cuda_put(ff_cuda_pool *p, void *d, const void *host, size_t bytes)
{
    ff_status st = FF_OK;
    if (bytes > 0) FF_CU(cudaMemcpyAsync(d, host, bytes, cudaMemcpyHostToDevice, p->stream));
done:
    return st;
}

ff_status ff_cuda_new(ff_cuda_pool *p, const void *host, size_t bytes, void *out)
{
    *(void **)out = NULL;
    if (host == NULL) return FF_OK;
    FF_TRY(ff_cuda_alloc(p, bytes, out));
    return ff_cuda_put(p, *(void **)out, host, bytes);
}

ff_status ff_cuda_get(ff_cuda_pool *p, void *host, const void *d, size_t bytes)
{
    ff_status st = FF_OK;
    if (bytes > 0) FF_CU(cudaMemcpyAsync(host, d, bytes, cudaMemcpyDeviceToHost, p->stream));
done:
    return st;
}

ff_status ff_cuda_zero(ff_cuda_pool *p, void *d, size_t bytes)
{
    ff_status st = FF_OK;
    if (bytes > 0) FF_CU(cudaMemsetAsync(d, 0, bytes, p->stream));
done:
    return st;
}

ff_status ff_cuda_wait(ff_cuda_pool *p)
{
    ff_status st = FF_OK;
    FF_CU(cudaStreamSynchronize(p->stream));
done:
    return st;
}

void ff_cuda_pool_set_budget(ff_cuda_pool *pool, int64_t bytes)
{
    pool->budget = bytes;
}
int64_t ff_cuda_pool_used(const ff_cuda_pool *pool)
{
    return pool->used;
}
int64_t ff_cuda_pool_peak(const ff_cuda_pool *pool)
{
    return pool->peak;
}
int64_t ff_cuda_pool_blocks(const ff_cuda_pool *pool)
{
    return pool->n;
}
