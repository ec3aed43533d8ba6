/* Embedding head against its golden file (layout: golden data's README). The points are spread over the ranks, and
 * each compares what it has with the file, which it reads whole. */
#include "verify_head.h"

#include "app_graph.h"
#include "app_head.h"
#include "ff_embed.h"
#include "ff_head.h"
#include "ff_mesh_dist.h"
#include "ff_sort.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct group {
    verify *v;
    const ff_h5 *file;
    const char *name;
    app_head h;
    ff_cell cell;
    bool periodic;
    int64_t n, n_edges, n_out;  /* of the file; n_out numbers a node */
    double *points, *cotangent; /* whole */
    int64_t begin, n_home;      /* this rank's share */
    int64_t *dst, *src, *order; /* [n_edges] as filed; order: by destination, source */
    int64_t *off;               /* [n + 1] into order */
    double *vec;                /* [n_edges][3] as filed */
    ff_embed *e;
    int64_t *match;  /* [edges here] the file's edge, -1: not there */
    int64_t n_wrong; /* nodes whose edges differ */
} group;

static const char *at_of(const group *g, const char *what, char at[400])
{
    (void)snprintf(at, 400, "/%s/%s", g->name, what);
    return at;
}

static ff_status read_ids(const group *g, const char *what, int64_t **out)
{
    char at[400];
    ff_h5_shape s;
    FF_TRY(ff_h5_shape_of(g->file, at_of(g, what, at), &s));
    if (s.rank != 1 || s.dim[0] != g->n_edges)
        return ff_fail(FF_E_INPUT, "%s: %s: %lld values, expected one an edge (%lld)", ff_h5_path(g->file),
                       at, (long long)s.dim[0], (long long)g->n_edges);
    FF_TRY(FF_NEW(*out, g->n_edges + 1));
    FF_TRY(ff_h5_read(g->file, at, FF_H5_I64, 0, g->n_edges, *out));
    for (int64_t i = 0; i < g->n_edges; i++)
        if ((*out)[i] < 0 || (*out)[i] >= g->n)
            return ff_fail(FF_E_INPUT, "%s: %s: edge %lld: point %lld, expected 0 to %lld",
                           ff_h5_path(g->file), at, (long long)i, (long long)(*out)[i], (long long)g->n - 1);
    return FF_OK;
}

/* Edges by destination and source, whatever their order in the file. */
static ff_status sort_edges(group *g)
{
    ff_status st = FF_OK;
    uint64_t *key = NULL;
    FF_GO(FF_NEW(key, g->n_edges));
    FF_GO(FF_NEW(g->order, g->n_edges + 1));
    FF_GO(FF_NEW0(g->off, g->n + 1));
    for (int64_t i = 0; i < g->n_edges; i++) {
        g->order[i] = i;
        key[i] = (uint64_t)(g->dst[i] * g->n + g->src[i]);
        g->off[g->dst[i] + 1]++;
    }
    for (int64_t i = 0; i < g->n; i++) g->off[i + 1] += g->off[i];
    FF_GO(ff_sort_u64(key, g->order, g->n_edges));
done:
    ff_free(key);
    return st;
}

static ff_status read_edges(group *g)
{
    char at[400];
    ff_h5_shape s;
    FF_TRY(ff_h5_shape_of(g->file, at_of(g, "edge_vec", at), &s));
    g->n_edges = s.dim[0];
    FF_TRY(read_ids(g, "dst", &g->dst));
    FF_TRY(read_ids(g, "src", &g->src));
    FF_TRY(app_read_f64(g->file, at, 3 * g->n_edges, &g->vec));
    return sort_edges(g);
}

/* Local */
static ff_status read_group(group *g)
{
    char at[400];
    ff_h5_shape s;
    const ff_head_opts init = FF_HEAD_OPTS_INIT;
    g->h.o = init;
    (void)snprintf(at, sizeof at, "/%s", g->name);
    FF_TRY(app_head_read(g->file, at, &g->h));
    FF_TRY(app_cell_read(g->file, at, &g->cell, &g->periodic));
    FF_TRY(ff_h5_shape_of(g->file, at_of(g, "points", at), &s));
    g->n = s.dim[0];
    g->n_out = ff_head_n_out(&g->h.o);
    if (g->n > INT32_MAX) return ff_fail(FF_E_INPUT, "%s: %s: too many points", ff_h5_path(g->file), at);
    FF_TRY(app_read_f64(g->file, at, 3 * g->n, &g->points));
    FF_TRY(app_read_f64(g->file, at_of(g, "cotangent", at), g->n * g->n_out, &g->cotangent));
    FF_TRY(read_edges(g));
    g->begin = ff_share_begin(g->n, g->v->app->comm->rank, g->v->app->comm->size);
    g->n_home = ff_share_begin(g->n, g->v->app->comm->rank + 1, g->v->app->comm->size) - g->begin;
    return FF_OK;
}

