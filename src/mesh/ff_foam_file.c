#include "ff_foam_file.h"

#include "ff_mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

ff_status foam_fail(const foam_file *f, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return ff_fail(FF_E_INPUT, "%s: line %lld: %s", ff_bytes_path(f->b), (long long)f->line, text);
}

/* ---- words ---- */

/* The next byte without taking it, -1 at the end. */
static ff_status look(foam_file *f, size_t at, int *c)
{
    const unsigned char *p;
    size_t got;
    FF_TRY(ff_bytes_peek(f->b, at + 1, &p, &got));
    *c = got > at ? p[at] : -1;
    return FF_OK;
}

static ff_status drop(foam_file *f, size_t n)
{
    const unsigned char *p;
    FF_TRY(ff_bytes_take(f->b, n, &p));
    for (size_t i = 0; p != NULL && i < n; i++) f->line += p[i] == '\n';
    return FF_OK;
}

static bool is_blank(int c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}
static bool is_punctuation(int c)
{
    return c == '(' || c == ')' || c == '{' || c == '}' || c == '[' || c == ']' || c == ';';
}

/* A comment that begins here; *was is false if none does. */
static ff_status skip_comment(foam_file *f, bool *was)
{
    int a, b;
    FF_TRY(look(f, 0, &a));
    *was = false;
    if (a != '/') return FF_OK;
    FF_TRY(look(f, 1, &b));
    if (b != '/' && b != '*') return FF_OK;
    *was = true;
    int64_t line = f->line;
    FF_TRY(drop(f, 2));
    for (int last = 0;; last = a) {
        FF_TRY(look(f, 0, &a));
        if (a < 0 && b == '/') return FF_OK;
        if (a < 0) return foam_fail(f, "the comment of line %lld has no end", (long long)line);
        FF_TRY(drop(f, 1));
        if (b == '/' ? a == '\n' : last == '*' && a == '/') return FF_OK;
    }
}

static ff_status skip_blanks(foam_file *f)
{
    for (;;) {
        int c;
        bool comment;
        FF_TRY(look(f, 0, &c));
        if (is_blank(c)) {
            FF_TRY(drop(f, 1));
            continue;
        }
        FF_TRY(skip_comment(f, &comment));
        if (!comment) return FF_OK;
    }
}

static ff_status put(foam_file *f, int c)
{
    if (f->len + 1 >= FOAM_WORD) return foam_fail(f, "a word of more than %d characters", FOAM_WORD - 1);
    f->word[f->len++] = (char)(c < ' ' ? ' ' : c); /* names stand in one line of messages and results */
    return drop(f, 1);
}

static ff_status take_quoted(foam_file *f)
{
    int c;
    FF_TRY(drop(f, 1));
    for (bool escaped = false;; escaped = !escaped && c == '\\') {
        FF_TRY(look(f, 0, &c));
        if (c < 0) return foam_fail(f, "a quotation without end");
        if (c == '"' && !escaped) return drop(f, 1);
        FF_TRY(put(f, c));
    }
}

ff_status foam_next(foam_file *f)
{
    int c;
    if (f->kept) {
        f->kept = false;
        return FF_OK;
    }
    f->len = 0;
    f->quoted = false;
    f->word[0] = 0;
    FF_TRY(skip_blanks(f));
    FF_TRY(look(f, 0, &c));
    if (c < 0) return FF_OK;
    f->quoted = c == '"';
    if (f->quoted)
        FF_TRY(take_quoted(f));
    else if (is_punctuation(c))
        FF_TRY(put(f, c));
    else
        while (c >= 0 && !is_blank(c) && !is_punctuation(c) && c != '"') {
            FF_TRY(put(f, c));
            FF_TRY(look(f, 0, &c));
        }
    f->word[f->len] = 0;
    return FF_OK;
}

void foam_back(foam_file *f)
{
    f->kept = true;
}

bool foam_is(const foam_file *f, char punctuation)
{
    return f->len == 1 && !f->quoted && f->word[0] == punctuation;
}

