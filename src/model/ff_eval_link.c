#include "ff_eval_link.h"

#include "ff_mem.h"

#include <string.h>

/* ---- messages ---- */

/* Source ids of a peer's message after the other: nodes, then points. */
static ff_status id_list(const ff_let *let, const int64_t *node_off, const int32_t *node,
                         const int64_t *point_off, const int32_t *point, int32_t **out, int64_t *n)
{
    *n = 0;
    FF_TRY(FF_NEW(*out, let->n_peers > 0 ? node_off[let->n_peers] + point_off[let->n_peers] + 1 : 1));
    for (int p = 0; p < let->n_peers; p++) {
        for (int64_t k = node_off[p]; k < node_off[p + 1]; k++) (*out)[(*n)++] = let->tree->n_held + node[k];
        for (int64_t k = point_off[p]; k < point_off[p + 1]; k++) (*out)[(*n)++] = point[k];
    }
    return FF_OK;
}

static void add_message(ff_msg *list, int *n, int peer, char *buf, size_t bytes)
{
    if (bytes > 0) list[(*n)++] = (ff_msg){peer, buf, bytes};
}

void ff_link_rows(const ff_link *l, size_t row_bytes, void *send, void *recv, ff_resident_msgs *m)
{
    const ff_let *let = l->let;
    for (int p = 0; p < let->n_peers; p++) {
        size_t s = (size_t)(let->send_node_off[p] + let->send_point_off[p]) * row_bytes;
        size_t s_end = (size_t)(let->send_node_off[p + 1] + let->send_point_off[p + 1]) * row_bytes;
        size_t r = (size_t)(let->recv_node_off[p] + let->recv_point_off[p]) * row_bytes;
        size_t r_end = (size_t)(let->recv_node_off[p + 1] + let->recv_point_off[p + 1]) * row_bytes;
        add_message(m->send, &m->n_send, let->peer[p], (char *)send + s, s_end - s);
        add_message(m->recv, &m->n_recv, let->peer[p], (char *)recv + r, r_end - r);
    }
}

/* Every rank holds the upper tree, so the own sums go to all. */
void ff_link_sums(const ff_link *l, size_t row_bytes, void *all, ff_resident_msgs *m)
{
    const ff_comm *comm = l->let->cloud->comm;
    char *rows = (char *)all;
    for (int k = 1; k < comm->size; k++) { /* in turn from the own place: not all to rank 0 at once */
        int to = (comm->rank + k) % comm->size, from = (comm->rank + comm->size - k) % comm->size;
        const int64_t *own = &l->sum_off[comm->rank], *its = &l->sum_off[from];
        add_message(m->send, &m->n_send, to, rows + (size_t)own[0] * row_bytes,
                    (size_t)(own[1] - own[0]) * row_bytes);
        add_message(m->recv, &m->n_recv, from, rows + (size_t)its[0] * row_bytes,
                    (size_t)(its[1] - its[0]) * row_bytes);
    }
}

/* ---- upper nodes ---- */

/* Nodes whose sums are combined from all ranks: other ranks' bottoms and the nodes above bottoms. bottom_of [n_nodes]:
 * which bottom a node is, or -1. */
static ff_status upper_list(const ff_let *let, ff_link *l, int32_t *bottom_of)
{
    int64_t next = 0;
    const ff_tree *t = let->tree;
    FF_TRY(FF_NEW(l->row_of, t->n_nodes + 1));
    FF_TRY(FF_NEW(l->upper, 2 * let->n_bottom + 1));
    for (int32_t i = 0; i < t->n_nodes; i++) l->row_of[i] = bottom_of[i] = -1;
    for (int32_t i = 0; i < t->n_nodes; i++) { /* preorder: what lies inside a bottom follows it */
        if (next == let->n_bottom) break;
        bool bottom = let->bottom_node[next] == i;
        bool own = next >= let->own_bottom_begin && next < let->own_bottom_end;
        if (!bottom || !own) {
            l->row_of[i] = (int32_t)l->n_upper;
            l->upper[l->n_upper++] = i;
        }
        if (!bottom) continue;
        bottom_of[i] = (int32_t)next;
        int64_t past = t->start[i] + t->count[i];
        while (i + 1 < t->n_nodes && t->start[i + 1] < past) i++;
        next++;
    }
    return FF_OK;
}