static void free_group(group *g)
{
    app_head_free(&g->h);
    ff_free(g->points);
    ff_free(g->cotangent);
    ff_free(g->dst);
    ff_free(g->src);
    ff_free(g->order);
    ff_free(g->off);
    ff_free(g->vec);
    ff_free(g->match);
    ff_embed_destroy(&g->e);
}

/* ---- edges ---- */

static double distance2(const double *a, const double *b)
{
    double d2 = 0;
    for (int i = 0; i < 3; i++) d2 += (a[i] - b[i]) * (a[i] - b[i]);
    return d2;
}

/* The file's edge for edge e of ours among its edges [f0, f1) of one node that are not taken: same source, nearest
 * vector (a source may be there with several images). */
static int64_t find_match(const group *g, int64_t e, int64_t f0, int64_t f1, const uint8_t *taken)
{
    const int64_t src = g->e->halo->gid[g->e->graph->src[e]];
    int64_t best = -1;
    double best2 = HUGE_VAL;
    for (int64_t f = f0; f < f1; f++) {
        const int64_t i = g->order[f];
        if (taken[f] || g->src[i] != src) continue;
        double d2 = distance2(g->vec + 3 * i, g->e->graph->vec + 3 * e);
        if (d2 < best2) best2 = d2, best = f;
    }
    return best;
}

/* Local */
static ff_status match_edges(group *g)
{
    uint8_t *taken = NULL;
    const ff_graph *graph = g->e->graph;
    FF_TRY(FF_NEW(g->match, graph->n_edges + 1));
    FF_TRY(FF_NEW0(taken, g->n_edges));
    for (int64_t k = 0; k < graph->n_nodes; k++) {
        const int64_t id = g->e->halo->gid[g->e->halo->own[k]];
        bool wrong = graph->off[k + 1] - graph->off[k] != g->off[id + 1] - g->off[id];
        for (int64_t e = graph->off[k]; e < graph->off[k + 1]; e++) {
            int64_t f = find_match(g, e, g->off[id], g->off[id + 1], taken);
            g->match[e] = f >= 0 ? g->order[f] : -1;
            wrong = wrong || f < 0;
            if (f >= 0) taken[f] = 1;
        }
        g->n_wrong += wrong;
    }
    ff_free(taken);
    return FF_OK;
}

/* ---- comparing ---- */

static const char *row_name(const group *g, bool f64, const char *what, char name[400])
{
    (void)snprintf(name, 400, "%s/%s/%s", g->name, f64 ? "f64" : "f32", what);
    return name;
}

/* Rows of one result here: row i is the file's row number[i], or first + i. */
typedef struct rows {
    const double *value[2]; /* by path of the scatter; [1] NULL: does not depend on it */
    int64_t n, n_file, len;
    const int64_t *number;
    int64_t first;
} rows;

/* The worse of both paths against the file.                                                           Collective */
static ff_status compare(group *g, bool f64, const char *what, const rows *r, double tol)
{
    double *ref = NULL, err = 0;
    char at[400], name[400];
    ff_status st =
        ff_agree(g->v->app->comm, app_read_f64(g->file, at_of(g, what, at), r->n_file * r->len, &ref));
    if (st == FF_OK) {
        const double scale = verify_max_abs(ref, r->n_file * r->len);
        for (int p = 0; p < 2 && r->value[p] != NULL; p++)
            for (int64_t i = 0; i < r->n; i++) {
                const int64_t row = r->number != NULL ? r->number[i] : r->first + i;
                err = fmax(err, verify_error(r->value[p] + i * r->len, ref + row * r->len, r->len, scale));
            }
        st = verify_row(g->v, row_name(g, f64, what, name), err, tol);
    }
    ff_free(ref);
    return st;
}

/* Results of one precision in double, those of edges and own nodes as in the graph, the others at home. */
typedef struct results {
    double *coupling, *basis, *radial, *degree, *inv; /* of this rank's edges and nodes */
    double *out[2], *d_points[2], *d_w1[2], *d_w2[2]; /* by path */
    int64_t *own_id;
} results;

