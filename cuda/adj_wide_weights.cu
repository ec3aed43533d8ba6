/* adj_wide_squares, adj_wide_sums: weight gradients of wide networks from a chunk (ff_adj_wide.cuh)
 * Work    adj_wide_squares: a persistent block an SM takes one part of one list block after the other (128 outputs x 256 inputs of
 *         layers 2 to 4, all of layer 1) and sums z x^T over the block's pairs; a thread brings the tiles.
 *         adj_wide_sums: a thread an entry rounds every block's sum once and adds the chunk's to the gradient
 * Launch  grid SMs, block 384 (setmaxnreg: consumers 232, producer 40), 193 KiB shared: 1 block an SM; a thread an entry
 * Shapes  part [blocks][AW_PART] f32, grad [grad_len][2] words
 * Order   pairs of a list block in order, float32; the words are exact
 * Bound   2 FLOP a multiply-add, 0.33 MFLOP a pair, 0.41 ns at 790 TFLOP/s; bytes a pair: 3.4 kB from device memory, 0.8 ns
 *         at 4.3 TB/s, 4.3 kB through the L2 cache. Measured on the H200: squares 0.93 ns at 3.9 TB/s, sums 0.17 ns
 * Oracle  tests/gpu/test_pair_adjoint.c
 * Care    the operands are read transposed: rows of their core matrices are pairs, the index that is summed over */
#include "ff_adj_wide.cuh"

#include "ff_adj_wgmma.cuh"
#include "ff_round.cuh"

enum {
    PARTS = 6, /* layer 2, two halves; layer 3, two halves; layer 4; layer 1 */
    STAGES = 4,
    STAGE = 3 * AW_TILE * AW_H, /* bytes: half of z and all of x */
    S_ONES = STAGES * STAGE,    /* two core matrices of ones: the operand that sums biases */
    S_BAR = S_ONES + 256,
    SMEM = S_BAR + 2 * STAGES * 8,
    THREADS = 384,
    SUM_THREADS = 128,
    AHEAD = 8, /* block sums on their way to a thread */
};
static_assert(SMEM <= 232448, "shared memory");

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
extern __shared__ __align__(1024) char adj_wide_stages[];

FF_DEV uint32_t stage_at(uint32_t stage)
{
    return smem_u32(adj_wide_stages) + stage * STAGE;
}
FF_DEV uint32_t bar_full(uint32_t stage)
{
    return smem_u32(adj_wide_stages) + S_BAR + 8 * stage;
}
FF_DEV uint32_t bar_empty(uint32_t stage)
{
    return smem_u32(adj_wide_stages) + S_BAR + 8 * (STAGES + stage);
}

/* Where a part's operands lie in a tile of the chunk. */
typedef struct square {
    uint32_t z, z_bytes, x, x_bytes;
} square;

FF_DEV square square_of(int part)
{
    if (part == 5) return {AW_Z1, AW_X_BYTES, AW_X0, AW_X0_BYTES};
    if (part == 4) return {AW_Z4, AW_Z4_BYTES, AW_X1 + 2 * AW_X_BYTES, AW_X_BYTES};
    int l = part / 2, half = part % 2;
    return {(uint32_t)(AW_Z1 + (l + 1) * AW_X_BYTES + half * AW_X_BYTES / 2), AW_X_BYTES / 2,
            (uint32_t)(AW_X1 + l * AW_X_BYTES), AW_X_BYTES};
}

FF_DEV void bring(const adj_wide_io &io)
{
    adj_ring r = {0, 1};
    for (int item = (int)blockIdx.x; item < io.n_block * PARTS; item += (int)gridDim.x) {
        int block = item / PARTS;
        square q = square_of(item % PARTS);
        int first = (int)(io.tile_off[block] - io.tile_begin),
            end = (int)(io.tile_off[block + 1] - io.tile_begin);
        for (int t = first; t < end; t++) {
            const char *from = io.chunk + (int64_t)t * AW_TILE_BYTES;
            mbar_wait(bar_empty(r.stage), r.phase);
            mbar_expect(bar_full(r.stage), q.z_bytes + q.x_bytes);
            bulk_load(stage_at(r.stage), from + q.z, q.z_bytes, bar_full(r.stage));
            bulk_load(stage_at(r.stage) + STAGE - AW_X_BYTES +
                          (q.x_bytes == AW_X0_BYTES ? AW_X_BYTES - AW_X0_BYTES : 0),
                      from + q.x, q.x_bytes, bar_full(r.stage));
            adj_ring_next<STAGES>(r);
        }
    }
}

/* A transposed operand: k (pairs) along the rows of core matrices, the other index in groups of 8, 1 KiB apart. */
FF_DEV uint64_t turned(uint32_t addr)
{
    return wg_desc(addr, 128, 1024);
}

