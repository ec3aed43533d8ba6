/* The sum verb and bench sum on GPUs, one a rank. */
#ifndef SUM_GPU_H
#define SUM_GPU_H

#include "sum_verb.h"

typedef struct sum_gpu_result {
    ff_sum_info info;
    ff_sum_error value, gradient; /* of the sampled targets */
    double l2[2];
    double best_s,
        median_s;   /* whole calls: sort, tree, lists and sums, from device memory to device memory */
    double apply_s; /* the sums alone, of a geometry that is there */
    double adjoint_s,
        points_s;       /* derivatives by densities, by positions; with o.adjoint, one set of points */
    int64_t bytes_sent; /* by all ranks in one whole call */
    double imbalance;   /* largest work of a rank over the mean, by counts of pairs */
    bool cut_again;     /* points were divided again by work */
} sum_gpu_result;

/* Whether run.backend says cuda. Local */
bool sum_gpu_wanted(const ff_app *app);

/* Sums of m's points and densities into m->value and m->gradient (both allocated by the caller), errors of n_check
 * sampled targets; timed repeat times after one call that warms up, not at all if repeat is 0. Times are those of the
 * slowest rank. again (or NULL) sees the result and says whether to sum once more with what it made of m->o, alike on all
 * ranks. Collective */
ff_status sum_gpu_run(sum_verb *m, int64_t n_check, int repeat,
                      bool (*again)(sum_verb *m, const sum_gpu_result *r), sum_gpu_result *out);

#endif
