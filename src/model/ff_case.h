/* One evaluation's inputs on this rank, in home order (as read): boundaries with geometry and fields,
 * targets, reference lengths, global data. */
#ifndef FF_CASE_H
#define FF_CASE_H

#include "ff_mesh.h"
#include "ff_model.h"

typedef struct ff_source {
    int bc;         /* place of the boundary in the model */
    int64_t n;      /* faces at home on this rank */
    float *x32;     /* [n][dim] centroids as the tree sees them: float32 sums in vertex order, then divided */
    double *x;      /* [n][dim] centroids of the float32 corners in double */
    double *normal; /* [n][dim] unit, or zero for a face without area */
    double *area;   /* [n] area (length in 2D) */
    double *mu;     /* [n] area * weight / reference_area, dimensionless */
    double *field;  /* [n][n_comp] physical fields: all scalars, then all vectors, each sorted by name */
} ff_source;

typedef struct ff_case {
    const ff_model *model; /* borrowed */
    int n_sources;
    ff_source *source; /* the boundaries that are present, in the model's order */
    double *length;    /* [n_len] the model's order, > 0 */
    double *global;    /* global data flattened in sorted order, vectors dim components */
    int target_source; /* targets are the centroids of source[target_source]; -1: target_x */
    int64_t n_targets; /* at home here, if target_source is -1 */
    float *target_x32;
    double *target_x; /* [n_targets][dim] */
    double theta;
    int leaf_size;
    bool expand_far;
} ff_case;

/* Empty case for a model: its theta, leaf size and expansion; lengths and globals zeroed.              Local
 */
ff_status ff_case_create(const ff_model *model, ff_case **out);
void ff_case_destroy(ff_case **c);

/* Geometry of faces: points [..][dim] float32, cells [n][dim] point ids. weight [n] may be NULL (1).   Local
 * Formulas: docs/theory.md, "Geometry of a face". */
ff_status ff_source_geometry(ff_source *s, int dim, const float *points, const int64_t *cells, int64_t n,
                             const double *weight, double reference_area);

/* Adds a boundary from a triangulated mesh (dim 3) or edges (dim 2); cell fields are found by their dotted
 * names or with `/` and `.` written as `_`; `_measure_weights` is optional. shift [3] is subtracted from the
 * points in double before they are rounded to float32 (zero in the usual case). Errors: FF_E_INPUT boundary
 * unknown to the model, missing field (point data of that name is pointed out), wrong number of components.
 * Local */
ff_status ff_case_add_mesh(ff_case *c, const char *bc_name, const ff_mesh *m, const double shift[3]);

/* Targets at given points [n][3] (the first dim coordinates count).                                    Local
 */
ff_status ff_case_set_targets(ff_case *c, const double *points, int64_t n, const double shift[3]);

#endif
