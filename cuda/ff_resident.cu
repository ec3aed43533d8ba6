/* The resident evaluation: what stands on the device between calls. One stream; the host waits for sizes (trees,
 * lists), for exchanges, and for results, never inside a layer on one rank. */
#include "ff_resident.cuh"

extern "C" {
#include "ff_mem_hold.h"
}

#include <nvtx3/nvToolsExt.h>
#include <string.h>

/* ---- clouds ---- */

/* Pinned memory between ranks, which calls on a lost communicator may still use. */
static void free_messages(void *p)
{
    if (!ff_mem_held()) (void)cudaFreeHost(p);
}

static void cloud_free(ff_resident *r, ff_res_cloud *c)
{
    ff_cuda_pool *pool = r->impl->pool;
    const void *block[] = {c->d_order, c->d_xp,     c->d_xn,     c->d_plain,  c->d_xs,    c->d_mu,
                           c->d_stat,  c->d_dyn,    c->d_total,  c->d_out,    c->d_upper, c->d_send,
                           c->d_recv,  c->d_msg[0], c->d_msg[1], c->d_allsum, c->d_up,    c->d_level_off};
    for (int k = 0; k < FF_RES_N_GIVEN; k++) ff_cuda_free(pool, c->d_given[k]);
    ff_cuda_tree_destroy(pool, &c->tree);
    for (size_t k = 0; k < sizeof block / sizeof *block; k++) ff_cuda_free(pool, block[k]);
    free_messages(c->h_msg[0]);
    free_messages(c->h_msg[1]);
    free_messages(c->h_urow);
    free_messages(c->h_brow);
    ff_free(c->home);
    ff_free(c->cut);
    ff_free(c->range);
    ff_free(c->late);
    memset(c, 0, sizeof *c);
}

static void drop(ff_resident *r)
{
    ff_cuda_pool *pool = r->impl->pool;
    ff_res_split_drop(r);
    if (r->lists != NULL && r->kept != NULL) ff_res_lists_drop(r);
    for (int i = 0; i < r->m.n_cloud && r->cloud != NULL; i++) cloud_free(r, &r->cloud[i]);
    ff_cuda_free(pool, r->d_view);
    r->d_view = NULL;
}

static void passes_free(ff_resident *r)
{
    ff_agg_free(r->impl->pool, &r->passes);
    ff_cuda_free(r->impl->pool, r->d_sums);
    r->d_sums = NULL;
    r->passes_good = false;
}

/* The passes follow from the counts of points alone where a rank holds all of them. */
static ff_status make_passes(ff_resident *r, const ff_resident_cloud *given)
{
    ff_status st = FF_OK;
    size_t bytes;
    bool same = r->passes_good && (r->comm.size == 1 || ff_res_whole(r));
    for (int i = 0; i < r->m.n_cloud; i++) {
        same = same && r->passes_n[i] == r->cloud[i].n;
        r->passes_n[i] = r->cloud[i].n;
    }
    if (same) return FF_OK;
    passes_free(r);
    FF_TRY(ff_agg_build(r->impl->pool, r->cloud, r->m.n_cloud, r->m.leaf_size, given, &r->passes));
    bytes = (size_t)r->passes.n_slots * (size_t)r->agg.stride * sizeof(double);
    FF_TRY(ff_cuda_alloc(r->impl->pool, bytes, &r->d_sums));
    FF_CU(cudaMemsetAsync(r->d_sums, 0, bytes, ff_res_stream(r)));
    r->passes_good = true;
done:
    return st;
}

static ff_status cloud_tree(ff_resident *r, ff_res_cloud *c, const ff_resident_cloud *g)
{
    ff_status st = FF_OK;
    ff_cuda_pool *pool = r->impl->pool;
    float *d_x32 = NULL;
    if (g->tree != NULL) {
        FF_GO(ff_cuda_tree_upload(pool, g->tree, g->own_first, g->own_begin, g->own_begin + g->n, &c->tree));
    } else {
        const float *d_x = (const float *)c->d_given[0];
        FF_GO(ff_cuda_alloc(pool, (size_t)c->n * sizeof(int64_t), &c->d_order));
        if (d_x == NULL) FF_GO(ff_res_put(r, g->x32, (size_t)(c->n * r->m.dim) * sizeof(float), &d_x32));
        FF_GO(ff_cuda_tree_build(pool, d_x != NULL ? d_x : d_x32, c->n, r->m.dim, r->m.leaf_size, c->d_order,
                                 &c->tree));
    }
    if (ff_res_whole(r)) {
        c->tree->own_begin = c->cut[r->comm.rank];
        c->tree->own_end = c->cut[r->comm.rank + 1];
        c->tree->own_first = (int32_t)c->tree->own_begin;
    }
    c->n_held = c->tree->n_held;
    c->n_nodes = c->tree->n_nodes;
    c->own_first = c->tree->own_first;
done:
    ff_cuda_free(pool, d_x32);
    return st;
}

