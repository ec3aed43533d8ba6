/* Upper tree and own subtrees, then the exchange of remote subtrees. */
#include "ff_let_impl.h"

#include "ff_mem.h"

#include <math.h>
#include <string.h>

/* ---- bottoms: a function of the cut alone ---- */

int ff_let_bottom_owner(const int64_t *cut, int size, int leaf_size, int64_t start, int64_t count)
{
    int owner = ff_cut_owner(cut, size, start);
    int64_t end = cut[owner + 1], limit = (end - cut[owner]) / FF_BOTTOMS_A_RUN;
    if (limit < FF_BLOCK_POINTS) limit = FF_BLOCK_POINTS;
    return count <= leaf_size || (count <= limit && start + count <= end) ? owner : -1;
}

typedef struct bottom_lister {
    const ff_cloud *cloud;
    ff_let *let; /* NULL: only count */
    int64_t n;
} bottom_lister;

static void list_bottoms(bottom_lister *l, ff_subtree s)
{
    const ff_cloud *c = l->cloud;
    int owner = ff_let_bottom_owner(c->cut, c->comm->size, c->leaf_size, s.start, s.count);
    if (owner >= 0) {
        if (l->let != NULL) {
            l->let->bottom[l->n] = s;
            l->let->bottom_owner[l->n] = owner;
        }
        l->n++;
        return;
    }
    int64_t left = s.count / 2;
    list_bottoms(l, (ff_subtree){s.id + 1, s.start, left});
    list_bottoms(l,
                 (ff_subtree){s.id + 1 + ff_topo_nodes(left, c->leaf_size), s.start + left, s.count - left});
}

static ff_status make_bottoms(const ff_cloud *c, ff_let *let)
{
    bottom_lister count = {c, NULL, 0}, list = {c, let, 0};
    if (c->n > 0) list_bottoms(&count, (ff_subtree){0, 0, c->n});
    let->n_bottom = count.n;
    FF_TRY(FF_NEW(let->bottom, count.n));
    FF_TRY(FF_NEW(let->bottom_owner, count.n));
    FF_TRY(FF_NEW(let->bottom_node, count.n));
    if (c->n > 0) list_bottoms(&list, (ff_subtree){0, 0, c->n});
    int me = c->comm->rank;
    while (let->own_bottom_begin < count.n && let->bottom_owner[let->own_bottom_begin] < me)
        let->own_bottom_begin++;
    let->own_bottom_end = let->own_bottom_begin;
    while (let->own_bottom_end < count.n && let->bottom_owner[let->own_bottom_end] == me)
        let->own_bottom_end++;
    return FF_OK;
}

/* ---- U and the own subtrees ---- */

typedef struct placer {
    ff_let *let;
    int64_t b; /* next bottom */
    int32_t at;
} placer;

/* Writes everything but boxes of other ranks' bottoms and of upper nodes. */
static void place(placer *p, ff_subtree s)
{
    ff_let *let = p->let;
    ff_tree *t = let->tree;
    const ff_cloud *c = let->cloud;
    int64_t begin = c->cut[c->comm->rank], left = s.count / 2;
    int32_t i = p->at;
    bool own = s.start >= begin && s.start + s.count <= begin + c->n_own;
    t->id[i] = s.id;
    t->start[i] = s.start;
    t->count[i] = s.count;
    t->first[i] = own ? (int32_t)(s.start - begin) : -1;
    t->node[i].right = s.count <= c->leaf_size ? FF_NODE_LEAF : FF_NODE_CUT;
    p->at++;
    if (s.id == let->bottom[p->b].id) {
        let->bottom_node[p->b++] = i;
        if (!own) return;
        ff_tree_fill(t, i, s, t->x + (s.start - begin) * t->dim, t->first[i]);
        p->at = i + (int32_t)ff_topo_nodes(s.count, c->leaf_size);
        return;
    }
    place(p, (ff_subtree){s.id + 1, s.start, left});
    t->node[i].right = p->at;
    place(p, (ff_subtree){s.id + 1 + ff_topo_nodes(left, c->leaf_size), s.start + left, s.count - left});
}

