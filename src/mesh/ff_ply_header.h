/* Header of a PLY file: elements, each with its rows' properties. */
#ifndef FF_PLY_HEADER_H
#define FF_PLY_HEADER_H

#include "ff_bytes.h"

typedef enum ff_ply_type {
    FF_PLY_NONE,
    FF_PLY_I8,
    FF_PLY_U8,
    FF_PLY_I16,
    FF_PLY_U16,
    FF_PLY_I32,
    FF_PLY_U32,
    FF_PLY_F32,
    FF_PLY_F64
} ff_ply_type;

typedef enum ff_ply_format { FF_PLY_TEXT, FF_PLY_LITTLE, FF_PLY_BIG } ff_ply_format;

typedef struct ff_ply_property {
    char *name;
    ff_ply_type type, count_type; /* count_type: FF_PLY_NONE for a scalar, else that of a list's length */
} ff_ply_property;

typedef struct ff_ply_element {
    char *name;
    int64_t n_rows;
    int n_properties;
    ff_ply_property *property;
} ff_ply_element;

typedef struct ff_ply_header {
    ff_ply_format format;
    int n_elements;
    ff_ply_element *element;
} ff_ply_header;

/* Reads up to and with end_header. FF_E_INPUT with the line. Local */
ff_status ff_ply_header_read(ff_bytes *b, ff_ply_header *h);
void ff_ply_header_free(ff_ply_header *h);

/* NULL, -1 if absent. */
const ff_ply_element *ff_ply_header_find(const ff_ply_header *h, const char *name);
int ff_ply_element_find(const ff_ply_element *e, const char *property);

int ff_ply_type_bytes(ff_ply_type t);
bool ff_ply_type_is_integer(ff_ply_type t);

#endif
