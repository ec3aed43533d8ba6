/* Functions of float vectors, 1 to 2 ulp, on top of one ff_vec_*.h. The same operations in the same order for
 * every vector width, so that AVX2 and AVX-512 give equal bits. Coefficients: minimax fits of our own, rounded to
 * float one by one with the rest refitted.
 *
 * Every function works on a bundle of n <= BUNDLE vectors in place: a polynomial is one long chain, and three chains
 * written side by side keep the units busy where one would wait in the scheduler (SiLU: 15 to 12 cycles a vector). */
#include <stdint.h>

typedef int32_t vi __attribute__((vector_size(sizeof(int32_t) * FF_W), may_alias));

#define ROUND_MAGIC 0x1.8p23f    /* added, leaves the nearest integer in the low bits of the float */
#define LN2_HI      0x1.62e4p-1f /* 15 bits: k * LN2_HI is exact without fused multiply-add too */
#define LN2_LO      0x1.7f7d1cp-20f

static inline vr v_abs(vr x)
{
    return (vr)((vi)x & 0x7fffffff);
}

/* p = p x + constant */
#define HORNER(p, x, constant) EACH(n, p[i] = v_fma(p[i], x[i], v_set1(constant)))

/* z sigmoid(z ln 2), z = x log2(e): SiLU(x) log2(e). One exponential of -|z|, one true division; no cancellation:
 * max(z, 0) - |z| s with s = 2^-|z| / (1 + 2^-|z|) <= 1/2. */
INLINE void v_silu2(vr *z, const int n)
{
    vr a[BUNDLE], t[BUNDLE], r[BUNDLE], p[BUNDLE];
    EACH(n,
         a[i] = v_max(v_set1(-100.0f), (vr)((vi)z[i] | INT32_MIN))); /* -|z|; 2^-100 adds nothing any more */
    EACH(n, t[i] = a[i] + v_set1(ROUND_MAGIC));
    EACH(n, r[i] = t[i] - v_set1(ROUND_MAGIC));
    EACH(n, r[i] = a[i] - r[i]); /* exact, |r| <= 1/2 */
    EACH(n, p[i] = v_set1(0x1.5bd98ap-10f));
    HORNER(p, r, 0x1.3ce8b8p-7f);
    HORNER(p, r, 0x1.c6b6dap-5f);
    HORNER(p, r, 0x1.ebf9c2p-3f);
    HORNER(p, r, 0x1.62e42ap-1f);
    HORNER(p, r, 1.0f);
    EACH(n, p[i] = (vr)((vi)p[i] + ((vi)t[i] << 23))); /* 2^-|z| */
    EACH(n, r[i] = p[i] / (v_set1(1.0f) + p[i]));
    EACH(n, z[i] = v_fma(a[i], r[i], v_max(v_set1(0.0f), z[i])));
}

/* v_silu2 and its derivative, which knows no scale: h + x (1 - s) s with x = z ln 2, h = sigmoid(x). */
INLINE void v_silu2_diff(vr *z, vr *diff, const int n)
{
    vr a[BUNDLE], t[BUNDLE], r[BUNDLE], p[BUNDLE];
    EACH(n, a[i] = v_max(v_set1(-100.0f), (vr)((vi)z[i] | INT32_MIN)));
    EACH(n, t[i] = a[i] + v_set1(ROUND_MAGIC));
    EACH(n, r[i] = t[i] - v_set1(ROUND_MAGIC));
    EACH(n, r[i] = a[i] - r[i]);
    EACH(n, p[i] = v_set1(0x1.5bd98ap-10f));
    HORNER(p, r, 0x1.3ce8b8p-7f);
    HORNER(p, r, 0x1.c6b6dap-5f);
    HORNER(p, r, 0x1.ebf9c2p-3f);
    HORNER(p, r, 0x1.62e42ap-1f);
    HORNER(p, r, 1.0f);
    EACH(n, p[i] = (vr)((vi)p[i] + ((vi)t[i] << 23)));
    EACH(n, r[i] = p[i] / (v_set1(1.0f) + p[i])); /* sigmoid(-|x|) */
    EACH(n, t[i] = z[i] * v_set1(0x1.62e430p-1f) * r[i]);
    EACH(n, p[i] = v_set1(1.0f) - r[i]);
    EACH(n, diff[i] = v_fma(t[i], p[i],
                            (vr)(((vi)r[i] & (z[i] < v_set1(0.0f))) | ((vi)p[i] & ~(z[i] < v_set1(0.0f))))));
    EACH(n, z[i] = v_fma(a[i], r[i], v_max(v_set1(0.0f), z[i])));
}

