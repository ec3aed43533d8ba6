/* Instances of the fused kernel, packing of their weights, and the choice among them. */
#include "pair_globe_fwd.cuh"

#include <string.h>

static uint16_t to_bf16(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    if ((u & 0x7fffffff) > 0x7f800000) return (uint16_t)(u >> 16 | 0x40); /* NaN stays NaN */
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

static uint32_t to_tf32(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return (u & 0x7f800000) == 0x7f800000 ? u : (u + 0x1000) & 0xffffe000u;
}

/* Element (n, k) of an operand block of n_cols columns and one k step. */
template <class C> static void put(char *block, int n_cols, int n, int k, float x)
{
    int per = 16 / C::EB;
    char *at = block + k / per * n_cols * 16 + n * 16 + k % per * C::EB;
    if (C::BF16) {
        uint16_t v = to_bf16(x);
        memcpy(at, &v, sizeof v);
    } else {
        uint32_t v = to_tf32(x);
        memcpy(at, &v, sizeof v);
    }
}

/* Column of the layer before that k index k of a step stands for: see silu_step(). */
template <class C> static int column_of(int k)
{
    return C::BF16 ? k : k % 8 < 4 ? k % 8 * 2 : k % 8 % 4 * 2 + 1;
}

template <class C>
static void pack(const ff_net_dims *d, const float *const *w, const float *const *b, char *image, float *bias)
{
    for (int n = 0; n < C::H; n++)
        for (int k = 0; k < C::FEAT; k++) {
            int block = n / C::P * (C::KF / C::KK) + k / C::KK;
            put<C>(image + block * C::P * 32, C::P, n % C::P, k % C::KK, 0.5f * w[0][n * C::FEAT + k]);
        }
    char *at = image + C::L1_BYTES;
    for (int l = 1; l < C::NL; l++, at += C::H * C::KS * 32)
        for (int n = 0; n < C::H; n++) {
            for (int k = 0; k < C::H; k++) {
                int step = k / C::KK, in = step * C::KK + column_of<C>(k % C::KK);
                put<C>(at + (n / C::P * C::KS + step) * C::P * 32, C::P, n % C::P, k % C::KK,
                       0.5f * w[l][n * C::H + in]);
            }
            bias[(l - 1) * C::H + n] = 0.5f * b[l][n];
        }
    for (int n = 0; n < C::NOUT; n++) {
        int c = ff_slot_coef<C>(d, n / 8, n % 8 / 2), half = n % 2;
        if (c < 0 || (d->mlp && half)) continue;
        int row = half ? d->n_coef + c : c, part = n / 64, cols = part < C::OF ? 64 : C::OLAST;
        for (int k = 0; k < C::H; k++) {
            int step = k / C::KK, in = step * C::KK + column_of<C>(k % C::KK);
            put<C>(at + (part * C::KS * 64 + step * cols) * 32, cols, n % 64, k % C::KK,
                   w[C::NL][row * C::H + in]);
        }
        bias[(C::NL - 1) * C::H + n] = b[C::NL][row];
    }
}

template <class C>
static cudaError_t launch(const ff_net_dims *d, const ff_pair_dev *p, const char *image, const float *bias,
                          cudaStream_t stream)
{
    void (*kernel)(const ff_net_dims, const ff_pair_dev, const char *, const float *) =
        d->mlp ? pair_globe_fwd<C, true> : pair_globe_fwd<C, false>;
    int device, sms;
    cudaError_t e = cudaGetDevice(&device);
    if (e == cudaSuccess) e = cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
    if (e == cudaSuccess)
        e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, C::SMEM);
    if (e != cudaSuccess) return e;
    kernel<<<sms, 512, C::SMEM, stream>>>(*d, *p, image, bias);
    return cudaGetLastError();
}

#define FF_ROW(...)                                                                                          \
    {                                                                                                        \
        ff_cfg<__VA_ARGS__>::PREC == FF_CUDA_BF16 ? FF_CUDA_BF16 : FF_CUDA_TF32, ff_cfg<__VA_ARGS__>::H,     \
            ff_cfg<__VA_ARGS__>::NL, ff_cfg<__VA_ARGS__>::NV, ff_cfg<__VA_ARGS__>::NH,                       \
            ff_cfg<__VA_ARGS__>::VF, ff_cfg<__VA_ARGS__>::SF, ff_cfg<__VA_ARGS__>::IMAGE,                    \
            ff_cfg<__VA_ARGS__>::NBIAS, ff_cfg<__VA_ARGS__>::H *ff_cfg<__VA_ARGS__>::EB,                     \
            pack<ff_cfg<__VA_ARGS__>>, launch<ff_cfg<__VA_ARGS__>>                                           \
    }

#ifndef FF_ACT
#define FF_ACT 0
#endif

/* precision, width, layers, vectors, harmonics, vector fields, scalar fields, SiLU kind, ring stages (0: resident) */
static const ff_fused_row rows[] = {
    FF_ROW(FF_CUDA_BF16, 256, 3, 5, 4, 4, 10, FF_ACT, 5), /* wide: communication layers */
#ifndef FF_FEW
    FF_ROW(FF_CUDA_BF16, 64, 3, 7, 4, 6, 14, FF_ACT, 0), /* default */
    FF_ROW(FF_CUDA_TF32, 64, 3, 7, 4, 6, 14, FF_ACT, 0),
#endif
};

const ff_fused_row *ff_fused_find(const ff_net_dims *d, ff_cuda_precision precision)
{
    int device, major, minor;
    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess ||
        cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) != cudaSuccess)
        return NULL;
    if (major != 9 || minor != 0) return NULL;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const ff_fused_row *r = &rows[i];
        if (r->precision != precision || r->n_hidden != d->n_hidden || r->n_vec != d->n_vec ||
            r->n_harm != d->n_harm || r->n_vfield != d->n_vfield || r->n_sfield != d->n_sfield)
            continue;
        int same = 1;
        for (int l = 0; l < d->n_hidden; l++) same = same && d->hidden[l] == r->width;
        if (same) return r;
    }
    return NULL;
}
