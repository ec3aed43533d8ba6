/* Writes small CGNS trees for tests: HDF5 with our own calls, and ADF and HDF5 with libcgns where it is there. */
#ifndef FF_CGNS_WRITER_H
#define FF_CGNS_WRITER_H

#include "../ff_test_mesh.h"

#include "ff_h5.h"

#ifdef FF_HAVE_CGNS
#include <cgns_io.h>
enum { W_OWN, W_ADF, W_HDF5, W_KINDS };
#else
enum { W_OWN, W_KINDS, W_ADF, W_HDF5 };
#endif

typedef struct writer {
    int kind;
    ff_h5 *h5;
    int cgio;
    bool wide; /* whole numbers as I8 */
} writer;

typedef struct place {
    double id;
    char path[160];
} place;

static inline void w_attrs(writer *w, const char *path, const char *name, const char *label, const char *type)
{
    assert_int_equal(ff_h5_attr_write_text(w->h5, path, "name", name), FF_OK);
    assert_int_equal(ff_h5_attr_write_text(w->h5, path, "label", label), FF_OK);
    assert_int_equal(ff_h5_attr_write_text(w->h5, path, "type", type), FF_OK);
}

static inline place w_open(writer *w, int kind, const char *file)
{
    place root = {.path = ""};
    *w = (writer){.kind = kind};
    (void)unlink(file);
    if (kind == W_OWN) {
        if (ff_h5_create(ff_comm_self(), file, &w->h5) != FF_OK) fail_msg("%s", ff_error_text());
        w_attrs(w, "/", "HDF5 MotherNode", "Root Node of HDF5 File", "MT");
        return root;
    }
#ifdef FF_HAVE_CGNS
    assert_int_equal(
        cgio_open_file(file, CGIO_MODE_WRITE, kind == W_ADF ? CGIO_FILE_ADF : CGIO_FILE_HDF5, &w->cgio), 0);
    assert_int_equal(cgio_get_root_id(w->cgio, &root.id), 0);
#endif
    return root;
}

static inline void w_close(writer *w)
{
#ifdef FF_HAVE_CGNS
    if (w->kind != W_OWN) assert_int_equal(cgio_close_file(w->cgio), 0);
#endif
    if (w->kind == W_OWN) assert_int_equal(ff_h5_close(&w->h5), FF_OK);
}

/* A node with data of n_dims dimensions, the first fastest; type MT: none. */
static inline place w_node(writer *w, place parent, const char *name, const char *label, const char *type,
                           int n_dims, const int *dim, const void *data)
{
    place p = {0};
    if (w->kind == W_OWN) {
        static const char *const names[] = {"R4", "R8", "I4", "I8", "C1"};
        char path[200];
        int t = 0;
        int64_t turned[4];
        (void)snprintf(p.path, sizeof p.path, "%.100s/%.50s", parent.path, name);
        assert_int_equal(ff_h5_group(w->h5, p.path), FF_OK);
        w_attrs(w, p.path, name, label, type);
        if (strcmp(type, "MT") == 0) return p;
        while (strcmp(type, names[t]) != 0) t++;
        for (int i = 0; i < n_dims; i++) turned[i] = dim[n_dims - 1 - i];
        (void)snprintf(path, sizeof path, "%s/ data", p.path);
        assert_int_equal(ff_h5_dataset(w->h5, path, (ff_h5_type)t, n_dims, turned), FF_OK);
        assert_int_equal(ff_h5_write(w->h5, path, (ff_h5_type)t, 0, turned[0], data), FF_OK);
        return p;
    }
#ifdef FF_HAVE_CGNS
    cgsize_t dims[4];
    for (int i = 0; i < n_dims; i++) dims[i] = dim[i];
    assert_int_equal(cgio_create_node(w->cgio, parent.id, name, &p.id), 0);
    assert_int_equal(cgio_set_label(w->cgio, p.id, label), 0);
    if (strcmp(type, "MT") == 0) return p;
    assert_int_equal(cgio_set_dimensions(w->cgio, p.id, type, n_dims, dims), 0);
    assert_int_equal(cgio_write_all_data(w->cgio, p.id, data), 0);
#endif
    return p;
}

static inline place w_empty(writer *w, place parent, const char *name, const char *label)
{
    return w_node(w, parent, name, label, "MT", 0, NULL, NULL);
}

