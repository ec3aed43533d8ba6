#include "ff_su2.h"

#include "ff_builder.h"
#include "ff_log.h"
#include "ff_mem.h"

#include <stdio.h>
#include <string.h>

/* A count of the zone being read, and the line that says it; -1: not met yet. */
typedef struct count {
    int64_t n, line;
} count;

typedef struct su2_reader {
    ff_bytes *b;
    ff_builder mesh;
    int dim;                          /* 0: not known yet */
    int64_t n_zones, zone;            /* as NZONE= says, 0: nothing said; zones begun by IZONE= */
    int64_t first_point;              /* of this zone, in the whole file */
    count elements, points, markers;  /* as announced by the zone */
    int64_t markers_seen;             /* MARKER_TAG= lines of this zone */
    bool in_marker;                   /* a MARKER_TAG= waits for its MARKER_ELEMS= */
    int64_t largest_id, largest_line; /* largest point id used in this zone, checked at its end */
    bool foreign;                     /* behind a keyword we do not know: its rows are let pass */
} su2_reader;

/* ---- lines ---- */

/* The next line that holds more than blanks and comments; NULL at the end. */
static ff_status next_line(su2_reader *r, char **line)
{
    size_t len;
    for (;;) {
        FF_TRY(ff_bytes_line(r->b, line, &len));
        if (*line == NULL) return FF_OK;
        (*line)[strcspn(*line, "%")] = 0;
        char *p = *line;
        if (ff_word(&p, &len) != NULL) return FF_OK;
    }
}

/* A line KEY= VALUE: key and what stands behind the sign. Returns whether it is one. */
static bool split_key(char *line, char **key, size_t *len, char **value)
{
    char *sign = strchr(line, '=');
    if (sign == NULL) return false;
    *sign = 0;
    *key = ff_word(&line, len);
    *value = sign + 1;
    return *key != NULL;
}

/* The next of the n rows that a count announced; i counts from 1. */
static ff_status next_row(su2_reader *r, const char *what, const count *c, int64_t i, char **line)
{
    FF_TRY(next_line(r, line));
    if (*line != NULL && strchr(*line, '=') == NULL) return FF_OK;
    size_t len = 0;
    char *w = *line != NULL ? ff_word(line, &len) : NULL;
    if (w == NULL)
        return ff_bytes_fail(r->b,
                             "the file ends, expected %s %lld of the %lld that line %lld announces: cut?",
                             what, (long long)i, (long long)c->n, (long long)c->line);
    return ff_bytes_fail(r->b, "\"%s\", expected %s %lld of the %lld that line %lld announces",
                         ff_show(w, len).s, what, (long long)i, (long long)c->n, (long long)c->line);
}

static ff_status read_count(su2_reader *r, const char *key, char *value, int64_t least, count *out)
{
    size_t len;
    char *w = ff_word(&value, &len);
    if (out->n >= 0)
        return ff_bytes_fail(r->b, "a second %s=, the first stands in line %lld", key, (long long)out->line);
    if (w == NULL || !ff_word_i64(w, len, &out->n) || out->n < least) {
        out->n = -1;
        return ff_bytes_fail(r->b, "%s= \"%s\", expected a whole number >= %lld", key,
                             w != NULL ? ff_show(w, len).s : "", (long long)least);
    }
    out->line = ff_bytes_line_no(r->b);
    return FF_OK;
}

/* ---- rows ---- */

/* Points of an element by its VTK type; 0: unknown. */
static int points_of_type(int64_t type)
{
    switch (type) {
    case 1: /* a vertex: in markers of old partitioned files */
        return 1;
    case 3: /* line */
        return 2;
    case 5: /* triangle */
        return 3;
    case 9:  /* quadrilateral */
    case 10: /* tetrahedron */
        return 4;
    case 14: /* pyramid */
        return 5;
    case 13: /* prism */
        return 6;
    case 12: /* hexahedron */
        return 8;
    default:
        return 0;
    }
}

