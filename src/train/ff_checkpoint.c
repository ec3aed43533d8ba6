#include "ff_checkpoint.h"

#include "ff_digest.h"
#include "ff_io.h"
#include "ff_log.h"
#include "ff_mem.h"
#include "ff_model_write.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

enum { PATH_LEN = 4096, KEPT = 2, NAME_LEN = 1100 };

/* ---- names ---- */

/* Step of a checkpoint's file name, -1 if it is none. */
static int64_t step_of(const char *name)
{
    char *end;
    if (strncmp(name, "step_", 5) != 0 || name[5] < '0' || name[5] > '9') return -1;
    long long n = strtoll(name + 5, &end, 10);
    return strcmp(end, ".h5") == 0 && n < 1000000000000000 ? (int64_t)n : -1;
}

static void path_of(char *out, const char *folder, int64_t step)
{
    (void)snprintf(out, PATH_LEN, "%s/step_%010lld.h5", folder, (long long)step);
}

static int descending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x < y) - (x > y);
}

/* Steps of the folder's checkpoints, newest first; *steps owned by the caller. A missing folder has none. */
static ff_status list_steps(const char *folder, int64_t **steps, int64_t *n)
{
    ff_status st = FF_OK;
    int64_t cap = 0;
    DIR *d = opendir(folder);
    *steps = NULL;
    *n = 0;
    if (d == NULL) return FF_OK;
    for (struct dirent *e; st == FF_OK && (e = readdir(d)) != NULL;) {
        int64_t step = step_of(e->d_name);
        if (step < 0) continue;
        st = ff_mem_reserve(steps, &cap, *n + 1, sizeof **steps);
        if (st == FF_OK) (*steps)[(*n)++] = step;
    }
    (void)closedir(d);
    if (*n > 1) qsort(*steps, (size_t)*n, sizeof **steps, descending);
    return st;
}

/* ---- one training at a time ---- */

/* On rank 0. Ranks whose mpirun was killed run on for a second: waiting for them is part of going on after any stop. */
static ff_status lock_folder(const char *folder, int *lock)
{
    enum { WAIT_S = 60, TELL_S = 3, PER_S = 20 };
    const struct timespec pause = {.tv_nsec = 1000000000 / PER_S};
    bool busy = true, mine = false;
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return FF_OK; /* made later, or not at all: writing tells */
    for (int i = 0; busy && i <= WAIT_S * PER_S; i++) {
        mine = flock(fd, LOCK_EX | LOCK_NB) == 0;
        busy = !mine && errno == EWOULDBLOCK; /* else a file system without locks */
        if (i == TELL_S * PER_S)
            ff_info("%s: another training is at work there; waiting for its end, up to %d s", folder, WAIT_S);
        if (busy) (void)nanosleep(&pause, NULL);
    }
    if (mine)
        *lock = fd;
    else
        (void)close(fd);
    if (!busy) return FF_OK;
    return ff_fail(FF_E_INPUT,
                   "%s: another training is at work there, expected one at a time; end it or give a folder "
                   "of its own",
                   folder);
}

ff_status ff_checkpoint_lock(ff_comm *comm, const char *folder, int *lock)
{
    ff_status st = FF_OK;
    *lock = -1;
    if (ff_comm_rank(comm) == 0) st = lock_folder(folder, lock);
    return ff_agree(comm, st);
}

void ff_checkpoint_unlock(int *lock)
{
    if (*lock >= 0) (void)close(*lock);
    *lock = -1;
}

/* ---- arrays: momentum, mean square, averages, one dataset a tensor ---- */

static const char *const group_name[3] = {"/training/first", "/training/second", "/training/ema"};

static float **set_of(const ff_optim *o, int k)
{
    return k == 0 ? o->first : k == 1 ? o->second : o->ema;
}

/* Numbers of the state, in this order in the attributes `integers` and `reals`. */
enum { N_INTEGERS = 5, N_REALS = 5 };

static void pack(const ff_train_state *s, int64_t *i, double *r)
{
    const int64_t integers[N_INTEGERS] = {s->step, s->seed, s->optim->step, s->optim->skipped,
                                          s->schedule.bad};
    const double reals[N_REALS] = {s->schedule.scale, s->schedule.best, s->schedule.smooth, s->best,
                                   s->elapsed_s};
    memcpy(i, integers, sizeof integers);
    memcpy(r, reals, sizeof reals);
}

