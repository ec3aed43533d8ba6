/* The sum verb and bench sum on one GPU. */
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
        points_s; /* derivatives by densities, by positions; with o.adjoint, one set of points */
} sum_gpu_result;

/* Whether run.backend says cuda. A GPU takes the points of one rank: FF_E_UNSUPPORTED with more. Local */
ff_status sum_gpu_wanted(const ff_app *app, bool *wanted);

/* Sums of m's points and densities into m->value and m->gradient (both allocated by the caller), errors of n_check
 * sampled targets; timed repeat times after one call that warms up, not at all if repeat is 0. Local */
ff_status sum_gpu_run(sum_verb *m, int64_t n_check, int repeat, sum_gpu_result *out);

#endif
