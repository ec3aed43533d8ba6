/* Several ranks: sums of own subtrees and rows of sources that other ranks read. Two ways: between the devices, in two
 * groups of messages on a stream of their own; or staged through pinned host memory.
 *
 *     work      pack ─┬─ records of own points ──► upper nodes ── targets that need no row ──► take rows ── the others
 *     messages        └──► sums ──────────────────┘└─► rows ──────────────────────────────────┘
 *
 * The host waits for the rows, with a deadline, while the device works; nothing later is enqueued before they are there,
 * so that a rank that is lost never leaves the stream of work waiting where the host cannot see it. */
#include "ff_resident.cuh"

extern "C" {
#include "ff_timer.h"
}

#include <time.h>

static bool by_device(const ff_resident *r)
{
    return r->comm.device != NULL;
}

/* ---- memory ---- */

static ff_status sums_memory(ff_resident *r, ff_res_cloud *c, const ff_resident_cloud *g)
{
    ff_status st = FF_OK;
    size_t row = (size_t)r->agg.stride * sizeof(double);
    c->n_upper = g->n_upper;
    c->n_sums = g->n_sums;
    c->first_sum = g->first_sum;
    c->n_level = g->n_level;
    FF_TRY(ff_res_put(r, g->upper, (size_t)g->n_upper * sizeof(int32_t), &c->d_upper));
    FF_TRY(ff_cuda_alloc(r->impl->pool, (size_t)(g->n_sums + g->n_upper) * row, &c->d_allsum));
    c->d_urow = c->d_allsum + g->n_sums * r->agg.stride;
    if (by_device(r)) {
        FF_TRY(ff_res_put(r, g->up, (size_t)g->n_upper * sizeof *g->up, &c->d_up));
        return ff_res_put(r, g->level_off, (size_t)(g->n_level + 1) * sizeof(int32_t), &c->d_level_off);
    }
    FF_CU(cudaMallocHost(&c->h_urow, (size_t)g->n_upper * row + 8));
    FF_CU(cudaMallocHost(&c->h_brow, (size_t)g->n_bottom * row + 8));
done:
    return st;
}

ff_status ff_res_messages(ff_resident *r, ff_res_cloud *c, const ff_resident_cloud *g)
{
    ff_status st = FF_OK;
    size_t geo = ff_res_row_bytes(c, r->m.dim, r->n_dyn, true),
           dyn = ff_res_row_bytes(c, r->m.dim, r->n_dyn, false), widest = geo > dyn ? geo : dyn;
    if (r->comm.size == 1 || ff_res_whole(r)) return FF_OK;
    FF_TRY(sums_memory(r, c, g));
    if (!c->source) return FF_OK;
    c->n_send = g->n_send;
    c->n_recv = g->n_recv;
    FF_TRY(ff_res_put(r, g->send, (size_t)g->n_send * sizeof(int32_t), &c->d_send));
    FF_TRY(ff_res_put(r, g->recv, (size_t)g->n_recv * sizeof(int32_t), &c->d_recv));
    for (int k = 0; k < 2; k++) {
        size_t bytes = (size_t)(k == 0 ? c->n_send : c->n_recv) * widest;
        FF_TRY(ff_cuda_alloc(r->impl->pool, bytes, &c->d_msg[k]));
        if (!by_device(r)) FF_CU(cudaMallocHost(&c->h_msg[k], bytes + 8));
    }
done:
    return st;
}

ff_status ff_res_ranges(const ff_resident *r, ff_res_cloud *c, const ff_resident_cloud *g)
{
    bool many = r->comm.size > 1 && !ff_res_whole(r);
    c->n_range = many ? g->n_range : 1;
    FF_TRY(FF_NEW_CUDA(c->range, c->n_range + 1));
    FF_TRY(FF_NEW_CUDA(c->late, c->n_range));
    c->range[0] = c->tree->own_begin;
    c->range[1] = c->tree->own_end;
    for (int k = 0; k < c->n_range && many; k++) {
        c->range[k] = g->range[k];
        c->range[k + 1] = g->range[k + 1];
        c->late[k] = g->late[k] != 0;
    }
    return FF_OK;
}

