/* Single-precision instance: features, network and strengths in float32, sums in double. */
#define FF_REAL float
#define FF_T(n) n##_f32
#include "ff_eval_impl.h"
