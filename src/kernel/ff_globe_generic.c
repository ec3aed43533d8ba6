/* GLOBE tiles in float32 for any processor: vectors of 4, no fused multiply-add. */
#include "ff_globe_net.h"

#define FF_T(name) name##_f32
#define real       float
#define FF_W       4
#define R_TINY     0x1p-126f
#define R_FAR      1e18f
#define R_BIG      1e37f
#include "ff_vec_plain.h"

#include "ff_vec_math_f32.h"

#include "ff_globe_impl.h"

#include "ff_globe_adjoint_impl.h"

const ff_globe_isa_row ff_globe_isa_generic = {"generic", globe_records, globe_tile, globe_records_adjoint,
                                               globe_tile_adjoint};

size_t ff_globe_adjoint_scratch_len_f32(const ff_globe_net_f32 *net)
{
    adjoint_work w;
    return adjoint_rows(net, NULL, &w) * LANES;
}
