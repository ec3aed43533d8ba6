#include "ff_faces.h"

#include "ff_mem.h"
#include "ff_sort.h"

#include <stdlib.h>
#include <string.h>

/* Faces of each shape: number of corners, then the corners; 0 ends the list. */
static const int8_t tetra[] = {3, 0, 2, 1, 3, 0, 1, 3, 3, 1, 2, 3, 3, 2, 0, 3, 0};
static const int8_t pyramid[] = {4, 0, 3, 2, 1, 3, 0, 1, 4, 3, 1, 2, 4, 3, 2, 3, 4, 3, 3, 0, 4, 0};
static const int8_t wedge[] = {3, 0, 2, 1, 3, 3, 4, 5, 4, 0, 1, 4, 3, 4, 1, 2, 5, 4, 4, 2, 0, 3, 5, 0};
static const int8_t hexa[] = {4, 0, 3, 2, 1, 4, 4, 5, 6, 7, 4, 0, 1, 5, 4, 4,
                              1, 2, 6, 5, 4, 2, 3, 7, 6, 4, 3, 0, 4, 7, 0};
static const int8_t prism5[] = {5, 0, 4, 3, 2, 1, 5, 5, 6, 7, 8, 9, 4, 0, 1, 6, 5, 4, 1,
                                2, 7, 6, 4, 2, 3, 8, 7, 4, 3, 4, 9, 8, 4, 4, 0, 5, 9, 0};
static const int8_t prism6[] = {6, 0, 5, 4, 3, 2, 1, 6, 6, 7,  8, 9, 10, 11, 4,  0,  1, 7, 6, 4, 1,  2, 8,
                                7, 4, 2, 3, 9, 8, 4, 3, 4, 10, 9, 4, 4,  5,  11, 10, 4, 5, 0, 6, 11, 0};
static const int8_t *const table[] = {tetra, pyramid, wedge, hexa, prism5, prism6};
static const int corners[] = {4, 5, 6, 8, 10, 12};

int ff_shape_corners(ff_shape s)
{
    return corners[s];
}

ff_status ff_faces_add(ff_faces *f, int64_t cell, const int64_t *ids, int64_t n, int64_t least)
{
    FF_TRY(ff_mem_reserve(&f->off, &f->cap_off, f->n + 2, sizeof *f->off));
    FF_TRY(ff_mem_reserve(&f->cell, &f->cap_cell, f->n + 1, sizeof *f->cell));
    FF_TRY(ff_mem_reserve(&f->ids, &f->cap_ids, f->n_ids + n, sizeof *f->ids));
    f->off[0] = 0;
    int64_t kept = 0, *to = f->ids + f->n_ids;
    for (int64_t i = 0; i < n; i++)
        if (kept == 0 || ids[i] != to[kept - 1]) to[kept++] = ids[i];
    if (kept > 1 && to[kept - 1] == to[0]) kept--;
    if (kept < least) return FF_OK;
    f->n_ids += kept;
    f->cell[f->n++] = cell;
    f->off[f->n] = f->n_ids;
    return FF_OK;
}

ff_status ff_faces_add_cell(ff_faces *f, int64_t cell, ff_shape shape, const int64_t *ids)
{
    int64_t face[8];
    for (const int8_t *p = table[shape]; *p != 0; p += *p + 1) {
        for (int i = 0; i < *p; i++) face[i] = ids[p[i + 1]];
        FF_TRY(ff_faces_add(f, cell, face, *p, 3));
    }
    return FF_OK;
}

ff_status ff_faces_add_edges(ff_faces *f, int64_t cell, const int64_t *ids, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        FF_TRY(ff_faces_add(f, cell, (int64_t[]){ids[i], ids[i + 1 < n ? i + 1 : 0]}, 2, 2));
    return FF_OK;
}

static int by_id(const void *a, const void *b)
{
    int64_t x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return x < y ? -1 : x > y;
}

/* The same for any order of the corners. */
static uint64_t hash_face(const int64_t *ids, int64_t n)
{
    uint64_t h = (uint64_t)n;
    for (int64_t i = 0; i < n; i++) {
        uint64_t x = (uint64_t)ids[i] + 0x9e3779b97f4a7c15u;
        x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
        x = (x ^ x >> 27) * 0x94d049bb133111ebu;
        h += x ^ x >> 31;
    }
    return h;
}

