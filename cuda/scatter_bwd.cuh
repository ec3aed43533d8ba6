/* scatter_bwd: gradients of every input of the scatter for the cotangent of its output, in one pass over the edges
 * Work    one warp SCATTER_BATCH edges in the order of visit, few nodes in a row: cotangent rows of degrees A .. B of
 *         the node at hand stay in registers, V channels a thread, LANES threads an edge, 32 / LANES edges at once.
 *         Couplings and features (and spin) pass through a ring in shared memory. Sums over channels are scattered over
 *         the threads while they are halved and collected in shared memory until the couplings' gradients are
 *         written together
 * Launch  grid E / 128, block 128, one launch a group of degrees (1..3, 4, 5, 6)
 * Shapes  farfield_scatter.h; share [E] float64
 * Order   channels of a thread ascending, threads by halving, tiles of LANES x V channels ascending: fixed by the
 *         shape and the alignment of the arrays, so no run differs from another. No atomics
 * Bound   memory: every input and gradient once, s (2 E (D - 1 + lmax C) + N D C) + 4 E bytes: 564 MB at the shape
 *         named in scatter_fwd, 0.134 ms; H200: 0.150 ms (91 %), random edges 0.189 ms (72 %; why:
 *         docs/scatter.md). A cotangent is read once a node and window (from L2), not once an edge
 * Oracle  plain kernels of scatter_plain.cuh and the CPU row, tests/gpu/test_scatter.c
 * Care    channels c >= C are neither read nor written: their cotangents are zeros, their places in the ring are not
 *         used; what the ring holds beyond the item's edges is not used either */
#ifndef FF_CUDA_SCATTER_BWD_CUH
#define FF_CUDA_SCATTER_BWD_CUH

#include "scatter.cuh"

/* Sums of an edge, a power of two: the rows of degrees A .. B, and the last for cotangent x spin. */
template <bool FULL, int A, int B> struct bwd_sums {
    static constexpr int n = B * B + 2 * B - A * A + 1, want = n + (FULL && A == 1 ? 1 : 0);
    static constexpr int size = want <= 4 ? 4 : want <= 8 ? 8 : 16;
};

/* p [P] summed over the LANES threads of an edge: each thread is left with max(P / LANES, 1) of the sums, from *first
 * on; if LANES > P, groups of LANES / P threads hold the same one. */
template <typename T, int LANES, int P>
static __device__ __forceinline__ void bwd_halve(T (&p)[P], int lane, int *first)
{
    int n = P;
    *first = 0;
#pragma unroll
    for (int m = LANES / 2; m >= 1; m /= 2) {
        if (n > 1) {
            n /= 2;
            const bool high = (lane & m) != 0;
            *first += high ? n : 0;
#pragma unroll
            for (int i = 0; i < P / 2; i++) {
                if (i >= n) break;
                const T send = high ? p[i] : p[i + n], keep = high ? p[i + n] : p[i];
                p[i] = keep + __shfl_xor_sync(~0u, send, m);
            }
        } else {
            p[0] += __shfl_xor_sync(~0u, p[0], m);
        }
    }
}

/* One edge, LANES threads: gradients of its features and spin written, its sums added to sums [bwd_sums::size]. G: the
 * node's cotangents of these threads' channels c .. c + V - 1, zeros where left = C - c <= 0. in: e is an edge. */
