/* Cells of the mesh from a structured zone: faces (edges in two dimensions) of its sides. */
#include "ff_cgns_impl.h"

#include "ff_log.h"
#include "ff_mem.h"

#include <string.h>

/* Side 2 d + e: index d is at its first (e = 0) or last (e = 1) vertex. Its faces are numbered over the cells of the
 * other directions, the lower one fastest. */
typedef struct {
    cgns_zone *z;
    ff_builder *b;
    int n_sides;
    int64_t n[6]; /* faces of each side */
    int32_t *mark[6];
    int64_t free_faces; /* in no condition and no connectivity */
} structured;

/* The other directions of side d: *a fastest; -1 where there is none. */
static void others(const cgns_zone *z, int d, int *a, int *b)
{
    *a = d == 0 ? 1 : 0;
    *b = z->index_dim < 3 ? -1 : d == 2 ? 1 : 2;
}

static int64_t cells_of(const cgns_zone *z, int d)
{
    return d < 0 ? 1 : z->nc[d];
}

static int64_t vertex(const cgns_zone *z, const int64_t at[3])
{
    return at[0] + z->nv[0] * (at[1] + z->nv[1] * at[2]);
}

/* Corners of face i of a side, looking outwards in a right-handed zone; returns how many. */
static int face_corners(const cgns_zone *z, int side, int64_t i, int64_t ids[4])
{
    int d = side / 2, a, b, n = 0;
    others(z, d, &a, &b);
    int64_t at[3] = {0, 0, 0};
    at[d] = side % 2 ? z->nv[d] - 1 : 0;
    at[a] = i % cells_of(z, a);
    if (b >= 0) at[b] = i / cells_of(z, a);
    ids[n++] = vertex(z, at);
    at[a]++;
    ids[n++] = vertex(z, at);
    if (b >= 0) {
        at[b]++;
        ids[n++] = vertex(z, at);
        at[a]--;
        ids[n++] = vertex(z, at);
    }
    /* a x b looks along d for d = 0 and 2 and against it for d = 1; in the plane the edge along j of i's last side has
     * the zone on its left. */
    bool outwards = (side % 2 == 1) == (d != 1);
    for (int k = b >= 0 ? 1 : 0, l = n - 1; !outwards && k < l; k++, l--) {
        int64_t t = ids[k];
        ids[k] = ids[l];
        ids[l] = t;
    }
    return n;
}

/* ---- marks ---- */

/* The side a range of faces or vertices lies on, -1: none (an edge, or inside the zone). lo, hi from 1. */
static int side_of(const cgns_zone *z, const cgns_set *s, const int64_t lo[3], const int64_t hi[3])
{
    int found = -1;
    for (int d = 0; d < z->index_dim; d++) {
        int64_t last = s->place == CGNS_AT_CELL ? z->nc[d] : z->nv[d];
        if (s->place >= CGNS_AT_I && s->place <= CGNS_AT_K && d != (int)s->place - CGNS_AT_I) continue;
        if (lo[d] != hi[d] || (lo[d] != 1 && lo[d] != last)) continue;
        if (found >= 0 && s->place == CGNS_AT_VERTEX) return -1; /* an edge or a corner */
        if (found < 0 || lo[d] == last) found = 2 * d + (lo[d] == last && last > 1);
    }
    return found;
}

static void mark_range(structured *w, int k)
{
    const cgns_zone *z = w->z;
    const cgns_set *s = &z->set[k];
    int64_t lo[3] = {1, 1, 1}, hi[3] = {1, 1, 1};
    int a, b;
    for (int d = 0; d < z->index_dim; d++) {
        int64_t x = s->ids[d], y = s->ids[z->index_dim + d];
        lo[d] = x < y ? x : y;
        hi[d] = x < y ? y : x;
    }
    int side = side_of(z, s, lo, hi);
    if (side < 0) return;
    others(z, side / 2, &a, &b);
    int64_t more = s->place == CGNS_AT_VERTEX ? 0 : 1; /* faces between vertices lo and hi: hi - lo */
    int64_t b0 = b >= 0 ? lo[b] - 1 : 0, b1 = b >= 0 ? hi[b] - 1 + more : 1;
    for (int64_t j = b0; j < b1 && j < cells_of(z, b); j++)
        for (int64_t i = lo[a] - 1; i < hi[a] - 1 + more && i < cells_of(z, a); i++) {
            int32_t *mark = &w->mark[side][j * cells_of(z, a) + i];
            if (*mark == CGNS_UNMARKED) *mark = s->interface ? CGNS_INNER : k;
        }
}

/* A list of faces: one by one, as ranges of one. */
static void mark_list(structured *w, int k)
{
    const cgns_zone *z = w->z;
    const cgns_set *s = &z->set[k];
    int a, b;
    for (int64_t i = 0; i < s->n; i++) {
        int64_t at[3] = {1, 1, 1};
        for (int d = 0; d < z->index_dim; d++) at[d] = s->ids[i * z->index_dim + d];
        int side = side_of(z, s, at, at);
        if (side < 0) continue;
        others(z, side / 2, &a, &b);
        int64_t p = at[a] - 1, q = b >= 0 ? at[b] - 1 : 0;
        if (p >= cells_of(z, a) || q >= cells_of(z, b)) continue;
        int32_t *mark = &w->mark[side][q * cells_of(z, a) + p];
        if (*mark == CGNS_UNMARKED) *mark = s->interface ? CGNS_INNER : k;
    }
}

