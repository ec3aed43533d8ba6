#include "ff_pair_lists.h"

#include "ff_mem.h"

#include <string.h>

void ff_pair_lists_destroy(ff_pair_lists **lp)
{
    ff_pair_lists *l = *lp;
    if (l == NULL) return;
    for (int k = 0; k < l->n_parts && l->part != NULL; k++) {
        ff_free(l->part[k].far_up);
        ff_free(l->part[k].far_of);
        ff_free(l->part[k].leaf_from);
        ff_free(l->part[k].leaf_mask);
    }
    ff_free(l->part);
    ff_free(l->x_t);
    ff_free(l->seg_off);
    ff_free(l->seg_src);
    ff_free(l->seg_cum);
    ff_free(l->n_pairs);
    ff_free(l->src);
    FF_FREE(*lp);
}

static uint64_t low_bits(int64_t n)
{
    return n >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << n) - 1;
}

/* ---- sizes of one part ---- */

/* What each row and point adds, then (after the sums) where it begins, counted from the part's first. */
typedef struct part_plan {
    ff_plan *plan;
    int64_t *far_src; /* [n_rows] place of the row's far ids in src */
    int64_t *up;      /* [n_rows] nearest row above that has far ids and holds this row's node, or -1 */
    int32_t *depth;   /* [n_rows] rows with far ids from the root to here, this one included */
    int64_t *entry;   /* [n_rows + 1] node entries */
    int64_t *leaf;    /* [n_rows + 1] leaf entries */
    int64_t *fn_ids;  /* [n_rows + 1] their ids */
    int64_t *row_of;  /* [n_points] plan row of the point's leaf, or -1 */
    int64_t *ids;     /* [n_points + 1] ids of the point's leaf pairs */
    int64_t *seg;     /* [n_points + 1] segments */
} part_plan;

static void part_plan_free(part_plan *p)
{
    ff_plan_destroy(&p->plan);
    ff_free(p->far_src);
    ff_free(p->up);
    ff_free(p->depth);
    ff_free(p->entry);
    ff_free(p->leaf);
    ff_free(p->fn_ids);
    ff_free(p->row_of);
    ff_free(p->ids);
    ff_free(p->seg);
}

static ff_status part_plan_alloc(part_plan *p, int64_t n_points)
{
    int64_t n = p->plan->n_rows;
    FF_TRY(FF_NEW(p->far_src, n + 1));
    FF_TRY(FF_NEW(p->up, n + 1));
    FF_TRY(FF_NEW(p->depth, n + 1));
    FF_TRY(FF_NEW(p->entry, n + 1));
    FF_TRY(FF_NEW(p->leaf, n + 1));
    FF_TRY(FF_NEW(p->fn_ids, n + 1));
    FF_TRY(FF_NEW(p->row_of, n_points + 1));
    FF_TRY(FF_NEW(p->ids, n_points + 1));
    return FF_NEW(p->seg, n_points + 1);
}

static int64_t n_far_of(const ff_plan *plan, int64_t r)
{
    return plan->far_off[r + 1] - plan->far_off[r];
}

/* Links rows to the rows above them (rows are in preorder, so a stack of open nodes does it). */
static void link_rows(const ff_pair_target *t, part_plan *p)
{
    const ff_plan *plan = p->plan;
    const ff_tree *tree = t->tree;
    int64_t open = -1;
    for (int64_t r = 0; r < plan->n_rows; r++) {
        int32_t node = plan->t_node[r];
        int64_t end = tree->start[node] + tree->count[node];
        bool far = n_far_of(plan, r) > 0;
        while (open >= 0) { /* close rows that end before this node */
            int32_t above = plan->t_node[open];
            if (end <= tree->start[above] + tree->count[above]) break;
            open = p->up[open];
        }
        p->up[r] = open;
        p->depth[r] = (open >= 0 ? p->depth[open] : 0) + (far ? 1 : 0);
        if (far) open = r;
    }
}

/* The deepest row that holds sorted position pos. Where a walk ends there is a row, and no row lies below it: so it is
 * the last row that begins at or before pos. */
static int64_t find_row(const ff_pair_target *t, const ff_plan *plan, int64_t pos)
{
    const ff_tree *tree = t->tree;
    int64_t lo = 0, hi = plan->n_rows;
    while (hi - lo > 1) {
        int64_t mid = lo + (hi - lo) / 2;
        if (tree->start[plan->t_node[mid]] <= pos)
            lo = mid;
        else
            hi = mid;
    }
    if (plan->n_rows == 0) return -1;
    int64_t start = tree->start[plan->t_node[lo]], end = start + tree->count[plan->t_node[lo]];
    return start <= pos && pos < end ? lo : -1;
}

