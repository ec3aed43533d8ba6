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

typedef struct part_plan {
    ff_plan *plan;
    int64_t *far_src; /* [n_rows] place of the row's far ids in src */
    int64_t *row_of;  /* [n_points] plan row of the point's leaf, or -1 */
    int64_t *up;      /* [n_rows] nearest row above that has far ids and holds this row's node, or -1 */
    int32_t *depth;   /* [n_rows] rows with far ids from the root to here, this one included */
} part_plan;

static void part_plan_free(part_plan *p)
{
    ff_plan_destroy(&p->plan);
    ff_free(p->far_src);
    ff_free(p->row_of);
    ff_free(p->up);
    ff_free(p->depth);
}

/* Links rows to the rows above them (rows are in preorder, so a stack of open nodes does it). */
static ff_status link_rows(const ff_pair_target *t, part_plan *p)
{
    const ff_plan *plan = p->plan;
    const ff_tree *tree = t->tree;
    int64_t n = plan->n_rows, n_points = t->own_end - t->own_begin, open = -1;
    FF_TRY(FF_NEW(p->far_src, n + 1));
    FF_TRY(FF_NEW(p->up, n + 1));
    FF_TRY(FF_NEW(p->depth, n + 1));
    FF_TRY(FF_NEW(p->row_of, n_points + 1));
    for (int64_t i = 0; i < n_points; i++) p->row_of[i] = -1;
    for (int64_t r = 0; r < n; r++) {
        int32_t node = plan->t_node[r];
        int64_t from = tree->start[node], to = from + tree->count[node];
        bool far = plan->far_off[r + 1] > plan->far_off[r];
        while (open >= 0) { /* close rows that end before this node */
            int32_t above = plan->t_node[open];
            if (to <= tree->start[above] + tree->count[above]) break;
            open = p->up[open];
        }
        p->up[r] = open;
        p->depth[r] = (open >= 0 ? p->depth[open] : 0) + (far ? 1 : 0);
        if (far) open = r;
        /* the deepest row wins: later rows of a point lie deeper */
        if (from < t->own_begin) from = t->own_begin;
        if (to > t->own_end) to = t->own_end;
        for (int64_t i = from; i < to; i++) p->row_of[i - t->own_begin] = r;
    }
    return FF_OK;
}

/* Ids a leaf pair adds to point i of its leaf: near points, then the node itself if i was accepted in stage 1. */
static int64_t leaf_ids(const ff_dtt_lists *q, int64_t k, int64_t i)
{
    return q->t_mask[k] >> i & 1 ? __builtin_popcountll(q->s_mask[k]) : 1;
}

static uint64_t far_near_mask(const ff_tree *s, const ff_dtt_lists *q, int64_t k)
{
    return q->t_mask[k] != 0 ? low_bits(s->count[q->leaf_s[k]]) & ~q->s_mask[k] : 0;
}

typedef struct tally {
    int64_t n_t, n_seg, n_src;
} tally;

static ff_status count_part(const ff_pair_target *t, const ff_tree *s, bool expand, part_plan *p,
                            ff_pair_part *part, tally *sum)
{
    const ff_plan *plan = p->plan;
    part->n_points = t->own_end - t->own_begin;
    sum->n_t += part->n_points;
    for (int64_t r = 0; r < plan->n_rows; r++) {
        ff_dtt_lists q;
        ff_plan_row(plan, r, &q);
        p->far_src[r] = sum->n_src;
        sum->n_src += q.n_far;
        if (!expand && q.n_far > 0) part->n_far++;
        for (int64_t k = 0; k < q.n_leaf; k++) {
            uint64_t fn = far_near_mask(s, &q, k);
            for (int64_t i = 0; i < t->tree->count[q.t]; i++) sum->n_src += leaf_ids(&q, k, i);
            if (fn == 0) continue;
            part->n_leaf++;
            sum->n_src += __builtin_popcountll(fn);
        }
    }
    for (int64_t i = 0; i < part->n_points; i++)
        sum->n_seg += 1 + (expand && p->row_of[i] >= 0 ? p->depth[p->row_of[i]] : 0);
    sum->n_seg += part->n_far + part->n_leaf;
    sum->n_t += part->n_far + part->n_leaf;
    FF_TRY(FF_NEW(part->far_up, part->n_far + 1));
    if (part->n_far > 0) FF_TRY(FF_NEW(part->far_of, part->n_points));
    FF_TRY(FF_NEW(part->leaf_from, part->n_leaf + 1));
    return FF_NEW(part->leaf_mask, part->n_leaf + 1);
}

/* ---- filling ---- */

typedef struct fill {
    ff_pair_lists *l;
    const ff_pair_target *t;
    const ff_tree *s;
    part_plan *p;
    bool expand;
    int64_t src; /* next free place */
} fill;

static void set_target(ff_pair_lists *l, int64_t at, const double *x, int dim)
{
    for (int d = 0; d < 4; d++) l->x_t[4 * at + d] = d < dim ? x[d] : 0;
}

static void open_target(ff_pair_lists *l, int64_t at)
{
    l->seg_off[at] = (int32_t)l->n_seg;
    l->n_pairs[at] = 0;
}

