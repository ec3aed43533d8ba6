#define SUM_F64      1
#define SUM_GROUP    1
#define SUM_NEAR_RUN sum_lists_f64
#include "sum_near.cuh"
