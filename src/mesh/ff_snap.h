/* Points that lie closer than a tolerance, moved onto one place. */
#ifndef FF_SNAP_H
#define FF_SNAP_H

#include "ff_mesh.h"

/* Each point in file order is moved onto the earliest kept point within tolerance (metres, > 0), or is kept itself: no
 * chains, so nothing moves further than the tolerance, and kept points lie further apart than it. *n_moved counts
 * points whose coordinates changed. O(points) time and memory.                                           Local
 * Errors: FF_E_ARG a tolerance that is not positive and finite, or so small that coordinates / tolerance exceeds
 * 2^52; FF_E_MEM. */
ff_status ff_mesh_snap(ff_mesh *m, double tolerance, int64_t *n_moved);

#endif
