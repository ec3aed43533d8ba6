/* Parts of a mesh: how large its patches are, and some cells as a mesh of their own. */
#ifndef FF_EXTRACT_H
#define FF_EXTRACT_H

#include "ff_mesh.h"

/* The cells c with keep[c] != 0 (NULL: all), in order, with the points they use, patches that still hold a
 * cell, and fields. flip[c] != 0 (NULL: none) reverses a cell's corners, the first staying first. weld
 * [n_points] (NULL: none): points of equal number become one, the first of them (ff_weld_points). out is
 * owned by the caller.      Local */
ff_status ff_mesh_extract(const ff_mesh *m, const uint8_t *keep, const uint8_t *flip, const int64_t *weld,
                          ff_mesh **out);

/* Cells of each patch: n_cells [m->n_patches].                                                           Local */
void ff_mesh_patch_cells(const ff_mesh *m, int64_t *n_cells);

#endif
