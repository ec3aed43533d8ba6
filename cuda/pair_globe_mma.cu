/* The general fused kernel: its plan for a network and a device, packing of weights, launch. */
#include "pair_globe_mma.cuh"

#include <string.h>

/* ---- plan ---- */

static int up(int n, int to)
{
    return (n + to - 1) / to * to;
}
static int most(int a, int b)
{
    return a > b ? a : b;
}

/* Sizes that follow from the network, the warps of a row group and the chunk length. */
static void plan_layers(const ff_net_dims *d, int eb, ff_mma_cfg *c)
{
    int k = 32 / eb * c->kc, at = 0, rows_max = 0, m_tiles = (d->n_coef + 7) / 8, width = 0;
    size_t image = 0;
    c->n_layer = d->n_hidden;
    for (int l = 0; l < d->n_hidden; l++) {
        int n_in = l == 0 ? d->n_feat : d->hidden[l - 1];
        c->rows[l] = c->wc * up((d->hidden[l] + c->wc - 1) / c->wc, c->wc % 2 ? 32 : 16);
        c->chunks[l] = up(n_in, k) / k;
        c->bias_at[l] = at;
        if (l > 0) at += c->rows[l];
        image += (size_t)c->chunks[l] * (size_t)c->rows[l];
        rows_max = most(rows_max, c->rows[l]);
        width = most(width, most(c->rows[l], c->chunks[l] * k));
    }
    c->passes = (m_tiles + 4 * c->wc - 1) / (4 * c->wc);
    c->tiles = (m_tiles + c->passes * c->wc - 1) / (c->passes * c->wc);
    c->rows[c->n_layer] = c->wc * c->tiles * 16;
    c->chunks[c->n_layer] = up(d->hidden[d->n_hidden - 1], k) / k;
    c->bias_at[c->n_layer] = at;
    c->n_bias = (size_t)(at + c->passes * c->rows[c->n_layer]);
    image += (size_t)(c->passes * c->chunks[c->n_layer]) * (size_t)c->rows[c->n_layer];
    c->image_bytes = image * (size_t)(32 * c->kc);
    c->n_slot = c->passes * c->wc * c->tiles * 8;
    c->n_kind = 2 + 2 * d->n_vec;
    c->kind_len = 3 * 16 * c->mt + 8;
    c->stage_bytes = most(rows_max, c->rows[c->n_layer]) * 32 * c->kc;
    c->act_stride = width * eb + 16;
}

/* Shared memory in bytes. */
static int plan_shared(ff_mma_cfg *c)
{
    int rows = c->wr * c->mt * 16;
    int64_t at = (int64_t)up(rows * c->act_stride, 128);
    c->o_weights = (int)at;
    at += (int64_t)c->stages * c->stage_bytes;
    c->o_basis = (int)at;
    at += (int64_t)c->wr * c->n_kind * c->kind_len * 4;
    c->o_sum = (int)at;
    at += (int64_t)c->wr * c->n_slot * 12;
    c->o_done = (int)at;
    at += (int64_t)c->wr * c->mt * c->n_slot * 12;
    at = (at + 15) / 16 * 16;
    c->o_geo = (int)at;
    at += 2 * (int64_t)up(ff_feed_bytes(rows), 16);
    c->o_border = (int)at;
    at += ff_border_bytes(c->wr);
    if (at > 1 << 20) at = 1 << 20;
    c->smem = (int)at;
    return c->smem;
}

/* Row groups and tiles of a warp, best first, for wc warps a row group. Narrow networks: small blocks, so that two or
 * more share a multiprocessor and one's products run beside the other's SiLU; wide ones: as many pairs a chunk of
 * weights as the registers hold, since every tile reads all weights from the L2 cache. */
static const struct {
    int mt, wr, feeders, blocks; /* blocks a multiprocessor there should be room for */
} tries[] = {
    {4, 2, 1, 1}, {4, 1, 1, 1}, {2, 4, 2, 2}, {2, 2, 1, 2}, {2, 1, 1, 2},
    {2, 2, 1, 1}, {2, 1, 1, 1}, {1, 2, 1, 1}, {1, 1, 1, 1},
};

