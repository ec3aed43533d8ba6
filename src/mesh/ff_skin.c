#include "ff_skin.h"

#include "ff_mem.h"
#include "ff_sort.h"

#include <stdbool.h>
#include <string.h>

enum { NONE = -1, MAX_FACES = 6 };

static const struct {
    int n_corners, n_faces;
    short face[MAX_FACES][4];
} solids[] = {
    [FF_TET] = {4, 4, {{0, 2, 1, NONE}, {0, 1, 3, NONE}, {0, 3, 2, NONE}, {1, 2, 3, NONE}}},
    [FF_HEX] = {8, 6, {{0, 3, 2, 1}, {4, 5, 6, 7}, {0, 1, 5, 4}, {1, 2, 6, 5}, {2, 3, 7, 6}, {3, 0, 4, 7}}},
    [FF_PRISM] = {6, 5, {{0, 2, 1, NONE}, {3, 4, 5, NONE}, {0, 1, 4, 3}, {1, 2, 5, 4}, {2, 0, 3, 5}}},
    [FF_PYRAMID] = {5, 5, {{0, 3, 2, 1}, {0, 1, 4, NONE}, {1, 2, 4, NONE}, {2, 3, 4, NONE}, {3, 0, 4, NONE}}},
};

int ff_solid_corners(ff_solid kind)
{
    return solids[kind].n_corners;
}

ff_status ff_skin_add(ff_skin *s, ff_solid kind, const int64_t *corner, int64_t cell)
{
    int n = solids[kind].n_faces;
    FF_TRY(ff_mem_reserve(&s->face, &s->cap, s->n + n, sizeof *s->face));
    for (int f = 0; f < n; f++) {
        ff_skin_face *out = &s->face[s->n++];
        out->cell = cell;
        for (int i = 0; i < 4; i++) {
            int c = solids[kind].face[f][i];
            out->id[i] = c == NONE ? NONE : corner[c];
        }
    }
    return FF_OK;
}

/* Corners ascending: equal for two cells that share the face. */
static void sorted_corners(const ff_skin_face *f, int64_t out[4])
{
    memcpy(out, f->id, 4 * sizeof *out);
    for (int i = 1; i < 4; i++)
        for (int j = i; j > 0 && out[j - 1] > out[j]; j--) {
            int64_t t = out[j];
            out[j] = out[j - 1];
            out[j - 1] = t;
        }
}

static uint64_t hash_face(const ff_skin_face *f)
{
    int64_t id[4];
    uint64_t h = 0x9e3779b97f4a7c15u;
    sorted_corners(f, id);
    for (int i = 0; i < 4; i++) {
        h = (h ^ (uint64_t)id[i]) * 0xbf58476d1ce4e5b9u;
        h ^= h >> 29;
    }
    return h;
}

static bool same_face(const ff_skin_face *a, const ff_skin_face *b)
{
    int64_t p[4], q[4];
    sorted_corners(a, p);
    sorted_corners(b, q);
    return memcmp(p, q, sizeof p) == 0;
}

/* Faces order[0 .. n) have one hash: marks those that some other one equals. The first of a kind marks all of it. */
static void mark_shared(const ff_skin *s, const int64_t *order, int64_t n, unsigned char *shared)
{
    for (int64_t i = 0; i < n; i++) {
        if (shared[order[i]]) continue;
        for (int64_t j = i + 1; j < n; j++)
            if (same_face(&s->face[order[i]], &s->face[order[j]])) shared[order[i]] = shared[order[j]] = 1;
    }
}

ff_status ff_skin_reduce(ff_skin *s)
{
    uint64_t *key = NULL;
    int64_t *order = NULL, n = 0;
    unsigned char *shared = NULL; /* [s->n] */
    ff_status st;
    FF_GO(FF_NEW(key, s->n));
    FF_GO(FF_NEW(order, s->n));
    FF_GO(FF_NEW0(shared, s->n));
    for (int64_t i = 0; i < s->n; i++) {
        key[i] = hash_face(&s->face[i]);
        order[i] = i;
    }
    FF_GO(ff_sort_u64(key, order, s->n));
    for (int64_t begin = 0, end; begin < s->n; begin = end) {
        for (end = begin + 1; end < s->n && key[end] == key[begin];) end++;
        mark_shared(s, order + begin, end - begin, shared);
    }
    for (int64_t i = 0; i < s->n; i++)
        if (!shared[i]) s->face[n++] = s->face[i];
    s->n = n;
done:
    ff_free(key);
    ff_free(order);
    ff_free(shared);
    return st;
}

void ff_skin_free(ff_skin *s)
{
    FF_FREE(s->face);
    s->n = s->cap = 0;
}
