/* Rows of the verify verb: one quantity, its worst relative error, its tolerance. */
#ifndef VERIFY_H
#define VERIFY_H

#include "ff_app.h"
#include "ff_eval.h"
#include "ff_golden.h"

typedef struct verify {
    ff_app *app;
    const char *file; /* short name for the rows */
    const ff_golden *g;
    int n_rows, n_failed;
} verify;

bool verify_f64(const verify *v); /* --precision f64 */
/* Prints and counts one row; err is this rank's worst, the largest of all ranks counts.      Collective */
ff_status verify_row(verify *v, const char *what, double err, double tol);
/* A row that says why there is nothing to compare; does not count.                           Collective */
void verify_note(verify *v, const char *what, const char *why);

/* Trees and plans of the file against serial ones; then the distributed plans against those. */
ff_status verify_trees_and_plans(verify *v, const ff_eval *e);
ff_status verify_geometry(verify *v);

/* Largest |a - b| / max |b| over rows; 0 where both are empty. NaN counts as infinite. */
double verify_error(const double *a, const double *b, int64_t n, double scale);
double verify_max_abs(const double *b, int64_t n);

#endif
