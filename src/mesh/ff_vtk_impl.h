/* Inside of the legacy VTK reader. Included by ff_vtk*.c only. */
#ifndef FF_VTK_IMPL_H
#define FF_VTK_IMPL_H

#include "ff_bytes.h"
#include "ff_mesh.h"

typedef enum vtk_type {
    VTK_I8,
    VTK_U8,
    VTK_I16,
    VTK_U16,
    VTK_I32,
    VTK_U32,
    VTK_I64,
    VTK_U64,
    VTK_F32,
    VTK_F64,
    VTK_BIT,
    VTK_TEXT,
    VTK_UNKNOWN
} vtk_type;

typedef struct vtk_file {
    ff_bytes *b;
    char *p;       /* rest of the line; NULL before the first one */
    bool binary;   /* numbers are big-endian bytes behind the line that names them */
    int64_t major; /* version */
} vtk_file;

/* The next word, also of a later line; NULL at the end of the file. Local */
ff_status vtk_word(vtk_file *f, char **w, size_t *len);
/* The next word as a count (0 to 1e12), or as the name of a type; what names it in the message. */
ff_status vtk_count(vtk_file *f, const char *what, int64_t *out);
ff_status vtk_type_word(vtk_file *f, const char *what, vtk_type *out);
/* Demands that word, in any case of letters. */
ff_status vtk_expect(vtk_file *f, const char *lower);
/* The words left in the line; does not go to the next one. */
bool vtk_more(const vtk_file *f);

/* n numbers of a type to *f64 or, if f64 is NULL, *i64 (whole numbers only); owned by the caller. Room grows with what is
 * read, whatever n claims. Both NULL: they are passed over. */
ff_status vtk_numbers(vtk_file *f, const char *what, vtk_type t, int64_t n, double **f64, int64_t **i64);
/* n texts are passed over. */
ff_status vtk_skip_texts(vtk_file *f, int64_t n);

#endif
