/* scatter_bwd: gradients of every input of the scatter for the cotangent of its output, in one pass over the edges
 * Work    one warp SCATTER_BATCH edges in the order of visit, few nodes in a row. The cotangents of the node at hand,
 *         rows of degrees A .. B and 32 / LANES edges at once, stay in registers, twice: 8 bytes of channels of all rows
 *         for the gradients of features and spin, 128 bytes of one row for the sums over channels, which are thus made
 *         without exchange between threads. Those of the next node are on their way into shared memory meanwhile.
 *         Couplings and features (and spin) pass through a ring in shared memory
 * Launch  grid E / 64, block 128, one launch a group of degrees (1..3, 4, 5, 6)
 * Shapes  farfield_scatter.h; share [E] float64
 * Order   four (float64: two) interleaved sums over the channels of a tile (of half of one where LANES is 32), then
 *         those, then tiles ascending: fixed by the shape, so no run differs from another. No atomics
 * Bound   memory: every input and gradient once, s (2 E (D - 1 + lmax C) + N D C) + 4 E bytes: 564 MB at the shape
 *         named in scatter_fwd, 0.134 ms; H200: 0.149 ms (92 %), random edges 0.174 ms (79 %; why: docs/scatter.md)
 * Oracle  plain kernels of scatter_plain.cuh and the CPU row, tests/gpu/test_scatter.c
 * Care    channels c >= C are neither read nor written: in a tile with some, their places in shared memory are zeros */
#ifndef FF_CUDA_SCATTER_BWD_CUH
#define FF_CUDA_SCATTER_BWD_CUH

#include "scatter.cuh"

/* Places in shared memory. Rows of channels lie 16 bytes further apart than they are long, so that the same channels of
 * eight rows are in different banks. */
template <typename T, int LANES, bool FULL, int A, int B> struct bwd_shape {
    static constexpr int V = 8 / (int)sizeof(T), WIDE = LANES * V, AT_ONCE = 32 / LANES;
    static constexpr int UNIT = 16 / (int)sizeof(T), N = B * B + 2 * B - A * A + 1, P = 16; /* sums of an edge, last: spin */
    typedef edge_stage<T, FULL, A, B, WIDE, UNIT> stage;
    static constexpr int bytes = stage::size * (int)sizeof(T);
    /* Of a stage: what keeps ring, sums and slot of a block below 48 KiB. */
    static constexpr int EDGES = sizeof(T) == 8 ? (bytes <= 480 ? 2 : 1) : bytes <= 512 ? 4 : bytes <= 960 ? 2 : 1;
    static constexpr int STAGES = sizeof(T) == 8 && bytes > 960 ? 2 : 3;
    static_assert(N < P && EDGES >= AT_ONCE, "a lane a row");
};

/* Cotangents of the node held, times inv_sqrt_deg unless FULL: of row lane % 16, and of the lane's channels. */
template <typename T, int N> struct bwd_node {
    T row[8][16 / sizeof(T)], chan[N][8 / sizeof(T)];
};

/* One warp's slot for a node's cotangents: which node, whether they are there. All lanes hold the same. */
template <typename T> struct bwd_slot {
    T *place;
    uint64_t *bar;
    int node;
    unsigned parity;
    bool there;
};

/* Begins the copy of a node's cotangents into the slot that all lanes have left. */
template <typename T, int LANES, int WORD, bool FULL, int A, int B>
static __device__ __forceinline__ void bwd_fetch(const scatter_job<T> &j, bwd_slot<T> &slot, int node, int c0, int lane)
{
    typedef bwd_shape<T, LANES, FULL, A, B> shape;
    constexpr int W = WORD / (int)sizeof(T), words = shape::WIDE / W, ROWS = words < 32 ? 32 / words : 1;
    const T *from = strided(strided(j.cot + c0, node, (j.n_rows + 1) * j.row), A * A, j.row);
#pragma unroll
    for (int w0 = 0; w0 < words; w0 += 32) {
        const int w = (w0 + lane % words) * W, row0 = lane / words;
#pragma unroll
        for (int r = 0; r < shape::N; r += ROWS)
            if (r + row0 < shape::N && c0 + w < j.n_chan)
                copy_async<WORD>(slot.place + (r + row0) * shape::stage::line + w, strided(from + w, r + row0, j.row));
    }
    bar_arrive_copies(slot.bar);
    slot.node = node, slot.there = false;
}

/* Registers of the lanes that load get the cotangents of the node, which are on their way or, if nobody knew that it
 * would be next, fetched now. scale: inv_sqrt_deg of the node. */
