/* Tiles of analytic kernels: all pairs of a group of targets with a group of sources, targets in vector lanes.
 * A target's sum is added source by source, so its bits depend on the list of sources alone. */
#ifndef FF_SUM_TILE_H
#define FF_SUM_TILE_H

#include "farfield_sum.h"

/* What is summed. Radial kernels: sources carry a charge, a dipole (3 numbers) or both. */
typedef struct ff_sum_spec {
    ff_sum_kernel kernel;
    unsigned in; /* FF_SUM_CHARGE | FF_SUM_DIPOLE (ff_sum_pair.h); 0: the Stokeslet's force */
    bool grad;
    double parameter;
    bool quick; /* roots of 1/R may have errors of 6e-9 */
} ff_sum_spec;

int ff_sum_spec_in(const ff_sum_spec *s);  /* numbers of a source: 1, 3 or 4 */
int ff_sum_spec_out(const ff_sum_spec *s); /* of a target: 1 or 4; Stokeslet 3 or 12 */

enum { FF_SUM_PAD = 32 }; /* arrays of targets are padded to a multiple of this */

/* Adds to out. Arrays by component: xt, out [..][ld_t], xs, q [..][ld_s]; padded targets get some finite values. */
typedef struct ff_sum_args_f64 {
    int64_t n_t, ld_t, n_s, ld_s;
    const double *xt, *xs, *q;
    double *out;
} ff_sum_args_f64;
typedef struct ff_sum_args_f32 {
    int64_t n_t, ld_t, n_s, ld_s;
    const float *xt, *xs, *q;
    double *out;
} ff_sum_args_f32;

void ff_sum_tile_f64(const ff_sum_spec *s, const ff_sum_args_f64 *a);
void ff_sum_tile_f32(const ff_sum_spec *s, const ff_sum_args_f32 *a);

/* Numbers of one density of a source and of a value. */
static inline int ff_sum_opts_in(const ff_sum_opts *o)
{
    return o->kernel == FF_SUM_STOKESLET ? 3 : o->dipole ? o->dim : 1;
}
static inline int ff_sum_opts_out(const ff_sum_opts *o)
{
    return o->kernel == FF_SUM_STOKESLET ? 3 : 1;
}

/* Kernel, parameter and dim of the options: FF_E_ARG says what is out of range. */
ff_status ff_sum_check_kernel(const ff_sum_opts *o);

/* The reference: pairs in float64 with the C library's functions, adds to out. One pair, d = x - y, and those of target
 * x with sources y [n][3], q [n][in]. */
void ff_sum_pair_f64(const ff_sum_spec *s, const double d[3], const double *q, double *out);
void ff_sum_pairs_f64(const ff_sum_spec *s, const double x[3], int64_t n, const double *y, const double *q,
                      double *out);

/* Name of the instruction set in use; and, for tests, at most this level from now on (0 plain, 1 AVX2, 2 AVX-512). */
const char *ff_sum_isa(void);
void ff_sum_isa_limit(int level);

#endif
