/* Tiles of analytic kernels in float32: any processor. */
#include "ff_sum_isa.h"

#define real       float
#define FF_W       4
#define FF_NB      1
#define FF_RSQRT   0
#define TILE(name) name##_f32
typedef ff_sum_args_f32 tile_args;
#include "ff_sum_tile_impl.h"

void ff_sum_plain_f32(const ff_sum_spec *s, const void *par, const ff_sum_args_f32 *a)
{
    tile_f32(s, par, a);
}
