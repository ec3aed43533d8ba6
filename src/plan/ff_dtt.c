#include "ff_dtt.h"

#include "ff_mac.h"
#include "ff_mem.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

/* The lists that target nodes hand down lie on one stack: a node's own list at [lo, hi), its children's
 * above. */
typedef struct walker {
    const ff_tree *t,
        *s; /* walked along, and against; the targets' and the sources' tree unless transposed */
    bool transposed;
    int64_t more_than; /* nodes of t with at most so many points are not visited */
    float theta2;
    int64_t begin, end;
    ff_dtt_emit emit;
    void *ctx;
    int32_t *list; /* stack of worklists */
    int32_t *open, *far, *leaf;
    uint64_t *t_mask, *s_mask;
    int64_t list_cap, open_cap, far_cap, leaf_cap, t_mask_cap, s_mask_cap;
} walker;

/* Points i < n of x whose criterion against the box of node other fails, i.e. which are not far. */
static uint64_t near_points(const ff_tree *tree, int32_t leaf, const ff_node *other, float theta2)
{
    const float *x = tree->x + (int64_t)tree->first[leaf] * tree->dim;
    uint64_t mask = 0;
    for (int64_t i = 0; i < tree->count[leaf]; i++)
        if (!ff_mac_point_far(x + i * tree->dim, tree->dim, other, theta2)) mask |= UINT64_C(1) << i;
    return mask;
}

static ff_status fail_points(const ff_tree *tree, int32_t leaf, const char *which)
{
    return ff_fail(FF_E_INTERNAL, "traversal reads leaf %lld of the %s tree, whose points are not held",
                   (long long)tree->id[leaf], which);
}

/* The masks of ff_dtt_walk_sources: t is the source leaf. Target points are always read. */
static ff_status leaf_masks_transposed(walker *w, int32_t t, int64_t n_leaf)
{
    if (n_leaf > 0 && w->t->first[t] < 0) return fail_points(w->t, t, "source");
    for (int64_t k = 0; k < n_leaf; k++) {
        int32_t s = w->leaf[k];
        bool single = w->t->count[t] == 1 && w->s->count[s] == 1;
        if (w->s->first[s] < 0) return fail_points(w->s, s, "target");
        w->t_mask[k] = single ? 1 : near_points(w->s, s, &w->t->node[t], w->theta2);
        w->s_mask[k] = w->t_mask[k];
        if (w->t_mask[k] != 0 && !single) w->s_mask[k] = near_points(w->t, t, &w->s->node[s], w->theta2);
    }
    return FF_OK;
}

static uint64_t low_bits(int64_t n)
{
    return n >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << n) - 1;
}

/* Leaves too large for masks: every point is near. */
static ff_status leaf_masks_whole(walker *w, int32_t t, int64_t n_leaf)
{
    if (n_leaf > 0 && w->t->first[t] < 0) return fail_points(w->t, t, "target");
    for (int64_t k = 0; k < n_leaf; k++) {
        const int32_t s = w->leaf[k];
        if (w->s->first[s] < 0) return fail_points(w->s, s, "source");
        w->t_mask[k] = low_bits(w->t->count[t]);
        w->s_mask[k] = low_bits(w->s->count[s]);
    }
    return FF_OK;
}

/* Source points are read only where a target survives stage 1. */
static ff_status leaf_masks(walker *w, int32_t t, int64_t n_leaf)
{
    FF_TRY(ff_mem_reserve(&w->t_mask, &w->t_mask_cap, n_leaf, sizeof *w->t_mask));
    FF_TRY(ff_mem_reserve(&w->s_mask, &w->s_mask_cap, n_leaf, sizeof *w->s_mask));
    if (w->t->leaf_size > FF_LEAF_MAX || w->s->leaf_size > FF_LEAF_MAX) return leaf_masks_whole(w, t, n_leaf);
    if (w->transposed) return leaf_masks_transposed(w, t, n_leaf);
    if (n_leaf > 0 && w->t->first[t] < 0) return fail_points(w->t, t, "target");
    for (int64_t k = 0; k < n_leaf; k++) {
        int32_t s = w->leaf[k];
        bool single =
            w->t->count[t] == 1 && w->s->count[s] == 1; /* the pair's test and the points' are one */
        w->t_mask[k] = single ? 1 : near_points(w->t, t, &w->s->node[s], w->theta2);
        w->s_mask[k] = w->t_mask[k];
        if (w->t_mask[k] == 0) continue;
        if (w->s->first[s] < 0) return fail_points(w->s, s, "source");
        if (!single) w->s_mask[k] = near_points(w->s, s, &w->t->node[t], w->theta2);
    }
    return FF_OK;
}

