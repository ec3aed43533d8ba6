/* The pair adjoint of a tile, written once for the device and for the host.
 *
 * Included after the primitives of one side. Device (cuda/ff_adj_device.cuh): a thread goes through the text once, and
 * blocks meet at barriers. Host (ff_adj_host.h): a phase between two barriers is run for one thread after the other, and
 * a product for 32 lanes beside each other with their fragments in arrays: tests/unit/test_adj_tile.c checks index
 * arithmetic and mathematics without a GPU.
 *
 * A tile of `rows` pairs is evaluated once more and then walked backward, as ff_globe_tile_adjoint does it on the CPU
 * (names and formulas: ff_globe_adjoint_impl.h, docs/theory.md "Adjoint"). Activations and cotangents pass between the
 * layers in two buffers in shared memory; what weight gradients need goes to the chunk (ff_adj_cfg.h). A pair's results
 * depend on that pair alone; a group's sums over its 16 pairs have one order. */
#ifndef FF_ADJ_TILE_H
#define FF_ADJ_TILE_H

#include "ff_adj_cfg.h"

#include <math.h>

/* A tile's shared memory, its first group (of the chunk) and how many of its groups there are. */
typedef struct adj_mem {
    uint32_t *buf;          /* two of [rows][stride] */
    float *row;             /* [n_rows][rows] */
    int32_t *target, *slot; /* [rows], [rows / 16] */
    int64_t first;
    int live;
} adj_mem;

/* Buffer 0 or 1. */
ADJ_FN uint32_t *adj_buf(const ff_adj_cfg *c, const adj_mem *s, int k)
{
    return s->buf + k * c->rows * c->stride;
}

/* ---- words ---- */

/* A word of TF32 or float32. */
ADJ_FN uint32_t adj_word(int prec, float x)
{
    return prec == FF_ADJ_TF32 ? adj_tf32(x) : adj_bits(x);
}

/* Column `col` of a pair's row of operands. */
ADJ_FN void adj_put1(int prec, uint32_t *row, int col, float x)
{
    if (prec == FF_ADJ_BF16)
        ((adj_half *)row)[col] = (uint16_t)adj_bf16x2(x, 0.0f);
    else
        row[col] = adj_word(prec, x);
}

/* Columns col (even) and col + 1. */
ADJ_FN void adj_put2(int prec, uint32_t *row, int col, float x, float y)
{
    if (prec == FF_ADJ_BF16) {
        row[col / 2] = adj_bf16x2(x, y);
    } else {
        row[col] = adj_word(prec, x);
        row[col + 1] = adj_word(prec, y);
    }
}

/* Columns from .. to - 1 of all rows become zero. */
ADJ_FN void adj_zero_columns(const ff_adj_cfg *c, int prec, uint32_t *buf, int from, int to, int tid)
{
    for (int p = tid; p < c->rows; p += c->threads)
        for (int col = from; col < to; col++) adj_put1(prec, buf + p * c->stride, col, 0.0f);
}

/* ---- exact sums (ff_sums.h) ---- */

/* The words of a term; false: out of range. */
ADJ_FN bool adj_exact_words(double x, int64_t *hi, int64_t *lo)
{
    if (!(fabs(x) < 0x1p27)) return false;
    double high = rint(x * 0x1p24);
    *hi = (int64_t)high;
    *lo = (int64_t)rint((x - high * 0x1p-24) * 0x1p72);
    return true;
}

/* Adds words to an entry's; any order gives the same bits. The low word carries by itself when it grows large. */
ADJ_FN void adj_words_add(int64_t *words, int64_t hi, int64_t lo, int *bad)
{
    const int64_t term_carry = (int64_t)1 << 60, sum_limit = (int64_t)1 << 61;
    int64_t sum = adj_add(words + 1, lo);
    if (sum > term_carry || sum < -term_carry) {
        int64_t carry = sum >> 48, back = carry * ((int64_t)1 << 48);
        (void)adj_add(words + 1, -back);
        hi += carry;
    }
    sum = adj_add(words, hi);
    if (sum > sum_limit || sum < -sum_limit) *bad = 1;
}

ADJ_FN void adj_exact_add(int64_t *words, float v, int *bad)
{
    int64_t hi, lo;
    if (adj_exact_words((double)v, &hi, &lo))
        adj_words_add(words, hi, lo, bad);
    else
        *bad = 1;
}

/* ---- products ---- */

/* Tiles of 8 columns one warp takes at a time. */
ADJ_FN int adj_columns(const ff_adj_cfg *c, int tiles)
{
    int n = (tiles + c->wc - 1) / c->wc;
    return n < FF_ADJ_COLS ? n : FF_ADJ_COLS;
}

/* Weights of step k of n column tiles. */
ADJ_FN void adj_load_b(uint32_t (*b)[FF_ADJ_COLS][2], const uint32_t *w, int steps, int k, int n)
{
    ADJ_EACH_LANE(lane, i)
    {
        ADJ_UNROLL for (int j = 0; j < FF_ADJ_COLS; j++)
        {
            b[i][j][0] = b[i][j][1] = 0;
            if (j < n) adj_load2(w + ((j * steps + k) * 32 + lane) * 2, b[i][j]);
        }
    }
}

/* acc += operands of mt 16-row tiles from a (row 0 of the warp) times n column tiles of weights; the next step's weights
 * are on their way while this one's are used. */
