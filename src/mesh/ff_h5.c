#include "ff_h5_impl.h"

#include "ff_io.h"
#include "ff_mem.h"
#include "ff_mesh.h"

#include <errno.h>
#include <string.h>

/* After a write failed (full disk) HDF5 1.10 cannot close the file, and its own clean-up at exit or in MPI_Finalize
 * crashes on it. So the library is started here, before MPI is, without either clean-up: we close every file. */
__attribute__((constructor)) static void start_library(void)
{
    (void)H5dont_atexit();
    (void)H5open();
}

static ff_h5_access access_hook;
static bool have_hook;

void ff_h5_set_access(const ff_h5_access *access)
{
    have_hook = access != NULL;
    if (have_hook) access_hook = *access;
}

bool ff_h5_can_share(const ff_comm *comm)
{
    return have_hook && comm->size > 1 && comm->size == access_hook.n_ranks;
}

size_t ff_h5_type_size(ff_h5_type t)
{
    static const size_t size[] = {4, 8, 4, 8, 1};
    return size[t];
}

hid_t ff_h5_mem_type(ff_h5_type t)
{
    switch (t) {
    case FF_H5_F32:
        return H5T_NATIVE_FLOAT;
    case FF_H5_F64:
        return H5T_NATIVE_DOUBLE;
    case FF_H5_I32:
        return H5T_NATIVE_INT32;
    case FF_H5_I64:
        return H5T_NATIVE_INT64;
    default:
        return H5T_NATIVE_UINT8;
    }
}

hid_t ff_h5_file_type(ff_h5_type t)
{
    switch (t) {
    case FF_H5_F32:
        return H5T_IEEE_F32LE;
    case FF_H5_F64:
        return H5T_IEEE_F64LE;
    case FF_H5_I32:
        return H5T_STD_I32LE;
    case FF_H5_I64:
        return H5T_STD_I64LE;
    default:
        return H5T_STD_U8LE;
    }
}

ff_h5_class ff_h5_class_of(hid_t type)
{
    switch (H5Tget_class(type)) {
    case H5T_INTEGER:
        return FF_H5_INTEGER;
    case H5T_FLOAT:
        return FF_H5_FLOAT;
    case H5T_STRING:
        return FF_H5_TEXT;
    default:
        return FF_H5_OTHER;
    }
}

hid_t ff_h5_text_type(const char *text)
{
    size_t n = strlen(text);
    bool ascii = true;
    for (size_t i = 0; i < n; i++) ascii &= (unsigned char)text[i] < 128;
    hid_t type = H5Tcopy(H5T_C_S1);
    (void)H5Tset_size(type, n != 0 ? n : 1);
    (void)H5Tset_strpad(type, H5T_STR_NULLPAD);
    (void)H5Tset_cset(type, ascii ? H5T_CSET_ASCII : H5T_CSET_UTF8);
    return type;
}

/* ---- errors ---- */

/* On one line: some of HDF5's texts have more. */
static herr_t keep_innermost(unsigned n, const H5E_error2_t *e, void *buf)
{
    char *text = buf;
    if (n != 0 || e->desc == NULL) return 0;
    (void)strncpy(text, e->desc, 199);
    text[199] = 0;
    for (char *p = text; *p != 0; p++)
        if ((unsigned char)*p < ' ') *p = ' ';
    return 0;
}

ff_status ff_h5_fail(const ff_h5 *f, ff_status code, const char *object, const char *what)
{
    char why[200] = "no reason given";
    (void)H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_innermost, why);
    (void)H5Eclear2(H5E_DEFAULT);
    if (object == NULL) return ff_fail(code, "%s: %s: HDF5 says \"%s\"", f->path, what, why);
    return ff_fail(code, "%s: %s: %s: HDF5 says \"%s\"", f->path, object, what, why);
}

const char *ff_h5_path(const ff_h5 *f)
{
    return f->path;
}

/* ---- open and close ---- */

static void h5_free(ff_h5 **f)
{
    if (*f == NULL) return;
    if ((*f)->dxpl != H5P_DEFAULT) (void)H5Pclose((*f)->dxpl);
    ff_free((*f)->path);
    FF_FREE(*f);
}

static ff_status h5_new(ff_comm *comm, const char *path, ff_h5 **out)
{
    *out = NULL;
    (void)H5Eset_auto2(H5E_DEFAULT, NULL, NULL); /* our messages only */
    ff_h5 *f;
    FF_TRY(FF_NEW0(f, 1));
    f->id = H5I_INVALID_HID;
    f->dxpl = H5P_DEFAULT;
    f->comm = comm;
    f->path = ff_strdup(path);
    if (f->path == NULL) h5_free(&f);
    *out = f;
    return f != NULL ? FF_OK : FF_E_MEM;
}