/* What was found, for a message. */
static ff_shown found(const foam_file *f)
{
    return f->len == 0 && !f->quoted ? ff_show("end of file", 11) : ff_show(f->word, f->len);
}

ff_status foam_expect(foam_file *f, char punctuation, const char *what)
{
    FF_TRY(foam_next(f));
    if (foam_is(f, punctuation)) return FF_OK;
    return foam_fail(f, "%s: \"%s\", expected \"%c\"", what, found(f).s, punctuation);
}

ff_status foam_i64(foam_file *f, const char *what, int64_t *out)
{
    FF_TRY(foam_next(f));
    if (ff_word_i64(f->word, f->len, out)) return FF_OK;
    return foam_fail(f, "%s: \"%s\", expected a whole number", what, found(f).s);
}

ff_status foam_count(foam_file *f, const char *what, int64_t *out)
{
    FF_TRY(foam_i64(f, what, out));
    if (*out >= 0 && *out <= 1000000000000) return FF_OK;
    return foam_fail(f, "%s: %lld, expected a whole number from 0 to 1e12", what, (long long)*out);
}

ff_status foam_f64(foam_file *f, const char *what, double *out)
{
    FF_TRY(foam_next(f));
    if (ff_word_double(f->word, f->len, out)) return FF_OK;
    return foam_fail(f, "%s: \"%s\", expected a number", what, found(f).s);
}

ff_status foam_skip_entry(foam_file *f)
{
    for (int64_t depth = 0;;) {
        FF_TRY(foam_next(f));
        if (f->len == 0 && !f->quoted) return foam_fail(f, "file ends inside an entry: cut?");
        if (foam_is(f, ';') && depth == 0) return FF_OK;
        if (foam_is(f, '{') || foam_is(f, '(') || foam_is(f, '[')) depth++;
        if (!foam_is(f, '}') && !foam_is(f, ')') && !foam_is(f, ']')) continue;
        if (depth-- == 0) return foam_fail(f, "\"%s\" without its beginning", f->word);
        if (depth == 0 && foam_is(f, '}')) return FF_OK;
    }
}

/* Numbers a value in a List<...>; 0 for another word. */
static int list_width(const char *word)
{
    static const struct {
        const char *word;
        int n;
    } rows[] = {{"List<scalar>", 1}, {"List<vector>", 3}, {"List<symmTensor>", 6}, {"List<tensor>", 9}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].word, word) == 0) return rows[i].n;
    return 0;
}

ff_status foam_skip_value(foam_file *f)
{
    int64_t n;
    FF_TRY(foam_next(f));
    if (!f->binary || strcmp(f->word, "nonuniform") != 0) {
        foam_back(f);
        return foam_skip_entry(f);
    }
    FF_TRY(foam_next(f));
    int width = list_width(f->word);
    if (width == 0) {
        foam_back(f);
        return foam_skip_entry(f);
    }
    FF_TRY(foam_count(f, "a list", &n));
    FF_TRY(foam_next(f));
    for (int64_t i = 0; foam_is(f, '(') && i < n; i += 512) {
        int64_t part = n - i < 512 ? n - i : 512;
        const unsigned char *p;
        FF_TRY(ff_bytes_take(f->b, (size_t)(part * width * f->scalar), &p));
        if (p == NULL) return foam_fail(f, "file ends inside a list: cut?");
    }
    if (foam_is(f, '(')) FF_TRY(foam_expect(f, ')', "a list"));
    return foam_skip_entry(f);
}

/* ---- header ---- */

/* The number behind key in arch, as in "LSB;label=32;scalar=64", in bytes; 0 if it is not there. */
static int arch_bytes(const char *arch, const char *key)
{
    const char *at = strstr(arch, key);
    if (at == NULL) return 0;
    at += strlen(key);
    return strncmp(at, "32", 2) == 0 ? 4 : strncmp(at, "64", 2) == 0 ? 8 : 0;
}