static int most_comp(const ff_resident *r)
{
    return r->n_dyn > r->m.n_out ? r->n_dyn : r->m.n_out;
}

static ff_status cloud_alloc(ff_resident *r, ff_res_cloud *c)
{
    ff_status st = FF_OK;
    ff_cuda_pool *pool = r->impl->pool;
    size_t np = (size_t)c->n_held, nn = (size_t)c->n_nodes, dim = (size_t)r->m.dim, f = sizeof(float),
           d = sizeof(double);
    size_t comp = (size_t)most_comp(r);
    FF_TRY(ff_cuda_alloc(pool, np * dim * d, &c->d_xp));
    FF_TRY(ff_cuda_alloc(pool, nn * dim * d, &c->d_plain));
    FF_TRY(ff_cuda_alloc(pool, (size_t)c->n_own * comp * d, &c->d_total));
    FF_TRY(ff_cuda_alloc(pool, (size_t)c->n * comp * f, &c->d_out));
    if (!c->source) return FF_OK;
    FF_TRY(ff_cuda_alloc(pool, nn * dim * d, &c->d_xn));
    FF_TRY(ff_cuda_alloc(pool, (np + nn) * 4 * d, &c->d_xs));
    FF_TRY(ff_cuda_alloc(pool, (np + nn) * d, &c->d_mu));
    FF_TRY(ff_cuda_alloc(pool, (np + nn) * (size_t)c->n_stat * f, &c->d_stat));
    FF_TRY(ff_cuda_alloc(pool, (np + nn) * (size_t)r->n_dyn * f, &c->d_dyn));
    /* what no plan names is never read, but records are made of every row */
    FF_CU(cudaMemsetAsync(c->d_xs, 0, (np + nn) * 4 * d, ff_res_stream(r)));
    if (r->comm.size > 1 && !ff_res_whole(r)) {
        FF_CU(cudaMemsetAsync(c->d_mu, 0, (np + nn) * d, ff_res_stream(r)));
        FF_CU(cudaMemsetAsync(c->d_stat, 0, (np + nn) * (size_t)c->n_stat * f, ff_res_stream(r)));
        FF_CU(cudaMemsetAsync(c->d_dyn, 0, (np + nn) * (size_t)r->n_dyn * f, ff_res_stream(r)));
        FF_CU(cudaMemsetAsync(c->d_xp, 0, np * dim * d, ff_res_stream(r)));
        FF_CU(cudaMemsetAsync(c->d_xn, 0, nn * dim * d, ff_res_stream(r)));
    }
done:
    return st;
}

static ff_status cloud_fill(ff_resident *r, ff_res_cloud *c, const ff_resident_cloud *g)
{
    ff_status st = FF_OK;
    ff_cuda_pool *pool = r->impl->pool;
    size_t row = (size_t)c->n * sizeof(double), dim = (size_t)r->m.dim;
    void *d[4] = {NULL, NULL, NULL, NULL};
    FF_GO(ff_res_phase(r, "transfer"));
    for (int k = 0; k < 4; k++) { /* frees what was gathered */
        d[k] = c->d_given[1 + k];
        c->d_given[1 + k] = NULL;
    }
    if (d[0] == NULL) FF_GO(ff_res_put(r, g->x, row * dim, &d[0]));
    if (c->source && d[1] == NULL) {
        FF_GO(ff_res_put(r, g->normal, row * dim, &d[1]));
        FF_GO(ff_res_put(r, g->field, row * ((size_t)c->n_stat - dim), &d[2]));
        FF_GO(ff_res_put(r, g->mu, row, &d[3]));
    }
    FF_GO(ff_res_phase(r, "aggregates"));
    {
        ff_res_input in = {(const double *)d[0], (const double *)d[1], (const double *)d[2],
                           (const double *)d[3]};
        FF_GO(ff_res_take(c, r->m.dim, &in, ff_res_stream(r)));
    }
done:
    for (int k = 0; k < 4; k++) ff_cuda_free(pool, d[k]);
    return st;
}

