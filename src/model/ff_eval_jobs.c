/* Layers on a backend that takes pair lists: lists are built at the first layer that needs them and stay with the
 * backend; every call brings source values and takes rows back, which are added up here in double. */
#include "ff_eval_int.h"

#include "ff_mem.h"
#include "ff_timer.h"

static bool is_target(const ff_eval *e, bool final, int i)
{
    return final ? i == e->target : i < e->n_src;
}

static ff_status build(ff_eval *e, bool final, int j, eval_job *out)
{
    ff_status st = FF_OK;
    ff_pair_target *t = NULL;
    int n = 0;
    FF_GO(FF_NEW0(t, e->n_cloud + 1));
    for (int i = 0; i < e->n_cloud; i++) {
        const ff_cloud *c = e->cloud[i];
        const eval_set *s = &e->set[i];
        if (!is_target(e, final, i)) continue;
        t[n++] = (ff_pair_target){e->let[i]->tree,
                                  s->x_point,
                                  i == j && !final ? s->x_node : s->x_plain,
                                  e->let[i]->own_first,
                                  c->cut[c->comm->rank],
                                  c->cut[c->comm->rank + 1]};
    }
    FF_GO(ff_pair_lists_build(t, n, e->let[j]->tree, e->c->theta, e->c->expand_far, &out->lists));
    FF_GO(e->opts.backend->job_create(e->opts.backend->impl, out->lists, &out->job));
    FF_FREE(out->lists->src);
    FF_FREE(out->lists->seg_src);
    FF_FREE(out->lists->seg_cum);
    FF_FREE(out->lists->x_t);
done:
    ff_free(t);
    return st;
}

/* Positions of the sources: held points, then node centroids. */
static ff_status positions(const ff_eval *e, int j, double **out)
{
    const ff_tree *t = e->let[j]->tree;
    const eval_set *s = &e->set[j];
    int64_t n_p = t->n_held, n = n_p + t->n_nodes;
    int dim = e->dim;
    FF_TRY(FF_NEW(*out, 4 * n + 1));
    for (int64_t i = 0; i < n; i++) {
        const double *x = i < n_p ? s->x_point + i * dim : s->x_node + (i - n_p) * dim;
        for (int d = 0; d < 4; d++) (*out)[4 * i + d] = d < dim ? x[d] : 0;
    }
    return FF_OK;
}

ff_status ff_eval_jobs_run(ff_eval *e, const eval_job_args *a, int64_t *pairs)
{
    ff_status st = FF_OK;
    const ff_pair_backend *b = e->opts.backend;
    const ff_tree *t = e->let[a->j]->tree;
    double *x = NULL;
    float *rows = NULL;
    if (e->job[a->final] == NULL) FF_GO(FF_NEW0(e->job[a->final], e->n_src));
    eval_job *job = &e->job[a->final][a->j];
    if (job->job == NULL) FF_GO(build(e, a->final, a->j, job));
    FF_GO(positions(e, a->j, &x));
    FF_GO(FF_NEW(rows, (int64_t)job->lists->n_t * a->n_comp + 1));
    FF_GO(b->job_run(b->impl, job->job, a->net, e->n_len, (int64_t)t->n_held + t->n_nodes, x, a->raw,
                     a->strength, rows));
    for (int i = 0, k = 0; i < e->n_cloud; i++)
        if (is_target(e, a->final, i)) ff_pair_lists_add(job->lists, k++, a->n_comp, rows, a->total[i]);
    *pairs += job->lists->pairs * e->n_len;
done:
    ff_free(x);
    ff_free(rows);
    return st;
}

void ff_eval_jobs_free(ff_eval *e)
{
    for (int f = 0; f < 2; f++) {
        for (int j = 0; j < e->n_src && e->job[f] != NULL; j++) {
            ff_pair_lists_destroy(&e->job[f][j].lists);
            if (e->job[f][j].job != NULL)
                e->opts.backend->job_destroy(e->opts.backend->impl, &e->job[f][j].job);
        }
        FF_FREE(e->job[f]);
    }
}
