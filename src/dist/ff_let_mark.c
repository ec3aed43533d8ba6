/* Marks what walks read of a held tree. */
#include "ff_let_impl.h"

#include "ff_mark.h"
#include "ff_mem.h"
#include "ff_task.h"

/* Threads mark one tree at once: all write the same value, so the order is no matter. */
static inline void set_mark(uint8_t *mark)
{
    if (__atomic_load_n(mark, __ATOMIC_RELAXED) == 0) __atomic_store_n(mark, 1, __ATOMIC_RELAXED);
}

ff_status ff_mark_emit(void *ctx, const ff_dtt_lists *q)
{
    const ff_marker *m = ctx;
    int64_t n_t = m->targets->count[q->t];
    uint64_t all = n_t >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << n_t) - 1;
    for (int64_t k = 0; k < q->n_far; k++) set_mark(&m->node_used[q->far_s[k]]);
    for (int64_t k = 0; k < q->n_leaf; k++) {
        if (q->t_mask[k] != all) set_mark(&m->node_used[q->leaf_s[k]]);
        if (q->t_mask[k] != 0) set_mark(&m->leaf_used[q->leaf_s[k]]);
    }
    return FF_OK;
}

typedef struct mark_job {
    ff_marker marker;
    const ff_let *let; /* sources */
    double theta;
    uint8_t *remote_task;
} mark_job;

typedef struct watcher {
    const mark_job *job;
    int64_t begin, end; /* own run of the sources */
    bool remote;
} watcher;

/* Marks, and notes whether anything of it comes by the push. */
static ff_status watch_emit(void *ctx, const ff_dtt_lists *q)
{
    watcher *w = ctx;
    const ff_let *let = w->job->let;
    const ff_tree *s = let->tree;
    int64_t n_t = w->job->marker.targets->count[q->t];
    uint64_t all = n_t >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << n_t) - 1;
    for (int64_t k = 0; k < q->n_far && !w->remote; k++) w->remote = let->node_remote[q->far_s[k]] != 0;
    for (int64_t k = 0; k < q->n_leaf && !w->remote; k++) {
        int32_t i = q->leaf_s[k];
        bool node = q->t_mask[k] != all && let->node_remote[i] != 0;
        bool points = q->t_mask[k] != 0 && (s->start[i] < w->begin || s->start[i] >= w->end);
        w->remote = node || points;
    }
    ff_marker m = w->job->marker;
    return ff_mark_emit(&m, q);
}

static ff_status mark_task(void *ctx, int64_t k, int64_t begin, int64_t end)
{
    const mark_job *job = ctx;
    const ff_cloud *c = job->let->cloud;
    bool asked = job->remote_task != NULL; /* else not looked for */
    watcher w = {job, c->cut[c->comm->rank], c->cut[c->comm->rank + 1], !asked};
    FF_TRY(ff_dtt_walk(job->marker.targets, job->let->tree, job->theta, begin, end, watch_emit, &w));
    if (asked && w.remote) job->remote_task[k] = 1;
    return FF_OK;
}

ff_status ff_let_mark(const ff_let *targets, ff_let *sources, double theta, bool expand_far,
                      const int64_t *task, int64_t n_tasks, uint8_t *remote_task)
{
    (void)expand_far; /* an expanded far pair reads the same aggregate */
    const ff_cloud *c = targets->cloud;
    int64_t *own_task = NULL;
    ff_marker marker = {targets->tree, sources->node_used, sources->leaf_used};
    mark_job job = {marker, sources, theta, task != NULL ? remote_task : NULL};
    if (task == NULL) {
        FF_TRY(ff_task_cut(targets->tree, c->cut[c->comm->rank], c->cut[c->comm->rank + 1], &own_task,
                           &n_tasks));
        task = own_task;
    }
    ff_status st = ff_task_run(task, n_tasks, mark_task, &job);
    ff_free(own_task);
    return st;
}