FF_DEV void drop(uint32_t stage)
{
    if ((threadIdx.x & 31) == 0) mbar_arrive(bar_empty(stage));
}

/* n tiles of a part, one after the other: issue(z, x) starts a tile's products from shared addresses of its operands. */
template <class Issue> FF_DEV void each_tile(adj_ring &r, int n, uint32_t z_off, uint32_t x_off, Issue issue)
{
    uint32_t last = 0;
#pragma unroll 1
    for (int t = 0; t < n; t++) {
        mbar_wait(bar_full(r.stage), r.phase);
        wg_fence();
        issue(stage_at(r.stage) + z_off, stage_at(r.stage) + STAGE - x_off);
        wg_commit();
        if (t > 0) {
            wg_wait<1>();
            drop(last);
        }
        last = r.stage;
        adj_ring_next<STAGES>(r);
    }
    wg_wait<0>();
    if (n > 0) drop(last);
}

/* 64 outputs (this warpgroup's) x 256 inputs, and their bias. */
FF_DEV void big_square(float (&acc)[128], float (&ones)[4], adj_ring &r, int n, int wg)
{
    uint32_t one = smem_u32(adj_wide_stages) + S_ONES;
    wg_pin(acc);
    wg_pin(ones);
    each_tile(r, n, (uint32_t)wg * 8 * 1024, AW_X_BYTES, [&](uint32_t z, uint32_t x) {
#pragma unroll
        for (int s = 0; s < AW_TILE / 16; s++) {
            adj_wg<256>::mm(acc, turned(z + 256 * s), turned(x + 256 * s));
            adj_wg<8>::mk(ones, turned(z + 256 * s), wg_desc(one, 128, 128));
        }
    });
    wg_pin(acc);
    wg_pin(ones);
}

/* 128 outputs x 32 inputs. */
FF_DEV void first_layer(float (&lo)[16], float (&hi)[16], adj_ring &r, int n, int wg)
{
    wg_pin(lo);
    wg_pin(hi);
    each_tile(r, n, (uint32_t)wg * 16 * 1024, AW_X0_BYTES, [&](uint32_t z, uint32_t x) {
#pragma unroll
        for (int s = 0; s < AW_TILE / 16; s++) {
            adj_wg<32>::mm(lo, turned(z + 256 * s), turned(x + 256 * s));
            adj_wg<32>::mm(hi, turned(z + 8 * 1024 + 256 * s), turned(x + 256 * s));
        }
    });
    wg_pin(lo);
    wg_pin(hi);
}

/* Rows of 64 accumulated outputs to `to` [..][ld], of which n are real. */
template <int N> FF_DEV void put_rows(const float (&acc)[N / 2], float *to, int n)
{
    int lane = threadIdx.x & 31, row = threadIdx.x / 32 % 4 * 16 + lane / 4;
#pragma unroll
    for (int rr = 0; rr < 2; rr++)
#pragma unroll
        for (int j = 0; j < N / 8; j++)
            if (row + 8 * rr < n)
                *(float2 *)(to + (row + 8 * rr) * N + 8 * j + 2 * (lane & 3)) =
                    make_float2(acc[4 * j + 2 * rr], acc[4 * j + 2 * rr + 1]);
}

FF_DEV void sum_up(const adj_wide_io &io, int wg)
{
    adj_ring r = {0, 0};
    int lane = threadIdx.x & 31, row = threadIdx.x / 32 % 4 * 16 + lane / 4;
    for (int item = (int)blockIdx.x; item < io.n_block * PARTS; item += (int)gridDim.x) {
        int block = item / PARTS, part = item % PARTS, n = (int)(io.tile_off[block + 1] - io.tile_off[block]);
        float *to = io.part + (int64_t)block * AW_PART;
        if (part == 5) {
            float lo[16], hi[16];
#pragma unroll
            for (int i = 0; i < 16; i++) lo[i] = hi[i] = 0.0f;
            first_layer(lo, hi, r, n, wg);
            put_rows<32>(lo, to + AW_P1 + wg * 128 * AW_KF, 64);
            put_rows<32>(hi, to + AW_P1 + (wg * 128 + 64) * AW_KF, 64);
        } else {
            float acc[128], ones[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
            for (int i = 0; i < 128; i++) acc[i] = 0.0f;
            big_square(acc, ones, r, n, wg);
            int first = 128 * part + 64 * wg,
                live = part == 4 ? AW_NOUT - 64 * wg : 64; /* row of W2, W3, W4 */
            put_rows<256>(acc, to + AW_P2 + first * AW_H, live);
            if (lane % 4 == 0 && row < live) to[AW_PB + first + row] = ones[0];
            if (lane % 4 == 0 && row + 8 < live) to[AW_PB + first + row + 8] = ones[2];
        }
    }
}

#endif

static __global__ void __launch_bounds__(THREADS, 1) adj_wide_squares(const __grid_constant__ adj_wide_io io)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    int wg = (int)threadIdx.x / 128;
    if (threadIdx.x == 0) {
        for (uint32_t i = 0; i < STAGES; i++) {
            mbar_init(bar_full(i), 1);
            mbar_init(bar_empty(i), 8);
        }
        mbar_init_fence();
    }
    if (threadIdx.x < 64) ((uint32_t *)(adj_wide_stages + S_ONES))[threadIdx.x] = 0x3f803f80u;
    fence_async_proxy();
    __syncthreads();
    if (wg < 2) {
        adj_regs_up<232>();
        sum_up(io, wg);
    } else {
        adj_regs_down<40>();
        if (threadIdx.x == 256) bring(io);
    }
#endif
}

