/* pair_globe_fwd: part[piece, :] = sum over the pairs of a piece of strength * GLOBE value, fused, sm_90a
 * Work    a persistent block an SM: two consumer warpgroups of 64 pairs each, helper warps that find the pairs and
 *         build features, one thread that streams weights. A warp's 16 rows are a stream of its own: it works
 *         through whole pieces of target lists, 16 pairs a tile; streams get equal numbers of 16-pair groups
 * Launch  grid SMs, block 512 (setmaxnreg: consumers 184-208, helpers 72, producer 24), up to 227 KiB shared: 1 block
 *         an SM
 * Shapes  rec [n_src][rec_len] f32, h0 [n_src][H] bf16 (TF32: f32) permuted, image: packed weights (ff_globe_cfg.cuh),
 *         x_t, x_s [.][4] f64, part [n_piece][n_comp] f32
 * Order   rows r and r + 8 of a thread, tiles in order, then lanes by xor 4, 8, 16: fixed, whatever the grid
 * Bound   tensor cores for wide networks, special functions and issue slots for narrow ones; bench/gpu_pair
 * Oracle  double on the host, tests/gpu/test_pair_globe.cu
 * Care    SiLU(x) = h + h tanh h with h = x / 2: weights, biases and h0 of hidden layers come halved. Padding rows have
 *         strength 0; padded feature columns of the A tile are zeroed once and never written. */
#ifndef FF_PAIR_GLOBE_FWD_CUH
#define FF_PAIR_GLOBE_FWD_CUH

#include "ff_globe_cfg.cuh"
#include "ff_globe_math.cuh"
#include "ff_round.cuh"
#include "ff_sm90.cuh"

/* ---- operands ---- */

FF_DEV float silu_half(float h)
{
    return fmaf(h, tanh_fast(h), h);
}
/* SiLU of one k step of accumulators, as the A operand of the next product. */
template <class C> FF_DEV void silu_step(const float *acc, uint32_t *a)
{
    if constexpr (C::BF16) {
#pragma unroll
        for (int i = 0; i < 4; i++) a[i] = to_bf16x2(silu_half(acc[2 * i]), silu_half(acc[2 * i + 1]));
    } else { /* k index q is column 2 q, q + 4 is column 2 q + 1 */
        a[0] = to_tf32_rn(silu_half(acc[0]));
        a[1] = to_tf32_rn(silu_half(acc[2]));
        a[2] = to_tf32_rn(silu_half(acc[1]));
        a[3] = to_tf32_rn(silu_half(acc[3]));
    }
}

template <class C> FF_DEV void silu_steps(const float *acc, uint32_t *a, int from, int to)
{
    constexpr int per = C::BF16 ? 8 : 4;
#pragma unroll
    for (int s = 0; s < C::KP; s++)
        if (s >= from && s < to) silu_step<C>(acc + s * per, a + 4 * s);
}

template <class C, int N> FF_DEV void mma_rs(float (&d)[N / 2], const uint32_t *a, uint64_t b)
{
    if constexpr (C::BF16)
        ff_wg<N>::rs_bf16(d, a, b);
    else
        ff_wg<N>::rs_tf32(d, a, b);
}
template <class C, int N> FF_DEV void mma_ss(float (&d)[N / 2], uint64_t a, uint64_t b)
{
    if constexpr (C::BF16)
        ff_wg<N>::ss_bf16(d, a, b);
    else
        ff_wg<N>::ss_tf32(d, a, b);
}

/* ---- weights ---- */

typedef struct ff_ring {
    uint32_t base;       /* shared address of the block's memory */
    uint32_t phase;      /* parity of the tile's first round */
    uint32_t zero, held; /* see hold() */
} ff_ring;

template <class C> FF_DEV uint32_t bar_full(uint32_t base, uint32_t stage)
{
    return base + C::O_BAR + 8 * (1 + 2 * FF_CONSUMERS + stage);
}
template <class C> FF_DEV uint32_t bar_empty(uint32_t base, uint32_t stage)
{
    return base + C::O_BAR + 8 * (1 + 2 * FF_CONSUMERS + C::STAGES + stage);
}

/* ptxas moves SiLU down to where its result is used, a whole layer later, and then runs out of registers: tie the
 * results to the parity of the next barrier wait, through a zero that it cannot see through. */
