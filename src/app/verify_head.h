/* The embedding head's part of the verify verb. */
#ifndef VERIFY_HEAD_H
#define VERIFY_HEAD_H

#include "verify.h"

/* All groups of the file: edges, everything in between, outputs and, unless left out, gradients; both precisions,
 * both paths of the scatter. Groups of unit vectors: couplings. Collective */
ff_status verify_head(verify *v, const char *path);

#endif
