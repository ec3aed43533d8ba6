/* Gmsh files (.msh), versions 2.0 to 2.2 and 4.1, text and binary of both byte orders. */
#ifndef FF_GMSH_H
#define FF_GMSH_H

#include "ff_bytes.h"
#include "ff_mesh.h"

/* Reads a .msh or .msh.gz whole on this rank. Triangles and quadrilaterals of any order are the surface, each by its
 * corners; volumes are ignored then. A file with volumes alone gives their boundary, one with lines alone a curve,
 * dim 2. Patches: names of physical groups, "physical N" without a name, "entity N" without a group. Local
 * Errors: FF_E_INPUT with line or section and row; FF_E_UNSUPPORTED for other versions. */
ff_status ff_gmsh_read(const char *path, const ff_read_opts *opts, ff_mesh **out);
/* The same from an open reader (b at its start), before scaling: the last step is ff_mesh_finish. */
ff_status ff_gmsh_parse(ff_bytes *b, ff_mesh **out);

#endif
