/* A layer: records, pair sums of every source, adding up, outputs; and the pair lists it works on. */
#include "ff_resident.cuh"

#include <string.h>

/* ---- figures ---- */

/* Source ids that are points (sign 1), less the pairs of leaf entries, node centroid to point (sign -1). */
static __global__ void count_near(int64_t n, const int32_t *src, int32_t n_held, int sign,
                                  const int32_t *n_pairs, unsigned long long *near_pairs)
{
    int64_t sum = 0;
    for (int64_t k = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; k < n;
         k += (int64_t)gridDim.x * blockDim.x)
        sum += sign > 0 ? src[k] < n_held : n_pairs[k];
    for (int o = 16; o > 0; o /= 2) sum += __shfl_down_sync(0xffffffffu, sum, o);
    if (threadIdx.x % 32 == 0) atomicAdd(near_pairs, (unsigned long long)(sign * sum));
}

static ff_status reset_counts(ff_resident *r)
{
    ff_status st = FF_OK;
    memset(&r->counts, 0, sizeof r->counts);
    FF_CU(cudaMemsetAsync(r->d_near, 0, sizeof *r->d_near, ff_res_stream(r)));
done:
    return st;
}

/* Plans of the target boundary count once, though two kinds of layers have them. */
static ff_status count_lists(ff_resident *r, const ff_cuda_lists *l, int j, bool final)
{
    ff_status st = FF_OK;
    const ff_resident_model *m = &r->m;
    *(final ? &r->counts.final_evals : &r->counts.comm_evals) += l->pairs * m->n_len;
    if (m->n_comm == 0 ? !final : final && m->target < m->n_src) return FF_OK;
    r->counts.far_evals += l->pairs; /* near ones are taken off in ff_res_counts() */
    if (l->n_src_ids == 0) return FF_OK;
    count_near<<<512, 256, 0, ff_res_stream(r)>>>(l->n_src_ids, l->d_src, r->cloud[j].n_held, 1, NULL,
                                                  r->d_near);
    for (int p = 0; p < l->n_parts; p++)
        if (l->part[p].n_leaf > 0)
            count_near<<<64, 256, 0, ff_res_stream(r)>>>(l->part[p].n_leaf, NULL, 0, -1,
                                                         l->d_n_pairs + l->part[p].leaf_begin, r->d_near);
    FF_CU(cudaGetLastError());
done:
    return st;
}

ff_status ff_res_counts(ff_resident *r, ff_resident_counts *n)
{
    *n = r->counts;
    FF_TRY(ff_res_download(r, &n->near_pairs, r->d_near, sizeof n->near_pairs));
    n->far_evals -= n->near_pairs;
    return FF_OK;
}

/* ---- lists ---- */

/* Targets of a kind of layer: every source boundary, or the prediction points. */
static void targets_of(const ff_resident *r, bool final, int *from, int *to)
{
    *from = final ? r->m.target : 0;
    *to = final ? r->m.target + 1 : r->m.n_src;
}

static ff_cuda_target target_of(const ff_resident *r, bool final, int i, int j)
{
    const ff_res_cloud *c = &r->cloud[i];
    ff_cuda_target t = {c->tree, c->d_xp, !final && i == j ? c->d_xn : c->d_plain, c->tree->own_begin,
                        c->tree->own_end};
    return t;
}

static int64_t most_piece_bytes(const ff_resident *r)
{
    int64_t most = 0, n_comp = r->n_dyn > r->m.n_out ? r->n_dyn : r->m.n_out;
    for (int k = 0; k < 2 * r->m.n_src; k++) {
        const ff_cuda_lists *l = r->lists[k];
        int64_t bytes = (l->n_t + l->n_piece) * n_comp * (int64_t)sizeof(float);
        if (bytes > most) most = bytes;
    }
    return most;
}

static int64_t record_bytes(const ff_resident *r)
{
    int64_t most = 0;
    const ff_resident_model *m = &r->m;
    for (int k = 0; k <= m->n_comm; k++)
        for (int j = 0; j < m->n_src; j++) {
            const ff_cuda_net *net = (const ff_cuda_net *)m->net[(k * m->n_src + j) * m->n_len];
            int64_t row = (int64_t)(net->d.rec_len * sizeof(float)) +
                          (int64_t)(ff_h0_bytes(net) + sizeof(float)) * m->n_len;
            int64_t bytes = row * ((int64_t)r->cloud[j].n_held + r->cloud[j].n_nodes);
            if (bytes > most) most = bytes;
        }
    return most;
}

static void lists_drop(ff_resident *r)
{
    for (int k = 0; k < 2 * r->m.n_src; k++) ff_cuda_lists_destroy(r->impl->pool, &r->lists[k]);
}

