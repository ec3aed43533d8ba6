/* Elements_t nodes: types, and connectivities of fixed and of variable size. */
#include "ff_cgns_impl.h"

#include "ff_mem.h"

const cgns_kind cgns_kinds[CGNS_TYPES] = {
    {-1, 0, 0},  {-1, 0, 0}, {0, 1, 1},  {1, 2, 2},  {1, 3, 2},  {2, 3, 3},  {2, 6, 3},  {2, 4, 4},
    {2, 8, 4},   {2, 9, 4},  {3, 4, 4},  {3, 10, 4}, {3, 5, 5},  {3, 14, 5}, {3, 6, 6},  {3, 15, 6},
    {3, 18, 6},  {3, 8, 8},  {3, 20, 8}, {3, 27, 8}, {-1, 0, 0}, {3, 13, 5}, {2, 0, 0},  {3, 0, 0},
    {1, 4, 2},   {2, 9, 3},  {2, 10, 3}, {2, 12, 4}, {2, 16, 4}, {3, 16, 4}, {3, 20, 4}, {3, 21, 5},
    {3, 29, 5},  {3, 30, 5}, {3, 24, 6}, {3, 38, 6}, {3, 40, 6}, {3, 32, 8}, {3, 56, 8}, {3, 64, 8},
    {1, 5, 2},   {2, 12, 3}, {2, 15, 3}, {2, 16, 4}, {2, 25, 4}, {3, 22, 4}, {3, 34, 4}, {3, 35, 4},
    {3, 29, 5},  {3, 50, 5}, {3, 55, 5}, {3, 33, 6}, {3, 66, 6}, {3, 75, 6}, {3, 44, 8}, {3, 98, 8},
    {3, 125, 8},
};

ff_status cgns_section_type(const cgns_tree *t, int64_t node, int64_t *type)
{
    int64_t *v;
    *type = -1;
    if (t->node[node].n < 1) return cgns_fail(t, node, "has no element type");
    FF_TRY(cgns_read_i64(t, node, &v));
    if (v[0] >= 0 && v[0] < CGNS_TYPES) *type = v[0];
    ff_free(v);
    return FF_OK;
}

static ff_status read_range(const cgns_tree *t, cgns_section *s)
{
    int64_t *v, at = cgns_find(t, s->node, NULL, "ElementRange", -1);
    if (at < 0 || t->node[at].n != 2)
        return cgns_fail(t, s->node, "ElementRange is missing or not two numbers");
    FF_TRY(cgns_read_i64(t, at, &v));
    s->first = v[0];
    int64_t last = v[1];
    ff_free(v);
    if (s->first < 1 || last < s->first || last > 1000000000000)
        return cgns_fail(t, s->node, "ElementRange %lld to %lld, expected 1 <= first <= last",
                         (long long)s->first, (long long)last);
    s->n = last - s->first + 1;
    return FF_OK;
}

/* Entries of element i that begin at entry at of a list without offsets; 0: they run out of it. */
static ff_status entry_size(const cgns_tree *t, const cgns_section *s, int64_t i, int64_t at, int64_t *size)
{
    int64_t v = s->conn[at];
    if (s->type == CGNS_MIXED) {
        if (v < 0 || v >= CGNS_TYPES || cgns_kinds[v].nodes == 0)
            return cgns_fail(t, s->node, "element %lld has type %lld, expected a CGNS element type",
                             (long long)(s->first + i), (long long)v);
        *size = 1 + cgns_kinds[v].nodes;
        return FF_OK;
    }
    *size = v >= 0 && v < s->n_conn ? v + 1 : s->n_conn + 1;
    return FF_OK;
}

