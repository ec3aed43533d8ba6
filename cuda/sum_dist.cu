/* Sums over several ranks: messages between device buffers, directly (ff_device_comm) or staged through pinned host memory;
 * rows to their owners and back.
 *
 * While the devices exchange the host waits, with the transport's deadline, and the stream of work goes on with what stands
 * in it; nothing that needs what comes is queued before it is there.
 *
 * sum_take_rows, sum_put_rows (sum_dist.cuh)
 * Work    a thread a number of a row; rows are those of this rank's points in the order of their owners
 * Bytes   16 a number; the side of the points as given is in no order
 * Oracle  tests/gpu/sum_ranks.c: bits of one rank */
#include "sum_dist.cuh"

extern "C" {
#include "ff_mem_hold.h"
#include "ff_timer.h"
}

#include <string.h>
#include <time.h>

/* ---- life ---- */

ff_status sum_dist_create(ff_sum_cuda *s, ff_comm *comm, const ff_device_comm *device)
{
    ff_status st = FF_OK;
    sum_dist *d = (sum_dist *)ff_mem_alloc0(1, sizeof *d);
    if (d == NULL) return ff_agree(comm, FF_E_MEM);
    s->dist = d;
    d->comm = comm;
    d->device = device;
    d->traffic.imbalance = 1;
    for (int k = 0; k < 2 && st == FF_OK; k++) {
        sum_share *h = &d->share[k];
        const size_t n = (size_t)comm->size, row = sizeof(int64_t);
        h->give = (int64_t *)ff_mem_alloc0(n, row);
        h->take = (int64_t *)ff_mem_alloc0(n, row);
        h->cut = (int64_t *)ff_mem_alloc0(n + 1, row);
        if (h->give == NULL || h->take == NULL || h->cut == NULL) st = FF_E_MEM;
    }
    if (st == FF_OK && device != NULL) {
        FF_CU(cudaStreamCreateWithFlags(&d->messages, cudaStreamNonBlocking));
        FF_CU(cudaEventCreateWithFlags(&d->ready, cudaEventDisableTiming));
        FF_CU(cudaEventCreateWithFlags(&d->done, cudaEventDisableTiming));
    }
done:
    return ff_agree(comm, st);
}

void sum_dist_destroy(ff_sum_cuda *s)
{
    sum_dist *d = s->dist;
    if (d == NULL) return;
    if (d->messages != NULL) (void)cudaStreamDestroy(d->messages);
    if (d->ready != NULL) (void)cudaEventDestroy(d->ready);
    if (d->done != NULL) (void)cudaEventDestroy(d->done);
    for (int k = 0; k < 2; k++) {
        sum_share *h = &d->share[k];
        ff_free(h->give);
        ff_free(h->take);
        ff_free(h->cut);
        ff_free(h->wanted);
        if (d->h_stage[k] != NULL && !ff_mem_held())
            (void)cudaFreeHost(d->h_stage[k]); /* else calls may use it */
    }
    ff_free(d->send);
    ff_free(d->recv);
    ff_free(d);
    s->dist = NULL;
}

/* ---- one exchange ---- */

void sum_dist_clear(sum_dist *d)
{
    d->n_send = d->n_recv = 0;
}

static ff_status more_room(sum_dist *d)
{
    const int room = 2 * d->room + 16;
    ff_msg *send = (ff_msg *)ff_mem_alloc((size_t)room, sizeof *send);
    ff_msg *recv = (ff_msg *)ff_mem_alloc((size_t)room, sizeof *recv);
    if (send == NULL || recv == NULL) {
        ff_free(send);
        ff_free(recv);
        return FF_E_MEM;
    }
    if (d->n_send > 0) memcpy(send, d->send, (size_t)d->n_send * sizeof *send);
    if (d->n_recv > 0) memcpy(recv, d->recv, (size_t)d->n_recv * sizeof *recv);
    ff_free(d->send);
    ff_free(d->recv);
    d->send = send, d->recv = recv, d->room = room;
    return FF_OK;
}