typedef struct {
    const ff_faces *f;
    int64_t *sorted; /* as ids, the corners of each face ascending */
    uint64_t *key;   /* [n] ascending */
    int64_t *at;     /* [n] face of each key */
    uint8_t *free;   /* [n] */
} matching;

static bool is_same(const matching *w, int64_t a, int64_t b)
{
    const int64_t *off = w->f->off;
    int64_t n = off[a + 1] - off[a];
    return n == off[b + 1] - off[b] &&
           memcmp(w->sorted + off[a], w->sorted + off[b], (size_t)n * sizeof *w->sorted) == 0;
}

/* Faces at[i, j) have one key: almost always the same face, or one alone. Each pass settles those equal to the first
 * of the rest and moves the others to the front. */
static void match_run(matching *w, int64_t i, int64_t j)
{
    while (i < j) {
        int64_t first = w->at[i], same = 0, rest = i;
        for (int64_t k = i; k < j; k++) {
            int64_t face = w->at[k];
            if (is_same(w, first, face)) {
                same++;
                w->free[face] = 0;
            } else {
                w->at[rest++] = face;
            }
        }
        w->free[first] = same == 1;
        j = rest;
    }
}

static void drop_others(ff_faces *f, const uint8_t *keep)
{
    int64_t n = 0, n_ids = 0;
    for (int64_t i = 0; i < f->n; i++) {
        if (!keep[i]) continue;
        int64_t from = f->off[i], size = f->off[i + 1] - from;
        memmove(f->ids + n_ids, f->ids + from, (size_t)size * sizeof *f->ids);
        f->cell[n] = f->cell[i];
        n_ids += size;
        f->off[++n] = n_ids; /* an entry that is read no more, or (nothing dropped yet) unchanged */
    }
    f->n = n;
    f->n_ids = n_ids;
}

static void matching_free(matching *w)
{
    ff_free(w->sorted);
    ff_free(w->key);
    ff_free(w->at);
    ff_free(w->free);
}

/* Faces by their keys; those of one key stay in the order they were added. */
static ff_status matching_sort(matching *w)
{
    const ff_faces *f = w->f;
    FF_TRY(FF_NEW(w->sorted, f->n_ids));
    FF_TRY(FF_NEW(w->key, f->n));
    FF_TRY(FF_NEW(w->at, f->n));
    FF_TRY(FF_NEW0(w->free, f->n));
    memcpy(w->sorted, f->ids, (size_t)f->n_ids * sizeof *f->ids);
    for (int64_t i = 0; i < f->n; i++) {
        int64_t from = f->off[i], size = f->off[i + 1] - from;
        qsort(w->sorted + from, (size_t)size, sizeof *w->sorted, by_id);
        w->key[i] = hash_face(f->ids + from, size);
        w->at[i] = i;
    }
    return ff_sort_u64(w->key, w->at, f->n);
}

ff_status ff_faces_keep_free(ff_faces *f)
{
    matching w = {.f = f};
    ff_status st = FF_OK;
    if (f->n == 0) return FF_OK;
    FF_GO(matching_sort(&w));
    for (int64_t i = 0, j; i < f->n; i = j) {
        for (j = i + 1; j < f->n && w.key[j] == w.key[i];) j++;
        match_run(&w, i, j);
    }
    drop_others(f, w.free);
done:
    matching_free(&w);
    return st;
}

ff_status ff_faces_behind(const ff_faces *f, int64_t n, int64_t *cell)
{
    matching w = {.f = f};
    ff_status st = FF_OK;
    if (f->n == 0) return FF_OK;
    FF_GO(matching_sort(&w));
    for (int64_t i = 0, j; i < f->n; i = j) {
        for (j = i + 1; j < f->n && w.key[j] == w.key[i];) j++;
        for (int64_t k = i; k < j; k++)
            for (int64_t l = i; w.at[k] >= n && l < k && w.at[l] < n; l++)
                if (is_same(&w, w.at[l], w.at[k])) cell[f->cell[w.at[k]]] = f->cell[w.at[l]];
    }
done:
    matching_free(&w);
    return st;
}

void ff_faces_free(ff_faces *f)
{
    ff_free(f->off);
    ff_free(f->ids);
    ff_free(f->cell);
    *f = (ff_faces){0};
}
