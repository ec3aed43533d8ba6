#include "ff_h5_impl.h"

#include "ff_io.h"
#include "ff_mem.h"

#include <stdlib.h>

/* One MPI-IO call must stay below 2 GiB, and a smaller slab keeps its buffers small. */
static int64_t slab_bytes(void)
{
    return (int64_t)1 << 30;
}

/* A dataset may not claim much more than the file stores for it: deflate reaches about 1030 : 1. This keeps a
 * damaged header from asking for terabytes. */
static bool is_backed(hid_t d, const ff_h5_shape *s)
{
    double claimed = (double)s->elem_bytes * (double)s->row_len * (double)s->dim[0];
    return claimed <= 1048576.0 + 1100.0 * (double)H5Dget_storage_size(d);
}

static ff_status shape_fill(const ff_h5 *f, const char *name, hid_t d, bool backed, ff_h5_shape *s)
{
    hsize_t dim[H5S_MAX_RANK];
    hid_t type = H5Dget_type(d), space = H5Dget_space(d);
    ff_status st = FF_OK;
    *s = (ff_h5_shape){
        .kind = ff_h5_class_of(type), .elem_bytes = H5Tget_size(type), .dim = {1, 1, 1, 1}, .row_len = 1};
    s->rank = H5Sget_simple_extent_ndims(space);
    if (s->rank < 0 || s->rank > 4) {
        st = ff_fail(FF_E_INPUT, "%s: %s has %d dimensions, expected at most 4", f->path, name, s->rank);
    } else {
        (void)H5Sget_simple_extent_dims(space, dim, NULL);
        double total = 1;
        for (int i = 0; i < s->rank; i++) {
            total *= (double)dim[i];
            s->dim[i] = total < 1e15 && dim[i] < (hsize_t)1e15 ? (int64_t)dim[i] : -1;
            if (i > 0) s->row_len *= s->dim[i];
            if (s->dim[i] < 0) st = ff_fail(FF_E_INPUT, "%s: %s claims %g elements", f->path, name, total);
            if (st != FF_OK) break;
        }
    }
    if (st == FF_OK && backed && !is_backed(d, s))
        st = ff_fail(FF_E_INPUT, "%s: %s claims %lld rows of %lld elements, the file does not hold them",
                     f->path, name, (long long)s->dim[0], (long long)s->row_len);
    (void)H5Sclose(space);
    (void)H5Tclose(type);
    return st;
}

static ff_status open_dataset(const ff_h5 *f, const char *name, hid_t *out)
{
    *out = ff_h5_exists(f, name) ? H5Dopen2(f->id, name, H5P_DEFAULT) : H5I_INVALID_HID;
    if (*out >= 0) return FF_OK;
    (void)H5Eclear2(H5E_DEFAULT);
    return ff_fail(FF_E_INPUT, "%s: dataset %s is missing", f->path, name);
}

ff_status ff_h5_shape_of(const ff_h5 *f, const char *dataset, ff_h5_shape *out)
{
    hid_t d;
    FF_TRY(open_dataset(f, dataset, &d));
    ff_status st = shape_fill(f, dataset, d, true, out);
    (void)H5Dclose(d);
    return st;
}

/* A transfer of rows in pieces. The number of pieces is the largest over the ranks; who has no rows left
 * selects nothing and still takes part. */
typedef struct {
    hid_t d;
    const char *name;
    ff_h5_shape shape;
    ff_h5_type type;
    int64_t row0, n_rows;
    char *out;      /* reading */
    const char *in; /* writing */
} transfer;

static ff_status transfer_check(const ff_h5 *f, const transfer *t)
{
    const ff_h5_shape *s = &t->shape;
    if (s->kind != FF_H5_INTEGER && s->kind != FF_H5_FLOAT)
        return ff_fail(FF_E_INPUT, "%s: %s: expected numbers", f->path, t->name);
    if (t->row0 < 0 || t->n_rows < 0 || t->row0 > s->dim[0] - t->n_rows)
        return ff_fail(FF_E_INPUT, "%s: %s has %lld rows, expected at least %lld + %lld", f->path, t->name,
                       (long long)s->dim[0], (long long)t->row0, (long long)t->n_rows);
    return FF_OK;
}

