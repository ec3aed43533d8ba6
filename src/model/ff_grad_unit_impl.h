/* Units: sources of one block, or of one node above blocks, against all targets. Part of ff_grad_impl.h. */

/* Where a pair's target position stands: its accumulator, or NULL. */
typedef struct place {
    ff_sums *sums;
    int64_t row;
} place;

/* Where pairs go instead of tiles while lists for a backend are made. */
typedef struct pair_sink pair_sink;

/* One thread's. Slots are the unit's sources: its points in order, then its nodes. */
typedef struct worker {
    const back *l;
    const back_source *s;
    int i, j; /* target cloud, source */
    const grad_unit *unit;
    int32_t node_begin, node_end, first; /* held nodes; first held point */
    int n_points, n_slots;
    real *raw, *rec, *strength; /* [slots][n_raw], [n_len][slots][rec_len], [n_len][slots] */
    const double **x;           /* [slots] positions */
    double *rec_bar, *raw_bar, *strength_bar,
        *x_bar; /* [n_len][slots][rec_len], [slots][n_raw], [slots][n_len], [dim] */
    real *grad; /* [n_len][grad_len] */
    /* the tile */
    int n;
    real dx[TILE * 3], *out_bar; /* [TILE][n_comp] */
    int slot[TILE];
    place place[TILE];
    real *tile_rec_bar, tile_strength_bar[TILE], tile_dx_bar[TILE * 3]; /* [TILE][rec_len] */
    real *tile_src_bar;                                                 /* [TILE][n_raw] */
    real *scratch;
    int64_t pairs;
    pair_sink *sink; /* NULL: tiles */
    ff_status st;    /* of the sink */
} worker;

static real *rec_at(const worker *w, int b, int slot)
{
    return w->rec + ((size_t)b * (size_t)w->l->max_slots + (size_t)slot) * w->s->rec_len;
}

static double *rec_bar_at(const worker *w, int b, int slot)
{
    return w->rec_bar + ((size_t)b * (size_t)w->l->max_slots + (size_t)slot) * w->s->rec_len;
}

/* ---- tiles ---- */

static void add_positions(worker *w, const double *dx_bar)
{
    int dim = w->l->e->dim;
    for (int p = 0; p < w->n; p++)
        for (int d = 0; d < dim; d++) {
            double v = dx_bar[p * dim + d];
            w->x_bar[w->slot[p] * dim + d] -= v;
            if (w->place[p].sums != NULL) ff_sums_add_one(w->place[p].sums, w->place[p].row * dim + d, v);
        }
}

static void flush(worker *w)
{
    const back_source *s = w->s;
    int n = w->n, n_len = w->l->e->n_len, dim = w->l->e->dim;
    const real *rec[TILE];
    real strength[TILE];
    double dx_bar[TILE * 3] = {0};
    if (n == 0) return;
    for (int b = 0; b < n_len; b++) {
        for (int p = 0; p < n; p++) {
            rec[p] = rec_at(w, b, w->slot[p]);
            strength[p] = w->strength[b * w->l->max_slots + w->slot[p]];
        }
        FF_T(ff_globe_tile_adjoint)
        (s->net[b], n, w->dx, rec, strength, w->out_bar, w->tile_rec_bar, w->tile_strength_bar,
         w->tile_dx_bar, w->grad + (size_t)b * w->l->grad_len, w->scratch);
        for (int p = 0; p < n; p++) {
            double *sum = rec_bar_at(w, b, w->slot[p]);
            const real *v = w->tile_rec_bar + (size_t)p * s->rec_len;
            for (size_t c = 0; c < s->rec_len; c++) sum[c] += (double)v[c];
            w->strength_bar[w->slot[p] * n_len + b] += (double)w->tile_strength_bar[p];
        }
        for (int k = 0; k < n * dim; k++) dx_bar[k] += (double)w->tile_dx_bar[k];
    }
    if (w->l->final ? ff_grad_moves(w->l->g) : ff_grad_faces(w->l->g)) add_positions(w, dx_bar);
    w->pairs += (int64_t)n * n_len;
    w->n = 0;
}

