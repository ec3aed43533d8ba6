/* Figures for check and info (ff_mesh.h). */
#include "ff_log.h"
#include "ff_mem.h"
#include "ff_mesh.h"
#include "ff_polygon.h"
#include "ff_sort.h"
#include "ff_weld.h"

#include <math.h>

/* ---- each cell alone ---- */

static double distance2(const double *a, const double *b)
{
    return (a[0] - b[0]) * (a[0] - b[0]) + (a[1] - b[1]) * (a[1] - b[1]) + (a[2] - b[2]) * (a[2] - b[2]);
}

static void edge_vector_area(const ff_mesh *m, int64_t c, double out[3])
{
    const double *a = m->points + 3 * m->cell_pts[2 * c], *b = m->points + 3 * m->cell_pts[2 * c + 1];
    out[0] = b[1] - a[1], out[1] = a[0] - b[0], out[2] = 0;
}

static ff_polygon polygon_of(const ff_mesh *m, int64_t c)
{
    int64_t n, at = ff_mesh_cell(m, c, &n);
    return (ff_polygon){m->points, m->cell_pts + at, n};
}

void ff_mesh_cell_areas(const ff_mesh *m, double *area)
{
    for (int64_t c = 0; c < m->n_cells; c++) {
        double v[3];
        ff_polygon p = polygon_of(m, c);
        if (m->dim == 2)
            edge_vector_area(m, c, v);
        else
            ff_polygon_vector_area(&p, v);
        area[c] = sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
    }
}

static double longest_edge2(const ff_mesh *m, const ff_polygon *p)
{
    double longest2 = 0;
    for (int64_t i = 0; i < p->n; i++) {
        int64_t next = p->ids[i + 1 < p->n ? i + 1 : 0];
        longest2 = fmax(longest2, distance2(m->points + 3 * p->ids[i], m->points + 3 * next));
    }
    return longest2;
}

/* Volume between a cell and point o: sum of the fan's tetrahedra, or the triangle over an edge. */
static double volume_below(const ff_mesh *m, const ff_polygon *p, const double v[3], const double o[3])
{
    const double *a = m->points + 3 * p->ids[0];
    double sum = 0;
    if (m->dim == 2) return 0.5 * ((a[0] - o[0]) * v[0] + (a[1] - o[1]) * v[1]);
    for (int64_t i = 1; i + 1 < p->n; i++) {
        double t[3];
        int64_t ids[3] = {p->ids[0], p->ids[i], p->ids[i + 1]};
        ff_polygon triangle = {m->points, ids, 3};
        ff_polygon_vector_area(&triangle, t);
        sum += (a[0] - o[0]) * t[0] + (a[1] - o[1]) * t[1] + (a[2] - o[2]) * t[2];
    }
    return sum / 3;
}

static void measure_cells(const ff_mesh *m, ff_mesh_stats *s)
{
    double centre[3];
    for (int k = 0; k < 3; k++) centre[k] = 0.5 * (s->lo[k] + s->hi[k]);
    for (int64_t c = 0; c < m->n_cells; c++) {
        ff_polygon p = polygon_of(m, c);
        double v[3], area, longest2 = longest_edge2(m, &p);
        if (m->dim == 2) {
            edge_vector_area(m, c, v);
            area = hypot(v[0], v[1]);
            s->zero_area_cells += area == 0;
        } else {
            ff_polygon_vector_area(&p, v);
            area = ff_polygon_area(&p, v);
            s->triangles += p.n - 2;
            bool zero = area <= 1e-10 * longest2;
            s->zero_area_cells += zero;
            s->sliver_cells += !zero && area <= 0.005 * longest2;
        }
        s->area += area;
        s->area_min = c == 0 ? area : fmin(s->area_min, area);
        s->area_max = fmax(s->area_max, area);
        s->volume += volume_below(m, &p, v, centre);
        for (int k = 0; k < 3; k++) s->vector_area[k] += v[k];
    }
}

/* Box of the points in use, and how many are not. */
static ff_status measure_points(const ff_mesh *m, ff_mesh_stats *s)
{
    bool *used;
    FF_TRY(FF_NEW0(used, m->n_points));
    int64_t n_corners = m->cell_off != NULL ? m->cell_off[m->n_cells] : m->dim * m->n_cells;
    for (int64_t i = 0; i < n_corners; i++) {
        const double *x = m->points + 3 * m->cell_pts[i];
        used[m->cell_pts[i]] = true;
        for (int k = 0; k < 3; k++) {
            s->lo[k] = i == 0 ? x[k] : fmin(s->lo[k], x[k]);
            s->hi[k] = i == 0 ? x[k] : fmax(s->hi[k], x[k]);
        }
    }
    for (int64_t i = 0; i < m->n_points; i++) s->unused_points += !used[i];
    ff_free(used);
    return FF_OK;
}

/* ---- how cells meet ---- */

/* One use of an edge (dim 2: of a point) by a cell. Sorted by key, the uses of one edge are neighbours. */
typedef struct uses {
    int64_t n;
    uint64_t *key; /* [n] lower point << 32 | higher point; dim 2: the point */
    int64_t
        *cell; /* [n] 2 cell + 1 if it goes from the lower to the higher point; dim 2: if it starts there */
} uses;

static void add_use(uses *u, int64_t a, int64_t b, int64_t c)
{
    uint64_t lo = (uint64_t)(a < b ? a : b), hi = (uint64_t)(a < b ? b : a);
    u->key[u->n] = lo << 32 | hi;
    u->cell[u->n++] = 2 * c + (a < b);
}

