/* What ff_sum_pair.h asks of its includer, for one lane of one precision (sum_types.cuh); on the host too, for tests. */
#ifndef SUM_LANES_CUH
#define SUM_LANES_CUH

#include "sum_types.cuh"

typedef real vr;
#define v_set1(c) ((real)(c))

#if SUM_F64
static __host__ __device__ inline real v_rsqrt_any(real x)
{
#ifdef __CUDA_ARCH__
    return rsqrt(x);
#else
    return 1 / sqrt(x);
#endif
}
static __host__ __device__ inline real v_log_any(real x)
{
    return log(x);
}
static __host__ __device__ inline real v_exp_any(real x)
{
    return exp(x);
}
#else
/* Without the scaling of denormal numbers: a difference of coordinates is a multiple of the quantum. */
static __host__ __device__ inline real v_rsqrt_any(real x)
{
#ifdef __CUDA_ARCH__
    float y;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#else
    return 1 / sqrtf(x);
#endif
}
static __host__ __device__ inline real v_log_any(real x)
{
    return logf(x);
}
static __host__ __device__ inline real v_exp_any(real x)
{
    return expf(x);
}
#endif
static __host__ __device__ inline real v_nonzero(real x, real y)
{
    return x > 0 ? y : 0;
}
static __host__ __device__ inline real v_rsqrt0(real x)
{
    return v_nonzero(x, v_rsqrt_any(x));
}
static __host__ __device__ inline real v_log0(real x)
{
    return v_nonzero(x, v_log_any(x));
}
/* x > 0 is known. */
#define v_rsqrt_positive(x) v_rsqrt_any(x)

#undef FF_HD
#define FF_HD static __host__ __device__ __forceinline__
#include "ff_sum_pair.h"

static inline ff_radial_par sum_parameters(const ff_sum_spec *s)
{
    ff_radial_par p = {s->parameter, 0, s->parameter, s->parameter * s->parameter};
    for (int k = 1; k <= 16; k++)
        if (s->parameter == k) p.whole_power = k;
    return p;
}

#endif
