/* pair_globe_adj, adj_weights, adj_rows: the adjoint of GLOBE pair sums at the sources' owner (wide networks in bf16 on
 * sm_90: adj_wide_tile.cu, adj_wide_weights.cu)
 * Work    pair_globe_adj: a block takes a tile of 16 mt wr pairs (groups of 16 of one source), evaluates them again and
 *         walks backward (src/kernel/ff_adj_tile.h, the text that the host's test runs, too); activations, SiLU' and
 *         cotangents of the layers go to the chunk. adj_weights: a block sums 64 x 64 or 128 x 128 entries of one layer's weight
 *         gradient over the pairs of one list block (up to 2048 pairs of one unit). adj_rows: sums of a source
 * Launch  a chunk of whole list blocks at a time. grid tiles, block 32 wr wc <= 512, shared memory as planned
 *         (ff_adj_plan); grid (squares, list blocks), block 128 or 256, 36 or 68 KiB; rows: a thread a list block and column
 * Shapes  ff_adj_args; chunk [groups][16 / kpw][row_words] u32, group_rows [groups][row_len] f32
 * Order   a group's 16 pairs by lane order, a source's groups of a list block in order in double, then its blocks;
 *         weight gradients: the block's pairs in order in float32, rounded once to the words of ff_sums.h, integer
 *         atomics: no result depends on the chunks, the tiles, the grid or the ranks
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
#include "ff_adj_job.cuh"
#include "ff_adj_source.cuh"
#include "ff_adj_wide.cuh"

#include <string.h>

#include "ff_adj_tile.h"

static_assert((int)FF_ADJ_F32 == FF_CUDA_F32 && (int)FF_ADJ_TF32 == FF_CUDA_TF32 &&
                  (int)FF_ADJ_BF16 == FF_CUDA_BF16,
              "one numbering of precisions");

/* Bytes: of a chunk, and of a wide one without its sums; of a span's sources; of a span's lists, where they are streamed.
 * Each chunk has an end at which multiprocessors are idle, so that a wide one may be LARGE while the rest takes no more
 * than BESIDE, which is less than 1.5 GiB together; else it keeps training below twice what inference takes. */
enum {
    CHUNK_BYTES = 128 << 20,
    WIDE_CHUNK_BYTES = 400 << 20,
    WIDE_LARGE_BYTES = 1 << 30,
    WIDE_BESIDE_BYTES = 96 << 20,
    SPAN_BYTES = 128 << 20,
    LISTS_BYTES = 256 << 20
};
enum { ROW_THREADS = 128, MOST_BLOCKS = 65535, HALVES = 2 };

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
                                const int64_t *group_off, const int64_t *block_off, double *edge,
                                double *rows)
{
    int b = (int)blockIdx.x, col = (int)(blockIdx.y * ROW_THREADS + threadIdx.x);
    if (col < c.row_len)
        adj_block_rows(&c, &io, group_off, block_off[b], block_off[b + 1], col,
                       edge + (int64_t)(2 * b) * c.row_len, rows);
}

static __global__ void adj_edges(const __grid_constant__ ff_adj_cfg c, const __grid_constant__ adj_io io,
                                 const int64_t *group_off, const int64_t *block_off, const double *edge,
                                 double *rows)
{
    int col = (int)(blockIdx.y * ROW_THREADS + threadIdx.x);
    if (col < c.row_len)
        adj_edge_rows(&c, &io, group_off, block_off, (int)gridDim.x, (int)blockIdx.x, col, edge, rows);
}

/* ---- networks on the device ---- */

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
    (void)ff_cuda_pool_kind(c->pool, FF_CUDA_WEIGHTS);
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

/* Groups of a chunk: whole waves of tiles, as many as `room` bytes hold. */
static ff_status chunk_groups(const ff_adj_cfg *c, int64_t room, int64_t *groups)
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
    *groups = room / bytes / wave * wave;
    if (*groups < wave) *groups = wave;
done:
    return st;
}

/* Device memory of a run: for all sources, for those of a span, for a chunk. The first three are zeroed. */
enum {
    GRAD,
    TARGET,
    BAD,
    RAW,
    STRENGTH,
    OUT_BAR,
    RAW_BAR,
    STRENGTH_BAR,
    X_BAR,
    N_WHOLE,
    ROWS = N_WHOLE,
    FEAT,
    REC,
    FEAT_BAR,
    GVEC_BAR,
    N_SPAN,
    CHUNK = N_SPAN,
    GROUP_ROWS,
    EDGE,
    TILE,
    PART,
    N_BUFFER
};

