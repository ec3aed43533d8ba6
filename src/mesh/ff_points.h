/* Points at which fields are wanted: those of any mesh or result file, an extended XYZ file, or a table of 2 or 3
 * columns. */
#ifndef FF_POINTS_H
#define FF_POINTS_H

#include "ff_mesh.h"

/* Reads points and point fields; the mesh has no cells. dim is 2 for a table of two columns (z = 0), else 3.
 * Tables: .csv or .txt (also .gz); columns parted by commas, semicolons, blanks or tabs; one line of column
 * names at the top and comments behind # are skipped. Local Errors: FF_E_INPUT with file and line: other
 * number of columns, a word that is no finite number. */
ff_status ff_points_read(const char *path, const ff_read_opts *opts, ff_mesh **out);

/* The same over ranks: rank 0 reads, rank r receives its share of consecutive points; point_gid says which.
 *                                                                                                     Collective
 */
ff_status ff_points_read_dist(ff_comm *comm, const char *path, const ff_read_opts *opts, ff_mesh **out);

#endif