#include "ff_grad_sink_impl.h"

static real *push(worker *w, int slot, const double *x_t, ff_sums *sums, int64_t row)
{
    int dim = w->l->e->dim;
    if (w->n == TILE) flush(w);
    for (int d = 0; d < dim; d++) w->dx[w->n * dim + d] = (real)(x_t[d] - w->x[slot][d]);
    w->slot[w->n] = slot;
    w->place[w->n] = (place){sums, row};
    return w->out_bar + (size_t)w->n++ * (size_t)w->l->n_comp;
}

static void push_point(worker *w, int slot, int64_t p)
{
    const back *l = w->l;
    const grad_set *t = &l->g->set[w->i];
    if (w->sink != NULL) {
        sink_points(w, slot, p, 1);
        return;
    }
    real *bar = push(w, slot, t->x_point + p * l->e->dim, t->t_point[l->final], p);
    memcpy(bar, l->t_point[w->i] + p * l->n_comp, (size_t)l->n_comp * sizeof *bar);
}

/* Target node's centroid: mu-weighted where target and source tree are one boundary's, else the plain mean. */
static real *push_centroid(worker *w, int slot, int32_t node)
{
    const back *l = w->l;
    const grad_set *t = &l->g->set[w->i];
    bool weighted = w->i == w->j && !l->final;
    const double *x = (weighted ? t->x_node : t->x_plain) + (int64_t)node * l->e->dim;
    return push(w, slot, x, weighted ? t->t_node : t->t_plain[l->final], node);
}

static void push_node(worker *w, int slot, int32_t node)
{
    const back *l = w->l;
    if (w->sink != NULL) {
        sink_node(w, slot, node);
        return;
    }
    real *bar = push_centroid(w, slot, node);
    memcpy(bar, l->t_node[w->i] + (int64_t)node * l->n_comp, (size_t)l->n_comp * sizeof *bar);
}

/* Cotangents of a leaf's points in mask, added up. */
static void some_bar(const back *l, int i, int64_t first, uint64_t mask, real *bar)
{
    for (int c = 0; c < l->n_comp; c++) {
        double sum = 0;
        for (uint64_t m = mask; m != 0; m &= m - 1)
            sum += (double)l->t_point[i][(first + __builtin_ctzll(m)) * l->n_comp + c];
        bar[c] = (real)sum;
    }
}

/* Far-near: the value went to the leaf's targets in mask, so their cotangents add up. */
static void push_some(worker *w, int slot, int32_t node, int64_t first, uint64_t mask)
{
    const back *l = w->l;
    if (w->sink != NULL) {
        sink_some(w, slot, node, first, mask);
        return;
    }
    some_bar(l, w->i, first, mask, push_centroid(w, slot, node));
}

/* ---- the walk ---- */

static uint64_t low_bits(int64_t n)
{
    return n >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << n) - 1;
}

static ff_status emit_far(worker *w, const ff_dtt_lists *q, int slot)
{
    const ff_let *let = w->l->g->tlet[w->i];
    for (int64_t k = 0; k < q->n_far; k++) {
        int32_t t = q->far_s[k];
        if (!w->l->e->c->expand_far) {
            push_node(w, slot, t);
            continue;
        }
        int64_t first = ff_let_first_point(let, t);
        if (first < 0)
            return ff_fail(FF_E_INTERNAL, "gradient: points of target node %lld are not held",
                           (long long)let->tree->id[t]);
        if (w->sink != NULL) sink_points(w, slot, first, let->tree->count[t]);
        for (int64_t p = first; p < first + let->tree->count[t] && w->sink == NULL; p++)
            push_point(w, slot, p);
    }
    return FF_OK;
}

