/* The embedding head over a graph: what its files and the distributed head share. Meaning and errors of the public
 * calls: farfield_head.h; formulas and data flow: docs/embed.md. */
#ifndef FF_HEAD_H
#define FF_HEAD_H

#include "farfield_head.h"

#include "ff_exact.h"
#include "ff_graph.h"
#include "ff_head_math.h"

/* Options, checked; a copy of an older structure is completed. The two may not overlap. Local */
ff_status ff_head_take(const ff_head_opts *given, ff_head_opts *ours);
ff_head_par ff_head_par_of(const ff_head_opts *o, double cutoff);

/* Weights: numbers of W1 and of W2. */
int64_t ff_head_n_w1(const ff_head_opts *o);
int64_t ff_head_n_w2(const ff_head_opts *o);
/* Numbers a node of the output. */
int64_t ff_head_n_out(const ff_head_opts *o);

/* Everything in between, for all edges at once; each may be NULL. Owned by the caller. */
typedef struct ff_head_parts_f32 {
    float *coupling;     /* [E][D - 1] */
    float *basis;        /* [E][n_radial] with envelope */
    float *radial;       /* [E][lmax][C] */
    double *degree;      /* [N] */
    float *inv_sqrt_deg; /* [N] */
} ff_head_parts_f32;
typedef struct ff_head_parts_f64 {
    double *coupling;
    double *basis;
    double *radial;
    double *degree;
    double *inv_sqrt_deg;
} ff_head_parts_f64;
ff_status ff_head_parts_run_f32(const ff_graph *g, const ff_head_opts *o, const float *w1, const float *w2,
                                const ff_head_parts_f32 *parts);
ff_status ff_head_parts_run_f64(const ff_graph *g, const ff_head_opts *o, const double *w1, const double *w2,
                                const ff_head_parts_f64 *parts);

/* The backward pass but for the last sums, which may go over ranks.
 *   exponent   weights' gradients are divided by 2^exponent before they are summed as integers (ff_head_exponent)
 *   edge_grad  [E][3] dL/dvec, or NULL
 *   w_sum      [n_w1 + n_w2] added to, or NULL                                                               Local */
ff_status ff_head_run_backward_f32(const ff_graph *g, const ff_head_opts *o, const float *w1, const float *w2,
                                   const float *cotangent, int exponent, double *edge_grad, ff_exact *w_sum);
ff_status ff_head_run_backward_f64(const ff_graph *g, const ff_head_opts *o, const double *w1,
                                   const double *w2, const double *cotangent, int exponent, double *edge_grad,
                                   ff_exact *w_sum);

/* Gradients are linear in the cotangent, so its largest value, of all ranks, sets their unit. 0 for 0, inf and NaN. One less
 * than ff_sums_exponents, which is for sums with less room: with that unit gradients' last bits would change. Local */
int ff_head_exponent(double largest);
double ff_head_largest_f32(const float *x, int64_t n);
double ff_head_largest_f64(const double *x, int64_t n);

/* What is wrong with the graph or a pointer; FF_E_ARG. data: out or cotangent, named by what. Local */
ff_status ff_head_check(const ff_graph *g, const void *w1, const void *w2, const void *data,
                        const char *what);
/* Our copy of a caller's gradients, whose size field may be of an older version. */
ff_status ff_head_take_grad(const char *what, const void *given, void *ours, size_t size);

#endif