/* ---- events ---- */

ff_status ff_res_mark(ff_resident *r, int event, cudaStream_t s)
{
    ff_status st = FF_OK;
    FF_CU(cudaEventRecord(r->flying->event[event], s));
done:
    return st;
}

/* The stream of messages has one group more to do at most; the deadline counts from when what is sent was there. Another
 * rank may be late by as long as this device has worked since the hosts met (ff_comm_limit). */
ff_status ff_res_watch(ff_resident *r)
{
    if (r->flying == NULL || !by_device(r)) return FF_OK;
    const ff_device_comm *d = r->comm.device;
    double t0 = -1, waited = 0;
    for (;;) {
        cudaError_t e = cudaEventQuery(r->flying->event[FF_RES_DONE]);
        if (e == cudaSuccess) return FF_OK;
        if (e == cudaErrorNotReady && t0 < 0) {
            e = cudaEventQuery(r->flying->event[FF_RES_START]);
            if (e == cudaSuccess) t0 = ff_now_s();
        }
        if (e != cudaSuccess && e != cudaErrorNotReady)
            return ff_fail(FF_E_INTERNAL, "cuda: waiting for an exchange: %s", cudaGetErrorString(e));
        waited = t0 < 0 ? 0 : ff_now_s() - t0;
        FF_TRY(d->check(d->ctx, waited > t0 - r->flying->t0_s ? waited : 0));
        if (waited > 1e-3) {
            const struct timespec pause = {0, 20000};
            (void)nanosleep(&pause, NULL);
        }
    }
}

/* ---- begin ---- */

/* Sums of own subtrees and rows that others read, to where messages start. */
static ff_status pack(ff_resident *r, bool geometry)
{
    ff_status st = FF_OK;
    cudaStream_t s = ff_res_stream(r);
    size_t stride = (size_t)r->agg.stride;
    for (int i = 0; i < r->m.n_cloud; i++) {
        ff_res_cloud *c = &r->cloud[i];
        size_t sums = (size_t)c->n_bottom * stride * sizeof(double);
        if (!geometry && !c->source) continue;
        if (sums > 0 && by_device(r))
            FF_CU(cudaMemcpyAsync(c->d_allsum + (size_t)c->first_sum * stride,
                                  r->d_sums + (size_t)c->slot0 * stride, sums, cudaMemcpyDeviceToDevice, s));
        else if (sums > 0)
            FF_CU(cudaMemcpyAsync(c->h_brow, r->d_sums + (size_t)c->slot0 * stride, sums,
                                  cudaMemcpyDeviceToHost, s));
        if (!c->source || c->n_send == 0) continue;
        size_t rows = (size_t)c->n_send * ff_res_row_bytes(c, r->m.dim, r->n_dyn, geometry);
        r->flying->bytes_sent += (int64_t)rows;
        FF_TRY(ff_res_pack(c, true, r->m.dim, r->n_dyn, geometry, s));
        if (!by_device(r)) FF_CU(cudaMemcpyAsync(c->h_msg[0], c->d_msg[0], rows, cudaMemcpyDeviceToHost, s));
    }
done:
    return st;
}

static bool is_geometry(const ff_resident *r)
{
    return r->flying == r->exchange;
}