ADJ_FN void adj_product(const int prec, const int mt, adj_acc *acc, const uint32_t *a, int stride,
                        const uint32_t *w, int steps, int n)
{
    uint32_t b[2][ADJ_LANES][FF_ADJ_COLS][2];
    adj_load_b(b[0], w, steps, 0, n);
    for (int k0 = 0; k0 < steps; k0 += 2) {
        ADJ_UNROLL for (int odd = 0; odd < 2; odd++)
        {
            int k = k0 + odd;
            if (k >= steps) break;
            if (k + 1 < steps) adj_load_b(b[1 - odd], w, steps, k + 1, n);
            ADJ_UNROLL for (int i = 0; i < mt; i++)
            {
                uint32_t f[ADJ_LANES][4];
                ADJ_EACH_LANE(lane, e)
                {
                    const uint32_t *at = a + (16 * i + lane / 4) * stride + 8 * k + lane % 4;
                    f[e][0] = at[0];
                    f[e][1] = at[8 * stride];
                    f[e][2] = at[4];
                    f[e][3] = at[8 * stride + 4];
                }
                ADJ_UNROLL for (int j = 0; j < FF_ADJ_COLS; j++) if (j < n)
                    adj_mma(prec, acc, i, j, f, b[odd]);
            }
        }
    }
}

/* ---- chunk ---- */

ADJ_FN uint32_t *adj_chunk_row(const ff_adj_cfg *c, const adj_io *io, const adj_mem *s, int kpw, int row)
{
    return io->chunk + (s->first * (FF_ADJ_GROUP / kpw) + row) * (int64_t)c->row_words;
}

/* v[h][e]: pair g + 8 h of a group, columns col + e. */
ADJ_FN void adj_chunk_put(const ff_adj_cfg *c, const adj_io *io, const adj_mem *s, int prec, int group, int g,
                          int col, float (*v)[2])
{
    if (group >= s->live) return;
    if (prec == FF_ADJ_BF16) {
        uint32_t *to = adj_chunk_row(c, io, s, 2, 8 * group + g) + col;
        uint32_t x = adj_bf16x2(v[0][0], v[1][0]), y = adj_bf16x2(v[0][1], v[1][1]);
        adj_store2(to, x, y);
        return;
    }
    ADJ_UNROLL for (int h = 0; h < 2; h++)
    {
        uint32_t *to = adj_chunk_row(c, io, s, 1, 16 * group + g + 8 * h) + col;
        adj_store2(to, adj_word(prec, v[h][0]), adj_word(prec, v[h][1]));
    }
}

/* What adj_chunk_put() left there; zero for groups past the end. */
ADJ_FN void adj_chunk_get(const ff_adj_cfg *c, const adj_io *io, const adj_mem *s, int prec, int group, int g,
                          int col, float (*v)[2])
{
    ADJ_UNROLL for (int h = 0; h < 2; h++) v[h][0] = v[h][1] = 0.0f;
    if (group >= s->live) return;
    ADJ_UNROLL for (int e = 0; e < 2; e++)
    {
        if (prec == FF_ADJ_BF16) {
            uint32_t x = adj_chunk_row(c, io, s, 2, 8 * group + g)[col + e];
            v[0][e] = adj_float(x << 16);
            v[1][e] = adj_float(x & 0xffff0000u);
        } else {
            ADJ_UNROLL for (int h = 0; h < 2; h++) v[h][e] =
                adj_float(adj_chunk_row(c, io, s, 1, 16 * group + g + 8 * h)[col + e]);
        }
    }
}

/* Columns 0 .. n - 1 (n a multiple of 8) of a buffer to columns from `to` on. */
ADJ_FN void adj_copy_out(const ff_adj_cfg *c, const adj_io *io, const adj_mem *s, int prec,
                         const uint32_t *buf, int n, int to, int tid)
{
    int kpw = prec == FF_ADJ_BF16 ? 2 : 1, per = FF_ADJ_GROUP / kpw;
    for (int i = tid; i < s->live * per * n; i += c->threads) {
        int row = i / n, col = i % n, p = row / per * FF_ADJ_GROUP + row % per;
        uint32_t word;
        if (prec == FF_ADJ_BF16) {
            const adj_half *a = (const adj_half *)(buf + p * c->stride), *b = a + 16 * c->stride;
            word = (uint32_t)a[col] | (uint32_t)b[col] << 16; /* pairs p and p + 8 */
        } else {
            word = buf[p * c->stride + col];
        }
        adj_chunk_row(c, io, s, kpw, row)[to + col] = word;
    }
}

/* ---- scalar arithmetic ---- */

/* S(x) = (1 - exp(-x)) log(1 + x) and its derivative, x >= 0. */
ADJ_FN float adj_smooth(float x, float *diff)
{
    x = fminf(x, 1e37f);
    float e = -expm1f(-x), l = log1pf(x);
    *diff = (1.0f - e) * l + e / (1.0f + x);
    return e * l;
}

/* SiLU of z / log2(e), times log2(e), and its derivative. */
ADJ_FN float adj_silu(int prec, float z, float *diff)
{
    float s = adj_sigmoid2(prec, z);
    *diff = s + (0.693147181f * z) * s * (1.0f - s);
    return z * s;
}

/* ---- phases of a tile; tid: thread ---- */

ADJ_FN float *adj_row(const ff_adj_cfg *c, const adj_mem *s, int row)
{
    return s->row + row * c->rows;
}

