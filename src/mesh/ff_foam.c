#include "ff_foam.h"

#include "ff_builder.h"
#include "ff_foam_field.h"
#include "ff_foam_file.h"
#include "ff_log.h"
#include "ff_mem.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

/* ---- where the mesh is ---- */

static bool is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static bool is_marker(const char *path)
{
    size_t n = strlen(path);
    return n > 5 && strcasecmp(path + n - 5, ".foam") == 0;
}

bool ff_foam_is(const char *path)
{
    return is_marker(path) || is_folder(path);
}

static bool holds_mesh(const char *folder)
{
    char file[4200];
    struct stat info;
    for (int zipped = 0; zipped < 2; zipped++) {
        (void)snprintf(file, sizeof file, "%s/faces%s", folder, zipped ? ".gz" : "");
        if (stat(file, &info) == 0) return true;
    }
    return false;
}

/* The folder of points, faces, ... for what the user named. out [4096]. */
static ff_status find_folder(const char *path, char *out)
{
    static const char *const below[] = {"", "/polyMesh", "/constant/polyMesh"};
    char base[4096];
    size_t n = strlen(path);
    if (n > 4000) return ff_fail(FF_E_INPUT, "%s: the path is too long", path);
    memcpy(base, path, n + 1);
    if (is_marker(path) && !is_folder(path)) {
        char *slash = strrchr(base, '/');
        (void)snprintf(slash != NULL ? slash : base, 3, "%s", slash != NULL ? "" : ".");
    }
    for (n = strlen(base); n > 1 && base[n - 1] == '/'; n--) base[n - 1] = 0;
    for (size_t i = 0; i < sizeof below / sizeof *below; i++) {
        (void)snprintf(out, 4096, "%.4000s%s", base, below[i]);
        if (holds_mesh(out)) return FF_OK;
    }
    return ff_fail(
        FF_E_INPUT,
        "%s: is a folder without an OpenFOAM mesh, expected faces, points, owner, neighbour and boundary in "
        "it, in polyMesh or in constant/polyMesh",
        path);
}

/* ---- boundary ---- */

typedef struct {
    char *name;      /* name[type] */
    size_t name_len; /* of the name alone */
    int64_t cell0;   /* its first face in the mesh, -1: none */
    bool out;        /* left out */
    int64_t start, n;
    int64_t line; /* of its name, for messages */
} foam_patch;

typedef struct {
    const char *folder;
    int64_t n_patches, cap_patches;
    foam_patch *patch;
    int64_t n_inner, n_faces, n_points;
    ff_builder surface;
    int64_t *ids, cap_ids;           /* corners of the face being read */
    int64_t *ends, n_ends, cap_ends; /* offsets of a compact list */
    foam_kept owner;                 /* cells at the faces of patches */
} foam_mesh;

static bool is_left_out(const char *type)
{
    return strcmp(type, "empty") == 0 || strncmp(type, "processor", 9) == 0;
}

/* The entries between the braces of one patch. */
static ff_status read_patch(foam_file *f, const char *name, foam_patch *p)
{
    char key[FOAM_WORD], type[FOAM_WORD] = "", both[2 * FOAM_WORD + 2];
    p->start = p->n = -1;
    p->line = f->line;
    p->cell0 = -1;
    p->name_len = strlen(name);
    FF_TRY(foam_expect(f, '{', name));
    for (;;) {
        FF_TRY(foam_next(f));
        if (foam_is(f, '}')) break;
        if (f->len == 0) return foam_fail(f, "patch %s: file ends inside it: cut?", name);
        memcpy(key, f->word, sizeof key);
        if (strcmp(key, "nFaces") == 0) {
            FF_TRY(foam_count(f, "nFaces", &p->n));
        } else if (strcmp(key, "startFace") == 0) {
            FF_TRY(foam_count(f, "startFace", &p->start));
        } else {
            FF_TRY(foam_next(f));
            if (strcmp(key, "type") == 0) memcpy(type, f->word, sizeof type);
            foam_back(f);
        }
        FF_TRY(foam_skip_entry(f));
    }
    if (type[0] == 0 || p->n < 0 || p->start < 0)
        return foam_fail(f, "patch %s has no %s", name,
                         type[0] == 0 ? "type"
                         : p->n < 0   ? "nFaces"
                                      : "startFace");
    p->out = is_left_out(type);
    (void)snprintf(both, sizeof both, "%s[%s]", name, type);
    return (p->name = ff_strdup(both)) != NULL ? FF_OK : FF_E_MEM;
}

