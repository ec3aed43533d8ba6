#include "ff_gmsh_in.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

ff_status(ff_gmsh_fail)(const ff_gmsh_in *in, const char *fmt, ...)
{
    char text[256], row[64] = "";
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (in->row > 0)
        (void)snprintf(row, sizeof row, ", row %lld of %lld", (long long)in->row, (long long)in->n_rows);
    if (in->binary) return ff_fail(FF_E_INPUT, "%s: $%s%s: %s", ff_bytes_path(in->b), in->section, row, text);
    return ff_bytes_fail(in->b, "$%s%s: %s", in->section, row, text);
}

ff_status ff_gmsh_line(ff_gmsh_in *in, char **line, size_t *len)
{
    in->p = NULL;
    for (;;) {
        FF_TRY(ff_bytes_line(in->b, line, len));
        if (*line == NULL) return FF_OK;
        size_t n;
        char *p = *line, *w = ff_word(&p, &n);
        if (w == NULL) continue;
        *len -= (size_t)(w - *line);
        *line = w;
        return FF_OK;
    }
}

/* Next word of a text, from the next line if this one has no more. */
static ff_status next_word(ff_gmsh_in *in, const char *what, char **w, size_t *len)
{
    while (in->p == NULL || (*w = ff_word(&in->p, len)) == NULL) {
        FF_TRY(ff_bytes_line(in->b, &in->p, len));
        if (in->p == NULL) return ff_gmsh_fail(in, "the file ends, expected %s: cut?", what);
    }
    return FF_OK;
}

/* The next n <= 8 bytes as an unsigned number. */
static ff_status next_bits(ff_gmsh_in *in, int n, const char *what, uint64_t *bits)
{
    const unsigned char *p;
    FF_TRY(ff_bytes_take(in->b, (size_t)n, &p));
    if (p == NULL) return ff_gmsh_fail(in, "the file ends, expected %s: cut?", what);
    *bits = 0;
    for (int i = 0; i < n; i++) *bits |= (uint64_t)p[in->big ? n - 1 - i : i] << 8 * i;
    return FF_OK;
}

static ff_status next_whole(ff_gmsh_in *in, const char *what, int64_t *out)
{
    char *w;
    size_t len;
    FF_TRY(next_word(in, what, &w, &len));
    if (!ff_word_i64(w, len, out))
        return ff_gmsh_fail(in, "\"%s\", expected %s, a whole number", ff_show(w, len).s, what);
    return FF_OK;
}

ff_status ff_gmsh_int(ff_gmsh_in *in, const char *what, int64_t *out)
{
    uint64_t bits;
    if (!in->binary) {
        FF_TRY(next_whole(in, what, out));
        if (*out < INT32_MIN || *out > INT32_MAX)
            return ff_gmsh_fail(in, "%s = %lld, expected a number of 32 bits", what, (long long)*out);
        return FF_OK;
    }
    FF_TRY(next_bits(in, 4, what, &bits));
    *out = (int32_t)(uint32_t)bits;
    return FF_OK;
}

ff_status ff_gmsh_size(ff_gmsh_in *in, const char *what, int64_t *out)
{
    uint64_t bits;
    if (in->binary) {
        FF_TRY(next_bits(in, in->size_bytes, what, &bits));
        *out = bits <= INT64_MAX ? (int64_t)bits : -1;
    } else {
        FF_TRY(next_whole(in, what, out));
    }
    if (*out < 0) return ff_gmsh_fail(in, "%s is negative or too large", what);
    return FF_OK;
}

ff_status ff_gmsh_id(ff_gmsh_in *in, const char *what, int64_t *out)
{
    if (in->v4 || !in->binary) return ff_gmsh_size(in, what, out);
    FF_TRY(ff_gmsh_int(in, what, out));
    if (*out < 0) return ff_gmsh_fail(in, "%s = %lld, expected >= 0", what, (long long)*out);
    return FF_OK;
}

ff_status ff_gmsh_double(ff_gmsh_in *in, const char *what, double *out)
{
    uint64_t bits;
    if (in->binary) {
        FF_TRY(next_bits(in, 8, what, &bits));
        memcpy(out, &bits, sizeof *out);
        return FF_OK;
    }
    char *w;
    size_t len;
    FF_TRY(next_word(in, what, &w, &len));
    if (!ff_word_double(w, len, out))
        return ff_gmsh_fail(in, "\"%s\", expected %s, a number", ff_show(w, len).s, what);
    return FF_OK;
}

ff_status ff_gmsh_skip_ints(ff_gmsh_in *in, const char *what, int64_t n)
{
    for (int64_t i = 0, v; i < n; i++) FF_TRY(ff_gmsh_int(in, what, &v));
    return FF_OK;
}

ff_status ff_gmsh_skip_doubles(ff_gmsh_in *in, const char *what, int64_t n)
{
    double v;
    for (int64_t i = 0; i < n; i++) FF_TRY(ff_gmsh_double(in, what, &v));
    return FF_OK;
}

