/* The plans of `farfield plan` counted on GPUs: every rank's holds all points and builds all trees; targets are shared. */
#ifndef PLAN_GPU_H
#define PLAN_GPU_H

#include "ff_app.h"
#include "ff_cloud.h"
#include "ff_dtt.h"

typedef struct plan_gpu plan_gpu;

/* Trees of n clouds on this rank's GPU; *out NULL: the CPU counts, by run.backend. Errors as app_gpu_pick; FF_E_MEM.
 *                                                                                                       Collective */
ff_status plan_gpu_open(const ff_app *app, ff_cloud *const *cloud, int n, plan_gpu **out);
/* Counts of cloud i's own points against all of cloud j, equal to those of ff_dtt_count_range.               Local */
ff_status plan_gpu_count(plan_gpu *g, int i, int j, double theta, bool expand_far, ff_dtt_counts *out);
void plan_gpu_close(plan_gpu **g); /* NULL inside is fine */

#endif
