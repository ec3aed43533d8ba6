/* The few HDF5 calls this program makes, on one rank or on all ranks of a communicator.
 * Objects are named by path ("/VTKHDF/Points"). The library's own error printing is off; its innermost
 * message becomes part of ours. With a parallel access hook (mpi/ff_mpi_io.h) a file opened on several ranks
 * is shared: every call is then Collective, in the same order on all ranks, ranks without rows included. On
 * one rank all calls are Local. Arrays move in pieces of at most 1 GiB; a status is agreed after each piece.
 */
#ifndef FF_H5_H
#define FF_H5_H

#include "ff_comm.h"

/* Access properties for shared files, from a layer that knows MPI. fapl and dxpl are HDF5 property lists
 * (hid_t). */
typedef struct ff_h5_access {
    ff_status (*set_fapl)(void *ctx, int64_t fapl);
    ff_status (*set_dxpl)(void *ctx, int64_t dxpl);
    void *ctx;
    int n_ranks; /* size of the communicator behind ctx: the hook serves communicators of this size only */
} ff_h5_access;
void ff_h5_set_access(const ff_h5_access *access); /* copied; NULL removes it. Process-wide Local */
bool ff_h5_can_share(const ff_comm *comm); /* whether files can be shared by the ranks of comm      Local */

typedef enum ff_h5_type { FF_H5_F32, FF_H5_F64, FF_H5_I32, FF_H5_I64, FF_H5_U8 } ff_h5_type;
size_t ff_h5_type_size(ff_h5_type t);

typedef enum ff_h5_class { FF_H5_INTEGER, FF_H5_FLOAT, FF_H5_TEXT, FF_H5_OTHER } ff_h5_class;
typedef struct ff_h5_shape {
    ff_h5_class kind;
    size_t elem_bytes; /* of one element in the file */
    int rank;          /* 0: scalar */
    int64_t dim[4];    /* 1 beyond rank */
    int64_t row_len;   /* elements a row: product of dim[1..] */
} ff_h5_shape;

typedef struct ff_h5 ff_h5;

/* Open for reading. On several ranks with a hook: shared; without: each rank opens it for itself.
 * FF_E_INPUT: missing, no HDF5 (ADF is named), truncated. */
ff_status ff_h5_open(ff_comm *comm, const char *path, ff_h5 **out);
/* Create for writing, overwriting. FF_E_UNSUPPORTED on several ranks without a hook. */
ff_status ff_h5_create(ff_comm *comm, const char *path, ff_h5 **out);
/* Flush (when writing) and close; *f becomes NULL whatever happens. */
ff_status ff_h5_close(ff_h5 **f);
const char *ff_h5_path(const ff_h5 *f);

/* ---- looking ---- */
bool ff_h5_exists(const ff_h5 *f, const char *object);
bool ff_h5_attr_exists(const ff_h5 *f, const char *object, const char *attr);
int64_t ff_h5_attr_count(const ff_h5 *f, const char *object, const char *attr); /* values; 0: missing */
/* Names of a group's links in ascending order; names and list owned by the caller, freed with
 * ff_h5_names_free. */
ff_status ff_h5_list(const ff_h5 *f, const char *group, char ***names, int *n);
/* The same in order of creation where the file keeps it (CGNS does). */
ff_status ff_h5_list_created(const ff_h5 *f, const char *group, char ***names, int *n);
void ff_h5_names_free(char ***names, int n);
ff_status ff_h5_shape_of(const ff_h5 *f, const char *dataset, ff_h5_shape *out);

/* ---- reading: numbers are converted to the asked type ---- */
/* Rows [row0, row0 + n_rows) of the first dimension; a scalar is one row. Range and class are checked. */
ff_status ff_h5_read(const ff_h5 *f, const char *dataset, ff_h5_type t, int64_t row0, int64_t n_rows,
                     void *out);
ff_status ff_h5_read_text(const ff_h5 *f, const char *dataset, char **out); /* owned by the caller */
ff_status ff_h5_attr_read(const ff_h5 *f, const char *object, const char *attr, ff_h5_type t, int64_t n,
                          void *out);
ff_status ff_h5_attr_read_text(const ff_h5 *f, const char *object, const char *attr, char **out);

/* ---- writing: little-endian, contiguous, fixed-length text ---- */
ff_status ff_h5_group(ff_h5 *f, const char *group); /* with the groups above it */
ff_status ff_h5_attr_write(ff_h5 *f, const char *object, const char *attr, ff_h5_type t, int64_t n,
                           const void *v);
ff_status ff_h5_attr_write_scalar(ff_h5 *f, const char *object, const char *attr, ff_h5_type t,
                                  const void *v);
ff_status ff_h5_attr_write_text(ff_h5 *f, const char *object, const char *attr, const char *text);
ff_status ff_h5_dataset(ff_h5 *f, const char *dataset, ff_h5_type t, int rank, const int64_t *dim);
ff_status ff_h5_write(ff_h5 *f, const char *dataset, ff_h5_type t, int64_t row0, int64_t n_rows,
                      const void *v);
/* Creates and fills a one-dimensional dataset of n values known to all ranks. */
ff_status ff_h5_write_all(ff_h5 *f, const char *dataset, ff_h5_type t, int64_t n, const void *v);
ff_status ff_h5_write_text(ff_h5 *f, const char *dataset,
                           const char *text); /* scalar; same text on all ranks */

#endif
