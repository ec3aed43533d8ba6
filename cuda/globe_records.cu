/* globe_records: what a source contributes to every pair, once a layer
 *     record = (unit, m) and g of every vector;  h0 = scale (b + W_source features), in the order the kernel reads
 * Work    one block for SOURCES sources: features to shared memory, then a thread a hidden unit
 * Launch  grid ceil(n / 16), block 256; shared 16 (n_src_feat + rec_len) floats
 * Shapes  src [n][n_sscalar + dim n_svec] f32, w [n_src_feat][H] f32, rec [n][rec_len] f32, h0 [n][H] f32 or bf16
 * Order   features in column order, one sum a thread: bits do not depend on n
 * Bound   FP32 arithmetic, 2 n_src_feat H FLOP a source: below 1 ms for 164k sources of the wide model
 * Oracle  tests/gpu/test_pair_globe.cu (through the pair sums)
 * Care    permutation of h0: see ff_h0_place() */
#include "ff_cuda_net.cuh"
#include "ff_globe_math.cuh"

#include <cuda_bf16.h>

enum { SOURCES = 16, THREADS = 256 };

static __device__ void source_vectors(const ff_net_dims &d, const float *raw, const float *gvec, float *rec)
{
    for (int v = 0; v < d.n_vec; v++) {
        float u[3] = {0.0f, 0.0f, 0.0f}, m, g;
        if (v < d.n_gvec) {
            for (int k = 0; k < 3; k++) u[k] = gvec[8 * v + k];
            m = gvec[8 * v + 3];
            g = gvec[8 * v + 4];
        } else {
            const float *x = raw + d.n_sscalar + (v - d.n_gvec) * d.dim;
            float q = d.eps2;
            for (int k = 0; k < d.dim; k++) q += x[k] * x[k];
            m = sqrtf(q);
            for (int k = 0; k < d.dim; k++) u[k] = m > 0.0f ? x[k] / m : 0.0f;
            g = smooth_f32(m);
        }
        for (int k = 0; k < 3; k++) rec[4 * v + k] = u[k];
        rec[4 * v + 3] = m;
        rec[4 * d.rec_vec + v] = g;
    }
}

static __device__ void source_features(const ff_net_dims &d, const float *raw, const float *rec, float *f)
{
    for (int i = 0; i < d.n_sscalar; i++) *f++ = raw[i];
    for (int v = d.n_gvec; v < d.n_vec; v++) *f++ = rec[4 * d.rec_vec + v];
    for (int a = 0; a < d.n_vec; a++)
        for (int b = a + 1; b < d.n_vec; b++) {
            if (b < d.n_gvec) continue;
            const float *x = rec + 4 * a, *y = rec + 4 * b;
            float c = x[0] * y[0] + x[1] * y[1] + x[2] * y[2], s = smooth_f32(x[3] * y[3]);
            float p0 = 1.0f, p1 = c;
            for (int n = 1; n <= d.n_harm; n++) {
                *f++ = s * p1;
                float p2 = legendre_next(n, c, p1, p0);
                p0 = p1;
                p1 = p2;
            }
        }
}

/* Place of hidden unit c in a fused kernel's h0: every lane of a quad reads 16-byte units of its own columns. */
static __device__ int ff_h0_place(int c, int per_unit)
{
    int j = c / 8, q = c % 8 / 2, e = c & 1, tiles = per_unit / 2; /* column 8 j + 2 q + e */
    return ((j / tiles) * 4 + q) * per_unit + (j % tiles) * 2 + e;
}

static __global__ void __launch_bounds__(THREADS)
    globe_records(ff_net_dims d, int64_t n, const float *src, const float *w, const float *b,
                  const float *gvec, float scale, int kind, float *rec, void *h0)
{
    extern __shared__ float shared[];
    float *feat = shared, *vecs = shared + SOURCES * d.n_src_feat;
    int64_t first = (int64_t)blockIdx.x * SOURCES;
    int held = (int)(n - first < SOURCES ? n - first : SOURCES), raw_len = d.n_sscalar + d.dim * d.n_svec;
    if ((int)threadIdx.x < held) {
        const float *raw = src + (first + threadIdx.x) * raw_len;
        float *my = vecs + threadIdx.x * d.rec_len;
        for (int k = 0; k < d.rec_len; k++) my[k] = 0.0f; /* padding vectors: zero */
        source_vectors(d, raw, gvec, my);
        source_features(d, raw, my, feat + threadIdx.x * d.n_src_feat);
    }
    __syncthreads();
    for (int i = (int)threadIdx.x; i < held * d.rec_len; i += THREADS) {
        rec[first * d.rec_len + i] = vecs[i];
    }
    for (int o = (int)threadIdx.x; o < d.h0_len; o += THREADS) {
        bool real = o < d.hidden[0]; /* padding units: zero */
        float acc[SOURCES];
        for (int s = 0; s < SOURCES; s++) acc[s] = real ? b[o] : 0.0f;
        for (int f = 0; f < d.n_src_feat && real; f++) {
            float wf = w[(int64_t)f * d.hidden[0] + o];
#pragma unroll
            for (int s = 0; s < SOURCES; s++) acc[s] += wf * feat[s * d.n_src_feat + f];
        }
#pragma unroll
        for (int s = 0; s < SOURCES; s++) {
            if (s >= held) continue;
            int64_t row = (first + s) * d.h0_len;
            if (kind == 0)
                ((float *)h0)[row + o] = scale * acc[s];
            else if (kind == 1)
                ((float *)h0)[row + ff_h0_place(o, 4)] = scale * acc[s];
            else
                ((__nv_bfloat16 *)h0)[row + ff_h0_place(o, 8)] = __float2bfloat16_rn(scale * acc[s]);
        }
    }
}

static size_t h0_bytes(const ff_cuda_net *net)
{
    return net->fused != NULL ? net->fused->h0_bytes : (size_t)net->d.h0_len * sizeof(float);
}

size_t ff_cuda_record_bytes(const ff_cuda_net *net, int64_t n)
{
    return (size_t)n * ((size_t)net->d.rec_len * sizeof(float) + h0_bytes(net)) + 256;
}

ff_status ff_cuda_records(const ff_cuda_net *net, int64_t n, const float *d_src, void *d_rec, void *stream)
{
    ff_status st = FF_OK;
    const ff_net_dims *d = &net->d;
    float *rec = (float *)d_rec;
    size_t shared = SOURCES * (size_t)(d->n_src_feat + d->rec_len) * sizeof(float);
    int kind = net->fused == NULL ? 0 : h0_bytes(net) == (size_t)d->h0_len * 4 ? 1 : 2;
    if (n == 0) return FF_OK;
    FF_CU(cudaFuncSetAttribute(globe_records, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared));
    globe_records<<<(unsigned)((n + SOURCES - 1) / SOURCES), THREADS, shared, (cudaStream_t)stream>>>(
        *d, n, d_src, net->w_src, net->b_src, net->gvec, net->h0_scale, kind, rec,
        (char *)d_rec + ff_h0_offset(d, n));
    FF_CU(cudaGetLastError());
done:
    return st;
}
