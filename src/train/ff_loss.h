/* Losses of fields at targets and their cotangents. Sums are exact (ff_exact.h): equal bits on any number of ranks. */
#ifndef FF_LOSS_H
#define FF_LOSS_H

#include "ff_comm.h"
#include "ff_model_config.h"

enum { FF_LOSS_FIELDS_MAX = 64 };

/* Of each output field, with <.> the mean over targets whose value is known, by weight, and s its scale:
 *   mse         <|y - t|^2> / s^2
 *   relative    <|y - t|^2> / (<|t|^2> + floor s^2)
 * The loss is their sum. Fields, weights and scales may have any unit. */
typedef struct ff_loss_opts {
    bool relative;
    bool blank; /* a field of which nothing is known, or relative with 0 to compare with, is NaN and not 0 */
    double floor;
    double scale[FF_LOSS_FIELDS_MAX]; /* of each output field, sorted as in the outputs; > 0 */
} ff_loss_opts;

/* rows, truth [n][n_comp] of this rank's targets (truth NaN: unknown, left out), weight [n] >= 0 or NULL (all 1).
 * part [outputs->n]: the fields' losses (0 where nothing is known, but see blank); cotangent [n][n_comp] d loss / d rows, or NULL.
 * Errors: FF_E_ARG more than FF_LOSS_FIELDS_MAX fields.                                          Collective */
ff_status ff_loss_run(ff_comm *comm, const ff_name_list *outputs, int dim, int64_t n, const double *rows,
                      const double *truth, const double *weight, const ff_loss_opts *opts, double *part,
                      double *cotangent);

#endif
