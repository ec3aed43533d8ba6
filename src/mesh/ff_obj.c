#include "ff_obj.h"

#include "ff_builder.h"
#include "ff_log.h"
#include "ff_mem.h"

#include <math.h>
#include <string.h>

typedef struct obj_reader {
    ff_bytes *b;
    char *p;                 /* rest of the line */
    bool continued;          /* the line ended with a backslash: its words go on in the next one */
    ff_builder faces, lines; /* the points stand in faces */
    int64_t *ids, cap_ids;   /* corners of the statement being read */
    int64_t ahead;           /* largest id beyond the points read so far: checked at the end */
    int64_t ahead_line;      /* its line */
    bool known, warned;      /* a statement of OBJ was met; an unknown one was reported */
    bool open_end;           /* the last line is a statement of the surface and has no end */
} obj_reader;

/* Statements of the format that say nothing about the surface. The first ones hold a name or path: a
 * backslash at their end is part of it and no continuation. */
static const char *const texts[] = {"usemtl", "mtllib", "usemap",     "maplib",
                                    "call",   "csh",    "shadow_obj", "trace_obj"};
static const char *const numbers[] = {"vt",   "vn",    "vp",    "p",        "s",       "mg",   "cstype",
                                      "deg",  "bmat",  "step",  "curv",     "curv2",   "surf", "parm",
                                      "trim", "hole",  "scrv",  "sp",       "end",     "con",  "bevel",
                                      "lod",  "ctech", "stech", "c_interp", "d_interp"};

/* Takes a line and the backslash at its end; *first is its first word, NULL at the end of the file or if
 * blank. */
static ff_status take_line(obj_reader *r, bool *at_end, char **first, size_t *len)
{
    size_t n;
    *first = NULL;
    FF_TRY(ff_bytes_line(r->b, &r->p, &n));
    *at_end = r->p == NULL;
    if (*at_end) return FF_OK;
    char *line = r->p;
    while (n > 0 && (line[n - 1] == ' ' || line[n - 1] == '\t' || line[n - 1] == '\r')) n--;
    r->continued = n > 0 && line[n - 1] == '\\';
    if (r->continued) line[n - 1] = 0;
    *first = ff_word(&r->p, len);
    return FF_OK;
}

/* Next word of the statement, also behind a backslash; NULL at its end. */
static ff_status next(obj_reader *r, char **w, size_t *len)
{
    while ((*w = ff_word(&r->p, len)) == NULL && r->continued) {
        bool at_end;
        FF_TRY(take_line(r, &at_end, w, len));
        if (at_end) return ff_bytes_fail(r->b, "file ends behind a \"\\\": cut?");
        if (*w != NULL) break;
    }
    if (*w != NULL && **w == '#') { /* a comment behind the statement */
        *w = NULL;
        r->p += strlen(r->p);
        r->continued = false;
    }
    return FF_OK;
}

static ff_status read_point(obj_reader *r)
{
    double x[3];
    for (int k = 0; k < 3; k++) {
        char *w;
        size_t len;
        FF_TRY(next(r, &w, &len));
        if (w == NULL) return ff_bytes_fail(r->b, "v with %d coordinates, expected 3", k);
        if (!ff_word_double(w, len, &x[k]))
            return ff_bytes_fail(r->b, "v: \"%s\", expected a number", ff_show(w, len).s);
        if (!isfinite(x[k]))
            return ff_bytes_fail(r->b, "v: %c = %g, expected a finite number", "xyz"[k], x[k]);
    }
    return ff_builder_point(&r->faces, x);
}

/* The point of a corner word "v", "v/vt", "v//vn" or "v/vt/vn", counted from 0. */
static ff_status corner(obj_reader *r, const char *w, size_t len, int64_t *out)
{
    int64_t n = r->faces.m->n_points, id;
    const char *slash = memchr(w, '/', len);
    if (!ff_word_i64(w, slash != NULL ? (size_t)(slash - w) : len, &id))
        return ff_bytes_fail(r->b, "corner \"%s\", expected a vertex id, as in 7 or 7/3/5",
                             ff_show(w, len).s);
    if (id == 0) return ff_bytes_fail(r->b, "vertex id 0, expected 1 or more, or a negative one");
    if (id < -n)
        return ff_bytes_fail(r->b, "vertex id %lld, but only %lld vertices stand before", (long long)id,
                             (long long)n);
    if (id > n && id > r->ahead) {
        r->ahead = id;
        r->ahead_line = ff_bytes_line_no(r->b);
    }
    *out = id > 0 ? id - 1 : n + id;
    return FF_OK;
}

/* All corners of the statement into ids [*n]. */
static ff_status corners(obj_reader *r, int64_t *n)
{
    char *w;
    size_t len;
    for (*n = 0;; ++*n) {
        FF_TRY(next(r, &w, &len));
        if (w == NULL) return FF_OK;
        FF_TRY(ff_mem_reserve(&r->ids, &r->cap_ids, *n + 1, sizeof *r->ids));
        FF_TRY(corner(r, w, len, &r->ids[*n]));
    }
}

static ff_status read_cell(obj_reader *r, bool is_face)
{
    int64_t n;
    FF_TRY(corners(r, &n));
    if (is_face) {
        if (n < 3) return ff_bytes_fail(r->b, "face with %lld corners, expected 3 or more", (long long)n);
        return ff_builder_cell(&r->faces, r->ids, n);
    }
    if (n < 2) return ff_bytes_fail(r->b, "line with %lld points, expected 2 or more", (long long)n);
    for (int64_t i = 0; i + 1 < n; i++) FF_TRY(ff_builder_cell(&r->lines, r->ids + i, 2));
    return FF_OK;
}

