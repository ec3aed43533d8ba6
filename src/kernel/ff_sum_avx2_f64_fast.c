/* Tiles of analytic kernels in float64: AVX2. */
#include "ff_sum_isa.h"

#if defined(__AVX2__) && defined(__FMA__)

#define real double
#define FF_REAL_IS_DOUBLE
#define FF_W       4
#define FF_NB      1
#define FF_RSQRT   1
#define TILE(name) name##_f64
typedef ff_sum_args_f64 tile_args;
#include "ff_sum_tile_impl.h"

#include "ff_sum_harm_impl.h"

void ff_sum_avx2_f64(const ff_sum_spec *s, const void *par, const ff_sum_args_f64 *a)
{
    tile_f64(s, par, a);
}

const ff_harm_row *ff_harm_avx2(void)
{
    static const ff_harm_row row = {harm_far_f64, harm_up_f64, harm_down_f64, harm_gather_f64,
                                    harm_spread_f64};
    return &row;
}

#else

void ff_sum_avx2_f64(const ff_sum_spec *s, const void *par, const ff_sum_args_f64 *a)
{
    ff_sum_plain_f64(s, par, a);
}

const ff_harm_row *ff_harm_avx2(void)
{
    return ff_harm_plain();
}

#endif
