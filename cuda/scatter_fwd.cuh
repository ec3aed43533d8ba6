/* scatter_fwd: out[n, 1 + row, c] = scale[n] * sum over edges e of n of ((z[e, row] * f[e, l(row) - 1, c]) + spin) * gate
 * Work    one warp an item and tile of 32 V channels; a thread sums V channels of the rows of degrees A .. B in registers.
 *         Items: pieces of FF_SCATTER_PIECE edges of long nodes (float32), then nodes. Couplings and features (and spin)
 *         pass through a ring of STAGES stages of EDGES edges in shared memory; edge numbers are read 32 edges ahead
 * Launch  grid items x tiles / 4, block 128, one launch a group of degrees (1..3, 4..5, 6)
 * Shapes  farfield_scatter.h; part [n_piece][n_rows][n_chan]
 * Order   edges ascending, each element alone: the bits of the CPU. A long node in float32: pieces, then their sums
 *         (scatter_pieces); in float64: scatter_chain
 * Bound   memory: every input and output once, s (E (D - 1 + lmax C) + N D C) + 4 E + 8 N bytes: 287 MB at N 4096,
 *         E 622,592, C 32, lmax 3 in float32, 0.068 ms at a copy's 4.2 TB/s; H200: 0.076 ms (92 % of the copy), random
 *         edges 0.080 ms (87 %). bench scatter, docs/scatter.md
 * Oracle  plain kernels of scatter_plain.cuh and the CPU row, tests/gpu/test_scatter.c
 * Care    lanes with c >= C load, add and store nothing; places beyond the item's edges are not read */
#ifndef FF_CUDA_SCATTER_FWD_CUH
#define FF_CUDA_SCATTER_FWD_CUH

#include "scatter.cuh"

/* Messages of one edge in shared memory added to the sums of channels lane V .. lane V + V - 1 of the tile. */
template <typename T, int V, bool FULL, int A, int B>
static __device__ __forceinline__ void fwd_add(const T *edge, int lane, bool spin, bool gated,
                                               T (&acc)[B * B + 2 * B - A * A + 1][V])
{
    typedef edge_stage<T, FULL, A, B, 32 * V> stage;
    T z[stage::n_z], f[stage::n_chan_rows][V];
    load_shared(z, edge);
    const T gate = gated ? z[stage::n_z > stage::n ? stage::n : 0] : 1; /* there only if FULL */
#pragma unroll
    for (int k = 0; k < stage::n_chan_rows; k++) load_shared(f[k], edge + stage::n_z + (k * 32 + lane) * V);
#pragma unroll
    for (int r = 0; r < stage::n; r++) {
        const int row = stage::first + r;
        const int l = row < 3 ? 1 : row < 8 ? 2 : row < 15 ? 3 : row < 24 ? 4 : row < 35 ? 5 : 6;
        const bool has =
            stage::n_chan_rows > stage::n_deg && row < 3; /* a row of spin, after those of features */
        const int at = has ? stage::n_deg + row : 0;
#pragma unroll
        for (int v = 0; v < V; v++)
            acc[r][v] +=
                !FULL ? z[r] * f[l - A][v] : message(z[r], f[l - A][v], has && spin ? f[at][v] : 0, gate);
    }
}

/* Rows A .. B of the item's node, or of its piece in part. */
template <typename T, int V, int WORD, bool FULL, int A, int B>
static __device__ __forceinline__ void fwd_write(const scatter_job<T> &j, int64_t node, int64_t slot, int c,
                                                 T (&acc)[B * B + 2 * B - A * A + 1][V])
{
    typedef edge_stage<T, FULL, A, B, 32 * V> stage;
    T *to = slot >= 0 ? j.part + (slot * j.n_rows + stage::first) * j.n_chan + c
                      : j.out + (node * (j.n_rows + 1) + 1 + stage::first) * j.n_chan + c;
    if (slot < 0 && A == 1) {
        T zero[V];
        set_zero(zero);
        store<V, WORD>(to - j.n_chan, zero, j.n_chan - c);
    }
    const bool scaled = slot < 0 && j.deg != NULL;
    const T scale = scaled ? j.deg[node] : 1;
#pragma unroll
    for (int r = 0; r < stage::n; r++) {
        if (scaled) {
#pragma unroll
            for (int v = 0; v < V; v++) acc[r][v] *= scale;
        }
        store<V, WORD>(to + (int64_t)r * j.n_chan, acc[r], j.n_chan - c);
    }
}

