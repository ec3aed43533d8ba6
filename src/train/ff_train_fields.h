/* Fields of a validation as files to look at. */
#ifndef FF_TRAIN_FIELDS_H
#define FF_TRAIN_FIELDS_H

#include "ff_sample.h"

/* Writes for each output field NAME what the model gives, as NAME_true what is known (NaN elsewhere), as NAME_error their
 * difference: at the sample's faces (its mesh) or points. rows [s->n][n_comp] of this rank's targets. An earlier file of that
 * name is replaced once the new one is whole.
 * Errors: as ff_result_write.                                                                            Collective */
ff_status train_fields_write(ff_comm *comm, const ff_sample *s, const double *rows, const char *path);

#endif
