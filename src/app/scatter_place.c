#include "scatter_place.h"

#include "app_backend.h"

#ifdef FF_HAVE_CUDA

#include "ff_cuda_copy.h"

ff_status scatter_place_open(const ff_app *app, scatter_place *p)
{
    int device = -1;
    *p = (scatter_place){.cuda = false};
    FF_TRY(app_gpu_pick(app, &device));
    if (device < 0) return FF_OK;
    FF_TRY(ff_agree(app->comm, ff_cuda_stream_open(device, &p->pool)));
    p->cuda = true;
    p->stream = ff_cuda_pool_stream(p->pool);
    return FF_OK;
}

void scatter_place_close(scatter_place *p)
{
    ff_cuda_stream_close(&p->pool);
}

ff_status scatter_place_put(const scatter_place *p, void *host, size_t bytes, void **out)
{
    *out = host;
    if (!p->cuda || host == NULL) return FF_OK;
    FF_TRY(ff_cuda_alloc(p->pool, bytes, out));
    return ff_cuda_copy_in(p->pool, *out, host, bytes);
}

ff_status scatter_place_get(const scatter_place *p, const void *there, void *host, size_t bytes)
{
    return p->cuda ? ff_cuda_copy_out(p->pool, host, there, bytes) : FF_OK;
}

void scatter_place_drop(const scatter_place *p, void *there)
{
    if (p->cuda) ff_cuda_free(p->pool, there);
}

ff_status scatter_place_csr(const scatter_place *p, const int64_t *dst, int64_t n_edges, int64_t n_nodes,
                            ff_scatter_csr **out)
{
    return p->cuda ? ff_scatter_csr_create_cuda(dst, n_edges, n_nodes, p->stream, out)
                   : ff_scatter_csr_create(dst, n_edges, n_nodes, out);
}

typedef struct copy_call {
    const scatter_place *p;
    void *to, *from;
    size_t bytes;
} copy_call;

static ff_status copy_once(void *ctx)
{
    const copy_call *c = ctx;
    return ff_cuda_copy_on(c->p->pool, c->to, c->from, c->bytes);
}

ff_status scatter_place_copy_time(const scatter_place *p, void *to, void *from, size_t bytes, double *t_s)
{
    copy_call c = {p, to, from, bytes};
    FF_TRY(ff_cuda_time(p->pool, copy_once, &c, 3, t_s)); /* warms up */
    return ff_cuda_time(p->pool, copy_once, &c, 20, t_s);
}

static ff_status time_cuda(const scatter_place *p, ff_status (*call)(void *), void *ctx, int n, double *t_s)
{
    return ff_cuda_time(p->pool, call, ctx, n, t_s);
}

#else

ff_status scatter_place_open(const ff_app *app, scatter_place *p)
{
    int device = -1;
    *p = (scatter_place){.cuda = false};
    return app_gpu_pick(app, &device);
}

void scatter_place_close(scatter_place *p)
{
    (void)p;
}

ff_status scatter_place_put(const scatter_place *p, void *host, size_t bytes, void **out)
{
    (void)p, (void)bytes;
    *out = host;
    return FF_OK;
}

ff_status scatter_place_get(const scatter_place *p, const void *there, void *host, size_t bytes)
{
    (void)p, (void)there, (void)host, (void)bytes;
    return FF_OK;
}

void scatter_place_drop(const scatter_place *p, void *there)
{
    (void)p, (void)there;
}

ff_status scatter_place_csr(const scatter_place *p, const int64_t *dst, int64_t n_edges, int64_t n_nodes,
                            ff_scatter_csr **out)
{
    (void)p;
    return ff_scatter_csr_create(dst, n_edges, n_nodes, out);
}

ff_status scatter_place_copy_time(const scatter_place *p, void *to, void *from, size_t bytes, double *t_s)
{
    (void)p, (void)to, (void)from, (void)bytes, (void)t_s;
    return ff_fail(FF_E_UNSUPPORTED, "scatter: this build has no CUDA");
}

static ff_status time_cuda(const scatter_place *p, ff_status (*call)(void *), void *ctx, int n, double *t_s)
{
    (void)p, (void)call, (void)ctx, (void)n, (void)t_s;
    return ff_fail(FF_E_UNSUPPORTED, "scatter: this build has no CUDA");
}

#endif

const char *scatter_place_name(const scatter_place *p)
{
    return p->cuda ? "cuda" : "cpu";
}

ff_status scatter_place_time(const scatter_place *p, ff_status (*call)(void *ctx), void *ctx, int n,
                             double *t_s)
{
    if (p->cuda) return time_cuda(p, call, ctx, n, t_s);
    double t0 = ff_now_s();
    for (int k = 0; k < n; k++) FF_TRY(call(ctx));
    *t_s = (ff_now_s() - t0) / n;
    return FF_OK;
}
