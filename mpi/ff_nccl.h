/* NCCL between the GPUs of a communicator's ranks: grouped sends and receives of device buffers. The library is opened at
 * run time (libnccl.so.2), so that a program built here starts where there is none. */
#ifndef FF_NCCL_H
#define FF_NCCL_H

#include "ff_comm.h"
#include "ff_resident.h"

typedef struct ff_nccl ff_nccl;

/* "2.28.3", or NULL with *why set where the library is missing or lacks a function. Local */
const char *ff_nccl_version(const char **why);

/* One NCCL rank for each rank of comm, on the CUDA device current on each; every rank needs a GPU of its own, or in NCCL's
 * eyes a host of its own (NCCL_HOSTID). Calls do not block (NCCL's nonblocking communicators), so that every wait has a deadline.
 *   deadline_s  how long an exchange may last, and the set-up where it is more than a minute; 0: for ever
 * Errors: FF_E_UNSUPPORTED no library; FF_E_COMM NCCL's own message, the deadline is over.                Collective */
ff_status ff_nccl_create(ff_comm *comm, double deadline_s, ff_nccl **out);
void ff_nccl_destroy(ff_nccl **n); /* NULL inside is fine */

/* The row for evaluations (ff_pair_backend.device_comm), valid as long as n. A failure gives the NCCL communicator up,
 * and from then on agreements of comm last FF_NCCL_GRACE_S at most: ranks that cannot come must not hold the others. */
enum { FF_NCCL_GRACE_S = 3 }; /* with the deadline of 25 s and the end of all processes: below 30 s */
const ff_device_comm *ff_nccl_row(const ff_nccl *n);

void ff_nccl_set_deadline(ff_nccl *n, double deadline_s);

/* For tests: before the n-th exchange from now (1 = next) this rank sleeps. Local */
void ff_nccl_sleep_before(ff_nccl *n, int64_t exchange, double seconds);

#endif
