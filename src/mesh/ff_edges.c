#include "ff_edges.h"

#include "ff_mem.h"
#include "ff_sort.h"

static void add_use(ff_edges *e, int64_t a, int64_t b, int64_t cell)
{
    uint64_t lo = (uint64_t)(a < b ? a : b), hi = (uint64_t)(a < b ? b : a);
    e->key[e->n] = lo << 32 | hi;
    e->use[e->n++] = 2 * cell + (a < b);
}

static void collect(const ff_mesh *m, const int64_t *id, ff_edges *e)
{
    for (int64_t c = 0; c < m->n_cells; c++) {
        int64_t n, at = ff_mesh_cell(m, c, &n);
        const int64_t *v = m->cell_pts + at;
        if (m->dim == 2) {
            if (id[v[0]] == id[v[1]]) continue;
            for (int end = 0; end < 2; end++) {
                e->key[e->n] = (uint64_t)id[v[end]];
                e->use[e->n++] = 2 * c + (end == 0);
            }
            continue;
        }
        for (int64_t i = 0; i < n; i++) {
            int64_t a = id[v[i]], b = id[v[i + 1 < n ? i + 1 : 0]];
            if (a != b) add_use(e, a, b, c);
        }
    }
}

ff_status ff_edges_build(const ff_mesh *m, const int64_t *id, int64_t n_distinct, ff_edges *out)
{
    ff_status st = FF_OK;
    int64_t n_corners = m->cell_off != NULL ? m->cell_off[m->n_cells] : m->dim * m->n_cells;
    *out = (ff_edges){0};
    if (n_distinct > (int64_t)UINT32_MAX)
        return ff_fail(FF_E_UNSUPPORTED, "%lld distinct points, expected fewer than 2^32 to find edges",
                       (long long)n_distinct);
    FF_GO(FF_NEW(out->key, n_corners));
    FF_GO(FF_NEW(out->use, n_corners));
    collect(m, id, out);
    FF_GO(ff_sort_u64(out->key, out->use, out->n));
done:
    if (st != FF_OK) ff_edges_free(out);
    return st;
}

void ff_edges_free(ff_edges *e)
{
    FF_FREE(e->key);
    FF_FREE(e->use);
    e->n = 0;
}