static ff_status let_start(const ff_cloud *c, ff_let **out)
{
    ff_let *let = NULL;
    int32_t n_nodes = 0, n_held = 0;
    FF_TRY(FF_NEW0(let, 1));
    *out = let;
    let->cloud = c;
    let->transport = ff_transport_find("mpi");
    FF_TRY(make_bottoms(c, let));
    int64_t nodes = let->n_bottom > 0 ? 2 * let->n_bottom - 1 : 0;
    for (int64_t b = let->own_bottom_begin; b < let->own_bottom_end; b++)
        nodes += ff_topo_nodes(let->bottom[b].count, c->leaf_size) - 1;
    FF_TRY(ff_to_i32(nodes, "tree nodes on one rank", &n_nodes));
    FF_TRY(ff_to_i32(c->n_own, "points on one rank", &n_held));
    FF_TRY(ff_tree_alloc(c->dim, c->leaf_size, c->n, n_nodes, n_held, &let->tree));
    if (c->n_own > 0) memcpy(let->tree->x, c->x, (size_t)c->n_own * (size_t)c->dim * sizeof *c->x);
    for (int64_t i = 0; i < c->n_own; i++) let->tree->pos[i] = c->cut[c->comm->rank] + i;
    placer p = {let, 0, 0};
    if (c->n > 0) place(&p, (ff_subtree){0, 0, c->n});
    return FF_OK;
}

/* ---- boxes of bottoms, all-gathered ---- */

typedef struct bottom_row {
    float lo[3], hi[3], diam2, leaf_diam2;
} bottom_row;

static bottom_row own_row(const ff_let *let, int64_t b)
{
    const ff_tree *t = let->tree;
    int32_t i = let->bottom_node[b], end = i + (int32_t)ff_topo_nodes(let->bottom[b].count, t->leaf_size);
    const ff_node *n = &t->node[i];
    bottom_row row = {{n->lo[0], n->lo[1], n->lo[2]}, {n->hi[0], n->hi[1], n->hi[2]}, n->diam2, 0.0f};
    for (; i < end; i++)
        if (t->node[i].right == FF_NODE_LEAF && t->node[i].diam2 > row.leaf_diam2)
            row.leaf_diam2 = t->node[i].diam2;
    return row;
}

/* Boxes of the nodes above bottoms, children first, left then right. */
static void combine(ff_let *let, int32_t i, int64_t *b)
{
    ff_node *node = let->tree->node;
    if (i == let->bottom_node[*b]) {
        ++*b;
        return;
    }
    combine(let, i + 1, b);
    combine(let, node[i].right, b);
    ff_node_from_children(&node[i], &node[i + 1], &node[node[i].right]); /* keeps right */
}

static ff_status share_boxes(ff_let *let, float **leaf_diam2) /* Collective */
{
    bottom_row *own = NULL, *all = NULL;
    int64_t first = let->own_bottom_begin, next = 0;
    ff_status st = FF_NEW(own, let->own_bottom_end - first);
    if (st == FF_OK) st = FF_NEW(all, let->n_bottom);
    if (st == FF_OK) st = FF_NEW(*leaf_diam2, let->n_bottom);
    FF_GO(ff_agree(let->cloud->comm, st));
    for (int64_t b = first; b < let->own_bottom_end; b++) own[b - first] = own_row(let, b);
    FF_GO(ff_let_gather_bottom(let, sizeof *all, own, all));
    for (int64_t b = 0; b < let->n_bottom; b++) {
        ff_node *n = &let->tree->node[let->bottom_node[b]];
        memcpy(n->lo, all[b].lo, sizeof n->lo);
        memcpy(n->hi, all[b].hi, sizeof n->hi);
        n->diam2 = all[b].diam2;
        (*leaf_diam2)[b] = all[b].leaf_diam2;
    }
    if (let->n_bottom > 0) combine(let, 0, &next);
done:
    ff_free(own);
    ff_free(all);
    return st;
}

