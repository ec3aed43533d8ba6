/* pair_globe_adj, adj_weights, adj_rows: the adjoint of GLOBE pair sums at the sources' owner (wide networks in bf16 on
 * sm_90: adj_wide_tile.cu, adj_wide_weights.cu)
 * Work    pair_globe_adj: a block takes a tile of 16 mt wr pairs (groups of 16 of one source), evaluates them again and
 *         walks backward (src/kernel/ff_adj_tile.h, the text that the host's test runs, too); activations, SiLU' and
 *         cotangents of the layers go to the chunk. adj_weights: a block sums 64 x 64 or 128 x 128 entries of one layer's weight
 *         gradient over the pairs of one list block (up to 2048 pairs of one unit). adj_rows: sums of a source
 * Launch  a chunk of whole list blocks at a time. grid tiles, block 32 wr wc <= 512, shared memory as planned
 *         (ff_adj_plan); grid (squares, list blocks), block 128 or 256, 36 or 68 KiB; a thread a source and column
 * Shapes  ff_adj_args; chunk [groups][16 / kpw][row_words] u32, group_rows [groups][row_len] f32
 * Order   a group's 16 pairs by lane order, a source's groups in list order in double; weight gradients: the block's
 *         pairs in order in float32, rounded once to the words of ff_sums.h, integer atomics: no result depends on the
 *         chunks, the tiles, the grid or the ranks
 * Bound   6 FLOP a multiply-add of the network (forward, back, weights): wide 0.98 MFLOP a pair and branch, 1.2 ns at
 *         790 TFLOP/s in bf16. Bytes a pair through the L2 cache: wide, bf16: weights 2 x 328 kB / 128 pairs = 5.1 kB;
 *         chunk 4.9 kB written, 1.5 kB (SiLU') read by the tile and 3.4 kB times 1 to 4 by the squares; sums
 *         1.1 kB / 16: 2.5 to 4 ns at 5.5 TB/s. Measured on the H200, wide, bf16: tile
 *         7.8 ns, squares 3.7, sources 0.2: 10 % of the FLOP floor; the wide kernels 3.7 ns: 34 % (docs/measurements.md)
 * Oracle  ff_globe_tile_adjoint_f64, tests/gpu/test_pair_adjoint.c; index arithmetic: tests/unit/test_adj_tile.c
 * Care    padding pairs have cotangent and strength 0; padding units stay 0 (weights 0, SiLU(0) = 0); columns past a
 *         layer's tiles are zeroed before a product reads them */
#include "ff_cuda_impl.cuh"

#include "ff_adj_device.cuh"
#include "ff_adj_source.cuh"
#include "ff_adj_wide.cuh"

#include <string.h>

#include "ff_adj_tile.h"

static_assert((int)FF_ADJ_F32 == FF_CUDA_F32 && (int)FF_ADJ_TF32 == FF_CUDA_TF32 &&
                  (int)FF_ADJ_BF16 == FF_CUDA_BF16,
              "one numbering of precisions");

enum { REDUCE_THREADS = 256, CHUNK_BYTES = 512 << 20, WIDE_CHUNK_BYTES = 1 << 30, MOST_BLOCKS = 65535 };

template <int PREC, int MT>
static __global__ void __launch_bounds__(MT == 8 || (MT == 4 && PREC == FF_ADJ_F32) ? 256 : 512, 1)
    pair_globe_adj(const __grid_constant__ ff_adj_cfg c, const __grid_constant__ adj_io io)
{
    extern __shared__ __align__(16) char shared_adj[];
    adj_tile(&c, &io, shared_adj, (int64_t)blockIdx.x, PREC, MT);
}

