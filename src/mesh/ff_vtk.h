/* Legacy VTK files (.vtk), text and binary, versions 1 to 5.1: POLYDATA, and UNSTRUCTURED_GRID as ff_ugrid.h has it. */
#ifndef FF_VTK_H
#define FF_VTK_H

#include "ff_mesh.h"

typedef struct ff_bytes ff_bytes;

/* Reads a .vtk or .vtk.gz whole on this rank; point and cell data become fields. Local
 * Errors: FF_E_INPUT with file and line; FF_E_UNSUPPORTED other data sets, by name. */
ff_status ff_vtk_read(const char *path, const ff_read_opts *opts, ff_mesh **out);
/* The same from open bytes; the mesh is not finished yet (ff_mesh_finish). */
ff_status ff_vtk_parse(ff_bytes *b, ff_mesh **out);

#endif
