/* `bench plan --backend cuda`: trees and plans on the GPU, timed apart. */
#ifndef BENCH_PLAN_CUDA_H
#define BENCH_PLAN_CUDA_H

#include "ff_app.h"
#include "ff_case.h"

/* The communication plans of all boundaries and the prediction plans of the first's centroids, as a layer takes them;
 * the sum of their digests is compared with the CPU's. One rank.                                            Local */
ff_status bench_plan_cuda(ff_app *app, const ff_case *cs);

#endif
