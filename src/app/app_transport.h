/* How payload moves between ranks on GPUs: run.transport, resolved once. */
#ifndef APP_TRANSPORT_H
#define APP_TRANSPORT_H

#include "ff_status.h"

#include <stdbool.h>
#include <stddef.h>

/* What all ranks know after the device map. */
typedef struct app_gpu_facts {
    int n_ranks;
    int rank_a, rank_b;    /* two ranks on one GPU, or -1 */
    int no_nccl;           /* lowest rank without a usable NCCL, or -1 */
    char why_no_nccl[120]; /* there */
} app_gpu_facts;

/* wanted: auto, nccl or mpi. *nccl: whether NCCL is to be used; why [n] gets what speaks against it, or "" where nothing
 * does or nobody asked (mpi, one rank). Ranks that share a GPU speak against it with auto alone: some NCCL take them, as
 * ranks of several hosts or on request, and what refuses them says so by itself (app_transport_refused).     Local
 * Errors: FF_E_UNSUPPORTED nccl where it cannot be, with the reason. */
ff_status app_transport_choose(const char *wanted, const app_gpu_facts *f, bool *nccl, char *why, size_t n);

/* NCCL, asked for by ranks that share a GPU, could not be started for the reason error: the same with what to do. Local
 * Errors: FF_E_UNSUPPORTED always. */
ff_status app_transport_refused(const app_gpu_facts *f, const char *error);

#endif