static ff_status transfer_piece(const ff_h5 *f, const transfer *t, int64_t first, int64_t n)
{
    char nothing[8] = {0};
    const ff_h5_shape *s = &t->shape;
    hsize_t start[4] = {(hsize_t)(t->row0 + first), 0, 0, 0}, count[4] = {(hsize_t)n};
    for (int i = 1; i < 4; i++) count[i] = (hsize_t)s->dim[i];
    hid_t file = H5Dget_space(t->d);
    hid_t mem = H5Screate_simple(s->rank > 0 ? s->rank : 1, count, NULL);
    herr_t err = 0;
    if (n == 0 || s->row_len == 0)
        err = H5Sselect_none(file) < 0 || H5Sselect_none(mem) < 0 ? -1 : 0;
    else if (s->rank > 0)
        err = H5Sselect_hyperslab(file, H5S_SELECT_SET, start, NULL, count, NULL);
    int64_t at = first * s->row_len * (int64_t)ff_h5_type_size(t->type);
    hid_t type = ff_h5_mem_type(t->type);
    if (err >= 0 && t->in != NULL)
        err = H5Dwrite(t->d, type, mem, file, f->dxpl, n != 0 ? t->in + at : nothing);
    if (err >= 0 && t->out != NULL)
        err = H5Dread(t->d, type, mem, file, f->dxpl, n != 0 ? t->out + at : nothing);
    ff_status st = FF_OK; /* the reason is gone after the next HDF5 call */
    if (err < 0 && t->in != NULL) st = ff_h5_fail(f, FF_E_IO, t->name, "writing failed");
    if (err < 0 && t->in == NULL) st = ff_h5_fail(f, FF_E_INPUT, t->name, "reading failed");
    (void)H5Sclose(mem);
    (void)H5Sclose(file);
    return st;
}

static ff_status transfer_run(const ff_h5 *f, const transfer *t)
{
    int64_t elem = (int64_t)(t->shape.elem_bytes > ff_h5_type_size(t->type) ? t->shape.elem_bytes
                                                                            : ff_h5_type_size(t->type));
    int64_t row_bytes = elem * (t->shape.row_len > 0 ? t->shape.row_len : 1);
    int64_t rows = slab_bytes() / row_bytes > 0 ? slab_bytes() / row_bytes : 1;
    int64_t n_pieces = (t->n_rows + rows - 1) / rows;
    FF_TRY(ff_comm_allreduce(f->comm, &n_pieces, 1, FF_MAX_I64));
    for (int64_t p = 0; p < n_pieces; p++) {
        int64_t first = p * rows < t->n_rows ? p * rows : t->n_rows;
        int64_t n = t->n_rows - first < rows ? t->n_rows - first : rows;
        FF_TRY(ff_agree(f->comm, transfer_piece(f, t, first, n)));
    }
    return FF_OK;
}

static ff_status transfer_rows(const ff_h5 *f, transfer *t)
{
    t->d = H5I_INVALID_HID;
    ff_status st = t->in != NULL ? ff_io_fault(f->path) : FF_OK;
    if (st == FF_OK) st = open_dataset(f, t->name, &t->d);
    if (st == FF_OK) st = shape_fill(f, t->name, t->d, t->in == NULL, &t->shape);
    if (st == FF_OK) st = transfer_check(f, t);
    st = ff_agree(f->comm, st);
    if (st == FF_OK) st = transfer_run(f, t);
    /* Closing writes what the library still holds of the dataset: on a full disk it is this that fails. */
    if (t->d >= 0 && H5Dclose(t->d) < 0 && st == FF_OK && t->in != NULL)
        st = ff_h5_fail(f, FF_E_IO, t->name, "writing failed");
    return t->in != NULL ? ff_agree(f->comm, st) : st;
}

