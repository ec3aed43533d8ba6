/* adj_wide_tile: pairs of wide networks evaluated again and walked backward, 64 a tile (ff_adj_wide.cuh)
 * Work    a persistent block an SM: two consumer warpgroups with a tile each, one thread that streams all weights past both,
 *         forward then back. Accumulators 64 x 256 in registers; SiLU goes to shared memory as the next product's
 *         operand and from there by a bulk copy to the chunk; SiLU' stays in shared memory in 8 bits (step 1 / 212.5)
 * Launch  grid SMs, block 384 (setmaxnreg: consumers 232, producer 40), 226 KiB shared: 1 block an SM
 * Shapes  adj_wide_io; chunk [tiles][AW_TILE_BYTES], group_rows [groups][row_len] f32
 * Order   a pair's results depend on that pair alone; a group's sums over its 16 pairs by lane order
 * Bound   tensor cores: 4 FLOP a multiply-add, 0.66 MFLOP a pair, 0.83 ns at 790 TFLOP/s. Bytes a pair through the L2
 *         cache: weights 2 x 328 kB / 128 pairs = 5.1 kB read, 3.4 kB of chunk written. Measured on the H200: 2.48 ns,
 *         34 % of the floor. Neither the weights' stream nor the chunk binds (4 % without both), but latency: the two
 *         warpgroups run in step on one stream of weights, so that products and the rest hardly overlap (docs/kernels.md)
 * Oracle  ff_globe_tile_adjoint_f64, tests/gpu/test_pair_adjoint.c
 * Care    padding pairs have cotangent and strength 0; padded units have weights, SiLU and cotangents 0 */
#include "adj_wide_pair.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
FF_DEV void stream_weights(const char *image, int rounds)
{
    adj_ring r = {0, 1};
    for (int k = 0; k < rounds; k++) {
        const char *from = image;
        for (int s = 0; s < AW_STAGES; s++) {
            uint32_t bytes = s >= AW_F4_FIRST && s < AW_F4_FIRST + AW_F4 ? AW_F4_STAGE : AW_STEP;
            mbar_wait(bar_empty(r.stage), r.phase);
            mbar_expect(bar_full(r.stage), bytes);
            bulk_load(at_shared(S_RING) + r.stage * AW_STEP, from, bytes, bar_full(r.stage));
            from += bytes;
            adj_ring_next<RING_STAGES>(r);
        }
    }
}

/* d += a W over `stages` stages of PER k steps of N columns. a: shared address of the operand. */
template <int N, int PER> FF_DEV void product(float (&d)[N / 2], uint32_t a, adj_ring &r, int stages)
{
    uint32_t last = 0;
    bool lead = (threadIdx.x & 31) == 0;
    wg_pin(d);
    wg_fence();
#pragma unroll 1
    for (int k = 0; k < stages; k++) {
        mbar_wait(bar_full(r.stage), r.phase);
        uint32_t b = at_shared(S_RING) + r.stage * AW_STEP;
#pragma unroll
        for (int s = 0; s < PER; s++) {
            adj_wg<N>::kk(d, wg_desc(a + s * 2048, 1024, 128), wg_desc(b + s * N * 32, N * 16, 128));
        }
        wg_commit();
        if (k > 0) {
            wg_wait<1>();
            if (lead) mbar_arrive(bar_empty(last));
        }
        last = r.stage;
        adj_ring_next<RING_STAGES>(r);
        a += PER * 2048;
    }
    wg_wait<0>();
    wg_pin(d);
    if (lead) mbar_arrive(bar_empty(last));
}

/* ---- the operand in shared memory ---- */

FF_DEV void group_sync(int wg)
{
    asm volatile("bar.sync %0, 128;" ::"r"(1 + wg) : "memory");
}
/* The buffer may be overwritten: all products and copies from it are done. */
FF_DEV void buffer_free(int wg)
{
    if (threadIdx.x % 128 == 0) bulk_read_done();
    group_sync(wg);
}
/* The buffer is complete: for the next product, and on its way to the chunk (NULL: a tile that is not there). */
FF_DEV void buffer_full(int wg, uint32_t a, char *to, uint32_t bytes)
{
    fence_async_proxy();
    group_sync(wg);
    if (threadIdx.x % 128 == 0 && to != NULL) bulk_store(to, a, bytes);
}

