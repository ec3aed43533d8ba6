/* Writes VTKHDF PolyData 2.0 in one part. What readers insist on: Type is fixed-length ASCII without a NUL
 * counted in; all four kinds of cells have a group; Offsets have one entry more than cells; ids count within
 * the part. */
#include "ff_io.h"
#include "ff_mem.h"
#include "ff_result_impl.h"
#include "ff_vtkhdf_impl.h"

#include <stdio.h>
#include <string.h>

static ff_status write_points(ff_h5 *f, const rs_data *d, const char *name)
{
    float *narrow = NULL;
    const int64_t dim[2] = {d->n_points, 3};
    if (!d->points_float32) {
        FF_TRY(ff_h5_dataset(f, name, FF_H5_F64, 2, dim));
        return ff_h5_write(f, name, FF_H5_F64, d->point0, d->n_own, d->xyz);
    }
    FF_TRY(rs_xyz_f32(d, &narrow));
    ff_status st = ff_h5_dataset(f, name, FF_H5_F32, 2, dim);
    if (st == FF_OK) st = ff_h5_write(f, name, FF_H5_F32, d->point0, d->n_own, narrow);
    ff_free(narrow);
    return st;
}

/* A leading 0, then the end of each cell: rank 0 writes the 0. */
static ff_status write_offsets(ff_h5 *f, const rs_data *d, const char *name)
{
    bool first = d->comm->rank == 0;
    int64_t n = d->n_own_cells + first, *off = NULL;
    FF_TRY(FF_NEW_ALL(d->comm, off, n));
    if (first) off[0] = 0;
    if (d->n_own_cells > 0) memcpy(off + first, d->ends, (size_t)d->n_own_cells * sizeof *off);
    ff_status st = ff_h5_dataset(f, name, FF_H5_I64, 1, (int64_t[]){d->n_cells + 1});
    if (st == FF_OK) st = ff_h5_write(f, name, FF_H5_I64, d->cell0 + !first, n, off);
    ff_free(off);
    return st;
}

static ff_status write_ids(ff_h5 *f, const rs_data *d, const char *name)
{
    FF_TRY(ff_h5_dataset(f, name, FF_H5_I64, 1, &d->n_conn));
    return ff_h5_write(f, name, FF_H5_I64, d->conn0, d->n_own_conn, d->conn);
}

static ff_status write_fields(ff_h5 *f, const rs_data *d, bool of_points, const char *group)
{
    FF_TRY(ff_h5_group(f, group));
    for (int k = 0; k < d->n_fields; k++) {
        const rs_field *p = &d->field[k];
        char name[400];
        if (p->of_points != of_points) continue;
        (void)snprintf(name, sizeof name, "%s/%s", group, p->name);
        FF_TRY(ff_h5_dataset(f, name, p->type, p->n_comp > 1 ? 2 : 1, (int64_t[]){p->n_global, p->n_comp}));
        FF_TRY(ff_h5_write(f, name, p->type, p->row0, p->n_rows, p->value));
        if (strcmp(p->name, p->original) != 0)
            FF_TRY(ff_h5_attr_write_text(f, name, "original_name", p->original));
    }
    return FF_OK;
}

static ff_status write_texts(ff_h5 *f, const rs_data *d)
{
    char name[300];
    FF_TRY(ff_h5_group(f, "/farfield"));
    FF_TRY(ff_h5_attr_write_text(f, "/farfield", "version", ff_version()));
    for (int i = 0; i < d->r->n_texts; i++) {
        (void)snprintf(name, sizeof name, "/farfield/%s", d->r->text[i].name);
        FF_TRY(ff_h5_write_text(f, name, d->text[i]));
    }
    if (d->patch_names == NULL) return FF_OK;
    return ff_h5_write_text(f, "/farfield/" FF_PD_PATCH_NAMES, d->patch_names);
}

/* ---- VTKHDF ---- */

