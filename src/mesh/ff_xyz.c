#include "ff_xyz.h"

#include "ff_mem.h"

#include <string.h>
#include <strings.h>

bool ff_xyz_named(const char *path)
{
    size_t n = strlen(path);
    if (n > 3 && strcasecmp(path + n - 3, ".gz") == 0) n -= 3;
    return (n > 4 && strncasecmp(path + n - 4, ".xyz", 4) == 0) ||
           (n > 7 && strncasecmp(path + n - 7, ".extxyz", 7) == 0);
}

/* One frame's header. */
typedef struct frame {
    ff_bytes *b;
    int64_t n;
    ff_xyz_cell cell;
    bool pbc_given;
    int column; /* of x; -1: the file does not say */
} frame;

/* ---- header ---- */

/* Value of key in a line of key=value, key="a b", with or without case; *len its length. NULL: not there. */
static char *find_value(char *line, const char *key, size_t *len)
{
    const size_t n = strlen(key);
    bool quoted = false;
    for (char *p = line; *p != 0; p++) {
        if (*p == '"') quoted = !quoted;
        if (quoted || (p != line && p[-1] != ' ' && p[-1] != '\t')) continue;
        if (strncasecmp(p, key, n) != 0 || p[n] != '=') continue;
        char *v = p + n + 1;
        const char close = *v == '"' ? '"' : *v == '{' ? '}' : *v == '[' ? ']' : 0;
        v += close != 0;
        const char end[] = {close != 0 ? close : ' ', close != 0 ? 0 : '\t', 0};
        *len = strcspn(v, end);
        return v;
    }
    return NULL;
}

static ff_status take_lattice(frame *f, char *v, size_t len)
{
    const char keep = v[len];
    ff_status st = FF_OK;
    char *p = v, *w;
    size_t n;
    v[len] = 0;
    for (size_t i = 0; i < len; i++)
        if (v[i] == ',') v[i] = ' ';
    for (int i = 0; i < 9 && st == FF_OK; i++) {
        w = ff_word(&p, &n);
        if (w == NULL || !ff_word_double(w, n, &f->cell.vector[i / 3][i % 3]))
            st = ff_bytes_fail(f->b, "Lattice has %d numbers, expected 9", i);
    }
    v[len] = keep;
    f->cell.given = true;
    return st;
}

static ff_status take_pbc(frame *f, const char *v, size_t len)
{
    int n = 0;
    for (size_t i = 0; i < len && n < 3; i++) {
        if (v[i] == ' ' || v[i] == ',' || v[i] == '\t') continue;
        f->cell.periodic[n++] = v[i] == 'T' || v[i] == 't' || v[i] == '1';
        while (i + 1 < len && v[i + 1] != ' ' && v[i + 1] != ',') i++;
    }
    if (n != 3) return ff_bytes_fail(f->b, "pbc has %d flags, expected 3", n);
    f->pbc_given = true;
    return FF_OK;
}

/* name:type:columns:name:type:columns: ...; the columns before pos. */
static ff_status take_properties(frame *f, char *v, size_t len)
{
    int64_t column = 0, n;
    for (size_t i = 0; i < len;) {
        size_t part[3], part_len[3]; /* name, type, columns */
        int k = 0;
        for (; k < 3 && i < len; k++) {
            part[k] = i;
            while (i < len && v[i] != ':') i++;
            part_len[k] = i++ - part[k];
        }
        if (k < 3 || part_len[2] > 3 || !ff_word_i64(v + part[2], part_len[2], &n) || n < 1)
            return ff_bytes_fail(f->b, "Properties: expected name:type:columns:...");
        if (part_len[0] == 3 && strncasecmp(v + part[0], "pos", 3) == 0) {
            if (n != 3)
                return ff_bytes_fail(f->b, "Properties: pos has %lld columns, expected 3", (long long)n);
            f->column = (int)column;
            return FF_OK;
        }
        column += n;
        if (column > 200) return ff_bytes_fail(f->b, "Properties: pos is beyond column 200");
    }
    return ff_bytes_fail(f->b, "Properties: no pos:R:3 among them");
}

