/* Integrals over the target boundary: area-weighted means of every output field; pressure and friction forces where
 * the model gives C_p (and C_f). Exact sums (ff_exact.h): the same bits on any number of ranks. */
#ifndef FF_INTEGRAL_H
#define FF_INTEGRAL_H

#include "ff_case.h"
#include "ff_force.h"

typedef struct ff_integral_opts {
    double center[3];     /* moments are about this point, m */
    double shift[3];      /* what was subtracted from the mesh's coordinates (ff_case_add_mesh) */
    const int32_t *patch; /* [n home faces] of each face, NULL: no patches */
    int n_patches;
} ff_integral_opts;

typedef struct ff_integrals {
    double area; /* sum of face areas, m2 */
    int n_comp;
    double *mean; /* [n_comp] area-weighted means, fields sorted as in the outputs; owned */
    int n_patches;
    ff_force *force; /* [1 + n_patches] of loads C_p and C_f, all faces first; NULL without C_p; owned */
} ff_integrals;

/* rows [n home faces][n_comp]: outputs at the face centroids of source s of the case. Collective */
ff_status ff_integrals_run(ff_comm *comm, const ff_case *c, int s, const double *rows,
                           const ff_integral_opts *opts, ff_integrals *out);
void ff_integrals_free(ff_integrals *i);

#endif