/* Room for what so many decisions can add: at most one far or leaf source each and two to the children's
 * list. */
static ff_status make_room(walker *w, int64_t hi, int64_t decisions)
{
    FF_TRY(ff_mem_reserve(&w->list, &w->list_cap, hi + 2 * decisions + 2, sizeof *w->list));
    FF_TRY(ff_mem_reserve(&w->open, &w->open_cap, decisions + 2, sizeof *w->open));
    FF_TRY(ff_mem_reserve(&w->far, &w->far_cap, decisions + 1, sizeof *w->far));
    return ff_mem_reserve(&w->leaf, &w->leaf_cap, decisions, sizeof *w->leaf);
}

/* ff_mac_far with the three axes in one vector (lane 3 holds what lies beside and is ignored): the same
 * operations in the same order, hence the same bits. */
typedef float vec4 __attribute__((vector_size(16)));
typedef int32_t mask4 __attribute__((vector_size(16)));

typedef struct probe { /* the target node, ready to be compared with many sources */
    vec4 lo, hi;
    float root_diam2, theta2;
} probe;

static inline vec4 load4(const ff_node *n, size_t offset)
{
    vec4 v;
    memcpy(&v, (const char *)n + offset, sizeof v);
    return v;
}
static inline vec4 load_lo(const ff_node *n)
{
    return load4(n, offsetof(ff_node, lo));
}
static inline vec4 load_hi(const ff_node *n)
{
    return load4(n, offsetof(ff_node, hi));
}

static inline vec4 select4(mask4 m, vec4 a, vec4 b)
{
    return (vec4)((m & (mask4)a) | (~m & (mask4)b));
}

static inline bool probe_far(const probe *t, const ff_node *s)
{
    const vec4 zero = {0.0f, 0.0f, 0.0f, 0.0f};
    vec4 a = t->lo - load_hi(s), b = load_lo(s) - t->hi;
    vec4 g = select4(a > b, a, b);
    g = select4(g > zero, g, zero);
    vec4 g2 = g * g;
    float gap2 = g2[0] + g2[1];
    gap2 = gap2 + g2[2];
    float reach = t->root_diam2 + sqrtf(s->diam2);
    float lhs = gap2 * t->theta2, rhs = reach * reach;
    return lhs > rhs;
}

typedef struct sifted {
    int64_t n_far, n_leaf, n_next;
} sifted;

static ff_status fail_cut(const ff_tree *tree, int32_t node, const char *which)
{
    return ff_fail(FF_E_INTERNAL, "traversal opens node %lld of the %s tree, whose children are not held",
                   (long long)tree->id[node], which);
}

/* Decides every source of list[lo, hi) against t, and the children of sources split alone, in order.
 * Which way a pair goes is as good as random, so results are stored first and then counted or not, without a
 * jump; only sources split alone (about one in four) take one. */
static ff_status sift(walker *w, int32_t t, int64_t lo, int64_t hi, sifted *out)
{
    const ff_node t_node = w->t->node[t];
    const ff_node *node = w->s->node;
    const probe t_probe = {load_lo(&t_node), load_hi(&t_node), sqrtf(t_node.diam2), w->theta2};
    const bool t_leaf = t_node.right == FF_NODE_LEAF;
    int64_t decisions = hi - lo, room = decisions + 64, top = 0;
    sifted n = {0, 0, 0};
    FF_TRY(make_room(w, hi, room));
    for (int64_t k = hi; k-- > lo;) w->open[top++] = w->list[k];
    while (top > 0) {
        int32_t s = w->open[--top];
        const ff_node *s_node = &node[s];
        bool far = probe_far(&t_probe, s_node), s_leaf = s_node->right == FF_NODE_LEAF;
        bool split_t = (!t_leaf) & (s_leaf | (t_node.diam2 >= s_node->diam2));
        bool split_s = (!s_leaf) & (t_leaf | (s_node->diam2 >= t_node.diam2));
        bool down = (!far) & split_t;
        w->far[n.n_far] = s;
        n.n_far += far;
        w->list[hi + n.n_next] = s + split_s;
        n.n_next += down;
        w->list[hi + n.n_next] = s_node->right;
        n.n_next += down & split_s;
        if (s_node->right == FF_NODE_CUT && !far && split_s) return fail_cut(w->s, s, "source");
        if (far | split_t) continue;
        if (split_s) {
            w->open[top++] = s_node->right;
            w->open[top++] = s + 1;
            if (++decisions > room) {
                room = decisions + decisions / 2;
                FF_TRY(make_room(w, hi, room));
            }
        } else {
            w->leaf[n.n_leaf++] = s;
        }
    }
    *out = n;
    return FF_OK;
}