static void unpack(ff_train_state *s, const int64_t *i, const double *r)
{
    s->step = i[0];
    s->seed = i[1];
    s->optim->step = i[2];
    s->optim->skipped = i[3];
    s->schedule = (ff_schedule_state){.scale = r[0], .best = r[1], .bad = i[4], .smooth = r[2]};
    s->best = r[3];
    s->elapsed_s = r[4];
}

/* SHA-256 of numbers and arrays: what tells a whole file from a damaged one (the weights have their own). */
static ff_status state_digest(const ff_model *m, const ff_train_state *s, char hex[FF_DIGEST_HEX])
{
    ff_digest *d = NULL;
    int64_t i[N_INTEGERS];
    double r[N_REALS];
    FF_TRY(ff_digest_begin(&d));
    pack(s, i, r);
    ff_digest_add(d, i, sizeof i);
    ff_digest_add(d, r, sizeof r);
    for (int k = 0; k < 3; k++) {
        float **set = set_of(s->optim, k);
        for (int t = 0; t < m->n_tensors && set != NULL; t++)
            if (set[t] != NULL) ff_digest_add(d, set[t], (size_t)m->tensor[t].n * sizeof(float));
    }
    return ff_digest_end(&d, hex);
}

static ff_status put_arrays(ff_h5 *f, const ff_model *m, const ff_optim *o)
{
    char path[NAME_LEN];
    for (int k = 0; k < 3; k++) {
        float **set = set_of(o, k);
        if (set == NULL) continue;
        FF_TRY(ff_h5_group(f, group_name[k]));
        for (int t = 0; t < m->n_tensors; t++) {
            if (set[t] == NULL) continue;
            ff_model_dataset_name(path, sizeof path, group_name[k], m->tensor[t].name);
            FF_TRY(ff_h5_write_all(f, path, FF_H5_F32, m->tensor[t].n, set[t]));
        }
    }
    return FF_OK;
}

static ff_status put_all(ff_h5 *f, const ff_model *m, const ff_train_state *s, const char *deck)
{
    char hex[FF_DIGEST_HEX];
    int64_t i[N_INTEGERS];
    double r[N_REALS];
    pack(s, i, r);
    FF_TRY(state_digest(m, s, hex));
    FF_TRY(ff_model_put(f, m, NULL, "farfield train"));
    FF_TRY(ff_h5_group(f, "/training"));
    FF_TRY(ff_h5_attr_write(f, "/training", "integers", FF_H5_I64, N_INTEGERS, i));
    FF_TRY(ff_h5_attr_write(f, "/training", "reals", FF_H5_F64, N_REALS, r));
    FF_TRY(ff_h5_attr_write_text(f, "/training", "digest", hex));
    FF_TRY(ff_h5_write_text(f, "/training/deck", deck));
    return put_arrays(f, m, s->optim);
}

static int64_t bytes_of(const ff_model *m)
{
    int64_t n = 0;
    for (int t = 0; t < m->n_tensors; t++) n += m->tensor[t].n;
    return 4 * 4 * n + 4096 * (int64_t)m->n_tensors + (1 << 20);
}

static ff_status write_one(const char *path, const ff_model *m, const ff_train_state *s, const char *deck)
{
    ff_h5 *f = NULL;
    char *tmp = NULL;
    FF_TRY(ff_io_tmp_name(path, &tmp));
    ff_status st = ff_io_try_space(tmp, bytes_of(m));
    if (st == FF_OK) st = ff_h5_create(ff_comm_self(), tmp, &f);
    if (st == FF_OK) {
        st = put_all(f, m, s, deck);
        ff_status closed = ff_h5_close(&f);
        if (st == FF_OK) st = closed;
    }
    if (st == FF_OK)
        st = ff_io_publish(tmp, path);
    else
        ff_io_discard(tmp);
    ff_free(tmp);
    return st;
}