/* The signature may stand at 0, 512, 1024, 2048, ... ; foreign files are named where we know them. */
static ff_status check_signature(const char *path)
{
    static const unsigned char sig[8] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
    unsigned char head[64] = {0};
    FF_TRY(ff_mesh_check_name(path));
    if (ff_io_is_device(path))
        return ff_fail(FF_E_INPUT, "%s: is a pipe or device, expected a regular file", path);
    FILE *f = fopen(path, "rb");
    if (f == NULL) return ff_fail(FF_E_INPUT, "%s: cannot be opened: %s", path, strerror(errno));
    size_t n = fread(head, 1, sizeof head, f);
    bool found = n >= 8 && memcmp(head, sig, 8) == 0;
    for (long at = 512; !found && at <= (1L << 40); at *= 2) {
        unsigned char there[8];
        if (fseek(f, at, SEEK_SET) != 0 || fread(there, 1, 8, f) != 8) break;
        found = memcmp(there, sig, 8) == 0;
    }
    (void)fclose(f);
    if (found) return FF_OK;
    if (n == 0) return ff_fail(FF_E_INPUT, "%s: the file is empty, expected HDF5", path);
    if (memcmp(head + 4, "ADF Database", 12) == 0)
        return ff_fail(FF_E_INPUT, "%s: this is a CGNS file in an ADF container, not HDF5", path);
    return ff_fail(FF_E_INPUT, "%s: not an HDF5 file (no signature)", path);
}

/* File access properties: format of HDF5 1.8 to 1.10, so that older readers open our files; large datasets
 * begin at multiples of 1 MiB, as parallel file systems like. */
static ff_status access_props(bool shared, bool writing, hid_t *out)
{
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
    ff_status st = fapl < 0 ? ff_fail(FF_E_MEM, "HDF5: no file access properties") : FF_OK;
    if (st == FF_OK && writing &&
        (H5Pset_libver_bounds(fapl, H5F_LIBVER_V18, H5F_LIBVER_V110) < 0 ||
         H5Pset_alignment(fapl, (hsize_t)1 << 24, (hsize_t)1 << 20) < 0))
        st = ff_fail(FF_E_INTERNAL, "HDF5: file access properties refused");
    if (st == FF_OK && shared) st = access_hook.set_fapl(access_hook.ctx, fapl);
    if (st != FF_OK && fapl >= 0) (void)H5Pclose(fapl);
    *out = fapl;
    return st;
}

static ff_status transfer_props(ff_h5 *f)
{
    f->dxpl = H5Pcreate(H5P_DATASET_XFER);
    if (f->dxpl < 0) {
        f->dxpl = H5P_DEFAULT;
        return ff_fail(FF_E_MEM, "HDF5: no transfer properties");
    }
    return access_hook.set_dxpl(access_hook.ctx, f->dxpl);
}

/* Without times of creation, so that equal results are equal files. */
static hid_t file_create(const char *path, hid_t fapl)
{
    hid_t fcpl = H5Pcreate(H5P_FILE_CREATE);
    (void)H5Pset_obj_track_times(fcpl, false);
    hid_t id = H5Fcreate(path, H5F_ACC_TRUNC, fcpl, fapl);
    (void)H5Pclose(fcpl);
    return id;
}

static ff_status h5_enter(ff_comm *comm, const char *path, bool writing, ff_h5 **out)
{
    bool shared = ff_h5_can_share(comm);
    ff_comm *with = shared ? comm : ff_comm_self();
    hid_t fapl = H5I_INVALID_HID;
    ff_h5 *f = NULL;
    ff_status st = h5_new(with, path, &f);
    if (st == FF_OK) st = writing ? ff_io_fault(path) : with->rank == 0 ? check_signature(path) : FF_OK;
    st = ff_agree(with, st); /* the properties hold a communicator of their own, made by all ranks */
    if (st == FF_OK) st = access_props(shared, writing, &fapl);
    if (st == FF_OK && shared) st = transfer_props(f);
    st = ff_agree(with, st);
    if (st == FF_OK) {
        f->writing = writing;
        f->id = writing ? file_create(path, fapl) : H5Fopen(path, H5F_ACC_RDONLY, fapl);
        if (f->id < 0 && writing) st = ff_h5_fail(f, FF_E_IO, NULL, "cannot be created");
        if (f->id < 0 && !writing)
            st = ff_h5_fail(f, FF_E_INPUT, NULL, "cannot be opened; copy or write the file again");
        st = ff_agree(with, st);
    }
    if (fapl >= 0) (void)H5Pclose(fapl);
    if (st != FF_OK && f != NULL && f->id >= 0) (void)H5Fclose(f->id);
    if (st != FF_OK) h5_free(&f);
    *out = f;
    return st;
}

