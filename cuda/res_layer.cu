/* A layer: records, pair sums of every source, adding up, outputs. */
#include "ff_resident.cuh"

typedef struct layer_source {
    const ff_cuda_net *const *net; /* [n_len] */
    void *h0[FF_RES_MAX_CLOUDS];
    float *strength[FF_RES_MAX_CLOUDS];
    int n_comp;
} layer_source;

/* Records [from, to) of source j for all branches; memory is made for all of them. */
static ff_status source_records(ff_resident *r, int k, int j, int64_t from, int64_t to, layer_source *s)
{
    const ff_resident_model *m = &r->m;
    const ff_res_cloud *c = &r->cloud[j];
    int64_t n = (int64_t)c->n_held + c->n_nodes;
    int slot[FF_RES_MAX_CLOUDS];
    void *h0[FF_RES_MAX_CLOUDS];
    float *strength[FF_RES_MAX_CLOUDS];
    s->net = (const ff_cuda_net *const *)m->net + (k * m->n_src + j) * m->n_len;
    s->n_comp = k == m->n_comm ? m->n_out : r->n_dyn;
    size_t h0_row = ff_h0_bytes(s->net[0]), rec = (size_t)s->net[0]->d.rec_len;
    size_t h0_bytes = ((size_t)n * h0_row + 255) / 256 * 256;
    FF_TRY(ff_res_need(r, FF_RES_REC, (size_t)n * rec * sizeof(float)));
    FF_TRY(ff_res_need(r, FF_RES_H0, h0_bytes * (size_t)m->n_len));
    FF_TRY(ff_res_need(r, FF_RES_STRENGTH, (size_t)n * sizeof(float) * (size_t)m->n_len));
    for (int b = 0; b < m->n_len; b++) {
        s->h0[b] = (char *)r->work[FF_RES_H0] + (size_t)b * h0_bytes;
        s->strength[b] = (float *)r->work[FF_RES_STRENGTH] + (int64_t)b * n;
        h0[b] = (char *)s->h0[b] + (size_t)from * h0_row;
        strength[b] = s->strength[b] + from;
        slot[b] = r->n_lat + m->slot[b];
    }
    if (from >= to) return FF_OK;
    ff_rec_rows rows = {to - from,
                        c->d_stat + from * c->n_stat,
                        c->d_dyn + from * r->n_dyn,
                        c->n_stat,
                        r->n_dyn,
                        c->n_scalar,
                        0,
                        0};
    if (k > 0) {
        rows.n_ls = m->n_ls;
        rows.n_lv = m->n_lv * m->dim;
    }
    return ff_records_run(s->net, m->n_len, &rows, (float *)r->work[FF_RES_REC] + (size_t)from * rec, h0,
                          strength, slot, ff_res_stream(r));
}

/* Branch b of source j on lists, rows into memory rows. */
static ff_pair_run_args run_args(const ff_resident *r, int j, const layer_source *s,
                                 const ff_cuda_lists *lists, int b, int rows)
{
    ff_pair_run_args a = {lists,
                          r->cloud[j].d_xs,
                          s->strength[b],
                          (const float *)r->work[FF_RES_REC],
                          s->h0[b],
                          (float *)r->work[FF_RES_PART],
                          (float *)r->work[rows],
                          b > 0,
                          0};
    return a;
}

static ff_status list_memory(ff_resident *r, const layer_source *s, const ff_cuda_lists *lists, int rows)
{
    FF_TRY(ff_res_need(r, FF_RES_PART, (size_t)lists->n_piece * (size_t)s->n_comp * sizeof(float)));
    return ff_res_need(r, rows, (size_t)lists->n_t * (size_t)s->n_comp * sizeof(float));
}

/* Pair sums of the lists' targets, all branches, into ROWS. */
static ff_status list_rows(ff_resident *r, int j, const layer_source *s, const ff_cuda_lists *lists)
{
    FF_TRY(list_memory(r, s, lists, FF_RES_ROWS));
    FF_TRY(ff_res_phase(r, "pairs"));
    for (int b = 0; b < r->m.n_len; b++) {
        ff_pair_run_args a = run_args(r, j, s, lists, b, FF_RES_ROWS);
        FF_TRY(ff_pair_run(s->net[b], &a, ff_res_stream(r)));
    }
    return ff_res_phase(r, "add-up");
}

