/* Tasks of a walk: consecutive target ranges that depend on the tree and the range alone, never on the number
 * of threads, and what runs them. */
#ifndef FF_TASK_H
#define FF_TASK_H

#include "ff_lbvh.h"

/* Cuts [begin, end) at borders of large subtrees: cut [*n_tasks + 1], cut[0] = begin, cut[n] = end, owned by
 * the caller. No task for an empty range. Local */
ff_status ff_task_cut(const ff_tree *targets, int64_t begin, int64_t end, int64_t **cut, int64_t *n_tasks);

/* Runs job(ctx, k, cut[k], cut[k + 1]) for every k, OpenMP-parallel; the failure of the first failing task is
 * returned, and tasks not yet begun are then skipped. Local */
typedef ff_status (*ff_task_job)(void *ctx, int64_t k, int64_t begin, int64_t end);
ff_status ff_task_run(const int64_t *cut, int64_t n_tasks, ff_task_job job, void *ctx);

/* From now on (or no longer) runs of tasks show their progress, under the name of the phase that runs. A program's
 * choice, at first off: the library is silent. Local */
void ff_task_show(bool on);

#endif
