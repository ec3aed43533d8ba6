#include "ff_train.h"

#include "ff_grad.h"
#include "ff_log.h"
#include "ff_mem.h"
#include "ff_rng.h"
#include "ff_sums.h"
#include "ff_timer.h"
#include "ff_train_fields.h"
#include "ff_train_keep.h"
#include "ff_train_log.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ORDER = 11 }; /* stream of the order of samples */

typedef struct trainer {
    ff_comm *comm, *group; /* all ranks; those of my sample */
    int my_group, n_groups;
    ff_model *m;
    const ff_train_opts *o;
    const ff_pair_backend *backend, *adjoint; /* as ff_train_opts, or a lane of it */
    ff_pair_backend **lane; /* [n_lanes]: a thread each works at a sample of its own, or the group at one */
    int n_lanes;            /* 0: samples one after the other, by the backend itself */
    train_keep *keep;       /* lanes of several threads: bodies, then finer ones */
    ff_train_state s;
    int lock; /* of the folder of checkpoints; -1: none */
    int n_comp;
    int64_t n_params,
        *at; /* tensors' places in sums, [n_tensors]; after n_params: the fields' losses, then counts */
    ff_sums *sums;
    float **grad;   /* [n_tensors][n] */
    int64_t *order; /* [train.n] samples of an epoch in their order */
    int64_t epoch;  /* that order is of; -1: none */
    train_log log;
    int64_t idle; /* steps left out in a row */
    ff_train_result *out;
} trainer;

/* ---- start and end ---- */

static ff_status check_opts(const ff_train_opts *o, int size, int n_outputs)
{
    if (n_outputs > FF_LOSS_FIELDS_MAX)
        return ff_fail(FF_E_ARG, "training: %d output fields, expected at most %d", n_outputs,
                       FF_LOSS_FIELDS_MAX);
    if (o->train.n < 1) return ff_fail(FF_E_ARG, "training: no samples, expected at least one");
    if (o->ranks_per_sample > 0 && size % o->ranks_per_sample != 0)
        return ff_fail(FF_E_ARG, "training: %d ranks in groups of %d, expected a multiple", size,
                       o->ranks_per_sample);
    if (o->steps < 0 || o->batch < 1 || !(o->schedule.lr > 0))
        return ff_fail(FF_E_ARG, "training: %lld steps of %lld samples at rate %g, expected >= 0, >= 1, > 0",
                       (long long)o->steps, (long long)o->batch, o->schedule.lr);
    if (o->train.fine_batch < 0 || o->train.fine_batch > o->batch)
        return ff_fail(FF_E_ARG, "training: %lld finer bodies a step, expected 0 .. %lld, the batch",
                       (long long)o->train.fine_batch, (long long)o->batch);
    return FF_OK;
}

static ff_status alloc(trainer *t)
{
    const ff_model *m = t->m;
    FF_TRY(ff_optim_create(m, &t->o->optim, &t->s.optim));
    FF_TRY(FF_NEW(t->at, m->n_tensors));
    FF_TRY(FF_NEW0(t->grad, m->n_tensors));
    for (int i = 0; i < m->n_tensors; i++) {
        t->at[i] = t->n_params;
        t->n_params += m->tensor[i].n;
        FF_TRY(FF_NEW(t->grad[i], m->tensor[i].n));
    }
    FF_TRY(FF_NEW(t->order, t->o->train.n));
    return ff_sums_create(t->n_params + 2 * m->config->outputs.n, &t->sums);
}

/* Several samples a step go by lanes, where the backend lends some: a rank's threads share its samples, a group of ranks has
 * one. Whole evaluations of the backend and jobs of its lanes differ in rounding, so that the choice must not depend on the
 * ranks: losses would. */
static ff_status make_lanes(trainer *t)
{
    enum { MOST = 32 };
    const ff_pair_backend *b = t->o->adjoint;
    int64_t slots = (t->o->batch + t->n_groups - 1) / t->n_groups, n = omp_get_max_threads();
    if (t->o->batch == 1 || b == NULL || b->lane_create == NULL) return FF_OK;
    n = t->group->size > 1 ? 1 : n > slots ? slots : n > MOST ? MOST : n;
    FF_TRY(FF_NEW0(t->lane, n));
    for (; t->n_lanes < n; t->n_lanes++) FF_TRY(b->lane_create(b->impl, &t->lane[t->n_lanes]));
    return t->group->size > 1 ? FF_OK : train_keep_create(2 * t->o->train.n, t->o->keep_bytes, &t->keep);
}

