#include "ff_graph.h"

#include "ff_mem.h"

#include <stdlib.h>
#include <string.h>

/* One search: the tree of the held points and, in its order, what decides. */
typedef struct finder {
    const ff_graph_points *p;
    const ff_search *s;
    ff_tree *t;
    int64_t *order; /* [n_held] held index at each sorted position */
    double *x;      /* [n_held][3] as given, sorted */
    int32_t *wrap;  /* [n_held][3] sorted */
} finder;

static void finder_free(finder *f)
{
    ff_tree_destroy(&f->t);
    ff_free(f->order);
    ff_free(f->x);
    ff_free(f->wrap);
}

static ff_status finder_fill(finder *f)
{
    ff_status st = FF_OK;
    float *x_tree = NULL;
    int32_t *wrap = NULL;
    int64_t n = f->p->n_held;
    FF_GO(FF_NEW(x_tree, 3 * n));
    FF_GO(FF_NEW(wrap, 3 * n));
    FF_GO(FF_NEW(f->order, n));
    FF_GO(FF_NEW(f->x, 3 * n));
    FF_GO(FF_NEW(f->wrap, 3 * n));
    ff_search_frame(f->s, f->p->x, n, x_tree, wrap);
    FF_GO(ff_tree_build(x_tree, n, 3, FF_GRAPH_LEAF, f->order, &f->t));
    for (int64_t i = 0; i < n; i++) {
        memcpy(f->x + 3 * i, f->p->x + 3 * f->order[i], 3 * sizeof *f->x);
        memcpy(f->wrap + 3 * i, wrap + 3 * f->order[i], 3 * sizeof *wrap);
    }
done:
    ff_free(x_tree);
    ff_free(wrap);
    return st;
}

static int64_t held_of(const ff_graph_points *p, int64_t node)
{
    return p->node != NULL ? p->node[node] : node;
}

/* Neighbours of node among image number i; keys (held index, image) to key if not NULL. Returns how many. */
static int64_t find_image(const finder *f, const double *x_in, const int32_t *w_dst, int64_t held, int64_t i,
                          uint64_t *key)
{
    const ff_search *s = f->s;
    ff_search_walk w;
    int32_t m[3], k[3] = {0, 0, 0};
    double shift[3], v[3];
    int64_t n = 0;
    ff_search_image(s, i, m);
    ff_lattice_shift(s->lattice.vector, m, shift);
    ff_search_begin(&w, s, f->t->node, f->t->n_nodes, x_in, x_in, shift);
    const bool self = m[0] == 0 && m[1] == 0 && m[2] == 0;
    for (int32_t leaf; (leaf = ff_search_leaf(&w)) >= 0;) {
        int64_t a = f->t->start[leaf], b = a + f->t->count[leaf];
        for (int64_t j = a; j < b; j++) {
            if (self && f->order[j] == held) continue;
            if (!s->lattice.open) ff_search_image_of(m, f->wrap + 3 * j, w_dst, k);
            if (!ff_search_edge(s, f->x + 3 * j, f->p->x + 3 * held, k, v)) continue;
            if (key != NULL) key[n] = (uint64_t)f->order[j] << FF_SEARCH_IMAGE_BITS | (uint64_t)i;
            n++;
        }
    }
    return n;
}

/* Neighbours of a node over all images: their number, and their keys (unsorted) if key is not NULL. */
static int64_t find(const finder *f, int64_t node, int32_t w_dst[3], uint64_t *key)
{
    int64_t n = 0, held = held_of(f->p, node);
    double x_in[3];
    (void)ff_lattice_wrap(&f->s->lattice, f->p->x + 3 * held, x_in, w_dst);
    for (int d = 0; d < 3; d++) x_in[d] -= f->s->origin[d];
    for (int64_t i = 0; i < f->s->n_images; i++)
        n += find_image(f, x_in, w_dst, held, i, key != NULL ? key + n : NULL);
    return n;
}

