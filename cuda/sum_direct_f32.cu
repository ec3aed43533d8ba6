#define SUM_F64      0
#define SUM_GROUP    2
#define SUM_NEAR_RUN sum_direct_f32
#include "sum_near.cuh"
