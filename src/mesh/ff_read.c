/* ff_mesh_read: which reader a file needs, by its content, then by its name. */
#include "ff_bytes.h"
#include "ff_cgns.h"
#include "ff_foam.h"
#include "ff_gmsh.h"
#include "ff_log.h"
#include "ff_mesh.h"
#include "ff_nastran.h"
#include "ff_obj.h"
#include "ff_ply.h"
#include "ff_stl.h"
#include "ff_su2.h"
#include "ff_vtk.h"
#include "ff_vtkhdf.h"
#include "ff_vtp.h"

#include <string.h>
#include <strings.h>

#define SUPPORTED                                                                                            \
    "supported: STL, OBJ, PLY, VTP, VTU, VTK, Gmsh, Nastran, SU2 (each also .gz), CGNS, OpenFOAM and VTKHDF"

typedef ff_status reader(const char *path, const ff_read_opts *opts, ff_mesh **out);

/* What the first bytes of a file, or the end of its name, tell. A row without reader is a format we know but
 * do not read (unsupported), or something that is no mesh. */
typedef struct rule {
    const char *key;
    reader *read;
    const char *what;
    bool no_mesh;
} rule;

/* VTKHDF, our own plain files, or CGNS. */
static ff_status hdf5_read(const char *path, const ff_read_opts *opts, ff_mesh **out)
{
    bool cgns = false;
    FF_TRY(ff_cgns_probe(path, &cgns));
    return cgns ? ff_cgns_read(path, opts, out) : ff_vtkhdf_read(path, opts, out);
}

static const rule by_content[] = {
    {"\x89HDF\r\n\x1a\n", hdf5_read, "HDF5", false},
    {"ply\n", ff_ply_read, "PLY", false},
    {"ply\r", ff_ply_read, "PLY", false},
    {"<?xml", ff_vtp_read, "VTK XML", false},
    {"<VTKFile", ff_vtp_read, "VTK XML", false},
    {"<!DOCTYPE", NULL, "an HTML page (a failed download?)", true},
    {"<html", NULL, "an HTML page (a failed download?)", true},
    {"version https://git-lfs", NULL, "a Git LFS pointer instead of the file's content", true},
    {"PK\x03\x04", NULL, "a ZIP archive; unpack it first", true},
    {"BZh", NULL, "bzip2-compressed; decompress it first", true},
    {"\xFD"
     "7zXZ",
     NULL, "xz-compressed; decompress it first", true},
    {"\x28\xB5\x2F\xFD", NULL, "zstd-compressed; decompress it first", true},
    {"%PDF", NULL, "a PDF document", true},
    {"# vtk DataFile", ff_vtk_read, "legacy VTK", false},
    {"$MeshFormat", ff_gmsh_read, "Gmsh", false},
    {"$NOD\n", ff_gmsh_read, "Gmsh", false},
    {"\xC0\xA8\xA3\xA9"
     "ADF",
     ff_cgns_read, "CGNS", false},
    {"NDIME", ff_su2_read, "SU2", false},
    {"NZONE", ff_su2_read, "SU2", false},
};

static const rule by_name[] = {
    {".stl", ff_stl_read, "STL", false},
    {".obj", ff_obj_read, "OBJ", false},
    {".ply", ff_ply_read, "PLY", false},
    {".vtp", ff_vtp_read, "VTK XML", false},
    {".vtkhdf", NULL, "not HDF5", true},
    {".hdf", NULL, "not HDF5", true},
    {".h5", NULL, "not HDF5", true},
    {".cgns", ff_cgns_read, "CGNS", false},
    {".msh", ff_gmsh_read, "Gmsh", false},
    {".su2", ff_su2_read, "SU2", false},
    {".bdf", ff_nastran_read, "Nastran", false},
    {".nas", ff_nastran_read, "Nastran", false},
    {".dat", ff_nastran_read, "Nastran", false},
    {".fem", ff_nastran_read, "Nastran", false},
    {".vtk", ff_vtk_read, "legacy VTK", false},
    {".vtu", ff_vtp_read, "VTK XML", false},
    {".off", NULL, "OFF", false},
    {".step", NULL, "STEP (CAD)", false},
    {".stp", NULL, "STEP (CAD)", false},
    {".iges", NULL, "IGES (CAD)", false},
    {".igs", NULL, "IGES (CAD)", false},
    {".gltf", NULL, "glTF", false},
    {".glb", NULL, "glTF", false},
    {".3mf", NULL, "3MF", false},
    {".ftr", ff_foam_read_surface, "OpenFOAM surface", false},
};