ff_status ff_checkpoint_write(ff_comm *comm, const char *folder, const ff_model *m, const ff_train_state *s,
                              const char *deck)
{
    ff_status st = FF_OK;
    if (ff_comm_rank(comm) == 0) {
        char path[PATH_LEN];
        int64_t *steps = NULL, n = 0;
        path_of(path, folder, s->step);
        st = write_one(path, m, s, deck);
        if (st == FF_OK) st = list_steps(folder, &steps, &n);
        for (int64_t k = KEPT; k < n && st == FF_OK; k++) {
            path_of(path, folder, steps[k]);
            (void)remove(path); /* one too many does no harm */
        }
        ff_free(steps);
    }
    return ff_agree(comm, st);
}

/* ---- reading, on rank 0 ---- */

/* A dataset of exactly rows x row_len values, into room for as many. */
static ff_status get_values(const ff_h5 *f, const char *path, int64_t rows, int64_t row_len, float *out)
{
    ff_h5_shape shape;
    FF_TRY(ff_h5_shape_of(f, path, &shape));
    if (shape.dim[0] != rows || shape.row_len != row_len)
        return ff_fail(FF_E_INPUT, "%s: %s has shape [%lld][%lld], expected [%lld][%lld]", ff_h5_path(f),
                       path, (long long)shape.dim[0], (long long)shape.row_len, (long long)rows,
                       (long long)row_len);
    return ff_h5_read(f, path, FF_H5_F32, 0, rows, out);
}

static ff_status get_arrays(const ff_h5 *f, const ff_model *m, ff_optim *o)
{
    char path[NAME_LEN];
    for (int k = 0; k < 3; k++) {
        float **set = set_of(o, k);
        for (int t = 0; t < m->n_tensors && set != NULL; t++) {
            if (set[t] == NULL) continue;
            ff_model_dataset_name(path, sizeof path, group_name[k], m->tensor[t].name);
            if (!ff_h5_exists(f, path))
                return ff_fail(FF_E_INPUT, "%s: no %s; the checkpoint was made with another optimiser",
                               ff_h5_path(f), path);
            FF_TRY(get_values(f, path, m->tensor[t].n, 1, set[t]));
        }
    }
    return FF_OK;
}

static ff_status compare_text(const ff_h5 *f, const char *object, const char *attr, const char *want,
                              const char *what)
{
    char *have = NULL;
    FF_TRY(ff_h5_attr_read_text(f, object, attr, &have));
    ff_status st = strcmp(have, want) == 0 ? FF_OK : ff_fail(FF_E_INPUT, "%s: %s", ff_h5_path(f), what);
    ff_free(have);
    return st;
}

static ff_status get_all(const ff_h5 *f, ff_model *m, ff_train_state *s)
{
    char hex[FF_DIGEST_HEX], path[NAME_LEN];
    int64_t i[N_INTEGERS];
    double r[N_REALS];
    FF_TRY(compare_text(f, "/", "config_json", m->config->json,
                        "a checkpoint of another model; give a folder of its own"));
    if (s->optim->ema == NULL && ff_h5_exists(f, group_name[2]))
        return ff_fail(FF_E_INPUT, "%s: holds averaged weights; go on with train.ema", ff_h5_path(f));
    for (int t = 0; t < m->n_tensors; t++) {
        ff_tensor *x = &m->tensor[t];
        ff_model_dataset_name(path, sizeof path, "/weights", x->name);
        int64_t rows = x->n_dim > 0 ? x->shape[0] : 1;
        FF_TRY(get_values(f, path, rows, rows > 0 ? x->n / rows : 0, x->value));
    }
    FF_TRY(ff_h5_attr_read(f, "/training", "integers", FF_H5_I64, N_INTEGERS, i));
    FF_TRY(ff_h5_attr_read(f, "/training", "reals", FF_H5_F64, N_REALS, r));
    FF_TRY(get_arrays(f, m, s->optim));
    unpack(s, i, r);
    FF_TRY(ff_model_digest(m, NULL, hex));
    FF_TRY(compare_text(f, "/", "digest", hex, "the weights are damaged"));
    FF_TRY(state_digest(m, s, hex));
    return compare_text(f, "/training", "digest", hex, "the optimiser's state is damaged");
}

static ff_status read_one(const char *path, ff_model *m, ff_train_state *s)
{
    ff_h5 *f = NULL;
    FF_TRY(ff_h5_open(ff_comm_self(), path, &f));
    ff_status st = get_all(f, m, s);
    ff_status closed = ff_h5_close(&f);
    return st != FF_OK ? st : closed;
}

