#define SUM_F64      0
#define SUM_GROUP    1
#define SUM_NEAR_RUN sum_lists_f32
#include "sum_near.cuh"
