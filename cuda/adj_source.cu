/* adj_features, adj_hidden, adj_features_back, adj_vectors_back, adj_source_weights, adj_terms: the pair adjoint's work a
 * source instead of a pair
 * Work    features and vectors of the records, a thread an item of a source; h0 = b + W features and feature cotangents
 *         W^T h0_bar, a block 64 x 64 entries; cotangents of vectors, a thread a vector of a source; weight gradients,
 *         a block 64 x 64 entries over 1 to 16 units; global vectors and length, a thread an entry of a unit
 * Launch  block 256; 8.5 KiB of shared memory; 4 x 4 entries a thread
 * Shapes  adj_source_io
 * Order   products in ascending index, a unit's sources in order, float32; rounded once a unit to the words of
 *         ff_sums.h, which are exact: no result depends on the grid or the ranks
 * Bound   FP32 arithmetic, 6 n_feat n_out FLOP a source and network: small beside the pairs
 * Oracle  unit.grad and unit.adj_tile on the host (ff_adj_source.h), gpu.pair_adjoint
 * Care    units past n_out have rows of zeros in the packed matrix; columns past n_feat are left out */
#include "ff_adj_source.cuh"

#include "ff_adj_device.cuh"

#include "ff_adj_tile.h"

enum { SOURCE_THREADS = 256, TILE = 64, DEPTH = 16, ROW = TILE + 4, MOST_UNITS = 16, ENOUGH_BLOCKS = 512 };

typedef float slab[DEPTH][ROW];

/* acc[i][j] += sum over k of a[k][4 ty + i] b[k][4 tx + j]. */
static __device__ __forceinline__ void slab_product(float (&acc)[4][4], const slab &a, const slab &b)
{
    int ty = (int)threadIdx.x / 16, tx = (int)threadIdx.x % 16;
#pragma unroll
    for (int k = 0; k < DEPTH; k++) {
        float4 x4 = *(const float4 *)&a[k][4 * ty], y4 = *(const float4 *)&b[k][4 * tx];
        float x[4] = {x4.x, x4.y, x4.z, x4.w}, y[4] = {y4.x, y4.y, y4.z, y4.w};
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int j = 0; j < 4; j++) acc[i][j] += x[i] * y[j];
    }
}

/* acc = the product over k in [begin, end). load(k0, e) brings the entries e of both slabs at k0, those past the end 0. */
template <class INDEX, class LOAD>
static __device__ __forceinline__ void each_slab(float (&acc)[4][4], const slab &a, const slab &b,
                                                 INDEX begin, INDEX end, LOAD load)
{
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) acc[i][j] = 0.0f;
    for (INDEX k0 = begin; k0 < end; k0 += DEPTH) {
#pragma unroll
        for (int r = 0; r < TILE * DEPTH / SOURCE_THREADS; r++)
            load(k0, (int)threadIdx.x + r * SOURCE_THREADS);
        __syncthreads();
        slab_product(acc, a, b);
        __syncthreads();
    }
}

/* take(row, column, value) of the thread's entries. */
template <class TAKE> static __device__ __forceinline__ void each_entry(const float (&acc)[4][4], TAKE take)
{
    int ty = (int)threadIdx.x / 16, tx = (int)threadIdx.x % 16;
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) take(4 * ty + i, 4 * tx + j, acc[i][j]);
}

static __global__ void __launch_bounds__(SOURCE_THREADS)
    adj_features(const __grid_constant__ ff_adj_source c, const __grid_constant__ adj_source_io io)
{
    int64_t t = (int64_t)blockIdx.x * SOURCE_THREADS + threadIdx.x, items = ff_adj_source_items(&c),
            s = io.slot_begin + t / items;
    if (s < io.slot_end)
        ff_adj_source_item(&c, io.raw + s * c.n_raw, io.gvec, (int)(t % items), io.feat + s * (c.n_feat + 1),
                           io.rec + s * c.rec_len);
}

