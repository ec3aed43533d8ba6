/* Sampled targets against direct sums. */
#include "ff_sum_impl.h"

#include "ff_exact.h"
#include "ff_mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { OUT_MAX = 12 };

typedef struct sampled {
    ff_sum *s;
    ff_sum_spec spec;
    int in, out;
    int64_t n;
    double *x, *got, *exact, *most; /* [n][3], [n][out] each */
    double *q;                      /* [n_own][in] of the first density */
    ff_exact *sum;                  /* [n][out] */
} sampled;

static ff_status alloc_all(sampled *k)
{
    FF_TRY(FF_NEW(k->x, 3 * k->n + 1));
    FF_TRY(FF_NEW(k->got, k->n * k->out + 1));
    FF_TRY(FF_NEW(k->exact, k->n * k->out + 1));
    FF_TRY(FF_NEW0(k->most, k->n * k->out + 1));
    FF_TRY(FF_NEW0(k->sum, k->n * k->out + 1));
    return FF_NEW(k->q, ff_sum_sources(k->s)->cloud->n_own * k->in + 1);
}

/* Densities of the own sources in the tile's layout. Collective */
static ff_status own_densities(sampled *k, const double *density)
{
    const ff_sum *s = k->s;
    const ff_cloud *c = ff_sum_sources(k->s)->cloud;
    const int n_in = ff_sum_n_in(s), step = n_in * s->o.n_densities;
    double *q = NULL;
    FF_TRY(FF_NEW0_ALL(s->comm, q, c->n_home * k->in + 1));
    for (int64_t i = 0; i < c->n_home; i++)
        for (int a = 0; a < n_in; a++) q[i * k->in + a] = density[i * step + a];
    ff_status st = ff_cloud_to_own(c, (size_t)k->in * sizeof *q, q, k->q);
    ff_free(q);
    return st;
}

/* Positions and values of the sampled targets, on every rank. Collective */
static ff_status own_targets(sampled *k, const double *value, const double *gradient)
{
    ff_status st = FF_OK;
    const ff_sum *s = k->s;
    const sum_side *to = ff_sum_targets(k->s);
    const ff_cloud *c = to->cloud;
    const int n_out = ff_sum_n_out(s), dim = s->o.dim, nd = s->o.n_densities;
    double *home = NULL;
    FF_TRY(FF_NEW_ALL(s->comm, home, 3 * c->n_home + 1));
    FF_GO(ff_cloud_to_home(c, 3 * sizeof *home, to->x + 3 * (int64_t)to->let->own_first, home));
    for (int64_t i = 0; i < k->n; i++) {
        const int64_t at = (int64_t)((__int128)i * c->n / k->n) - c->home_begin;
        const bool here = at >= 0 && at < c->n_home;
        for (int d = 0; d < 3; d++) k->x[3 * i + d] = here ? home[3 * at + d] : -HUGE_VAL;
        for (int a = 0; a < k->out; a++) k->got[i * k->out + a] = here && a >= n_out ? 0 : -HUGE_VAL;
        for (int a = 0; a < n_out && here; a++) {
            k->got[i * k->out + a] = value[at * nd * n_out + a];
            for (int d = 0; d < dim && gradient != NULL; d++)
                k->got[i * k->out + n_out + 3 * a + d] = gradient[(at * nd * n_out + a) * dim + d];
        }
    }
    FF_GO(ff_comm_allreduce(s->comm, k->x, 3 * k->n, FF_MAX_F64));
    FF_GO(ff_comm_allreduce(s->comm, k->got, k->n * k->out, FF_MAX_F64));
done:
    ff_free(home);
    return st;
}