template <int PREC, int SIDE>
static __global__ void __launch_bounds__(ADJ_GRAD_THREADS(SIDE), SIDE == 64 ? 4 : 2)
    adj_weights(const __grid_constant__ ff_adj_cfg c, const __grid_constant__ adj_io io,
                const int64_t *block_off)
{
    extern __shared__ __align__(16) char shared_adj[];
    constexpr int slab = ADJ_SLAB * ADJ_PITCH(SIDE), per = FF_ADJ_GROUP / (PREC == FF_ADJ_BF16 ? 2 : 1);
    uint32_t *a = (uint32_t *)shared_adj, *b = a + 2 * slab;
    adj_square q = adj_square_of(&c, (int)blockIdx.x);
    int64_t row = (block_off[blockIdx.y] - io.group_begin) * per,
            end = (block_off[blockIdx.y + 1] - io.group_begin) * per;
    int tid = (int)threadIdx.x, warp = tid / 32, slot = 0;
    adj_acc acc[1];
#pragma unroll
    for (int i = 0; i < SIDE / 16; i++)
#pragma unroll
        for (int j = 0; j < FF_ADJ_COLS; j++)
#pragma unroll
            for (int k = 0; k < 4; k++) acc[0][i][j][k] = 0.0f;
    adj_stage(&c, io.chunk, q, SIDE, row, end, a, b, tid);
    cp_async_commit();
    for (; row < end; row += ADJ_SLAB, slot ^= 1) {
        if (row + ADJ_SLAB < end)
            adj_stage(&c, io.chunk, q, SIDE, row + ADJ_SLAB, end, a + (slot ^ 1) * slab,
                      b + (slot ^ 1) * slab, tid);
        cp_async_commit();
        cp_async_wait<1>();
        __syncthreads();
        adj_slab(&c, PREC, SIDE, q, acc, a + slot * slab, b + slot * slab, warp);
        __syncthreads(); /* all have read the slab that is overwritten next */
    }
    adj_square_add(&c, io.grad, io.bad, SIDE, q, acc, warp);
}

static __global__ void adj_rows(const __grid_constant__ ff_adj_cfg c, const __grid_constant__ adj_io io,
                                const int64_t *group_off, int64_t slot, int64_t n, double *rows)
{
    int64_t i = (int64_t)blockIdx.x * REDUCE_THREADS + threadIdx.x;
    if (i < n * c.row_len) adj_reduce(&c, &io, group_off, slot + i / c.row_len, (int)(i % c.row_len), rows);
}

/* Targets of a slot's groups from its runs, a warp a slot: 32 runs at a time find their places by a scan. */
static __global__ void adj_expand(int64_t n_slot, const int64_t *run_off, const ff_adj_run *run,
                                  const int64_t *group_off, int32_t *target, int32_t *group_slot)
{
    int64_t slot = ((int64_t)blockIdx.x * REDUCE_THREADS + threadIdx.x) / 32;
    int lane = (int)threadIdx.x % 32;
    if (slot >= n_slot) return;
    int64_t at = FF_ADJ_GROUP * group_off[slot], end = FF_ADJ_GROUP * group_off[slot + 1];
    for (int64_t k = run_off[slot]; k < run_off[slot + 1]; k += 32) {
        ff_adj_run r = {0, 0, 0};
        if (k + lane < run_off[slot + 1]) r = run[k + lane];
        int sum = r.n, longest = r.n;
        for (int d = 1; d < 32; d *= 2) {
            int below = __shfl_up_sync(0xffffffffu, sum, d), other = __shfl_xor_sync(0xffffffffu, longest, d);
            if (lane >= d) sum += below;
            longest = other > longest ? other : longest;
        }
        if (longest <= 32) {
            for (int i = 0; i < r.n; i++) target[at + sum - r.n + i] = r.first + i;
        } else {
            for (int q = 0; q < 32; q++) {
                int first = __shfl_sync(0xffffffffu, r.first, q), n = __shfl_sync(0xffffffffu, r.n, q),
                    from = __shfl_sync(0xffffffffu, sum, q) - n;
                for (int i = lane; i < n; i += 32) target[at + from + i] = first + i;
            }
        }
        at += __shfl_sync(0xffffffffu, sum, 31);
    }
    for (int64_t p = at + lane; p < end; p += 32) target[p] = -1;
    for (int64_t g = group_off[slot] + lane; g < group_off[slot + 1]; g += 32) group_slot[g] = (int32_t)slot;
}

/* ---- networks and lists on the device ---- */

struct ff_adj_net {
    ff_adj_cfg c;
    ff_adj_source source;
    float
        *given; /* device: source matrix, its biases, global vectors, each from a multiple of 16 floats on */
    int64_t at_bias, at_gvec;
    adj_wide *wide; /* or image and bias */
    uint32_t *image;
    float *bias;
};

struct ff_adj_job {
    int64_t n_slot, n_target, n_block, n_unit;
    int64_t *host_off, *host_tile;   /* [n_block + 1], host: groups; tiles of the wide kernels */
    int32_t *first_slot, *last_slot; /* [n_block], host */
    double *x_s, *x_t;               /* device, and so on */
    int64_t *group_off, *block_off, *tile_off, *unit_off;
    int32_t *group_slot, *target;
};