static void emit_leaf(worker *w, const ff_dtt_lists *q, int node_slot)
{
    const ff_tree *ts = w->l->e->let[w->j]->tree, *tt = w->l->g->tlet[w->i]->tree;
    int first_slot = ts->first[q->t] - w->first;
    for (int64_t k = 0; k < q->n_leaf; k++) {
        int32_t t = q->leaf_s[k];
        for (uint64_t a = low_bits(tt->count[t]) & ~q->t_mask[k]; a != 0; a &= a - 1)
            push_point(w, node_slot, tt->first[t] + __builtin_ctzll(a));
    }
    for (int b = 0; b < ts->count[q->t]; b++)
        for (int64_t k = 0; k < q->n_leaf; k++) {
            int32_t t = q->leaf_s[k];
            if (q->t_mask[k] == 0) continue;
            if ((q->s_mask[k] >> b & 1) == 0) {
                push_some(w, first_slot + b, t, tt->first[t], q->t_mask[k]);
                continue;
            }
            for (uint64_t a = q->t_mask[k]; a != 0; a &= a - 1)
                push_point(w, first_slot + b, tt->first[t] + __builtin_ctzll(a));
        }
}

static ff_status emit(void *ctx, const ff_dtt_lists *q)
{
    worker *w = ctx;
    if (q->t < w->node_begin || q->t >= w->node_end) return FF_OK; /* nodes above */
    int slot = w->n_points + q->t - w->node_begin;
    FF_TRY(emit_far(w, q, slot));
    emit_leaf(w, q, slot);
    return w->st;
}

/* ---- a unit ---- */

static const double *slot_x(const worker *w, int slot)
{
    const eval_set *set = &w->l->e->set[w->j];
    int64_t dim = w->l->e->dim;
    return slot < w->n_points ? set->x_point + (w->first + slot) * dim
                              : set->x_node + (w->node_begin + slot - w->n_points) * dim;
}

/* Raw features in the kernel's order: latent scalars, physical scalars | latent vectors, normals, physical vectors.
 * Raw feature k is latent value *lat, or static feature *stat; the other is -1. */
static void raw_order(const back_source *s, int k, int *lat, int *stat)
{
    *lat = *stat = -1;
    if (k < s->n_ls)
        *lat = k;
    else if (k < s->n_ls + s->n_s)
        *stat = k - s->n_ls;
    else if (k < s->n_ls + s->n_s + s->n_lv)
        *lat = k - s->n_s;
    else
        *stat = k - s->n_ls - s->n_lv;
}

static void slot_rows(const worker *w, int slot, const real **dyn, const double **stat)
{
    const ff_eval *e = w->l->e;
    const eval_set *set = &e->set[w->j];
    if (slot < w->n_points) {
        int64_t p = w->first + slot;
        *dyn = w->s->point + (p - e->let[w->j]->own_first) * e->n_dyn;
        *stat = set->stat_point + p * set->n_stat;
    } else {
        int64_t i = w->node_begin + slot - w->n_points;
        *dyn = w->s->node + i * e->n_dyn;
        *stat = set->stat_node + i * set->n_stat;
    }
}

static void raw_of(const back_source *s, const real *dyn, const double *stat, real *raw)
{
    for (int a = 0, lat, st; a < s->n_raw; a++) {
        raw_order(s, a, &lat, &st);
        raw[a] = lat >= 0 ? dyn[lat] : (real)stat[st];
    }
}

static void unit_range(worker *w)
{
    const back *l = w->l;
    const ff_tree *t = l->e->let[w->j]->tree;
    int32_t node = w->unit->node;
    w->node_begin = node;
    w->node_end = node + (w->unit->single ? 1 : (int32_t)ff_topo_nodes(t->count[node], t->leaf_size));
    w->n_points = w->unit->single ? 0 : (int)t->count[node];
    w->first = w->unit->single ? 0 : t->first[node];
    w->n_slots = w->n_points + w->node_end - w->node_begin;
}