/* All files of a list are samples, on rank 0: a bad one is told before the first step, and what they lack. */
static ff_status check_files(const trainer *t, const ff_train_data *d, const char *what)
{
    int64_t has[FF_LOSS_FIELDS_MAX] = {0};
    for (int64_t k = 0; k < d->n && d->file != NULL; k++) FF_TRY(ff_sample_fields(t->m, d->file[k], has));
    for (int f = 0; f < t->m->config->outputs.n && d->file != NULL && d->n > 0; f++)
        if (has[f] < d->n)
            ff_warn("%lld of %lld %s samples hold the field %s; elsewhere it is unknown", (long long)has[f],
                    (long long)d->n, what, t->m->config->outputs.item[f].name);
    return FF_OK;
}

static ff_status check_data(const trainer *t)
{
    ff_status st = FF_OK;
    if (t->comm->rank == 0) st = check_files(t, &t->o->train, "training");
    if (t->comm->rank == 0 && st == FF_OK) st = check_files(t, &t->o->valid, "validation");
    return ff_agree(t->comm, st);
}

static ff_status start(trainer *t)
{
    FF_TRY(check_opts(t->o, t->comm->size, t->m->config->outputs.n));
    FF_TRY(check_data(t));
    int per = t->o->ranks_per_sample > 0 ? t->o->ranks_per_sample : t->comm->size;
    t->my_group = t->comm->rank / per;
    t->n_groups = t->comm->size / per;
    t->group = t->comm;
    t->backend = t->o->backend;
    t->adjoint = t->o->adjoint;
    t->epoch = -1;
    t->n_comp = ff_names_comp(&t->m->config->outputs, t->m->config->dim);
    t->s.schedule = ff_schedule_start();
    t->s.best = HUGE_VAL;
    t->s.seed = t->o->seed;
    FF_TRY(ff_agree(t->comm, alloc(t)));
    if (t->n_groups > 1) FF_TRY(ff_comm_split(t->comm, t->my_group, &t->group));
    return ff_agree(t->comm, make_lanes(t));
}

static void finish(trainer *t)
{
    train_keep_destroy(&t->keep);
    for (int k = 0; k < t->n_lanes; k++) t->o->adjoint->lane_destroy(&t->lane[k]);
    ff_free(t->lane);
    if (t->group != t->comm) ff_comm_destroy(&t->group);
    ff_optim_destroy(&t->s.optim);
    for (int i = 0; i < t->m->n_tensors && t->grad != NULL; i++) ff_free(t->grad[i]);
    ff_free(t->grad);
    ff_free(t->at);
    ff_free(t->order);
    ff_sums_destroy(&t->sums);
    train_log_close(&t->log);
    ff_checkpoint_unlock(&t->lock);
}

/* ---- which samples ---- */

typedef struct keyed {
    uint64_t key;
    int64_t id;
} keyed;

