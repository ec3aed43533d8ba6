/* Samples of a training that do not change from one pass over the data to the next, with their trees and pair lists. Private
 * to the train room. */
#ifndef FF_TRAIN_KEEP_H
#define FF_TRAIN_KEEP_H

#include "ff_grad.h"
#include "ff_sample.h"

/* Empty (s is NULL) or a sample with an evaluation and gradients of it; the ways back and forth are the caller's. */
typedef struct train_body {
    ff_sample *s;
    ff_eval *e;
    ff_grad *g;
} train_body;

void train_body_clear(train_body *b);

typedef struct train_keep train_keep;

/* n places. bytes: host memory in use, and device memory at the peak, up to which places are filled; 0: none is. Local */
ff_status train_keep_create(int64_t n, int64_t bytes, train_keep **out);
void train_keep_destroy(train_keep **keep);
/* Place i for this thread alone until it is given back; NULL where another has it, or nothing is kept.  Local, any thread */
train_body *train_keep_take(train_keep *keep, int64_t i);
/* What is in it stays if there is room (a thing once kept stays). device_peak: bytes.                  Local, any thread */
void train_keep_give(train_keep *keep, int64_t i, int64_t device_peak);

#endif
