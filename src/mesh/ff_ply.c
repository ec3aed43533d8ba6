#include "ff_ply.h"

#include "ff_builder.h"
#include "ff_mem.h"
#include "ff_ply_header.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct ply_reader {
    ff_bytes *b;
    ff_ply_header h;
    const ff_ply_element *element; /* being read, */
    int64_t row;                   /* and its row */
    char *line;                    /* text: rest of the row's line */
    double **column;               /* scalars of element that become fields, [n_properties], NULL: not kept */
    int64_t *column_cap;
    ff_builder mesh;
    int64_t *ids, cap_ids; /* corners of the row's cell */
    int64_t n_points;      /* rows of vertex, as the header says */
} ply_reader;

/* A message that says where we are: the line, or element and row of a binary file. */
static ff_status row_fail(const ply_reader *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static ff_status row_fail(const ply_reader *r, const char *fmt, ...)
{
    char text[256];
    ff_shown name = ff_show(r->element->name, strlen(r->element->name));
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (r->h.format == FF_PLY_TEXT)
        return ff_bytes_fail(r->b, "row %lld of %s: %s", (long long)r->row, name.s, text);
    (void)ff_fail(FF_E_INPUT, "%s: row %lld of %s: %s", ff_bytes_path(r->b), (long long)r->row, name.s, text);
    return FF_E_INPUT;
}

static ff_status rows_missing(const ply_reader *r)
{
    return row_fail(r, "the file ends, expected %lld rows as the header says: cut?",
                    (long long)r->element->n_rows);
}

/* ---- values ---- */

static double decode(const unsigned char *p, ff_ply_type t, bool big)
{
    int n = ff_ply_type_bytes(t);
    uint64_t bits = 0;
    for (int i = 0; i < n; i++) bits |= (uint64_t)p[big ? n - 1 - i : i] << 8 * i;
    uint32_t low = (uint32_t)bits;
    float f;
    double d;
    switch (t) {
    case FF_PLY_I8:
        return (int8_t)bits;
    case FF_PLY_I16:
        return (int16_t)bits;
    case FF_PLY_I32:
        return (int32_t)low;
    case FF_PLY_F32:
        return memcpy(&f, &low, sizeof f), (double)f;
    case FF_PLY_F64:
        return memcpy(&d, &bits, sizeof d), d;
    default:
        return (double)bits;
    }
}

/* Next value of the row; name is that of its property. */
static ff_status next_value(ply_reader *r, ff_ply_type type, const char *name, double *out)
{
    *out = 0;
    if (r->h.format == FF_PLY_TEXT) {
        size_t len;
        const char *w = ff_word(&r->line, &len);
        if (w != NULL && ff_word_double(w, len, out)) return FF_OK;
        ff_shown shown = ff_show(name, strlen(name));
        if (w == NULL) return row_fail(r, "the line ends early, expected %s as the header says", shown.s);
        return row_fail(r, "%s = \"%s\", expected a number", shown.s, ff_show(w, len).s);
    }
    const unsigned char *p;
    FF_TRY(ff_bytes_take(r->b, (size_t)ff_ply_type_bytes(type), &p));
    if (p == NULL) return rows_missing(r);
    *out = decode(p, type, r->h.format == FF_PLY_BIG);
    return FF_OK;
}

static ff_status begin_row(ply_reader *r)
{
    size_t len;
    if (r->h.format != FF_PLY_TEXT) return FF_OK;
    do { /* blank lines are let pass */
        FF_TRY(ff_bytes_line(r->b, &r->line, &len));
        if (r->line == NULL) return rows_missing(r);
        char *p = r->line;
        (void)ff_word(&p, &len);
    } while (len == 0);
    return FF_OK;
}

static ff_status end_row(ply_reader *r)
{
    size_t len;
    const char *w = r->h.format == FF_PLY_TEXT ? ff_word(&r->line, &len) : NULL;
    if (w == NULL) return FF_OK;
    return row_fail(r,
                    "\"%s\" where the line should end: more values than the header declares; export it anew",
                    ff_show(w, len).s);
}

/* Length of a list. */
static ff_status next_count(ply_reader *r, const ff_ply_property *p, int64_t *n)
{
    double v;
    *n = 0;
    FF_TRY(next_value(r, p->count_type, p->name, &v));
    if (!(v >= 0) || v != floor(v) || v > 4294967295.0)
        return row_fail(r, "list %s of length %g, expected a count", ff_show(p->name, strlen(p->name)).s, v);
    *n = (int64_t)v;
    return FF_OK;
}

/* ---- rows ---- */

static ff_status skip_list(ply_reader *r, const ff_ply_property *p)
{
    int64_t n;
    double v;
    FF_TRY(next_count(r, p, &n));
    for (int64_t i = 0; i < n; i++) FF_TRY(next_value(r, p->type, p->name, &v));
    return FF_OK;
}

static ff_status read_corners(ply_reader *r, const ff_ply_property *p)
{
    int64_t n;
    FF_TRY(next_count(r, p, &n));
    if (n < 3) return row_fail(r, "face with %lld corners, expected 3 or more", (long long)n);
    for (int64_t i = 0; i < n; i++) {
        double v;
        FF_TRY(next_value(r, p->type, p->name, &v));
        if (!(v >= 0) || v >= (double)r->n_points || v != floor(v))
            return row_fail(r, "corner %g, expected a vertex 0 <= id < %lld", v, (long long)r->n_points);
        FF_TRY(ff_mem_reserve(&r->ids, &r->cap_ids, i + 1, sizeof *r->ids));
        r->ids[i] = (int64_t)v;
    }
    return ff_builder_cell(&r->mesh, r->ids, n);
}

static ff_status keep_scalar(ply_reader *r, int p, double v)
{
    FF_TRY(ff_mem_reserve(&r->column[p], &r->column_cap[p], r->row + 1, sizeof *r->column[p]));
    r->column[p][r->row] = v;
    return FF_OK;
}

/* One row. corners: the list of a face's corners, or -1; xyz: the columns of coordinates, or NULL; keep:
 * whether the other scalars become fields. */
static ff_status read_row(ply_reader *r, int corners, const int *xyz, bool keep)
{
    double x[3] = {0, 0, 0};
    FF_TRY(begin_row(r));
    for (int p = 0; p < r->element->n_properties; p++) {
        const ff_ply_property *prop = &r->element->property[p];
        if (prop->count_type != FF_PLY_NONE) {
            FF_TRY(p == corners ? read_corners(r, prop) : skip_list(r, prop));
            continue;
        }
        double v;
        FF_TRY(next_value(r, prop->type, prop->name, &v));
        int axis = xyz == NULL ? 3 : p == xyz[0] ? 0 : p == xyz[1] ? 1 : p == xyz[2] ? 2 : 3;
        if (axis < 3 && !isfinite(v)) return row_fail(r, "%c = %g, expected a finite number", "xyz"[axis], v);
        if (axis < 3)
            x[axis] = v;
        else if (keep)
            FF_TRY(keep_scalar(r, p, v));
    }
    FF_TRY(end_row(r));
    return xyz != NULL ? ff_builder_point(&r->mesh, x) : FF_OK;
}

/* Hands the kept columns over to set. */
static ff_status take_columns(ply_reader *r, const int *xyz, ff_field_set *set)
{
    for (int p = 0; p < r->element->n_properties; p++) {
        const ff_ply_property *prop = &r->element->property[p];
        bool is_xyz = xyz != NULL && (p == xyz[0] || p == xyz[1] || p == xyz[2]);
        if (prop->count_type != FF_PLY_NONE || is_xyz) continue;
        if (r->column[p] == NULL) FF_TRY(FF_NEW(r->column[p], 0)); /* no row */
        FF_TRY(ff_field_set_add(set, prop->name, 1, r->element->n_rows, &r->column[p]));
    }
    return FF_OK;
}

/* All rows of an element; set NULL: read over. */
static ff_status read_element(ply_reader *r, int corners, const int *xyz, ff_field_set *set)
{
    const ff_ply_element *e = r->element;
    ff_status st = FF_OK;
    if (e->n_properties == 0) return FF_OK; /* rows without content, in text not even lines */
    FF_GO(FF_NEW0(r->column, e->n_properties));
    FF_GO(FF_NEW0(r->column_cap, e->n_properties));
    for (r->row = 0; r->row < e->n_rows; r->row++) FF_GO(read_row(r, corners, xyz, set != NULL));
    if (set != NULL) FF_GO(take_columns(r, xyz, set));
done:
    for (int p = 0; r->column != NULL && p < e->n_properties; p++) ff_free(r->column[p]);
    FF_FREE(r->column);
    FF_FREE(r->column_cap);
    return st;
}

static ff_status read_vertices(ply_reader *r)
{
    static const char *const names[] = {"x", "y", "z"};
    int xyz[3];
    bool all_f32 = r->h.format != FF_PLY_TEXT;
    for (int k = 0; k < 3; k++) {
        xyz[k] = ff_ply_element_find(r->element, names[k]);
        if (xyz[k] < 0 || r->element->property[xyz[k]].count_type != FF_PLY_NONE)
            return ff_bytes_fail(r->b, "PLY element vertex without scalar %s, expected x, y and z", names[k]);
        all_f32 = all_f32 && r->element->property[xyz[k]].type == FF_PLY_F32;
    }
    r->mesh.m->points_float32 = all_f32;
    return read_element(r, -1, xyz, &r->mesh.m->point_data);
}

static ff_status read_faces(ply_reader *r)
{
    int corners = ff_ply_element_find(r->element, "vertex_indices");
    if (corners < 0) corners = ff_ply_element_find(r->element, "vertex_index");
    if (corners < 0 || r->element->property[corners].count_type == FF_PLY_NONE)
        return ff_bytes_fail(r->b, "PLY element face without a list vertex_indices");
    if (!ff_ply_type_is_integer(r->element->property[corners].type))
        return ff_bytes_fail(r->b, "vertex_indices of a floating-point type, expected an integer type");
    return read_element(r, corners, NULL, &r->mesh.m->cell_data);
}

/* Nothing but blanks may follow the last row. */
static ff_status check_end(ply_reader *r)
{
    for (;;) {
        size_t len;
        const unsigned char *p;
        if (r->h.format == FF_PLY_TEXT) {
            FF_TRY(ff_bytes_line(r->b, &r->line, &len));
            if (r->line == NULL) return FF_OK;
            if (ff_word(&r->line, &len) != NULL)
                return ff_bytes_fail(r->b, "more rows than the header declares");
        } else {
            FF_TRY(ff_bytes_take(r->b, 1, &p));
            if (p == NULL) return FF_OK;
            if (*p != '\n' && *p != '\r' && *p != ' ')
                return ff_fail(FF_E_INPUT, "%s: data behind the last row: more rows than the header declares",
                               ff_bytes_path(r->b));
        }
    }
}

static ff_status read_body(ply_reader *r)
{
    const ff_ply_element *v = ff_ply_header_find(&r->h, "vertex");
    if (v == NULL) return ff_bytes_fail(r->b, "PLY header without an element vertex");
    if (ff_ply_header_find(&r->h, "face") == NULL && ff_ply_header_find(&r->h, "tristrips") != NULL)
        return ff_fail(FF_E_UNSUPPORTED, "%s: PLY with triangle strips, expected faces; export it with faces",
                       ff_bytes_path(r->b));
    r->n_points = v->n_rows;
    for (int e = 0; e < r->h.n_elements; e++) {
        r->element = &r->h.element[e];
        if (strcmp(r->element->name, "vertex") == 0)
            FF_TRY(read_vertices(r));
        else if (strcmp(r->element->name, "face") == 0)
            FF_TRY(read_faces(r));
        else
            FF_TRY(read_element(r, -1, NULL, NULL));
    }
    return check_end(r);
}

ff_status ff_ply_parse(ff_bytes *b, ff_mesh **out)
{
    ply_reader r = {.b = b};
    ff_status st;
    *out = NULL;
    FF_GO(ff_builder_begin(&r.mesh, 3));
    FF_GO(ff_ply_header_read(b, &r.h));
    FF_GO(ff_builder_patch(&r.mesh, FF_PATCH_SINGLE, strlen(FF_PATCH_SINGLE)));
    FF_GO(read_body(&r));
    *out = ff_builder_take(&r.mesh);
done:
    ff_builder_free(&r.mesh);
    ff_ply_header_free(&r.h);
    ff_free(r.ids);
    return st;
}

ff_status ff_ply_read(const char *path, const ff_read_opts *opts, ff_mesh **out)
{
    ff_bytes *b = NULL;
    ff_status st;
    *out = NULL;
    FF_GO(ff_bytes_open(path, &b));
    FF_GO(ff_ply_parse(b, out));
    FF_GO(ff_mesh_finish(*out, path, opts));
done:
    if (st != FF_OK) ff_mesh_destroy(out);
    ff_bytes_close(&b);
    return st;
}
