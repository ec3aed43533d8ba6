#include "ff_vtk.h"

#include "ff_log.h"
#include "ff_mem.h"
#include "ff_polydata.h"
#include "ff_ugrid.h"
#include "ff_vtk_impl.h"

#include <stdio.h>
#include <string.h>

typedef struct {
    vtk_file f;
    ff_mesh *m;
    bool unstructured;
    bool has_points, has_cells, has_types;
    int64_t n_cells[FF_PD_KINDS]; /* unstructured: all under FF_PD_POLYS */
    int64_t n_conn[FF_PD_KINDS];
    int64_t *off[FF_PD_KINDS], *conn[FF_PD_KINDS]; /* owned */
    int64_t *type, n_types;
    int data;               /* which rows attributes have now: 0 none yet, 1 points, 2 cells */
    const char *announced;  /* "POINT_DATA" or "CELL_DATA" if no array of it came yet */
    ff_field_set cell_rows; /* cell data by rows of the file */
    int64_t *row;
} vtk_reader;

static int64_t rows_of(const vtk_reader *r, int data)
{
    int64_t n = 0;
    if (data == 1) return r->m->n_points;
    for (int k = 0; k < FF_PD_KINDS; k++) n += r->n_cells[k];
    return n;
}

/* ---- header ---- */

static ff_status read_header(vtk_reader *r)
{
    char *line, *w;
    size_t len;
    FF_TRY(ff_bytes_line(r->f.b, &line, &len));
    static const char start[] = "# vtk DataFile Version ";
    if (line == NULL || len < sizeof start || memcmp(line, start, sizeof start - 1) != 0)
        return ff_bytes_fail(r->f.b, "expected \"%s\" and a number", start);
    line += sizeof start - 1;
    size_t digits = strspn(line, "0123456789");
    if (digits == 0 || digits > 3 || line[digits] != '.' || !ff_word_i64(line, digits, &r->f.major))
        return ff_bytes_fail(r->f.b, "version \"%s\", expected as in 5.1", ff_show(line, strlen(line)).s);
    if (r->f.major > 5)
        return ff_fail(FF_E_UNSUPPORTED, "%s: version %lld, expected up to 5; write it in version 5.1",
                       ff_bytes_path(r->f.b), (long long)r->f.major);
    FF_TRY(ff_bytes_line(r->f.b, &line, &len)); /* title */
    FF_TRY(vtk_word(&r->f, &w, &len));
    r->f.binary = w != NULL && ff_word_is(w, len, "binary");
    if (!r->f.binary && (w == NULL || !ff_word_is(w, len, "ascii")))
        return ff_bytes_fail(r->f.b, "\"%s\", expected ASCII or BINARY", w != NULL ? ff_show(w, len).s : "");
    FF_TRY(vtk_expect(&r->f, "dataset"));
    FF_TRY(vtk_word(&r->f, &w, &len));
    r->unstructured = w != NULL && ff_word_is(w, len, "unstructured_grid");
    if (r->unstructured || (w != NULL && ff_word_is(w, len, "polydata"))) return FF_OK;
    return ff_bytes_fail(r->f.b,
                         "DATASET \"%s\", expected POLYDATA or UNSTRUCTURED_GRID; extract the surface first",
                         w != NULL ? ff_show(w, len).s : "");
}

/* ---- points and cells ---- */

static ff_status read_points(vtk_reader *r)
{
    vtk_type t;
    int64_t n;
    if (r->has_points) return ff_bytes_fail(r->f.b, "a second POINTS, expected one");
    FF_TRY(vtk_count(&r->f, "number of points", &n));
    FF_TRY(vtk_type_word(&r->f, "POINTS", &t));
    if (t >= VTK_BIT) return ff_bytes_fail(r->f.b, "POINTS of no numeric type");
    FF_TRY(vtk_numbers(&r->f, "POINTS", t, 3 * n, &r->m->points, NULL));
    r->m->n_points = n;
    r->m->points_float32 = t == VTK_F32 && n > 0;
    r->has_points = true;
    return FF_OK;
}

