/* A training by lanes on the CPU: the backend is the CPU's tiles forward and the device's text on the host backward. */
#ifndef FF_LANES_CASE_H
#define FF_LANES_CASE_H

#include "ff_adj_backend.h"
#include "ff_tile_backend.h"
#include "ff_train.h"

#include <math.h>
#include <string.h>

enum { STEPS = 3, BATCH = 5, BODIES = 4 };

static const char *const architecture =
    "{\"n_spatial_dims\": 3, \"output_field_ranks\": {\"C_p\": 0, \"U_t\": 1}, "
    "\"boundary_source_data_ranks\": "
    "{\"body\": {}}, \"reference_length_names\": [\"L\"], \"reference_area\": 0.05, \"global_data_ranks\": "
    "{\"U_dir\": 1}, \"n_communication_hyperlayers\": 1, \"n_latent_scalars\": 2, \"n_latent_vectors\": 1, "
    "\"hidden_layer_sizes\": [8], \"n_spherical_harmonics\": 2, \"theta\": 1.0, \"leaf_size\": 4, "
    "\"expand_far_targets\": true}";

static ff_pair_backend table;
static int n_lanes, n_jobs; /* made, in all */

static inline ff_status lane_create(void *impl, ff_pair_backend **out)
{
    (void)impl;
    FF_TRY(FF_NEW(*out, 1));
    **out = table;
    n_lanes++;
    return FF_OK;
}

static inline void lane_destroy(ff_pair_backend **lane)
{
    FF_FREE(*lane);
}

static inline ff_status job_create(void *impl, const ff_pair_lists *lists, ff_pair_job **out)
{
#pragma omp atomic
    n_jobs++;
    return tb_job_create(impl, lists, out);
}

typedef struct outcome {
    ff_model *m;
    ff_train_result r;
    int jobs;
} outcome;

/* out->m to be destroyed, whatever comes back.                                               Collective over comm */
static inline ff_status train(ff_comm *comm, bool lanes, int64_t keep, outcome *out)
{
    int prec = FF_ADJ_F32;
    ff_pair_backend host = ab_backend(&prec);
    table = ff_tile_backend;
    table.impl = &prec;
    table.job_create = job_create;
    table.adjoint = host.adjoint;
    table.lane_create = lanes ? lane_create : NULL;
    table.lane_destroy = lane_destroy;
    ff_train_opts o;
    memset(&o, 0, sizeof o);
    o.train.n = BODIES;
    o.train.splits = 0;
    o.train.fine_every = 2;
    o.train.n_fine = 3;
    o.train.fine_batch = 2;
    o.steps = STEPS;
    o.batch = BATCH;
    o.seed = 3;
    o.keep_bytes = keep;
    o.loss = (ff_loss_opts){.relative = true, .floor = 0.05, .scale = {1, 1}};
    o.schedule = (ff_schedule_opts){.kind = FF_LR_CONSTANT, .lr = 1e-2, .steps = STEPS};
    o.optim = (ff_optim_opts){.muon = true, .clip = 1};
    o.backend = o.adjoint = &table;
    n_lanes = n_jobs = 0;
    FF_TRY(ff_model_random(architecture, 5, &out->m));
    FF_TRY(ff_train_run(comm, out->m, &o, &out->r, NULL));
    out->jobs = n_jobs;
    return FF_OK;
}

static inline bool same(const outcome *a, const outcome *b)
{
    if (!isfinite(a->r.loss) || a->r.loss != b->r.loss) return false;
    for (int i = 0; i < a->m->n_tensors; i++)
        if (memcmp(a->m->tensor[i].value, b->m->tensor[i].value, (size_t)a->m->tensor[i].n * sizeof(float)) !=
            0)
            return false;
    return true;
}

#endif
