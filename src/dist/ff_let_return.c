/* Contributions to remote rows back to their owners, along the lists of the push. */
#include "ff_let.h"

#include "ff_mem.h"

typedef struct way {
    const int64_t *node_off, *point_off;
    const int32_t *node, *point;
    char *buf;
    ff_msg *msg; /* [n_peers] */
} way;

static void way_free(way *w)
{
    ff_free(w->buf);
    ff_free(w->msg);
}

static ff_status way_open(const ff_let *let, const ff_let_return_ops *ops, way *w)
{
    size_t at = 0;
    int64_t n_node = let->n_peers > 0 ? w->node_off[let->n_peers] : 0;
    int64_t n_point = let->n_peers > 0 ? w->point_off[let->n_peers] : 0;
    FF_TRY(FF_NEW(w->buf, (size_t)n_node * ops->node_bytes + (size_t)n_point * ops->point_bytes + 1));
    FF_TRY(FF_NEW(w->msg, let->n_peers + 1));
    for (int p = 0; p < let->n_peers; p++) {
        size_t bytes = (size_t)(w->node_off[p + 1] - w->node_off[p]) * ops->node_bytes +
                       (size_t)(w->point_off[p + 1] - w->point_off[p]) * ops->point_bytes;
        w->msg[p] = (ff_msg){let->peer[p], w->buf + at, bytes};
        at += bytes;
    }
    return FF_OK;
}

/* Every row of the way in the order of its messages: nodes, then points of each peer. */
static void each_row(const ff_let *let, const ff_let_return_ops *ops, const way *w, bool out)
{
    char *at = w->buf;
    for (int p = 0; p < let->n_peers; p++)
        for (int point = 0; point < 2; point++) {
            const int64_t *off = point ? w->point_off : w->node_off;
            const int32_t *list = point ? w->point : w->node;
            size_t bytes = point ? ops->point_bytes : ops->node_bytes;
            for (int64_t k = off[p]; k < off[p + 1] && bytes > 0; k++, at += bytes) {
                if (out)
                    ops->get(ops->ctx, point != 0, list[k], at);
                else
                    ops->add(ops->ctx, point != 0, list[k], at);
            }
        }
}

ff_status ff_let_return(const ff_let *let, const ff_let_return_ops *ops)
{
    ff_request *req = NULL;
    ff_comm *comm = let->cloud->comm;
    way out = {.node_off = let->recv_node_off,
               .point_off = let->recv_point_off,
               .node = let->recv_node,
               .point = let->recv_point};
    way in = {.node_off = let->send_node_off,
              .point_off = let->send_point_off,
              .node = let->send_node,
              .point = let->send_point};
    ff_status st = way_open(let, ops, &out);
    if (st == FF_OK) st = way_open(let, ops, &in);
    FF_GO(ff_agree(comm, st));
    each_row(let, ops, &out, true);
    FF_GO(let->transport->begin(comm, out.msg, let->n_peers, in.msg, let->n_peers, &req));
    FF_GO(let->transport->end(comm, &req));
    each_row(let, ops, &in, false);
done:
    way_free(&out);
    way_free(&in);
    return st;
}
