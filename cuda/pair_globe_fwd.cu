/* Instances of the fused kernel, packing of their weights, and the choice among them. */
#include "pair_globe_fwd.cuh"

#include <string.h>

/* Element (n, k) of an operand block of n_cols columns and one k step. */
template <class C> static void put(char *block, int n_cols, int n, int k, float x)
{
    int per = 16 / C::EB;
    char *at = block + k / per * n_cols * 16 + n * 16 + k % per * C::EB;
    if (C::BF16) {
        uint16_t v = ff_to_bf16(x);
        memcpy(at, &v, sizeof v);
    } else {
        uint32_t v = ff_to_tf32(x);
        memcpy(at, &v, sizeof v);
    }
}

/* Column of the layer before that k index k of a step stands for: see silu_step(). */
template <class C> static int column_of(int k)
{
    return C::BF16 ? k : k % 8 < 4 ? k % 8 * 2 : k % 8 % 4 * 2 + 1;
}

/* Padding (units, vectors, fields that the network lacks) stays zero: SiLU(0) = 0 and Pade(0) = 0. */
template <class C>
static void pack(const ff_net_dims *d, const float *const *w, const float *const *b, char *image, float *bias)
{
    for (int n = 0; n < d->hidden[0]; n++)
        for (int f = 0; f < d->n_feat; f++) {
            int k = f == d->n_feat - 1 ? C::NV * C::NH : f / d->n_harm * C::NH + f % d->n_harm;
            int block = n / C::P * (C::KF / C::KK) + k / C::KK;
            put<C>(image + block * C::P * 32, C::P, n % C::P, k % C::KK, 0.5f * w[0][n * d->n_feat + f]);
        }
    char *at = image + C::L1_BYTES;
    for (int l = 1; l < C::NL; l++, at += C::H * C::KS * 32)
        for (int n = 0; n < d->hidden[l]; n++) {
            for (int k = 0; k < C::H; k++) {
                int step = k / C::KK, in = step * C::KK + column_of<C>(k % C::KK), n_in = d->hidden[l - 1];
                if (in >= n_in) continue;
                put<C>(at + (n / C::P * C::KS + step) * C::P * 32, C::P, n % C::P, k % C::KK,
                       0.5f * w[l][n * n_in + in]);
            }
            bias[(l - 1) * C::H + n] = 0.5f * b[l][n];
        }
    for (int n = 0; n < C::NOUT; n++) {
        int c = ff_slot_coef<C>(d, n / 8, n % 8 / 2), half = n % 2, n_in = d->hidden[C::NL - 1];
        if (c < 0 || (d->mlp && half)) continue;
        int row = half ? d->n_coef + c : c, part = n / C::PMAX, cols = part < C::OF ? C::PMAX : C::OLAST;
        for (int k = 0; k < C::H; k++) {
            int step = k / C::KK, in = step * C::KK + column_of<C>(k % C::KK);
            if (in >= n_in) continue;
            put<C>(at + (part * C::KS * C::PMAX + step * cols) * 32, cols, n % C::PMAX, k % C::KK,
                   w[C::NL][row * n_in + in]);
        }
        bias[(C::NL - 1) * C::H + n] = b[C::NL][row];
    }
}

template <class C, bool MLP>
static cudaError_t launch(const ff_net_dims *d, const ff_pair_dev *p, const char *image, const float *bias,
                          cudaStream_t stream)
{
    int sms;
    cudaError_t e = ff_cuda_processors(p->spare, &sms);
    if (e == cudaSuccess)
        e = cudaFuncSetAttribute(pair_globe_fwd<C, MLP>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 C::SMEM);
    if (e != cudaSuccess) return e;
    pair_globe_fwd<C, MLP><<<sms, 512, C::SMEM, stream>>>(*d, *p, image, bias);
    return cudaGetLastError();
}

template <class C, bool MLP> static constexpr ff_fused_row row_of(void)
{
    return {(ff_cuda_precision)C::PREC,
            MLP,
            C::H,
            C::NL,
            C::NV,
            C::NH,
            C::VF,
            C::SF,
            (size_t)C::IMAGE,
            C::NBIAS,
            (size_t)C::H * C::EB,
            pack<C>,
            launch<C, MLP>};
}

/* precision, width, layers, vectors, harmonics, vector fields, scalar fields, ring stages (0: resident) */
#define PADE(...) row_of<ff_cfg<__VA_ARGS__>, false>()
#define BOTH(...) row_of<ff_cfg<__VA_ARGS__>, false>(), row_of<ff_cfg<__VA_ARGS__>, true>()
#define NARROW(PREC)                                                                                         \
    PADE(PREC, 64, 3, 1, 4, 6, 14, 0), PADE(PREC, 64, 3, 7, 4, 6, 14, 0), /* default model's layers */       \
        PADE(PREC, 64, 3, 7, 4, 1, 1, 0), BOTH(PREC, 64, 1, 8, 4, 4, 12, 0),                                 \
        BOTH(PREC, 64, 2, 8, 4, 4, 12, 0), BOTH(PREC, 64, 3, 12, 4, 4, 12, 0)

static const ff_fused_row rows[] = {
    PADE(FF_CUDA_BF16, 256, 3, 5, 4, 4, 10, 4), /* wide model: communication layers, */
    PADE(FF_CUDA_BF16, 256, 3, 1, 4, 4, 10, 4), /* layer 0, */
    PADE(FF_CUDA_BF16, 256, 3, 5, 4, 1, 1, 4),  /* final layer */
    NARROW(FF_CUDA_BF16),
    NARROW(FF_CUDA_TF32),
};

/* Whether a row can serve the network, exactly or padded. */
static int serves(const ff_fused_row *r, const ff_net_dims *d, ff_cuda_precision precision)
{
    for (int l = 0; l < d->n_hidden; l++)
        if (d->hidden[l] > r->width) return 0;
    return r->precision == precision && r->mlp == d->mlp && r->n_hidden == d->n_hidden &&
           r->n_vec >= d->n_vec && r->n_harm >= d->n_harm && r->n_vfield >= d->n_vfield &&
           r->n_sfield >= d->n_sfield;
}

/* The row that does the least work. */
const ff_fused_row *ff_fused_find(const ff_net_dims *d, ff_cuda_precision precision)
{
    int device, major, minor;
    const ff_fused_row *best = NULL;
    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess ||
        cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) != cudaSuccess)
        return NULL;
    if (major != 9 || minor != 0) return NULL;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (serves(&rows[i], d, precision) && (best == NULL || rows[i].image_bytes < best->image_bytes))
            best = &rows[i];
    return best;
}

double ff_fused_work(const ff_fused_row *row)
{
    return (double)row->image_bytes / (row->precision == FF_CUDA_BF16 ? 2 : 4);
}
