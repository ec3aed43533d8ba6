/* pair_globe_mma: part[piece, :] = sum over the pairs of a piece of strength * GLOBE value, fused, any shape, sm_80 on
 * Work    a persistent block; row groups of 16 mt pairs (see ff_globe_mma.cuh) work through streams of whole pieces,
 *         mt 16-pair groups a tile; feeder warps find the pairs of the next tile while the others compute
 * Launch  grid SMs x resident blocks, block 32 (wr wc + feeders) <= 384; up to the device's shared memory a block
 * Shapes  rec [n_src][rec_len] f32, h0 [n_src][h0_len] f32, image, bias, tab: ff_mma_pack(), x_t, x_s [.][4] f64,
 *         part [n_piece][n_comp] f32. Sizes are run-time values; only the tile of a warp is fixed
 * Order   a thread's 4 pairs of a group, lanes by xor 1, 2, groups of a piece in order, then coefficients of a field:
 *         fixed, whatever the grid and the plan
 * Bound   tensor cores for wide networks; between its products a block computes features, SiLU and outputs
 * Oracle  double on the host, tests/gpu/test_pair_globe.cu
 * Care    bf16 and TF32: SiLU(x) = h + h tanh h with h = x / 2: weights, biases, h0 of hidden layers come halved.
 *         Padding pairs have strength 0; padding units stay 0, since SiLU(0) = 0 */
#ifndef FF_PAIR_GLOBE_MMA_CUH
#define FF_PAIR_GLOBE_MMA_CUH

#include "ff_globe_math.cuh"
#include "ff_globe_mma.cuh"
#include "ff_mma.cuh"
#include "pair_globe_feed.cuh"

/* What a computing thread knows of its place. */
typedef struct ff_mma_place {
    int tid, lane, q, g; /* lane = 4 g + q */
    int wr, wc;          /* row group, warp in it */
    int n;               /* computing threads of the block */
} ff_mma_place;

/* ---- weights: a ring of chunks in the order of their use, tile after tile ---- */

typedef struct ff_mma_ring {
    const char *image, *at; /* next chunk to load, at this thread's first 16 bytes of it */
    uint32_t base;          /* shared address, likewise */
    int layer, left, bytes; /* of the next chunk to load: its layer, chunks of the layer, bytes beyond the thread's */
    int pass, stage;        /* output passes to come; stage to use next */
} ff_mma_ring;

/* The next chunk to load begins a layer. */
static __device__ __forceinline__ void ring_layer(const ff_mma_cfg &c, ff_mma_ring &r, const ff_mma_place &me,
                                                  int layer)
{
    r.layer = layer;
    r.left = c.chunks[layer];
    r.bytes = c.rows[layer] * 32 * c.kc - me.tid * 16;
}
static __device__ __forceinline__ void ring_load(const ff_mma_cfg &c, ff_mma_ring &r, const ff_mma_place &me,
                                                 int stage)
{
    int step = me.n * 16;
    uint32_t dst = r.base + (uint32_t)(stage * c.stage_bytes);
    for (int o = 0; o < r.bytes; o += 4 * step)
#pragma unroll
        for (int k = 0; k < 4; k++)
            if (k == 0 || o + k * step < r.bytes) cp_async16(dst + (uint32_t)(o + k * step), r.at + o + k * step);
    cp_async_commit();
    r.at += r.bytes + me.tid * 16;
    if (--r.left > 0) return;
    if (r.layer < c.n_layer) {
        ring_layer(c, r, me, r.layer + 1);
        r.pass = c.passes;
    } else if (--r.pass > 0) {
        r.left = c.chunks[c.n_layer];
    } else {
        ring_layer(c, r, me, 0);
        r.at = r.image;
    }
}
static __device__ __forceinline__ void ring_start(const ff_mma_cfg &c, ff_mma_ring &r, const ff_mma_place &me,
                                                  const char *image, uint32_t base)
{
    r.image = r.at = image + me.tid * 16;
    r.base = base + (uint32_t)(me.tid * 16);
    r.stage = r.pass = 0;
    ring_layer(c, r, me, 0);
    for (int s = 0; s + 1 < c.stages; s++) ring_load(c, r, me, s);
}
/* Shared address of the next chunk. All computing warps have left the chunk before when this returns. */
static __device__ __forceinline__ uint32_t ring_next(const ff_mma_cfg &c, ff_mma_ring &r,
                                                     const ff_mma_place &me)
{
    if (c.stages == 2)
        cp_async_wait<0>();
    else
        cp_async_wait<1>();
    bar_sync(1, me.n);
    int now = r.stage;
    ring_load(c, r, me, now == 0 ? c.stages - 1 : now - 1);
    r.stage = now + 1 == c.stages ? 0 : now + 1;
    return r.base - (uint32_t)(me.tid * 16) + (uint32_t)(now * c.stage_bytes);
}

