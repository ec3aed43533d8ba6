/* The row of one precision. The includer defines SUM_F64. */
#ifndef SUM_ROW_CUH
#define SUM_ROW_CUH

#include "sum_place.cuh"
#include "sum_walk.cuh"

const sum_row SUM_T(sum_row) = {sizeof(sum_point), sizeof(sum_four), sizeof(sum_node), sizeof(sum_box),
                                sizeof(real),      SUM_T(place),     SUM_T(density),   SUM_T(sum_direct),
                                SUM_T(sum_lists),  SUM_T(walk),      SUM_T(sum_far)};

#endif
