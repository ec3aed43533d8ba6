/* Zonal scatter in float32. Products and sums round separately: never compile this with contraction. */
#define FF_T(name) name##_f32
#define real       float
#define IN_NAME    "FF_SCATTER_IN_F32"
#define GRAD_NAME  "FF_SCATTER_GRAD_F32"

#include "ff_scatter_job.h"

enum { STRIP = 64 }; /* edges whose radial features fit the first cache */

#include "ff_scatter_rows_impl.h"
