/* One operation: densities of the caller up, to other nodes, down, values back to the caller. */
#include "ff_sum_impl.h"

#include "ff_mem.h"
#include "ff_sums.h"
#include "ff_timer.h"

#include <math.h>
#include <string.h>

enum { PARALLEL_MIN = 1 << 14 };

/* n zeros by all threads: the first touch of expansions costs as much as what is added up in them. */
static ff_status new_zeros(double **v, int64_t n)
{
    enum { PIECE = 1 << 15 };
    FF_TRY(FF_NEW(*v, n));
#pragma omp parallel for schedule(static) if (n > PIECE)
    for (int64_t k = 0; k < n; k += PIECE)
        memset(*v + k, 0, (size_t)(n - k < PIECE ? n - k : PIECE) * sizeof **v);
    return FF_OK;
}

static ff_status job_alloc(sum_job *j)
{
    const int64_t in = j->n_dens * j->n_in, out = j->n_dens * j->n_out, p = j->s->n_proxy;
    j->n_w = j->n_dens * (j->s->harm != NULL ? 1 : j->n_in);
    j->n_a = j->n_dens * (j->s->harm != NULL ? 1 : j->n_out);
    const ff_tree *from = j->from->let->tree, *to = j->to->let->tree;
    FF_TRY(new_zeros(&j->q, from->n_held * in + 1));
    FF_TRY(FF_NEW(j->w, from->n_nodes * (int64_t)j->n_w * p + 1));
    FF_TRY(new_zeros(&j->a, to->n_nodes * (int64_t)j->n_a * p + 1));
    return new_zeros(&j->u, j->to->cloud->n_own * out + 1);
}

static void job_free(sum_job *j)
{
    void *const owned[] = {j->q, j->w, j->a, j->u};
    for (int i = 0; i < 4; i++) ff_free(owned[i]);
}

/* Column block k of rows v [n][n_dens * n_comp] times f[k]. */
static void scale_rows(double *v, int64_t n, int n_dens, int n_comp, const double *f)
{
#pragma omp parallel for schedule(static) if (n > PARALLEL_MIN)
    for (int64_t i = 0; i < n; i++)
        for (int k = 0; k < n_dens; k++)
            for (int c = 0; c < n_comp; c++) v[(i * n_dens + k) * n_comp + c] *= f[k];
}

/* float32 pairs: own rows of each density are brought below 1 by a power of 2, that of all ranks; scale [n_dens] gets what
 * takes the values back. Collective */
static ff_status scale_densities(const sum_job *j, double *scale)
{
    enum { MOST = 1000 }; /* 2^MOST and its inverse are numbers */
    const int64_t n = j->from->cloud->n_own;
    double *q = j->q + (int64_t)j->from->let->own_first * j->n_dens * j->n_in;
    int *e = NULL;
    for (int k = 0; k < j->n_dens; k++) scale[k] = 0;
    for (int64_t i = 0; i < n * j->n_dens * j->n_in; i++) {
        double *most = &scale[i / j->n_in % j->n_dens];
        *most = fabs(q[i]) > *most ? fabs(q[i]) : *most;
    }
    FF_TRY(FF_NEW_ALL(j->s->comm, e, j->n_dens));
    const ff_status st = ff_sums_exponents(j->s->comm, j->n_dens, scale, e);
    for (int k = 0; k < j->n_dens && st == FF_OK; k++)
        scale[k] = ldexp(1, e[k] > MOST ? -MOST : e[k] < -MOST ? MOST : -e[k]);
    if (st == FF_OK) scale_rows(q, n, j->n_dens, j->n_in, scale);
    for (int k = 0; k < j->n_dens; k++) scale[k] = 1 / scale[k];
    ff_free(e);
    return st;
}

ff_status ff_sum_operate(ff_sum *s, bool back, const ff_sum_spec *spec, const double *home_in,
                         double *home_out)
{
    ff_status st = FF_OK;
    ff_let_transfer *t = NULL;
    sum_job j = {.s = s,
                 .from = back ? ff_sum_targets(s) : ff_sum_sources(s),
                 .to = back ? ff_sum_sources(s) : ff_sum_targets(s),
                 .back = back,
                 .plan = back && s->plan_back != NULL ? s->plan_back : s->plan,
                 .spec = *spec,
                 .n_dens = s->o.n_densities,
                 .n_in = ff_sum_spec_in(spec),
                 .n_out = ff_sum_spec_out(spec)};
    const size_t in = (size_t)(j.n_dens * j.n_in), out = (size_t)(j.n_dens * j.n_out);
    const ff_let *let = j.from->let;
    double *scale = NULL;
    j.spec.quick = s->quick;
    ff_phase_begin("upward");
    FF_GO(ff_agree(s->comm, job_alloc(&j)));
    FF_GO(ff_sum_to_own(j.from, (int64_t)in, home_in, j.q + (size_t)let->own_first * in));
    if (s->o.single) FF_GO(FF_NEW_ALL(s->comm, scale, j.n_dens));
    if (s->o.single) FF_GO(scale_densities(&j, scale));
    FF_GO(ff_sum_up(&j));
    FF_GO(ff_let_push_begin(let, (size_t)(j.n_w * s->n_proxy) * sizeof *j.w, j.w, in * sizeof *j.q, j.q, &t));
    FF_GO(ff_let_push_end(&t));
    ff_phase_begin("near and far");
    FF_GO(ff_agree(s->comm, s->o.single ? ff_sum_rows_f32(&j) : ff_sum_rows_f64(&j)));
    ff_phase_begin("downward");
    FF_GO(ff_sum_down(&j));
    if (s->o.single) scale_rows(j.u, j.to->cloud->n_own, j.n_dens, j.n_out, scale);
    FF_GO(ff_sum_to_home(j.to, (int64_t)out, j.u, home_out));
done:
    ff_phase_end();
    ff_free(scale);
    job_free(&j);
    return st;
}
