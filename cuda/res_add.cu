/* res_add_up: total[point, :] += point row, leaf rows, then node rows from the root down, in double
 * Work    one warp a point; lanes hold the path to the root, then components
 * Launch  grid ceil(points / 8), block 256
 * Shapes  rows [n_t][n_comp] f32 of one source's lists, total [points][n_comp] f64
 * Order   point, leaf entries ascending, node entries from the root down: fixed
 * Bound   L2: about 17 rows a point on 80,000 faces
 * Oracle  ff_pair_lists_add; verify
 * Care    a path has at most 32 nodes: trees of below 2^31 points split in the middle
 *
 * And what follows a layer: outputs, compression, next source values, calibration. */
#include "ff_resident.cuh"

enum { BLOCK = 256, WARPS = BLOCK / 32 };

static unsigned blocks(int64_t n, int per)
{
    return (unsigned)((n + per - 1) / per);
}

/* First leaf entry whose points may reach point i or later. */
static __device__ int64_t first_leaf(const ff_cuda_part &p, int64_t i, int leaf_max)
{
    int64_t lo = 0, hi = p.n_leaf;
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;
        if (p.d_leaf_from[mid] + leaf_max <= i)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static __global__ void __launch_bounds__(BLOCK)
    res_add_up(const ff_cuda_part p, int leaf_max, int n_comp, const float *rows, bool first, double *total)
{
    int64_t i = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    int lane = threadIdx.x & 31, depth = 0;
    int64_t mine = -1; /* lane k: k-th entry above the point, deepest first */
    if (i >= p.n_points) return;
    for (int64_t e = p.n_far > 0 ? p.d_far_of[i] : -1; e >= 0 && depth < 32; e = p.d_far_up[e], depth++)
        if (lane == depth) mine = e;
    int64_t leaf = p.n_leaf > 0 ? first_leaf(p, i, leaf_max) : 0;
    for (int c0 = 0; c0 < n_comp; c0 += 32) {
        int c = c0 + lane;
        bool real = c < n_comp;
        double sum = real && !first ? total[i * n_comp + c] : 0.0;
        if (real) sum += (double)rows[(p.point_begin + i) * n_comp + c];
        for (int64_t e = leaf; e < p.n_leaf && p.d_leaf_from[e] <= i; e++)
            if (i - p.d_leaf_from[e] < 64 && p.d_leaf_mask[e] >> (i - p.d_leaf_from[e]) & 1 && real)
                sum += (double)rows[(p.leaf_begin + e) * n_comp + c];
#pragma unroll 4
        for (int k = depth - 1; k >= 0; k--) {
            int64_t e = __shfl_sync(0xffffffffu, mine, k);
            if (real) sum += (double)rows[(p.far_begin + e) * n_comp + c];
        }
        if (real) total[i * n_comp + c] = sum;
    }
}

ff_status ff_res_add(const ff_cuda_part *part, int leaf_max, int n_comp, const float *rows, bool first,
                     double *total, cudaStream_t s)
{
    ff_status st = FF_OK;
    if (part->n_points == 0) return FF_OK;
    res_add_up<<<blocks(part->n_points, WARPS), BLOCK, 0, s>>>(*part, leaf_max, n_comp, rows, first, total);
    FF_CU(cudaGetLastError());
done:
    return st;
}

/* ---- outputs ---- */

static __device__ float compressed(float x, double c)
{
    return (float)(c * asinh((double)x / c));
}

/* A thread a scalar, vector or strength of a point's row: rounded output; then, if dyn is given, what the next layer
 * sees of it: compressed, strengths times mu. */
static __global__ void __launch_bounds__(BLOCK)
    outputs(int64_t n, int n_comp, ff_res_next next, const double *total, const double *mu, float *out,
            float *dyn)
{
    int n_unit = next.n_ls + next.n_lv + next.n_len;
    int64_t k = (int64_t)blockIdx.x * BLOCK + threadIdx.x, i = k / n_unit;
    int u = (int)(k % n_unit), dim = next.dim;
    if (i >= n) return;
    bool vector = u >= next.n_ls && u < next.n_ls + next.n_lv;
    int at = vector ? next.n_ls + (u - next.n_ls) * dim : u < next.n_ls ? u : u + next.n_lv * (dim - 1);
    const double *t = total + i * n_comp + at;
    float x[3];
    for (int d = 0; d < (vector ? dim : 1); d++) out[i * n_comp + at + d] = x[d] = (float)t[d];
    double c = next.compression;
    if (vector && c > 0) {
        double sq = next.eps * next.eps;
        for (int d = 0; d < dim; d++) sq = __dadd_rn(sq, __dmul_rn((double)x[d], (double)x[d]));
        double len = sqrt(sq), f = c * asinh(len / c) / len;
        for (int d = 0; d < dim; d++) x[d] = (float)((double)x[d] * f);
    } else if (c > 0) {
        x[0] = compressed(x[0], c);
    }
    if (u >= next.n_ls + next.n_lv) x[0] = (float)((double)x[0] * mu[i]);
    for (int d = 0; d < (vector ? dim : 1); d++) dyn[i * n_comp + at + d] = x[d];
}

static __global__ void __launch_bounds__(BLOCK) round_rows(int64_t n, const double *total, float *out)
{
    int64_t k = (int64_t)blockIdx.x * BLOCK + threadIdx.x;
    if (k < n) out[k] = (float)total[k];
}

/* next NULL: the final layer. */
ff_status ff_res_outputs(const ff_res_cloud *c, int n_comp, const ff_res_next *next, cudaStream_t s)
{
    ff_status st = FF_OK;
    if (c->n_own == 0 || n_comp == 0) return FF_OK;
    float *out = ff_res_own_out(c, n_comp);
    if (next == NULL)
        round_rows<<<blocks(c->n_own * n_comp, BLOCK), BLOCK, 0, s>>>(c->n_own * n_comp, c->d_total, out);
    else
        outputs<<<blocks(c->n_own * (next->n_ls + next->n_lv + next->n_len), BLOCK), BLOCK, 0, s>>>(
            c->n_own, n_comp, *next, c->d_total, c->d_mu + c->own_first, out,
            c->d_dyn + (int64_t)c->own_first * n_comp);
    FF_CU(cudaGetLastError());
done:
    return st;
}

/* Calibration in float32, as on the CPU; rows go to the order given. */
static __global__ void __launch_bounds__(BLOCK)
    calibrate(int64_t n, int n_comp, const int64_t *order, const float *w, const float *b, const float *out,
              double *y)
{
    int64_t k = (int64_t)blockIdx.x * BLOCK + threadIdx.x, i = k / n_comp;
    int c = (int)(k % n_comp);
    if (i >= n) return;
    y[(order != NULL ? order[i] : i) * n_comp + c] = (double)__fadd_rn(__fmul_rn(w[c], out[k]), b[c]);
}

ff_status ff_res_fields(const ff_res_cloud *c, int n_comp, const float *d_weight, const float *d_bias,
                        double *d_out, cudaStream_t s)
{
    ff_status st = FF_OK;
    if (c->n == 0 || n_comp == 0) return FF_OK;
    calibrate<<<blocks(c->n * n_comp, BLOCK), BLOCK, 0, s>>>(c->n, n_comp, c->d_order, d_weight, d_bias,
                                                             c->d_out, d_out);
    FF_CU(cudaGetLastError());
done:
    return st;
}

static __global__ void __launch_bounds__(BLOCK)
    to_given(int64_t n, int n_comp, const int64_t *order, const float *out, float *rows)
{
    int64_t k = (int64_t)blockIdx.x * BLOCK + threadIdx.x, i = k / n_comp;
    if (i < n) rows[(order != NULL ? order[i] : i) * n_comp + k % n_comp] = out[k];
}

ff_status ff_res_home(const ff_res_cloud *c, int n_comp, float *d_rows, cudaStream_t s)
{
    ff_status st = FF_OK;
    if (c->n == 0 || n_comp == 0) return FF_OK;
    to_given<<<blocks(c->n * n_comp, BLOCK), BLOCK, 0, s>>>(c->n, n_comp, c->d_order, c->d_out, d_rows);
    FF_CU(cudaGetLastError());
done:
    return st;
}
