/* The treecode of analytic kernels over ranks: what farfield_sum.h declares, for a communicator. */
#ifndef FF_SUM_H
#define FF_SUM_H

#include "farfield_sum.h"
#include "ff_comm.h"

/* As ff_sum_create; each rank gives its share of the targets and sources (home), in the order of the ranks, and later
 * its share of densities and receives its share of values. The same bits on any number of ranks.      Collective */
ff_status ff_sum_create_dist(ff_comm *comm, const double *targets, int64_t n_targets, const double *sources,
                             int64_t n_sources, const ff_sum_opts *opts, ff_sum **out);

/* The least rtol that a sum of these options accepts; o->rtol itself is not read. Local */
double ff_sum_least_rtol(const ff_sum_opts *o);
/* ff_sum_apply, ff_sum_adjoint, ff_sum_check and ff_sum_get_info are Collective for such a sum; counts of
 * ff_sum_get_info are those of all ranks. */

/* The largest work of a rank (pairs and the like, estimated) over the mean of all. Collective */
ff_status ff_sum_imbalance(const ff_sum *s, double *out);

/* "1/r", "1/r^k", "log", "yukawa", "plummer", "dipole", "stokeslet"; FF_E_ARG lists them. Sets kernel and dipole. */
ff_status ff_sum_kernel_find(const char *name, ff_sum_opts *opts);

#endif
