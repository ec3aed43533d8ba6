/* Inside of the VTKHDF reader: where the arrays of one time step stand. Included by ff_vtkhdf*.c only. */
#ifndef FF_VTKHDF_IMPL_H
#define FF_VTKHDF_IMPL_H

#include "ff_h5.h"
#include "ff_polydata.h"

typedef struct vtkhdf_part {
    int64_t n_points, n_cells[FF_PD_KINDS], n_conn[FF_PD_KINDS];
} vtkhdf_part;

typedef struct vtkhdf_field {
    char dataset[300]; /* path in the file */
    char name[256];    /* as shown: the original name if ours, else the dataset's */
    bool of_points;
    int n_comp;
    int64_t row0; /* first row of this step */
} vtkhdf_field;

/* All numbers are checked against the sizes of the datasets; sums stay far below 2^63. */
typedef struct vtkhdf_layout {
    struct {
        int64_t n_parts, n_fields, n_names; /* n_names: bytes of patch_names with its NUL */
        int64_t point_row0, off_row0[FF_PD_KINDS], conn_row0[FF_PD_KINDS];
        int64_t n_points, n_cells[FF_PD_KINDS], n_conn[FF_PD_KINDS]; /* sums over the parts */
        bool points_float32, plain; /* plain: our own .h5 layout instead of VTKHDF */
    } head;
    vtkhdf_part *part;
    vtkhdf_field *field;
    char *patch_names; /* a line each, "" if the file names none */
} vtkhdf_layout;

extern const char *const vtkhdf_kind[FF_PD_KINDS]; /* names of the groups, in the order of ff_pd_name */
#define VTKHDF_PLAIN "farfield surface 1"          /* root attribute "format" of a plain .h5 */

ff_status vtkhdf_layout_read(const ff_h5 *f, int64_t step, vtkhdf_layout *out); /* Local: f opened alone */
ff_status vtkhdf_layout_bcast(ff_comm *comm, vtkhdf_layout *l); /* from rank 0        Collective */
void vtkhdf_layout_free(vtkhdf_layout *l);

#endif