/* ---- exact sums ---- */

/* Place in the gradient and factor (see ff_globe_net.h) of entry e of a block's sums; -1: padding. */
FF_DEV int64_t place_of(const ff_adj_cfg &c, int e, double *factor)
{
    const double log2_e = 1.4426950408889634;
    int layer, out, in;
    *factor = 1.0;
    if (e >= AW_PB) {
        e -= AW_PB;
        layer = 1 + e / AW_H;
        out = layer < 3 ? e % AW_H : output_of(c, e - 2 * AW_H);
        if (layer < 3) *factor = 1.0 / log2_e;
        return out >= 0 && out < c.layer[layer].n_out ? c.layer[layer].at_b + out : -1;
    }
    if (e < AW_P2) {
        layer = 0;
        out = e / AW_KF;
        in = feature_of(c, e % AW_KF);
        *factor = 1.0 / log2_e;
    } else if (e < AW_P4) {
        layer = 1 + (e - AW_P2) / (AW_H * AW_H);
        out = (e - AW_P2) / AW_H % AW_H;
        in = e % AW_H;
    } else {
        layer = 3;
        out = output_of(c, (e - AW_P4) / AW_H);
        in = e % AW_H;
        *factor = log2_e;
    }
    if (out < 0 || out >= c.layer[layer].n_out || in < 0 || in >= c.layer[layer].n_in) return -1;
    return c.layer[layer].at_w + (int64_t)out * ((c.layer[layer].n_in + 15) / 16 * 16) + in;
}

/* Adds to an entry's words, which are this thread's alone; the low one ends in [-2^47, 2^47). */
FF_DEV void words_add(int64_t *words, int64_t hi, int64_t lo, int *bad)
{
    const int64_t limit = (int64_t)1 << 61;
    lo += words[1];
    int64_t carry = (lo + ((int64_t)1 << 47)) >> 48;
    hi += words[0] + carry;
    words[0] = hi;
    words[1] = lo - carry * ((int64_t)1 << 48);
    if (hi > limit || hi < -limit) *bad = 1;
}

static __global__ void adj_wide_sums(const __grid_constant__ ff_adj_cfg c,
                                     const __grid_constant__ adj_wide_io io)
{
    int e = (int)(blockIdx.x * SUM_THREADS + threadIdx.x);
    double factor;
    int64_t at = e < AW_PART ? place_of(c, e, &factor) : -1, hi = 0, lo = 0;
    if (at < 0) return;
    bool bad = false;
    for (int b0 = 0; b0 < io.n_block; b0 += AHEAD) {
        float v[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            v[i] = b0 + i < io.n_block ? __ldg(io.part + (int64_t)(b0 + i) * AW_PART + e) : 0.0f;
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            double x = factor * (double)v[i], high = rint(x * 0x1p24);
            if (!(fabs(x) < 0x1p27)) {
                bad = true;
                continue;
            }
            hi += (int64_t)high;
            lo += (int64_t)rint((x - high * 0x1p-24) * 0x1p72);
        }
    }
    if (hi != 0 || lo != 0) words_add(io.pairs.grad + 2 * at, hi, lo, io.pairs.bad);
    if (bad) *io.pairs.bad = 1;
}

cudaError_t adj_wide_weights(const adj_wide_io *io, int sms, cudaStream_t s)
{
    int items = io->n_block * PARTS;
    cudaError_t e = cudaFuncSetAttribute(adj_wide_squares, cudaFuncAttributeMaxDynamicSharedMemorySize, SMEM);
    if (e != cudaSuccess) return e;
    adj_wide_squares<<<(unsigned)(items < sms ? items : sms), THREADS, SMEM, s>>>(*io);
    return cudaGetLastError();
}

cudaError_t adj_wide_add(const adj_wide *w, const adj_wide_io *io, cudaStream_t s)
{
    adj_wide_sums<<<(AW_PART + SUM_THREADS - 1) / SUM_THREADS, SUM_THREADS, 0, s>>>(w->c, *io);
    return cudaGetLastError();
}
