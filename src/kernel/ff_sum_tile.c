#include "ff_sum_tile.h"

#include "ff_status.h"
#include "ff_sum_isa.h"

#include <math.h>
#include <stdatomic.h>

/* The reference pair: one lane, the C library's functions. */
typedef double vr;
#define v_set1(c) ((double)(c))
static inline double v_rsqrt0(double x)
{
    return x != 0 ? 1 / sqrt(x) : 0;
}
static inline double v_log0(double x)
{
    return x != 0 ? log(x) : 0;
}
static inline double v_exp_any(double x)
{
    return exp(x);
}
static inline double v_nonzero(double x, double y)
{
    return x != 0 ? y : 0;
}
#include "ff_sum_pair.h"

int ff_sum_spec_in(const ff_sum_spec *s)
{
    if (s->kernel == FF_SUM_STOKESLET) return 3;
    return ((s->in & FF_SUM_CHARGE) != 0 ? 1 : 0) + ((s->in & FF_SUM_DIPOLE) != 0 ? 3 : 0);
}

int ff_sum_spec_out(const ff_sum_spec *s)
{
    if (s->kernel == FF_SUM_STOKESLET) return s->grad ? 12 : 3;
    return s->grad ? 4 : 1;
}

static ff_radial_par parameters(const ff_sum_spec *s)
{
    ff_radial_par p = {
        .power = s->parameter, .kappa = s->parameter, .softening2 = s->parameter * s->parameter};
    for (int k = 1; k <= 16; k++)
        if (s->parameter == k) p.whole_power = k;
    return p;
}

void ff_sum_pairs_f64(const ff_sum_spec *s, const double x[3], int64_t n, const double *y, const double *q,
                      double *out)
{
    const ff_radial_par p = parameters(s);
    const int in = ff_sum_spec_in(s);
    for (int64_t j = 0; j < n; j++) {
        const double dx = x[0] - y[3 * j], dy = x[1] - y[3 * j + 1], dz = x[2] - y[3 * j + 2];
        if (s->kernel == FF_SUM_STOKESLET)
            ff_pair_stokeslet(s->grad, dx, dy, dz, q + j * in, out);
        else
            ff_pair_radial((int)s->kernel, &p, s->in, s->grad, dx, dy, dz, q + j * in, out);
    }
}

void ff_sum_pair_f64(const ff_sum_spec *s, const double d[3], const double *q, double *out)
{
    static const double zero[3] = {0, 0, 0};
    ff_sum_pairs_f64(s, d, 1, zero, q, out);
}

ff_status ff_sum_check_kernel(const ff_sum_opts *o)
{
    const double p = o->parameter;
    if ((unsigned)o->kernel > FF_SUM_STOKESLET)
        return ff_fail(FF_E_ARG, "sum: kernel = %d, expected a constant of ff_sum_kernel", (int)o->kernel);
    if (o->kernel == FF_SUM_POWER && !(p > 0 && p <= 64))
        return ff_fail(FF_E_ARG, "sum: exponent k = %g, expected 0 < k <= 64", p);
    if (o->kernel == FF_SUM_YUKAWA && !(p >= 0 && isfinite(p)))
        return ff_fail(FF_E_ARG, "sum: kappa = %g, expected kappa >= 0", p);
    const double most = o->single ? 1e18 : 1e150; /* of eps and 1 / eps: their squares are numbers too */
    if (o->kernel == FF_SUM_PLUMMER && !(p * most >= 1 && p <= most))
        return ff_fail(FF_E_ARG, "sum: softening = %g, expected softening > 0 (%g to %g)", p, 1 / most, most);
    if (o->dim != 2 && o->dim != 3) return ff_fail(FF_E_ARG, "sum: dim = %d, expected 2 or 3", o->dim);
    if (o->kernel == FF_SUM_LOG && o->dim != 2)
        return ff_fail(FF_E_ARG, "sum: kernel log in %d dimensions, expected 2", o->dim);
    if (o->kernel == FF_SUM_STOKESLET && (o->dim != 3 || o->dipole))
        return ff_fail(FF_E_ARG, "sum: the Stokeslet is for forces in 3 dimensions");
    return FF_OK;
}

static atomic_int isa_limit = 2;

int ff_sum_isa_level(void)
{
    int level = 0;
#if defined(__x86_64__) && defined(__GNUC__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) level = 1;
    if (__builtin_cpu_supports("avx512f")) level = 2;
#endif
    const int limit = atomic_load_explicit(&isa_limit, memory_order_relaxed);
    return level < limit ? level : limit;
}

void ff_sum_isa_limit(int level)
{
    atomic_store(&isa_limit, level);
}

const char *ff_sum_isa(void)
{
    static const char *const name[] = {"plain", "avx2", "avx512"};
    return name[ff_sum_isa_level()];
}

void ff_sum_tile_f64(const ff_sum_spec *s, const ff_sum_args_f64 *a)
{
    static ff_sum_tile_fn_f64 *const row[] = {ff_sum_plain_f64, ff_sum_avx2_f64, ff_sum_avx512_f64};
    const ff_radial_par p = parameters(s);
    row[ff_sum_isa_level()](s, &p, a);
}

void ff_sum_tile_f32(const ff_sum_spec *s, const ff_sum_args_f32 *a)
{
    static ff_sum_tile_fn_f32 *const row[] = {ff_sum_plain_f32, ff_sum_avx2_f32, ff_sum_avx512_f32};
    const ff_radial_par p = parameters(s);
    row[ff_sum_isa_level()](s, &p, a);
}
