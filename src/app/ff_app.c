#include "ff_app.h"

#include "app_backend.h"
#include "app_launcher.h"

#include "ff_globe.h"
#include "ff_h5_version.h"
#include "ff_io.h"
#include "ff_task.h"

#ifdef FF_HAVE_MPI
#include "ff_mpi_comm.h"
#include "ff_mpi_info.h"
#include "ff_mpi_io.h"
#endif

#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <omp.h>
#include <string.h>
#include <sys/stat.h>

enum { DECK_MAX_BYTES = 1 << 20 };

/* ---- finding the verb ---- */

static const ff_verb *find_verb(const ff_verb *verbs, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (strcmp(verbs[i].text.name, name) == 0) return &verbs[i];
    return NULL;
}

static ff_status unknown_verb(const ff_verb *verbs, int n, const char *name)
{
    int best = 0;
    for (int i = 1; i < n; i++)
        if (ff_edit_distance(name, verbs[i].text.name) < ff_edit_distance(name, verbs[best].text.name))
            best = i;
    return ff_fail(FF_E_ARG, "unknown verb \"%s\", nearest is \"%s\"; see farfield --help", name,
                   verbs[best].text.name);
}

/* farfield help [VERB | --markdown | --man | --completion]; also --help, --version and nothing at all. */
static ff_status help(const ff_verb *verbs, int n, const char *topic)
{
    enum { MAX_VERBS = 32 };
    const ff_verb_text *text[MAX_VERBS];
    ff_text out = {0};
    ff_status st = FF_OK;
    for (int i = 0; i < n && i < MAX_VERBS; i++) text[i] = &verbs[i].text;
    const ff_verb *verb = topic != NULL ? find_verb(verbs, n, topic) : NULL;
    if (topic == NULL)
        ff_doc_program(text, n, &out);
    else if (strcmp(topic, "--markdown") == 0)
        ff_doc_markdown(text, n, &out);
    else if (strcmp(topic, "--man") == 0)
        ff_doc_man(text, n, &out);
    else if (strcmp(topic, "--completion") == 0)
        ff_doc_completion(text, n, &out);
    else if (verb != NULL)
        ff_doc_verb(&verb->text, &out);
    else
        st = unknown_verb(verbs, n, topic);
    if (st == FF_OK) st = ff_text_status(&out);
    if (st == FF_OK) ff_print("%s", ff_text_get(&out));
    ff_text_free(&out);
    return st;
}

/* ---- options ---- */

ff_status ff_app_read_text(ff_comm *comm, const char *path, int64_t max_bytes, char **text, int64_t *n)
{
    ff_status st = FF_OK;
    FILE *f = NULL;
    struct stat s;
    *text = NULL;
    *n = 0;
    if (ff_comm_rank(comm) == 0) {
        if (stat(path, &s) == 0 &&
            !S_ISREG(s.st_mode)) /* asked first: opening a pipe would wait for its writer */
            st = ff_fail(FF_E_INPUT, "%s: expected a regular file", path);
        else if ((f = fopen(path, "rb")) == NULL || fstat(fileno(f), &s) != 0)
            st = ff_fail(FF_E_INPUT, "%s: cannot be read: %s", path, strerror(errno));
        else if (s.st_size > max_bytes)
            st = ff_fail(FF_E_INPUT, "%s: %lld bytes, expected at most %lld", path, (long long)s.st_size,
                         (long long)max_bytes);
        else
            st = ff_mesh_check_name(path);
        *n = st == FF_OK ? (int64_t)s.st_size : 0;
    }
    FF_GO(ff_agree(comm, st));
    FF_GO(ff_comm_bcast(comm, n, sizeof *n, 0));
    FF_GO(FF_NEW0_ALL(comm, *text, *n + 1));
    if (f != NULL && fread(*text, 1, (size_t)*n, f) != (size_t)*n)
        st = ff_fail(FF_E_IO, "%s: reading failed: %s", path, strerror(errno));
    FF_GO(ff_agree(comm, st));
    st = ff_comm_bcast(comm, *text, (size_t)*n, 0);
done:
    if (f != NULL) (void)fclose(f);
    if (st != FF_OK) FF_FREE(*text);
    return st;
}

