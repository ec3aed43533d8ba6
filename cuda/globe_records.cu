/* globe_records: what a source contributes to every pair, once a layer
 *     record = (unit, m) and g of every vector;  h0 = scale (b + W_source features), in the order the kernel reads
 * Work    one block for S = 32 (8 where features are many) sources: vectors, then features a thread each, then a
 *         thread for a hidden unit of 8 sources; all branches of a boundary in one launch (their records are the same)
 * Launch  grid ceil(n / S), block 256; shared S (n_src_feat + rec_len) floats
 * Shapes  rows as in ff_rec_rows, w [n_src_feat][H] f32, rec [n][rec_len] f32, h0 [n][H] f32 or bf16, strength [n] f32
 * Order   features in column order, one sum a thread: bits do not depend on n
 * Bound   FP32 arithmetic and shared memory, 2 n_src_feat H FLOP a source and branch
 * Oracle  tests/gpu/test_pair_globe.cu (through the pair sums)
 * Care    permutation of h0: see ff_h0_place() */
#include "ff_cuda_net.cuh"
#include "ff_globe_math.cuh"

#include <cuda_bf16.h>

enum { THREADS = 256, OCTET = 8 };

/* Raw feature k of source i: latent scalars, physical scalars, latent vectors, normals and physical vectors. */
static __device__ float raw_value(const ff_rec_rows &r, int64_t i, int k)
{
    const float *stat = r.stat + i * r.n_stat, *dyn = r.dyn + i * r.n_dyn;
    if (k < r.n_ls) return dyn[k];
    k -= r.n_ls;
    if (k < r.n_scalar) return stat[k];
    k -= r.n_scalar;
    return k < r.n_lv ? dyn[r.n_ls + k] : stat[r.n_scalar + k - r.n_lv];
}

static __device__ void source_vector(const ff_net_dims &d, const ff_rec_rows &r, const float *gvec, int64_t i,
                                     int v, float *rec)
{
    float u[3] = {0.0f, 0.0f, 0.0f}, m, g;
    if (v < d.n_gvec) {
        for (int k = 0; k < 3; k++) u[k] = gvec[8 * v + k];
        m = gvec[8 * v + 3];
        g = gvec[8 * v + 4];
    } else {
        float q = d.eps2, x[3];
        for (int k = 0; k < d.dim; k++) {
            x[k] = raw_value(r, i, d.n_sscalar + (v - d.n_gvec) * d.dim + k);
            q += x[k] * x[k];
        }
        m = sqrtf(q);
        for (int k = 0; k < d.dim; k++) u[k] = m > 0.0f ? x[k] / m : 0.0f;
        g = smooth_f32(m);
    }
    for (int k = 0; k < 3; k++) rec[4 * v + k] = u[k];
    rec[4 * v + 3] = m;
    rec[4 * d.rec_vec + v] = g;
}

/* Harmonics of pair number k of vectors without r: a ascending, then b > a, b a source vector. f [n_harm] [stride] */
static __device__ void pair_harmonics(const ff_net_dims &d, const float *rec, int k, float *f, int stride)
{
    int a = 0, b, n = d.n_gvec > 0 ? d.n_svec : d.n_vec - 1; /* pairs of vector a */
    while (k >= n) {
        k -= n;
        a++;
        n = a < d.n_gvec ? d.n_svec : d.n_vec - 1 - a;
    }
    b = (a < d.n_gvec ? d.n_gvec : a + 1) + k;
    const float *x = rec + 4 * a, *y = rec + 4 * b;
    float c = x[0] * y[0] + x[1] * y[1] + x[2] * y[2], s = smooth_f32(x[3] * y[3]);
    float p0 = 1.0f, p1 = c;
    for (int i = 1; i <= d.n_harm; i++) {
        f[(i - 1) * stride] = s * p1;
        float p2 = legendre_next(i, c, p1, p0);
        p0 = p1;
        p1 = p2;
    }
}

