/* Lists of near leaves and far nodes, level by level from the top; one precision (sum_types.cuh).
 *
 * sum_walk_level: each node of a level tests the children of what its parent left undecided, all of the same level
 * Work    a warp a target node, lanes over candidates; counted, then written: a test is cheaper than a buffer
 * Launch  4 warps a block, one launch a level; the host waits for none
 * Order   a list is in ascending order of nodes; where it lies is a matter of chance that nothing depends on
 * Bytes   a candidate: 4 + 16 (32 in float64), twice; a kept one 4
 * Oracle  tests/gpu/test_sum.c: every pair of points is covered once, or sums are wrong */
#ifndef SUM_WALK_CUH
#define SUM_WALK_CUH

#include "sum_types.cuh"

enum { AHEAD = 4 }; /* candidates of a lane in flight: a node that spans a gap has many thousand */

typedef struct walk_args {
    sum_side to, from;
    const sum_frame *frame;
    sum_plan p;
    real theta2;
    int level, top; /* top: no lists yet, all nodes of the level are candidates */
    int32_t first, end; /* nodes of the level to test */
} walk_args;

static __device__ __forceinline__ bool walk_far(const sum_node &a, const sum_node &b, real quantum,
                                                real theta2)
{
    const real x = sum_length(a.x - b.x, quantum), y = sum_length(a.y - b.y, quantum),
               z = sum_length(a.z - b.z, quantum), r = a.r + b.r;
    return r * r < theta2 * (x * x + y * y + z * z);
}

/* Pieces of a list of n after the first. A list that fits has room for them: n / SUM_PIECE at most. */
static __device__ void walk_items(int32_t node, int32_t n, unsigned long long *cursor, sum_item *item,
                                  int32_t *at)
{
    const int32_t more = (n - 1) / SUM_PIECE;
    const unsigned long long to = atomicAdd(cursor, (unsigned long long)more);
    at[node] = (int32_t)to;
    for (int32_t k = 0; k < more; k++) item[to + k] = {node, (k + 1) * SUM_PIECE};
}

/* Where a node's lists begin, and whether there is room for them. */
typedef struct walk_room {
    unsigned long long far_at, left_at;
    bool far_fits, left_fits;
} walk_room;

/* Room for what the first pass counted; one lane notes it. MARK: several ranks. */
template <bool MARK>
static __device__ __forceinline__ walk_room walk_reserve(const walk_args &a, int32_t t, int lane, int32_t n_far,
                                                         int32_t n_left)
{
    const int l = a.level, out = l & 1;
    const int32_t node = a.to.level_at[l] + t;
    walk_room r = {0, 0, true, true};
    if (lane == 0) {
        r.far_at = atomicAdd(&a.p.d_cursors->far, (unsigned long long)n_far);
        if (MARK && (int64_t)t << l < a.to.lo / SUM_LEAF)
            atomicAdd(&a.p.d_cursors->shared, (unsigned long long)n_far);
        r.left_at =
            atomicAdd(l == 0 ? &a.p.d_cursors->near : &a.p.d_cursors->next[l], (unsigned long long)n_left);
    }
    r.far_at = __shfl_sync(~0u, r.far_at, 0);
    r.left_at = __shfl_sync(~0u, r.left_at, 0);
    r.far_fits = r.far_at + n_far <= (unsigned long long)a.p.cap_far;
    r.left_fits = r.left_at + n_left <= (unsigned long long)(l == 0 ? a.p.cap_near : a.p.cap_next);
    if (lane == 0) {
        if (r.far_fits && n_far > SUM_PIECE)
            walk_items(node, n_far, &a.p.d_cursors->far_items, a.p.d_far_item, a.p.d_far_item_at);
        if (l == 0 && r.left_fits && n_left > SUM_PIECE)
            walk_items(node, n_left, &a.p.d_cursors->near_items, a.p.d_near_item, a.p.d_near_item_at);
        a.p.d_far_at[node] = (int64_t)r.far_at;
        a.p.d_far_n[node] = r.far_fits ? n_far : 0;
        (l == 0 ? a.p.d_near_at : a.p.d_next_at[out])[t] = (int64_t)r.left_at;
        (l == 0 ? a.p.d_near_n : a.p.d_next_n[out])[t] = r.left_fits ? n_left : 0;
    }
    return r;
}

