/* Pair by pair arithmetic of adj_wide_tile: geometry and features, outputs and their cotangents, the way back to records and
 * positions. A warp has one group: 16 pairs of one source; lane 4 g + q holds rows g and g + 8 of accumulators. What passes
 * between its phases lies in shared memory. Formulas: src/kernel/ff_adj_tile.h. */
#ifndef ADJ_WIDE_PAIR_CUH
#define ADJ_WIDE_PAIR_CUH

#include "ff_adj_wide.cuh"

#include "ff_adj_wgmma.cuh"
#include "ff_globe_math.cuh"
#include "ff_round.cuh"

/* Shared memory, bytes; [2]: the block's two tiles. */
enum {
    RING_STAGES = 11,
    S_D = 0, /* [2][3 layers][16][128 threads] 8 values of SiLU' in 8 bytes */
    D_LAYER = AW_TILE * AW_H,
    S_RING = S_D + 2 * 3 * D_LAYER,
    S_X0 = S_RING + RING_STAGES * AW_STAGE, /* [2] features */
    S_H0 = S_X0 + 2 * AW_X0_BYTES,         /* [2][4 groups][256] f32: what the first layer starts from */
    S_GEO = S_H0 + 2 * AW_GROUPS * AW_H *
                       4, /* [2 slots][2][2][64] float4: r^, m(r); scale, strength, envelope, target */
    S_STASH = S_GEO + 2 * 2 * 2 * AW_TILE *
                          16, /* [2][6][64] float4: cotangents of basis k and of g (k^ . r^); r^, scale */
    S_SRC = S_STASH + 2 * (AW_NV + 1) * AW_TILE * 16, /* [2 slots][2][4 groups] source_room */
    SRC_BYTES = 8 * 20 + 16,
    S_BIAS = S_SRC + 2 * 2 * AW_GROUPS * SRC_BYTES,
    S_BAR = S_BIAS + AW_BIAS * 4, /* full, empty; [2] ready, [2] taken */
    TILE_SMEM = S_BAR + 2 * RING_STAGES * 8 + 4 * 8,
    TILE_THREADS = 384,
    TABLE_THREADS = 128,
};
static_assert(TILE_SMEM <= 232448, "shared memory");

#define LN2     0.693147181f
#define D_SCALE 210.0f
#define D_ZERO  8388629.0f /* 2^23 + 21: SiLU' of -0.0998 .. 1.0998 becomes 0 .. 252 */

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
extern __shared__ __align__(1024) char adj_wide_shared[];

/* A place in shared memory, as wgmma and barriers want it. */
FF_DEV uint32_t at_shared(uint32_t offset)
{
    return smem_u32(adj_wide_shared) + offset;
}
FF_DEV uint32_t bar_full(uint32_t stage)
{
    return at_shared(S_BAR) + 8 * stage;
}
FF_DEV uint32_t bar_empty(uint32_t stage)
{
    return at_shared(S_BAR + 8 * RING_STAGES) + 8 * stage;
}
/* A tile is prepared; its features and h0 are no longer needed. */
FF_DEV uint32_t bar_ready(int wg)
{
    return at_shared(S_BAR + 16 * RING_STAGES) + 8 * (uint32_t)wg;
}
FF_DEV uint32_t bar_taken(int wg)
{
    return at_shared(S_BAR + 16 * RING_STAGES + 16) + 8 * (uint32_t)wg;
}

/* ---- geometry ---- */

/* What is known of a group of tile `wg` before its network is evaluated; slot: tiles alternate. */
typedef struct source_room {
    float4 unit[8]; /* k^, g */
    float m[8];
    int at, pad[3]; /* group in the chunk, -1: not there */
} source_room;
static_assert(sizeof(source_room) == SRC_BYTES, "source_room");

typedef struct pair_room {
    source_room *s;
    float4 *geo;   /* [2][64] */
    float4 *stash; /* [6][64] */
} pair_room;

FF_DEV pair_room room_of(int wg, int group, int slot)
{
    pair_room r;
    r.s = (source_room *)(adj_wide_shared + S_SRC) + (slot * 2 + wg) * AW_GROUPS + group;
    r.geo = (float4 *)(adj_wide_shared + S_GEO) + (slot * 2 + wg) * 2 * AW_TILE;
    r.stash = (float4 *)(adj_wide_shared + S_STASH) + wg * (AW_NV + 1) * AW_TILE;
    return r;
}

