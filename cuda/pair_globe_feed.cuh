/* Feeder warps of pair_globe_mma: which pairs a tile holds, and their geometry, one tile ahead of the others.
 *
 * A launch's 16-pair groups are cut into turns, a turn into streams (a row group of a block each) at borders of
 * pieces, as in pair_globe_fwd.cuh: all blocks work on one window of targets at a time. A tile takes the next mt groups
 * of a stream; past its end they are padding. */
#ifndef FF_PAIR_GLOBE_FEED_CUH
#define FF_PAIR_GLOBE_FEED_CUH

#include "ff_globe_math.cuh"
#include "ff_globe_mma.cuh"
#include "ff_mma.cuh"

typedef struct ff_mma_border {
    int64_t group;
    int t, unused;
} ff_mma_border;

/* Place of a stream, in shared memory. */
typedef struct ff_mma_stream {
    int64_t g, end;
    int t, turn;
} ff_mma_stream;

/* One of two slots that feeders fill and computing warps read; a row is a pair of the tile. */
typedef struct ff_feed_geo {
    float4 *unit; /* r^, |r| */
    float *w;     /* envelope times strength, 0: padding */
    int *id;      /* source */
    int *piece;   /* [row groups][mt] piece that ends with this group, or -1 */
} ff_feed_geo;

static __host__ __device__ inline int ff_feed_bytes(int rows)
{
    return rows * (16 + 4 + 4) + rows / 16 * 4;
}
static __device__ __forceinline__ ff_feed_geo ff_feed_slot(const ff_mma_cfg &c, char *shared, int slot)
{
    int rows = c.wr * c.mt * 16;
    char *at = shared + c.o_geo + slot * ((ff_feed_bytes(rows) + 15) / 16 * 16);
    return {(float4 *)at, (float *)(at + rows * 16), (int *)(at + rows * 20), (int *)(at + rows * 24)};
}
static __host__ __device__ inline int ff_border_bytes(int wr)
{
    return FF_MMA_TURNS * (wr + 1) * 16 + wr * 24;
}

static __device__ __forceinline__ int feed_turns(const ff_pair_dev &q, const ff_mma_cfg &c)
{
    int64_t turns = q.n_group / ((int64_t)gridDim.x * c.wr * 512); /* 512 groups a stream and turn at least */
    return turns < 1 ? 1 : turns > FF_MMA_TURNS ? FF_MMA_TURNS : (int)turns;
}

/* Borders of this block's streams; returns its number of tiles. All threads. */
template <int MT> static __device__ int feed_start(const ff_pair_dev &q, const ff_mma_cfg &c, char *shared)
{
    ff_mma_border *border = (ff_mma_border *)(shared + c.o_border);
    int turns = feed_turns(q, c), per = c.wr + 1;
    for (int i = (int)threadIdx.x; i < turns * per; i += (int)blockDim.x) {
        int64_t s = ((int64_t)(i / per) * gridDim.x + blockIdx.x) * c.wr + i % per;
        border[i].t = ff_piece_at(q, s * q.n_group / ((int64_t)turns * gridDim.x * c.wr), &border[i].group).t;
    }
    __syncthreads();
    int most = 0;
    for (int s = 0; s < c.wr; s++) {
        int n = 0;
        for (int k = 0; k < turns; k++)
            n += ((int)(border[k * per + s + 1].group - border[k * per + s].group) + MT - 1) / MT;
        most = n > most ? n : most;
    }
    return most;
}

/* Source id of pair p of target t: the segment whose range holds p. */
FF_DEV int feed_source(const ff_pair_dev &q, int t, int p)
{
    int lo = __ldg(q.seg_off + t), hi = __ldg(q.seg_off + t + 1);
    while (hi - lo > 1) {
        int mid = (lo + hi) / 2;
        if (__ldg(q.seg_cum + mid) <= p)
            lo = mid;
        else
            hi = mid;
    }
    return __ldg(q.src + __ldg(q.seg_src + lo) + p - __ldg(q.seg_cum + lo));
}