static void adj_job_destroy(void *impl, ff_adj_job **jp)
{
    ff_cuda_pool *pool = ((ff_cuda_impl *)impl)->pool;
    ff_adj_job *j = *jp;
    if (j == NULL) return;
    const void *device[] = {j->x_s,        j->x_t,    j->group_off, j->block_off,
                            j->group_slot, j->target, j->tile_off,  j->unit_off};
    for (size_t k = 0; k < sizeof device / sizeof *device; k++) ff_cuda_free(pool, device[k]);
    ff_free(j->host_off);
    ff_free(j->host_tile);
    ff_free(j->first_slot);
    ff_free(j->last_slot);
    ff_free(j);
    *jp = NULL;
}

/* First and last slot of each block, [n_block]; a slot's groups lie in blocks of one unit. */
static void block_slots(const ff_adj_lists *l, ff_adj_job *j)
{
    int64_t first = 0, last = 0;
    for (int64_t b = 0; b < l->n_block; b++) {
        while (l->group_off[first + 1] <= l->block_off[b]) first++;
        while (l->group_off[last + 1] < l->block_off[b + 1]) last++;
        j->first_slot[b] = (int32_t)first;
        j->last_slot[b] = (int32_t)last;
    }
}

static ff_status expand_runs(ff_cuda_impl *c, const ff_adj_lists *l, ff_adj_job *j)
{
    ff_status st = FF_OK;
    int64_t *run_off = NULL;
    ff_adj_run *run = NULL;
    FF_GO(ff_cuda_alloc(c->pool, (size_t)l->n_group * sizeof(int32_t), &j->group_slot));
    FF_GO(ff_cuda_alloc(c->pool, FF_ADJ_GROUP * (size_t)l->n_group * sizeof(int32_t), &j->target));
    FF_GO(ff_cuda_new(c->pool, l->run_off, ((size_t)l->n_slot + 1) * sizeof *run_off, &run_off));
    FF_GO(ff_cuda_new(c->pool, l->run, (size_t)l->n_run * sizeof *run, &run));
    if (l->n_slot == 0) goto done;
    adj_expand<<<(unsigned)((32 * l->n_slot + REDUCE_THREADS - 1) / REDUCE_THREADS), REDUCE_THREADS, 0,
                 c->stream>>>(l->n_slot, run_off, run, j->group_off, j->target, j->group_slot);
    FF_CU(cudaGetLastError());
done:
    ff_cuda_free(c->pool, run_off);
    ff_cuda_free(c->pool, run);
    return st;
}

static ff_status adj_job_create(void *impl, const ff_adj_lists *l, ff_adj_job **out)
{
    ff_status st = FF_OK;
    ff_cuda_pool *pool = ((ff_cuda_impl *)impl)->pool;
    size_t blocks = (size_t)l->n_block;
    ff_adj_job *j = (ff_adj_job *)ff_mem_alloc0(1, sizeof *j);
    *out = NULL;
    if (j == NULL) return FF_E_MEM;
    j->n_slot = l->n_slot;
    j->n_target = l->n_target;
    j->n_block = l->n_block;
    j->n_unit = l->n_unit;
    j->host_off = (int64_t *)ff_mem_alloc(blocks + 1, sizeof *j->host_off);
    j->host_tile = (int64_t *)ff_mem_alloc0(blocks + 1, sizeof *j->host_tile);
    j->first_slot = (int32_t *)ff_mem_alloc(blocks + 1, sizeof *j->first_slot);
    j->last_slot = (int32_t *)ff_mem_alloc(blocks + 1, sizeof *j->last_slot);
    if (j->host_off == NULL || j->host_tile == NULL || j->first_slot == NULL || j->last_slot == NULL)
        FF_GO(FF_E_MEM);
    memcpy(j->host_off, l->block_off, (blocks + 1) * sizeof *j->host_off);
    for (size_t b = 0; b < blocks; b++) {
        j->host_tile[b + 1] =
            j->host_tile[b] + (l->block_off[b + 1] - l->block_off[b] + AW_GROUPS - 1) / AW_GROUPS;
    }
    FF_GO(ff_cuda_new(pool, l->x_s, 4 * (size_t)l->n_slot * sizeof(double), &j->x_s));
    FF_GO(ff_cuda_new(pool, l->x_t, 4 * (size_t)l->n_target * sizeof(double), &j->x_t));
    FF_GO(ff_cuda_new(pool, l->group_off, ((size_t)l->n_slot + 1) * sizeof(int64_t), &j->group_off));
    FF_GO(ff_cuda_new(pool, l->block_off, (blocks + 1) * sizeof(int64_t), &j->block_off));
    FF_GO(ff_cuda_new(pool, l->unit_off, ((size_t)l->n_unit + 1) * sizeof(int64_t), &j->unit_off));
    FF_GO(ff_cuda_new(pool, j->host_tile, (blocks + 1) * sizeof(int64_t), &j->tile_off));
    block_slots(l, j);
    FF_GO(expand_runs((ff_cuda_impl *)impl, l, j));
    *out = j;
    j = NULL;
done:
    adj_job_destroy(impl, &j);
    return st;
}

