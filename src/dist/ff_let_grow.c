/* The receiver's side of the locally essential tree: one held tree from U, own subtrees and what others sent.
 */
#include "ff_let_impl.h"

#include "ff_mem.h"

#include <string.h>

typedef struct grower {
    ff_let *let;
    const ff_tree *old; /* U and own subtrees */
    ff_tree *t;
    ff_stream *in; /* [size], consumed */
    int64_t b;     /* next bottom */
    int64_t at, held;
    bool good; /* the streams fit the tree so far */
} grower;

static ff_status totals(const ff_let *let, const ff_stream *in, int32_t *n_nodes, int32_t *n_held)
{
    int64_t nodes = let->tree->n_nodes, held = let->tree->n_held;
    for (int64_t b = 0; b < let->n_bottom; b++)
        if (in[let->bottom_owner[b]].n_entries > 0) nodes--; /* a bottom stands in the stream again */
    for (int r = 0; r < let->cloud->comm->size; r++) {
        nodes += in[r].n_entries;
        held += in[r].n_points;
    }
    FF_TRY(ff_to_i32(nodes, "tree nodes held by one rank", n_nodes));
    return ff_to_i32(held, "points held by one rank", n_held);
}

static void take_points(grower *g, ff_stream *in, ff_subtree s)
{
    ff_tree *t = g->t;
    if (s.count > in->n_points || g->held + s.count > t->n_held) {
        g->good = false;
        return;
    }
    size_t bytes = (size_t)s.count * (size_t)t->dim * sizeof *t->x;
    memcpy(t->x + g->held * t->dim, in->point, bytes);
    for (int64_t k = 0; k < s.count; k++) t->pos[g->held + k] = s.start + k;
    g->held += s.count;
    in->point += bytes;
    in->n_points -= s.count;
}

/* Subtree s as its owner sent it. */
static void take(grower *g, ff_stream *in, ff_subtree s, bool below)
{
    ff_tree *t = g->t;
    ff_node e;
    bool leaf = s.count <= t->leaf_size;
    if (in->n_entries == 0 || g->at == t->n_nodes) g->good = false;
    if (!g->good) return;
    memcpy(&e, in->entry, sizeof e);
    in->entry += sizeof e;
    in->n_entries--;
    int64_t i = g->at++;
    bool open = (e.right & FF_ENTRY_OPEN) != 0, points = (e.right & FF_ENTRY_POINTS) != 0;
    if ((open && leaf) || (points && !leaf)) g->good = false;
    t->node[i] = e;
    t->node[i].right = leaf ? FF_NODE_LEAF : FF_NODE_CUT;
    t->id[i] = s.id;
    t->start[i] = s.start;
    t->count[i] = s.count;
    t->first[i] = points ? (int32_t)g->held : -1;
    g->let->node_remote[i] = below;
    if (points) take_points(g, in, s);
    if (!open || leaf) return;
    int64_t left = s.count / 2;
    take(g, in, (ff_subtree){s.id + 1, s.start, left}, true);
    t->node[i].right = (int32_t)g->at;
    take(g, in, (ff_subtree){s.id + 1 + ff_topo_nodes(left, t->leaf_size), s.start + left, s.count - left},
         true);
}

/* Nodes [i, end) of the old tree; their children move along. */
static void copy_nodes(grower *g, int32_t i, int32_t end)
{
    const ff_tree *old = g->old;
    ff_tree *t = g->t;
    int32_t shift = (int32_t)g->at - i;
    for (; i < end; i++, g->at++) {
        t->node[g->at] = old->node[i];
        if (old->node[i].right >= 0) t->node[g->at].right += shift;
        t->id[g->at] = old->id[i];
        t->start[g->at] = old->start[i];
        t->count[g->at] = old->count[i];
        t->first[g->at] = old->first[i] >= 0 ? old->first[i] + g->let->own_first : -1;
    }
}

static void grow_bottom(grower *g, int32_t i)
{
    ff_let *let = g->let;
    int64_t b = g->b++;
    ff_stream *in = &g->in[let->bottom_owner[b]];
    let->bottom_node[b] = (int32_t)g->at;
    if (let->bottom_owner[b] != let->cloud->comm->rank) {
        if (in->entry != NULL)
            take(g, in, let->bottom[b], false);
        else
            copy_nodes(g, i, i + 1);
        return;
    }
    copy_nodes(g, i, i + (int32_t)ff_topo_nodes(let->bottom[b].count, g->old->leaf_size));
    g->held = let->own_first + g->old->n_held; /* own points lie there already */
}

static void grow(grower *g, int32_t i)
{
    if (i == g->let->bottom_node[g->b]) {
        grow_bottom(g, i);
        return;
    }
    int64_t to = g->at;
    copy_nodes(g, i, i + 1);
    grow(g, i + 1);
    g->t->node[to].right = (int32_t)g->at;
    grow(g, g->old->node[i].right);
}

ff_status ff_let_grow(ff_let *let, ff_stream *in)
{
    ff_tree *old = let->tree;
    int32_t n_nodes = 0, n_held = 0;
    FF_TRY(totals(let, in, &n_nodes, &n_held));
    let->own_first = 0;
    for (int r = 0; r < let->cloud->comm->rank; r++) let->own_first += (int32_t)in[r].n_points;
    grower g = {.let = let, .old = old, .in = in, .good = true};
    FF_TRY(ff_tree_alloc(old->dim, old->leaf_size, old->n_points, n_nodes, n_held, &g.t));
    let->tree = g.t; /* for the size of the marks, and so that it is freed on failure */
    ff_status st = ff_let_alloc_marks(let);
    if (st == FF_OK && old->n_held > 0) {
        memcpy(g.t->x + (int64_t)let->own_first * old->dim, old->x,
               (size_t)old->n_held * (size_t)old->dim * sizeof *old->x);
        memcpy(g.t->pos + let->own_first, old->pos, (size_t)old->n_held * sizeof *old->pos);
    }
    if (st == FF_OK && old->n_nodes > 0) grow(&g, 0);
    if (st == FF_OK && (!g.good || g.at != n_nodes || g.held != n_held))
        st = ff_fail(FF_E_INTERNAL, "let: a message does not fit the tree's topology");
    ff_tree_destroy(&old);
    return st;
}
