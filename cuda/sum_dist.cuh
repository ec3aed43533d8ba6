/* Sums over several ranks: what each keeps beside its own part of the tree. Private to cuda/sum_*.cu.
 *
 *     points as given ──► sorted by key ──► owners of the cuts ──► merged, leaves, boxes ──► boxes and centres to all
 *     lists of own targets mark what they read ──► owners learn it
 *     densities ──► owners ──► points of leaves that are read ─┐
 *                        └──► own moments ──► those read ──────┴──► near, far ──► values back to where targets came from
 *
 * Everything above level SUM_SHARED is computed by every rank, from the same numbers in the same order. */
#ifndef SUM_DIST_CUH
#define SUM_DIST_CUH

#include "sum.cuh"

extern "C" {
#include "ff_cuda_sum.h"
}

/* Rows of nodes (moments) or leaves (points) that go between ranks, rank by rank. */
typedef struct sum_rows {
    int64_t *want, *give; /* [size] rows from, to each rank */
    int64_t n_want, n_give;
    int32_t *d_want, *d_give; /* node ids */
} sum_rows;

enum { SUM_ROWS_NODE, SUM_ROWS_LEAF };
typedef struct sum_halo {
    sum_rows rows[2];
} sum_halo;

/* One side. give, take: own points as given that went to each rank, and came from each. */
typedef struct sum_share {
    int64_t n_home, first_home; /* points as given, and the number of the first */
    int64_t *give, *take;       /* [size] */
    int64_t *cut;               /* [size + 1] places */
    int64_t *wanted;            /* [size + 1] the cut to make; NULL: equal counts */
    int32_t *d_home;            /* [n_home] point as given of each that went away, rank by rank */
} sum_share;

typedef struct sum_dist {
    ff_comm *comm;
    const ff_device_comm *device;
    cudaStream_t messages;
    cudaEvent_t ready, done;
    ff_msg *send, *recv; /* device buffers */
    int n_send, n_recv, room;
    bool flying;
    double met_s; /* when all hosts had met before it */
    char *h_stage[2]; /* pinned, where payload goes through the host */
    size_t stage_bytes[2];
    sum_share share[2];
    ff_sum_cuda_traffic traffic;
} sum_dist;

ff_status sum_dist_create(ff_sum_cuda *s, ff_comm *comm, const ff_device_comm *device); /* Collective */
void sum_dist_destroy(ff_sum_cuda *s);                                                   /* Local */

/* One exchange: cleared, filled with messages (none to itself), begun, ended. What is sent is what the stream leaves in
 * the buffers up to begin; after end the stream may read what came. mine: what failed here before it.  Collective */
void sum_dist_clear(sum_dist *d);
ff_status sum_dist_add(sum_dist *d, bool send, int peer, void *d_buf, size_t bytes); /* Local */
ff_status sum_dist_begin(ff_sum_cuda *s, ff_status mine);
ff_status sum_dist_end(ff_sum_cuda *s);

/* Rows of width numbers: of points as given to own points (a new block), and back, some arrays at once. Collective */
typedef struct sum_back {
    double *d_own, *d_home;
    int64_t width;
} sum_back;
enum { SUM_BACK_MAX = 2 };
ff_status sum_dist_in(ff_sum_cuda *s, int k, const double *d_home, int64_t width, double **d_own);
ff_status sum_dist_out(ff_sum_cuda *s, int k, const sum_back *back, int n);
/* sum_dist_in's messages, into an exchange with others; d_send (NULL before) is freed by the caller after it. Local */
ff_status sum_dist_add_in(ff_sum_cuda *s, int k, const double *d_home, int64_t width, double **d_send,
                          double **d_own);

/* Box of all ranks' points and the least bad coordinates, by their numbers over all.                    Collective */
ff_status sum_dist_frame(ff_sum_cuda *s);
/* Own points of side k (a new block), their order; lo, hi, n_own of the side.                          Collective */
ff_status sum_share_points(ff_sum_cuda *s, int k, const double *d_home, double **d_own);
/* Centres below SUM_SHARED and boxes of it to all ranks.                                               Collective */
ff_status sum_share_nodes(ff_sum_cuda *s, int k);

/* What plan's lists read of from. plan->halo, freed by sum_halo_destroy.                               Collective */
ff_status sum_halo_make(ff_sum_cuda *s, int from, sum_plan *plan);
void sum_halo_destroy(sum_halo **h);
/* Points (and d_more) of leaves that are read; moments that are read, and of level SUM_SHARED. Begins, mine: what failed here
 * before; end takes them in.
 *                                                                                                      Collective */
typedef struct sum_halo_flight {
    const sum_rows *rows;
    void *d_array[2], *d_out[2], *d_in[2];
    size_t bytes[2];
} sum_halo_flight;
ff_status sum_halo_points_begin(ff_sum_cuda *s, int from, const sum_plan *plan, ff_status mine,
                                sum_halo_flight *f);
ff_status sum_halo_moments_begin(ff_sum_cuda *s, int from, const sum_plan *plan, ff_status mine,
                                 void *d_moments, sum_halo_flight *f);
ff_status sum_halo_end(ff_sum_cuda *s, sum_halo_flight *f);

/* A better cut of the points of side k by the lists of plan, whose targets they are, if it pays: share.wanted.
 *                                                                                                      Collective */
ff_status sum_dist_balance(ff_sum_cuda *s, int k, const sum_plan *plan, bool *again);

/* All ranks' rows of home points, in order of their numbers (a new block).                             Collective */
ff_status sum_dist_all(ff_sum_cuda *s, int k, const double *d_home, int64_t width, double **d_all);

/* Rows of `width` T to and from a list of ids: to[i] = from[id[i]], to[id[i]] = from[i]; a thread a T. */
template <class T>
static __global__ void __launch_bounds__(256)
    sum_take_rows(int64_t n, int64_t width, const int32_t *id, const T *from, T *to)
{
    const int64_t i = ff_thread();
    if (i < n * width) to[i] = from[id[i / width] * width + i % width];
}

template <class T>
static __global__ void __launch_bounds__(256)
    sum_put_rows(int64_t n, int64_t width, const int32_t *id, const T *from, T *to)
{
    const int64_t i = ff_thread();
    if (i < n * width) to[id[i / width] * width + i % width] = from[i];
}

#endif
