#include "ff_comm.h"

#include "ff_mem.h"
#include "ff_timer.h"

#include <string.h>

static ff_status self_barrier(ff_comm *c)
{
    (void)c;
    return FF_OK;
}

static ff_status self_bcast(ff_comm *c, void *buf, size_t bytes, int root)
{
    (void)c, (void)buf, (void)bytes, (void)root;
    return FF_OK;
}

static ff_status self_allreduce(ff_comm *c, void *buf, int64_t n, ff_op op)
{
    (void)c, (void)buf, (void)n, (void)op;
    return FF_OK;
}

static ff_status self_allgatherv(ff_comm *c, const void *send, size_t bytes, void *recv,
                                 const size_t *recv_bytes)
{
    (void)c, (void)recv_bytes;
    if (bytes != 0) memcpy(recv, send, bytes);
    return FF_OK;
}

static ff_status self_alltoallv(ff_comm *c, const void *send, const size_t *send_bytes, void *recv,
                                const size_t *recv_bytes)
{
    (void)c, (void)recv_bytes;
    if (send_bytes[0] != 0) memcpy(recv, send, send_bytes[0]);
    return FF_OK;
}

/* A message to oneself is a copy; the i-th send meets the i-th receive. */
static ff_status self_exchange_begin(ff_comm *c, const ff_msg *send, int n_send, const ff_msg *recv,
                                     int n_recv, ff_request **out)
{
    (void)c;
    *out = NULL;
    for (int i = 0; i < n_send && i < n_recv; i++)
        if (send[i].bytes != 0) memcpy(recv[i].buf, send[i].buf, send[i].bytes);
    return FF_OK;
}

static ff_status self_exchange_end(ff_comm *c, ff_request **req)
{
    (void)c;
    *req = NULL;
    return FF_OK;
}

static ff_status self_split(ff_comm *c, int colour, ff_comm **out)
{
    (void)colour;
    *out = c;
    return FF_OK;
}

static void self_destroy(ff_comm *c)
{
    (void)c;
}

static const ff_comm_ops self_ops = {"self",          self_barrier,   self_bcast,          self_allreduce,
                                     self_allgatherv, self_alltoallv, self_exchange_begin, self_exchange_end,
                                     self_split,      self_destroy};
static ff_comm self_comm = {&self_ops, 0, 1, NULL, 0, 0, false};

ff_comm *ff_comm_self(void)
{
    return &self_comm;
}

void ff_comm_destroy(ff_comm **comm)
{
    if (*comm != NULL) (*comm)->ops->destroy(*comm);
    *comm = NULL;
}

int ff_comm_rank(const ff_comm *comm)
{
    return comm->rank;
}
int ff_comm_size(const ff_comm *comm)
{
    return comm->size;
}

ff_status ff_comm_split(ff_comm *c, int colour, ff_comm **out)
{
    *out = NULL;
    return c->ops->split(c, colour, out);
}

ff_status ff_comm_barrier(ff_comm *c)
{
    return c->ops->barrier(c);
}

ff_status ff_comm_bcast(ff_comm *c, void *buf, size_t bytes, int root)
{
    return c->ops->bcast(c, buf, bytes, root);
}

ff_status ff_comm_allreduce(ff_comm *c, void *buf, int64_t n, ff_op op)
{
    return c->ops->allreduce(c, buf, n, op);
}

ff_status ff_comm_allgather(ff_comm *c, const void *send, size_t bytes, void *recv)
{
    return c->ops->allgatherv(c, send, bytes, recv, NULL);
}

ff_status ff_comm_allgatherv(ff_comm *c, const void *send, size_t bytes, void *recv, const size_t *recv_bytes)
{
    return c->ops->allgatherv(c, send, bytes, recv, recv_bytes);
}

ff_status ff_comm_alltoallv(ff_comm *c, const void *send, const size_t *send_bytes, void *recv,
                            const size_t *recv_bytes)
{
    return c->ops->alltoallv(c, send, send_bytes, recv, recv_bytes);
}

ff_status ff_comm_alltoall_counts(ff_comm *c, const size_t *send_bytes, size_t *recv_bytes)
{
    size_t *each = NULL;
    FF_TRY(FF_NEW_ALL(c, each, c->size));
    for (int r = 0; r < c->size; r++) each[r] = sizeof *each;
    ff_status st = c->ops->alltoallv(c, send_bytes, each, recv_bytes, each);
    ff_free(each);
    return st;
}

ff_status ff_comm_exchange_begin(ff_comm *c, const ff_msg *send, int n_send, const ff_msg *recv, int n_recv,
                                 ff_request **out)
{
    return c->ops->exchange_begin(c, send, n_send, recv, n_recv, out);
}

ff_status ff_comm_exchange_end(ff_comm *c, ff_request **req)
{
    return *req == NULL ? FF_OK : c->ops->exchange_end(c, req);
}

void ff_comm_limit(ff_comm *c, double limit_s)
{
    if (c->size == 1) return;
    c->limit_s = limit_s;
    c->met_s = ff_now_s();
}

bool ff_comm_lost(const ff_comm *c)
{
    return c->lost;
}

ff_status ff_agree(ff_comm *c, ff_status mine)
{
    if (c->size == 1) return mine;
    int64_t first = mine == FF_OK ? c->size : c->rank;
    FF_TRY(c->ops->allreduce(c, &first, 1, FF_MIN_I64));
    if (first == c->size) return FF_OK;
    struct {
        int64_t code;
        char text[1024];
    } word = {.code = (int64_t)mine};
    (void)strncpy(word.text, ff_error_text(), sizeof word.text - 1);
    FF_TRY(c->ops->bcast(c, &word, sizeof word, (int)first));
    ff_error_set(word.text);
    return (ff_status)word.code;
}

ff_status ff_new_all(ff_comm *c, void *p_ptr, size_t n, size_t size, bool zero)
{
    void *p = zero ? ff_mem_alloc0(n, size) : ff_mem_alloc(n, size);
    ff_status st = ff_agree(c, p != NULL ? FF_OK : FF_E_MEM);
    if (st != FF_OK) FF_FREE(p);
    memcpy(p_ptr, &p, sizeof p);
    return st;
}
