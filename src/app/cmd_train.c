/* farfield train: options to ff_train_opts, signals, the final model. */
#include "app_backend.h"
#include "ff_app.h"
#include "ff_io.h"
#include "ff_model_write.h"
#include "ff_train.h"

#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>

static volatile sig_atomic_t signalled;

static void on_signal(int number)
{
    (void)number;
    signalled = 1;
}

void cmd_train_catch_signals(void)
{
    struct sigaction a = {.sa_handler = on_signal};
    (void)sigemptyset(&a.sa_mask);
    (void)sigaction(SIGUSR1, &a, NULL);
    (void)sigaction(SIGTERM, &a, NULL);
}

typedef struct train {
    ff_app *app;
    ff_model *m;
    char **train_file, **valid_file;
    int64_t n_train, n_valid;
    char stop_file[4096]; /* FOLDER/STOP, "" without a folder */
    ff_text deck;
    ff_train_opts o;
} train;

/* Rank 0 looks at the clock and for the file; the training agrees over the ranks. */
static bool stop(void *ctx)
{
    const train *t = ctx;
    double hours = (ff_now_s() - t->app->t_start_s) / 3600;
    struct stat s;
    if (signalled) return true;
    if (ff_comm_rank(t->app->comm) != 0) return false;
    if (ff_config_has(t->app->config, "run.max_hours") &&
        hours >= ff_config_double(t->app->config, "run.max_hours"))
        return true;
    return t->stop_file[0] != 0 && stat(t->stop_file, &s) == 0;
}

/* ---- lists of samples ---- */

/* Lines of a list file as paths relative to its folder; '#' begins a comment. Rank 0 looks whether they are there: a
 * random order would find out hours later.                                                            Collective */
static ff_status read_list(const ff_app *app, const char *path, char ***files, int64_t *n)
{
    char *text = NULL;
    int64_t bytes, cap = 0, row = 0;
    struct stat s;
    const char *slash = strrchr(path, '/');
    int folder = slash != NULL ? (int)(slash - path) + 1 : 0;
    FF_TRY(ff_app_read_text(app->comm, path, 1 << 30, &text, &bytes));
    ff_status st = FF_OK;
    if (strlen(text) != (size_t)bytes)
        st = ff_fail(FF_E_INPUT, "%s: not text, expected a list that names a sample a line", path);
    for (char *line = text, *end; st == FF_OK && line != NULL && *line != 0; line = end) {
        size_t len = strcspn(line, "\n#");
        end = strchr(line, '\n');
        if (end != NULL) end++;
        row++;
        while (len > 0 && strchr(" \t\r", line[len - 1]) != NULL) len--;
        while (len > 0 && strchr(" \t", *line) != NULL) line++, len--;
        if (len == 0) continue;
        ff_text name = {0};
        ff_text_add(&name, "%.*s%.*s", line[0] == '/' ? 0 : folder, path, (int)len, line);
        st = ff_text_status(&name);
        if (st == FF_OK && app->comm->rank == 0 && stat(ff_text_get(&name), &s) != 0)
            st = ff_fail(FF_E_INPUT, "%s:%lld: there is no file %s; names are relative to the list's folder",
                         path, (long long)row, ff_text_get(&name));
        if (st == FF_OK) st = ff_mem_reserve(files, &cap, *n + 1, sizeof **files);
        if (st == FF_OK && ((*files)[*n] = ff_strdup(ff_text_get(&name))) == NULL) st = FF_E_MEM;
        if (st == FF_OK) ++*n;
        ff_text_free(&name);
    }
    if (st == FF_OK && *n == 0)
        st = ff_fail(FF_E_INPUT, "%s: names no sample, expected one file a line", path);
    ff_free(text);
    return ff_agree(app->comm, st);
}