/* ---- start ---- */

/* Counts of points and features; on all ranks alike where all hold all points. */
static void start_shapes(ff_resident *r, const ff_resident_cloud *given)
{
    const ff_resident_model *m = &r->m;
    int rank = r->comm.rank, most = 0;
    drop(r);
    r->n_phases = r->n_events = 0;
    for (int i = 0; i < m->n_cloud; i++) {
        ff_res_cloud *c = &r->cloud[i];
        const ff_resident_cloud *g = &given[i];
        c->source = i < m->n_src;
        c->n = ff_res_whole(r) ? g->home[r->comm.size] : g->n;
        c->n_own = ff_res_whole(r) ? g->cut[rank + 1] - g->cut[rank] : g->n;
        r->chunked = r->chunked && r->passes_n[i] == c->n;
        c->n_scalar = c->source ? m->n_scalar[i] : 0;
        c->n_stat = c->source ? m->n_stat[i] : 0;
        int width = ff_agg_width(c, &r->agg, true);
        if (width > most) most = width;
    }
    if (r->n_dyn > most) most = r->n_dyn;
    r->agg.stride = most + 1;
}

static ff_status start_local(ff_resident *r, const ff_resident_cloud *given)
{
    const ff_resident_model *m = &r->m;
    ff_agg_view view[FF_RES_MAX_CLOUDS];
    FF_TRY(ff_res_phase(r, "tree"));
    for (int i = 0; i < m->n_cloud; i++) FF_TRY(cloud_tree(r, &r->cloud[i], &given[i]));
    for (int i = 0; i < m->n_cloud; i++) {
        FF_TRY(cloud_alloc(r, &r->cloud[i]));
        FF_TRY(cloud_fill(r, &r->cloud[i], &given[i]));
        FF_TRY(ff_res_messages(r, &r->cloud[i], &given[i]));
        FF_TRY(ff_res_ranges(r, &r->cloud[i], &given[i]));
        view[i] = ff_agg_view_of(&r->cloud[i]);
    }
    FF_TRY(ff_res_phase(r, "aggregates"));
    FF_TRY(ff_res_put(r, view, (size_t)m->n_cloud * sizeof *view, &r->d_view));
    FF_TRY(make_passes(r, given));
    return ff_agg_run(&r->passes, r->d_view, &r->agg, r->agg.stride - 1, true, r->d_sums, ff_res_stream(r));
}

/* Every rank's share of the points to all, then as on one rank. */
static ff_status start_whole(ff_resident *r, const ff_resident_cloud *given)
{
    ff_status st = ff_res_phase(r, "transfer");
    for (int i = 0; i < r->m.n_cloud && st == FF_OK; i++) st = ff_res_given(r, &r->cloud[i], &given[i]);
    FF_TRY(ff_res_gather_given(r, st));
    return start_local(r, given);
}

static ff_status start_parts(ff_resident *r, const ff_resident_cloud *given)
{
    FF_TRY(ff_res_exchange_begin(r, start_local(r, given), 0));
    ff_status st = ff_res_exchange_sums(r), ended = ff_res_exchange_end(r);
    return st == FF_OK ? ended : st;
}

static ff_status res_start(ff_resident *r, const ff_resident_cloud *given)
{
    (void)ff_cuda_pool_kind(r->impl->pool, FF_CUDA_POINTS);
    start_shapes(r, given);
    FF_TRY(ff_res_whole(r) ? start_whole(r, given) : start_parts(r, given));
    FF_TRY(ff_res_phase(r, "lists"));
    (void)ff_cuda_pool_kind(r->impl->pool, FF_CUDA_LISTS);
    FF_TRY(ff_res_lists(r));
    FF_TRY(ff_res_split_lists(r));
    (void)ff_cuda_pool_kind(r->impl->pool, FF_CUDA_POINTS);
    return ff_res_phase(r, NULL);
}

