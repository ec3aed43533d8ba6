/* From marks to the fixed lists by which payload moves. */
#include "ff_let_impl.h"

#include "ff_mem.h"

/* What this rank asks others for, and what they ask of it: global node ids per rank, nodes then leaves.
 * Held nodes ascend in position, owners do too: a rank's requests are contiguous, ranks in order. */
typedef struct requests {
    int size;
    int64_t (*want)[2], (*give)[2]; /* [size] counts of nodes, leaves */
    size_t *want_bytes, *give_bytes, *pair_bytes;
    int64_t *want_id, *give_id;
} requests;

static void requests_destroy(requests *q)
{
    ff_free(q->want);
    ff_free(q->give);
    ff_free(q->want_bytes);
    ff_free(q->give_bytes);
    ff_free(q->pair_bytes);
    ff_free(q->want_id);
    ff_free(q->give_id);
}

static bool owned(const ff_cloud *c, int64_t pos)
{
    return pos >= c->cut[c->comm->rank] && pos < c->cut[c->comm->rank + 1];
}

/* Whether node i's aggregate (what = 0) or leaf points (1) are named and come from another rank. */
static bool wanted(const ff_let *let, int32_t i, int what)
{
    if (what == 0) return let->node_used[i] != 0 && let->node_remote[i] != 0;
    return let->leaf_used[i] != 0 && !owned(let->cloud, let->tree->start[i]);
}

static size_t ids_bytes(int64_t (*count)[2], size_t *bytes, int size)
{
    size_t total = 0;
    for (int r = 0; r < size; r++) {
        bytes[r] = (size_t)(count[r][0] + count[r][1]) * sizeof(int64_t);
        total += bytes[r];
    }
    return total;
}

static ff_status requests_make(const ff_let *let, requests *q)
{
    const ff_tree *t = let->tree;
    int64_t *at = NULL;
    q->size = let->cloud->comm->size;
    FF_TRY(FF_NEW0(q->want, q->size));
    FF_TRY(FF_NEW0(q->give, q->size));
    FF_TRY(FF_NEW(q->want_bytes, q->size));
    FF_TRY(FF_NEW(q->give_bytes, q->size));
    FF_TRY(FF_NEW(q->pair_bytes, q->size));
    for (int r = 0; r < q->size; r++) q->pair_bytes[r] = sizeof *q->want;
    for (int32_t i = 0; i < t->n_nodes; i++)
        for (int what = 0; what < 2; what++)
            if (wanted(let, i, what)) q->want[ff_cut_owner(let->cloud->cut, q->size, t->start[i])][what]++;
    FF_TRY(FF_NEW(q->want_id, ids_bytes(q->want, q->want_bytes, q->size) / sizeof *q->want_id));
    FF_TRY(FF_NEW(at, 2 * (size_t)q->size));
    for (int64_t r = 0, sum = 0; r < q->size; r++)
        for (int what = 0; what < 2; what++) {
            at[2 * r + what] = sum;
            sum += q->want[r][what];
        }
    for (int32_t i = 0; i < t->n_nodes; i++)
        for (int what = 0; what < 2; what++)
            if (wanted(let, i, what))
                q->want_id[at[2 * ff_cut_owner(let->cloud->cut, q->size, t->start[i]) + what]++] = t->id[i];
    ff_free(at);
    return FF_OK;
}

static ff_status requests_answer_space(requests *q)
{
    return FF_NEW(q->give_id, ids_bytes(q->give, q->give_bytes, q->size) / sizeof *q->give_id);
}

/* ---- lists: one direction at a time ---- */

typedef struct lists {
    int64_t *node_off, *point_off; /* [n_peers + 1] */
    int32_t *node, *point;
} lists;

/* Looks the ids up: all must be held, leaves with their points. held [n] receives the held indices. */
static ff_status find_all(const ff_tree *t, const int64_t *id, int64_t n, int64_t n_nodes, int32_t *held)
{
    for (int64_t k = 0; k < n; k++) {
        held[k] = ff_tree_find(t, id[k]);
        if (held[k] < 0 || (k >= n_nodes && t->first[held[k]] < 0))
            return ff_fail(FF_E_INTERNAL, "let: node %lld is asked for but not held", (long long)id[k]);
    }
    return FF_OK;
}