ff_status ff_h5_open(ff_comm *comm, const char *path, ff_h5 **out)
{
    return h5_enter(comm, path, false, out);
}

ff_status ff_h5_create(ff_comm *comm, const char *path, ff_h5 **out)
{
    *out = NULL;
    if (comm->size > 1 && !ff_h5_can_share(comm))
        return ff_fail(FF_E_UNSUPPORTED, "%s: writing HDF5 from %d ranks needs MPI-IO access", path,
                       comm->size);
    return h5_enter(comm, path, true, out);
}

ff_status ff_h5_close(ff_h5 **f)
{
    if (*f == NULL) return FF_OK;
    ff_comm *comm = (*f)->comm;
    ff_status st = FF_OK;
    if ((*f)->writing) {
        st = ff_agree(comm, ff_io_fault((*f)->path));
        if (st == FF_OK && H5Fflush((*f)->id, H5F_SCOPE_GLOBAL) < 0)
            st = ff_h5_fail(*f, FF_E_IO, NULL, "flushing failed");
    }
    if (H5Fclose((*f)->id) < 0 && st == FF_OK) st = ff_h5_fail(*f, FF_E_IO, NULL, "closing failed");
    (void)H5Eclear2(H5E_DEFAULT);
    h5_free(f);
    return ff_agree(comm, st);
}

/* ---- looking ---- */

bool ff_h5_exists(const ff_h5 *f, const char *object)
{
    char part[1024];
    size_t n = strlen(object);
    bool there = n < sizeof part;
    if (!there) return false;
    memcpy(part, object, n + 1);
    /* H5Lexists wants each link on the way to exist, so ask from the root down. */
    for (char *p = part + (part[0] == '/'); there && *p != 0;) {
        char *slash = strchr(p, '/');
        if (slash != NULL) *slash = 0;
        there = H5Lexists(f->id, part, H5P_DEFAULT) > 0 && H5Oexists_by_name(f->id, part, H5P_DEFAULT) > 0;
        if (slash == NULL) break;
        *slash = '/';
        p = slash + 1;
    }
    (void)H5Eclear2(H5E_DEFAULT);
    return there;
}

bool ff_h5_attr_exists(const ff_h5 *f, const char *object, const char *attr)
{
    bool there = ff_h5_exists(f, object) && H5Aexists_by_name(f->id, object, attr, H5P_DEFAULT) > 0;
    (void)H5Eclear2(H5E_DEFAULT);
    return there;
}

int64_t ff_h5_attr_count(const ff_h5 *f, const char *object, const char *attr)
{
    if (!ff_h5_attr_exists(f, object, attr)) return 0;
    hid_t a = H5Aopen_by_name(f->id, object, attr, H5P_DEFAULT, H5P_DEFAULT);
    if (a < 0) {
        (void)H5Eclear2(H5E_DEFAULT);
        return 0;
    }
    hid_t space = H5Aget_space(a);
    int64_t n = H5Sget_simple_extent_npoints(space);
    (void)H5Sclose(space);
    (void)H5Aclose(a);
    return n > 0 ? n : 0;
}

typedef struct {
    char **name;
    int64_t n, cap;
    ff_status st;
} name_list;

static herr_t add_name(hid_t group, const char *name, const H5L_info_t *info, void *ctx)
{
    (void)group, (void)info;
    name_list *l = ctx;
    l->st = ff_mem_reserve(&l->name, &l->cap, l->n + 1, sizeof *l->name);
    if (l->st != FF_OK) return -1;
    l->name[l->n] = ff_strdup(name);
    if (l->name[l->n] == NULL)
        l->st = FF_E_MEM;
    else
        l->n++;
    return l->st == FF_OK ? 0 : -1;
}

