#define SUM_F64 1
#include "sum_far.cuh"
