/* A point set distributed over ranks in Morton order, and the routes between the order it was read in ("home":
 * contiguous original ids on each rank) and the order it is worked in ("own": a run of sorted positions on each
 * rank, cut at block borders). Stable sort by (code, original id): the same order on any number of ranks.
 * Written on the table of ff_comm.h alone, so one rank runs the same code. */
#ifndef FF_CLOUD_H
#define FF_CLOUD_H

#include "ff_comm.h"
#include "ff_lbvh.h"

typedef struct ff_cloud {
    ff_comm *comm;
    int dim, leaf_size;
    int64_t n;                   /* points of all ranks */
    int64_t home_begin, n_home;  /* original ids [home_begin, home_begin + n_home) are at home here */
    int64_t *cut;                /* [size + 1] sorted positions; rank r owns [cut[r], cut[r + 1]) */
    int64_t n_own;
    int64_t *orig;               /* [n_own] original id at each own position */
    float *x;                    /* [n_own][dim] */
    uint64_t *code;              /* [n_own] */
    float lo[3], hi[3];          /* global box */
    size_t *home_bytes, *own_bytes; /* [size] rows to and from each rank along the route (counts, not bytes) */
    int64_t *home_slot;          /* [n_home] place of each home row in the packed send buffer */
    int64_t *own_slot;           /* [n_own] place of each own row in the packed receive buffer */
} ff_cloud;

/* Sorts x_home [n_home][dim] over ranks and cuts it into runs of nearly equal count. n_home may be 0 on any rank
 * or on all. Errors: FF_E_INPUT non-finite coordinate (names the original id); FF_E_ARG; FF_E_MEM.    Collective */
ff_status ff_cloud_create(ff_comm *comm, const float *x_home, int64_t n_home, int dim, int leaf_size,
                          ff_cloud **out);
void ff_cloud_destroy(ff_cloud **c);

/* Moves the runs to a new cut [size + 1] (block borders, ascending, 0 .. n).                           Collective */
ff_status ff_cloud_recut(ff_cloud *c, const int64_t *cut);

/* Rows of row_bytes bytes from home order to own order and back.                                       Collective */
ff_status ff_cloud_to_own(const ff_cloud *c, size_t row_bytes, const void *home, void *own);
ff_status ff_cloud_to_home(const ff_cloud *c, size_t row_bytes, const void *own, void *home);

/* A cut by cumulative work: block b (all blocks of the set, in order, the same table on each rank) carries
 * work[b] >= 0; rank r's run ends at the border where the cumulative work is nearest r + 1 shares. Surplus ranks
 * own nothing. Points a rank <= max_points (0: no cap).                                                Local */
ff_status ff_cut_by_work(const ff_subtree *blocks, int64_t n_blocks, const int64_t *work, int size,
                         int64_t max_points, int64_t *cut);

#endif
