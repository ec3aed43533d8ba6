/* Double-precision instance, for verification. */
#define FF_REAL         double
#define FF_T(n)         n##_f64
#define FF_EVAL_BACKEND 0
#include "ff_eval_impl.h"
