#include "ff_plan.h"

#include "ff_mem.h"
#include "ff_task.h"

#include <string.h>

/* Two walks: the first counts what each task will write, the second writes it in place. No list is ever held
 * twice, and the arrays have their exact size. */
typedef struct extent {
    int64_t rows, far, leaf, most_leaf; /* of a task; after the sums, where its part begins */
    ff_dtt_counts counts;
} extent;

typedef struct builder {
    const ff_tree *t, *s;
    double theta;
    ff_plan *plan;
    extent *part; /* [n_tasks] */
    bool write;
} builder;

typedef struct writer {
    const builder *b;
    int64_t begin, end;
    extent at;
} writer;

/* A node that spans tasks is met by each of them; the one that holds its first point in the plan's range
 * keeps it. */
static bool is_mine(const writer *w, int32_t t)
{
    int64_t start = w->b->t->start[t];
    if (start < w->b->plan->t_begin) start = w->b->plan->t_begin;
    return start >= w->begin && start < w->end;
}

static void write_row(const ff_plan *p, const extent *at, const ff_dtt_lists *l)
{
    p->t_node[at->rows] = l->t;
    p->far_off[at->rows] = at->far;
    p->leaf_off[at->rows] = at->leaf;
    memcpy(p->far_s + at->far, l->far_s, (size_t)l->n_far * sizeof *l->far_s);
    memcpy(p->leaf_s + at->leaf, l->leaf_s, (size_t)l->n_leaf * sizeof *l->leaf_s);
    if (!p->masked) return;
    memcpy(p->t_mask + at->leaf, l->t_mask, (size_t)l->n_leaf * sizeof *l->t_mask);
    memcpy(p->s_mask + at->leaf, l->s_mask, (size_t)l->n_leaf * sizeof *l->s_mask);
}

static ff_status plan_emit(void *ctx, const ff_dtt_lists *l)
{
    writer *w = ctx;
    const builder *b = w->b;
    if (!b->write) ff_dtt_count(b->t, b->s, l, b->plan->expand_far, w->begin, w->end, &w->at.counts);
    if (!is_mine(w, l->t)) return FF_OK;
    if (b->write) write_row(b->plan, &w->at, l);
    w->at.rows++;
    w->at.far += l->n_far;
    w->at.leaf += l->n_leaf;
    if (l->n_leaf > w->at.most_leaf) w->at.most_leaf = l->n_leaf;
    return FF_OK;
}

static ff_status plan_task(void *ctx, int64_t k, int64_t begin, int64_t end)
{
    const builder *b = ctx;
    writer w = {.b = b, .begin = begin, .end = end};
    if (b->write) w.at = b->part[k];
    FF_TRY(ff_dtt_walk(b->t, b->s, b->theta, begin, end, plan_emit, &w));
    if (!b->write) b->part[k] = w.at;
    return FF_OK;
}

/* Turns each task's extents into the place where its part begins; returns the totals. */
static extent place_parts(extent *part, int64_t n_tasks)
{
    extent sum = {0};
    for (int64_t k = 0; k < n_tasks; k++) {
        extent own = part[k];
        part[k] = sum;
        sum.rows += own.rows;
        sum.far += own.far;
        sum.leaf += own.leaf;
        if (own.most_leaf > sum.most_leaf) sum.most_leaf = own.most_leaf;
        ff_dtt_counts_add(&sum.counts, &own.counts);
    }
    return sum;
}

static ff_status alloc_lists(ff_plan *p, const extent *total)
{
    p->n_rows = total->rows;
    p->counts = total->counts;
    FF_TRY(FF_NEW(p->t_node, total->rows));
    FF_TRY(FF_NEW(p->far_off, total->rows + 1));
    FF_TRY(FF_NEW(p->far_s, total->far));
    FF_TRY(FF_NEW(p->leaf_off, total->rows + 1));
    FF_TRY(FF_NEW(p->leaf_s, total->leaf));
    p->far_off[total->rows] = total->far;
    p->leaf_off[total->rows] = total->leaf;
    if (p->masked) {
        FF_TRY(FF_NEW(p->t_mask, total->leaf));
        return FF_NEW(p->s_mask, total->leaf);
    }
    FF_TRY(FF_NEW(p->ones, total->most_leaf));
    for (int64_t k = 0; k < total->most_leaf; k++) p->ones[k] = 1;
    return FF_OK;
}

