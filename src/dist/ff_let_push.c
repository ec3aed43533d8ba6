/* Payload along the fixed lists, and rows of bottoms to everyone. */
#include "ff_let.h"

#include "ff_mem.h"

#include <string.h>

static const ff_transport_ops transports[] = {
    {"mpi", ff_comm_exchange_begin, ff_comm_exchange_end},
};

const ff_transport_ops *ff_transport_find(const char *name)
{
    for (size_t i = 0; i < sizeof transports / sizeof *transports; i++)
        if (strcmp(transports[i].name, name) == 0) return &transports[i];
    return NULL;
}

/* One message a peer and direction: its node rows, then its point rows. */
struct ff_let_transfer {
    const ff_let *let;
    size_t node_bytes, point_bytes;
    char *node_rows, *point_rows;
    char *send, *recv;
    ff_msg *send_msg, *recv_msg; /* [n_peers] */
    ff_request *req;
};

static void transfer_destroy(ff_let_transfer **p)
{
    ff_let_transfer *t = *p;
    if (t == NULL) return;
    ff_free(t->send);
    ff_free(t->recv);
    ff_free(t->send_msg);
    ff_free(t->recv_msg);
    ff_free(t);
    *p = NULL;
}

/* Where peer p's message begins; p = n_peers gives the total. */
static size_t message_at(const ff_let_transfer *t, const int64_t *node_off, const int64_t *point_off, int p)
{
    return (size_t)node_off[p] * t->node_bytes + (size_t)point_off[p] * t->point_bytes;
}

static void set_messages(const ff_let_transfer *t, const int64_t *node_off, const int64_t *point_off,
                         char *buf, ff_msg *msg)
{
    for (int p = 0; p < t->let->n_peers; p++) {
        size_t from = message_at(t, node_off, point_off, p), to = message_at(t, node_off, point_off, p + 1);
        msg[p] = (ff_msg){t->let->peer[p], buf + from, to - from};
    }
}

static ff_status transfer_start(const ff_let *let, size_t node_bytes, void *node_rows, size_t point_bytes,
                                void *point_rows, ff_let_transfer **out)
{
    if (let->peer == NULL) return ff_fail(FF_E_INTERNAL, "let: push before its lists are finished");
    ff_let_transfer *t = NULL;
    FF_TRY(FF_NEW0(t, 1));
    *out = t;
    *t = (ff_let_transfer){let, node_bytes, point_bytes, node_rows, point_rows, NULL, NULL, NULL, NULL, NULL};
    FF_TRY(FF_NEW(t->send, message_at(t, let->send_node_off, let->send_point_off, let->n_peers)));
    FF_TRY(FF_NEW(t->recv, message_at(t, let->recv_node_off, let->recv_point_off, let->n_peers)));
    FF_TRY(FF_NEW(t->send_msg, let->n_peers));
    FF_TRY(FF_NEW(t->recv_msg, let->n_peers));
    set_messages(t, let->send_node_off, let->send_point_off, t->send, t->send_msg);
    set_messages(t, let->recv_node_off, let->recv_point_off, t->recv, t->recv_msg);
    return FF_OK;
}

static void pack(const int32_t *list, int64_t n, size_t row_bytes, const char *rows, char *to)
{
#pragma omp parallel for schedule(static) if (n > 4096)
    for (int64_t k = 0; k < n; k++)
        memcpy(to + (size_t)k * row_bytes, rows + (size_t)list[k] * row_bytes, row_bytes);
}

static void unpack(const int32_t *list, int64_t n, size_t row_bytes, char *rows, const char *from)
{
#pragma omp parallel for schedule(static) if (n > 4096)
    for (int64_t k = 0; k < n; k++)
        memcpy(rows + (size_t)list[k] * row_bytes, from + (size_t)k * row_bytes, row_bytes);
}

static void pack_all(const ff_let_transfer *t)
{
    const ff_let *let = t->let;
    for (int p = 0; p < let->n_peers; p++) {
        int64_t node = let->send_node_off[p], n_node = let->send_node_off[p + 1] - node;
        int64_t point = let->send_point_off[p], n_point = let->send_point_off[p + 1] - point;
        char *to = t->send_msg[p].buf;
        if (t->node_bytes > 0) pack(let->send_node + node, n_node, t->node_bytes, t->node_rows, to);
        to += (size_t)n_node * t->node_bytes;
        if (t->point_bytes > 0) pack(let->send_point + point, n_point, t->point_bytes, t->point_rows, to);
    }
}

static void unpack_all(const ff_let_transfer *t)
{
    const ff_let *let = t->let;
    for (int p = 0; p < let->n_peers; p++) {
        int64_t node = let->recv_node_off[p], n_node = let->recv_node_off[p + 1] - node;
        int64_t point = let->recv_point_off[p], n_point = let->recv_point_off[p + 1] - point;
        const char *from = t->recv_msg[p].buf;
        if (t->node_bytes > 0) unpack(let->recv_node + node, n_node, t->node_bytes, t->node_rows, from);
        from += (size_t)n_node * t->node_bytes;
        if (t->point_bytes > 0) unpack(let->recv_point + point, n_point, t->point_bytes, t->point_rows, from);
    }
}

ff_status ff_let_push_begin(const ff_let *let, size_t node_bytes, void *node_rows, size_t point_bytes,
                            void *point_rows, ff_let_transfer **out)
{
    ff_comm *comm = let->cloud->comm;
    ff_let_transfer *t = NULL;
    *out = NULL;
    ff_status st = ff_agree(comm, transfer_start(let, node_bytes, node_rows, point_bytes, point_rows, &t));
    if (st != FF_OK) goto done;
    pack_all(t);
    FF_GO(let->transport->begin(comm, t->send_msg, let->n_peers, t->recv_msg, let->n_peers, &t->req));
    *out = t;
    t = NULL;
done:
    transfer_destroy(&t);
    return st;
}

ff_status ff_let_push_end(ff_let_transfer **t)
{
    if (*t == NULL) return FF_OK;
    const ff_let *let = (*t)->let;
    ff_status st = let->transport->end(let->cloud->comm, &(*t)->req);
    if (st == FF_OK) unpack_all(*t);
    transfer_destroy(t);
    return st;
}

ff_status ff_let_gather_bottom(const ff_let *let, size_t row_bytes, const void *own, void *all)
{
    ff_comm *comm = let->cloud->comm;
    size_t *bytes = NULL;
    FF_TRY(FF_NEW0_ALL(comm, bytes, comm->size));
    for (int64_t b = 0; b < let->n_bottom; b++) bytes[let->bottom_owner[b]] += row_bytes;
    ff_status st = ff_comm_allgatherv(comm, own, bytes[comm->rank], all, bytes);
    ff_free(bytes);
    return st;
}