/* The number of patches may be missing. */
static ff_status read_boundary(foam_mesh *m)
{
    foam_file f;
    ff_status st;
    int64_t want = -1;
    char name[FOAM_WORD];
    FF_GO(foam_open(&f, m->folder, "boundary", true));
    f.binary = false; /* a dictionary is text in any case */
    FF_GO(foam_next(&f));
    if (!foam_is(&f, '(')) {
        foam_back(&f);
        FF_GO(foam_count(&f, "number of patches", &want));
        FF_GO(foam_expect(&f, '(', "patches"));
    }
    for (;;) {
        FF_GO(foam_next(&f));
        if (foam_is(&f, ')')) break;
        if (f.len == 0) FF_GO(foam_fail(&f, "file ends inside the list of patches: cut?"));
        memcpy(name, f.word, sizeof name);
        FF_GO(ff_mem_reserve(&m->patch, &m->cap_patches, m->n_patches + 1, sizeof *m->patch));
        m->patch[m->n_patches] = (foam_patch){0};
        FF_GO(read_patch(&f, name, &m->patch[m->n_patches++]));
    }
    if (want >= 0 && want != m->n_patches)
        FF_GO(foam_fail(&f, "%lld patches, expected %lld", (long long)m->n_patches, (long long)want));
done:
    foam_close(&f);
    return st;
}

/* Patches follow one another behind the inner faces, without gap or overlap. */
static ff_status check_patches(const foam_mesh *m)
{
    int64_t at = m->n_inner;
    for (int64_t i = 0; i < m->n_patches; i++) {
        const foam_patch *p = &m->patch[i];
        if (p->n == 0) continue;
        if (p->start != at || p->n > m->n_faces - at)
            return ff_fail(
                FF_E_INPUT,
                "%s/boundary: line %lld: patch %s: faces %lld to %lld, expected to begin at %lld and to end "
                "before %lld",
                m->folder, (long long)p->line, p->name, (long long)p->start, (long long)(p->start + p->n),
                (long long)at, (long long)m->n_faces);
        at += p->n;
    }
    if (at == m->n_faces) return FF_OK;
    return ff_fail(FF_E_INPUT, "%s/boundary: patches end at face %lld, expected %lld as in faces", m->folder,
                   (long long)at, (long long)m->n_faces);
}

/* ---- lists ---- */

static ff_status read_points(foam_mesh *m)
{
    foam_file f;
    foam_list l;
    ff_status st;
    double x[3];
    FF_GO(foam_open(&f, m->folder, "points", true));
    FF_GO(foam_list_begin(&f, "points", &l));
    for (int64_t i = 0; i < l.n; i++) {
        FF_GO(foam_vector(&f, "points", x));
        FF_GO(ff_builder_point(&m->surface, x));
    }
    FF_GO(foam_list_end(&f, "points", &l));
    m->n_points = l.n;
    m->surface.m->points_float32 = f.binary && f.scalar == 4 && l.n > 0;
done:
    foam_close(&f);
    return st;
}

static ff_status count_cells(const foam_mesh *m, const char *name, int64_t *n, int64_t *n_cells,
                             foam_kept *kept)
{
    foam_file f;
    ff_status st;
    FF_GO(foam_open(&f, m->folder, name, true));
    FF_GO(foam_cells(&f, name, n, n_cells, kept));
done:
    foam_close(&f);
    return st;
}

/* n corners of face i, kept if it belongs to a patch. *patch: the one of the faces before, moves on. */
static ff_status read_face(foam_mesh *m, foam_file *f, int64_t i, int64_t n, int64_t *patch)
{
    FF_TRY(ff_mem_reserve(&m->ids, &m->cap_ids, n < 1024 ? n : 1024, sizeof *m->ids));
    for (int64_t k = 0; k < n; k++) {
        int64_t id;
        FF_TRY(foam_label(f, "corner of a face", &id));
        if (id < 0 || id >= m->n_points)
            return foam_fail(f, "face %lld: point %lld, expected 0 <= it < %lld", (long long)i, (long long)id,
                             (long long)m->n_points);
        FF_TRY(ff_mem_reserve(&m->ids, &m->cap_ids, k + 1, sizeof *m->ids));
        m->ids[k] = id;
    }
    if (n < 3)
        return foam_fail(f, "face %lld has %lld corners, expected 3 or more", (long long)i, (long long)n);
    if (i < m->n_inner) return FF_OK;
    while (*patch < m->n_patches && i >= m->patch[*patch].start + m->patch[*patch].n) ++*patch;
    if (*patch == m->n_patches)
        return foam_fail(f, "face %lld belongs to no patch of the file boundary", (long long)i);
    foam_patch *p = &m->patch[*patch];
    if (p->out) return FF_OK;
    if (p->cell0 < 0) p->cell0 = m->surface.m->n_cells;
    FF_TRY(ff_builder_patch(&m->surface, p->name, strlen(p->name)));
    return ff_builder_cell(&m->surface, m->ids, n);
}

static ff_status read_listed(foam_mesh *m, foam_file *f)
{
    foam_list all, one;
    int64_t patch = 0;
    FF_TRY(foam_list_begin(f, "faces", &all));
    for (int64_t i = 0; i < all.n; i++) {
        FF_TRY(foam_list_begin(f, "corners of a face", &one));
        FF_TRY(read_face(m, f, i, one.n, &patch));
        FF_TRY(foam_list_end(f, "corners of a face", &one));
    }
    m->n_faces = all.n;
    return foam_list_end(f, "faces", &all);
}

