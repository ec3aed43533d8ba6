/* Writing whole surfaces in mesh formats. */
#ifndef FF_MESH_WRITE_H
#define FF_MESH_WRITE_H

#include "ff_mesh.h"

/* FF_E_ARG unless the name ends in a format that is written: .vtkhdf .vtp .h5 .stl .obj .msh .su2. Local */
ff_status ff_mesh_can_write(const char *path);

/* Writes m, held whole on this rank, in the format path's name says: NAME.tmp, flush, rename; overwrites.
 *   .stl     polygons as triangles; binary (float32), or, where there are several patches, text with a solid for each
 *            (cells sorted so); no fields; no 2D (FF_E_ARG)
 *   .obj     points in full precision, patches as groups, polygons; no fields; 2D as lines
 *   .msh     Gmsh 2.2 text: patches as physical groups, fields; polygons beyond four corners as triangles
 *   .su2     markers, patch after patch (cells are sorted so); no fields; polygons as for .msh
 *   .vtkhdf .vtp .h5   with all fields (ff_result.h)
 * What the format cannot hold is left out with a warning that names and counts it.
 * Errors: FF_E_ARG, FF_E_IO, FF_E_MEM. Local */
ff_status ff_mesh_write(const ff_mesh *m, const char *path);

#endif