template <typename T, int LANES, int WORD, bool FULL, int A, int B>
static __device__ __forceinline__ void bwd_load(const scatter_job<T> &j, bwd_slot<T> &slot,
                                                bwd_node<T, bwd_shape<T, LANES, FULL, A, B>::N> &G, int node, T scale,
                                                bool loads, int c0, int lane)
{
    typedef bwd_shape<T, LANES, FULL, A, B> shape;
    constexpr int line = shape::stage::line;
    if (slot.node != node) bwd_fetch<T, LANES, WORD, FULL, A, B>(j, slot, node, c0, lane);
    if (!slot.there) {
        bar_wait(slot.bar, slot.parity);
        slot.parity ^= 1, slot.there = true;
    }
    if (loads) {
        const int row = lane % 16 < shape::N ? lane % 16 : 0, half = shape::AT_ONCE == 1 ? lane / 16 : 0;
        const T *from = slot.place + row * line + half * 8 * shape::UNIT;
#pragma unroll
        for (int k = 0; k < 8; k++) load_shared(G.row[k], from + k * shape::UNIT);
#pragma unroll
        for (int r = 0; r < shape::N; r++) load_shared(G.chan[r], slot.place + r * line + lane % LANES * shape::V);
        if (!FULL && j.deg != NULL) {
#pragma unroll
            for (int k = 0; k < 8 * shape::UNIT; k++) G.row[k / shape::UNIT][k % shape::UNIT] *= scale;
#pragma unroll
            for (int k = 0; k < shape::N * shape::V; k++) G.chan[k / shape::V][k % shape::V] *= scale;
        }
    }
    __syncwarp();
}

/* Before edges i .. i + AT_ONCE - 1: the lanes of each get its node, then the slot is given to the node after the last,
 * unless that one will be asked for once more. fresh: bit k: edge k has another node than edge k - 1. node, scale: of edge
 * number lane. */
template <typename T, int LANES, int WORD, bool FULL, int A, int B>
static __device__ __forceinline__ void bwd_take(const scatter_job<T> &j, bwd_slot<T> &slot,
                                                bwd_node<T, bwd_shape<T, LANES, FULL, A, B>::N> &G, int i, int node,
                                                T scale, unsigned fresh, int c0, int lane)
{
    constexpr int AT_ONCE = 32 / LANES;
    const int last = i + AT_ONCE - 1, to = __shfl_sync(~0u, node, last);
    const T s = !FULL && j.deg != NULL ? __shfl_sync(~0u, scale, last) : 1;
    const bool mixed = AT_ONCE == 2 && fresh >> last & 1;
    if (mixed && (i == 0 || fresh >> (i - 1) & 3)) { /* lanes of the first: new, or left behind by the pair before */
        const T s0 = !FULL && j.deg != NULL ? __shfl_sync(~0u, scale, i) : 1;
        bwd_load<T, LANES, WORD, FULL, A, B>(j, slot, G, __shfl_sync(~0u, node, i), s0, lane < LANES, c0, lane);
    }
    bwd_load<T, LANES, WORD, FULL, A, B>(j, slot, G, to, s, !mixed || lane >= LANES, c0, lane);
    const unsigned ahead = mixed ? 0 : fresh >> (last + 1);
    if (ahead != 0)
        bwd_fetch<T, LANES, WORD, FULL, A, B>(j, slot, __shfl_sync(~0u, node, last + __ffs((int)ahead)), c0, lane);
}

/* Sum over the channels of a row of the edge; f: the row in the ring, at the lane's half of it if there are two. */
template <typename T, int LANES> static __device__ __forceinline__ T bwd_dot(const T (&G)[8][16 / sizeof(T)], const T *f)
{
    constexpr int UNIT = 16 / (int)sizeof(T);
    T sum[UNIT];
    set_zero(sum);
#pragma unroll
    for (int k = 0; k < 8; k++) {
        T x[UNIT];
        load_shared(x, f + k * UNIT);
#pragma unroll
        for (int q = 0; q < UNIT; q++) sum[q] = fma(G[k][q], x[q], sum[q]);
    }
#pragma unroll
    for (int n = UNIT / 2; n > 0; n /= 2) {
#pragma unroll
        for (int q = 0; q < n; q++) sum[q] += sum[q + n];
    }
    if (LANES == 32) sum[0] += __shfl_xor_sync(~0u, sum[0], 16);
    return sum[0];
}

