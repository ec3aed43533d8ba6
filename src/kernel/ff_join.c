#include "ff_join.h"

#include "ff_mem.h"

#include <pthread.h>
#include <string.h>

typedef struct member {
    ff_join *j;
    ff_pair_backend table;
    /* What it waits with; NULL: it does not. */
    ff_adj_job *job;
    const ff_adj_net *net;
    ff_adj_args *args;
    ff_status st;
} member;

struct ff_join {
    const ff_pair_backend *inner;
    pthread_mutex_t lock; /* of everything below and of every call to inner */
    pthread_cond_t done;
    int n, active, waiting;
    member *m; /* [n] */
};

/* Lists of several members behind each other on the backend. */
typedef struct joined {
    int users, n;
    ff_adj_job *job;
    ff_adj_job **of;                 /* [n] the members' */
    int64_t n_slot, n_target;        /* of all */
    float *rec, *strength, *out_bar; /* as ff_adj_args */
    double *rows;
    int64_t *grad, *target;
    int64_t rec_len, n_comp, row_len, grad_len, target_len; /* that there is room for */
} joined;

struct ff_adj_job {
    ff_adj_lists *lists;
    joined *in;
    int64_t slot, target; /* places in it */
    int part;
};

struct ff_adj_net {
    ff_adj_view v;
};

/* ---- forward: in turns ---- */

static ff_status net_create(void *impl, const ff_globe_shape *s, const float *const *w, const float *const *b,
                            const double *gscalar, const double *gvector, double length, ff_pair_net **out)
{
    ff_join *j = ((member *)impl)->j;
    pthread_mutex_lock(&j->lock);
    ff_status st = j->inner->net_create(j->inner->impl, s, w, b, gscalar, gvector, length, out);
    pthread_mutex_unlock(&j->lock);
    return st;
}

static void net_destroy(void *impl, ff_pair_net **net)
{
    ff_join *j = ((member *)impl)->j;
    pthread_mutex_lock(&j->lock);
    j->inner->net_destroy(j->inner->impl, net);
    pthread_mutex_unlock(&j->lock);
}

static ff_status job_create(void *impl, const ff_pair_lists *lists, ff_pair_job **out)
{
    ff_join *j = ((member *)impl)->j;
    pthread_mutex_lock(&j->lock);
    ff_status st = j->inner->job_create(j->inner->impl, lists, out);
    pthread_mutex_unlock(&j->lock);
    return st;
}

static void job_destroy(void *impl, ff_pair_job **job)
{
    ff_join *j = ((member *)impl)->j;
    pthread_mutex_lock(&j->lock);
    j->inner->job_destroy(j->inner->impl, job);
    pthread_mutex_unlock(&j->lock);
}

static ff_status job_run(void *impl, ff_pair_job *job, ff_pair_net *const *net, int n_net, int64_t n_src,
                         const double *x, const float *raw, const float *strength, float *rows)
{
    ff_join *j = ((member *)impl)->j;
    pthread_mutex_lock(&j->lock);
    ff_status st = j->inner->job_run(j->inner->impl, job, net, n_net, n_src, x, raw, strength, rows);
    pthread_mutex_unlock(&j->lock);
    return st;
}

static int64_t device_peak(void *impl)
{
    ff_join *j = ((member *)impl)->j;
    return j->inner->device_peak(j->inner->impl);
}

/* ---- lists of a member, of several ---- */

static void joined_release(const ff_join *j, joined **ip)
{
    joined *in = *ip;
    *ip = NULL;
    if (in == NULL || --in->users > 0) return;
    if (in->job != NULL) j->inner->adjoint->job_destroy(j->inner->impl, &in->job);
    ff_free(in->of);
    ff_free(in->rec);
    ff_free(in->strength);
    ff_free(in->out_bar);
    ff_free(in->rows);
    ff_free(in->grad);
    ff_free(in->target);
    ff_free(in);
}

