/* Forces and moments on a surface from pressure and shear stress at its faces, in all and patch by patch.
 * Exact sums (ff_exact.h): the same bits on any number of ranks.
 *     F = sum (-p n + tau) dA        M = sum (x - center) x (-p n + tau) dA */
#ifndef FF_FORCE_H
#define FF_FORCE_H

#include "ff_comm.h"
#include "ff_mesh.h"

/* This rank's faces. Arrays are borrowed. */
typedef struct ff_faces {
    int dim;
    int64_t n;
    const double *x, *normal; /* [n][dim] centroids, unit normals out of the body (zero without area) */
    const double *area;       /* [n] m2 (2D: m) */
    const int32_t *patch;     /* [n] below n_patches; NULL: all 0 */
    int n_patches;
    double shift[3]; /* added to x */
} ff_faces;

/* Values at the faces: pressure at p[i * stride], stress at tau[i * stride + d]; either may be NULL. */
typedef struct ff_loads {
    const double *p, *tau;
    int p_stride, tau_stride;
} ff_loads;

typedef struct ff_force {
    double area;                                   /* m2 */
    double pressure[3], friction[3];               /* parts of F, unit of the loads x m2 */
    double moment_pressure[3], moment_friction[3]; /* parts of M, unit of the loads x m3 */
} ff_force;

/* out [1 + n_patches], the caller's: all faces, then each patch.
 * Errors: FF_E_MEM. A load that is not finite or a sum beyond 2^46 makes that figure NaN.            Collective */
ff_status ff_forces_sum(ff_comm *comm, const ff_faces *f, const ff_loads *loads, const double center[3],
                        ff_force *out);

/* Geometry of a mesh's own cells in double: centroid (area-weighted over a fan's triangles; edges: the middle), unit
 * normal (dim 2: (-dy, dx)), area (of the vector area, so that a closed surface's normals add up to nothing).
 * x, normal [n_cells][dim] and area [n_cells] owned by the caller (ff_free), NULL on failure.             Local */
ff_status ff_faces_of_mesh(const ff_mesh *m, double **x, double **normal, double **area);

#endif
