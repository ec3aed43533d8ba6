/* Primitives of ff_adj_tile.h on the host: threads and lanes one after the other, a warp's fragments in arrays. The
 * device's are in cuda/ff_adj_device.cuh, with the same names. */
#ifndef FF_ADJ_HOST_H
#define FF_ADJ_HOST_H

#include "ff_adj_cfg.h"
#include "ff_round.h"

#include <math.h>

#define ADJ_FN    static inline __attribute__((unused))
#define ADJ_LANES 32
#define ADJ_UNROLL
#define ADJ_EACH_LANE(lane, i)     for (int lane = 0, i = 0; i < 32; lane++, i++)
#define ADJ_EACH_WARP(n, warp)     for (int warp = 0; warp < (n) / 32; warp++)
#define ADJ_EACH_THREAD(n, thread) for (int thread = 0; thread < (n); thread++)
#define ADJ_BARRIER()              ((void)0)

ADJ_FN float adj_float(uint32_t u)
{
    union {
        uint32_t u;
        float f;
    } b;
    b.u = u;
    return b.f;
}

ADJ_FN uint32_t adj_bits(float x)
{
    return ff_float_bits(x);
}

/* Nearest bf16, ties to even, of both; lo in the low half. */
ADJ_FN uint32_t adj_bf16x2(float lo, float hi)
{
    return (uint32_t)ff_to_bf16(hi) << 16 | ff_to_bf16(lo);
}

ADJ_FN uint32_t adj_tf32(float x)
{
    return ff_to_tf32(x);
}

/* Two words from where all blocks only read. */
ADJ_FN void adj_load2(const uint32_t *from, uint32_t *to)
{
    to[0] = from[0];
    to[1] = from[1];
}

ADJ_FN void adj_store2(uint32_t *to, uint32_t x, uint32_t y)
{
    to[0] = x;
    to[1] = y;
}

/* 16 bytes to shared memory; there after the next barrier. */
ADJ_FN void adj_copy16(uint32_t *to, const uint32_t *from)
{
    for (int k = 0; k < 4; k++) to[k] = from[k];
}

/* Atomic on the device; the new value. */
ADJ_FN int64_t adj_add(int64_t *to, int64_t x)
{
    return *to += x;
}

/* 1 / (1 + 2^-z) */
ADJ_FN float adj_sigmoid2(int prec, float z)
{
    (void)prec;
    return 1.0f / (1.0f + exp2f(-z));
}

/* a / b; below float32 b may be beyond 2^126, where the device's is 0. */
ADJ_FN float adj_divide(int prec, float a, float b)
{
    (void)prec;
    return a / b;
}

/* v [lane] becomes the sum over the 8 lanes of the same lane % 4. */
ADJ_FN void adj_sum_rows(float *v)
{
    for (int mask = 4; mask < 32; mask *= 2) {
        float t[32];
        for (int lane = 0; lane < 32; lane++) t[lane] = v[lane] + v[lane ^ mask];
        for (int lane = 0; lane < 32; lane++) v[lane] = t[lane];
    }
}

/* Value of index k (0 .. 8 kpw - 1) in 8 words of a row. */
ADJ_FN float adj_host_value(int prec, const uint32_t *words, int k)
{
    if (prec == FF_ADJ_BF16) return adj_float(words[k / 2] >> (16 * (k % 2)) << 16);
    return adj_float(prec == FF_ADJ_TF32 ? words[k] & 0xffffe000u : words[k]);
}

/* acc[i][j] += A B of one k step, fragments of all lanes as in ff_adj_cfg.h. */
ADJ_FN void adj_mma(int prec, adj_acc *acc, int i, int j, uint32_t (*a)[4], uint32_t (*b)[FF_ADJ_COLS][2])
{
    enum { DEPTH = 16 };
    uint32_t words[8];
    double rows[16][DEPTH], cols[8][DEPTH];
    int depth = prec == FF_ADJ_BF16 ? 16 : 8;
    for (int r = 0; r < 16; r++) {
        for (int w = 0; w < 8; w++) words[w] = a[4 * (r % 8) + w % 4][r / 8 + w / 4 * 2];
        for (int n = 0; n < depth; n++) rows[r][n] = (double)adj_host_value(prec, words, n);
    }
    for (int r = 0; r < 8; r++) {
        for (int w = 0; w < 8; w++) words[w] = b[4 * r + w % 4][j][w / 4];
        for (int n = 0; n < depth; n++) cols[r][n] = (double)adj_host_value(prec, words, n);
    }
    for (int lane = 0; lane < 32; lane++)
        for (int k = 0; k < 4; k++) {
            const double *x = rows[lane / 4 + 8 * (k / 2)], *y = cols[2 * (lane % 4) + k % 2];
            double sum = (double)acc[lane][i][j][k];
            for (int n = 0; n < depth; n++) sum += x[n] * y[n];
            acc[lane][i][j][k] = (float)sum;
        }
}

#endif
