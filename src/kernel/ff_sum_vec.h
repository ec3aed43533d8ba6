/* Vectors for the tiles of analytic kernels, in the compilers' own vector language. The includer defines real, FF_W
 * (lanes) and FF_RSQRT: 2 AVX-512, 1 AVX2 with an estimate in float32, 0 root and division. What ff_sum_pair.h asks for
 * stands here; exp and log are series in the order of their terms, good to 1 to 2 ulp. */
#include <math.h>
#include <stdint.h>
#include <string.h>
#if FF_RSQRT > 0
#include <immintrin.h>
#endif

#define FF_VEC_F64 (sizeof(real) == 8)

typedef real vr __attribute__((vector_size(sizeof(real) * FF_W)));
#ifdef FF_REAL_IS_DOUBLE
typedef int64_t ff_lane;
#else
typedef int32_t ff_lane;
#endif
typedef ff_lane vi __attribute__((vector_size(sizeof(real) * FF_W)));

#define v_set1(c) ((real)(c) - (vr){0}) /* no instruction but the copy: x - 0 is x, x + 0 is not if x = -0 */

static inline vr v_select(vi mask, vr a, vr b)
{
    return (vr)((mask & (vi)a) | (~mask & (vi)b));
}
static inline vr v_nonzero(vr x, vr y)
{
    return (vr)((vi)y & (vi)(x != (vr){0}));
}

static inline vr v_rsqrt0(vr x)
{
#if FF_RSQRT == 2 && defined(FF_REAL_IS_DOUBLE)
    vr y = _mm512_maskz_rsqrt14_pd(_mm512_cmp_pd_mask(x, (vr){0}, _CMP_NEQ_OQ), x), a = v_set1(0.5) * x;
    y = y * (v_set1(1.5) - a * y * y);
    return y * (v_set1(1.5) - a * y * y);
#elif FF_RSQRT == 2
    vr y = _mm512_maskz_rsqrt14_ps(_mm512_cmp_ps_mask(x, (vr){0}, _CMP_NEQ_OQ), x);
    return y * (v_set1(1.5) - v_set1(0.5) * x * y * y);
#elif FF_RSQRT == 1 && !defined(FF_REAL_IS_DOUBLE)
    vr y = (vr)_mm256_rsqrt_ps(x);
    return v_nonzero(x, y * (v_set1(1.5) - v_set1(0.5) * x * y * y));
#elif FF_RSQRT == 1
    return v_nonzero(x, v_set1(1) / (vr)_mm256_sqrt_pd(x));
#else
    vr y = {0};
    for (int i = 0; i < FF_W; i++) y[i] = x[i] != 0 ? (real)(1 / sqrt((double)x[i])) : 0;
    return y;
#endif
}

/* The same, of 14 bits or better: one Newton step leaves 6e-9. */
static inline vr v_rsqrt0_estimate(vr x)
{
#if FF_RSQRT == 2 && defined(FF_REAL_IS_DOUBLE)
    return _mm512_maskz_rsqrt14_pd(_mm512_cmp_pd_mask(x, (vr){0}, _CMP_NEQ_OQ), x);
#else
    return v_rsqrt0(x);
#endif
}

#ifdef FF_REAL_IS_DOUBLE
#define V_MAGIC     0x1.8p52
#define V_MANTISSA  52
#define V_ONE       INT64_C(0x3ff0000000000000)
#define V_ROOT_HALF INT64_C(0x3fe6a09e667f3bcd)
#define V_EXP_LOW   -708.0
#define V_EXP_HIGH  709.0
#else
#define V_MAGIC     0x1.8p23f
#define V_MANTISSA  23
#define V_ONE       0x3f800000
#define V_ROOT_HALF 0x3f3504f3
#define V_EXP_LOW   -87.0
#define V_EXP_HIGH  88.0
#endif

/* 2^k e^r with |r| <= ln 2 / 2; the series ends below an ulp. Results below the smallest normal number are 0. */
static inline vr v_exp_any(vr x)
{
    static const double inverse[] = {1.0 / 6227020800,
                                     1.0 / 479001600,
                                     1.0 / 39916800,
                                     1.0 / 3628800,
                                     1.0 / 362880,
                                     1.0 / 40320,
                                     1.0 / 5040,
                                     1.0 / 720,
                                     1.0 / 120,
                                     1.0 / 24,
                                     1.0 / 6,
                                     0.5,
                                     1.0,
                                     1.0};
    const int from = FF_VEC_F64 ? 0 : 6;
    vi small = (vi)(x < v_set1(V_EXP_LOW));
    x = v_select((vi)(x > v_set1(V_EXP_HIGH)), v_set1(V_EXP_HIGH), x);
    x = v_select(small, v_set1(V_EXP_LOW), x);
    vr t = x * v_set1(1.4426950408889634) + v_set1(V_MAGIC), k = t - v_set1(V_MAGIC);
    vr r = FF_VEC_F64 ? x - k * v_set1(0x1.62e42fefap-1) : x - k * v_set1(0x1.62e4p-1);
    r = FF_VEC_F64 ? r - k * v_set1(0x1.cf79abc9e3b3ap-40) : r - k * v_set1(0x1.7f7d1cp-20);
    vr p = v_set1(inverse[from]);
    for (int i = from + 1; i < 14; i++) p = p * r + v_set1(inverse[i]);
    return (vr)(~small & (vi)(vr)((vi)p + ((vi)t << V_MANTISSA)));
}

/* x = 2^k m, m in [sqrt(1/2), sqrt(2)): log m = 2 atanh((m - 1) / (m + 1)). */
static inline vr v_log0(vr x)
{
    vi k = ((vi)x - V_ROOT_HALF) >> V_MANTISSA;
    vr m = (vr)((vi)x - (k << V_MANTISSA));
    vr s = (m - v_set1(1)) / (m + v_set1(1)), s2 = s * s;
    const int from = FF_VEC_F64 ? 21 : 9;
    vr p = v_set1(2.0 / from);
    for (int i = from - 2; i >= 3; i -= 2) p = p * s2 + v_set1(2.0 / i);
    vr n = __builtin_convertvector(k, vr);
    vr y = n * v_set1(FF_VEC_F64 ? 0x1.cf79abc9e3b3ap-40 : 0x1.7f7d1cp-20) + s * s2 * p;
    y = n * v_set1(FF_VEC_F64 ? 0x1.62e42fefap-1 : 0x1.62e4p-1) + (y + v_set1(2) * s);
    return v_nonzero(x, y);
}
