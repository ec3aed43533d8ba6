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

/* The adjoint: rows of nodes are handed down to their points. A node's row is its parent's plus its own, so that a
 * point receives the sum of the rows of all nodes that hold it, added from the root down. */
typedef struct ff_moment_down_ops {
    int m;
    /* Adds what node i (held index) brings to row [m], which holds zeros. Called once for each node that is this rank's: nodes of own
     * subtrees, and nodes above bottoms whose first point is owned. From several threads. */
    void (*node)(void *ctx, int32_t i, double *row);
    /* Receives the row of own point p (held index). From several threads. */
    void (*point)(void *ctx, int32_t p, const double *row);
    void *ctx;
} ff_moment_down_ops;

ff_status ff_moment_down(const ff_let *let, const ff_moment_down_ops *ops); /* Collective */

/* The second half of it: all-gathers the sums own [own bottoms][m] of own subtrees, calls node() for the other
 * ranks' bottoms and the nodes above, children before parents. Collective */
ff_status ff_moment_upper(const ff_let *let, const ff_moment_ops *ops, const double *own);

#endif