/* Enqueues both groups of messages. */
static ff_status post(ff_resident *r)
{
    ff_status st = FF_OK;
    const ff_resident_comm *x = &r->comm;
    bool geometry = is_geometry(r);
    FF_CU(cudaStreamWaitEvent(r->messages, r->flying->event[FF_RES_READY], 0));
    FF_TRY(ff_res_mark(r, FF_RES_START, r->messages));
    r->msgs.n_send = r->msgs.n_recv = 0;
    for (int i = 0; i < r->m.n_cloud; i++)
        if (geometry || r->cloud[i].source)
            x->sums(x->ctx, i, (size_t)r->agg.stride * sizeof(double), r->cloud[i].d_allsum, &r->msgs);
    FF_TRY(x->device->exchange(x->device->ctx, r->msgs.send, r->msgs.n_send, r->msgs.recv, r->msgs.n_recv,
                               r->messages));
    FF_TRY(ff_res_mark(r, FF_RES_SUMS, r->messages));
    r->msgs.n_send = r->msgs.n_recv = 0;
    for (int i = 0; i < r->m.n_src; i++) {
        const ff_res_cloud *c = &r->cloud[i];
        x->rows(x->ctx, i, ff_res_row_bytes(c, r->m.dim, r->n_dyn, geometry), c->d_msg[0], c->d_msg[1],
                &r->msgs);
    }
    FF_TRY(x->device->exchange(x->device->ctx, r->msgs.send, r->msgs.n_send, r->msgs.recv, r->msgs.n_recv,
                               r->messages));
    return ff_res_mark(r, FF_RES_DONE, r->messages);
done:
    return st;
}

ff_status ff_res_exchange_begin(ff_resident *r, ff_status mine, int no)
{
    const ff_resident_comm *x = &r->comm;
    if (x->size == 1) return mine;
    ff_res_exchange *e = &r->exchange[no];
    r->flying = e;
    r->n_flying = 0;
    e->used = false;
    e->bytes_sent = 0;
    if (mine == FF_OK) mine = ff_res_phase(r, "exchange");
    if (mine == FF_OK) mine = pack(r, is_geometry(r));
    if (mine == FF_OK) mine = ff_res_mark(r, FF_RES_READY, ff_res_stream(r));
    if (mine == FF_OK && !by_device(r) && cudaEventSynchronize(e->event[FF_RES_READY]) != cudaSuccess)
        mine =
            ff_fail(FF_E_INTERNAL, "cuda: packing an exchange: %s", cudaGetErrorString(cudaGetLastError()));
    ff_status st = x->agree(x->ctx, mine);
    e->t0_s = ff_now_s();
    if (st == FF_OK && by_device(r)) st = post(r);
    if (st != FF_OK) r->flying = NULL;
    return st;
}

/* ---- sums ---- */

/* Through the host: rows set off first, then the sums are combined. Every rank makes every call. */
static ff_status sums_by_host(ff_resident *r)
{
    ff_status st = FF_OK;
    const ff_resident_comm *x = &r->comm;
    bool geometry = is_geometry(r);
    for (; r->n_flying < r->m.n_src && st == FF_OK; r->n_flying++) {
        const ff_res_cloud *c = &r->cloud[r->n_flying];
        st = x->begin(x->ctx, r->n_flying, ff_res_row_bytes(c, r->m.dim, r->n_dyn, geometry), c->h_msg[0],
                      c->h_msg[1]);
    }
    for (int i = 0; i < r->m.n_cloud && st == FF_OK; i++) {
        const ff_res_cloud *c = &r->cloud[i];
        if (geometry || c->source) st = x->upper(x->ctx, i, r->agg.stride, c->h_brow, c->h_urow);
    }
    return st;
}

static ff_status finish_upper(ff_resident *r)
{
    ff_status st = FF_OK;
    cudaStream_t s = ff_res_stream(r);
    for (int i = 0; i < r->m.n_cloud; i++) {
        ff_res_cloud *c = &r->cloud[i];
        if ((!is_geometry(r) && !c->source) || c->n_upper == 0) continue;
        if (by_device(r))
            FF_TRY(ff_agg_combine(c, &r->agg, s));
        else
            FF_CU(cudaMemcpyAsync(c->d_urow, c->h_urow,
                                  (size_t)c->n_upper * (size_t)r->agg.stride * sizeof(double),
                                  cudaMemcpyHostToDevice, s));
        FF_TRY(ff_agg_upper(c, &r->agg, is_geometry(r), s));
    }
done:
    return st;
}