static void adj_net_destroy(void *impl, ff_adj_net **np)
{
    ff_cuda_pool *pool = ((ff_cuda_impl *)impl)->pool;
    if (*np == NULL) return;
    adj_wide_close((ff_cuda_impl *)impl, &(*np)->wide);
    ff_cuda_free(pool, (*np)->given);
    ff_cuda_free(pool, (*np)->image);
    ff_cuda_free(pool, (*np)->bias);
    ff_free(*np);
    *np = NULL;
}

/* What sources need of a network, in one copy. */
static ff_status give_source(ff_cuda_pool *pool, const ff_adj_view *v, ff_adj_net *n)
{
    ff_status st = FF_OK;
    size_t w = (size_t)v->off_m * (size_t)v->source.n_in, b = (size_t)v->off_m,
           g = (size_t)(v->s.n_gvector * (2 + v->s.dim)), at_b = (w + 15) / 16 * 16,
           at_g = at_b + (b + 15) / 16 * 16;
    float *all = (float *)ff_mem_alloc0(at_g + g + 1, sizeof *all);
    if (all == NULL) return FF_E_MEM;
    ff_adj_source_plan(v, &n->source);
    n->at_bias = (int64_t)at_b;
    n->at_gvec = (int64_t)at_g;
    if (w > 0) memcpy(all, v->source.w, w * sizeof *all);
    memcpy(all + at_b, v->source.b, b * sizeof *all);
    if (g > 0) memcpy(all + at_g, v->gvec, g * sizeof *all);
    st = ff_cuda_new(pool, all, (at_g + g + 1) * sizeof *all, &n->given);
    ff_free(all);
    return st;
}

