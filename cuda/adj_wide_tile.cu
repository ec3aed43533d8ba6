/* adj_wide_tile: pairs of wide networks evaluated again and walked backward, 64 a tile (ff_adj_wide.cuh)
 * Work    a persistent block an SM: two consumer warpgroups with a tile each, a thread that streams all weights past both,
 *         forward then back, and three warps that prepare the next tiles' geometry, features and h0. A layer is computed
 *         in halves of 128 columns: SiLU of one half becomes the A operand of the next layer, in registers and from there
 *         to the chunk, while the other half's products run; SiLU' stays in shared memory in 8 bits (step 1 / 210)
 * Launch  grid SMs, block 384 (setmaxnreg: consumers 224, the others 56), 226 KiB shared: 1 block an SM
 * Shapes  adj_wide_io; chunk [tiles][AW_TILE_BYTES], group_rows [groups][row_len] f32
 * Order   a pair's results depend on that pair alone; a group's sums over its 16 pairs by lane order
 * Bound   tensor cores: 4 FLOP a multiply-add, 0.66 MFLOP a pair, 0.83 ns at 790 TFLOP/s. Bytes a pair through the L2
 *         cache: weights 2 x 328 kB / 128 pairs = 5.1 kB read, 3.4 kB of chunk written. Measured on the H200: 1.56 ns,
 *         53 % of the floor (docs/kernels.md)
 * Oracle  ff_globe_tile_adjoint_f64, tests/gpu/test_pair_adjoint.c
 * Care    padding pairs have cotangent and strength 0; padded units have weights, SiLU and cotangents 0. ptxas must not say
 *         that it serializes wgmma (C7510 to C7514): words of an operand that are made beside products are settled or
 *         moved by volatile text, and accumulators are read behind wg_pin */
#include "adj_wide_layers.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
/* Tile of warpgroup wg in round k. */
FF_DEV int tile_of(int wg, int k)
{
    return (k * (int)gridDim.x + (int)blockIdx.x) * 2 + wg;
}

/* Three warps prepare the groups of the next round. */
FF_DEV void prepare(const ff_adj_cfg &c, const adj_wide_io &io, int rounds)
{
#pragma unroll 1
    for (int k = 0; k < rounds; k++)
#pragma unroll 1
        for (int i = (int)threadIdx.x / 32 - 9; i < 2 * AW_GROUPS; i += 3) {
            int wg = i / AW_GROUPS, group = i % AW_GROUPS, tile = tile_of(wg, k);
            int2 at = tile < io.n_tile ? io.tile[tile] : make_int2(0, 0);
            int mine = group < at.y ? at.x + group : -1;
            int slot = io.pairs.group_slot[io.pairs.group_begin + (mine >= 0 ? mine : at.x)];
            char *chunk = tile < io.n_tile ? io.chunk + (int64_t)tile * AW_TILE_BYTES : NULL;
            pair_features(c, io, room_of(wg, group, k & 1), wg, group, mine, slot, chunk,
                          (uint32_t)(k & 1) ^ 1);
        }
}

/* Forward up to the accumulators of the outputs, without their bias. SiLU of one half runs beside the products of the other:
 * a half's accumulators and the operand of a layer fill the registers. */
FF_DEV void forward(float (&h0)[AW_HALF / 2], const tile_place &p, int wg, ring_reader &r)
{
    float h1[AW_HALF / 2];
    uint32_t a[64], next[32], x0 = at_shared(S_X0) + wg * AW_X0_BYTES;
    first_product(h0, x0, r);
    ended_before(first_product(h1, x0, r));
    wg_pin(h0);
#pragma unroll
    for (int t = 0; t < 8; t++) slice_forward(h0, 0, t, 0, p, a + 4 * t);
    all_ended(r);
    wg_pin(h1);
#pragma unroll 1
    for (int l = 1;; l++) {
        product<AW_HALF, AW_FULL, 2, false>(h0, a, r, [&](int u) {
            if (u >= 4) return;
            slice_forward(h1, 1, 2 * u, l - 1, p, a + 32 + 8 * u);
            slice_forward(h1, 1, 2 * u + 1, l - 1, p, a + 36 + 8 * u);
        });
        if (l == 1) { /* features and h0 are no longer needed */
            __syncwarp();
            if ((threadIdx.x & 31) == 0) mbar_arrive(bar_taken(wg));
        }
        all_ended(r);
        wg_pin(h0);
        if (l == 3) break;
        product<AW_HALF, AW_FULL, 2, false>(h1, a, r,
                                            [&](int u) { slice_forward(h0, 0, u, l, p, next + 4 * u); });
        all_ended(r);
        wg_pin(h1);
#pragma unroll
        for (int i = 0; i < 32; i++) asm volatile("mov.b32 %0, %1;" : "=r"(a[i]) : "r"(next[i]));
    }
}

