#include "app_backend.h"

#include <math.h>
#include <string.h>

#ifdef FF_HAVE_CUDA
#include "app_transport.h"
#include "ff_cuda.h"
#include "ff_cuda_device.h"
#endif
#ifdef FF_HAVE_MPI
#include "ff_mpi_info.h"
#include "ff_nccl.h"
#endif

static bool is(const ff_app *app, const char *key, const char *value)
{
    return strcmp(ff_config_string(app->config, key), value) == 0;
}

#ifdef FF_HAVE_CUDA
/* Work that a GPU does in float64, too. */
static bool any_precision(const ff_app *app)
{
    const char *verb = app->verb->text.name;
    if (strcmp(verb, "sum") == 0 || strcmp(verb, "embed") == 0) return true;
    return strcmp(verb, "bench") == 0 && ff_config_has(app->config, "bench.kind") &&
           (is(app, "bench.kind", "scatter") || is(app, "bench.kind", "sum"));
}
#endif

static bool needs_gpu(const ff_app *app)
{
    return is(app, "run.precision", "tf32") || is(app, "run.precision", "bf16");
}

#ifdef FF_HAVE_CUDA

/* Ranks of one host take its GPUs in turn. */
static ff_status pick_device(const ff_app *app, int n_devices, int *device)
{
    int local = 0, n_local = 1;
#ifdef FF_HAVE_MPI
    FF_TRY(ff_mpi_local_rank(app->comm, &local, &n_local));
#else
    (void)app;
    (void)n_local;
#endif
    *device = local % n_devices;
    return FF_OK;
}

typedef struct gpu_row {
    int64_t device, has_nccl;
    char name[120], uuid[16], why[120];
} gpu_row;

static ff_status fill_row(int device, gpu_row *mine)
{
    mine->device = device;
    FF_TRY(ff_cuda_device_name(device, mine->name, sizeof mine->name));
    FF_TRY(ff_cuda_device_uuid(device, mine->uuid));
#ifdef FF_HAVE_MPI
    const char *why = NULL;
    mine->has_nccl = ff_nccl_version(&why) != NULL;
    if (why != NULL) (void)strncpy(mine->why, why, sizeof mine->why - 1);
#else
    (void)strncpy(mine->why, "this build has no MPI, which NCCL is set up through", sizeof mine->why - 1);
#endif
    return FF_OK;
}

static app_gpu_facts facts_of(const gpu_row *all, int n)
{
    app_gpu_facts f = {n, -1, -1, -1, ""};
    for (int b = 0; b < n && f.rank_a < 0; b++)
        for (int a = 0; a < b && f.rank_a < 0; a++)
            if (memcmp(all[a].uuid, all[b].uuid, sizeof all[a].uuid) == 0) f.rank_a = a, f.rank_b = b;
    for (int r = n - 1; r >= 0; r--)
        if (all[r].has_nccl == 0) {
            f.no_nccl = r;
            memcpy(f.why_no_nccl, all[r].why, sizeof f.why_no_nccl);
        }
    return f;
}

/* One line a rank, printed by rank 0. sharing: ranks on this one's GPU. */
static ff_status map_devices(const ff_app *app, int device, app_gpu_facts *facts, int *sharing)
{
    gpu_row mine = {.device = 0}, *all = NULL;
    FF_TRY(ff_agree(app->comm, fill_row(device, &mine)));
    FF_TRY(FF_NEW_ALL(app->comm, all, app->comm->size));
    ff_status st = ff_comm_allgather(app->comm, &mine, sizeof mine, all);
    for (int r = 0; r < app->comm->size && st == FF_OK; r++)
        ff_info("rank %d -> GPU %lld: %s", r, (long long)all[r].device, all[r].name);
    *sharing = 0;
    for (int r = 0; r < app->comm->size && st == FF_OK; r++)
        *sharing += memcmp(all[r].uuid, mine.uuid, sizeof mine.uuid) == 0;
    if (st == FF_OK) *facts = facts_of(all, app->comm->size);
    if (st == FF_OK && facts->rank_a >= 0)
        ff_warn("ranks %d and %d share a GPU: one rank a GPU is faster", facts->rank_a, facts->rank_b);
    ff_free(all);
    return st;
}

/* NCCL between the ranks' GPUs, or none: payload goes through the host then. */
static ff_status set_transport(ff_app *app, const app_gpu_facts *facts)
{
    const char *wanted = ff_config_string(app->config, "run.transport");
    bool nccl = false;
    char why[200];
    ff_comm_limit(app->comm, HUGE_VAL);
    FF_TRY(app_transport_choose(wanted, facts, &nccl, why, sizeof why));
    if (why[0] != 0) ff_info("transport  MPI through the host: %s", why);
    if (facts->n_ranks > 1 && strcmp(wanted, "mpi") == 0) ff_info("transport  MPI through the host");
#ifdef FF_HAVE_MPI
    if (!nccl) return FF_OK;
    ff_status st = ff_nccl_create(app->comm, ff_config_double(app->config, "run.deadline"), &app->nccl);
    if (st != FF_OK && strcmp(wanted, "auto") == 0 && !ff_comm_lost(app->comm)) {
        ff_info("transport  MPI through the host: %s", ff_error_text());
        ff_error_clear();
        return FF_OK;
    }
    if (st != FF_OK && facts->rank_a >= 0 && !ff_comm_lost(app->comm))
        return app_transport_refused(facts, ff_error_text());
    FF_TRY(st);
    if (app->backend != NULL) app->backend->device_comm = ff_nccl_row(app->nccl);
    ff_info("transport  NCCL %s between the GPUs", ff_nccl_version(&(const char *){NULL}));
#endif
    return FF_OK;
}

