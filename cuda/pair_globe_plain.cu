/* pair_globe_plain: part[i, :] = sum over the pairs of piece i of strength * value, float32 throughout
 * Work    one block a piece (<= 128 pairs of one target), 16 pairs at a time; a thread an output of a layer
 * Launch  grid min(pieces, 64 k), block 128; shared 2 x 16 max(widths) floats -> 4 to 6 blocks an SM (shared limits)
 * Shapes  w: layers [n_in][n_out] then [n_out] f32 (bias of layer one is in h0); part [n_piece][n_comp] f32
 * Order   pairs in list order within the piece, one thread a component: no atomics
 * Bound   FFMA: 2 madds a pair at about half of the FP32 rate; any shape
 * Oracle  double on the host, tests/gpu/test_pair_globe.cu, relative error <= 5e-6 of the field's maximum
 * Care    pairs past the end of the piece are padding: their strength is 0 and they are not added */
#include "ff_cuda_net.cuh"
#include "ff_globe_math.cuh"

enum { P = FF_CUDA_GROUP, THREADS = 128 };

typedef struct ff_plain_tile {
    float u[P][3], m[P], w[P], dist2[P];
    int id[P];
} ff_plain_tile;

/* Source id of pair p of target t. */
static __device__ int plain_source(const ff_pair_dev &q, int t, int p)
{
    int s = q.seg_off[t], end = q.seg_off[t + 1];
    while (s + 1 < end && q.seg_cum[s + 1] <= p) s++;
    return q.src[q.seg_src[s] + p - q.seg_cum[s]];
}

static __device__ void plain_geometry(const ff_net_dims &d, const ff_pair_dev &q, int t, int p, bool real,
                                      ff_plain_tile &tile, int i)
{
    int id = plain_source(q, t, p);
    const double *xt = q.x_t + 4 * (int64_t)t, *xs = q.x_s + 4 * (int64_t)id;
    float r[3], r2 = 0.0f;
    for (int k = 0; k < 3; k++) {
        r[k] = (float)(xt[k] - xs[k]) * d.inv_length;
        r2 += r[k] * r[k];
    }
    float q2 = r2 + d.eps2, m = sqrtf(q2);
    for (int k = 0; k < 3; k++) tile.u[i][k] = m > 0.0f ? r[k] / m : 0.0f;
    float fall = d.dim == 3 ? 1.0f + q2 : sqrtf(1.0f + q2);
    tile.m[i] = m;
    tile.w[i] = real ? -expm1f(-q2) / fall * q.strength[id] : 0.0f;
    tile.dist2[i] = r2;
    tile.id[i] = id;
}

static __device__ void plain_features(const ff_net_dims &d, const float *rec, const ff_plain_tile &tile,
                                      int i, int k, float *act)
{
    if (k == d.n_vec) {
        act[(d.n_feat - 1) * P + i] = smooth_f32(tile.m[i]);
        return;
    }
    const float *v = rec + (int64_t)tile.id[i] * d.rec_len + 4 * k;
    float c = v[0] * tile.u[i][0] + v[1] * tile.u[i][1] + v[2] * tile.u[i][2];
    float s = smooth_f32(v[3] * tile.m[i]), p0 = 1.0f, p1 = c;
    for (int n = 1; n <= d.n_harm; n++) {
        act[(k * d.n_harm + n - 1) * P + i] = s * p1;
        float p2 = legendre_next(n, c, p1, p0);
        p0 = p1;
        p1 = p2;
    }
}

/* One layer for 16 pairs; h0 NULL: bias behind the weights. */
static __device__ void plain_layer(const float *w, const float *h0, const ff_plain_tile &tile, int n_in,
                                   int n_out, bool silu, const float *in, float *out)
{
    for (int o = (int)threadIdx.x; o < n_out; o += THREADS) {
        float acc[P];
        float b = w[(int64_t)n_in * n_out + o];
#pragma unroll
        for (int i = 0; i < P; i++) acc[i] = h0 != NULL ? h0[(int64_t)tile.id[i] * n_out + o] : b;
        for (int k = 0; k < n_in; k++) {
            float wk = w[(int64_t)k * n_out + o];
            const float4 *row = (const float4 *)(in + k * P);
#pragma unroll
            for (int i = 0; i < P / 4; i++) {
                float4 x = row[i];
                acc[4 * i] += wk * x.x;
                acc[4 * i + 1] += wk * x.y;
                acc[4 * i + 2] += wk * x.z;
                acc[4 * i + 3] += wk * x.w;
            }
        }
#pragma unroll
        for (int i = 0; i < P; i++) out[o * P + i] = silu ? acc[i] / (1.0f + expf(-acc[i])) : acc[i];
    }
}

/* Coefficient c of pair i after Pade or tanh. */
static __device__ float plain_coef(const ff_net_dims &d, const float *net, int c, int i)
{
    float a = net[c * P + i];
    if (d.mlp) return tanhf(a);
    float b = net[(d.n_coef + c) * P + i], a2 = a * a;
    return copysignf(a2, a) / (1.0f + b * b + d.beta * a2);
}

