/* Gradients of a loss through the whole evaluation, over ranks. The caller gives the cotangent of the outputs (derivative
 * of the loss with respect to each of them) and receives derivatives with respect to the model's parameters and, on
 * request, to everything else that enters. Plans are constants; derivatives pass through node aggregates and target
 * centroids. Mathematics: docs/theory.md, "Adjoint".
 *
 * Nothing per pair is stored: pairs are evaluated again, at the owner of their source (a source-major walk against the
 * targets' trees), and what is kept of the forward run are the layers' outputs. Results are equal to the bit on any
 * number of ranks and threads: a source's cotangents are summed in one order, everything that is summed over sources
 * goes through exact integer sums. */
#ifndef FF_GRAD_H
#define FF_GRAD_H

#include "ff_eval.h"

typedef enum ff_grad_want {
    FF_GRAD_PARAMS =
        0, /* weights, biases, log scale factors, calibration; global data and lengths: always there */
    FF_GRAD_POINTS = 1, /* target points, sources held fixed */
    FF_GRAD_FIELDS = 2, /* physical fields of the faces */
    FF_GRAD_FACES = 4,  /* centroids, normals and measures of the faces */
    FF_GRAD_ALL = 7
} ff_grad_want;

/* Derivatives of the loss, per unit of what they are taken to. NULL where not asked for. Owned by the ff_grad, valid until
 * its next run. Home rows: the order of the case. */
typedef struct ff_grad_values {
    double **tensor; /* [model->n_tensors][tensor n]: the same on all ranks */
    double *
        points; /* [n home targets][dim], 1/m. Where targets are a boundary's centroids, FF_GRAD_FACES has it too */
    double **field;              /* [n_sources][n home][components]: as ff_source.field */
    double *global;              /* as ff_case.global; the same on all ranks */
    double *length;              /* [n_len], 1/m; the same on all ranks */
    double **centroid, **normal; /* [n_sources][n home][dim] */
    double **mu;                 /* [n_sources][n home]: measure area * weight / reference_area */
} ff_grad_values;

typedef struct ff_grad ff_grad;

typedef struct ff_grad_stats {
    int64_t
        pairs; /* pair adjoints of the last run (a pair through one branch's network in one layer), this rank */
    double t_run_s, t_lists_s,
        t_pairs_s;      /* all of it; with opts.adjoint: waiting for pair lists and handing them over,
                                             pairs on the backend */
    int64_t bytes_sent; /* cotangents of targets, this rank */
} ff_grad_stats;

/* Trees and lists for the way back; e is borrowed and must have been created with opts.keep. want: FF_GRAD_* or-ed. With
 * opts.adjoint a thread makes the lists, which ff_grad_run waits for: before ff_eval_run is the time to create it then.
 * Errors: FF_E_ARG opts.keep missing; FF_E_MEM; FF_E_COMM.                                               Collective */
ff_status ff_grad_create(ff_eval *e, unsigned want, ff_grad **out);
void ff_grad_destroy(ff_grad **g);

/* Gradients of the last ff_eval_run at cotangent out_bar [n home targets][n_comp of the output fields], home order.
 * Errors: FF_E_ARG no run before; FF_E_MEM; FF_E_COMM. A cotangent that is not finite, or sums beyond 2^37, give NaN.
 *                                                                                                       Collective */
ff_status ff_grad_run(ff_grad *g, const double *out_bar);
const ff_grad_values *ff_grad_get(const ff_grad *g);
const ff_grad_stats *ff_grad_get_stats(const ff_grad *g);

/* Adds to point_bar [n_points][dim] what the faces' gradients bring to the corners: points and cells as given to
 * ff_source_geometry, weight [n] or NULL. A face without area brings its centroid's part only.               Local */
void ff_grad_corners(int dim, const float *points, const int64_t *cells, int64_t n, const double *weight,
                     double reference_area, const double *centroid_bar, const double *normal_bar,
                     const double *mu_bar, double *point_bar);

#endif
