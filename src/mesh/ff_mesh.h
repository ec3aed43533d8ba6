/* Surface mesh as read: points, cells, patches, named fields. 3D: polygons, triangulated on request; 2D:
 * edges. A mesh may be one rank's part of a file: cells [cell_begin, cell_begin + n_cells) of n_cells_global.
 */
#ifndef FF_MESH_H
#define FF_MESH_H

#include "ff_comm.h"

#include <stdbool.h>

typedef struct ff_field {
    char *name;    /* as in the file */
    int n_comp;    /* components a tuple */
    double *value; /* [n tuples][n_comp] */
} ff_field;

typedef struct ff_field_set {
    int n;
    ff_field *field;
} ff_field_set;

typedef struct ff_mesh {
    int dim; /* 3: surface of polygons; 2: curve of edges (cells of 2 points) in the x-y plane */
    int64_t n_points;
    double *points; /* [n_points][3], metres after --scale (2D: z = 0) */
    int64_t n_cells;
    int64_t *cell_off; /* [n_cells + 1] into cell_pts, NULL if every cell has 3 (dim 3) or 2 (dim 2) points */
    int64_t *cell_pts; /* point ids, local */
    int n_patches;     /* 0 only if the whole file holds no cell */
    char **patch_name; /* [n_patches] in file order, only patches that hold a cell */
    int32_t *cell_patch;                /* [n_cells], NULL if n_patches is 1 */
    ff_field_set cell_data;             /* tuples: n_cells */
    ff_field_set point_data;            /* tuples: n_points */
    int64_t cell_begin, n_cells_global; /* place of these cells in the file's order */
    int64_t *point_gid;      /* [n_points] number of each point in the file, ascending; NULL: 0, 1, 2, ... */
    int64_t n_points_global; /* points of the file, valid with point_gid */
    bool points_float32;     /* the file stores float32 coordinates */
} ff_mesh;

ff_status ff_mesh_create(ff_mesh **out); /* empty, dim 3 */
void ff_mesh_destroy(ff_mesh **m);
/* Adds a field; takes *value [n][n_comp] over and writes NULL, also on failure. FF_E_INPUT if the name is
 * there. */
ff_status ff_field_set_add(ff_field_set *s, const char *name, int n_comp, int64_t n, double **value);
const ff_field *ff_field_set_find(const ff_field_set *s, const char *name); /* NULL if absent */
void ff_field_set_free(ff_field_set *s);

/* First entry of cell c in cell_pts; *n its number of points. */
static inline int64_t ff_mesh_cell(const ff_mesh *m, int64_t c, int64_t *n)
{
    if (m->cell_off == NULL) return (*n = m->dim) * c;
    *n = m->cell_off[c + 1] - m->cell_off[c];
    return m->cell_off[c];
}

typedef struct ff_read_opts {
    double scale; /* multiplies coordinates; 1 */
    int64_t step; /* time step of a temporal file; 0 */
    bool keep_z;  /* leave curves where they are in space: only their points are wanted; false */
} ff_read_opts;
#define FF_READ_OPTS_INIT                                                                                    \
    {                                                                                                        \
        1.0, 0, false                                                                                        \
    }

/* Reads any supported file on this rank alone, whole. The format follows the content, then the name
 * (docs/formats.md; text also as .gz; OpenFOAM meshes are folders). Checks finite coordinates and ids in range. Local
 * Errors: FF_E_INPUT with file, place, what was expected. */
ff_status ff_mesh_read(const char *path, const ff_read_opts *opts, ff_mesh **out);

/* The i-th format that is read, by the name it has in messages; NULL behind the last one. */
const char *ff_mesh_format(int i);

/* Reads over ranks: rank r receives cells [n r / size, n (r + 1) / size) with the points they use. Binary STL
 * and VTKHDF are read in parallel; others on rank 0 and scattered. Collective */
ff_status ff_mesh_read_dist(ff_comm *comm, const char *path, const ff_read_opts *opts, ff_mesh **out);

