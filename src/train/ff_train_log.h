/* What a training says: a line a step to a file of JSON lines, lines on the terminal now and then. Private to the room. */
#ifndef FF_TRAIN_LOG_H
#define FF_TRAIN_LOG_H

#include "ff_comm.h"
#include "ff_model_config.h"

#include <stdio.h>

typedef struct train_log {
    FILE *file; /* rank 0's, or NULL */
    const char *path;
} train_log;

typedef struct train_step_line {
    int64_t step, steps; /* steps done, of how many */
    double loss;
    const double *part; /* of each output field */
    double rate, norm, seconds;
    int64_t skipped;
} train_step_line;

/* Opens the file to add to; lines of steps after `step` (of a run that was killed after its last checkpoint) go. path NULL:
 * nothing is written.                                                                                     Collective */
ff_status train_log_open(train_log *l, ff_comm *comm, const char *path, int64_t step);
void train_log_close(train_log *l);
void train_log_step(train_log *l, const ff_name_list *fields, const train_step_line *line, int64_t every);
void train_log_validation(train_log *l, const ff_name_list *fields, int64_t step, const double *error);

#endif