/* ---- products ---- */

/* Addresses of a lane: rows 0-7 and 8-15 of a tile are matrices 0 and 1 (row operand, P) or 0 and 2 (Q). */
FF_DEV int row_p(int lane)
{
    return (lane & 7) + (lane >> 3 & 1) * 8;
}
FF_DEV int unit_p(int lane)
{
    return lane >> 4;
}
FF_DEV int row_q(int lane)
{
    return (lane & 7) + (lane >> 4) * 8;
}
FF_DEV int unit_q(int lane)
{
    return lane >> 3 & 1;
}

/* acc [pairs][units] += activations W^T over the chunks of a hidden layer. */
template <int PREC, int MT, bool FULL>
FF_DEV void hidden_product(float (&acc)[MT][8][4], const ff_mma_cfg &c, ff_mma_ring &r, const ff_mma_place &me,
                           uint32_t act, int chunks, int cols)
{
    uint32_t p = act + (uint32_t)((me.wr * 16 * MT + row_p(me.lane)) * c.act_stride + unit_p(me.lane) * 16);
    uint32_t p_step = (uint32_t)(16 * c.act_stride), q_step = (uint32_t)(16 * 32 * c.kc);
    uint32_t q0 = (uint32_t)ff_mma_at(c.kc, me.wc * cols + row_q(me.lane), unit_q(me.lane));
    for (int k = 0; k < chunks; k++) {
        uint32_t w = ring_next(c, r, me);
        mma_step<PREC, MT, 4, FULL>(acc, p, p_step, w + q0, q_step, cols / 16);
        if (c.kc == 2)
            mma_step<PREC, MT, 4, FULL>(acc, p + 32, p_step, w + (q0 ^ 32), q_step, cols / 16);
        p += (uint32_t)(32 * c.kc);
    }
}
/* acc [output rows][pairs] += W activations^T over the chunks of an output pass. */
template <int PREC, int MT, int TILES>
FF_DEV void output_product(float (&acc)[TILES][2 * MT][4], const ff_mma_cfg &c, ff_mma_ring &r,
                           const ff_mma_place &me, uint32_t act)
{
    uint32_t q = act + (uint32_t)((me.wr * 16 * MT + row_q(me.lane)) * c.act_stride + unit_q(me.lane) * 16);
    uint32_t q_step = (uint32_t)(16 * c.act_stride), p_step = (uint32_t)(16 * 32 * c.kc);
    uint32_t p0 = (uint32_t)ff_mma_at(c.kc, me.wc * 16 * c.tiles + row_p(me.lane), unit_p(me.lane));
    for (int k = 0; k < c.chunks[c.n_layer]; k++) {
        uint32_t w = ring_next(c, r, me);
        mma_step<PREC, TILES, MT, true>(acc, w + p0, p_step, q, q_step, MT);
        if (c.kc == 2)
            mma_step<PREC, TILES, MT, true>(acc, w + (p0 ^ 32), p_step, q + 32, q_step, MT);
        q += (uint32_t)(32 * c.kc);
    }
}

/* ---- activations ---- */

template <int PREC> FF_DEV float mma_silu(float x)
{
    if constexpr (PREC == FF_CUDA_F32) return x / (1.0f + expf(-x));
    return fmaf(x, tanh_fast(x), x);
}
template <int PREC> FF_DEV void act_store(char *at, float x, float y)
{
    if constexpr (PREC == FF_CUDA_BF16)
        *(uint32_t *)at = to_bf16x2(x, y);
    else if constexpr (PREC == FF_CUDA_TF32)
        *(uint2 *)at = make_uint2(to_tf32_rn(x), to_tf32_rn(y));
    else
        *(float2 *)at = make_float2(x, y);
}
template <int PREC> FF_DEV void act_store1(char *at, float x)
{
    if constexpr (PREC == FF_CUDA_BF16)
        *(uint16_t *)at = (uint16_t)to_bf16x2(x, 0.0f);
    else if constexpr (PREC == FF_CUDA_TF32)
        *(uint32_t *)at = to_tf32_rn(x);
    else
        *(float *)at = x;
}

