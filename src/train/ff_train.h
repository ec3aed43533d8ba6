/* Training: batches of samples, gradients by recomputation, optimiser, validation, checkpoints, metrics.
 *
 * Ranks form groups of ranks_per_sample: a group shares a sample's domain, the groups share a batch. Which samples, faces
 * and directions a step takes follows from (seed, step, place in the batch) alone, gradients and losses are exact sums over
 * the batch, and every rank steps all weights: the losses and weights of a training are equal to the bit on any number of
 * ranks and groups, and after any number of stops. */
#ifndef FF_TRAIN_H
#define FF_TRAIN_H

#include "ff_checkpoint.h"
#include "ff_eval.h"
#include "ff_loss.h"
#include "ff_sample.h"

/* Sample files, or random ellipsoids where file is NULL. Borrowed. */
typedef struct ff_train_data {
    char *const *file;
    int64_t n;          /* files or bodies */
    int64_t first;      /* number of the first body */
    int splits;         /* bodies of 20 x 4^splits faces */
    int64_t fine_every; /* every so many steps bodies with 4 times the faces; 0: never */
    int64_t fine_batch; /* so many a step, at most the batch; 0: an eighth of it */
    int64_t n_fine;     /* so many bodies have that mesh; 0: all */
} ff_train_data;

typedef struct ff_train_opts {
    ff_train_data train, valid; /* valid.n may be 0 */
    int64_t steps, batch, seed;
    int64_t validate_every, save_every, log_every; /* steps; 0: only at the end (log: never) */
    int ranks_per_sample;                          /* 0: all */
    int64_t
        keep_bytes; /* with lanes: memory up to which samples' pair lists stay for the next pass; 0: none */
    bool f64;
    const ff_pair_backend *backend; /* NULL: the CPU */
    const ff_pair_backend *adjoint; /* pair adjoints (ff_eval_opts); NULL: the CPU */
    ff_optim_opts optim;
    ff_schedule_opts schedule;
    ff_loss_opts loss;
    ff_sample_opts sample;   /* draw is set by the training */
    const char *folder;      /* of checkpoints; NULL: none are written */
    const char *fields;      /* folder of validation fields, one file a sample; NULL: none */
    int64_t fields_of;       /* of so many samples, the first ones */
    const char *log;         /* file of JSON lines, one a step and one a validation; NULL: none */
    const char *deck;        /* text stored in checkpoints */
    bool (*stop)(void *ctx); /* asked after each step on every rank: one rank's true stops all; NULL: never */
    void *ctx;
} ff_train_opts;

typedef struct ff_train_result {
    int64_t step, skipped;
    double loss; /* of the last step */
    double error
        [FF_LOSS_FIELDS_MAX]; /* last validation: mean over samples of the relative L2 error of each field; NaN */
    double elapsed_s, step_s; /* over all parts; mean of a step here */
} ff_train_result;

/* Trains m in place, going on from the newest checkpoint of the folder if there is one. averaged: the averaged weights
 * [n_tensors][n] (owned by the caller, each ff_free) where opts->optim.ema > 0, else NULL; may be NULL.
 * Errors: FF_E_STOPPED stopped by `stop` with a checkpoint written, FF_E_ENDED without; FF_E_INPUT, FF_E_ARG, FF_E_MEM, FF_E_COMM. A checkpoint
 * that cannot be written is warned about and training goes on.                                             Collective */
ff_status ff_train_run(ff_comm *comm, ff_model *m, const ff_train_opts *opts, ff_train_result *out,
                       float ***averaged);

#endif