ff_status ff_res_exchange_sums(ff_resident *r)
{
    ff_status st = FF_OK;
    cudaStream_t s = ff_res_stream(r);
    if (r->flying == NULL) return FF_OK;
    ff_status begun = ff_res_mark(r, FF_RES_WAIT_SUMS, s);
    if (!by_device(r)) FF_TRY(sums_by_host(r));
    FF_TRY(begun);
    FF_TRY(ff_res_phase(r, "exchange"));
    /* Chunks make the host wait for the stream of work, which must not wait for others then. */
    if (by_device(r) && r->chunked) FF_TRY(ff_res_watch(r));
    if (by_device(r)) FF_CU(cudaStreamWaitEvent(s, r->flying->event[FF_RES_SUMS], 0));
    FF_TRY(ff_res_mark(r, FF_RES_GO_SUMS, s));
    return finish_upper(r);
done:
    return st;
}

/* ---- end ---- */

static ff_status take_rows(ff_resident *r)
{
    ff_status st = FF_OK;
    cudaStream_t s = ff_res_stream(r);
    bool geometry = is_geometry(r);
    for (int i = 0; i < r->m.n_src; i++) {
        ff_res_cloud *c = &r->cloud[i];
        if (c->n_recv == 0) continue;
        if (!by_device(r))
            FF_CU(cudaMemcpyAsync(c->d_msg[1], c->h_msg[1],
                                  (size_t)c->n_recv * ff_res_row_bytes(c, r->m.dim, r->n_dyn, geometry),
                                  cudaMemcpyHostToDevice, s));
        FF_TRY(ff_res_pack(c, false, r->m.dim, r->n_dyn, geometry, s));
    }
done:
    return st;
}

/* What was begun is ended, also after a failure. */
static ff_status arrived(ff_resident *r)
{
    ff_status st = FF_OK;
    const ff_resident_comm *x = &r->comm;
    if (by_device(r)) return ff_res_watch(r);
    for (int i = 0; i < r->n_flying; i++) {
        ff_status ended = x->end(x->ctx, i);
        if (st == FF_OK) st = ended;
    }
    return st;
}

ff_status ff_res_exchange_end(ff_resident *r)
{
    ff_status st = FF_OK;
    cudaStream_t s = ff_res_stream(r);
    ff_res_exchange *e = r->flying;
    if (e == NULL) return FF_OK;
    ff_status worked = ff_res_phase(r, "exchange");
    if (worked == FF_OK) worked = ff_res_mark(r, FF_RES_WAIT_ROWS, s);
    FF_GO(arrived(r));
    e->t_s = ff_now_s() - e->t0_s;
    FF_GO(worked);
    if (by_device(r)) FF_CU(cudaStreamWaitEvent(s, e->event[FF_RES_DONE], 0));
    FF_GO(ff_res_mark(r, FF_RES_GO_ROWS, s));
    FF_GO(take_rows(r));
    e->used = true;
done:
    r->flying = NULL;
    return st;
}

/* ---- figures ---- */

static ff_status milliseconds(const ff_res_exchange *e, int from, int to, double *sum_s)
{
    ff_status st = FF_OK;
    float ms = 0;
    FF_CU(cudaEventElapsedTime(&ms, e->event[from], e->event[to]));
    if (ms > 0) *sum_s += 1e-3 * ms;
done:
    return st;
}

ff_status ff_res_traffic(ff_resident *r, ff_resident_traffic *t)
{
    ff_status st = FF_OK;
    *t = (ff_resident_traffic){0, 0, 0};
    FF_CU(cudaStreamSynchronize(ff_res_stream(r)));
    for (int k = 1; k < r->m.n_comm + 2 && r->comm.size > 1; k++) {
        const ff_res_exchange *e = &r->exchange[k];
        double waited_s = 0, t_s = 0;
        if (!e->used) continue;
        if (by_device(r))
            FF_TRY(milliseconds(e, FF_RES_START, FF_RES_DONE, &t_s));
        else
            t_s = e->t_s;
        FF_TRY(milliseconds(e, FF_RES_WAIT_SUMS, FF_RES_GO_SUMS, &waited_s));
        FF_TRY(milliseconds(e, FF_RES_WAIT_ROWS, FF_RES_GO_ROWS, &waited_s));
        t->t_exchange_s += t_s;
        t->t_wait_s += waited_s < t_s ? waited_s : t_s;
        t->bytes_sent += e->bytes_sent;
    }
done:
    return st;
}
