/* The zonal scatter's part of the verify verb. */
#ifndef VERIFY_SCATTER_H
#define VERIFY_SCATTER_H

#include "verify.h"

/* All groups of the file: outputs and, unless left out, gradients. Collective */
ff_status verify_scatter(verify *v, const char *path);

#endif