/* A run's memory and sizes; networks have one shape, so the first tells for all. */
typedef struct adj_run_state {
    const ff_adj_job *job;
    adj_spans spans;
    int sms, halves; /* halves of GROUP_ROWS, EDGE and PART, which chunks take in turn: 1 or HALVES */
    int64_t most, most_blocks; /* of a chunk: groups, or tiles of the wide kernels; list blocks */
    size_t bytes[N_BUFFER];
    void *d[N_BUFFER];
} adj_run_state;

/* Memory of this half of buffer k. */
static void *half_of(const adj_run_state *r, int k, int64_t half)
{
    return (char *)r->d[k] + (size_t)half * (r->bytes[k] / (size_t)r->halves);
}

/* Rows of the sources of list blocks [b0, b1), which are the chunk. */
static cudaError_t chunk_rows(const ff_adj_job *j, const ff_adj_cfg *c, const adj_io *io, int64_t b0,
                              int64_t b1, double *edge, double *rows, cudaStream_t s)
{
    dim3 grid((unsigned)(b1 - b0), (unsigned)((c->row_len + ROW_THREADS - 1) / ROW_THREADS));
    adj_rows<<<grid, ROW_THREADS, 0, s>>>(*c, *io, j->group_off, j->block_off + b0, edge, rows);
    adj_edges<<<grid, ROW_THREADS, 0, s>>>(*c, *io, j->group_off, j->block_off + b0, edge, rows);
    return cudaGetLastError();
}

/* All chunks of a span; io holds everything but the groups. */
static ff_status run_chunks(ff_cuda_impl *impl, const adj_run_state *r, const ff_adj_cfg *c,
                            const adj_span *span, adj_io *io, double *rows)
{
    ff_status st = FF_OK;
    const ff_adj_job *j = r->job;
    cudaStream_t s = impl->stream;
    io->chunk = (uint32_t *)r->d[CHUNK];
    io->group_rows = (float *)r->d[GROUP_ROWS];
    for (int64_t b0 = span->block_begin, b1; b0 < span->block_end; b0 = b1) {
        for (b1 = b0 + 1; b1 < span->block_end && b1 - b0 < r->most_blocks; b1++)
            if (j->host_off[b1 + 1] - j->host_off[b0] > r->most) break;
        io->group_begin = j->host_off[b0];
        io->group_end = j->host_off[b1];
        FF_CU(tiles(c, io, NULL, s));
        FF_CU(weights(c, io, j->block_off + b0, b1 - b0, s));
        FF_CU(chunk_rows(j, c, io, b0, b1, (double *)r->d[EDGE], rows, s));
    }
done:
    return st;
}

/* ---- the wide kernels' chunks ---- */

/* List blocks of a wide chunk of `tiles` tiles, each with room for its sums: a quarter more than full blocks need. */
static int64_t wide_blocks(int64_t tiles)
{
    return tiles * AW_GROUPS * 5 / (4 * FF_ADJ_BLOCK) + 2;
}

/* Microseconds of a chunk, about: rounds of the persistent kernels over all multiprocessors, as measured on the H200. Tiles
 * are taken in twos, squares of a list block in six parts of some 32 tiles each. */
static int64_t wide_cost(const adj_run_state *r, int64_t tiles, int64_t blocks)
{
    int64_t pairs = 2 * r->sms;
    return 40 + (tiles + pairs - 1) / pairs * 26 + (6 * blocks + r->sms - 1) / r->sms * 42;
}

/* Block behind the chunk that begins with block b0: all that is left where it fits, else as many as leave the fewest
 * multiprocessors idle in the last rounds. No result depends on it. */
static int64_t wide_end(const adj_run_state *r, int64_t b0, int64_t end)
{
    const int64_t *tile = r->job->host_tile;
    int64_t best = b0 + 1, cost = INT64_MAX;
    for (int64_t b1 = b0 + 1; b1 <= end && b1 - b0 <= r->most_blocks; b1++) {
        int64_t n = tile[b1] - tile[b0];
        if (b1 > b0 + 1 && n > r->most) break;
        int64_t c = wide_cost(r, n, b1 - b0);
        if (b1 < end && cost != INT64_MAX && c * (tile[best] - tile[b0]) > cost * n) continue;
        best = b1;
        cost = c;
    }
    return best;
}

