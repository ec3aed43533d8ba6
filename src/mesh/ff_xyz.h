/* Extended XYZ: points of a molecular or particle simulation, with the cell they repeat in. */
#ifndef FF_XYZ_H
#define FF_XYZ_H

#include "ff_bytes.h"
#include "ff_mesh.h"

typedef struct ff_xyz_cell {
    bool given;          /* the file has a Lattice */
    double vector[3][3]; /* rows, scaled like the points */
    int periodic[3];     /* pbc; all three where only the Lattice is given */
} ff_xyz_cell;

bool ff_xyz_named(const char *path); /* .xyz or .extxyz, also .gz */

/* Frame opts->step of the file: a count, a line of key=value (Lattice, Properties, pbc are used), a line a point. The
 * position is column pos of Properties, without it the last three columns of three or four. The mesh has no cells;
 * cell may be NULL.                                                                                            Local
 * Errors: FF_E_INPUT with file and line: no count, too few lines or columns, a word that is no number. */
ff_status ff_xyz_read(const char *path, const ff_read_opts *opts, ff_mesh **out, ff_xyz_cell *cell);
/* The same from an open reader. Local */
ff_status ff_xyz_parse(ff_bytes *b, const ff_read_opts *opts, ff_mesh **out, ff_xyz_cell *cell);

#endif
