/* Shared by ff_h5.c (files, groups, attributes) and ff_h5_data.c (datasets); nothing else includes it. */
#ifndef FF_H5_IMPL_H
#define FF_H5_IMPL_H

#include "ff_h5.h"

#include <hdf5.h>

struct ff_h5 {
    hid_t id, dxpl; /* dxpl: H5P_DEFAULT unless shared */
    ff_comm *comm;  /* the ranks that share the file; ff_comm_self() when opened by one */
    bool writing;
    char *path;
};

hid_t ff_h5_mem_type(ff_h5_type t);
hid_t ff_h5_file_type(ff_h5_type t);
ff_h5_class ff_h5_class_of(hid_t type);
/* A fixed-length, zero-padded text type: ASCII if the text is, else UTF-8. Close with H5Tclose. */
hid_t ff_h5_text_type(const char *text);

/* Records `path: object: what: innermost HDF5 message` and returns code; clears the HDF5 error stack. */
ff_status ff_h5_fail(const ff_h5 *f, ff_status code, const char *object, const char *what);

/* Reads text of any HDF5 string type through read(ctx, mem_type, buffer). */
typedef herr_t (*ff_h5_text_reader)(hid_t object, hid_t mem_type, void *buffer);
ff_status ff_h5_text_from(const ff_h5 *f, const char *name, hid_t object, hid_t type, hid_t space,
                          ff_h5_text_reader read, char **out);

#endif
