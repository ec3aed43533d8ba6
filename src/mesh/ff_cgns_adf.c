/* Nodes of an ADF container through libcgns (its cgio calls), or a message where the program is built without it.
 * libcgns brings an HDF5 of its own, which is never called: files of HDF5 are not opened with it. */
#include "ff_cgns_tree.h"

#ifdef FF_HAVE_CGNS

#include "ff_bytes.h"
#include "ff_mem.h"

#include <cgns_io.h>
#include <stdio.h>
#include <string.h>

struct cgns_adf {
    int file;
    int64_t bytes; /* size of the file: no node can hold more */
};

/* What libcgns says about its last failure. */
static ff_status adf_fail(const cgns_tree *t, const char *what)
{
    char why[CGIO_MAX_ERROR_LENGTH + 1] = "";
    (void)cgio_error_message(why);
    for (char *p = why; *p != 0; p++)
        if ((unsigned char)*p < ' ') *p = ' ';
    return ff_fail(FF_E_INPUT, "%s: %s: libcgns says \"%s\": cut or damaged, fetch or write it again",
                   t->path, what, why);
}

static ff_status read_node(const cgns_tree *t, double id, cgns_node *n)
{
    int c = t->adf->file;
    cgsize_t dims[CGIO_MAX_DIMENSIONS];
    char name[CGIO_MAX_NAME_LENGTH + 1] = "", label[CGIO_MAX_LABEL_LENGTH + 1] = "",
                                     type[CGIO_MAX_DATATYPE_LENGTH + 31] =
                                         ""; /* ADF knows types of 32 characters */
    *n = (cgns_node){.id = id};
    if (cgio_get_name(c, id, name) != 0 || cgio_get_label(c, id, label) != 0 ||
        cgio_get_data_type(c, id, type) != 0)
        return adf_fail(t, "a node cannot be read");
    (void)snprintf(n->name, sizeof n->name, "%s", name);
    (void)snprintf(n->label, sizeof n->label, "%s", label);
    (void)snprintf(n->type, sizeof n->type, "%.3s", type);
    if (cgns_type_size(n->type) == 0) return FF_OK;
    if (cgio_get_dimensions(c, id, &n->n_dims, dims) != 0) return adf_fail(t, n->name);
    if (n->n_dims < 0 || n->n_dims > CGNS_DIMS)
        return ff_fail(FF_E_INPUT, "%s: %s: %d dimensions, expected at most %d", t->path, n->name, n->n_dims,
                       CGNS_DIMS);
    for (int i = 0; i < n->n_dims; i++) n->dim[i] = dims[i];
    return FF_OK;
}

static ff_status list_node(cgns_tree *t, int64_t node, int depth)
{
    int n = 0, got = 0, c = t->adf->file;
    double *ids = NULL;
    cgns_node child;
    int64_t at;
    ff_status st = FF_OK;
    double id = t->node[node].id;
    if (cgio_number_children(c, id, &n) != 0) return adf_fail(t, "children cannot be counted");
    if (n < 0 || n > t->adf->bytes / 32) /* each has a name of 32 bytes in a table */
        return ff_fail(FF_E_INPUT, "%s: a node claims %d children, more than the file can hold", t->path, n);
    if (n == 0) return FF_OK;
    FF_GO(FF_NEW(ids, n));
    if (cgio_children_ids(c, id, 1, n, &got, ids) != 0 || got != n)
        FF_GO(adf_fail(t, "children cannot be listed"));
    for (int i = 0; i < n; i++) {
        FF_GO(read_node(t, ids[i], &child));
        FF_GO(cgns_add(t, node, &child, &at));
        if (cgns_descends(child.label, depth + 1)) FF_GO(list_node(t, at, depth + 1));
    }
done:
    ff_free(ids);
    return st;
}

/* The header says where the file ends: a shorter one is cut. */
static ff_status check_size(const cgns_tree *t)
{
    ff_bytes *b = NULL;
    const unsigned char *head;
    size_t got;
    unsigned long long block = 0, offset = 0;
    ff_status st;
    FF_GO(ff_bytes_open(t->path, &b));
    t->adf->bytes = ff_bytes_size(b);
    FF_GO(ff_bytes_peek(b, 186, &head, &got));
    char word[13] = "";
    if (got == 186) memcpy(word, head + 146, 12);
    bool found = got == 186 && sscanf(word, "%8llx%4llx", &block, &offset) == 2;
    /* The end is counted in blocks of 4096 bytes and points at the last byte that is used. */
    if (!found || block * 4096 + offset >= (unsigned long long)t->adf->bytes)
        st = ff_fail(FF_E_INPUT,
                     "%s: has %lld bytes, expected more than %llu as its header says: cut, fetch it again",
                     t->path, (long long)t->adf->bytes, block * 4096 + offset);
done:
    ff_bytes_close(&b);
    return st;
}

ff_status cgns_adf_open(cgns_tree *t)
{
    double id;
    cgns_node root;
    int64_t at;
    FF_TRY(FF_NEW0(t->adf, 1));
    t->adf->file = -1;
    FF_TRY(check_size(t));
    if (cgio_open_file(t->path, CGIO_MODE_READ, CGIO_FILE_ADF, &t->adf->file) != 0) {
        t->adf->file = -1;
        return adf_fail(t, "cannot be opened");
    }
    if (cgio_get_root_id(t->adf->file, &id) != 0) return adf_fail(t, "has no root");
    FF_TRY(read_node(t, id, &root));
    FF_TRY(cgns_add(t, -1, &root, &at));
    return list_node(t, at, 0);
}

void cgns_adf_close(cgns_tree *t)
{
    if (t->adf == NULL) return;
    if (t->adf->file >= 0) (void)cgio_close_file(t->adf->file);
    FF_FREE(t->adf);
}

ff_status cgns_adf_read(const cgns_tree *t, int64_t node, unsigned char **out)
{
    const cgns_node *n = &t->node[node];
    size_t size = cgns_type_size(n->type);
    *out = NULL;
    if (n->n > t->adf->bytes / (int64_t)size)
        return cgns_fail(t, node, "claims %lld values, more than the file can hold", (long long)n->n);
    FF_TRY(FF_NEW0(*out, n->n * (int64_t)size));
    if (cgio_read_all_data(t->adf->file, n->id, *out) == 0) return FF_OK;
    FF_FREE(*out);
    return adf_fail(t, n->name);
}

#else

ff_status cgns_adf_open(cgns_tree *t)
{
    return ff_fail(
        FF_E_UNSUPPORTED,
        "%s: is a CGNS file in an ADF container, and this program was built without libcgns; convert it "
        "with adf2hdf, or install libcgns-dev and build again",
        t->path);
}

void cgns_adf_close(cgns_tree *t)
{
    (void)t;
}

ff_status cgns_adf_read(const cgns_tree *t, int64_t node, unsigned char **out)
{
    *out = NULL;
    return cgns_fail(t, node, "ADF is not read in this build");
}

#endif
