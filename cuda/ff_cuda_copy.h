/* Moving arrays between host and device, and timing of queued work. */
#ifndef FF_CUDA_COPY_H
#define FF_CUDA_COPY_H

#include "ff_cuda_pool.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Copies bytes on the pool's stream and waits for it.                                                        Local */
ff_status ff_cuda_copy_in(ff_cuda_pool *pool, void *d_to, const void *from, size_t bytes);
ff_status ff_cuda_copy_out(ff_cuda_pool *pool, void *to, const void *d_from, size_t bytes);
/* Queues a copy on the device; does not wait.                                                                Local */
ff_status ff_cuda_copy_on(ff_cuda_pool *pool, void *d_to, const void *d_from, size_t bytes);

/* A stream of its own on a device, which becomes the current one, and a pool on it.                          Local */
ff_status ff_cuda_stream_open(int device, ff_cuda_pool **pool);
void ff_cuda_stream_close(ff_cuda_pool **pool);

/* Seconds of the device for one call: n calls are queued between two events; call(ctx) queues one and does not wait.
 *                                                                                                            Local */
ff_status ff_cuda_time(ff_cuda_pool *pool, ff_status (*call)(void *ctx), void *ctx, int n, double *t_s);

#ifdef __cplusplus
}
#endif
#endif
