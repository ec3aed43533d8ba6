/* Sums that do not depend on order or rank count: each term is rounded once to a fixed unit (2^-80) and added
 * as a 128-bit integer; ranks add four 32-bit words each as int64. Range of the sum +-2^46; beyond it the sum
 * becomes NaN, never wrong. */
#ifndef FF_EXACT_H
#define FF_EXACT_H

#include "ff_comm.h"

typedef struct ff_exact {
    __int128 sum;
    bool bad; /* a term was not finite or out of range */
} ff_exact;

void ff_exact_add(ff_exact *a, double v); /* Local */
/* Sum over ranks of n accumulators, in place, equal on all ranks.                 Collective */
ff_status ff_exact_allreduce(ff_comm *comm, ff_exact *a, int n);
double ff_exact_value(const ff_exact *a); /* Local */

#endif
