/* Words and numbers of legacy VTK files. */
#include "ff_mem.h"
#include "ff_vtk_impl.h"

#include <string.h>

bool vtk_more(const vtk_file *f)
{
    return f->p != NULL && f->p[strspn(f->p, " \t\r\v\f")] != 0;
}

ff_status vtk_word(vtk_file *f, char **w, size_t *len)
{
    size_t n;
    *w = NULL;
    *len = 0;
    while (f->p == NULL || (*w = ff_word(&f->p, len)) == NULL) {
        FF_TRY(ff_bytes_line(f->b, &f->p, &n));
        if (f->p == NULL) return FF_OK;
    }
    return FF_OK;
}

static ff_status need_word(vtk_file *f, const char *what, char **w, size_t *len)
{
    FF_TRY(vtk_word(f, w, len));
    return *w != NULL ? FF_OK : ff_bytes_fail(f->b, "file ends where %s is expected: cut?", what);
}

ff_status vtk_count(vtk_file *f, const char *what, int64_t *out)
{
    char *w;
    size_t len;
    FF_TRY(need_word(f, what, &w, &len));
    if (ff_word_i64(w, len, out) && *out >= 0 && *out <= 1000000000000) return FF_OK;
    return ff_bytes_fail(f->b, "%s: \"%s\", expected a whole number from 0 to 1e12", what, ff_show(w, len).s);
}

ff_status vtk_type_word(vtk_file *f, const char *what, vtk_type *out)
{
    static const struct {
        const char *name;
        vtk_type type;
    } rows[] = {{"char", VTK_I8},
                {"signed_char", VTK_I8},
                {"unsigned_char", VTK_U8},
                {"short", VTK_I16},
                {"unsigned_short", VTK_U16},
                {"int", VTK_I32},
                {"unsigned_int", VTK_U32},
                {"long", VTK_I64},
                {"unsigned_long", VTK_U64},
                {"vtkidtype", VTK_I32},
                {"float", VTK_F32},
                {"double", VTK_F64},
                {"vtktypeint8", VTK_I8},
                {"vtktypeuint8", VTK_U8},
                {"vtktypeint16", VTK_I16},
                {"vtktypeuint16", VTK_U16},
                {"vtktypeint32", VTK_I32},
                {"vtktypeuint32", VTK_U32},
                {"vtktypeint64", VTK_I64},
                {"vtktypeuint64", VTK_U64},
                {"vtktypefloat32", VTK_F32},
                {"vtktypefloat64", VTK_F64},
                {"bit", VTK_BIT},
                {"string", VTK_TEXT},
                {"utf8_string", VTK_TEXT}};
    char *w;
    size_t len;
    FF_TRY(need_word(f, what, &w, &len));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (ff_word_is(w, len, rows[i].name)) {
            *out = rows[i].type;
            return FF_OK;
        }
    return ff_bytes_fail(f->b, "%s: type \"%s\", expected one of VTK such as float", what, ff_show(w, len).s);
}

ff_status vtk_expect(vtk_file *f, const char *lower)
{
    char *w;
    size_t len;
    FF_TRY(need_word(f, lower, &w, &len));
    if (ff_word_is(w, len, lower)) return FF_OK;
    return ff_bytes_fail(f->b, "\"%s\", expected %s", ff_show(w, len).s, lower);
}

/* ---- numbers ---- */

typedef struct {
    double **f64;
    int64_t **i64, cap;
} sink;

static ff_status reserve(sink *s, int64_t n)
{
    if (s->f64 != NULL) return ff_mem_reserve(s->f64, &s->cap, n, sizeof **s->f64);
    return s->i64 != NULL ? ff_mem_reserve(s->i64, &s->cap, n, sizeof **s->i64) : FF_OK;
}

static ff_status text_numbers(vtk_file *f, const char *what, int64_t n, sink *s)
{
    char *w;
    size_t len;
    for (int64_t i = 0; i < n; i++) {
        double real = 0;
        int64_t whole = 0;
        FF_TRY(need_word(f, what, &w, &len));
        bool ok = s->i64 != NULL ? ff_word_i64(w, len, &whole) : ff_word_double(w, len, &real);
        if (!ok)
            return ff_bytes_fail(f->b, "%s: number %lld is \"%s\", expected a%s number", what, (long long)i,
                                 ff_show(w, len).s, s->i64 != NULL ? " whole" : "");
        FF_TRY(reserve(s, i + 1));
        if (s->f64 != NULL) (*s->f64)[i] = real;
        if (s->i64 != NULL) (*s->i64)[i] = whole;
    }
    return FF_OK;
}

