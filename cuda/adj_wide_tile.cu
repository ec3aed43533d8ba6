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
#include "adj_wide_pair.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
FF_DEV void stream_weights(const char *image, int rounds)
{
    adj_ring r = {0, 1};
    for (int k = 0; k < rounds; k++)
        for (int s = 0; s < AW_STAGES; s++) {
            mbar_wait(bar_empty(r.stage), r.phase);
            mbar_expect(bar_full(r.stage), AW_STAGE);
            bulk_load(at_shared(S_RING) + r.stage * AW_STAGE, image + s * AW_STAGE, AW_STAGE,
                      bar_full(r.stage));
            adj_ring_next<RING_STAGES>(r);
        }
}

/* Stages of the ring as a warp reads them: the next one, and the one whose products may still run. */
typedef struct ring_reader {
    adj_ring at;
    uint32_t held;
} ring_reader;

/* This warp has read a stage. */
FF_DEV void drop(uint32_t stage)
{
    if ((threadIdx.x & 31) == 0) mbar_arrive(bar_empty(stage));
}
/* Shared address of the next stage. */
FF_DEV uint32_t stage_get(const ring_reader &r)
{
    mbar_wait(bar_full(r.at.stage), r.at.phase);
    wg_fence();
    return at_shared(S_RING) + r.at.stage * AW_STAGE;
}
/* The stage's products are issued. */
FF_DEV uint32_t stage_issued(ring_reader &r)
{
    uint32_t before = r.held;
    wg_commit();
    r.held = r.at.stage;
    adj_ring_next<RING_STAGES>(r.at);
    return before;
}
/* All products but those of the last stage have ended; `before`: the stage before that. */
FF_DEV void ended_before(uint32_t before)
{
    wg_wait<1>();
    drop(before);
}
FF_DEV void all_ended(const ring_reader &r)
{
    wg_wait<0>();
    drop(r.held);
}

/* d = a W over STEPS k steps of N columns, PER a stage. work(u) runs beside stage u; it may write the words of `a` that later
 * stages take. BEFORE: a stage of another product is on its way; it has ended when work(0) begins. */
template <int N, int STEPS, int PER, bool BEFORE, class Work>
FF_DEV void product(float (&d)[N / 2], const uint32_t *a, ring_reader &r, Work work)
{
#pragma unroll
    for (int u = 0; u < STEPS / PER; u++) {
        uint32_t w = stage_get(r);
#pragma unroll
        for (int s = 0; s < PER; s++) {
            uint64_t b = wg_desc(w + s * N * 32, N * 16, 128);
            if (u == 0 && s == 0)
                adj_wg<N>::r_set(d, a, b);
            else
                adj_wg<N>::r(d, a + 4 * (u * PER + s), b);
        }
        uint32_t before = stage_issued(r);
        if (BEFORE && u == 0) ended_before(before);
        work(u);
        if (u > 0) ended_before(before);
    }
}

/* d = x0 W1, one half; x0: shared address. */
FF_DEV uint32_t first_product(float (&d)[AW_HALF / 2], uint32_t x0, ring_reader &r)
{
    uint32_t w = stage_get(r);
    adj_wg<AW_HALF>::kk_set(d, wg_desc(x0, 1024, 128), wg_desc(w, AW_HALF * 16, 128));
    adj_wg<AW_HALF>::kk(d, wg_desc(x0 + 2048, 1024, 128), wg_desc(w + AW_STEP, AW_HALF * 16, 128));
    return stage_issued(r);
}

/* ---- layers ---- */

/* Rows g and g + 8 of tile j, to this thread's place in the chunk (NULL: a tile that is not there). */
FF_DEV void put_tile(char *to, int j, uint32_t g, uint32_t h)
{
    if (to == NULL) return;
    *(uint32_t *)(to + j * 1024) = g;
    *(uint32_t *)(to + j * 1024 + 128) = h;
}

/* SiLU of h = z / 2, y = z s, and SiLU' = 1 - (1 - s) (1 - y) in the low byte of the result. */
FF_DEV uint32_t silu_byte(float h, float *x)
{
    float t = tanh_fast(h), y = fmaf(h, t, h), less = fmaf(0.5f * D_SCALE, t, -0.5f * D_SCALE);
    *x = y;
    return __float_as_uint(fmaf(less, 1.0f - y, D_ZERO + D_SCALE));
}
FF_DEV uint32_t bytes4(uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
    return __byte_perm(__byte_perm(a, b, 0x0040), __byte_perm(c, d, 0x0040), 0x5410);
}
/* Byte k of a word as SiLU': 1 + byte 2^-15, then scaled. */
FF_DEV float byte_value(uint32_t word, int k)
{
    float f = __uint_as_float(__byte_perm(word, 0x3f800000u, 0x7604 + 16 * k));
    return fmaf(f, 0x1p15f / D_SCALE, -(0x1p15f + 21.0f) / D_SCALE);
}

/* The words of a k step are made here, not where the product takes them: no product waits for others to end. */
FF_DEV void settle(uint32_t *a)
{
#pragma unroll
    for (int i = 0; i < 4; i++) asm volatile("" : "+r"(a[i])::"memory");
}

/* What a thread of a tile has at hand: its places in shared memory and in the chunk. */
typedef struct tile_place {
    uint2 *diff;       /* [3 layers][16], every 128 */
    const float *h0;   /* of its group, from column 2 q on */
    const float *bias; /* of layers 2 and 3, likewise */
    char *chunk;       /* NULL: a tile that is not there */
} tile_place;

