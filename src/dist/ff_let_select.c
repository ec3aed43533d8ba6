/* The sender's side of the locally essential tree: what a receiver may read of the own subtrees. */
#include "ff_let_impl.h"

#include "ff_mac.h"
#include "ff_mem.h"

#include <string.h>

/* Beside the flags of entries: its parent is opened, or it is a bottom; all of its subtree is marked. */
enum { CHILD = 4, WHOLE = 8 };

typedef struct selector {
    const ff_let *targets;
    const ff_tree *t, *s;
    const float *leaf_diam2; /* of the targets' bottoms */
    float theta2;
    bool all_points, whole_far; /* transposed: points of every leaf met; of every far node */
    int64_t t_begin, t_end;     /* the receiver's run */
    int64_t s_begin, s_end;     /* the own run */
    uint8_t *flag;              /* [s->n_nodes] */
} selector;

static bool meets(const ff_tree *t, int32_t i, int64_t begin, int64_t end)
{
    return t->start[i] < end && t->start[i] + t->count[i] > begin;
}

/* Children are marked one by one: only those in the own run are sent. */
static void open_node(selector *w, int32_t s)
{
    w->flag[s] |= FF_ENTRY_OPEN;
    w->flag[s + 1] |= CHILD;
    w->flag[w->s->node[s].right] |= CHILD;
}

/* A far pair between a source of the receiver and target node s: with expansion every point of s acts. */
static void far_node(selector *w, int32_t s)
{
    if (!w->whole_far || (w->flag[s] & WHOLE) != 0 || !meets(w->s, s, w->s_begin, w->s_end)) return;
    w->flag[s] |= WHOLE;
    if (w->s->node[s].right == FF_NODE_LEAF) {
        w->flag[s] |= FF_ENTRY_POINTS;
        return;
    }
    if (w->s->node[s].right == FF_NODE_CUT) return; /* another rank's */
    open_node(w, s);
    far_node(w, s + 1);
    far_node(w, w->s->node[s].right);
}

/* Any target inside a bottom of the receiver: see ff_let.h for the bound on its diameter. Points of a leaf
 * are read only by a leaf with a point that is near, and such a point lies in the bottom's box. */
static void visit_bottom(selector *w, const ff_node *box, float leaf_diam2, int32_t s)
{
    if (!meets(w->s, s, w->s_begin, w->s_end)) return;
    const ff_node *source = &w->s->node[s];
    ff_node t = *box;
    float bound = leaf_diam2;
    if (source->right != FF_NODE_LEAF && source->diam2 > bound) bound = source->diam2;
    if (t.diam2 > bound) t.diam2 = bound;
    if (ff_mac_far(&t, source, w->theta2)) {
        far_node(w, s);
        return;
    }
    if (source->right == FF_NODE_LEAF) {
        float lhs = ff_mac_gap2(box, source) * w->theta2; /* as ff_mac_point_far, for a box of points */
        if (w->all_points || !(lhs > source->diam2)) w->flag[s] |= FF_ENTRY_POINTS;
        return;
    }
    open_node(w, s);
    visit_bottom(w, box, leaf_diam2, s + 1);
    visit_bottom(w, box, leaf_diam2, source->right);
}

