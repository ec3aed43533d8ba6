/* Rounding float32 to the formats of tensor cores, on the host (the device's instructions: cuda/ff_round.cuh). */
#ifndef FF_ROUND_H
#define FF_ROUND_H

#include <stdint.h>
#include <string.h>

static inline uint32_t ff_float_bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

/* To nearest, ties to even; NaN stays NaN. */
static inline uint16_t ff_to_bf16(float x)
{
    uint32_t u = ff_float_bits(x);
    if ((u & 0x7fffffff) > 0x7f800000) return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

/* To nearest, ties away from zero, as cvt.rna. */
static inline uint32_t ff_to_tf32(float x)
{
    uint32_t u = ff_float_bits(x);
    return (u & 0x7f800000) == 0x7f800000 ? u : (u + 0x1000) & 0xffffe000u;
}

#endif