ff_status sum_dist_add(sum_dist *d, bool send, int peer, void *d_buf, size_t bytes)
{
    if (bytes == 0) return FF_OK;
    if (d->n_send == d->room || d->n_recv == d->room) FF_TRY(more_room(d));
    const ff_msg m = {peer, d_buf, bytes};
    if (send)
        d->send[d->n_send++] = m;
    else
        d->recv[d->n_recv++] = m;
    return FF_OK;
}

static size_t total(const ff_msg *m, int n)
{
    size_t bytes = 0;
    for (int i = 0; i < n; i++) bytes += m[i].bytes;
    return bytes;
}

/* Grows the pinned buffer k; waits for copies from it. */
static ff_status stage(ff_sum_cuda *s, int k, size_t bytes)
{
    ff_status st = FF_OK;
    sum_dist *d = s->dist;
    if (bytes <= d->stage_bytes[k]) return FF_OK;
    FF_CU(cudaStreamSynchronize(s->stream));
    if (d->h_stage[k] != NULL) (void)cudaFreeHost(d->h_stage[k]);
    d->h_stage[k] = NULL;
    d->stage_bytes[k] = 0;
    FF_CU(cudaMallocHost((void **)&d->h_stage[k], bytes));
    d->stage_bytes[k] = bytes;
done:
    return st;
}

/* What is sent, to the host. */
static ff_status down(ff_sum_cuda *s)
{
    ff_status st = FF_OK;
    sum_dist *d = s->dist;
    size_t at = 0;
    FF_GO(stage(s, 0, total(d->send, d->n_send)));
    FF_GO(stage(s, 1, total(d->recv, d->n_recv)));
    for (int i = 0; i < d->n_send; at += d->send[i++].bytes)
        FF_CU(cudaMemcpyAsync(d->h_stage[0] + at, d->send[i].buf, d->send[i].bytes, cudaMemcpyDeviceToHost,
                              s->stream));
    FF_CU(cudaStreamSynchronize(s->stream));
done:
    return st;
}

/* What came, to the device. Local */
static ff_status up(ff_sum_cuda *s)
{
    ff_status st = FF_OK;
    const sum_dist *d = s->dist;
    size_t at = 0;
    for (int i = 0; i < d->n_recv; at += d->recv[i++].bytes)
        FF_CU(cudaMemcpyAsync(d->recv[i].buf, d->h_stage[1] + at, d->recv[i].bytes, cudaMemcpyHostToDevice,
                              s->stream));
done:
    return st;
}

/* Collective */
static ff_status by_host(ff_sum_cuda *s)
{
    ff_status st = FF_OK;
    sum_dist *d = s->dist;
    ff_request *req = NULL;
    ff_msg *host = NULL;
    size_t at = 0;
    host = (ff_msg *)ff_mem_alloc((size_t)(d->n_send + d->n_recv) + 1, sizeof *host);
    FF_GO(ff_agree(d->comm, host != NULL ? FF_OK : FF_E_MEM));
    for (int i = 0; i < d->n_send; at += d->send[i++].bytes)
        host[i] = {d->send[i].peer, d->h_stage[0] + at, d->send[i].bytes};
    at = 0;
    for (int i = 0; i < d->n_recv; at += d->recv[i++].bytes)
        host[d->n_send + i] = {d->recv[i].peer, d->h_stage[1] + at, d->recv[i].bytes};
    FF_GO(ff_comm_exchange_begin(d->comm, host, d->n_send, host + d->n_send, d->n_recv, &req));
    FF_GO(ff_comm_exchange_end(d->comm, &req));
    st = up(s);
    FF_GO(ff_agree(d->comm, st));
done:
    ff_free(host);
    return st;
}

ff_status sum_dist_begin(ff_sum_cuda *s, ff_status mine)
{
    ff_status st = FF_OK;
    sum_dist *d = s->dist;
    if (mine == FF_OK && d->device == NULL) mine = down(s);
    FF_TRY(ff_agree(d->comm, mine));
    d->met_s = ff_now_s();
    d->traffic.bytes_sent += (int64_t)total(d->send, d->n_send);
    if (d->device == NULL) return by_host(s);
    FF_CU(cudaEventRecord(d->ready, s->stream));
    FF_CU(cudaStreamWaitEvent(d->messages, d->ready, 0));
    FF_GO(d->device->exchange(d->device->ctx, d->send, d->n_send, d->recv, d->n_recv, d->messages));
    FF_CU(cudaEventRecord(d->done, d->messages));
    d->flying = true;
done:
    return st;
}

