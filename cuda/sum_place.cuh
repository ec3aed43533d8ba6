/* Coordinates, boxes and centres of the implicit tree, and densities in its order; one precision (sum_types.cuh).
 *
 * sum_leaves     a warp a leaf: gathers its points, box and centre
 * sum_parents    a warp 32 nodes: boxes of the next five levels by shuffles
 * sum_middles    a thread a node: centres of parents, half the diagonal as radius; that of a leaf is to its farthest point
 * Shapes         point [n_pad], node and box [n_nodes], order [hi - lo]
 * Order          minima and maxima only
 * Bytes          a point: 24 read in no order, 16 (32 in float64) written
 * Oracle         tests/gpu/test_sum.c */
#ifndef SUM_PLACE_CUH
#define SUM_PLACE_CUH

#include "sum_types.cuh"

static __device__ inline void box_join(sum_box *b, int lane_distance)
{
    for (int d = 0; d < 3; d++) {
        const coord lo = __shfl_xor_sync(~0u, b->lo[d], lane_distance);
        const coord hi = __shfl_xor_sync(~0u, b->hi[d], lane_distance);
        if (lo < b->lo[d]) b->lo[d] = lo;
        if (hi > b->hi[d]) b->hi[d] = hi;
    }
}

static __device__ inline sum_node box_centre(const sum_box *b, real quantum)
{
    sum_node c = {sum_middle(b->lo[0], b->hi[0]), sum_middle(b->lo[1], b->hi[1]),
                  sum_middle(b->lo[2], b->hi[2]), 0};
    const real x = sum_length(b->hi[0] - c.x, quantum), y = sum_length(b->hi[1] - c.y, quantum),
               z = sum_length(b->hi[2] - c.z, quantum);
    c.r = fmax(sqrt(x * x + y * y + z * z), quantum); /* never 0: it sets a scale */
    return c;
}

static __device__ inline real centre_distance(const sum_node &a, const sum_node &b, real quantum)
{
    const real x = sum_length(a.x - b.x, quantum), y = sum_length(a.y - b.y, quantum),
               z = sum_length(a.z - b.z, quantum);
    return sqrt(x * x + y * y + z * z);
}

static __global__ void __launch_bounds__(256)
    sum_leaves(const sum_side side, const double *x, int dim, const sum_frame *frame)
{
    const int64_t i = side.lo + ff_thread();
    if (i >= side.hi) return; /* whole warps */
    const int64_t real_i = i < side.n ? i : side.n - 1;
    const double *p = x + (int64_t)side.d_order[real_i - side.lo] * dim;
    sum_point at = {sum_coord(p[0], frame->lo[0], frame->inverse),
                    sum_coord(p[1], frame->lo[1], frame->inverse), 0, 0};
    if (dim == 3) at.z = sum_coord(p[2], frame->lo[2], frame->inverse);
    ((sum_point *)side.d_point)[i] = at;
    const real quantum = (real)frame->quantum;
    sum_box b = {{at.x, at.y, at.z}, {at.x, at.y, at.z}};
    for (int k = 1; k < 32; k *= 2) box_join(&b, k);
    sum_node c = box_centre(&b, quantum);
    const sum_node me = {at.x, at.y, at.z, 0};
    real r = centre_distance(c, me, quantum);
    for (int k = 1; k < 32; k *= 2) r = fmax(r, __shfl_xor_sync(~0u, r, k));
    c.r = fmax(r, quantum);
    if (threadIdx.x % 32 != 0) return;
    ((sum_node *)side.d_node)[i / 32] = c;
    ((sum_box *)side.d_box)[i / 32] = b;
}

/* Boxes of levels from + 1 to from + 5 from those of level from: nodes first to n - 1 of it, first a multiple of 32. Lanes
 * past the end repeat the last node. */