static ff_status choose_data(train *t)
{
    const ff_config *c = t->app->config;
    const char *list = ff_config_string(c, "train.data"), *valid = ff_config_string(c, "train.validation");
    int64_t bodies = ff_config_int(c, "train.ellipsoids");
    if ((list == NULL) == (bodies == 0))
        return ff_fail(FF_E_ARG, "command line: expected either --data LIST or --ellipsoids N");
    ff_train_data *d = &t->o.train, *v = &t->o.valid;
    if (list != NULL) {
        FF_TRY(read_list(t->app, list, &t->train_file, &t->n_train));
        *d = (ff_train_data){.file = t->train_file, .n = t->n_train};
        if (valid == NULL) return FF_OK;
        FF_TRY(read_list(t->app, valid, &t->valid_file, &t->n_valid));
        *v = (ff_train_data){.file = t->valid_file, .n = t->n_valid};
        return FF_OK;
    }
    d->n = bodies;
    d->splits = v->splits = (int)ff_config_int(c, "train.splits");
    d->fine_every = ff_config_int(c, "train.fine_every");
    d->fine_batch = ff_config_int(c, "train.fine_batch");
    d->n_fine = ff_config_int(c, "train.fine_bodies");
    if (d->n_fine > bodies) d->n_fine = bodies;
    v->n = ff_config_int(c, "train.validation_bodies");
    v->first = 1 << 24; /* none of the training's */
    return FF_OK;
}

/* ---- options ---- */

static ff_status loss_options(train *t)
{
    const ff_config *c = t->app->config;
    const ff_name_list *out = &t->m->config->outputs;
    t->o.loss.relative = strcmp(ff_config_string(c, "train.loss"), "relative") == 0;
    t->o.loss.floor = ff_config_double(c, "train.loss_floor");
    for (int f = 0; f < out->n && f < FF_LOSS_FIELDS_MAX; f++) {
        int k = ff_config_map_find(c, "train.loss_scale", out->item[f].name);
        t->o.loss.scale[f] = k >= 0 ? ff_config_map_item(c, "train.loss_scale", k, 0) : 1;
    }
    for (int k = 0; k < ff_config_count(c, "train.loss_scale"); k++) {
        bool known = false;
        for (int f = 0; f < out->n; f++)
            known |= strcmp(out->item[f].name, ff_config_map_name(c, "train.loss_scale", k)) == 0;
        if (!known)
            return ff_fail(FF_E_INPUT, "train.loss_scale.%s: not an output field of the model",
                           ff_config_map_name(c, "train.loss_scale", k));
    }
    return FF_OK;
}

static void step_options(train *t)
{
    const ff_config *c = t->app->config;
    const char *kind = ff_config_string(c, "train.schedule");
    t->o.steps = ff_config_int(c, "train.steps");
    t->o.batch = ff_config_int(c, "train.batch");
    t->o.seed = ff_config_int(c, "run.seed");
    t->o.validate_every = ff_config_int(c, "train.validate_every");
    t->o.save_every = ff_config_int(c, "train.save_every");
    t->o.log_every = ff_config_int(c, "train.log_every");
    t->o.keep_bytes = ff_config_int(c, "train.keep");
    t->o.ranks_per_sample = (int)ff_config_int(c, "train.ranks_per_sample");
    t->o.f64 = strcmp(ff_config_string(c, "run.precision"), "f64") == 0;
    t->o.schedule = (ff_schedule_opts){.kind = strcmp(kind, "cosine") == 0    ? FF_LR_COSINE
                                               : strcmp(kind, "linear") == 0  ? FF_LR_LINEAR
                                               : strcmp(kind, "plateau") == 0 ? FF_LR_PLATEAU
                                                                              : FF_LR_CONSTANT,
                                       .lr = ff_config_double(c, "train.lr"),
                                       .lr_end = ff_config_double(c, "train.lr_end"),
                                       .warmup = ff_config_int(c, "train.warmup"),
                                       .steps = t->o.steps,
                                       .patience = ff_config_int(c, "train.patience"),
                                       .factor = ff_config_double(c, "train.factor"),
                                       .threshold = 1e-4};
    if (t->o.steps > 1 && t->o.schedule.warmup >= t->o.steps)
        ff_warn("train.warmup = %lld of %lld steps: the learning rate never reaches train.lr",
                (long long)t->o.schedule.warmup, (long long)t->o.steps);
    t->o.optim = (ff_optim_opts){
        .muon = ff_config_bool(c, "train.muon"),
        .rest = strcmp(ff_config_string(c, "train.rest"), "radam") == 0 ? FF_REST_RADAM : FF_REST_ADAMW,
        .beta2 = ff_config_double(c, "train.beta2"),
        .weight_decay = ff_config_double(c, "train.weight_decay"),
        .clip = ff_config_double(c, "train.clip"),
        .ema = ff_config_double(c, "train.ema")};
    t->o.sample = (ff_sample_opts){.faces = ff_config_int(c, "train.faces"),
                                   .targets = ff_config_int(c, "train.targets"),
                                   .inside = ff_config_bool(c, "train.inside")};
}

