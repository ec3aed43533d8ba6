/* Wavefront OBJ: v, f, l; groups (g, o) as patches, equal names merged; materials, textures, normals ignored.
 */
#ifndef FF_OBJ_H
#define FF_OBJ_H

#include "ff_bytes.h"
#include "ff_mesh.h"

/* Reads a .obj or .obj.gz whole on this rank. A file with lines (l) and no face gives a curve, dim 2. Local
 * Errors: FF_E_INPUT with the line: id zero or out of range, too few corners, word that is no number. */
ff_status ff_obj_read(const char *path, const ff_read_opts *opts, ff_mesh **out);
/* The same from an open reader (b at its start), before scaling: the last step is ff_mesh_finish. */
ff_status ff_obj_parse(ff_bytes *b, ff_mesh **out);

#endif
