/* Integrals over the target boundary: area-weighted means of every output field; force and moment
 * coefficients where the model gives C_p and C_f. Exact sums (ff_exact.h): the same bits on any number of
 * ranks. */
#ifndef FF_INTEGRAL_H
#define FF_INTEGRAL_H

#include "ff_case.h"

typedef struct ff_integral_opts {
    double area;      /* reference area of the coefficients, m2 (2D: length) */
    double length;    /* reference length of moments, m */
    double center[3]; /* moments are about this point, m */
    double shift[3];  /* what was subtracted from the mesh's coordinates (ff_case_add_mesh) */
} ff_integral_opts;

typedef struct ff_integrals {
    double area; /* sum of face areas, m2 */
    int n_comp;
    double *mean;                  /* [n_comp] area-weighted means, fields sorted as in the outputs; owned */
    bool has_force;                /* C_p (scalar) and C_f (vector) are outputs */
    double force_p[3], force_f[3]; /* pressure and friction parts: (1/A) sum (-C_p n) dA, (1/A) sum C_f dA */
    double moment_p[3], moment_f[3]; /* (1/(A L)) sum (x - center) x (...) dA */
} ff_integrals;

/* rows [n home faces][n_comp]: outputs at the face centroids of source s of the case. Collective */
ff_status ff_integrals_run(ff_comm *comm, const ff_case *c, int s, const double *rows,
                           const ff_integral_opts *opts, ff_integrals *out);
void ff_integrals_free(ff_integrals *i);

#endif