/* Bottom of the targets' tree with this held index. */
static int64_t find_bottom(const ff_let *let, int32_t node)
{
    int64_t lo = 0, hi = let->n_bottom - 1;
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;
        if (let->bottom_node[mid] < node)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* The walk of the receiver as far as both see it alike: down to its bottoms. */
static void visit(selector *w, int32_t t, int32_t s)
{
    if (!meets(w->t, t, w->t_begin, w->t_end) || !meets(w->s, s, w->s_begin, w->s_end)) return;
    const ff_node *target = &w->t->node[t], *source = &w->s->node[s];
    if (target->right < 0) {
        visit_bottom(w, target, w->leaf_diam2[find_bottom(w->targets, t)], s);
        return;
    }
    if (ff_mac_far(target, source, w->theta2)) {
        far_node(w, s);
        return;
    }
    bool split_t = ff_mac_split_target(target, source), split_s = ff_mac_split_source(target, source);
    if (split_s) open_node(w, s);
    for (int i = 0; i <= split_t; i++)
        for (int k = 0; k <= split_s; k++) {
            int32_t to = !split_t ? t : i == 0 ? t + 1 : target->right;
            int32_t so = !split_s ? s : k == 0 ? s + 1 : source->right;
            visit(w, to, so);
        }
}

/* Marks what the receiver's targets of cloud i may read of the own part of cloud j. */
static void select_pair(const ff_let_set *set, int receiver, int i, int j, uint8_t *flag)
{
    const ff_let *targets = set->let[i], *sources = set->let[j];
    const int64_t *t_cut = targets->cloud->cut, *s_cut = sources->cloud->cut;
    int me = set->comm->rank;
    selector w = {.targets = targets,
                  .t = targets->tree,
                  .s = sources->tree,
                  .leaf_diam2 = set->leaf_diam2[i],
                  .theta2 = ff_mac_theta2(set->theta),
                  .all_points = set->transposed || sources->tree->leaf_size > FF_LEAF_MAX,
                  .whole_far = set->transposed && set->expand_far,
                  .t_begin = t_cut[receiver],
                  .t_end = t_cut[receiver + 1],
                  .s_begin = s_cut[me],
                  .s_end = s_cut[me + 1],
                  .flag = flag};
    if (w.t_begin < w.t_end && w.s_begin < w.s_end) visit(&w, 0, 0);
}

static ff_status append(ff_packet *p, const void *data, size_t bytes)
{
    FF_TRY(ff_mem_reserve(&p->buf, &p->cap, p->len + (int64_t)bytes, 1));
    if (bytes > 0) memcpy(p->buf + p->len, data, bytes);
    p->len += (int64_t)bytes;
    return FF_OK;
}

/* First held node of own bottom b and the one after its subtree. */
static void bottom_range(const ff_let *let, int64_t b, int32_t *begin, int32_t *end)
{
    *begin = let->bottom_node[b];
    *end = *begin + (int32_t)ff_topo_nodes(let->bottom[b].count, let->tree->leaf_size);
}

static bool anything(const ff_let *let, uint8_t *flag)
{
    bool any = false;
    for (int64_t b = let->own_bottom_begin; b < let->own_bottom_end; b++) {
        int32_t i, end;
        bottom_range(let, b, &i, &end);
        any = any ||
              (flag[i] & (FF_ENTRY_OPEN | FF_ENTRY_POINTS)) != 0; /* deeper flags have an opened bottom */
        flag[i] |= CHILD;
    }
    return any;
}

static ff_status append_entries(const ff_let *let, const uint8_t *flag, int64_t head[2], ff_packet *p)
{
    for (int64_t b = let->own_bottom_begin; b < let->own_bottom_end; b++) {
        int32_t i, end;
        bottom_range(let, b, &i, &end);
        for (; i < end; i++) {
            if ((flag[i] & CHILD) == 0) continue;
            ff_node entry = let->tree->node[i];
            entry.right = flag[i] & (FF_ENTRY_OPEN | FF_ENTRY_POINTS);
            FF_TRY(append(p, &entry, sizeof entry));
            head[0]++;
            if ((flag[i] & FF_ENTRY_POINTS) != 0) head[1] += let->tree->count[i];
        }
    }
    return FF_OK;
}

static ff_status append_points(const ff_let *let, const uint8_t *flag, ff_packet *p)
{
    const ff_tree *t = let->tree;
    for (int64_t b = let->own_bottom_begin; b < let->own_bottom_end; b++) {
        int32_t i, end;
        bottom_range(let, b, &i, &end);
        for (; i < end; i++)
            if ((flag[i] & FF_ENTRY_POINTS) != 0)
                FF_TRY(append(p, t->x + (int64_t)t->first[i] * t->dim,
                              (size_t)t->count[i] * (size_t)t->dim * sizeof(float)));
    }
    return FF_OK;
}

ff_status ff_let_select(const ff_let_set *set, int receiver, uint8_t *scratch, ff_packet *out)
{
    bool any = false;
    for (int j = 0; j < set->n; j++) {
        int64_t none[2] = {0, 0};
        FF_TRY(append(out, none, sizeof none));
    }
    for (int j = 0; j < set->n; j++) {
        int64_t head[2] = {0, 0};
        memset(scratch, 0, (size_t)set->let[j]->tree->n_nodes);
        for (int i = 0; i < set->n; i++)
            if (set->need[i * set->n + j]) select_pair(set, receiver, i, j, scratch);
        if (!anything(set->let[j], scratch)) continue;
        any = true;
        FF_TRY(append_entries(set->let[j], scratch, head, out));
        FF_TRY(append_points(set->let[j], scratch, out));
        memcpy(out->buf + (size_t)j * sizeof head, head, sizeof head);
    }
    if (!any) out->len = 0;
    return FF_OK;
}