/* A row "type id id ...", behind them perhaps a number of the row, which means nothing. */
static ff_status read_element(su2_reader *r, char *line, int64_t *type, int64_t id[8], int *n)
{
    size_t len;
    char *w = ff_word(&line, &len);
    if (w == NULL || !ff_word_i64(w, len, type) || (*n = points_of_type(*type)) == 0)
        return ff_bytes_fail(r->b, "element type \"%s\", expected 3, 5, 9, 10, 12, 13 or 14",
                             w != NULL ? ff_show(w, len).s : "");
    for (int i = 0; i < *n; i++) {
        w = ff_word(&line, &len);
        if (w == NULL)
            return ff_bytes_fail(r->b, "element of type %lld with %d point ids, expected %d",
                                 (long long)*type, i, *n);
        if (!ff_word_i64(w, len, &id[i]) || id[i] < 0)
            return ff_bytes_fail(r->b, "point id \"%s\", expected a whole number >= 0", ff_show(w, len).s);
        if (id[i] > r->largest_id) {
            r->largest_id = id[i];
            r->largest_line = ff_bytes_line_no(r->b);
        }
    }
    bool extra = ff_word(&line, &len) != NULL;
    if (extra && *type != 1 && ff_word(&line, &len) != NULL)
        return ff_bytes_fail(r->b, "element of type %lld with more than %d point ids and a number of its own",
                             (long long)*type, *n);
    return FF_OK;
}

static ff_status read_elements(su2_reader *r, char *value)
{
    char *line;
    int64_t type, id[8];
    int n;
    FF_TRY(read_count(r, "NELEM", value, 0, &r->elements));
    for (int64_t i = 1; i <= r->elements.n; i++) {
        FF_TRY(next_row(r, "element", &r->elements, i, &line));
        FF_TRY(read_element(r, line, &type, id, &n));
    }
    return FF_OK;
}

/* A row "x y [z]", behind them one or two numbers of the point, which mean nothing. */
static ff_status read_point(su2_reader *r, char *line)
{
    double x[3] = {0, 0, 0};
    size_t len;
    for (int k = 0; k < r->dim; k++) {
        char *w = ff_word(&line, &len);
        if (w == NULL) return ff_bytes_fail(r->b, "point with %d coordinates, expected %d", k, r->dim);
        if (!ff_word_double(w, len, &x[k]))
            return ff_bytes_fail(r->b, "coordinate \"%s\", expected a number", ff_show(w, len).s);
    }
    for (int i = 0; i < 3; i++) {
        char *w = ff_word(&line, &len);
        int64_t number;
        if (w == NULL) break;
        if (i == 2 || !ff_word_i64(w, len, &number))
            return ff_bytes_fail(
                r->b, "\"%s\" behind the %d coordinates of a point, expected its number or nothing",
                ff_show(w, len).s, r->dim);
    }
    return ff_builder_point(&r->mesh, x);
}

static ff_status read_points(su2_reader *r, char *value)
{
    char *line;
    FF_TRY(read_count(r, "NPOIN", value, 0, &r->points));
    for (int64_t i = 1; i <= r->points.n; i++) {
        FF_TRY(next_row(r, "point", &r->points, i, &line));
        FF_TRY(read_point(r, line));
    }
    return FF_OK;
}

/* ---- markers ---- */

static ff_status read_tag(su2_reader *r, char *value)
{
    size_t len, head = 0;
    char zone[32], *w = ff_word(&value, &len), *name = NULL;
    if (w == NULL) return ff_bytes_fail(r->b, "MARKER_TAG= without a name");
    if (r->in_marker) return ff_bytes_fail(r->b, "MARKER_TAG= behind another, expected MARKER_ELEMS=");
    r->in_marker = true;
    r->markers_seen++;
    if (r->n_zones > 1) head = (size_t)snprintf(zone, sizeof zone, "zone%lld/", (long long)r->zone);
    FF_TRY(FF_NEW(name, head + len));
    if (head > 0) memcpy(name, zone, head);
    memcpy(name + head, w, len);
    ff_status st = ff_builder_patch(&r->mesh, name, head + len);
    ff_free(name);
    return st;
}