static ff_status check_files(const ff_app *app)
{
    const ff_verb *v = app->verb;
    int n = ff_config_count(app->config, v->files_key);
    if (n >= v->min_files && n <= v->max_files) return FF_OK;
    if (n > v->max_files)
        return ff_fail(FF_E_ARG, "command line: %d files, expected %d: farfield %s %s", n, v->max_files,
                       v->text.name, v->text.args);
    return ff_fail(FF_E_ARG, "command line: %s, expected: farfield %s %s",
                   n == 0 ? "nothing to work on" : "too few files", v->text.name, v->text.args);
}

static ff_status read_options(ff_app *app, int n_args, char *const *args)
{
    ff_config *c = app->config;
    char *text = NULL;
    int64_t n = 0;
    FF_TRY(ff_agree(app->comm, ff_config_scan(c, n_args, args, app->verb->files_key)));
    if (ff_config_want_help(c)) return FF_OK;
    if (ff_config_deck(c) != NULL) {
        FF_TRY(ff_app_read_text(app->comm, ff_config_deck(c), DECK_MAX_BYTES, &text, &n));
        ff_status st = ff_config_yaml(c, ff_config_deck(c), text, n);
        ff_free(text);
        FF_TRY(ff_agree(app->comm, st));
    }
    FF_TRY(ff_config_apply(c));
    return check_files(app);
}

const char *ff_app_json_path(const ff_app *app)
{
    if (app->verb->text.bit == FF_VERB_INFO) return ff_config_bool(app->config, "info.json") ? "-" : NULL;
    const char *path = ff_config_string(app->config, "write.json");
    return path != NULL && strcmp(path, "/dev/stdout") == 0 ? "-" : path;
}

/* Each file a run writes has a name of its own. */
static ff_status check_outputs(const ff_config *c)
{
    static const char *const key[] = {"output", "check.write_bad", "write.json", "integrals.csv",
                                      "train.log"};
    for (int i = 0; i < 5; i++)
        for (int j = 0; j < i; j++) {
            const char *a = ff_config_string(c, key[i]), *b = ff_config_string(c, key[j]);
            if (a != NULL && b != NULL && strcmp(a, b) == 0)
                return ff_fail(FF_E_ARG, "%s: %s and %s name the same file, expected two", a, key[j], key[i]);
        }
    return FF_OK;
}

static ff_status apply_common(const ff_app *app)
{
    static const char *const level[] = {"error", "warn", "info", "debug"};
    const ff_config *c = app->config;
    for (int i = 0; i < 4; i++)
        if (strcmp(ff_config_string(c, "run.log_level"), level[i]) == 0) ff_log_set_level((ff_log_level)i);
    FF_TRY(check_outputs(c));
    if (ff_app_json_path(app) != NULL) {
        /* JSON on standard output stands alone there. */
        if (strcmp(ff_app_json_path(app), "-") == 0) ff_log_set_level(FF_LOG_WARN);
        FF_TRY(ff_app_may_write_text(app, ff_app_json_path(app)));
    }
    if (ff_config_int(c, "run.threads") > 0) omp_set_num_threads((int)ff_config_int(c, "run.threads"));
    ff_mem_set_budget((size_t)ff_config_int(c, "run.memory"));
    return FF_OK;
}

/* ---- header, JSON ---- */

static void header(ff_app *app)
{
    char h5[32], mpi[96] = "none";
    const char *io = "none";
    ff_h5_version(h5, sizeof h5);
#ifdef FF_HAVE_MPI
    ff_mpi_library(mpi, sizeof mpi);
    io = ff_mpi_io_layer();
#endif
    int ranks = ff_comm_size(app->comm), threads = omp_get_max_threads();
    if (app->verb->figures) ff_info("farfield %s, %s", ff_version(), app->verb->text.name);
    if (app->verb->figures)
        ff_info("MPI %s, MPI-IO %s, ranks %d, threads a rank %d, HDF5 %s, pair kernel %s, backend %s", mpi,
                io, ranks, threads, h5, ff_globe_isa(), app->backend != NULL ? app->backend->name : "cpu");
    ff_json *j = &app->json;
    ff_json_open(j, NULL, '{');
    ff_json_open(j, "farfield", '{');
    ff_json_string(j, "version", ff_version());
    ff_json_string(j, "verb", app->verb->text.name);
    ff_json_string(j, "mpi", mpi);
    ff_json_string(j, "mpi_io", io);
    ff_json_string(j, "hdf5", h5);
    ff_json_string(j, "backend", app->backend != NULL ? app->backend->name : "cpu");
    ff_json_string(j, "isa", ff_globe_isa());
    ff_json_int(j, "ranks", ranks);
    ff_json_int(j, "threads", threads);
    ff_json_close(j);
}