/* The rest of the line, without blanks around it, names the patch of the next cells. */
static ff_status read_group(obj_reader *r)
{
    size_t len, n;
    char *first = ff_word(&r->p, &len);
    if (first == NULL) {
        FF_TRY(ff_builder_patch(&r->faces, FF_PATCH_DEFAULT, strlen(FF_PATCH_DEFAULT)));
        return ff_builder_patch(&r->lines, FF_PATCH_DEFAULT, strlen(FF_PATCH_DEFAULT));
    }
    char *last = first + len;
    for (char *w; (w = ff_word(&r->p, &n)) != NULL;) last = w + n;
    FF_TRY(ff_builder_patch(&r->faces, first, (size_t)(last - first)));
    return ff_builder_patch(&r->lines, first, (size_t)(last - first));
}

static bool is_one_of(const char *w, size_t len, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (ff_word_is(w, len, list[i])) return true;
    return false;
}

/* Reads over a statement that says nothing about the surface. Unknown ones are let pass (with a warning) once
 * the file has shown itself to be OBJ, and if they begin with a letter. */
static ff_status read_over(obj_reader *r, char *w, size_t len)
{
    if (is_one_of(w, len, texts, sizeof texts / sizeof *texts)) {
        r->known = true;
        return FF_OK;
    }
    char first = (char)(w[0] | 0x20); /* ASCII lower case */
    if (is_one_of(w, len, numbers, sizeof numbers / sizeof *numbers)) {
        r->known = true;
    } else if (!r->known || first < 'a' || first > 'z') {
        return ff_bytes_fail(r->b, "\"%s\", expected a statement of OBJ such as v or f", ff_show(w, len).s);
    } else if (!r->warned) {
        r->warned = true;
        ff_warn("%s: line %lld: unknown statement \"%s\" ignored", ff_bytes_path(r->b),
                (long long)ff_bytes_line_no(r->b), ff_show(w, len).s);
    }
    while (w != NULL) FF_TRY(next(r, &w, &len));
    return FF_OK;
}

static ff_status read_statement(obj_reader *r, char *w, size_t len)
{
    char c = len == 1 ? w[0] : 0;
    if (w[0] == '#') return FF_OK;
    if (c != 'v' && c != 'f' && c != 'l' && c != 'g' && c != 'o') return read_over(r, w, len);
    r->known = true;
    r->open_end = ff_bytes_line_open(r->b);
    if (c == 'v') return read_point(r);
    if (c == 'g' || c == 'o') return read_group(r);
    return read_cell(r, c == 'f');
}

/* The faces if there are any, else the lines if there are any. */
static ff_mesh *take_mesh(obj_reader *r)
{
    if (r->faces.m->n_cells > 0 || r->lines.m->n_cells == 0) return ff_builder_take(&r->faces);
    ff_mesh *from = r->faces.m, *m = ff_builder_take(&r->lines);
    m->points = from->points;
    m->n_points = from->n_points;
    from->points = NULL;
    return m;
}

/* OBJ has neither counts nor an end mark: these are the traces that a cut leaves. */
static ff_status warn_of_cut(const obj_reader *r, const ff_mesh *m)
{
    const char *path = ff_bytes_path(r->b);
    uint8_t *used;
    int64_t unused = 0;
    if (r->open_end)
        ff_warn("%s: line %lld has no end; if the file was cut there, its last number is wrong", path,
                (long long)ff_bytes_line_no(r->b));
    if (m->n_cells == 0) {
        ff_warn("%s: holds no face and no line: cut, or points alone?", path);
        return FF_OK;
    }
    int64_t corners = m->cell_off != NULL ? m->cell_off[m->n_cells] : m->dim * m->n_cells;
    FF_TRY(FF_NEW0(used, m->n_points));
    for (int64_t i = 0; i < corners; i++) used[m->cell_pts[i]] = 1;
    for (int64_t i = 0; i < m->n_points; i++) unused += !used[i];
    if (unused > 0)
        ff_warn("%s: %lld of %lld vertices are used by no %s: cut?", path, (long long)unused,
                (long long)m->n_points, m->dim == 3 ? "face" : "line");
    ff_free(used);
    return FF_OK;
}

ff_status ff_obj_parse(ff_bytes *b, ff_mesh **out)
{
    obj_reader r = {.b = b};
    ff_status st;
    *out = NULL;
    FF_GO(ff_builder_begin(&r.faces, 3));
    FF_GO(ff_builder_begin(&r.lines, 2));
    for (bool at_end = false; !at_end;) {
        char *w;
        size_t len;
        FF_GO(take_line(&r, &at_end, &w, &len));
        if (w != NULL) FF_GO(read_statement(&r, w, len));
    }
    if (r.ahead > r.faces.m->n_points) {
        st = ff_fail(FF_E_INPUT, "%s: line %lld: vertex id %lld, but the file has %lld vertices",
                     ff_bytes_path(b), (long long)r.ahead_line, (long long)r.ahead,
                     (long long)r.faces.m->n_points);
        goto done;
    }
    *out = take_mesh(&r);
    FF_GO(warn_of_cut(&r, *out));
done:
    if (st != FF_OK) ff_mesh_destroy(out);
    ff_builder_free(&r.faces);
    ff_builder_free(&r.lines);
    ff_free(r.ids);
    return st;
}

ff_status ff_obj_read(const char *path, const ff_read_opts *opts, ff_mesh **out)
{
    ff_bytes *b = NULL;
    ff_status st;
    *out = NULL;
    FF_GO(ff_bytes_open(path, &b));
    FF_GO(ff_obj_parse(b, out));
    FF_GO(ff_mesh_finish(*out, path, opts));
done:
    if (st != FF_OK) ff_mesh_destroy(out);
    ff_bytes_close(&b);
    return st;
}