static void collect_uses(const ff_mesh *m, const int64_t *id, uses *u)
{
    for (int64_t c = 0; c < m->n_cells; c++) {
        ff_polygon p = polygon_of(m, c);
        if (m->dim == 2) {
            int64_t a = id[p.ids[0]], b = id[p.ids[1]];
            for (int end = 0; end < 2 && a != b; end++) {
                u->key[u->n] = (uint64_t)(end == 0 ? a : b);
                u->cell[u->n++] = 2 * c + (end == 0);
            }
            continue;
        }
        for (int64_t i = 0; i < p.n; i++) {
            int64_t a = id[p.ids[i]], b = id[p.ids[i + 1 < p.n ? i + 1 : 0]];
            if (a != b) add_use(u, a, b, c);
        }
    }
}

/* Root of c in a forest of sets; halves the path on its way. */
static int64_t root_of(int64_t *parent, int64_t c)
{
    while (parent[c] != c) c = parent[c] = parent[parent[c]];
    return c;
}

static int64_t unite(int64_t *parent, int64_t a, int64_t b)
{
    a = root_of(parent, a);
    b = root_of(parent, b);
    if (a == b) return 0;
    parent[a > b ? a : b] = a > b ? b : a;
    return 1;
}

/* parts, groups [n_cells]: forests, each cell its own root at first. */
static void count_edges(const uses *u, int64_t *parts, int64_t *groups, ff_mesh_stats *s)
{
    for (int64_t begin = 0, end; begin < u->n; begin = end) {
        end = begin + 1;
        while (end < u->n && u->key[end] == u->key[begin]) end++;
        bool misoriented = end - begin == 2 && ((u->cell[begin] ^ u->cell[begin + 1]) & 1) == 0;
        s->open_edges += end - begin == 1;
        s->nonmanifold_edges += end - begin > 2;
        s->misoriented_edges += misoriented;
        for (int64_t i = begin + 1; i < end; i++) {
            s->parts -= unite(parts, u->cell[begin] / 2, u->cell[i] / 2);
            if (!misoriented) s->winding_groups -= unite(groups, u->cell[begin] / 2, u->cell[i] / 2);
        }
    }
}

static ff_status measure_edges(const ff_mesh *m, const int64_t *id, ff_mesh_stats *s)
{
    uses u = {0};
    int64_t *parts = NULL, *groups = NULL;
    int64_t n_corners = m->cell_off != NULL ? m->cell_off[m->n_cells] : m->dim * m->n_cells;
    ff_status st;
    FF_GO(FF_NEW(u.key, n_corners));
    FF_GO(FF_NEW(u.cell, n_corners));
    collect_uses(m, id, &u);
    FF_GO(ff_sort_u64(u.key, u.cell, u.n));
    FF_GO(FF_NEW(parts, m->n_cells));
    FF_GO(FF_NEW(groups, m->n_cells));
    for (int64_t c = 0; c < m->n_cells; c++) parts[c] = groups[c] = c;
    s->parts = s->winding_groups = m->n_cells;
    count_edges(&u, parts, groups, s);
    s->closed = m->n_cells > 0 && s->open_edges == 0;
done:
    ff_free(u.key);
    ff_free(u.cell);
    ff_free(parts);
    ff_free(groups);
    return st;
}

ff_status ff_mesh_measure(const ff_mesh *m, ff_mesh_stats *s)
{
    int64_t *id = NULL, n_distinct;
    ff_status st;
    *s = (ff_mesh_stats){.points = m->n_points, .cells = m->n_cells};
    FF_GO(measure_points(m, s));
    measure_cells(m, s);
    FF_GO(FF_NEW(id, m->n_points));
    FF_GO(ff_weld_points(m, id, &n_distinct));
    s->duplicate_points = m->n_points - n_distinct;
    if (n_distinct > (int64_t)UINT32_MAX) {
        st = ff_fail(FF_E_UNSUPPORTED, "%lld distinct points, expected fewer than 2^32 to measure a mesh",
                     (long long)n_distinct);
        goto done;
    }
    FF_GO(measure_edges(m, id, s));
    FF_GO(ff_weld_count_repeated(m, id, &s->repeated_cells));
done:
    ff_free(id);
    return st;
}

/* ---- warnings ---- */

void ff_mesh_warn_units(const char *name, const ff_mesh_stats *s)
{
    double extent = 0, farthest = 0;
    for (int k = 0; k < 3; k++) {
        extent = fmax(extent, s->hi[k] - s->lo[k]);
        farthest = fmax(farthest, fmax(fabs(s->lo[k]), fabs(s->hi[k])));
    }
    if (s->cells == 0) return;
    if (extent > 100)
        ff_warn("%s: largest extent %.4g m; if the file is in millimetres use --scale 0.001", name, extent);
    /* float32 keeps 6e-8 of a coordinate: 100 extents away that is 6e-6 of the extent, the size of a fine
     * cell */
    if (farthest > 100 * extent)
        ff_warn(
            "%s: coordinates up to %.6g are %.3g times the extent: float32 would lose digits there; predict "
            "moves the mesh to the origin first",
            name, farthest, farthest / extent);
    if (s->misoriented_edges > 0)
        ff_warn(
            "%s: %lld edges have two cells of opposite winding (%lld winding groups in %lld parts): normals "
            "disagree; orient the surface first",
            name, (long long)s->misoriented_edges, (long long)s->winding_groups, (long long)s->parts);
}
