/* Sizes of the pair adjoint for one network, and its weights in the order of tensor-core operands. */
#include "ff_adj_cfg.h"

#include "ff_adj_source.h"
#include "ff_globe_layout.h"
#include "ff_globe_net.h"
#include "ff_round.h"

#include <string.h>

void ff_globe_adj_view_f32(const ff_globe_net_f32 *net, ff_adj_view *v)
{
    memset(v, 0, sizeof *v);
    v->s = net->s;
    v->n_vec = net->n_vec;
    v->n_coef = net->n_coef;
    v->n_comp = net->n_comp;
    v->off_m = net->off_m;
    v->off_g = net->off_g;
    v->off_unit = net->off_unit;
    v->rec_len = net->rec_len;
    v->length = net->length;
    v->eps2 = net->eps2;
    v->beta = net->beta;
    v->leg_a = net->leg_a;
    v->leg_b = net->leg_b;
    for (int l = 0; l <= net->s.n_hidden; l++) {
        v->layer[l].n_in = net->pair[l].n_in;
        v->layer[l].n_out = net->pair[l].n_out;
        v->layer[l].w = net->pair[l].w;
        v->layer[l].b = net->pair[l].b;
        v->layer[l].at_w = (int64_t)net->at_w[l];
        v->layer[l].at_b = (int64_t)net->at_b[l];
    }
    v->source.n_in = net->src.n_in;
    v->source.n_out = net->src.n_out;
    v->source.w = net->src.w;
    v->source.b = net->src.b;
    v->source.at_w = (int64_t)net->at_src_w;
    v->source.at_b = (int64_t)net->at_src_b;
    v->gvec = net->gvec;
    v->at_gvec = (int64_t)net->at_gvec;
    v->at_length = (int64_t)net->at_length;
    v->grad_len = (int64_t)net->grad_len;
}

int ff_adj_row_len(const ff_adj_view *v)
{
    return v->off_m + 5 * v->n_vec + 5;
}

void ff_adj_source_plan(const ff_adj_view *v, ff_adj_source *c)
{
    memset(c, 0, sizeof *c);
    c->dim = v->s.dim;
    c->n_scalar = v->s.n_sscalar;
    c->n_gvec = v->s.n_gvector;
    c->n_vec = v->n_vec;
    c->n_harm = v->s.n_harm;
    c->n_raw = ff_globe_n_source(&v->s);
    c->n_feat = v->source.n_in;
    c->n_out = v->source.n_out;
    c->off_m = v->off_m;
    c->off_g = v->off_g;
    c->off_unit = v->off_unit;
    c->rec_len = v->rec_len;
    c->row_len = ff_adj_row_len(v);
    c->pitch = ff_globe_round_up(c->n_feat, FF_GLOBE_ROW_PAD);
    c->eps2 = v->eps2;
    for (int n = 2; n <= v->s.n_harm; n++) {
        c->leg_a[n] = v->leg_a[n];
        c->leg_b[n] = v->leg_b[n];
    }
    for (int k = 0; k < c->n_gvec; k++)
        c->gvec_scale[k] = (float)ff_globe_gvec_scale((double)v->gvec[k * (2 + c->dim)]);
    c->at_w = v->source.at_w;
    c->at_b = v->source.at_b;
    c->at_gvec = v->at_gvec;
    c->at_length = v->at_length;
    c->grad_len = v->grad_len;
}

static int most(int a, int b)
{
    return a > b ? a : b;
}

static void plan_fields(const ff_adj_view *v, ff_adj_cfg *c)
{
    for (int f = 0, comp = 0, coef = 0; f < v->s.n_field; f++) {
        bool vector = v->s.field_rank[f] != 0;
        if (vector) {
            c->vf_comp[c->n_vf] = (int16_t)comp;
            c->vf_coef[c->n_vf++] = (int16_t)coef;
        } else {
            c->sf_comp[c->n_sf] = (int16_t)comp;
            c->sf_coef[c->n_sf++] = (int16_t)coef;
        }
        comp += vector ? v->s.dim : 1;
        coef += vector ? 1 + 2 * v->n_vec : 1;
    }
}

