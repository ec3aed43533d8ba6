/* Layers of adj_wide_tile: the ring of weights, products from registers, SiLU and SiLU' in slices of 16 columns. Lane 4 g + q
 * holds rows g and g + 8 of its warp's 16, columns 2 q and 2 q + 1 of every tile of 8. */
#ifndef ADJ_WIDE_LAYERS_CUH
#define ADJ_WIDE_LAYERS_CUH

#include "adj_wide_pair.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
/* ---- weights ---- */

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
#endif

#endif
