/* farfield_sum.h: sums of analytic kernels over point clouds with a treecode, and their adjoint.
 *
 *     u(x_i) = sum over j of q_j K(x_i - y_j)          all targets i, all sources j, in about O(N) operations
 *
 * Geometry goes in once (ff_sum_create), densities as often as wanted (ff_sum_apply). Far groups of points interact
 * through interpolation: a node of the tree of sources stands for its points by weights at Chebyshev points of its box,
 * a node of the tree of targets gathers values at such points, and both go through the same pair kernel as points do.
 * So each kernel is one small function (src/kernel/ff_sum_pair.h). Formulas and figures: docs/sum.md.
 * examples/sum.c is a whole program. */
#ifndef FARFIELD_SUM_H
#define FARFIELD_SUM_H

#include "farfield.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ff_sum ff_sum;

/* d = x - y, R = |d|. Pairs with R = 0 are left out except with FF_SUM_PLUMMER. */
typedef enum ff_sum_kernel {
    FF_SUM_INV_R,    /* 1 / R */
    FF_SUM_POWER,    /* 1 / R^k, k = parameter > 0 */
    FF_SUM_LOG,      /* log R, dim 2 */
    FF_SUM_YUKAWA,   /* exp(-kappa R) / R, kappa = parameter >= 0 */
    FF_SUM_PLUMMER,  /* 1 / sqrt(R^2 + eps^2), eps = parameter > 0 */
    FF_SUM_STOKESLET /* u_i = f_i / R + d_i (f . d) / R^3, dim 3 */
} ff_sum_kernel;

typedef struct ff_sum_opts {
    size_t size; /* sizeof(ff_sum_opts): fields can be added later */
    ff_sum_kernel kernel;
    double parameter; /* k, kappa or eps */
    bool dipole; /* sources are dipoles m: u = sum m . grad_y K (double layer); not with FF_SUM_STOKESLET */
    int dim;     /* 2 or 3 */
    int n_densities; /* so many densities at once, >= 1 */
    bool gradient;   /* also the derivative with respect to x */
    bool adjoint;    /* ff_sum_adjoint will be called */
    bool single;     /* pairs in float32 (coordinates relative to the box of the targets), sums in float64 */
    double rtol;     /* > 0: choose order, theta and leaf_size for this relative error; 0: as given here */
    /* boxes are far if gap * theta > sum of their diameters (1/R in 3 dimensions: distance of their middles instead of
     * the gap, theta < 2); 0: nothing is far, exact sums */
    double theta;
    int order; /* degree of expansions, 0 to 12, 1/R in 3 dimensions 0 to 20; 0: one point, the centroid */
    int leaf_size; /* most points of a leaf, 65 to 8192; 0: what suits the order */
    /* Triangles as sources, their centroids the points, charges spread over them evenly; 1/R in 3 dimensions. Near pairs whose
     * distance is below exact_within (say 5) longest edges of the triangle are integrated in closed form, that of a triangle
     * with its own centroid too, others are 1/R to the centroid. The derivative by a source's position is that of the
     * triangle as it moves as a whole. Not on a GPU. 0: points */
    double exact_within;
    const double *corners; /* [n_sources][3][3], copied */
} ff_sum_opts;
#define FF_SUM_OPTS_INIT                                                                                     \
    {                                                                                                        \
        sizeof(ff_sum_opts), FF_SUM_INV_R, 1.0, false, 3, 1, false, false, false, 1e-5, 1.0, 4, 0, 0, NULL   \
    }

/* Trees and interaction lists of targets against sources.                                               Local
 *   targets  [n_targets][dim]; NULL: the sources (n_targets is ignored)       sources [n_sources][dim]; both copied
 *   opts     from FF_SUM_OPTS_INIT; NULL: the defaults    out  owned by the caller, ff_sum_destroy(); NULL on failure
 * Coordinates may lie far from the origin: they are recentred in float64. Either set may be empty.
 * The same bits for any number of threads. Errors: FF_E_ARG an option out of range, rtol out of reach; FF_E_INPUT a
 * coordinate that is not finite, named by its index, or a width of the set that the arithmetic cannot hold; FF_E_MEM. */
FF_API ff_status ff_sum_create(const double *targets, int64_t n_targets, const double *sources,
                               int64_t n_sources, const ff_sum_opts *opts, ff_sum **out);
FF_API void ff_sum_destroy(ff_sum **s); /* NULL is fine. Local */

/* Numbers a source (density) and a target (value) carry, for each density: density 1, dim with dipole, 3 for the
 * Stokeslet; value 1, 3 for the Stokeslet. Local */
FF_API int ff_sum_n_in(const ff_sum *s);
FF_API int ff_sum_n_out(const ff_sum *s);

/* Sums.                                                                                                 Local
 *   density   [n_sources][n_densities][n_in]
 *   value     [n_targets][n_densities][n_out], overwritten
 *   gradient  [n_targets][n_densities][n_out][dim], overwritten; NULL unless asked for in the options
 * Errors: FF_E_INPUT a density that is not finite; FF_E_ARG; FF_E_MEM. */
