/* Several ranks: sums of own subtrees and rows of sources that other ranks read, staged through pinned host memory. */
#include "ff_resident.cuh"

/* ---- several ranks ---- */

ff_status ff_res_messages(ff_resident *r, ff_res_cloud *c, const ff_resident_cloud *g)
{
    ff_status st = FF_OK;
    ff_cuda_pool *pool = r->impl->pool;
    size_t stride = (size_t)r->agg.stride * sizeof(double);
    size_t upper = (size_t)g->n_upper * stride, bottom = (size_t)g->n_bottom * stride;
    size_t geo = ff_res_row_bytes(c, r->m.dim, r->n_dyn, true),
           dyn = ff_res_row_bytes(c, r->m.dim, r->n_dyn, false), widest = geo > dyn ? geo : dyn;
    if (r->comm.size == 1) return FF_OK;
    c->n_upper = g->n_upper;
    FF_TRY(ff_res_put(r, g->upper, (size_t)g->n_upper * sizeof(int32_t), &c->d_upper));
    FF_TRY(ff_cuda_alloc(pool, upper, &c->d_urow));
    FF_CU(cudaMallocHost(&c->h_urow, upper + 8));
    FF_CU(cudaMallocHost(&c->h_brow, bottom + 8));
    if (!c->source) return FF_OK;
    c->n_send = g->n_send;
    c->n_recv = g->n_recv;
    FF_TRY(ff_res_put(r, g->send, (size_t)g->n_send * sizeof(int32_t), &c->d_send));
    FF_TRY(ff_res_put(r, g->recv, (size_t)g->n_recv * sizeof(int32_t), &c->d_recv));
    for (int k = 0; k < 2; k++) {
        size_t bytes = (size_t)(k == 0 ? c->n_send : c->n_recv) * widest;
        FF_TRY(ff_cuda_alloc(pool, bytes, &c->d_msg[k]));
        FF_CU(cudaMallocHost(&c->h_msg[k], bytes + 8));
    }
done:
    return st;
}

/* Sums of own subtrees and rows that others read, to pinned memory. */
static ff_status send_ready(ff_resident *r, bool geometry)
{
    ff_status st = FF_OK;
    cudaStream_t s = ff_res_stream(r);
    for (int i = 0; i < r->m.n_cloud; i++) {
        ff_res_cloud *c = &r->cloud[i];
        if (!geometry && !c->source) continue;
        size_t stride = (size_t)r->agg.stride;
        if (c->n_bottom > 0)
            FF_CU(cudaMemcpyAsync(c->h_brow, r->d_sums + (size_t)c->slot0 * stride,
                                  (size_t)c->n_bottom * stride * sizeof(double), cudaMemcpyDeviceToHost, s));
        if (!c->source || c->n_send == 0) continue;
        FF_TRY(ff_res_pack(c, true, r->m.dim, r->n_dyn, geometry, s));
        FF_CU(cudaMemcpyAsync(c->h_msg[0], c->d_msg[0],
                              (size_t)c->n_send * ff_res_row_bytes(c, r->m.dim, r->n_dyn, geometry),
                              cudaMemcpyDeviceToHost, s));
    }
    FF_CU(cudaStreamSynchronize(s));
done:
    return st;
}

static ff_status received(ff_resident *r, bool geometry)
{
    ff_status st = FF_OK;
    cudaStream_t s = ff_res_stream(r);
    for (int i = 0; i < r->m.n_cloud; i++) {
        ff_res_cloud *c = &r->cloud[i];
        if (!geometry && !c->source) continue;
        if (c->n_upper > 0) {
            FF_CU(cudaMemcpyAsync(c->d_urow, c->h_urow,
                                  (size_t)c->n_upper * (size_t)r->agg.stride * sizeof(double),
                                  cudaMemcpyHostToDevice, s));
            FF_TRY(ff_agg_upper(c, &r->agg, geometry, s));
        }
        if (!c->source || c->n_recv == 0) continue;
        FF_CU(cudaMemcpyAsync(c->d_msg[1], c->h_msg[1],
                              (size_t)c->n_recv * ff_res_row_bytes(c, r->m.dim, r->n_dyn, geometry),
                              cudaMemcpyHostToDevice, s));
        FF_TRY(ff_res_pack(c, false, r->m.dim, r->n_dyn, geometry, s));
    }
done:
    return st;
}

/* Own rows and sums are there on entry if mine says so; all rows that plans name are there after it. */
ff_status ff_res_exchange(ff_resident *r, ff_status mine, bool geometry)
{
    const ff_resident_comm *x = &r->comm;
    if (x->size == 1) return mine;
    if (mine == FF_OK) mine = ff_res_phase(r, "exchange");
    if (mine == FF_OK) mine = send_ready(r, geometry);
    FF_TRY(x->agree(x->ctx, mine));
    for (int i = 0; i < r->m.n_cloud; i++) {
        const ff_res_cloud *c = &r->cloud[i];
        if (geometry || c->source) FF_TRY(x->upper(x->ctx, i, r->agg.stride, c->h_brow, c->h_urow));
    }
    ff_status st = FF_OK;
    int begun = 0;
    for (; begun < r->m.n_src && st == FF_OK; begun++) {
        const ff_res_cloud *c = &r->cloud[begun];
        st = x->begin(x->ctx, begun, ff_res_row_bytes(c, r->m.dim, r->n_dyn, geometry), c->h_msg[0],
                      c->h_msg[1]);
    }
    for (int i = 0; i < begun; i++) { /* what was begun is ended, also after a failure */
        ff_status ended = x->end(x->ctx, i);
        if (st == FF_OK) st = ended;
    }
    FF_TRY(st);
    return received(r, geometry);
}
