/* Functions of float vectors, 1 to 2 ulp, on top of one ff_vec_*.h. The same operations in the same order for
 * every vector width, so that AVX2 and AVX-512 give equal bits. Coefficients: minimax fits of our own,
 * rounded to float one by one with the rest refitted. */
#include <stdint.h>

typedef int32_t vi __attribute__((vector_size(sizeof(int32_t) * FF_W), may_alias));

#define ROUND_MAGIC 0x1.8p23f    /* added, leaves the nearest integer in the low bits of the float */
#define LN2_HI      0x1.62e4p-1f /* 15 bits: k * LN2_HI is exact without fused multiply-add too */
#define LN2_LO      0x1.7f7d1cp-20f

static inline vr v_abs(vr x)
{
    return (vr)((vi)x & 0x7fffffff);
}

/* z sigmoid(z ln 2), z = x log2(e): SiLU(x) log2(e). One exponential of -|z|, one true division; no
 * cancellation: max(z, 0) - |z| s with s = 2^-|z| / (1 + 2^-|z|) <= 1/2. */
static inline vr v_silu2(vr z)
{
    vr a = v_max(v_set1(-100.0f), (vr)((vi)z | INT32_MIN)); /* -|z|; e = 2^-100 adds nothing any more */
    vr t = a + v_set1(ROUND_MAGIC);
    vr r = a - (t - v_set1(ROUND_MAGIC)); /* exact, |r| <= 1/2 */
    vr p = v_fma(v_set1(0x1.5bd98ap-10f), r, v_set1(0x1.3ce8b8p-7f));
    p = v_fma(p, r, v_set1(0x1.c6b6dap-5f));
    p = v_fma(p, r, v_set1(0x1.ebf9c2p-3f));
    p = v_fma(p, r, v_set1(0x1.62e42ap-1f));
    p = v_fma(p, r, v_set1(1.0f));
    vr e = (vr)((vi)p + ((vi)t << 23)); /* 2^n p */
    vr s = e / (v_set1(1.0f) + e);
    return v_fma(a, s, v_max(v_set1(0.0f), z));
}

/* 1 - exp(-x) for x >= 0, relative error of 1 to 2 ulp down to x = 0. */
static inline vr v_em1(vr x)
{
    x = v_min(v_set1(87.0f), x);
    vr t = v_fma(x, v_set1(-0x1.715476p+0f), v_set1(ROUND_MAGIC));
    vr n = t - v_set1(ROUND_MAGIC);
    vr r = v_fma(n, v_set1(-LN2_HI), -x);
    r = v_fma(n, v_set1(-LN2_LO), r);
    vr q = v_fma(v_set1(0x1.6b9caap-10f), r, v_set1(0x1.122560p-7f));
    q = v_fma(q, r, v_set1(0x1.5556f2p-5f));
    q = v_fma(q, r, v_set1(0x1.5554b4p-3f));
    q = v_fma(q, r, v_set1(0x1.fffffep-2f));
    vr p = v_fma(r * r, q, r);               /* expm1(r) */
    vr s = (vr)(((vi)t << 23) + 0x3f800000); /* 2^n */
    return v_fma(-s, p, v_set1(1.0f) - s);
}

/* log(1 + x) for 0 <= x <= 1e37, relative error of 1 to 2 ulp down to x = 0. */
static inline vr v_log1p(vr x)
{
    vr one = v_set1(1.0f), hi = v_max(one, x), lo = v_min(one, x);
    vr u = hi + lo, c = lo - (u - hi); /* u + c = 1 + x exactly */
    vi k = ((vi)u - 0x3f3504f3) >> 23; /* u = 2^k m, m in [sqrt(1/2), sqrt(2)) */
    vr m = (vr)((vi)u - (k << 23));
    vr f = v_fma(c, (vr)(0x3f800000 - (k << 23)), m - one);
    vr q = v_fma(v_set1(-0x1.38dc38p-4f), f, v_set1(0x1.056c20p-3f));
    q = v_fma(q, f, v_set1(-0x1.0d854cp-3f));
    q = v_fma(q, f, v_set1(0x1.22d792p-3f));
    q = v_fma(q, f, v_set1(-0x1.54720cp-3f));
    q = v_fma(q, f, v_set1(0x1.99a028p-3f));
    q = v_fma(q, f, v_set1(-0x1.000228p-2f));
    q = v_fma(q, f, v_set1(0x1.555554p-2f));
    q = v_fma(q, f, v_set1(-0.5f));
    q = v_fma(f * f, q, f); /* log(1 + f) */
    vr kf = (vr) __builtin_convertvector(k, vr);
    return v_fma(kf, v_set1(LN2_HI), v_fma(kf, v_set1(LN2_LO), q));
}

/* S(x) = (1 - exp(-x)) log(1 + x), x >= 0. */
static inline vr v_s(vr x)
{
    x = v_min(v_set1(1e37f), x);
    return v_em1(x) * v_log1p(x);
}

static inline vr v_tanh(vr x)
{
    vr e = v_em1(v_abs(x) * v_set1(2.0f));
    vr y = e / (v_set1(2.0f) - e);
    return (vr)((vi)y | ((vi)x & INT32_MIN));
}
