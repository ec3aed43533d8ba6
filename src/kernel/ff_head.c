/* Options, tables and checks of the embedding head. */
#include "ff_head.h"

#include <string.h>

static ff_status out_of_range(const char *what, long long value, long long least, long long most)
{
    return ff_fail(FF_E_ARG, "head: %s = %lld, expected %lld to %lld", what, value, least, most);
}

ff_status ff_head_take(const ff_head_opts *given, ff_head_opts *o)
{
    const ff_head_opts init = FF_HEAD_OPTS_INIT;
    *o = init;
    FF_TRY(ff_head_take_grad("FF_HEAD_OPTS", given, o, sizeof *o));
    if (o->lmax < 1 || o->lmax > FF_SCATTER_LMAX) return out_of_range("lmax", o->lmax, 1, FF_SCATTER_LMAX);
    if (o->n_radial < 1 || o->n_radial > 1024) return out_of_range("n_radial", o->n_radial, 1, 1024);
    if (o->n_hidden < 1 || o->n_hidden > 65536) return out_of_range("n_hidden", o->n_hidden, 1, 65536);
    if (o->n_channels < 1 || o->n_channels > 65536)
        return out_of_range("n_channels", (long long)o->n_channels, 1, 65536);
    if (o->rbf_exponent < 1 || o->rbf_exponent > 64)
        return out_of_range("rbf_exponent", o->rbf_exponent, 1, 64);
    if (o->degree_exponent < 1 || o->degree_exponent > 64)
        return out_of_range("degree_exponent", o->degree_exponent, 1, 64);
    if (!(o->degree_floor >= 0 && o->degree_floor < HUGE_VAL))
        return ff_fail(FF_E_ARG, "head: degree_floor = %g, expected a finite number >= 0", o->degree_floor);
    if (ff_head_n_w1(o) + ff_head_n_w2(o) > 1 << 30)
        return ff_fail(FF_E_ARG, "head: %lld weights, expected at most %d",
                       (long long)(ff_head_n_w1(o) + ff_head_n_w2(o)), 1 << 30);
    return FF_OK;
}

int64_t ff_head_n_w1(const ff_head_opts *o)
{
    return (int64_t)o->n_hidden * o->n_radial;
}

int64_t ff_head_n_w2(const ff_head_opts *o)
{
    return o->lmax * o->n_channels * o->n_hidden;
}

int64_t ff_head_n_out(const ff_head_opts *o)
{
    return (int64_t)(o->lmax + 1) * (o->lmax + 1) * o->n_channels;
}

ff_head_par ff_head_par_of(const ff_head_opts *o, double cutoff)
{
    ff_head_par p = {o->lmax, o->n_radial, o->rbf_exponent, o->degree_exponent, cutoff, {{0}}};
    for (int l = 0; l <= FF_HEAD_LMAX; l++)
        for (int m = 0; m <= l; m++) {
            double ratio = 1; /* (l + m)! / (l - m)! */
            for (int k = l - m + 1; k <= l + m; k++) ratio *= k;
            p.norm[l][m] = m == 0 ? 1 : (m % 2 == 0 ? 1 : -1) * sqrt(2 / ratio);
        }
    return p;
}

int ff_head_exponent(double largest)
{
    return largest > 0 && largest < HUGE_VAL ? ilogb(largest) : 0;
}

double ff_head_largest_f32(const float *x, int64_t n)
{
    double m = 0;
#pragma omp parallel for schedule(static) reduction(max : m) if (n > 1 << 16)
    for (int64_t i = 0; i < n; i++) m = fmax(m, fabs((double)x[i]));
    return m;
}

double ff_head_largest_f64(const double *x, int64_t n)
{
    double m = 0;
#pragma omp parallel for schedule(static) reduction(max : m) if (n > 1 << 16)
    for (int64_t i = 0; i < n; i++) m = fmax(m, fabs(x[i]));
    return m;
}

ff_status ff_head_check(const ff_graph *g, const void *w1, const void *w2, const void *data, const char *what)
{
    if (g == NULL || w1 == NULL || w2 == NULL)
        return ff_fail(FF_E_ARG, "head: %s is NULL, expected one",
                       g == NULL    ? "graph"
                       : w1 == NULL ? "w1"
                                    : "w2");
    if (g->n_nodes > 0 && data == NULL)
        return ff_fail(FF_E_ARG, "head: %s is NULL, expected [%lld][D][C]", what, (long long)g->n_nodes);
    return FF_OK;
}

ff_status ff_head_take_grad(const char *what, const void *given, void *ours, size_t size)
{
    size_t n;
    if (given == NULL)
        return ff_fail(FF_E_ARG, "head: %s is NULL, expected a structure from %s_INIT", what, what);
    memcpy(&n, given, sizeof n);
    if (n <= sizeof n || n > size)
        return ff_fail(FF_E_ARG,
                       "head: %s: size = %zu, expected at most %zu; initialise with %s_INIT of this version",
                       what, n, size, what);
    memcpy(ours, given, n);
    return FF_OK;
}
