/* The GPU entry points of the treecode in a build without CUDA. */
#include "farfield_sum.h"

#include "ff_status.h"

static ff_status absent(void)
{
    return ff_fail(
        FF_E_UNSUPPORTED,
        "sum: this library was built without CUDA; build it with -DFF_CUDA=ON, or use ff_sum_create()");
}

ff_status ff_sum_cuda_create(const double *d_targets, int64_t n_targets, const double *d_sources,
                             int64_t n_sources, const ff_sum_opts *opts, void *stream, ff_sum_cuda **out)
{
    (void)d_targets, (void)n_targets, (void)d_sources, (void)n_sources, (void)opts, (void)stream;
    *out = NULL;
    return absent();
}

void ff_sum_cuda_destroy(ff_sum_cuda **s)
{
    *s = NULL;
}

ff_status ff_sum_cuda_apply(ff_sum_cuda *s, const double *d_density, double *d_value, double *d_gradient)
{
    (void)s, (void)d_density, (void)d_value, (void)d_gradient;
    return absent();
}

ff_status ff_sum_cuda_adjoint(ff_sum_cuda *s, const double *d_cot_value, const double *d_cot_gradient,
                              double *d_density)
{
    (void)s, (void)d_cot_value, (void)d_cot_gradient, (void)d_density;
    return absent();
}

ff_status ff_sum_cuda_adjoint_points(ff_sum_cuda *s, const double *d_density, const double *d_cot_value,
                                     double *d_targets, double *d_sources)
{
    (void)s, (void)d_density, (void)d_cot_value, (void)d_targets, (void)d_sources;
    return absent();
}

void ff_sum_cuda_get_info(const ff_sum_cuda *s, ff_sum_info *out)
{
    (void)s;
    *out = (ff_sum_info){0};
}

ff_status ff_sum_cuda_check(ff_sum_cuda *s, const double *d_targets, const double *d_sources,
                            const double *d_density, const double *d_value, const double *d_gradient,
                            int64_t n, ff_sum_error *of_value, ff_sum_error *of_gradient, double l2[2])
{
    (void)s, (void)d_targets, (void)d_sources, (void)d_density, (void)d_value, (void)d_gradient, (void)n;
    (void)of_value, (void)of_gradient, (void)l2;
    return absent();
}