static int tiles_of(int n)
{
    return (n + 7) / 8;
}

/* Everything that does not depend on the tile's size. */
static void plan_layers(const ff_adj_view *v, ff_adj_cfg *c)
{
    int k = 8 * c->kpw, column = 0, stride = 0;
    int64_t image = 0, bias = 0;
    for (int l = 0; l <= v->s.n_hidden; l++) {
        int n_in = v->layer[l].n_in, n_out = v->layer[l].n_out;
        c->layer[l].n_in = n_in;
        c->layer[l].n_out = n_out;
        c->layer[l].tiles = tiles_of(n_out);
        c->layer[l].tiles_t = tiles_of(n_in);
        c->layer[l].steps = (n_in + k - 1) / k;
        c->layer[l].steps_t = (n_out + k - 1) / k;
        c->layer[l].at = (int)image;
        image += 64 * (int64_t)c->layer[l].tiles * c->layer[l].steps;
        c->layer[l].at_t = (int)image;
        image += 64 * (int64_t)c->layer[l].tiles_t * c->layer[l].steps_t;
        c->layer[l].at_bias = (int)bias;
        bias += 8 * (int64_t)c->layer[l].tiles;
        c->layer[l].x = column;
        c->layer[l].z = column + 8 * c->layer[l].tiles_t;
        c->layer[l].diff = c->layer[l].z + 8 * c->layer[l].tiles;
        column = c->layer[l].diff + (l < v->s.n_hidden ? 8 * c->layer[l].tiles : 0);
        c->layer[l].at_w = v->layer[l].at_w;
        c->layer[l].at_b = v->layer[l].at_b;
        stride = most(stride, 8 * most(c->layer[l].steps, c->layer[l].steps_t));
    }
    stride = most(stride, 8 * most(c->layer[v->s.n_hidden].tiles, c->layer[0].tiles_t)); /* rows of float32 */
    c->stride = stride + 4;
    c->row_words = column;
    c->image_words = image;
    c->n_bias = bias;
    c->n_rows = FF_ADJ_OUT + c->n_comp + FF_ADJ_PART * (c->n_vec + 1);
}

static int64_t plan_shared(ff_adj_cfg *c)
{
    int64_t at = 2 * (int64_t)c->rows * c->stride * 4;
    c->o_row = (int)at;
    at += (int64_t)c->n_rows * c->rows * 4;
    c->o_id = (int)at;
    at += (int64_t)c->rows * 4 + c->rows / FF_ADJ_GROUP * 4;
    return at;
}

/* Squares of c->side that cover the layers' weight gradients. */
static void plan_squares(ff_adj_cfg *c)
{
    c->squares = 0;
    for (int l = 0; l <= c->n_hidden; l++) {
        int n = 8 * c->layer[l].tiles_t, m = 8 * c->layer[l].tiles;
        c->layer[l].across = (n + c->side - 1) / c->side;
        c->layer[l].squares = (m + c->side - 1) / c->side * c->layer[l].across;
        c->squares += c->layer[l].squares;
    }
}

/* The most pairs a tile that fit, then the most warps: a tile reads all weights from the L2 cache once for each of its row
 * groups. Wide networks take 16 warps a multiprocessor, but in float32, whose split operands need the registers. */
static bool plan_tile(ff_adj_cfg *c, int limit)
{
    int widest = 0, warps;
    for (int l = 0; l < c->n_hidden; l++) widest = most(widest, c->layer[l].tiles);
    c->wc = widest <= 4 ? 1 : widest <= 8 ? 2 : widest <= 16 ? 4 : 8;
    c->side = widest <= 8 ? 64 : ADJ_SIDE_MAX;
    plan_squares(c);
    warps = c->wc == 8 && c->prec != FF_ADJ_F32 ? 16 : 8;
    for (int rows = 128; rows >= 16; rows /= 2)
        for (c->wr = warps / c->wc; c->wr >= 1; c->wr /= 2) {
            c->mt = rows / (16 * c->wr);
            c->rows = rows;
            c->threads = 32 * c->wr * c->wc;
            if (c->mt < 1 || c->mt > (c->prec == FF_ADJ_BF16 ? 8 : 4)) continue;
            int64_t bytes = plan_shared(c);
            if (bytes > limit) continue;
            c->smem = (int)bytes;
            return true;
        }
    return false;
}