static ff_status list_by(const ff_h5 *f, const char *group, H5_index_t index, char ***names, int *n)
{
    name_list l = {0};
    hsize_t at = 0;
    if (H5Literate_by_name(f->id, group, index, H5_ITER_INC, &at, add_name, &l, H5P_DEFAULT) < 0 &&
        l.st == FF_OK)
        l.st = ff_h5_fail(f, FF_E_INPUT, group, "cannot be listed");
    int32_t count = 0;
    if (l.st == FF_OK) l.st = ff_to_i32(l.n, "number of links in a group", &count);
    if (l.st != FF_OK) ff_h5_names_free(&l.name, (int)l.n);
    *names = l.name;
    *n = l.st == FF_OK ? (int)count : 0;
    return l.st;
}

ff_status ff_h5_list(const ff_h5 *f, const char *group, char ***names, int *n)
{
    return list_by(f, group, H5_INDEX_NAME, names, n);
}

ff_status ff_h5_list_created(const ff_h5 *f, const char *group, char ***names, int *n)
{
    unsigned flags = 0;
    hid_t g = H5Gopen2(f->id, group, H5P_DEFAULT);
    hid_t plist = g >= 0 ? H5Gget_create_plist(g) : H5I_INVALID_HID;
    if (plist >= 0) (void)H5Pget_link_creation_order(plist, &flags);
    if (plist >= 0) (void)H5Pclose(plist);
    if (g >= 0) (void)H5Gclose(g);
    (void)H5Eclear2(H5E_DEFAULT);
    return list_by(f, group, (flags & H5P_CRT_ORDER_TRACKED) != 0 ? H5_INDEX_CRT_ORDER : H5_INDEX_NAME, names,
                   n);
}

void ff_h5_names_free(char ***names, int n)
{
    if (*names == NULL) return;
    for (int i = 0; i < n; i++) ff_free((*names)[i]);
    FF_FREE(*names);
}

/* ---- attributes and groups ---- */

static herr_t read_attr_text(hid_t object, hid_t mem_type, void *buffer)
{
    return H5Aread(object, mem_type, buffer);
}

static ff_status variable_text(const ff_h5 *f, const char *name, hid_t object, hid_t type,
                               ff_h5_text_reader read, char **out)
{
    char *text = NULL;
    hid_t mem = H5Tcopy(H5T_C_S1);
    (void)H5Tset_size(mem, H5T_VARIABLE);
    (void)H5Tset_cset(mem, H5Tget_cset(type));
    ff_status st = FF_OK;
    if (read(object, mem, &text) < 0)
        st = ff_h5_fail(f, FF_E_INPUT, name, "cannot be read as text");
    else
        *out = ff_strdup(text != NULL ? text : "");
    if (st == FF_OK && *out == NULL) st = FF_E_MEM;
    if (text != NULL) (void)H5free_memory(text);
    (void)H5Tclose(mem);
    return st;
}

static ff_status fixed_text(const ff_h5 *f, const char *name, hid_t object, hid_t type,
                            ff_h5_text_reader read, char **out)
{
    size_t n = H5Tget_size(type);
    if (n == 0 || n > ((size_t)1 << 30)) return ff_h5_fail(f, FF_E_INPUT, name, "text has no sensible size");
    char *text = ff_mem_alloc0(n + 1, 1);
    if (text == NULL) return FF_E_MEM;
    if (read(object, type, text) < 0) {
        ff_free(text);
        return ff_h5_fail(f, FF_E_INPUT, name, "cannot be read as text");
    }
    if (H5Tget_strpad(type) == H5T_STR_SPACEPAD)
        for (size_t i = n; i > 0 && text[i - 1] == ' '; i--) text[i - 1] = 0;
    *out = text;
    return FF_OK;
}

ff_status ff_h5_text_from(const ff_h5 *f, const char *name, hid_t object, hid_t type, hid_t space,
                          ff_h5_text_reader read, char **out)
{
    *out = NULL;
    if (H5Tget_class(type) != H5T_STRING) return ff_fail(FF_E_INPUT, "%s: %s: expected text", f->path, name);
    if (H5Sget_simple_extent_npoints(space) != 1)
        return ff_fail(FF_E_INPUT, "%s: %s: expected one text, not an array", f->path, name);
    return H5Tis_variable_str(type) > 0 ? variable_text(f, name, object, type, read, out)
                                        : fixed_text(f, name, object, type, read, out);
}

