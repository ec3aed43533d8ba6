/* Sums of analytic kernels on one GPU: what the parts share. Private to cuda/.
 *
 * Points are sorted along a Hilbert curve and cut into LEAVES of 32: a warp's lanes. The tree above is implicit: node i
 * of level l stands for nodes 2 i and 2 i + 1 of level l - 1 (the last of a level may have one child), so levels need
 * no links and all leaves but the last are full. Places after the last point repeat it, with density 0 and order -1.
 *
 * Float32: coordinates are 31-bit multiples of a power of two (the quantum) from the corner of the box of all points.
 * Differences are exact integers before they are rounded, so points that coincide do so in every frame.
 * Float64: coordinates are doubles from that corner. */
#ifndef SUM_CUH
#define SUM_CUH

#include "ff_cuda_scan.cuh"

extern "C" {
#include "ff_mem.h"
#include "ff_sum_tile.h"
}

/* Float32 sums of pairs go into double every SUM_FOLD leaves of sources. */
enum { SUM_LEAF = 32, SUM_LEVELS = 28, SUM_FOLD = 8 };

/* Box of all points and what follows from it, on the device. */
typedef struct sum_frame {
    double lo[3], hi[3];
    double quantum, inverse; /* of float32 coordinates */
    unsigned long long
        bad[3]; /* least index of a coordinate (targets, sources) or density that is not finite */
} sum_frame;

/* One point set and its tree. Types by precision: point and node are sum_point, sum_node of sum_types.cuh. */
typedef struct sum_side {
    int64_t n;     /* points */
    int64_t n_pad; /* places: 32 n_leaf of whole groups */
    int n_levels;
    int32_t n_nodes;
    int32_t level_at[SUM_LEVELS], level_n[SUM_LEVELS]; /* first node id and nodes of a level */
    int32_t *d_order;                                  /* [n_pad] index as given; -1 */
    void *d_point;                                     /* [n_pad] coordinates, density 0 */
    void *d_more; /* [n_pad] four numbers: dipole or force; NULL if there is none */
    void *d_node; /* [n_nodes] centre, radius */
    void *d_box;  /* [n_nodes] six coordinates */
} sum_side;

/* Near pairs of each group of targets: leaves of sources. */
typedef struct sum_near_list {
    const int64_t *d_at; /* [n_groups] first entry; NULL: all leaves */
    const int32_t *d_n;  /* [n_groups] */
    const int32_t *d_leaf;
} sum_near_list;

/* Arguments of the near field, by value. */
typedef struct sum_near {
    sum_side to, from;
    const sum_frame *d_frame;
    sum_near_list list;
    int32_t n_groups, n_piece, piece; /* direct sums: the leaves are cut into n_piece pieces of so many */
    double *d_part;                   /* [n_piece][n_out][to.n_pad] */
} sum_near;

/* What one precision does. The calls only queue work. */
typedef struct sum_row {
    size_t point_bytes, more_bytes, node_bytes, box_bytes;
    /* Coordinates, boxes and centres of a side whose order is there; d_x [n][dim] as given. */
    cudaError_t (*place)(const sum_side *side, const double *d_x, int dim, const sum_frame *d_frame,
                         cudaStream_t stream);
    /* Densities of one of n_dens: n_in numbers a point, from d_q [n][n_dens][n_in]. */
    cudaError_t (*density)(const sum_side *side, const ff_sum_spec *spec, const double *d_q, int n_dens,
                           int k, int n_in, cudaStream_t stream);
    /* All pairs, targets in groups of two leaves; listed pairs, targets by leaves. */
    cudaError_t (*direct)(const ff_sum_spec *spec, const sum_near *a, cudaStream_t stream);
    cudaError_t (*lists)(const ff_sum_spec *spec, const sum_near *a, cudaStream_t stream);
} sum_row;

cudaError_t sum_direct_f32(const ff_sum_spec *spec, const sum_near *a, cudaStream_t stream);
cudaError_t sum_direct_f64(const ff_sum_spec *spec, const sum_near *a, cudaStream_t stream);
cudaError_t sum_lists_f32(const ff_sum_spec *spec, const sum_near *a, cudaStream_t stream);
cudaError_t sum_lists_f64(const ff_sum_spec *spec, const sum_near *a, cudaStream_t stream);

extern const sum_row sum_row_f32, sum_row_f64;

struct ff_sum_cuda {
    ff_cuda_pool *pool;
    cudaStream_t stream;
    ff_sum_opts o;
    ff_sum_spec spec;
    const sum_row *row;
    int device, n_in, n_out, n_side; /* numbers of a source, of a target with its gradient */
    sum_side side[2];                /* sources, targets; one side where they are the same */
    sum_frame *d_frame;
    ff_sum_info info;
};

static inline const sum_side *sum_targets(const ff_sum_cuda *s)
{
    return &s->side[s->n_side - 1];
}

/* Box of targets and sources. */
ff_status sum_frame_find(ff_cuda_pool *pool, const double *const d_x[2], const int64_t n[2], int dim,
                         sum_frame *d_frame);

/* Order along the curve of n points d_x [n][dim]; pads with -1. Allocates d_order and scratch. */
ff_status sum_sort(ff_cuda_pool *pool, const double *d_x, int dim, const sum_frame *d_frame, sum_side *side);

#endif