/* Back from the words of the outputs' cotangents to those of the features; sums of layer 1's to row. */
FF_DEV void backward(float (&x_bar)[AW_KF / 2], const uint32_t (&z4)[4 * AW_OUT], const tile_place &p,
                     float *row, int n, ring_reader &r)
{
    float h0[AW_HALF / 2], h1[AW_HALF / 2];
    uint32_t a[64], next[32];
    product<AW_HALF, AW_OUT, 2, false>(h0, z4, r, [&](int) {});
    product<AW_HALF, AW_OUT, 2, true>(h1, z4, r, [&](int u) {
        if (u == 0) wg_pin(h0);
        slice_backward(h0, 0, 2 * u, 2, p, a + 8 * u);
        slice_backward(h0, 0, 2 * u + 1, 2, p, a + 8 * u + 4);
    });
    all_ended(r);
    wg_pin(h1);
#pragma unroll 1
    for (int l = 2; l > 0; l--) {
        product<AW_HALF, AW_FULL, 2, false>(h0, a, r, [&](int u) {
            if (u >= 4) return;
            slice_backward(h1, 1, 2 * u, l, p, a + 32 + 8 * u);
            slice_backward(h1, 1, 2 * u + 1, l, p, a + 36 + 8 * u);
        });
        product<AW_HALF, AW_FULL, 2, true>(h1, a, r, [&](int u) {
            if (u == 0) wg_pin(h0);
            slice_backward(h0, 0, u, l - 1, p, next + 4 * u);
        });
        all_ended(r);
        wg_pin(h1);
#pragma unroll
        for (int i = 0; i < 32; i++) asm volatile("mov.b32 %0, %1;" : "=r"(a[i]) : "r"(next[i]));
    }
    product<AW_KF, AW_FULL, 8, false>(x_bar, a, r, [&](int u) {
        if (u > 0) return;
#pragma unroll
        for (int t = 0; t < 8; t++) slice_backward(h1, 1, t, 0, p, a + 32 + 4 * t);
    });
    column_sums(a, row, n);
    all_ended(r);
    wg_pin(x_bar);
}