/* The item's node and its places [k0, k1) in edge; slot: its piece, -1: a node. False: a long node, served elsewhere. */
template <typename T>
static __device__ __forceinline__ bool fwd_item(const scatter_job<T> &j, int64_t item, int64_t *node,
                                                int64_t *k0, int64_t *k1, int64_t *slot)
{
    *slot = -1;
    if (sizeof(T) == 4) {
        if (item < j.n_piece) {
            const int4 p = j.piece[item];
            *node = p.x, *k0 = p.y, *k1 = p.z, *slot = item;
            return true;
        }
        item -= j.n_piece;
    }
    *node = item, *k0 = j.off[item], *k1 = j.off[item + 1];
    return *k1 - *k0 <= FF_SCATTER_PIECE;
}

/* Blocks an SM that the compiler leaves registers for: with 8, all 4096 nodes of the production shape are resident. */
static constexpr int fwd_blocks(int bytes, int word, bool full)
{
    return bytes > 4 || full ? 1 : word == 16 ? 8 : 6;
}

template <typename T, int V, int STAGES, int EDGES, int WORD, bool FULL, int A, int B>
static __global__ void __launch_bounds__(SCATTER_BLOCK, fwd_blocks(V *(int)sizeof(T), WORD, FULL))
    scatter_fwd(const scatter_job<T> j, const int64_t n_item)
{
    typedef edge_stage<T, FULL, A, B, 32 * V> stage;
    __shared__ __align__(16) T ring[SCATTER_WARPS][STAGES][EDGES * stage::size];
    static_assert(sizeof ring <= 48 * 1024, "static shared memory");
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    const int64_t at = (int64_t)blockIdx.x * SCATTER_WARPS + warp;
    const int c0 = (int)(at % j.n_tile) * 32 * V, c = c0 + lane * V;
    int64_t node, k0, k1, slot;
    if (at / j.n_tile >= n_item || !fwd_item(j, at / j.n_tile, &node, &k0, &k1, &slot)) return;
    const int n = (int)(k1 - k0);
    const int32_t *edge = j.edge + k0;
    T acc[stage::n][V];
#pragma unroll
    for (int r = 0; r < stage::n; r++) set_zero(acc[r]);

    const bool gated = FULL && j.gate != NULL;
    int id = lane < n ? edge[lane] : 0, id_next = 32 + lane < n ? edge[32 + lane] : 0, staged = 0;
#pragma unroll
    for (int k = 0; k < STAGES - 1; k++, staged += EDGES)
        stage_edges<T, FULL, A, B, 32 * V, EDGES, WORD>(j, id, staged, n, c0, lane, ring[warp][k]);
    for (int i = 0, k = 0; i < n; i += EDGES, k = k + 1 < STAGES ? k + 1 : 0) {
        if (staged % 32 == 0) {
            id = id_next;
            id_next = staged + 32 + lane < n ? edge[staged + 32 + lane] : 0;
        }
        copies_wait<STAGES - 2>(); /* after it, too, all lanes have left the stage that is filled next */
        stage_edges<T, FULL, A, B, 32 * V, EDGES, WORD>(j, id, staged, n, c0, lane,
                                                        ring[warp][k > 0 ? k - 1 : STAGES - 1]);
        staged += EDGES;
#pragma unroll
        for (int u = 0; u < EDGES; u++) {
            if (i + u < n)
                fwd_add<T, V, FULL, A, B>(ring[warp][k] + u * stage::size, lane, j.spin != NULL, gated, acc);
        }
    }
    if (c < j.n_chan) fwd_write<T, V, WORD, FULL, A, B>(j, node, slot, c, acc);
}