static ff_status find_starts(const cgns_tree *t, cgns_section *s)
{
    int64_t at = 0, size = 0;
    s->counted = true;
    FF_TRY(FF_NEW(s->start, s->n + 1));
    for (int64_t i = 0; i < s->n; i++) {
        s->start[i] = at;
        if (at < s->n_conn) FF_TRY(entry_size(t, s, i, at, &size));
        if (at == s->n_conn || size > s->n_conn - at)
            return cgns_fail(t, s->node, "ElementConnectivity ends inside element %lld",
                             (long long)(s->first + i));
        at += size;
    }
    s->start[s->n] = at;
    if (at == s->n_conn) return FF_OK;
    return cgns_fail(t, s->node, "ElementConnectivity has %lld numbers, expected %lld", (long long)s->n_conn,
                     (long long)at);
}

static ff_status read_starts(const cgns_tree *t, int64_t node, cgns_section *s)
{
    int64_t size = 0;
    s->counted = s->type == CGNS_MIXED;
    if (t->node[node].n != s->n + 1)
        return cgns_fail(t, node, "has %lld numbers, expected %lld", (long long)t->node[node].n,
                         (long long)(s->n + 1));
    FF_TRY(cgns_read_i64(t, node, &s->start));
    for (int64_t i = 0; i < s->n; i++) {
        int64_t a = s->start[i], b = s->start[i + 1];
        if (a < 0 || b < a + s->counted || b > s->n_conn || (i == 0 && a != 0) ||
            (i + 1 == s->n && b != s->n_conn))
            return cgns_fail(t, node, "element %lld: %lld to %lld, expected rising offsets from 0 to %lld",
                             (long long)(s->first + i), (long long)a, (long long)b, (long long)s->n_conn);
        if (!s->counted) continue;
        FF_TRY(entry_size(t, s, i, a, &size));
        if (size != b - a)
            return cgns_fail(t, node, "element %lld has %lld entries, expected %lld of its type",
                             (long long)(s->first + i), (long long)(b - a), (long long)size);
    }
    return FF_OK;
}

ff_status cgns_section_read(const cgns_zone *z, int64_t node, cgns_section *s)
{
    const cgns_tree *t = z->t;
    *s = (cgns_section){.node = node};
    FF_TRY(cgns_section_type(t, node, &s->type));
    FF_TRY(read_range(t, s));
    int64_t conn = cgns_find(t, node, NULL, "ElementConnectivity", -1);
    if (conn < 0) return cgns_fail(t, node, "ElementConnectivity is missing");
    s->n_conn = t->node[conn].n;
    if (s->n > s->n_conn)
        return cgns_fail(t, node, "%lld elements but only %lld numbers in ElementConnectivity",
                         (long long)s->n, (long long)s->n_conn);
    FF_TRY(cgns_read_i64(t, conn, &s->conn));
    int64_t start = cgns_find(t, node, NULL, "ElementStartOffset", -1);
    if (s->type == CGNS_MIXED || s->type == CGNS_NGON || s->type == CGNS_NFACE)
        return start >= 0 ? read_starts(t, start, s) : find_starts(t, s);
    int64_t nodes = s->type >= 0 ? cgns_kinds[s->type].nodes : 0;
    if (nodes == 0) return cgns_fail(t, node, "element type %lld is not known", (long long)s->type);
    if (s->n_conn / nodes == s->n && s->n_conn % nodes == 0) return FF_OK;
    return cgns_fail(t, node, "ElementConnectivity has %lld numbers, expected %lld for each of %lld elements",
                     (long long)s->n_conn, (long long)nodes, (long long)s->n);
}

void cgns_section_free(cgns_section *s)
{
    FF_FREE(s->conn);
    FF_FREE(s->start);
}

void cgns_element(const cgns_section *s, int64_t i, int64_t *type, const int64_t **ids, int64_t *n)
{
    int64_t at = s->start != NULL ? s->start[i] : i * cgns_kinds[s->type].nodes;
    *type = s->type == CGNS_MIXED ? s->conn[at] : s->type;
    *ids = s->conn + at + s->counted;
    *n = cgns_kinds[*type].corners;
    if (*n == 0) *n = s->start[i + 1] - at - s->counted;
}