/* Pair by pair: ids, r, r^, envelope. */
ADJ_FN void adj_geometry(const ff_adj_cfg *c, const adj_io *io, const adj_mem *s, int tid)
{
    for (int p = tid; p < c->rows; p += c->threads) {
        int local = p / FF_ADJ_GROUP;
        int64_t group = io->group_begin + s->first + (local < s->live ? local : 0);
        int32_t slot = io->group_slot[group],
                t = local < s->live ? io->target[group * FF_ADJ_GROUP + p % FF_ADJ_GROUP] : -1;
        const double *xs = io->x_s + 4 * (int64_t)slot, *xt = t >= 0 ? io->x_t + 4 * (int64_t)t : xs;
        float r[3], sq = 0.0f, top = 0.0f;
        for (int d = 0; d < 3; d++) {
            r[d] = fminf(1e18f, fmaxf(-1e18f, (float)(xt[d] - xs[d]) / c->length));
            sq = fmaf(r[d], r[d], sq);
        }
        float q = sq + c->eps2, m = fmaxf(0x1p-126f, sqrtf(q)),
              low = c->dim == 2 ? sqrtf(1.0f + q) : 1.0f + q;
        float strength = t >= 0 ? io->strength[slot] : 0.0f;
        for (int d = 0; d < 3; d++) {
            adj_row(c, s, FF_ADJ_R + d)[p] = r[d];
            adj_row(c, s, FF_ADJ_U + d)[p] = r[d] / m;
            top = fmaxf(top, fabsf(r[d] / m));
        }
        adj_row(c, s, FF_ADJ_M)[p] = m;
        adj_row(c, s, FF_ADJ_STR)[p] = strength;
        adj_row(c, s, FF_ADJ_SCALE)[p] = strength * (-expm1f(-q) / low);
        adj_row(c, s, FF_ADJ_MINUS)[p] = top > 0.0f ? -1.0f : 0.0f;
        s->target[p] = t;
        if (p % FF_ADJ_GROUP == 0) s->slot[local] = slot;
    }
}

/* Cotangents of the sums; zero for padding. */
ADJ_FN void adj_outputs_in(const ff_adj_cfg *c, const adj_io *io, const adj_mem *s, int tid)
{
    for (int i = tid; i < c->rows * c->n_comp; i += c->threads) {
        int p = i % c->rows, k = i / c->rows, local = p / FF_ADJ_GROUP;
        int64_t group = io->group_begin + s->first + local;
        int32_t t = local < s->live ? io->target[group * FF_ADJ_GROUP + p % FF_ADJ_GROUP] : -1;
        adj_row(c, s, FF_ADJ_OUT + k)[p] = t >= 0 ? io->out_bar[(int64_t)t * c->n_comp + k] : 0.0f;
    }
}

/* The record of pair p's source. */
ADJ_FN const float *adj_record(const ff_adj_cfg *c, const adj_io *io, const adj_mem *s, int p)
{
    return io->rec + (int64_t)s->slot[p / FF_ADJ_GROUP] * c->rec_len;
}

/* Direction k of a record, z = 0 in 2D; returns its product with r^. */
ADJ_FN float adj_unit(const ff_adj_cfg *c, const adj_mem *s, const float *rec, int k, int p, float *u)
{
    float sum = 0.0f;
    for (int d = 0; d < 3; d++) {
        u[d] = d < c->dim ? rec[c->off_unit + k * c->dim + d] : 0.0f;
        sum = fmaf(u[d], adj_row(c, s, FF_ADJ_U + d)[p], sum);
    }
    return sum;
}

/* Work item (pair, vector k; r last): features into buffer 0. */
ADJ_FN void adj_features(const ff_adj_cfg *c, const adj_io *io, const adj_mem *s, int prec, int tid)
{
    for (int i = tid; i < c->rows * (c->n_vec + 1); i += c->threads) {
        int p = i % c->rows, k = i / c->rows, all = c->layer[0].steps * 8 * c->kpw;
        uint32_t *x = adj_buf(c, s, 0) + p * c->stride;
        float m = adj_row(c, s, FF_ADJ_M)[p], diff, u[3];
        if (k == c->n_vec) {
            adj_put1(prec, x, 0, adj_smooth(m, &diff));
            for (int f = c->n_feat; f < all; f++) adj_put1(prec, x, f, 0.0f);
            continue;
        }
        const float *rec = adj_record(c, io, s, p);
        float cosine = adj_unit(c, s, rec, k, p, u), sm = adj_smooth(rec[c->off_m + k] * m, &diff);
        float p0 = 1.0f, p1 = cosine;
        for (int n = 1; n <= c->n_harm; n++) {
            adj_put1(prec, x, k * c->n_harm + n, sm * p1);
            if (n == c->n_harm) break;
            float p2 = c->leg_a[n + 1] * cosine * p1 + c->leg_b[n + 1] * p0;
            p0 = p1;
            p1 = p2;
        }
    }
}

/* One layer forward from buffer `from`: hidden ones leave SiLU in the other buffer and what the way back needs in the
 * chunk, the last one float32 rows. */
