/* What the verbs share. A verb is one function `ff_status cmd_<verb>(ff_app *app)` in cmd_<verb>.c,
 * Collective: every rank calls it with the same options. When it is called the options are read and checked
 * against the table, threads, memory budget and log level are set, and the header lines are printed.
 *
 * It returns its status; main agrees over the ranks, prints the one error line, the phase table and --json,
 * and turns the status into the exit code. A verb prints tables with ff_print / ff_info and never an error
 * line itself. */
#ifndef FF_APP_H
#define FF_APP_H

#include "ff_comm.h"
#include "ff_config.h"
#include "ff_json.h"
#include "ff_log.h"
#include "ff_mem.h"
#include "ff_mesh.h"
#include "ff_timer.h"

typedef struct ff_verb ff_verb;

typedef struct ff_app {
    ff_comm *comm;
    const ff_verb *verb;
    ff_config *config;
    ff_json json; /* an open object: verbs add their figures (all ranks may; rank 0 writes it) */
    struct ff_pair_backend *backend; /* NULL: the CPU evaluates */
    struct ff_nccl *nccl;            /* NULL: payload goes through MPI */
    double t_start_s;                /* ff_now_s() at the start of the program */
} ff_app;

struct ff_verb {
    ff_verb_text text;
    const char *files_key; /* option the files on the command line go to */
    int min_files, max_files;
    bool figures; /* header lines and phase table are printed */
    ff_status (*run)(ff_app *app);
};

ff_status cmd_predict(ff_app *app);
ff_status cmd_gradient(ff_app *app);
ff_status cmd_plan(ff_app *app);
ff_status cmd_check(ff_app *app);
ff_status cmd_forces(ff_app *app);
ff_status cmd_info(ff_app *app);
ff_status cmd_convert(ff_app *app);
ff_status cmd_train(ff_app *app);
/* From now on USR1 and TERM ask a training for a checkpoint and an end. Local */
void cmd_train_catch_signals(void);
ff_status cmd_verify(ff_app *app);
ff_status cmd_bench(ff_app *app);
ff_status cmd_embed(ff_app *app);
ff_status cmd_sum(ff_app *app);

/* The program between start and stop of the ranks: finds the verb, reads the options, runs, reports.
 * Collective Returns the exit code. args [n_args] is the whole command line. */
int ff_app_main(ff_comm *comm, const ff_verb *verbs, int n_verbs, int n_args, char *const *args);

/* ---- helpers for verbs ---- */

/* FF_E_INPUT if path exists and --force was not given, FF_E_IO if its folder does not or cannot be written
 * to; call it before any long work. "-" is fine. Collective */
ff_status ff_app_may_write(const ff_app *app, const char *path);
ff_status ff_app_may_write_text(const ff_app *app, const char *path); /* pipes and devices too Collective */

/* Where the figures go as JSON: a file; "-", alone on standard output, by whatever name; NULL: nowhere. Local */
const char *ff_app_json_path(const ff_app *app);

/* Whole file text on every rank (rank 0 reads). Owned by the caller; terminated; n bytes before the
 * terminator. Errors: FF_E_INPUT missing, a directory, larger than max_bytes. Collective */
ff_status ff_app_read_text(ff_comm *comm, const char *path, int64_t max_bytes, char **text, int64_t *n);

/* scale and step of the deck. */
ff_read_opts ff_app_read_opts(const ff_app *app);

/* plan.theta, plan.leaf_size, plan.expand_far: what the user said, else what is passed in. */
void ff_app_plan_options(const ff_app *app, double *theta, int *leaf_size, bool *expand_far);

/* Freed memory stays with the process: a training step takes the same blocks again and again, and fresh pages cost more than
 * what is done with them. Local */
void ff_app_keep_pages(void);

#endif