static ff_status adj_net_create(void *impl, const ff_adj_view *v, ff_adj_net **out)
{
    ff_status st = FF_OK;
    ff_cuda_impl *c = (ff_cuda_impl *)impl;
    int device = 0, shared = 0;
    uint32_t *image = NULL;
    float *bias = NULL;
    ff_adj_net *n = (ff_adj_net *)ff_mem_alloc0(1, sizeof *n);
    *out = NULL;
    if (n == NULL) return FF_E_MEM;
    FF_CU(cudaGetDevice(&device));
    FF_CU(cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
    FF_GO(ff_adj_plan(v, (int)c->precision, shared, &n->c));
    FF_GO(give_source(c->pool, v, n));
    if (adj_wide_serves(v, (int)c->precision)) {
        FF_GO(adj_wide_open(c, v, &n->c, &n->wide));
        *out = n;
        n = NULL;
        goto done;
    }
    image = (uint32_t *)ff_mem_alloc0((size_t)n->c.image_words, sizeof *image);
    bias = (float *)ff_mem_alloc0((size_t)n->c.n_bias, sizeof *bias);
    if (image == NULL || bias == NULL) FF_GO(FF_E_MEM);
    ff_adj_pack(v, &n->c, image, bias);
    FF_GO(ff_cuda_new(c->pool, image, (size_t)n->c.image_words * sizeof *image, &n->image));
    FF_GO(ff_cuda_new(c->pool, bias, (size_t)n->c.n_bias * sizeof *bias, &n->bias));
    *out = n;
    n = NULL;
done:
    ff_free(image);
    ff_free(bias);
    adj_net_destroy(impl, &n);
    return st;
}

/* ---- launches ---- */

template <int PREC, int MT>
static cudaError_t start_tiles(const ff_adj_cfg *c, const adj_io *io, int *resident, cudaStream_t s)
{
    cudaError_t e = ff_cuda_shared((const void *)pair_globe_adj<PREC, MT>, c->smem);
    if (e != cudaSuccess) return e;
    if (resident != NULL)
        return cudaOccupancyMaxActiveBlocksPerMultiprocessor(resident, pair_globe_adj<PREC, MT>, c->threads,
                                                             (size_t)c->smem);
    int64_t groups = io->group_end - io->group_begin, per = c->rows / FF_ADJ_GROUP;
    pair_globe_adj<PREC, MT>
        <<<(unsigned)((groups + per - 1) / per), (unsigned)c->threads, (size_t)c->smem, s>>>(*c, *io);
    return cudaGetLastError();
}

/* resident not NULL: blocks a multiprocessor holds; else launches. */
template <int PREC>
static cudaError_t tiles_mt(const ff_adj_cfg *c, const adj_io *io, int *resident, cudaStream_t s)
{
    if constexpr (PREC == FF_ADJ_BF16)
        if (c->mt == 8) return start_tiles<PREC, 8>(c, io, resident, s);
    return c->mt == 4   ? start_tiles<PREC, 4>(c, io, resident, s)
           : c->mt == 2 ? start_tiles<PREC, 2>(c, io, resident, s)
                        : start_tiles<PREC, 1>(c, io, resident, s);
}

static cudaError_t tiles(const ff_adj_cfg *c, const adj_io *io, int *resident, cudaStream_t s)
{
    return c->prec == FF_ADJ_BF16   ? tiles_mt<FF_ADJ_BF16>(c, io, resident, s)
           : c->prec == FF_ADJ_TF32 ? tiles_mt<FF_ADJ_TF32>(c, io, resident, s)
                                    : tiles_mt<FF_ADJ_F32>(c, io, resident, s);
}

template <int PREC, int SIDE>
static cudaError_t start_weights(const ff_adj_cfg *c, const adj_io *io, const int64_t *block_off, dim3 grid,
                                 cudaStream_t s)
{
    constexpr int shared = 4 * ADJ_SLAB * ADJ_PITCH(SIDE) * 4;
    cudaError_t e =
        cudaFuncSetAttribute(adj_weights<PREC, SIDE>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    if (e != cudaSuccess) return e;
    adj_weights<PREC, SIDE><<<grid, ADJ_GRAD_THREADS(SIDE), shared, s>>>(*c, *io, block_off);
    return cudaGetLastError();
}

template <int PREC>
static cudaError_t weights_side(const ff_adj_cfg *c, const adj_io *io, const int64_t *block_off, dim3 grid,
                                cudaStream_t s)
{
    return c->side == 64 ? start_weights<PREC, 64>(c, io, block_off, grid, s)
                         : start_weights<PREC, 128>(c, io, block_off, grid, s);
}

static cudaError_t weights(const ff_adj_cfg *c, const adj_io *io, const int64_t *block_off, int64_t n,
                           cudaStream_t s)
{
    dim3 grid((unsigned)c->squares, (unsigned)n);
    return c->prec == FF_ADJ_BF16   ? weights_side<FF_ADJ_BF16>(c, io, block_off, grid, s)
           : c->prec == FF_ADJ_TF32 ? weights_side<FF_ADJ_TF32>(c, io, block_off, grid, s)
                                    : weights_side<FF_ADJ_F32>(c, io, block_off, grid, s);
}

/* Groups of a chunk: whole waves of tiles, as many as CHUNK_BYTES hold. */
static ff_status chunk_groups(const ff_adj_cfg *c, int64_t *groups)
{
    ff_status st = FF_OK;
    int device = 0, sms = 0, resident = 0;
    int64_t bytes = (int64_t)(FF_ADJ_GROUP / c->kpw) * c->row_words * 4 + (int64_t)c->row_len * 4, wave;
    FF_CU(cudaGetDevice(&device));
    FF_CU(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device));
    FF_CU(tiles(c, NULL, &resident, NULL));
    if (resident < 1)
        return ff_fail(FF_E_INTERNAL, "pair adjoint: no block of %d threads and %d bytes is resident",
                       c->threads, c->smem);
    wave = (int64_t)sms * resident * (c->rows / FF_ADJ_GROUP);
    *groups = CHUNK_BYTES / bytes / wave * wave;
    if (*groups < wave) *groups = wave;
    if (*groups < FF_ADJ_BLOCK) *groups = FF_ADJ_BLOCK;
done:
    return st;
}

/* All chunks; io holds everything but the groups. */
static ff_status run_chunks(ff_cuda_impl *impl, const ff_adj_job *j, const ff_adj_cfg *c, adj_io *io,
                            int64_t most, double *rows)
{
    ff_status st = FF_OK;
    cudaStream_t s = impl->stream;
    for (int64_t b0 = 0, b1; b0 < j->n_block; b0 = b1) {
        for (b1 = b0 + 1; b1 < j->n_block && b1 - b0 < MOST_BLOCKS; b1++)
            if (j->host_off[b1 + 1] - j->host_off[b0] > most) break;
        int64_t slot = j->first_slot[b0], n = j->last_slot[b1 - 1] + 1 - slot;
        io->group_begin = j->host_off[b0];
        io->group_end = j->host_off[b1];
        FF_CU(tiles(c, io, NULL, s));
        FF_CU(weights(c, io, j->block_off + b0, b1 - b0, s));
        adj_rows<<<(unsigned)((n * c->row_len + REDUCE_THREADS - 1) / REDUCE_THREADS), REDUCE_THREADS, 0,
                   s>>>(*c, *io, j->group_off, slot, n, rows);
        FF_CU(cudaGetLastError());
    }
done:
    return st;
}

/* Device memory of a run; the first three are zeroed. */
enum {
    GRAD,
    TARGET,
    BAD,
    ROWS,
    RAW,
    STRENGTH,
    OUT_BAR,
    FEAT,
    REC,
    CHUNK,
    GROUP_ROWS,
    FEAT_BAR,
    GVEC_BAR,
    RAW_BAR,
    STRENGTH_BAR,
    X_BAR,
    TILE,
    PART,
    N_BUFFER
};

/* List blocks of a wide chunk of `tiles` tiles, each with room for its sums: twice what full blocks need. */
static int64_t wide_blocks(int64_t tiles)
{
    return tiles * AW_GROUPS * 2 / FF_ADJ_BLOCK + 1;
}

/* The wide kernels' way through all chunks of whole list blocks, at most `most` tiles each where a block has no more. */
static ff_status run_wide(ff_cuda_impl *impl, const ff_adj_job *j, const ff_adj_net *net, const adj_io *from,
                          void **d, int64_t most)
{
    ff_status st = FF_OK;
    cudaStream_t s = impl->stream;
    const ff_adj_cfg *c = &net->c;
    int device = 0, sms = 0;
    adj_wide_io io = {};
    FF_CU(cudaGetDevice(&device));
    FF_CU(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device));
    io.pairs = *from;
    io.tile = (int2 *)d[TILE];
    io.chunk = (char *)d[CHUNK];
    io.part = (float *)d[PART];
    for (int64_t b0 = 0, b1; b0 < j->n_block; b0 = b1) {
        for (b1 = b0 + 1; b1 < j->n_block && b1 - b0 < wide_blocks(most); b1++)
            if (j->host_tile[b1 + 1] - j->host_tile[b0] > most) break;
        int64_t slot = j->first_slot[b0], n = j->last_slot[b1 - 1] + 1 - slot;
        io.pairs.group_begin = j->host_off[b0];
        io.pairs.group_end = j->host_off[b1];
        io.tile_begin = j->host_tile[b0];
        io.n_tile = (int)(j->host_tile[b1] - j->host_tile[b0]);
        io.block_off = j->block_off + b0;
        io.tile_off = j->tile_off + b0;
        io.n_block = (int)(b1 - b0);
        FF_CU(adj_wide_tiles(net->wide, &io, sms, s));
        FF_CU(adj_wide_weights(net->wide, &io, sms, s));
        adj_rows<<<(unsigned)((n * c->row_len + REDUCE_THREADS - 1) / REDUCE_THREADS), REDUCE_THREADS, 0,
                   s>>>(*c, io.pairs, j->group_off, slot, n, (double *)d[ROWS]);
        FF_CU(cudaGetLastError());
    }
done:
    return st;
}