/* Value of field f of pair i, times strength and envelope. */
static __device__ void plain_field(const ff_net_dims &d, const float *rec, const ff_plain_tile &tile,
                                   const float *net, int f, int i, float *val)
{
    int c = 0;
    for (int k = 0; k < f; k++) c += d.rank[k] ? 1 + 2 * d.n_vec : 1;
    float *out = val + d.comp[f] * P + i, w = tile.w[i];
    if (!d.rank[f]) {
        *out = w * plain_coef(d, net, c, i);
        return;
    }
    const float *u = tile.u[i], *v = rec + (int64_t)tile.id[i] * d.rec_len;
    float y0 = plain_coef(d, net, c, i), sum[3];
    for (int k = 0; k < 3; k++) sum[k] = y0 * u[k];
    for (int k = 0; k < d.n_vec; k++) {
        const float *e = v + 4 * k;
        float g = v[4 * d.n_vec + k], dot = e[0] * u[0] + e[1] * u[1] + e[2] * u[2];
        float y1 = g * plain_coef(d, net, c + 1 + 2 * k, i);
        float y2 = tile.dist2[i] > 0.0f ? g * plain_coef(d, net, c + 2 + 2 * k, i) : 0.0f;
        for (int j = 0; j < 3; j++) sum[j] += (y1 - y2) * e[j] + y2 * dot * u[j];
    }
    for (int j = 0; j < d.dim; j++) out[j * P] = w * sum[j];
}

static __global__ void __launch_bounds__(THREADS)
    pair_globe_plain(ff_net_dims d, ff_pair_dev q, const float *weights, int rows)
{
    extern __shared__ float4 shared4[];
    float *act[2] = {(float *)shared4, (float *)shared4 + rows * P};
    __shared__ ff_plain_tile tile;
    const float *h0 = (const float *)q.h0;
    int tid = (int)threadIdx.x;
    for (int64_t piece = blockIdx.x; piece < q.n_piece; piece += gridDim.x) {
        int lo = 0, hi = q.n_t; /* last target whose pieces begin at or before this one */
        while (hi - lo > 1) {
            int mid = (lo + hi) / 2;
            if (q.piece_off[mid] <= piece)
                lo = mid;
            else
                hi = mid;
        }
        int begin = (int)(piece - q.piece_off[lo]) * FF_CUDA_PIECE;
        int end = min(begin + FF_CUDA_PIECE, q.n_pairs[lo]);
        float total[2] = {0.0f, 0.0f}; /* components tid, tid + THREADS */
        for (int p = begin; p < end; p += P) {
            int n = min(P, end - p);
            if (tid < P) plain_geometry(d, q, lo, min(p + tid, end - 1), tid < n, tile, tid);
            __syncthreads();
            for (int i = tid; i < P * (d.n_vec + 1); i += THREADS)
                plain_features(d, q.rec, tile, i % P, i / P, act[0]);
            __syncthreads();
            const float *w = weights;
            int n_in = d.n_feat, at = 0;
            for (int l = 0; l <= d.n_hidden; l++, at ^= 1) {
                int n_out = l < d.n_hidden ? d.hidden[l] : d.n_net_out;
                plain_layer(w, l == 0 ? h0 : NULL, tile, n_in, n_out, l < d.n_hidden, act[at], act[at ^ 1]);
                w += (int64_t)(n_in + 1) * n_out;
                n_in = n_out;
                __syncthreads();
            }
            for (int i = tid; i < P * d.n_field; i += THREADS)
                plain_field(d, q.rec, tile, act[at], i / P, i % P, act[at ^ 1]);
            __syncthreads();
            for (int k = 0; k < 2; k++)
                for (int i = 0; i < n && tid + k * THREADS < d.n_comp; i++)
                    total[k] += act[at ^ 1][(tid + k * THREADS) * P + i];
            __syncthreads();
        }
        for (int k = 0; k < 2; k++)
            if (tid + k * THREADS < d.n_comp) q.part[piece * d.n_comp + tid + k * THREADS] = total[k];
    }
}

cudaError_t ff_plain_launch(const ff_net_dims *d, const ff_pair_dev *p, const float *w, cudaStream_t stream)
{
    int rows = d->n_feat > d->n_net_out ? d->n_feat : d->n_net_out;
    for (int l = 0; l < d->n_hidden; l++)
        if (d->hidden[l] > rows) rows = d->hidden[l];
    if (d->n_comp > 2 * THREADS) return cudaErrorInvalidValue;
    size_t shared = 2 * (size_t)rows * P * sizeof(float);
    cudaError_t e = ff_cuda_shared((const void *)pair_globe_plain, (int)shared);
    if (e != cudaSuccess) return e;
    int64_t grid = p->n_piece < 65536 ? p->n_piece : 65536;
    if (grid == 0) return cudaSuccess;
    pair_globe_plain<<<(unsigned)grid, THREADS, shared, stream>>>(*d, *p, w, rows);
    return cudaGetLastError();
}