static void add_segment(ff_pair_lists *l, int64_t at, int64_t src, int64_t n)
{
    l->seg_src[l->n_seg] = src;
    l->seg_cum[l->n_seg++] = l->n_pairs[at];
    l->n_pairs[at] += (int32_t)n;
    l->pairs += n;
}

/* Rows above r that hold far ids, from the root down. */
static void add_rows_above(fill *f, int64_t at, int64_t r)
{
    if (r < 0) return;
    const ff_plan *plan = f->p->plan;
    int64_t n = plan->far_off[r + 1] - plan->far_off[r];
    add_rows_above(f, at, f->p->up[r]);
    if (n > 0) add_segment(f->l, at, f->p->far_src[r], n);
}

/* Near ids, then accepted nodes, of point i of the leaf of row r: one segment. */
static void add_leaf_ids(fill *f, int64_t at, int64_t r, int64_t i)
{
    ff_dtt_lists q;
    int64_t begin = f->src;
    ff_plan_row(f->p->plan, r, &q);
    for (int64_t k = 0; k < q.n_leaf; k++)
        if (q.t_mask[k] >> i & 1)
            for (uint64_t m = q.s_mask[k]; m != 0; m &= m - 1)
                f->l->src[f->src++] = f->s->first[q.leaf_s[k]] + __builtin_ctzll(m);
    for (int64_t k = 0; k < q.n_leaf; k++)
        if (!(q.t_mask[k] >> i & 1)) f->l->src[f->src++] = f->s->n_held + q.leaf_s[k];
    if (f->src > begin) add_segment(f->l, at, begin, f->src - begin);
}

static void fill_points(fill *f, ff_pair_part *part, int64_t *at)
{
    const ff_plan *plan = f->p->plan;
    part->point_begin = *at;
    for (int64_t i = 0; i < part->n_points; i++, ++*at) {
        int64_t r = f->p->row_of[i], pos = f->t->own_begin + i;
        set_target(f->l, *at, f->t->x_point + (f->t->own_first + i) * f->t->tree->dim, f->t->tree->dim);
        open_target(f->l, *at);
        if (r < 0) continue;
        if (plan->leaf_off[r + 1] > plan->leaf_off[r])
            add_leaf_ids(f, *at, r, pos - f->t->tree->start[plan->t_node[r]]);
        if (f->expand) add_rows_above(f, *at, r);
    }
}

/* Rows become entries; entry [r] of a row without far ids is that of the row above. */
static void fill_far(fill *f, ff_pair_part *part, int64_t *at)
{
    const ff_plan *plan = f->p->plan;
    const ff_tree *tree = f->t->tree;
    int64_t *entry = f->p->far_src; /* the places were used by the segments; reused row by row behind them */
    int64_t k = 0;
    part->far_begin = *at;
    if (part->n_far == 0) return;
    for (int64_t r = 0; r < plan->n_rows; r++) {
        int64_t n = plan->far_off[r + 1] - plan->far_off[r],
                above = f->p->up[r] >= 0 ? entry[f->p->up[r]] : -1;
        int64_t src = f->p->far_src[r];
        entry[r] = above;
        if (n == 0) continue;
        set_target(f->l, *at, f->t->x_node + (int64_t)plan->t_node[r] * tree->dim, tree->dim);
        open_target(f->l, *at);
        add_segment(f->l, *at, src, n);
        part->far_up[k] = above;
        entry[r] = k++;
        ++*at;
    }
    for (int64_t i = 0; i < part->n_points; i++)
        part->far_of[i] = f->p->row_of[i] >= 0 ? entry[f->p->row_of[i]] : -1;
}

static void fill_leaf(fill *f, ff_pair_part *part, int64_t *at)
{
    const ff_tree *tree = f->t->tree;
    part->leaf_begin = *at;
    int64_t e = 0;
    for (int64_t r = 0; r < f->p->plan->n_rows && part->n_leaf > 0; r++) {
        ff_dtt_lists q;
        ff_plan_row(f->p->plan, r, &q);
        for (int64_t k = 0; k < q.n_leaf; k++) {
            uint64_t fn = far_near_mask(f->s, &q, k);
            if (fn == 0) continue;
            int64_t begin = f->src;
            set_target(f->l, *at, f->t->x_node + (int64_t)q.t * tree->dim, tree->dim);
            open_target(f->l, *at);
            for (uint64_t m = fn; m != 0; m &= m - 1)
                f->l->src[f->src++] = f->s->first[q.leaf_s[k]] + __builtin_ctzll(m);
            add_segment(f->l, *at, begin, f->src - begin);
            part->leaf_from[e] = tree->start[q.t] - f->t->own_begin;
            part->leaf_mask[e++] = q.t_mask[k];
            ++*at;
        }
    }
}

/* Far ids of all rows go to their places first; ids of leaf pairs follow behind. */
static void fill_far_ids(fill *f)
{
    const ff_plan *plan = f->p->plan;
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < plan->n_rows; r++)
        for (int64_t k = plan->far_off[r]; k < plan->far_off[r + 1]; k++)
            f->l->src[f->p->far_src[r] + k - plan->far_off[r]] = f->s->n_held + plan->far_s[k];
}

