#include "ff_nastran_card.h"

#include "ff_mem.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { SMALL = 8, LARGE = 16, PER_LINE = 8 /* small fields in a line, besides name and continuation */ };

ff_status(ff_card_fail)(const ff_card_reader *r, const ff_card *c, const char *fmt, ...)
{
    char text[256];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return ff_fail(FF_E_INPUT, "%s: line %lld: %s: %s", ff_bytes_path(r->b), (long long)c->line,
                   ff_show(c->name, strlen(c->name)).s, text);
}

/* ---- lines ---- */

/* Copies the line with tabs as blanks up to the next multiple of eight columns. */
static ff_status expand_tabs(ff_card_reader *r, const char *line, size_t len)
{
    size_t n = 0, n_tabs = 0;
    for (size_t i = 0; i < len; i++) n_tabs += line[i] == '\t';
    int64_t cap = (int64_t)r->cap;
    FF_TRY(ff_mem_reserve(&r->tabs, &cap, (int64_t)(len + SMALL * n_tabs + 1), 1));
    r->cap = (size_t)cap;
    for (size_t i = 0; i < len; i++) {
        if (line[i] != '\t') {
            r->tabs[n++] = line[i];
            continue;
        }
        do r->tabs[n++] = ' ';
        while (n % SMALL != 0);
    }
    r->tabs[n] = 0;
    r->line = r->tabs;
    r->len = n;
    return FF_OK;
}

/* Makes sure that r->line is the next line with something on it besides a comment; NULL at the end. */
static ff_status look(ff_card_reader *r)
{
    while (r->line == NULL) {
        char *line;
        size_t len, n;
        FF_TRY(ff_bytes_line(r->b, &line, &len));
        if (line == NULL) return FF_OK;
        len = strcspn(line, "$");
        line[len] = 0;
        char *p = line;
        if (ff_word(&p, &n) == NULL) continue;
        FF_TRY(expand_tabs(r, line, len));
    }
    return FF_OK;
}

static bool is_free(const ff_card_reader *r)
{
    size_t head = r->len < 10 ? r->len : 10; /* columns in which a comma says so */
    return memchr(r->line, ',', head) != NULL;
}

/* The first field is blank or begins with a sign. */
static bool is_continuation(const ff_card_reader *r)
{
    size_t i = strspn(r->line, " ");
    char c = r->line[i];
    return i >= SMALL || c == '+' || c == '*' || c == 0 || (c == ',' && is_free(r));
}

/* ---- fields ---- */

/* Puts text without blanks around it into to. */
static ff_status put(const ff_card_reader *r, char to[FF_CARD_WIDTH], const char *text, size_t n)
{
    while (n > 0 && text[0] == ' ') text++, n--;
    while (n > 0 && (text[n - 1] == ' ' || text[n - 1] == '\r')) n--;
    if (n >= FF_CARD_WIDTH)
        return ff_bytes_fail(r->b, "field \"%s\" has %zu characters, expected at most %d", ff_show(text, n).s,
                             n, FF_CARD_WIDTH - 1);
    memcpy(to, text, n);
    to[n] = 0;
    return FF_OK;
}

/* The part of the line from column begin on, at most n columns. */
static ff_status put_columns(const ff_card_reader *r, char to[FF_CARD_WIDTH], size_t begin, size_t n)
{
    if (begin >= r->len) begin = r->len;
    if (n > r->len - begin) n = r->len - begin;
    return put(r, to, r->line + begin, n);
}

/* Part i of a line of free fields; *more: whether a comma stands behind it. */
static ff_status put_free(const ff_card_reader *r, char to[FF_CARD_WIDTH], const char **p, bool *more)
{
    size_t n = strcspn(*p, ",");
    FF_TRY(put(r, to, *p, n));
    *more = (*p)[n] == ',';
    *p += n + *more;
    return FF_OK;
}