/* Count and comment of the next frame; *n stays -1 at the end of the file. */
static ff_status read_header(frame *f)
{
    char *line, *w, *v;
    size_t len;
    f->n = -1;
    do {
        FF_TRY(ff_bytes_line(f->b, &line, &len));
        if (line == NULL) return FF_OK;
        w = ff_word(&line, &len);
    } while (w == NULL);
    if (!ff_word_i64(w, len, &f->n) || f->n < 0)
        return ff_bytes_fail(f->b, "\"%s\", expected the number of points", ff_show(w, len).s);
    FF_TRY(ff_bytes_line(f->b, &line, &len));
    if (line == NULL) return ff_bytes_fail(f->b, "the file ends after the number of points");
    memset(&f->cell, 0, sizeof f->cell);
    f->pbc_given = false;
    f->column = -1;
    if ((v = find_value(line, "lattice", &len)) != NULL) FF_TRY(take_lattice(f, v, len));
    if ((v = find_value(line, "pbc", &len)) != NULL) FF_TRY(take_pbc(f, v, len));
    if ((v = find_value(line, "properties", &len)) != NULL) FF_TRY(take_properties(f, v, len));
    for (int a = 0; a < 3 && f->cell.given && !f->pbc_given; a++) f->cell.periodic[a] = 1;
    return FF_OK;
}

/* ---- points ---- */

static ff_status read_point(const frame *f, char *line, double x[3])
{
    enum { MOST = 256 };
    char *word[MOST], *p = line;
    size_t len[MOST];
    int n = 0;
    while (n < MOST && (word[n] = ff_word(&p, &len[n])) != NULL) n++;
    if (f->column < 0 && n != 3 && n != 4)
        return ff_bytes_fail(f->b, "%d columns, expected a name and x y z; others need Properties", n);
    const int first = f->column >= 0 ? f->column : n - 3;
    if (n < first + 3) return ff_bytes_fail(f->b, "%d columns, expected at least %d", n, first + 3);
    for (int d = 0; d < 3; d++)
        if (!ff_word_double(word[first + d], len[first + d], &x[d]))
            return ff_bytes_fail(f->b, "column %d is \"%s\", expected a number", first + d + 1,
                                 ff_show(word[first + d], len[first + d]).s);
    return FF_OK;
}

/* The lines of a frame's points; into m unless NULL. */
static ff_status read_points(const frame *f, ff_mesh *m)
{
    int64_t cap = 0;
    for (int64_t i = 0; i < f->n; i++) {
        char *line;
        size_t len;
        FF_TRY(ff_bytes_line(f->b, &line, &len));
        if (line == NULL)
            return ff_bytes_fail(f->b, "the file ends after %lld of %lld points", (long long)i,
                                 (long long)f->n);
        if (m == NULL) continue;
        FF_TRY(ff_mem_reserve(&m->points, &cap, 3 * (i + 1), sizeof *m->points));
        FF_TRY(read_point(f, line, m->points + 3 * i));
        m->n_points = i + 1;
    }
    return FF_OK;
}

ff_status ff_xyz_parse(ff_bytes *b, const ff_read_opts *opts, ff_mesh **out, ff_xyz_cell *cell)
{
    frame f = {.b = b, .column = -1};
    ff_mesh *m = NULL;
    ff_status st;
    *out = NULL;
    FF_GO(ff_mesh_create(&m));
    for (int64_t step = 0;; step++) {
        FF_GO(read_header(&f));
        if (f.n < 0)
            FF_GO(step == 0 ? ff_fail(FF_E_INPUT, "%s: is empty, expected points", ff_bytes_path(b))
                            : ff_fail(FF_E_INPUT, "%s: read.step = %lld, the file has %lld frames",
                                      ff_bytes_path(b), (long long)opts->step, (long long)step));
        FF_GO(read_points(&f, step == opts->step ? m : NULL));
        if (step == opts->step) break;
    }
    FF_GO(ff_mesh_finish(m, ff_bytes_path(b), opts));
    for (int i = 0; i < 9; i++) f.cell.vector[i / 3][i % 3] *= opts->scale;
    if (cell != NULL) *cell = f.cell;
    *out = m;
    m = NULL;
done:
    ff_mesh_destroy(&m);
    return st;
}

ff_status ff_xyz_read(const char *path, const ff_read_opts *opts, ff_mesh **out, ff_xyz_cell *cell)
{
    ff_bytes *b = NULL;
    *out = NULL;
    FF_TRY(ff_mesh_check_name(path));
    FF_TRY(ff_bytes_open(path, &b));
    ff_status st = ff_xyz_parse(b, opts, out, cell);
    ff_bytes_close(&b);
    return st;
}
