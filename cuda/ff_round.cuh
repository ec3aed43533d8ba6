/* Rounding float32 to the formats of tensor cores: on the host for packed weights, on the device for activations. */
#ifndef FF_ROUND_CUH
#define FF_ROUND_CUH

#include <stdint.h>
#include <string.h>

#ifndef FF_DEV
#define FF_DEV static __device__ __forceinline__
#endif

/* Host: to nearest, ties to even. */
static inline uint16_t to_bf16(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    if ((u & 0x7fffffff) > 0x7f800000) return (uint16_t)(u >> 16 | 0x40); /* NaN stays NaN */
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

/* Host: to nearest, ties away from zero, as cvt.rna. */
static inline uint32_t to_tf32(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return (u & 0x7f800000) == 0x7f800000 ? u : (u + 0x1000) & 0xffffe000u;
}

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
