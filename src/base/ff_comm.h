/* Communication between ranks: one table of operations; the one-rank row ("self") is here, the MPI row in
 * mpi/. Everything above goes through these calls and never knows which row it has. Only operations whose
 * result does not depend on order exist (integer sums, minima, maxima): a floating-point sum over ranks has
 * no place here. All calls are Collective unless marked Local; counts are bytes (size_t) and may exceed 2^31.
 */
#ifndef FF_COMM_H
#define FF_COMM_H

#include "ff_mem.h"

#include <stdbool.h>

typedef enum ff_op {
    FF_SUM_I64,
    FF_MIN_I64,
    FF_MAX_I64,
    FF_MIN_F64,
    FF_MAX_F64,
    FF_MIN_F32,
    FF_MAX_F32
} ff_op;

typedef struct ff_comm ff_comm;
typedef struct ff_request ff_request;

/* One message of a sparse exchange: bytes == 0 is skipped on both sides. */
typedef struct ff_msg {
    int peer;
    void *buf;
    size_t bytes;
} ff_msg;

typedef struct ff_comm_ops {
    const char *name;
    ff_status (*barrier)(ff_comm *);
    ff_status (*bcast)(ff_comm *, void *buf, size_t bytes, int root);
    ff_status (*allreduce)(ff_comm *, void *buf, int64_t n, ff_op op);
    ff_status (*allgatherv)(ff_comm *, const void *send, size_t bytes, void *recv, const size_t *recv_bytes);
    ff_status (*alltoallv)(ff_comm *, const void *send, const size_t *send_bytes, void *recv,
                           const size_t *recv_bytes);
    ff_status (*exchange_begin)(ff_comm *, const ff_msg *send, int n_send, const ff_msg *recv, int n_recv,
                                ff_request **);
    ff_status (*exchange_end)(ff_comm *, ff_request **);
    ff_status (*split)(ff_comm *, int colour, ff_comm **out);
    void (*destroy)(ff_comm *);
} ff_comm_ops;

struct ff_comm {
    const ff_comm_ops *ops;
    int rank, size;
    void *impl;            /* of the row */
    double limit_s, met_s; /* met_s: when the limit was set, or the last wait under it ended (ff_now_s) */
    bool lost;
};

ff_comm *ff_comm_self(void); /* one rank; a constant, needs no destroy                               Local */
void ff_comm_destroy(
    ff_comm **comm); /* ff_comm_self() is only forgotten                              Local */
int ff_comm_rank(const ff_comm *comm);
int ff_comm_size(const ff_comm *comm);

ff_status ff_comm_barrier(ff_comm *c);
ff_status ff_comm_bcast(ff_comm *c, void *buf, size_t bytes, int root);
ff_status ff_comm_allreduce(ff_comm *c, void *buf, int64_t n,
                            ff_op op); /* in place, n elements of op's type */
/* bytes from each rank, equal on all; recv [size][bytes]. */
ff_status ff_comm_allgather(ff_comm *c, const void *send, size_t bytes, void *recv);
/* recv_bytes [size] known on all ranks (recv_bytes[rank] == bytes); recv packed in rank order. */
ff_status ff_comm_allgatherv(ff_comm *c, const void *send, size_t bytes, void *recv,
                             const size_t *recv_bytes);
/* send and recv packed in rank order; recv_bytes as given by ff_comm_alltoall_counts. */
ff_status ff_comm_alltoallv(ff_comm *c, const void *send, const size_t *send_bytes, void *recv,
                            const size_t *recv_bytes);
ff_status ff_comm_alltoall_counts(ff_comm *c, const size_t *send_bytes, size_t *recv_bytes); /* [size] each */
/* Nonblocking sparse exchange; both sides know the sizes. Buffers stay untouched until exchange_end. */
ff_status ff_comm_exchange_begin(ff_comm *c, const ff_msg *send, int n_send, const ff_msg *recv, int n_recv,
                                 ff_request **out);
ff_status ff_comm_exchange_end(ff_comm *c, ff_request **req); /* NULL request is fine */

/* The ranks of equal colour (>= 0) as a communicator of their own, in the order they have here; ff_comm_destroy. */
ff_status ff_comm_split(ff_comm *c, int colour, ff_comm **out);

/* From now on an agreement (ff_agree, a barrier, small reductions and broadcasts), a gathering of less than 1 GiB or an
 * exchange that takes longer fails with FF_E_COMM, and the communicator is lost: every later call on it fails at once, and
 * its process should end, with all others, by the launcher's help. Another rank may also be late by as long as this one
 * has worked since they last met: of two that share long work unequally the slower one is not lost. HUGE_VAL: as long as
 * it takes, yet a rank with a limit and one without still meet; all ranks begin with it in one place. 0, the state at
 * first: the library's blocking calls, which never meet those.                                               Local */
void ff_comm_limit(ff_comm *c, double limit_s);
bool ff_comm_lost(const ff_comm *c); /* Local */

/* The same status on all ranks: FF_OK if all are, else code and text of the lowest failing rank. */
ff_status ff_agree(ff_comm *c, ff_status mine);

/* An allocation on all ranks or on none: where one rank's fails, the others' are freed (p becomes NULL). n
 * may differ between ranks. */
#define FF_NEW_ALL(comm, p, n)  ff_new_all((comm), &(p), (size_t)(n), sizeof *(p), false)
#define FF_NEW0_ALL(comm, p, n) ff_new_all((comm), &(p), (size_t)(n), sizeof *(p), true)
ff_status ff_new_all(ff_comm *c, void *p_ptr, size_t n, size_t size, bool zero);

#endif
