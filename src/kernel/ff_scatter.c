/* Checks, choice of path and instruction set, and division of work of the zonal scatter. */
#include "ff_scatter.h"

#include "ff_log.h"

#include <omp.h>
#include <stdatomic.h>
#include <string.h>

/* ---- checks ---- */

static ff_status check_shape(const ff_scatter_csr *csr, const ff_scatter_shape *s)
{
    if (csr == NULL || s == NULL)
        return ff_fail(FF_E_ARG, "scatter: %s is NULL, expected one", csr == NULL ? "csr" : "shape");
    if (s->n_nodes != csr->n_nodes || s->n_edges != csr->n_edges)
        return ff_fail(
            FF_E_ARG,
            "scatter: shape has n_nodes = %lld, n_edges = %lld, expected those of the CSR: %lld, %lld",
            (long long)s->n_nodes, (long long)s->n_edges, (long long)csr->n_nodes, (long long)csr->n_edges);
    if (s->lmax < 1 || s->lmax > FF_SCATTER_LMAX)
        return ff_fail(FF_E_ARG, "scatter: lmax = %d, expected 1 to %d", s->lmax, FF_SCATTER_LMAX);
    /* Offsets of elements stay below 2^62 with this. */
    if (s->n_channels < 1 || s->n_channels > 1 << 24)
        return ff_fail(FF_E_ARG, "scatter: n_channels = %lld, expected 1 to %d", (long long)s->n_channels,
                       1 << 24);
    return FF_OK;
}

ff_status ff_scatter_check(const ff_scatter_csr *csr, const ff_scatter_shape *shape,
                           const ff_scatter_given *in, const void *data, const char *what)
{
    FF_TRY(check_shape(csr, shape));
    if (shape->n_edges > 0 && (in->coupling == NULL || in->radial == NULL))
        return ff_fail(FF_E_ARG, "scatter: %s is NULL, expected values of %lld edges",
                       in->coupling == NULL ? "coupling" : "radial", (long long)shape->n_edges);
    if (shape->n_nodes > 0 && data == NULL)
        return ff_fail(FF_E_ARG, "scatter: %s is NULL, expected [%lld][%d][%lld]", what,
                       (long long)shape->n_nodes, ff_scatter_n_rows(shape->lmax) + 1,
                       (long long)shape->n_channels);
    return FF_OK;
}

ff_status ff_scatter_check_grad(const ff_scatter_given *in, const ff_scatter_given *grad)
{
    const char *what = grad->spin_l1 != NULL && in->spin_l1 == NULL             ? "spin_l1"
                       : grad->gate != NULL && in->gate == NULL                 ? "gate"
                       : grad->inv_sqrt_deg != NULL && in->inv_sqrt_deg == NULL ? "inv_sqrt_deg"
                                                                                : NULL;
    if (what == NULL) return FF_OK;
    return ff_fail(FF_E_ARG,
                   "scatter: gradient of %s is wanted, but the input is NULL; pass the input or no gradient",
                   what);
}

ff_status ff_scatter_take(const char *what, const void *given, void *ours, size_t size)
{
    size_t n;
    if (given == NULL)
        return ff_fail(FF_E_ARG, "scatter: %s is NULL, expected a structure from %s_INIT", what, what);
    memcpy(&n, given, sizeof n);
    if (n <= sizeof n || n > size)
        return ff_fail(
            FF_E_ARG,
            "scatter: %s: size = %zu, expected at most %zu; initialise with %s_INIT of this version", what, n,
            size, what);
    memcpy(ours, given, n);
    return FF_OK;
}

ff_status ff_scatter_choose(ff_scatter_path asked, const int64_t *radial_stride, ff_scatter_path *out)
{
    static atomic_bool said;
    *out = asked;
    if (asked != FF_SCATTER_REFERENCE && asked != FF_SCATTER_FUSED)
        return ff_fail(FF_E_ARG, "scatter: path = %d, expected FF_SCATTER_REFERENCE or FF_SCATTER_FUSED",
                       (int)asked);
    if (asked == FF_SCATTER_FUSED && radial_stride[2] != 1) {
        *out = FF_SCATTER_REFERENCE;
        /* A training loop would say it a million times: once loudly, then at debug level. */
        ff_log(atomic_exchange(&said, true) ? FF_LOG_DEBUG : FF_LOG_WARN,
               "scatter: radial channels are %lld elements apart, expected 1: the reference path is taken "
               "instead of "
               "the fused one; copy the view to avoid this",
               (long long)radial_stride[2]);
    }
    return FF_OK;
}

/* ---- instruction set ---- */

static atomic_int isa_limit = 2;

int ff_scatter_isa(void)
{
    int level = 0;
#if defined(__x86_64__) && defined(__GNUC__)
    if (__builtin_cpu_supports("avx2")) level = 1;
    if (__builtin_cpu_supports("avx512f")) level = 2;
#endif
    int limit = atomic_load_explicit(&isa_limit, memory_order_relaxed);
    return level < limit ? level : limit;
}

int ff_scatter_isa_limit(int level)
{
    atomic_store(&isa_limit, level);
    return ff_scatter_isa();
}

const char *ff_scatter_isa_name(void)
{
    static const char *const name[] = {"baseline", "avx2", "avx512"};
    return name[ff_scatter_isa()];
}

/* ---- division of work ---- */

/* A node costs about as much as NODE_COST edges to write. */
enum { NODE_COST = 8, TASKS_A_THREAD = 8, HEAVY_MIN = 4096 };

static void give(ff_scatter_task task, void *ctx, int64_t n0, int64_t n1, int l0, int l1)
{
    if (n1 == n0) return;
        /* Named one by one: clang 14 crashes on a pointer to a function that a task takes by default. */
#pragma omp task default(none) firstprivate(task, ctx, n0, n1, l0, l1)
    task(ctx, n0, n1, l0, l1);
}

static void give_all(const ff_scatter_csr *csr, int lmax, ff_scatter_task task, void *ctx, int threads)
{
    const int64_t each = (csr->n_edges + NODE_COST * csr->n_nodes) / (TASKS_A_THREAD * threads) + 1;
    const int64_t heavy = each > HEAVY_MIN ? each : HEAVY_MIN;
    int64_t work = 0, n0 = 0;
    for (int64_t n = 0; n < csr->n_nodes; n++) {
        int64_t here = csr->off[n + 1] - csr->off[n] + NODE_COST;
        if (here > heavy) {
            give(task, ctx, n0, n, 1, lmax);
            for (int l = 1; l <= lmax; l++) give(task, ctx, n, n + 1, l, l);
            n0 = n + 1, work = 0;
        } else if ((work += here) >= each) {
            give(task, ctx, n0, n + 1, 1, lmax);
            n0 = n + 1, work = 0;
        }
    }
    give(task, ctx, n0, csr->n_nodes, 1, lmax);
}

void ff_scatter_nodes(const ff_scatter_csr *csr, int lmax, ff_scatter_task task, void *ctx)
{
    int threads = omp_get_max_threads();
    if (threads == 1 || csr->n_edges + NODE_COST * csr->n_nodes < 1024) {
        task(ctx, 0, csr->n_nodes, 1, lmax);
        return;
    }
#pragma omp parallel
#pragma omp single
    give_all(csr, lmax, task, ctx, threads);
}
