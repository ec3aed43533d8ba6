/* Counted device memory of one rank, in stream order (cudaMallocAsync of the device's default pool).
 * Blocks are known by their address, so freeing needs no size. Not thread-safe: one thread a pool. */
#ifndef FF_CUDA_POOL_H
#define FF_CUDA_POOL_H

#include "ff_status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ff_cuda_pool ff_cuda_pool;

/* What blocks are for, so that their peaks can be told apart (ff_device_memory has the same). */
typedef enum ff_cuda_kind {
    FF_CUDA_OTHER,
    FF_CUDA_WEIGHTS, /* networks; gradients */
    FF_CUDA_POINTS,  /* geometry, trees, values of points and nodes */
    FF_CUDA_LISTS,   /* pair lists, and what making them takes */
    FF_CUDA_RECORDS, /* of the sources in work: records, sums */
    FF_CUDA_CHUNK,   /* of the pairs in work */
    FF_CUDA_N_KINDS
} ff_cuda_kind;

/* On the current device. stream: a cudaStream_t, borrowed, on which all blocks are used.                     Local */
ff_status ff_cuda_pool_create(void *stream, ff_cuda_pool **out);
/* One more for another thread and stream: memory of its own, counted and limited with parent's, which outlives it.
 *                                                                                                            Local */
ff_status ff_cuda_pool_create_beside(ff_cuda_pool *parent, void *stream, ff_cuda_pool **out);
/* Frees what is left; NULL inside is fine.                                                                   Local */
void ff_cuda_pool_destroy(ff_cuda_pool **pool);
void *ff_cuda_pool_stream(const ff_cuda_pool *pool);

/* *out (the address of any pointer) gets a block of at least bytes bytes, 256-byte aligned, not NULL for 0 bytes.
 * FF_E_MEM with the sizes named: the device is full or the budget would be exceeded; *out is NULL then.       Local */
ff_status ff_cuda_alloc(ff_cuda_pool *pool, size_t bytes, void *out);
void ff_cuda_free(ff_cuda_pool *pool,
                  const void *block); /* NULL is fine                                      Local */

/* Copies in stream order, of ordinary (not pinned) host memory: put returns when it may be reused. What get brings is
 * there after ff_cuda_wait, until which host must stay.                                                                                  Local */
ff_status ff_cuda_put(ff_cuda_pool *pool, void *d, const void *host, size_t bytes);
/* *out becomes a block with a copy of host; NULL where host is NULL. */
ff_status ff_cuda_new(ff_cuda_pool *pool, const void *host, size_t bytes, void *out);
ff_status ff_cuda_get(ff_cuda_pool *pool, void *host, const void *d, size_t bytes);
ff_status ff_cuda_zero(ff_cuda_pool *pool, void *d, size_t bytes);
ff_status ff_cuda_wait(ff_cuda_pool *pool); /* for the stream; reports what failed on it */

/* Of the blocks asked for from now on; returns the kind before. */
ff_cuda_kind ff_cuda_pool_kind(ff_cuda_pool *pool, ff_cuda_kind kind);
/* Counts memory that is not the pool's; negative: it is gone. */
void ff_cuda_pool_count(ff_cuda_pool *pool, ff_cuda_kind kind, int64_t bytes);

/* Largest sizes so far, of all pools beside it. */
typedef struct ff_cuda_peaks {
    int64_t all, lists;            /* of everything; of lists alone */
    int64_t rest;                  /* of everything but lists */
    int64_t part[FF_CUDA_N_KINDS]; /* what rest was made of then; lists: 0 */
} ff_cuda_peaks;
void ff_cuda_pool_peaks(ff_cuda_pool *pool, ff_cuda_peaks *p);

void ff_cuda_pool_set_budget(ff_cuda_pool *pool, int64_t bytes); /* 0: none */
int64_t ff_cuda_pool_used(const ff_cuda_pool *pool);             /* of all beside it, and so is the peak */
int64_t ff_cuda_pool_peak(const ff_cuda_pool *pool);
int64_t ff_cuda_pool_blocks(const ff_cuda_pool *pool); /* live blocks */

#ifdef __cplusplus
}
#endif
#endif