static ff_status header_end(foam_file *f, const char *arch)
{
    if (!f->binary) return FF_OK;
    const union {
        uint16_t word;
        unsigned char byte[2];
    } probe = {.word = 1};
    bool lsb = strncmp(arch, "LSB", 3) == 0;
    f->label = arch_bytes(arch, "label=");
    f->scalar = arch_bytes(arch, "scalar=");
    f->swap = lsb != (probe.byte[0] == 1);
    if ((lsb || strncmp(arch, "MSB", 3) == 0) && f->label != 0 && f->scalar != 0) return FF_OK;
    return foam_fail(f,
                     "binary with arch \"%s\", expected as in \"LSB;label=32;scalar=64\"; convert it with "
                     "foamFormatConvert",
                     ff_show(arch, strlen(arch)).s);
}

/* Entries of the header up to its '}'. */
static ff_status read_entries(foam_file *f, char arch[64])
{
    for (;;) {
        FF_TRY(foam_next(f));
        if (foam_is(f, '}')) return FF_OK;
        if (f->len == 0) return foam_fail(f, "file ends inside its FoamFile header: cut?");
        char key[FOAM_WORD];
        memcpy(key, f->word, sizeof key);
        FF_TRY(foam_next(f));
        if (strcmp(key, "format") == 0) {
            f->binary = strcmp(f->word, "binary") == 0;
            if (!f->binary && strcmp(f->word, "ascii") != 0)
                return foam_fail(f, "format \"%s\", expected ascii or binary", ff_show(f->word, f->len).s);
        }
        if (strcmp(key, "class") == 0) (void)snprintf(f->kind, sizeof f->kind, "%.60s", f->word);
        if (strcmp(key, "arch") == 0) (void)snprintf(arch, 64, "%.60s", f->word);
        foam_back(f);
        FF_TRY(foam_skip_entry(f));
    }
}

static ff_status read_header(foam_file *f, bool need)
{
    char arch[64] = "";
    FF_TRY(foam_next(f));
    if (strcmp(f->word, "FoamFile") != 0) {
        if (need) return foam_fail(f, "\"%s\", expected a FoamFile header", found(f).s);
        foam_back(f);
        return FF_OK;
    }
    FF_TRY(foam_expect(f, '{', "FoamFile"));
    FF_TRY(read_entries(f, arch));
    return header_end(f, arch);
}

ff_status foam_attach(foam_file *f, ff_bytes *b, bool need_header)
{
    *f = (foam_file){.b = b, .line = 1};
    return read_header(f, need_header);
}

ff_status foam_open(foam_file *f, const char *folder, const char *name, bool need_header)
{
    char path[4096];
    struct stat info;
    ff_bytes *b = NULL;
    *f = (foam_file){.line = 1};
    int n = snprintf(path, sizeof path - 4, "%s%s%s", folder != NULL ? folder : "", folder != NULL ? "/" : "",
                     name);
    if (n < 0 || (size_t)n >= sizeof path - 4) return ff_fail(FF_E_INPUT, "%s: the path is too long", name);
    if (folder != NULL && stat(path, &info) != 0) {
        memcpy(path + n, ".gz", 4);
        if (stat(path, &info) != 0) path[n] = 0; /* the plain name in the message */
    }
    FF_TRY(ff_bytes_open(path, &b));
    return foam_attach(f, b, need_header);
}

void foam_close(foam_file *f)
{
    ff_bytes_close(&f->b);
}

/* ---- lists ---- */

ff_status foam_list_begin(foam_file *f, const char *what, foam_list *l)
{
    *l = (foam_list){0};
    FF_TRY(foam_count(f, what, &l->n));
    FF_TRY(foam_next(f));
    if (foam_is(f, '(')) return FF_OK;
    if (l->n > 0) return foam_fail(f, "%s: \"%s\" behind their number, expected \"(\"", what, found(f).s);
    l->bare = true;
    foam_back(f);
    return FF_OK;
}

