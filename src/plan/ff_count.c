/* Counting what a walk finds, without keeping it. */
#include "ff_dtt.h"

#include "ff_mem.h"
#include "ff_task.h"

static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}
static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Bits of a leaf's points (sorted positions start..) that lie in [begin, end). */
static uint64_t bits_in_range(int64_t start, int64_t count, int64_t begin, int64_t end)
{
    int64_t a = max64(begin - start, 0), b = min64(end - start, count);
    if (a >= b) return 0;
    uint64_t below_b = b >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << b) - 1;
    return below_b & (~UINT64_C(0) << a);
}

void ff_dtt_count(const ff_tree *targets, const ff_tree *sources, const ff_dtt_lists *lists, bool expand_far,
                  int64_t t_begin, int64_t t_end, ff_dtt_counts *add_to)
{
    int64_t start = targets->start[lists->t], count = targets->count[lists->t];
    bool owned = start >= t_begin && start < t_end;
    int64_t n_inside = max64(min64(start + count, t_end) - max64(start, t_begin), 0);
    if (owned) {
        add_to->far_node_pairs += lists->n_far;
        add_to->leaf_pairs += lists->n_leaf;
    }
    if (expand_far)
        add_to->near_far += lists->n_far * n_inside;
    else if (owned)
        add_to->far_far += lists->n_far;
    if (lists->n_leaf == 0) return;
    if (targets->leaf_size > FF_LEAF_MAX || sources->leaf_size > FF_LEAF_MAX) { /* no masks */
        for (int64_t k = 0; k < lists->n_leaf; k++)
            add_to->near_near += n_inside * sources->count[lists->leaf_s[k]];
        return;
    }
    uint64_t inside = bits_in_range(start, count, t_begin, t_end);
    for (int64_t k = 0; k < lists->n_leaf; k++) {
        int64_t n_t = __builtin_popcountll(lists->t_mask[k] & inside),
                n_s = __builtin_popcountll(lists->s_mask[k]);
        add_to->near_near += n_t * n_s;
        add_to->near_far += n_inside - n_t;
        if (owned && lists->t_mask[k] != 0) add_to->far_near += sources->count[lists->leaf_s[k]] - n_s;
    }
}

static int64_t evaluations(const ff_dtt_counts *c)
{
    return c->near_near + c->near_far + c->far_near + c->far_far;
}

typedef struct counter {
    const ff_tree *t, *s;
    bool expand_far;
    int64_t begin, end;
    ff_dtt_counts counts;
    const ff_subtree *blocks;
    int64_t n_blocks, *work;
} counter;

/* First block that ends after pos. */
static int64_t find_block(const counter *c, int64_t pos)
{
    int64_t lo = 0, hi = c->n_blocks;
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;
        if (c->blocks[mid].start + c->blocks[mid].count <= pos)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static void add_to_block(counter *c, int64_t b, int64_t work)
{
#pragma omp atomic /* a block may span tasks; integer sums know no order */
    c->work[b] += work;
}

/* Adds the work of one node to the block it lies in; an expanded far pair of a node above blocks is evaluated
 * once a target, hence in each block below it. */
static void add_work(counter *c, const ff_dtt_lists *lists)
{
    int64_t start = c->t->start[lists->t], end = start + c->t->count[lists->t];
    int64_t from = max64(start, c->begin), to = min64(end, c->end), b = find_block(c, from);
    if (b >= c->n_blocks) return;
    if (c->blocks[b].start <= start && end <= c->blocks[b].start + c->blocks[b].count) {
        ff_dtt_counts one = {0};
        ff_dtt_count(c->t, c->s, lists, c->expand_far, c->begin, c->end, &one);
        add_to_block(c, b, evaluations(&one));
        return;
    }
    if (!c->expand_far) return;
    for (; b < c->n_blocks && c->blocks[b].start < to; b++) {
        int64_t last = c->blocks[b].start + c->blocks[b].count;
        add_to_block(c, b, lists->n_far * (min64(last, to) - max64(c->blocks[b].start, from)));
    }
}

static ff_status count_emit(void *ctx, const ff_dtt_lists *lists)
{
    counter *c = ctx;
    ff_dtt_count(c->t, c->s, lists, c->expand_far, c->begin, c->end, &c->counts);
    if (c->work != NULL) add_work(c, lists);
    return FF_OK;
}

void ff_dtt_counts_add(ff_dtt_counts *to, const ff_dtt_counts *c)
{
    to->near_near += c->near_near;
    to->near_far += c->near_far;
    to->far_near += c->far_near;
    to->far_far += c->far_far;
    to->far_node_pairs += c->far_node_pairs;
    to->leaf_pairs += c->leaf_pairs;
}

typedef struct count_job {
    counter proto;
    double theta;
    ff_dtt_counts *of_task;
} count_job;

static ff_status count_task(void *ctx, int64_t k, int64_t begin, int64_t end)
{
    const count_job *job = ctx;
    counter c = job->proto;
    c.begin = begin;
    c.end = end;
    FF_TRY(ff_dtt_walk(c.t, c.s, job->theta, begin, end, count_emit, &c));
    job->of_task[k] = c.counts;
    return FF_OK;
}

ff_status ff_dtt_count_range(const ff_tree *targets, const ff_tree *sources, double theta, bool expand_far,
                             int64_t t_begin, int64_t t_end, ff_dtt_counts *counts, const ff_subtree *blocks,
                             int64_t n_blocks, int64_t *work)
{
    ff_status st = FF_OK;
    int64_t n_tasks, *task = NULL;
    count_job job = {.proto = {.t = targets,
                               .s = sources,
                               .expand_far = expand_far,
                               .blocks = blocks,
                               .n_blocks = n_blocks,
                               .work = work},
                     .theta = theta};
    *counts = (ff_dtt_counts){0};
    for (int64_t b = 0; work != NULL && b < n_blocks; b++) work[b] = 0;
    FF_GO(ff_dtt_check(targets, sources, theta, t_begin, t_end));
    FF_GO(ff_task_cut(targets, t_begin, t_end, &task, &n_tasks));
    FF_GO(FF_NEW0(job.of_task, n_tasks));
    FF_GO(ff_task_run(task, n_tasks, count_task, &job));
    for (int64_t k = 0; k < n_tasks; k++) ff_dtt_counts_add(counts, &job.of_task[k]);
done:
    ff_free(task);
    ff_free(job.of_task);
    return st;
}