template <typename T, int V, int LANES, int WORD, bool FULL, int A, int B>
static __device__ __forceinline__ void
bwd_edge(const scatter_job<T> &j, const T (&G)[bwd_sums<FULL, A, B>::n][V], const T *edge, int e, T scale,
         bool in, int c, int mine, bool more, T *sums)
{
    typedef edge_stage<T, FULL, A, B, LANES * V> stage;
    constexpr int P = bwd_sums<FULL, A, B>::size, LEFT = P > LANES ? P / LANES : 1,
                  SAME = LANES > P ? LANES / P : 1;
    const int left = in ? j.n_chan - c : 0;
    T p[P], z[stage::n_z];
    set_zero(p);
    load_shared(z, edge);
#pragma unroll
    for (int k = 0; k <= B - A; k++) {
        const int l = A + k, row0 = l * l - A * A;
        T f[V], df[V];
        set_zero(f);
        set_zero(df);
        if (left > 0) load_shared(f, edge + stage::n_z + (k * LANES + mine) * V);
#pragma unroll
        for (int q = 0; q < 2 * B + 1; q++) { /* bounds that the compiler knows: indices of registers */
            if (q >= 2 * l + 1) break;
#pragma unroll
            for (int v = 0; v < V; v++) {
                p[row0 + q] = fma(G[row0 + q][v], f[v], p[row0 + q]);
                df[v] = fma(G[row0 + q][v], z[row0 + q], df[v]);
            }
        }
        if (j.df != NULL && left > 0) {
#pragma unroll
            for (int v = 0; v < V; v++) df[v] *= scale;
            store<V, WORD>(strided(strided(j.df + c, e, j.lmax * j.row), l - 1, j.row), df, left);
        }
    }
    if (FULL && A == 1 && left > 0) {
#pragma unroll
        for (int r = 0; r < 3; r++) {
            T spin[V], d_spin[V];
            set_zero(spin);
            if (j.spin != NULL)
                load_shared(spin, edge + stage::n_z + ((stage::n_deg + r) * LANES + mine) * V);
#pragma unroll
            for (int v = 0; v < V; v++) {
                p[P - 1] = fma(G[r][v], spin[v], p[P - 1]);
                d_spin[v] = G[r][v] * scale;
            }
            if (j.dspin != NULL)
                store<V, WORD>(strided(strided(j.dspin + c, e, 3 * j.row), r, j.row), d_spin, left);
        }
    }
    int first;
    bwd_halve<T, LANES, P>(p, mine, &first);
    if (!in || mine % SAME != 0) return;
#pragma unroll
    for (int k = 0; k < LEFT; k++) sums[first + k] = more ? sums[first + k] + p[k] : p[k];
}

/* What the item's sums give: gradients of the couplings; of gate and inv_sqrt_deg's share the part of these degrees.
 * id, node, scale: of edge number lane of the item. */
