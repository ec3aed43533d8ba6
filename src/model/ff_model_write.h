/* Writing model files (docs/formats.md, "Model file"). */
#ifndef FF_MODEL_WRITE_H
#define FF_MODEL_WRITE_H

#include "ff_h5.h"
#include "ff_model.h"

/* Attributes, digest and /weights of a model into an open, empty file; values [n_tensors] in place of the model's own
 * (averaged weights), or NULL. source: text for the attribute. Local */
ff_status ff_model_put(ff_h5 *f, const ff_model *m, float *const *values, const char *source);

/* The model as a file: NAME.tmp, flush, rename; overwrites. FF_E_IO, FF_E_MEM.                          Local */
ff_status ff_model_write(const ff_model *m, float *const *values, const char *source, const char *path);

/* SHA-256 of the tensors as docs/formats.md defines it. Local */
ff_status ff_model_digest(const ff_model *m, float *const *values, char hex[65]);

/* Fails where the tensors of /weights as stored, whatever they are, have another digest than the file says. FF_E_INPUT.
 *                                                                                                       Local */
ff_status ff_model_check_digest(const ff_h5 *f);

/* Dataset name of a tensor in a group: '/' becomes '|'. out [n] */
void ff_model_dataset_name(char *out, size_t n, const char *group, const char *tensor);

#endif
