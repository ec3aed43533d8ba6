/* Single-precision instance: pairs and their cotangents in float32, sums in double or exact. */
#define FF_REAL    float
#define FF_BACKEND /* pairs may be a backend's */
#define FF_T(n)    n##_f32
#include "ff_grad_impl.h"