FF_DEV void consume(const ff_adj_cfg &c, const adj_wide_io &io, int rounds)
{
    ring_reader ring = {{0, 0}, 0};
    int wg = (int)threadIdx.x / 128, warp = threadIdx.x / 32 % 4, lane = threadIdx.x & 31, q = lane & 3,
        row = 16 * warp + lane / 4;
    tile_place p;
    p.diff = (uint2 *)(adj_wide_shared + S_D + wg * 3 * D_LAYER) + threadIdx.x % 128;
    p.h0 = (const float *)(adj_wide_shared + S_H0) + (wg * AW_GROUPS + warp) * AW_H + 2 * q;
    p.bias = (const float *)(adj_wide_shared + S_BIAS) + 2 * q;
#pragma unroll 1
    for (int k = 0; k < rounds; k++) {
        int tile = tile_of(wg, k);
        p.chunk = tile < io.n_tile ? io.chunk + (int64_t)tile * AW_TILE_BYTES + row * 16 + q * 4 : NULL;
        pair_room room = room_of(wg, warp, k & 1);
        uint32_t z4[4 * AW_OUT];
        mbar_wait(bar_ready(wg), (uint32_t)k & 1);
        {
            float out[AW_HALF / 2];
            forward(out, p, wg, ring);
            sum_bars b0 = sum_bars_load(c, io, room, row), b1 = sum_bars_load(c, io, room, row + 8);
#pragma unroll
            for (int j = 0; j < AW_J; j++)
#pragma unroll
                for (int e = 0; e < 4; e++) out[4 * j + e] += p.bias[2 * AW_H + 8 * j + e % 2];
            row_outputs(c, room, out, b0, row, 0, z4);
            row_outputs(c, room, out, b1, row + 8, 1, z4);
#pragma unroll
            for (int j = 0; j < AW_J; j++)
                put_tile(p.chunk != NULL ? p.chunk + AW_Z4 : NULL, j, z4[2 * j], z4[2 * j + 1]);
#pragma unroll
            for (int i = 2 * AW_J; i < 4 * AW_OUT; i++) asm volatile("mov.b32 %0, 0;" : "=r"(z4[i]));
            __syncwarp(); /* the stash is read by other lanes */
        }
        int at = room.s->at;
        float *to = at >= 0 ? io.pairs.group_rows + (int64_t)at * c.row_len : NULL;
        float x_bar[AW_KF / 2], pair[2][4] = {{0.0f, 0.0f, 0.0f, 0.0f}, {0.0f, 0.0f, 0.0f, 0.0f}};
        backward(x_bar, z4, p, to, c.off_m, ring);
        vector_back(c, room, x_bar, 0, to, pair);
        vector_back(c, room, x_bar, 1, to, pair);
#pragma unroll
        for (int i = 0; i < 8; i++) pair[i / 4][i % 4] = over_quad(pair[i / 4][i % 4]);
        distance_back(c, io, room, to, pair);
    }
}
#endif

static __global__ void __launch_bounds__(TILE_THREADS, 1)
    adj_wide_tile(const __grid_constant__ ff_adj_cfg c, const __grid_constant__ adj_wide_io io,
                  const char *image, const float *bias)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    int wg = (int)threadIdx.x / 128, each = 2 * (int)gridDim.x, rounds = (io.n_tile + each - 1) / each;
    if (threadIdx.x == 0) {
        for (uint32_t i = 0; i < RING_STAGES; i++) {
            mbar_init(bar_full(i), 1);
            mbar_init(bar_empty(i), 8);
        }
        for (int i = 0; i < 2; i++) {
            mbar_init(bar_ready(i), AW_GROUPS);
            mbar_init(bar_taken(i), AW_GROUPS);
        }
        mbar_init_fence();
    }
    for (int i = (int)threadIdx.x; i < AW_BIAS; i += TILE_THREADS)
        ((float *)(adj_wide_shared + S_BIAS))[i] = bias[i];
    __syncthreads();
    if (wg < 2) {
        adj_regs_up<224>();
        consume(c, io, rounds);
    } else {
        adj_regs_down<56>();
        if (threadIdx.x == 256) stream_weights(image, rounds);
        if (threadIdx.x >= 288) prepare(c, io, rounds);
    }
#endif
}

/* A block's tiles, a thread a block. */
static __global__ void adj_wide_table(const __grid_constant__ adj_wide_io io)
{
    int b = (int)(blockIdx.x * TABLE_THREADS + threadIdx.x);
    if (b >= io.n_block) return;
    int first = (int)(io.block_off[b] - io.pairs.group_begin),
        end = (int)(io.block_off[b + 1] - io.pairs.group_begin);
    int2 *to = io.tile + (io.tile_off[b] - io.tile_begin);
    for (int g = first; g < end; g += AW_GROUPS) *to++ = make_int2(g, min((int)AW_GROUPS, end - g));
}

cudaError_t adj_wide_tiles(const adj_wide *w, const adj_wide_io *io, int sms, cudaStream_t s)
{
    cudaError_t e =
        cudaFuncSetAttribute(adj_wide_tile, cudaFuncAttributeMaxDynamicSharedMemorySize, TILE_SMEM);
    if (e != cudaSuccess) return e;
    adj_wide_table<<<(unsigned)((io->n_block + TABLE_THREADS - 1) / TABLE_THREADS), TABLE_THREADS, 0, s>>>(
        *io);
    e = cudaGetLastError();
    if (e != cudaSuccess) return e;
    adj_wide_tile<<<(unsigned)sms, TILE_THREADS, TILE_SMEM, s>>>(w->c, *io, w->image, w->bias);
    return cudaGetLastError();
}