/* Newest first; the first that is whole. Where none is, the newest one's failure. */
static ff_status read_newest(const char *folder, ff_model *m, ff_train_state *s, bool *found)
{
    int64_t *steps = NULL, n = 0;
    char path[PATH_LEN];
    ff_status st = list_steps(folder, &steps, &n);
    for (int64_t k = 0; k < n && st == FF_OK && !*found; k++) {
        path_of(path, folder, steps[k]);
        ff_error_clear();
        st = read_one(path, m, s);
        *found = st == FF_OK;
        if (st == FF_E_MEM || st == FF_OK || k + 1 == n) continue;
        ff_warn("%s; taking the one before", ff_error_text());
        st = FF_OK;
    }
    ff_free(steps);
    return st;
}

/* ---- spreading ---- */

static ff_status spread(ff_comm *comm, ff_model *m, ff_train_state *s)
{
    int64_t i[N_INTEGERS];
    double r[N_REALS];
    pack(s, i, r);
    FF_TRY(ff_comm_bcast(comm, i, sizeof i, 0));
    FF_TRY(ff_comm_bcast(comm, r, sizeof r, 0));
    unpack(s, i, r);
    for (int t = 0; t < m->n_tensors; t++) {
        size_t bytes = (size_t)m->tensor[t].n * sizeof(float);
        FF_TRY(ff_comm_bcast(comm, m->tensor[t].value, bytes, 0));
        for (int k = 0; k < 3; k++) {
            float **set = set_of(s->optim, k);
            if (set != NULL && set[t] != NULL) FF_TRY(ff_comm_bcast(comm, set[t], bytes, 0));
        }
    }
    return FF_OK;
}

ff_status ff_checkpoint_read(ff_comm *comm, const char *folder, ff_model *m, ff_train_state *s, bool *found)
{
    ff_status st = FF_OK;
    *found = false;
    if (ff_comm_rank(comm) == 0) st = read_newest(folder, m, s, found);
    FF_TRY(ff_agree(comm, st));
    FF_TRY(ff_comm_bcast(comm, found, sizeof *found, 0));
    return *found ? spread(comm, m, s) : FF_OK;
}

/* ---- other options than before ---- */

/* Value of section.key in the text of a deck (two levels, a line each); empty where it is absent. */
static void deck_value(const char *deck, const char *section, const char *key, char out[512])
{
    size_t n_section = strlen(section), n_key = strlen(key);
    bool inside = false;
    out[0] = 0;
    for (const char *p = deck, *end; *p != 0; p = *end != 0 ? end + 1 : end) {
        end = p + strcspn(p, "\n");
        if (*p != ' ') inside = strncmp(p, section, n_section) == 0 && p[n_section] == ':';
        if (!inside || strncmp(p, "  ", 2) != 0 || strncmp(p + 2, key, n_key) != 0 || p[2 + n_key] != ':')
            continue;
        const char *value = p + 2 + n_key + 1;
        while (*value == ' ') value++;
        (void)snprintf(out, 512, "%.*s", (int)(end - value), value);
        return;
    }
}

void ff_checkpoint_warn_changed(const char *folder, int64_t step, const char *deck)
{
    /* Which matrices Muon takes and averages are in the state itself; train.steps may grow. */
    static const char *const keys[] = {
        "data",    "ellipsoids", "splits",   "fine_every",   "fine_batch",  "batch", "lr",         "lr_end",
        "warmup",  "schedule",   "patience", "factor",       "fine_bodies", "loss",  "loss_floor", "faces",
        "targets", "inside",     "clip",     "weight_decay", "rest",        "beta2"};
    char path[PATH_LEN], old[512], now[512], *text = NULL;
    ff_h5 *f = NULL;
    path_of(path, folder, step);
    if (ff_h5_open(ff_comm_self(), path, &f) == FF_OK && ff_h5_read_text(f, "/training/deck", &text) == FF_OK)
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
            deck_value(text, "train", keys[k], old);
            deck_value(deck, "train", keys[k], now);
            if (old[0] != 0 && strcmp(old, now) != 0)
                ff_warn("the checkpoint was made with train.%s = %s; from here on it is %s", keys[k], old,
                        now[0] != 0 ? now : "not given");
        }
    ff_free(text);
    if (f != NULL) (void)ff_h5_close(&f);
    ff_error_clear(); /* a checkpoint without a deck tells nothing */
}
