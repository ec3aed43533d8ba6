/* Counted device memory: blocks in a list, looked for from its end, where those of the call in progress stand. */
#include "ff_cuda_net.cuh"

extern "C" {
#include "ff_cuda_pool.h"
#include "ff_mem.h"
}

#include <pthread.h>
#include <string.h>

typedef struct pool_block {
    void *p;
    int64_t bytes;
    ff_cuda_kind kind;
} pool_block;

enum { PINNED_BYTES = 8 << 20, MAX_COPIES = 16 };

typedef struct pool_copy {
    void *to;
    const char *from;
    size_t bytes;
} pool_copy;

/* Of a pool and those beside it. */
typedef struct pool_count {
    pthread_mutex_t lock; /* of all below */
    int64_t used, budget, of[FF_CUDA_N_KINDS];
    ff_cuda_peaks peak;
} pool_count;

struct ff_cuda_pool {
    cudaStream_t stream;
    cudaMemPool_t memory, own; /* own: NULL where the device's default serves */
    pool_count *count, mine;
    ff_cuda_kind kind; /* of blocks to come */
    pool_block *block; /* [n] */
    int64_t n, cap;
    /* Beside another only: freed blocks for the next call, and pinned memory that copies go through, so that a thread asks
     * the driver, which serves one thread at a time, for as little as it can. */
    pool_block *spare; /* [n_spare] */
    int64_t n_spare, cap_spare;
    char *pinned;
    size_t pinned_used;
    pool_copy copy[MAX_COPIES]; /* [n_copies] from pinned memory, once the stream has brought them */
    int n_copies;
};

static ff_status create(ff_cuda_pool *parent, void *stream, ff_cuda_pool **out)
{
    ff_status st = FF_OK;
    ff_cuda_pool *p = (ff_cuda_pool *)ff_mem_alloc0(1, sizeof *p);
    uint64_t keep = UINT64_MAX; /* freed memory stays with the process: no call into the system a layer */
    cudaMemPoolProps props;
    int device = 0;
    *out = NULL;
    if (p == NULL) return FF_E_MEM;
    p->stream = (cudaStream_t)stream;
    p->count = parent != NULL ? parent->count : &p->mine;
    (void)pthread_mutex_init(&p->mine.lock, NULL);
    FF_CU(cudaGetDevice(&device));
    if (parent != NULL) { /* the default pool may make a stream wait for what another has freed */
        memset(&props, 0, sizeof props);
        props.allocType = cudaMemAllocationTypePinned;
        props.location.type = cudaMemLocationTypeDevice;
        props.location.id = device;
        FF_CU(cudaMemPoolCreate(&p->own, &props));
        FF_CU(cudaMallocHost((void **)&p->pinned, PINNED_BYTES));
        p->memory = p->own;
    } else {
        FF_CU(cudaDeviceGetDefaultMemPool(&p->memory, device));
    }
    FF_CU(cudaMemPoolSetAttribute(p->memory, cudaMemPoolAttrReleaseThreshold, &keep));
    *out = p;
    p = NULL;
done:
    ff_cuda_pool_destroy(&p);
    return st;
}

ff_status ff_cuda_pool_create(void *stream, ff_cuda_pool **out)
{
    return create(NULL, stream, out);
}

ff_status ff_cuda_pool_create_beside(ff_cuda_pool *parent, void *stream, ff_cuda_pool **out)
{
    return create(parent, stream, out);
}

void ff_cuda_pool_count(ff_cuda_pool *pool, ff_cuda_kind kind, int64_t bytes)
{
    pool_count *c = pool->count;
    (void)pthread_mutex_lock(&c->lock);
    c->used += bytes;
    c->of[kind] += bytes;
    int64_t lists = c->of[FF_CUDA_LISTS], rest = c->used - lists;
    if (c->used > c->peak.all) c->peak.all = c->used;
    if (lists > c->peak.lists) c->peak.lists = lists;
    if (rest > c->peak.rest) {
        c->peak.rest = rest;
        memcpy(c->peak.part, c->of, sizeof c->of);
        c->peak.part[FF_CUDA_LISTS] = 0;
    }
    (void)pthread_mutex_unlock(&c->lock);
}

static void give_back(ff_cuda_pool *p, const pool_block *b)
{
    (void)cudaFreeAsync(b->p, p->stream);
    ff_cuda_pool_count(p, b->kind, -b->bytes);
}

static void drop_spares(ff_cuda_pool *p)
{
    for (int64_t k = 0; k < p->n_spare; k++) give_back(p, &p->spare[k]);
    p->n_spare = 0;
}