template <typename T, bool FULL, int A, int B>
static __device__ __forceinline__ void bwd_finish(const scatter_job<T> &j, int n, int id, int node, T scale,
                                                  int lane, const T *sums)
{
    constexpr int first = A * A - 1, rows = bwd_sums<FULL, A, B>::n, P = bwd_sums<FULL, A, B>::size;
    if (j.dz != NULL) {
        const int r = lane % P;
#pragma unroll 4
        for (int i0 = 0; i0 < n; i0 += 32 / P) {
            const int i = i0 + lane / P;
            const int e = __shfl_sync(~0u, id, i & 31);
            const T s = __shfl_sync(~0u, scale, i & 31);
            if (i < n && r < rows)
                *strided(j.dz + first + r, e, j.n_rows * (int)sizeof(T)) = sums[i * P + r] * s;
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

/* Blocks an SM that the compiler leaves registers for: 5 hide what a new node's cotangents take to arrive. */
static constexpr int bwd_blocks(int bytes, int lanes, int word, bool full)
{
    return bytes == 8 && lanes == 16 && word == 16 && !full ? 5 : 1;
}

template <typename T, int V, int LANES, int WORD, bool FULL, int A, int B>
static __global__ void __launch_bounds__(SCATTER_BLOCK, bwd_blocks(V *(int)sizeof(T), LANES, WORD, FULL))
    scatter_bwd(const scatter_job<T> j)
{
    constexpr int WIDE = LANES * V, STAGES = 3, AT_ONCE = 32 / LANES, N = bwd_sums<FULL, A, B>::n;
    /* Of a stage: what keeps ring and sums of a block below 48 KiB. */
    constexpr int EDGES = AT_ONCE > 2 || sizeof(T) * WIDE <= 128 ? 4 : FULL && sizeof(T) == 8 ? 1 : 2;
    constexpr int P = bwd_sums<FULL, A, B>::size;
    typedef edge_stage<T, FULL, A, B, WIDE> stage;
    __shared__ __align__(16) T ring[SCATTER_WARPS][STAGES][EDGES * stage::size];
    __shared__ T sums[SCATTER_WARPS][SCATTER_BATCH * P];
    static_assert(sizeof ring + sizeof sums <= 48 * 1024, "static shared memory");
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, sub = lane / LANES,
              mine = lane % LANES;
    const int64_t first = ((int64_t)blockIdx.x * SCATTER_WARPS + warp) * SCATTER_BATCH;
    if (first >= j.n_edges) return;
    const int n = j.n_edges - first < SCATTER_BATCH ? (int)(j.n_edges - first) : SCATTER_BATCH;
    const int2 visit = j.visit[first + (lane < n ? lane : n - 1)];
    const int id = visit.x, node = visit.y;
    const T deg = j.deg != NULL ? j.deg[node] : 1;
    const T scale = FULL && j.gate != NULL ? deg * j.gate[id] : deg;
    for (int tile = 0; tile < j.n_tile; tile++) {
        const int c0 = tile * WIDE, c = c0 + mine * V;
        __syncwarp();
#pragma unroll
        for (int k = 0; k < STAGES - 1; k++)
            stage_edges<T, FULL, A, B, WIDE, EDGES, WORD>(j, id, k * EDGES, n, c0, lane, ring[warp][k]);
        T G[N][V];
        int held = -1; /* node whose cotangents are in G */
        for (int i0 = 0, k = 0; i0 < n; i0 += EDGES, k = k + 1 < STAGES ? k + 1 : 0) {
            copies_wait<STAGES - 2>();
            stage_edges<T, FULL, A, B, WIDE, EDGES, WORD>(j, id, i0 + (STAGES - 1) * EDGES, n, c0, lane,
                                                          ring[warp][k > 0 ? k - 1 : STAGES - 1]);
#pragma unroll
            for (int u = 0; u < EDGES; u += AT_ONCE) {
                const int i = i0 + u + sub, to = __shfl_sync(~0u, node, i & 31);
                if (to != held) {
                    held = to;
#pragma unroll
                    for (int r = 0; r < N; r++)
                        load_node<V, WORD>(G[r],
                                           strided(strided(j.cot + c, to, (j.n_rows + 1) * j.row), A * A + r, j.row),
                                           j.n_chan - c);
                }
                bwd_edge<T, V, LANES, WORD, FULL, A, B>(
                    j, G, ring[warp][k] + (u + sub) * stage::size, __shfl_sync(~0u, id, i & 31),
                    __shfl_sync(~0u, scale, i & 31), i<n, c, mine, tile> 0,
                    sums[warp] + i % SCATTER_BATCH * P);
            }
        }
    }
    __syncwarp();
    bwd_finish<T, FULL, A, B>(j, n, id, node, scale, lane, sums[warp]);
}

template <typename T, int V, int LANES, int WORD, bool FULL, int A, int B>
static cudaError_t bwd_launch(const scatter_job<T> *job, cudaStream_t s)
{
    scatter_job<T> j = *job;
    const int64_t blocks = (j.n_edges + SCATTER_BLOCK_EDGES - 1) / SCATTER_BLOCK_EDGES;
    j.n_tile = (j.n_chan + LANES * V - 1) / (LANES * V);
    if (blocks > 0) scatter_bwd<T, V, LANES, WORD, FULL, A, B><<<(unsigned)blocks, SCATTER_BLOCK, 0, s>>>(j);
    return cudaGetLastError();
}

/* The groups of degrees up to lmax; each adds to the share that the one before it left. */
template <typename T, int V, int LANES, int WORD, bool FULL>
static cudaError_t bwd_groups(const scatter_job<T> *j, cudaStream_t s)
{
    cudaError_t e = j->lmax == 1   ? bwd_launch<T, V, LANES, WORD, FULL, 1, 1>(j, s)
                    : j->lmax == 2 ? bwd_launch<T, V, LANES, WORD, FULL, 1, 2>(j, s)
                                   : bwd_launch<T, V, LANES, WORD, FULL, 1, 3>(j, s);
    if (e == cudaSuccess && j->lmax >= 4) e = bwd_launch<T, V, LANES, WORD, FULL, 4, 4>(j, s);
    if (e == cudaSuccess && j->lmax >= 5) e = bwd_launch<T, V, LANES, WORD, FULL, 5, 5>(j, s);
    if (e == cudaSuccess && j->lmax >= 6) e = bwd_launch<T, V, LANES, WORD, FULL, 6, 6>(j, s);
    return e;
}
#endif