/* A big-endian number of a type as a real and a whole one. */
static void convert(const unsigned char *p, vtk_type t, size_t size, double *real, int64_t *whole)
{
    uint64_t bits = 0;
    float narrow;
    double wide;
    for (size_t i = 0; i < size; i++) bits = bits << 8 | p[i];
    uint32_t low = (uint32_t)bits;
    memcpy(&narrow, &low, sizeof narrow);
    memcpy(&wide, &bits, sizeof wide);
    bool is_signed = t == VTK_I8 || t == VTK_I16 || t == VTK_I32;
    if (is_signed && (bits >> (8 * size - 1)) != 0)
        bits -= (uint64_t)1 << (8 * size); /* wraps to a negative one */
    *whole = (int64_t)bits;
    *real = t == VTK_F32   ? (double)narrow
            : t == VTK_F64 ? wide
            : t == VTK_U64 ? (double)bits
                           : (double)*whole;
}

static ff_status binary_numbers(vtk_file *f, const char *what, vtk_type t, int64_t n, sink *s)
{
    static const size_t size_of[] = {1, 1, 2, 2, 4, 4, 8, 8, 4, 8};
    const unsigned char *p;
    const size_t size = t == VTK_BIT ? 1 : size_of[t];
    const int64_t step = t == VTK_BIT ? 8 : 1, chunk = 8192;
    f->p = NULL; /* they begin behind the line */
    for (int64_t i = 0; i < n;) {
        int64_t part = n - i < chunk ? n - i : chunk;
        FF_TRY(ff_bytes_take(f->b, (size_t)((part + step - 1) / step) * size, &p));
        if (p == NULL)
            return ff_bytes_fail(f->b, "%s: file ends within %lld numbers: cut?", what, (long long)n);
        FF_TRY(reserve(s, i + part));
        for (int64_t k = 0; k < part; k++, i++) {
            double real;
            int64_t whole;
            if (t == VTK_BIT)
                whole = p[k / 8] >> (7 - k % 8) & 1, real = (double)whole;
            else
                convert(p + (size_t)k * size, t, size, &real, &whole);
            if (s->f64 != NULL) (*s->f64)[i] = real;
            if (s->i64 != NULL) (*s->i64)[i] = whole;
        }
    }
    return FF_OK;
}

ff_status vtk_numbers(vtk_file *f, const char *what, vtk_type t, int64_t n, double **f64, int64_t **i64)
{
    sink s = {f64, i64, 0};
    if (f64 != NULL) *f64 = NULL;
    if (i64 != NULL) *i64 = NULL;
    if (i64 != NULL && (t == VTK_F32 || t == VTK_F64))
        return ff_bytes_fail(f->b, "%s: a type of real numbers, expected whole ones", what);
    ff_status st = reserve(&s, 1); /* not NULL even if there are none */
    if (st == FF_OK) st = f->binary ? binary_numbers(f, what, t, n, &s) : text_numbers(f, what, n, &s);
    if (st != FF_OK && f64 != NULL) FF_FREE(*f64);
    if (st != FF_OK && i64 != NULL) FF_FREE(*i64);
    return st;
}

/* Text: a line each. Binary: two bits say how many bytes (1, 2, 4 or 8) hold the length, which the text follows. */
ff_status vtk_skip_texts(vtk_file *f, int64_t n)
{
    const unsigned char *p;
    size_t len;
    f->p = NULL;
    for (int64_t i = 0; i < n; i++) {
        if (!f->binary) {
            FF_TRY(ff_bytes_line(f->b, &f->p, &len));
            if (f->p == NULL) return ff_bytes_fail(f->b, "file ends within %lld texts: cut?", (long long)n);
            f->p = NULL;
            continue;
        }
        FF_TRY(ff_bytes_peek(f->b, 1, &p, &len));
        size_t size = len == 0 ? 1 : (size_t[]){8, 4, 2, 1}[p[0] >> 6];
        FF_TRY(ff_bytes_take(f->b, size, &p));
        uint64_t length = 0;
        for (size_t k = 0; p != NULL && k < size; k++) length = length << 8 | (k == 0 ? p[0] & 63u : p[k]);
        if (p == NULL || length > 1u << 30)
            return ff_bytes_fail(f->b, "file ends within %lld texts: cut?", (long long)n);
        FF_TRY(ff_bytes_skip(f->b, (int64_t)length));
    }
    return FF_OK;
}
