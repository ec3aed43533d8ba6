#include "app_backend.h"

#include <string.h>

#ifdef FF_HAVE_CUDA
#include "ff_cuda.h"
#endif
#ifdef FF_HAVE_MPI
#include "ff_mpi_info.h"
#endif

static bool is(const ff_app *app, const char *key, const char *value)
{
    return strcmp(ff_config_string(app->config, key), value) == 0;
}

#ifdef FF_HAVE_CUDA
/* Work that a GPU does in float64, too. */
static bool any_precision(const ff_app *app)
{
    return strcmp(app->verb->text.name, "bench") == 0 && ff_config_has(app->config, "bench.kind") &&
           is(app, "bench.kind", "scatter");
}
#endif

static bool needs_gpu(const ff_app *app)
{
    return is(app, "run.precision", "tf32") || is(app, "run.precision", "bf16");
}

#ifdef FF_HAVE_CUDA

/* Ranks of one host share its GPUs in turn; sharing: how many ranks a GPU has at most. */
static ff_status pick_device(const ff_app *app, int n_devices, int *device, int *sharing)
{
    int local = 0, n_local = 1;
#ifdef FF_HAVE_MPI
    FF_TRY(ff_mpi_local_rank(app->comm, &local, &n_local));
#else
    (void)app;
#endif
    *device = local % n_devices;
    *sharing = (n_local + n_devices - 1) / n_devices;
    if (n_local > n_devices)
        ff_warn("%d ranks share %d GPUs of this host: one rank a GPU is faster", n_local, n_devices);
    return FF_OK;
}

/* One line a rank, printed by rank 0. */
static ff_status print_map(const ff_app *app, int device)
{
    struct {
        int64_t device;
        char name[120];
    } mine = {device, ""}, *all = NULL;
    FF_TRY(ff_agree(app->comm, ff_cuda_device_name(device, mine.name, sizeof mine.name)));
    FF_TRY(FF_NEW_ALL(app->comm, all, app->comm->size));
    ff_status st = ff_comm_allgather(app->comm, &mine, sizeof mine, all);
    for (int r = 0; r < app->comm->size && st == FF_OK; r++)
        ff_info("rank %d -> GPU %lld: %s", r, (long long)all[r].device, all[r].name);
    ff_free(all);
    return st;
}

static ff_status create_cuda(const ff_app *app, int n_devices, ff_pair_backend **out)
{
    int device = 0, sharing = 1;
    ff_cuda_precision p = is(app, "run.precision", "bf16")   ? FF_CUDA_BF16
                          : is(app, "run.precision", "tf32") ? FF_CUDA_TF32
                                                             : FF_CUDA_F32;
    FF_TRY(ff_agree(app->comm, pick_device(app, n_devices, &device, &sharing)));
    FF_TRY(print_map(app, device));
    FF_TRY(ff_agree(app->comm, ff_cuda_backend_create(device, p, out)));
    int64_t budget = ff_config_int(app->config, "run.gpu_memory");
    if (budget == 0) budget = ff_cuda_backend_budget(*out) / sharing;
    ff_cuda_backend_set_budget(*out, budget);
    return FF_OK;
}

/* The fewest GPUs any rank sees decide, so that all ranks choose alike. */
ff_status app_backend_create(const ff_app *app, ff_pair_backend **out)
{
    *out = NULL;
    if (is(app, "run.backend", "cpu") && !needs_gpu(app)) return FF_OK;
    if (is(app, "run.precision", "f64"))
        return is(app, "run.backend", "cuda") && !any_precision(app)
                   ? ff_fail(FF_E_UNSUPPORTED,
                             "run.precision = f64: the CUDA backend evaluates in f32, tf32 or bf16; "
                             "use --backend cpu")
                   : FF_OK;
    int64_t n = is(app, "run.backend", "cpu") ? 0 : ff_cuda_device_count();
    FF_TRY(ff_comm_allreduce(app->comm, &n, 1, FF_MIN_I64));
    if (n > 0) return create_cuda(app, (int)n, out);
    if (needs_gpu(app))
        return ff_fail(FF_E_UNSUPPORTED, "run.precision = %s: needs a GPU; use f32 or f64",
                       ff_config_string(app->config, "run.precision"));
    if (is(app, "run.backend", "cuda"))
        return ff_fail(FF_E_UNSUPPORTED,
                       "run.backend = cuda: no GPU or no driver was found; use cpu or auto");
    ff_info("no GPU found: the CPU evaluates");
    return FF_OK;
}

void app_backend_destroy(ff_pair_backend **b)
{
    ff_cuda_backend_destroy(b);
}

ff_status app_gpu_pick(const ff_app *app, int *device)
{
    int sharing = 1;
    *device = -1;
    int64_t n = is(app, "run.backend", "cpu") ? 0 : ff_cuda_device_count();
    FF_TRY(ff_comm_allreduce(app->comm, &n, 1, FF_MIN_I64));
    if (n > 0) return ff_agree(app->comm, pick_device(app, (int)n, device, &sharing));
    if (!is(app, "run.backend", "cuda")) return FF_OK;
    return ff_fail(FF_E_UNSUPPORTED, "run.backend = cuda: no GPU or no driver was found; use cpu or auto");
}

#else

ff_status app_backend_create(const ff_app *app, ff_pair_backend **out)
{
    *out = NULL;
    if (is(app, "run.backend", "cuda"))
        return ff_fail(FF_E_UNSUPPORTED,
                       "run.backend = cuda: this build has no CUDA backend; use cpu or auto");
    if (needs_gpu(app))
        return ff_fail(FF_E_UNSUPPORTED,
                       "run.precision = %s: needs the CUDA backend, which this build lacks; use f32 or f64",
                       ff_config_string(app->config, "run.precision"));
    return FF_OK;
}

void app_backend_destroy(ff_pair_backend **b)
{
    *b = NULL;
}

ff_status app_gpu_pick(const ff_app *app, int *device)
{
    *device = -1;
    if (!is(app, "run.backend", "cuda")) return FF_OK;
    return ff_fail(FF_E_UNSUPPORTED, "run.backend = cuda: this build has no CUDA backend; use cpu or auto");
}

#endif