/* Ids that the leaf pairs add to point i of their leaf: near points, then nodes where i was accepted in stage 1. */
static int64_t leaf_ids(const ff_dtt_lists *q, int64_t i)
{
    int64_t n = 0;
    for (int64_t k = 0; k < q->n_leaf; k++)
        n += q->t_mask[k] >> i & 1 ? __builtin_popcountll(q->s_mask[k]) : 1;
    return n;
}

static uint64_t far_near_mask(const ff_tree *s, const ff_dtt_lists *q, int64_t k)
{
    return q->t_mask[k] != 0 ? low_bits(s->count[q->leaf_s[k]]) & ~q->s_mask[k] : 0;
}

/* Counts become places; returns the sum. */
static int64_t place(int64_t *count, int64_t n)
{
    int64_t sum = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t own = count[i];
        count[i] = sum;
        sum += own;
    }
    count[n] = sum;
    return sum;
}

static void count_rows(const ff_tree *s, bool expand, part_plan *p)
{
    const ff_plan *plan = p->plan;
#pragma omp parallel for schedule(dynamic, 1024)
    for (int64_t r = 0; r < plan->n_rows; r++) {
        ff_dtt_lists q;
        ff_plan_row(plan, r, &q);
        p->entry[r] = !expand && q.n_far > 0;
        p->leaf[r] = p->fn_ids[r] = 0;
        for (int64_t k = 0; k < q.n_leaf && plan->masked; k++) {
            uint64_t fn = far_near_mask(s, &q, k);
            p->leaf[r] += fn != 0;
            p->fn_ids[r] += __builtin_popcountll(fn);
        }
    }
}

static void count_points(const ff_pair_target *t, bool expand, int64_t n_points, part_plan *p)
{
#pragma omp parallel for schedule(dynamic, 256)
    for (int64_t i = 0; i < n_points; i++) {
        int64_t pos = t->own_begin + i, r = find_row(t, p->plan, pos);
        ff_dtt_lists q;
        p->row_of[i] = r;
        p->ids[i] = p->seg[i] = 0;
        if (r < 0) continue;
        ff_plan_row(p->plan, r, &q);
        p->ids[i] = leaf_ids(&q, pos - t->tree->start[q.t]);
        p->seg[i] = (p->ids[i] > 0) + (expand ? p->depth[r] : 0);
    }
}

typedef struct tally {
    int64_t n_t, n_seg, n_src;
} tally;

static ff_status count_part(const ff_pair_target *t, const ff_tree *s, bool expand, part_plan *p,
                            ff_pair_part *part, tally *sum)
{
    const ff_plan *plan = p->plan;
    part->n_points = t->own_end - t->own_begin;
    FF_TRY(part_plan_alloc(p, part->n_points));
    link_rows(t, p);
    count_rows(s, expand, p);
    count_points(t, expand, part->n_points, p);
    part->n_far = place(p->entry, plan->n_rows);
    part->n_leaf = place(p->leaf, plan->n_rows);
    sum->n_src +=
        plan->far_off[plan->n_rows] + place(p->fn_ids, plan->n_rows) + place(p->ids, part->n_points);
    sum->n_seg += place(p->seg, part->n_points) + part->n_far + part->n_leaf;
    sum->n_t += part->n_points + part->n_far + part->n_leaf;
    FF_TRY(FF_NEW(part->far_up, part->n_far + 1));
    if (part->n_far > 0) FF_TRY(FF_NEW(part->far_of, part->n_points));
    FF_TRY(FF_NEW(part->leaf_from, part->n_leaf + 1));
    return FF_NEW(part->leaf_mask, part->n_leaf + 1);
}

/* ---- filling ---- */

/* One part's filling: everything has its place. */
typedef struct fill {
    ff_pair_lists *l;
    const ff_pair_target *t;
    const ff_tree *s;
    part_plan *p;
    bool expand;
    int64_t at, seg, src; /* the part's first target, segment and leaf id */
} fill;

static void set_target(const fill *f, int64_t at, const double *x, int64_t seg, int64_t n_pairs)
{
    ff_pair_lists *l = f->l;
    for (int d = 0; d < 4; d++) l->x_t[4 * at + d] = d < f->t->tree->dim ? x[d] : 0;
    l->seg_off[at] = (int32_t)seg;
    l->n_pairs[at] = (int32_t)n_pairs;
}

