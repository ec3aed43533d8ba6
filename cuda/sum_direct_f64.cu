#define SUM_F64      1
#define SUM_GROUP    2
#define SUM_NEAR_RUN sum_direct_f64
#include "sum_near.cuh"