/* The unit's sources as the layer sees them, and room for their cotangents. */
static void unit_open(worker *w)
{
    const back *l = w->l;
    const ff_eval *e = l->e;
    unit_range(w);
    size_t slots = (size_t)w->n_slots;
    for (int k = 0; k < w->n_slots; k++) {
        const real *dyn;
        const double *stat;
        slot_rows(w, k, &dyn, &stat);
        w->x[k] = slot_x(w, k);
        raw_of(w->s, dyn, stat, w->raw + k * w->s->n_raw);
        for (int b = 0; b < e->n_len; b++)
            w->strength[b * l->max_slots + k] = dyn[e->n_lat + ff_model_length_slot(e->c->model->config, b)];
    }
    for (int b = 0; b < e->n_len; b++)
        memset(rec_bar_at(w, b, 0), 0, slots * w->s->rec_len * sizeof *w->rec_bar);
    memset(w->raw_bar, 0, slots * (size_t)w->s->n_raw * sizeof *w->raw_bar);
    memset(w->strength_bar, 0, slots * (size_t)e->n_len * sizeof *w->strength_bar);
    memset(w->x_bar, 0, slots * (size_t)e->dim * sizeof *w->x_bar);
}

static void make_records(worker *w)
{
    for (int b = 0; b < w->l->e->n_len; b++)
        FF_T(ff_globe_records)(w->s->net[b], w->n_slots, w->raw, rec_at(w, b, 0));
}

/* The adjoint of records, and the unit's weight gradients to the exact sums. */
static void unit_records(worker *w)
{
    const back_source *s = w->s;
    for (int b = 0; b < w->l->e->n_len; b++) {
        real *grad = w->grad + (size_t)b * w->l->grad_len;
        for (int k0 = 0; k0 < w->n_slots; k0 += TILE) {
            int n = w->n_slots - k0 < TILE ? w->n_slots - k0 : TILE;
            for (int k = 0; k < n; k++)
                for (size_t c = 0; c < s->rec_len; c++)
                    w->tile_rec_bar[(size_t)k * s->rec_len + c] = (real)rec_bar_at(w, b, k0 + k)[c];
            FF_T(ff_globe_records_adjoint)
            (s->net[b], n, w->raw + k0 * s->n_raw, w->tile_rec_bar, w->tile_src_bar, grad, w->scratch);
            for (int k = 0; k < n * s->n_raw; k++)
                w->raw_bar[k0 * s->n_raw + k] += (double)w->tile_src_bar[k];
        }
        FF_T(ff_sums_add)(s->sums[b], 0, (int64_t)s->grad_len, grad);
        memset(grad, 0, s->grad_len * sizeof *grad);
    }
}

/* Cotangents of slot k to where its rows stand; those of its strengths are step apart. Each source belongs to one unit: its
 * rows are this thread's. */
static void slot_close(const worker *w, int k, const double *raw_bar, const double *strength_bar,
                       int64_t step, const double *x_bar)
{
    const back *l = w->l;
    const ff_eval *e = l->e;
    const grad_set *g = &l->g->set[w->j];
    int dim = e->dim, n_stat = e->set[w->j].n_stat;
    bool point = k < w->n_points;
    int64_t row = point ? w->first + k - e->let[w->j]->own_first : w->node_begin + k - w->n_points;
    double *dyn = (point ? w->s->point_bar : w->s->node_bar) + row * e->n_dyn;
    double *stat = point ? g->stat_bar : g->stat_node_bar, *x = point ? g->x_bar : g->x_node_bar;
    for (int a = 0, lat, st; a < w->s->n_raw; a++) {
        raw_order(w->s, a, &lat, &st);
        if (lat >= 0)
            dyn[lat] = l->unscale * raw_bar[a];
        else if (stat != NULL)
            stat[row * n_stat + st] += l->unscale * raw_bar[a];
    }
    for (int b = 0; b < e->n_len; b++)
        dyn[e->n_lat + ff_model_length_slot(e->c->model->config, b)] = l->unscale * strength_bar[b * step];
    for (int d = 0; d < dim && x != NULL; d++) x[row * dim + d] += l->unscale * x_bar[d];
}

static void unit_close(const worker *w)
{
    for (int k = 0; k < w->n_slots; k++)
        slot_close(w, k, w->raw_bar + k * w->s->n_raw, w->strength_bar + k * w->l->e->n_len, 1,
                   w->x_bar + k * w->l->e->dim);
}