ADJ_FN void adj_forward(const ff_adj_cfg *c, const adj_io *io, const adj_mem *s, const int prec, const int mt,
                        int l, int from, int warp)
{
    adj_acc acc[ADJ_LANES];
    int row0 = warp / c->wc * 16 * mt, tiles = c->layer[l].tiles, steps = c->layer[l].steps;
    int per = adj_columns(c, tiles);
    const uint32_t *a = adj_buf(c, s, from) + row0 * c->stride, *w = io->image + c->layer[l].at;
    bool last = l == c->n_hidden;
    for (int t = warp % c->wc * per; t < tiles; t += c->wc * per) {
        int n = tiles - t < per ? tiles - t : per;
        ADJ_EACH_LANE(lane, e)
        {
            ADJ_UNROLL for (int i = 0; i < mt; i++)
            {
                const float *b = l > 0 ? io->bias + c->layer[l].at_bias
                                       : io->rec + (int64_t)s->slot[row0 / 16 + i] * c->rec_len;
                ADJ_UNROLL for (int j = 0; j < FF_ADJ_COLS; j++) ADJ_UNROLL for (int k = 0; k < 4; k++)
                    acc[e][i][j][k] = j < n ? b[8 * (t + j) + 2 * (lane % 4) + k % 2] : 0.0f;
            }
        }
        adj_product(prec, mt, acc, a, c->stride, w + (int64_t)t * steps * 64, steps, n);
        ADJ_EACH_LANE(lane, e)
        {
            ADJ_UNROLL for (int i = 0; i < mt; i++)
            {
                ADJ_UNROLL for (int j = 0; j < FF_ADJ_COLS; j++)
                {
                    int g = lane / 4, col = 8 * (t + j) + 2 * (lane % 4);
                    float y[2][2], d[2][2];
                    if (j >= n) continue;
                    ADJ_UNROLL for (int h = 0; h < 2; h++)
                    {
                        uint32_t *to = adj_buf(c, s, 1 - from) + (row0 + 16 * i + g + 8 * h) * c->stride;
                        if (last) {
                            to[col] = adj_bits(acc[e][i][j][2 * h]);
                            to[col + 1] = adj_bits(acc[e][i][j][2 * h + 1]);
                            continue;
                        }
                        ADJ_UNROLL for (int k = 0; k < 2; k++) y[h][k] =
                            adj_silu(prec, acc[e][i][j][2 * h + k], &d[h][k]);
                        adj_put2(prec, to, col, y[h][0], y[h][1]);
                    }
                    if (last) continue;
                    adj_chunk_put(c, io, s, prec, row0 / 16 + i, g, c->layer[l + 1].x + col, y);
                    adj_chunk_put(c, io, s, prec, row0 / 16 + i, g, c->layer[l].diff + col, d);
                }
            }
        }
    }
}

/* Coefficient from the network's outputs (float32 rows), and the outputs' cotangents from the coefficient's. */
ADJ_FN float adj_coefficient(const ff_adj_cfg *c, int prec, const uint32_t *raw, int coef)
{
    if (c->mlp) return tanhf(adj_float(raw[coef]));
    float a = adj_float(raw[2 * coef]), d = adj_float(raw[2 * coef + 1]);
    return adj_divide(prec, a * fabsf(a), 1.0f + d * d + c->beta * (a * a));
}
ADJ_FN void adj_coefficient_bar(const ff_adj_cfg *c, int prec, const uint32_t *raw, uint32_t *raw_bar,
                                int coef, float y, float y_bar)
{
    if (c->mlp) {
        adj_put1(prec, raw_bar, coef, y_bar * (1.0f - y * y));
        return;
    }
    float a = adj_float(raw[2 * coef]), d = adj_float(raw[2 * coef + 1]);
    float t = adj_divide(prec, 2.0f * y_bar, 1.0f + d * d + c->beta * (a * a));
    adj_put2(prec, raw_bar, 2 * coef, t * (fabsf(a) - c->beta * a * y), -t * y * d);
}

/* Work item (pair, vector k; r and the scalar fields last): all coefficients that belong to k, from their values in
 * buffer 1 - to to their cotangents in buffer `to`, and parts of the pair's other cotangents. */
ADJ_FN void adj_outputs(const ff_adj_cfg *c, const adj_io *io, const adj_mem *s, int prec, int to, int tid)
{
    for (int i = tid; i < c->rows * (c->n_vec + 1); i += c->threads) {
        int p = i % c->rows, k = i / c->rows;
        const uint32_t *raw = adj_buf(c, s, 1 - to) + p * c->stride;
        uint32_t *raw_bar = adj_buf(c, s, to) + p * c->stride;
        float scale = adj_row(c, s, FF_ADJ_SCALE)[p], minus = adj_row(c, s, FF_ADJ_MINUS)[p];
        float t = 0.0f, rhat_bar[3] = {0.0f, 0.0f, 0.0f}, basis_bar[3] = {0.0f, 0.0f, 0.0f}, apart_bar = 0.0f;
        float u[3] = {0.0f, 0.0f, 0.0f}, g = 0.0f, apart = 0.0f;
        if (k < c->n_vec) {
            const float *rec = adj_record(c, io, s, p);
            g = rec[c->off_g + k];
            apart = g * adj_unit(c, s, rec, k, p, u);
        }
        for (int f = 0; f < c->n_sf && k == c->n_vec; f++) {
            float y = adj_coefficient(c, prec, raw, c->sf_coef[f]),
                  o = adj_row(c, s, FF_ADJ_OUT + c->sf_comp[f])[p];
            t = fmaf(y, o, t);
            adj_coefficient_bar(c, prec, raw, raw_bar, c->sf_coef[f], y, scale * o);
        }
        for (int f = 0; f < c->n_vf; f++) {
            float o[3], along_bar = 0.0f, across_bar = 0.0f, along;
            for (int d = 0; d < 3; d++) {
                o[d] = d < c->dim ? adj_row(c, s, FF_ADJ_OUT + c->vf_comp[f] + d)[p] : 0.0f;
                along_bar = fmaf(o[d], adj_row(c, s, FF_ADJ_U + d)[p], along_bar);
                across_bar = fmaf(o[d], g * u[d], across_bar);
            }
            if (k == c->n_vec) {
                along = adj_coefficient(c, prec, raw, c->vf_coef[f]);
                adj_coefficient_bar(c, prec, raw, raw_bar, c->vf_coef[f], along, scale * along_bar);
            } else {
                int at = c->vf_coef[f] + 1 + 2 * k;
                float y1 = adj_coefficient(c, prec, raw, at), y2 = adj_coefficient(c, prec, raw, at + 1);
                float across = fmaf(minus, y2, y1);
                along = apart * y2;
                adj_coefficient_bar(c, prec, raw, raw_bar, at, y1, scale * across_bar);
                adj_coefficient_bar(c, prec, raw, raw_bar, at + 1, y2,
                                    scale * fmaf(apart, along_bar, minus * across_bar));
                t = fmaf(across, across_bar, t);
                apart_bar = fmaf(scale * y2, along_bar, apart_bar);
                for (int d = 0; d < 3; d++) basis_bar[d] = fmaf(across * scale, o[d], basis_bar[d]);
            }
            t = fmaf(along, along_bar, t);
            for (int d = 0; d < 3; d++) rhat_bar[d] = fmaf(along * scale, o[d], rhat_bar[d]);
        }
        float *part = adj_row(c, s, FF_ADJ_OUT + c->n_comp + FF_ADJ_PART * k) + p;
        part[0] = t;
        for (int d = 0; d < 3; d++) {
            part[(1 + d) * c->rows] = rhat_bar[d];
            part[(4 + d) * c->rows] = basis_bar[d];
        }
        part[7 * c->rows] = apart_bar;
    }
}

