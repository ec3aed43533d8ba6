/* Embedding head in float32. Products and sums round separately: never compile this with contraction. */
#define FF_T(name)        name##_f32
#define real              float
#define EXP               expf
#define IN_INIT           FF_SCATTER_IN_F32_INIT
#define SCATTER_GRAD_INIT FF_SCATTER_GRAD_F32_INIT
#define GRAD_NAME         "FF_HEAD_GRAD_F32"

#include "ff_head_impl.h"