static bool meets(const walker *w, int32_t t)
{
    return w->t->start[t] < w->end && w->t->start[t] + w->t->count[t] > w->begin &&
           w->t->count[t] > w->more_than;
}

static ff_status visit(walker *w, int32_t t, int64_t lo, int64_t hi)
{
    sifted n = {0, 0, 0};
    FF_TRY(sift(w, t, lo, hi, &n));
    if (n.n_far > 0 || n.n_leaf > 0) {
        FF_TRY(leaf_masks(w, t, n.n_leaf));
        ff_dtt_lists lists = {t, w->far, n.n_far, w->leaf, w->t_mask, w->s_mask, n.n_leaf};
        FF_TRY(w->emit(w->ctx, &lists));
    }
    if (n.n_next == 0) return FF_OK;
    int32_t right = w->t->node[t].right;
    if (right == FF_NODE_CUT) return fail_cut(w->t, t, "target");
    if (meets(w, t + 1)) FF_TRY(visit(w, t + 1, hi, hi + n.n_next));
    return meets(w, right) ? visit(w, right, hi, hi + n.n_next) : FF_OK;
}

ff_status ff_dtt_check(const ff_tree *targets, const ff_tree *sources, double theta, int64_t t_begin,
                       int64_t t_end)
{
    if (!(theta >= 0.0) || isinf(theta))
        return ff_fail(FF_E_ARG, "plan: theta = %g, expected a finite theta >= 0", theta);
    if (targets->dim != sources->dim)
        return ff_fail(FF_E_ARG, "plan: targets have %d dimensions, sources %d; expected the same",
                       targets->dim, sources->dim);
    if (t_begin < 0 || t_begin > t_end || t_end > targets->n_points)
        return ff_fail(FF_E_ARG, "plan: target range [%lld, %lld), expected a range within [0, %lld)",
                       (long long)t_begin, (long long)t_end, (long long)targets->n_points);
    return FF_OK;
}

static ff_status walk(walker *w)
{
    ff_status st = FF_OK;
    if (w->t->n_nodes == 0 || w->s->n_nodes == 0 || w->begin == w->end || !meets(w, 0)) return FF_OK;
    FF_GO(ff_mem_reserve(&w->list, &w->list_cap, 1024, sizeof *w->list));
    FF_GO(ff_mem_reserve(&w->t_mask, &w->t_mask_cap, 64,
                         sizeof *w->t_mask)); /* rows hold no NULL, empty or not */
    FF_GO(ff_mem_reserve(&w->s_mask, &w->s_mask_cap, 64, sizeof *w->s_mask));
    w->list[0] = 0;
    FF_GO(visit(w, 0, 0, 1));
done:
    ff_free(w->list);
    ff_free(w->open);
    ff_free(w->far);
    ff_free(w->leaf);
    ff_free(w->t_mask);
    ff_free(w->s_mask);
    return st;
}

ff_status ff_dtt_walk(const ff_tree *targets, const ff_tree *sources, double theta, int64_t t_begin,
                      int64_t t_end, ff_dtt_emit emit, void *ctx)
{
    walker w = {.t = targets,
                .s = sources,
                .theta2 = ff_mac_theta2(theta),
                .begin = t_begin,
                .end = t_end,
                .emit = emit,
                .ctx = ctx};
    FF_TRY(ff_dtt_check(targets, sources, theta, t_begin, t_end));
    return walk(&w);
}

/* Far is symmetric in its two boxes to the bit (the gap is a maximum of the same two differences, the reach a sum of
 * the same two roots), and so are the two rules of splitting: the same pairs are met with the roles exchanged. */
ff_status ff_dtt_walk_sources(const ff_tree *sources, const ff_tree *targets, double theta, int64_t s_begin,
                              int64_t s_end, int64_t more_than, ff_dtt_emit emit, void *ctx)
{
    walker w = {.t = sources,
                .s = targets,
                .transposed = true,
                .more_than = more_than,
                .theta2 = ff_mac_theta2(theta),
                .begin = s_begin,
                .end = s_end,
                .emit = emit,
                .ctx = ctx};
    FF_TRY(ff_dtt_check(sources, targets, theta, s_begin, s_end));
    return walk(&w);
}