static ff_status results_alloc(const group *g, results *r)
{
    const ff_graph *graph = g->e->graph;
    const ff_head_opts *o = &g->h.o;
    FF_TRY(FF_NEW(r->coupling, graph->n_edges * ((o->lmax + 1) * (o->lmax + 1) - 1) + 1));
    FF_TRY(FF_NEW(r->basis, graph->n_edges * o->n_radial + 1));
    FF_TRY(FF_NEW(r->radial, graph->n_edges * o->lmax * o->n_channels + 1));
    FF_TRY(FF_NEW(r->degree, graph->n_nodes + 1));
    FF_TRY(FF_NEW(r->inv, graph->n_nodes + 1));
    FF_TRY(FF_NEW(r->own_id, graph->n_nodes + 1));
    for (int64_t k = 0; k < graph->n_nodes; k++) r->own_id[k] = g->e->halo->gid[g->e->halo->own[k]];
    for (int p = 0; p < 2; p++) {
        FF_TRY(FF_NEW(r->out[p], g->n_home * g->n_out + 1));
        FF_TRY(FF_NEW(r->d_points[p], 3 * g->n_home + 1));
        FF_TRY(FF_NEW(r->d_w1[p], ff_head_n_w1(o)));
        FF_TRY(FF_NEW(r->d_w2[p], ff_head_n_w2(o)));
    }
    return FF_OK;
}

static void results_free(results *r)
{
    double *all[] = {r->coupling, r->basis, r->radial, r->degree, r->inv};
    for (int i = 0; i < 5; i++) ff_free(all[i]);
    ff_free(r->own_id);
    for (int p = 0; p < 2; p++) {
        ff_free(r->out[p]);
        ff_free(r->d_points[p]);
        ff_free(r->d_w1[p]);
        ff_free(r->d_w2[p]);
    }
}

static ff_head_opts opts_of(const group *g, int path)
{
    ff_head_opts o = g->h.o;
    o.path = path == 0 ? FF_SCATTER_REFERENCE : FF_SCATTER_FUSED;
    return o;
}

/* Collective */
static ff_status run_f64(const group *g, results *r)
{
    const ff_head_parts_f64 parts = {r->coupling, r->basis, r->radial, r->degree, r->inv};
    FF_TRY(ff_agree(g->v->app->comm, ff_head_parts_run_f64(g->e->graph, &g->h.o, g->h.w1, g->h.w2, &parts)));
    for (int p = 0; p < 2; p++) {
        const ff_head_opts o = opts_of(g, p);
        FF_TRY(ff_embed_forward_f64(g->e, &o, g->h.w1, g->h.w2, r->out[p]));
        FF_TRY(ff_embed_backward_f64(g->e, &o, g->h.w1, g->h.w2, g->cotangent + g->begin * g->n_out,
                                     r->d_points[p], r->d_w1[p], r->d_w2[p]));
    }
    return FF_OK;
}

static void widen(const float *x, int64_t n, double *out)
{
    for (int64_t i = 0; i < n; i++) out[i] = (double)x[i];
}

/* float32 arrays of one run. */
typedef struct narrow {
    float *w1, *w2, *cotangent, *coupling, *basis, *radial, *inv, *out, *d_w1, *d_w2;
} narrow;

static ff_status narrow_alloc(const group *g, narrow *s)
{
    const ff_head_opts *o = &g->h.o;
    const int64_t n_e = g->e->graph->n_edges, n_w1 = ff_head_n_w1(o), n_w2 = ff_head_n_w2(o);
    FF_TRY(app_narrow(g->h.w1, n_w1, &s->w1));
    FF_TRY(app_narrow(g->h.w2, n_w2, &s->w2));
    FF_TRY(app_narrow(g->cotangent + g->begin * g->n_out, g->n_home * g->n_out, &s->cotangent));
    FF_TRY(FF_NEW(s->coupling, n_e * ((o->lmax + 1) * (o->lmax + 1) - 1) + 1));
    FF_TRY(FF_NEW(s->basis, n_e * o->n_radial + 1));
    FF_TRY(FF_NEW(s->radial, n_e * o->lmax * o->n_channels + 1));
    FF_TRY(FF_NEW(s->inv, g->e->graph->n_nodes + 1));
    FF_TRY(FF_NEW(s->out, g->n_home * g->n_out + 1));
    FF_TRY(FF_NEW(s->d_w1, n_w1));
    return FF_NEW(s->d_w2, n_w2);
}