static int by_key(const void *a, const void *b)
{
    const keyed *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

/* A random order of the samples, a function of (seed, epoch). */
static ff_status shuffle(trainer *t, int64_t epoch)
{
    keyed *k = NULL;
    int64_t n = t->o->train.n;
    if (epoch == t->epoch) return FF_OK;
    FF_TRY(FF_NEW(k, n));
    for (int64_t i = 0; i < n; i++)
        k[i] =
            (keyed){ff_rng_u64((uint64_t)t->s.seed, (uint64_t)ORDER << 56 ^ (uint64_t)epoch, (uint64_t)i), i};
    qsort(k, (size_t)n, sizeof *k, by_key);
    for (int64_t i = 0; i < n; i++) t->order[i] = k[i].id;
    t->epoch = epoch;
    ff_free(k);
    return FF_OK;
}

/* Sample `id` of data for draw number `draw`.                                       Collective over the group */
static ff_status get_sample(trainer *t, const ff_train_data *d, int64_t id, int splits, uint64_t draw,
                            bool whole, ff_sample **out)
{
    uint64_t seed = (uint64_t)t->s.seed;
    if (d->file == NULL)
        return ff_sample_ellipsoid(t->group, t->m, seed, (uint64_t)(d->first + id), splits, draw,
                                   whole && t->o->fields != NULL, out);
    ff_sample_opts o = t->o->sample;
    if (whole) o = (ff_sample_opts){.faces = o.faces, .keep_mesh = t->o->fields != NULL};
    o.seed = seed;
    o.draw = draw;
    return ff_sample_read(t->group, t->m, d->file[id], &o, out);
}

/* ---- one sample ---- */

static ff_status create_eval(trainer *t, const ff_sample *s, bool keep, ff_eval **e)
{
    ff_eval_opts opts = FF_EVAL_OPTS_INIT;
    opts.f64 = t->o->f64;
    opts.backend = t->backend;
    opts.keep = keep;
    opts.device_only = opts.backend != NULL;
    opts.adjoint = keep ? t->adjoint : NULL;
    return ff_eval_create(t->group, s->c, &opts, e);
}

static ff_status evaluate(trainer *t, const ff_sample *s, ff_eval *e, double **rows)
{
    FF_TRY(FF_NEW_ALL(t->group, *rows, s->n * t->n_comp + 1));
    return ff_eval_run(e, *rows);
}

/* Adds the sample's share of the batch's gradient and losses: one rank of the group adds what all of it have. */
static ff_status add_gradient(trainer *t, ff_grad *g, const double *bar, const double *part, double share)
{
    ff_status st = ff_grad_run(g, bar);
    if (st == FF_OK && t->group->rank == 0) {
        const ff_grad_values *v = ff_grad_get(g);
        for (int i = 0; i < t->m->n_tensors; i++)
            ff_sums_add_f64(t->sums, t->at[i], t->m->tensor[i].n, v->tensor[i]);
        for (int f = 0; f < t->m->config->outputs.n; f++) {
            double loss = share * part[f];
            ff_sums_add_f64(t->sums, t->n_params + f, 1, &loss);
        }
    }
    return st;
}

static ff_status train_sample(trainer *t, const train_body *b, double share)
{
    ff_status st = FF_OK;
    const ff_sample *s = b->s;
    double *rows = NULL, *bar = NULL, part[FF_LOSS_FIELDS_MAX];
    FF_GO(evaluate(t, s, b->e, &rows));
    FF_GO(FF_NEW_ALL(t->group, bar, s->n * t->n_comp + 1));
    FF_GO(ff_loss_run(t->group, &t->m->config->outputs, t->m->config->dim, s->n, rows, s->truth, s->weight,
                      &t->o->loss, part, bar));
    for (int64_t i = 0; i < s->n * t->n_comp; i++) bar[i] *= share;
    FF_GO(add_gradient(t, b->g, bar, part, share));
done:
    ff_free(rows);
    ff_free(bar);
    return st;
}

/* ---- one step ---- */

/* The samples of a step. */
typedef struct batch {
    bool fine;
    int64_t slots, first; /* how many; draw number of the first */
    int64_t *id;          /* [slots] */
} batch;

static ff_status draw_batch(trainer *t, batch *b)
{
    const ff_train_data *d = &t->o->train;
    b->fine = d->fine_every > 0 && t->s.step % d->fine_every == d->fine_every - 1;
    b->slots = t->o->batch;
    if (b->fine) b->slots = d->fine_batch > 0 ? d->fine_batch : (t->o->batch + 7) / 8;
    b->first = t->s.step * t->o->batch; /* the same whatever the groups */
    FF_TRY(FF_NEW(b->id, b->slots));
    for (int64_t k = 0; k < b->slots; k++) {
        FF_TRY(shuffle(t, (b->first + k) / d->n));
        b->id[k] = t->order[(b->first + k) % d->n];
        if (b->fine && d->n_fine > 0) b->id[k] %= d->n_fine;
    }
    return FF_OK;
}

/* Sample of slot k into an empty place, with its trees; one that stands there is made ready for this draw. */
static ff_status open_body(trainer *t, const batch *b, int64_t k, train_body *y)
{
    ff_status st = FF_OK;
    const ff_train_data *d = &t->o->train;
    int splits = d->splits + (b->fine ? 1 : 0);
    uint64_t draw = (uint64_t)(b->first + k);
    if (y->s != NULL) {
        if (d->file == NULL)
            ff_sample_ellipsoid_turn(y->s, (uint64_t)t->s.seed, (uint64_t)(d->first + b->id[k]), draw);
        return ff_eval_rebind(y->e, t->backend);
    }
    if (d->file == NULL) {
        st = get_sample(t, d, b->id[k], splits, draw, false, &y->s);
    } else {
#pragma omp critical(ff_train_files) /* libhdf5 is for one thread */
        st = get_sample(t, d, b->id[k], splits, draw, false, &y->s);
    }
    FF_TRY(st);
    FF_TRY(create_eval(t, y->s, true, &y->e));
    return ff_grad_create(y->e, FF_GRAD_PARAMS, &y->g);
}

static ff_status run_slot(trainer *t, const batch *b, int64_t k, train_body *y)
{
    FF_TRY(open_body(t, b, k, y));
    return train_sample(t, y, 1.0 / (double)b->slots);
}

static ff_status run_alone(trainer *t, const batch *b, int64_t k)
{
    train_body y = {NULL, NULL, NULL};
    ff_status st = run_slot(t, b, k, &y);
    train_body_clear(&y);
    return st;
}

/* Slot k by the lane of this thread, in the sample's kept place if it has one. */
static ff_status run_on_lane(trainer *mine, const batch *b, int64_t k)
{
    const ff_sample_opts *o = &mine->o->sample;
    const ff_train_data *d = &mine->o->train;
    bool fixed = d->file == NULL || (o->faces == 0 && o->targets == 0 && !o->inside);
    int64_t place = b->id[k] + (b->fine ? d->n : 0);
    train_body *y = fixed ? train_keep_take(mine->keep, place) : NULL;
    if (y == NULL) return run_alone(mine, b, k);
    ff_status st = run_slot(mine, b, k, y);
    if (st != FF_OK) train_body_clear(y);
    train_keep_give(mine->keep, place, mine->backend->device_peak(mine->backend->impl));
    return st;
}

static ff_status run_lanes(const trainer *t, const batch *b)
{
    ff_status st = FF_OK;
    int64_t slots = (b->slots - t->my_group + t->n_groups - 1) / t->n_groups;
    int n = slots < t->n_lanes ? (int)slots : t->n_lanes, inner = n > 0 ? omp_get_max_threads() / n : 1,
        levels = omp_get_max_active_levels();
    omp_set_max_active_levels(2);
#pragma omp parallel num_threads(n > 0 ? n : 1)
    {
        omp_set_num_threads(inner > 0 ? inner : 1); /* few samples: several threads work at each */
        trainer mine = *t;
        mine.group = ff_comm_self();
        mine.backend = mine.adjoint = t->lane[omp_get_thread_num()];
        ff_status my_st = FF_OK;
#pragma omp for schedule(dynamic, 1) nowait
        for (int64_t k = t->my_group; k < b->slots; k += t->n_groups)
            if (my_st == FF_OK) my_st = run_on_lane(&mine, b, k);
        if (my_st != FF_OK) {
#pragma omp atomic write
            st = my_st;
        }
    }
    omp_set_max_active_levels(levels);
    return st;
}

/* This group's slots: one after the other, or several at once where a rank has samples and lanes to itself. */
static ff_status run_slots(const trainer *t, const batch *b)
{
    ff_status st = FF_OK;
    trainer mine = *t;
    if (t->n_lanes > 0 && t->group->size == 1) return run_lanes(t, b);
    if (t->n_lanes > 0) mine.backend = mine.adjoint = t->lane[0];
    for (int64_t k = t->my_group; k < b->slots && st == FF_OK; k += t->n_groups) st = run_alone(&mine, b, k);
    return st;
}

static ff_status run_batch(trainer *t)
{
    batch b = {.id = NULL};
    ff_sums_clear(t->sums);
    ff_status st = ff_agree(t->comm, draw_batch(t, &b));
    if (st == FF_OK)
        st = ff_agree(t->comm, run_slots(t, &b)); /* a group that failed waits here for the others */
    ff_free(b.id);
    FF_TRY(st);
    return ff_sums_allreduce(t->comm, t->sums);
}

/* Weights that leave nothing to go on from: not finite, or a scale factor beyond float32. The same on all ranks. */
static ff_status check_weights(const trainer *t, double rate)
{
    enum { LOG_MAX = 80 };
    for (int i = 0; i < t->m->n_tensors; i++) {
        const ff_tensor *w = &t->m->tensor[i];
        double most = strstr(w->name, ".log_scalefactors.") != NULL ? LOG_MAX : HUGE_VAL;
        for (int64_t k = 0; k < w->n; k++)
            if (!(fabs((double)w->value[k]) < most))
                return ff_fail(
                    FF_E_INPUT,
                    "training diverged: after step %lld %s has the value %g; lower train.lr (%g now)",
                    (long long)t->s.step, w->name, (double)w->value[k], rate);
    }
    return FF_OK;
}

/* Steps are left out while gradients are not finite, but not all of them. */
static ff_status check_skipped(trainer *t, int64_t before, double rate)
{
    enum { MOST = 100 };
    const char *units = "check the units of meshes and fields, reference_area and train.loss_scale";
    t->idle = t->s.optim->skipped > before ? t->idle + 1 : 0;
    if (t->idle == 1)
        ff_warn("step %lld is left out: its gradient is not finite, or beyond 1e8%s%s", (long long)t->s.step,
                t->s.optim->step == 0 ? "; " : "", t->s.optim->step == 0 ? units : "");
    if (t->idle < MOST) return FF_OK;
    if (t->s.optim->step == 0)
        return ff_fail(FF_E_INPUT, "training: no gradient was finite in %d steps; %s", MOST, units);
    return ff_fail(FF_E_INPUT,
                   "training diverged: the gradient was not finite in %d steps, up to step %lld; lower "
                   "train.lr (%g now)",
                   MOST, (long long)t->s.step, rate);
}

static ff_status run_step(trainer *t)
{
    double t0 = ff_now_s(), norm = 0, rate = ff_schedule_rate(&t->o->schedule, &t->s.schedule, t->s.step),
           part[FF_LOSS_FIELDS_MAX];
    FF_TRY(run_batch(t));
    for (int i = 0; i < t->m->n_tensors; i++)
#pragma omp parallel for schedule(static) if (t->m->tensor[i].n > 1024)
        for (int64_t k = 0; k < t->m->tensor[i].n; k++)
            t->grad[i][k] = (float)ff_sums_value(t->sums, t->at[i] + k);
    t->out->loss = 0;
    for (int f = 0; f < t->m->config->outputs.n; f++) {
        part[f] = ff_sums_value(t->sums, t->n_params + f);
        t->out->loss += part[f];
    }
    int64_t skipped = t->s.optim->skipped;
    FF_TRY(ff_agree(t->comm, ff_optim_step(t->s.optim, t->m, t->grad, rate, &norm)));
    if (ff_schedule_loss(&t->o->schedule, &t->s.schedule, t->out->loss))
        ff_info("step %lld: the loss stands still, the learning rate falls", (long long)t->s.step);
    t->s.step++;
    t->s.elapsed_s += ff_now_s() - t0;
    train_step_line line = {t->s.step, t->o->steps, t->out->loss,    part,
                            rate,      norm,        ff_now_s() - t0, t->s.optim->skipped};
    train_log_step(&t->log, &t->m->config->outputs, &line, t->o->log_every);
    FF_TRY(check_weights(t, rate));
    return check_skipped(t, skipped, rate);
}

/* ---- validation ---- */

/* Averaged weights in place of the model's, and back: the same call. */
static void swap_weights(trainer *t)
{
    for (int i = 0; i < t->m->n_tensors && t->s.optim->ema != NULL; i++) {
        float *w = t->m->tensor[i].value;
        t->m->tensor[i].value = t->s.optim->ema[i];
        t->s.optim->ema[i] = w;
    }
}

/* Draw number of validation sample id: the same each time. */
static uint64_t valid_draw(int64_t id)
{
    return (uint64_t)1 << 40 ^ (uint64_t)id;
}

/* Relative L2 errors of the fields of one sample into the sums. */
static ff_status validate_sample(trainer *t, int64_t id)
{
    ff_status st = FF_OK;
    ff_sample *s = NULL;
    ff_eval *e = NULL;
    double *rows = NULL, part[FF_LOSS_FIELDS_MAX];
    ff_loss_opts relative = {.relative = true, .blank = true};
    int n_fields = t->m->config->outputs.n;
    for (int f = 0; f < n_fields; f++) relative.scale[f] = 1;
    FF_GO(get_sample(t, &t->o->valid, id, t->o->valid.splits, valid_draw(id), true, &s));
    FF_GO(create_eval(t, s, false, &e));
    FF_GO(evaluate(t, s, e, &rows));
    FF_GO(ff_loss_run(t->group, &t->m->config->outputs, t->m->config->dim, s->n, rows, s->truth, s->weight,
                      &relative, part, NULL));
    for (int f = 0; f < n_fields && t->group->rank == 0; f++) {
        double error = sqrt(part[f]), one = 1;
        if (isnan(error)) continue; /* nothing known, or 0 everywhere: no relative error */
        ff_sums_add_f64(t->sums, t->n_params + f, 1, &error);
        ff_sums_add_f64(t->sums, t->n_params + n_fields + f, 1, &one);
    }
done:
    ff_eval_destroy(&e);
    ff_sample_destroy(&s);
    ff_free(rows);
    return st;
}

/* FOLDER/NUMBER_NAME.vtkhdf of a validation sample. */
static void fields_path(const trainer *t, int64_t id, char *path, size_t len)
{
    const char *file = t->o->valid.file != NULL ? t->o->valid.file[id] : "ellipsoid",
               *slash = strrchr(file, '/');
    if (slash != NULL) file = slash + 1;
    const char *dot = strrchr(file, '.');
    (void)snprintf(path, len, "%s/%03lld_%.*s.vtkhdf", t->o->fields, (long long)id,
                   (int)(dot != NULL ? (size_t)(dot - file) : strlen(file)), file);
}

/* All ranks at one sample, whatever the groups: files are written by all. */
static ff_status write_fields(const trainer *t, int64_t id)
{
    ff_status st = FF_OK;
    trainer mine = *t;
    ff_sample *s = NULL;
    ff_eval *e = NULL;
    double *rows = NULL;
    char path[4096];
    mine.group = t->comm;
    fields_path(t, id, path, sizeof path);
    FF_GO(get_sample(&mine, &t->o->valid, id, t->o->valid.splits, valid_draw(id), true, &s));
    FF_GO(create_eval(&mine, s, false, &e));
    FF_GO(evaluate(&mine, s, e, &rows));
    st = train_fields_write(t->comm, s, rows, path);
    if (st != FF_E_IO) goto done;
    ff_warn("%s; training goes on", ff_error_text());
    ff_error_clear();
    st = FF_OK;
done:
    ff_eval_destroy(&e);
    ff_sample_destroy(&s);
    ff_free(rows);
    return st;
}

static ff_status validate(trainer *t)
{
    ff_status st = FF_OK;
    double sum = 0;
    if (t->o->valid.n == 0) return FF_OK;
    ff_sums_clear(t->sums);
    swap_weights(t);
    for (int64_t k = 0; k < t->o->valid.n && st == FF_OK; k++)
        if (k % t->n_groups == t->my_group) st = validate_sample(t, k);
    st = ff_agree(t->comm, st);
    for (int64_t k = 0; k < t->o->valid.n && k < t->o->fields_of && t->o->fields != NULL && st == FF_OK; k++)
        st = write_fields(t, k);
    swap_weights(t);
    FF_TRY(st);
    FF_TRY(ff_sums_allreduce(t->comm, t->sums));
    int n_fields = t->m->config->outputs.n;
    for (int f = 0; f < n_fields; f++) {
        t->out->error[f] =
            ff_sums_value(t->sums, t->n_params + f) / ff_sums_value(t->sums, t->n_params + n_fields + f);
        sum += t->out->error[f];
    }
    if (sum < t->s.best) t->s.best = sum;
    train_log_validation(&t->log, &t->m->config->outputs, t->s.step, t->out->error);
    return FF_OK;
}

/* ---- all of it ---- */

/* A full disk does not end a training: the checkpoint before stays. */
static ff_status save(trainer *t)
{
    if (t->o->folder == NULL) return FF_OK;
    ff_status st =
        ff_checkpoint_write(t->comm, t->o->folder, t->m, &t->s, t->o->deck != NULL ? t->o->deck : "");
    if (st == FF_E_IO) {
        ff_warn("%s; no checkpoint of step %lld, training goes on", ff_error_text(), (long long)t->s.step);
        ff_error_clear();
    }
    return st;
}

static ff_status asked_to_stop(trainer *t, bool *stop)
{
    int64_t any = t->o->stop != NULL && t->o->stop(t->o->ctx);
    FF_TRY(ff_comm_allreduce(t->comm, &any, 1, FF_MAX_I64));
    *stop = any != 0;
    return FF_OK;
}

static bool due(int64_t every, int64_t step)
{
    return every > 0 && step % every == 0;
}

static ff_status run_steps(trainer *t)
{
    bool stop = false;
    const ff_train_opts *o = t->o;
    while (t->s.step < o->steps) {
        FF_TRY(run_step(t));
        bool last = t->s.step == o->steps;
        if (last || due(o->validate_every, t->s.step)) FF_TRY(validate(t));
        FF_TRY(asked_to_stop(t, &stop));
        ff_status saved = stop || last || due(o->save_every, t->s.step) ? save(t) : FF_OK;
        if (saved != FF_OK && (saved != FF_E_IO || stop)) return saved;
        if (stop && !last)
            return ff_fail(
                o->folder != NULL ? FF_E_STOPPED : FF_E_ENDED, "training stopped after step %lld of %lld%s",
                (long long)t->s.step, (long long)o->steps,
                o->folder != NULL ? "; the same command goes on from its checkpoint"
                                  : " and nothing was kept; give --checkpoints FOLDER to go on from there");
    }
    return FF_OK;
}

static ff_status resume(trainer *t)
{
    bool found = false;
    if (t->o->folder != NULL) FF_TRY(ff_checkpoint_lock(t->comm, t->o->folder, &t->lock));
    if (t->o->folder != NULL) FF_TRY(ff_checkpoint_read(t->comm, t->o->folder, t->m, &t->s, &found));
    if (found && t->s.seed != t->o->seed)
        ff_warn("the checkpoint was begun with seed %lld: it is kept", (long long)t->s.seed);
    if (found && t->o->deck != NULL && t->comm->rank == 0)
        ff_checkpoint_warn_changed(t->o->folder, t->s.step, t->o->deck);
    if (found) ff_info("going on after step %lld of %lld", (long long)t->s.step, (long long)t->o->steps);
    return train_log_open(&t->log, t->comm, t->o->log, found ? t->s.step : 0);
}

static ff_status hand_out_averages(trainer *t, float ***averaged)
{
    if (averaged == NULL || t->s.optim->ema == NULL) return FF_OK;
    *averaged = t->s.optim->ema;
    t->s.optim->ema = NULL;
    return FF_OK;
}

ff_status ff_train_run(ff_comm *comm, ff_model *m, const ff_train_opts *opts, ff_train_result *out,
                       float ***averaged)
{
    trainer t = {.comm = comm, .m = m, .o = opts, .out = out, .lock = -1};
    double t0 = ff_now_s();
    *out = (ff_train_result){.loss = (double)NAN};
    for (int f = 0; f < FF_LOSS_FIELDS_MAX; f++) out->error[f] = (double)NAN;
    if (averaged != NULL) *averaged = NULL;
    ff_status st = start(&t);
    if (st == FF_OK) st = resume(&t);
    int64_t first = t.s.step;
    if (st == FF_OK) st = run_steps(&t);
    out->step = t.s.step;
    out->skipped = t.s.optim != NULL ? t.s.optim->skipped : 0;
    out->elapsed_s = t.s.elapsed_s;
    out->step_s = t.s.step > first ? (ff_now_s() - t0) / (double)(t.s.step - first) : 0;
    if (st == FF_OK) st = hand_out_averages(&t, averaged);
    finish(&t);
    return st;
}
