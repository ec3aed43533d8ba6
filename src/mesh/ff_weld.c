#include "ff_weld.h"

#include "ff_mem.h"
#include "ff_sort.h"

#include <stdlib.h>
#include <string.h>

static uint64_t mix(uint64_t h, uint64_t x)
{
    h = (h ^ x) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 32;
}

typedef bool equal_fn(const void *data, int64_t a, int64_t b);

/* rep [n] (output): the first of the items equal to each one. key [n]: hashes, destroyed. Within a run of
 * equal hashes each item is compared with the distinct ones before it: with one, unless hashes collide. */
static ff_status find_first_equal(uint64_t *key, int64_t n, equal_fn *equal, const void *data, int64_t *rep)
{
    int64_t *item = NULL;
    ff_status st;
    FF_GO(FF_NEW(item, n));
    for (int64_t i = 0; i < n; i++) item[i] = i;
    FF_GO(ff_sort_u64(key, item, n));
    for (int64_t begin = 0, end; begin < n; begin = end) {
        for (end = begin; end < n && key[end] == key[begin]; end++) {
            int64_t j = begin;
            while (j < end && (rep[item[j]] != item[j] || !equal(data, item[j], item[end]))) j++;
            rep[item[end]] = item[j]; /* j == end: a new one */
        }
    }
done:
    ff_free(item);
    return st;
}

static bool equal_points(const void *data, int64_t a, int64_t b)
{
    const double *x = data;
    return x[3 * a] == x[3 * b] && x[3 * a + 1] == x[3 * b + 1] && x[3 * a + 2] == x[3 * b + 2];
}

ff_status ff_weld_points(const ff_mesh *m, int64_t *id, int64_t *n_distinct)
{
    uint64_t *key = NULL;
    ff_status st;
    FF_GO(FF_NEW(key, m->n_points));
    for (int64_t i = 0; i < m->n_points; i++) {
        key[i] = 0;
        for (int k = 0; k < 3; k++) {
            double x = m->points[3 * i + k] + 0.0; /* -0 becomes 0 */
            uint64_t bits;
            memcpy(&bits, &x, sizeof bits);
            key[i] = mix(key[i], bits);
        }
    }
    FF_GO(find_first_equal(key, m->n_points, equal_points, m->points, id));
    *n_distinct = 0;
    for (int64_t i = 0; i < m->n_points; i++) id[i] = id[i] == i ? (*n_distinct)++ : id[id[i]];
done:
    ff_free(key);
    return st;
}

/* Welded corners, sorted within each cell. */
typedef struct sorted_cells {
    const ff_mesh *m;
    int64_t *corner; /* as cell_pts */
} sorted_cells;

static int compare_ids(const void *a, const void *b)
{
    int64_t x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

static void sort_ids(int64_t *v, int64_t n)
{
    if (n > 16) {
        qsort(v, (size_t)n, sizeof *v, compare_ids);
        return;
    }
    for (int64_t i = 1; i < n; i++)
        for (int64_t j = i; j > 0 && v[j - 1] > v[j]; j--) {
            int64_t t = v[j];
            v[j] = v[j - 1];
            v[j - 1] = t;
        }
}

static bool equal_cells(const void *data, int64_t a, int64_t b)
{
    const sorted_cells *s = data;
    int64_t n, n_b, at = ff_mesh_cell(s->m, a, &n), at_b = ff_mesh_cell(s->m, b, &n_b);
    return n == n_b && memcmp(s->corner + at, s->corner + at_b, (size_t)n * sizeof *s->corner) == 0;
}

ff_status ff_weld_cells(const ff_mesh *m, const int64_t *id, int64_t *first)
{
    sorted_cells s = {m, NULL};
    uint64_t *key = NULL;
    int64_t n = m->n_cells, n_corners = m->cell_off != NULL ? m->cell_off[n] : m->dim * n;
    ff_status st;
    FF_GO(FF_NEW(s.corner, n_corners));
    FF_GO(FF_NEW(key, n));
    for (int64_t i = 0; i < n_corners; i++) s.corner[i] = id[m->cell_pts[i]];
    for (int64_t c = 0; c < n; c++) {
        int64_t len, at = ff_mesh_cell(m, c, &len);
        sort_ids(s.corner + at, len);
        key[c] = 0;
        for (int64_t i = at; i < at + len; i++) key[c] = mix(key[c], (uint64_t)s.corner[i] + 1);
    }
    FF_GO(find_first_equal(key, n, equal_cells, &s, first));
done:
    ff_free(s.corner);
    ff_free(key);
    return st;
}

ff_status ff_weld_count_repeated(const ff_mesh *m, const int64_t *id, int64_t *n_repeated)
{
    int64_t *first = NULL;
    *n_repeated = 0;
    FF_TRY(FF_NEW(first, m->n_cells));
    ff_status st = ff_weld_cells(m, id, first);
    for (int64_t c = 0; c < m->n_cells && st == FF_OK; c++) *n_repeated += first[c] != c;
    ff_free(first);
    return st;
}