FF_API ff_status ff_sum_apply(ff_sum *s, const double *density, double *value, double *gradient);

/* Derivatives of L = sum(cot_value * value) + sum(cot_gradient * gradient), arrays shaped like those of ff_sum_apply.
 * Of the sums as they are computed, interpolation included, up to rounding: the transposed operator.    Local
 *   cot_gradient  NULL: 0            d_density  like density, overwritten
 * Errors: FF_E_ARG without opts.adjoint; FF_E_INPUT; FF_E_UNSUPPORTED cot_gradient with the Stokeslet; FF_E_MEM. */
FF_API ff_status ff_sum_adjoint(ff_sum *s, const double *cot_value, const double *cot_gradient,
                                double *d_density);

/* Derivatives of L = sum(cot_value * value) with respect to positions, from the gradients of two sums: those of the
 * density, and those of cot_value with targets and sources exchanged. Accurate as these are.               Local
 *   density, cot_value  like those of ff_sum_apply
 *   d_targets [n_targets][dim], d_sources [n_sources][dim], overwritten; where the targets are the sources, d_sources
 *   receives both parts and d_targets is NULL
 * Errors: FF_E_ARG without opts.adjoint; FF_E_INPUT; FF_E_UNSUPPORTED with dipoles; FF_E_MEM. */
FF_API ff_status ff_sum_adjoint_points(ff_sum *s, const double *density, const double *cot_value,
                                       double *d_targets, double *d_sources);

/* What was chosen and how many pairs there are. */
typedef struct ff_sum_info {
    double theta;
    int order, leaf_size;
    int64_t n_targets, n_sources;
    int64_t direct_pairs; /* pairs of points in leaves that are near */
    int64_t far_pairs;    /* pairs of nodes */
    int64_t proxies; /* numbers of a node's expansion; by interpolation a far pair costs proxies^2 pairs */
} ff_sum_info;
FF_API void ff_sum_get_info(const ff_sum *s, ff_sum_info *out); /* Local */

/* Compares n targets, spread evenly over the order given, with direct float64 sums of the same density.     Local
 * An error is |difference| / max(|exact|, rms of exact over the n targets), for vectors in the 2-norm, of the first
 * density. value, gradient: as ff_sum_apply returned them (gradient may be NULL). */
typedef struct ff_sum_error {
    double median, p95, p99, max;
} ff_sum_error;
FF_API ff_status ff_sum_check(ff_sum *s, const double *density, const double *value, const double *gradient,
                              int64_t n, ff_sum_error *of_value, ff_sum_error *of_gradient);

/* ---- on one GPU ---------------------------------------------------------------------------------------------------
 * The same sums from and to device memory, by kernels on a stream (a cudaStream_t; NULL: the default one). The same bits
 * for each call on the same kind of GPU. Builds without CUDA return FF_E_UNSUPPORTED. What differs from above:
 *   theta      nodes are far if the sum of their radii is below theta times the distance of their centres; < 1
 *   order      degree of Cartesian Taylor expansions, 3 to 6
 *   leaf_size  is 32;  rtol  chooses theta for order 6 (float32: at least 2e-5)
 *   single     coordinates are rounded to 2^-31 of the width of all points */
typedef struct ff_sum_cuda ff_sum_cuda;

/* As ff_sum_create; d_targets and d_sources are not needed afterwards. Waits for the stream once.          Local */
FF_API ff_status ff_sum_cuda_create(const double *d_targets, int64_t n_targets, const double *d_sources,
                                    int64_t n_sources, const ff_sum_opts *opts, void *stream,
                                    ff_sum_cuda **out);
FF_API void ff_sum_cuda_destroy(ff_sum_cuda **s); /* NULL is fine. Local */

/* As ff_sum_apply, but only queued: a density that is not finite makes values that are not.                 Local */
FF_API ff_status ff_sum_cuda_apply(ff_sum_cuda *s, const double *d_density, double *d_value,
                                   double *d_gradient);

/* As ff_sum_adjoint and ff_sum_adjoint_points, queued.                                                       Local */
FF_API ff_status ff_sum_cuda_adjoint(ff_sum_cuda *s, const double *d_cot_value, const double *d_cot_gradient,
                                     double *d_density);
FF_API ff_status ff_sum_cuda_adjoint_points(ff_sum_cuda *s, const double *d_density,
                                            const double *d_cot_value, double *d_targets, double *d_sources);

FF_API void ff_sum_cuda_get_info(const ff_sum_cuda *s, ff_sum_info *out); /* Local */

/* As ff_sum_check, against direct float64 sums on the GPU; l2 [2]: norm of the differences over that of the exact
 * values, of the values and the gradients. d_targets and d_sources as they were given to create. Waits.      Local */
FF_API ff_status ff_sum_cuda_check(ff_sum_cuda *s, const double *d_targets, const double *d_sources,
                                   const double *d_density, const double *d_value, const double *d_gradient,
                                   int64_t n, ff_sum_error *of_value, ff_sum_error *of_gradient,
                                   double l2[2]);

#ifdef __cplusplus
}
#endif
#endif
