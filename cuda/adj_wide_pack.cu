/* Networks that the wide adjoint serves, and the packing of their weights on the device (ff_adj_wide.cuh). */
#include "ff_adj_wide.cuh"

#include "ff_round.cuh"

enum { PACK_THREADS = 128 };

typedef struct raw_weights {
    const float *w[4], *b[4]; /* as ff_adj_view, device */
} raw_weights;

static __device__ __forceinline__ float weight_at(const ff_adj_cfg &c, const raw_weights &r, int l, int out,
                                                  int in)
{
    if (out < 0 || out >= c.layer[l].n_out || in < 0 || in >= c.layer[l].n_in) return 0.0f;
    return r.w[l][((int64_t)(out / 8) * c.layer[l].n_in + in) * 8 + out % 8];
}

/* Weight of layer l between output column `out` and input column `in` of the kernels; halved: forward, hidden. */
static __device__ __forceinline__ float weight_of(const ff_adj_cfg &c, const raw_weights &r, int l, int out,
                                                  int in)
{
    const float ln2 = 0.69314718056f;
    if (l == 0) return ln2 * weight_at(c, r, 0, out, feature_of(c, in));
    if (l == 3) return weight_at(c, r, 3, output_of(c, out), in) / ln2;
    return weight_at(c, r, l, out, in);
}

/* A thread 8 values along k: (product) [half][step][2][columns][8]. */
static __global__ void adj_wide_pack(const __grid_constant__ ff_adj_cfg c,
                                     const __grid_constant__ raw_weights r, uint4 *image, float *bias)
{
    const int n_k[8] = {AW_KF, AW_H, AW_H, AW_H, AW_HALF, AW_H, AW_H, AW_H}, half = AW_HALF,
              n_col[8] = {AW_H, AW_H, AW_H, AW_HALF, AW_H, AW_H, AW_H, AW_KF};
    int i = (int)(blockIdx.x * PACK_THREADS + threadIdx.x), e = i, block = 0;
    if (i < AW_BIAS) {
        int l = i < AW_H ? 1 : i < 2 * AW_H ? 2 : 3, out = l < 3 ? i % AW_H : output_of(c, i - 2 * AW_H);
        float b = out >= 0 && out < c.layer[l].n_out ? r.b[l][out] : 0.0f;
        bias[i] = l < 3 ? 0.34657359f * b : b; /* z log2(e) -> z / 2 */
    }
    while (block < 8 && e >= n_k[block] * n_col[block] / 8) {
        e -= n_k[block] * n_col[block] / 8;
        block++;
    }
    if (block == 8) return;
    int l = block < 4 ? block : 7 - block, columns = n_col[block] < half ? n_col[block] : half,
        each = n_k[block] / 8 * columns;
    int col = e / each * half + e % columns, k0 = e % each / columns * 8;
    float v[8];
    for (int k = 0; k < 8; k++)
        v[k] = block < 4 ? (l < 3 ? 0.5f : 1.0f) * weight_of(c, r, l, col, k0 + k)
                         : weight_of(c, r, l, k0 + k, col);
    image[i] = make_uint4(to_bf16x2(v[0], v[1]), to_bf16x2(v[2], v[3]), to_bf16x2(v[4], v[5]),
                          to_bf16x2(v[6], v[7]));
}

bool adj_wide_serves(const ff_adj_view *v, int prec)
{
    int device, major = 0, minor = 0, n_vf = 0;
    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess ||
        cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) != cudaSuccess)
        return false;
    for (int f = 0; f < v->s.n_field; f++) n_vf += v->s.field_rank[f] != 0;
    if (major != 9 || minor != 0 || prec != FF_ADJ_BF16 || v->s.mlp || v->s.n_hidden != 3) return false;
    if (v->n_vec > AW_NV || v->s.n_harm < 1 || v->s.n_harm > 4) return false;
    if (n_vf > AW_VF || v->s.n_field - n_vf > AW_SF) return false;
    int least = AW_H;
    for (int l = 0; l < 3; l++) {
        if (v->layer[l].n_out > AW_H) return false;
        least = v->layer[l].n_out < least ? v->layer[l].n_out : least;
    }
    return least > AW_H / 2; /* narrower ones waste too much here */
}

void adj_wide_close(ff_cuda_impl *impl, adj_wide **w)
{
    if (*w == NULL) return;
    ff_cuda_free(impl->pool, (*w)->image);
    ff_cuda_free(impl->pool, (*w)->bias);
    ff_free(*w);
    *w = NULL;
}

ff_status adj_wide_open(ff_cuda_impl *impl, const ff_adj_view *v, const ff_adj_cfg *c, adj_wide **out)
{
    ff_status st = FF_OK;
    raw_weights r = {};
    adj_wide *w;
    *out = NULL;
    FF_TRY(FF_NEW_CUDA(w, 1));
    w->c = *c;
    FF_GO(ff_cuda_alloc(impl->pool, AW_IMAGE, &w->image));
    FF_GO(ff_cuda_alloc(impl->pool, AW_BIAS * sizeof(float), &w->bias));
    for (int l = 0; l < 4; l++) {
        size_t rows = ((size_t)v->layer[l].n_out + 7) / 8 * 8;
        FF_GO(
            ff_cuda_new(impl->pool, v->layer[l].w, rows * (size_t)v->layer[l].n_in * sizeof(float), &r.w[l]));
        if (l > 0) FF_GO(ff_cuda_new(impl->pool, v->layer[l].b, rows * sizeof(float), &r.b[l]));
    }
    adj_wide_pack<<<(AW_IMAGE / 16 + PACK_THREADS - 1) / PACK_THREADS, PACK_THREADS, 0, impl->stream>>>(
        w->c, r, (uint4 *)w->image, w->bias);
    FF_CU(cudaGetLastError());
    *out = w;
    w = NULL;
done:
    for (int l = 0; l < 4; l++) {
        ff_cuda_free(impl->pool, r.w[l]);
        ff_cuda_free(impl->pool, r.b[l]);
    }
    adj_wide_close(impl, &w);
    return st;
}