/* Version 5: OFFSETS (one more than cells) and CONNECTIVITY, each with its type. */
static ff_status read_arrays(vtk_reader *r, int k, int64_t n_off, int64_t n_conn)
{
    vtk_type t;
    if (n_off == 0) return FF_NEW0(r->off[k], 1);
    FF_TRY(vtk_expect(&r->f, "offsets"));
    FF_TRY(vtk_type_word(&r->f, "OFFSETS", &t));
    if (t >= VTK_BIT) return ff_bytes_fail(r->f.b, "OFFSETS of no numeric type");
    FF_TRY(vtk_numbers(&r->f, "OFFSETS", t, n_off, NULL, &r->off[k]));
    FF_TRY(vtk_expect(&r->f, "connectivity"));
    FF_TRY(vtk_type_word(&r->f, "CONNECTIVITY", &t));
    if (t >= VTK_BIT) return ff_bytes_fail(r->f.b, "CONNECTIVITY of no numeric type");
    FF_TRY(vtk_numbers(&r->f, "CONNECTIVITY", t, n_conn, NULL, &r->conn[k]));
    if (r->off[k][0] != 0 || r->off[k][n_off - 1] != n_conn)
        return ff_bytes_fail(r->f.b, "OFFSETS go from %lld to %lld, expected from 0 to %lld",
                             (long long)r->off[k][0], (long long)r->off[k][n_off - 1], (long long)n_conn);
    r->n_cells[k] = n_off - 1;
    r->n_conn[k] = n_conn;
    return FF_OK;
}

/* Before: one list, each cell its number of points and these; they are moved together in place. */
static ff_status read_list(vtk_reader *r, int k, int64_t n, int64_t size)
{
    int64_t at = 0, to = 0, cap = 0;
    FF_TRY(vtk_numbers(&r->f, "cells", VTK_I32, size, NULL, &r->conn[k]));
    int64_t *v = r->conn[k];
    FF_TRY(ff_mem_reserve(&r->off[k], &cap, 1, sizeof *r->off[k]));
    r->off[k][0] = 0;
    for (int64_t c = 0; c < n; c++) {
        int64_t points = at < size ? v[at++] : -1;
        if (points < 0 || points > size - at)
            return ff_bytes_fail(r->f.b, "cell %lld has %lld points, expected 0 to %lld as the list goes on",
                                 (long long)c, (long long)points, (long long)(size - at));
        memmove(v + to, v + at, (size_t)points * sizeof *v);
        at += points;
        to += points;
        FF_TRY(ff_mem_reserve(&r->off[k], &cap, c + 2, sizeof *r->off[k]));
        r->off[k][c + 1] = to;
    }
    if (at != size)
        return ff_bytes_fail(r->f.b, "%lld cells use %lld numbers of the list, expected %lld", (long long)n,
                             (long long)at, (long long)size);
    r->n_cells[k] = n;
    r->n_conn[k] = to;
    return FF_OK;
}

static ff_status read_cells(vtk_reader *r, int k)
{
    int64_t n, size;
    if (r->off[k] != NULL) return ff_bytes_fail(r->f.b, "the same kind of cells a second time");
    FF_TRY(vtk_count(&r->f, "number of cells", &n));
    FF_TRY(vtk_count(&r->f, "size of the list of cells", &size));
    r->has_cells = true;
    return r->f.major >= 5 ? read_arrays(r, k, n, size) : read_list(r, k, n, size);
}

static ff_status read_types(vtk_reader *r)
{
    if (r->has_types) return ff_bytes_fail(r->f.b, "a second CELL_TYPES, expected one");
    FF_TRY(vtk_count(&r->f, "number of cell types", &r->n_types));
    r->has_types = true;
    return vtk_numbers(&r->f, "CELL_TYPES", VTK_I32, r->n_types, NULL, &r->type);
}

/* ---- attributes ---- */