/* ---- remote subtrees ---- */

/* Messages of one exchange with every rank. */
typedef struct mail {
    int size;
    ff_packet *out, *in;
    ff_msg *send, *recv;
    size_t *send_bytes, *recv_bytes;
    ff_stream *stream; /* [size] of one cloud */
} mail;

static void mail_destroy(mail *m)
{
    for (int r = 0; r < m->size; r++) {
        if (m->out != NULL) ff_free(m->out[r].buf);
        if (m->in != NULL) ff_free(m->in[r].buf);
    }
    ff_free(m->out);
    ff_free(m->in);
    ff_free(m->send);
    ff_free(m->recv);
    ff_free(m->send_bytes);
    ff_free(m->recv_bytes);
    ff_free(m->stream);
}

static ff_status write_mail(const ff_let_set *set, mail *m)
{
    uint8_t *scratch = NULL;
    int32_t largest = 0;
    FF_TRY(FF_NEW0(m->out, m->size));
    FF_TRY(FF_NEW0(m->in, m->size));
    FF_TRY(FF_NEW(m->send, m->size));
    FF_TRY(FF_NEW(m->recv, m->size));
    FF_TRY(FF_NEW0(m->send_bytes, m->size));
    FF_TRY(FF_NEW0(m->recv_bytes, m->size));
    FF_TRY(FF_NEW(m->stream, m->size));
    for (int i = 0; i < set->n; i++)
        if (set->let[i]->tree->n_nodes > largest) largest = set->let[i]->tree->n_nodes;
    FF_TRY(FF_NEW(scratch, largest));
    ff_status st = FF_OK;
    for (int r = 0; r < m->size && st == FF_OK; r++) {
        if (r != set->comm->rank) st = ff_let_select(set, r, scratch, &m->out[r]);
        m->send_bytes[r] = (size_t)m->out[r].len;
    }
    ff_free(scratch);
    return st;
}

static ff_status open_inboxes(mail *m)
{
    for (int r = 0; r < m->size; r++) {
        m->in[r].len = (int64_t)m->recv_bytes[r];
        FF_TRY(FF_NEW(m->in[r].buf, m->in[r].len));
        m->send[r] = (ff_msg){r, m->out[r].buf, (size_t)m->out[r].len};
        m->recv[r] = (ff_msg){r, m->in[r].buf, (size_t)m->in[r].len};
    }
    return FF_OK;
}

/* Points each rank's stream at its part on cloud i. */
static void find_streams(const ff_let_set *set, const mail *m, int i)
{
    for (int r = 0; r < m->size; r++) {
        ff_stream *s = &m->stream[r];
        *s = (ff_stream){NULL, NULL, 0, 0};
        if (m->in[r].len == 0) continue;
        const char *at = m->in[r].buf + (size_t)set->n * 2 * sizeof(int64_t);
        for (int k = 0; k <= i; k++) {
            int64_t head[2];
            memcpy(head, m->in[r].buf + (size_t)k * sizeof head, sizeof head);
            const char *point = at + head[0] * (int64_t)sizeof(ff_node);
            *s = (ff_stream){head[0] > 0 ? at : NULL, point, head[0], head[1]};
            at = point + head[1] * set->let[k]->cloud->dim * (int64_t)sizeof(float);
        }
    }
}

static ff_status grow_all(const ff_let_set *set, const mail *m)
{
    for (int i = 0; i < set->n; i++) {
        find_streams(set, m, i);
        FF_TRY(ff_let_grow(set->let[i], m->stream));
    }
    return FF_OK;
}

static ff_status exchange_subtrees(const ff_let_set *set) /* Collective */
{
    ff_request *req = NULL;
    mail m = {.size = set->comm->size};
    ff_status st = ff_agree(set->comm, write_mail(set, &m));
    if (st != FF_OK) goto done;
    FF_GO(ff_comm_alltoall_counts(set->comm, m.send_bytes, m.recv_bytes));
    FF_GO(ff_agree(set->comm, open_inboxes(&m)));
    FF_GO(ff_comm_exchange_begin(set->comm, m.send, m.size, m.recv, m.size, &req));
    FF_GO(ff_comm_exchange_end(set->comm, &req));
    for (int r = 0; r < m.size; r++) FF_FREE(m.out[r].buf);
    FF_GO(ff_agree(set->comm, grow_all(set, &m)));
done:
    mail_destroy(&m);
    return st;
}