/* Rooms of a chunk: groups or tiles, at least one list block, no more than there are. */
static ff_status chunk_room(const ff_cuda_impl *cu, const ff_adj_job *j, const ff_adj_net *net, int64_t *most,
                            size_t *chunk, size_t *groups)
{
    const ff_adj_cfg *c = &net->c;
    int64_t all = net->wide != NULL ? j->host_tile[j->n_block] : j->host_off[j->n_block],
            block = FF_ADJ_BLOCK / (net->wide != NULL ? AW_GROUPS : 1), room = WIDE_CHUNK_BYTES;
    if (cu->budget > 0 && cu->budget / 4 < room) room = cu->budget / 4;
    if (net->wide != NULL)
        *most = room / AW_TILE_BYTES;
    else
        FF_TRY(chunk_groups(c, most));
    if (*most > all) *most = all;
    if (*most < block) *most = block;
    *groups = (size_t)*most * (net->wide != NULL ? AW_GROUPS : 1);
    *chunk = net->wide != NULL ? (size_t)*most * AW_TILE_BYTES
                               : *groups * (size_t)(FF_ADJ_GROUP / c->kpw) * (size_t)c->row_words * 4;
    return FF_OK;
}

/* A run's memory and sizes; networks have one shape, so the first tells for all. */
typedef struct adj_run_state {
    const ff_adj_job *job;
    int64_t most; /* of a chunk: groups, or tiles of the wide kernels */
    size_t bytes[N_BUFFER];
    void *d[N_BUFFER];
} adj_run_state;