/* A star in the first field makes the fields of the line large ones; it is taken away. */
static bool take_star(char head[FF_CARD_WIDTH])
{
    char *star = strchr(head, '*');
    if (star == NULL) return false;
    if (star == head) return true; /* the sign of a continuation */
    *star = 0;
    while (star > head && star[-1] == ' ') *--star = 0;
    return true;
}

/* Room for the fields of one line; entries beyond FF_CARD_FIELDS are dropped: no entry we read has so many. */
static char *slot(ff_card *c, int i, char spare[FF_CARD_WIDTH])
{
    return i < FF_CARD_FIELDS ? c->field[i] : spare;
}

/* Adds the fields of the line, n_line small or n_line large ones, and the label of its continuation. */
static ff_status add_fields(const ff_card_reader *r, ff_card *c, bool large, const char *free_rest, bool more)
{
    int n_line = large ? PER_LINE / 2 : PER_LINE;
    char spare[FF_CARD_WIDTH];
    /* A small line begins a whole line of eight, also behind half a line of large fields. */
    if (!large) c->n = (c->n + PER_LINE - 1) / PER_LINE * PER_LINE;
    c->label[0] = 0;
    for (int i = 0; i < n_line; i++) {
        char *to = slot(c, c->n + i, spare);
        to[0] = 0;
        if (free_rest == NULL)
            FF_TRY(put_columns(r, to, SMALL + (size_t)i * (large ? LARGE : SMALL), large ? LARGE : SMALL));
        else if (more)
            FF_TRY(put_free(r, to, &free_rest, &more));
    }
    if (c->n < FF_CARD_FIELDS) c->n += n_line;
    if (c->n > FF_CARD_FIELDS) c->n = FF_CARD_FIELDS;
    if (free_rest == NULL) return put_columns(r, c->label, SMALL + (size_t)(PER_LINE * SMALL), SMALL);
    if (more) FF_TRY(put_free(r, c->label, &free_rest, &more));
    if (more)
        return ff_bytes_fail(r->b, "more than %d free fields in a line, expected a continuation line",
                             n_line + 2);
    return FF_OK;
}

/* First field of the line into head; the rest of a line of free fields into *free_rest, else NULL. */
static ff_status take_head(const ff_card_reader *r, char head[FF_CARD_WIDTH], const char **free_rest,
                           bool *more)
{
    *free_rest = NULL;
    *more = false;
    if (!is_free(r)) return put_columns(r, head, 0, SMALL);
    *free_rest = r->line;
    return put_free(r, head, free_rest, more);
}

/* A label's text behind its sign and blanks: without any it fits all. */
static const char *label_text(const char *label)
{
    if (label[0] != '+' && label[0] != '*') return "";
    return label + 1 + strspn(label + 1, " ");
}

bool ff_card_is_open(const ff_card *c)
{
    return label_text(c->label)[0] != 0;
}

static ff_status add_continuation(ff_card_reader *r, ff_card *c)
{
    char head[FF_CARD_WIDTH];
    const char *rest;
    bool more;
    FF_TRY(take_head(r, head, &rest, &more));
    const char *want = label_text(c->label), *have = label_text(head);
    if (want[0] != 0 && have[0] != 0 && strcmp(want, have) != 0)
        return ff_bytes_fail(
            r->b, "continuation \"%s\" behind a line that goes on in \"%s\"; put the lines in order",
            ff_show(head, strlen(head)).s, ff_show(c->label, strlen(c->label)).s);
    return add_fields(r, c, take_star(head), rest, more);
}

/* ---- entries ---- */

