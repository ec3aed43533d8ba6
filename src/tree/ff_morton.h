/* Morton codes (spec of the order: docs/theory.md, "Morton order"). Decision arithmetic: float32, no
 * contraction. */
#ifndef FF_MORTON_H
#define FF_MORTON_H

#include "ff_status.h"

/* Smallest and largest coordinate per axis; x [n][dim]. n = 0 gives lo = +inf, hi = -inf. Local */
void ff_morton_box(const float *x, int64_t n, int dim, float lo[3], float hi[3]);

/* code [n] of points x [n][dim] in the global box lo, hi. bits = min(62, 63 div dim) per axis. Local */
void ff_morton_codes(const float *x, int64_t n, int dim, const float lo[3], const float hi[3],
                     uint64_t *code);

#endif
