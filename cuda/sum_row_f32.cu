#define SUM_F64 0
#include "sum_row.cuh"