/* Rows of a marker: faces in 3D, lines in 2D; single points are no surface. */
static ff_status read_marker(su2_reader *r, char *value)
{
    count c = {-1, 0};
    char *line;
    if (!r->in_marker) return ff_bytes_fail(r->b, "MARKER_ELEMS= without MARKER_TAG=");
    r->in_marker = false;
    FF_TRY(read_count(r, "MARKER_ELEMS", value, 0, &c));
    for (int64_t i = 1; i <= c.n; i++) {
        int64_t type, id[8];
        int n;
        do {
            FF_TRY(next_line(r, &line));
        } while (line != NULL && strncmp(line, "SEND_RECV", 9) == 0);
        if (line == NULL || strchr(line, '=') != NULL)
            return ff_bytes_fail(r->b,
                                 "%s, expected row %lld of the %lld of a marker that line %lld announces",
                                 line == NULL ? "the file ends" : "a keyword", (long long)i, (long long)c.n,
                                 (long long)c.line);
        FF_TRY(read_element(r, line, &type, id, &n));
        if (type == 1) continue;
        if (r->dim == 2 ? type != 3 : type != 5 && type != 9)
            return ff_bytes_fail(r->b, "marker with an element of type %lld, expected %s", (long long)type,
                                 r->dim == 2 ? "3 (line)" : "5 (triangle) or 9 (quadrilateral)");
        for (int k = 0; k < n; k++) id[k] += r->first_point;
        FF_TRY(ff_builder_cell(&r->mesh, id, n));
    }
    return FF_OK;
}

/* ---- zones ---- */

static void begin_zone(su2_reader *r)
{
    r->elements = r->points = r->markers = (count){-1, 0};
    r->markers_seen = 0;
    r->largest_id = -1;
    r->first_point = r->mesh.m->n_points;
}

/* Nothing is missing and ids are in range. */
static ff_status end_zone(su2_reader *r)
{
    const char *path = ff_bytes_path(r->b);
    const char *missing = r->elements.n < 0  ? "NELEM="
                          : r->points.n < 0  ? "NPOIN="
                          : r->markers.n < 0 ? "NMARK="
                                             : NULL;
    char zone[48] = "the file";
    if (r->n_zones > 1) (void)snprintf(zone, sizeof zone, "zone %lld", (long long)r->zone);
    if (missing != NULL)
        return ff_fail(FF_E_INPUT, "%s: %s ends at line %lld without %s: cut, or no SU2 mesh", path, zone,
                       (long long)ff_bytes_line_no(r->b), missing);
    if (r->markers_seen != r->markers.n || r->in_marker)
        return ff_fail(FF_E_INPUT, "%s: line %lld: NMARK= %lld, but %s has %lld whole markers: cut?", path,
                       (long long)r->markers.line, (long long)r->markers.n, zone,
                       (long long)r->markers_seen - r->in_marker);
    if (r->largest_id >= r->points.n)
        return ff_fail(FF_E_INPUT, "%s: line %lld: point id %lld, expected 0 <= id < %lld as NPOIN= says",
                       path, (long long)r->largest_line, (long long)r->largest_id, (long long)r->points.n);
    return FF_OK;
}

static ff_status read_dim(su2_reader *r, char *value)
{
    size_t len;
    int64_t dim = 0;
    char *w = ff_word(&value, &len);
    if (w == NULL || !ff_word_i64(w, len, &dim) || (dim != 2 && dim != 3))
        return ff_bytes_fail(r->b, "NDIME= \"%s\", expected 2 or 3", w != NULL ? ff_show(w, len).s : "");
    if (r->dim != 0 && r->dim != dim)
        return ff_bytes_fail(r->b, "NDIME= %lld, expected %d as above", (long long)dim, r->dim);
    r->dim = (int)dim;
    r->mesh.m->dim = (int)dim;
    return FF_OK;
}

static ff_status read_n_zones(su2_reader *r, char *value)
{
    count c = {-1, 0};
    if (r->n_zones > 0 || r->points.n >= 0 || r->elements.n >= 0)
        return ff_bytes_fail(r->b, "NZONE= behind the first zone or a second time, expected it at the top");
    FF_TRY(read_count(r, "NZONE", value, 1, &c));
    r->n_zones = c.n;
    return FF_OK;
}