/* The deadline counts from when what is sent was there; another rank may be late by as long as this device has worked. */
ff_status sum_dist_end(ff_sum_cuda *s)
{
    ff_status st = FF_OK;
    sum_dist *d = s->dist;
    double t0 = -1, waited = 0;
    if (!d->flying) return FF_OK;
    d->flying = false;
    for (;;) {
        cudaError_t e = cudaEventQuery(d->done);
        if (e == cudaSuccess) break;
        if (e == cudaErrorNotReady && t0 < 0 && (e = cudaEventQuery(d->ready)) == cudaSuccess) {
            t0 = ff_now_s();
            continue;
        }
        if (e != cudaErrorNotReady)
            return ff_fail(FF_E_INTERNAL, "cuda: waiting for an exchange: %s", cudaGetErrorString(e));
        waited = t0 < 0 ? 0 : ff_now_s() - t0;
        FF_TRY(d->device->check(d->device->ctx, waited > t0 - d->met_s ? waited : 0));
        if (waited > 1e-2) {
            const struct timespec pause = {0, 20000};
            (void)nanosleep(&pause, NULL);
        }
    }
    FF_CU(cudaStreamWaitEvent(s->stream, d->done, 0));
done:
    return st;
}

/* ---- rows to owners and back ---- */

static int64_t before(const int64_t *count, int r)
{
    int64_t at = 0;
    for (int q = 0; q < r; q++) at += count[q];
    return at;
}

/* Adds messages of rows cut by counts; those that stay are copied. Local */
static ff_status rows_between(ff_sum_cuda *s, const int64_t *n_from, double *d_from, const int64_t *n_to,
                              double *d_to, int64_t width)
{
    ff_status st = FF_OK;
    sum_dist *d = s->dist;
    const int me = d->comm->rank;
    const size_t row = (size_t)width * sizeof(double);
    int64_t at = 0, to = 0;
    for (int r = 0; r < d->comm->size; at += n_from[r], to += n_to[r], r++) {
        if (r == me) continue;
        FF_GO(sum_dist_add(d, true, r, d_from + at * width, (size_t)n_from[r] * row));
        FF_GO(sum_dist_add(d, false, r, d_to + to * width, (size_t)n_to[r] * row));
    }
    if (n_from[me] > 0)
        FF_CU(cudaMemcpyAsync(d_to + before(n_to, me) * width, d_from + before(n_from, me) * width,
                              (size_t)n_from[me] * row, cudaMemcpyDeviceToDevice, s->stream));
done:
    return st;
}

ff_status sum_dist_add_in(ff_sum_cuda *s, int k, const double *d_home, int64_t width, double **d_send,
                          double **d_own)
{
    ff_status st = FF_OK;
    const sum_share *h = &s->dist->share[k];
    FF_GO(FF_ALLOC(s->pool, *d_send, h->n_home * width));
    FF_GO(FF_ALLOC(s->pool, *d_own, before(h->take, s->dist->comm->size) * width));
    if (h->n_home > 0)
        sum_take_rows<<<ff_grid(h->n_home * width, 1), 256, 0, s->stream>>>(h->n_home, width, h->d_home,
                                                                            d_home, *d_send);
    FF_CU(cudaGetLastError());
    FF_GO(rows_between(s, h->give, *d_send, h->take, *d_own, width));
done:
    return st;
}

ff_status sum_dist_in(ff_sum_cuda *s, int k, const double *d_home, int64_t width, double **d_own)
{
    double *send = NULL;
    *d_own = NULL;
    sum_dist_clear(s->dist);
    ff_status st = sum_dist_begin(s, sum_dist_add_in(s, k, d_home, width, &send, d_own));
    if (st == FF_OK) st = sum_dist_end(s);
    ff_cuda_free(s->pool, send);
    return st;
}

