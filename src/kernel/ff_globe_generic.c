/* GLOBE tiles in float32 for any processor: vectors of 4, no fused multiply-add. */
#include "ff_globe_net.h"

#define FF_T(name) name##_f32
#define real       float
#define FF_W       4
#define R_TINY     0x1p-126f
#define R_FAR      1e18f
#include "ff_vec_plain.h"

#include "ff_vec_math_f32.h"

#include "ff_globe_impl.h"

const ff_globe_isa_row ff_globe_isa_generic = {"generic", globe_records, globe_tile};