static ff_status build_all(ff_resident *r)
{
    ff_status st = FF_OK;
    int n = r->m.n_src;
    ff_cuda_lists_args *args = NULL;
    ff_cuda_target *target = NULL;
    FF_GO(FF_NEW_CUDA(args, 2 * n + 1));
    FF_GO(FF_NEW_CUDA(target, n * (n + 1) + 1));
    for (int k = 0, at = 0; k < 2 * n; k++) {
        int from, to;
        bool final = k >= n;
        targets_of(r, final, &from, &to);
        args[k] =
            (ff_cuda_lists_args){target + at, to - from, r->cloud[k % n].tree, r->m.theta, r->m.expand_far};
        for (int i = from; i < to; i++) target[at++] = target_of(r, final, i, k % n);
    }
    FF_GO(ff_cuda_lists_build(r->impl->pool, args, 2 * n, r->lists));
done:
    ff_free(args);
    ff_free(target);
    return st;
}

/* All lists at once and for all layers, or, where they or their rows would not fit, chunk by chunk in every layer. */
ff_status ff_res_lists(ff_resident *r)
{
    int64_t budget = r->impl->budget;
    FF_TRY(reset_counts(r));
    if (r->m.n_src == 0 || r->chunked) return FF_OK; /* chunked: they did not fit the last time */
    ff_status st = build_all(r);
    if (st == FF_E_MEM && budget > 0) {
        ff_error_clear();
        r->chunked = true;
        return FF_OK;
    }
    FF_TRY(st);
    if (budget > 0 && ff_cuda_pool_used(r->impl->pool) + most_piece_bytes(r) + record_bytes(r) > budget) {
        lists_drop(r);
        r->chunked = true;
        return FF_OK;
    }
    for (int k = 0; k < 2 * r->m.n_src; k++)
        FF_TRY(count_lists(r, r->lists[k], k % r->m.n_src, k >= r->m.n_src));
    return FF_OK;
}

/* ---- a layer ---- */

typedef struct layer_source {
    const ff_cuda_net *const *net; /* [n_len] */
    void *h0[FF_RES_MAX_CLOUDS];
    float *strength[FF_RES_MAX_CLOUDS];
    int n_comp;
} layer_source;

/* Records of source j for all branches. */
static ff_status source_records(ff_resident *r, int k, int j, layer_source *s)
{
    const ff_resident_model *m = &r->m;
    const ff_res_cloud *c = &r->cloud[j];
    int64_t n = (int64_t)c->n_held + c->n_nodes;
    int slot[FF_RES_MAX_CLOUDS];
    s->net = (const ff_cuda_net *const *)m->net + (k * m->n_src + j) * m->n_len;
    s->n_comp = k == m->n_comm ? m->n_out : r->n_dyn;
    size_t h0_bytes = ((size_t)n * ff_h0_bytes(s->net[0]) + 255) / 256 * 256;
    FF_TRY(ff_res_need(r, FF_RES_REC, (size_t)n * (size_t)s->net[0]->d.rec_len * sizeof(float)));
    FF_TRY(ff_res_need(r, FF_RES_H0, h0_bytes * (size_t)m->n_len));
    FF_TRY(ff_res_need(r, FF_RES_STRENGTH, (size_t)n * sizeof(float) * (size_t)m->n_len));
    for (int b = 0; b < m->n_len; b++) {
        s->h0[b] = (char *)r->work[FF_RES_H0] + (size_t)b * h0_bytes;
        s->strength[b] = (float *)r->work[FF_RES_STRENGTH] + (int64_t)b * n;
        slot[b] = r->n_lat + m->slot[b];
    }
    ff_rec_rows rows = {n, c->d_stat, c->d_dyn, c->n_stat, r->n_dyn, c->n_scalar, 0, 0};
    if (k > 0) {
        rows.n_ls = m->n_ls;
        rows.n_lv = m->n_lv * m->dim;
    }
    return ff_records_run(s->net, m->n_len, &rows, (float *)r->work[FF_RES_REC], s->h0, s->strength, slot,
                          ff_res_stream(r));
}

/* Pair sums of the lists' targets, all branches, into ROWS. */
static ff_status list_rows(ff_resident *r, int j, const layer_source *s, const ff_cuda_lists *lists)
{
    FF_TRY(ff_res_need(r, FF_RES_PART, (size_t)lists->n_piece * (size_t)s->n_comp * sizeof(float)));
    FF_TRY(ff_res_need(r, FF_RES_ROWS, (size_t)lists->n_t * (size_t)s->n_comp * sizeof(float)));
    FF_TRY(ff_res_phase(r, "pairs"));
    for (int b = 0; b < r->m.n_len; b++) {
        ff_pair_run_args a = {lists,
                              r->cloud[j].d_xs,
                              s->strength[b],
                              (const float *)r->work[FF_RES_REC],
                              s->h0[b],
                              (float *)r->work[FF_RES_PART],
                              (float *)r->work[FF_RES_ROWS],
                              b > 0};
        FF_TRY(ff_pair_run(s->net[b], &a, ff_res_stream(r)));
    }
    return ff_res_phase(r, "add-up");
}

