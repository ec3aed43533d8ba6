/* Reference files of the public implementation (layout: docs/formats.md, "Golden files"): the case they hold,
 * ready to be evaluated on any number of ranks, and access to the arrays to compare with. */
#ifndef FF_GOLDEN_H
#define FF_GOLDEN_H

#include "ff_case.h"
#include "ff_h5.h"

typedef struct ff_golden {
    char *path;
    ff_h5 *file; /* opened by each rank for itself */
    ff_model *model;
    ff_case
        *c; /* rank r has faces [n r / size, n (r + 1) / size) of every boundary at home, points likewise */
    char (*source_name)[512]; /* [c->n_sources] as the file writes it */
    int64_t *n_faces;         /* [c->n_sources] of all ranks */
    int64_t n_targets;        /* of all ranks */
} ff_golden;

/* Whether the file is a GLOBE reference (it has constructor arguments), a scatter or a head one. Local */
typedef enum ff_golden_kind {
    FF_GOLDEN_GLOBE,
    FF_GOLDEN_SCATTER,
    FF_GOLDEN_HEAD,
    FF_GOLDEN_UNKNOWN
} ff_golden_kind;
ff_status ff_golden_kind_of(const char *path, ff_golden_kind *out);

ff_status ff_golden_open(ff_comm *comm, const char *path, ff_golden **out); /* Collective */
void ff_golden_close(ff_golden **g);

/* The roundings behind the file's float64 values, after which ours may be compared as closely as double allows: faces
 * get its float32 measures, the square of the smoothing radius is rounded to float32 (1.7e-8 of 1e-16: what a face alone
 * adds to itself). Before ff_eval_create. Errors: FF_E_INPUT measures are missing or of another shape. Collective */
ff_status ff_golden_round_as_file(ff_comm *comm, ff_golden *g);

/* Name of source i as the file writes it, or "prediction" for i = -1. */
const char *ff_golden_name(const ff_golden *g, int i);
/* Name of a field, boundary or length as the file writes it: `/` becomes `|`. out [512]. */
void ff_golden_field(const char *name, char *out);

/* Whole dataset in the asked type; owned by the caller; n elements, first dimension *rows. Missing:
 * FF_E_INPUT. */
ff_status ff_golden_f64(const ff_golden *g, const char *dataset, double **out, int64_t *rows,
                        int64_t *row_len);
ff_status ff_golden_i64(const ff_golden *g, const char *dataset, int64_t **out, int64_t *n);
bool ff_golden_has(const ff_golden *g, const char *dataset);

#endif
