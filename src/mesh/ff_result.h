/* Results: a surface, a curve or a cloud of points with fields, written by all ranks into one file.
 * The format follows the name: .vtkhdf (VTKHDF PolyData, one part), .vtp (raw appended data), .h5 (plain
 * HDF5; see docs/formats.md). Points and cells appear once, in the order of the mesh's own file, whatever the
 * number of ranks. Texts (resolved deck, integrals) go into the group /farfield, or into FieldData of a .vtp.
 */
#ifndef FF_RESULT_H
#define FF_RESULT_H

#include "ff_h5.h"
#include "ff_mesh.h"

typedef struct ff_result_field {
    const char *name; /* any; `/` and `.` become `_` in the file, which keeps the original beside it */
    int n_comp;
    ff_h5_type type;
    const void *value; /* [rows of this rank][n_comp] */
} ff_result_field;

typedef struct ff_result_text {
    const char *name, *text; /* name: letters, digits, `_`; text: that of rank 0 counts */
} ff_result_text;

/* Everything is borrowed. Names, kinds and numbers of fields and texts are the same on all ranks; any rank
 * may hold no cells and no points. */
typedef struct ff_result {
    int dim; /* 3: polygons; 2: edges; 0: every point is a cell (no cells are given) */
    int64_t n_points;
    const double *points;     /* [n_points][3] */
    const int64_t *point_gid; /* [n_points] ascending; points may be on several ranks. NULL: each on one, in
                                 rank order */
    int64_t n_points_global;  /* with point_gid: all of 0 .. n - 1 occur on some rank */
    int64_t n_cells;          /* in rank order */
    const int64_t *cell_off;  /* NULL: cells of dim points */
    const int64_t *cell_pts;  /* local ids */
    int n_patches;            /* more than one: stored as cell field patch_id and their names */
    char *const *patch_name;
    const int32_t *cell_patch;
    int n_cell_fields, n_point_fields, n_texts;
    const ff_result_field *cell_field, *point_field;
    const ff_result_text *text;
} ff_result;

/* Whether path can be written later: known extension, ff_io_check_path. Verbs call it before any work.
 * Collective */
ff_status ff_result_check_path(ff_comm *comm, const char *path, bool force);

/* Borrows geometry and patches of a mesh (one rank's part, or whole), without its fields. Local */
ff_result ff_result_of_mesh(const ff_mesh *m);

/* Writes path.tmp, flushes, renames. On failure no file is left. Collective Errors: as ff_result_check_path;
 * FF_E_IO disk full, target not writable; FF_E_INTERNAL a point on no rank. */
ff_status ff_result_write(ff_comm *comm, const ff_result *r, const char *path, bool force);

/* A mesh with all its fields (as float64). Collective */
ff_status ff_result_write_mesh(ff_comm *comm, const ff_mesh *m, const ff_result_text *text, int n_texts,
                               const char *path, bool force);

#endif
