/* One rank's n-th allocation fails during a distributed gradient: all ranks return FF_E_MEM, none hangs,
 * none leaks. n runs through 1, 2, ..., later in growing steps, until no allocation is left to fail. */
#include "ff_grad.h"
#include "ff_mpi_test.h"
#include "ff_random_case.h"

#include <omp.h>

static const ff_random_shape shape = {
    "{\"n_spatial_dims\": 3, \"output_field_ranks\": {\"p\": 0}, \"boundary_source_data_ranks\": {\"a\": "
    "{\"h\": 0}, "
    "\"b\": {}}, \"reference_length_names\": [\"L\"], \"hidden_layer_sizes\": [8], \"n_latent_scalars\": 1, "
    "\"n_latent_vectors\": 1, \"n_communication_hyperlayers\": 1, \"theta\": 1.5, \"leaf_size\": 2}",
    {150, 40, -1},
    50};

static ff_status run(ff_comm *comm)
{
    ff_random_case rc;
    ff_eval *e = NULL;
    ff_grad *g = NULL;
    double *out = NULL;
    ff_eval_opts opts = FF_EVAL_OPTS_INIT;
    opts.keep = true;
    ff_status st = ff_agree(comm, ff_random_case_make(&shape, 9, comm->rank, comm->size, &rc));
    if (st == FF_OK) st = ff_eval_create(comm, rc.c, &opts, &e);
    if (st == FF_OK) st = ff_agree(comm, FF_NEW(out, ff_eval_n_targets_home(e) + 1));
    if (st == FF_OK) st = ff_eval_run(e, out);
    if (st == FF_OK) st = ff_grad_create(e, FF_GRAD_ALL, &g);
    if (st == FF_OK) st = ff_grad_run(g, out); /* cotangent out: the loss is half its square */
    ff_grad_destroy(&g);
    ff_eval_destroy(&e);
    ff_random_case_free(&rc);
    ff_free(out);
    return st;
}

static void a_rank_without_memory_stops_all(void **state)
{
    ff_mt *t = *state;
    size_t before = ff_mem_blocks();
    int64_t n = 1, runs = 0;
    omp_set_num_threads(1);
    FF_EXPECT_OK(t, run(t->world));
    for (bool more = true; more && ff_mt_good(t); n += 1 + n / 12, runs++) {
        ff_error_clear();
        ff_mem_fail_at(t->rank == t->size - 1 ? n : 0);
        ff_status st = run(t->world);
        int64_t hit = ff_mem_fault_hit();
        ff_mem_fail_at(0);
        FF_EXPECT_OK(t, ff_comm_allreduce(t->world, &hit, 1, FF_MAX_I64));
        FF_EXPECT(t, st == (hit ? FF_E_MEM : FF_OK), "allocation %lld: status %d: %s", (long long)n, (int)st,
                  ff_error_text());
        FF_EXPECT(t, ff_mem_blocks() == before, "allocation %lld: %zu blocks, expected %zu", (long long)n,
                  ff_mem_blocks(), before);
        more = hit != 0;
    }
    printf("%lld runs, up to allocation %lld\n", (long long)runs, (long long)n);
    ff_mt_verdict(t);
}

static const struct CMUnitTest tests[] = {FF_MT(a_rank_without_memory_stops_all)};
FF_MT_MAIN(tests)