/* Place of hidden unit c in a fused kernel's h0: every lane of a quad reads 16-byte units of its own columns. */
static __device__ int ff_h0_place(int c, int per_unit)
{
    int j = c / 8, q = c % 8 / 2, e = c & 1, tiles = per_unit / 2; /* column 8 j + 2 q + e */
    return ((j / tiles) * 4 + q) * per_unit + (j % tiles) * 2 + e;
}

typedef struct rec_net {
    const float *w, *b;
    void *h0;
    float *strength;
    int slot;
} rec_net;

typedef struct rec_nets {
    int n, kind;
    float scale;
    rec_net net[FF_REC_NETS];
} rec_nets;

/* One hidden unit of OCTET sources. */
template <int S>
static __device__ void hidden_unit(const ff_net_dims &d, const rec_nets &nets, const rec_net &net,
                                   const float *feat, int o, int s0, int held, int64_t first)
{
    bool real = o < d.hidden[0]; /* padding units: zero */
    float acc[OCTET];
    for (int s = 0; s < OCTET; s++) acc[s] = real ? net.b[o] : 0.0f;
    for (int f = 0; f < d.n_src_feat && real; f++) {
        float wf = net.w[(int64_t)f * d.hidden[0] + o];
        const float4 *row = (const float4 *)(feat + f * S + s0);
#pragma unroll
        for (int i = 0; i < OCTET / 4; i++) {
            float4 x = row[i];
            acc[4 * i] += wf * x.x;
            acc[4 * i + 1] += wf * x.y;
            acc[4 * i + 2] += wf * x.z;
            acc[4 * i + 3] += wf * x.w;
        }
    }
#pragma unroll
    for (int s = 0; s < OCTET; s++) {
        if (s0 + s >= held) continue;
        int64_t row = (first + s0 + s) * d.h0_len;
        if (nets.kind == 0)
            ((float *)net.h0)[row + o] = nets.scale * acc[s];
        else if (nets.kind == 1)
            ((float *)net.h0)[row + ff_h0_place(o, 4)] = nets.scale * acc[s];
        else
            ((__nv_bfloat16 *)net.h0)[row + ff_h0_place(o, 8)] = __float2bfloat16_rn(nets.scale * acc[s]);
    }
}

template <int S>
static __global__ void __launch_bounds__(THREADS)
    globe_records(const __grid_constant__ ff_net_dims d, const __grid_constant__ ff_rec_rows r,
                  const float *gvec, const __grid_constant__ rec_nets nets, float *rec)
{
    extern __shared__ float4 shared4[];
    float *feat = (float *)shared4, *vecs = feat + S * d.n_src_feat; /* [n_src_feat][S], [S][rec_len] */
    int64_t first = (int64_t)blockIdx.x * S;
    int held = (int)(r.n - first < S ? r.n - first : S), tid = (int)threadIdx.x;
    int n_pair = d.n_harm > 0 ? (d.n_src_feat - d.n_sscalar - d.n_svec) / d.n_harm : 0;
    for (int i = tid; i < S * d.rec_len; i += THREADS) vecs[i] = 0.0f; /* padding vectors: zero */
    __syncthreads();
    for (int i = tid; i < S * d.n_vec; i += THREADS)
        if (i % S < held) source_vector(d, r, gvec, first + i % S, i / S, vecs + i % S * d.rec_len);
    __syncthreads();
    for (int i = tid; i < held * d.rec_len; i += THREADS) rec[first * d.rec_len + i] = vecs[i];
    for (int i = tid; i < S * (d.n_sscalar + d.n_svec + n_pair); i += THREADS) {
        int s = i % S, k = i / S;
        const float *my = vecs + s * d.rec_len;
        if (k < d.n_sscalar)
            feat[k * S + s] = s < held ? raw_value(r, first + s, k) : 0.0f;
        else if (k < d.n_sscalar + d.n_svec)
            feat[k * S + s] = my[4 * d.rec_vec + d.n_gvec + k - d.n_sscalar];
        else {
            k -= d.n_sscalar + d.n_svec;
            pair_harmonics(d, my, k, feat + (d.n_sscalar + d.n_svec + k * d.n_harm) * S + s, S);
        }
    }
    for (int i = tid; i < held * nets.n; i += THREADS) {
        const rec_net &net = nets.net[i / held];
        int64_t row = first + i % held;
        if (net.strength != NULL) net.strength[row] = r.dyn[row * r.n_dyn + net.slot];
    }
    __syncthreads();
    for (int i = tid; i < d.h0_len * (S / OCTET) * nets.n; i += THREADS) {
        int o = i % d.h0_len, k = i / d.h0_len;
        hidden_unit<S>(d, nets, nets.net[k / (S / OCTET)], feat, o, k % (S / OCTET) * OCTET, held, first);
    }
}