template <class C> FF_DEV void hold(ff_ring &ring, const uint32_t *a, int from, int to)
{
#pragma unroll
    for (int i = 0; i < 4 * C::KP; i++)
        if (i >= 4 * from && i < 4 * to) ring.held ^= a[i];
}
FF_DEV uint32_t held_zero(ff_ring &ring)
{
    uint32_t z = ring.held & ring.zero;
    ring.held = 0;
    return z;
}

/* Shared address of chunk c, once it is there. Stage and round are compile-time: descriptors stay uniform. */
template <class C> FF_DEV uint32_t chunk_get(ff_ring &ring, int c)
{
    if (C::resident(c)) {
        if (c % C::PC == 0) mbar_wait(ring.base + C::O_BAR, held_zero(ring));
        return ring.base + C::L1_BYTES + C::place(c) * C::STAGE;
    }
    uint32_t parity = (C::round(c) & 1) ^ ring.phase ^ held_zero(ring);
    mbar_wait(bar_full<C>(ring.base, C::stage(c)), parity);
    return ring.base + C::O_RING + C::stage(c) * C::STAGE;
}
/* Gives chunk c back; its products have been waited for. */
template <class C> FF_DEV void chunk_drop(ff_ring &ring, int c)
{
    if (C::resident(c)) return;
    if ((threadIdx.x & 31) == 0) mbar_arrive(bar_empty<C>(ring.base, C::stage(c)));
}

template <class C> static __device__ void stream_weights(uint32_t base, const char *image, int n_tiles)
{
    uint32_t stage = 0, phase = 1;
    for (int tile = 0; tile < n_tiles; tile++)
        for (int c = 0; c < C::CHUNKS; c++) {
            if (C::resident(c)) continue;
            uint32_t bytes = C::chunk_bytes(c), full = bar_full<C>(base, stage);
            mbar_wait(bar_empty<C>(base, stage), phase);
            mbar_expect(full, bytes);
            bulk_load(base + C::O_RING + stage * C::STAGE, image + C::L1_BYTES + C::chunk_at(c), bytes, full);
            if (++stage == C::STAGES) {
                stage = 0;
                phase ^= 1;
            }
        }
}

/* ---- network ---- */

template <class C, int N> FF_DEV void bias_init(float (&d)[N / 2], const float *bias)
{
    int q = threadIdx.x & 3;
#pragma unroll
    for (int j = 0; j < N / 8; j++) {
        float2 b = *(const float2 *)(bias + 8 * j + 2 * q);
        d[4 * j] = d[4 * j + 2] = b.x;
        d[4 * j + 1] = d[4 * j + 3] = b.y;
    }
}

/* d += a W^T over KSTEPS-step chunks from chunk c0 on. prev: accumulators of the last part of the layer before, whose
 * SiLU is still due (into the last KP steps of a); done: accumulators of the part before of this layer, in flight,
 * whose SiLU goes to b. Special-function work is laid between the issue of products. */
template <class C, int N, bool HAS_PREV, bool HAS_DONE, bool FOLLOWS>
FF_DEV void product(float (&d)[N / 2], uint32_t *a, const float (&prev)[C::P / 2], float (&done)[C::P / 2],
                    uint32_t *b, ff_ring &ring, int c0)
{
    constexpr int STEPS = C::KSC, CH = C::PC, LATE = (C::NP - 1) * C::KP, BEFORE = LATE / STEPS;
    uint32_t *late = a + 4 * LATE;
#pragma unroll
    for (int c = 0; c < CH; c++) {
        if constexpr (HAS_PREV && BEFORE == 0) silu_steps<C>(prev, late, c * STEPS, (c + 1) * STEPS);
        uint64_t desc = wg_desc(chunk_get<C>(ring, c0 + c), N * 16, 128);
        wg_fence();
#pragma unroll
        for (int s = 0; s < STEPS; s++)
            mma_rs<C, N>(d, a + 4 * (c * STEPS + s), desc + (uint64_t)(s * N * 2));
        wg_commit();
        bool before = (FOLLOWS || c > 0) &&
                      !C::resident(c0 + c - 1); /* the chunk before is a streamed one, still held */
        if ((HAS_DONE && c == 0) || before) wg_wait<1>();
        if (before) chunk_drop<C>(ring, c0 + c - 1);
        if constexpr (HAS_DONE) {
            silu_steps<C>(done, b, c * C::KP / CH, (c + 1) * C::KP / CH);
            hold<C>(ring, b, c * C::KP / CH, (c + 1) * C::KP / CH);
        }
        if constexpr (HAS_PREV && BEFORE > 0)
            if (c < BEFORE) {
                silu_steps<C>(prev, late, c * C::KP / BEFORE, (c + 1) * C::KP / BEFORE);
                hold<C>(ring, late, c * C::KP / BEFORE, (c + 1) * C::KP / BEFORE);
            }
    }
}

