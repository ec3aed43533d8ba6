#define FF_REAL    float
#define FF_T(name) name##_f32
#include "ff_sum_rows_impl.h"