/* Names hold %20 for a blank and the like; out [256]. */
static ff_status read_name(vtk_reader *r, char out[256])
{
    char *w;
    size_t len, n = 0;
    FF_TRY(vtk_word(&r->f, &w, &len));
    if (w == NULL) return ff_bytes_fail(r->f.b, "file ends where a name is expected: cut?");
    for (size_t i = 0; i < len && n < 255; i++, n++) {
        static const char hex[] = "0123456789abcdef";
        const char *a = w[i] == '%' && i + 2 < len + 0 ? memchr(hex, w[i + 1] | 0x20, 16) : NULL;
        const char *b = a != NULL ? memchr(hex, w[i + 2] | 0x20, 16) : NULL;
        out[n] = w[i];
        if (b == NULL) continue;
        int c = (int)((a - hex) * 16 + (b - hex));
        out[n] = (char)(c < ' ' ? ' ' : c);
        i += 2;
    }
    out[n] = 0;
    return FF_OK;
}

/* Reads an array of n_rows tuples; it becomes a field if they are as many as points or cells. */
static ff_status read_array(vtk_reader *r, const char *name, vtk_type t, int64_t n_comp, int64_t n_rows)
{
    double *value = NULL;
    ff_field_set *set = r->data == 1 ? &r->m->point_data : &r->cell_rows;
    if (n_comp > 1000000 || (n_comp > 0 && n_rows > 1000000000000 / n_comp))
        return ff_bytes_fail(r->f.b, "array %s: %lld components, expected fewer", name, (long long)n_comp);
    r->announced = NULL;
    if (t == VTK_TEXT) return vtk_skip_texts(&r->f, n_comp * n_rows);
    bool keep = r->data != 0 && n_rows == rows_of(r, r->data) && n_comp > 0 && name[0] != 0 &&
                ff_field_set_find(set, name) == NULL;
    FF_TRY(vtk_numbers(&r->f, name, t, n_comp * n_rows, keep ? &value : NULL, NULL));
    return keep ? ff_field_set_add(set, name, (int)n_comp, n_rows, &value) : FF_OK;
}

/* Lines up to a blank one, which every writer puts there. */
static ff_status skip_metadata(vtk_reader *r)
{
    size_t len;
    do FF_TRY(ff_bytes_line(r->f.b, &r->f.p, &len));
    while (r->f.p != NULL && vtk_more(&r->f));
    return r->f.p != NULL ? FF_OK : ff_bytes_fail(r->f.b, "file ends inside METADATA: cut?");
}

/* FIELD name n: arrays, each "name components tuples type". */
static ff_status read_field_data(vtk_reader *r)
{
    char name[256];
    int64_t n, n_comp, n_rows;
    vtk_type t;
    FF_TRY(read_name(r, name));
    FF_TRY(vtk_count(&r->f, "number of arrays", &n));
    for (int64_t i = 0; i < n; i++) {
        FF_TRY(read_name(r, name));
        if (i > 0 && strcmp(name, "METADATA") == 0) { /* of the array before */
            FF_TRY(skip_metadata(r));
            i--;
            continue;
        }
        FF_TRY(vtk_count(&r->f, "components", &n_comp));
        FF_TRY(vtk_count(&r->f, "tuples", &n_rows));
        FF_TRY(vtk_type_word(&r->f, name, &t));
        FF_TRY(read_array(r, name, t, n_comp, n_rows));
    }
    return FF_OK;
}

/* SCALARS may be followed by the name of a table of colours, in a line of its own. */
static ff_status read_scalars(vtk_reader *r)
{
    static const char table[] = "LOOKUP_TABLE";
    char name[256], ignored[256];
    int64_t n_comp = 1;
    vtk_type t;
    const unsigned char *p;
    size_t got;
    FF_TRY(read_name(r, name));
    FF_TRY(vtk_type_word(&r->f, name, &t));
    if (vtk_more(&r->f)) FF_TRY(vtk_count(&r->f, "components", &n_comp));
    FF_TRY(ff_bytes_peek(r->f.b, sizeof table - 1, &p, &got));
    if (got == sizeof table - 1 && memcmp(p, table, got) == 0) {
        FF_TRY(vtk_expect(&r->f, "lookup_table"));
        FF_TRY(read_name(r, ignored));
    }
    return read_array(r, name, t, n_comp, rows_of(r, r->data));
}

/* Attributes "name type" of a fixed number of components, or (0) "name components type". */
static ff_status read_fixed(vtk_reader *r, int64_t n_comp)
{
    char name[256];
    vtk_type t;
    FF_TRY(read_name(r, name));
    if (n_comp == 0) FF_TRY(vtk_count(&r->f, "components", &n_comp));
    FF_TRY(vtk_type_word(&r->f, name, &t));
    return read_array(r, name, t, n_comp, rows_of(r, r->data));
}