ff_status ff_adj_plan(const ff_adj_view *v, int prec, int smem_max, ff_adj_cfg *c)
{
    memset(c, 0, sizeof *c);
    if (v->s.n_field > FF_ADJ_MAX_FIELDS)
        return ff_fail(FF_E_UNSUPPORTED, "pair adjoint: output fields = %d, at most %d", v->s.n_field,
                       (int)FF_ADJ_MAX_FIELDS);
    c->prec = prec;
    c->kpw = prec == FF_ADJ_BF16 ? 2 : 1;
    c->dim = v->s.dim;
    c->n_hidden = v->s.n_hidden;
    c->n_vec = v->n_vec;
    c->n_harm = v->s.n_harm;
    c->n_feat = 1 + v->n_vec * v->s.n_harm;
    c->n_comp = v->n_comp;
    c->mlp = v->s.mlp;
    c->off_m = v->off_m;
    c->off_g = v->off_g;
    c->off_unit = v->off_unit;
    c->rec_len = v->rec_len;
    c->row_len = ff_adj_row_len(v);
    c->length = v->length;
    c->inv_length = 1.0f / v->length;
    c->eps2 = v->eps2;
    c->beta = v->beta;
    c->grad_len = v->grad_len;
    for (int n = 2; n <= v->s.n_harm; n++) {
        c->leg_a[n] = v->leg_a[n];
        c->leg_b[n] = v->leg_b[n];
    }
    plan_fields(v, c);
    plan_layers(v, c);
    /* Narrow networks: two blocks a multiprocessor, so that one's products run beside the other's outputs. */
    if (c->layer[0].tiles <= 16 && plan_tile(c, smem_max / 2 - 1024)) return FF_OK;
    if (plan_tile(c, smem_max)) return FF_OK;
    return ff_fail(
        FF_E_UNSUPPORTED,
        "pair adjoint: a network of %d coefficients and %d vectors needs %lld bytes of shared memory, "
        "this GPU has %d; use --backend cpu",
        v->n_coef, v->n_vec, (long long)plan_shared(c), smem_max);
}

/* ---- packing ---- */

/* Entry (column n, index k) of the operand B at `to`. */
static void put(const ff_adj_cfg *c, uint32_t *to, int steps, int n, int k, float x)
{
    int word = k / c->kpw, step = word / 8, w = word % 8;
    to += (((size_t)(n / 8) * (size_t)steps + (size_t)step) * 32 + (size_t)(n % 8 * 4 + w % 4)) * 2 +
          (size_t)(w / 4);
    if (c->prec == FF_ADJ_BF16)
        *to |= (uint32_t)ff_to_bf16(x) << (16 * (k % 2));
    else
        *to = c->prec == FF_ADJ_TF32 ? ff_to_tf32(x) : ff_float_bits(x);
}

void ff_adj_pack(const ff_adj_view *v, const ff_adj_cfg *c, uint32_t *image, float *bias)
{
    for (int l = 0; l <= c->n_hidden; l++) {
        int n_in = v->layer[l].n_in, n_out = v->layer[l].n_out;
#pragma omp parallel for schedule(static, 16) /* two neighbours share a word */
        for (int o = 0; o < n_out; o++) {
            for (int k = 0; k < n_in; k++) {
                float w = v->layer[l].w[((size_t)(o / 8) * (size_t)n_in + (size_t)k) * 8 + (size_t)(o % 8)];
                put(c, image + c->layer[l].at, c->layer[l].steps, o, k, w);
                put(c, image + c->layer[l].at_t, c->layer[l].steps_t, k, o, w);
            }
            if (v->layer[l].b != NULL) bias[c->layer[l].at_bias + o] = v->layer[l].b[o];
        }
    }
}