static ff_status json_phases(ff_app *app)
{
    ff_phase_row *row = NULL;
    int n = 0;
    ff_json *j = &app->json;
    FF_TRY(ff_phase_table(app->comm, &row, &n));
    ff_json_open(j, "phases", '[');
    for (int i = 0; i < n; i++) {
        ff_json_open(j, NULL, '{');
        ff_json_string(j, "name", row[i].name);
        ff_json_double(j, "t_min_s", row[i].t_min_s);
        ff_json_double(j, "t_avg_s", row[i].t_avg_s);
        ff_json_double(j, "t_max_s", row[i].t_max_s);
        if (row[i].n_units > 0) {
            ff_json_string(j, "unit", row[i].unit);
            ff_json_double(j, "units", row[i].n_units);
        }
        if (row[i].bytes > 0) ff_json_double(j, "bytes", row[i].bytes);
        ff_json_close(j);
    }
    ff_json_close(j);
    ff_free(row);
    return FF_OK;
}

static ff_status text_write(const ff_text *t, const char *path)
{
    ff_status st = FF_OK;
    char *tmp = NULL;
    FILE *f = NULL;
    FF_TRY(ff_text_status(t));
    if (strcmp(path, "-") == 0) {
        ff_print("%s", ff_text_get(t));
        return FF_OK;
    }
    FF_GO(ff_io_tmp_name(path, &tmp));
    FF_GO(ff_io_open(tmp, &f));
    FF_GO(ff_io_put(f, path, ff_text_get(t), (size_t)t->n));
    FF_GO(ff_io_close(&f, path));
    FF_GO(ff_io_publish(tmp, path));
done:
    if (f != NULL) (void)ff_io_close(&f, path);
    if (st != FF_OK) ff_io_discard(tmp);
    ff_free(tmp);
    return st;
}

/* Closes the object and writes it on rank 0. Collective */
static ff_status json_write(ff_app *app)
{
    const char *path = ff_app_json_path(app);
    if (path == NULL) return FF_OK;
    if (app->verb->figures) FF_TRY(json_phases(app));
    int64_t peak = (int64_t)ff_mem_peak();
    FF_TRY(ff_comm_allreduce(app->comm, &peak, 1, FF_MAX_I64));
    if (app->verb->figures) {
        ff_json_int(&app->json, "peak_bytes", peak);
        ff_json_double(&app->json, "wall_s", ff_now_s() - app->t_start_s);
    }
    ff_json_close(&app->json);
    ff_status st = FF_OK;
    if (ff_comm_rank(app->comm) == 0) st = text_write(&app->json.text, path);
    return ff_agree(app->comm, st);
}

/* ---- helpers for verbs ---- */

ff_status ff_app_may_write(const ff_app *app, const char *path)
{
    if (strcmp(path, "-") == 0) return FF_OK;
    return ff_io_check_path(app->comm, path, ff_config_bool(app->config, "write.force"));
}

ff_status ff_app_may_write_text(const ff_app *app, const char *path)
{
    if (strcmp(path, "-") == 0) return FF_OK;
    return ff_io_check_text_path(app->comm, path, ff_config_bool(app->config, "write.force"));
}

ff_read_opts ff_app_read_opts(const ff_app *app)
{
    ff_read_opts o = FF_READ_OPTS_INIT;
    o.scale = ff_config_double(app->config, "read.scale");
    o.step = ff_config_int(app->config, "read.step");
    return o;
}

void ff_app_plan_options(const ff_app *app, double *theta, int *leaf_size, bool *expand_far)
{
    const ff_config *c = app->config;
    if (ff_config_has(c, "plan.theta")) *theta = ff_config_double(c, "plan.theta");
    if (ff_config_has(c, "plan.leaf_size")) *leaf_size = (int)ff_config_int(c, "plan.leaf_size");
    if (ff_config_has(c, "plan.expand_far")) *expand_far = ff_config_bool(c, "plan.expand_far");
}

/* ---- running ---- */

/* Bytes of the files of one option, for a phase that took place. Rank 0 counts: ranks read and write parts of them. */
static void count_files(const ff_app *app, const char *phase, const char *key)
{
    struct stat s;
    if (!(ff_phase_seconds(phase) > 0) || ff_comm_rank(app->comm) != 0) return;
    for (int i = 0; i < ff_config_count(app->config, key); i++) {
        const char *file = ff_config_file(app->config, key, i), *name_end = strchr(file, '=');
        if (stat(file, &s) != 0 && (name_end == NULL || stat(name_end + 1, &s) != 0)) continue;
        if (S_ISREG(s.st_mode)) ff_phase_count(phase, "", 0, (double)s.st_size);
    }
}

