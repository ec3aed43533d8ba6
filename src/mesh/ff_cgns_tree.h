/* The nodes of a CGNS file, whatever its container: HDF5 with the HDF5 library, ADF with our own reader. Only what a
 * surface needs is listed: bases, zones, and below them coordinates, elements, boundary conditions, connectivities and
 * solutions. Included by ff_cgns*.c only. */
#ifndef FF_CGNS_TREE_H
#define FF_CGNS_TREE_H

#include "ff_h5.h"

enum { CGNS_NAME = 33, CGNS_DIMS = 12 };

typedef struct cgns_node {
    char name[CGNS_NAME], label[CGNS_NAME], type[4]; /* type: MT (no data), C1, I4, I8, R4, R8, ... */
    int n_dims;
    int64_t dim[CGNS_DIMS]; /* first index runs fastest, as in the standard's texts */
    int64_t n;              /* values: product of dim; 0 without data */
    int64_t parent, child, last,
        next;   /* node numbers; -1: none; child and last: the first and the last one */
    char *path; /* HDF5: of the group that holds the data (a link's target) */
    int file;   /* ADF: number of the file that holds the node, and the byte where it begins there */
    int64_t at;
} cgns_node;

/* Reads what stands in an ADF file. */
typedef struct cgns_adf cgns_adf;

typedef struct cgns_tree {
    const char *path; /* of the file, borrowed */
    ff_h5 *h5;        /* one of the two is open */
    cgns_adf *adf;
    int64_t n_nodes, cap;
    cgns_node *node; /* [0] is the root */
} cgns_tree;

/* Opens the file and lists its nodes; to be closed in any case. Local
 * Errors: FF_E_INPUT neither container, cut, damaged; FF_E_UNSUPPORTED ADF of a Cray. */
ff_status cgns_tree_open(cgns_tree *t, const char *path);
void cgns_tree_close(cgns_tree *t);

/* The first child of node with that label and name (NULL: any), behind child after (-1: from the first); -1: none. */
int64_t cgns_find(const cgns_tree *t, int64_t node, const char *label, const char *name, int64_t after);
/* All n values of a node as whole numbers or reals, owned by the caller. FF_E_INPUT if it has another kind of data. */
ff_status cgns_read_i64(const cgns_tree *t, int64_t node, int64_t **out);
ff_status cgns_read_f64(const cgns_tree *t, int64_t node, double **out);
/* The node's text without blanks at its end, cut at size - 1; "" if it has none. */
ff_status cgns_read_text(const cgns_tree *t, int64_t node, char *out, size_t size);

/* Records `path: /Base/Zone/...: text`; FF_E_INPUT. */
ff_status cgns_fail(const cgns_tree *t, int64_t node, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- for the containers ---- */
/* Whether children of a node of this label at this depth (root: 0) are listed. */
bool cgns_descends(const char *label, int depth);
/* Adds a node with its name, label, type and dims set; *out: its number. FF_E_INPUT beyond 2^20 nodes or overflow. */
ff_status cgns_add(cgns_tree *t, int64_t parent, const cgns_node *n, int64_t *out);

ff_status cgns_adf_open(cgns_tree *t);
void cgns_adf_close(cgns_tree *t);
/* The raw values of a node, in our byte order: n values of cgns_type_size bytes. Owned by the caller. */
ff_status cgns_adf_read(const cgns_tree *t, int64_t node, unsigned char **out);
size_t cgns_type_size(const char *type); /* 0: MT or unknown */

#endif
