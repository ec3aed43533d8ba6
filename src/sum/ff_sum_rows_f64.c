#define FF_REAL    double
#define FF_T(name) name##_f64
#include "ff_sum_rows_impl.h"