/* A stream for sums and rows beside the tiles and squares of the next chunk, made once. */
struct ff_adj_sides {
    cudaStream_t stream;
    cudaEvent_t squares[HALVES],
        added[HALVES]; /* by a chunk's half of the memory: its squares are there; taken */
};

void ff_adj_sides_close(ff_adj_sides **sides)
{
    ff_adj_sides *s = *sides;
    if (s == NULL) return;
    if (s->stream != NULL) (void)cudaStreamDestroy(s->stream);
    for (int k = 0; k < HALVES; k++) {
        if (s->squares[k] != NULL) (void)cudaEventDestroy(s->squares[k]);
        if (s->added[k] != NULL) (void)cudaEventDestroy(s->added[k]);
    }
    ff_free(s);
    *sides = NULL;
}

static ff_status sides_open(ff_cuda_impl *cu)
{
    ff_status st = FF_OK;
    ff_adj_sides *s = NULL;
    if (cu->sides != NULL) return FF_OK;
    FF_TRY(FF_NEW_CUDA(s, 1));
    FF_CU(cudaStreamCreateWithFlags(&s->stream, cudaStreamNonBlocking));
    for (int k = 0; k < HALVES; k++) {
        FF_CU(cudaEventCreateWithFlags(&s->squares[k], cudaEventDisableTiming));
        FF_CU(cudaEventCreateWithFlags(&s->added[k], cudaEventDisableTiming));
    }
    cu->sides = s;
    s = NULL;
done:
    ff_adj_sides_close(&s);
    return st;
}

/* List blocks [b0, b1): tiles and squares in the order of all work, sums and rows beside what follows. The i-th chunk. */
static ff_status wide_chunk(ff_cuda_impl *cu, const adj_run_state *r, const ff_adj_net *net,
                            const adj_wide_io *io, int64_t i, int64_t b0, int64_t b1, double *rows)
{
    ff_status st = FF_OK;
    ff_adj_sides *side = r->halves > 1 ? cu->sides : NULL;
    cudaStream_t s = side != NULL ? side->stream : cu->stream;
    if (i >= HALVES && side != NULL) FF_CU(cudaStreamWaitEvent(cu->stream, side->added[i % HALVES], 0));
    FF_CU(adj_wide_tiles(net->wide, io, r->sms, cu->stream));
    FF_CU(adj_wide_weights(io, r->sms, cu->stream));
    if (side != NULL) {
        FF_CU(cudaEventRecord(side->squares[i % HALVES], cu->stream));
        FF_CU(cudaStreamWaitEvent(s, side->squares[i % HALVES], 0));
    }
    FF_CU(adj_wide_add(net->wide, io, s));
    FF_CU(
        chunk_rows(r->job, &net->c, &io->pairs, b0, b1, (double *)half_of(r, EDGE, i % r->halves), rows, s));
    if (side != NULL) FF_CU(cudaEventRecord(side->added[i % HALVES], s));
done:
    return st;
}

/* The wide kernels' way through a span in chunks of whole list blocks, at most `most` tiles each where a block has no
 * more. */
static ff_status run_wide(ff_cuda_impl *cu, const adj_run_state *r, const ff_adj_net *net,
                          const adj_span *span, const adj_io *from, double *rows)
{
    ff_status st = FF_OK;
    const ff_adj_job *j = r->job;
    int64_t i = 0;
    adj_wide_io io = {};
    io.pairs = *from;
    io.tile = (int2 *)r->d[TILE];
    io.chunk = (char *)r->d[CHUNK];
    for (int64_t b0 = span->block_begin, b1; b0 < span->block_end; b0 = b1, i++) {
        b1 = wide_end(r, b0, span->block_end);
        io.part = (float *)half_of(r, PART, i % r->halves);
        io.pairs.group_rows = (float *)half_of(r, GROUP_ROWS, i % r->halves);
        io.pairs.group_begin = j->host_off[b0];
        io.pairs.group_end = j->host_off[b1];
        io.tile_begin = j->host_tile[b0];
        io.n_tile = (int)(j->host_tile[b1] - j->host_tile[b0]);
        io.block_off = j->block_off + b0;
        io.tile_off = j->tile_off + b0;
        io.n_block = (int)(b1 - b0);
        FF_GO(wide_chunk(cu, r, net, &io, i, b0, b1, rows));
    }
    if (i > 0 && r->halves > 1) FF_CU(cudaStreamWaitEvent(cu->stream, cu->sides->added[(i - 1) % HALVES], 0));
done:
    if (st != FF_OK && r->halves > 1) (void)cudaStreamSynchronize(cu->sides->stream);
    return st;
}