/* Row of a node among all sums, then upper nodes. */
static int32_t sum_row(const ff_let *let, const ff_link *l, const int32_t *bottom_of, int32_t i)
{
    return l->row_of[i] >= 0 ? (int32_t)let->n_bottom + l->row_of[i] : bottom_of[i];
}

/* Parts of every upper node, sorted by level: copies first, then nodes by their height above them. */
static ff_status upper_parts(const ff_let *let, ff_link *l, const int32_t *bottom_of)
{
    ff_status st = FF_OK;
    const ff_tree *t = let->tree;
    ff_resident_up *part = NULL;
    int32_t *level = NULL, *at;
    FF_GO(FF_NEW(part, l->n_upper + 1));
    FF_GO(FF_NEW(level, l->n_upper + 1));
    for (int64_t u = l->n_upper - 1; u >= 0; u--) { /* children have larger ids */
        int32_t i = l->upper[u], to = (int32_t)(let->n_bottom + u);
        level[u] = 0;
        if (bottom_of[i] >= 0) {
            part[u] = (ff_resident_up){to, bottom_of[i], -1};
        } else {
            int32_t child[2] = {i + 1, t->node[i].right};
            for (int k = 0; k < 2; k++)
                if (l->row_of[child[k]] >= 0 && level[l->row_of[child[k]]] >= level[u])
                    level[u] = level[l->row_of[child[k]]] + 1;
            part[u] = (ff_resident_up){to, sum_row(let, l, bottom_of, child[0]),
                                       sum_row(let, l, bottom_of, child[1])};
        }
        if (level[u] >= l->n_level) l->n_level = level[u] + 1;
    }
    FF_GO(FF_NEW0(l->level_off, l->n_level + 2));
    FF_GO(FF_NEW(l->up, l->n_upper + 1));
    at = l->level_off + 1; /* at[k]: where the next of level k goes; in the end where level k + 1 begins */
    for (int64_t u = 0; u < l->n_upper; u++)
        if (level[u] + 1 < l->n_level) at[level[u] + 1]++;
    for (int k = 1; k < l->n_level; k++) at[k] += at[k - 1];
    for (int64_t u = 0; u < l->n_upper; u++) l->up[at[level[u]]++] = part[u];
done:
    ff_free(part);
    ff_free(level);
    return st;
}

/* ---- ranges ---- */

int ff_link_ranges(const int64_t *task, const uint8_t *remote, int64_t n_tasks, int64_t *range, uint8_t *late)
{
    int64_t from[FF_LINK_EARLY], to[FF_LINK_EARLY], held = 0, half = (task[n_tasks] - task[0]) / 2;
    int n = 0, n_range = 0;
    while (n < FF_LINK_EARLY && held < half) {
        int64_t best = 0, best_from = 0, best_to = 0;
        for (int64_t a = 0, b; a < n_tasks; a = b + 1) {
            for (b = a; b < n_tasks && !remote[b]; b++) {
            }
            bool taken = false;
            for (int k = 0; k < n; k++) taken |= from[k] == a;
            if (!taken && task[b] - task[a] > best) {
                best = task[b] - task[a];
                best_from = a;
                best_to = b;
            }
        }
        if (best == 0) break;
        int k = n++;
        for (; k > 0 && from[k - 1] > best_from; k--) from[k] = from[k - 1], to[k] = to[k - 1];
        from[k] = best_from;
        to[k] = best_to;
        held += best;
    }
    range[0] = task[0];
    for (int k = 0; k < n; k++) {
        if (task[from[k]] > range[n_range]) {
            late[n_range] = 1;
            range[++n_range] = task[from[k]];
        }
        late[n_range] = 0;
        range[++n_range] = task[to[k]];
    }
    if (n_range == 0 || range[n_range] < task[n_tasks]) {
        late[n_range] = 1;
        range[++n_range] = task[n_tasks];
    }
    return n_range;
}

