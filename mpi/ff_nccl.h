/* NCCL between the GPUs of a communicator's ranks: grouped sends and receives of device buffers. The library is opened at
 * run time (libnccl.so.2), so that a program built here starts where there is none. */
#ifndef FF_NCCL_H
#define FF_NCCL_H

#include "ff_comm.h"

typedef struct ff_nccl ff_nccl;

/* "2.28.3", or NULL with *why set where the library is missing or lacks a function. Local */
const char *ff_nccl_version(const char **why);

/* One NCCL rank for each rank of comm, on the CUDA device current on each; every rank needs a GPU of its own.
 * Errors: FF_E_UNSUPPORTED no library; FF_E_COMM NCCL's own message.                                     Collective */
ff_status ff_nccl_create(ff_comm *comm, ff_nccl **out);
void ff_nccl_destroy(ff_nccl **n);

/* Enqueues one group of messages on a CUDA stream (cudaStream_t): buffers are device memory, messages of no bytes are
 * skipped on both sides, at most one message a peer and direction.           Collective (no rank waits for another here)
 * Errors: FF_E_COMM. */
ff_status ff_nccl_exchange(ff_nccl *n, const ff_msg *send, int n_send, const ff_msg *recv, int n_recv,
                           void *stream);

/* FF_E_COMM if the communicator has failed in the meantime (a lost rank, the network). Local */
ff_status ff_nccl_check(ff_nccl *n);
/* Gives the communicator up without waiting for anybody: kernels in flight end. Local */
void ff_nccl_abort(ff_nccl *n);

#endif