template <bool MARK> static __global__ void __launch_bounds__(128) sum_walk_level(const walk_args a)
{
    const int32_t t = a.first + (int32_t)(blockIdx.x * 4 + threadIdx.x / 32);
    const int lane = threadIdx.x % 32, l = a.level, in = (l + 1) & 1;
    if (t >= a.end) return; /* whole warps */
    const real quantum = (real)a.frame->quantum;
    const int32_t base = a.from.level_at[l], n_s = a.from.level_n[l];
    const sum_node me = ((const sum_node *)a.to.d_node)[a.to.level_at[l] + t];
    const sum_node *other = (const sum_node *)a.from.d_node + base;
    const int32_t *given = a.top ? NULL : a.p.d_next[in] + a.p.d_next_at[in][t / 2];
    const int32_t n = a.top ? n_s : 2 * a.p.d_next_n[in][t / 2];
    int32_t n_far = 0, n_left = 0;
    for (int pass = 0; pass < 2; pass++) {
        walk_room r = {0, 0, true, true};
        if (pass == 1) r = walk_reserve<MARK>(a, t, lane, n_far, n_left);
        int32_t *left = (l == 0 ? a.p.d_near : a.p.d_next[l & 1]) + r.left_at;
        n_far = n_left = 0;
        const unsigned before = (1u << lane) - 1;
        for (int32_t at = 0; at < n; at += 32 * AHEAD) {
            int32_t s[AHEAD];
            bool is_far[AHEAD];
#pragma unroll
            for (int u = 0; u < AHEAD; u++) {
                const int32_t k = at + 32 * u + lane;
                s[u] = k >= n ? n_s : a.top ? k : 2 * given[k / 2] + (k & 1);
            }
#pragma unroll
            for (int u = 0; u < AHEAD; u++)
                is_far[u] = s[u] < n_s && walk_far(me, other[s[u] < n_s ? s[u] : 0], quantum, a.theta2);
#pragma unroll
            for (int u = 0; u < AHEAD; u++) {
                const bool near = s[u] < n_s && !is_far[u];
                const unsigned far = __ballot_sync(~0u, is_far[u]), rest = __ballot_sync(~0u, near);
                if (pass == 1 && is_far[u] && r.far_fits) {
                    a.p.d_far[r.far_at + n_far + __popc(far & before)] = base + s[u];
                    if (MARK && l < SUM_SHARED) a.p.d_read_node[base + s[u]] = 1;
                }
                if (pass == 1 && near && r.left_fits) {
                    left[n_left + __popc(rest & before)] = s[u];
                    if (MARK && l == 0) a.p.d_read_leaf[s[u]] = 1;
                }
                n_far += __popc(far);
                n_left += __popc(rest);
            }
        }
    }
}

/* Far lists of levels above the top are empty. */
static cudaError_t SUM_T(walk)(const sum_side *to, const sum_side *from, const sum_frame *d_frame,
                               double theta, const sum_plan *plan, cudaStream_t s)
{
    const int top = (to->n_levels < from->n_levels ? to->n_levels : from->n_levels) - 1;
    cudaError_t e = cudaMemsetAsync(plan->d_cursors, 0, sizeof *plan->d_cursors, s);
    if (e != cudaSuccess || to->n == 0 || from->n == 0) return e;
    if (to->hi - to->lo < to->n_pad) {
        e = cudaMemsetAsync(plan->d_far_n, 0xff, (size_t)to->n_nodes * sizeof(int32_t), s);
        if (e != cudaSuccess) return e;
    }
    if (top + 1 < to->n_levels) {
        const int32_t at = to->level_at[top + 1];
        e = cudaMemsetAsync(plan->d_far_n + at, 0, (size_t)(to->n_nodes - at) * sizeof(int32_t), s);
        if (e == cudaSuccess)
            e = cudaMemsetAsync(plan->d_far_at + at, 0, (size_t)(to->n_nodes - at) * sizeof(int64_t), s);
        if (e != cudaSuccess) return e;
    }
    for (int l = top; l >= 0; l--) {
        const walk_args a = {*to, *from,    d_frame,          *plan,         (real)(theta * theta),
                             l,   l == top, sum_first(to, l), sum_end(to, l)};
        const unsigned blocks = (unsigned)((a.end - a.first + 3) / 4);
        if (blocks == 0) continue;
        if (plan->d_read_leaf != NULL)
            sum_walk_level<true><<<blocks, 128, 0, s>>>(a);
        else
            sum_walk_level<false><<<blocks, 128, 0, s>>>(a);
    }
    return cudaGetLastError();
}

#endif