static ff_status write_kind(ff_h5 *f, const rs_data *d, int k)
{
    const int64_t n_cells = k == d->kind ? d->n_cells : 0, n_conn = k == d->kind ? d->n_conn : 0;
    char name[64];
    (void)snprintf(name, sizeof name, "/VTKHDF/%s", vtkhdf_kind[k]);
    FF_TRY(ff_h5_group(f, name));
    (void)snprintf(name, sizeof name, "/VTKHDF/%s/NumberOfCells", vtkhdf_kind[k]);
    FF_TRY(ff_h5_write_all(f, name, FF_H5_I64, 1, &n_cells));
    (void)snprintf(name, sizeof name, "/VTKHDF/%s/NumberOfConnectivityIds", vtkhdf_kind[k]);
    FF_TRY(ff_h5_write_all(f, name, FF_H5_I64, 1, &n_conn));
    (void)snprintf(name, sizeof name, "/VTKHDF/%s/Offsets", vtkhdf_kind[k]);
    if (k == d->kind)
        FF_TRY(write_offsets(f, d, name));
    else
        FF_TRY(ff_h5_write_all(f, name, FF_H5_I64, 1, (int64_t[]){0}));
    (void)snprintf(name, sizeof name, "/VTKHDF/%s/Connectivity", vtkhdf_kind[k]);
    return k == d->kind ? write_ids(f, d, name) : ff_h5_write_all(f, name, FF_H5_I64, 0, NULL);
}

static ff_status fill_vtkhdf(ff_h5 *f, const rs_data *d)
{
    FF_TRY(ff_h5_group(f, "/VTKHDF"));
    FF_TRY(ff_h5_attr_write(f, "/VTKHDF", "Version", FF_H5_I64, 2, (int64_t[]){2, 0}));
    FF_TRY(ff_h5_attr_write_text(f, "/VTKHDF", "Type", "PolyData"));
    FF_TRY(ff_h5_write_all(f, "/VTKHDF/NumberOfPoints", FF_H5_I64, 1, &d->n_points));
    FF_TRY(write_points(f, d, "/VTKHDF/Points"));
    for (int k = 0; k < FF_PD_KINDS; k++) FF_TRY(write_kind(f, d, k));
    FF_TRY(write_fields(f, d, true, "/VTKHDF/PointData"));
    FF_TRY(write_fields(f, d, false, "/VTKHDF/CellData"));
    return write_texts(f, d);
}

/* ---- plain HDF5 ---- */

static ff_status fill_plain(ff_h5 *f, const rs_data *d)
{
    const int64_t dim = d->r->dim;
    FF_TRY(ff_h5_attr_write_text(f, "/", "format", VTKHDF_PLAIN));
    FF_TRY(ff_h5_attr_write_scalar(f, "/", "dim", FF_H5_I64, &dim));
    FF_TRY(write_points(f, d, "/points"));
    FF_TRY(ff_h5_group(f, "/cells"));
    FF_TRY(write_offsets(f, d, "/cells/offsets"));
    FF_TRY(write_ids(f, d, "/cells/connectivity"));
    FF_TRY(write_fields(f, d, true, "/point_data"));
    FF_TRY(write_fields(f, d, false, "/cell_data"));
    return write_texts(f, d);
}

/* Bytes of the file, a little more than needed: large datasets begin at multiples of 1 MiB. */
static int64_t file_bytes(const rs_data *d)
{
    int64_t n = d->n_points * 24 + (d->n_cells + 1 + d->n_conn) * 8 + (1 << 20);
    for (int k = 0; k < d->n_fields; k++)
        n += d->field[k].n_global * d->field[k].n_comp * (int64_t)ff_h5_type_size(d->field[k].type) + 4096;
    for (int i = 0; i < d->r->n_texts; i++) n += (int64_t)strlen(d->text[i]) + 4096;
    return n;
}

static ff_status write_file(const rs_data *d, ff_status (*fill)(ff_h5 *, const rs_data *))
{
    ff_h5 *f;
    FF_TRY(ff_agree(d->comm, d->comm->rank == 0 ? ff_io_try_space(d->path, file_bytes(d)) : FF_OK));
    FF_TRY(ff_h5_create(d->comm, d->path, &f));
    ff_status st = fill(f, d), closed = ff_h5_close(&f);
    return st != FF_OK ? st : closed;
}

ff_status rs_write_vtkhdf(const rs_data *d)
{
    return write_file(d, fill_vtkhdf);
}
ff_status rs_write_h5(const rs_data *d)
{
    return write_file(d, fill_plain);
}