ff_status ff_let_alloc_marks(ff_let *let)
{
    FF_TRY(FF_NEW0(let->node_remote, let->tree->n_nodes));
    FF_TRY(FF_NEW0(let->node_used, let->tree->n_nodes));
    return FF_NEW0(let->leaf_used, let->tree->n_nodes);
}

static ff_status start_all(ff_let_set *set, ff_cloud *const *clouds)
{
    if (!(set->theta >= 0.0) || !isfinite(set->theta))
        return ff_fail(FF_E_ARG, "theta = %g, expected a finite theta >= 0", set->theta);
    FF_TRY(FF_NEW0(set->leaf_diam2, set->n));
    for (int i = 0; i < set->n; i++) FF_TRY(let_start(clouds[i], &set->let[i]));
    return FF_OK;
}

static ff_status build(ff_let_set *set, ff_cloud *const *clouds)
{
    ff_status st = FF_OK;
    for (int i = 0; i < set->n; i++) set->let[i] = NULL;
    FF_GO(ff_agree(set->comm, start_all(set, clouds)));
    for (int i = 0; i < set->n; i++) FF_GO(share_boxes(set->let[i], &set->leaf_diam2[i]));
    if (set->comm->size > 1) FF_GO(exchange_subtrees(set));
    for (int i = 0; set->comm->size == 1 && i < set->n; i++) FF_GO(ff_let_alloc_marks(set->let[i]));
done:
    for (int i = 0; i < set->n; i++) {
        if (set->leaf_diam2 != NULL) ff_free(set->leaf_diam2[i]);
        if (st != FF_OK) ff_let_destroy(&set->let[i]);
    }
    ff_free(set->leaf_diam2);
    return st;
}

ff_status ff_let_build(ff_cloud *const *clouds, int n_clouds, const uint8_t *need, double theta,
                       ff_let **lets)
{
    if (n_clouds == 0) return FF_OK;
    ff_let_set set = {.comm = clouds[0]->comm, .n = n_clouds, .let = lets, .need = need, .theta = theta};
    return build(&set, clouds);
}

ff_status ff_let_build_transposed(ff_cloud *const *clouds, int n_clouds, const uint8_t *need, double theta,
                                  bool expand_far, ff_let **lets)
{
    if (n_clouds == 0) return FF_OK;
    uint8_t *turned = NULL;
    FF_TRY(FF_NEW_ALL(clouds[0]->comm, turned, n_clouds * n_clouds));
    for (int i = 0; i < n_clouds; i++)
        for (int j = 0; j < n_clouds; j++) turned[j * n_clouds + i] = need[i * n_clouds + j];
    ff_let_set set = {.comm = clouds[0]->comm,
                      .n = n_clouds,
                      .let = lets,
                      .need = turned,
                      .theta = theta,
                      .transposed = true,
                      .expand_far = expand_far};
    ff_status st = build(&set, clouds);
    ff_free(turned);
    return st;
}

void ff_let_destroy(ff_let **p)
{
    ff_let *let = *p;
    if (let == NULL) return;
    ff_tree_destroy(&let->tree);
    ff_free(let->bottom);
    ff_free(let->bottom_owner);
    ff_free(let->bottom_node);
    ff_free(let->node_remote);
    ff_free(let->node_used);
    ff_free(let->leaf_used);
    ff_free(let->peer);
    ff_free(let->send_node_off);
    ff_free(let->send_point_off);
    ff_free(let->recv_node_off);
    ff_free(let->recv_point_off);
    ff_free(let->send_node);
    ff_free(let->send_point);
    ff_free(let->recv_node);
    ff_free(let->recv_point);
    ff_free(let);
    *p = NULL;
}