/* Whether the word is $End and the section's name. */
static bool is_end(const ff_gmsh_in *in, const char *w, size_t len)
{
    size_t n = strlen(in->section);
    return len == n + 4 && memcmp(w, "$End", 4) == 0 && memcmp(w + 4, in->section, n) == 0;
}

/* Whether $End and the section's name come next in a binary file, behind an end of line. */
static ff_status check_end_bytes(ff_gmsh_in *in)
{
    const unsigned char *p;
    size_t got, at = 0, n = strlen(in->section) + 4;
    FF_TRY(ff_bytes_peek(in->b, n + 2, &p, &got));
    while (at < 2 && at < got && (p[at] == '\r' || p[at] == '\n')) at++;
    if (got == at) return ff_gmsh_fail(in, "the file ends, expected $End%s: cut?", in->section);
    if (got - at >= n && is_end(in, (const char *)p + at, n)) return FF_OK;
    return ff_gmsh_fail(in, "bytes that are not $End%s behind the %lld rows it announced", in->section,
                        (long long)in->n_rows);
}

ff_status ff_gmsh_end(ff_gmsh_in *in)
{
    char *w = NULL, *rest = in->p;
    size_t len = 0;
    in->row = 0;
    if (in->binary) FF_TRY(check_end_bytes(in));
    w = rest != NULL ? ff_word(&rest, &len) : NULL;
    if (w == NULL) {
        FF_TRY(ff_gmsh_line(in, &rest, &len));
        if (rest == NULL) return ff_gmsh_fail(in, "the file ends, expected $End%s: cut?", in->section);
        w = ff_word(&rest, &len);
    }
    in->p = NULL;
    if (is_end(in, w, len)) return FF_OK;
    return ff_gmsh_fail(in, "\"%s\", expected $End%s behind the %lld rows it announced", ff_show(w, len).s,
                        in->section, (long long)in->n_rows);
}

ff_status ff_gmsh_count(ff_gmsh_in *in)
{
    char *line, *w = NULL;
    size_t len = 0;
    in->row = in->n_rows = 0;
    FF_TRY(ff_gmsh_line(in, &line, &len));
    if (line == NULL) return ff_gmsh_fail(in, "the file ends, expected the number of rows: cut?");
    w = ff_word(&line, &len);
    if (!ff_word_i64(w, len, &in->n_rows) || in->n_rows < 0)
        return ff_gmsh_fail(in, "\"%s\", expected the number of rows", ff_show(w, len).s);
    return FF_OK;
}

ff_status ff_gmsh_head(ff_gmsh_in *in, int64_t *n_blocks)
{
    int64_t limit;
    in->row = in->n_rows = 0;
    FF_TRY(ff_gmsh_size(in, "the number of blocks", n_blocks));
    FF_TRY(ff_gmsh_size(in, "the number of rows", &in->n_rows));
    FF_TRY(ff_gmsh_size(in, "the smallest number", &limit));
    return ff_gmsh_size(in, "the largest number", &limit);
}

ff_status ff_gmsh_block_rows(ff_gmsh_in *in, int64_t *n)
{
    FF_TRY(ff_gmsh_size(in, "the number of rows of a block", n));
    if (*n <= in->n_rows - in->row) return FF_OK;
    return ff_gmsh_fail(in, "a block of %lld rows, but only %lld are left of those announced", (long long)*n,
                        (long long)(in->n_rows - in->row));
}

ff_status ff_gmsh_check_rows(ff_gmsh_in *in)
{
    if (in->row == in->n_rows) return FF_OK;
    return ff_gmsh_fail(in, "the blocks hold %lld rows, but the section announced %lld", (long long)in->row,
                        (long long)in->n_rows);
}

/* Goes over bytes up to the mark, which it takes. */
static ff_status skip_to(ff_gmsh_in *in, const char *mark)
{
    enum { BLOCK = 1 << 16 };
    size_t n = strlen(mark), got;
    for (const unsigned char *p;;) {
        FF_TRY(ff_bytes_peek(in->b, BLOCK, &p, &got));
        const unsigned char *at = memmem(p, got, mark, n);
        if (at != NULL) return ff_bytes_skip(in->b, (at - p) + (int64_t)n);
        if (got < BLOCK) return ff_gmsh_fail(in, "the file ends, expected %s: cut?", mark);
        FF_TRY(ff_bytes_skip(in->b, (int64_t)(got - n)));
    }
}

ff_status ff_gmsh_skip(ff_gmsh_in *in)
{
    char *line, mark[80];
    size_t len;
    if (in->binary) {
        (void)snprintf(mark, sizeof mark, "$End%s", in->section);
        return skip_to(in, mark);
    }
    for (;;) {
        FF_TRY(ff_gmsh_line(in, &line, &len));
        if (line == NULL) return ff_gmsh_fail(in, "the file ends, expected $End%s: cut?", in->section);
        char *w = ff_word(&line, &len);
        if (is_end(in, w, len)) return FF_OK;
    }
}