/* The sum of row lane % 16 of the lane's edge; row 15: of cotangent x spin. */
template <typename T, int LANES, bool FULL, int A, int B>
static __device__ __forceinline__ T bwd_sum(const scatter_job<T> &j, const T (&G)[8][16 / sizeof(T)], const T *edge,
                                            int lane)
{
    typedef bwd_shape<T, LANES, FULL, A, B> shape;
    typedef typename shape::stage stage;
    const int row = lane % 16, half = shape::AT_ONCE == 1 ? lane / 16 * 8 * shape::UNIT : 0;
    const int deg = A > 1 || row < 3 || B < 2 ? 0 : row < 8 || B < 3 ? 1 : 2;
    const T *f = edge + stage::n_z + half;
    T sum = bwd_dot<T, LANES>(G, f + (row < shape::N ? deg : 0) * stage::line);
    if (FULL && A == 1 && j.spin != NULL) {
        const T one = bwd_dot<T, LANES>(G, f + (stage::n_deg + (row < 3 ? row : 0)) * stage::line);
        const T all = __shfl_sync(~0u, one, lane & 16) + __shfl_sync(~0u, one, (lane & 16) + 1) +
                      __shfl_sync(~0u, one, (lane & 16) + 2);
        if (row == shape::P - 1) sum = all;
    }
    return sum;
}

/* Gradients of features and spin of edge e, the lane's channels c .. c + V - 1, at most left of them. G: all rows. */
template <typename T, int LANES, int WORD, bool FULL, int A, int B>
static __device__ __forceinline__ void
bwd_channels(const scatter_job<T> &j, const T (&G)[bwd_shape<T, LANES, FULL, A, B>::N][8 / sizeof(T)], const T *edge,
             int e, T scale, int c, int left)
{
    constexpr int V = 8 / (int)sizeof(T);
    typedef typename bwd_shape<T, LANES, FULL, A, B>::stage stage;
    T z[stage::n_z];
    load_shared(z, edge);
#pragma unroll
    for (int k = 0; k <= B - A; k++) {
        const int l = A + k, row0 = l * l - A * A;
        T df[V];
        set_zero(df);
#pragma unroll
        for (int q = 0; q < 2 * B + 1; q++) { /* bounds that the compiler knows: indices of registers */
            if (q >= 2 * l + 1) break;
#pragma unroll
            for (int v = 0; v < V; v++) df[v] = fma(G[row0 + q][v], z[row0 + q], df[v]);
        }
        if (FULL) {
#pragma unroll
            for (int v = 0; v < V; v++) df[v] *= scale;
        }
        if (j.df != NULL && left > 0)
            store<V, WORD>(strided(strided(j.df + c, e, j.lmax * j.row), l - 1, j.row), df, left);
    }
    if (FULL && A == 1 && j.dspin != NULL && left > 0) {
#pragma unroll
        for (int r = 0; r < 3; r++) {
            T d_spin[V];
#pragma unroll
            for (int v = 0; v < V; v++) d_spin[v] = G[r][v] * scale;
            store<V, WORD>(strided(strided(j.dspin + c, e, 3 * j.row), r, j.row), d_spin, left);
        }
    }
}

/* What the item's sums give: gradients of the couplings; of gate and inv_sqrt_deg's share the part of these degrees.
 * id, node, scale: of edge number lane of the item. */
template <typename T, bool FULL, int A, int B>
static __device__ __forceinline__ void bwd_finish(const scatter_job<T> &j, int n, int id, int node, T scale, int lane,
                                                  const T *sums)
{
    constexpr int first = A * A - 1, rows = B * B + 2 * B - first, P = 16;
    if (j.dz != NULL) {
        const int r = lane % P;
#pragma unroll 4
        for (int i0 = 0; i0 < n; i0 += 32 / P) {
            const int i = i0 + lane / P;
            const int e = __shfl_sync(~0u, id, i & 31);
            const T s = FULL ? __shfl_sync(~0u, scale, i & 31) : 1;
            if (i < n && r < rows) *strided(j.dz + first + r, e, j.n_rows * (int)sizeof(T)) = sums[i * P + r] * s;
        }
    }
    if (!FULL || (j.dgate == NULL && j.share == NULL) || lane >= n) return;
    double sum = A > 1 ? j.share[id] : j.spin != NULL ? (double)sums[lane * P + P - 1] : 0.0;
    for (int r = 0; r < rows; r++)
        sum += (double)j.z[(int64_t)id * j.n_rows + first + r] * (double)sums[lane * P + r];
    const bool last = B == j.lmax;
    if (last && j.dgate != NULL) j.dgate[id] = (T)(sum * (j.deg != NULL ? (double)j.deg[node] : 1.0));
    if (j.share != NULL) j.share[id] = last && j.gate != NULL ? sum * (double)j.gate[id] : sum;
}