ff_status sum_dist_out(ff_sum_cuda *s, int k, const sum_back *back, int n)
{
    ff_status st = FF_OK;
    const sum_share *h = &s->dist->share[k];
    double *recv[SUM_BACK_MAX] = {NULL};
    sum_dist_clear(s->dist);
    for (int i = 0; i < n; i++) {
        FF_GO(FF_ALLOC(s->pool, recv[i], h->n_home * back[i].width));
        FF_GO(rows_between(s, h->take, back[i].d_own, h->give, recv[i], back[i].width));
    }
done:
    st = sum_dist_begin(s, st);
    if (st == FF_OK) st = sum_dist_end(s);
    for (int i = 0; i < n; i++) {
        const int64_t width = back[i].width;
        if (st == FF_OK && h->n_home > 0)
            sum_put_rows<<<ff_grid(h->n_home * width, 1), 256, 0, s->stream>>>(h->n_home, width, h->d_home,
                                                                               recv[i], back[i].d_home);
        ff_cuda_free(s->pool, recv[i]);
    }
    if (st == FF_OK && cudaGetLastError() != cudaSuccess)
        st = ff_fail(FF_E_INTERNAL, "cuda: a launch failed in sum_dist_out");
    return st;
}

ff_status sum_dist_all(ff_sum_cuda *s, int k, const double *d_home, int64_t width, double **d_all)
{
    ff_status st = FF_OK;
    sum_dist *d = s->dist;
    const sum_share *h = &d->share[k];
    const size_t row = (size_t)width * sizeof(double);
    int64_t *n = NULL, at = 0;
    *d_all = NULL;
    FF_TRY(ff_new_all(d->comm, &n, (size_t)d->comm->size, sizeof *n, false));
    FF_GO(ff_comm_allgather(d->comm, &h->n_home, sizeof h->n_home, n));
    sum_dist_clear(d);
    st = FF_ALLOC(s->pool, *d_all, s->side[k].n * width);
    for (int r = 0; r < d->comm->size && st == FF_OK; at += n[r], r++) {
        if (r == d->comm->rank) continue;
        st = sum_dist_add(d, true, r, (void *)d_home, (size_t)h->n_home * row);
        if (st == FF_OK) st = sum_dist_add(d, false, r, *d_all + at * width, (size_t)n[r] * row);
    }
    if (st == FF_OK && h->n_home > 0 &&
        cudaMemcpyAsync(*d_all + h->first_home * width, d_home, (size_t)h->n_home * row,
                        cudaMemcpyDeviceToDevice, s->stream) != cudaSuccess)
        st = ff_fail(FF_E_INTERNAL, "cuda: a copy failed in sum_dist_all");
    FF_GO(sum_dist_begin(s, st));
    FF_GO(sum_dist_end(s));
done:
    ff_free(n);
    return st;
}

/* ---- the frame ---- */

/* Collective */
static ff_status frame_over_ranks(sum_dist *d, sum_frame *f, int n_side, int dim)
{
    double box[6];
    int64_t bad[2];
    for (int c = 0; c < 3; c++) box[c] = -f->lo[c], box[3 + c] = f->hi[c];
    for (int k = 0; k < 2; k++)
        bad[k] = k >= n_side || f->bad[k] == ~0ull
                     ? INT64_MAX
                     : (int64_t)f->bad[k] + d->share[k].first_home * (int64_t)dim;
    FF_TRY(ff_comm_allreduce(d->comm, box, 6, FF_MAX_F64));
    FF_TRY(ff_comm_allreduce(d->comm, bad, 2, FF_MIN_I64));
    for (int c = 0; c < 3; c++) f->lo[c] = -box[c], f->hi[c] = box[3 + c];
    for (int k = 0; k < 2; k++) f->bad[k] = bad[k] == INT64_MAX ? ~0ull : (unsigned long long)bad[k];
    return FF_OK;
}

ff_status sum_dist_frame(ff_sum_cuda *s)
{
    sum_frame f;
    sum_dist *d = s->dist;
    memset(&f, 0, sizeof f);
    ff_status st = ff_cuda_get(s->pool, &f, s->d_frame, sizeof f);
    if (st == FF_OK) st = ff_cuda_wait(s->pool);
    FF_TRY(ff_agree(d->comm, st));
    FF_TRY(frame_over_ranks(d, &f, s->n_side, s->o.dim));
    return ff_cuda_put(s->pool, s->d_frame, &f, sizeof f);
}
