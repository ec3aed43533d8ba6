/* VTK poly data in memory, as both VTK formats store it, and its way into a mesh: polygons and strips (as
 * triangles) give a surface, lines a curve when there is neither; vertices are left out. Used by ff_vtp and
 * ff_vtkhdf. */
#ifndef FF_POLYDATA_H
#define FF_POLYDATA_H

#include "ff_mesh.h"

enum {
    FF_PD_VERTS,
    FF_PD_LINES,
    FF_PD_POLYS,
    FF_PD_STRIPS,
    FF_PD_KINDS
};                                                /* the order of rows of cell data */
extern const char *const ff_pd_name[FF_PD_KINDS]; /* "Verts", "Lines", "Polys", "Strips" */

/* One piece (VTP) or part (VTKHDF). Point ids are local to it. Arrays are borrowed; only the kinds that
 * become cells need them (see ff_pd_dim). */
typedef struct ff_pd_piece {
    int64_t n_points, n_cells[FF_PD_KINDS];
    int64_t n_conn[FF_PD_KINDS];                    /* entries of conn */
    const int64_t *off[FF_PD_KINDS];                /* [n_cells + 1], starts at 0 */
    const int64_t *conn[FF_PD_KINDS];               /* [n_conn] */
    int64_t cell0[FF_PD_KINDS], conn0[FF_PD_KINDS]; /* what the file has before them, for messages */
} ff_pd_piece;

typedef struct ff_pd {
    const char *path;   /* for messages */
    const char *prefix; /* "piece", "part": patch names where more than one piece holds cells */
    int64_t n_pieces;
    ff_pd_piece *piece;
    const int64_t *n_made; /* mesh cells of each piece over all ranks; NULL: those here are all */
} ff_pd;

/* 3 if any piece holds polygons or strips, 2 if any holds lines, else 3. */
int ff_pd_dim(const ff_pd *pd);
bool ff_pd_uses(int dim, int kind); /* whether cells of this kind become cells of a mesh of dimension dim */
/* Rows of cell data: all cells of all kinds and pieces. */
int64_t ff_pd_rows(const ff_pd *pd);

/* Cells and patches of the mesh (m is new and empty; points and fields come from the caller). *row [n_cells]:
 * the row of cell data of each cell, owned by the caller; NULL if cell i has row i. Local FF_E_INPUT: offsets
 * that fall or run out of the array, ids out of range, a line of one point. */
ff_status ff_pd_cells(const ff_pd *pd, ff_mesh *m, int64_t **row);

/* Adds a cell field given by rows [n_rows][n_comp]; takes *value over, also on failure. */
ff_status ff_pd_cell_field(ff_mesh *m, const char *name, int n_comp, double **value, const int64_t *row);

/* ---- patches in our own files: a cell field of numbers and the names as one text, a line each ---- */
#define FF_PD_PATCH_ID    "patch_id"
#define FF_PD_PATCH_NAMES "patch_names"

/* Turns the cell field FF_PD_PATCH_ID into patches, if it is there and fits names; else leaves m as it is.
 * Patches without a cell are dropped. Same fields and names on all ranks. Collective */
ff_status ff_pd_restore_patches(ff_comm *comm, ff_mesh *m, const char *names);

#endif
