#include "sum_gpu.h"

#include "app_backend.h"
#include "ff_sum_tile.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool sum_gpu_wanted(const ff_app *app)
{
    return strcmp(ff_config_string(app->config, "run.backend"), "cuda") == 0;
}

#ifdef FF_HAVE_CUDA

#include "ff_cuda_copy.h"
#include "ff_cuda_sum.h"

/* Arrays on the device, as sum_verb has them on the host. */
typedef struct device {
    sum_verb *m;
    ff_cuda_pool *pool;
    const ff_device_comm *row;
    double *x, *xt, *density, *value, *gradient, *back;
    ff_sum_cuda *s;
} device;

static ff_status create(device *d)
{
    sum_verb *m = d->m;
    ff_sum_cuda_destroy(&d->s);
    return ff_sum_cuda_create_dist(m->app->comm, d->row, m->xt != NULL ? d->xt : NULL, m->n_t_home, d->x,
                                   m->n_home, &m->o, ff_cuda_pool_stream(d->pool), &d->s);
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

/* One call, of the slowest rank. Collective */
static ff_status time_one(device *d, ff_status (*call)(void *ctx), double *t_s)
{
    ff_comm *comm = d->m->app->comm;
    FF_TRY(ff_comm_barrier(comm));
    FF_TRY(ff_agree(comm, ff_cuda_time(d->pool, call, d, 1, t_s)));
    return ff_comm_allreduce(comm, t_s, 1, FF_MAX_F64);
}

static ff_status time_adjoint(device *d, sum_gpu_result *r)
{
    const sum_verb *m = d->m;
    FF_TRY(ff_agree(m->app->comm, ff_cuda_alloc(d->pool, 3 * (size_t)m->n_home * sizeof(double), &d->back)));
    FF_TRY(time_one(d, adjoint, &r->adjoint_s)); /* warms up */
    FF_TRY(time_one(d, adjoint, &r->adjoint_s));
    if (m->o.dipole) return FF_OK;
    FF_TRY(time_one(d, by_points, &r->points_s));
    return time_one(d, by_points, &r->points_s);
}

static ff_status timed(device *d, int repeat, sum_gpu_result *r)
{
    double *t = NULL, warm = 0;
    FF_TRY(FF_NEW_ALL(d->m->app->comm, t, repeat));
    ff_status st = time_one(d, whole, &warm);
    for (int k = 0; k < repeat && st == FF_OK; k++) st = time_one(d, whole, &t[k]);
    if (st == FF_OK) st = time_one(d, apply, &r->apply_s);
    if (st == FF_OK && d->m->o.adjoint) st = time_adjoint(d, r);
    if (st == FF_OK) {
        qsort(t, (size_t)repeat, sizeof *t, by_value);
        r->best_s = t[0];
        r->median_s = t[repeat / 2];
    }
    ff_free(t);
    return st;
}

/* Device arrays of the verb's. Local */
static ff_status arrays(device *d)
{
    sum_verb *m = d->m;
    const int64_t n_t = m->xt != NULL ? m->n_t_home : m->n_home;
    const int n_in = ff_sum_opts_in(&m->o);
    const size_t row = (size_t)m->o.dim * sizeof(double),
                 bytes = (size_t)(n_t * ff_sum_opts_out(&m->o)) * sizeof(double);
    FF_TRY(ff_cuda_new(d->pool, m->x, row * (size_t)m->n_home, &d->x));
    FF_TRY(ff_cuda_new(d->pool, m->xt, row * (size_t)m->n_t_home, &d->xt));
    FF_TRY(ff_cuda_new(d->pool, m->density, (size_t)(m->n_home * n_in) * sizeof(double), &d->density));
    FF_TRY(ff_cuda_alloc(d->pool, bytes, &d->value));
    return m->o.gradient ? ff_cuda_alloc(d->pool, bytes * (size_t)m->o.dim, &d->gradient) : FF_OK;
}

/* Collective */
static ff_status traffic(device *d, sum_gpu_result *r)
{
    ff_sum_cuda_traffic t;
    ff_status st = create(d);
    if (st == FF_OK) st = apply(d);
    FF_TRY(ff_agree(d->m->app->comm, st));
    FF_TRY(ff_sum_cuda_get_traffic(d->s, &t));
    r->bytes_sent = t.bytes_sent;
    r->imbalance = t.imbalance;
    r->cut_again = t.cut_again;
    return ff_comm_allreduce(d->m->app->comm, &r->bytes_sent, 1, FF_SUM_I64);
}

/* Sums, times and errors. Collective */
static ff_status once(device *d, int64_t n_check, int repeat, sum_gpu_result *r)
{
    FF_TRY(traffic(d, r));
    if (repeat > 0) FF_TRY(timed(d, repeat, r));
    ff_sum_cuda_get_info(d->s, &r->info);
    if (n_check == 0) return FF_OK;
    return ff_sum_cuda_check(d->s, d->xt, d->x, d->density, d->value, d->gradient, n_check, &r->value,
                             &r->gradient, r->l2);
}

/* Collective */
static ff_status run(device *d, int64_t n_check, int repeat,
                     bool (*again)(sum_verb *m, const sum_gpu_result *r), sum_gpu_result *r)
{
    sum_verb *m = d->m;
    const int64_t n_t = m->xt != NULL ? m->n_t_home : m->n_home;
    const size_t bytes = (size_t)(n_t * ff_sum_opts_out(&m->o)) * sizeof(double);
    FF_TRY(ff_agree(m->app->comm, arrays(d)));
    do FF_TRY(once(d, n_check, repeat, r));
    while (again != NULL && again(m, r));
    ff_status st = ff_cuda_copy_out(d->pool, m->value, d->value, bytes);
    if (st == FF_OK && m->o.gradient)
        st = ff_cuda_copy_out(d->pool, m->gradient, d->gradient, bytes * (size_t)m->o.dim);
    return ff_agree(m->app->comm, st);
}

ff_status sum_gpu_run(sum_verb *m, int64_t n_check, int repeat,
                      bool (*again)(sum_verb *m, const sum_gpu_result *r), sum_gpu_result *out)
{
    device d = {.m = m};
    int gpu = -1;
    *out = (sum_gpu_result){.best_s = 0};
    FF_TRY(app_gpu_pick(m->app, &gpu));
    ff_status st = ff_agree(m->app->comm, ff_cuda_stream_open(gpu, &d.pool));
    if (st == FF_OK) st = app_gpu_transport(m->app, gpu, &d.row);
    if (st == FF_OK) {
        ff_comm_limit(m->app->comm, ff_config_double(m->app->config, "run.deadline"));
        st = run(&d, n_check, repeat, again, out);
        if (!ff_comm_lost(m->app->comm)) ff_comm_limit(m->app->comm, HUGE_VAL);
    }
    ff_sum_cuda_destroy(&d.s);
    ff_cuda_stream_close(&d.pool);
    return st;
}

#else

ff_status sum_gpu_run(sum_verb *m, int64_t n_check, int repeat,
                      bool (*again)(sum_verb *m, const sum_gpu_result *r), sum_gpu_result *out)
{
    int gpu = -1;
    (void)n_check, (void)repeat, (void)again;
    *out = (sum_gpu_result){.best_s = 0};
    return app_gpu_pick(m->app, &gpu); /* says that this build has no CUDA */
}

#endif
