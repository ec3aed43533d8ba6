/* A rank's samples by several threads, each with a lane of the backend, and samples that keep their pair lists: losses and
 * weights are those of samples one after the other, bit for bit. Also where a body occurs twice in a batch. The backend is
 * the CPU's tiles forward and the device's text on the host backward. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "ff_adj_backend.h"
#include "ff_tile_backend.h"
#include "ff_train.h"

#include <omp.h>

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

static ff_status lane_create(void *impl, ff_pair_backend **out)
{
    (void)impl;
    FF_TRY(FF_NEW(*out, 1));
    **out = table;
    n_lanes++;
    return FF_OK;
}

static void lane_destroy(ff_pair_backend **lane)
{
    FF_FREE(*lane);
}

static ff_status job_create(void *impl, const ff_pair_lists *lists, ff_pair_job **out)
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

static void train(bool lanes, int64_t keep, outcome *out)
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
    assert_int_equal(ff_model_random(architecture, 5, &out->m), FF_OK);
    assert_int_equal(ff_train_run(ff_comm_self(), out->m, &o, &out->r, NULL), FF_OK);
    assert_int_equal(out->r.skipped, 0);
    out->jobs = n_jobs;
}

static void check_same(const outcome *a, const outcome *b)
{
    assert_true(isfinite(a->r.loss) && a->r.loss == b->r.loss);
    for (int i = 0; i < a->m->n_tensors; i++)
        assert_memory_equal(a->m->tensor[i].value, b->m->tensor[i].value,
                            (size_t)a->m->tensor[i].n * sizeof(float));
}

static void lanes_and_kept_lists_change_no_bit(void **state)
{
    outcome alone, lanes, kept;
    (void)state;
    omp_set_num_threads(3);
    train(false, 0, &alone);
    assert_int_equal(n_lanes, 0);
    train(true, 0, &lanes);
    assert_int_equal(n_lanes, 3);
    train(true, INT64_C(1) << 40, &kept);
    check_same(&alone, &lanes);
    check_same(&alone, &kept);
    assert_int_equal(alone.jobs, lanes.jobs); /* 11 samples, two lists each */
    assert_true(kept.jobs < lanes.jobs);
    ff_model_destroy(&alone.m);
    ff_model_destroy(&lanes.m);
    ff_model_destroy(&kept.m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(lanes_and_kept_lists_change_no_bit)};
    printf("seeds 3, 5\n");
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed != 0 || ff_mem_blocks() != 0;
}