/* One layer backward from the cotangents of its outputs in buffer `from`. l > 0: cotangents of the pre-activations before
 * it, in the other buffer and in the chunk, and after the first layer a group's sums of them. l = 0: float32 rows of the
 * features' cotangents. */
ADJ_FN void adj_backward(const ff_adj_cfg *c, const adj_io *io, const adj_mem *s, const int prec,
                         const int mt, int l, int from, int warp)
{
    adj_acc acc[ADJ_LANES];
    int row0 = warp / c->wc * 16 * mt, tiles = c->layer[l].tiles_t, steps = c->layer[l].steps_t;
    int per = adj_columns(c, tiles);
    const uint32_t *a = adj_buf(c, s, from) + row0 * c->stride, *w = io->image + c->layer[l].at_t;
    for (int t = warp % c->wc * per; t < tiles; t += c->wc * per) {
        int n = tiles - t < per ? tiles - t : per;
        for (int e = 0; e < ADJ_LANES; e++) {
            ADJ_UNROLL for (int i = 0; i < mt; i++) ADJ_UNROLL for (int j = 0; j < FF_ADJ_COLS; j++)
                ADJ_UNROLL for (int k = 0; k < 4; k++) acc[e][i][j][k] = 0.0f;
        }
        adj_product(prec, mt, acc, a, c->stride, w + (int64_t)t * steps * 64, steps, n);
        ADJ_UNROLL for (int i = 0; i < mt; i++)
        {
            ADJ_UNROLL for (int j = 0; j < FF_ADJ_COLS; j++)
            {
                float sum[2][ADJ_LANES];
                int group = row0 / 16 + i;
                if (j >= n) continue;
                ADJ_EACH_LANE(lane, e)
                {
                    int g = lane / 4, col = 8 * (t + j) + 2 * (lane % 4);
                    float v[2][2] = {{0.0f, 0.0f}, {0.0f, 0.0f}};
                    if (l > 0) {
                        adj_chunk_get(c, io, s, prec, group, g, c->layer[l - 1].diff + col, v);
                    }
                    ADJ_UNROLL for (int h = 0; h < 2; h++)
                    {
                        uint32_t *to = adj_buf(c, s, 1 - from) + (row0 + 16 * i + g + 8 * h) * c->stride;
                        if (l == 0) {
                            to[col] = adj_bits(acc[e][i][j][2 * h]);
                            to[col + 1] = adj_bits(acc[e][i][j][2 * h + 1]);
                            continue;
                        }
                        ADJ_UNROLL for (int k = 0; k < 2; k++) v[h][k] *= acc[e][i][j][2 * h + k];
                        adj_put2(prec, to, col, v[h][0], v[h][1]);
                    }
                    if (l > 0) {
                        adj_chunk_put(c, io, s, prec, group, g, c->layer[l - 1].z + col, v);
                        sum[0][e] = v[0][0] + v[1][0];
                        sum[1][e] = v[0][1] + v[1][1];
                    }
                }
                if (l != 1) continue;
                adj_sum_rows(sum[0]);
                adj_sum_rows(sum[1]);
                ADJ_EACH_LANE(lane, e)
                {
                    float *to =
                        io->group_rows + (s->first + group) * c->row_len + 8 * (t + j) + 2 * (lane % 4);
                    if (lane < 4 && group < s->live) {
                        to[0] = sum[0][e];
                        to[1] = sum[1][e];
                    }
                }
            }
        }
    }
}

/* Work item (pair, vector k; r last): from cotangents of the features (buffer `from`) to those of the record's vector k,
 * and parts of those of r^ and m(r). */