static ff_status read_zone(su2_reader *r, char *value)
{
    count c = {-1, 0};
    FF_TRY(read_count(r, "IZONE", value, 1, &c));
    if (r->zone > 0) FF_TRY(end_zone(r));
    if (c.n != r->zone + 1 || c.n > r->n_zones)
        return ff_bytes_fail(r->b, "IZONE= %lld, expected %lld of NZONE= %lld", (long long)c.n,
                             (long long)r->zone + 1, (long long)r->n_zones);
    r->zone = c.n;
    begin_zone(r);
    return FF_OK;
}

/* ---- the file ---- */

typedef ff_status key_reader(su2_reader *r, char *value);

static ff_status read_n_markers(su2_reader *r, char *value)
{
    return read_count(r, "NMARK", value, 0, &r->markers);
}

static const struct {
    const char *key; /* in lower case */
    key_reader *read;
    bool in_zone; /* stands behind NDIME=, and behind IZONE= where there are zones */
} keys[] = {
    {"ndime", read_dim, false},     {"nzone", read_n_zones, false},      {"izone", read_zone, false},
    {"nelem", read_elements, true}, {"npoin", read_points, true},        {"nmark", read_n_markers, true},
    {"marker_tag", read_tag, true}, {"marker_elems", read_marker, true},
};

static ff_status read_key(su2_reader *r, const char *key, size_t len, char *value)
{
    r->foreign = false;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (!ff_word_is(key, len, keys[i].key)) continue;
        if (keys[i].in_zone && r->dim == 0)
            return ff_bytes_fail(r->b, "%s= before NDIME=", ff_show(key, len).s);
        if (keys[i].in_zone && r->n_zones > 1 && r->zone == 0)
            return ff_bytes_fail(r->b, "%s= before IZONE=, of a file with NZONE= %lld", ff_show(key, len).s,
                                 (long long)r->n_zones);
        return keys[i].read(r, value);
    }
    r->foreign = true; /* periodic markers, free-form deformation boxes, ... */
    return FF_OK;
}

static ff_status read_all(su2_reader *r)
{
    for (;;) {
        char *line, *key, *value;
        size_t len;
        FF_TRY(next_line(r, &line));
        if (line == NULL) break;
        if (split_key(line, &key, &len, &value)) {
            FF_TRY(read_key(r, key, len, value));
        } else if (!r->foreign) {
            char *w = ff_word(&line, &len);
            return ff_bytes_fail(r->b, "\"%s\", expected a keyword such as NMARK=: %s",
                                 w != NULL ? ff_show(w, len).s : "=",
                                 r->dim == 0 ? "no SU2 mesh" : "more rows than the count above them says");
        }
    }
    if (r->dim == 0)
        return ff_fail(FF_E_INPUT, "%s: the file ends without NDIME=: no SU2 mesh", ff_bytes_path(r->b));
    FF_TRY(end_zone(r));
    if (ff_bytes_line_open(r->b))
        ff_warn("%s: line %lld has no end; if the file was cut there, its last number is wrong",
                ff_bytes_path(r->b), (long long)ff_bytes_line_no(r->b));
    if (r->n_zones <= 1 || r->zone == r->n_zones) return FF_OK;
    return ff_fail(FF_E_INPUT, "%s: NZONE= %lld, but the file ends behind zone %lld: cut?",
                   ff_bytes_path(r->b), (long long)r->n_zones, (long long)r->zone);
}

ff_status ff_su2_parse(ff_bytes *b, ff_mesh **out)
{
    su2_reader r = {.b = b};
    ff_status st;
    *out = NULL;
    FF_GO(ff_builder_begin(&r.mesh, 3));
    begin_zone(&r);
    FF_GO(read_all(&r));
    *out = ff_builder_take(&r.mesh);
done:
    ff_builder_free(&r.mesh);
    return st;
}

ff_status ff_su2_read(const char *path, const ff_read_opts *opts, ff_mesh **out)
{
    ff_bytes *b = NULL;
    ff_status st;
    *out = NULL;
    FF_GO(ff_bytes_open(path, &b));
    FF_GO(ff_su2_parse(b, out));
    FF_GO(ff_mesh_finish(*out, path, opts));
done:
    if (st != FF_OK) ff_mesh_destroy(out);
    ff_bytes_close(&b);
    return st;
}
