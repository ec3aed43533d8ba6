/* Learning rate by step: linear warm-up, then constant, half a cosine, a straight line, or halved (times factor) where the
 * loss stands still. */
#ifndef FF_SCHEDULE_H
#define FF_SCHEDULE_H

#include "ff_status.h"

#include <stdbool.h>

typedef enum ff_schedule_kind { FF_LR_CONSTANT, FF_LR_COSINE, FF_LR_LINEAR, FF_LR_PLATEAU } ff_schedule_kind;

typedef struct ff_schedule_opts {
    ff_schedule_kind kind;
    double lr, lr_end;     /* after the warm-up; cosine, linear: at the last step; plateau: never below */
    int64_t warmup, steps; /* steps of the warm-up; of the whole training (cosine, linear) */
    int64_t patience;      /* plateau: steps without a better loss before the rate falls */
    double factor;         /* plateau: the rate times this */
    double threshold;      /* plateau: better means below best x (1 - threshold) */
} ff_schedule_opts;

/* What a checkpoint keeps of it. */
typedef struct ff_schedule_state {
    double scale;  /* plateau: product of the factors so far; 1 */
    double best;   /* plateau: smallest loss seen (smoothed); HUGE_VAL */
    int64_t bad;   /* plateau: steps since */
    double smooth; /* plateau: running mean of the loss; NaN before the first */
} ff_schedule_state;

ff_schedule_state ff_schedule_start(void);
/* Rate of step 0, 1, ...; Local, no failure. */
double ff_schedule_rate(const ff_schedule_opts *o, const ff_schedule_state *s, int64_t step);
/* The loss of a step, after it; true where the rate has just fallen. A loss that is not finite is not counted. */
bool ff_schedule_loss(const ff_schedule_opts *o, ff_schedule_state *s, double loss);

#endif