/* 1 - exp(-x) for x >= 0, relative error of 1 to 2 ulp down to x = 0. */
INLINE void v_em1(vr *x, const int n)
{
    vr t[BUNDLE], r[BUNDLE], q[BUNDLE];
    EACH(n, x[i] = v_min(v_set1(87.0f), x[i]));
    EACH(n, t[i] = v_fma(x[i], v_set1(-0x1.715476p+0f), v_set1(ROUND_MAGIC)));
    EACH(n, q[i] = t[i] - v_set1(ROUND_MAGIC));
    EACH(n, r[i] = v_fma(q[i], v_set1(-LN2_HI), -x[i]));
    EACH(n, r[i] = v_fma(q[i], v_set1(-LN2_LO), r[i]));
    EACH(n, q[i] = v_set1(0x1.6b9caap-10f));
    HORNER(q, r, 0x1.122560p-7f);
    HORNER(q, r, 0x1.5556f2p-5f);
    HORNER(q, r, 0x1.5554b4p-3f);
    HORNER(q, r, 0x1.fffffep-2f);
    EACH(n, q[i] = v_fma(r[i] * r[i], q[i], r[i]));      /* expm1(r) */
    EACH(n, t[i] = (vr)(((vi)t[i] << 23) + 0x3f800000)); /* 2^k */
    EACH(n, x[i] = v_fma(-t[i], q[i], v_set1(1.0f) - t[i]));
}

/* log(1 + x) for 0 <= x <= 1e37, relative error of 1 to 2 ulp down to x = 0. */
INLINE void v_log1p(vr *x, const int n)
{
    vr hi[BUNDLE], u[BUNDLE], f[BUNDLE], q[BUNDLE];
    vi k[BUNDLE];
    EACH(n, hi[i] = v_max(v_set1(1.0f), x[i]));
    EACH(n, f[i] = v_min(v_set1(1.0f), x[i]));
    EACH(n, u[i] = hi[i] + f[i]);
    EACH(n, f[i] = f[i] - (u[i] - hi[i]));         /* u + f = 1 + x exactly */
    EACH(n, k[i] = ((vi)u[i] - 0x3f3504f3) >> 23); /* u = 2^k m, m in [sqrt(1/2), sqrt(2)) */
    EACH(n, u[i] = (vr)((vi)u[i] - (k[i] << 23)) - v_set1(1.0f));
    EACH(n, f[i] = v_fma(f[i], (vr)(0x3f800000 - (k[i] << 23)), u[i]));
    EACH(n, q[i] = v_set1(-0x1.38dc38p-4f));
    HORNER(q, f, 0x1.056c20p-3f);
    HORNER(q, f, -0x1.0d854cp-3f);
    HORNER(q, f, 0x1.22d792p-3f);
    HORNER(q, f, -0x1.54720cp-3f);
    HORNER(q, f, 0x1.99a028p-3f);
    HORNER(q, f, -0x1.000228p-2f);
    HORNER(q, f, 0x1.555554p-2f);
    HORNER(q, f, -0.5f);
    EACH(n, q[i] = v_fma(f[i] * f[i], q[i], f[i])); /* log(1 + f) */
    EACH(n, u[i] = __builtin_convertvector(k[i], vr));
    EACH(n, x[i] = v_fma(u[i], v_set1(LN2_HI), v_fma(u[i], v_set1(LN2_LO), q[i])));
}

/* S(x) = (1 - exp(-x)) log(1 + x), x >= 0. */
INLINE void v_s(vr *x, const int n)
{
    vr e[BUNDLE];
    EACH(n, e[i] = x[i] = v_min(v_set1(1e37f), x[i]));
    v_em1(e, n);
    v_log1p(x, n);
    EACH(n, x[i] = e[i] * x[i]);
}

INLINE void v_tanh(vr *x, const int n)
{
    vr e[BUNDLE];
    EACH(n, e[i] = v_abs(x[i]) * v_set1(2.0f));
    v_em1(e, n);
    EACH(n, e[i] = e[i] / (v_set1(2.0f) - e[i]));
    EACH(n, x[i] = (vr)((vi)e[i] | ((vi)x[i] & INT32_MIN)));
}

#undef HORNER
