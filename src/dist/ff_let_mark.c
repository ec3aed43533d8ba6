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

/* ---- transposed: sources walk, targets are marked ---- */

typedef struct turned_marker {
    const ff_tree *s;
    ff_let *targets;
    uint8_t *whole; /* [target nodes] all leaves below are marked */
    int64_t begin, end;
    double theta;
    bool expand_far;
} turned_marker;

static void mark_points_below(const turned_marker *m, int32_t t)
{
    const ff_tree *tree = m->targets->tree;
    if (__atomic_load_n(&m->whole[t], __ATOMIC_RELAXED) != 0) return;
    int64_t end = tree->start[t] + tree->count[t];
    for (int32_t i = t; i < tree->n_nodes && tree->start[i] < end; i++)
        if (tree->node[i].right == FF_NODE_LEAF) set_mark(&m->targets->leaf_used[i]);
    set_mark(&m->whole[t]);
}

static ff_status turned_emit(void *ctx, const ff_dtt_lists *q)
{
    const turned_marker *m = ctx;
    int64_t n_s = m->s->count[q->t];
    uint64_t all = n_s >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << n_s) - 1;
    bool own = m->s->start[q->t] >= m->begin && m->s->start[q->t] < m->end;
    for (int64_t k = 0; k < q->n_far; k++) {
        if (own && m->expand_far)
            mark_points_below(m, q->far_s[k]);
        else
            set_mark(&m->targets->node_used[q->far_s[k]]);
    }
    for (int64_t k = 0; k < q->n_leaf; k++) {
        set_mark(&m->targets->leaf_used[q->leaf_s[k]]);
        if (q->t_mask[k] != 0 && q->s_mask[k] != all) set_mark(&m->targets->node_used[q->leaf_s[k]]);
    }
    return FF_OK;
}

static ff_status turned_task(void *ctx, int64_t k, int64_t begin, int64_t end)
{
    const turned_marker *m = ctx;
    (void)k;
    return ff_dtt_walk_sources(m->s, m->targets->tree, m->theta, begin, end, 0, turned_emit, ctx);
}

ff_status ff_let_mark_transposed(const ff_let *sources, ff_let *targets, double theta, bool expand_far)
{
    ff_status st = FF_OK;
    const ff_cloud *c = sources->cloud;
    int64_t *task = NULL, n_tasks = 0;
    turned_marker m = {sources->tree, targets,   NULL, c->cut[c->comm->rank], c->cut[c->comm->rank + 1],
                       theta,         expand_far};
    FF_GO(FF_NEW0(m.whole, targets->tree->n_nodes + 1));
    FF_GO(ff_task_cut(sources->tree, m.begin, m.end, &task, &n_tasks));
    FF_GO(ff_task_run(task, n_tasks, turned_task, &m));
done:
    ff_free(m.whole);
    ff_free(task);
    return st;
}

int32_t ff_let_first_point(const ff_let *let, int32_t i)
{
    const ff_tree *t = let->tree;
    if (t->first[i] >= 0) return t->first[i];
    int32_t lo = 0, hi = t->n_held;
    while (lo < hi) {
        int32_t mid = lo + (hi - lo) / 2;
        if (t->pos[mid] < t->start[i])
            lo = mid + 1;
        else
            hi = mid;
    }
    int64_t last = lo + t->count[i] - 1;
    return last < t->n_held && t->pos[lo] == t->start[i] && t->pos[last] == t->start[i] + t->count[i] - 1
               ? lo
               : -1;
}