/* Colours are bytes in binary files and numbers from 0 to 1 in text. */
static ff_status read_colours(vtk_reader *r, bool table)
{
    char name[256];
    int64_t n;
    FF_TRY(read_name(r, name));
    FF_TRY(vtk_count(&r->f, table ? "size of the table" : "components", &n));
    vtk_type t = r->f.binary ? VTK_U8 : VTK_F32;
    return table ? vtk_numbers(&r->f, name, t, 4 * n, NULL, NULL)
                 : read_array(r, name, t, n, rows_of(r, r->data));
}

static ff_status begin_data(vtk_reader *r, int data)
{
    int64_t n;
    const char *what = data == 1 ? "POINT_DATA" : "CELL_DATA";
    FF_TRY(vtk_count(&r->f, what, &n));
    r->data = data;
    r->announced = what;
    if (n == rows_of(r, data)) return FF_OK;
    return ff_bytes_fail(r->f.b, "%s %lld, expected %lld as there are before it", what, (long long)n,
                         (long long)rows_of(r, data));
}

/* ---- sections ---- */

typedef enum { POINTS, CELLS, TYPES, DATA, FIELD, SCALARS, FIXED, COLOURS, TABLE, METADATA } section;
static const struct {
    const char *word;
    section what;
    int number; /* kind of cells, rows of data or components */
} sections[] = {
    {"points", POINTS, 0},
    {"vertices", CELLS, FF_PD_VERTS},
    {"lines", CELLS, FF_PD_LINES},
    {"polygons", CELLS, FF_PD_POLYS},
    {"triangle_strips", CELLS, FF_PD_STRIPS},
    {"cells", CELLS, FF_PD_KINDS}, /* unstructured only */
    {"cell_types", TYPES, 0},
    {"point_data", DATA, 1},
    {"cell_data", DATA, 2},
    {"field", FIELD, 0},
    {"scalars", SCALARS, 0},
    {"vectors", FIXED, 3},
    {"normals", FIXED, 3},
    {"tensors", FIXED, 9},
    {"tensors6", FIXED, 6},
    {"texture_coordinates", FIXED, 0},
    {"global_ids", FIXED, 1},
    {"pedigree_ids", FIXED, 1},
    {"edge_flags", FIXED, 1},
    {"color_scalars", COLOURS, 0},
    {"lookup_table", TABLE, 0},
    {"metadata", METADATA, 0},
};

static ff_status read_section(vtk_reader *r, section what, int number)
{
    switch (what) {
    case POINTS:
        return read_points(r);
    case CELLS:
        if (r->unstructured != (number == FF_PD_KINDS))
            return ff_bytes_fail(r->f.b, "cells of another kind of DATASET, expected %s",
                                 r->unstructured ? "CELLS" : "POLYGONS and the like");
        return read_cells(r, r->unstructured ? FF_PD_POLYS : number);
    case TYPES:
        return read_types(r);
    case DATA:
        return begin_data(r, number);
    case FIELD:
        return read_field_data(r);
    case SCALARS:
        return read_scalars(r);
    case FIXED:
        return read_fixed(r, number);
    case METADATA:
        return skip_metadata(r);
    default:
        return read_colours(r, what == TABLE);
    }
}

static ff_status read_sections(vtk_reader *r)
{
    for (;;) {
        char *w;
        size_t len, i = 0, n = sizeof sections / sizeof *sections;
        FF_TRY(vtk_word(&r->f, &w, &len));
        if (w == NULL) return FF_OK;
        while (i < n && !ff_word_is(w, len, sections[i].word)) i++;
        if (i == n)
            return ff_bytes_fail(r->f.b, "\"%s\", expected a keyword of VTK such as POINTS",
                                 ff_show(w, len).s);
        if (r->data == 0 && sections[i].what >= SCALARS && sections[i].what <= COLOURS)
            return ff_bytes_fail(r->f.b, "%s before POINT_DATA or CELL_DATA", sections[i].word);
        FF_TRY(read_section(r, sections[i].what, sections[i].number));
    }
}