/* Column k of h0 as the accumulators count it. */
FF_DEV float h0_column(const ff_adj_cfg &c, const float *rec, int k)
{
    return k < c.off_m ? 0.5f * LN2 * __ldg(rec + k) : 0.0f;
}

/* A warp prepares a group: h0, directions of the source, then geometry and features of 16 pairs, two lanes a pair: half h
 * takes vectors h, h + 2, ... at -1: none. x0: the tile's place in the chunk, or NULL. taken, parity: when to write. */
FF_DEV void pair_features(const ff_adj_cfg &c, const adj_wide_io &io, const pair_room &room, int wg, int group,
                          int at, int slot, char *chunk, uint32_t parity)
{
    const float *rec = io.pairs.rec + (int64_t)slot * c.rec_len;
    int lane = threadIdx.x & 31, p = lane / 2, row = 16 * group + p;
    int t = at >= 0 ? __ldg(io.pairs.target + (io.pairs.group_begin + at) * FF_ADJ_GROUP + p) : -1;
    float h0[8];
#pragma unroll
    for (int i = 0; i < 8; i++) h0[i] = h0_column(c, rec, lane + 32 * i);
    const double *xs = io.pairs.x_s + 4 * (int64_t)slot, *xt = t >= 0 ? io.pairs.x_t + 4 * (int64_t)t : xs;
    float r[3], q2 = c.eps2;
#pragma unroll
    for (int d = 0; d < 3; d++) {
        r[d] = fminf(1e18f, fmaxf(-1e18f, (float)(xt[d] - xs[d]) * c.inv_length));
        q2 = fmaf(r[d], r[d], q2);
    }
    float m = fmaxf(0x1p-126f, sqrtf(q2)), inv = 1.0f / m;
    float env = one_minus_exp_fast(q2) / (c.dim == 2 ? sqrtf(1.0f + q2) : 1.0f + q2);
#pragma unroll
    for (int d = 0; d < 3; d++) r[d] *= inv;
    mbar_wait(bar_taken(wg), parity);
    float *h = (float *)(adj_wide_shared + S_H0) + (wg * AW_GROUPS + group) * AW_H;
#pragma unroll
    for (int i = 0; i < 8; i++) h[lane + 32 * i] = h0[i];
    if (lane < 8) {
        float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        bool real = lane < c.n_vec;
        const float *u = rec + c.off_unit + lane * c.dim;
        if (real) v = make_float4(u[0], u[1], c.dim == 3 ? u[2] : 0.0f, rec[c.off_g + lane]);
        room.s->unit[lane] = v;
        room.s->m[lane] = real ? rec[c.off_m + lane] : 0.0f;
    }
    if (lane == 0) room.s->at = at;
    if (lane % 2 == 0) {
        float strength = t >= 0 ? io.pairs.strength[slot] : 0.0f;
        room.geo[row] = make_float4(r[0], r[1], r[2], m);
        room.geo[AW_TILE + row] = make_float4(strength * env, strength, env, __int_as_float(t));
    }
    __syncwarp();
    char *x0 = adj_wide_shared + S_X0 + wg * AW_X0_BYTES;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int k = 2 * i + lane % 2, to = 2 * (k / 4) * 1024 + row * 16 + k % 4 * 4;
        float f[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        if (k < c.n_vec) {
            float4 v = room.s->unit[k];
            float cs = fmaf(v.x, r[0], fmaf(v.y, r[1], v.z * r[2])), p0 = smooth_fast(room.s->m[k] * m),
                  p1 = p0 * cs;
#pragma unroll
            for (int n = 1; n <= 4; n++) {
                f[n - 1] = n <= c.n_harm ? p1 : 0.0f;
                float p2 =
                    fmaf((float)(2 * n + 1) / (float)(n + 1) * cs, p1, -(float)n / (float)(n + 1) * p0);
                p0 = p1;
                p1 = p2;
            }
        } else if (k == c.n_vec) {
            f[0] = smooth_fast(m);
        }
        uint32_t w0 = to_bf16x2(f[0], f[1]), w1 = to_bf16x2(f[2], f[3]);
        *(uint32_t *)(x0 + to) = w0;
        *(uint32_t *)(x0 + to + 1024) = w1;
        if (chunk != NULL) {
            *(uint32_t *)(chunk + AW_X0 + to) = w0;
            *(uint32_t *)(chunk + AW_X0 + to + 1024) = w1;
        }
    }
    fence_async_proxy();
    __syncwarp();
    if (lane == 0) mbar_arrive(bar_ready(wg));
}

