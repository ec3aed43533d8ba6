/* Several ranks with whole trees: every device holds all points, and the ranks share the targets. What crosses ranks are
 * runs of consecutive rows, from each rank to all others, in their final places: nothing is packed, and on the device no rank
 * waits for the host of another.
 *
 *     work      outputs of own targets ─┬─ own aggregates, records, early pairs ─► all aggregates, records, other pairs
 *     messages                          └──► runs to and from all other ranks ─────┘
 *
 * Through the host the same: rows go down and up on the stream of messages while the stream of work has early pairs.
 * Aggregates of all nodes are worked out on every device: a few hundred microseconds for 10^5 faces, less than any exchange
 * of parts with its waits would take. */
#include "ff_resident.cuh"

extern "C" {
#include "ff_timer.h"
}

#include <string.h>

static bool by_device(const ff_resident *r)
{
    return r->comm.device != NULL;
}

/* ---- blocks ---- */

/* Bytes of a point in each of the arrays given: x32, x, normal, field, mu. */
static void given_bytes(const ff_resident *r, const ff_res_cloud *c, size_t row[FF_RES_N_GIVEN])
{
    size_t dim = (size_t)r->m.dim, d = sizeof(double);
    row[0] = dim * sizeof(float);
    row[1] = dim * d;
    row[2] = c->source ? dim * d : 0;
    row[3] = c->source ? ((size_t)c->n_stat - dim) * d : 0;
    row[4] = c->source ? d : 0;
}

ff_status ff_res_given(ff_resident *r, ff_res_cloud *c, const ff_resident_cloud *g)
{
    size_t row[FF_RES_N_GIVEN], runs = (size_t)r->comm.size + 1;
    const void *from[FF_RES_N_GIVEN] = {g->x32, g->x, g->normal, g->field, g->mu};
    FF_TRY(FF_NEW_CUDA(c->home, runs));
    FF_TRY(FF_NEW_CUDA(c->cut, runs));
    memcpy(c->home, g->home, runs * sizeof *g->home);
    memcpy(c->cut, g->cut, runs * sizeof *g->cut);
    given_bytes(r, c, row);
    for (int k = 0; k < FF_RES_N_GIVEN; k++) {
        if (row[k] == 0) continue;
        FF_TRY(ff_cuda_alloc(r->impl->pool, (size_t)c->n * row[k], &c->d_given[k]));
        FF_TRY(ff_res_upload(r, c->d_given[k] + (size_t)c->home[r->comm.rank] * row[k], from[k],
                             (size_t)g->n * row[k]));
    }
    return FF_OK;
}

/* ---- ways ---- */

static void add(ff_msg *list, int *n, int peer, const ff_res_runs *b, int rank)
{
    size_t bytes = (size_t)(b->off[rank + 1] - b->off[rank]) * b->row_bytes;
    if (bytes > 0) list[(*n)++] = {peer, b->base + (size_t)b->off[rank] * b->row_bytes, bytes};
}

static ff_status post(ff_resident *r, const ff_res_runs *block, int n)
{
    ff_status st = FF_OK;
    int size = r->comm.size, me = r->comm.rank;
    ff_resident_msgs *m = &r->msgs;
    FF_CU(cudaStreamWaitEvent(r->messages, r->flying->event[FF_RES_READY], 0));
    FF_TRY(ff_res_mark(r, FF_RES_START, r->messages));
    m->n_send = m->n_recv = 0;
    for (int k = 1; k < size; k++) /* in turn from the own place: not all to rank 0 at once */
        for (int i = 0; i < n; i++) {
            int to = (me + k) % size, from = (me + size - k) % size;
            add(m->send, &m->n_send, to, &block[i], me);
            add(m->recv, &m->n_recv, from, &block[i], from);
        }
    FF_TRY(
        r->comm.device->exchange(r->comm.device->ctx, m->send, m->n_send, m->recv, m->n_recv, r->messages));
    return ff_res_mark(r, FF_RES_DONE, r->messages);
done:
    return st;
}

static ff_status host_room(ff_resident *r, const ff_res_runs *block, int n)
{
    ff_status st = FF_OK;
    size_t most = 1;
    for (int i = 0; i < n; i++) {
        size_t bytes = (size_t)block[i].off[r->comm.size] * block[i].row_bytes;
        if (bytes > most) most = bytes;
    }
    if (most <= r->h_gather_bytes) return FF_OK;
    (void)cudaFreeHost(r->h_gather);
    r->h_gather = NULL;
    r->h_gather_bytes = 0;
    FF_CU(cudaMallocHost(&r->h_gather, most));
    r->h_gather_bytes = most;
done:
    return st;
}

static ff_status own_down(ff_resident *r, const ff_res_runs *b, size_t from, size_t to)
{
    ff_status st = FF_OK;
    if (to > from)
        FF_CU(cudaMemcpyAsync(r->h_gather + from, b->base + from, to - from, cudaMemcpyDeviceToHost,
                              r->messages));
    FF_CU(cudaStreamSynchronize(r->messages));
done:
    return st;
}

/* The rows of the others: bytes below from, and from to on. */
static ff_status others_up(ff_resident *r, const ff_res_runs *b, size_t from, size_t to, size_t bytes)
{
    ff_status st = FF_OK;
    if (from > 0) FF_CU(cudaMemcpyAsync(b->base, r->h_gather, from, cudaMemcpyHostToDevice, r->messages));
    if (bytes > to)
        FF_CU(
            cudaMemcpyAsync(b->base + to, r->h_gather + to, bytes - to, cudaMemcpyHostToDevice, r->messages));
    FF_CU(cudaStreamSynchronize(r->messages)); /* the next block is staged in the same memory */
done:
    return st;
}

