/* Stable sort by 64-bit key (LSD radix, OpenMP-parallel; skips constant digits). */
#ifndef FF_SORT_H
#define FF_SORT_H

#include "ff_status.h"

/* Sorts key [n] ascending and applies the same permutation to value [n] (value may be NULL). Stable: equal keys
 * keep their order. Deterministic for any thread count.                                              Local */
ff_status ff_sort_u64(uint64_t *key, int64_t *value, int64_t n);

#endif
