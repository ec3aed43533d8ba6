/* OpenFOAM meshes: the boundary of a polyMesh folder, and triangulated surfaces in OpenFOAM's own format (.ftr).
 * Text, .gz, and binary files whose header says how ("arch"). */
#ifndef FF_FOAM_H
#define FF_FOAM_H

#include "ff_mesh.h"

/* Whether path is a folder, or a marker case.foam of the folder it lies in. */
bool ff_foam_is(const char *path);

/* Reads the boundary of the polyMesh in a folder: path itself, path/polyMesh, path/constant/polyMesh, or those beside
 * a marker .foam. Patches are named name[type] and hold their faces in order; those of type empty (2D cases: the
 * front and the back) and processor (cuts of a decomposed case) are left out. All points of the mesh are kept. Local
 * Errors: FF_E_INPUT with file and line; a patch outside the faces, faces inside the mesh that lack an owner. */
ff_status ff_foam_read(const char *path, const ff_read_opts *opts, ff_mesh **out);

/* Reads a surface (.ftr), its regions as patches. A file of a polyMesh is refused: its folder is the mesh. Local */
ff_status ff_foam_read_surface(const char *path, const ff_read_opts *opts, ff_mesh **out);

#endif
