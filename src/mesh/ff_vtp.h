/* VTP (VTK XML PolyData) and VTU (UnstructuredGrid, see ff_ugrid.h) reader. Inline text and base64, appended raw and base64, zlib blocks or none, both
 * header widths and byte orders; Polys and Strips (as triangles) give a surface, Lines a 2D curve when there
 * is neither. */
#ifndef FF_VTP_H
#define FF_VTP_H

#include "ff_mesh.h"

/* Reads a .vtp or .vtu (or .gz of one) whole on this rank. Pieces become patches "piece 0", ... when more than one. Local
 * Errors: FF_E_INPUT with file, line and array; FF_E_UNSUPPORTED for another compressor, by name. */
ff_status ff_vtp_read(const char *path, const ff_read_opts *opts, ff_mesh **out);

/* The same from bytes in memory; name stands in messages. Local */
ff_status ff_vtp_parse(const char *name, const char *text, size_t bytes, const ff_read_opts *opts,
                       ff_mesh **out);

#endif