ff_status foam_list_end(foam_file *f, const char *what, const foam_list *l)
{
    if (l->bare) return FF_OK;
    FF_TRY(foam_next(f));
    if (foam_is(f, ')')) return FF_OK;
    return foam_fail(f, "%s: \"%s\" behind item %lld, expected \")\"", what, found(f).s, (long long)l->n);
}

/* size bytes of a binary list, in our byte order. */
static ff_status take_raw(foam_file *f, const char *what, size_t size, unsigned char *out)
{
    const unsigned char *p;
    FF_TRY(ff_bytes_take(f->b, size, &p));
    if (p == NULL) return foam_fail(f, "%s: file ends inside the list: cut?", what);
    for (size_t i = 0; i < size; i++) out[f->swap ? size - 1 - i : i] = p[i];
    return FF_OK;
}

ff_status foam_label(foam_file *f, const char *what, int64_t *out)
{
    unsigned char raw[8];
    int32_t narrow;
    if (!f->binary) return foam_i64(f, what, out);
    FF_TRY(take_raw(f, what, (size_t)f->label, raw));
    memcpy(&narrow, raw, sizeof narrow);
    *out = narrow;
    if (f->label == 8) memcpy(out, raw, sizeof *out);
    return FF_OK;
}

ff_status foam_vector(foam_file *f, const char *what, double x[3])
{
    return foam_reals(f, what, 3, x);
}

ff_status foam_reals(foam_file *f, const char *what, int n, double *x)
{
    unsigned char raw[8];
    float narrow;
    if (!f->binary && n > 1) FF_TRY(foam_expect(f, '(', what));
    for (int k = 0; k < n; k++) {
        if (!f->binary) {
            FF_TRY(foam_f64(f, what, &x[k]));
            continue;
        }
        FF_TRY(take_raw(f, what, (size_t)f->scalar, raw));
        memcpy(&narrow, raw, sizeof narrow);
        x[k] = (double)narrow;
        if (f->scalar == 8) memcpy(&x[k], raw, sizeof x[k]);
    }
    return f->binary || n == 1 ? FF_OK : foam_expect(f, ')', what);
}

/* Item i of a list of cells. */
static ff_status count_cell(foam_file *f, const char *what, int64_t i, int64_t *n_cells, foam_kept *kept)
{
    int64_t v;
    FF_TRY(foam_label(f, what, &v));
    if (kept != NULL && i == 0) kept->one = v;
    if (kept != NULL && v > kept->largest) kept->largest = v;
    if (kept != NULL && i >= kept->from && !kept->uniform) {
        FF_TRY(ff_mem_reserve(&kept->value, &kept->cap, kept->n + 1, sizeof *kept->value));
        kept->value[kept->n++] = v;
    }
    if (v == -1) return FF_OK;
    if (v < -1 || *n_cells < i)
        return foam_fail(f, "%s: item %lld is %lld, expected %s", what, (long long)i, (long long)v,
                         v < -1 ? "a cell number" : "-1 as before");
    ++*n_cells;
    return FF_OK;
}

ff_status foam_cells(foam_file *f, const char *what, int64_t *n, int64_t *n_cells, foam_kept *kept)
{
    foam_list l = {0};
    *n_cells = 0;
    FF_TRY(foam_count(f, what, n));
    FF_TRY(foam_next(f));
    if (foam_is(f, '{')) {
        if (kept != NULL) kept->uniform = true;
        FF_TRY(count_cell(f, what, 0, n_cells, kept));
        *n_cells *= *n;
        return foam_expect(f, '}', what);
    }
    l.n = *n;
    l.bare = !foam_is(f, '(');
    if (l.bare && *n > 0)
        return foam_fail(f, "%s: \"%s\" behind their number, expected \"(\"", what, found(f).s);
    if (l.bare) foam_back(f);
    for (int64_t i = 0; i < *n; i++) FF_TRY(count_cell(f, what, i, n_cells, kept));
    return foam_list_end(f, what, &l);
}
