/* CGNS reader (HDF5 and ADF containers): the boundary surface of volume zones, or the cells of surface bases. */
#ifndef FF_CGNS_H
#define FF_CGNS_H

#include "ff_mesh.h"

/* Whether an HDF5 file holds a CGNS tree. Local
 * Errors: those of ff_h5_open. */
ff_status ff_cgns_probe(const char *path, bool *yes);

/* Reads all bases and zones on this rank. Three-dimensional bases give a surface of polygons, bases of two cell
 * dimensions in three coordinates their cells, plane bases (two coordinates) a curve of edges.
 * Unstructured zones: the sections of elements of the boundary's dimension; their names are the patches, or, where
 * boundary conditions cut a section, the conditions' names. NGON sections give the faces that a boundary condition
 * names or that one cell only uses. Without such sections: the faces of volume elements used once.
 * Structured zones: the faces in boundary conditions, named by family or else condition; without any, the six sides.
 * Faces in connectivities between zones are no boundary. With several zones (bases), names of sections begin with
 * the zone's (base's). Vertex solutions become point fields, cell solutions of surface bases cell
 * fields, those of volumes too, where the cell behind a face is known. Local
 * Errors: FF_E_INPUT with file and node; FF_E_UNSUPPORTED ADF of a Cray, other than Cartesian coordinates. */
ff_status ff_cgns_read(const char *path, const ff_read_opts *opts, ff_mesh **out);

#endif