/* Offsets, one more than faces, and then the corners of all faces. */
static ff_status read_compact(foam_mesh *m, foam_file *f)
{
    foam_list l;
    int64_t patch = 0, v;
    FF_TRY(foam_list_begin(f, "offsets of faces", &l));
    for (; m->n_ends < l.n; m->n_ends++) {
        FF_TRY(foam_label(f, "offsets of faces", &v));
        if (m->n_ends == 0 ? v != 0 : v < m->ends[m->n_ends - 1])
            return foam_fail(f, "offsets of faces: item %lld is %lld, expected them to rise from 0",
                             (long long)m->n_ends, (long long)v);
        FF_TRY(ff_mem_reserve(&m->ends, &m->cap_ends, m->n_ends + 1, sizeof *m->ends));
        m->ends[m->n_ends] = v;
    }
    FF_TRY(foam_list_end(f, "offsets of faces", &l));
    m->n_faces = l.n > 0 ? l.n - 1 : 0;
    FF_TRY(foam_list_begin(f, "corners of faces", &l));
    int64_t end = m->n_ends > 0 ? m->ends[m->n_ends - 1] : 0;
    if (l.n != end)
        return foam_fail(f, "%lld corners of faces, expected %lld as in the offsets", (long long)l.n,
                         (long long)end);
    for (int64_t i = 0; i < m->n_faces; i++) FF_TRY(read_face(m, f, i, m->ends[i + 1] - m->ends[i], &patch));
    return foam_list_end(f, "corners of faces", &l);
}

static ff_status read_faces(foam_mesh *m)
{
    foam_file f;
    ff_status st;
    FF_GO(foam_open(&f, m->folder, "faces", true));
    FF_GO(strcmp(f.kind, "faceCompactList") == 0 ? read_compact(m, &f) : read_listed(m, &f));
done:
    foam_close(&f);
    return st;
}

static void report_left_out(const foam_mesh *m, const char *path)
{
    int64_t n = 0;
    for (int64_t i = 0; i < m->n_patches; i++) n += m->patch[i].out ? m->patch[i].n : 0;
    if (n > 0) ff_debug("%s: %lld faces of empty or processor patches are left out", path, (long long)n);
}

static ff_status read_mesh(foam_mesh *m)
{
    int64_t n_owners, n_owned, n_neighbours;
    FF_TRY(read_boundary(m));
    FF_TRY(count_cells(m, "neighbour", &n_neighbours, &m->n_inner, NULL));
    m->owner.from = m->n_inner;
    FF_TRY(count_cells(m, "owner", &n_owners, &n_owned, &m->owner));
    FF_TRY(read_points(m));
    FF_TRY(read_faces(m));
    if (n_owned != m->n_faces)
        return ff_fail(FF_E_INPUT, "%s/owner: %lld owners, expected %lld, one a face", m->folder,
                       (long long)n_owned, (long long)m->n_faces);
    return check_patches(m);
}

/* The cell at each face of the patches, in one list: also where the file has one number for all. */
static ff_status list_owners(foam_mesh *m)
{
    int64_t n = m->n_faces - m->n_inner;
    if (!m->owner.uniform) return FF_OK;
    FF_TRY(ff_mem_reserve(&m->owner.value, &m->owner.cap, n, sizeof *m->owner.value));
    for (; m->owner.n < n; m->owner.n++) m->owner.value[m->owner.n] = m->owner.one;
    return FF_OK;
}

static ff_status read_fields(foam_mesh *m, int64_t step)
{
    foam_place *place;
    FF_TRY(list_owners(m));
    FF_TRY(FF_NEW(place, m->n_patches));
    for (int64_t i = 0; i < m->n_patches; i++) {
        const foam_patch *p = &m->patch[i];
        const int64_t *owner = p->n > 0 ? m->owner.value + (p->start - m->n_inner) : NULL;
        place[i] = (foam_place){p->name, p->name_len, p->n, p->cell0, owner};
    }
    ff_status st = foam_fields(m->folder, step, place, m->n_patches, m->owner.largest + 1, m->surface.m);
    ff_free(place);
    return st;
}

ff_status ff_foam_read(const char *path, const ff_read_opts *opts, ff_mesh **out)
{
    char folder[4096];
    foam_mesh m = {.folder = folder};
    ff_status st;
    *out = NULL;
    FF_GO(find_folder(path, folder));
    FF_GO(ff_builder_begin(&m.surface, 3));
    FF_GO(read_mesh(&m));
    report_left_out(&m, path);
    FF_GO(read_fields(&m, opts->step));
    *out = ff_builder_take(&m.surface);
    FF_GO(ff_mesh_finish(*out, path, opts));
done:
    if (st != FF_OK) ff_mesh_destroy(out);
    ff_builder_free(&m.surface);
    for (int64_t i = 0; i < m.n_patches; i++) ff_free(m.patch[i].name);
    ff_free(m.patch);
    ff_free(m.ids);
    ff_free(m.ends);
    ff_free(m.owner.value);
    return st;
}