/* Lists of vertices: the faces whose corners they hold. */
static ff_status mark_vertex_lists(structured *w)
{
    cgns_zone only = *w->z;
    ff_status st = FF_OK;
    int64_t *off = NULL, *ids = NULL;
    for (int side = 0; side < w->n_sides; side++) {
        int n = w->z->index_dim < 3 ? 2 : 4;
        FF_GO(FF_NEW(off, w->n[side] + 1));
        FF_GO(FF_NEW(ids, w->n[side] * n));
        for (int64_t i = 0; i <= w->n[side]; i++) off[i] = n * i;
        for (int64_t i = 0; i < w->n[side]; i++) (void)face_corners(w->z, side, i, ids + n * i);
        FF_GO(cgns_mark_by_vertices(&only, w->n[side], off, ids, false, w->mark[side]));
        FF_FREE(off);
        FF_FREE(ids);
    }
done:
    ff_free(off);
    ff_free(ids);
    return st;
}

static ff_status mark_all(structured *w)
{
    bool lists = false;
    for (int k = 0; k < w->z->n_sets; k++) {
        const cgns_set *s = &w->z->set[k];
        if (s->range)
            mark_range(w, k);
        else if (s->place != CGNS_AT_VERTEX)
            mark_list(w, k);
        else
            lists = true;
    }
    return lists ? mark_vertex_lists(w) : FF_OK;
}

/* ---- cells ---- */

/* The cell behind face i of a side. */
static int64_t cell_behind(const cgns_zone *z, int side, int64_t i)
{
    int d = side / 2, a, b;
    int64_t at[3] = {0, 0, 0};
    others(z, d, &a, &b);
    at[d] = side % 2 ? z->nc[d] - 1 : 0;
    at[a] = i % cells_of(z, a);
    if (b >= 0) at[b] = i / cells_of(z, a);
    return at[0] + z->nc[0] * (at[1] + z->nc[1] * at[2]);
}

static ff_status put_face(structured *w, int side, int64_t i)
{
    int64_t ids[4];
    int n = face_corners(w->z, side, i, ids);
    return cgns_put_face(w->z, w->b, ids, n, cell_behind(w->z, side, i));
}

/* All faces with that mark, as one patch. */
static ff_status put_marked(structured *w, int32_t mark, const char *name)
{
    FF_TRY(ff_builder_patch(w->b, name, strlen(name)));
    for (int side = 0; side < w->n_sides; side++)
        for (int64_t i = 0; i < w->n[side]; i++)
            if (w->mark[side][i] == mark) FF_TRY(put_face(w, side, i));
    return FF_OK;
}

static ff_status name_of_zone(const cgns_zone *z, char *name, size_t size)
{
    FF_TRY(cgns_read_text(z->t, cgns_find(z->t, z->node, "FamilyName_t", NULL, -1), name, size));
    if (name[0] == 0) memcpy(name, z->t->node[z->node].name, CGNS_NAME);
    return FF_OK;
}

/* Where no condition is given every side counts; else what no condition names is told and left out. */
static ff_status put_sides(structured *w)
{
    bool conditions = false;
    char name[CGNS_NAME];
    int64_t left = 0;
    for (int k = 0; k < w->z->n_sets; k++) {
        if (w->z->set[k].interface) continue;
        conditions = true;
        FF_TRY(put_marked(w, k, w->z->set[k].name));
    }
    FF_TRY(name_of_zone(w->z, name, sizeof name));
    if (!conditions) return put_marked(w, CGNS_UNMARKED, name);
    for (int side = 0; side < w->n_sides; side++)
        for (int64_t i = 0; i < w->n[side]; i++) left += w->mark[side][i] == CGNS_UNMARKED;
    if (left > 0)
        ff_warn(
            "%s: zone %s: %lld outer faces are in no boundary condition and no connectivity and are left out",
            w->z->t->path, w->z->t->node[w->z->node].name, (long long)left);
    return FF_OK;
}

static ff_status boundary_of(cgns_zone *z, ff_builder *b)
{
    structured w = {.z = z, .b = b, .n_sides = 2 * z->index_dim};
    ff_status st = FF_OK;
    for (int side = 0; side < w.n_sides; side++) {
        int p, q;
        others(z, side / 2, &p, &q);
        w.n[side] = cells_of(z, p) * cells_of(z, q);
        FF_GO(FF_NEW(w.mark[side], w.n[side]));
        for (int64_t i = 0; i < w.n[side]; i++) w.mark[side][i] = CGNS_UNMARKED;
    }
    FF_GO(mark_all(&w));
    FF_GO(put_sides(&w));
done:
    for (int side = 0; side < w.n_sides; side++) ff_free(w.mark[side]);
    return st;
}

/* A surface base: all cells of its one layer. */
static ff_status surface_of(const cgns_zone *z, ff_builder *b)
{
    char name[CGNS_NAME];
    FF_TRY(name_of_zone(z, name, sizeof name));
    FF_TRY(ff_builder_patch(b, name, strlen(name)));
    for (int64_t j = 0; j < cells_of(z, z->index_dim > 1 ? 1 : -1); j++)
        for (int64_t i = 0; i < z->nc[0]; i++) {
            int64_t p = z->point0 + i + j * z->nv[0], quad[4] = {p, p + 1, p + 1 + z->nv[0], p + z->nv[0]};
            FF_TRY(ff_builder_cell(b, quad, z->index_dim > 1 ? 4 : 2));
        }
    return FF_OK;
}

ff_status cgns_structured(cgns_zone *z, ff_builder *b)
{
    return z->whole ? surface_of(z, b) : boundary_of(z, b);
}