static void narrow_free(narrow *s)
{
    float *all[] = {s->w1,     s->w2,  s->cotangent, s->coupling, s->basis,
                    s->radial, s->inv, s->out,       s->d_w1,     s->d_w2};
    for (int i = 0; i < 10; i++) ff_free(all[i]);
}

/* Collective */
static ff_status run_f32(const group *g, results *r)
{
    ff_status st = FF_OK;
    narrow s = {0};
    const ff_graph *graph = g->e->graph;
    const ff_head_opts *w = &g->h.o;
    FF_GO(ff_agree(g->v->app->comm, narrow_alloc(g, &s)));
    const ff_head_parts_f32 parts = {s.coupling, s.basis, s.radial, r->degree, s.inv};
    FF_GO(ff_agree(g->v->app->comm, ff_head_parts_run_f32(graph, w, s.w1, s.w2, &parts)));
    widen(s.coupling, graph->n_edges * ((w->lmax + 1) * (w->lmax + 1) - 1), r->coupling);
    widen(s.basis, graph->n_edges * w->n_radial, r->basis);
    widen(s.radial, graph->n_edges * w->lmax * w->n_channels, r->radial);
    widen(s.inv, graph->n_nodes, r->inv);
    for (int p = 0; p < 2; p++) {
        const ff_head_opts o = opts_of(g, p);
        FF_GO(ff_embed_forward_f32(g->e, &o, s.w1, s.w2, s.out));
        FF_GO(ff_embed_backward_f32(g->e, &o, s.w1, s.w2, s.cotangent, r->d_points[p], s.d_w1, s.d_w2));
        widen(s.out, g->n_home * g->n_out, r->out[p]);
        widen(s.d_w1, ff_head_n_w1(w), r->d_w1[p]);
        widen(s.d_w2, ff_head_n_w2(w), r->d_w2[p]);
    }
done:
    narrow_free(&s);
    return st;
}

/* Collective */
static ff_status compare_edges(group *g, bool f64, const results *r, double tol)
{
    const ff_head_opts *o = &g->h.o;
    rows edges = {{r->coupling, NULL},
                  g->e->graph->n_edges,
                  g->n_edges,
                  (o->lmax + 1) * (o->lmax + 1) - 1,
                  g->match,
                  0};
    FF_TRY(compare(g, f64, "zonal_coupling", &edges, tol));
    edges.value[0] = r->basis, edges.len = o->n_radial;
    FF_TRY(compare(g, f64, "rbf", &edges, tol));
    edges.value[0] = r->radial, edges.len = o->lmax * o->n_channels;
    return compare(g, f64, "radial_feat", &edges, tol);
}

/* Collective */
static ff_status compare_results(group *g, bool f64, const results *r, double tol)
{
    const ff_head_opts *o = &g->h.o;
    const int64_t n_w2 = o->lmax * o->n_channels;
    rows degree = {{r->degree, NULL}, g->e->graph->n_nodes, g->n, 1, r->own_id, 0}, inv = degree;
    rows out = {{r->out[0], r->out[1]}, g->n_home, g->n, g->n_out, NULL, g->begin};
    rows points = {{r->d_points[0], r->d_points[1]}, g->n_home, g->n, 3, NULL, g->begin};
    rows w1 = {{r->d_w1[0], r->d_w1[1]}, o->n_hidden, o->n_hidden, o->n_radial, NULL, 0};
    rows w2 = {{r->d_w2[0], r->d_w2[1]}, n_w2, n_w2, o->n_hidden, NULL, 0};
    inv.value[0] = r->inv;
    FF_TRY(compare(g, f64, "degree", &degree, tol));
    FF_TRY(compare(g, f64, "inv_sqrt_deg", &inv, tol));
    FF_TRY(compare(g, f64, "out", &out, tol));
    if (!ff_config_bool(g->v->app->config, "verify.gradients")) return FF_OK;
    FF_TRY(compare(g, f64, "grad_points", &points, tol));
    FF_TRY(compare(g, f64, "grad_W1", &w1, tol));
    return compare(g, f64, "grad_W2", &w2, tol);
}