/* ---- life ---- */

static ff_status sums_of(const ff_let *let, ff_link *l)
{
    int size = let->cloud->comm->size;
    FF_TRY(FF_NEW0(l->sum_off, size + 1));
    for (int64_t b = 0; b < let->n_bottom; b++) l->sum_off[let->bottom_owner[b] + 1]++;
    for (int p = 0; p < size; p++) l->sum_off[p + 1] += l->sum_off[p];
    return FF_OK;
}

ff_status ff_link_make(const ff_let *let, bool source, const int64_t *task, const uint8_t *remote,
                       int64_t n_tasks, ff_link *l)
{
    ff_status st = FF_OK;
    int32_t *bottom_of = NULL;
    int64_t n_own = let->own_bottom_end - let->own_bottom_begin;
    *l = (ff_link){.let = let};
    FF_GO(FF_NEW(l->bottom, n_own + 1));
    for (int64_t b = 0; b < n_own; b++) l->bottom[b] = let->bottom_node[let->own_bottom_begin + b];
    FF_GO(FF_NEW(bottom_of, let->tree->n_nodes + 1));
    FF_GO(upper_list(let, l, bottom_of));
    FF_GO(upper_parts(let, l, bottom_of));
    FF_GO(sums_of(let, l));
    FF_GO(FF_NEW(l->range, 2 * FF_LINK_EARLY + 2));
    FF_GO(FF_NEW(l->late, 2 * FF_LINK_EARLY + 1));
    l->n_range = ff_link_ranges(task, remote, n_tasks, l->range, l->late);
    if (!source) goto done;
    FF_GO(id_list(let, let->send_node_off, let->send_node, let->send_point_off, let->send_point, &l->send,
                  &l->n_send));
    FF_GO(id_list(let, let->recv_node_off, let->recv_node, let->recv_point_off, let->recv_point, &l->recv,
                  &l->n_recv));
    FF_GO(FF_NEW(l->send_msg, let->n_peers + 1));
    FF_GO(FF_NEW(l->recv_msg, let->n_peers + 1));
done:
    ff_free(bottom_of);
    return st;
}

void ff_link_free(ff_link *l)
{
    ff_free(l->bottom);
    ff_free(l->upper);
    ff_free(l->send);
    ff_free(l->recv);
    ff_free(l->row_of);
    ff_free(l->sum_off);
    ff_free(l->up);
    ff_free(l->level_off);
    ff_free(l->range);
    ff_free(l->late);
    ff_free(l->send_msg);
    ff_free(l->recv_msg);
    *l = (ff_link){0};
}

void ff_link_give(const ff_link *l, ff_resident_cloud *c)
{
    const ff_let *let = l->let;
    c->tree = let->tree;
    c->own_first = let->own_first;
    c->own_begin = let->cloud->cut[let->cloud->comm->rank];
    c->n_bottom = let->own_bottom_end - let->own_bottom_begin;
    c->bottom = l->bottom;
    c->n_upper = l->n_upper;
    c->upper = l->upper;
    c->n_send = l->n_send;
    c->n_recv = l->n_recv;
    c->send = l->send;
    c->recv = l->recv;
    c->n_sums = let->n_bottom;
    c->first_sum = let->own_bottom_begin;
    c->up = l->up;
    c->n_level = l->n_level;
    c->level_off = l->level_off;
    c->n_range = l->n_range;
    c->range = l->range;
    c->late = l->late;
}