/* Blocks an SM that the compiler leaves registers for. */
static constexpr int bwd_blocks(bool full)
{
    return full ? 3 : 4;
}

/* The job as the compiler may see it. PLAIN: one tile of exactly WIDE channels and all of the degrees, nothing between an
 * edge's features, both gradients wanted, no scale; strides are then constants. */
template <typename T, int LANES, bool FULL, bool PLAIN, int A, int B>
static __device__ __forceinline__ scatter_job<T> bwd_known(const scatter_job<T> &job)
{
    scatter_job<T> j = job;
    if (!PLAIN) return j;
    j.n_chan = bwd_shape<T, LANES, FULL, A, B>::WIDE, j.n_tile = 1;
    j.lmax = B, j.n_rows = B * B + 2 * B;
    j.row = j.f_deg = j.n_chan * (int)sizeof(T), j.f_edge = B * j.row;
    j.deg = j.gate = j.spin = NULL;
    __builtin_assume(j.dz != NULL && j.df != NULL);
    return j;
}

template <typename T, int LANES> static bool bwd_plain(const scatter_job<T> *j)
{
    const int wide = LANES * 8 / (int)sizeof(T);
    return j->n_chan == wide && j->f_deg == j->row && j->f_edge == j->lmax * j->row && j->dz != NULL && j->df != NULL &&
           j->deg == NULL;
}

template <typename T, int LANES, int WORD, bool FULL, bool PLAIN, int A, int B>
static __global__ void __launch_bounds__(SCATTER_BLOCK, bwd_blocks(FULL)) scatter_bwd(const scatter_job<T> job)
{
    typedef bwd_shape<T, LANES, FULL, A, B> shape;
    typedef typename shape::stage stage;
    constexpr int EDGES = shape::EDGES, STAGES = shape::STAGES, P = shape::P, AT_ONCE = shape::AT_ONCE;
    __shared__ __align__(16) T ring[SCATTER_WARPS][STAGES][EDGES * stage::size];
    __shared__ __align__(16) T slots[SCATTER_WARPS][shape::N * stage::line];
    __shared__ T sums[PLAIN ? 1 : SCATTER_WARPS][SCATTER_BATCH * P];
    __shared__ uint64_t bars[SCATTER_WARPS];
    static_assert(sizeof ring + sizeof slots + sizeof sums + sizeof bars <= 48 * 1024, "static shared memory");
    const scatter_job<T> j = bwd_known<T, LANES, FULL, PLAIN, A, B>(job);
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, sub = lane / LANES;
    const int64_t first = ((int64_t)blockIdx.x * SCATTER_WARPS + warp) * SCATTER_BATCH;
    if (first >= j.n_edges) return;
    /* Lanes beyond the last edge repeat it, and write its gradients again. */
    const int n = j.n_edges - first < SCATTER_BATCH ? (int)(j.n_edges - first) : SCATTER_BATCH;
    const int2 visit = j.visit[first + (lane < n ? lane : n - 1)];
    const int id = visit.x, node = visit.y, before = __shfl_up_sync(~0u, node, 1);
    const unsigned fresh = __ballot_sync(~0u, lane > 0 && node != before);
    /* Bit k: edges k .. k + AT_ONCE - 1, k a multiple of it, need a node that their lanes do not have. */
    const unsigned takes = AT_ONCE == 1 ? fresh | 1 : fresh | fresh >> 1 | (fresh & 0xaaaaaaaa) << 1 | 1;
    const T deg = j.deg != NULL ? j.deg[node] : 1;
    const T scale = FULL && j.gate != NULL ? deg * j.gate[id] : deg;
    const bool at_once = !FULL && j.n_tile == 1; /* sums are the gradients of couplings */
    bwd_slot<T> slot = {slots[warp], &bars[warp], -1, 0, false};
    if (lane == 0) bar_init(slot.bar);
    for (int tile = 0; tile < j.n_tile; tile++) {
        const int c0 = tile * shape::WIDE, c = c0 + lane % LANES * shape::V;
        __syncwarp();
        if (c0 + shape::WIDE > j.n_chan) {
            for (int k = lane; k < STAGES * EDGES * stage::size; k += 32) (&ring[warp][0][0])[k] = 0;
            for (int k = lane; k < shape::N * stage::line; k += 32) slot.place[k] = 0;
            __syncwarp();
        }
        bwd_fetch<T, LANES, WORD, FULL, A, B>(j, slot, __shfl_sync(~0u, node, 0), c0, lane);
#pragma unroll
        for (int k = 0; k < STAGES - 1; k++)
            stage_edges<T, FULL, A, B, shape::WIDE, EDGES, WORD, shape::UNIT>(j, id, k * EDGES, SCATTER_BATCH, c0,
                                                                                   lane, ring[warp][k]);
        bwd_node<T, shape::N> G;
        for (int i0 = 0, k = 0; i0 < SCATTER_BATCH; i0 += EDGES, k = k + 1 < STAGES ? k + 1 : 0) {
            copies_wait<STAGES - 2>();
            stage_edges<T, FULL, A, B, shape::WIDE, EDGES, WORD, shape::UNIT>(
                j, id, i0 + (STAGES - 1) * EDGES, SCATTER_BATCH, c0, lane,
                ring[warp][k > 0 ? k - 1 : STAGES - 1]);
#pragma unroll
            for (int u = 0; u < EDGES; u += AT_ONCE) {
                const int i = i0 + u + sub, e = __shfl_sync(~0u, id, i), row = lane % 16;
                const T s = FULL ? __shfl_sync(~0u, scale, i) : 1;
                if (takes >> (i0 + u) & 1)
                    bwd_take<T, LANES, WORD, FULL, A, B>(j, slot, G, i0 + u, node, scale, fresh, c0, lane);
                const T *edge = ring[warp][k] + (u + sub) * stage::size;
                const T sum = bwd_sum<T, LANES, FULL, A, B>(j, G.row, edge, lane);
                bwd_channels<T, LANES, WORD, FULL, A, B>(j, G.chan, edge, e, s, c, j.n_chan - c);
                if (at_once) {
                    if (row < shape::N && lane < 16 * AT_ONCE && j.dz != NULL)
                        *strided(j.dz + A * A - 1 + row, e, j.n_rows * (int)sizeof(T)) = sum;
                } else if (!PLAIN && lane < 16 * AT_ONCE) {
                    sums[warp][i * P + row] = tile > 0 ? sums[warp][i * P + row] + sum : sum;
                }
            }
        }
    }
    __syncwarp();
    if (!at_once && !PLAIN) bwd_finish<T, FULL, A, B>(j, n, id, node, scale, lane, sums[PLAIN ? 0 : warp]);
}