template <int PREC, int MT, bool FULL>
FF_DEV void hidden_layer(const ff_net_dims &d, const ff_pair_dev &q, const ff_mma_cfg &c, ff_mma_ring &r,
                         const ff_mma_place &me, char *act, const int *id, const float *bias, int layer)
{
    constexpr int EB = PREC == FF_CUDA_BF16 ? 2 : 4;
    int cols = FULL ? FF_MMA_COLS : c.rows[layer] / c.wc, first = me.wc * cols + 2 * me.q,
        row = me.wr * 16 * MT + me.g;
    float acc[MT][8][4];
#pragma unroll
    for (int i = 0; i < 2 * MT; i++) {
        const float *from = layer > 0 ? bias + c.bias_at[layer] + first
                                      : (const float *)q.h0 + (int64_t)id[row + 8 * i] * d.h0_len + first;
#pragma unroll
        for (int j = 0; j < 8; j++) {
            float2 x = FULL || j < cols / 8 ? __ldg((const float2 *)(from + 8 * j)) : make_float2(0.0f, 0.0f);
            acc[i / 2][j][i % 2 * 2] = x.x;
            acc[i / 2][j][i % 2 * 2 + 1] = x.y;
        }
    }
    hidden_product<PREC, MT, FULL>(acc, c, r, me, mma_shared(act), c.chunks[layer], cols);
    bar_sync(1, me.n); /* everyone has read the activations that are overwritten now */
#pragma unroll
    for (int i = 0; i < 2 * MT; i++) {
        char *to = act + (row + 8 * i) * c.act_stride + first * EB;
#pragma unroll
        for (int j = 0; j < 8; j++)
            if (FULL || j < cols / 8)
                act_store<PREC>(to + 8 * j * EB, mma_silu<PREC>(acc[i / 2][j][i % 2 * 2]),
                                mma_silu<PREC>(acc[i / 2][j][i % 2 * 2 + 1]));
    }
}

/* P_(n+1) = x[n] c P_n - y[n] P_(n-1) */
#define FF_LEGENDRE(n) {(2.0f * (n) + 1.0f) / ((n) + 1.0f), (n) / ((n) + 1.0f)}
#define FF_LEGENDRE8(n)                                                                                      \
    FF_LEGENDRE(n), FF_LEGENDRE(n + 1.0f), FF_LEGENDRE(n + 2.0f), FF_LEGENDRE(n + 3.0f), FF_LEGENDRE(n + 4.0f), \
        FF_LEGENDRE(n + 5.0f), FF_LEGENDRE(n + 6.0f), FF_LEGENDRE(n + 7.0f)
static __constant__ float2 legendre_factors[FF_GLOBE_MAX_HARM + 8] = {
    FF_LEGENDRE8(0.0f), FF_LEGENDRE8(8.0f), FF_LEGENDRE8(16.0f), FF_LEGENDRE8(24.0f), FF_LEGENDRE8(32.0f)};

/* Features of the tile's pairs, and the basis vectors of their coefficients. */
template <int PREC, int MT>
FF_DEV void tile_features(const ff_net_dims &d, const ff_pair_dev &q, const ff_mma_cfg &c,
                          const ff_mma_place &me, char *act, float *basis, const ff_feed_geo &geo)
{
    constexpr int EB = PREC == FF_CUDA_BF16 ? 2 : 4, R = 16 * MT;
    constexpr bool EXACT = PREC == FF_CUDA_F32;
    int rows = c.wr * R, bits = 31 - __clz(rows), width = c.chunks[0] * c.kc * (32 / EB); /* rows: a power of 2 */
    for (int i = me.tid; i < rows * (d.n_vec + 1); i += me.n) {
        int row = i & (rows - 1), k = i >> bits;
        float4 u = geo.unit[row];
        float w = geo.w[row];
        char *at = act + row * c.act_stride;
        float *b = basis + row / R * c.n_kind * c.kind_len + row % R;
        auto put = [&](int kind, float x, float y, float z) {
            float *to = b + kind * c.kind_len;
            to[0] = x;
            to[R] = y;
            to[2 * R] = z;
        };
        if (k == d.n_vec) {
            act_store1<PREC>(at + (d.n_feat - 1) * EB, EXACT ? smooth_f32(u.w) : smooth_fast(u.w));
            for (int f = d.n_feat; f < width; f++) act_store1<PREC>(at + f * EB, 0.0f);
            put(0, w, 0.0f, 0.0f);
            put(1, w * u.x, w * u.y, w * u.z);
            continue;
        }
        const float *rec = q.rec + (int64_t)geo.id[row] * d.rec_len;
        float4 v = __ldg((const float4 *)rec + k);
        float g = __ldg(rec + 4 * d.rec_vec + k), wg = w * g;
        float cosine = fmaf(v.x, u.x, fmaf(v.y, u.y, v.z * u.z));
        float p0 = EXACT ? smooth_f32(v.w * u.w) : smooth_fast(v.w * u.w), p1 = p0 * cosine;
        at += k * d.n_harm * EB;
        for (int n = 1; n <= d.n_harm; n++) {
            act_store1<PREC>(at + (n - 1) * EB, p1);
            float2 l = legendre_factors[n];
            float p2 = fmaf(l.x * cosine, p1, -l.y * p0);
            p0 = p1;
            p1 = p2;
        }
        put(2 + 2 * k, wg * v.x, wg * v.y, wg * v.z);
        float e = fabsf(u.x) + fabsf(u.y) + fabsf(u.z) > 0.0f ? wg : 0.0f;
        put(3 + 2 * k, e * fmaf(cosine, u.x, -v.x), e * fmaf(cosine, u.y, -v.y), e * fmaf(cosine, u.z, -v.z));
    }
}

