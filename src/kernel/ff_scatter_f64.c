/* Zonal scatter in float64. Products and sums round separately: never compile this with contraction. */
#define FF_T(name) name##_f64
#define real       double
#define IN_NAME    "FF_SCATTER_IN_F64"
#define GRAD_NAME  "FF_SCATTER_GRAD_F64"

#include "ff_scatter_job.h"

enum { STRIP = 64 }; /* edges whose radial features fit the first cache */

#include "ff_scatter_rows_impl.h"
