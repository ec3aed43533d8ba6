#include "app_transport.h"

#include <stdio.h>
#include <string.h>

/* Whether ranks may share a GPU is for NCCL to say where it is asked for. */
static void reason(const app_gpu_facts *f, bool asked, char *why, size_t n)
{
    if (f->rank_a >= 0 && !asked)
        (void)snprintf(why, n, "ranks %d and %d are on one GPU, and NCCL needs a GPU for each rank",
                       f->rank_a, f->rank_b);
    else if (f->no_nccl >= 0)
        (void)snprintf(why, n, "rank %d: %s", f->no_nccl, f->why_no_nccl);
}

ff_status app_transport_choose(const char *wanted, const app_gpu_facts *f, bool *nccl, char *why, size_t n)
{
    *nccl = false;
    why[0] = 0;
    if (f->n_ranks == 1 || strcmp(wanted, "mpi") == 0) return FF_OK;
    const bool asked = strcmp(wanted, "nccl") == 0;
    reason(f, asked, why, n);
    *nccl = why[0] == 0;
    if (!*nccl && asked)
        return ff_fail(FF_E_UNSUPPORTED, "run.transport = nccl: %s; or use --transport mpi", why);
    return FF_OK;
}

ff_status app_transport_refused(const app_gpu_facts *f, const char *error)
{
    char text[512];
    (void)snprintf(text, sizeof text, "%s", error);
    ff_error_clear();
    return ff_fail(
        FF_E_UNSUPPORTED,
        "run.transport = nccl: ranks %d and %d are on one GPU, and NCCL needs a GPU for each rank; or use "
        "--transport mpi (%s)",
        f->rank_a, f->rank_b, text);
}