size_t ff_h0_bytes(const ff_cuda_net *net)
{
    return net->fused != NULL ? net->fused->h0_bytes : (size_t)net->d.h0_len * sizeof(float);
}

size_t ff_cuda_record_bytes(const ff_cuda_net *net, int64_t n)
{
    return (size_t)n * ((size_t)net->d.rec_len * sizeof(float) + ff_h0_bytes(net)) + 256;
}

template <int S>
static cudaError_t launch_records(const ff_cuda_net *net, const ff_rec_rows *rows, const rec_nets *nets,
                                  float *rec, cudaStream_t s)
{
    size_t shared = S * (size_t)(net->d.n_src_feat + net->d.rec_len) * sizeof(float);
    cudaError_t e = ff_cuda_shared((const void *)globe_records<S>, (int)shared);
    if (e != cudaSuccess) return e;
    globe_records<S>
        <<<(unsigned)((rows->n + S - 1) / S), THREADS, shared, s>>>(net->d, *rows, net->gvec, *nets, rec);
    return cudaGetLastError();
}

ff_status ff_records_run(const ff_cuda_net *const *net, int n_net, const ff_rec_rows *rows, float *d_rec,
                         void *const *d_h0, float *const *d_strength, const int *slot, cudaStream_t s)
{
    ff_status st = FF_OK;
    const ff_net_dims *d = &net[0]->d;
    rec_nets nets;
    if (rows->n == 0) return FF_OK;
    for (int from = 0; from < n_net; from += FF_REC_NETS) {
        nets.n = n_net - from < FF_REC_NETS ? n_net - from : FF_REC_NETS;
        nets.kind = net[0]->fused == NULL ? 0 : ff_h0_bytes(net[0]) == (size_t)d->h0_len * 4 ? 1 : 2;
        nets.scale = net[0]->h0_scale;
        for (int k = 0; k < nets.n; k++) {
            nets.net[k].w = net[from + k]->w_src;
            nets.net[k].b = net[from + k]->b_src;
            nets.net[k].h0 = d_h0[from + k];
            nets.net[k].strength = d_strength != NULL ? d_strength[from + k] : NULL;
            nets.net[k].slot = slot != NULL ? slot[from + k] : 0;
        }
        if (32 * (size_t)(d->n_src_feat + d->rec_len) * sizeof(float) <= 96 * 1024)
            FF_CU(launch_records<32>(net[0], rows, &nets, d_rec, s));
        else
            FF_CU(launch_records<8>(net[0], rows, &nets, d_rec, s));
    }
done:
    return st;
}

ff_status ff_cuda_records(const ff_cuda_net *net, int64_t n, const float *d_src, void *d_rec, void *stream)
{
    int n_raw = net->d.n_sscalar + net->d.dim * net->d.n_svec;
    ff_rec_rows rows = {n, d_src, d_src, n_raw, n_raw, net->d.n_sscalar, 0, 0};
    void *h0 = (char *)d_rec + ff_h0_offset(&net->d, n);
    return ff_records_run(&net, 1, &rows, (float *)d_rec, &h0, NULL, NULL, (cudaStream_t)stream);
}
