/* PLY, text and binary of both byte orders. Scalar properties of vertex (but x, y, z) and face become fields;
 * lists other than the corners and elements other than vertex and face are read over. */
#ifndef FF_PLY_H
#define FF_PLY_H

#include "ff_bytes.h"
#include "ff_mesh.h"

/* Reads a .ply or .ply.gz whole on this rank. Text rows stand one a line. Local Errors: FF_E_INPUT with line,
 * or element and row of a binary file: rows that contradict the header (too few or too many values, too few
 * or too many rows), corner out of range, coordinate that is not finite. */
ff_status ff_ply_read(const char *path, const ff_read_opts *opts, ff_mesh **out);
/* The same from an open reader (b at its start), before scaling: the last step is ff_mesh_finish. */
ff_status ff_ply_parse(ff_bytes *b, ff_mesh **out);

#endif