template <bool EXACT>
FF_DEV void feed_pair(const ff_net_dims &d, const ff_pair_dev &q, const ff_feed_geo &geo, int row, int t, int p,
                      int n)
{
    int id = feed_source(q, t, min(p, n - 1));
    const double *xt = q.x_t + 4 * (int64_t)t, *xs = q.x_s + 4 * (int64_t)id;
    float x = (float)(xt[0] - xs[0]) * d.inv_length, y = (float)(xt[1] - xs[1]) * d.inv_length;
    float z = (float)(xt[2] - xs[2]) * d.inv_length, strength = p < n ? __ldg(q.strength + id) : 0.0f, inv, m, w;
    float q2 = fmaf(x, x, fmaf(y, y, fmaf(z, z, d.eps2)));
    if constexpr (EXACT) {
        m = sqrtf(q2);
        inv = m > 0.0f ? 1.0f / m : 0.0f;
        w = -expm1f(-q2) / (d.dim == 3 ? 1.0f + q2 : sqrtf(1.0f + q2)) * strength;
    } else {
        inv = q2 > 0.0f ? rsqrt_fast(q2) : 0.0f;
        m = q2 * inv;
        w = one_minus_exp_fast(q2) * (d.dim == 3 ? rcp_fast(1.0f + q2) : rsqrt_fast(1.0f + q2)) * strength;
    }
    geo.unit[row] = make_float4(x * inv, y * inv, z * inv, m);
    geo.w[row] = p < n ? w : 0.0f;
    geo.id[row] = id;
}

/* One row group's part of a tile. */
template <bool EXACT, int MT>
static __device__ void feed_rows(const ff_net_dims &d, const ff_pair_dev &q, const ff_mma_cfg &c,
                                 const ff_mma_border *border, ff_mma_stream *stream, const ff_feed_geo &geo,
                                 int wr, int turns)
{
    constexpr int R = 16 * MT, PER = (R + 31) / 32;
    int lane = (int)threadIdx.x & 31;
    ff_mma_stream s = stream[wr];
    while (s.g == s.end && s.turn + 1 < turns) {
        s.turn++;
        s.t = border[s.turn * (c.wr + 1) + wr].t;
        s.g = border[s.turn * (c.wr + 1) + wr].group;
        s.end = border[s.turn * (c.wr + 1) + wr + 1].group;
    }
    int n = (int)min((int64_t)MT, s.end - s.g), mine[PER] = {0};
    int64_t off = __ldg(q.group_off + min(s.t + 1 + lane, q.n_t)); /* of the 32 targets that follow */
    for (int i = 0; i < n; i++) {
        unsigned before = __ballot_sync(0xffffffffu, off <= s.g + i);
        while (before == 0xffffffffu) {
            s.t += 32;
            off = __ldg(q.group_off + min(s.t + 1 + lane, q.n_t));
            before = __ballot_sync(0xffffffffu, off <= s.g + i);
        }
#pragma unroll
        for (int k = 0; k < PER; k++)
            if (2 * k + lane / 16 == i) mine[k] = s.t + __popc(before);
    }
#pragma unroll
    for (int k = 0; k < PER; k++) {
        int group = 2 * k + lane / 16, row = wr * R + 32 * k + lane;
        if (group >= MT) continue;
        if (group < n) {
            int t = mine[k], pairs = __ldg(q.n_pairs + t);
            int p = (int)(s.g + group - __ldg(q.group_off + t)) * FF_CUDA_GROUP, next = p + FF_CUDA_GROUP;
            feed_pair<EXACT>(d, q, geo, row, t, p + lane % 16, pairs);
            if (lane % 16 == 0)
                geo.piece[wr * MT + group] = next % FF_CUDA_PIECE == 0 || next >= pairs
                                                 ? __ldg(q.piece_off + t) + p / FF_CUDA_PIECE
                                                 : -1;
        } else {
            geo.unit[row] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            geo.w[row] = 0.0f;
            geo.id[row] = 0;
            if (lane % 16 == 0) geo.piece[wr * MT + group] = -1;
        }
    }
    s.g += n;
    __syncwarp();
    if (lane == 0) stream[wr] = s;
    __syncwarp();
}

template <bool EXACT, int MT>
static __device__ void feed(const ff_net_dims &d, const ff_pair_dev &q, const ff_mma_cfg &c, char *shared,
                            int n_tiles)
{
    const ff_mma_border *border = (const ff_mma_border *)(shared + c.o_border);
    ff_mma_stream *stream = (ff_mma_stream *)(shared + c.o_border + FF_MMA_TURNS * (c.wr + 1) * 16);
    int n = 32 * c.wr * c.wc, first = ((int)threadIdx.x - n) / 32, turns = feed_turns(q, c);
    if ((threadIdx.x & 31) == 0)
        for (int wr = first; wr < c.wr; wr += c.feeders)
            stream[wr] = {border[wr].group, border[wr + 1].group, border[wr].t, 0};
    __syncwarp();
    for (int tile = 0; tile < n_tiles; tile++) {
        int slot = tile & 1, all = n + 32 * c.feeders;
        ff_feed_geo geo = ff_feed_slot(c, shared, slot);
        if (tile >= 2) bar_sync(4 + slot, all);
        for (int wr = first; wr < c.wr; wr += c.feeders)
            feed_rows<EXACT, MT>(d, q, c, border, stream, geo, wr, turns);
        bar_arrive(2 + slot, all);
    }
}

#endif