static ff_status run_verb(ff_app *app)
{
    FF_TRY(ff_agree(app->comm, apply_common(app)));
    app_launcher_warn(app->comm);
    if (app->verb->figures || ff_config_given(app->config, "run.backend") ||
        ff_config_given(app->config, "run.precision") || ff_config_given(app->config, "run.transport"))
        FF_TRY(ff_agree(app->comm, app_backend_create(app)));
    header(app);
    ff_task_show(app->verb->figures && (app->verb->text.bit & (FF_VERB_TRAIN | FF_VERB_BENCH)) == 0);
    if (app->verb->text.bit != FF_VERB_TRAIN && ff_config_given(app->config, "run.max_hours"))
        ff_warn("run.max_hours: %s keeps nothing to go on from and runs to its end", app->verb->text.name);
    ff_status st = ff_agree(app->comm, app->verb->run(app));
    unsigned bit = app->verb->text.bit;
    bool told = st == FF_E_CHECK && (bit == FF_VERB_VERIFY || bit == FF_VERB_CHECK);
    if (st != FF_OK && !told) return st; /* what these two found is in their figures */
    ff_phase_end();
    count_files(app, "read", "mesh");
    count_files(app, "read", "model");
    count_files(app, "read", "points");
    count_files(app, "write", "output");
    if (app->verb->figures) FF_TRY(ff_phase_print(app->comm));
    FF_TRY(json_write(app));
    return st;
}

static ff_status run(ff_comm *comm, const ff_verb *verbs, int n_verbs, int n_args, char *const *args)
{
    ff_app app = {.comm = comm, .t_start_s = ff_now_s()};
    if (n_args < 2) return ff_fail(FF_E_ARG, "no verb given; see farfield --help");
    const char *name = args[1];
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0 || strcmp(name, "version") == 0) {
        ff_print("farfield %s\n", ff_version());
        return FF_OK;
    }
    if (strcmp(name, "help") == 0 || strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        return help(verbs, n_verbs, n_args > 2 ? args[2] : NULL);
    app.verb = find_verb(verbs, n_verbs, name);
    if (app.verb == NULL) return unknown_verb(verbs, n_verbs, name);
    ff_status st = ff_agree(comm, ff_config_create(app.verb->text.bit, &app.config));
    if (st == FF_OK) st = ff_agree(comm, read_options(&app, n_args - 2, args + 2));
    if (st == FF_OK) st = ff_config_want_help(app.config) ? help(verbs, n_verbs, name) : run_verb(&app);
    app_backend_destroy(&app);
    ff_config_destroy(&app.config);
    ff_json_free(&app.json);
    return st;
}

/* Of ranks that have lost the others, one tells. */
static bool speaks(ff_comm *comm)
{
#ifdef FF_HAVE_MPI
    return ff_mpi_comm_speaks(comm);
#else
    return ff_comm_rank(comm) == 0;
#endif
}

int ff_app_main(ff_comm *comm, const ff_verb *verbs, int n_verbs, int n_args, char *const *args)
{
    ff_log_init(ff_comm_rank(comm), FF_LOG_INFO);
    size_t before = ff_mem_blocks();
    ff_status st = run(comm, verbs, n_verbs, n_args, args);
    if (st != FF_OK && ff_comm_lost(comm) && speaks(comm)) ff_log_init(0, FF_LOG_ERROR);
    if (st != FF_OK) ff_log(FF_LOG_ERROR, "%s", ff_error_text());
    int64_t left = (int64_t)(ff_mem_blocks() - before);
    if (st == FF_OK) {
        /* Allocation and free balance, or the run has failed. */
        st = ff_comm_allreduce(comm, &left, 1, FF_SUM_I64);
        if (st == FF_OK && left != 0) {
            st = FF_E_INTERNAL;
            ff_log(FF_LOG_ERROR, "%lld blocks of memory were not freed", (long long)left);
        }
    }
    return ff_exit_code(st);
}

void ff_app_keep_pages(void)
{
#ifdef __GLIBC__
    (void)mallopt(M_MMAP_MAX, 0);
    (void)mallopt(M_TRIM_THRESHOLD, INT_MAX);
    (void)mallopt(M_TOP_PAD, 64 << 20);
#endif
}