static ff_status add_part(ff_resident *r, const ff_cuda_part *part, int n_comp, int rows, int i,
                          int64_t begin, bool first)
{
    const ff_res_cloud *c = &r->cloud[i];
    return ff_res_add(part, r->m.leaf_size, n_comp, (const float *)r->work[rows], first,
                      c->d_total + (begin - c->tree->own_begin) * n_comp, ff_res_stream(r));
}

/* Range q of cloud i against source j, a chunk at a time. */
static ff_status run_chunks(ff_resident *r, const layer_source *s, int k, int i, int q, int j)
{
    bool final = k == r->m.n_comm;
    ff_cuda_density density = {0, 0, 0};
    for (int64_t at = r->cloud[i].range[q]; at < r->cloud[i].range[q + 1];) {
        ff_res_chunk c;
        FF_TRY(ff_res_phase(r, "lists"));
        FF_TRY(ff_res_chunk_get(r, final, i, q, j, &at, &density, &c));
        ff_status st = list_rows(r, j, s, c.lists);
        if (st == FF_OK) st = add_part(r, &c.lists->part[0], s->n_comp, FF_RES_ROWS, i, c.begin, j == 0);
        ff_status done = ff_res_chunk_done(r, final, i, j, st == FF_OK && (k == 0 || final), &c);
        FF_TRY(st);
        FF_TRY(done);
    }
    return FF_OK;
}

static ff_status add_lists(ff_resident *r, const ff_cuda_lists *lists, int n_comp, int rows, bool final,
                           bool late, int j)
{
    int i, q;
    for (int p = 0; p < lists->n_parts; p++) {
        ff_res_part(r, final, late, p, &i, &q);
        FF_TRY(add_part(r, &lists->part[p], n_comp, rows, i, r->cloud[i].range[q], j == 0));
    }
    return FF_OK;
}

/* Node entries' places, where layers before had others. */
static ff_status list_places(ff_resident *r, const ff_cuda_lists *lists, int k, bool late, int j)
{
    bool final = k == r->m.n_comm;
    int i, q;
    for (int p = 0; p < lists->n_parts && (final || k == 0); p++) {
        ff_res_part(r, final, late, p, &i, &q);
        FF_TRY(ff_res_centroids(r, lists, p, final, i, j));
    }
    return FF_OK;
}

static ff_status run_lists(ff_resident *r, const layer_source *s, int k, bool late, int j)
{
    bool final = k == r->m.n_comm;
    ff_cuda_lists lists;
    ff_res_lists_of(r, final, late, j, &lists);
    FF_TRY(list_places(r, &lists, k, late, j));
    FF_TRY(list_rows(r, j, s, &lists));
    return add_lists(r, &lists, s->n_comp, FF_RES_ROWS, final, late, j);
}

static ff_status layer_aggregates(ff_resident *r)
{
    return ff_agg_run(&r->passes, r->d_view, &r->agg, r->n_dyn, false, r->d_sums, ff_res_stream(r));
}

/* ---- while an exchange is under way ---- */

/* Records of the first source's own points, where nothing else is done early. */
static bool has_first_records(const ff_resident *r, int k)
{
    ff_res_split split;
    return r->comm.size > 1 && r->m.n_src > 0 && ff_res_n_parts(r, k == r->m.n_comm, false) > 0 &&
           !ff_res_split_of(r, k, &split);
}

static ff_status first_records(ff_resident *r, int k)
{
    layer_source s;
    const ff_res_cloud *c = &r->cloud[0];
    if (!has_first_records(r, k)) return FF_OK;
    FF_TRY(ff_res_phase(r, "records"));
    return source_records(r, k, 0, c->own_first, c->own_first + c->n_own, &s);
}

