/* A trained GLOBE model: constructor arguments and tensors under their state-dict names. */
#ifndef FF_MODEL_H
#define FF_MODEL_H

#include "ff_comm.h"
#include "ff_model_config.h"

typedef struct ff_tensor {
    char *name;
    int n_dim;
    int64_t shape[2];
    int64_t n;
    float *value;
} ff_tensor;

typedef struct ff_model {
    ff_model_config *config;
    int n_tensors;
    ff_tensor *tensor; /* sorted by name (strcmp) */
    char *source;      /* where it came from, for the header lines */
} ff_model;

/* Reads a model file (docs/formats.md) on rank 0 and spreads it. Every tensor the constructor arguments imply
 * must be there with its shape. Errors: FF_E_INPUT no model file, wrong or missing tensor (name, shape,
 * expected shape).       Collective */
ff_status ff_model_read(ff_comm *comm, const char *path, ff_model **out);
/* From an open group that holds one dataset a tensor (golden files).                              Local */
ff_status ff_model_from_group(const char *path, const char *group, const char *json, ff_model **out);
/* Fresh weights for benchmarks: the reference's initial distribution (uniform, +-1/sqrt(fan in)), from seed.
 * Local */
ff_status ff_model_random(const char *json, uint64_t seed, ff_model **out);
void ff_model_destroy(ff_model **m);

const ff_tensor *ff_model_tensor(const ff_model *m, const char *name); /* NULL if absent */

/* Weights w[l] [out][in] and biases b[l] of the network of (layer, bc, length i), l = 0 .. n_hidden. */
void ff_model_network(const ff_model *m, int layer, int bc, int len, const float **w, const float **b);
double ff_model_log_scale(const ff_model *m, int layer, int bc, int len);
/* Calibration of output field i (sorted): y = weight y + bias (bias 0 for vectors). */
void ff_model_calibration(const ff_model *m, int field, double *weight, double *bias);

#endif