ff_status ff_plan_build(const ff_tree *targets, const ff_tree *sources, double theta, bool expand_far,
                        int64_t t_begin, int64_t t_end, ff_plan **out)
{
    ff_status st = FF_OK;
    ff_plan *p = NULL;
    int64_t n_tasks, *task = NULL;
    builder b = {.t = targets, .s = sources, .theta = theta};
    *out = NULL;
    FF_TRY(ff_dtt_check(targets, sources, theta, t_begin, t_end));
    FF_GO(FF_NEW0(p, 1));
    p->t_begin = t_begin;
    p->t_end = t_end;
    p->expand_far = expand_far;
    p->masked = targets->leaf_size > 1 || sources->leaf_size > 1;
    b.plan = p;
    FF_GO(ff_task_cut(targets, t_begin, t_end, &task, &n_tasks));
    FF_GO(FF_NEW0(b.part, n_tasks));
    FF_GO(ff_task_run(task, n_tasks, plan_task, &b));
    extent total = place_parts(b.part, n_tasks);
    FF_GO(alloc_lists(p, &total));
    b.write = true;
    FF_GO(ff_task_run(task, n_tasks, plan_task, &b));
    *out = p;
    p = NULL;
done:
    ff_plan_destroy(&p);
    ff_free(b.part);
    ff_free(task);
    return st;
}

void ff_plan_destroy(ff_plan **plan)
{
    ff_plan *p = *plan;
    if (p == NULL) return;
    ff_free(p->t_node);
    ff_free(p->far_off);
    ff_free(p->far_s);
    ff_free(p->leaf_off);
    ff_free(p->leaf_s);
    ff_free(p->t_mask);
    ff_free(p->s_mask);
    ff_free(p->ones);
    ff_free(p);
    *plan = NULL;
}

void ff_plan_row(const ff_plan *p, int64_t r, ff_dtt_lists *out)
{
    int64_t far = p->far_off[r], leaf = p->leaf_off[r];
    *out = (ff_dtt_lists){.t = p->t_node[r],
                          .far_s = p->far_s + far,
                          .n_far = p->far_off[r + 1] - far,
                          .leaf_s = p->leaf_s + leaf,
                          .t_mask = p->masked ? p->t_mask + leaf : p->ones,
                          .s_mask = p->masked ? p->s_mask + leaf : p->ones,
                          .n_leaf = p->leaf_off[r + 1] - leaf};
}

/* One round of mixing (the finaliser of SplitMix64). */
static uint64_t mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) + UINT64_C(0x9e3779b97f4a7c15);
    h = (h ^ h >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    h = (h ^ h >> 27) * UINT64_C(0x94d049bb133111eb);
    return h ^ h >> 31;
}

enum { KIND_FAR = 1, KIND_FAR_EXPANDED = 2, KIND_LEAF = 3 };

uint64_t ff_plan_digest(const ff_plan *plan, const ff_tree *targets, const ff_tree *sources)
{
    uint64_t sum = 0;
#pragma omp parallel for schedule(dynamic, 256) reduction(+ : sum) if (plan->n_rows > 1024)
    for (int64_t r = 0; r < plan->n_rows; r++) {
        ff_dtt_lists l;
        ff_plan_row(plan, r, &l);
        int64_t start = targets->start[l.t];
        if (start < plan->t_begin || start >= plan->t_end) continue;
        uint64_t far =
            mix(mix(0, plan->expand_far ? KIND_FAR_EXPANDED : KIND_FAR), (uint64_t)targets->id[l.t]);
        uint64_t leaf = mix(mix(0, KIND_LEAF), (uint64_t)targets->id[l.t]);
        for (int64_t k = 0; k < l.n_far; k++) sum += mix(far, (uint64_t)sources->id[l.far_s[k]]);
        for (int64_t k = 0; k < l.n_leaf; k++)
            sum += mix(mix(mix(leaf, (uint64_t)sources->id[l.leaf_s[k]]), l.t_mask[k]), l.s_mask[k]);
    }
    return sum;
}