static ff_status alloc_lists(ff_pair_lists *l, const tally *sum)
{
    if (sum->n_t > INT32_MAX - 1 || sum->n_seg > INT32_MAX - 1)
        return ff_fail(FF_E_UNSUPPORTED, "%lld targets on one rank, expected below 2^31; use more ranks",
                       (long long)sum->n_t);
    l->n_t = (int32_t)sum->n_t;
    l->n_src_ids = sum->n_src;
    FF_TRY(FF_NEW(l->x_t, 4 * sum->n_t + 4));
    FF_TRY(FF_NEW(l->seg_off, sum->n_t + 1));
    FF_TRY(FF_NEW(l->n_pairs, sum->n_t + 1));
    FF_TRY(FF_NEW(l->seg_src, sum->n_seg + 1));
    FF_TRY(FF_NEW(l->seg_cum, sum->n_seg + 1));
    return FF_NEW(l->src, sum->n_src + 1);
}

/* Places of far rows are counted with gaps for leaf ids; they are moved together here: all far ids first. */
static int64_t place_far_rows(part_plan *p, int n)
{
    int64_t at = 0;
    for (int i = 0; i < n; i++)
        for (int64_t r = 0; r < p[i].plan->n_rows; r++) {
            p[i].far_src[r] = at;
            at += p[i].plan->far_off[r + 1] - p[i].plan->far_off[r];
        }
    return at;
}

ff_status ff_pair_lists_build(const ff_pair_target *target, int n, const ff_tree *sources, double theta,
                              bool expand_far, ff_pair_lists **out)
{
    ff_status st = FF_OK;
    part_plan *p = NULL;
    ff_pair_lists *l = NULL;
    tally sum = {0, 0, 0};
    int64_t at = 0;
    *out = NULL;
    FF_GO(FF_NEW0(l, 1));
    l->n_parts = n;
    FF_GO(FF_NEW0(p, n + 1));
    FF_GO(FF_NEW0(l->part, n + 1));
    for (int i = 0; i < n; i++) {
        FF_GO(ff_plan_build(target[i].tree, sources, theta, expand_far, target[i].own_begin,
                            target[i].own_end, &p[i].plan));
        FF_GO(link_rows(&target[i], &p[i]));
        FF_GO(count_part(&target[i], sources, expand_far, &p[i], &l->part[i], &sum));
    }
    FF_GO(alloc_lists(l, &sum));
    int64_t src = place_far_rows(p, n);
    for (int i = 0; i < n; i++) {
        fill f = {l, &target[i], sources, &p[i], expand_far, src};
        fill_far_ids(&f);
        fill_points(&f, &l->part[i], &at);
        fill_far(&f, &l->part[i], &at);
        fill_leaf(&f, &l->part[i], &at);
        src = f.src;
    }
    l->seg_off[at] = (int32_t)l->n_seg;
    *out = l;
    l = NULL;
done:
    for (int i = 0; i < n && p != NULL; i++) part_plan_free(&p[i]);
    ff_free(p);
    ff_pair_lists_destroy(&l);
    return st;
}

/* Entries from the root down. */
static void add_far(const ff_pair_part *part, int64_t e, int64_t n_comp, const float *rows, double *total)
{
    if (e < 0) return;
    add_far(part, part->far_up[e], n_comp, rows, total);
    const float *row = rows + (part->far_begin + e) * n_comp;
    for (int64_t d = 0; d < n_comp; d++) total[d] += (double)row[d];
}

/* First leaf entry whose points may reach point i or later. */
static int64_t first_leaf(const ff_pair_part *part, int64_t i)
{
    int64_t lo = 0, hi = part->n_leaf;
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;
        if (part->leaf_from[mid] + FF_LEAF_MAX <= i)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

void ff_pair_lists_add(const ff_pair_lists *l, int k, int n_comp, const float *rows, double *total)
{
    const ff_pair_part *part = &l->part[k];
    int64_t c = n_comp;
    enum { STRIPE = 256 };
#pragma omp parallel for schedule(dynamic, 4)
    for (int64_t s = 0; s < (part->n_points + STRIPE - 1) / STRIPE; s++) {
        int64_t from = s * STRIPE, to = from + STRIPE < part->n_points ? from + STRIPE : part->n_points;
        for (int64_t i = from * c; i < to * c; i++) total[i] += (double)rows[part->point_begin * c + i];
        for (int64_t e = first_leaf(part, from); e < part->n_leaf && part->leaf_from[e] < to; e++) {
            const float *row = rows + (part->leaf_begin + e) * c;
            for (uint64_t m = part->leaf_mask[e]; m != 0; m &= m - 1) {
                int64_t i = part->leaf_from[e] + __builtin_ctzll(m);
                if (i < from || i >= to) continue;
                for (int64_t d = 0; d < c; d++) total[i * c + d] += (double)row[d];
            }
        }
        for (int64_t i = from; i < to && part->n_far > 0; i++)
            add_far(part, part->far_of[i], c, rows, total + i * c);
    }
}