/* ---- outputs ---- */

FF_DEV float over_quad(float x)
{
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    return x + __shfl_xor_sync(0xffffffffu, x, 2);
}
FF_DEV float over_rows(float x)
{
    x += __shfl_xor_sync(0xffffffffu, x, 4);
    x += __shfl_xor_sync(0xffffffffu, x, 8);
    return x + __shfl_xor_sync(0xffffffffu, x, 16);
}

/* Coefficient of (a, d), and what its cotangent needs. */
FF_DEV float coefficient(float a, float d, float beta, float *inv)
{
    *inv = rcp_fast(fmaf(d, d, fmaf(beta * a, a, 1.0f)));
    return a * fabsf(a) * *inv;
}
FF_DEV uint32_t coefficient_bar(float a, float d, float beta, float inv, float y, float y_bar)
{
    float t = 2.0f * y_bar * inv;
    return to_bf16x2(t * (fabsf(a) - beta * a * y), -t * y * d);
}

/* Cotangents of a pair's sums, this lane's: of vector field q and of scalars q, 4 + q, 8 + q. */
typedef struct sum_bars {
    float o[3], so[3];
} sum_bars;

FF_DEV sum_bars sum_bars_load(const ff_adj_cfg &c, const adj_wide_io &io, const pair_room &room, int row)
{
    sum_bars b;
    int q = threadIdx.x & 3, t = __float_as_int(room.geo[AW_TILE + row].w);
    const float *out_bar = io.pairs.out_bar + (int64_t)(t >= 0 ? t : 0) * c.n_comp;
#pragma unroll
    for (int d = 0; d < 3; d++) {
        b.o[d] = t >= 0 && q < c.n_vf && d < c.dim ? __ldg(out_bar + c.vf_comp[q] + d) : 0.0f;
        b.so[d] = t >= 0 && 4 * d + q < c.n_sf ? __ldg(out_bar + c.sf_comp[4 * d + q]) : 0.0f;
    }
    return b;
}

/* One row (rr 0, 1) of the network's outputs: words of their cotangents (tile j: word[2 j + rr]), and the pair's other
 * cotangents to the stash. */
FF_DEV void row_outputs(const ff_adj_cfg &c, const pair_room &room, const float (&acc)[AW_HALF / 2],
                        const sum_bars &b, int row, int rr, uint32_t (&word)[4 * AW_OUT])
{
    int q = threadIdx.x & 3;
    float4 u = room.geo[row];
    float scale = room.geo[AW_TILE + row].x,
          minus = fabsf(u.x) + fabsf(u.y) + fabsf(u.z) > 0.0f ? -1.0f : 0.0f;
    const float(&o)[3] = b.o, (&so)[3] = b.so;
    float inv, y, scale_bar = 0.0f;
    float along_bar = fmaf(o[0], u.x, fmaf(o[1], u.y, o[2] * u.z));
    auto at = [&](int j, int h) { return acc[4 * j + 2 * rr + h]; };
    float along = coefficient(at(0, 0), at(0, 1), c.beta, &inv);
    word[rr] = coefficient_bar(at(0, 0), at(0, 1), c.beta, inv, along, scale * along_bar);
#pragma unroll
    for (int k = 0; k < AW_NV; k++) {
        float4 v = room.s->unit[k];
        float across_bar = v.w * fmaf(o[0], v.x, fmaf(o[1], v.y, o[2] * v.z));
        float apart = v.w * fmaf(u.x, v.x, fmaf(u.y, v.y, u.z * v.z));
        float y1 = coefficient(at(1 + 2 * k, 0), at(1 + 2 * k, 1), c.beta, &inv);
        word[2 + 4 * k + rr] =
            coefficient_bar(at(1 + 2 * k, 0), at(1 + 2 * k, 1), c.beta, inv, y1, scale * across_bar);
        float y2 = coefficient(at(2 + 2 * k, 0), at(2 + 2 * k, 1), c.beta, &inv);
        word[4 + 4 * k + rr] = coefficient_bar(at(2 + 2 * k, 0), at(2 + 2 * k, 1), c.beta, inv, y2,
                                          scale * fmaf(apart, along_bar, minus * across_bar));
        float across = fmaf(minus, y2, y1), part = scale * across;
        scale_bar = fmaf(across, across_bar, scale_bar);
        along = fmaf(apart, y2, along);
        float4 s = make_float4(over_quad(part * o[0]), over_quad(part * o[1]), over_quad(part * o[2]),
                               over_quad(scale * y2 * along_bar));
        if (q == k % 4) room.stash[k * AW_TILE + row] = s;
    }
#pragma unroll
    for (int i = 0; i < 3; i++) {
        int j = 1 + 2 * AW_NV + i;
        y = coefficient(at(j, 0), at(j, 1), c.beta, &inv);
        word[2 * j + rr] = coefficient_bar(at(j, 0), at(j, 1), c.beta, inv, y, scale * so[i]);
        scale_bar = fmaf(y, so[i], scale_bar);
    }
    scale_bar = fmaf(along, along_bar, scale_bar);
    along *= scale;
    float4 s = make_float4(over_quad(along * o[0]), over_quad(along * o[1]), over_quad(along * o[2]),
                           over_quad(scale_bar));
    if (q == 0) room.stash[AW_NV * AW_TILE + row] = s;
}

