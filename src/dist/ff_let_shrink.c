/* From the superset that was pushed to what the marked walks read. */
#include "ff_let_impl.h"

#include "ff_mem.h"

#include <string.h>

typedef struct shrinker {
    const ff_let *let;
    const ff_tree *old;
    ff_tree *t;
    uint8_t *has;    /* [old nodes] something in the subtree is marked */
    uint8_t *keep;   /* [old nodes] */
    uint8_t *points; /* [old nodes] a kept leaf whose points stay */
    int32_t *to;     /* [old nodes] new index of kept nodes */
} shrinker;

/* A node was opened if and only if something below it is marked, since every pair ends in a mark. U, own
 * subtrees and the children of opened nodes stay. */
static void choose(const shrinker *s, int32_t *n_nodes, int32_t *n_held)
{
    const ff_let *let = s->let;
    const ff_tree *t = s->old;
    int64_t begin = let->cloud->cut[let->cloud->comm->rank], end = begin + let->cloud->n_own;
    for (int32_t i = t->n_nodes - 1; i >= 0; i--) {
        int32_t right = t->node[i].right;
        s->has[i] = let->node_used[i] | let->leaf_used[i];
        if (right >= 0) s->has[i] |= s->has[i + 1] | s->has[right];
    }
    *n_nodes = *n_held = 0;
    for (int32_t i = 0; i < t->n_nodes; i++) {
        int32_t right = t->node[i].right;
        bool own = t->start[i] >= begin && t->start[i] < end;
        if (!let->node_remote[i]) s->keep[i] = 1; /* of the others the parent, met before, has decided */
        if (right >= 0 && let->node_remote[i + 1])
            s->keep[i + 1] = s->keep[right] = s->has[i + 1] | s->has[right];
        s->points[i] = s->keep[i] && right == FF_NODE_LEAF && t->first[i] >= 0 && (own || let->leaf_used[i]);
        s->to[i] = *n_nodes;
        *n_nodes += s->keep[i];
        if (s->points[i]) *n_held += (int32_t)t->count[i];
    }
}

static void copy_points(const shrinker *s, int32_t i, int32_t at)
{
    const ff_tree *old = s->old;
    size_t n = (size_t)old->count[i], dim = (size_t)old->dim;
    memcpy(s->t->x + (size_t)at * dim, old->x + (size_t)old->first[i] * dim, n * dim * sizeof(float));
    memcpy(s->t->pos + at, old->pos + old->first[i], n * sizeof *old->pos);
}

static void copy_kept(const shrinker *s, int32_t own_first)
{
    const ff_tree *old = s->old;
    ff_tree *t = s->t;
    int64_t begin = s->let->cloud->cut[s->let->cloud->comm->rank], end = begin + s->let->cloud->n_own;
    for (int32_t i = 0, held = 0; i < old->n_nodes; i++) {
        if (!s->keep[i]) continue;
        int32_t k = s->to[i], right = old->node[i].right;
        bool inside = old->start[i] >= begin && old->start[i] + old->count[i] <= end;
        t->node[k] = old->node[i];
        if (right >= 0) t->node[k].right = s->keep[right] ? s->to[right] : FF_NODE_CUT;
        t->id[k] = old->id[i];
        t->start[k] = old->start[i];
        t->count[k] = old->count[i];
        t->first[k] = inside ? own_first + (int32_t)(old->start[i] - begin) : -1;
        if (!s->points[i]) continue;
        t->first[k] = held;
        copy_points(s, i, held);
        held += (int32_t)old->count[i];
    }
}

/* Marks of kept nodes move to the front, in place. */
static void pack_marks(const shrinker *s, uint8_t *mark)
{
    for (int32_t i = 0; i < s->old->n_nodes; i++)
        if (s->keep[i]) mark[s->to[i]] = mark[i];
}

static void replace_tree(const shrinker *s, ff_let *let, int32_t own_first)
{
    copy_kept(s, own_first);
    pack_marks(s, let->node_remote);
    pack_marks(s, let->node_used);
    pack_marks(s, let->leaf_used);
    for (int64_t b = 0; b < let->n_bottom; b++) let->bottom_node[b] = s->to[let->bottom_node[b]];
    let->own_first = own_first;
    let->tree = s->t;
}

ff_status ff_let_shrink(ff_let *let)
{
    ff_status st = FF_OK;
    ff_tree *old = let->tree;
    shrinker s = {.let = let, .old = old};
    int32_t n_nodes = 0, n_held = 0, own_first = 0;
    if (let->cloud->comm->size == 1) return FF_OK; /* all is own */
    FF_GO(FF_NEW(s.has, old->n_nodes));
    FF_GO(FF_NEW(s.keep, old->n_nodes));
    FF_GO(FF_NEW(s.points, old->n_nodes));
    FF_GO(FF_NEW(s.to, old->n_nodes));
    choose(&s, &n_nodes, &n_held);
    for (int32_t i = 0; i < old->n_nodes && old->start[i] < let->cloud->cut[let->cloud->comm->rank]; i++)
        if (s.points[i]) own_first += (int32_t)old->count[i];
    FF_GO(ff_tree_alloc(old->dim, old->leaf_size, old->n_points, n_nodes, n_held, &s.t));
    replace_tree(&s, let, own_first);
    ff_tree_destroy(&old);
done:
    ff_free(s.has);
    ff_free(s.keep);
    ff_free(s.points);
    ff_free(s.to);
    return st;
}
