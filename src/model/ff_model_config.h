/* Constructor arguments of a GLOBE model, as read from JSON (keys in docs/formats.md), and the shapes they
 * imply. Lists that the mathematics sorts are kept sorted by dotted name: output fields byte by byte, fields and
 * global data as features (docs/theory.md, "Input"); boundaries and lengths keep the order of the JSON text ("the model's order"). */
#ifndef FF_MODEL_CONFIG_H
#define FF_MODEL_CONFIG_H

#include "ff_globe.h"

typedef struct ff_ranked_name {
    char *name; /* dotted */
    int rank;   /* 0 scalar, 1 vector */
} ff_ranked_name;

typedef struct ff_name_list {
    int n;
    ff_ranked_name *item;
} ff_name_list;

typedef struct ff_model_bc {
    char *name;
    ff_name_list fields; /* sorted: scalars and vectors mixed */
} ff_model_bc;

typedef struct ff_model_config {
    int dim;
    ff_name_list outputs; /* sorted */
    int n_bc;
    ff_model_bc *bc;
    int n_len;
    char **len;                                           /* the model's order */
    ff_name_list globals;                                 /* sorted */
    double reference_area, eps, theta, beta, compression; /* beta, compression: 0 if absent */
    int n_comm, n_latent_scalar, n_latent_vector, n_hidden, hidden[FF_GLOBE_MAX_LAYERS], n_harm, leaf_size;
    bool mlp, expand_far;
    char *json; /* the text itself */
} ff_model_config;

/* Parses the JSON text of the constructor arguments; where names the source in messages.
 * Errors: FF_E_INPUT unknown or missing key, value out of range.                                    Local */
ff_status ff_model_config_parse(const char *json, const char *where, ff_model_config **out);
void ff_model_config_destroy(ff_model_config **c);

int ff_model_find_bc(const ff_model_config *c, const char *name); /* -1 if absent */

/* Counts of a list by rank, and components of all its entries (vectors count dim). */
int ff_names_count(const ff_name_list *l, int rank);
int ff_names_comp(const ff_name_list *l, int dim);

/* Output fields of layer `layer` (0 .. n_comm; n_comm is the final one), sorted; owned by the caller. For a
 * communication layer: latent.scalars.*, latent.vectors.*, strengths.*: in this order by the sort.      */
ff_status ff_model_layer_fields(const ff_model_config *c, int layer, ff_name_list *out);
void ff_name_list_free(ff_name_list *l);
/* Rank of the place of length i (the model's order) among the sorted length names. */
int ff_model_length_slot(const ff_model_config *c, int i);

/* Shape of the network of (layer, bc). field_rank points into ranks, caller's storage of at least n_field
 * ints (ff_model_max_fields). */
int ff_model_max_fields(const ff_model_config *c);
void ff_model_shape(const ff_model_config *c, int layer, int bc, int *ranks, ff_globe_shape *out);

/* Global scalars (sorted; log length ratios included) and vectors [n][dim] from values in the order of
 * c->globals (flattened, vectors dim components) and lengths [n_len]. Local */
ff_status ff_model_globals(const ff_model_config *c, const double *values, const double *length,
                           double *gscalar, double *gvector);
/* Its adjoint: adds to values_bar and length_bar (through the log ratios).                               Local */
ff_status ff_model_globals_adjoint(const ff_model_config *c, const double *length, const double *gscalar_bar,
                                   const double *gvector_bar, double *values_bar, double *length_bar);

#endif
