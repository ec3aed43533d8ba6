/* GLOBE tiles in float32: AVX2 with fused multiply-add, vectors of 8 (compiled with the flags of that set
 * alone; chosen at run time). */
#include "ff_globe_net.h"

#if defined(__AVX2__) && defined(__FMA__)

#define FF_T(name) name##_f32
#define real       float
#define FF_W       8
#define R_TINY     0x1p-126f
#define R_FAR      1e18f
#define R_BIG      1e37f
#include "ff_vec_avx2.h"

#include "ff_vec_math_f32.h"

#include "ff_globe_impl.h"

#include "ff_globe_adjoint_impl.h"

const ff_globe_isa_row ff_globe_isa_avx2 = {"avx2", globe_records, globe_tile, globe_records_adjoint,
                                            globe_tile_adjoint};

#else

const ff_globe_isa_row ff_globe_isa_avx2 = {"avx2", NULL, NULL, NULL, NULL};

#endif
