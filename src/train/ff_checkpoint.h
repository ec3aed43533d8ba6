/* Checkpoints: everything a training needs to go on, in one HDF5 file that is a model file too (predict takes it).
 * Weights and state are equal on all ranks, so one rank writes and the file does not know how many there were.
 *
 * A folder holds step_0000001000.h5, ...: each is written as .tmp, flushed and renamed, and the last two are kept, so
 * that a run killed at any moment, or a full disk, leaves a whole one. */
#ifndef FF_CHECKPOINT_H
#define FF_CHECKPOINT_H

#include "ff_optim.h"
#include "ff_schedule.h"

typedef struct ff_train_state {
    ff_optim *optim; /* owned by the caller */
    ff_schedule_state schedule;
    int64_t step; /* batches done: with the seed it fixes which samples and faces come next */
    int64_t seed;
    double best;      /* smallest validation loss so far; HUGE_VAL */
    double elapsed_s; /* over all parts of the training */
} ff_train_state;

/* Makes the folder this training's own until the lock is given back or its process ends, however it ends; waits up to a
 * minute for another training there. *lock: to be given back, -1 on other ranks and where the file system has no locks.
 * Errors: FF_E_INPUT the other one goes on.                                                              Collective */
ff_status ff_checkpoint_lock(ff_comm *comm, const char *folder, int *lock);
void ff_checkpoint_unlock(int *lock); /* Local */

/* Writes folder/step_N.h5 (rank 0) and removes all but the last two. deck: text of the resolved options.
 * Errors: FF_E_IO; what was there before is then untouched.                                      Collective */
ff_status ff_checkpoint_write(ff_comm *comm, const char *folder, const ff_model *m, const ff_train_state *s,
                              const char *deck);

/* Newest whole checkpoint of the folder into model and state (optim as made by ff_optim_create); a damaged one is warned
 * about and the one before taken. *found false: none there, nothing changed.
 * Errors: FF_E_INPUT one of another model or other optimiser options; FF_E_MEM.                  Collective */
ff_status ff_checkpoint_read(ff_comm *comm, const char *folder, ff_model *m, ff_train_state *s, bool *found);

/* Warns of options in deck that steps to come depend on and that were others when folder/step_N.h5 was written.     Local */
void ff_checkpoint_warn_changed(const char *folder, int64_t step, const char *deck);

#endif