/* Words of tiles j and j + 1, rows g and g + 8 of this warp's 16. */
FF_DEV void put_tiles(uint32_t a, int j, uint32_t j0g, uint32_t j0h, uint32_t j1g, uint32_t j1h)
{
    uint32_t lane = threadIdx.x & 31, warp = threadIdx.x / 32 % 4, m = lane / 8;
    stmatrix4(a + (uint32_t)(j + (int)(m / 2)) * 1024 + (2 * warp + m % 2) * 128 + lane % 8 * 16, j0g, j0h,
              j1g, j1h);
}

/* ---- layers ---- */

/* Accumulators start as factor times f32 values of their columns, zero from column `n` on. */
template <int N> FF_DEV void init_columns(float (&d)[N / 2], const float *from, int n, float factor)
{
    int q = threadIdx.x & 3;
#pragma unroll
    for (int j = 0; j < N / 8; j++) {
        float x = 0.0f, y = 0.0f;
        if (8 * j < n) {
            x = factor * __ldg(from + 8 * j + 2 * q);
            y = factor * __ldg(from + 8 * j + 2 * q + 1);
        }
        d[4 * j] = d[4 * j + 2] = x;
        d[4 * j + 1] = d[4 * j + 3] = y;
    }
}

template <int N> FF_DEV void clear(float (&d)[N])
{
#pragma unroll
    for (int i = 0; i < N; i++) d[i] = 0.0f;
}

/* SiLU of h = z / 2, and SiLU' in the low byte of the result. */
FF_DEV uint32_t silu_byte(float h, float *x)
{
    float t = tanh_fast(h), y = fmaf(h, t, h), s = fmaf(0.5f, t, 0.5f);
    *x = y;
    return __float_as_uint(fmaf(fmaf(-y, s, y + s), D_SCALE, D_ZERO));
}
FF_DEV uint32_t bytes4(uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
    return __byte_perm(__byte_perm(a, b, 0x0040), __byte_perm(c, d, 0x0040), 0x5410);
}
FF_DEV float byte_value(uint32_t word, int k) /* times D_SCALE */
{
    return __uint_as_float(__byte_perm(word, 0x4b000000u, 0x7650 + k)) - D_ZERO;
}

/* From accumulators h to SiLU (buffer a) and SiLU' (diff: this thread's). */
FF_DEV void layer_forward(const float (&acc)[128], uint32_t a, uint4 *diff)
{
#pragma unroll
    for (int i = 0; i < 8; i++) {
        uint32_t w[8], b[4];
#pragma unroll
        for (int k = 0; k < 4; k++) {
            float x[4];
            uint32_t d[4];
#pragma unroll
            for (int e = 0; e < 4; e++) d[e] = silu_byte(acc[16 * i + 4 * k + e], &x[e]);
            w[2 * k] = to_bf16x2(x[0], x[1]);
            w[2 * k + 1] = to_bf16x2(x[2], x[3]);
            b[k] = bytes4(d[0], d[1], d[2], d[3]);
        }
        put_tiles(a, 4 * i, w[0], w[1], w[2], w[3]);
        put_tiles(a, 4 * i + 2, w[4], w[5], w[6], w[7]);
        diff[128 * i] = make_uint4(b[0], b[1], b[2], b[3]);
    }
}

/* From cotangents of SiLU to those of z: buffer a, and left in acc. */
FF_DEV void layer_backward(float (&acc)[128], uint32_t a, const uint4 *diff)
{
#pragma unroll
    for (int i = 0; i < 8; i++) {
        uint4 four = diff[128 * i];
        uint32_t b[4] = {four.x, four.y, four.z, four.w}, w[8];
#pragma unroll
        for (int k = 0; k < 4; k++) {
            float *v = acc + 16 * i + 4 * k;
#pragma unroll
            for (int e = 0; e < 4; e++) v[e] *= (1.0f / D_SCALE) * byte_value(b[k], e);
            w[2 * k] = to_bf16x2(v[0], v[1]);
            w[2 * k + 1] = to_bf16x2(v[2], v[3]);
        }
        put_tiles(a, 4 * i, w[0], w[1], w[2], w[3]);
        put_tiles(a, 4 * i + 2, w[4], w[5], w[6], w[7]);
    }
}

