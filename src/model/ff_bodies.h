/* Surfaces made in memory for benchmarks, plans and tests. Coordinates are rounded to float32, in metres;
 * normals point outwards (floors: up). Every rank makes the whole surface. */
#ifndef FF_BODIES_H
#define FF_BODIES_H

#include "ff_mesh.h"

enum { FF_BODY_SPLIT_MAX = 9, FF_BODY_PARTS_MAX = 4000 };

/* The measured cases: a lumpy body over two plane floors of 722 faces.
 *   car:S    icosahedron with bumps, S Loop subdivisions (0 .. 9): 20 x 4^S faces
 *   car:nF   icosahedron with every edge cut in F parts (1 .. 4000), on the sphere: 20 F^2 faces
 * Both are scaled to the mean radius 1, stretched by (2.3, 0.9, 0.7) and raised by 0.9.
 * Floors: z = 0, 20 x 20 points, y in [-11, 11]; no_slip x in [-2.339, 10], slip x in [-10, -2.339].
 * Meshes owned by the caller, NULL on failure. Errors: FF_E_ARG unknown case; FF_E_MEM.              Local */
ff_status ff_body_car(const char *case_name, ff_mesh **body, ff_mesh **no_slip, ff_mesh **slip);

enum { FF_BODY_LUMPS = 12 };

/* Icosahedron with its corners at these distances from the origin, smoothed by Loop subdivision: 20 x 4^splits faces,
 * outward, divided by the mean distance of its points; double, not rounded.                            Local
 * Errors: FF_E_ARG splits outside 0 .. 9; FF_E_MEM. */
ff_status ff_body_lumpy(const double radius[FF_BODY_LUMPS], int splits, ff_mesh **out);

/* Ellipsoid with these semi-axes about centre: 20 parts^2 faces, corners on the surface.              Local
 * Errors: FF_E_ARG parts outside 1 .. 4000 or an axis not > 0; FF_E_MEM. */
ff_status ff_body_ellipsoid(const double axes[3], const double centre[3], int parts, ff_mesh **out);

#endif
