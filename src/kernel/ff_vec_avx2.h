/* Vectors of 8 floats: AVX2 with fused multiply-add. Interface and convention: ff_vec_plain.h. */
#include "ff_vec_bundle.h"

#include <immintrin.h>

typedef __m256 vr;

enum { FF_J = 4, FF_V = 3 }; /* 12 accumulators, 3 inputs, 1 weight: all 16 registers */

static inline vr v_set1(real x)
{
    return _mm256_set1_ps(x);
}
static inline vr v_load(const real *p)
{
    return _mm256_loadu_ps(p);
}
static inline void v_store(real *p, vr x)
{
    _mm256_storeu_ps(p, x);
}
static inline vr v_fma(vr a, vr b, vr c)
{
    return _mm256_fmadd_ps(a, b, c);
}
static inline vr v_max(vr bound, vr x)
{
    return _mm256_max_ps(bound, x);
}
static inline vr v_min(vr bound, vr x)
{
    return _mm256_min_ps(bound, x);
}
static inline vr v_sqrt(vr x)
{
    return _mm256_sqrt_ps(x);
}

INLINE void v_transpose(vr t[8])
{
    vr a[8], b[8];
    UNROLL for (int i = 0; i < 4; i++)
    { /* pairs of rows interleaved */
        a[2 * i] = _mm256_unpacklo_ps(t[2 * i], t[2 * i + 1]);
        a[2 * i + 1] = _mm256_unpackhi_ps(t[2 * i], t[2 * i + 1]);
    }
    UNROLL for (int i = 0; i < 2; i++)
    { /* 4 x 4 blocks done within each half register */
        b[4 * i] = _mm256_shuffle_ps(a[4 * i], a[4 * i + 2], 0x44);
        b[4 * i + 1] = _mm256_shuffle_ps(a[4 * i], a[4 * i + 2], 0xee);
        b[4 * i + 2] = _mm256_shuffle_ps(a[4 * i + 1], a[4 * i + 3], 0x44);
        b[4 * i + 3] = _mm256_shuffle_ps(a[4 * i + 1], a[4 * i + 3], 0xee);
    }
    UNROLL for (int i = 0; i < 4; i++)
    { /* halves exchanged */
        t[i] = _mm256_permute2f128_ps(b[i], b[i + 4], 0x20);
        t[i + 4] = _mm256_permute2f128_ps(b[i], b[i + 4], 0x31);
    }
}
