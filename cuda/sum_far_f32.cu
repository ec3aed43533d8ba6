#define SUM_F64 0
#include "sum_far.cuh"
