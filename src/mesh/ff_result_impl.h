/* What the writers share: a result with its place in the file. Included by ff_result*.c, ff_*_write.c only.
 */
#ifndef FF_RESULT_IMPL_H
#define FF_RESULT_IMPL_H

#include "ff_polydata.h"
#include "ff_result.h"

typedef struct rs_field {
    char name[256], original[256]; /* in the file; given */
    bool of_points;
    int n_comp;
    ff_h5_type type;
    const void *value; /* rows [row0, row0 + n_rows) of n_global */
    void *own;         /* value, if it is ours to free */
    int64_t row0, n_rows, n_global;
} rs_field;

typedef struct rs_data {
    ff_comm *comm;
    const char *path; /* the file being written (NAME.tmp) */
    const ff_result *r;
    int kind;                            /* FF_PD_* of the cells */
    int64_t n_points, point0, n_own;     /* all points; first and number of those this rank writes */
    const double *xyz;                   /* [n_own][3] */
    double *own_xyz;                     /* xyz, if ours */
    bool points_float32;                 /* float32 holds every coordinate exactly */
    int64_t n_cells, cell0, n_own_cells; /* all cells; this rank's */
    int64_t n_conn, conn0, n_own_conn;   /* all ids; this rank's */
    int64_t *conn,
        *ends; /* [n_own_conn] point numbers in the file; [n_own_cells] end of each cell in all ids */
    int n_fields;
    rs_field *field;
    char **text;       /* [n_texts] rank 0's */
    char *patch_names; /* a line each, NULL: at most one patch */
} rs_data;

/* float32 copy of xyz [n_own][3], owned by the caller. Collective */
ff_status rs_xyz_f32(const rs_data *d, float **out);

ff_status rs_write_vtkhdf(const rs_data *d); /* Collective, as all writers */
ff_status rs_write_h5(const rs_data *d);
ff_status rs_write_vtp(const rs_data *d);

#endif
