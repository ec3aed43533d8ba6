/* Boundary conditions and connectivities between zones, as sets of faces or vertices. */
#include "ff_cgns_impl.h"

#include "ff_log.h"
#include "ff_mem.h"

#include <stdio.h>
#include <string.h>

static ff_status read_place(const cgns_tree *t, int64_t node, cgns_place *out)
{
    static const struct {
        const char *name;
        cgns_place place;
    } rows[] = {{"Vertex", CGNS_AT_VERTEX},   {"FaceCenter", CGNS_AT_FACE}, {"EdgeCenter", CGNS_AT_FACE},
                {"CellCenter", CGNS_AT_CELL}, {"IFaceCenter", CGNS_AT_I},   {"JFaceCenter", CGNS_AT_J},
                {"KFaceCenter", CGNS_AT_K}};
    char text[CGNS_NAME];
    *out = CGNS_AT_VERTEX;
    FF_TRY(cgns_read_text(t, cgns_find(t, node, "GridLocation_t", NULL, -1), text, sizeof text));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(text, rows[i].name) == 0) *out = rows[i].place;
    return FF_OK;
}

/* The node with the set's points or elements; -1: none. */
static int64_t find_points(const cgns_tree *t, int64_t node, bool *range, bool *elements)
{
    static const char *const names[] = {"PointList", "PointRange", "ElementList", "ElementRange"};
    for (int i = 0; i < 4; i++) {
        int64_t at = cgns_find(t, node, NULL, names[i], -1);
        *range = i % 2 != 0;
        *elements = i >= 2;
        if (at >= 0) return at;
    }
    return -1;
}

static ff_status name_set(const cgns_zone *z, int64_t node, cgns_set *s)
{
    char family[CGNS_NAME];
    FF_TRY(cgns_read_text(z->t, cgns_find(z->t, node, "FamilyName_t", NULL, -1), family, sizeof family));
    if (family[0] != 0)
        (void)snprintf(s->name, sizeof s->name, "%s", family);
    else
        (void)snprintf(s->name, sizeof s->name, "%s%s", z->prefix, z->t->node[node].name);
    return FF_OK;
}

/* Bounds of one index of an item. */
static int64_t limit_of(const cgns_zone *z, const cgns_set *s, int k)
{
    if (!z->structured) return s->place == CGNS_AT_VERTEX ? z->n_vertices : INT64_MAX;
    if (s->place == CGNS_AT_VERTEX) return z->nv[k];
    return s->place == CGNS_AT_CELL ? z->nc[k] : z->nv[k]; /* a face's own direction reaches nv */
}

static ff_status check_items(const cgns_zone *z, const cgns_set *s, int64_t points)
{
    for (int64_t i = 0; i < s->n * z->index_dim; i++) {
        int64_t limit = limit_of(z, s, (int)(i % z->index_dim));
        if (s->ids[i] < 1 || s->ids[i] > limit)
            return cgns_fail(z->t, points, "item %lld: index %lld, expected 1 to %lld",
                             (long long)(i / z->index_dim + 1), (long long)s->ids[i], (long long)limit);
    }
    return FF_OK;
}

static ff_status add_set(cgns_zone *z, int64_t node, bool interface)
{
    cgns_set s = {.node = node, .interface = interface};
    const cgns_tree *t = z->t;
    bool elements;
    int64_t points = find_points(t, node, &s.range, &elements);
    ff_status st;
    if (points < 0 || t->node[points].n == 0) return FF_OK;
    FF_GO(read_place(t, node, &s.place));
    if (elements) s.place = CGNS_AT_FACE;
    s.n = t->node[points].n / z->index_dim;
    if (s.n * z->index_dim != t->node[points].n || (s.range && s.n != 2))
        FF_GO(cgns_fail(t, points, "has %lld numbers, expected %s %d", (long long)t->node[points].n,
                        s.range ? "two times" : "a multiple of", z->index_dim));
    FF_GO(name_set(z, node, &s));
    FF_GO(cgns_read_i64(t, points, &s.ids));
    FF_GO(check_items(z, &s, points));
    FF_GO(ff_mem_reserve(&z->set, &z->cap_sets, z->n_sets + 1, sizeof *z->set));
    z->set[z->n_sets++] = s;
    s.ids = NULL;
done:
    ff_free(s.ids);
    return st;
}