const char *ff_mesh_format(int i)
{
    size_t n = sizeof by_content / sizeof *by_content, all = n + sizeof by_name / sizeof *by_name;
    for (size_t k = 0; k < all; k++) {
        bool seen = false;
        const rule *row = k < n ? &by_content[k] : &by_name[k - n];
        for (size_t e = 0; e < k && !seen; e++)
            seen = strcmp((e < n ? &by_content[e] : &by_name[e - n])->what, row->what) == 0;
        if (row->read != NULL && !seen && i-- == 0) return row->what;
    }
    return i == 0 ? "OpenFOAM polyMesh" : NULL; /* folders */
}

/* Whether name without .gz ends in ext. */
static bool has_extension(const char *name, const char *ext)
{
    size_t n = strlen(name), e = strlen(ext);
    if (n > 3 && strcasecmp(name + n - 3, ".gz") == 0) n -= 3;
    return n > e && strncasecmp(name + n - e, ext, e) == 0;
}

static const rule *rule_by_name(const char *path)
{
    for (size_t i = 0; i < sizeof by_name / sizeof *by_name; i++)
        if (has_extension(path, by_name[i].key)) return &by_name[i];
    return NULL;
}

static const rule *rule_at(const unsigned char *head, size_t n)
{
    for (size_t i = 0; i < sizeof by_content / sizeof *by_content; i++) {
        size_t len = strlen(by_content[i].key);
        if (n >= len && strncasecmp((const char *)head, by_content[i].key, len) == 0) return &by_content[i];
    }
    return NULL;
}

/* By what follows blanks and, in SU2, lines of comment behind %. */
static const rule *rule_by_content(const unsigned char *head, size_t n)
{
    const rule *r = NULL;
    size_t at = n >= 3 && memcmp(head, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
    for (;;) {
        while (at < n && (head[at] == ' ' || (head[at] >= '\t' && head[at] <= '\r'))) at++;
        r = rule_at(head + at, n - at);
        if (r != NULL || at == n || head[at] != '%') return r;
        while (at < n && head[at] != '\n') at++;
    }
}

/* Whether some line begins like a vertex of an OBJ file, for files whose name says nothing. */
static bool looks_obj(const unsigned char *head, size_t n)
{
    for (size_t i = 0; i + 1 < n; i++)
        if ((i == 0 || head[i - 1] == '\n') && head[i] == 'v' && (head[i + 1] == ' ' || head[i + 1] == '\t'))
            return true;
    return false;
}

/* Whether some line begins like Nastran bulk data. */
static bool looks_nastran(const unsigned char *head, size_t n)
{
    static const char *const starts[] = {"BEGIN BULK", "GRID ", "GRID*", "GRID,", "CTRIA3 ", "CQUAD4 "};
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < sizeof starts / sizeof *starts && (i == 0 || head[i - 1] == '\n'); k++)
            if (n - i >= strlen(starts[k]) && memcmp(head + i, starts[k], strlen(starts[k])) == 0)
                return true;
    return false;
}

/* Whether this is a file of OpenFOAM: its header follows a banner of comments. */
static bool looks_foam(const unsigned char *head, size_t n)
{
    return memmem(head, n, "FoamFile", 8) != NULL;
}

static ff_status refuse(const char *path, const rule *r)
{
    if (r == NULL) return ff_fail(FF_E_INPUT, "%s: no known mesh format; " SUPPORTED, path);
    if (r->no_mesh) return ff_fail(FF_E_INPUT, "%s: is %s, expected a mesh; " SUPPORTED, path, r->what);
    return ff_fail(FF_E_UNSUPPORTED, "%s: %s is not read yet; " SUPPORTED, path, r->what);
}