static ff_status run_open(ff_cuda_impl *cu, const ff_adj_net *net, const ff_adj_args *a, adj_run_state *r)
{
    const ff_adj_cfg *c = &net->c;
    const ff_adj_source *q = &net->source;
    const ff_adj_job *j = r->job;
    size_t chunk = 0, groups = 0, n = (size_t)j->n_slot, nets = (size_t)a->n_net, blocks = 0;
    size_t feat = (size_t)q->n_feat, raw = (size_t)q->n_raw, dim = (size_t)c->dim;
    FF_TRY(chunk_room(cu, j, net, &r->most, &chunk, &groups));
    if (net->wide != NULL)
        blocks = (size_t)(j->n_block < wide_blocks(r->most) ? j->n_block : wide_blocks(r->most));
    r->bytes[GRAD] = nets * (size_t)c->grad_len * 16;
    r->bytes[TARGET] = a->target != NULL ? (size_t)j->n_target * dim * 16 : 0;
    r->bytes[BAD] = sizeof(int);
    r->bytes[ROWS] = n * (size_t)c->row_len * 8;
    r->bytes[RAW] = n * raw * 4;
    r->bytes[STRENGTH] = nets * n * 4;
    r->bytes[OUT_BAR] = (size_t)j->n_target * (size_t)c->n_comp * 4;
    r->bytes[FEAT] = n * (feat + 1) * 4;
    r->bytes[REC] = n * (size_t)c->rec_len * 4;
    r->bytes[CHUNK] = chunk;
    r->bytes[GROUP_ROWS] = groups * (size_t)c->row_len * 4;
    r->bytes[FEAT_BAR] = n * feat * 4;
    r->bytes[GVEC_BAR] = n * (size_t)q->n_gvec * (2 + dim) * 4;
    r->bytes[RAW_BAR] = n * raw * 8;
    r->bytes[STRENGTH_BAR] = nets * n * 8;
    r->bytes[X_BAR] = a->x_bar != NULL ? n * dim * 8 : 0;
    r->bytes[TILE] = net->wide != NULL ? (size_t)r->most * sizeof(int2) : 0;
    r->bytes[PART] = blocks * AW_PART * sizeof(float);
    for (int k = 0; k < N_BUFFER; k++) FF_TRY(ff_cuda_alloc(cu->pool, r->bytes[k], &r->d[k]));
    FF_TRY(ff_cuda_put(cu->pool, r->d[RAW], a->raw, r->bytes[RAW]));
    FF_TRY(ff_cuda_put(cu->pool, r->d[STRENGTH], a->strength, r->bytes[STRENGTH]));
    FF_TRY(ff_cuda_put(cu->pool, r->d[OUT_BAR], a->out_bar, r->bytes[OUT_BAR]));
    for (int k = GRAD; k <= BAD; k++) FF_TRY(ff_cuda_zero(cu->pool, r->d[k], r->bytes[k]));
    return FF_OK;
}

