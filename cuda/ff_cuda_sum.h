/* Sums over the GPUs of several ranks; farfield_sum.h has one. Includes no CUDA header. */
#ifndef FF_CUDA_SUM_H
#define FF_CUDA_SUM_H

#include "farfield_sum.h"
#include "ff_comm.h"
#include "ff_resident.h"

#ifdef __cplusplus
extern "C" {
#endif

/* As ff_sum_cuda_create, of each rank's share of targets and sources: numbers of points count over all ranks, in order of
 * ranks, and targets are NULL on all ranks or on none that has any. All later calls take and leave this rank's shares and
 * are Collective, as is this one; they wait for other ranks, ff_sum_cuda_destroy does not. The same bits as on one GPU.
 *   comm    outlives the sums      device  how payload goes between the GPUs, NULL: through the host by comm
 * Each GPU has arrays of the tree's places and nodes of all ranks; lists, keys and points as given are divided. Errors are
 * the same on all ranks. */
ff_status ff_sum_cuda_create_dist(ff_comm *comm, const ff_device_comm *device, const double *d_targets,
                                  int64_t n_targets, const double *d_sources, int64_t n_sources,
                                  const ff_sum_opts *opts, void *stream, ff_sum_cuda **out);

/* Of several ranks; one: zeros and 1. */
typedef struct ff_sum_cuda_traffic {
    int64_t bytes_sent; /* by this rank since the sums were created */
    double imbalance;   /* largest work of a rank over the mean, by counts of pairs */
    bool cut_again;     /* points were divided again by work */
} ff_sum_cuda_traffic;
ff_status ff_sum_cuda_get_traffic(const ff_sum_cuda *s, ff_sum_cuda_traffic *out); /* Local */

#ifdef __cplusplus
}
#endif
#endif
