/* Scalar arithmetic of a pair on the device: accurate float32 forms and fast ones for tensor-core modes. */
#ifndef FF_GLOBE_MATH_CUH
#define FF_GLOBE_MATH_CUH

/* S(x) = (1 - exp(-x)) log(1 + x), full float32 accuracy. */
static __device__ __forceinline__ float smooth_f32(float x)
{
    return -expm1f(-x) * log1pf(x);
}

/* P_(n+1) from P_n = p1, P_(n-1) = p0. */
static __device__ __forceinline__ float legendre_next(int n, float c, float p1, float p0)
{
    return ((float)(2 * n + 1) * c * p1 - (float)n * p0) / (float)(n + 1);
}

static __device__ __forceinline__ float ex2_fast(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
static __device__ __forceinline__ float lg2_fast(float x)
{
    float y;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
static __device__ __forceinline__ float rcp_fast(float x)
{
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
static __device__ __forceinline__ float rsqrt_fast(float x)
{
    float y;
    asm("rsqrt.approx.f32 %0, %1;" : "=f"(y) : "f"(x)); /* not ftz: eps^2 may be as small as 1e-30 */
    return y;
}
/* volatile: stays behind the wait for the products whose accumulator it reads. */
static __device__ __forceinline__ float tanh_fast(float x)
{
    float y;
    asm volatile("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
/* Absolute error about 1e-7 max(1, log(1 + x)): enough where the result is rounded to bf16 or TF32. */
static __device__ __forceinline__ float smooth_fast(float x)
{
    return (1.0f - ex2_fast(-1.44269504f * x)) * (0.693147181f * lg2_fast(1.0f + x));
}
/* 1 - exp(-q) with small relative error also for tiny q. */
static __device__ __forceinline__ float one_minus_exp_fast(float q)
{
    float small = q * (1.0f - q * (0.5f - q * (0.16666667f - 0.041666667f * q)));
    return q < 0.05f ? small : 1.0f - ex2_fast(-1.44269504f * q);
}

#endif
