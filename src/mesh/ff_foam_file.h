/* One file in OpenFOAM's own syntax (FoamFile header, lists, dictionaries), plain or .gz, text or binary. */
#ifndef FF_FOAM_FILE_H
#define FF_FOAM_FILE_H

#include "ff_bytes.h"

/* Longest word of a list; a name or number that is longer is an error. */
enum { FOAM_WORD = 256 };

typedef struct foam_file {
    ff_bytes *b;
    int64_t line;         /* of the next byte, from 1; bytes of binary lists are not looked at */
    bool binary, swap;    /* swap: byte order of binary lists is not ours */
    int label, scalar;    /* bytes of a whole number and of a real number in binary lists */
    char kind[64];        /* class of the header, "" without */
    char word[FOAM_WORD]; /* last word taken, or a single punctuation ( ) { } [ ] ; */
    size_t len;           /* of it, 0 at the end of the file */
    bool quoted;          /* it stood between quotation marks */
    bool kept;            /* foam_back: the next foam_next gives the same word */
} foam_file;

/* Opens folder/name, or folder/name.gz if only that is there, and reads its header. folder NULL: name is the whole
 * path. f is to be closed in any case.                                                                    Local
 * Errors: FF_E_INPUT if missing, without a header where need_header, or binary without "arch" saying how. */
ff_status foam_open(foam_file *f, const char *folder, const char *name, bool need_header);
/* The same on bytes that are open already; b becomes part of f.                                           Local */
ff_status foam_attach(foam_file *f, ff_bytes *b, bool need_header);
void foam_close(foam_file *f);

/* Takes the next word (comments and blanks skipped). FF_E_INPUT: longer than FOAM_WORD - 1, open comment or quotation.
 */
ff_status foam_next(foam_file *f);
void foam_back(foam_file *f); /* gives the last word back */
bool foam_is(const foam_file *f, char punctuation);
/* Takes the word and demands that punctuation, or a whole number >= 0. what names it in the message. */
ff_status foam_expect(foam_file *f, char punctuation, const char *what);
ff_status foam_count(foam_file *f, const char *what, int64_t *out);
ff_status foam_i64(foam_file *f, const char *what, int64_t *out);
ff_status foam_f64(foam_file *f, const char *what, double *out);
ff_status foam_skip_entry(foam_file *f); /* rest of a dictionary's entry: up to ';' or over a { } block */
/* The same where lists of values may be binary: those behind "List<scalar>" and the like are read by their size. */
ff_status foam_skip_value(foam_file *f);

/* ---- lists ---- */
/* Begins a list "N (": *n items follow, then foam_list_end. A list of none may lack its parentheses. */
typedef struct foam_list {
    int64_t n;
    bool bare; /* empty and without parentheses */
} foam_list;
ff_status foam_list_begin(foam_file *f, const char *what, foam_list *l);
ff_status foam_list_end(foam_file *f, const char *what, const foam_list *l);
/* One whole number, or three real ones, of a list, text or binary. */
ff_status foam_label(foam_file *f, const char *what, int64_t *out);
ff_status foam_vector(foam_file *f, const char *what, double x[3]);
/* n real numbers: one alone, several between parentheses in text. */
ff_status foam_reals(foam_file *f, const char *what, int n, double *x);
/* A whole list of cell numbers, also in the form N{value}. *n: how many; *n_cells: how many of them are cells, those
 * before the first -1 (early versions write -1 for "no cell"). kept, unless NULL: the values from item kept->from on,
 * or the one value of the form N{value}, and the largest of all.
 * FF_E_INPUT: other negative numbers, or a cell behind a -1. */
typedef struct foam_kept {
    int64_t from, n, cap, *value; /* value [n], owned by the caller */
    bool uniform;
    int64_t one, largest; /* one: of N{value} */
} foam_kept;
ff_status foam_cells(foam_file *f, const char *what, int64_t *n, int64_t *n_cells, foam_kept *kept);

/* Records `path: line N: text`; FF_E_INPUT. */
ff_status foam_fail(const foam_file *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