/* The weights of `from` into `to`, whose architecture may differ in what no tensor's shape depends on (theta, leaf size). */
static ff_status take_weights(ff_model *to, const ff_model *from, const char *json, const char *path)
{
    for (int i = 0; i < to->n_tensors; i++) {
        ff_tensor *t = &to->tensor[i];
        const ff_tensor *f = ff_model_tensor(from, t->name);
        if (f == NULL || f->n_dim != t->n_dim || f->n != t->n || f->shape[0] != t->shape[0])
            return ff_fail(FF_E_INPUT,
                           "%s: tensor %s of %lld values does not fit in %s, expected equal shapes; give one "
                           "of --architecture and --model, or arguments that leave all shapes",
                           json, t->name, (long long)t->n, path);
        memcpy(t->value, f->value, (size_t)t->n * sizeof *t->value);
    }
    return FF_OK;
}

/* A model to go on from, fresh weights for an architecture, or the model's weights in it. */
static ff_status get_model(train *t)
{
    ff_status st = FF_OK;
    const ff_config *c = t->app->config;
    const char *model = ff_config_string(c, "model"), *json = ff_config_string(c, "train.architecture");
    char *text = NULL;
    ff_model *from = NULL;
    int64_t n;
    if (model == NULL && json == NULL)
        return ff_fail(
            FF_E_ARG,
            "command line: expected --architecture FILE.json (fresh weights), --model FILE, or both");
    if (json == NULL) return ff_model_read(t->app->comm, model, &t->m);
    FF_GO(ff_app_read_text(t->app->comm, json, 1 << 24, &text, &n));
    FF_GO(ff_agree(t->app->comm, ff_model_random(text, (uint64_t)ff_config_int(c, "run.seed"), &t->m)));
    if (model != NULL) FF_GO(ff_model_read(t->app->comm, model, &from));
    if (model != NULL) FF_GO(take_weights(t->m, from, json, model));
done:
    ff_model_destroy(&from);
    ff_free(text);
    return st;
}

/* A folder is made if its parent is there. */
static ff_status make_folder(const ff_app *app, const char *path)
{
    ff_status st = FF_OK;
    struct stat s;
    if (path == NULL) return FF_OK;
    if (ff_comm_rank(app->comm) == 0 && mkdir(path, 0777) != 0 &&
        (stat(path, &s) != 0 || !S_ISDIR(s.st_mode)))
        st = ff_fail(FF_E_INPUT, "%s: this folder cannot be made; make it first", path);
    return ff_agree(app->comm, st);
}