static __global__ void __launch_bounds__(SOURCE_THREADS)
    adj_hidden(const __grid_constant__ ff_adj_source c, const __grid_constant__ adj_source_io io)
{
    __shared__ __align__(16) slab a, b;
    int out0 = (int)blockIdx.y * TILE;
    int64_t slot0 = io.slot_begin + (int64_t)blockIdx.x * TILE;
    float acc[4][4];
    each_slab(acc, a, b, 0, c.n_feat, [&](int k0, int e) {
        int k = e % DEPTH, i = e / DEPTH;
        bool here = k0 + k < c.n_feat && slot0 + i < io.slot_end;
        a[k][i] = here ? io.feat[(slot0 + i) * (c.n_feat + 1) + k0 + k] : 0.0f;
        k = e / TILE;
        i = e % TILE;
        here = k0 + k < c.n_feat && out0 + i < c.off_m;
        b[k][i] = here ? io.w[ff_adj_source_at(&c, out0 + i, k0 + k)] : 0.0f;
    });
    each_entry(acc, [&](int row, int col, float v) {
        int64_t s = slot0 + row;
        int o = out0 + col;
        if (s < io.slot_end && o < c.off_m) io.rec[s * c.rec_len + o] = v + io.b[o];
    });
}

static __global__ void __launch_bounds__(SOURCE_THREADS)
    adj_features_back(const __grid_constant__ ff_adj_source c, const __grid_constant__ adj_source_io io)
{
    __shared__ __align__(16) slab a, b;
    int feat0 = (int)blockIdx.y * TILE;
    int64_t slot0 = io.slot_begin + (int64_t)blockIdx.x * TILE;
    float acc[4][4];
    each_slab(acc, a, b, 0, c.n_out, [&](int k0, int e) {
        int k = e % DEPTH, i = e / DEPTH;
        bool here = k0 + k < c.n_out && slot0 + i < io.slot_end;
        a[k][i] = here ? (float)io.rows[(slot0 + i) * c.row_len + k0 + k] : 0.0f;
        k = e % 8 + e / (8 * TILE) * 8; /* a weight's neighbours are those of the next units */
        i = e / 8 % TILE;
        here = k0 + k < c.n_out && feat0 + i < c.n_feat;
        b[k][i] = here ? io.w[ff_adj_source_at(&c, k0 + k, feat0 + i)] : 0.0f;
    });
    each_entry(acc, [&](int row, int col, float v) {
        int64_t s = slot0 + row;
        int f = feat0 + col;
        if (s < io.slot_end && f < c.n_feat) io.feat_bar[s * c.n_feat + f] = v;
    });
}

static __global__ void __launch_bounds__(SOURCE_THREADS)
    adj_vectors_back(const __grid_constant__ ff_adj_source c, const __grid_constant__ adj_source_io io)
{
    int64_t t = (int64_t)blockIdx.x * SOURCE_THREADS + threadIdx.x, items = ff_adj_source_back_items(&c),
            s = io.slot_begin + t / items;
    if (s >= io.slot_end) return;
    ff_adj_source_bar out = {io.raw_bar + s * c.n_raw, io.strength_bar + s,
                             io.x_bar != NULL ? io.x_bar + s * c.dim : NULL,
                             io.gvec_bar + s * c.n_gvec * (2 + c.dim), io.first};
    ff_adj_source_back(&c, io.rec + s * c.rec_len, io.rows + s * c.row_len, io.feat_bar + s * c.n_feat,
                       (int)(t % items), &out);
}

static __global__ void __launch_bounds__(SOURCE_THREADS)
    adj_source_weights(const __grid_constant__ ff_adj_source c, const __grid_constant__ adj_source_io io,
                       int units)
{
    __shared__ __align__(16) slab a, b;
    int ty = (int)threadIdx.x / 16, tx = (int)threadIdx.x % 16, out0 = (int)blockIdx.y * TILE,
        feat0 = (int)blockIdx.z * TILE;
    int64_t first = io.unit_begin + (int64_t)blockIdx.x * units,
            last = first + units < io.unit_end ? first + units : io.unit_end, hi[4][4] = {}, lo[4][4] = {};
    float acc[4][4];
    bool good = true;
    for (int64_t u = first; u < last; u++) {
        int64_t end = io.unit_off[u + 1];
        each_slab(acc, a, b, io.unit_off[u], end, [&](int64_t s0, int e) {
            int k = e / TILE, i = e % TILE;
            int64_t s = s0 + k;
            a[k][i] = s < end && out0 + i < c.n_out ? (float)io.rows[s * c.row_len + out0 + i] : 0.0f;
            b[k][i] = s < end && feat0 + i <= c.n_feat ? io.feat[s * (c.n_feat + 1) + feat0 + i] : 0.0f;
        });
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int j = 0; j < 4; j++) {
                int64_t h = 0, l = 0;
                good = adj_exact_words((double)acc[i][j], &h, &l) && good;
                hi[i][j] += h;
                lo[i][j] += l;
            }
    }
    if (!good) *io.bad = 1;
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) {
            int o = out0 + 4 * ty + i, f = feat0 + 4 * tx + j;
            if (o >= c.n_out || f > c.n_feat || (hi[i][j] == 0 && lo[i][j] == 0)) continue;
            int64_t at = f < c.n_feat ? c.at_w + (int64_t)o * c.pitch + f : c.at_b + o;
            adj_words_add(io.grad + 2 * at, hi[i][j], lo[i][j], io.bad);
        }
}

