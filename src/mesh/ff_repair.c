#include "ff_repair.h"

#include "ff_edges.h"
#include "ff_extract.h"
#include "ff_mem.h"
#include "ff_polygon.h"
#include "ff_weld.h"

#include <math.h>

/* The welded surface: what every step below looks at. */
typedef struct welded {
    const ff_mesh *m;
    int64_t *id; /* [n_points] */
    int64_t n_distinct;
    int64_t *first; /* [n_cells] earliest cell with the same corners */
    ff_edges edges;
} welded;

static void welded_free(welded *w)
{
    ff_free(w->id);
    ff_free(w->first);
    ff_edges_free(&w->edges);
}

static ff_status welded_init(welded *w, const ff_mesh *m)
{
    ff_status st = FF_OK;
    *w = (welded){.m = m};
    FF_GO(FF_NEW(w->id, m->n_points));
    FF_GO(ff_weld_points(m, w->id, &w->n_distinct));
    FF_GO(FF_NEW(w->first, m->n_cells));
    FF_GO(ff_weld_cells(m, w->id, w->first));
    FF_GO(ff_edges_build(m, w->id, w->n_distinct, &w->edges));
done:
    if (st != FF_OK) welded_free(w);
    return st;
}

static double length2(const double *a, const double *b)
{
    double s = 0;
    for (int k = 0; k < 3; k++) s += (a[k] - b[k]) * (a[k] - b[k]);
    return s;
}

/* FF_BAD_ZERO_AREA, FF_BAD_SLIVER or 0; *area receives the cell's area. */
static uint8_t shape_fault(const ff_mesh *m, int64_t c, double *area)
{
    ff_polygon p = {m->points, NULL, 0};
    p.ids = m->cell_pts + ff_mesh_cell(m, c, &p.n);
    double v[3], longest2 = 0;
    if (m->dim == 2) {
        *area = sqrt(length2(m->points + 3 * p.ids[0], m->points + 3 * p.ids[1]));
        return *area == 0 ? FF_BAD_ZERO_AREA : 0;
    }
    for (int64_t i = 0; i < p.n; i++)
        longest2 = fmax(longest2, length2(m->points + 3 * p.ids[i], m->points + 3 * p.ids[(i + 1) % p.n]));
    ff_polygon_vector_area(&p, v);
    *area = ff_polygon_area(&p, v);
    if (*area <= 1e-10 * longest2) return FF_BAD_ZERO_AREA;
    return *area <= 0.005 * longest2 ? FF_BAD_SLIVER : 0;
}

ff_status ff_mesh_find_bad(const ff_mesh *m, uint8_t *bad)
{
    welded w;
    double area;
    FF_TRY(welded_init(&w, m));
    for (int64_t c = 0; c < m->n_cells; c++)
        bad[c] = (uint8_t)(shape_fault(m, c, &area) | (w.first[c] != c ? FF_BAD_REPEATED : 0));
    for (int64_t begin = 0, end; begin < w.edges.n; begin = end) {
        end = ff_edges_end(&w.edges, begin);
        const int64_t *use = w.edges.use + begin;
        int fault = end - begin == 1 ? FF_BAD_OPEN : end - begin > 2 ? FF_BAD_NONMANIFOLD : 0;
        if (end - begin == 2 && ((use[0] ^ use[1]) & 1) == 0) fault = FF_BAD_WINDING;
        for (int64_t i = begin; i < end; i++) bad[w.edges.use[i] / 2] |= (uint8_t)fault;
    }
    welded_free(&w);
    return FF_OK;
}

/* ---- dropping ---- */

/* Edges that a cell uses: the run each of its uses stands in. */
typedef struct drop {
    const welded *w;
    uint8_t *keep;     /* [n_cells] */
    int64_t *left;     /* [edges.n] at the first use of an edge: cells' uses that are kept */
    int64_t *run;      /* [edges.n] that first use */
    int64_t *use_off;  /* [n_cells + 1] */
    int64_t *cell_use; /* [edges.n] uses by cell */
} drop;

static void drop_free(drop *d)
{
    ff_free(d->left);
    ff_free(d->run);
    ff_free(d->use_off);
    ff_free(d->cell_use);
}

