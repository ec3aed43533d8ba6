/* Counter-based random numbers (Philox4x32-10 of Random123): a pure function of (seed, stream, index), so
 * results do not depend on ranks, threads or order. */
#ifndef FF_RNG_H
#define FF_RNG_H

#include <Random123/philox.h>
#include <stdint.h>

/* 64 random bits. */
static inline uint64_t ff_rng_u64(uint64_t seed, uint64_t stream, uint64_t index)
{
    philox4x32_ctr_t c = {
        {(uint32_t)index, (uint32_t)(index >> 32), (uint32_t)stream, (uint32_t)(stream >> 32)}};
    philox4x32_key_t k = {{(uint32_t)seed, (uint32_t)(seed >> 32)}};
    philox4x32_ctr_t r = philox4x32(c, k);
    return (uint64_t)r.v[0] << 32 | r.v[1];
}

/* Uniform in [0, 1), 53 bits. */
static inline double ff_rng_uniform(uint64_t seed, uint64_t stream, uint64_t index)
{
    return (double)(ff_rng_u64(seed, stream, index) >> 11) * 0x1.0p-53;
}

#endif