static bool plan_try(const ff_net_dims *d, int eb, int limit, ff_mma_cfg *c)
{
    static const int depth[][2] = {{2, 3}, {2, 2}, {1, 3}, {1, 2}};
    for (size_t i = 0; i < sizeof depth / sizeof *depth; i++) {
        c->kc = depth[i][0];
        c->stages = depth[i][1];
        plan_layers(d, eb, c);
        if (plan_shared(c) <= limit) return true;
    }
    return false;
}

ff_status ff_mma_plan(const ff_net_dims *d, ff_cuda_precision precision, int shared, ff_mma_cfg *c)
{
    ff_status st = FF_OK;
    int device, block, sm, eb = precision == FF_CUDA_BF16 ? 2 : 4, widest = 0;
    FF_CU(cudaGetDevice(&device));
    FF_CU(cudaDeviceGetAttribute(&block, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
    FF_CU(cudaDeviceGetAttribute(&sm, cudaDevAttrMaxSharedMemoryPerMultiprocessor, device));
    if (shared > 0) {
        block = shared;
        sm = shared + 1024;
    }
    memset(c, 0, sizeof *c);
    for (int l = 0; l < d->n_hidden; l++) widest = most(widest, d->hidden[l]);
    if (widest > FF_MMA_MAX_WIDTH)
        return ff_fail(FF_E_UNSUPPORTED, "cuda: hidden layer of %d units, the fused kernels take up to %d",
                       widest, (int)FF_MMA_MAX_WIDTH);
    c->wc = (widest + FF_MMA_COLS - 1) / FF_MMA_COLS;
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        c->mt = tries[i].mt;
        c->wr = tries[i].wr;
        c->feeders = tries[i].feeders;
        if (c->wr * c->wc > FF_MMA_WARPS || (c->mt == 4 && (c->wc <= 2 || precision == FF_CUDA_F32)) ||
            (c->mt == 1 && precision == FF_CUDA_BF16))
            continue;
        if (plan_try(d, eb, tries[i].blocks > 1 ? sm / tries[i].blocks - 1024 : block, c)) return FF_OK;
    }
    st = ff_fail(
        FF_E_UNSUPPORTED,
        "cuda: a network of %d coefficients and %d vectors needs %d bytes of shared memory, this GPU has %d",
        d->n_coef, d->n_vec, c->smem, block);
done:
    return st;
}

double ff_mma_work(const ff_net_dims *d, const ff_mma_cfg *c)
{
    double n = 0.0;
    for (int l = 0; l <= d->n_hidden; l++)
        n += (double)c->rows[l] * (l < d->n_hidden ? 1 : c->passes) * (l == 0 ? d->n_feat : d->hidden[l - 1]);
    return n;
}

/* ---- packing ---- */

/* Weight (n, k) of a layer whose chunks begin at `at`. */
static void put(const ff_mma_cfg *c, ff_cuda_precision precision, char *at, int rows, int n, int k, float x)
{
    int eb = precision == FF_CUDA_BF16 ? 2 : 4, byte = k * eb, chunk = byte / (32 * c->kc);
    int in = byte % (32 * c->kc);
    at += (size_t)chunk * (size_t)(rows * 32 * c->kc) + ff_mma_at(c->kc, n, in / 16) + in % 16;
    if (precision == FF_CUDA_BF16) {
        uint16_t v = ff_to_bf16(x);
        memcpy(at, &v, sizeof v);
    } else {
        uint32_t v = ff_to_tf32(x);
        memcpy(at, precision == FF_CUDA_F32 ? (const void *)&x : (const void *)&v, sizeof v);
    }
}

static void pack_outputs(const ff_net_dims *d, const ff_mma_cfg *c, ff_cuda_precision precision,
                         const float *w, const float *b, char *image, float *bias)
{
    int n_in = d->hidden[d->n_hidden - 1], rows = c->rows[c->n_layer];
    size_t pass = (size_t)c->chunks[c->n_layer] * (size_t)(rows * 32 * c->kc);
    for (int slot = 0; slot < d->n_coef; slot++)
        for (int half = 0; half < (d->mlp ? 1 : 2); half++) {
            int row = slot / 8 * 16 + half * 8 + slot % 8, from = half * d->n_coef + slot;
            char *at = image + (size_t)(row / rows) * pass;
            for (int k = 0; k < n_in; k++)
                put(c, precision, at, rows, row % rows, k, w[(size_t)from * n_in + k]);
            bias[c->bias_at[c->n_layer] + row] = b[from];
        }
}

size_t ff_mma_tab_len(const ff_net_dims *d, const ff_mma_cfg *c)
{
    return (size_t)c->n_slot + 3 * (size_t)d->n_comp;
}

static void pack_tab(const ff_net_dims *d, const ff_mma_cfg *c, int32_t *tab)
{
    int slot = 0;
    for (int f = 0; f < d->n_field; f++) {
        int n = d->rank[f] ? 1 + 2 * d->n_vec : 1;
        int32_t *comp = tab + c->n_slot + 3 * d->comp[f];
        for (int k = 0; k < (d->rank[f] ? d->dim : 1); k++) {
            comp[3 * k] = slot;
            comp[3 * k + 1] = n;
            comp[3 * k + 2] = k;
        }
        for (int i = 0; i < n; i++) tab[slot++] = (d->rank[f] ? 1 + i : 0) * c->kind_len;
    }
}

void ff_mma_pack(const ff_net_dims *d, const ff_mma_cfg *c, ff_cuda_precision precision,
                 const float *const *w, const float *const *b, char *image, float *bias, int32_t *tab)
{
    float half = precision == FF_CUDA_F32 ? 1.0f : 0.5f;
    for (int l = 0; l < d->n_hidden; l++) {
        int n_in = l == 0 ? d->n_feat : d->hidden[l - 1];
        for (int n = 0; n < d->hidden[l]; n++) {
            for (int k = 0; k < n_in; k++)
                put(c, precision, image, c->rows[l], n, k, half * w[l][(size_t)n * n_in + k]);
            if (l > 0) bias[c->bias_at[l] + n] = half * b[l][n];
        }
        image += (size_t)c->chunks[l] * (size_t)(c->rows[l] * 32 * c->kc);
    }
    pack_outputs(d, c, precision, w[d->n_hidden], b[d->n_hidden], image, bias);
    pack_tab(d, c, tab);
}

/* ---- launch ---- */

template <int PREC, int MT>
static cudaError_t launch(const ff_net_dims *d, const ff_mma_cfg *c, const ff_pair_dev *p, const char *image,
                          const float *bias, const int32_t *tab, cudaStream_t stream)
{
    int sms, blocks, threads = 32 * (c->wr * c->wc + c->feeders);
    cudaError_t e = ff_cuda_processors(p->spare, &sms);
    if (e == cudaSuccess) e = ff_cuda_shared((const void *)pair_globe_mma<PREC, MT>, c->smem);
    if (e == cudaSuccess)
        e = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, pair_globe_mma<PREC, MT>, threads,
                                                          (size_t)c->smem);
    if (e != cudaSuccess) return e;
    if (blocks < 1) return cudaErrorInvalidConfiguration;
    pair_globe_mma<PREC, MT><<<(unsigned)(sms * blocks), (unsigned)threads, (size_t)c->smem, stream>>>(
        *d, *p, *c, image, bias, tab);
    return cudaGetLastError();
}