template <typename T, int LANES, int WORD, bool FULL, int A, int B>
static cudaError_t bwd_launch(const scatter_job<T> *job, cudaStream_t s)
{
    scatter_job<T> j = *job;
    const int64_t blocks = (j.n_edges + SCATTER_BLOCK_EDGES - 1) / SCATTER_BLOCK_EDGES;
    constexpr int wide = bwd_shape<T, LANES, FULL, A, B>::WIDE;
    constexpr bool may = !FULL && WORD == 16 && A == 1;
    j.n_tile = (j.n_chan + wide - 1) / wide;
    if (blocks > 0 && may && B == j.lmax && bwd_plain<T, LANES>(&j))
        scatter_bwd<T, LANES, WORD, FULL, may, A, B><<<(unsigned)blocks, SCATTER_BLOCK, 0, s>>>(j);
    else if (blocks > 0)
        scatter_bwd<T, LANES, WORD, FULL, false, A, B><<<(unsigned)blocks, SCATTER_BLOCK, 0, s>>>(j);
    return cudaGetLastError();
}

/* The groups of degrees up to lmax; each adds to the share that the one before it left. */
template <typename T, int LANES, int WORD, bool FULL>
static cudaError_t bwd_groups(const scatter_job<T> *j, cudaStream_t s)
{
    cudaError_t e = j->lmax == 1   ? bwd_launch<T, LANES, WORD, FULL, 1, 1>(j, s)
                    : j->lmax == 2 ? bwd_launch<T, LANES, WORD, FULL, 1, 2>(j, s)
                                   : bwd_launch<T, LANES, WORD, FULL, 1, 3>(j, s);
    if (e == cudaSuccess && j->lmax >= 4) e = bwd_launch<T, LANES, WORD, FULL, 4, 4>(j, s);
    if (e == cudaSuccess && j->lmax >= 5) e = bwd_launch<T, LANES, WORD, FULL, 5, 5>(j, s);
    if (e == cudaSuccess && j->lmax >= 6) e = bwd_launch<T, LANES, WORD, FULL, 6, 6>(j, s);
    return e;
}
#endif