/* Hidden layer l >= 1 from a (last part pending in prev) to a, prev. */
template <class C>
FF_DEV void hidden_layer(uint32_t (&a)[C::KS * 4], float (&prev)[C::P / 2], ff_ring &ring, const float *bias,
                         int c0)
{
    constexpr int CH = C::PC;
    uint32_t b[C::KS * 4];
    float d[2][C::P / 2];
#pragma unroll
    for (int p = 0; p < C::NP; p++) {
        float(&now)[C::P / 2] = d[p & 1];
        bias_init<C, C::P>(now, bias + p * C::P);
        if (p == 0)
            product<C, C::P, true, false, false>(now, a, prev, prev, b, ring, c0);
        else
            product<C, C::P, false, true, true>(now, a, prev, d[(p - 1) & 1], b + 4 * (p - 1) * C::KP, ring,
                                                c0 + p * CH);
    }
    wg_wait<0>();
    chunk_drop<C>(ring, c0 + C::NP * CH - 1);
#pragma unroll
    for (int i = 0; i < (C::NP - 1) * C::KP * 4; i++) a[i] = b[i];
#pragma unroll
    for (int i = 0; i < C::P / 2; i++) prev[i] = d[(C::NP - 1) & 1][i];
}

/* Accumulators of the output columns, in parts of 64: contiguous blocks of one size suit the register allocator. */
template <class C> struct ff_outputs {
    float full[C::OF > 0 ? C::OF : 1][C::PMAX / 2], last[C::OLAST / 2];
};
template <class C>
FF_DEV void output_layer(ff_outputs<C> &o, uint32_t (&a)[C::KS * 4], const float (&prev)[C::P / 2],
                         ff_ring &ring, const float *bias)
{
    float none[C::P / 2];
#pragma unroll
    for (int p = 0; p < C::OF; p++) {
        bias_init<C, C::PMAX>(o.full[p], bias + C::PMAX * p);
        if (p == 0)
            product<C, C::PMAX, true, false, false>(o.full[p], a, prev, none, a, ring, C::HID_CHUNKS);
        else
            product<C, C::PMAX, false, false, true>(o.full[p], a, prev, none, a, ring,
                                                    C::HID_CHUNKS + p * C::PC);
    }
    bias_init<C, C::OLAST>(o.last, bias + C::PMAX * C::OF);
    product<C, C::OLAST, C::OF == 0, false, (C::OF > 0)>(o.last, a, prev, none, a, ring, C::FULL_CHUNKS);
    wg_wait<0>();
#pragma unroll
    for (int p = 0; p < C::OF; p++) wg_pin(o.full[p]);
    wg_pin(o.last);
    chunk_drop<C>(ring, C::CHUNKS - 1);
}