/* The terms of target i: their largest magnitude, or (once that is known) their sum. */
static void terms(sampled *k, int64_t i, bool adding)
{
    const sum_side *from = ff_sum_sources(k->s);
    const double *y = from->x + 3 * (int64_t)from->let->own_first;
    for (int64_t j = 0; j < from->cloud->n_own; j++) {
        double d[3], v[OUT_MAX] = {0};
        for (int a = 0; a < 3; a++) d[a] = k->x[3 * i + a] - y[3 * j + a];
        ff_sum_pair_f64(&k->spec, d, k->q + j * k->in, v);
        for (int a = 0; a < k->out; a++) {
            double *most = &k->most[i * k->out + a];
            if (adding)
                ff_exact_add(&k->sum[i * k->out + a], ldexp(v[a], -(int)*most));
            else if (fabs(v[a]) > *most)
                *most = fabs(v[a]);
        }
    }
}

/* Sums as integers of a unit that follows from the largest term: no order, no rank count. Collective */
static ff_status direct(sampled *k)
{
    const int64_t n = k->n * k->out;
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t i = 0; i < k->n; i++) terms(k, i, false);
    FF_TRY(ff_comm_allreduce(k->s->comm, k->most, n, FF_MAX_F64));
    for (int64_t i = 0; i < n; i++) k->most[i] = k->most[i] > 0 ? ilogb(k->most[i]) - 8 : 0;
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t i = 0; i < k->n; i++) terms(k, i, true);
    FF_TRY(ff_exact_allreduce(k->s->comm, k->sum, (int)n));
    for (int64_t i = 0; i < n; i++) k->exact[i] = ldexp(ff_exact_value(&k->sum[i]), (int)k->most[i]);
    return FF_OK;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Components [from, to) of each target as a vector; e [n] is scratch. */
static void errors(const sampled *k, int from, int to, double *e, ff_sum_error *out)
{
    double rms = 0;
    for (int64_t i = 0; i < k->n; i++)
        for (int a = from; a < to; a++) rms += k->exact[i * k->out + a] * k->exact[i * k->out + a];
    rms = sqrt(rms / (double)k->n);
    for (int64_t i = 0; i < k->n; i++) {
        double diff = 0, size = 0;
        for (int a = from; a < to; a++) {
            diff += pow(k->got[i * k->out + a] - k->exact[i * k->out + a], 2);
            size += pow(k->exact[i * k->out + a], 2);
        }
        size = fmax(sqrt(size), rms);
        e[i] = diff > 0 ? sqrt(diff) / size : diff; /* NaN stays */
    }
    qsort(e, (size_t)k->n, sizeof *e, by_value);
    *out = (ff_sum_error){e[k->n / 2], e[k->n * 95 / 100], e[k->n * 99 / 100], e[k->n - 1]};
}

ff_status ff_sum_check(ff_sum *s, const double *density, const double *value, const double *gradient,
                       int64_t n, ff_sum_error *of_value, ff_sum_error *of_gradient)
{
    ff_status st = FF_OK;
    const int n_out = ff_sum_n_out(s);
    const bool grad = gradient != NULL && of_gradient != NULL;
    if (of_gradient != NULL) *of_gradient = (ff_sum_error){0, 0, 0, 0};
    sampled k = {.s = s, .n = n < s->info.n_targets ? n : s->info.n_targets};
    k.spec = (ff_sum_spec){.kernel = s->o.kernel,
                           .in = s->o.kernel == FF_SUM_STOKESLET ? 0
                                 : s->o.dipole                   ? 2
                                                                 : 1,
                           .grad = grad,
                           .parameter = s->o.parameter};
    k.in = ff_sum_spec_in(&k.spec);
    k.out = ff_sum_spec_out(&k.spec);
    *of_value = (ff_sum_error){0, 0, 0, 0};
    if (k.n <= 0) return FF_OK;
    FF_GO(ff_agree(s->comm, alloc_all(&k)));
    FF_GO(own_densities(&k, density));
    FF_GO(own_targets(&k, value, grad ? gradient : NULL));
    FF_GO(direct(&k));
    errors(&k, 0, n_out, k.most, of_value);
    if (grad) errors(&k, n_out, k.out, k.most, of_gradient);
done:;
    void *const owned[] = {k.x, k.got, k.exact, k.most, k.q, k.sum};
    for (int i = 0; i < 6; i++) ff_free(owned[i]);
    return st;
}
