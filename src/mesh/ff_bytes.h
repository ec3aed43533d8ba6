/* Buffered reading of a plain or gzip-compressed file (told apart by content), or of bytes in memory.
 * Text comes line by line in the buffer itself, binary data as runs of bytes; both may be mixed (PLY).
 * Failures record `path: line N: ...` or `path: byte N: ...`. */
#ifndef FF_BYTES_H
#define FF_BYTES_H

#include "ff_status.h"

#include <stdbool.h>

typedef struct ff_bytes ff_bytes;

/* FF_E_INPUT if path is missing, unreadable or no regular file. Local */
ff_status ff_bytes_open(const char *path, ff_bytes **out);
/* data is borrowed and must outlive the reader; name stands in messages. Local */
ff_status ff_bytes_open_memory(const char *name, const void *data, size_t bytes, ff_bytes **out);
void ff_bytes_close(ff_bytes **b);

const char *ff_bytes_path(const ff_bytes *b);
/* Bytes of content, or -1 where only reading tells (gzip). */
int64_t ff_bytes_size(const ff_bytes *b);

/* The next min(n, what is left) bytes without taking them; valid until the next call. */
ff_status ff_bytes_peek(ff_bytes *b, size_t n, const unsigned char **p, size_t *got);
/* Takes exactly n bytes; *p is NULL if fewer are left (none is taken then). Valid until the next call. */
ff_status ff_bytes_take(ff_bytes *b, size_t n, const unsigned char **p);
ff_status ff_bytes_skip(ff_bytes *b, int64_t n); /* seeks in a plain file */

/* Takes a line of any length, without its end (LF or CRLF) and without a byte order mark in line 1;
 * NUL-terminated, may be written to, valid until the next call. *line is NULL at the end of the file.
 * FF_E_INPUT for a NUL byte. */
ff_status ff_bytes_line(ff_bytes *b, char **line, size_t *len);
int64_t ff_bytes_line_no(const ff_bytes *b); /* of the last line taken, from 1 */
bool ff_bytes_line_open(const ff_bytes *b);  /* whether that line ended with the file instead of an LF */

/* Records `path: line N: <text>` with the last line taken; returns FF_E_INPUT. */
ff_status ff_bytes_fail(const ff_bytes *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
#define ff_bytes_fail(...) ((void)ff_bytes_fail(__VA_ARGS__), FF_E_INPUT) /* lets analysers see the code */

/* ---- words of a line ---- */
/* Next word at *p (blanks, tabs, CR skipped), NULL at the end of the line; *p moves behind it. */
char *ff_word(char **p, size_t *len);
bool ff_word_is(const char *w, size_t len, const char *lower); /* ASCII letters compared without case */
/* Decimal numbers, correctly rounded, independent of the locale; "nan" and "inf" are numbers here,
 * hexadecimal and trailing characters are not. w[len] must exist and be no part of a number (a blank or the
 * final NUL). */
bool ff_word_double(const char *w, size_t len, double *out);
bool ff_word_i64(const char *w, size_t len, int64_t *out);
/* Copy for a message: at most 40 characters, others than printable ASCII as '?'. */
typedef struct ff_shown {
    char s[48];
} ff_shown;
ff_shown ff_show(const char *w, size_t len);

#endif