/* Lines of the control sections, of which only the first words count. The name in INCLUDE'NAME' may follow at once. */
static bool take_control(ff_card_reader *r, ff_card *c)
{
    static const char *const names[] = {"BEGIN", "INCLUDE", "CEND", "ENDDATA"};
    static const char *const lower[] = {"begin", "include", "cend", "enddata"};
    size_t len;
    char *p = r->line, *w = ff_word(&p, &len), *quote = memchr(w, '\'', len);
    if (quote != NULL) len = (size_t)(quote - w);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!ff_word_is(w, len, lower[i])) continue;
        p = w + len;
        (void)snprintf(c->name, sizeof c->name, "%s", names[i]);
        w = ff_word(&p, &len);
        (void)snprintf(c->field[0], sizeof c->field[0], "%.*s", w != NULL ? (int)(len < 31 ? len : 31) : 0,
                       w != NULL ? w : "");
        return true;
    }
    return false;
}

static void upper(char *s)
{
    for (; *s != 0; s++)
        if (*s >= 'a' && *s <= 'z') *s = (char)(*s - 'a' + 'A');
}

/* The first line of an entry. */
static ff_status begin_entry(const ff_card_reader *r, ff_card *c)
{
    const char *rest;
    bool more;
    c->n = 0;
    if (r->line[0] == '=')
        return ff_bytes_fail(
            r->b, "replication (a line that begins with \"=\") is not read; write out the entries");
    FF_TRY(take_head(r, c->name, &rest, &more));
    bool large = take_star(c->name);
    upper(c->name);
    c->wanted = r->wanted(c->name);
    return c->wanted ? add_fields(r, c, large, rest, more) : FF_OK;
}

ff_status ff_card_next(ff_card_reader *r, ff_card *c, ff_card_kind *kind)
{
    *kind = FF_CARD_NONE;
    FF_TRY(look(r));
    if (r->line == NULL) return FF_OK;
    c->line = ff_bytes_line_no(r->b);
    if (take_control(r, c)) {
        *kind = FF_CARD_CONTROL;
        r->line = NULL;
        return FF_OK;
    }
    *kind = FF_CARD_ENTRY;
    FF_TRY(begin_entry(r, c));
    for (;;) {
        r->line = NULL;
        FF_TRY(look(r));
        if (r->line == NULL || !is_continuation(r)) return FF_OK;
        if (c->wanted) FF_TRY(add_continuation(r, c));
    }
}

void ff_card_free(ff_card_reader *r)
{
    FF_FREE(r->tabs);
}

/* ---- values ---- */

ff_status ff_card_int(const ff_card_reader *r, const ff_card *c, int i, const char *what, int64_t fallback,
                      int64_t *out)
{
    const char *s = i < c->n ? c->field[i] : "";
    *out = fallback;
    if (s[0] == 0 && fallback == FF_CARD_MUST)
        return ff_card_fail(r, c, "%s is blank, expected a number", what);
    if (s[0] == 0 || ff_word_i64(s, strlen(s), out)) return FF_OK;
    return ff_card_fail(r, c, "%s = \"%s\", expected a whole number", what, ff_show(s, strlen(s)).s);
}

bool ff_nastran_number(const char *field, double *out)
{
    char s[FF_CARD_WIDTH + 2];
    size_t n = 0;
    bool has_e = false;
    for (const char *p = field; *p != 0; p++) {
        bool letter = *p == 'e' || *p == 'E' || *p == 'd' || *p == 'D';
        /* A sign within a number begins an exponent that has no letter. */
        if ((*p == '+' || *p == '-') && p > field && !has_e) {
            s[n++] = 'e';
            has_e = true;
        }
        s[n++] = letter ? 'e' : *p;
        has_e = has_e || letter;
    }
    s[n] = 0;
    return ff_word_double(s, n, out) && isfinite(*out);
}

ff_status ff_card_real(const ff_card_reader *r, const ff_card *c, int i, const char *what, double *out)
{
    const char *s = i < c->n ? c->field[i] : "";
    *out = 0;
    if (s[0] == 0 || ff_nastran_number(s, out)) return FF_OK;
    return ff_card_fail(r, c, "%s = \"%s\", expected a number", what, ff_show(s, strlen(s)).s);
}