static ff_status adj_job_create(void *impl, const ff_adj_lists *lists, ff_adj_job **out)
{
    ff_adj_job *job = NULL;
    const ff_adj_lists *one[1] = {lists};
    (void)impl;
    *out = NULL;
    FF_TRY(FF_NEW0(job, 1));
    ff_status st = ff_adj_lists_join(0, NULL, one, 1, &job->lists);
    if (st != FF_OK)
        ff_free(job);
    else
        *out = job;
    return st;
}

static void adj_job_destroy(void *impl, ff_adj_job **job)
{
    ff_join *j = ((member *)impl)->j;
    if (*job == NULL) return;
    pthread_mutex_lock(&j->lock);
    joined_release(j, &(*job)->in);
    pthread_mutex_unlock(&j->lock);
    ff_adj_lists_destroy(&(*job)->lists);
    FF_FREE(*job);
}

static ff_status adj_net_create(void *impl, const ff_adj_view *v, ff_adj_net **out)
{
    (void)impl;
    FF_TRY(FF_NEW0(*out, 1));
    (*out)->v = *v;
    return FF_OK;
}

static void adj_net_destroy(void *impl, ff_adj_net **net)
{
    (void)impl;
    FF_FREE(*net);
}

/* ---- joined runs; the lock is held ---- */

/* Same shape, scales and weights: the records hold all else. */
static bool same_net(const ff_adj_view *a, const ff_adj_view *b)
{
    if (a->grad_len != b->grad_len || a->rec_len != b->rec_len || a->n_comp != b->n_comp ||
        a->n_vec != b->n_vec || a->s.n_hidden != b->s.n_hidden || a->s.n_harm != b->s.n_harm ||
        a->s.n_field != b->s.n_field || a->s.mlp != b->s.mlp || a->s.dim != b->s.dim ||
        a->length != b->length || a->eps2 != b->eps2 || a->beta != b->beta ||
        memcmp(a->s.field_rank, b->s.field_rank, (size_t)a->s.n_field * sizeof *a->s.field_rank) != 0)
        return false;
    for (int l = 0; l <= a->s.n_hidden; l++) {
        size_t out = ((size_t)a->layer[l].n_out + 7) / 8 * 8, in = (size_t)a->layer[l].n_in;
        if (a->layer[l].n_in != b->layer[l].n_in || a->layer[l].n_out != b->layer[l].n_out ||
            memcmp(a->layer[l].w, b->layer[l].w, out * in * sizeof(float)) != 0)
            return false;
        if (a->layer[l].b != NULL && memcmp(a->layer[l].b, b->layer[l].b, out * sizeof(float)) != 0)
            return false;
    }
    return true;
}

/* Waiting members that go with the first one; returns how many. */
static int pick(ff_join *j, member **who)
{
    int n = 0;
    for (int k = 0; k < j->n; k++) {
        member *m = &j->m[k];
        if (m->job == NULL) continue;
        if (n > 0 && (!same_net(&who[0]->net->v, &m->net->v) ||
                      (who[0]->args->target == NULL) != (m->args->target == NULL)))
            continue;
        who[n++] = m;
    }
    return n;
}

static bool is_joined(member *const *who, int n)
{
    const joined *in = who[0]->job->in;
    if (in == NULL || in->n != n) return false;
    for (int k = 0; k < n; k++)
        if (in->of[k] != who[k]->job) return false;
    return true;
}

static ff_status join_jobs(const ff_join *j, member *const *who, int n)
{
    ff_status st = FF_OK;
    joined *in = NULL;
    const ff_adj_lists **part = NULL;
    ff_adj_lists *lists = NULL;
    for (int k = 0; k < n; k++) joined_release(j, &who[k]->job->in);
    FF_GO(FF_NEW0(in, 1));
    FF_GO(FF_NEW(in->of, n));
    FF_GO(FF_NEW(part, n));
    for (int k = 0; k < n; k++) {
        ff_adj_job *job = who[k]->job;
        part[k] = job->lists;
        in->of[k] = job;
        job->part = k;
        job->slot = in->n_slot;
        job->target = in->n_target;
        in->n_slot += job->lists->n_slot;
        in->n_target += job->lists->n_target;
    }
    FF_GO(ff_adj_lists_join(0, NULL, part, n, &lists));
    ff_adj_lists_part(lists, part, n);
    FF_GO(j->inner->adjoint->job_create(j->inner->impl, lists, &in->job));
    in->n = in->users = n;
    for (int k = 0; k < n; k++) who[k]->job->in = in;
    in = NULL;
done:
    ff_adj_lists_destroy(&lists);
    ff_free(part);
    if (in != NULL) in->users = 1;
    joined_release(j, &in);
    return st;
}

