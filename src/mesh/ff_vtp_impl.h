/* Inside of the VTP and VTU reader: the parsed document, and decoding of its arrays. Included by ff_vtp*.c and ff_vtu.c
 * only. */
#ifndef FF_VTP_IMPL_H
#define FF_VTP_IMPL_H

#include "ff_polydata.h"

typedef enum vtp_section {
    VTP_VERTS, /* 0..3 as FF_PD_* */
    VTP_LINES,
    VTP_POLYS,
    VTP_STRIPS,
    VTP_POINTS,
    VTP_POINT_DATA,
    VTP_CELL_DATA,
    VTP_FIELD_DATA,
    VTP_CELLS /* of unstructured grids */
} vtp_section;

typedef enum vtp_type {
    VTP_I8,
    VTP_U8,
    VTP_I16,
    VTP_U16,
    VTP_I32,
    VTP_U32,
    VTP_I64,
    VTP_U64,
    VTP_F32,
    VTP_F64,
    VTP_NO_NUMBER /* String, Bit, ...: left out */
} vtp_type;

typedef enum vtp_format { VTP_ASCII, VTP_BINARY, VTP_APPENDED } vtp_format;

typedef struct vtp_array {
    vtp_section section;
    int64_t piece, line; /* line of the element, for messages */
    char *name;          /* "" if it has none */
    vtp_type type;
    vtp_format format;
    int64_t n_comp; /* 0 if not given */
    int64_t offset; /* appended */
    char *text;     /* inline: characters between the tags, [n_text] and a NUL */
    int64_t n_text, cap_text;
} vtp_array;

typedef struct vtp_piece {
    int64_t n_points, n_cells[FF_PD_KINDS]; /* unstructured grids: all cells under FF_PD_POLYS */
} vtp_piece;

typedef struct vtp_doc {
    const char *path;
    const unsigned char *data; /* the whole file, borrowed */
    size_t bytes;
    bool unstructured;    /* type UnstructuredGrid, not PolyData */
    bool swap;            /* byte order of the file is not ours */
    bool wide_header;     /* UInt64 instead of UInt32 */
    bool zlib;            /* arrays of binary and appended format are compressed */
    bool appended_base64; /* else raw */
    size_t appended;      /* where appended data begin, behind the '_'; 0: none */
    int64_t n_pieces, cap_pieces, n_arrays, cap_arrays;
    vtp_piece *piece;
    vtp_array *array;
} vtp_doc;

/* Reads the XML of data [bytes]; doc is to be freed with vtp_doc_free in any case. */
ff_status vtp_doc_parse(vtp_doc *doc, const char *path, const void *data, size_t bytes);
void vtp_doc_free(vtp_doc *doc);

/* The n values of an array as double or (integers only) int64; *out is owned by the caller.
 * FF_E_INPUT: fewer values than n, damaged base64 or zlib data, a word that is no number. */
ff_status vtp_decode_f64(const vtp_doc *doc, const vtp_array *a, int64_t n, double **out);
ff_status vtp_decode_i64(const vtp_doc *doc, const vtp_array *a, int64_t n, int64_t **out);
/* The array of a piece in a section; NULL if absent. */
const vtp_array *vtp_find(const vtp_doc *doc, int64_t piece, vtp_section s, const char *name);
/* Cells of an unstructured grid, as ff_ug_cells gives them. */
ff_status vtu_cells(const vtp_doc *doc, ff_mesh *m, int64_t **row);
/* The number of values an array holds. */
ff_status vtp_count(const vtp_doc *doc, const vtp_array *a, int64_t *n);

/* `path:line: array "name": text`, FF_E_INPUT. */
ff_status vtp_fail(const vtp_doc *doc, const vtp_array *a, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