ADJ_FN void adj_features_back(const ff_adj_cfg *c, const adj_io *io, const adj_mem *s, int from, int tid)
{
    for (int i = tid; i < c->rows * (c->n_vec + 1); i += c->threads) {
        int p = i % c->rows, k = i / c->rows;
        const uint32_t *x_bar = adj_buf(c, s, from) + p * c->stride;
        float *part = adj_row(c, s, FF_ADJ_OUT + c->n_comp + FF_ADJ_PART * k) + p;
        float m = adj_row(c, s, FF_ADJ_M)[p], ds, u[3];
        if (k == c->n_vec) {
            (void)adj_smooth(m, &ds);
            part[9 * c->rows] = ds * adj_float(x_bar[0]);
            continue;
        }
        const float *rec = adj_record(c, io, s, p);
        float cosine = adj_unit(c, s, rec, k, p, u), mk = rec[c->off_m + k], g = rec[c->off_g + k];
        float sm = adj_smooth(mk * m, &ds), p0 = 1.0f, p1 = cosine, d0 = 0.0f, d1 = 1.0f, s_bar = 0.0f,
              c_bar = 0.0f;
        for (int n = 1; n <= c->n_harm; n++) { /* P'_n = a_n (P_(n-1) + c P'_(n-1)) + b_n P'_(n-2) */
            float f_bar = adj_float(x_bar[k * c->n_harm + n]);
            s_bar = fmaf(f_bar, p1, s_bar);
            c_bar = fmaf(f_bar, d1, c_bar);
            if (n == c->n_harm) break;
            float la = c->leg_a[n + 1], lb = c->leg_b[n + 1];
            float d2 = la * fmaf(cosine, d1, p1) + lb * d0, p2 = la * cosine * p1 + lb * p0;
            d0 = d1;
            d1 = d2;
            p0 = p1;
            p1 = p2;
        }
        float mm_bar = c->n_harm > 0 ? ds * s_bar : 0.0f, apart_bar = part[7 * c->rows];
        c_bar = fmaf(apart_bar, g, c_bar * sm);
        float g_bar = apart_bar * cosine, unit_bar[3];
        for (int d = 0; d < 3; d++) {
            float basis_bar = part[(4 + d) * c->rows], r = adj_row(c, s, FF_ADJ_U + d)[p];
            g_bar = fmaf(basis_bar, u[d], g_bar);
            unit_bar[d] = fmaf(basis_bar, g, c_bar * r);
            part[(1 + d) * c->rows] += c_bar * u[d];
        }
        part[4 * c->rows] = mm_bar * m;
        part[5 * c->rows] = g_bar;
        for (int d = 0; d < 3; d++) part[(6 + d) * c->rows] = unit_bar[d];
        part[9 * c->rows] = mm_bar * mk;
    }
}

/* Pair by pair: from cotangents of r^, m(r) and the scale to those of strength, x_t - x_s and length. */
ADJ_FN void adj_distance(const ff_adj_cfg *c, const adj_io *io, const adj_mem *s, int tid)
{
    for (int p = tid; p < c->rows; p += c->threads) {
        float scale_bar = 0.0f, m_bar = 0.0f, u_bar[3] = {0.0f, 0.0f, 0.0f}, r[3], u[3], q = c->eps2;
        for (int k = 0; k <= c->n_vec; k++) {
            const float *part = adj_row(c, s, FF_ADJ_OUT + c->n_comp + FF_ADJ_PART * k) + p;
            scale_bar += part[0];
            m_bar += part[9 * c->rows];
            for (int d = 0; d < 3; d++) u_bar[d] += part[(1 + d) * c->rows];
        }
        for (int d = 0; d < 3; d++) {
            r[d] = adj_row(c, s, FF_ADJ_R + d)[p];
            u[d] = adj_row(c, s, FF_ADJ_U + d)[p];
            q = fmaf(r[d], r[d], q);
        }
        float e = -expm1f(-q), one = 1.0f + q, low = c->dim == 2 ? sqrtf(one) : one, env = e / low;
        float m = adj_row(c, s, FF_ADJ_M)[p], sum = scale_bar * adj_row(c, s, FF_ADJ_STR)[p],
              length_bar = 0.0f;
        float q_bar = 2.0f * sum * ((1.0f - e) / low - (c->dim == 2 ? 0.5f : 1.0f) * env / one);
        bool real = s->target[p] >= 0;
        for (int d = 0; d < 3; d++) {
            u_bar[d] /= m;
            m_bar = fmaf(-u_bar[d], u[d], m_bar);
        }
        for (int d = 0; d < 3; d++) {
            float x_bar = fmaf(q_bar, r[d], fmaf(m_bar, u[d], u_bar[d])) / c->length;
            length_bar = fmaf(-x_bar, r[d], length_bar);
            adj_row(c, s, FF_ADJ_END + 1 + d)[p] = real ? x_bar : 0.0f;
            if (real && io->target_words != NULL && d < c->dim)
                adj_exact_add(io->target_words + 2 * ((int64_t)s->target[p] * c->dim + d), x_bar, io->bad);
        }
        adj_row(c, s, FF_ADJ_END)[p] = real ? scale_bar * env : 0.0f;
        adj_row(c, s, FF_ADJ_END + 4)[p] = real ? length_bar : 0.0f;
    }
}

/* Work item (group, column): sums over the group's pairs in order. */
ADJ_FN void adj_group_sums(const ff_adj_cfg *c, const adj_io *io, const adj_mem *s, int tid)
{
    int n = 5 * c->n_vec + 5;
    for (int i = tid; i < s->live * n; i += c->threads) {
        int group = i / n, k = i % n;
        int row = k < 5 * c->n_vec ? FF_ADJ_OUT + c->n_comp + FF_ADJ_PART * (k / 5) + 4 + k % 5
                                   : FF_ADJ_END + k - 5 * c->n_vec;
        const float *v = adj_row(c, s, row) + group * FF_ADJ_GROUP;
        float sum = 0.0f;
        for (int p = 0; p < FF_ADJ_GROUP; p++) sum += v[p];
        io->group_rows[(s->first + group) * c->row_len + c->off_m + k] = sum;
    }
}

/* ---- a tile ---- */

