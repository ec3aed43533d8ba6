/* Which backend a run uses, resolved once: run.backend, run.precision, and the GPUs that are there. */
#ifndef APP_BACKEND_H
#define APP_BACKEND_H

#include "ff_app.h"
#include "ff_pair_backend.h"

/* Sets app->backend, NULL for the CPU, and app->nccl, NULL where payload goes through MPI. auto: a GPU if there is one and
 * the precision is not f64, else the CPU; lines say what was chosen, with the GPU of each rank and the transport.
 * Errors: FF_E_UNSUPPORTED cuda without a GPU or without CUDA in the build, tf32 and bf16 on the CPU, run.transport =
 * nccl where it cannot be.                                                                           Collective */
ff_status app_backend_create(ff_app *app);
void app_backend_destroy(ff_app *app);

/* This rank's GPU by run.backend alone, for what evaluates in any precision; -1: the CPU. auto: a GPU where every rank
 * sees one. Errors: FF_E_UNSUPPORTED cuda without a GPU or without CUDA in the build.                  Collective */
ff_status app_gpu_pick(const ff_app *app, int *device);

/* Several ranks with a GPU each, app_gpu_pick's and the current device: how payload goes between them, by run.transport
 * (app->nccl is set where it is NCCL); *row NULL: through the host. app_backend_create may have done it.  Collective */
ff_status app_gpu_transport(ff_app *app, int device, const struct ff_device_comm **row);

#endif