static ff_status host_start(ff_resident *r)
{
    ff_status st = FF_OK;
    FF_CU(cudaStreamWaitEvent(r->messages, r->flying->event[FF_RES_READY], 0));
    FF_CU(cudaEventSynchronize(r->flying->event[FF_RES_READY]));
    r->flying->t0_s = ff_now_s();
done:
    return st;
}

/* Block after block through pinned memory. Every rank makes every call, whatever its device says. */
static ff_status through_host(ff_resident *r)
{
    ff_status worked = host_start(r);
    int size = r->comm.size, me = r->comm.rank;
    size_t *off = r->gather_off;
    for (int i = 0; i < r->n_runs; i++) {
        for (int q = 0; q <= size; q++) off[q] = (size_t)r->runs[i].off[q] * r->runs[i].row_bytes;
        if (worked == FF_OK) worked = own_down(r, &r->runs[i], off[me], off[me + 1]);
        FF_TRY(r->comm.gather(r->comm.ctx, r->h_gather, off));
        if (worked == FF_OK) worked = others_up(r, &r->runs[i], off[me], off[me + 1], off[size]);
    }
    return worked == FF_OK ? ff_res_mark(r, FF_RES_DONE, r->messages) : worked;
}

static ff_status gather_begin(ff_resident *r, ff_status mine, int no, const ff_res_runs *block, int n)
{
    ff_res_exchange *e = &r->exchange[no];
    cudaStream_t s = ff_res_stream(r);
    r->flying = e;
    e->used = false;
    e->bytes_sent = 0;
    r->n_runs = n;
    for (int i = 0; i < n; i++) r->runs[i] = block[i];
    if (mine == FF_OK) mine = ff_res_phase(r, "exchange");
    if (mine == FF_OK) mine = ff_res_mark(r, FF_RES_READY, s);
    if (mine == FF_OK) mine = ff_res_mark(r, FF_RES_WAIT_SUMS, s);
    if (mine == FF_OK) mine = ff_res_mark(r, FF_RES_GO_SUMS, s);
    if (mine == FF_OK && !by_device(r)) mine = host_room(r, block, n);
    ff_status st = r->comm.agree(r->comm.ctx, mine);
    e->t0_s = ff_now_s();
    for (int i = 0; i < n; i++)
        e->bytes_sent += (r->comm.size - 1) * (block[i].off[r->comm.rank + 1] - block[i].off[r->comm.rank]) *
                         (int64_t)block[i].row_bytes;
    if (st == FF_OK && by_device(r)) st = post(r, block, n);
    if (st != FF_OK) r->flying = NULL;
    return st;
}

ff_status ff_res_gather_end(ff_resident *r)
{
    ff_status st = FF_OK;
    cudaStream_t s = ff_res_stream(r);
    ff_res_exchange *e = r->flying;
    if (e == NULL) return FF_OK;
    ff_status worked = ff_res_phase(r, "exchange");
    if (worked == FF_OK) worked = ff_res_mark(r, FF_RES_WAIT_ROWS, s);
    FF_GO(by_device(r) ? ff_res_watch(r) : through_host(r));
    e->t_s = ff_now_s() - e->t0_s;
    FF_GO(worked);
    FF_CU(cudaStreamWaitEvent(s, e->event[FF_RES_DONE], 0));
    FF_GO(ff_res_mark(r, FF_RES_GO_ROWS, s));
    e->used = true;
done:
    r->flying = NULL;
    return st;
}

/* ---- what is gathered ---- */

ff_status ff_res_gather_given(ff_resident *r, ff_status mine)
{
    ff_res_runs block[FF_RES_N_GIVEN * FF_RES_MAX_CLOUDS];
    int n = 0;
    for (int i = 0; i < r->m.n_cloud; i++) {
        size_t row[FF_RES_N_GIVEN];
        given_bytes(r, &r->cloud[i], row);
        for (int k = 0; k < FF_RES_N_GIVEN && mine == FF_OK; k++)
            if (row[k] > 0) block[n++] = {r->cloud[i].d_given[k], r->cloud[i].home, row[k]};
    }
    ff_status st = gather_begin(r, mine, 0, block, n);
    return st == FF_OK ? ff_res_gather_end(r) : st;
}

ff_status ff_res_gather_values_begin(ff_resident *r, ff_status mine, int no)
{
    ff_res_runs block[FF_RES_MAX_CLOUDS];
    for (int j = 0; j < r->m.n_src; j++)
        block[j] = {(char *)r->cloud[j].d_dyn, r->cloud[j].cut, (size_t)r->n_dyn * sizeof(float)};
    return gather_begin(r, mine, no, block, r->m.n_src);
}

ff_status ff_res_gather_out(ff_resident *r, ff_status mine, int cloud, int n_comp)
{
    const ff_res_cloud *c = &r->cloud[cloud];
    ff_res_runs block = {(char *)c->d_out, c->cut, (size_t)n_comp * sizeof(float)};
    ff_status st = gather_begin(r, mine, r->m.n_comm + 2, &block, 1);
    return st == FF_OK ? ff_res_gather_end(r) : st;
}
