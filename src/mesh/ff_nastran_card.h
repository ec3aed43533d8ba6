/* Entries ("cards") of Nastran bulk data: lines of small (8 columns), large (16) and free fields put together. */
#ifndef FF_NASTRAN_CARD_H
#define FF_NASTRAN_CARD_H

#include "ff_bytes.h"

enum {
    FF_CARD_FIELDS = 64, /* data fields kept; longer entries are none that we read */
    FF_CARD_WIDTH = 32   /* bytes of a field with its NUL: free fields may be longer than 16 */
};

/* Field 0 is the first behind the name, so field i of the manual is i - 2 here. */
typedef struct ff_card {
    char name[FF_CARD_WIDTH]; /* upper case, without the star */
    int n;
    char field[FF_CARD_FIELDS][FF_CARD_WIDTH]; /* without blanks around them; "": not given */
    int64_t line;                              /* its first line */
    bool wanted;                               /* else it has a name alone */
    char label[FF_CARD_WIDTH];                 /* last field of its last line, as "+A1": what goes on there */
} ff_card;

typedef struct ff_card_reader {
    ff_bytes *b;
    bool (*wanted)(
        const char *name); /* whether the fields of such an entry are needed; others are not looked at */
    char *line;            /* taken already, without comment; NULL: none */
    size_t len, cap;
    char *tabs; /* the line with its tabs as blanks */
} ff_card_reader;

typedef enum ff_card_kind { FF_CARD_NONE, FF_CARD_ENTRY, FF_CARD_CONTROL } ff_card_kind;

/* The next entry with all its continuations; FF_CARD_NONE at the end of the file. FF_CARD_CONTROL: c->name is "BEGIN",
 * "INCLUDE", "CEND" or "ENDDATA", and field [0] the next word. Local */
ff_status ff_card_next(ff_card_reader *r, ff_card *c, ff_card_kind *kind);
void ff_card_free(ff_card_reader *r);

/* Whether the entry's last line names a continuation that does not follow. */
bool ff_card_is_open(const ff_card *c);

/* Value of field i, which the manual calls what; fallback where it is blank, unless that is FF_CARD_MUST. */
#define FF_CARD_MUST INT64_MIN
ff_status ff_card_int(const ff_card_reader *r, const ff_card *c, int i, const char *what, int64_t fallback,
                      int64_t *out);
ff_status ff_card_real(const ff_card_reader *r, const ff_card *c, int i, const char *what,
                       double *out); /* blank: 0 */

/* Records `path: line N: NAME: text` with the entry's first line; returns FF_E_INPUT. */
ff_status ff_card_fail(const ff_card_reader *r, const ff_card *c, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
#define ff_card_fail(...) ((void)ff_card_fail(__VA_ARGS__), FF_E_INPUT) /* lets analysers see the code */

/* A number as Nastran writes it: 1.5, 1.5E-3, 1.5-3, 1.5D-3, .5+2. Finite. */
bool ff_nastran_number(const char *field, double *out);

#endif
