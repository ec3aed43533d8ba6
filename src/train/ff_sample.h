/* One training sample on the ranks of its group: the case to evaluate, the true values at its targets, their measure. */
#ifndef FF_SAMPLE_H
#define FF_SAMPLE_H

#include "ff_case.h"

typedef struct ff_sample {
    char *name;
    ff_case *c;
    int64_t n;      /* home targets */
    double *truth;  /* [n][n_comp] fields sorted as the model's outputs; NaN: unknown */
    double *weight; /* [n] measure in the loss: areas of faces, or the file's weights, or 1 */
    ff_mesh *
        mesh; /* with keep_mesh: this rank's faces of the boundary the targets belong to; NULL: free points */
    bool drawn; /* not all of its faces: its points have no numbers that hold over ranks */
} ff_sample;

typedef struct ff_sample_opts {
    int64_t
        faces; /* faces drawn at random from each boundary that has more; 0: all. One area factor keeps its area */
    int64_t targets; /* free target points drawn at random; 0: all */
    bool inside; /* targets at a random point of each face instead of its centroid (targets on a boundary) */
    bool keep_mesh;      /* for the fields of a validation */
    uint64_t seed, draw; /* draws are a function of (seed, draw, face or point number) alone */
} ff_sample_opts;

/* Reads a sample file (docs/formats.md, "Training samples"), each rank its share. The model says which boundaries,
 * fields, lengths and global data are needed; output fields that the file lacks are unknown everywhere.
 * Errors: FF_E_INPUT no sample file, no output field, something missing or of wrong shape (file, name, what was expected).
 *                                                                                                    Collective */
ff_status ff_sample_read(ff_comm *comm, const ff_model *m, const char *path, const ff_sample_opts *opts,
                         ff_sample **out);

/* Adds 1 to has [outputs] for each of the model's output fields that the file holds. Errors: as above.        Local */
ff_status ff_sample_fields(const ff_model *m, const char *path, int64_t *has);

/* The exact flow past random ellipsoid `body` of `seed`, 20 x 4^splits faces, free stream of draw `draw`; the model must
 * have boundary body without fields, one length, global vector U_dir, outputs among C_p (scalar) and U_t (vector).
 * Errors: FF_E_ARG the model has something else.                                                         Collective */
ff_status ff_sample_ellipsoid(ff_comm *comm, const ff_model *m, uint64_t seed, uint64_t body, int splits,
                              uint64_t draw, bool keep_mesh, ff_sample **out);
/* The same body in the free stream of another draw.                                                          Local */
void ff_sample_ellipsoid_turn(ff_sample *s, uint64_t seed, uint64_t body, uint64_t draw);
void ff_sample_destroy(ff_sample **s);

#endif
