#include "sum_gpu.h"

#include "app_backend.h"
#include "ff_sum_tile.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

ff_status sum_gpu_wanted(const ff_app *app, bool *wanted)
{
    *wanted = strcmp(ff_config_string(app->config, "run.backend"), "cuda") == 0;
    if (*wanted && app->comm->size > 1)
        return ff_fail(FF_E_UNSUPPORTED,
                       "run.backend = cuda: sum takes the points of one rank to a GPU, here "
                       "are %d ranks; run one, or --backend cpu",
                       app->comm->size);
    return FF_OK;
}

#ifdef FF_HAVE_CUDA

#include "ff_cuda_copy.h"

/* Arrays on the device, as sum_verb has them on the host. */
typedef struct device {
    sum_verb *m;
    ff_cuda_pool *pool;
    double *x, *xt, *density, *value, *gradient, *back;
    ff_sum_cuda *s;
} device;

static ff_status create(device *d)
{
    sum_verb *m = d->m;
    ff_sum_cuda_destroy(&d->s);
    return ff_sum_cuda_create(d->xt, m->n_t_home, d->x, m->n_home, &m->o, ff_cuda_pool_stream(d->pool),
                              &d->s);
}

static ff_status apply(void *ctx)
{
    device *d = ctx;
    return ff_sum_cuda_apply(d->s, d->density, d->value, d->gradient);
}

static ff_status whole(void *ctx)
{
    FF_TRY(create(ctx));
    return apply(ctx);
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* The values and gradients that are there serve as cotangents; adjoint: derivatives by densities, else by positions. */
static ff_status adjoint(void *ctx)
{
    device *d = ctx;
    const bool stokes = d->m->o.kernel == FF_SUM_STOKESLET;
    return ff_sum_cuda_adjoint(d->s, d->value, stokes ? NULL : d->gradient, d->back);
}

static ff_status by_points(void *ctx)
{
    device *d = ctx;
    return ff_sum_cuda_adjoint_points(d->s, d->density, d->value, NULL, d->back);
}

static ff_status time_adjoint(device *d, sum_gpu_result *r)
{
    const sum_verb *m = d->m;
    FF_TRY(ff_cuda_alloc(d->pool, 3 * (size_t)m->n_home * sizeof(double), &d->back));
    FF_TRY(ff_cuda_time(d->pool, adjoint, d, 1, &r->adjoint_s)); /* warms up */
    FF_TRY(ff_cuda_time(d->pool, adjoint, d, 1, &r->adjoint_s));
    if (m->o.dipole) return FF_OK;
    FF_TRY(ff_cuda_time(d->pool, by_points, d, 1, &r->points_s));
    return ff_cuda_time(d->pool, by_points, d, 1, &r->points_s);
}

static ff_status timed(device *d, int repeat, sum_gpu_result *r)
{
    double *t = NULL, warm = 0;
    ff_status st = FF_NEW(t, repeat);
    if (st == FF_OK) st = ff_cuda_time(d->pool, whole, d, 1, &warm);
    for (int k = 0; k < repeat && st == FF_OK; k++) st = ff_cuda_time(d->pool, whole, d, 1, &t[k]);
    if (st == FF_OK) st = ff_cuda_time(d->pool, apply, d, 1, &r->apply_s);
    if (st == FF_OK && d->m->o.adjoint) st = time_adjoint(d, r);
    if (st == FF_OK) {
        qsort(t, (size_t)repeat, sizeof *t, by_value);
        r->best_s = t[0];
        r->median_s = t[repeat / 2];
    }
    ff_free(t);
    return st;
}

static ff_status run(device *d, int64_t n_check, int repeat, sum_gpu_result *r)
{
    sum_verb *m = d->m;
    const int64_t n_t = m->xt != NULL ? m->n_t_home : m->n_home;
    const int n_in = ff_sum_opts_in(&m->o);
    const int n_out = ff_sum_opts_out(&m->o);
    const size_t row = (size_t)m->o.dim * sizeof(double), bytes = (size_t)(n_t * n_out) * sizeof(double);
    FF_TRY(ff_cuda_new(d->pool, m->x, row * (size_t)m->n_home, &d->x));
    FF_TRY(ff_cuda_new(d->pool, m->xt, row * (size_t)m->n_t_home, &d->xt));
    FF_TRY(ff_cuda_new(d->pool, m->density, (size_t)(m->n_home * n_in) * sizeof(double), &d->density));
    FF_TRY(ff_cuda_alloc(d->pool, bytes, &d->value));
    if (m->o.gradient) FF_TRY(ff_cuda_alloc(d->pool, bytes * (size_t)m->o.dim, &d->gradient));
    if (repeat > 0)
        FF_TRY(timed(d, repeat, r));
    else
        FF_TRY(whole(d));
    ff_sum_cuda_get_info(d->s, &r->info);
    if (n_check > 0)
        FF_TRY(ff_sum_cuda_check(d->s, d->xt, d->x, d->density, d->value, d->gradient, n_check, &r->value,
                                 &r->gradient, r->l2));
    FF_TRY(ff_cuda_copy_out(d->pool, m->value, d->value, bytes));
    return m->o.gradient ? ff_cuda_copy_out(d->pool, m->gradient, d->gradient, bytes * (size_t)m->o.dim)
                         : FF_OK;
}

ff_status sum_gpu_run(sum_verb *m, int64_t n_check, int repeat, sum_gpu_result *out)
{
    device d = {.m = m};
    int gpu = -1;
    *out = (sum_gpu_result){.best_s = 0};
    FF_TRY(app_gpu_pick(m->app, &gpu));
    FF_TRY(ff_cuda_stream_open(gpu, &d.pool));
    ff_status st = run(&d, n_check, repeat, out);
    ff_sum_cuda_destroy(&d.s);
    ff_cuda_stream_close(&d.pool);
    return st;
}

#else

ff_status sum_gpu_run(sum_verb *m, int64_t n_check, int repeat, sum_gpu_result *out)
{
    int gpu = -1;
    (void)n_check, (void)repeat;
    *out = (sum_gpu_result){.best_s = 0};
    return app_gpu_pick(m->app, &gpu); /* says that this build has no CUDA */
}

#endif
