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

/* Float32 sums of pairs go into double every SUM_FOLD leaves of sources. Lists are cut into pieces, each a warp's (near) or
 * FAR_LANES lanes' (far): a leaf that spans a gap of the curve may be near to a large part of all. */
enum { SUM_LEAF = 32, SUM_LEVELS = 28, SUM_FOLD = 8, SUM_PIECE = 256 };

/* Several ranks: each has whole GROUPS of consecutive places (of SUM_GROUP_POINTS, nodes of one level, so that sorting within
 * a group, and moments below, need nothing of others), and arrays of all places and nodes, of which only its own and what its
 * targets read are filled. Boxes and moments of level SUM_SHARED go to every rank, which adds up the levels above itself. */
enum { SUM_GROUP_POINTS = 4096, SUM_SHARED = 5 };

/* A piece of a list after the first: entries [first, first + SUM_PIECE) of a leaf's or node's. */
typedef struct sum_item {
    int32_t node, first;
} sum_item;

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
    int64_t lo, hi; /* this rank's places; one rank: 0, n_pad */
    int64_t n_own;  /* points there, in the order in which they came to this rank */
    int n_levels;
    int32_t n_nodes;
    int32_t level_at[SUM_LEVELS], level_n[SUM_LEVELS]; /* first node id and nodes of a level */
    int32_t *d_order;                                  /* [hi - lo] own point at place lo + i; -1 */
    int32_t *d_inverse;                                /* [n_own] place of a point */
    void *d_point;                                     /* [n_pad] coordinates, density 0 */
    void *d_more; /* [n_pad] four numbers: dipole or force; NULL if there is none */
    void *d_node; /* [n_nodes] centre, radius */
    void *d_box;  /* [n_nodes] six coordinates */
} sum_side;

/* Nodes of level l that lie in or above this rank's places: first, first + 1, ..., end - 1. */
static __host__ __device__ inline int32_t sum_first(const sum_side *s, int l)
{
    return (int32_t)(s->lo / SUM_LEAF >> l);
}
static __host__ __device__ inline int32_t sum_end(const sum_side *s, int l)
{
    if (s->lo == s->hi) return sum_first(s, l);
    return (int32_t)((s->hi / SUM_LEAF + (INT64_C(1) << l) - 1) >> l);
}

/* Near pairs of each group of targets: leaves of sources. */
typedef struct sum_near_list {
    const int64_t *d_at; /* [n_groups] first entry; NULL: all leaves */
    const int32_t *d_n;  /* [n_groups] */
    const int32_t *d_leaf;
    const sum_item *d_item; /* pieces after the first, those of a leaf together from d_item_at on */
    const int32_t *d_item_at;
    int64_t n_items;
} sum_near_list;

/* Arguments of the near field, by value. */
typedef struct sum_near {
    sum_side to, from;
    const sum_frame *d_frame;
    sum_near_list list;
    int32_t first_group; /* of this rank */
    int32_t n_groups, n_piece, piece; /* direct sums: the leaves are cut into n_piece pieces of so many */
    int items;                        /* 1: the items of the list, 0: first pieces */
    double *d_part; /* [n_piece][to.n_pad][n_out], with a list [to.n_pad + 32 n_items][n_out] */
} sum_near;

/* Far pairs: source nodes of each target node. */
typedef struct sum_far_list {
    const int64_t *d_at; /* [n_nodes] */
    const int32_t *d_n;  /* [n_nodes] -1: not this rank's */
    const int32_t *d_node;
    const sum_item *d_item;
    const int32_t *d_item_at; /* [n_nodes] */
    int64_t n_items;
} sum_far_list;

/* What an expansion is of: charges, dipoles, both; one component of forces; dipoles with the kernel R. */
enum { SUM_FAR_CHARGE, SUM_FAR_DIPOLE, SUM_FAR_BOTH, SUM_FAR_X, SUM_FAR_Y, SUM_FAR_Z, SUM_FAR_ROOT };

/* One expansion from points to points. kernel FF_SUM_POWER with parameter -1 is R. */
typedef struct sum_far {
    sum_side to, from;
    const sum_frame *d_frame;
    sum_far_list list;
    ff_sum_kernel kernel;
    double parameter;
    int what, grad, n_out;
    void *d_moments,
        *d_local;   /* [n_nodes][sum_far_stride(order)] of the precision; local: and one for each item */
    double *d_part; /* [to.n_pad][n_out], added to */
} sum_far;

/* Lists of one direction while they are made, on the device. */
typedef struct sum_cursors {
    unsigned long long far, near, far_items, near_items, next[SUM_LEVELS];
    unsigned long long shared; /* far entries of nodes that begin on an earlier rank, which counts them too */
} sum_cursors;