static inline place w_text(writer *w, place parent, const char *name, const char *label, const char *text)
{
    int n = (int)strlen(text);
    return w_node(w, parent, name, label, "C1", 1, &n, text);
}

/* Whole numbers, I4 or I8, of shape [n0][n1] (n1 = 0: one dimension), the first index fastest. */
static inline place w_ints(writer *w, place parent, const char *name, const char *label, int n0, int n1,
                           const int *v)
{
    int64_t wide[512];
    int dim[2] = {n0, n1}, n = n0 * (n1 > 0 ? n1 : 1);
    assert_true(n <= 512);
    for (int i = 0; i < n; i++) wide[i] = v[i];
    return w_node(w, parent, name, label, w->wide ? "I8" : "I4", n1 > 0 ? 2 : 1, dim,
                  w->wide ? (const void *)wide : v);
}

static inline place w_reals(writer *w, place parent, const char *name, int n, const double *v)
{
    return w_node(w, parent, name, "DataArray_t", "R8", 1, &n, v);
}

static inline place w_base(writer *w, place root, const char *name, int cell_dim, int phys_dim)
{
    return w_node(w, root, name, "CGNSBase_t", "I4", 1, (int[]){2}, (int[]){cell_dim, phys_dim});
}

/* An unstructured or structured zone of the lattice [0, n[0]] x [0, n[1]] x [0, n[2]], moved by x0 along x; spacing 1.
 * dims: of the lattice. */
static inline place w_zone(writer *w, place base, const char *name, bool structured, int dims, const int n[3],
                           double x0)
{
    double x[3][256];
    int nv[3] = {n[0] + 1, n[1] + 1, dims > 2 ? n[2] + 1 : 1}, total = nv[0] * nv[1] * nv[2];
    int cells = n[0] * n[1] * (dims > 2 ? n[2] : 1);
    int sizes[9] = {nv[0], nv[1], nv[2]};
    static const char *const axis[3] = {"CoordinateX", "CoordinateY", "CoordinateZ"};
    assert_true(total <= 256);
    for (int k = 0; k < dims; k++) sizes[k] = nv[k], sizes[dims + k] = n[k], sizes[2 * dims + k] = 0;
    place z = structured ? w_ints(w, base, name, "Zone_t", dims, 3, sizes)
                         : w_ints(w, base, name, "Zone_t", 1, 3, (int[]){total, cells, 0});
    (void)w_text(w, z, "ZoneType", "ZoneType_t", structured ? "Structured" : "Unstructured");
    place g = w_empty(w, z, "GridCoordinates", "GridCoordinates_t");
    for (int i = 0; i < total; i++) {
        x[0][i] = x0 + i % nv[0];
        x[1][i] = i / nv[0] % nv[1];
        x[2][i] = i / (nv[0] * nv[1]);
    }
    for (int k = 0; k < dims; k++) (void)w_reals(w, g, axis[k], total, x[k]);
    return z;
}

/* Elements first to last of one type; offsets (of last - first + 2 numbers) may be NULL. */
static inline place w_section(writer *w, place zone, const char *name, int type, int first, int last,
                              const int *conn, int n_conn, const int *offsets)
{
    place s = w_node(w, zone, name, "Elements_t", "I4", 1, (int[]){2}, (int[]){type, 0});
    (void)w_ints(w, s, "ElementRange", "IndexRange_t", 2, 0, (int[]){first, last});
    (void)w_ints(w, s, "ElementConnectivity", "DataArray_t", n_conn, 0, conn);
    if (offsets != NULL)
        (void)w_ints(w, s, "ElementStartOffset", "DataArray_t", last - first + 2, 0, offsets);
    return s;
}

/* A condition in ZoneBC (or a connectivity) with points [n][dims] under key; family and place may be NULL. */
static inline place w_set(writer *w, place in, const char *name, const char *label, const char *key, int dims,
                          int n, const int *points, const char *location, const char *family)
{
    place b = w_text(w, in, name, label, "BCWall");
    (void)w_ints(w, b, key, strstr(key, "Range") != NULL ? "IndexRange_t" : "IndexArray_t", dims, n, points);
    if (location != NULL) (void)w_text(w, b, "GridLocation", "GridLocation_t", location);
    if (family != NULL) (void)w_text(w, b, "FamilyName", "FamilyName_t", family);
    return b;
}

#endif