static void set_segment(const fill *f, int64_t seg, int64_t src, int64_t cum)
{
    f->l->seg_src[seg] = src;
    f->l->seg_cum[seg] = (int32_t)cum;
}

/* Rows from the root down to r that hold far ids, in segments from *seg on; returns the pairs with them. */
static int64_t set_rows_above(const fill *f, int64_t r, int64_t *seg, int64_t cum)
{
    if (r < 0) return cum;
    int64_t n = n_far_of(f->p->plan, r);
    cum = set_rows_above(f, f->p->up[r], seg, cum);
    if (n > 0) set_segment(f, (*seg)++, f->p->far_src[r], cum);
    return cum + n;
}

/* Near ids, then accepted nodes, of point i of a leaf: one segment. */
static void set_leaf_ids(const fill *f, const ff_dtt_lists *q, int64_t i, int32_t *to)
{
    for (int64_t k = 0; k < q->n_leaf; k++)
        if (q->t_mask[k] >> i & 1)
            for (uint64_t m = q->s_mask[k]; m != 0; m &= m - 1)
                *to++ = f->s->first[q->leaf_s[k]] + __builtin_ctzll(m);
    for (int64_t k = 0; k < q->n_leaf; k++)
        if (!(q->t_mask[k] >> i & 1)) *to++ = f->s->n_held + q->leaf_s[k];
}

static int64_t fill_point(const fill *f, int64_t i)
{
    const ff_tree *tree = f->t->tree;
    int64_t r = f->p->row_of[i], ids = f->p->ids[i + 1] - f->p->ids[i], n = ids;
    int64_t first = f->seg + f->p->seg[i], seg = first, src = f->src + f->p->ids[i];
    if (ids > 0) {
        ff_dtt_lists q;
        ff_plan_row(f->p->plan, r, &q);
        set_segment(f, seg++, src, 0);
        set_leaf_ids(f, &q, f->t->own_begin + i - tree->start[q.t], f->l->src + src);
    }
    if (f->expand) n = set_rows_above(f, r, &seg, n);
    set_target(f, f->at + i, f->t->x_point + (f->t->own_first + i) * tree->dim, first, n);
    return n;
}

static int64_t fill_points(const fill *f, const ff_pair_part *part)
{
    int64_t pairs = 0;
#pragma omp parallel for schedule(dynamic, 256) reduction(+ : pairs)
    for (int64_t i = 0; i < part->n_points; i++) pairs += fill_point(f, i);
    return pairs;
}

/* Node entry of row r or the nearest above that has one. */
static int64_t entry_of(const part_plan *p, int64_t r)
{
    if (r >= 0 && n_far_of(p->plan, r) == 0) r = p->up[r];
    return r >= 0 ? p->entry[r] : -1;
}

/* Far ids of all rows; without expansion their nodes become targets, too. Returns these targets' pairs. */
static int64_t fill_far(const fill *f, ff_pair_part *part)
{
    const ff_plan *plan = f->p->plan;
    int64_t first = f->seg + f->p->seg[part->n_points];
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < plan->n_rows; r++) {
        int64_t n = n_far_of(plan, r), src = f->p->far_src[r], e = f->p->entry[r];
        for (int64_t k = 0; k < n; k++) f->l->src[src + k] = f->s->n_held + plan->far_s[plan->far_off[r] + k];
        if (n == 0 || f->expand) continue;
        set_target(f, part->far_begin + e, f->t->x_node + (int64_t)plan->t_node[r] * f->t->tree->dim,
                   first + e, n);
        set_segment(f, first + e, src, 0);
        part->far_up[e] = entry_of(f->p, f->p->up[r]);
    }
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < part->n_points; i++)
        if (part->n_far > 0) part->far_of[i] = entry_of(f->p, f->p->row_of[i]);
    return f->expand ? 0 : plan->far_off[plan->n_rows];
}

