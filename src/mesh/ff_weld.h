/* Which points, and which cells, of a mesh are equal. By sorting hashes: n log n, whatever the data. */
#ifndef FF_WELD_H
#define FF_WELD_H

#include "ff_mesh.h"

/* id [n_points]: number of each point's place among the *n_distinct places, in order of first occurrence.
 * Equal means equal coordinates; -0 = 0. Local */
ff_status ff_weld_points(const ff_mesh *m, int64_t *id, int64_t *n_distinct);

/* first [n_cells]: the earliest cell with the same corners, in any order (itself if there is none before).
 * Local */
ff_status ff_weld_cells(const ff_mesh *m, const int64_t *id, int64_t *first);

/* Cells that have the same corners as an earlier cell, in any order; id as above. Local */
ff_status ff_weld_count_repeated(const ff_mesh *m, const int64_t *id, int64_t *n_repeated);

#endif
