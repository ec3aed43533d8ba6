/* Double-precision instance, for verification. */
#define FF_REAL double
#define FF_T(n) n##_f64
#include "ff_grad_impl.h"
