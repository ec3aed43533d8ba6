#include "ff_ply_header.h"

#include "ff_mem.h"

#include <string.h>

static const struct {
    const char *name;
    ff_ply_type type;
} type_names[] = {
    {"char", FF_PLY_I8},   {"int8", FF_PLY_I8},     {"uchar", FF_PLY_U8},   {"uint8", FF_PLY_U8},
    {"short", FF_PLY_I16}, {"int16", FF_PLY_I16},   {"ushort", FF_PLY_U16}, {"uint16", FF_PLY_U16},
    {"int", FF_PLY_I32},   {"int32", FF_PLY_I32},   {"uint", FF_PLY_U32},   {"uint32", FF_PLY_U32},
    {"float", FF_PLY_F32}, {"float32", FF_PLY_F32}, {"double", FF_PLY_F64}, {"float64", FF_PLY_F64}};

int ff_ply_type_bytes(ff_ply_type t)
{
    static const int bytes[] = {0, 1, 1, 2, 2, 4, 4, 4, 8};
    return bytes[t];
}

bool ff_ply_type_is_integer(ff_ply_type t)
{
    return t >= FF_PLY_I8 && t <= FF_PLY_U32;
}

void ff_ply_header_free(ff_ply_header *h)
{
    for (int e = 0; e < h->n_elements; e++) {
        for (int p = 0; p < h->element[e].n_properties; p++) ff_free(h->element[e].property[p].name);
        ff_free(h->element[e].property);
        ff_free(h->element[e].name);
    }
    ff_free(h->element);
    *h = (ff_ply_header){0};
}

const ff_ply_element *ff_ply_header_find(const ff_ply_header *h, const char *name)
{
    for (int e = 0; e < h->n_elements; e++)
        if (strcmp(h->element[e].name, name) == 0) return &h->element[e];
    return NULL;
}

int ff_ply_element_find(const ff_ply_element *e, const char *property)
{
    for (int p = 0; p < e->n_properties; p++)
        if (strcmp(e->property[p].name, property) == 0) return p;
    return -1;
}

/* Copy of the next word of the line; FF_E_INPUT if there is none. */
static ff_status take_name(ff_bytes *b, char **p, const char *what, char **out)
{
    size_t len;
    const char *w = ff_word(p, &len);
    if (w == NULL) return ff_bytes_fail(b, "line ends early, expected %s", what);
    FF_TRY(FF_NEW(*out, len + 1));
    memcpy(*out, w, len);
    (*out)[len] = 0;
    return FF_OK;
}

static ff_status take_type(ff_bytes *b, char **p, ff_ply_type *out)
{
    size_t len;
    const char *w = ff_word(p, &len);
    for (size_t i = 0; w != NULL && i < sizeof type_names / sizeof *type_names; i++)
        if (ff_word_is(w, len, type_names[i].name)) return *out = type_names[i].type, FF_OK;
    return ff_bytes_fail(b, "property type \"%s\", expected one such as float or int32",
                         w != NULL ? ff_show(w, len).s : "");
}

static ff_status read_format(ff_bytes *b, char *p, ff_ply_header *h)
{
    static const char *const names[] = {"ascii", "binary_little_endian", "binary_big_endian"};
    size_t len, n;
    const char *w = ff_word(&p, &len), *version = ff_word(&p, &n);
    if (version == NULL || !ff_word_is(version, n, "1.0"))
        return ff_bytes_fail(b, "format line, expected \"format NAME 1.0\"");
    for (int i = 0; i < 3; i++)
        if (ff_word_is(w, len, names[i])) return h->format = (ff_ply_format)i, FF_OK;
    return ff_bytes_fail(b, "format \"%s\", expected ascii, binary_little_endian or binary_big_endian",
                         ff_show(w, len).s);
}

static ff_status read_element(ff_bytes *b, char *p, ff_ply_header *h)
{
    char *name = NULL;
    ff_status st;
    FF_GO(take_name(b, &p, "an element name", &name));
    size_t len;
    const char *w = ff_word(&p, &len);
    int64_t n;
    if (w == NULL || !ff_word_i64(w, len, &n) || n < 0) {
        st = ff_bytes_fail(b, "element %s: \"%s\", expected a row count", ff_show(name, strlen(name)).s,
                           w != NULL ? ff_show(w, len).s : "");
        goto done;
    }
    if (ff_ply_header_find(h, name) != NULL) {
        st = ff_bytes_fail(b, "element %s occurs twice", ff_show(name, strlen(name)).s);
        goto done;
    }
    ff_ply_element *grown = ff_mem_resize(h->element, (size_t)h->n_elements + 1, sizeof *grown);
    if (grown == NULL) {
        st = FF_E_MEM;
        goto done;
    }
    h->element = grown;
    h->element[h->n_elements++] = (ff_ply_element){.name = name, .n_rows = n};
    name = NULL;
done:
    ff_free(name);
    return st;
}

static ff_status read_property(ff_bytes *b, char *p, ff_ply_header *h)
{
    ff_ply_property prop = {0};
    ff_status st = FF_OK;
    if (h->n_elements == 0) return ff_bytes_fail(b, "property before any element");
    ff_ply_element *e = &h->element[h->n_elements - 1];
    size_t len;
    char *q = p, *w = ff_word(&q, &len);
    if (w != NULL && ff_word_is(w, len, "list")) {
        p = q;
        FF_GO(take_type(b, &p, &prop.count_type));
        if (!ff_ply_type_is_integer(prop.count_type)) {
            st = ff_bytes_fail(b, "list length of a floating-point type, expected an integer type");
            goto done;
        }
    }
    FF_GO(take_type(b, &p, &prop.type));
    FF_GO(take_name(b, &p, "a property name", &prop.name));
    if (ff_ply_element_find(e, prop.name) >= 0) {
        st = ff_bytes_fail(b, "property %s occurs twice", ff_show(prop.name, strlen(prop.name)).s);
        goto done;
    }
    ff_ply_property *grown = ff_mem_resize(e->property, (size_t)e->n_properties + 1, sizeof *grown);
    if (grown == NULL) {
        st = FF_E_MEM;
        goto done;
    }
    e->property = grown;
    e->property[e->n_properties++] = prop;
    prop.name = NULL;
done:
    ff_free(prop.name);
    return st;
}

ff_status ff_ply_header_read(ff_bytes *b, ff_ply_header *h)
{
    bool format_seen = false;
    for (int64_t i = 0;; i++) {
        char *line, *w;
        size_t len;
        FF_TRY(ff_bytes_line(b, &line, &len));
        if (line == NULL) return ff_bytes_fail(b, "file ends inside the PLY header: cut?");
        w = ff_word(&line, &len);
        if (i == 0) {
            if (w == NULL || !ff_word_is(w, len, "ply"))
                return ff_bytes_fail(b, "no PLY file: it does not begin with \"ply\"");
        } else if (w == NULL || ff_word_is(w, len, "comment") || ff_word_is(w, len, "obj_info")) {
            continue;
        } else if (ff_word_is(w, len, "format")) {
            FF_TRY(read_format(b, line, h));
            format_seen = true;
        } else if (ff_word_is(w, len, "element")) {
            FF_TRY(read_element(b, line, h));
        } else if (ff_word_is(w, len, "property")) {
            FF_TRY(read_property(b, line, h));
        } else if (ff_word_is(w, len, "end_header")) {
            return format_seen ? FF_OK : ff_bytes_fail(b, "PLY header without a format line");
        } else {
            return ff_bytes_fail(b, "\"%s\", expected format, element, property or end_header",
                                 ff_show(w, len).s);
        }
    }
}
