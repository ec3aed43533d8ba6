/* SU2 meshes (.su2): the markers of one or several zones. */
#ifndef FF_SU2_H
#define FF_SU2_H

#include "ff_bytes.h"
#include "ff_mesh.h"

/* Reads a .su2 or .su2.gz whole on this rank. Markers are patches, in a file of several zones named "zone1/inlet".
 * NDIME= 2 gives a curve, dim 2. All points of the file are kept, zone after zone; volume elements are checked and
 * dropped. Local
 * Errors: FF_E_INPUT with the line: counts that the rows contradict, point ids out of range, missing parts. */
ff_status ff_su2_read(const char *path, const ff_read_opts *opts, ff_mesh **out);
/* The same from an open reader (b at its start), before scaling: the last step is ff_mesh_finish. */
ff_status ff_su2_parse(ff_bytes *b, ff_mesh **out);

#endif
