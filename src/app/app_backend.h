/* Which backend a run uses, resolved once: run.backend, run.precision, and the GPUs that are there. */
#ifndef APP_BACKEND_H
#define APP_BACKEND_H

#include "ff_app.h"
#include "ff_pair_backend.h"

/* *out is NULL for the CPU. auto: a GPU if there is one and the precision is not f64, else the CPU; one line says
 * what was chosen, with the GPU of each rank. Owned by the caller.
 * Errors: FF_E_UNSUPPORTED cuda without a GPU or without CUDA in the build, tf32 and bf16 on the CPU.  Collective */
ff_status app_backend_create(const ff_app *app, ff_pair_backend **out);
void app_backend_destroy(ff_pair_backend **b);

/* This rank's GPU by run.backend alone, for what evaluates in any precision; -1: the CPU. auto: a GPU where every rank
 * sees one. Errors: FF_E_UNSUPPORTED cuda without a GPU or without CUDA in the build.                  Collective */
ff_status app_gpu_pick(const ff_app *app, int *device);

#endif