/* ---- features and positions, back ---- */

/* S and its derivative. */
FF_DEV float smooth_diff(float x, float *diff)
{
    float rest = ex2_fast(-1.44269504f * x), e = 1.0f - rest, l = 0.693147181f * lg2_fast(1.0f + x);
    *diff = fmaf(rest, l, e * rcp_fast(1.0f + x));
    return e * l;
}

/* Sums of a group that lie behind h0. pair: cotangents of r^ and m(r) of two rows, added up over the quad. */
FF_DEV void vector_back(const ff_adj_cfg &c, const pair_room &room, const float (&acc)[16], int b, float *row,
                        float (&pair)[2][4])
{
    int lane = threadIdx.x & 31, k = (lane & 3) + 4 * b, first = threadIdx.x / 32 % 4 * 16 + lane / 4;
    float sum[5] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
    for (int rr = 0; rr < 2; rr++) {
        float4 u = room.geo[first + 8 * rr];
        float diff;
        const float f[4] = {acc[8 * b + 2 * rr], acc[8 * b + 2 * rr + 1], acc[8 * b + 4 + 2 * rr],
                            acc[8 * b + 5 + 2 * rr]};
        if (k == c.n_vec) {
            (void)smooth_diff(u.w, &diff);
            pair[rr][3] = fmaf(diff, f[0], pair[rr][3]);
        }
        if (k >= c.n_vec) continue;
        float4 v = room.s->unit[k], s = room.stash[k * AW_TILE + first + 8 * rr];
        float m = room.s->m[k], cs = fmaf(v.x, u.x, fmaf(v.y, u.y, v.z * u.z)),
              sm = smooth_diff(m * u.w, &diff);
        float p0 = 1.0f, p1 = cs, d0 = 0.0f, d1 = 1.0f, s_bar = 0.0f, c_bar = 0.0f;
#pragma unroll
        for (int n = 1; n <= 4; n++) {
            if (n <= c.n_harm) {
                s_bar = fmaf(f[n - 1], p1, s_bar);
                c_bar = fmaf(f[n - 1], d1, c_bar);
            }
            float la = (float)(2 * n + 1) / (float)(n + 1), lb = -(float)n / (float)(n + 1);
            float d2 = la * fmaf(cs, d1, p1) + lb * d0, p2 = la * cs * p1 + lb * p0;
            d0 = d1;
            d1 = d2;
            p0 = p1;
            p1 = p2;
        }
        float mm_bar = diff * s_bar;
        c_bar = fmaf(s.w, v.w, c_bar * sm);
        sum[0] = fmaf(mm_bar, u.w, sum[0]);
        sum[1] += fmaf(s.w, cs, fmaf(s.x, v.x, fmaf(s.y, v.y, s.z * v.z)));
        sum[2] += fmaf(s.x, v.w, c_bar * u.x);
        sum[3] += fmaf(s.y, v.w, c_bar * u.y);
        sum[4] += fmaf(s.z, v.w, c_bar * u.z);
        pair[rr][0] = fmaf(c_bar, v.x, pair[rr][0]);
        pair[rr][1] = fmaf(c_bar, v.y, pair[rr][1]);
        pair[rr][2] = fmaf(c_bar, v.z, pair[rr][2]);
        pair[rr][3] = fmaf(mm_bar, m, pair[rr][3]);
    }
#pragma unroll
    for (int i = 0; i < 5; i++) sum[i] = over_rows(sum[i]);
    if (row != NULL && lane < 4 && k < c.n_vec)
#pragma unroll
        for (int i = 0; i < 5; i++) row[c.off_m + 5 * k + i] = sum[i];
}