void ff_cuda_pool_destroy(ff_cuda_pool **pool)
{
    ff_cuda_pool *p = *pool;
    if (p == NULL) return;
    drop_spares(p);
    for (int64_t k = 0; k < p->n; k++) give_back(p, &p->block[k]);
    if (p->own != NULL) {
        (void)cudaStreamSynchronize(p->stream);
        (void)cudaMemPoolDestroy(p->own);
    }
    if (p->pinned != NULL) (void)cudaFreeHost(p->pinned);
    ff_free(p->block);
    ff_free(p->spare);
    (void)pthread_mutex_destroy(&p->mine.lock);
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

/* A spare block that fits, or bytes 0. */
static pool_block take_spare(ff_cuda_pool *p, int64_t size)
{
    for (int64_t k = p->n_spare; k-- > 0;)
        if (p->spare[k].bytes >= size && p->spare[k].bytes <= size + size / 4) {
            pool_block b = p->spare[k];
            p->spare[k] = p->spare[--p->n_spare];
            if (b.kind != p->kind) {
                ff_cuda_pool_count(p, b.kind, -b.bytes);
                ff_cuda_pool_count(p, p->kind, b.bytes);
                b.kind = p->kind;
            }
            return b;
        }
    return {NULL, 0, FF_CUDA_OTHER};
}

static ff_status new_block(ff_cuda_pool *p, int64_t size, pool_block *out)
{
    ff_status st = FF_OK;
    int64_t used = ff_cuda_pool_used(p), budget = p->count->budget;
    void *block = NULL;
    if (budget > 0 && used + size > budget)
        return ff_fail(FF_E_MEM,
                       "device memory: %.1f MiB asked for with %.1f MiB in use, budget %.1f MiB; use more "
                       "ranks or a larger budget",
                       mib(size), mib(used), mib(budget));
    cudaError_t e = cudaMallocFromPoolAsync(&block, (size_t)size, p->memory, p->stream);
    if (e == cudaErrorMemoryAllocation) {
        (void)cudaGetLastError(); /* not sticky: the process goes on */
        return ff_fail(FF_E_MEM, "device memory: %.1f MiB asked for with %.1f MiB in use: %s", mib(size),
                       mib(used), cudaGetErrorString(e));
    }
    FF_CU(e);
    ff_cuda_pool_count(p, p->kind, size);
    *out = {block, size, p->kind};
done:
    return st;
}

ff_status ff_cuda_alloc(ff_cuda_pool *p, size_t bytes, void *out)
{
    int64_t size = ((int64_t)bytes + 511) / 256 * 256;
    *(void **)out = NULL;
    FF_TRY(ff_mem_reserve(&p->block, &p->cap, p->n + 1, sizeof *p->block));
    pool_block b = take_spare(p, size);
    if (b.p == NULL) {
        ff_status st = new_block(p, size, &b);
        if (st != FF_OK && p->n_spare > 0) {
            drop_spares(p);
            st = new_block(p, size, &b);
        }
        FF_TRY(st);
    }
    p->block[p->n++] = b;
    *(void **)out = b.p;
    return FF_OK;
}

void ff_cuda_free(ff_cuda_pool *p, const void *block)
{
    for (int64_t k = p->n; block != NULL && k-- > 0;) {
        if (p->block[k].p != block) continue;
        pool_block b = p->block[k];
        p->block[k] = p->block[--p->n];
        if (p->own != NULL &&
            ff_mem_reserve(&p->spare, &p->cap_spare, p->n_spare + 1, sizeof *p->spare) == FF_OK) {
            p->spare[p->n_spare++] = b;
            return;
        }
        give_back(p, &b);
        return;
    }
}

/* Room in pinned memory until the next wait; NULL: there is none. */
static char *pinned_room(ff_cuda_pool *p, size_t bytes)
{
    size_t at = (p->pinned_used + 255) / 256 * 256;
    if (p->pinned == NULL || at + bytes > PINNED_BYTES) return NULL;
    p->pinned_used = at + bytes;
    return p->pinned + at;
}

ff_status ff_cuda_put(ff_cuda_pool *p, void *d, const void *host, size_t bytes)
{
    ff_status st = FF_OK;
    char *pinned = pinned_room(p, bytes);
    if (pinned != NULL && bytes > 0) memcpy(pinned, host, bytes);
    if (bytes > 0)
        FF_CU(cudaMemcpyAsync(d, pinned != NULL ? pinned : host, bytes, cudaMemcpyHostToDevice, p->stream));
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
    char *pinned = p->n_copies < MAX_COPIES ? pinned_room(p, bytes) : NULL;
    if (pinned != NULL) p->copy[p->n_copies++] = {host, pinned, bytes};
    if (bytes > 0)
        FF_CU(cudaMemcpyAsync(pinned != NULL ? pinned : host, d, bytes, cudaMemcpyDeviceToHost, p->stream));
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
    for (int k = 0; k < p->n_copies; k++) memcpy(p->copy[k].to, p->copy[k].from, p->copy[k].bytes);
done:
    p->n_copies = 0;
    p->pinned_used = 0;
    return st;
}

ff_cuda_kind ff_cuda_pool_kind(ff_cuda_pool *pool, ff_cuda_kind kind)
{
    ff_cuda_kind before = pool->kind;
    pool->kind = kind;
    return before;
}

void ff_cuda_pool_peaks(ff_cuda_pool *pool, ff_cuda_peaks *p)
{
    (void)pthread_mutex_lock(&pool->count->lock);
    *p = pool->count->peak;
    (void)pthread_mutex_unlock(&pool->count->lock);
}

void ff_cuda_pool_set_budget(ff_cuda_pool *pool, int64_t bytes)
{
    pool->count->budget = bytes;
}

int64_t ff_cuda_pool_used(const ff_cuda_pool *pool)
{
    (void)pthread_mutex_lock(&pool->count->lock);
    int64_t used = pool->count->used;
    (void)pthread_mutex_unlock(&pool->count->lock);
    return used;
}

int64_t ff_cuda_pool_peak(const ff_cuda_pool *pool)
{
    (void)pthread_mutex_lock(&pool->count->lock);
    int64_t peak = pool->count->peak.all;
    (void)pthread_mutex_unlock(&pool->count->lock);
    return peak;
}

int64_t ff_cuda_pool_blocks(const ff_cuda_pool *pool)
{
    return pool->n;
}