ff_status ff_h5_read(const ff_h5 *f, const char *dataset, ff_h5_type t, int64_t row0, int64_t n_rows,
                     void *out)
{
    transfer tr = {.name = dataset, .type = t, .row0 = row0, .n_rows = n_rows, .out = out};
    return transfer_rows(f, &tr);
}

static herr_t read_dataset_text(hid_t object, hid_t mem_type, void *buffer)
{
    return H5Dread(object, mem_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, buffer);
}

ff_status ff_h5_read_text(const ff_h5 *f, const char *dataset, char **out)
{
    hid_t d;
    *out = NULL;
    FF_TRY(open_dataset(f, dataset, &d));
    hid_t type = H5Dget_type(d), space = H5Dget_space(d);
    ff_status st = ff_h5_text_from(f, dataset, d, type, space, read_dataset_text, out);
    (void)H5Sclose(space);
    (void)H5Tclose(type);
    (void)H5Dclose(d);
    return st;
}

/* ---- writing ---- */

static ff_status dataset_create(ff_h5 *f, const char *name, hid_t type, int rank, const int64_t *dim)
{
    FF_TRY(ff_agree(f->comm, ff_io_fault(f->path)));
    hsize_t size[4] = {1, 1, 1, 1};
    for (int i = 0; i < rank; i++) size[i] = (hsize_t)dim[i];
    hid_t space = rank > 0 ? H5Screate_simple(rank, size, NULL) : H5Screate(H5S_SCALAR);
    hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE);
    (void)H5Pset_obj_track_times(dcpl, false);
    (void)H5Pset_fill_time(dcpl, H5D_FILL_TIME_NEVER); /* every row is written, no need to write it twice */
    hid_t d = H5Dcreate2(f->id, name, type, space, H5P_DEFAULT, dcpl, H5P_DEFAULT);
    ff_status st = d >= 0 ? FF_OK : ff_h5_fail(f, FF_E_IO, name, "dataset cannot be created");
    if (d >= 0) (void)H5Dclose(d);
    (void)H5Pclose(dcpl);
    (void)H5Sclose(space);
    return ff_agree(f->comm, st);
}

ff_status ff_h5_dataset(ff_h5 *f, const char *dataset, ff_h5_type t, int rank, const int64_t *dim)
{
    return dataset_create(f, dataset, ff_h5_file_type(t), rank, dim);
}

ff_status ff_h5_write(ff_h5 *f, const char *dataset, ff_h5_type t, int64_t row0, int64_t n_rows,
                      const void *v)
{
    transfer tr = {.name = dataset, .type = t, .row0 = row0, .n_rows = n_rows, .in = v != NULL ? v : ""};
    return transfer_rows(f, &tr);
}

ff_status ff_h5_write_all(ff_h5 *f, const char *dataset, ff_h5_type t, int64_t n, const void *v)
{
    FF_TRY(ff_h5_dataset(f, dataset, t, 1, &n));
    return ff_h5_write(f, dataset, t, 0, f->comm->rank == 0 ? n : 0, v);
}

ff_status ff_h5_write_text(ff_h5 *f, const char *dataset, const char *text)
{
    hid_t type = ff_h5_text_type(text);
    ff_status st = dataset_create(f, dataset, type, 0, NULL);
    if (st == FF_OK) st = ff_agree(f->comm, ff_io_fault(f->path));
    if (st == FF_OK) {
        hid_t d = H5Dopen2(f->id, dataset, H5P_DEFAULT), all = H5Screate(H5S_SCALAR),
              none = H5Screate(H5S_SCALAR);
        (void)H5Sselect_none(none);
        hid_t sel = f->comm->rank == 0 ? all : none;
        if (d < 0 || H5Dwrite(d, type, sel, sel, f->dxpl, text) < 0)
            st = ff_h5_fail(f, FF_E_IO, dataset, "writing failed");
        if (d >= 0 && H5Dclose(d) < 0 && st == FF_OK) st = ff_h5_fail(f, FF_E_IO, dataset, "writing failed");
        (void)H5Sclose(all);
        (void)H5Sclose(none);
        st = ff_agree(f->comm, st);
    }
    (void)H5Tclose(type);
    return st;
}