static adj_source_io source_io(const adj_run_state *r, const ff_adj_net *net, const ff_adj_args *a, int k)
{
    adj_source_io io;
    memset(&io, 0, sizeof io);
    io.n_slot = r->job->n_slot;
    io.n_unit = r->job->n_unit;
    io.unit_off = r->job->unit_off;
    io.w = net->given;
    io.b = net->given + net->at_bias;
    io.gvec = net->given + net->at_gvec;
    io.raw = (const float *)r->d[RAW];
    io.feat = (float *)r->d[FEAT];
    io.rec = (float *)r->d[REC];
    io.rows = (const double *)r->d[ROWS];
    io.feat_bar = (float *)r->d[FEAT_BAR];
    io.gvec_bar = (float *)r->d[GVEC_BAR];
    io.raw_bar = (double *)r->d[RAW_BAR];
    io.strength_bar = (double *)r->d[STRENGTH_BAR] + k * r->job->n_slot;
    io.x_bar = a->x_bar != NULL ? (double *)r->d[X_BAR] : NULL;
    io.grad = (int64_t *)r->d[GRAD] + 2 * k * net->c.grad_len;
    io.bad = (int *)r->d[BAD];
    io.first = k == 0;
    return io;
}

/* Network k: its records, all pairs, and what they leave to the sources. */
static ff_status run_net(ff_cuda_impl *cu, const adj_run_state *r, const ff_adj_net *net,
                         const ff_adj_args *a, int k)
{
    ff_status st = FF_OK;
    const ff_adj_job *j = r->job;
    adj_source_io source = source_io(r, net, a, k);
    adj_io io;
    memset(&io, 0, sizeof io);
    io.image = net->image;
    io.bias = net->bias;
    io.rec = (const float *)r->d[REC];
    io.strength = (const float *)r->d[STRENGTH] + k * j->n_slot;
    io.out_bar = (const float *)r->d[OUT_BAR];
    io.x_s = j->x_s;
    io.x_t = j->x_t;
    io.group_slot = j->group_slot;
    io.target = j->target;
    io.chunk = (uint32_t *)r->d[CHUNK];
    io.group_rows = (float *)r->d[GROUP_ROWS];
    io.target_words = a->target != NULL ? (int64_t *)r->d[TARGET] : NULL;
    io.grad = source.grad;
    io.bad = source.bad;
    if (k == 0) FF_CU(adj_source_features(&net->source, &source, cu->stream));
    FF_CU(adj_source_hidden(&net->source, &source, cu->stream));
    FF_GO(ff_cuda_zero(cu->pool, r->d[ROWS], r->bytes[ROWS]));
    FF_GO(net->wide != NULL ? run_wide(cu, j, net, &io, (void **)r->d, r->most)
                            : run_chunks(cu, j, &net->c, &io, r->most, (double *)r->d[ROWS]));
    FF_CU(adj_source_back(&net->source, &source, cu->stream));
    if (a->rows != NULL)
        FF_GO(ff_cuda_get(cu->pool, a->rows + k * j->n_slot * net->c.row_len, r->d[ROWS], r->bytes[ROWS]));
done:
    return st;
}

static ff_status adj_run(void *impl, const ff_adj_job *j, ff_adj_net *const *net, ff_adj_args *a)
{
    ff_status st = FF_OK;
    ff_cuda_impl *cu = (ff_cuda_impl *)impl;
    int bad = 0;
    adj_run_state r;
    memset(&r, 0, sizeof r);
    r.job = j;
    FF_GO(run_open(cu, net[0], a, &r));
    for (int k = 0; k < a->n_net; k++) FF_GO(run_net(cu, &r, net[k], a, k));
    if (a->meanwhile != NULL) a->meanwhile(a->ctx);
    FF_GO(ff_cuda_get(cu->pool, a->raw_bar, r.d[RAW_BAR], r.bytes[RAW_BAR]));
    FF_GO(ff_cuda_get(cu->pool, a->strength_bar, r.d[STRENGTH_BAR], r.bytes[STRENGTH_BAR]));
    if (a->x_bar != NULL) FF_GO(ff_cuda_get(cu->pool, a->x_bar, r.d[X_BAR], r.bytes[X_BAR]));
    FF_GO(ff_cuda_get(cu->pool, a->grad, r.d[GRAD], r.bytes[GRAD]));
    if (a->target != NULL) FF_GO(ff_cuda_get(cu->pool, a->target, r.d[TARGET], r.bytes[TARGET]));
    FF_GO(ff_cuda_get(cu->pool, &bad, r.d[BAD], sizeof bad));
    FF_GO(ff_cuda_wait(cu->pool));
    a->bad = bad != 0;
done:
    for (int k = 0; k < N_BUFFER; k++) ff_cuda_free(cu->pool, r.d[k]);
    return st;
}

const ff_pair_adjoint_ops ff_cuda_adjoint_ops = {adj_job_create, adj_job_destroy, adj_net_create,
                                                 adj_net_destroy, adj_run};