/* Sums of the 16 rows of acc's columns, to row [256]. */
FF_DEV void column_sums(float (&acc)[128], float *row, int n)
{
    int lane = threadIdx.x & 31;
    float s[64];
#pragma unroll
    for (int j = 0; j < 32; j++) {
        s[2 * j] = acc[4 * j] + acc[4 * j + 2];
        s[2 * j + 1] = acc[4 * j + 1] + acc[4 * j + 3];
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

FF_DEV void consume(const adj_wide_net &c, const adj_wide_io &io, const float *bias, int rounds)
{
    adj_ring ring = {0, 0};
    int wg = this_group(), warp = threadIdx.x / 32 % 4;
    uint32_t a = at_shared(S_A) + wg * AW_X_BYTES;
#pragma unroll 1
    for (int k = 0; k < rounds; k++) {
        int tile = (k * (int)gridDim.x + (int)blockIdx.x) * 2 + wg;
        int2 at = tile < io.n_tile ? io.tile[tile] : make_int2(0, 0);
        char *chunk = tile < io.n_tile ? io.chunk + (int64_t)tile * AW_TILE_BYTES : NULL;
        warp_group w;
        w.at = warp < at.y ? at.x + warp : -1;
        w.slot = io.group_slot[io.group_begin + (w.at >= 0 ? w.at : at.x)];
        {
            float acc[128];
            buffer_free(wg);
            pair_features(c, io, w);
            buffer_full(wg, a, chunk, AW_X0_BYTES);
#pragma unroll 1
            for (int l = 0; l < 3; l++) {
                init_columns<AW_H>(acc, l == 0 ? io.rec + (int64_t)w.slot * c.rec_len : bias + (l - 1) * AW_H,
                                   l == 0 ? c.off_m : AW_H, l == 0 ? 0.5f * LN2 : 1.0f);
                product<AW_H, 1>(acc, a, ring, l == 0 ? AW_F1 : AW_FULL);
                buffer_free(wg);
                layer_forward(acc, a, diff_of(l));
                buffer_full(wg, a, chunk != NULL ? chunk + AW_X1 + l * AW_X_BYTES : NULL, AW_X_BYTES);
            }
        }
        {
            float acc[4 * AW_J];
            uint32_t word[2][AW_J];
            init_columns<AW_NOUT>(acc, bias + 2 * AW_H, AW_NOUT, 1.0f);
            product<AW_NOUT, 2>(acc, a, ring, AW_F4);
            row_outputs(c, io, acc, 0, word[0]);
            row_outputs(c, io, acc, 1, word[1]);
            buffer_free(wg);
#pragma unroll
            for (int j = 0; j < AW_J; j += 2)
                put_tiles(a, j, word[0][j], word[1][j], word[0][j + 1], word[1][j + 1]);
            buffer_full(wg, a, chunk != NULL ? chunk + AW_Z4 : NULL, AW_Z4_BYTES);
        }
        {
            float acc[128];
#pragma unroll 1
            for (int l = 2; l >= 0; l--) {
                clear(acc);
                product<AW_H, 1>(acc, a, ring, l == 2 ? AW_B4 : AW_FULL);
                buffer_free(wg);
                layer_backward(acc, a, diff_of(l));
                buffer_full(wg, a, chunk != NULL ? chunk + AW_Z1 + l * AW_X_BYTES : NULL, AW_X_BYTES);
            }
            column_sums(acc, w.at >= 0 ? io.group_rows + (int64_t)w.at * c.row_len : NULL, c.off_m);
        }
        {
            float acc[16], pair[2][4] = {{0.0f, 0.0f, 0.0f, 0.0f}, {0.0f, 0.0f, 0.0f, 0.0f}};
            float *row = w.at >= 0 ? io.group_rows + (int64_t)w.at * c.row_len : NULL;
            clear(acc);
            product<AW_KF, 8>(acc, a, ring, AW_B1);
            vector_back(c, acc, 0, row, pair);
            vector_back(c, acc, 1, row, pair);
#pragma unroll
            for (int i = 0; i < 8; i++) pair[i / 4][i % 4] = over_quad(pair[i / 4][i % 4]);
            distance_back(c, io, row, pair);
            __syncwarp(); /* before the next tile's geometry */
        }
    }
    if (threadIdx.x % 128 == 0) bulk_all_done();
}
#endif

static __global__ void __launch_bounds__(TILE_THREADS, 1)
    adj_wide_tile(const __grid_constant__ adj_wide_net c, const __grid_constant__ adj_wide_io io,
                  const char *image, const float *bias)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    int wg = this_group(), each = 2 * (int)gridDim.x, rounds = (io.n_tile + each - 1) / each;
    if (threadIdx.x == 0) {
        for (uint32_t i = 0; i < RING_STAGES; i++) {
            mbar_init(bar_full(i), 1);
            mbar_init(bar_empty(i), 8);
        }
        mbar_init_fence();
    }
    __syncthreads();
    if (wg < 2) {
        adj_regs_up<232>();
        consume(c, io, bias, rounds);
    } else {
        adj_regs_down<40>();
        if (threadIdx.x == 256) stream_weights(image, rounds);
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
