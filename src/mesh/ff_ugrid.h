/* VTK unstructured grids in memory, as .vtu and legacy .vtk files store them, and their way into a mesh: surface cells
 * if there are any, else the free faces of volume cells, else lines as a curve. Used by ff_vtu and ff_vtk. */
#ifndef FF_UGRID_H
#define FF_UGRID_H

#include "ff_mesh.h"

enum { FF_UG_POLYHEDRON = 42 };

/* One piece. Point ids are local to it. Arrays are borrowed. */
typedef struct ff_ug_piece {
    int64_t n_points, n_cells, n_conn;
    const int64_t *type; /* [n_cells] VTK's cell types */
    const int64_t *off;  /* [n_cells + 1], starts at 0 */
    const int64_t *conn; /* [n_conn] */
    /* Polyhedra: entries [poly_off[c], poly_off[c + 1]) of poly are the number of faces and, for each, the number of its
     * corners and these. poly_off NULL: conn and off hold them so (legacy files). */
    int64_t n_poly;
    const int64_t *poly, *poly_off;
} ff_ug_piece;

typedef struct ff_ug {
    const char *path; /* for messages */
    int64_t n_pieces;
    ff_ug_piece *piece;
} ff_ug;

/* Cells and patches of the mesh (m is new and empty; points and fields come from the caller). *row [n_cells]: the cell
 * of the file that each cell comes from, counted over all pieces, owned by the caller. Pieces become patches
 * "piece 0", ... when more than one holds cells of the mesh. Local
 * Errors: FF_E_INPUT: offsets that fall or run out of the array, ids out of range, too few points; FF_E_UNSUPPORTED: cell
 * types that are not known. */
ff_status ff_ug_cells(const ff_ug *ug, ff_mesh *m, int64_t **row);

#endif