static ff_status add_part(ff_resident *r, const ff_cuda_part *part, int n_comp, int i, int64_t begin,
                          bool first)
{
    const ff_res_cloud *c = &r->cloud[i];
    return ff_res_add(part, r->m.leaf_size, n_comp, (const float *)r->work[FF_RES_ROWS], first,
                      c->d_total + (begin - c->tree->own_begin) * n_comp, ff_res_stream(r));
}

/* Targets of cloud i against source j, a chunk at a time: lists take two fifths of what is left, their rows the rest. */
static ff_status run_chunks(ff_resident *r, const layer_source *s, int k, int i, int j)
{
    ff_status st = FF_OK;
    ff_cuda_pool *pool = r->impl->pool;
    bool final = k == r->m.n_comm;
    ff_cuda_target target = target_of(r, final, i, j);
    ff_cuda_lists_args args = {&target, 1, r->cloud[j].tree, r->m.theta, r->m.expand_far};
    ff_cuda_lists *lists = NULL;
    ff_cuda_density density = {0, 0, 0};
    for (int64_t at = target.begin; at < target.end;) {
        int64_t begin = at, kept = (int64_t)(r->work_bytes[FF_RES_PART] + r->work_bytes[FF_RES_ROWS]);
        int64_t left = r->impl->budget - ff_cuda_pool_used(pool) + kept;
        FF_GO(ff_res_phase(r, "lists"));
        FF_GO(ff_cuda_lists_next(pool, &args, left / 5 * 2, &at, &density, &lists));
        FF_GO(list_rows(r, j, s, lists));
        FF_GO(add_part(r, &lists->part[0], s->n_comp, i, begin, j == 0));
        if (k == 0 || final) FF_GO(count_lists(r, lists, j, final));
        ff_cuda_lists_destroy(pool, &lists);
    }
done:
    ff_cuda_lists_destroy(pool, &lists);
    return st;
}

static ff_status run_lists(ff_resident *r, const layer_source *s, bool final, int j)
{
    const ff_cuda_lists *lists = r->lists[(final ? r->m.n_src : 0) + j];
    int from, to;
    targets_of(r, final, &from, &to);
    FF_TRY(list_rows(r, j, s, lists));
    for (int i = from; i < to; i++)
        FF_TRY(add_part(r, &lists->part[i - from], s->n_comp, i, r->cloud[i].tree->own_begin, j == 0));
    return FF_OK;
}

static ff_status layer_pairs(ff_resident *r, int k)
{
    ff_status st = FF_OK;
    const ff_resident_model *m = &r->m;
    bool final = k == m->n_comm;
    int n_comp = final ? m->n_out : r->n_dyn, from, to;
    ff_res_next next = {m->dim, m->n_ls, m->n_lv, m->n_len, m->compression, m->eps};
    targets_of(r, final, &from, &to);
    for (int i = from; m->n_src == 0 && i < to; i++)
        FF_CU(cudaMemsetAsync(r->cloud[i].d_total, 0,
                              (size_t)r->cloud[i].n_own * (size_t)n_comp * sizeof(double), ff_res_stream(r)));
    for (int j = 0; j < m->n_src; j++) {
        layer_source s;
        FF_TRY(ff_res_phase(r, "records"));
        FF_TRY(source_records(r, k, j, &s));
        for (int i = from; i < to && r->chunked; i++) FF_TRY(run_chunks(r, &s, k, i, j));
        if (!r->chunked) FF_TRY(run_lists(r, &s, final, j));
    }
    FF_TRY(ff_res_phase(r, "outputs"));
    for (int i = from; i < to; i++)
        FF_TRY(ff_res_outputs(&r->cloud[i], n_comp, final ? NULL : &next, ff_res_stream(r)));
done:
    return st;
}

ff_status ff_res_layer(ff_resident *r, int k)
{
    ff_status st = ff_res_phase(r, "aggregates");
    if (st == FF_OK && r->chunked && k == 0) st = reset_counts(r);
    if (st == FF_OK && k == 0)
        for (int j = 0; j < r->m.n_src && st == FF_OK; j++)
            st = ff_res_first_values(&r->cloud[j], r->n_lat, r->n_dyn, ff_res_stream(r));
    if (st == FF_OK)
        st = ff_agg_run(&r->passes, r->d_view, &r->agg, r->n_dyn, false, r->d_sums, ff_res_stream(r));
    FF_TRY(ff_res_exchange(r, st, false));
    FF_TRY(layer_pairs(r, k));
    return ff_res_phase(r, NULL);
}