/* A term of an exact sum (adj_exact_add of ff_adj_tile.h). */
FF_DEV void exact_add(int64_t *words, float v, int *bad)
{
    const long long term_carry = 1ll << 60, sum_limit = 1ll << 61;
    double x = (double)v;
    if (!(fabs(x) < 0x1p27)) {
        *bad = 1;
        return;
    }
    double high = rint(x * 0x1p24);
    long long hi = (long long)high, lo = (long long)rint((x - high * 0x1p-24) * 0x1p72);
    unsigned long long *to = (unsigned long long *)words;
    long long sum = (long long)atomicAdd(to + 1, (unsigned long long)lo) + lo;
    if (sum > term_carry || sum < -term_carry) {
        long long carry = sum >> 48;
        atomicAdd(to + 1, (unsigned long long)(-(carry * (1ll << 48))));
        hi += carry;
    }
    sum = (long long)atomicAdd(to, (unsigned long long)hi) + hi;
    if (sum > sum_limit || sum < -sum_limit) *bad = 1;
}

/* Lane q = 0, 1 of a quad takes row 8 q + g: cotangents of strength, x_t - x_s and length, summed over the group. */
FF_DEV void distance_back(const ff_adj_cfg &c, const adj_wide_io &io, const pair_room &room, float *row,
                          const float (&pair)[2][4])
{
    int lane = threadIdx.x & 31, q = lane & 3, at = threadIdx.x / 32 % 4 * 16 + lane / 4 + 8 * (q & 1);
    float4 u = room.geo[at], g1 = room.geo[AW_TILE + at], s = room.stash[AW_NV * AW_TILE + at];
    float u_bar[3] = {s.x + (q & 1 ? pair[1][0] : pair[0][0]), s.y + (q & 1 ? pair[1][1] : pair[0][1]),
                      s.z + (q & 1 ? pair[1][2] : pair[0][2])};
    float m_bar = q & 1 ? pair[1][3] : pair[0][3], m = u.w, q2 = m * m;
    float e = one_minus_exp_fast(q2), one = 1.0f + q2, low = c.dim == 2 ? sqrtf(one) : one;
    float q_bar = 2.0f * s.w * g1.y * ((1.0f - e) / low - (c.dim == 2 ? 0.5f : 1.0f) * g1.z / one);
    const float dir[3] = {u.x, u.y, u.z};
    float sum[5] = {s.w * g1.z, 0.0f, 0.0f, 0.0f, 0.0f};
    int t = __float_as_int(g1.w);
    bool real = t >= 0 && q < 2;
#pragma unroll
    for (int d = 0; d < 3; d++) {
        u_bar[d] /= m;
        m_bar = fmaf(-u_bar[d], dir[d], m_bar);
    }
#pragma unroll
    for (int d = 0; d < 3; d++) {
        float r = dir[d] * m, x_bar = fmaf(q_bar, r, fmaf(m_bar, dir[d], u_bar[d])) * c.inv_length;
        sum[1 + d] = x_bar;
        sum[4] = fmaf(-x_bar, r, sum[4]);
        if (real && io.pairs.target_words != NULL && d < c.dim)
            exact_add(io.pairs.target_words + 2 * ((int64_t)t * c.dim + d), x_bar, io.pairs.bad);
    }
#pragma unroll
    for (int i = 0; i < 5; i++) {
        float x = over_rows(real ? sum[i] : 0.0f);
        x += __shfl_xor_sync(0xffffffffu, x, 1);
        if (row != NULL && lane == 0) row[c.off_m + 5 * c.n_vec + i] = x;
    }
}

#endif
#endif
