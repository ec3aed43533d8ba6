/* Gradients of a golden GLOBE file. */
#ifndef VERIFY_GRAD_H
#define VERIFY_GRAD_H

#include "verify.h"

/* After ff_eval_run of e, which keeps its layers. Collective */
ff_status verify_gradients(verify *v, ff_eval *e);

#endif