/* ---- outputs ---- */

template <int PREC> FF_DEV float coefficient(const ff_net_dims &d, float a, float b)
{
    if constexpr (PREC == FF_CUDA_F32) {
        if (d.mlp) return tanhf(a);
        float a2 = a * a;
        return copysignf(a2, a) / (1.0f + b * b + d.beta * a2);
    }
    if (d.mlp) return tanh_fast(a);
    float s = a * fabsf(a);
    return s * rcp_fast(fmaf(d.beta, fabsf(s), fmaf(b, b, 1.0f)));
}
FF_DEV float over_quad(float x)
{
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

/* One output pass: coefficients times basis, summed over each group's 16 pairs, added to the piece's sums. */
template <int PREC, int MT, int TILES>
FF_DEV void output_pass(const ff_net_dims &d, const ff_mma_cfg &c, ff_mma_ring &r, const ff_mma_place &me,
                        const char *act, const float *basis, float *sum, float *done, const int *piece,
                        const float *bias, const int32_t *tab, int tile)
{
    constexpr int R = 16 * MT;
    float acc[TILES][2 * MT][4];
    const float *from = bias + c.bias_at[c.n_layer] + 16 * tile + me.g;
#pragma unroll
    for (int i = 0; i < TILES; i++) {
        float a = __ldg(from + 16 * i), b = __ldg(from + 16 * i + 8);
#pragma unroll
        for (int j = 0; j < 2 * MT; j++) {
            acc[i][j][0] = acc[i][j][1] = a;
            acc[i][j][2] = acc[i][j][3] = b;
        }
    }
    output_product<PREC, MT, TILES>(acc, c, r, me, mma_shared(act));
    basis += me.wr * c.n_kind * c.kind_len + 2 * me.q;
#pragma unroll
    for (int i = 0; i < TILES; i++) {
        int slot = (tile + i) * 8 + me.g;
        const float *b = basis + __ldg(tab + slot);
        float *mine = sum + (me.wr * c.n_slot + slot) * 3, t[3];
#pragma unroll
        for (int k = 0; k < 3; k++) t[k] = mine[k];
        __syncwarp();
#pragma unroll
        for (int j = 0; j < MT; j++) {
            float s[3] = {0.0f, 0.0f, 0.0f};
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const float(&a)[4] = acc[i][2 * j + h];
                float y0 = coefficient<PREC>(d, a[0], a[2]), y1 = coefficient<PREC>(d, a[1], a[3]);
#pragma unroll
                for (int k = 0; k < 3; k++) {
                    float2 v = *(const float2 *)(b + k * R + 8 * (2 * j + h));
                    s[k] = fmaf(y1, v.y, fmaf(y0, v.x, s[k]));
                }
            }
            bool ends = piece[me.wr * MT + j] >= 0;
#pragma unroll
            for (int k = 0; k < 3; k++) {
                t[k] += over_quad(s[k]);
                if (ends && me.q == 0) done[((me.wr * MT + j) * c.n_slot + slot) * 3 + k] = t[k];
                if (ends) t[k] = 0.0f;
            }
        }
        if (me.q == 0)
#pragma unroll
            for (int k = 0; k < 3; k++) mine[k] = t[k];
    }
}

/* All passes. In the last, all warps of the block take as many tiles as the first one has, so that they meet at the same
 * barriers; rows past the end are padding. */
