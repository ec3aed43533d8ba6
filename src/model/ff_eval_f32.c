/* Single-precision instance: features, network and strengths in float32, sums in double. */
#define FF_REAL         float
#define FF_T(n)         n##_f32
#define FF_EVAL_BACKEND 1 /* backends take float32 inputs */
#include "ff_eval_impl.h"