/* All pairs of the unit, target cloud after target cloud. */
static ff_status unit_walk(worker *w)
{
    const back *l = w->l;
    const ff_eval *e = l->e;
    const ff_tree *t = e->let[w->j]->tree;
    int64_t begin = t->start[w->unit->node], count = t->count[w->unit->node];
    for (w->i = 0; w->i < e->n_cloud; w->i++)
        if (is_target(l, w->i))
            FF_TRY(ff_dtt_walk_sources(t, l->g->tlet[w->i]->tree, e->c->theta, begin, begin + count,
                                       w->unit->single ? count - 1 : 0, emit, w));
    return FF_OK;
}

static ff_status run_unit(worker *w)
{
    unit_open(w);
    make_records(w);
    FF_TRY(unit_walk(w));
    flush(w);
    unit_records(w);
    unit_close(w);
    return FF_OK;
}

/* ---- all units of the layer ---- */

static ff_status worker_alloc(worker *w, const back *l)
{
    size_t n_len = (size_t)l->e->n_len, slots = (size_t)l->max_slots, n_raw = (size_t)l->n_raw;
    memset(w, 0, sizeof *w);
    w->l = l;
    FF_TRY(FF_NEW(w->raw, slots * n_raw + 1));
    FF_TRY(FF_NEW(w->rec, n_len * slots * l->rec_len));
    FF_TRY(FF_NEW(w->strength, n_len * slots));
    FF_TRY(FF_NEW(w->x, slots));
    FF_TRY(FF_NEW(w->rec_bar, n_len * slots * l->rec_len));
    FF_TRY(FF_NEW(w->raw_bar, slots * n_raw + 1));
    FF_TRY(FF_NEW(w->strength_bar, slots * n_len));
    FF_TRY(FF_NEW(w->x_bar, slots * (size_t)l->e->dim));
    FF_TRY(FF_NEW0(w->grad, n_len * l->grad_len));
    FF_TRY(FF_NEW(w->out_bar, TILE * (size_t)l->n_comp));
    FF_TRY(FF_NEW(w->tile_rec_bar, TILE * l->rec_len));
    FF_TRY(FF_NEW(w->tile_src_bar, TILE * n_raw + 1));
    return FF_NEW(w->scratch, l->scratch_len);
}

static void worker_free(worker *w)
{
    ff_free(w->raw);
    ff_free(w->rec);
    ff_free(w->strength);
    ff_free(w->x);
    ff_free(w->rec_bar);
    ff_free(w->raw_bar);
    ff_free(w->strength_bar);
    ff_free(w->x_bar);
    ff_free(w->grad);
    ff_free(w->out_bar);
    ff_free(w->tile_rec_bar);
    ff_free(w->tile_src_bar);
    ff_free(w->scratch);
}

/* Units of all sources in one parallel loop. */
static ff_status run_units(back *l)
{
    const ff_eval *e = l->e;
    ff_status worker_st = FF_OK;
    int64_t n_all = 0, pairs = 0;
    for (int j = 0; j < e->n_src; j++) n_all += l->g->set[j].n_units;
    if (n_all == 0) return FF_OK;
#pragma omp parallel reduction(+ : pairs)
    {
        worker w;
        ff_status mine = worker_alloc(&w, l);
#pragma omp for schedule(dynamic, 1) nowait
        for (int64_t a = 0; a < n_all; a++) {
            int64_t k = a;
            int j = 0;
            for (; k >= l->g->set[j].n_units; j++) k -= l->g->set[j].n_units;
            if (mine != FF_OK) continue;
            w.j = j;
            w.s = &l->src[j];
            w.unit = &l->g->set[j].unit[k];
            mine = run_unit(&w);
            ff_progress_add(l->progress, 1);
        }
        pairs += w.pairs;
        worker_free(&w);
        if (mine != FF_OK) {
#pragma omp atomic write
            worker_st = mine;
        }
    }
    l->pairs += pairs;
    return worker_st;
}
