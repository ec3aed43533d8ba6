/* Arrays of sums that do not depend on the order of their terms, nor on threads or ranks: every term is rounded once to
 * a fixed unit and added as an integer in two words, so that any order gives the same bits (docs/theory.md, "Equal
 * bits"). For gradients: float32 or float64 partial sums of fixed blocks go in, one double an entry comes out.
 *
 *   value = hi 2^-24 + lo 2^-72      a term: |v| < 2^27, rounded to 2^-72 = 2e-22      a sum: below 2^37
 *
 * An entry of 1e-9 still has 41 bits. A term that is not finite or out of range, or a sum that leaves its range, makes
 * every value of the array NaN: an error, never a wrap. Many at once cost about one nanosecond a term. */
#ifndef FF_SUMS_H
#define FF_SUMS_H

#include "ff_comm.h"

typedef struct ff_sums ff_sums;

ff_status ff_sums_create(int64_t n,
                         ff_sums **out); /* n zeros                                           Local */
void ff_sums_destroy(ff_sums **s);
void ff_sums_clear(ff_sums *s);

/* Adds v [n] to entries from .. from + n - 1. Thread-safe (long arrays are locked in stripes, and each thread begins at
 * another stripe).                                                                                       Local */
void ff_sums_add_f32(ff_sums *s, int64_t from, int64_t n, const float *v);
void ff_sums_add_f64(ff_sums *s, int64_t from, int64_t n, const double *v);
/* Adds one term to one entry without a lock. Thread-safe; may run beside itself, not beside ff_sums_add_f32 or _f64. */
void ff_sums_add_one(ff_sums *s, int64_t i, double v);

/* The entries' two words, for moving them between ranks by other means: rows [n][2], brought to lo in [0, 2^48), and
 * their return. ff_sums_put_words adds.                                                                   Local */
void ff_sums_get_words(ff_sums *s, int64_t i, int64_t words[2]);
void ff_sums_put_words(ff_sums *s, int64_t i, const int64_t words[2]);

ff_status ff_sums_allreduce(ff_comm *comm,
                            ff_sums *s); /* over ranks, in place                     Collective */
bool ff_sums_bad(const ff_sums *s);
void ff_sums_set_bad(
    ff_sums *s); /* as if a term had been out of range                                   Local */
double ff_sums_value(const ff_sums *s, int64_t i);

/* top [n], magnitudes, become the largest over the ranks, e [n] their exponents: 2^e is above and at most twice as much; 0 for
 * zero, NaN and infinity. What goes into sums is first brought near 1 by a power of two, which rounds nothing: their unit is
 * fixed.                                                                                            Collective */
ff_status ff_sums_exponents(ff_comm *comm, int n, double *top, int *e);

#endif
