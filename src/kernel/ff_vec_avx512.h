/* Vectors of 16 floats: AVX-512. Interface and convention: ff_vec_plain.h. */
#include "ff_vec_bundle.h"

#include <immintrin.h>

typedef __m512 vr;

enum { FF_J = 8, FF_V = 3 }; /* 24 accumulators, 3 inputs, 1 weight of 32 registers */

static inline vr v_set1(real x)
{
    return _mm512_set1_ps(x);
}
static inline vr v_load(const real *p)
{
    return _mm512_loadu_ps(p);
}
static inline void v_store(real *p, vr x)
{
    _mm512_storeu_ps(p, x);
}
static inline vr v_fma(vr a, vr b, vr c)
{
    return _mm512_fmadd_ps(a, b, c);
}
static inline vr v_max(vr bound, vr x)
{
    return _mm512_max_ps(bound, x);
}
static inline vr v_min(vr bound, vr x)
{
    return _mm512_min_ps(bound, x);
}
static inline vr v_sqrt(vr x)
{
    return _mm512_sqrt_ps(x);
}

INLINE void v_transpose(vr t[16])
{
    vr a[16], b[16];
    UNROLL for (int i = 0; i < 8; i++)
    { /* pairs of rows interleaved */
        a[2 * i] = _mm512_unpacklo_ps(t[2 * i], t[2 * i + 1]);
        a[2 * i + 1] = _mm512_unpackhi_ps(t[2 * i], t[2 * i + 1]);
    }
    UNROLL for (int i = 0; i < 4; i++)
    { /* 4 x 4 blocks done within each quarter register: b[4 i + c] = column c */
        b[4 * i] = _mm512_shuffle_ps(a[4 * i], a[4 * i + 2], 0x44);
        b[4 * i + 1] = _mm512_shuffle_ps(a[4 * i], a[4 * i + 2], 0xee);
        b[4 * i + 2] = _mm512_shuffle_ps(a[4 * i + 1], a[4 * i + 3], 0x44);
        b[4 * i + 3] = _mm512_shuffle_ps(a[4 * i + 1], a[4 * i + 3], 0xee);
    }
    UNROLL for (int c = 0; c < 4; c++)
    { /* quarters exchanged between the four groups of rows */
        vr lo01 = _mm512_shuffle_f32x4(b[c], b[4 + c], 0x88),
           hi01 = _mm512_shuffle_f32x4(b[c], b[4 + c], 0xdd);
        vr lo23 = _mm512_shuffle_f32x4(b[8 + c], b[12 + c], 0x88);
        vr hi23 = _mm512_shuffle_f32x4(b[8 + c], b[12 + c], 0xdd);
        t[c] = _mm512_shuffle_f32x4(lo01, lo23, 0x88);
        t[8 + c] = _mm512_shuffle_f32x4(lo01, lo23, 0xdd);
        t[4 + c] = _mm512_shuffle_f32x4(hi01, hi23, 0x88);
        t[12 + c] = _mm512_shuffle_f32x4(hi01, hi23, 0xdd);
    }
}