/* Records of source j that are not there yet. */
static ff_status other_records(ff_resident *r, int k, int j, bool late, layer_source *s)
{
    const ff_res_cloud *c = &r->cloud[j];
    int64_t n = (int64_t)c->n_held + c->n_nodes;
    FF_TRY(ff_res_phase(r, "records"));
    if (late || j > 0 || !has_first_records(r, k)) return source_records(r, k, j, 0, n, s);
    FF_TRY(source_records(r, k, j, 0, c->own_first, s));
    return source_records(r, k, j, c->own_first + c->n_own, n, s);
}

/* Source ids in order: those of the subtree whose values are known early are [at[1], at[2]) and [at[3], at[4]). */
static void early_ids(const ff_resident *r, const ff_res_split *sp, int64_t at[6])
{
    const ff_res_cloud *c = &r->cloud[sp->source];
    at[0] = 0;
    at[1] = sp->from.start;
    at[2] = at[1] + sp->from.count;
    at[3] = c->n_held + sp->from.id;
    at[4] = at[3] + ff_topo_nodes(sp->from.count, r->m.leaf_size);
    at[5] = (int64_t)c->n_held + c->n_nodes;
}

/* Early pairs, first branch. Aggregates are worked out of all rows that are there: right in the subtree, of no meaning
 * beyond, where they are made anew once the others' values have come. Padding of the kernels reads record 0. */
static ff_status early_pairs(ff_resident *r, int k, const ff_res_split *sp)
{
    int64_t at[6];
    layer_source s;
    ff_cuda_lists whole;
    early_ids(r, sp, at);
    ff_res_lists_of(r, k == r->m.n_comm, false, sp->source, &whole);
    FF_TRY(ff_res_phase(r, "aggregates"));
    FF_TRY(layer_aggregates(r));
    FF_TRY(ff_res_phase(r, "records"));
    FF_TRY(source_records(r, k, sp->source, 0, 1, &s));
    for (int i = 1; i < 5; i += 2) FF_TRY(source_records(r, k, sp->source, at[i], at[i + 1], &s));
    FF_TRY(list_places(r, &whole, k, false, sp->source));
    FF_TRY(ff_res_split_targets(r, sp, &whole));
    FF_TRY(list_memory(r, &s, &whole, FF_RES_EARLY));
    FF_TRY(ff_res_phase(r, "pairs"));
    ff_pair_run_args a = run_args(r, sp->source, &s, &sp->list[0], 0, FF_RES_EARLY);
    if (r->comm.device != NULL) a.spare = r->comm.device->n_blocks;
    return ff_pair_launch(s.net[0], &a, ff_res_stream(r));
}

/* The source's other pairs and branches; its rows wait in EARLY for their turn to be added. */
static ff_status early_rest(ff_resident *r, int k, const ff_res_split *sp)
{
    int64_t at[6];
    layer_source s;
    ff_cuda_lists whole;
    early_ids(r, sp, at);
    ff_res_lists_of(r, k == r->m.n_comm, false, sp->source, &whole);
    FF_TRY(ff_res_phase(r, "records"));
    for (int i = 0; i < 6; i += 2) FF_TRY(source_records(r, k, sp->source, at[i], at[i + 1], &s));
    FF_TRY(ff_res_phase(r, "pairs"));
    ff_pair_run_args a = run_args(r, sp->source, &s, &sp->list[1], 0, FF_RES_EARLY);
    FF_TRY(ff_pair_launch(s.net[0], &a, ff_res_stream(r)));
    for (int b = 0; b < r->m.n_len; b++) {
        a = run_args(r, sp->source, &s, &whole, b, FF_RES_EARLY);
        FF_TRY(b == 0 ? ff_pair_reduce(s.net[b], &a, ff_res_stream(r))
                      : ff_pair_run(s.net[b], &a, ff_res_stream(r)));
    }
    return FF_OK;
}

/* Targets whose sources are all there before the rows of other ranks come in; or the late ones. Sources are added in
 * order. */