static ff_status room(void *p_ptr, int64_t *have, int64_t len, int64_t n, size_t size)
{
    void *p;
    if (*have >= len) return FF_OK;
    memcpy(&p, p_ptr, sizeof p);
    ff_free(p);
    p = ff_mem_alloc((size_t)(len * n) + 1, size);
    memcpy(p_ptr, &p, sizeof p);
    *have = p != NULL ? len : 0;
    return p != NULL ? FF_OK : FF_E_MEM;
}

static ff_status make_room(joined *in, const ff_adj_view *v, bool target)
{
    int64_t one = in->strength != NULL, dim = 0;
    FF_TRY(room(&in->rec, &in->rec_len, v->rec_len, in->n_slot, sizeof *in->rec));
    FF_TRY(room(&in->strength, &one, 1, in->n_slot, sizeof *in->strength));
    FF_TRY(room(&in->out_bar, &in->n_comp, v->n_comp, in->n_target, sizeof *in->out_bar));
    FF_TRY(room(&in->rows, &in->row_len, ff_adj_row_len(v), in->n_slot, sizeof *in->rows));
    FF_TRY(room(&in->grad, &in->grad_len, v->grad_len, 2 * (int64_t)in->n, sizeof *in->grad));
    dim = target ? v->s.dim : 0;
    return room(&in->target, &in->target_len, dim, 2 * in->n_target, sizeof *in->target);
}

/* A member's share in, or out. */
static void copy_in(const member *m)
{
    const ff_adj_job *job = m->job;
    const joined *in = job->in;
    const ff_adj_view *v = &m->net->v;
    const ff_adj_args *a = m->args;
    size_t n = (size_t)job->lists->n_slot, n_t = (size_t)job->lists->n_target;
    memcpy(in->rec + job->slot * v->rec_len, a->rec, n * (size_t)v->rec_len * sizeof *a->rec);
    memcpy(in->strength + job->slot, a->strength, n * sizeof *a->strength);
    memcpy(in->out_bar + job->target * v->n_comp, a->out_bar, n_t * (size_t)v->n_comp * sizeof *a->out_bar);
    if (a->target == NULL) return;
    int64_t w = 2 * (int64_t)v->s.dim;
    memcpy(in->target + job->target * w, a->target, n_t * (size_t)w * sizeof *a->target);
}

static void copy_out(const ff_adj_job *job, const ff_adj_view *v, const ff_adj_args *a)
{
    const joined *in = job->in;
    int64_t row = ff_adj_row_len(v), w = 2 * (int64_t)v->s.dim;
    size_t n = (size_t)job->lists->n_slot, n_t = (size_t)job->lists->n_target;
    memcpy(a->rows, in->rows + job->slot * row, n * (size_t)row * sizeof *a->rows);
    memcpy(a->grad, in->grad + 2 * v->grad_len * job->part, (size_t)(2 * v->grad_len) * sizeof *a->grad);
    if (a->target != NULL)
        memcpy(a->target, in->target + job->target * w, n_t * (size_t)w * sizeof *a->target);
}

