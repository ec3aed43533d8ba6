#include "ff_task.h"

#include "ff_log.h"
#include "ff_mem.h"
#include "ff_timer.h"

enum { TASKS = 512 }; /* aimed at: even work for many threads, little repeated walking above the tasks */

typedef struct cutter {
    int64_t begin, end, largest, n, cap;
    int64_t *cut;
} cutter;

/* Adds the borders of the maximal subtrees of at most largest points that meet the range. */
static ff_status cut_subtree(cutter *c, int64_t start, int64_t count)
{
    if (start >= c->end || start + count <= c->begin) return FF_OK;
    if (count > c->largest) {
        FF_TRY(cut_subtree(c, start, count / 2));
        return cut_subtree(c, start + count / 2, count - count / 2);
    }
    FF_TRY(ff_mem_reserve(&c->cut, &c->cap, c->n + 2, sizeof *c->cut));
    c->cut[++c->n] = start + count < c->end ? start + count : c->end;
    return FF_OK;
}

ff_status ff_task_cut(const ff_tree *targets, int64_t begin, int64_t end, int64_t **cut, int64_t *n_tasks)
{
    cutter c = {.begin = begin, .end = end, .largest = (end - begin) / TASKS};
    if (c.largest < FF_BLOCK_POINTS) c.largest = FF_BLOCK_POINTS;
    if (c.largest < targets->leaf_size) c.largest = targets->leaf_size;
    *cut = NULL;
    *n_tasks = 0;
    ff_status st = ff_mem_reserve(&c.cut, &c.cap, 1, sizeof *c.cut);
    if (st == FF_OK) st = cut_subtree(&c, 0, targets->n_points);
    if (st != FF_OK) {
        ff_free(c.cut);
        return st;
    }
    c.cut[0] = begin;
    *cut = c.cut;
    *n_tasks = c.n;
    return FF_OK;
}

static bool show;

void ff_task_show(bool on)
{
    show = on;
}

ff_status ff_task_run(const int64_t *cut, int64_t n_tasks, ff_task_job job, void *ctx)
{
    ff_status st = FF_OK;
    int64_t failed = INT64_MAX;
    ff_progress *progress = NULL;
    if (show && n_tasks > 1) FF_TRY(ff_progress_create(ff_phase_name(), n_tasks, &progress));
#pragma omp parallel for schedule(dynamic) if (n_tasks > 1)
    for (int64_t k = 0; k < n_tasks; k++) {
        int64_t seen;
#pragma omp atomic read
        seen = failed;
        if (seen < k) continue;
        ff_status own = job(ctx, k, cut[k], cut[k + 1]);
        ff_progress_add(progress, 1);
        if (own == FF_OK) continue;
#pragma omp critical(ff_task)
        {
            if (k < failed) {
                st = own;
#pragma omp atomic write
                failed = k;
            }
        }
    }
    ff_progress_destroy(&progress);
    return st;
}