/* ---- results ---- */

/* Of the rows in the order given, those that this rank gave. */
static void home_rows(const ff_resident *r, const ff_res_cloud *c, int64_t *from, int64_t *n)
{
    *from = ff_res_whole(r) ? c->home[r->comm.rank] : 0;
    *n = ff_res_whole(r) ? c->home[r->comm.rank + 1] - *from : c->n;
}

static ff_status res_rows(ff_resident *r, int k, int cloud, float *rows)
{
    const ff_res_cloud *c = &r->cloud[cloud];
    int64_t n_comp = k == r->m.n_comm ? r->m.n_out : r->n_dyn, from, n;
    ff_status st = ff_res_need(r, FF_RES_HOME, (size_t)(c->n * n_comp) * sizeof(float));
    if (ff_res_whole(r)) st = ff_res_gather_out(r, st, cloud, (int)n_comp);
    FF_TRY(st);
    FF_TRY(ff_res_home(c, (int)n_comp, (float *)r->work[FF_RES_HOME], ff_res_stream(r)));
    home_rows(r, c, &from, &n);
    return ff_res_download(r, rows, (float *)r->work[FF_RES_HOME] + from * n_comp,
                           (size_t)(n * n_comp) * sizeof(float));
}

static ff_status res_fields(ff_resident *r, double *out)
{
    const ff_res_cloud *c = &r->cloud[r->m.target];
    int64_t n_out = r->m.n_out, from, n;
    ff_status st = ff_res_phase(r, "transfer");
    if (st == FF_OK) st = ff_res_need(r, FF_RES_HOME, (size_t)(c->n * n_out) * sizeof(double));
    if (ff_res_whole(r)) st = ff_res_gather_out(r, st, r->m.target, (int)n_out);
    FF_TRY(st);
    FF_TRY(ff_res_fields(c, (int)n_out, r->d_weight, r->d_bias, (double *)r->work[FF_RES_HOME],
                         ff_res_stream(r)));
    home_rows(r, c, &from, &n);
    FF_TRY(ff_res_download(r, out, (double *)r->work[FF_RES_HOME] + from * n_out,
                           (size_t)(n * n_out) * sizeof(double)));
    return ff_res_phase(r, NULL);
}

static ff_status res_values(ff_resident *r, int source, float *rows)
{
    const ff_res_cloud *c = &r->cloud[source];
    return ff_res_download(r, rows, c->d_dyn + (int64_t)c->own_first * r->n_dyn,
                           (size_t)c->n_own * (size_t)r->n_dyn * sizeof(float));
}

/* ---- life ---- */

static void res_idle(ff_resident *r)
{
    for (int k = 0; k < FF_RES_N_WORK; k++) {
        ff_cuda_free(r->impl->pool, r->work[k]);
        r->work[k] = NULL;
        r->work_bytes[k] = 0;
    }
}

/* Streams and events of several ranks. Messages go first where both streams have work: others wait for them. */
static ff_status ranks_alloc(ff_resident *r)
{
    ff_status st = FF_OK;
    int n = r->m.n_comm + 3, least = 0, most = 0;
    size_t n_msg = (size_t)r->comm.size * (size_t)r->m.n_cloud * FF_RES_N_GIVEN;
    if (r->comm.size == 1) return FF_OK;
    FF_TRY(FF_NEW_CUDA(r->exchange, n));
    FF_TRY(FF_NEW_CUDA(r->gather_off, r->comm.size + 1));
    FF_TRY(FF_NEW_CUDA(r->runs, r->m.n_cloud * FF_RES_N_GIVEN + 1));
    FF_TRY(FF_NEW_CUDA(r->msgs.send, n_msg + 1));
    FF_TRY(FF_NEW_CUDA(r->msgs.recv, n_msg + 1));
    FF_CU(cudaDeviceGetStreamPriorityRange(&least, &most));
    FF_CU(cudaStreamCreateWithPriority(&r->messages, cudaStreamNonBlocking, most));
    for (int k = 0; k < n; k++)
        for (int i = 0; i < FF_RES_X_EVENTS; i++) FF_CU(cudaEventCreate(&r->exchange[k].event[i]));
done:
    return st;
}