/* Collective */
static ff_status compare_precision(group *g, bool f64)
{
    ff_status st = FF_OK;
    results r = {0};
    const double tol = f64 ? 1e-12 : 1e-5;
    FF_GO(ff_agree(g->v->app->comm, results_alloc(g, &r)));
    FF_GO(f64 ? run_f64(g, &r) : run_f32(g, &r));
    FF_GO(compare_edges(g, f64, &r, tol));
    FF_GO(compare_results(g, f64, &r, tol));
done:
    results_free(&r);
    return st;
}

/* Collective */
static ff_status compare_group(verify *v, const ff_h5 *f, const char *name, const app_graph *graph)
{
    ff_status st = FF_OK;
    char row[400];
    group g = {.v = v, .file = f, .name = name};
    FF_GO(ff_agree(v->app->comm, read_group(&g)));
    FF_GO(ff_embed_create(v->app->comm, g.points + 3 * g.begin, g.n_home, g.h.cutoff,
                          g.periodic ? &g.cell : NULL, app_graph_maker(graph), &g.e));
    FF_GO(ff_agree(v->app->comm, match_edges(&g)));
    (void)snprintf(row, sizeof row, "%s/edges", name);
    FF_GO(ff_comm_allreduce(v->app->comm, &g.n_wrong, 1, FF_SUM_I64));
    FF_GO(verify_row(v, row, (double)g.n_wrong, 0));
    if (g.n_wrong > 0) {
        verify_note(v, name, "nodes with other edges are counted above; their values are not compared");
        goto done;
    }
    rows vec = {{g.e->graph->vec, NULL}, g.e->graph->n_edges, g.n_edges, 3, g.match, 0};
    FF_GO(compare(&g, true, "edge_vec", &vec, 1e-12));
    for (int k = 0; k < 2; k++) FF_GO(compare_precision(&g, k == 0));
done:
    free_group(&g);
    return st;
}

/* ---- couplings of unit vectors ---- */

/* Collective */
static ff_status compare_units(verify *v, const ff_h5 *f, const char *name)
{
    ff_status st = FF_OK;
    double *u = NULL, *ref = NULL, err = 0;
    char at[400], what[400];
    ff_h5_shape s;
    for (int lmax = 1; lmax <= FF_SCATTER_LMAX; lmax++) {
        const int n_rows = (lmax + 1) * (lmax + 1) - 1;
        ff_head_opts o = FF_HEAD_OPTS_INIT;
        double z[FF_HEAD_ROWS];
        (void)snprintf(what, sizeof what, "/%s/coupling_lmax%d", name, lmax);
        if (!ff_h5_exists(f, what)) continue;
        o.lmax = lmax;
        const ff_head_par par = ff_head_par_of(&o, 1);
        (void)snprintf(at, sizeof at, "/%s/unit_vectors", name);
        st = ff_h5_shape_of(f, at, &s);
        if (st == FF_OK) st = app_read_f64(f, at, 3 * s.dim[0], &u);
        if (st == FF_OK) st = app_read_f64(f, what, n_rows * s.dim[0], &ref);
        FF_GO(ff_agree(v->app->comm, st));
        for (int64_t i = 0; i < s.dim[0]; i++) {
            ff_head_coupling(&par, u + 3 * i, z);
            err = fmax(err, verify_error(z, ref + i * n_rows, n_rows, 1));
        }
        FF_GO(verify_row(v, what + 1, err, 1e-13));
        FF_FREE(u);
        FF_FREE(ref);
    }
done:
    ff_free(u);
    ff_free(ref);
    return st;
}

ff_status verify_head(verify *v, const char *path)
{
    ff_status st = FF_OK;
    ff_h5 *f = NULL;
    char **names = NULL, at[400];
    int n = 0;
    app_graph graph;
    FF_TRY(app_graph_open(v->app, &graph));
    st = ff_h5_open(ff_comm_self(), path, &f);
    if (st == FF_OK) st = ff_h5_list(f, "/", &names, &n);
    FF_GO(ff_agree(v->app->comm, st));
    for (int i = 0; i < n; i++) {
        (void)snprintf(at, sizeof at, "/%s/edge_vec", names[i]);
        if (ff_h5_exists(f, at)) FF_GO(compare_group(v, f, names[i], &graph));
        (void)snprintf(at, sizeof at, "/%s/unit_vectors", names[i]);
        if (ff_h5_exists(f, at)) FF_GO(compare_units(v, f, names[i]));
    }
done:
    app_graph_close(&graph);
    ff_h5_names_free(&names, n);
    if (f != NULL) {
        ff_status closed = ff_h5_close(&f);
        if (st == FF_OK) st = closed;
    }
    return st;
}
