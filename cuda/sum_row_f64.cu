#define SUM_F64 1
#include "sum_row.cuh"
