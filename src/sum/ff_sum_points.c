/* Derivatives with respect to positions. */
#include "ff_sum_impl.h"

#include "ff_mem.h"

#include <math.h>

/* One way: d [n_to][dim] += by [n_to][n_dens][n] times the derivative of the field of in [n_from][n_dens][n]. Kernels are
 * symmetric, so both ways look alike. Collective */
static ff_status one_way(ff_sum *s, bool back, const double *in, const double *by, double *d)
{
    const ff_sum_spec spec = {.kernel = s->o.kernel,
                              .in = s->o.kernel == FF_SUM_STOKESLET ? 0 : 1,
                              .grad = true,
                              .parameter = s->o.parameter};
    const ff_cloud *to = ff_sum_home(back ? ff_sum_sources(s) : ff_sum_targets(s));
    const int out = ff_sum_spec_out(&spec), n = ff_sum_n_out(s), dim = s->o.dim, nd = s->o.n_densities;
    double *u = NULL;
    FF_TRY(FF_NEW_ALL(s->comm, u, to->n_home * nd * out + 1));
    ff_status st = ff_sum_operate(s, back, &spec, in, u);
    for (int64_t i = 0; i < to->n_home && st == FF_OK; i++)
        for (int k = 0; k < nd * n; k++)
            for (int a = 0; a < dim; a++)
                d[i * dim + a] += by[i * nd * n + k] * u[(i * nd + k / n) * out + n + 3 * (k % n) + a];
    ff_free(u);
    return st;
}

static ff_status check_all(const ff_sum *s, const double *v, int64_t n, const char *what)
{
    if (s->o.dipole)
        return ff_fail(FF_E_UNSUPPORTED,
                       "sum: derivatives with respect to positions are not offered for dipoles");
    if (!s->o.adjoint) return ff_fail(FF_E_ARG, "sum: the adjoint is wanted, but opts.adjoint was false");
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(v[i]))
            return ff_fail(FF_E_INPUT, "sum: %s: number %lld is %g, expected a finite one", what,
                           (long long)i, v[i]);
    return FF_OK;
}

ff_status ff_sum_adjoint_points(ff_sum *s, const double *density, const double *cot_value, double *d_targets,
                                double *d_sources)
{
    const int64_t n_s = ff_sum_home(ff_sum_sources(s))->n_home, n_t = ff_sum_home(ff_sum_targets(s))->n_home;
    const int n = ff_sum_n_out(s) * s->o.n_densities, dim = s->o.dim;
    double *const d_t = s->n_side == 2 ? d_targets : d_sources;
    ff_status st = check_all(s, density, n_s * n, "density");
    if (st == FF_OK) st = check_all(s, cot_value, n_t * n, "cotangent of values");
    if (st == FF_OK && (d_t == NULL || d_sources == NULL))
        st = ff_fail(FF_E_ARG, "sum: an array for derivatives with respect to positions is NULL");
    FF_TRY(ff_agree(s->comm, st));
    for (int64_t i = 0; i < n_t * dim; i++) d_t[i] = 0;
    for (int64_t i = 0; i < n_s * dim; i++) d_sources[i] = 0;
    FF_TRY(one_way(s, false, density, cot_value, d_t));
    return one_way(s, true, cot_value, density, d_sources);
}
