/* Tiles of analytic kernels in float32: AVX-512. */
#include "ff_sum_isa.h"

#if defined(__AVX512F__)

#define real       float
#define FF_W       16
#define FF_NB      2
#define FF_RSQRT   2
#define TILE(name) name##_f32
typedef ff_sum_args_f32 tile_args;
#include "ff_sum_tile_impl.h"

void ff_sum_avx512_f32(const ff_sum_spec *s, const void *par, const ff_sum_args_f32 *a)
{
    tile_f32(s, par, a);
}

#else

void ff_sum_avx512_f32(const ff_sum_spec *s, const void *par, const ff_sum_args_f32 *a)
{
    ff_sum_plain_f32(s, par, a);
}

#endif
