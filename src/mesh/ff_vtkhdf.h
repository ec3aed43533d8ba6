/* VTKHDF PolyData reader and writer (format version 2.0, also temporal files). */
#ifndef FF_VTKHDF_H
#define FF_VTKHDF_H

#include "ff_mesh.h"

/* Reads time step opts->step whole on this rank. Parts become patches "part 0", ... when more than one.    Local
 * Polygons and Strips (as triangles) give a surface, Lines a 2D curve when there is neither.
 * Errors: FF_E_INPUT for a foreign, truncated or malformed file, with dataset and row. */
ff_status ff_vtkhdf_read(const char *path, const ff_read_opts *opts, ff_mesh **out);

#endif
