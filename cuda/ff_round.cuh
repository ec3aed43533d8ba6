/* Rounding float32 to the formats of tensor cores: on the host for packed weights (ff_round.h), on the device for
 * activations. */
#ifndef FF_ROUND_CUH
#define FF_ROUND_CUH

#include "ff_round.h"

#ifndef FF_DEV
#define FF_DEV static __device__ __forceinline__
#endif

FF_DEV uint32_t to_bf16x2(float lo, float hi)
{
    uint32_t r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
    return r;
}
FF_DEV uint32_t to_tf32_rn(float x)
{
    uint32_t r;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(x));
    return r;
}

#endif