/* Overset regions overlap: they say nothing about the boundary. */
static ff_status is_overset(const cgns_tree *t, int64_t node, bool *yes)
{
    char text[CGNS_NAME];
    FF_TRY(cgns_read_text(t, cgns_find(t, node, "GridConnectivityType_t", NULL, -1), text, sizeof text));
    *yes = strcmp(text, "Overset") == 0;
    return FF_OK;
}

ff_status cgns_sets_read(cgns_zone *z)
{
    const cgns_tree *t = z->t;
    for (int64_t g = -1; (g = cgns_find(t, z->node, "ZoneGridConnectivity_t", NULL, g)) >= 0;)
        for (int64_t i = t->node[g].child; i >= 0; i = t->node[i].next) {
            const char *label = t->node[i].label;
            bool overset;
            if (strcmp(label, "GridConnectivity1to1_t") != 0 && strcmp(label, "GridConnectivity_t") != 0)
                continue;
            FF_TRY(is_overset(t, i, &overset));
            if (!overset) FF_TRY(add_set(z, i, true));
        }
    for (int64_t g = -1; (g = cgns_find(t, z->node, "ZoneBC_t", NULL, g)) >= 0;)
        for (int64_t i = -1; (i = cgns_find(t, g, "BC_t", NULL, i)) >= 0;) FF_TRY(add_set(z, i, false));
    return FF_OK;
}

void cgns_sets_free(cgns_zone *z)
{
    for (int i = 0; i < z->n_sets; i++) ff_free(z->set[i].ids);
    FF_FREE(z->set);
    z->n_sets = 0;
}

/* ---- items ---- */

int64_t cgns_set_size(const cgns_zone *z, const cgns_set *s)
{
    int64_t n = 1;
    if (!s->range) return s->n;
    for (int k = 0; k < z->index_dim; k++) {
        int64_t a = s->ids[k], b = s->ids[z->index_dim + k];
        n *= (a < b ? b - a : a - b) + 1;
    }
    return n;
}

int64_t cgns_set_item(const cgns_zone *z, const cgns_set *s, int64_t i)
{
    int64_t out = 0, stride = 1;
    for (int k = 0; k < z->index_dim; k++) {
        int64_t a = s->range ? s->ids[k] : s->ids[i * z->index_dim + k], v = a;
        if (s->range) {
            int64_t b = s->ids[z->index_dim + k], extent = (a < b ? b - a : a - b) + 1;
            v = (a < b ? a : b) + i % extent;
            i /= extent;
        }
        out += (v - 1) * stride;
        stride *= z->structured ? z->nv[k] : 0;
    }
    return out;
}

static void mark_one(const cgns_zone *z, int s, int64_t n, const int64_t *off, const int64_t *ids,
                     int32_t *stamp, int32_t *mark)
{
    const cgns_set *set = &z->set[s];
    int64_t size = cgns_set_size(z, set);
    for (int64_t i = 0; i < size; i++) stamp[cgns_set_item(z, set, i)] = s;
    for (int64_t f = 0; f < n; f++) {
        if (mark[f] != CGNS_UNMARKED) continue;
        bool in = true;
        for (int64_t i = off[f]; in && i < off[f + 1]; i++) in = stamp[ids[i]] == s;
        if (in) mark[f] = set->interface ? CGNS_INNER : s;
    }
}

ff_status cgns_mark_by_vertices(const cgns_zone *z, int64_t n, const int64_t *off, const int64_t *ids,
                                bool inner_only, int32_t *mark)
{
    int32_t *stamp = NULL;
    for (int s = 0; s < z->n_sets; s++) { /* connectivities stand before conditions */
        if (z->set[s].place != CGNS_AT_VERTEX || (inner_only && !z->set[s].interface)) continue;
        if (stamp == NULL) {
            FF_TRY(FF_NEW(stamp, z->n_vertices));
            for (int64_t i = 0; i < z->n_vertices; i++) stamp[i] = -1;
        }
        mark_one(z, s, n, off, ids, stamp, mark);
    }
    ff_free(stamp);
    return FF_OK;
}