/* ---- to a mesh ---- */

static ff_status check_complete(const vtk_reader *r)
{
    if (!r->f.binary && ff_bytes_line_open(r->f.b))
        ff_warn("%s: line %lld has no end; if the file was cut there, its last number is wrong",
                ff_bytes_path(r->f.b), (long long)ff_bytes_line_no(r->f.b));
    const char *missing = !r->has_points  ? "POINTS"
                          : !r->has_cells ? (r->unstructured ? "CELLS" : "cells")
                                          : NULL;
    if (r->unstructured && !r->has_types && missing == NULL) missing = "CELL_TYPES";
    if (missing == NULL && r->announced != NULL)
        return ff_bytes_fail(r->f.b, "file ends behind %s, expected its arrays: cut?", r->announced);
    if (missing != NULL) return ff_bytes_fail(r->f.b, "file ends without %s: cut?", missing);
    if (r->unstructured && r->n_types != r->n_cells[FF_PD_POLYS])
        return ff_bytes_fail(r->f.b, "CELL_TYPES %lld, expected %lld as in CELLS", (long long)r->n_types,
                             (long long)r->n_cells[FF_PD_POLYS]);
    return FF_OK;
}

static ff_status make_cells(vtk_reader *r)
{
    const char *path = ff_bytes_path(r->f.b);
    static const int64_t zero[1] = {0};
    if (r->unstructured) {
        ff_ug_piece piece = {.n_points = r->m->n_points,
                             .n_cells = r->n_cells[FF_PD_POLYS],
                             .n_conn = r->n_conn[FF_PD_POLYS],
                             .type = r->type,
                             .off = r->off[FF_PD_POLYS],
                             .conn = r->conn[FF_PD_POLYS]};
        ff_ug ug = {path, 1, &piece};
        return ff_ug_cells(&ug, r->m, &r->row);
    }
    ff_pd_piece piece = {.n_points = r->m->n_points};
    for (int k = 0; k < FF_PD_KINDS; k++) {
        piece.n_cells[k] = r->n_cells[k];
        piece.n_conn[k] = r->n_conn[k];
        piece.off[k] = r->off[k] != NULL ? r->off[k] : zero;
        piece.conn[k] = r->conn[k];
    }
    ff_pd pd = {.path = path, .prefix = "piece", .n_pieces = 1, .piece = &piece};
    return ff_pd_cells(&pd, r->m, &r->row);
}

static ff_status make_mesh(vtk_reader *r)
{
    FF_TRY(check_complete(r));
    FF_TRY(make_cells(r));
    for (int i = 0; i < r->cell_rows.n; i++) {
        ff_field *f = &r->cell_rows.field[i];
        FF_TRY(ff_pd_cell_field(r->m, f->name, f->n_comp, &f->value, r->row));
    }
    return FF_OK;
}

ff_status ff_vtk_parse(ff_bytes *b, ff_mesh **out)
{
    vtk_reader r = {.f.b = b};
    ff_status st;
    *out = NULL;
    FF_GO(ff_mesh_create(&r.m));
    FF_GO(read_header(&r));
    FF_GO(read_sections(&r));
    FF_GO(make_mesh(&r));
    *out = r.m;
    r.m = NULL;
done:
    for (int k = 0; k < FF_PD_KINDS; k++) {
        ff_free(r.off[k]);
        ff_free(r.conn[k]);
    }
    ff_free(r.type);
    ff_free(r.row);
    ff_field_set_free(&r.cell_rows);
    ff_mesh_destroy(&r.m);
    return st;
}

ff_status ff_vtk_read(const char *path, const ff_read_opts *opts, ff_mesh **out)
{
    ff_bytes *b = NULL;
    ff_status st;
    *out = NULL;
    FF_GO(ff_bytes_open(path, &b));
    if (opts->step != 0)
        FF_GO(ff_fail(FF_E_INPUT, "%s: step = %lld, but VTK files have one step; expected 0", path,
                      (long long)opts->step));
    FF_GO(ff_vtk_parse(b, out));
    FF_GO(ff_mesh_finish(*out, path, opts));
done:
    if (st != FF_OK) ff_mesh_destroy(out);
    ff_bytes_close(&b);
    return st;
}
