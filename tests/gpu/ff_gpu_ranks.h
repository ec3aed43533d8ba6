/* GPUs of the ranks of a test: a GPU each, or one that they share. */
#ifndef FF_GPU_RANKS_H
#define FF_GPU_RANKS_H

#include "ff_cuda.h"
#include "ff_mpi_info.h"
#include "ff_mpi_test.h"
#include "ff_nccl.h"

#include <stdlib.h>

/* NCCL takes ranks with names of hosts of their own for ranks of several hosts, which may have GPUs of one number: they
 * talk through sockets, here of this host alone. Slow, but all of what calls NCCL is run. Before NCCL's first call. */
static inline void ff_gpu_as_hosts(const ff_mt *t)
{
    char name[32];
    (void)snprintf(name, sizeof name, "rank%d", t->rank);
    (void)setenv("NCCL_HOSTID", name, 0);
    (void)setenv("NCCL_NET", "Socket", 0);
    (void)setenv("NCCL_SOCKET_IFNAME", "lo", 0);
    if (t->rank == 0) printf("ranks share a GPU: through NCCL as hosts of their own\n");
}

/* A GPU, and with nccl NCCL and two ranks or more; *device: this rank's. Ranks share a GPU where there are too few. False,
 * on all ranks: nothing can be tested, and a line says why.                                              Collective */
static inline bool ff_gpu_enough(ff_mt *t, bool nccl, int *device)
{
    int local = 0, n_local = 1;
    const char *why = NULL;
    int64_t have = ff_cuda_device_count(), good = 0;
    if (ff_mpi_local_rank(t->world, &local, &n_local) == FF_OK)
        good = have >= (n_local < t->size ? n_local : 1);
    if (nccl) good = good != 0 && t->size > 1 && ff_nccl_version(&why) != NULL;
    if (good == 0)
        printf("skipped: this test needs %s; found %d rank(s), on this one's host %lld GPU(s)%s%s\n",
               nccl ? "two ranks or more, a GPU and NCCL" : "a GPU", t->size, (long long)have,
               why != NULL ? ", " : "", why != NULL ? why : "");
    else if (nccl && have < n_local)
        ff_gpu_as_hosts(t);
    *device = have > 0 ? local % (int)have : 0;
    return ff_comm_allreduce(t->world, &good, 1, FF_MIN_I64) == FF_OK && good != 0;
}

#endif