/* ---- for readers ---- */
#define FF_PATCH_SINGLE  "(single)"  /* patch of a format that knows no patches */
#define FF_PATCH_DEFAULT "(default)" /* cells of an OBJ file outside any group */

/* Makes all cells one patch of that name. Local */
ff_status ff_mesh_set_patch(ff_mesh *m, const char *name);

/* Refuses the name of an unfinished download (.part and the like).                                        Local */
ff_status ff_mesh_check_name(const char *path);

/* Last step of every reader: scale coordinates, check that they are finite and ids in range, drop a cell_off
 * that says nothing, give a mesh without patches the patch FF_PATCH_SINGLE, check that a curve lies in a
 * plane z = const and put it to z = 0 (unless keep_z), set cell_begin and n_cells_global as for a whole file.
 * Local Errors: FF_E_INPUT with path and point or cell, also for coordinates beyond 1e18, whose squares
 * float32 cannot hold; FF_E_ARG for a scale that is not positive and finite. */
ff_status ff_mesh_finish(ff_mesh *m, const char *path, const ff_read_opts *opts);

/* Polygons to triangles: a fan from the first corner where all its triangles face the way of the polygon's
 * vector area (convex polygons do), else ear clipping in the plane of that vector, so that areas add up to
 * the true area. Always n - 2 triangles a polygon, the winding kept; edges (dim 2) are copied. parent (owned
 * by the caller) [n_tri]: the local cell of each triangle. Points, fields and patches follow. n_cells_global
 * counts triangles for a whole mesh; for a part of one it and cell_begin are -1, for the ranks to agree on.
 * Local Errors: FF_E_INPUT for a cell of fewer than 3 points. */
ff_status ff_mesh_triangulate(const ff_mesh *m, ff_mesh **out, int64_t **parent);

/* Area of each cell (norm of the vector area; length of an edge), double [n_cells]. */
void ff_mesh_cell_areas(const ff_mesh *m, double *area);

/* ---- figures for check and info ----
 * Points are welded where their coordinates are equal (-0 = 0); edges, parts and repeated cells are those of
 * the welded surface. Edges between equal points are not counted. In dim 2 cells are edges of a curve: area
 * is length, vector_area the sum of (dy, -dx), volume the enclosed area, and the "edges" counted are points.
 */
typedef struct ff_mesh_stats {
    int64_t points, cells;    /* records in the file */
    int64_t triangles;        /* sum of corners - 2; dim 2: 0 */
    int64_t zero_area_cells;  /* area <= 1e-10 (longest edge)^2; dim 2: length 0 */
    int64_t duplicate_points; /* points - distinct points */
    int64_t unused_points;    /* in no cell */
    int64_t sliver_cells; /* area <= 0.005 (longest edge)^2 (a triangle 100 times as long as high), but not
                             zero */
    int64_t open_edges;   /* used once */
    int64_t nonmanifold_edges; /* used more than twice */
    int64_t misoriented_edges; /* used twice, in the same direction */
    int64_t repeated_cells;    /* cells whose corners, in any order, an earlier cell has */
    int64_t parts;             /* sets of cells connected by edges */
    int64_t winding_groups;    /* the same without the misoriented edges: as many as parts if winding is
                                  consistent */
    double area; /* sum over cells: of a fan's triangles where it is valid, else |vector area| */
    double area_min, area_max; /* of a cell; 0 without cells */
    double lo[3], hi[3];       /* box of the points that cells use; 0 without cells */
    double vector_area[3];     /* 0 for a closed, consistently wound surface */
    double volume;             /* enclosed, positive for outward normals; means little if not closed */
    bool closed;               /* cells, and no open edge */
} ff_mesh_stats;
/* Takes about 70 bytes a corner for a while. FF_E_UNSUPPORTED for 2^32 distinct points or more. Local */
ff_status ff_mesh_measure(const ff_mesh *m, ff_mesh_stats *out);

/* Warns (ff_warn) about a box that suggests millimetres, coordinates far from the origin, inconsistent
 * winding. name stands first in each line. Local */
void ff_mesh_warn_units(const char *name, const ff_mesh_stats *s);

#endif