enum { PIECE_LANES = 8 };

/* Long nodes in float32: out from the sums of the pieces. PIECE_LANES threads an element, row 0 included, each every
 * eighth piece in order; then their sums in order. Neighbouring threads take neighbouring elements. */
template <typename T> static __global__ void scatter_pieces(const scatter_job<T> j)
{
    constexpr int WIDTH = SCATTER_BLOCK / PIECE_LANES;
    __shared__ T sums[PIECE_LANES][WIDTH];
    const int x = (int)threadIdx.x % WIDTH, lane = (int)threadIdx.x / WIDTH;
    const int64_t per_node = (int64_t)(j.n_rows + 1) * j.n_chan, per_piece = per_node - j.n_chan;
    const int64_t at = (int64_t)blockIdx.x * WIDTH + x;
    const bool in = at < j.n_long * per_node;
    const int4 node = in ? j.lng[at / per_node] : make_int4(0, 0, 0, 0);
    const int64_t i = at % per_node - j.n_chan;
    const T *part = j.part + (int64_t)node.y * per_piece + i;
    T sum = 0;
#pragma unroll 4
    for (int k = lane; k < node.z && i >= 0; k += PIECE_LANES) sum += part[k * per_piece];
    sums[lane][x] = sum;
    __syncthreads();
    if (lane > 0 || !in) return;
    for (int k = 1; k < PIECE_LANES; k++) sum += sums[k][x];
    if (i >= 0 && j.deg != NULL) sum *= j.deg[node.x];
    j.out[node.x * per_node + j.n_chan + i] = sum;
}

template <typename T, int V, int STAGES, int EDGES, int WORD, bool FULL, int A, int B>
static cudaError_t fwd_launch(const scatter_job<T> *job, int64_t n_item, cudaStream_t s)
{
    scatter_job<T> j = *job;
    j.n_tile = (j.n_chan + 32 * V - 1) / (32 * V);
    const int64_t blocks = (n_item * j.n_tile + SCATTER_WARPS - 1) / SCATTER_WARPS;
    if (blocks > INT32_MAX) return cudaErrorInvalidConfiguration;
    if (blocks > 0)
        scatter_fwd<T, V, STAGES, EDGES, WORD, FULL, A, B>
            <<<(unsigned)blocks, SCATTER_BLOCK, 0, s>>>(j, n_item);
    return cudaGetLastError();
}

/* The groups of degrees up to lmax. A ring holds about 5 KiB. */
template <typename T, int V, int WORD, bool FULL>
static cudaError_t fwd_groups(const scatter_job<T> *j, cudaStream_t s)
{
    constexpr int S = 3, E = V * sizeof(T) > 4 || FULL ? 2 : 4;
    const int64_t n = j->n_nodes + (sizeof(T) == 4 ? j->n_piece : 0);
    cudaError_t e = j->lmax == 1   ? fwd_launch<T, V, S, E, WORD, FULL, 1, 1>(j, n, s)
                    : j->lmax == 2 ? fwd_launch<T, V, S, E, WORD, FULL, 1, 2>(j, n, s)
                                   : fwd_launch<T, V, S, E, WORD, FULL, 1, 3>(j, n, s);
    if (e == cudaSuccess && j->lmax == 4) e = fwd_launch<T, V, S, E, WORD, FULL, 4, 4>(j, n, s);
    if (e == cudaSuccess && j->lmax >= 5) e = fwd_launch<T, V, S, E, WORD, FULL, 4, 5>(j, n, s);
    if (e == cudaSuccess && j->lmax >= 6) e = fwd_launch<T, V, S, E, WORD, FULL, 6, 6>(j, n, s);
    return e;
}
#endif