static __global__ void __launch_bounds__(256)
    sum_parents(const sum_side side, int from, int32_t first, int32_t n)
{
    const int64_t i = first + ff_thread();
    if (i / 32 * 32 >= n) return; /* whole warps */
    sum_box b = ((const sum_box *)side.d_box)[side.level_at[from] + (i < n ? i : n - 1)];
    for (int k = 1; k <= 5 && from + k < side.n_levels; k++) {
        box_join(&b, 1 << (k - 1));
        const int64_t up = i >> k;
        if ((i & ((1 << k) - 1)) == 0 && up < side.level_n[from + k])
            ((sum_box *)side.d_box)[side.level_at[from + k] + up] = b;
    }
}

/* Of nodes first to first + n - 1 of all. */
static __global__ void __launch_bounds__(256)
    sum_middles(const sum_side side, const sum_frame *frame, int64_t first, int64_t n)
{
    const int64_t i = first + ff_thread();
    if (i < first + n)
        ((sum_node *)side.d_node)[i] = box_centre((const sum_box *)side.d_box + i, (real)frame->quantum);
}

/* Own nodes: leaves, and five levels above. */
static cudaError_t place_own(const sum_side *side, const double *d_x, int dim, const sum_frame *d_frame,
                             cudaStream_t s)
{
    const int32_t first = sum_first(side, 0), end = sum_end(side, 0);
    if (first == end) return cudaSuccess;
    sum_leaves<<<ff_grid(side->hi - side->lo, 1), 256, 0, s>>>(*side, d_x, dim, d_frame);
    if (side->n_levels > 1) sum_parents<<<ff_grid(end - first, 1), 256, 0, s>>>(*side, 0, first, end);
    return cudaGetLastError();
}

static cudaError_t SUM_T(place)(const sum_side *side, const double *d_x, int dim, const sum_frame *d_frame,
                                int stage, cudaStream_t s)
{
    if (side->n == 0) return cudaSuccess;
    const bool several = stage != (SUM_UP | SUM_DOWN);
    cudaError_t e = (stage & SUM_UP) != 0 ? place_own(side, d_x, dim, d_frame, s) : cudaSuccess;
    if (e != cudaSuccess) return e;
    for (int l = 1; l < SUM_SHARED && l < side->n_levels && (stage & SUM_UP) != 0 && several; l++) {
        const int32_t first = sum_first(side, l), n = sum_end(side, l) - first;
        if (n > 0)
            sum_middles<<<ff_grid(n, 1), 256, 0, s>>>(*side, d_frame, side->level_at[l] + first, n);
    }
    if ((stage & SUM_DOWN) == 0) return cudaGetLastError();
    for (int l = SUM_SHARED; l + 1 < side->n_levels; l += 5)
        sum_parents<<<ff_grid(side->level_n[l], 1), 256, 0, s>>>(*side, l, 0, side->level_n[l]);
    const int from = several ? SUM_SHARED : 1;
    if (side->n_levels > from) {
        const int32_t at = side->level_at[from];
        sum_middles<<<ff_grid(side->n_nodes - at, 1), 256, 0, s>>>(*side, d_frame, at, side->n_nodes - at);
    }
    return cudaGetLastError();
}

static __global__ void __launch_bounds__(256) sum_density(const sum_side side, const sum_in in)
{
    const int64_t i = side.lo + ff_thread();
    if (i >= side.hi) return;
    const int32_t from = side.d_order[i - side.lo];
    if (in.d_charge != NULL)
        ((sum_point *)side.d_point)[i].q = from < 0 ? 0 : (real)in.d_charge[from * in.stride_charge];
    if (in.d_more == NULL) return;
    double v[3] = {0, 0, 0};
    for (int c = 0; c < in.n_more && from >= 0; c++) v[c] = in.d_more[from * in.stride_more + c];
    const sum_four m = {(real)v[0], (real)v[1], (real)v[2], 0};
    ((sum_four *)side.d_more)[i] = m;
}

static cudaError_t SUM_T(density)(const sum_side *side, const sum_in *in, cudaStream_t s)
{
    if (side->lo == side->hi) return cudaSuccess;
    sum_density<<<ff_grid(side->hi - side->lo, 1), 256, 0, s>>>(*side, *in);
    return cudaGetLastError();
}

#endif