static ff_status drop_init(drop *d, const welded *w, uint8_t *keep)
{
    ff_status st = FF_OK;
    const ff_edges *e = &w->edges;
    int64_t n_cells = w->m->n_cells;
    *d = (drop){.w = w, .keep = keep};
    FF_GO(FF_NEW0(d->left, e->n));
    FF_GO(FF_NEW(d->run, e->n));
    FF_GO(FF_NEW0(d->use_off, n_cells + 2));
    FF_GO(FF_NEW(d->cell_use, e->n));
    for (int64_t begin = 0, end; begin < e->n; begin = end) {
        end = ff_edges_end(e, begin);
        for (int64_t i = begin; i < end; i++) {
            d->run[i] = begin;
            d->left[begin] += keep[e->use[i] / 2];
            d->use_off[e->use[i] / 2 + 2]++;
        }
    }
    for (int64_t c = 0; c < n_cells; c++) d->use_off[c + 2] += d->use_off[c + 1];
    for (int64_t i = 0; i < e->n; i++) d->cell_use[d->use_off[e->use[i] / 2 + 1]++] = i;
done:
    if (st != FF_OK) drop_free(d);
    return st;
}

/* Takes a cell out unless an edge that was closed would be open then. */
static bool drop_cell(drop *d, int64_t c)
{
    bool opens = false;
    for (int64_t i = d->use_off[c]; i < d->use_off[c + 1]; i++) d->left[d->run[d->cell_use[i]]]--;
    for (int64_t i = d->use_off[c]; i < d->use_off[c + 1]; i++) opens |= d->left[d->run[d->cell_use[i]]] == 1;
    if (!opens) {
        d->keep[c] = 0;
        return true;
    }
    for (int64_t i = d->use_off[c]; i < d->use_off[c + 1]; i++) d->left[d->run[d->cell_use[i]]]++;
    return false;
}

/* keep [n_cells]: 1 for the cells that stay. */
static ff_status choose_cells(const welded *w, uint8_t *keep, ff_repair_counts *n)
{
    drop d;
    double area;
    for (int64_t c = 0; c < w->m->n_cells; c++) {
        keep[c] = w->first[c] == c;
        n->dropped_repeated += keep[c] == 0;
    }
    FF_TRY(drop_init(&d, w, keep));
    for (int64_t c = 0; c < w->m->n_cells; c++) {
        if (keep[c] == 0 || shape_fault(w->m, c, &area) != FF_BAD_ZERO_AREA) continue;
        if (drop_cell(&d, c))
            n->dropped_zero_area++;
        else
            n->kept_zero_area++;
    }
    drop_free(&d);
    return FF_OK;
}

/* ---- winding ---- */

/* Sets of cells with, for each, whether it is wound against its set's root. */
typedef struct winding {
    int64_t *parent;  /* [n_cells] */
    uint8_t *odd;     /* [n_cells] against the parent */
    uint8_t *twisted; /* [n_cells], at roots */
} winding;

static int64_t root_of(winding *w, int64_t c, uint8_t *odd)
{
    int64_t root = c;
    uint8_t sum = 0;
    while (w->parent[root] != root) {
        sum ^= w->odd[root];
        root = w->parent[root];
    }
    *odd = sum;
    while (w->parent[c] != root && c != root) {
        int64_t next = w->parent[c];
        uint8_t here = sum;
        sum ^= w->odd[c];
        w->parent[c] = root;
        w->odd[c] = here;
        c = next;
    }
    return root;
}

static void join(winding *w, int64_t a, int64_t b, uint8_t against)
{
    uint8_t odd_a, odd_b;
    int64_t ra = root_of(w, a, &odd_a), rb = root_of(w, b, &odd_b);
    uint8_t odd = odd_a ^ odd_b ^ against;
    if (ra == rb) {
        w->twisted[ra] |= odd;
        return;
    }
    int64_t low = ra < rb ? ra : rb, high = ra < rb ? rb : ra;
    w->parent[high] = low;
    w->odd[high] = odd;
    w->twisted[low] |= w->twisted[high];
}

/* One part, at its root's place: sums with the sign of its even cells. */
typedef struct part {
    double area, volume;
    uint8_t open, sides; /* sides: bit 1 has even cells, bit 2 has odd ones */
} part;

/* Joins kept cells over edges that exactly two of them use; marks the cells at other edges. */
static void join_cells(const welded *s, const uint8_t *keep, winding *w, part *p)
{
    for (int64_t begin = 0, end; begin < s->edges.n; begin = end) {
        int64_t use[2] = {0, 0}, n = 0;
        end = ff_edges_end(&s->edges, begin);
        for (int64_t i = begin; i < end; i++) {
            if (keep[s->edges.use[i] / 2] == 0) continue;
            if (n < 2) use[n] = s->edges.use[i];
            n++;
        }
        if (n == 2 && use[0] / 2 != use[1] / 2)
            join(w, use[0] / 2, use[1] / 2, (uint8_t)(((use[0] ^ use[1]) & 1) == 0));
        else
            for (int64_t i = begin; i < end; i++) p[s->edges.use[i] / 2].open = 1;
    }
}

