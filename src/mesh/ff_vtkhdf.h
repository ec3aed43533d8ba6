/* VTKHDF PolyData reader (format versions 1 and 2, also temporal files). The writer is part of ff_result. */
#ifndef FF_VTKHDF_H
#define FF_VTKHDF_H

#include "ff_mesh.h"

/* Reads time step opts->step whole on this rank. Parts become patches "part 0", ... when more than one; Local
 * our own results keep the patches they were made from.
 * Polygons and Strips (as triangles) give a surface, Lines a 2D curve when there is neither.
 * Errors: FF_E_INPUT for a foreign, truncated or malformed file, with dataset and row. */
ff_status ff_vtkhdf_read(const char *path, const ff_read_opts *opts, ff_mesh **out);

/* Reads over ranks, each its share of cells, if files can be shared (ff_h5_can_share) and all cells are
 * polygons; else *done is false and nothing was read. Same meshes as ff_vtkhdf_read and ff_mesh_scatter.
 * Collective */
ff_status ff_vtkhdf_read_shared(ff_comm *comm, const char *path, const ff_read_opts *opts, bool *done,
                                ff_mesh **out);

#endif