template <int PREC, int MT>
FF_DEV void output_layer(const ff_net_dims &d, const ff_mma_cfg &c, ff_mma_ring &r, const ff_mma_place &me,
                         const char *act, const float *basis, float *sum, float *done, const int *piece,
                         const float *bias, const int32_t *tab)
{
#pragma unroll 1
    for (int pass = 0; pass < c.passes; pass++) {
        int first = pass * c.wc * c.tiles, live = min(c.tiles, (d.n_coef + 7) / 8 - first);
        int tile = first + me.wc * c.tiles;
        if (live >= 4)
            output_pass<PREC, MT, 4>(d, c, r, me, act, basis, sum, done, piece, bias, tab, tile);
        else if (live == 3)
            output_pass<PREC, MT, 3>(d, c, r, me, act, basis, sum, done, piece, bias, tab, tile);
        else if (live == 2)
            output_pass<PREC, MT, 2>(d, c, r, me, act, basis, sum, done, piece, bias, tab, tile);
        else
            output_pass<PREC, MT, 1>(d, c, r, me, act, basis, sum, done, piece, bias, tab, tile);
    }
}

/* Pieces that ended in this tile: coefficients of a field in order. */
template <int MT>
FF_DEV void pieces_store(const ff_net_dims &d, const ff_pair_dev &q, const ff_mma_cfg &c,
                         const ff_mma_place &me, const float *done, const int *piece, const int32_t *tab)
{
    for (int i = me.tid; i < c.wr * MT * d.n_comp; i += me.n) {
        int group = i / d.n_comp, k = i % d.n_comp, at = piece[group];
        if (at < 0) continue;
        const int32_t *t = tab + c.n_slot + 3 * k;
        const float *from = done + (group * c.n_slot + t[0]) * 3 + t[2];
        float x = 0.0f;
        for (int s = 0; s < t[1]; s++) x += from[3 * s];
        q.part[(int64_t)at * d.n_comp + k] = x;
    }
}

/* ---- the kernel ---- */

template <int PREC, int MT>
static __device__ __forceinline__ void compute(const ff_net_dims &d, const ff_pair_dev &q, const ff_mma_cfg &c,
                                               char *shared, const char *image, const float *bias,
                                               const int32_t *tab, int n_tiles)
{
    ff_mma_place me;
    me.tid = (int)threadIdx.x;
    me.lane = me.tid & 31;
    me.q = me.lane & 3;
    me.g = me.lane >> 2;
    me.wr = me.tid / 32 / c.wc;
    me.wc = me.tid / 32 % c.wc;
    me.n = 32 * c.wr * c.wc;
    int all = me.n + 32 * c.feeders;
    float *basis = (float *)(shared + c.o_basis), *sum = (float *)(shared + c.o_sum),
          *done = (float *)(shared + c.o_done);
    ff_mma_ring ring;
    for (int i = me.tid; i < c.wr * c.n_slot * 3; i += me.n) sum[i] = 0.0f;
    ring_start(c, ring, me, image, mma_shared(shared + c.o_weights));
#pragma unroll 1
    for (int tile = 0; tile < n_tiles; tile++) {
        int slot = tile & 1;
        ff_feed_geo geo = ff_feed_slot(c, shared, slot);
        bar_sync(2 + slot, all);
        tile_features<PREC, MT>(d, q, c, me, shared, basis, geo);
#pragma unroll 1
        for (int l = 0; l < c.n_layer; l++)
            if (c.rows[l] == FF_MMA_COLS * c.wc)
                hidden_layer<PREC, MT, true>(d, q, c, ring, me, shared, geo.id, bias, l);
            else
                hidden_layer<PREC, MT, false>(d, q, c, ring, me, shared, geo.id, bias, l);
        output_layer<PREC, MT>(d, c, ring, me, shared, basis, sum, done, geo.piece, bias, tab);
        bar_sync(1, me.n);
        pieces_store<MT>(d, q, c, me, done, geo.piece, tab);
        bar_sync(1, me.n); /* all have read the slot that is given back */
        if (tile + 2 < n_tiles) bar_arrive(4 + slot, all);
    }
    cp_async_wait<0>();
}

template <int PREC, int MT>
static __global__ void __launch_bounds__(384, 1)
    pair_globe_mma(const __grid_constant__ ff_net_dims d, const __grid_constant__ ff_pair_dev q,
                   const __grid_constant__ ff_mma_cfg c, const char *image, const float *bias,
                   const int32_t *tab)
{
    extern __shared__ __align__(128) char shared_mma[];
    int n_tiles = feed_start<MT>(q, c, shared_mma);
    if ((int)threadIdx.x < 32 * c.wr * c.wc)
        compute<PREC, MT>(d, q, c, shared_mma, image, bias, tab, n_tiles);
    else
        feed<PREC == FF_CUDA_F32, MT>(d, q, c, shared_mma, n_tiles);
}

#endif
