/* Embedding head in float64. Products and sums round separately: never compile this with contraction. */
#define FF_T(name)        name##_f64
#define real              double
#define EXP               exp
#define IN_INIT           FF_SCATTER_IN_F64_INIT
#define SCATTER_GRAD_INIT FF_SCATTER_GRAD_F64_INIT
#define GRAD_NAME         "FF_HEAD_GRAD_F64"

#include "ff_head_impl.h"
