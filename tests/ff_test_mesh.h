/* Shared by the tests of mesh readers: parse text in memory, write small files, look for words in an error.
 */
#ifndef FF_TEST_MESH_H
#define FF_TEST_MESH_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ff_bytes.h"
#include "ff_mem.h"
#include "ff_mesh.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef ff_status ff_test_parser(ff_bytes *b, ff_mesh **out);

/* Parses n bytes and finishes the mesh as the reader of a file does. */
static inline ff_status ff_test_parse_n(ff_test_parser *parse, const void *data, size_t n, ff_mesh **out)
{
    ff_bytes *b = NULL;
    ff_read_opts opts = FF_READ_OPTS_INIT;
    *out = NULL;
    ff_error_clear();
    ff_status st = ff_bytes_open_memory("mem", data, n, &b);
    if (st == FF_OK) st = parse(b, out);
    if (st == FF_OK) st = ff_mesh_finish(*out, "mem", &opts);
    if (st != FF_OK) ff_mesh_destroy(out);
    ff_bytes_close(&b);
    return st;
}

static inline ff_mesh *ff_test_parse(ff_test_parser *parse, const char *text)
{
    ff_mesh *m;
    ff_status st = ff_test_parse_n(parse, text, strlen(text), &m);
    if (st != FF_OK) fail_msg("refused: %s", ff_error_text());
    return m;
}

/* The last failure was an input error (exit code 2) whose text has these words. */
static inline void ff_test_refused(ff_status st, const char *words)
{
    if (ff_exit_code(st) != 2) fail_msg("status %d, expected an input error: %s", (int)st, words);
    if (strstr(ff_error_text(), words) == NULL)
        fail_msg("message \"%s\" lacks \"%s\"", ff_error_text(), words);
    if (strchr(ff_error_text(), '\n') != NULL) fail_msg("message of more than one line: %s", ff_error_text());
}

static inline void ff_test_refuse_n(ff_test_parser *parse, const void *data, size_t n, const char *words)
{
    ff_mesh *m;
    ff_status st = ff_test_parse_n(parse, data, n, &m);
    ff_mesh_destroy(&m);
    ff_test_refused(st, words);
}

static inline void ff_test_refuse(ff_test_parser *parse, const char *text, const char *words)
{
    ff_test_refuse_n(parse, text, strlen(text), words);
}

static inline bool ff_test_same_mesh(const ff_mesh *a, const ff_mesh *b)
{
    if (a->dim != b->dim || a->n_points != b->n_points || a->n_cells != b->n_cells ||
        a->n_patches != b->n_patches)
        return false;
    if (a->n_points > 0 && memcmp(a->points, b->points, (size_t)(3 * a->n_points) * sizeof *a->points) != 0)
        return false;
    for (int p = 0; p < a->n_patches; p++)
        if (strcmp(a->patch_name[p], b->patch_name[p]) != 0) return false;
    for (int64_t c = 0, n, m; c < a->n_cells; c++) {
        int64_t at = ff_mesh_cell(a, c, &n), bt = ff_mesh_cell(b, c, &m);
        if (n != m || memcmp(a->cell_pts + at, b->cell_pts + bt, (size_t)n * sizeof *a->cell_pts) != 0)
            return false;
        if (a->cell_patch != NULL && a->cell_patch[c] != b->cell_patch[c]) return false;
    }
    return true;
}

/* Every prefix of the file is refused, or is the whole surface: only ends that say nothing may be missing. Returns
 * how many were accepted. */
static inline int ff_test_prefixes(ff_test_parser *parse, const void *data, size_t n)
{
    ff_mesh *whole, *m;
    int accepted = 0;
    if (ff_test_parse_n(parse, data, n, &whole) != FF_OK) fail_msg("refused: %s", ff_error_text());
    for (size_t k = 0; k < n; k++) {
        char *cut = malloc(k + 1); /* its own block: reading beyond it is found by sanitizers */
        assert_non_null(cut);
        memcpy(cut, data, k);
        ff_status st = ff_test_parse_n(parse, cut, k, &m);
        if (st == FF_OK && !ff_test_same_mesh(m, whole))
            fail_msg("%zu of %zu bytes are taken for another mesh of %lld cells", k, n,
                     (long long)m->n_cells);
        if (st == FF_OK) accepted++;
        if (st != FF_OK) ff_test_refused(st, "mem: ");
        ff_mesh_destroy(&m);
        free(cut);
    }
    ff_mesh_destroy(&whole);
    return accepted;
}

/* A file of these bytes in the working folder of the test. */
static inline void ff_test_write(const char *path, const void *data, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

/* Little-endian binary STL of n facets, facet i = (i,0,0) (i,1,0) (i,0,1); returns its size. buf: 84 + 50 n.
 */
static inline size_t ff_test_binary_stl(unsigned char *buf, const char *header, uint32_t n)
{
    memset(buf, 0, 84 + 50 * (size_t)n);
    memcpy(buf, header, strlen(header));
    memcpy(buf + 80, &n, 4);
    for (uint32_t i = 0; i < n; i++) {
        float x[9] = {(float)i, 0, 0, (float)i, 1, 0, (float)i, 0, 1};
        memcpy(buf + 84 + 50 * (size_t)i + 12, x, sizeof x);
    }
    return 84 + 50 * (size_t)n;
}

#endif
