/* Parts of the predict verb. */
#ifndef PREDICT_H
#define PREDICT_H

#include "app_boundary.h"
#include "app_forces.h"
#include "ff_eval.h"
#include "ff_integral.h"
#include "ff_result.h"

typedef enum predict_kind { AT_CENTROIDS, AT_MESH_POINTS, AT_FILE_POINTS } predict_kind;

typedef struct predict {
    ff_app *app;
    ff_model *model;
    int n_boundaries, target; /* target: boundary whose faces or points are the targets */
    app_boundary *boundary;   /* as read: polygons or edges, this rank's part */
    ff_mesh **tri;            /* [n_boundaries] triangles, where boundary[i].mesh has polygons; else NULL */
    int64_t **parent;         /* [n_boundaries] cell of each triangle */
    double shift[3];
    ff_case *c;
    ff_eval *e;
    predict_kind kind;
    int64_t n_rows;  /* home targets */
    double *x_point; /* [n_rows][3] target points, unless centroids */
    int n_comp;
    double *rows; /* [n_rows][n_comp] */
    ff_integrals integrals;
    app_forces forces;
    bool has_integrals;
} predict;

/* Boundaries, lengths, globals and targets into the case.                                          Collective
 */
ff_status predict_setup(predict *p);
void predict_free(predict *p);
/* Where the fields are wanted.                                                                     Collective
 */
ff_status predict_targets(predict *p);
/* Of rows that are there; the run goes on, its result shows where. Collective */
ff_status predict_warn_not_finite(const predict *p);
/* Integrals to output, JSON and p->integrals.                                                      Collective
 */
ff_status predict_integrals(predict *p);
/* Random targets again without far field; prints error percentiles.                                Collective
 */
ff_status predict_check(predict *p, int64_t k);
/* Sizes, memory and a time estimate; FF_E_MEM where the budget does not hold it.                   Collective
 */
ff_status predict_dry_run(predict *p);
/* Fields to the output file.                                                                       Collective
 */
ff_status predict_write(predict *p);

/* Values at the points of the target mesh (local order, duplicates included) from rows at home shares.
 * Collective */
ff_status predict_spread_points(const predict *p, double **local);

#endif