static ff_status get_folders(train *t)
{
    const ff_config *c = t->app->config;
    t->o.folder = ff_config_string(c, "train.checkpoints");
    t->o.log = ff_config_string(c, "train.log");
    t->o.fields = ff_config_string(c, "train.fields");
    t->o.fields_of = ff_config_int(c, "train.fields_of");
    FF_TRY(make_folder(t->app, t->o.fields));
    if (t->o.folder == NULL) return FF_OK;
    (void)snprintf(t->stop_file, sizeof t->stop_file, "%s/STOP", t->o.folder);
    return make_folder(t->app, t->o.folder);
}

/* ---- result ---- */

static ff_status write_model(train *t, float **averaged)
{
    ff_status st = FF_OK;
    const char *path = ff_config_string(t->app->config, "output");
    if (path == NULL) return FF_OK;
    if (ff_comm_rank(t->app->comm) == 0) st = ff_model_write(t->m, averaged, "farfield train", path);
    FF_TRY(ff_agree(t->app->comm, st));
    ff_info("wrote %s%s", path, averaged != NULL ? " (averaged weights)" : "");
    return FF_OK;
}

static void report(train *t, const ff_train_result *r)
{
    ff_json *j = &t->app->json;
    const ff_name_list *out = &t->m->config->outputs;
    ff_info("%lld steps, loss %.5g, %.3g s a step, %.1f s in all%s", (long long)r->step, r->loss, r->step_s,
            r->elapsed_s, r->skipped > 0 ? "; steps were skipped: the gradient was not finite" : "");
    ff_json_int(j, "steps", r->step);
    ff_json_int(j, "skipped_steps", r->skipped);
    ff_json_double(j, "loss", r->loss);
    ff_json_double(j, "t_step_s", r->step_s);
    ff_json_double(j, "t_training_s", r->elapsed_s);
    ff_json_open(j, "validation", '{');
    for (int f = 0; f < out->n; f++)
        if (!isnan(r->error[f])) ff_json_double(j, out->item[f].name, r->error[f]);
    ff_json_close(j);
}

/* With checkpoints the log may be there: the training goes on, or was ended before its first one. */
static ff_status check_log(const ff_app *app)
{
    const char *log = ff_config_string(app->config, "train.log");
    if (ff_config_has(app->config, "train.checkpoints")) return ff_io_check_text_path(app->comm, log, true);
    return ff_app_may_write_text(app, log);
}

static ff_status run(train *t)
{
    float **averaged = NULL;
    ff_train_result r;
    const ff_config *c = t->app->config;
    if (ff_config_has(c, "output")) {
        FF_TRY(ff_app_may_write(t->app, ff_config_string(c, "output")));
    }
    if (ff_config_has(c, "train.log")) FF_TRY(check_log(t->app));
    t->o.adjoint = t->o.backend = t->app->backend;
    FF_TRY(get_model(t));
    step_options(t);
    FF_TRY(loss_options(t));
    FF_TRY(choose_data(t));
    FF_TRY(get_folders(t));
    ff_config_print(c, &t->deck);
    FF_TRY(ff_agree(t->app->comm, ff_text_status(&t->deck)));
    t->o.deck = ff_text_get(&t->deck);
    t->o.stop = stop;
    t->o.ctx = t;
    ff_phase_begin("training");
    ff_status st = ff_train_run(t->app->comm, t->m, &t->o, &r, &averaged);
    ff_phase_end();
    if (st == FF_OK) report(t, &r);
    if (st == FF_OK) st = write_model(t, averaged);
    for (int i = 0; averaged != NULL && i < t->m->n_tensors; i++) ff_free(averaged[i]);
    ff_free(averaged);
    return st;
}

ff_status cmd_train(ff_app *app)
{
    train t = {.app = app};
    ff_app_keep_pages();
    ff_status st = run(&t);
    for (int64_t i = 0; i < t.n_train; i++) ff_free(t.train_file[i]);
    for (int64_t i = 0; i < t.n_valid; i++) ff_free(t.valid_file[i]);
    ff_free(t.train_file);
    ff_free(t.valid_file);
    ff_text_free(&t.deck);
    ff_model_destroy(&t.m);
    return st;
}
