#define SUM_F64 0
#include "sum_place.cuh"

const sum_row SUM_T(sum_row) = {sizeof(sum_point), sizeof(sum_four), sizeof(sum_node),  sizeof(sum_box),
                                SUM_T(place),      SUM_T(density),   SUM_T(sum_direct), SUM_T(sum_lists)};