/* ---- a run ---- */

/* What the pool's budget leaves, or everything. */
static int64_t budget_left(const ff_cuda_impl *cu)
{
    int64_t left = cu->budget - ff_cuda_pool_used(cu->pool);
    return cu->budget <= 0 ? INT64_MAX : left > 0 ? left : 0;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static ff_status alloc(ff_cuda_impl *cu, adj_run_state *r, int from, int to, ff_cuda_kind kind)
{
    (void)ff_cuda_pool_kind(cu->pool, kind);
    for (int k = from; k < to; k++) FF_TRY(ff_cuda_alloc(cu->pool, r->bytes[k], &r->d[k]));
    return FF_OK;
}

/* What all sources have: inputs and results. */
static ff_status open_whole(ff_cuda_impl *cu, const ff_adj_net *net, const ff_adj_args *a, adj_run_state *r)
{
    const ff_adj_job *j = r->job;
    size_t n = (size_t)j->n_slot, nets = (size_t)a->n_net, raw = (size_t)net->source.n_raw,
           dim = (size_t)net->c.dim;
    r->bytes[GRAD] = nets * (size_t)net->c.grad_len * 16;
    r->bytes[TARGET] = a->target != NULL ? (size_t)j->n_target * dim * 16 : 0;
    r->bytes[BAD] = sizeof(int);
    r->bytes[RAW] = n * raw * 4;
    r->bytes[STRENGTH] = nets * n * 4;
    r->bytes[OUT_BAR] = (size_t)j->n_target * (size_t)net->c.n_comp * 4;
    r->bytes[RAW_BAR] = n * raw * 8;
    r->bytes[STRENGTH_BAR] = nets * n * 8;
    r->bytes[X_BAR] = a->x_bar != NULL ? n * dim * 8 : 0;
    FF_TRY(alloc(cu, r, GRAD, GRAD + 1, FF_CUDA_WEIGHTS));
    FF_TRY(alloc(cu, r, GRAD + 1, N_WHOLE, FF_CUDA_POINTS));
    FF_TRY(ff_cuda_put(cu->pool, r->d[RAW], a->raw, r->bytes[RAW]));
    FF_TRY(ff_cuda_put(cu->pool, r->d[STRENGTH], a->strength, r->bytes[STRENGTH]));
    FF_TRY(ff_cuda_put(cu->pool, r->d[OUT_BAR], a->out_bar, r->bytes[OUT_BAR]));
    for (int k = GRAD; k <= BAD; k++) FF_TRY(ff_cuda_zero(cu->pool, r->d[k], r->bytes[k]));
    return FF_OK;
}

/* What the sources of a span have. */
static ff_status open_span(ff_cuda_impl *cu, const ff_adj_net *net, int64_t left, adj_run_state *r)
{
    const ff_adj_source *q = &net->source;
    size_t row = (size_t)net->c.row_len * 8, feat = (size_t)q->n_feat, rec = (size_t)net->c.rec_len * 4,
           gvec = (size_t)q->n_gvec * (2 + (size_t)net->c.dim) * 4;
    size_t slot = row + (2 * feat + 1) * 4 + rec + gvec;
    r->spans.most_slots = smaller(SPAN_BYTES, left / 4) / (int64_t)slot;
    r->spans.most_groups =
        r->job->run == NULL ? INT64_MAX : smaller(LISTS_BYTES, left / 8) / ((FF_ADJ_GROUP + 2) * 4);
    FF_TRY(adj_spans_open(cu, r->job, &r->spans));
    size_t n = (size_t)r->spans.slots;
    r->bytes[ROWS] = n * row;
    r->bytes[FEAT] = n * (feat + 1) * 4;
    r->bytes[REC] = n * rec;
    r->bytes[FEAT_BAR] = n * feat * 4;
    r->bytes[GVEC_BAR] = n * gvec;
    return alloc(cu, r, N_WHOLE, N_SPAN, FF_CUDA_RECORDS);
}

static int64_t wide_chunk_bytes(const adj_run_state *r)
{
    size_t beside = 0;
    for (int k = 0; k < N_SPAN; k++) beside += r->bytes[k];
    return beside <= WIDE_BESIDE_BYTES ? WIDE_LARGE_BYTES : WIDE_CHUNK_BYTES;
}

/* What a chunk's pairs have: groups or tiles, at least one list block, no more than there are. */
static ff_status open_chunk(ff_cuda_impl *cu, const ff_adj_net *net, int64_t left, adj_run_state *r)
{
    const ff_adj_cfg *c = &net->c;
    const ff_adj_job *j = r->job;
    bool wide = net->wide != NULL;
    int64_t all = wide ? j->host_tile[j->n_block] : j->host_off[j->n_block],
            block = FF_ADJ_BLOCK / (wide ? AW_GROUPS : 1);
    r->halves = 1;
    if (wide)
        r->most = smaller(wide_chunk_bytes(r), left / 5 * 2) / AW_TILE_BYTES;
    else
        FF_TRY(chunk_groups(c, smaller(CHUNK_BYTES, left / 2), &r->most));
    r->most = smaller(r->most, all);
    if (r->most < block) r->most = block;
    if (wide && r->most < all) r->halves = HALVES;
    if (r->halves > 1) FF_TRY(sides_open(cu));
    r->most_blocks =
        smaller(j->n_block, wide ? wide_blocks(r->most) : smaller(r->most / 16 + 1, MOST_BLOCKS));
    size_t n = (size_t)r->halves, most = (size_t)r->most, blocks = (size_t)r->most_blocks,
           groups = most * (wide ? AW_GROUPS : 1);
    r->bytes[CHUNK] =
        wide ? most * AW_TILE_BYTES : groups * (size_t)(FF_ADJ_GROUP / c->kpw) * (size_t)c->row_words * 4;
    r->bytes[GROUP_ROWS] = n * groups * (size_t)c->row_len * 4;
    r->bytes[EDGE] = n * blocks * 2 * (size_t)c->row_len * sizeof(double);
    r->bytes[TILE] = wide ? most * sizeof(int2) : 0;
    r->bytes[PART] = wide ? n * blocks * AW_PART * sizeof(float) : 0;
    return alloc(cu, r, N_SPAN, N_BUFFER, FF_CUDA_CHUNK);
}

static ff_status run_open(ff_cuda_impl *cu, const ff_adj_net *net, const ff_adj_args *a, adj_run_state *r)
{
    ff_status st = FF_OK;
    int device = 0;
    int64_t left;
    FF_CU(cudaGetDevice(&device));
    FF_CU(cudaDeviceGetAttribute(&r->sms, cudaDevAttrMultiProcessorCount, device));
    FF_GO(open_whole(cu, net, a, r));
    left = budget_left(cu);
    FF_GO(open_span(cu, net, left, r));
    FF_GO(open_chunk(cu, net, left, r));
done:
    return st;
}

static adj_source_io source_io(const adj_run_state *r, const ff_adj_net *net, const ff_adj_args *a,
                               const adj_span *span, int k)
{
    adj_source_io io;
    const ff_adj_source *q = &net->source;
    int64_t slot = span->slot_begin;
    memset(&io, 0, sizeof io);
    io.slot_begin = slot;
    io.slot_end = span->slot_end;
    io.unit_begin = span->unit_begin;
    io.unit_end = span->unit_end;
    io.unit_off = r->job->unit_off;
    io.w = net->given;
    io.b = net->given + net->at_bias;
    io.gvec = net->given + net->at_gvec;
    io.raw = (const float *)r->d[RAW];
    io.feat = adj_from((float *)r->d[FEAT], slot * (q->n_feat + 1));
    io.rec = adj_from((float *)r->d[REC], slot * net->c.rec_len);
    io.rows = adj_from((const double *)r->d[ROWS], slot * net->c.row_len);
    io.feat_bar = adj_from((float *)r->d[FEAT_BAR], slot * q->n_feat);
    io.gvec_bar = adj_from((float *)r->d[GVEC_BAR], slot * q->n_gvec * (2 + net->c.dim));
    io.raw_bar = (double *)r->d[RAW_BAR];
    io.strength_bar = (double *)r->d[STRENGTH_BAR] + k * r->job->n_slot;
    io.x_bar = a->x_bar != NULL ? (double *)r->d[X_BAR] : NULL;
    io.grad = (int64_t *)r->d[GRAD] + 2 * k * net->c.grad_len;
    io.bad = (int *)r->d[BAD];
    io.first = k == 0;
    return io;
}

static adj_io pairs_io(const adj_run_state *r, const ff_adj_net *net, const ff_adj_args *a,
                       const adj_span *span, const adj_source_io *source, int k)
{
    adj_io io;
    memset(&io, 0, sizeof io);
    io.image = net->image;
    io.bias = net->bias;
    io.rec = source->rec;
    io.strength = (const float *)r->d[STRENGTH] + k * r->job->n_slot;
    io.out_bar = (const float *)r->d[OUT_BAR];
    io.x_s = r->job->x_s;
    io.x_t = r->job->x_t;
    io.group_slot = span->group_slot;
    io.target = span->target;
    io.target_words = a->target != NULL ? (int64_t *)r->d[TARGET] : NULL;
    io.grad = source->grad;
    io.bad = source->bad;
    return io;
}

/* Network k of a span: its records, all pairs, and what they leave to the sources. */
static ff_status run_net(ff_cuda_impl *cu, const adj_run_state *r, const ff_adj_net *net,
                         const ff_adj_args *a, const adj_span *span, int k)
{
    ff_status st = FF_OK;
    adj_source_io source = source_io(r, net, a, span, k);
    adj_io io = pairs_io(r, net, a, span, &source, k);
    size_t n = (size_t)(span->slot_end - span->slot_begin) * (size_t)net->c.row_len;
    double *rows = (double *)r->d[ROWS], *all = adj_from(rows, span->slot_begin * net->c.row_len);
    if (k == 0) FF_CU(adj_source_features(&net->source, &source, cu->stream));
    FF_CU(adj_source_hidden(&net->source, &source, cu->stream));
    FF_GO(ff_cuda_zero(cu->pool, rows, n * sizeof *rows));
    FF_GO(net->wide != NULL ? run_wide(cu, r, net, span, &io, all)
                            : run_chunks(cu, r, &net->c, span, &io, all));
    FF_CU(adj_source_back(&net->source, &source, cu->stream));
    if (a->rows != NULL)
        FF_GO(ff_cuda_get(cu->pool, a->rows + (k * r->job->n_slot + span->slot_begin) * net->c.row_len, rows,
                          n * sizeof *rows));
done:
    return st;
}

static ff_status run_results(ff_cuda_impl *cu, const adj_run_state *r, ff_adj_args *a)
{
    int bad = 0;
    FF_TRY(ff_cuda_get(cu->pool, a->raw_bar, r->d[RAW_BAR], r->bytes[RAW_BAR]));
    FF_TRY(ff_cuda_get(cu->pool, a->strength_bar, r->d[STRENGTH_BAR], r->bytes[STRENGTH_BAR]));
    if (a->x_bar != NULL) FF_TRY(ff_cuda_get(cu->pool, a->x_bar, r->d[X_BAR], r->bytes[X_BAR]));
    FF_TRY(ff_cuda_get(cu->pool, a->grad, r->d[GRAD], r->bytes[GRAD]));
    if (a->target != NULL) FF_TRY(ff_cuda_get(cu->pool, a->target, r->d[TARGET], r->bytes[TARGET]));
    FF_TRY(ff_cuda_get(cu->pool, &bad, r->d[BAD], sizeof bad));
    FF_TRY(ff_cuda_wait(cu->pool));
    a->bad = bad != 0;
    return FF_OK;
}

static ff_status adj_run(void *impl, const ff_adj_job *j, ff_adj_net *const *net, ff_adj_args *a)
{
    ff_status st = FF_OK;
    ff_cuda_impl *cu = (ff_cuda_impl *)impl;
    adj_run_state r;
    adj_span span = {};
    memset(&r, 0, sizeof r);
    r.job = j;
    FF_GO(run_open(cu, net[0], a, &r));
    while (adj_span_next(j, &r.spans, span.unit_end, &span)) {
        FF_GO(adj_span_lists(cu, j, &r.spans, &span));
        for (int k = 0; k < a->n_net; k++) FF_GO(run_net(cu, &r, net[k], a, &span, k));
    }
    if (a->meanwhile != NULL) a->meanwhile(a->ctx);
    FF_GO(run_results(cu, &r, a));
done:
    for (int k = 0; k < N_BUFFER; k++) ff_cuda_free(cu->pool, r.d[k]);
    adj_spans_close(cu, &r.spans);
    return st;
}

const ff_pair_adjoint_ops ff_cuda_adjoint_ops = {adj_job_create, adj_job_destroy, adj_net_create,
                                                 adj_net_destroy, adj_run};
