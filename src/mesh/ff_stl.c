#include "ff_stl.h"

#include "ff_builder.h"
#include "ff_mem.h"

#include <math.h>
#include <string.h>

/* Layout of a binary file: 80 bytes of header, facet count u32, then facets of 50 bytes: normal and three
 * corners as 12 float32, attribute u16; all little-endian. */
enum { HEADER = 84, FACET = 50, CHUNK = 4096 /* facets read at once */ };

static uint32_t get_u32(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static double get_f32(const unsigned char *p)
{
    uint32_t bits = get_u32(p);
    float x;
    memcpy(&x, &bits, sizeof x);
    return (double)x;
}

bool ff_stl_size_agrees(const unsigned char *head, size_t n, int64_t size)
{
    return n >= HEADER && size >= 0 && size == HEADER + (int64_t)FACET * get_u32(head + 80);
}

static bool starts_with(const unsigned char *s, size_t n, const char *lower)
{
    size_t len = strlen(lower);
    return n >= len && ff_word_is((const char *)s, len, lower);
}

bool ff_stl_looks_text(const unsigned char *head, size_t n)
{
    size_t i = starts_with(head, n, "\xEF\xBB\xBF") ? 3 : 0;
    while (i < n) {
        if (head[i] == ' ' || (head[i] >= '\t' && head[i] <= '\r')) {
            i++;
        } else if (head[i] == '#' || head[i] == '!' || starts_with(head + i, n - i, "//")) {
            while (i < n && head[i] != '\n') i++;
        } else {
            return starts_with(head + i, n - i, "solid") || starts_with(head + i, n - i, "facet");
        }
    }
    return false;
}

/* ---- binary ---- */

/* Appends n facets of p to m, which has room. */
static ff_status add_facets(ff_mesh *m, const char *path, int64_t first, const unsigned char *p, int64_t n)
{
    for (int64_t f = 0; f < n; f++, p += FACET)
        for (int k = 0; k < 9; k++) {
            double x = get_f32(p + 12 + 4 * (size_t)k);
            long long facet = first + m->n_cells + f;
            if (!isfinite(x))
                return ff_fail(FF_E_INPUT, "%s: facet %lld: corner %d: %c = %g, expected a finite number",
                               path, facet, k / 3, "xyz"[k % 3], x);
            m->points[9 * (m->n_cells + f) + k] = x;
        }
    m->n_cells += n;
    return FF_OK;
}

static ff_status wrong_count(ff_bytes *b, int64_t expected, int64_t found, size_t more)
{
    long long bytes = HEADER + FACET * expected;
    if (ff_bytes_size(b) >= 0)
        return ff_fail(
            FF_E_INPUT,
            "%s: binary STL header says %lld facets, that is %lld bytes, found %lld bytes (%lld facets and "
            "%zu bytes): cut, or no STL file",
            ff_bytes_path(b), (long long)expected, bytes, (long long)ff_bytes_size(b), (long long)found,
            more);
    if (found == expected)
        return ff_fail(FF_E_INPUT, "%s: binary STL header says %lld facets, but the file goes on behind them",
                       ff_bytes_path(b), (long long)expected);
    return ff_fail(FF_E_INPUT,
                   "%s: binary STL header says %lld facets, found %lld facets and %zu bytes: cut?",
                   ff_bytes_path(b), (long long)expected, (long long)found, more);
}

/* The facets of b, which stands behind the header; first is the number of the next one. */
static ff_status read_facets(ff_bytes *b, int64_t first, int64_t n, ff_mesh *m)
{
    const unsigned char *p;
    size_t got;
    int64_t cap = 0;
    /* With the size unknown the count may lie: the arrays grow with what comes. */
    if (ff_bytes_size(b) >= 0) FF_TRY(ff_mem_reserve(&m->points, &cap, 9 * n, sizeof *m->points));
    while (m->n_cells < n) {
        int64_t want = n - m->n_cells < CHUNK ? n - m->n_cells : CHUNK;
        FF_TRY(ff_bytes_peek(b, (size_t)want * FACET, &p, &got));
        int64_t whole = (int64_t)(got / FACET);
        FF_TRY(ff_mem_reserve(&m->points, &cap, 9 * (m->n_cells + whole), sizeof *m->points));
        FF_TRY(add_facets(m, ff_bytes_path(b), first, p, whole));
        if (whole < want) return wrong_count(b, n, first + m->n_cells, got % FACET);
        FF_TRY(ff_bytes_take(b, (size_t)whole * FACET, &p));
    }
    m->n_points = 3 * m->n_cells;
    m->points_float32 = true;
    FF_TRY(FF_NEW(m->cell_pts, 3 * m->n_cells));
    for (int64_t i = 0; i < 3 * m->n_cells; i++) m->cell_pts[i] = i;
    return FF_OK;
}

static ff_status parse_binary(ff_bytes *b, ff_mesh **out)
{
    const unsigned char *p;
    size_t got;
    ff_status st = FF_OK;
    FF_GO(ff_bytes_take(b, HEADER, &p));
    if (p == NULL) {
        st = ff_fail(FF_E_INPUT,
                     "%s: no STL file: neither text beginning with \"solid\" nor %d bytes of binary header",
                     ff_bytes_path(b), HEADER);
        goto done;
    }
    int64_t n = get_u32(p + 80), size = ff_bytes_size(b);
    if (size >= 0 && size != HEADER + FACET * n) {
        st = wrong_count(b, n, (size - HEADER) / FACET, (size_t)((size - HEADER) % FACET));
        goto done;
    }
    FF_GO(ff_mesh_create(out));
    FF_GO(read_facets(b, 0, n, *out));
    FF_GO(ff_bytes_peek(b, 1, &p, &got));
    if (got > 0) st = wrong_count(b, n, n, got);
done:
    return st;
}

/* ---- text: words, wherever the lines end; solid and endsolid take the rest of their line ---- */

typedef struct stl_text {
    ff_bytes *b;
    char *p, *word; /* rest of the line; the word taken last, NULL at the end of the file */
    size_t len;
    ff_builder mesh;
    int64_t n_facets;
} stl_text;

static bool is_comment(const char *w)
{
    return w[0] == '#' || w[0] == '!' || (w[0] == '/' && w[1] == '/');
}

/* Takes the next word into t->word. */
static ff_status next(stl_text *t)
{
    for (;;) {
        if (t->p != NULL && (t->word = ff_word(&t->p, &t->len)) != NULL) return FF_OK;
        char *line;
        size_t len;
        FF_TRY(ff_bytes_line(t->b, &line, &len));
        t->p = t->word = NULL;
        if (line == NULL) return FF_OK;
        char *q = line;
        if (ff_word(&q, &len) == NULL || is_comment(q - len)) continue;
        t->p = line;
    }
}

static bool is(const stl_text *t, const char *lower)
{
    return t->word != NULL && ff_word_is(t->word, t->len, lower);
}

static ff_status unexpected(const stl_text *t, const char *expected)
{
    if (t->word == NULL)
        return ff_bytes_fail(t->b, "file ends after %lld whole facets, expected %s: cut?",
                             (long long)t->n_facets, expected);
    return ff_bytes_fail(t->b, "facet %lld: \"%s\", expected %s", (long long)t->n_facets,
                         ff_show(t->word, t->len).s, expected);
}

static ff_status expect(stl_text *t, const char *lower)
{
    FF_TRY(next(t));
    return is(t, lower) ? FF_OK : unexpected(t, lower);
}

static ff_status corner(stl_text *t, double x[3])
{
    FF_TRY(expect(t, "vertex"));
    for (int k = 0; k < 3; k++) {
        FF_TRY(next(t));
        if (t->word == NULL || !ff_word_double(t->word, t->len, &x[k])) return unexpected(t, "a coordinate");
        if (!isfinite(x[k])) return unexpected(t, "a finite coordinate");
    }
    return FF_OK;
}

/* Behind "facet": [normal and whatever follows it] outer loop, three corners, endloop endfacet. */
static ff_status facet(stl_text *t)
{
    FF_TRY(next(t));
    if (is(t, "normal"))
        for (int k = 0; k <= 3 && t->word != NULL && !is(t, "outer"); k++) FF_TRY(next(t));
    if (!is(t, "outer")) return unexpected(t, "outer loop");
    FF_TRY(expect(t, "loop"));
    int64_t ids[3];
    for (int k = 0; k < 3; k++) {
        double x[3];
        FF_TRY(corner(t, x));
        ids[k] = t->mesh.m->n_points;
        FF_TRY(ff_builder_point(&t->mesh, x));
    }
    FF_TRY(ff_builder_cell(&t->mesh, ids, 3));
    FF_TRY(expect(t, "endloop"));
    FF_TRY(expect(t, "endfacet"));
    t->n_facets++;
    return FF_OK;
}

/* Behind "solid": its name, the rest of the line; "solid" if there is none. */
static ff_status solid_name(stl_text *t)
{
    size_t len, n;
    char *rest = t->p, *first = ff_word(&rest, &len);
    if (first == NULL) return ff_builder_patch(&t->mesh, "solid", 5);
    char *last = first + len;
    for (char *w; (w = ff_word(&rest, &n)) != NULL;) last = w + n;
    t->p = rest;
    return ff_builder_patch(&t->mesh, first, (size_t)(last - first));
}

static ff_status solid(stl_text *t)
{
    FF_TRY(solid_name(t));
    for (;;) {
        FF_TRY(next(t));
        if (is(t, "facet")) {
            FF_TRY(facet(t));
        } else if (is(t, "endsolid")) {
            t->p = NULL;
            return FF_OK;
        } else {
            return unexpected(t, "facet or endsolid");
        }
    }
}

static ff_status parse_text(ff_bytes *b, ff_mesh **out)
{
    stl_text t = {.b = b};
    ff_status st = ff_builder_begin(&t.mesh, 3);
    while (st == FF_OK) {
        FF_GO(next(&t));
        if (t.word == NULL) break;
        st = is(&t, "solid") ? solid(&t) : unexpected(&t, "solid");
    }
    if (st == FF_OK) *out = ff_builder_take(&t.mesh);
done:
    ff_builder_free(&t.mesh);
    return st;
}

/* ---- entries ---- */

/* Text begins like text and has no NUL byte where a binary file has its header and first facet. */
static bool is_text(const unsigned char *head, size_t n, int64_t size)
{
    return !ff_stl_size_agrees(head, n, size) && ff_stl_looks_text(head, n) &&
           memchr(head, 0, n < HEADER + FACET ? n : HEADER + FACET) == NULL;
}

ff_status ff_stl_parse(ff_bytes *b, ff_mesh **out)
{
    const unsigned char *head;
    size_t n;
    ff_status st;
    *out = NULL;
    FF_GO(ff_bytes_peek(b, 4096, &head, &n));
    st = is_text(head, n, ff_bytes_size(b)) ? parse_text(b, out) : parse_binary(b, out);
done:
    if (st != FF_OK) ff_mesh_destroy(out);
    return st;
}

ff_status ff_stl_read(const char *path, const ff_read_opts *opts, ff_mesh **out)
{
    ff_bytes *b = NULL;
    ff_status st;
    *out = NULL;
    FF_GO(ff_bytes_open(path, &b));
    FF_GO(ff_stl_parse(b, out));
    FF_GO(ff_mesh_finish(*out, path, opts));
done:
    if (st != FF_OK) ff_mesh_destroy(out);
    ff_bytes_close(&b);
    return st;
}

ff_status ff_stl_probe(const char *path, bool *is_binary, int64_t *n_facets)
{
    ff_bytes *b = NULL;
    const unsigned char *head;
    size_t n;
    ff_status st;
    *is_binary = false;
    *n_facets = 0;
    FF_GO(ff_bytes_open(path, &b));
    FF_GO(ff_bytes_peek(b, HEADER, &head, &n));
    *is_binary = ff_stl_size_agrees(head, n, ff_bytes_size(b));
    if (*is_binary) *n_facets = get_u32(head + 80);
done:
    ff_bytes_close(&b);
    return st;
}

ff_status ff_stl_read_range(const char *path, const ff_read_opts *opts, int64_t begin, int64_t end,
                            ff_mesh **out)
{
    ff_bytes *b = NULL;
    const unsigned char *p;
    size_t got;
    ff_status st;
    *out = NULL;
    FF_GO(ff_bytes_open(path, &b));
    FF_GO(ff_bytes_peek(b, HEADER, &p, &got));
    int64_t n = got == HEADER ? get_u32(p + 80) : 0;
    if (!ff_stl_size_agrees(p, got, ff_bytes_size(b)) || begin < 0 || end < begin || end > n) {
        st =
            ff_fail(FF_E_INPUT, "%s: facets %lld to %lld of %lld wanted: no binary STL, or changed meanwhile",
                    path, (long long)begin, (long long)end, (long long)n);
        goto done;
    }
    FF_GO(ff_bytes_skip(b, HEADER + FACET * begin));
    FF_GO(ff_mesh_create(out));
    FF_GO(read_facets(b, begin, end - begin, *out));
    FF_GO(ff_mesh_finish(*out, path, opts));
    if (n > 0) FF_GO(ff_mesh_set_patch(*out, FF_PATCH_SINGLE)); /* also where this range is empty */
    (*out)->cell_begin = begin;
    (*out)->n_cells_global = n;
done:
    if (st != FF_OK) ff_mesh_destroy(out);
    ff_bytes_close(&b);
    return st;
}
