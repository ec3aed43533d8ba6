/* Sampled targets against direct sums. */
#include "ff_sum_impl.h"

#include "ff_mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 32 }; /* targets at a time */

typedef struct sampled {
    ff_sum *s;
    ff_sum_spec spec;
    int in, out;
    int64_t n;
    double *x, *got, *exact, *error; /* [n][3], [n][out], [n][out], [n] */
    double *q;                       /* [n_own][in] of the first density */
    int n_groups;                    /* of sources */
    int64_t start[(1 << FF_SUM_GROUP_LEVELS) + 1];
} sampled;

static ff_status alloc_all(sampled *k)
{
    FF_TRY(FF_NEW(k->x, 3 * k->n + 1));
    FF_TRY(FF_NEW(k->got, k->n * k->out + 1));
    FF_TRY(FF_NEW0(k->exact, k->n * k->out + 1));
    FF_TRY(FF_NEW(k->error, k->n + 1));
    return FF_NEW(k->q, ff_sum_sources(k->s)->cloud->n_own * k->in + 1);
}

/* Densities of the own sources in the tile's layout. Collective */
static ff_status own_densities(sampled *k, const double *density)
{
    const ff_sum *s = k->s;
    const ff_cloud *c = ff_sum_home(ff_sum_sources(k->s));
    const int n_in = ff_sum_n_in(s), step = n_in * s->o.n_densities;
    double *q = NULL;
    FF_TRY(FF_NEW0_ALL(s->comm, q, c->n_home * k->in + 1));
    for (int64_t i = 0; i < c->n_home; i++)
        for (int a = 0; a < n_in; a++) q[i * k->in + a] = density[i * step + a];
    ff_status st = ff_sum_to_own(ff_sum_sources(k->s), k->in, q, k->q);
    ff_free(q);
    return st;
}

/* Positions and values of the sampled targets, on every rank. Collective */
static ff_status own_targets(sampled *k, const double *value, const double *gradient)
{
    ff_status st = FF_OK;
    const ff_sum *s = k->s;
    const sum_side *to = ff_sum_targets(k->s);
    const ff_cloud *c = ff_sum_home(to);
    const int n_out = ff_sum_n_out(s), dim = s->o.dim, nd = s->o.n_densities;
    double *home = NULL;
    FF_TRY(FF_NEW_ALL(s->comm, home, 3 * c->n_home + 1));
    FF_GO(ff_sum_to_home(to, 3, to->x + 3 * (int64_t)to->let->own_first, home));
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

/* Sums of the own sources, group by group, at targets [first, first + n): part [n][n_groups][out], 0 of other groups. */
static void group_sums(const sampled *k, int64_t first, int64_t n, double *part)
{
    const sum_side *from = ff_sum_sources(k->s);
    const int64_t begin = from->cloud->cut[k->s->comm->rank], end = begin + from->cloud->n_own;
    const double *y = from->x + 3 * (int64_t)from->let->own_first;
    memset(part, 0, (size_t)(n * k->n_groups * k->out) * sizeof *part);
#pragma omp parallel for collapse(2) schedule(dynamic, 1)
    for (int g = 0; g < k->n_groups; g++)
        for (int64_t i = 0; i < n; i++)
            if (k->start[g] < begin || k->start[g] >= end)
                continue;
            else if (k->s->o.exact_within > 0)
                ff_sum_exact_pairs(k->s, &k->spec, k->x + 3 * (first + i),
                                   from->let->own_first + k->start[g] - begin, k->start[g + 1] - k->start[g],
                                   k->q + (k->start[g] - begin) * k->in,
                                   part + (i * k->n_groups + g) * k->out);
            else
                ff_sum_pairs_f64(&k->spec, k->x + 3 * (first + i), k->start[g + 1] - k->start[g],
                                 y + 3 * (k->start[g] - begin), k->q + (k->start[g] - begin) * k->in,
                                 part + (i * k->n_groups + g) * k->out);
}

/* Groups are never cut between ranks and added in order: the same bits on any number of them. Collective */
static ff_status direct(sampled *k)
{
    ff_status st = FF_OK;
    const int64_t row = (int64_t)k->n_groups * k->out;
    double *part = NULL;
    int64_t *bits = NULL;
    FF_GO(FF_NEW_ALL(k->s->comm, part, BATCH * row));
    FF_GO(FF_NEW_ALL(k->s->comm, bits, BATCH * row));
    for (int64_t first = 0; first < k->n; first += BATCH) {
        const int64_t n = k->n - first < BATCH ? k->n - first : BATCH;
        group_sums(k, first, n, part);
        memcpy(bits, part, (size_t)(n * row) * sizeof *bits);
        FF_GO(ff_comm_allreduce(k->s->comm, bits, n * row, FF_SUM_I64)); /* one of each is not 0 */
        memcpy(part, bits, (size_t)(n * row) * sizeof *part);
        for (int64_t i = 0; i < n; i++)
            for (int g = 0; g < k->n_groups; g++)
                for (int a = 0; a < k->out; a++)
                    k->exact[(first + i) * k->out + a] += part[i * row + g * k->out + a];
    }
done:
    ff_free(part);
    ff_free(bits);
    return st;
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
    k.n_groups = ff_sum_group_starts(ff_sum_sources(s)->cloud->n, s->o.leaf_size, k.start);
    *of_value = (ff_sum_error){0, 0, 0, 0};
    if (k.n <= 0) return FF_OK;
    FF_GO(ff_agree(s->comm, alloc_all(&k)));
    FF_GO(own_densities(&k, density));
    FF_GO(own_targets(&k, value, grad ? gradient : NULL));
    FF_GO(direct(&k));
    errors(&k, 0, n_out, k.error, of_value);
    if (grad) errors(&k, n_out, k.out, k.error, of_gradient);
done:;
    void *const owned[] = {k.x, k.got, k.exact, k.error, k.q};
    for (int i = 0; i < 5; i++) ff_free(owned[i]);
    return st;
}