/* Content and name say different things: the content decides, but the reader of the message should know. */
static void warn_of_name(const char *path, const rule *found, const rule *named)
{
    if (named == NULL || named->no_mesh || found->read == hdf5_read || strcmp(found->what, named->what) == 0)
        return;
    ff_warn("%s: this is a file of format %s, not %s as its name says; read as %s", path, found->what,
            named->what, found->what);
}

/* Of the readers only these look at the step; the others' files have none. */
static ff_status check_step(const char *path, const rule *r, int64_t step)
{
    if (step == 0 || r->read == hdf5_read || r->read == ff_gmsh_read || r->read == ff_cgns_read ||
        r->read == ff_vtk_read)
        return FF_OK;
    return ff_fail(FF_E_INPUT, "%s: step = %lld, but %s files have one step; expected 0", path,
                   (long long)step, r->what);
}

static ff_status choose(const char *path, int64_t step, reader **read)
{
    static const rule stl = {"", ff_stl_read, "STL", false}, obj = {"", ff_obj_read, "OBJ", false},
                      foam = {"", ff_foam_read_surface, "OpenFOAM", false},
                      nastran = {"", ff_nastran_read, "Nastran", false};
    enum { HEAD = 4096 };
    ff_bytes *b = NULL;
    const unsigned char *head;
    size_t n;
    const rule *name_rule = rule_by_name(path), *r = NULL;
    ff_status st = ff_bytes_open(path, &b);
    if (st != FF_OK) goto done;
    FF_GO(ff_bytes_peek(b, HEAD, &head, &n));
    if (n == 0) {
        st = ff_fail(FF_E_INPUT, "%s: is empty, expected a mesh", path);
        goto done;
    }
    bool named_stl = name_rule != NULL && name_rule->read == ff_stl_read;
    if (ff_stl_size_agrees(head, n, ff_bytes_size(b)) && (named_stl || n > 84)) r = &stl;
    if (r == NULL) r = rule_by_content(head, n);
    if (r == NULL && looks_foam(head, n)) r = &foam;
    if (r == NULL && ff_stl_looks_text(head, n)) r = &stl;
    if (r == NULL) r = name_rule;
    if (r == NULL && looks_nastran(head, n)) r = &nastran;
    if (r == NULL && looks_obj(head, n)) r = &obj;
    if (r == NULL || r->read == NULL) {
        st = refuse(path, r);
        goto done;
    }
    if (r->read == hdf5_read && ff_bytes_size(b) < 0)
        st = ff_fail(FF_E_UNSUPPORTED, "%s: is gzip-compressed HDF5; decompress it first", path);
    if (st == FF_OK) st = check_step(path, r, step);
    if (st == FF_OK) warn_of_name(path, r, name_rule);
    *read = r->read;
done:
    ff_bytes_close(&b);
    return st;
}

ff_status ff_mesh_check_name(const char *path)
{
    static const char *const unfinished[] = {".part", ".partial", ".crdownload", ".download"};
    size_t n = strlen(path);
    for (size_t i = 0; i < sizeof unfinished / sizeof *unfinished; i++) {
        size_t e = strlen(unfinished[i]);
        if (n > e && strcasecmp(path + n - e, unfinished[i]) == 0)
            return ff_fail(FF_E_INPUT,
                           "%s: an unfinished download (%s), expected a complete file; fetch it again", path,
                           unfinished[i]);
    }
    return FF_OK;
}

ff_status ff_mesh_read(const char *path, const ff_read_opts *opts, ff_mesh **out)
{
    reader *read = ff_stl_read;
    *out = NULL;
    FF_TRY(ff_mesh_check_name(path));
    if (ff_foam_is(path)) return ff_foam_read(path, opts, out);
    FF_TRY(choose(path, opts->step, &read));
    return read(path, opts, out);
}