static __global__ void __launch_bounds__(SOURCE_THREADS)
    adj_terms(const __grid_constant__ ff_adj_source c, const __grid_constant__ adj_source_io io)
{
    int per = c.n_gvec * (2 + c.dim) + 1;
    int64_t t = (int64_t)blockIdx.x * SOURCE_THREADS + threadIdx.x, u = io.unit_begin + t / per;
    int entry = (int)(t % per);
    double sum = 0.0;
    if (u >= io.unit_end) return;
#pragma unroll 8 /* loads ahead: few threads, each of which would wait for one after the other */
    for (int64_t s = io.unit_off[u]; s < io.unit_off[u + 1]; s++)
        sum += ff_adj_source_term(&c, io.rows + s * c.row_len, io.gvec_bar + s * (per - 1), entry);
    adj_exact_add(io.grad + 2 * ff_adj_source_term_at(&c, entry), (float)sum, io.bad);
}

static unsigned blocks(int64_t n, int64_t per)
{
    return (unsigned)((n + per - 1) / per);
}

cudaError_t adj_source_features(const ff_adj_source *c, const adj_source_io *io, cudaStream_t s)
{
    int64_t n = io->slot_end - io->slot_begin;
    if (n == 0) return cudaSuccess;
    adj_features<<<blocks(n * ff_adj_source_items(c), SOURCE_THREADS), SOURCE_THREADS, 0, s>>>(*c, *io);
    return cudaGetLastError();
}

cudaError_t adj_source_hidden(const ff_adj_source *c, const adj_source_io *io, cudaStream_t s)
{
    int64_t n = io->slot_end - io->slot_begin;
    if (n == 0) return cudaSuccess;
    dim3 grid(blocks(n, TILE), blocks(c->off_m, TILE));
    adj_hidden<<<grid, SOURCE_THREADS, 0, s>>>(*c, *io);
    return cudaGetLastError();
}

cudaError_t adj_source_back(const ff_adj_source *c, const adj_source_io *io, cudaStream_t s)
{
    int64_t n = io->slot_end - io->slot_begin, units = io->unit_end - io->unit_begin;
    if (n == 0) return cudaSuccess;
    if (c->n_feat > 0) {
        dim3 grid(blocks(n, TILE), blocks(c->n_feat, TILE));
        adj_features_back<<<grid, SOURCE_THREADS, 0, s>>>(*c, *io);
    }
    adj_vectors_back<<<blocks(n * ff_adj_source_back_items(c), SOURCE_THREADS), SOURCE_THREADS, 0, s>>>(*c,
                                                                                                        *io);
    dim3 grid(1, blocks(c->n_out, TILE), blocks(c->n_feat + 1, TILE));
    int64_t per = units * grid.y * grid.z / ENOUGH_BLOCKS + 1;
    if (per > MOST_UNITS) per = MOST_UNITS;
    grid.x = blocks(units, per);
    adj_source_weights<<<grid, SOURCE_THREADS, 0, s>>>(*c, *io, (int)per);
    adj_terms<<<blocks(units * (c->n_gvec * (2 + c->dim) + 1), SOURCE_THREADS), SOURCE_THREADS, 0, s>>>(*c,
                                                                                                        *io);
    return cudaGetLastError();
}
