/* A point set distributed over ranks in Morton order, and the routes between the order it was read in
 * ("home": contiguous original ids on each rank) and the order it is worked in ("own": a run of sorted
 * positions on each rank, cut at block borders). Stable sort by (code, original id): the same order on any
 * number of ranks. Written on the table of ff_comm.h alone, so one rank runs the same code. */
#ifndef FF_CLOUD_H
#define FF_CLOUD_H

#include "ff_comm.h"
#include "ff_lbvh.h"

typedef struct ff_cloud {
    ff_comm *comm; /* borrowed */
    int dim, leaf_size;
    int64_t n;                  /* points of all ranks */
    int64_t *home;              /* [size + 1] original ids [home[r], home[r + 1]) are at home on rank r */
    int64_t home_begin, n_home; /* home[rank] and its count */
    int64_t *cut;               /* [size + 1] sorted positions; rank r owns [cut[r], cut[r + 1]) */
    int64_t n_own;
    int64_t *orig;      /* [n_own] original id at each own position */
    float *x;           /* [n_own][dim] */
    float lo[3], hi[3]; /* global box; zeros if n = 0 */
    /* The route. Between two ranks rows travel in ascending sorted position. */
    size_t *home_rows; /* [size] rows the home side here exchanges with each owner */
    size_t *own_rows;  /* [size] rows the own side here exchanges with each home */
    int64_t
        *home_slot; /* [n_home] place of a home row in the home side's packed buffer (local Morton order) */
    int64_t *own_slot; /* [n_own] place of an own row in the own side's packed buffer */
} ff_cloud;

/* Sorts x_home [n_home][dim] over ranks and cuts it into runs of nearly equal count. n_home may be 0 on any
 * rank or on all. Collective.
 * Errors: FF_E_INPUT non-finite coordinate (names the original id); FF_E_ARG; FF_E_MEM; FF_E_COMM. */
ff_status ff_cloud_create(ff_comm *comm, const float *x_home, int64_t n_home, int dim, int leaf_size,
                          ff_cloud **out);
/* The same in the order of (code, original id), code [n_home] below 2^63. */
ff_status ff_cloud_create_coded(ff_comm *comm, const float *x_home, const uint64_t *code, int64_t n_home,
                                int dim, int leaf_size, ff_cloud **out);
void ff_cloud_destroy(ff_cloud **c);

/* Moves the runs to a new cut [size + 1] (block borders, ascending, 0 .. n), the same on all ranks. On
 * failure the cloud is as before or, after FF_E_COMM, only good to be destroyed. Collective. */
ff_status ff_cloud_recut(ff_cloud *c, const int64_t *cut);

/* Own row i becomes what was own row from[i], a permutation [n_own] that moves rows inside blocks that the cut never
 * divides. The cloud must not be cut anew afterwards. Errors: FF_E_MEM, the cloud is as before. Local */
ff_status ff_cloud_reorder(ff_cloud *c, const int64_t *from);

/* Rows of row_bytes bytes from home order to own order and back; the two may not overlap. Collective. */
ff_status ff_cloud_to_own(const ff_cloud *c, size_t row_bytes, const void *home, void *own);
ff_status ff_cloud_to_home(const ff_cloud *c, size_t row_bytes, const void *own, void *home);

/* The first cut: rank r's run ends at the last block border not after (r + 1) n / size. cut [size + 1].
 * Local. */
void ff_cut_by_count(int64_t n, int leaf_size, int size, int64_t *cut);

/* share [size + 1], 0 .. 1 ascending: which part of a cloud lies before each rank's run. ff_cut_share: the one with which
 * all ranks would have equal work if work [size], counted with the old one, were spread evenly within each run; the old one
 * where nothing was counted. ff_cut_by_share: the cut that follows. Local */
void ff_cut_share(int size, const int64_t *work, const double *old, double *share);
void ff_cut_by_share(int64_t n, int leaf_size, int size, const double *share, int64_t *cut);

/* A cut by cumulative work: block b (all blocks of the set, in order, the same table on each rank) carries
 * work[b] >= 0. The largest work of a rank is as small as borders allow; within that, rank r's run ends at the
 * border where the cumulative work is nearest r + 1 shares (the lower of two equally near). Surplus ranks own
 * nothing; without any work points are the work. Points a rank <= max_points (0: no cap). Local.
 * Errors: FF_E_ARG work[b] < 0; FF_E_MEM the cap cannot be met. */
ff_status ff_cut_by_work(const ff_subtree *blocks, int64_t n_blocks, const int64_t *work, int size,
                         int64_t max_points, int64_t *cut);

/* The rank that owns sorted position pos, 0 <= pos < cut[size]. Local. */
int ff_cut_owner(const int64_t *cut, int size, int64_t pos);

#endif