static int compare_keys(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Wraps of the held points, in their own order, are not kept: an edge's image is made from the two points again. */
static void write_edge(const finder *f, ff_graph *g, int64_t e, int64_t node, const int32_t w_dst[3],
                       uint64_t key)
{
    const ff_search *s = f->s;
    int64_t src = (int64_t)(key >> FF_SEARCH_IMAGE_BITS);
    int32_t m[3], w_src[3], k[3] = {0, 0, 0};
    double in[3];
    g->dst[e] = (int32_t)node;
    g->src[e] = (int32_t)src;
    if (!s->lattice.open) {
        ff_search_image(s, (int64_t)(key & ((UINT64_C(1) << FF_SEARCH_IMAGE_BITS) - 1)), m);
        (void)ff_lattice_wrap(&s->lattice, f->p->x + 3 * src, in, w_src);
        ff_search_image_of(m, w_src, w_dst, k);
        memcpy(g->image + 3 * e, k, sizeof k);
    }
    (void)ff_search_edge(s, f->p->x + 3 * src, f->p->x + 3 * held_of(f->p, node), k, g->vec + 3 * e);
}

ff_status ff_graph_start(const ff_graph_points *p, const ff_search *s, ff_graph **out)
{
    int32_t n_held;
    FF_TRY(ff_to_i32(p->n_held, "points of one graph", &n_held));
    FF_TRY(FF_NEW0(*out, 1));
    (*out)->n_nodes = p->n_nodes;
    (*out)->cutoff = s->cutoff;
    return FF_NEW((*out)->off, p->n_nodes + 1);
}

ff_status ff_graph_alloc(const ff_search *s, ff_graph *g)
{
    int32_t n_edges;
    g->n_edges = g->off[g->n_nodes];
    FF_TRY(ff_to_i32(g->n_edges, "edges of one graph; lower the cutoff or use more ranks", &n_edges));
    FF_TRY(FF_NEW(g->dst, g->n_edges));
    FF_TRY(FF_NEW(g->src, g->n_edges));
    FF_TRY(FF_NEW(g->vec, 3 * g->n_edges));
    return s->lattice.open ? FF_OK : FF_NEW(g->image, 3 * g->n_edges);
}

static void count_edges(const finder *f, ff_graph *g)
{
    g->off[0] = 0;
#pragma omp parallel for schedule(dynamic, 64)
    for (int64_t n = 0; n < g->n_nodes; n++) {
        int32_t w[3];
        g->off[n + 1] = find(f, n, w, NULL);
    }
    for (int64_t n = 0; n < g->n_nodes; n++) g->off[n + 1] += g->off[n];
}

static ff_status fill_edges(const finder *f, ff_graph *g)
{
    uint64_t *key = NULL;
    int64_t coincident = 0;
    FF_TRY(FF_NEW(key, g->n_edges));
#pragma omp parallel for schedule(dynamic, 64) reduction(+ : coincident)
    for (int64_t n = 0; n < g->n_nodes; n++) {
        int32_t w[3];
        int64_t e0 = g->off[n], e1 = g->off[n + 1];
        (void)find(f, n, w, key + e0);
        if (e1 > e0) qsort(key + e0, (size_t)(e1 - e0), sizeof *key, compare_keys);
        for (int64_t e = e0; e < e1; e++) {
            write_edge(f, g, e, n, w, key[e]);
            coincident += ff_lattice_norm2(g->vec + 3 * e) == 0;
        }
    }
    g->n_coincident = coincident;
    ff_free(key);
    return FF_OK;
}

ff_status ff_graph_build(const ff_graph_points *p, const ff_search *s, ff_graph **out)
{
    ff_status st = FF_OK;
    finder f = {.p = p, .s = s};
    ff_graph *g = NULL;
    *out = NULL;
    FF_GO(ff_graph_start(p, s, &g));
    FF_GO(finder_fill(&f));
    count_edges(&f, g);
    FF_GO(ff_graph_alloc(s, g));
    FF_GO(fill_edges(&f, g));
    *out = g;
    g = NULL;
done:
    finder_free(&f);
    ff_graph_destroy(&g);
    return st;
}

/* ---- opposite edges ---- */

static int owner_of(const ff_graph_points *p, int64_t held)
{
    return p->owner != NULL ? p->owner[held] : p->rank;
}

/* Edges in the order of (rank of the source, source, destination, image): place [n_ranks + 1] first of each rank. */
static void count_ranks(const ff_graph *g, const ff_graph_points *p, int64_t *place)
{
    memset(place, 0, (size_t)(p->n_ranks + 1) * sizeof *place);
    for (int64_t e = 0; e < g->n_edges; e++)
        if (owner_of(p, g->src[e]) != p->rank) place[owner_of(p, g->src[e]) + 1]++;
    for (int r = 0; r < p->n_ranks; r++) place[r + 1] += place[r];
}

/* Runs of one source in a node's edges are matched backwards: the opposite of the smallest image is the largest.
 * next[r]: first opposite of rank r's edges that is not matched yet. own: edges by source, from off_own. */
static void match(ff_graph *g, const ff_graph_points *p, const ff_scatter_csr *by_src, int64_t *next)
{
    for (int64_t n = 0; n < g->n_nodes; n++) {
        int64_t own = by_src->off[held_of(p, n)];
        for (int64_t a = g->off[n], b; a < g->off[n + 1]; a = b) {
            int r = owner_of(p, g->src[a]);
            for (b = a; b < g->off[n + 1] && g->src[b] == g->src[a];) b++;
            for (int64_t e = a; e < b; e++)
                g->opposite[e] = r == p->rank ? (uint32_t)by_src->edge[own + (b - 1 - e)]
                                              : (uint32_t)(g->n_edges + next[r] + (b - 1 - e));
            if (r == p->rank)
                own += b - a;
            else
                next[r] += b - a;
        }
    }
}

static void list_send(const ff_graph_points *p, const ff_scatter_csr *by_src, int64_t *place, int32_t *send)
{
    for (int64_t h = 0; h < p->n_held; h++) {
        int r = owner_of(p, h);
        if (r == p->rank) continue;
        for (int64_t k = by_src->off[h]; k < by_src->off[h + 1]; k++) send[place[r]++] = by_src->edge[k];
    }
}

ff_status ff_graph_link(ff_graph *g, const ff_graph_points *p, int64_t *rank_edges, int32_t **send)
{
    ff_status st = FF_OK;
    ff_scatter_csr *by_src = NULL;
    int64_t *place = NULL;
    FF_GO(FF_NEW(place, p->n_ranks + 1));
    FF_GO(FF_NEW(g->opposite, g->n_edges));
    FF_GO(ff_scatter_csr_create_i32(g->src, g->n_edges, p->n_held, &by_src));
    count_ranks(g, p, place);
    if (rank_edges != NULL)
        for (int r = 0; r < p->n_ranks; r++) rank_edges[r] = place[r + 1] - place[r];
    if (send != NULL) {
        FF_GO(FF_NEW(*send, place[p->n_ranks]));
        list_send(p, by_src, place, *send);
        count_ranks(g, p, place);
    }
    match(g, p, by_src, place);
done:
    ff_scatter_csr_destroy(&by_src);
    ff_free(place);
    return st;
}

void ff_graph_point_grad(const ff_graph *g, const double *edge_grad, const double *received, double *grad)
{
#pragma omp parallel for schedule(dynamic, 256)
    for (int64_t n = 0; n < g->n_nodes; n++) {
        double sum[3] = {0, 0, 0};
        for (int64_t e = g->off[n]; e < g->off[n + 1]; e++) {
            int64_t o = g->opposite[e];
            const double *in = o < g->n_edges ? edge_grad + 3 * o : received + 3 * (o - g->n_edges);
            for (int d = 0; d < 3; d++) sum[d] += in[d] - edge_grad[3 * e + d];
        }
        for (int d = 0; d < 3; d++) grad[3 * n + d] = sum[d];
    }
}

/* ---- public ---- */

ff_status ff_graph_create(const double *points, int64_t n_points, double cutoff, const ff_cell *cell,
                          ff_graph **out)
{
    ff_search s;
    ff_graph_points p = {n_points, n_points, points, NULL, NULL, 0, 1};
    if (out == NULL) return ff_fail(FF_E_ARG, "graph: out is NULL, expected a place for the graph");
    *out = NULL;
    if (n_points < 0) return ff_fail(FF_E_ARG, "graph: n_points = %lld, expected >= 0", (long long)n_points);
    if (n_points > 0 && points == NULL)
        return ff_fail(FF_E_ARG, "graph: points is NULL, expected [%lld][3]", (long long)n_points);
    FF_TRY(ff_search_start(cutoff, cell, &s));
    FF_TRY(ff_search_box(&s, points, n_points, 0));
    ff_search_finish(&s, n_points);
    FF_TRY(ff_graph_build(&p, &s, out));
    ff_status st = ff_graph_link(*out, &p, NULL, NULL);
    if (st != FF_OK) ff_graph_destroy(out);
    return st;
}

void ff_graph_destroy(ff_graph **graph)
{
    ff_graph *g = *graph;
    if (g == NULL) return;
    ff_free(g->off);
    ff_free(g->dst);
    ff_free(g->src);
    ff_free(g->image);
    ff_free(g->vec);
    ff_free(g->opposite);
    ff_free(g);
    *graph = NULL;
}
