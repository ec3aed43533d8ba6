/* Potential flow past triaxial ellipsoids: random bodies and the exact solution on them (Lamb, Hydrodynamics, art. 114).
 * With alpha_i = abc int_0^inf dl / ((a_i^2 + l) sqrt((a^2 + l)(b^2 + l)(c^2 + l))) and a free stream U:
 *     V = R diag(2 / (2 - alpha_i)) R^T U,   U_t = V - n (n . V),   C_p = 1 - |U_t|^2 / |U|^2 */
#ifndef FF_ELLIPSOID_H
#define FF_ELLIPSOID_H

#include "ff_mesh.h"

typedef struct ff_ellipsoid {
    double axes[3];   /* semi-axes, m */
    double rot[3][3]; /* x = rot diag(axes) q, |q| = 1 */
} ff_ellipsoid;

/* Random axes (log-uniform in [0.5, 2], scaled to abc = 1) and rotation: a pure function of (seed, body). Local */
ff_ellipsoid ff_ellipsoid_random(uint64_t seed, uint64_t body);
/* A random direction, uniform on the sphere. Local */
void ff_random_direction(uint64_t seed, uint64_t stream, double out[3]);

/* Irregular mesh of it: lumpy icosahedron (log-normal radii, sigma to 0.3), Loop subdivision, points shaken along the unit
 * sphere (sigma to 0.12 edge lengths), mapped to the ellipsoid, rounded to float32. 20 x 4^splits faces. Local; FF_E_MEM */
ff_status ff_ellipsoid_mesh(const ff_ellipsoid *e, uint64_t seed, uint64_t body, int splits, ff_mesh **out);

/* Exact C_p and U_t / |U| at points x [3] near the surface (their normal: where x, divided by the axes, meets the unit
 * sphere), for a free stream along u (unit). Local */
void ff_ellipsoid_flow(const ff_ellipsoid *e, const double u[3], const double x[3], double *cp, double ut[3]);

#endif