/* h0 of the tile's rows: [2 rows][units] of 16 bytes. */
template <class C> struct ff_h0 {
    static constexpr int PER = C::BF16 ? 8 : 4, UNITS = C::H / (4 * PER);
    uint4 v[2][UNITS];
};
template <class C> FF_DEV void h0_load(ff_h0<C> &h, const void *h0, const int *id, int row)
{
    int q = threadIdx.x & 3;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const uint4 *at = (const uint4 *)((const char *)h0 + (int64_t)id[row + 8 * r] * (C::H * C::EB)) + q;
#pragma unroll
        for (int u = 0; u < ff_h0<C>::UNITS; u++) h.v[r][u] = __ldg(at + 4 * u);
    }
}
template <class C> FF_DEV void h0_init(float (&d)[C::P / 2], const ff_h0<C> &h, int part)
{
    constexpr int PER = ff_h0<C>::PER, TILES = PER / 2;
#pragma unroll
    for (int u = 0; u < C::P / (4 * PER); u++)
#pragma unroll
        for (int r = 0; r < 2; r++) {
            uint4 x = h.v[r][part * (C::P / (4 * PER)) + u];
            uint32_t w[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
            for (int i = 0; i < PER; i++) {
                uint32_t bits = !C::BF16 ? w[i] : i % 2 ? w[i / 2] & 0xffff0000u : w[i / 2] << 16;
                d[4 * (u * TILES + i / 2) + 2 * r + i % 2] = __uint_as_float(bits);
            }
        }
}

/* Layer one: h0 + W features; the feature tile is in shared memory. */
template <class C>
FF_DEV void first_layer(uint32_t (&a)[C::KS * 4], float (&prev)[C::P / 2], const ff_h0<C> &h, ff_ring &ring,
                        uint32_t tile)
{
    float d[2][C::P / 2];
#pragma unroll
    for (int p = 0; p < C::NP; p++) {
        float(&now)[C::P / 2] = d[p & 1];
        mbar_wait(ring.base + C::O_BAR, held_zero(ring));
        h0_init<C>(now, h, p);
        wg_fence();
#pragma unroll
        for (int s = 0; s < C::KF / C::KK; s++)
            mma_ss<C, C::P>(now, wg_desc(tile + s * FF_TILE * 32, FF_TILE * 16, 128),
                            wg_desc(ring.base + (p * (C::KF / C::KK) + s) * C::P * 32, C::P * 16, 128));
        wg_commit();
        if (p > 0) {
            wg_wait<1>();
            silu_steps<C>(d[(p - 1) & 1], a + 4 * (p - 1) * C::KP, 0, C::KP);
            hold<C>(ring, a + 4 * (p - 1) * C::KP, 0, C::KP);
        }
    }
    wg_wait<0>();
#pragma unroll
    for (int i = 0; i < C::P / 2; i++) prev[i] = d[(C::NP - 1) & 1][i];
}

/* ---- outputs ---- */

template <class C> struct ff_sums {
    static constexpr int ROUNDS = C::FULL + C::REST;
    float v[ROUNDS > 0 ? ROUNDS : 1][3], s[C::NS > 0 ? C::NS : 1];
};

FF_DEV float pade(float a, float d, float beta)
{
    float s = a * fabsf(a);
    return s * rcp_fast(fmaf(beta, fabsf(s), fmaf(d, d, 1.0f)));
}

/* Adds (c_k, e_k) of vector quad = (w g k^, g k^ . r^) to the sums along r^ and in space. */
FF_DEV void basis_add(float c, float e, float has_e, float4 quad, float &along, float (&v)[3])
{
    float t = fmaf(-has_e, e, c);
    along = fmaf(e, quad.w, along);
    v[0] = fmaf(t, quad.x, v[0]);
    v[1] = fmaf(t, quad.y, v[1]);
    v[2] = fmaf(t, quad.z, v[2]);
}

/* Pade, basis, strength, sum: one row (rr 0, 1) of a thread's accumulators. */
template <class C, bool MLP>
FF_DEV void row_add(ff_sums<C> &sums, const ff_outputs<C> &o, const float4 *geo, int row, int rr, float beta)
{
    int q = threadIdx.x & 3;
    float4 r = geo[C::NV * FF_TILE + row]; /* w r^, w */
    float has_e = fabsf(r.x) + fabsf(r.y) + fabsf(r.z) > 0.0f ? 1.0f : 0.0f;
    auto y = [&](int j) {
        constexpr int TILES = C::PMAX / 8;
        int i = 4 * (j % TILES) + 2 * rr;
        const float *v = j / TILES < C::OF ? o.full[j / TILES] + i : o.last + i;
        return MLP ? tanh_fast(v[0]) : pade(v[0], v[1], beta);
    };
#pragma unroll
    for (int f = 0; f < C::FULL; f++) {
        int j = f * C::FULL_SLOTS;
        float along = y(j), v[3] = {0.0f, 0.0f, 0.0f};
#pragma unroll
        for (int k = 0; k < C::NV; k++)
            basis_add(y(j + 1 + 2 * k), y(j + 2 + 2 * k), has_e, geo[k * FF_TILE + row], along, v);
        sums.v[f][0] += fmaf(along, r.x, v[0]);
        sums.v[f][1] += fmaf(along, r.y, v[1]);
        sums.v[f][2] += fmaf(along, r.z, v[2]);
    }
#pragma unroll
    for (int f = 0; f < C::REST; f++) {
        int j = C::FULL * C::FULL_SLOTS + f * C::SPLIT_SLOTS;
        float along = 0.0f, v[3] = {0.0f, 0.0f, 0.0f};
#pragma unroll
        for (int i = 0; i < C::PV; i++) {
            int k = min(q * C::PV + i, C::NV); /* past the end: coefficients are 0 */
            basis_add(y(j + 2 * i), y(j + 2 * i + 1), has_e, geo[k * FF_TILE + row], along, v);
        }
        sums.v[C::FULL + f][0] += fmaf(along, r.x, v[0]);
        sums.v[C::FULL + f][1] += fmaf(along, r.y, v[1]);
        sums.v[C::FULL + f][2] += fmaf(along, r.z, v[2]);
    }
#pragma unroll
    for (int i = 0; i < C::NS; i++)
        sums.s[i] = fmaf(r.w, y(C::FULL * C::FULL_SLOTS + C::REST * C::SPLIT_SLOTS + i), sums.s[i]);
}

FF_DEV float over_rows(float x)
{
    x += __shfl_xor_sync(0xffffffffu, x, 4);
    x += __shfl_xor_sync(0xffffffffu, x, 8);
    return x + __shfl_xor_sync(0xffffffffu, x, 16);
}

/* Writes the finished piece and clears the sums. */
template <class C> FF_DEV void piece_store(const ff_net_dims &d, const ff_sums<C> &s, float *out)
{
    int lane = threadIdx.x & 31;
#pragma unroll
    for (int f = 0; f < ff_sums<C>::ROUNDS; f++)
#pragma unroll
        for (int k = 0; k < 3; k++) {
            float x = over_rows(s.v[f][k]);
            if (f >= C::FULL) { /* lanes of a quad hold parts of one field */
                x += __shfl_xor_sync(0xffffffffu, x, 1);
                x += __shfl_xor_sync(0xffffffffu, x, 2);
            }
            int field = f < C::FULL ? 4 * f + (lane & 3) : 3 * C::FULL + f;
            if (lane < (f < C::FULL ? 4 : 1) && k < d.dim && field < d.n_vfield) out[d.vfield[field] + k] = x;
        }
#pragma unroll
    for (int i = 0; i < C::NS; i++) {
        float x = over_rows(s.s[i]);
        if (lane < 4 && 4 * i + lane < d.n_sfield) out[d.sfield[4 * i + lane]] = x;
    }
}

template <class C> FF_DEV void sums_clear(ff_sums<C> &s)
{
#pragma unroll
    for (int f = 0; f < ff_sums<C>::ROUNDS; f++) s.v[f][0] = s.v[f][1] = s.v[f][2] = 0.0f;
#pragma unroll
    for (int i = 0; i < C::NS; i++) s.s[i] = 0.0f;
}

/* ---- helper: pairs and features ---- */

typedef struct ff_border {
    ff_cursor at;
    int64_t group;
} ff_border;

/* All blocks work on one window of targets at a time, which keeps the records they share in the L2 cache: the launch's
 * groups are cut into turns, a turn into streams, at borders of pieces. */
typedef struct ff_stream {
    const ff_border *border; /* of this turn; the next turn's is FF_STREAMS + 1 further */
    int turns;               /* after this one */
    int t, p, seg, left;     /* target, next pair of it, its segment; 16-pair groups left */
} ff_stream;

FF_DEV void stream_turn(const ff_pair_dev &q, ff_stream &s)
{
    s.t = s.border->at.t;
    s.p = s.border->at.p;
    s.left = (int)(s.border[1].group - s.border->group);
    s.seg = s.left > 0 && s.p > 0 ? q.seg_off[s.t] : 0;
}

/* Source of this lane's pair and whether it is a real one; moves the stream on. *done: piece that ends, or -1. */
FF_DEV int stream_next(const ff_pair_dev &q, ff_stream &s, int i, bool *real, int *target, int *done)
{
    *real = false;
    *done = -1;
    *target = 0;
    while (s.left == 0 && s.turns > 0) {
        s.turns--;
        s.border += FF_STREAMS + 1;
        stream_turn(q, s);
    }
    if (s.left == 0) return 0;
    if (s.p == 0) { /* first tile of a target: skip empty lists */
        while (q.n_pairs[s.t] == 0) s.t++;
        s.seg = q.seg_off[s.t];
    }
    int n = q.n_pairs[s.t], end = min(n, (s.p / FF_CUDA_PIECE + 1) * FF_CUDA_PIECE),
        p = min(s.p + i, end - 1);
    int last = q.seg_off[s.t + 1], seg = s.seg;
    while (seg + 1 < last && q.seg_cum[seg + 1] <= p) seg++;
    *real = s.p + i < end;
    *target = s.t;
    int id = q.src[q.seg_src[seg] + p - q.seg_cum[seg]];
    s.seg = __shfl_sync(0xffffffffu, seg, 31);
    s.p += FF_CUDA_GROUP;
    s.left--;
    if (s.p >= end) {
        *done = q.piece_off[s.t] + (end - 1) / FF_CUDA_PIECE;
        s.p = end;
        if (end == n) {
            s.t++;
            s.p = 0;
        }
    }
    return id;
}

template <class C> FF_DEV void put_harmonics(char *tile, int row, int k, const float (&f)[C::NH])
{
    if constexpr (C::NH == 4 && C::BF16) {
        *(uint2 *)(tile + (k >> 1) * 1024 + row * 16 + (k & 1) * 8) =
            make_uint2(to_bf16x2(f[0], f[1]), to_bf16x2(f[2], f[3]));
    } else if constexpr (C::NH == 4) {
        *(uint4 *)(tile + k * 1024 + row * 16) = make_uint4(to_tf32_rn(f[0]), to_tf32_rn(f[1]), to_tf32_rn(f[2]), to_tf32_rn(f[3]));
    } else {
#pragma unroll
        for (int n = 0; n < C::NH; n++) {
            int c = k * C::NH + n, per = 16 / C::EB;
            char *at = tile + c / per * 1024 + row * 16 + c % per * C::EB;
            if constexpr (C::BF16)
                *(uint16_t *)at = (uint16_t)to_bf16x2(f[n], 0.0f);
            else
                *(uint32_t *)at = to_tf32_rn(f[n]);
        }
    }
}

/* Two lanes a pair: lane half h takes vectors k = h, h + 2, ...; half 1 also r itself. */
template <class C>
FF_DEV void pair_features(const ff_net_dims &d, const ff_pair_dev &q, int id, int target, bool real, int half,
                          int row, char *tile, float4 *geo)
{
    const double *xt = q.x_t + 4 * (int64_t)target, *xs = q.x_s + 4 * (int64_t)id;
    const float *rec = q.rec + (int64_t)id * d.rec_len;
    float x = (float)(xt[0] - xs[0]) * d.inv_length, y = (float)(xt[1] - xs[1]) * d.inv_length;
    float z = (float)(xt[2] - xs[2]) * d.inv_length, strength = q.strength[id];
    float4 vec[(C::NV + 1) / 2];
    float g[(C::NV + 1) / 2];
#pragma unroll
    for (int i = 0; i < (C::NV + 1) / 2; i++) {
        int k = min(2 * i + half, C::NV - 1);
        vec[i] = __ldg((const float4 *)rec + k);
        g[i] = __ldg(rec + 4 * C::NV + k);
    }
    float q2 = fmaf(x, x, fmaf(y, y, fmaf(z, z, d.eps2)));
    float inv = q2 > 0.0f ? rsqrt_fast(q2) : 0.0f, m = q2 * inv;
    float fall = d.dim == 3 ? rcp_fast(1.0f + q2) : rsqrt_fast(1.0f + q2);
    float w = real ? one_minus_exp_fast(q2) * fall * strength : 0.0f;
    x *= inv;
    y *= inv;
    z *= inv;
#pragma unroll
    for (int i = 0; i < (C::NV + 1) / 2; i++) {
        int k = 2 * i + half;
        if (k >= C::NV) continue;
        float c = fmaf(vec[i].x, x, fmaf(vec[i].y, y, vec[i].z * z));
        float s = smooth_fast(vec[i].w * m), f[C::NH], p0 = s, p1 = s * c;
#pragma unroll
        for (int n = 1; n <= C::NH; n++) {
            f[n - 1] = p1;
            float p2 = fmaf((float)(2 * n + 1) / (float)(n + 1) * c, p1, -(float)n / (float)(n + 1) * p0);
            p0 = p1;
            p1 = p2;
        }
        put_harmonics<C>(tile, row, k, f);
        float wg = w * g[i];
        geo[k * FF_TILE + row] = make_float4(wg * vec[i].x, wg * vec[i].y, wg * vec[i].z, g[i] * c);
    }
    if (half == 1) {
        constexpr int c = C::NV * C::NH, per = 16 / C::EB;
        char *at = tile + c / per * 1024 + row * 16 + c % per * C::EB;
        float s = smooth_fast(m);
        if constexpr (C::BF16)
            *(uint16_t *)at = (uint16_t)to_bf16x2(s, 0.0f);
        else
            *(uint32_t *)at = to_tf32_rn(s);
        geo[C::NV * FF_TILE + row] = make_float4(w * x, w * y, w * z, w);
    }
}

/* ---- the kernel ---- */

template <class C> FF_DEV uint32_t bar_ready(uint32_t base, int g)
{
    return base + C::O_BAR + 8 * (1 + g);
}
template <class C> FF_DEV uint32_t bar_taken(uint32_t base, int g)
{
    return base + C::O_BAR + 8 * (1 + FF_CONSUMERS + g);
}

template <class C>
static __device__ void help(const ff_net_dims &d, const ff_pair_dev &q, char *shared, int helper, int turns,
                            int n_tiles)
{
    const ff_border *border = (const ff_border *)(shared + C::O_CUR);
    uint32_t base = smem_u32(shared);
    int warp = threadIdx.x / 32 % 4, lane = threadIdx.x & 31, row = warp * 16 + lane / 2;
    constexpr int SERVED = FF_CONSUMERS / C::HELPERS;
    ff_stream s[SERVED];
#pragma unroll
    for (int i = 0; i < SERVED; i++) {
        s[i].border = border + (helper * SERVED + i) * 4 + warp;
        s[i].turns = turns - 1;
        stream_turn(q, s[i]);
    }
    for (int tile = 0; tile < n_tiles; tile++) {
#pragma unroll
        for (int i = 0; i < SERVED; i++) {
            int g = helper * SERVED + i, slot = g * 2 + (tile & 1), target, done;
            bool real;
            int id = stream_next(q, s[i], lane / 2, &real, &target, &done);
            if (tile > 0) mbar_wait(bar_taken<C>(base, g), (tile - 1) & 1);
            pair_features<C>(d, q, id, target, real, lane & 1, row, shared + C::O_A + g * C::A_BYTES,
                             (float4 *)(shared + C::O_GEO + slot * C::GEO_BYTES));
            if ((lane & 1) == 0) ((int *)(shared + C::O_ID))[slot * FF_TILE + row] = id;
            if (lane == 0) ((int *)(shared + C::O_DONE))[slot * 4 + warp] = done;
            fence_async_proxy();
            __syncwarp();
            if (lane == 0) mbar_arrive(bar_ready<C>(base, g));
        }
    }
}

template <class C, bool MLP>
static __device__ __forceinline__ void consume(const ff_net_dims &d, const ff_pair_dev &q, char *shared,
                                               int g, int n_tiles)
{
    ff_ring ring = {smem_u32(shared), 0, (uint32_t)(q.n_t >> 31), 0};
    const float *bias = (const float *)(shared + C::O_BIAS);
    int warp = threadIdx.x / 32 % 4, lane = threadIdx.x & 31, row = warp * 16 + lane / 4;
    ff_sums<C> sums;
    sums_clear<C>(sums);
    mbar_wait(ring.base + C::O_BAR,
              0); /* resident weights; a block without work must not leave before they land */
    if (n_tiles == 0) return;
#pragma unroll 1
    for (int tile = 0; tile < n_tiles; tile++) {
        int slot = g * 2 + (tile & 1);
        uint32_t a[C::KS * 4];
        float prev[C::P / 2];
        ff_outputs<C> o;
        ff_h0<C> h;
        mbar_wait(bar_ready<C>(ring.base, g), tile & 1);
        h0_load<C>(h, q.h0, (const int *)(shared + C::O_ID) + slot * FF_TILE, row);
        first_layer<C>(a, prev, h, ring, ring.base + C::O_A + g * C::A_BYTES);
        __syncwarp(); /* all lanes have read what the producer writes next */
        if (lane == 0) mbar_arrive(bar_taken<C>(ring.base, g));
#pragma unroll
        for (int l = 0; l < C::NL - 1; l++)
            hidden_layer<C>(a, prev, ring, bias + l * C::H, l * C::NP * C::PC);
        output_layer<C>(o, a, prev, ring, bias + (C::NL - 1) * C::H);
        ring.phase ^= C::ROUNDS & 1;
        const float4 *geo = (const float4 *)(shared + C::O_GEO + slot * C::GEO_BYTES);
        row_add<C, MLP>(sums, o, geo, row, 0, d.beta);
        row_add<C, MLP>(sums, o, geo, row + 8, 1, d.beta);
        int done = ((const int *)(shared + C::O_DONE))[slot * 4 + warp];
        if (done >= 0) {
            piece_store<C>(d, sums, q.part + (int64_t)done * d.n_comp);
            sums_clear<C>(sums);
        }
    }
}

template <class C>
static __device__ int block_start(const ff_pair_dev &q, char *shared, const char *image, const float *bias,
                                  int turns)
{
    uint32_t base = smem_u32(shared);
    int tid = (int)threadIdx.x;
    ff_border *border = (ff_border *)(shared + C::O_CUR);
    if (tid < turns * (FF_STREAMS + 1)) {
        int turn = tid / (FF_STREAMS + 1), i = tid % (FF_STREAMS + 1);
        int64_t s = ((int64_t)turn * gridDim.x + blockIdx.x) * FF_STREAMS + i;
        border[tid].at =
            ff_piece_at(q, s * q.n_group / ((int64_t)turns * gridDim.x * FF_STREAMS), &border[tid].group);
    }
    for (int i = tid; i < FF_CONSUMERS * C::A_BYTES / 4; i += 512) ((uint32_t *)(shared + C::O_A))[i] = 0;
    for (int i = tid; i < C::NBIAS; i += 512) ((float *)(shared + C::O_BIAS))[i] = bias[i];
    if (tid == 0) {
        mbar_init(base + C::O_BAR, 1);
        for (int g = 0; g < FF_CONSUMERS; g++) {
            mbar_init(bar_ready<C>(base, g), 4);
            mbar_init(bar_taken<C>(base, g), 4);
        }
        for (int i = 0; i < C::STAGES; i++) {
            mbar_init(bar_full<C>(base, (uint32_t)i), 1);
            mbar_init(bar_empty<C>(base, (uint32_t)i), FF_CONSUMERS * 4);
        }
        mbar_init_fence();
    }
    fence_async_proxy();
    __syncthreads();
    if (tid == 0) {
        int bytes = C::L1_BYTES;
        for (int c = 0; c < C::CHUNKS; c++)
            if (C::resident(c)) bytes += C::chunk_bytes(c);
        mbar_expect(base + C::O_BAR, (uint32_t)bytes);
        bulk_load(base, image, C::L1_BYTES, base + C::O_BAR);
        for (int c = 0; c < C::CHUNKS; c++)
            if (C::resident(c))
                bulk_load(base + C::L1_BYTES + C::place(c) * C::STAGE, image + C::L1_BYTES + C::chunk_at(c),
                          C::chunk_bytes(c), base + C::O_BAR);
    }
    int most = 0;
    for (int i = 0; i < FF_STREAMS; i++) {
        int n = 0;
        for (const ff_border *b = border + i; b < border + turns * (FF_STREAMS + 1); b += FF_STREAMS + 1)
            n += (int)(b[1].group - b->group);
        most = max(most, n);
    }
    return most;
}

template <int R> FF_DEV void regs_up(void)
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(R));
}
template <int R> FF_DEV void regs_down(void)
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(R));
}

template <class C, bool MLP>
static __global__ void __launch_bounds__(512, 1)
    pair_globe_fwd(const __grid_constant__ ff_net_dims d, const __grid_constant__ ff_pair_dev q,
                   const char *image, const float *bias)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ __align__(1024) char shared[];
    int64_t turns =
        q.n_group / ((int64_t)gridDim.x * FF_STREAMS * 512); /* 512 groups a stream and turn at least */
    int n_turns = turns < 1 ? 1 : turns > FF_TURNS ? FF_TURNS : (int)turns;
    int n_tiles = block_start<C>(q, shared, image, bias, n_turns), group = (int)threadIdx.x / 128;
    if (group < FF_CONSUMERS) {
        regs_up<C::REG_CONSUMER>();
        consume<C, MLP>(d, q, shared, group, n_tiles);
    } else if (C::STREAM && group == 3) {
        regs_down<C::REG_PRODUCER>();
        if (threadIdx.x % 128 == 0) stream_weights<C>(smem_u32(shared), image, n_tiles);
    } else {
        regs_down<C::REG_HELPER>();
        help<C>(d, q, shared, group - FF_CONSUMERS, n_turns, n_tiles);
    }
#endif
}

#endif
