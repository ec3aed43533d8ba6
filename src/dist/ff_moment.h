/* Node aggregates over a distributed tree: sums of rows of doubles, bottom up, children combined left then
 * right. Own subtrees are summed here; the sums of all bottoms are all-gathered and the nodes above them
 * combined on every rank, so every rank count gives the same bits. */
#ifndef FF_MOMENT_H
#define FF_MOMENT_H

#include "ff_let.h"

typedef struct ff_moment_ops {
    int m; /* doubles a row */
    /* Adds point p (held index) to sum [m]. */
    void (*point)(void *ctx, int32_t p, double *sum);
    /* Receives the finished sum [m] of node i (held index); called once for each node of own subtrees, of the
     * other ranks' bottoms and of the nodes above, from several threads. */
    void (*node)(void *ctx, int32_t i, const double *sum);
    void *ctx;
} ff_moment_ops;

ff_status ff_moment_run(const ff_let *let, const ff_moment_ops *ops); /* Collective */

#endif