/* Tile number `tile` of the chunk. prec and mt: constants on the device. */
ADJ_FN void adj_tile(const ff_adj_cfg *c, const adj_io *io, char *shared, int64_t tile, const int prec,
                     const int mt)
{
    adj_mem s;
    int groups = c->rows / FF_ADJ_GROUP, cur = 0, top = c->n_hidden;
    int64_t left = io->group_end - io->group_begin - tile * groups;
    s.buf = (uint32_t *)shared;
    s.row = (float *)(shared + c->o_row);
    s.target = (int32_t *)(shared + c->o_id);
    s.slot = s.target + c->rows;
    s.first = tile * groups;
    s.live = left < groups ? (int)left : groups;
    ADJ_EACH_THREAD(c->threads, tid)
    {
        adj_geometry(c, io, &s, tid);
        adj_outputs_in(c, io, &s, tid);
    }
    ADJ_BARRIER();
    ADJ_EACH_THREAD(c->threads, tid) adj_features(c, io, &s, prec, tid);
    ADJ_BARRIER();
    ADJ_EACH_THREAD(c->threads, tid)
    adj_copy_out(c, io, &s, prec, adj_buf(c, &s, 0), 8 * c->layer[0].tiles_t, c->layer[0].x, tid);
    for (int l = 0; l <= top; l++, cur = 1 - cur) {
        ADJ_EACH_WARP(c->threads, warp) adj_forward(c, io, &s, prec, mt, l, cur, warp);
        if (l < top) ADJ_EACH_THREAD(c->threads, tid)
        adj_zero_columns(c, prec, adj_buf(c, &s, 1 - cur), 8 * c->layer[l].tiles,
                         8 * c->kpw * c->layer[l + 1].steps, tid);
        ADJ_BARRIER();
    }
    ADJ_EACH_THREAD(c->threads, tid) /* the network's outputs are in buffer cur, the other one is free */
    {
        adj_outputs(c, io, &s, prec, 1 - cur, tid);
        adj_zero_columns(c, prec, adj_buf(c, &s, 1 - cur), c->layer[top].n_out,
                         8 * c->kpw * c->layer[top].steps_t, tid);
    }
    cur = 1 - cur;
    ADJ_BARRIER();
    ADJ_EACH_THREAD(c->threads, tid)
    adj_copy_out(c, io, &s, prec, adj_buf(c, &s, cur), 8 * c->layer[top].tiles, c->layer[top].z, tid);
    for (int l = top; l >= 0; l--, cur = 1 - cur) {
        ADJ_EACH_WARP(c->threads, warp) adj_backward(c, io, &s, prec, mt, l, cur, warp);
        if (l > 0) ADJ_EACH_THREAD(c->threads, tid)
        adj_zero_columns(c, prec, adj_buf(c, &s, 1 - cur), 8 * c->layer[l].tiles_t,
                         8 * c->kpw * c->layer[l - 1].steps_t, tid);
        ADJ_BARRIER();
    }
    ADJ_EACH_THREAD(c->threads, tid) adj_features_back(c, io, &s, cur, tid);
    ADJ_BARRIER();
    ADJ_EACH_THREAD(c->threads, tid) adj_distance(c, io, &s, tid);
    ADJ_BARRIER();
    ADJ_EACH_THREAD(c->threads, tid) adj_group_sums(c, io, &s, tid);
}

/* ---- weight gradients ---- */

/* A square of one layer's weight gradient: outputs from m0, inputs from n0. Those of n0 = 0 also sum the bias's. */
typedef struct adj_square {
    int layer, m0, n0;
} adj_square;

ADJ_FN adj_square adj_square_of(const ff_adj_cfg *c, int k)
{
    adj_square q = {0, 0, 0};
    while (k >= c->layer[q.layer].squares) k -= c->layer[q.layer++].squares;
    q.m0 = k / c->layer[q.layer].across * c->side;
    q.n0 = k % c->layer[q.layer].across * c->side;
    return q;
}

ADJ_FN void adj_fill16(uint32_t *to)
{
    to[0] = to[1] = to[2] = to[3] = 0;
}

/* Rows row0 .. of the chunk up to `end` into a slab: cotangents of outputs a, inputs b, [ADJ_SLAB][ADJ_PITCH] each. */
ADJ_FN void adj_stage(const ff_adj_cfg *c, const uint32_t *chunk, adj_square q, const int side, int64_t row0,
                      int64_t end, uint32_t *a, uint32_t *b, int tid)
{
    int m = 8 * c->layer[q.layer].tiles, n = 8 * c->layer[q.layer].tiles_t;
    for (int i = tid; i < ADJ_SLAB * side / 4; i += ADJ_GRAD_THREADS(side)) {
        int row = i / (side / 4), col = i % (side / 4) * 4, at = row * ADJ_PITCH(side) + col;
        const uint32_t *from = chunk + (row0 + row) * c->row_words;
        bool there = row0 + row < end;
        if (there && q.m0 + col < m)
            adj_copy16(a + at, from + c->layer[q.layer].z + q.m0 + col);
        else
            adj_fill16(a + at);
        if (there && q.n0 + col < n)
            adj_copy16(b + at, from + c->layer[q.layer].x + q.n0 + col);
        else
            adj_fill16(b + at);
    }
}

/* First output and input of a warp in its square. */
ADJ_FN int adj_warp_m(const int side, int warp)
{
    return warp / (side / 32) * (side / 2);
}
ADJ_FN int adj_warp_n(const int side, int warp)
{
    return warp % (side / 32) * 32;
}

/* acc [side / 32][4] of this warp's side / 2 outputs x 32 inputs += a^T b of a slab; behind them, where the warp holds
 * input 0, acc [side / 32 + i][0] += sums of a, the products with inputs of 1. */