ff_status ff_h5_attr_read_text(const ff_h5 *f, const char *object, const char *attr, char **out)
{
    *out = NULL;
    hid_t a = ff_h5_attr_exists(f, object, attr)
                  ? H5Aopen_by_name(f->id, object, attr, H5P_DEFAULT, H5P_DEFAULT)
                  : -1;
    if (a < 0) return ff_fail(FF_E_INPUT, "%s: %s: attribute %s is missing", f->path, object, attr);
    hid_t type = H5Aget_type(a), space = H5Aget_space(a);
    ff_status st = ff_h5_text_from(f, attr, a, type, space, read_attr_text, out);
    (void)H5Sclose(space);
    (void)H5Tclose(type);
    (void)H5Aclose(a);
    return st;
}

ff_status ff_h5_attr_read(const ff_h5 *f, const char *object, const char *attr, ff_h5_type t, int64_t n,
                          void *out)
{
    hid_t a = ff_h5_attr_exists(f, object, attr)
                  ? H5Aopen_by_name(f->id, object, attr, H5P_DEFAULT, H5P_DEFAULT)
                  : -1;
    if (a < 0) return ff_fail(FF_E_INPUT, "%s: %s: attribute %s is missing", f->path, object, attr);
    hid_t type = H5Aget_type(a), space = H5Aget_space(a);
    ff_h5_class kind = ff_h5_class_of(type);
    int64_t have = H5Sget_simple_extent_npoints(space);
    ff_status st = FF_OK;
    if (kind != FF_H5_INTEGER && kind != FF_H5_FLOAT)
        st = ff_fail(FF_E_INPUT, "%s: %s: attribute %s: expected numbers", f->path, object, attr);
    else if (have != n)
        st = ff_fail(FF_E_INPUT, "%s: %s: attribute %s has %lld values, expected %lld", f->path, object, attr,
                     (long long)have, (long long)n);
    else if (n > 0 && H5Aread(a, ff_h5_mem_type(t), out) < 0)
        st = ff_h5_fail(f, FF_E_INPUT, attr, "attribute cannot be read");
    (void)H5Sclose(space);
    (void)H5Tclose(type);
    (void)H5Aclose(a);
    return st;
}

ff_status ff_h5_group(ff_h5 *f, const char *group)
{
    ff_status st = FF_OK;
    hid_t lcpl = H5Pcreate(H5P_LINK_CREATE);
    (void)H5Pset_create_intermediate_group(lcpl, 1);
    hid_t gcpl = H5Pcreate(H5P_GROUP_CREATE);
    (void)H5Pset_obj_track_times(gcpl, false);
    hid_t g = H5Gcreate2(f->id, group, lcpl, gcpl, H5P_DEFAULT);
    if (g < 0)
        st = ff_h5_fail(f, FF_E_IO, group, "group cannot be created");
    else
        (void)H5Gclose(g);
    (void)H5Pclose(gcpl);
    (void)H5Pclose(lcpl);
    return ff_agree(f->comm, st);
}

/* All ranks write the same attribute: metadata, of which HDF5 stores one copy. */
static ff_status attr_put(ff_h5 *f, const char *object, const char *attr, hid_t file_type, hid_t mem_type,
                          hid_t space, const void *v)
{
    FF_TRY(ff_agree(f->comm, ff_io_fault(f->path)));
    ff_status st = FF_OK;
    hid_t a = H5Acreate_by_name(f->id, object, attr, file_type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    if (a < 0 || H5Awrite(a, mem_type, v) < 0)
        st = ff_h5_fail(f, FF_E_IO, attr, "attribute cannot be written");
    if (a >= 0) (void)H5Aclose(a);
    return ff_agree(f->comm, st);
}

ff_status ff_h5_attr_write(ff_h5 *f, const char *object, const char *attr, ff_h5_type t, int64_t n,
                           const void *v)
{
    hid_t space = H5Screate_simple(1, (hsize_t[]){(hsize_t)n}, NULL);
    ff_status st = attr_put(f, object, attr, ff_h5_file_type(t), ff_h5_mem_type(t), space, v);
    (void)H5Sclose(space);
    return st;
}

ff_status ff_h5_attr_write_scalar(ff_h5 *f, const char *object, const char *attr, ff_h5_type t, const void *v)
{
    hid_t space = H5Screate(H5S_SCALAR);
    ff_status st = attr_put(f, object, attr, ff_h5_file_type(t), ff_h5_mem_type(t), space, v);
    (void)H5Sclose(space);
    return st;
}

ff_status ff_h5_attr_write_text(ff_h5 *f, const char *object, const char *attr, const char *text)
{
    hid_t type = ff_h5_text_type(text), space = H5Screate(H5S_SCALAR);
    ff_status st = attr_put(f, object, attr, type, type, space, text);
    (void)H5Sclose(space);
    (void)H5Tclose(type);
    return st;
}
