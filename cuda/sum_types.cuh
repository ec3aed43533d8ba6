/* Coordinates of one precision. The includer defines SUM_F64 as 0 or 1. */
#ifndef SUM_TYPES_CUH
#define SUM_TYPES_CUH

#include "sum.cuh"

#if SUM_F64
#define SUM_T(name) name##_f64
typedef double real;
typedef double coord;
#else
#define SUM_T(name) name##_f32
typedef float real;
typedef int32_t coord;
#endif

typedef struct alignas(16) sum_point {
    coord x, y, z;
    real q;
} sum_point;
typedef struct alignas(16) sum_four {
    real x, y, z, w;
} sum_four;
typedef struct alignas(16) sum_node {
    coord x, y, z;
    real r; /* radius, in units of length */
} sum_node;
typedef struct sum_box {
    coord lo[3], hi[3];
} sum_box;

/* Length of a difference of coordinates. */
static __device__ inline real sum_length(coord d, real quantum)
{
#if SUM_F64
    (void)quantum;
    return d;
#else
    return (float)d * quantum;
#endif
}

static __device__ inline coord sum_middle(coord lo, coord hi)
{
#if SUM_F64
    return 0.5 * (lo + hi);
#else
    return lo + ((hi - lo) >> 1);
#endif
}

/* Of a coordinate as given. */
static __device__ inline coord sum_coord(double x, double lo, double inverse)
{
#if SUM_F64
    (void)inverse;
    return x - lo;
#else
    return (int32_t)fmin(rint((x - lo) * inverse), 2147483647.0);
#endif
}

#endif