static ff_status layer_pairs(ff_resident *r, int k, bool late)
{
    bool final = k == r->m.n_comm;
    int n_parts = ff_res_n_parts(r, final, late);
    ff_res_split split;
    bool begun = ff_res_split_of(r, k, &split);
    if (begun) FF_TRY(early_rest(r, k, &split));
    for (int j = 0; j < r->m.n_src && n_parts > 0; j++) {
        layer_source s;
        if (begun && j == split.source) {
            ff_cuda_lists whole;
            ff_res_lists_of(r, final, late, j, &whole);
            FF_TRY(ff_res_phase(r, "add-up"));
            FF_TRY(add_lists(r, &whole, final ? r->m.n_out : r->n_dyn, FF_RES_EARLY, final, late, j));
            continue;
        }
        FF_TRY(other_records(r, k, j, late, &s));
        if (!r->chunked) FF_TRY(run_lists(r, &s, k, late, j));
        for (int p = 0, i, q; p < n_parts && r->chunked; p++) {
            ff_res_part(r, final, late, p, &i, &q);
            FF_TRY(run_chunks(r, &s, k, i, q, j));
        }
    }
    return FF_OK;
}

static ff_status layer_outputs(ff_resident *r, int k)
{
    ff_status st = FF_OK;
    const ff_resident_model *m = &r->m;
    bool final = k == m->n_comm;
    int n_comp = final ? m->n_out : r->n_dyn, n = ff_res_n_targets(r, final);
    ff_res_next next = {m->dim, m->n_ls, m->n_lv, m->n_len, m->compression, m->eps};
    FF_TRY(ff_res_phase(r, "outputs"));
    for (int p = 0; m->n_src == 0 && p < n; p++) {
        const ff_res_cloud *c = &r->cloud[ff_res_target(r, final, p)];
        FF_CU(cudaMemsetAsync(c->d_total, 0, (size_t)c->n_own * (size_t)n_comp * sizeof(double),
                              ff_res_stream(r)));
    }
    for (int p = 0; p < n; p++)
        FF_TRY(ff_res_outputs(&r->cloud[ff_res_target(r, final, p)], n_comp, final ? NULL : &next,
                              ff_res_stream(r)));
done:
    return st;
}

/* Values of the points that this rank has: own ones, or, with whole trees and before the first layer, all. */
static ff_status layer_values(ff_resident *r, int k)
{
    FF_TRY(ff_res_phase(r, "aggregates"));
    if (r->chunked && k == 0) FF_TRY(ff_res_counts_reset(r));
    for (int j = 0; k == 0 && j < r->m.n_src; j++)
        FF_TRY(ff_res_first_values(&r->cloud[j], r->n_lat, r->n_dyn, ff_res_stream(r)));
    return FF_OK;
}

static ff_status whole_layer(ff_resident *r, int k)
{
    ff_status st = layer_values(r, k);
    ff_res_split split;
    if (k > 0) FF_TRY(ff_res_gather_values_begin(r, st, 1 + k));
    if (k > 0 || st == FF_OK)
        st = ff_res_split_of(r, k, &split) ? early_pairs(r, k, &split) : first_records(r, k);
    ff_status ended = ff_res_gather_end(r);
    FF_TRY(st);
    FF_TRY(ended);
    FF_TRY(ff_res_phase(r, "aggregates"));
    FF_TRY(layer_aggregates(r));
    FF_TRY(layer_pairs(r, k, false));
    FF_TRY(layer_outputs(r, k));
    return ff_res_phase(r, NULL);
}

/* Own values and their aggregates. */
static ff_status layer_sources(ff_resident *r, int k)
{
    FF_TRY(layer_values(r, k));
    return layer_aggregates(r);
}

ff_status ff_res_layer(ff_resident *r, int k)
{
    if (ff_res_whole(r)) return whole_layer(r, k);
    FF_TRY(ff_res_exchange_begin(r, layer_sources(r, k), 1 + k));
    ff_status st = first_records(r, k), sums = ff_res_exchange_sums(r);
    if (st == FF_OK) st = sums;
    if (st == FF_OK) st = layer_pairs(r, k, false);
    ff_status ended = ff_res_exchange_end(r);
    FF_TRY(st);
    FF_TRY(ended);
    FF_TRY(layer_pairs(r, k, true));
    FF_TRY(layer_outputs(r, k));
    return ff_res_phase(r, NULL);
}