typedef struct sum_plan {
    int64_t *d_far_at, *d_near_at; /* [n_nodes], [leaves] of the targets */
    int32_t *d_far_n, *d_near_n;
    int32_t *d_far, *d_near;
    int32_t *d_far_item_at, *d_near_item_at;
    sum_item *d_far_item, *d_near_item; /* room for cap / SUM_PIECE */
    int64_t *d_next_at[2];              /* scratch of the walk: [most nodes of a level] */
    int32_t *d_next_n[2];
    int32_t *d_next[2];
    sum_cursors *d_cursors;
    int64_t cap_far, cap_near, cap_next;
    sum_cursors cursors; /* host, after it was made */
    /* Several ranks: what is read of the sources, 1: moments of nodes below SUM_SHARED, points of leaves; else NULL. */
    uint8_t *d_read_node, *d_read_leaf;
    struct sum_halo *halo;
} sum_plan;

/* Densities as given: a charge of point i at d_charge + i stride_charge, and n_more numbers of a dipole or force; NULL: none. */
typedef struct sum_in {
    const double *d_charge, *d_more;
    int64_t stride_charge, stride_more;
    int n_more;
} sum_in;

/* Values and derivatives of point i at d_value + i stride_value and so on; NULL: not wanted. */
typedef struct sum_out {
    double *d_value, *d_gradient;
    int64_t stride_value, stride_gradient;
} sum_out;

/* What one precision does. The calls only queue work. */
typedef struct sum_row {
    size_t point_bytes, more_bytes, node_bytes, box_bytes, real_bytes;
    /* Coordinates, boxes and centres of a side whose order is there; d_x [n_own][dim] as they came. Stages as below: own
     * nodes (boxes to SUM_SHARED, centres below); boxes above and centres from SUM_SHARED on. */
    cudaError_t (*place)(const sum_side *side, const double *d_x, int dim, const sum_frame *d_frame, int stage,
                         cudaStream_t stream);
    /* Densities into the tree's order. */
    cudaError_t (*density)(const sum_side *side, const sum_in *in, cudaStream_t stream);
    /* All pairs, targets in groups of two leaves; listed pairs, targets by leaves. */
    cudaError_t (*direct)(const ff_sum_spec *spec, const sum_near *a, cudaStream_t stream);
    cudaError_t (*lists)(const ff_sum_spec *spec, const sum_near *a, cudaStream_t stream);
    /* Queues the walk of plan's arrays; nodes are far if the sum of their radii is below theta times their distance. */
    cudaError_t (*walk)(const sum_side *to, const sum_side *from, const sum_frame *d_frame, double theta,
                        const sum_plan *plan, cudaStream_t stream);
    cudaError_t (*far)(int order, const sum_far *a, int stage, cudaStream_t stream);
} sum_row;

/* Stages of an expansion: moments of own nodes up to SUM_SHARED; all else. Between them ranks exchange moments. */
enum { SUM_UP = 1, SUM_DOWN = 2 };

/* Orders 3 to 6. */
int sum_far_stride(int order); /* numbers of an expansion in memory */
cudaError_t sum_far_f32(int order, const sum_far *a, int stage, cudaStream_t stream);
cudaError_t sum_far_f64(int order, const sum_far *a, int stage, cudaStream_t stream);

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
    sum_plan plan,
        plan_back; /* targets against sources; the other way round, where it is another and adjoint asks */
    ff_sum_info info;
    struct sum_dist *dist; /* several ranks (sum_dist.cuh); NULL: one */
};

static inline const sum_side *sum_targets(const ff_sum_cuda *s)
{
    return &s->side[s->n_side - 1];
}

/* Lists of one direction, sides by number; waits for the stream. Several ranks: what they read of others, too; theta 0:
 * only that. FF_E_MEM                                                                            Collective then */
ff_status sum_plan_make(ff_sum_cuda *s, int to, int from, sum_plan *plan);
void sum_plan_drop(ff_sum_cuda *s, sum_plan *plan); /* Local */

/* Degree and theta for opts.rtol, and what a GPU asks of them. */
ff_status sum_choose(ff_sum_opts *o);

/* Box of targets and sources of this rank (lo > hi where there are none); then what follows from that of all. */
ff_status sum_frame_box(ff_cuda_pool *pool, const double *const d_x[2], const int64_t n[2], int dim,
                        sum_frame *d_frame);
ff_status sum_frame_finish(ff_cuda_pool *pool, sum_frame *d_frame);

/* Order along the curve of n points d_x [n][dim]; pads with -1. Allocates d_order, d_inverse. */
ff_status sum_sort(ff_cuda_pool *pool, const double *d_x, int dim, const sum_frame *d_frame, sum_side *side);
/* Its parts. Keys of n points in ascending order, equal ones by index; n_all sets the bits of a key (sum_key_bits). Both
 * arrays are the caller's to free. */
int sum_key_bits(int64_t n_all);
ff_status sum_keys_sorted(ff_cuda_pool *pool, const double *d_x, int64_t n, int64_t n_all, int dim,
                          const sum_frame *d_frame, uint64_t **d_key, int32_t **d_index);
/* From own points along the curve, d_curve [n_own], to d_order and d_inverse, which it allocates. */
ff_status sum_refined(ff_cuda_pool *pool, const double *d_x, int dim, const sum_frame *d_frame,
                      const int32_t *d_curve, sum_side *side);

#endif