static ff_status create_cuda(ff_app *app, int n_devices)
{
    int device = 0, sharing = 1;
    app_gpu_facts facts = {.n_ranks = app->comm->size};
    ff_cuda_precision p = is(app, "run.precision", "bf16")   ? FF_CUDA_BF16
                          : is(app, "run.precision", "tf32") ? FF_CUDA_TF32
                                                             : FF_CUDA_F32;
    FF_TRY(ff_agree(app->comm, pick_device(app, n_devices, &device)));
    FF_TRY(map_devices(app, device, &facts, &sharing));
    FF_TRY(ff_agree(app->comm, ff_cuda_backend_create(device, p, &app->backend)));
    int64_t budget = ff_config_int(app->config, "run.gpu_memory");
    if (budget == 0) budget = ff_cuda_backend_budget(app->backend) / sharing;
    ff_cuda_backend_set_budget(app->backend, budget);
    app->backend->whole_bytes = is(app, "run.gpu_trees", "whole")   ? INT64_MAX
                                : is(app, "run.gpu_trees", "parts") ? 0
                                                                    : budget / 2;
    app->backend->deadline_s = ff_config_double(app->config, "run.deadline");
    return set_transport(app, &facts);
}

/* The fewest GPUs any rank sees decide, so that all ranks choose alike. */
static ff_status create(ff_app *app)
{
    if (is(app, "run.backend", "cpu") && !needs_gpu(app)) return FF_OK;
    if (is(app, "run.precision", "f64"))
        return is(app, "run.backend", "cuda") && !any_precision(app)
                   ? ff_fail(FF_E_UNSUPPORTED,
                             "run.precision = f64: the CUDA backend evaluates in f32, tf32 or bf16; "
                             "use --backend cpu")
                   : FF_OK;
    int64_t n = is(app, "run.backend", "cpu") ? 0 : ff_cuda_device_count();
    FF_TRY(ff_comm_allreduce(app->comm, &n, 1, FF_MIN_I64));
    if (n > 0) return create_cuda(app, (int)n);
    if (needs_gpu(app))
        return ff_fail(FF_E_UNSUPPORTED, "run.precision = %s: needs a GPU; use f32 or f64",
                       ff_config_string(app->config, "run.precision"));
    if (is(app, "run.backend", "cuda"))
        return ff_fail(FF_E_UNSUPPORTED,
                       "run.backend = cuda: no GPU or no driver was found; use cpu or auto");
    ff_info("no GPU found: the CPU evaluates");
    return FF_OK;
}

void app_backend_destroy(ff_app *app)
{
#ifdef FF_HAVE_MPI
    ff_nccl_destroy(&app->nccl);
#endif
    ff_cuda_backend_destroy(&app->backend);
}

ff_status app_gpu_pick(const ff_app *app, int *device)
{
    *device = -1;
    int64_t n = is(app, "run.backend", "cpu") ? 0 : ff_cuda_device_count();
    FF_TRY(ff_comm_allreduce(app->comm, &n, 1, FF_MIN_I64));
    if (n > 0) return ff_agree(app->comm, pick_device(app, (int)n, device));
    if (!is(app, "run.backend", "cuda")) return FF_OK;
    return ff_fail(FF_E_UNSUPPORTED, "run.backend = cuda: no GPU or no driver was found; use cpu or auto");
}

ff_status app_gpu_transport(ff_app *app, int device, const ff_device_comm **row)
{
    app_gpu_facts facts = {.n_ranks = app->comm->size};
    int sharing;
    *row = NULL;
    if (app->comm->size > 1 && app->backend == NULL) {
        FF_TRY(map_devices(app, device, &facts, &sharing));
        FF_TRY(set_transport(app, &facts));
    }
#ifdef FF_HAVE_MPI
    if (app->nccl != NULL) *row = ff_nccl_row(app->nccl);
#endif
    return FF_OK;
}

#else

ff_status app_gpu_transport(ff_app *app, int device, const ff_device_comm **row)
{
    (void)app, (void)device;
    *row = NULL;
    return FF_OK;
}

static ff_status create(ff_app *app)
{
    if (is(app, "run.backend", "cuda"))
        return ff_fail(FF_E_UNSUPPORTED,
                       "run.backend = cuda: this build has no CUDA backend; use cpu or auto");
    if (needs_gpu(app))
        return ff_fail(FF_E_UNSUPPORTED,
                       "run.precision = %s: needs the CUDA backend, which this build lacks; use f32 or f64",
                       ff_config_string(app->config, "run.precision"));
    return FF_OK;
}

void app_backend_destroy(ff_app *app)
{
    app->backend = NULL;
}

ff_status app_gpu_pick(const ff_app *app, int *device)
{
    *device = -1;
    if (!is(app, "run.backend", "cuda")) return FF_OK;
    return ff_fail(FF_E_UNSUPPORTED, "run.backend = cuda: this build has no CUDA backend; use cpu or auto");
}

#endif

ff_status app_backend_create(ff_app *app)
{
    FF_TRY(create(app));
#ifdef FF_HAVE_CUDA
    if (is(app, "run.backend", "cuda") && any_precision(app)) return FF_OK; /* app_gpu_transport */
#endif
    if (app->backend == NULL && is(app, "run.transport", "nccl"))
        return ff_fail(FF_E_UNSUPPORTED,
                       "run.transport = nccl: the CPU evaluates, and NCCL joins GPUs; use mpi or auto");
    return FF_OK;
}
