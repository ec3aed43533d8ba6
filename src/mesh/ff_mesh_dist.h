/* Parts of a mesh over ranks: the pieces from which ff_mesh_read_dist and the writers are made. */
#ifndef FF_MESH_DIST_H
#define FF_MESH_DIST_H

#include "ff_mesh.h"

/* First of the n items that rank r of size holds: floor(n r / size), without overflow. */
int64_t ff_share_begin(int64_t n, int r, int size);
/* The rank that holds item i of n. */
int ff_share_owner(int64_t n, int64_t i, int size);
/* Keeps rank r's share of the cells of a whole mesh without cell_off, patches and fields; all points stay. Local */
void ff_mesh_keep_share(ff_mesh *m, int r, int size);

/* Gives each rank the points its cells use, and each unused point to the rank of its share. Collective
 * Before: cell_pts hold the file's point numbers, points and point fields the rows of this rank's share of
 * the n_points_global points. After: points ascend by point_gid, cell_pts are local. Fields are the same on
 * all ranks. The union over ranks of point_gid is all points, so that a writer can emit each once. */
ff_status ff_mesh_localise(ff_comm *comm, ff_mesh *m, int64_t n_points_global);

/* Sends the mesh of rank 0 (read whole; NULL elsewhere) in shares to all ranks; *whole is freed. Collective
 */
ff_status ff_mesh_scatter(ff_comm *comm, ff_mesh **whole, ff_mesh **out);

#endif