/* Leaf pairs with far-near sources of row r. */
static void fill_leaf_row(const fill *f, ff_pair_part *part, int64_t r)
{
    const ff_tree *tree = f->t->tree;
    int64_t e = f->p->leaf[r], src = f->src + f->p->ids[part->n_points] + f->p->fn_ids[r];
    int64_t seg = f->seg + f->p->seg[part->n_points] + part->n_far;
    ff_dtt_lists q;
    ff_plan_row(f->p->plan, r, &q);
    for (int64_t k = 0; k < q.n_leaf; k++) {
        uint64_t fn = far_near_mask(f->s, &q, k);
        int64_t begin = src;
        if (fn == 0) continue;
        for (uint64_t m = fn; m != 0; m &= m - 1)
            f->l->src[src++] = f->s->first[q.leaf_s[k]] + __builtin_ctzll(m);
        set_target(f, part->leaf_begin + e, f->t->x_node + (int64_t)q.t * tree->dim, seg + e, src - begin);
        set_segment(f, seg + e, begin, 0);
        part->leaf_from[e] = tree->start[q.t] - f->t->own_begin;
        part->leaf_mask[e++] = q.t_mask[k];
    }
}

static int64_t fill_leaf(const fill *f, ff_pair_part *part)
{
#pragma omp parallel for schedule(dynamic, 1024)
    for (int64_t r = 0; r < f->p->plan->n_rows; r++)
        if (f->p->leaf[r + 1] > f->p->leaf[r]) fill_leaf_row(f, part, r);
    return f->p->fn_ids[f->p->plan->n_rows];
}

static ff_status alloc_lists(ff_pair_lists *l, const tally *sum)
{
    if (sum->n_t > INT32_MAX - 1 || sum->n_seg > INT32_MAX - 1)
        return ff_fail(FF_E_UNSUPPORTED, "%lld targets on one rank, expected below 2^31; use more ranks",
                       (long long)sum->n_t);
    l->n_t = (int32_t)sum->n_t;
    l->n_seg = sum->n_seg;
    l->n_src_ids = sum->n_src;
    FF_TRY(FF_NEW(l->x_t, 4 * sum->n_t + 4));
    FF_TRY(FF_NEW(l->seg_off, sum->n_t + 1));
    FF_TRY(FF_NEW(l->n_pairs, sum->n_t + 1));
    FF_TRY(FF_NEW(l->seg_src, sum->n_seg + 1));
    FF_TRY(FF_NEW(l->seg_cum, sum->n_seg + 1));
    return FF_NEW(l->src, sum->n_src + 1);
}

/* Far ids of all parts come first, row by row; returns where the rest begins. */
static int64_t place_far_rows(part_plan *p, int n)
{
    int64_t at = 0;
    for (int i = 0; i < n; i++)
        for (int64_t r = 0; r < p[i].plan->n_rows; r++) {
            p[i].far_src[r] = at;
            at += n_far_of(p[i].plan, r);
        }
    return at;
}

static void fill_part(fill *f, ff_pair_part *part)
{
    part->point_begin = f->at;
    part->far_begin = f->at + part->n_points;
    part->leaf_begin = part->far_begin + part->n_far;
    f->l->pairs += fill_points(f, part) + fill_far(f, part) + fill_leaf(f, part);
    f->at = part->leaf_begin + part->n_leaf;
    f->seg += f->p->seg[part->n_points] + part->n_far + part->n_leaf;
    f->src += f->p->ids[part->n_points] + f->p->fn_ids[f->p->plan->n_rows];
}

ff_status ff_pair_lists_build(const ff_pair_target *target, int n, const ff_tree *sources, double theta,
                              bool expand_far, ff_pair_lists **out)
{
    ff_status st = FF_OK;
    part_plan *p = NULL;
    ff_pair_lists *l = NULL;
    tally sum = {0, 0, 0};
    *out = NULL;
    FF_GO(FF_NEW0(l, 1));
    l->n_parts = n;
    FF_GO(FF_NEW0(p, n + 1));
    FF_GO(FF_NEW0(l->part, n + 1));
    for (int i = 0; i < n; i++) {
        FF_GO(ff_plan_build(target[i].tree, sources, theta, expand_far, target[i].own_begin,
                            target[i].own_end, &p[i].plan));
        FF_GO(count_part(&target[i], sources, expand_far, &p[i], &l->part[i], &sum));
    }
    FF_GO(alloc_lists(l, &sum));
    fill f = {.l = l, .s = sources, .expand = expand_far, .src = place_far_rows(p, n)};
    for (int i = 0; i < n; i++) {
        f.t = &target[i];
        f.p = &p[i];
        fill_part(&f, &l->part[i]);
    }
    l->seg_off[l->n_t] = (int32_t)l->n_seg;
    *out = l;
    l = NULL;
done:
    for (int i = 0; i < n && p != NULL; i++) part_plan_free(&p[i]);
    ff_free(p);
    ff_pair_lists_destroy(&l);
    return st;
}