static void ranks_free(ff_resident *r)
{
    for (int k = 0; k < r->m.n_comm + 3 && r->exchange != NULL; k++)
        for (int i = 0; i < FF_RES_X_EVENTS; i++)
            if (r->exchange[k].event[i] != NULL) (void)cudaEventDestroy(r->exchange[k].event[i]);
    if (r->messages != NULL) (void)cudaStreamDestroy(r->messages);
    ff_free(r->exchange);
    free_messages(r->h_gather);
    ff_free(r->gather_off);
    ff_free(r->runs);
    ff_free(r->msgs.send);
    ff_free(r->msgs.recv);
}

static void res_destroy(ff_resident **rp)
{
    ff_resident *r = *rp;
    if (r == NULL) return;
    drop(r);
    passes_free(r);
    ff_free(r->passes_n);
    res_idle(r);
    ff_cuda_free(r->impl->pool, r->d_count);
    ff_cuda_free(r->impl->pool, r->d_weight);
    ff_cuda_free(r->impl->pool, r->d_bias);
    for (int k = 0; k < 2; k++) {
        (void)cudaFreeHost(r->h_stage[k]);
        if (r->stage_free[k] != NULL) (void)cudaEventDestroy(r->stage_free[k]);
    }
    for (int k = 0; k < FF_RES_EVENTS; k++)
        if (r->event[k] != NULL) (void)cudaEventDestroy(r->event[k]);
    (void)cudaFreeHost(r->h_out);
    ranks_free(r);
    if (r->open) nvtxRangePop();
    ff_free(r->cloud);
    ff_free(r->lists);
    ff_free(r->final_total);
    ff_free(r->kept);
    ff_free(r);
    *rp = NULL;
}

static ff_status res_create(void *impl, const ff_resident_model *m, const ff_resident_comm *comm,
                            ff_resident **out)
{
    ff_status st = FF_OK;
    ff_resident *r = NULL;
    *out = NULL;
    if (m->n_cloud > FF_RES_MAX_CLOUDS || m->n_len > FF_RES_MAX_CLOUDS)
        return ff_fail(FF_E_UNSUPPORTED, "cuda: %d boundaries, %d lengths, at most %d of each", m->n_cloud,
                       m->n_len, (int)FF_RES_MAX_CLOUDS);
    FF_TRY(FF_NEW_CUDA(r, 1));
    r->impl = (ff_cuda_impl *)impl;
    r->m = *m;
    r->comm = *comm;
    r->n_lat = m->n_ls + m->n_lv * m->dim;
    r->n_dyn = r->n_lat + m->n_len;
    r->agg = (ff_agg_dims){m->dim, r->n_lat, r->n_dyn, 0};
    FF_GO(FF_NEW_CUDA(r->cloud, m->n_cloud + 1));
    FF_GO(FF_NEW_CUDA(r->lists, 4 * m->n_src + 1));
    FF_GO(ranks_alloc(r));
    FF_GO(FF_NEW_CUDA(r->passes_n, m->n_cloud + 1));
    FF_GO(FF_NEW_CUDA(r->final_total, 4 * m->n_src + 1));
    FF_GO(FF_NEW_CUDA(r->kept, 2 * m->n_cloud * m->n_src + 1));
    for (int k = 0; k < FF_RES_EVENTS; k++) FF_CU(cudaEventCreate(&r->event[k]));
    for (int k = 0; k < 2; k++) {
        FF_CU(cudaMallocHost(&r->h_stage[k], FF_RES_STAGE_BYTES));
        FF_CU(cudaEventCreateWithFlags(&r->stage_free[k], cudaEventDisableTiming));
    }
    FF_GO(ff_cuda_alloc(r->impl->pool, 2 * sizeof *r->d_count, &r->d_count));
    FF_GO(ff_res_put(r, m->weight, (size_t)m->n_out * sizeof(float), &r->d_weight));
    FF_GO(ff_res_put(r, m->bias, (size_t)m->n_out * sizeof(float), &r->d_bias));
    *out = r;
    r = NULL;
done:
    res_destroy(&r);
    return st;
}

const ff_resident_ops ff_cuda_resident_ops = {res_create,    res_destroy,    res_start,  ff_res_layer,
                                              res_rows,      res_fields,     res_values, ff_res_counts,
                                              ff_res_phases, ff_res_traffic, res_idle};