template <int PREC>
static cudaError_t launch_mt(const ff_net_dims *d, const ff_mma_cfg *c, const ff_pair_dev *p,
                             const char *image, const float *bias, const int32_t *tab, cudaStream_t stream)
{
    if constexpr (PREC != FF_CUDA_F32) /* three products' operands of 4 tiles do not fit the registers */
        if (c->mt == 4) return launch<PREC, 4>(d, c, p, image, bias, tab, stream);
    if constexpr (PREC != FF_CUDA_BF16) /* bf16 fits the smallest shared memory with 2 tiles */
        if (c->mt == 1) return launch<PREC, 1>(d, c, p, image, bias, tab, stream);
    return launch<PREC, 2>(d, c, p, image, bias, tab, stream);
}

cudaError_t ff_mma_launch(const ff_net_dims *d, const ff_mma_cfg *c, ff_cuda_precision precision,
                          const ff_pair_dev *p, const char *image, const float *bias, const int32_t *tab,
                          cudaStream_t stream)
{
    if (precision == FF_CUDA_BF16) return launch_mt<FF_CUDA_BF16>(d, c, p, image, bias, tab, stream);
    if (precision == FF_CUDA_TF32) return launch_mt<FF_CUDA_TF32>(d, c, p, image, bias, tab, stream);
    return launch_mt<FF_CUDA_F32>(d, c, p, image, bias, tab, stream);
}
