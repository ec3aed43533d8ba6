#define SUM_F64 1
#include "sum_far.cuh"

cudaError_t sum_far_f64(int order, const sum_far *a, cudaStream_t s)
{
    switch (order) {
    case 3:
        return far_run<3>(a, s);
    case 4:
        return far_run<4>(a, s);
    case 5:
        return far_run<5>(a, s);
    case 6:
        return far_run<6>(a, s);
    default:
        return cudaErrorInvalidValue;
    }
}