ADJ_FN void adj_slab(const ff_adj_cfg *c, const int prec, const int side, adj_square q, adj_acc *acc,
                     const uint32_t *a, const uint32_t *b, int warp)
{
    const int mi = side / 32, pitch = ADJ_PITCH(side);
    int m = q.m0 + adj_warp_m(side, warp), n = q.n0 + adj_warp_n(side, warp);
    bool bias = n == 0 && q.layer > 0;
    if (m >= 8 * c->layer[q.layer].tiles || n >= 8 * c->layer[q.layer].tiles_t) return;
    a += adj_warp_m(side, warp);
    b += adj_warp_n(side, warp);
    ADJ_UNROLL for (int k = 0; k < ADJ_SLAB / 8; k++)
    {
        uint32_t fb[ADJ_LANES][FF_ADJ_COLS][2], ones[ADJ_LANES][FF_ADJ_COLS][2];
        ADJ_EACH_LANE(lane, e)
        {
            const uint32_t *at = b + (8 * k + lane % 4) * pitch + lane / 4;
            ADJ_UNROLL for (int j = 0; j < FF_ADJ_COLS; j++)
            {
                fb[e][j][0] = at[8 * j];
                fb[e][j][1] = at[8 * j + 4 * pitch];
            }
            ones[e][0][0] = ones[e][0][1] = prec == FF_ADJ_BF16 ? 0x3f803f80u : 0x3f800000u;
        }
        ADJ_UNROLL for (int i = 0; i < mi; i++)
        {
            uint32_t fa[ADJ_LANES][4];
            ADJ_EACH_LANE(lane, e)
            {
                const uint32_t *at = a + (8 * k + lane % 4) * pitch + 16 * i + lane / 4;
                fa[e][0] = at[0];
                fa[e][1] = at[8];
                fa[e][2] = at[4 * pitch];
                fa[e][3] = at[4 * pitch + 8];
            }
            ADJ_UNROLL for (int j = 0; j < FF_ADJ_COLS; j++) adj_mma(prec, acc, i, j, fa, fb);
            if (bias) adj_mma(prec, acc, mi + i, 0, fa, ones);
        }
    }
}

/* A block's sums, rounded once, to the packed gradient. */
ADJ_FN void adj_square_add(const ff_adj_cfg *c, int64_t *grad, int *bad, const int side, adj_square q,
                           adj_acc *acc, int warp)
{
    const int mi = side / 32;
    int n_in = c->layer[q.layer].n_in, n_out = c->layer[q.layer].n_out, len = (n_in + 15) / 16 * 16;
    int m = q.m0 + adj_warp_m(side, warp), n = q.n0 + adj_warp_n(side, warp);
    ADJ_EACH_LANE(lane, e)
    {
        ADJ_UNROLL for (int i = 0; i < mi; i++) ADJ_UNROLL for (int k = 0; k < 4; k++)
        {
            int out = m + 16 * i + lane / 4 + 8 * (k / 2);
            if (out >= n_out) continue;
            ADJ_UNROLL for (int j = 0; j < FF_ADJ_COLS; j++)
            {
                int in = n + 8 * j + 2 * (lane % 4) + k % 2;
                float v = acc[e][i][j][k];
                if (in < n_in && v != 0.0f)
                    adj_exact_add(grad + 2 * (c->layer[q.layer].at_w + (int64_t)out * len + in), v, bad);
            }
            if (n == 0 && q.layer > 0 && lane % 4 == 0 && k % 2 == 0)
                adj_exact_add(grad + 2 * (c->layer[q.layer].at_b + out), acc[e][mi + i][0][k], bad);
        }
    }
}

/* Rows of slots, in two steps: over the groups of a slot in one list block, then over its blocks, each in order and in
 * double. Some sources have thousands of groups; a chain of so many sums is what a chunk would wait for. Chunks hold whole
 * list blocks, so that no row depends on them.
 *
 * Groups begin .. end - 1 of a list block: rows of slots that have no others; sums of those that have go to edge [2][row_len],
 * of the slot that began before and of the one that goes on. */
ADJ_FN void adj_block_rows(const ff_adj_cfg *c, const adj_io *io, const int64_t *group_off, int64_t begin,
                           int64_t end, int col, double *edge, double *rows)
{
    for (int64_t g = begin; g < end;) {
        int64_t slot = io->group_slot[g], first = group_off[slot], last = group_off[slot + 1],
                to = last < end ? last : end;
        double sum = 0.0;
        for (; g < to; g++) sum += (double)io->group_rows[(g - io->group_begin) * c->row_len + col];
        if (first >= begin && last <= end)
            rows[slot * c->row_len + col] = sum;
        else
            edge[(first < begin ? 0 : c->row_len) + col] = sum;
    }
}

/* Slots that list block b of the chunk's n_block shares with the blocks behind it, or, for the first one, with those of
 * chunks before: edge [n_block][2][row_len] of all of them. block_off: of the chunk's blocks. */
ADJ_FN void adj_edge_rows(const ff_adj_cfg *c, const adj_io *io, const int64_t *group_off,
                          const int64_t *block_off, int n_block, int b, int col, const double *edge,
                          double *rows)
{
    int64_t begin = block_off[b], end = block_off[b + 1];
    for (int which = 0; which < 2; which++) {
        int64_t slot = io->group_slot[which == 0 ? begin : end - 1], first = group_off[slot],
                last = group_off[slot + 1], row = slot * c->row_len + col;
        bool here = which == 0 ? b == 0 && first < begin : first >= begin && last > end;
        if (!here) continue;
        double sum = rows[row] + edge[(int64_t)(2 * b + which) * c->row_len + col];
        for (int k = b + 1; k < n_block && last > block_off[k]; k++)
            sum += edge[(int64_t)(2 * k) * c->row_len + col];
        rows[row] = sum;
    }
}

#endif
