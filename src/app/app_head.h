/* Parameters, weights and cell of an embedding head as a group of an HDF5 file holds them (docs/formats.md). */
#ifndef APP_HEAD_H
#define APP_HEAD_H

#include "farfield_head.h"

#include "ff_h5.h"

typedef struct app_head {
    ff_head_opts o;
    double cutoff; /* 0: not in the file */
    double *w1, *w2;
} app_head;

/* W1 and W2, and what the group's attributes say of the head (cutoff, channels, lmax, n_radial, rbf_exponent,
 * degree_exponent, degree_floor, each optional); h->o holds what counts where an attribute is missing, its lmax 0 if
 * the file must say it. Errors: FF_E_INPUT missing, sizes that disagree.                                     Local */
ff_status app_head_read(const ff_h5 *f, const char *group, app_head *h);
void app_head_free(app_head *h);

/* Attribute box or cell: 1 edge length, 3, or 9 numbers (rows are vectors); 0 along an axis that does not repeat;
 * attribute pbc: 3 flags. *has: whether any axis repeats. Local */
ff_status app_cell_read(const ff_h5 *f, const char *group, ff_cell *cell, bool *has);
/* The same from n (1, 3 or 9) numbers; name stands in messages. Local */
ff_status app_cell_of(const char *name, const double *v, int64_t n, ff_cell *cell, bool *has);

/* Whole dataset of n elements in rows of any shape; *out owned by the caller. Local */
ff_status app_read_f64(const ff_h5 *f, const char *dataset, int64_t n, double **out);
ff_status app_narrow(const double *x, int64_t n, float **out);

#endif