/* Twice or three times the area or volume between a cell and point o. */
static double volume_below(const ff_mesh *m, int64_t c, const double o[3])
{
    ff_polygon p = {m->points, NULL, 0};
    p.ids = m->cell_pts + ff_mesh_cell(m, c, &p.n);
    const double *a = m->points + 3 * p.ids[0], *b = m->points + 3 * p.ids[1];
    double v[3] = {a[1] - b[1], b[0] - a[0], 0}; /* dim 2: the normal is (-dy, dx) */
    if (m->dim == 3) ff_polygon_vector_area(&p, v);
    return (a[0] - o[0]) * v[0] + (a[1] - o[1]) * v[1] + (a[2] - o[2]) * v[2];
}

static void sum_parts(const welded *s, const uint8_t *keep, winding *w, part *p, ff_repair_counts *n)
{
    const ff_mesh *m = s->m;
    uint8_t odd;
    double area;
    for (int64_t c = 0; c < m->n_cells; c++) {
        if (keep[c] == 0) continue;
        int64_t root = root_of(w, c, &odd);
        const double *o =
            m->points + 3 * m->cell_pts[ff_mesh_cell(m, root, &(int64_t){0})]; /* near the part */
        (void)shape_fault(m, c, &area);
        p[root].area += odd ? -area : area;
        p[root].volume += (odd ? -1 : 1) * volume_below(m, c, o);
        p[root].open |= p[c].open;
        p[root].sides |= odd ? 2 : 1;
        n->twisted_parts += root == c && w->twisted[c] != 0;
    }
}

/* Whether the odd cells of a part are the ones to flip. In 2D a curve with outward normals runs clockwise: volume_below
 * counts with its normals, so the sign is the same. */
static bool even_side_stays(const part *p, bool outward)
{
    return !p->open && (p->sides == 3 || outward) ? p->volume >= 0 : p->area >= 0;
}

/* flip [n_cells]: in a closed part of mixed winding the side whose flip makes normals point outwards, in an
 * open one the side with the smaller area. */
static ff_status choose_flips(const welded *s, const uint8_t *keep, bool outward, uint8_t *flip,
                              ff_repair_counts *n)
{
    ff_status st = FF_OK;
    winding w = {0};
    part *p = NULL; /* [n_cells] at roots; open: everywhere */
    int64_t n_cells = s->m->n_cells;
    uint8_t odd;
    FF_GO(FF_NEW(w.parent, n_cells));
    FF_GO(FF_NEW0(w.odd, n_cells));
    FF_GO(FF_NEW0(w.twisted, n_cells));
    FF_GO(FF_NEW0(p, n_cells));
    for (int64_t c = 0; c < n_cells; c++) w.parent[c] = c;
    join_cells(s, keep, &w, p);
    sum_parts(s, keep, &w, p, n);
    for (int64_t c = 0; c < n_cells; c++) {
        int64_t root = root_of(&w, c, &odd);
        flip[c] = keep[c] != 0 && w.twisted[root] == 0 && odd == even_side_stays(&p[root], outward);
        n->flipped_cells += flip[c];
        n->turned_parts += root == c && p[c].sides == 1 && flip[c] != 0;
    }
done:
    ff_free(w.parent);
    ff_free(w.odd);
    ff_free(w.twisted);
    ff_free(p);
    return st;
}

ff_status ff_mesh_repair(const ff_mesh *m, bool outward, ff_repair_counts *counts, ff_mesh **out)
{
    ff_status st = FF_OK;
    welded w;
    uint8_t *keep = NULL, *flip = NULL;
    *counts = (ff_repair_counts){0};
    *out = NULL;
    FF_TRY(welded_init(&w, m));
    FF_GO(FF_NEW(keep, m->n_cells));
    FF_GO(FF_NEW(flip, m->n_cells));
    FF_GO(choose_cells(&w, keep, counts));
    FF_GO(choose_flips(&w, keep, outward, flip, counts));
    FF_GO(ff_mesh_extract(m, keep, flip, w.id, out));
    counts->welded_points = m->n_points - w.n_distinct;
    counts->dropped_points = w.n_distinct - (*out)->n_points;
done:
    ff_free(keep);
    ff_free(flip);
    welded_free(&w);
    return st;
}
