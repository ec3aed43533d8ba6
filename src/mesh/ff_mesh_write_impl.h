/* What the writers of mesh formats share. */
#ifndef FF_MESH_WRITE_IMPL_H
#define FF_MESH_WRITE_IMPL_H

#include "ff_mesh.h"
#include "ff_text.h"

#include <stdio.h>

/* Text goes out in chunks, so that memory does not grow with the file: writes t and empties it if it holds limit
 * bytes or more. */
enum { FF_WRITE_CHUNK = 1 << 20 };
ff_status ff_write_text(ff_text *t, FILE *f, const char *path, int64_t limit);

/* Binary, or text with a solid a patch where there are several. */
ff_status ff_write_stl(const ff_mesh *m, FILE *f, const char *path);
bool ff_write_stl_is_text(const ff_mesh *m);
/* Gmsh 2.2, text: patches as physical groups by name; polygons of more than four corners as triangles; fields. */
ff_status ff_write_gmsh(const ff_mesh *m, FILE *f, const char *path);
/* SU2 without volume elements: patches as markers, one after the other; polygons as above. */
ff_status ff_write_su2(const ff_mesh *m, FILE *f, const char *path);

#endif