/* Fills rows of peer p from its held indices, nodes then leaves; *n_node and *n_point run on. */
static void fill_peer(const ff_tree *t, const int32_t *held, const int64_t count[2], lists *l, int p)
{
    int64_t n_node = l->node_off[p], n_point = l->point_off[p];
    for (int64_t k = 0; k < count[0]; k++) l->node[n_node++] = held[k];
    for (int64_t k = count[0]; k < count[0] + count[1]; k++)
        for (int64_t j = 0; j < t->count[held[k]]; j++) l->point[n_point++] = t->first[held[k]] + (int32_t)j;
}

static void count_peer(const ff_tree *t, const int32_t *held, const int64_t count[2], lists *l, int p)
{
    int64_t points = 0;
    for (int64_t k = count[0]; k < count[0] + count[1]; k++) points += t->count[held[k]];
    l->node_off[p + 1] = l->node_off[p] + count[0];
    l->point_off[p + 1] = l->point_off[p] + points;
}

/* Turns requests [size] into lists over let->peer. */
static ff_status make_lists(const ff_let *let, int64_t (*count)[2], const int64_t *id, int size, lists *l)
{
    ff_status st = FF_OK;
    const ff_tree *t = let->tree;
    int32_t *held = NULL;
    int64_t n = 0;
    for (int r = 0; r < size; r++) n += count[r][0] + count[r][1];
    FF_GO(FF_NEW(held, n));
    FF_GO(FF_NEW0(l->node_off, let->n_peers + 1));
    FF_GO(FF_NEW0(l->point_off, let->n_peers + 1));
    for (int64_t r = 0, at = 0; r < size; at += count[r][0] + count[r][1], r++)
        FF_GO(find_all(t, id + at, count[r][0] + count[r][1], count[r][0], held + at));
    for (int pass = 0; pass < 2; pass++) {
        int64_t at = 0;
        for (int r = 0, p = 0; r < size; at += count[r][0] + count[r][1], r++) {
            if (p == let->n_peers || let->peer[p] != r) continue;
            if (pass == 0)
                count_peer(t, held + at, count[r], l, p);
            else
                fill_peer(t, held + at, count[r], l, p);
            p++;
        }
        if (pass == 1) break;
        FF_GO(FF_NEW(l->node, l->node_off[let->n_peers]));
        FF_GO(FF_NEW(l->point, l->point_off[let->n_peers]));
    }
done:
    ff_free(held);
    return st;
}

static ff_status make_peers(ff_let *let, const requests *q)
{
    FF_TRY(FF_NEW(let->peer, q->size));
    for (int r = 0; r < q->size; r++)
        if (q->want_bytes[r] + q->give_bytes[r] > 0) let->peer[let->n_peers++] = r;
    return FF_OK;
}

static ff_status set_lists(ff_let *let, const requests *q)
{
    lists send = {NULL, NULL, NULL, NULL}, recv = {NULL, NULL, NULL, NULL};
    ff_status st = make_peers(let, q);
    if (st == FF_OK) st = make_lists(let, q->want, q->want_id, q->size, &recv);
    if (st == FF_OK) st = make_lists(let, q->give, q->give_id, q->size, &send);
    let->send_node_off = send.node_off, let->send_point_off = send.point_off;
    let->recv_node_off = recv.node_off, let->recv_point_off = recv.point_off;
    let->send_node = send.node, let->send_point = send.point;
    let->recv_node = recv.node, let->recv_point = recv.point;
    return st;
}

ff_status ff_let_finish(ff_let *let)
{
    ff_comm *comm = let->cloud->comm;
    requests q = {.size = 0};
    ff_status st = FF_OK;
    if (let->peer != NULL) st = ff_fail(FF_E_INTERNAL, "let: its lists are finished twice");
    if (st == FF_OK) st = ff_let_shrink(let);
    if (st == FF_OK) st = requests_make(let, &q);
    FF_GO(ff_agree(comm, st));
    FF_GO(ff_comm_alltoallv(comm, q.want, q.pair_bytes, q.give, q.pair_bytes));
    FF_GO(ff_agree(comm, requests_answer_space(&q)));
    FF_GO(ff_comm_alltoallv(comm, q.want_id, q.want_bytes, q.give_id, q.give_bytes));
    st = ff_agree(comm, set_lists(let, &q));
done:
    requests_destroy(&q);
    return st;
}
