/* Nastran bulk data (.bdf .nas .dat): shell elements as a surface. */
#ifndef FF_NASTRAN_H
#define FF_NASTRAN_H

#include "ff_bytes.h"
#include "ff_mesh.h"

/* Reads a bulk data file, plain or .gz, whole on this rank: GRID, GRDSET, CORD1R/C/S, CORD2R/C/S, CTRIA3, CTRIA6,
 * CTRIAR, CQUAD4, CQUAD8, CQUADR, CQUAD in small, large and free fields. Points come out in the basic coordinate
 * system, patches are "PID N"; quadratic elements give their corners. Other entries are passed over. Local
 * Errors: FF_E_INPUT with the line: field that is no number, unknown point or coordinate system, coordinate systems
 * that define each other, INCLUDE, BEGIN BULK without ENDDATA. */
ff_status ff_nastran_read(const char *path, const ff_read_opts *opts, ff_mesh **out);
/* The same from an open reader (b at its start), before scaling: the last step is ff_mesh_finish. */
ff_status ff_nastran_parse(ff_bytes *b, ff_mesh **out);

#endif