/* Slice t of 8 of a half of layer l (0 .. 2): 16 columns. From accumulators without their bias to SiLU, the words of one k
 * step of the next product, and SiLU'. */
FF_DEV void slice_forward(const float (&acc)[AW_HALF / 2], int half, int t, int l, const tile_place &p,
                          uint32_t *a)
{
    const float *bias = (l == 0 ? p.h0 : p.bias + (l - 1) * AW_H) + half * AW_HALF + 16 * t;
    uint32_t b[2];
#pragma unroll
    for (int k = 0; k < 2; k++) {
        float2 add = *(const float2 *)(bias + 8 * k);
        float x[4];
        uint32_t d[4];
#pragma unroll
        for (int e = 0; e < 4; e++) d[e] = silu_byte(acc[8 * t + 4 * k + e] + (e % 2 ? add.y : add.x), &x[e]);
        a[2 * k] = to_bf16x2(x[0], x[1]);
        a[2 * k + 1] = to_bf16x2(x[2], x[3]);
        b[k] = bytes4(d[0], d[1], d[2], d[3]);
        put_tile(p.chunk != NULL ? p.chunk + AW_X1 + l * AW_X_BYTES : NULL, 16 * half + 2 * t + k, a[2 * k],
                 a[2 * k + 1]);
    }
    p.diff[(l * 16 + 8 * half + t) * 128] = make_uint2(b[0], b[1]);
    settle(a);
}

/* Likewise back: from cotangents of SiLU to those of z. */
FF_DEV void slice_backward(const float (&acc)[AW_HALF / 2], int half, int t, int l, const tile_place &p,
                           uint32_t *a)
{
    uint2 both = p.diff[(l * 16 + 8 * half + t) * 128];
#pragma unroll
    for (int k = 0; k < 2; k++) {
        float v[4];
#pragma unroll
        for (int e = 0; e < 4; e++) v[e] = acc[8 * t + 4 * k + e] * byte_value(k == 0 ? both.x : both.y, e);
        a[2 * k] = to_bf16x2(v[0], v[1]);
        a[2 * k + 1] = to_bf16x2(v[2], v[3]);
        put_tile(p.chunk != NULL ? p.chunk + AW_Z1 + l * AW_X_BYTES : NULL, 16 * half + 2 * t + k, a[2 * k],
                 a[2 * k + 1]);
    }
    settle(a);
}

FF_DEV float low_half(uint32_t w)
{
    return __uint_as_float(w << 16);
}
FF_DEV float high_half(uint32_t w)
{
    return __uint_as_float(w & 0xffff0000u);
}

/* Sums of the 16 rows of words in the layout of an operand, to row [256]. */
FF_DEV void column_sums(const uint32_t (&a)[64], float *row, int n)
{
    int lane = threadIdx.x & 31;
    float s[64];
#pragma unroll
    for (int j = 0; j < 32; j++) {
        s[2 * j] = low_half(a[2 * j]) + low_half(a[2 * j + 1]);
        s[2 * j + 1] = high_half(a[2 * j]) + high_half(a[2 * j + 1]);
    }
#pragma unroll
    for (int half = 32, mask = 16; half >= 8; half /= 2, mask /= 2) {
        bool up = (lane & mask) != 0;
#pragma unroll
        for (int k = 0; k < 32; k++) {
            if (k >= half) continue;
            float send = up ? s[k] : s[k + half], keep = up ? s[k + half] : s[k];
            s[k] = keep + __shfl_xor_sync(0xffffffffu, send, mask);
        }
    }
    int first = 8 * ((lane >> 4 & 1) * 16 + (lane >> 3 & 1) * 8 + (lane >> 2 & 1) * 4) + 2 * (lane & 3);
#pragma unroll
    for (int j = 0; j < 4; j++) {
        int col = first + 8 * j;
        if (row != NULL && col < n) {
            row[col] = LN2 * s[2 * j];
            row[col + 1] = LN2 * s[2 * j + 1];
        }
    }
}

/* ---- the kernel ---- */

/* Tile of warpgroup wg in round k. */
FF_DEV int tile_of(int wg, int k)
{
    return (k * (int)gridDim.x + (int)blockIdx.x) * 2 + wg;
}

/* Three warps prepare the groups of the next round. */
FF_DEV void prepare(const adj_wide_net &c, const adj_wide_io &io, int rounds)
{
#pragma unroll 1
    for (int k = 0; k < rounds; k++)
#pragma unroll 1
        for (int i = (int)threadIdx.x / 32 - 9; i < 2 * AW_GROUPS; i += 3) {
            int wg = i / AW_GROUPS, group = i % AW_GROUPS, tile = tile_of(wg, k);
            int2 at = tile < io.n_tile ? io.tile[tile] : make_int2(0, 0);
            int mine = group < at.y ? at.x + group : -1;
            int slot = io.group_slot[io.group_begin + (mine >= 0 ? mine : at.x)];
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

FF_DEV void consume(const adj_wide_net &c, const adj_wide_io &io, int rounds)
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
        float *to = at >= 0 ? io.group_rows + (int64_t)at * c.row_len : NULL;
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
    adj_wide_tile(const __grid_constant__ adj_wide_net c, const __grid_constant__ adj_wide_io io,
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
    int first = (int)(io.block_off[b] - io.group_begin), end = (int)(io.block_off[b + 1] - io.group_begin);
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
    adj_wide_tile<<<(unsigned)sms, TILE_THREADS, TILE_SMEM, s>>>(w->n, *io, w->image, w->bias);
    return cudaGetLastError();
}