static ff_status run_joined(const ff_join *j, member *const *who, int n)
{
    const ff_adj_view *v = &who[0]->net->v;
    const ff_pair_adjoint_ops *ops = j->inner->adjoint;
    ff_adj_net *net = NULL;
    if (!is_joined(who, n)) FF_TRY(join_jobs(j, who, n));
    joined *in = who[0]->job->in;
    FF_TRY(make_room(in, v, who[0]->args->target != NULL));
    for (int k = 0; k < n; k++) copy_in(who[k]);
    ff_adj_args a = {.rec = in->rec,
                     .strength = in->strength,
                     .out_bar = in->out_bar,
                     .rows = in->rows,
                     .grad = in->grad,
                     .target = who[0]->args->target != NULL ? in->target : NULL};
    FF_TRY(ops->net_create(j->inner->impl, v, &net));
    ff_status st = ops->run(j->inner->impl, in->job, net, &a);
    ops->net_destroy(j->inner->impl, &net);
    for (int k = 0; k < n; k++) who[k]->args->bad = a.bad; /* the batch's gradient is not finite then */
    return st;
}

/* All active members wait: run them, group by group. */
static void run_waiting(ff_join *j)
{
    member **who = NULL;
    ff_status room_st = FF_NEW(who, j->n);
    while (room_st == FF_OK) {
        int n = pick(j, who);
        if (n == 0) break;
        ff_status st = run_joined(j, who, n);
        for (int k = 0; k < n; k++) {
            who[k]->st = st;
            who[k]->job = NULL;
        }
    }
    for (int k = 0; k < j->n; k++)
        if (j->m[k].job != NULL) {
            j->m[k].st = room_st;
            j->m[k].job = NULL;
        }
    j->waiting = 0;
    ff_free(who);
    pthread_cond_broadcast(&j->done);
}

static ff_status adj_run(void *impl, const ff_adj_job *job, const ff_adj_net *net, ff_adj_args *a)
{
    member *m = impl;
    ff_join *j = m->j;
    pthread_mutex_lock(&j->lock);
    m->job = (ff_adj_job *)(uintptr_t)job; /* this member's own, made by adj_job_create() */
    m->net = net;
    m->args = a;
    if (++j->waiting == j->active)
        run_waiting(j);
    else
        while (m->job != NULL) pthread_cond_wait(&j->done, &j->lock);
    ff_status st = m->st;
    pthread_mutex_unlock(&j->lock);
    if (st == FF_OK) copy_out(job, &net->v, a); /* nothing runs before this member waits again or leaves */
    return st;
}

/* ---- members ---- */

static const ff_pair_adjoint_ops adjoint_ops = {adj_job_create, adj_job_destroy, adj_net_create,
                                                adj_net_destroy, adj_run};

ff_status ff_join_create(const ff_pair_backend *inner, int n, ff_join **out)
{
    ff_join *j = NULL;
    *out = NULL;
    FF_TRY(FF_NEW0(j, 1));
    if (FF_NEW0(j->m, n) != FF_OK) {
        ff_free(j);
        return FF_E_MEM;
    }
    j->inner = inner;
    j->n = j->active = n;
    pthread_mutex_init(&j->lock, NULL);
    pthread_cond_init(&j->done, NULL);
    for (int k = 0; k < n; k++) {
        member *m = &j->m[k];
        m->j = j;
        m->table = (ff_pair_backend){.name = inner->name,
                                     .impl = m,
                                     .net_create = net_create,
                                     .net_destroy = net_destroy,
                                     .job_create = job_create,
                                     .job_destroy = job_destroy,
                                     .job_run = job_run,
                                     .device_peak = device_peak,
                                     .adjoint = &adjoint_ops};
    }
    *out = j;
    return FF_OK;
}

void ff_join_destroy(ff_join **jp)
{
    ff_join *j = *jp;
    if (j == NULL) return;
    pthread_cond_destroy(&j->done);
    pthread_mutex_destroy(&j->lock);
    ff_free(j->m);
    FF_FREE(*jp);
}

const ff_pair_backend *ff_join_member(ff_join *j, int k)
{
    return &j->m[k].table;
}

void ff_join_leave(ff_join *j, int k)
{
    (void)k;
    pthread_mutex_lock(&j->lock);
    if (--j->active == j->waiting && j->waiting > 0) run_waiting(j);
    pthread_mutex_unlock(&j->lock);
}
