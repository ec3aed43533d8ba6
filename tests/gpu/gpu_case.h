/* Random GLOBE networks, sources and lists for the GPU tests and benches, and a double reference on the host that
 * follows the specification word by word: every feature a pair, reference order, no hoisting. */
#ifndef FF_GPU_CASE_H
#define FF_GPU_CASE_H

extern "C" {
#include "ff_cuda.h"
#include "ff_status.h"
}

#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GPU_CHECK(call)                                                                                      \
    do {                                                                                                     \
        cudaError_t gpu_e_ = (call);                                                                         \
        if (gpu_e_ != cudaSuccess) {                                                                         \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(gpu_e_));       \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)
#define FF_CHECK(call)                                                                                       \
    do {                                                                                                     \
        if ((call) != FF_OK) {                                                                               \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, ff_error_text());                  \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

/* uniform in [-1, 1), a pure function of (seed, stream, index) */
static inline double gpu_rand(uint64_t seed, uint64_t stream, uint64_t index)
{
    uint64_t z =
        seed * 0x9e3779b97f4a7c15ull + stream * 0xbf58476d1ce4e5b9ull + index * 0x94d049bb133111ebull;
    for (int k = 0; k < 2; k++) {
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
        z ^= z >> 31;
    }
    return (double)(z >> 11) * 0x1.0p-52 - 1.0;
}

typedef struct gpu_case {
    uint64_t seed;
    ff_globe_shape s;
    int rank[64];
    int n_vec, n_in, n_coef, n_out, n_comp, n_raw;
    double length;
    float *w[FF_GLOBE_MAX_LAYERS + 1], *b[FF_GLOBE_MAX_LAYERS + 1];
    double gscalar[16], gvector[16 * 3];
    int64_t n_src;
    float *raw, *strength; /* [n_src][n_raw], [n_src] */
    double *x_s;           /* [n_src][4] */
    int32_t n_t, n_seg;
    double *x_t; /* [n_t][4] */
    int32_t *seg_off, *seg_cum, *n_pairs, *src;
    int64_t *seg_src, n_ids, total;
    const char *d_all[9]; /* device copies, see gpu_case_upload() */
    ff_cuda_lists lists;
    float *d_raw, *d_strength;
    double *d_x_s;
} gpu_case;

/* fields: n_sf scalars then n_vf vectors, in alternation as far as both last (their order must not matter) */
static inline void gpu_case_network(gpu_case *c, int dim, int width, int n_hidden, int n_gscalar,
                                    int n_sscalar, int n_gvec, int n_svec, int n_harm, int n_sf, int n_vf,
                                    int mlp)
{
    ff_globe_shape *s = &c->s;
    s->dim = dim;
    s->n_gscalar = n_gscalar;
    s->n_sscalar = n_sscalar;
    s->n_gvector = n_gvec;
    s->n_svector = n_svec;
    s->n_harm = n_harm;
    s->n_hidden = n_hidden;
    for (int l = 0; l < n_hidden; l++) s->hidden[l] = width;
    s->n_field = 0;
    for (int i = 0; i < n_sf || i < n_vf; i++) {
        if (i < n_vf) c->rank[s->n_field++] = 1;
        if (i < n_sf) c->rank[s->n_field++] = 0;
    }
    s->field_rank = c->rank;
    s->mlp = mlp != 0;
    s->beta = 0.01;
    s->eps = 1e-8;
    c->length = 0.7;
    c->n_vec = n_gvec + n_svec;
    c->n_in = n_gscalar + n_sscalar + c->n_vec + 1 + (c->n_vec + 1) * c->n_vec / 2 * n_harm;
    c->n_coef = n_sf + n_vf * (1 + 2 * c->n_vec);
    c->n_out = (mlp ? 1 : 2) * c->n_coef;
    c->n_comp = n_sf + n_vf * dim;
    c->n_raw = n_sscalar + dim * n_svec;
    for (int l = 0; l <= n_hidden; l++) {
        int in = l == 0 ? c->n_in : width, out = l < n_hidden ? width : c->n_out;
        c->w[l] = (float *)malloc((size_t)in * (size_t)out * sizeof(float));
        c->b[l] = (float *)malloc((size_t)out * sizeof(float));
        for (int i = 0; i < in * out; i++) /* variance 2.5 / in: activations stay of order one */
            c->w[l][i] = (float)(sqrt(7.5 / in) * gpu_rand(c->seed, 10 + (uint64_t)l, (uint64_t)i));
        for (int i = 0; i < out; i++)
            c->b[l][i] = (float)(0.3 * gpu_rand(c->seed, 30 + (uint64_t)l, (uint64_t)i));
    }
    for (int i = 0; i < n_gscalar; i++) c->gscalar[i] = gpu_rand(c->seed, 50, (uint64_t)i);
    for (int i = 0; i < n_gvec * dim; i++) c->gvector[i] = gpu_rand(c->seed, 51, (uint64_t)i);
}

/* n sources with random features; positions given (x [n][3]) or random in a box of edge 2. */
static inline void gpu_case_sources(gpu_case *c, int64_t n, const double *x)
{
    c->n_src = n;
    c->raw = (float *)malloc((size_t)n * (size_t)c->n_raw * sizeof(float) + 16);
    c->strength = (float *)malloc((size_t)n * sizeof(float));
    c->x_s = (double *)calloc((size_t)n * 4, sizeof(double));
    for (int64_t i = 0; i < n; i++) {
        for (int k = 0; k < c->n_raw; k++)
            c->raw[i * c->n_raw + k] = (float)gpu_rand(c->seed, 60, (uint64_t)(i * c->n_raw + k));
        c->strength[i] = (float)(1.0 + 0.5 * gpu_rand(c->seed, 61, (uint64_t)i));
        for (int k = 0; k < c->s.dim; k++)
            c->x_s[4 * i + k] = x != NULL ? x[3 * i + k] : gpu_rand(c->seed, 62, (uint64_t)(3 * i + k));
    }
}

/* Random lists: a binary tree over n_t targets, a row of 0 .. 2 mean sources a node; a target's segments are the rows
 * of its ancestors. Every seventh target has an empty list; some targets coincide with a source. */
static inline void gpu_case_lists(gpu_case *c, int32_t n_t, int levels, int mean)
{
    c->n_t = n_t;
    c->x_t = (double *)calloc((size_t)n_t * 4, sizeof(double));
    c->seg_off = (int32_t *)calloc((size_t)n_t + 1, sizeof(int32_t));
    c->seg_cum = (int32_t *)calloc((size_t)n_t * (size_t)levels + 1, sizeof(int32_t));
    c->seg_src = (int64_t *)calloc((size_t)n_t * (size_t)levels + 1, sizeof(int64_t));
    c->n_pairs = (int32_t *)calloc((size_t)n_t, sizeof(int32_t));
    int64_t n_rows = ((int64_t)1 << levels) - 1,
            *row = (int64_t *)calloc((size_t)n_rows + 1, sizeof(int64_t));
    for (int64_t r = 0; r < n_rows; r++)
        row[r + 1] = row[r] + (int64_t)((gpu_rand(c->seed, 70, (uint64_t)r) + 1.0) * mean);
    c->n_ids = row[n_rows];
    c->src = (int32_t *)malloc((size_t)c->n_ids * sizeof(int32_t) + 16);
    for (int64_t i = 0; i < c->n_ids; i++)
        c->src[i] = (int32_t)((gpu_rand(c->seed, 71, (uint64_t)i) + 1.0) * 0.5 * (double)c->n_src);
    for (int32_t t = 0; t < n_t; t++) {
        int32_t n = 0, at = c->seg_off[t];
        for (int l = 0; l < levels && t % 7 != 6; l++) {
            int64_t r = ((int64_t)1 << l) - 1 + ((int64_t)t << l) / n_t;
            c->seg_src[at] = row[r];
            c->seg_cum[at++] = n;
            n += (int32_t)(row[r + 1] - row[r]);
        }
        c->seg_off[t + 1] = at;
        c->n_pairs[t] = n;
        for (int k = 0; k < c->s.dim; k++) {
            c->x_t[4 * t + k] = gpu_rand(c->seed, 72, (uint64_t)(3 * t + k));
            if (t % 5 == 0 && n > 3)
                c->x_t[4 * t + k] = c->x_s[4 * (int64_t)c->src[c->seg_src[c->seg_off[t]]] + k];
        }
        c->total += n;
    }
    c->n_seg = c->seg_off[n_t];
    free(row);
}

static inline void *gpu_put(const void *h, size_t bytes)
{
    void *d;
    GPU_CHECK(cudaMalloc(&d, bytes + 16));
    GPU_CHECK(cudaMemcpy(d, h, bytes, cudaMemcpyHostToDevice));
    return d;
}

static inline void gpu_case_upload(gpu_case *c)
{
    size_t nt = (size_t)c->n_t, ns = (size_t)c->n_src;
    ff_cuda_lists *l = &c->lists;
    void *work;
    l->n_t = c->n_t;
    l->d_x_t = (double *)gpu_put(c->x_t, nt * 32);
    l->d_seg_off = (int32_t *)gpu_put(c->seg_off, (nt + 1) * 4);
    l->d_seg_src = (int64_t *)gpu_put(c->seg_src, (size_t)c->n_seg * 8);
    l->d_seg_cum = (int32_t *)gpu_put(c->seg_cum, (size_t)c->n_seg * 4);
    l->d_n_pairs = (int32_t *)gpu_put(c->n_pairs, nt * 4);
    l->d_src = (int32_t *)gpu_put(c->src, (size_t)c->n_ids * 4);
    GPU_CHECK(cudaMalloc((void **)&l->d_piece_off, (nt + 1) * 4));
    GPU_CHECK(cudaMalloc((void **)&l->d_group_off, (nt + 1) * 8));
    GPU_CHECK(cudaMalloc(&work, ff_cuda_cut_bytes(c->n_t)));
    FF_CHECK(ff_cuda_lists_cut(l, work, NULL));
    cudaFree(work);
    c->d_raw = (float *)gpu_put(c->raw, ns * (size_t)c->n_raw * 4);
    c->d_strength = (float *)gpu_put(c->strength, ns * 4);
    c->d_x_s = (double *)gpu_put(c->x_s, ns * 32);
}

static inline void gpu_case_free(gpu_case *c)
{
    for (int l = 0; l <= c->s.n_hidden; l++) {
        free(c->w[l]);
        free(c->b[l]);
    }
    void *host[] = {c->raw,     c->strength, c->x_s,     c->x_t, c->seg_off,
                    c->seg_cum, c->seg_src,  c->n_pairs, c->src};
    for (size_t i = 0; i < sizeof host / sizeof *host; i++) free(host[i]);
    const void *dev[] = {
        c->lists.d_x_t, c->lists.d_seg_off,   c->lists.d_seg_src,   c->lists.d_seg_cum, c->lists.d_n_pairs,
        c->lists.d_src, c->lists.d_piece_off, c->lists.d_group_off, c->d_raw,           c->d_strength,
        c->d_x_s};
    for (size_t i = 0; i < sizeof dev / sizeof *dev; i++) cudaFree((void *)dev[i]);
    memset(c, 0, sizeof *c);
}

/* ---- reference ---- */

static inline double ref_smooth(double x)
{
    return -expm1(-x) * log1p(x);
}

/* value [n_comp] of one pair, without strength; scratch 2 max(n_in, width, n_out) doubles */
static inline void ref_pair(const gpu_case *c, const double *x_t, int64_t src, double *value, double *scratch)
{
    const ff_globe_shape *s = &c->s;
    int nv = c->n_vec + 1, dim = s->dim, most = c->n_in;
    for (int l = 0; l < s->n_hidden; l++) most = s->hidden[l] > most ? s->hidden[l] : most;
    most = c->n_out > most ? c->n_out : most;
    double v[32][3], m[32], r2 = 0.0, *in = scratch, *out = scratch + most, *f = in;
    for (int k = 0; k < nv; k++) {
        for (int j = 0; j < dim; j++) {
            if (k < s->n_gvector)
                v[k][j] = c->gvector[k * dim + j];
            else if (k < nv - 1)
                v[k][j] = c->raw[src * c->n_raw + s->n_sscalar + (k - s->n_gvector) * dim + j];
            else
                v[k][j] = (x_t[j] - c->x_s[4 * src + j]) / c->length;
        }
        double q = s->eps * s->eps;
        for (int j = 0; j < dim; j++) q += v[k][j] * v[k][j];
        if (k == nv - 1) r2 = q;
        m[k] = sqrt(q);
        for (int j = 0; j < dim; j++) v[k][j] /= m[k];
    }
    for (int i = 0; i < s->n_gscalar; i++) *f++ = c->gscalar[i];
    for (int i = 0; i < s->n_sscalar; i++) *f++ = c->raw[src * c->n_raw + i];
    for (int k = 0; k < s->n_gvector; k++) *f++ = ref_smooth(m[k]);
    *f++ = ref_smooth(m[nv - 1]);
    for (int k = s->n_gvector; k < nv - 1; k++) *f++ = ref_smooth(m[k]);
    for (int n = 1; n <= s->n_harm; n++)
        for (int a = 0; a < nv; a++)
            for (int b = a + 1; b < nv; b++) {
                double dot = 0.0, p0 = 1.0, p1;
                for (int j = 0; j < dim; j++) dot += v[a][j] * v[b][j];
                p1 = dot;
                for (int i = 2; i <= n; i++) {
                    double p2 = ((2 * i - 1) * dot * p1 - (i - 1) * p0) / i;
                    p0 = p1;
                    p1 = p2;
                }
                *f++ = ref_smooth(m[a] * m[b]) * p1;
            }
    int n_in = c->n_in;
    for (int l = 0; l <= s->n_hidden; l++) {
        int n_out = l < s->n_hidden ? s->hidden[l] : c->n_out;
        for (int o = 0; o < n_out; o++) {
            double x = c->b[l][o];
            for (int i = 0; i < n_in; i++) x += (double)c->w[l][(size_t)o * (size_t)n_in + i] * in[i];
            out[o] = l < s->n_hidden ? x / (1.0 + exp(-x)) : x;
        }
        double *t = in;
        in = out;
        out = t;
        n_in = n_out;
    }
    double env = -expm1(-r2) / (dim == 3 ? 1.0 + r2 : sqrt(1.0 + r2)), *y = out;
    for (int i = 0; i < c->n_coef; i++)
        y[i] = env * (s->mlp ? tanh(in[i])
                             : copysign(in[i] * in[i], in[i]) /
                                   (1.0 + in[c->n_coef + i] * in[c->n_coef + i] + s->beta * in[i] * in[i]));
    bool zero = true;
    for (int j = 0; j < dim; j++) zero = zero && v[nv - 1][j] == 0.0;
    for (int k = 0; k < s->n_field; k++) {
        if (c->rank[k] == 0) {
            *value++ = *y++;
            continue;
        }
        for (int j = 0; j < dim; j++) value[j] = y[0] * v[nv - 1][j];
        y++;
        for (int a = 0; a < nv - 1; a++, y += 2) {
            double g = ref_smooth(m[a]), dot = 0.0;
            for (int j = 0; j < dim; j++) dot += v[a][j] * v[nv - 1][j];
            for (int j = 0; j < dim; j++)
                value[j] += y[0] * g * v[a][j] + (zero ? 0.0 : y[1] * g * (dot * v[nv - 1][j] - v[a][j]));
        }
        value += dim;
    }
}

/* sums of target t [n_comp]; mass (may be NULL): sums of the magnitudes of what they add */
static inline void ref_target(const gpu_case *c, int32_t t, double *sum, double *mass)
{
    double *scratch = (double *)malloc(4096 * sizeof *scratch), value[512];
    for (int k = 0; k < c->n_comp; k++) sum[k] = 0.0;
    for (int k = 0; k < c->n_comp && mass != NULL; k++) mass[k] = 0.0;
    for (int32_t g = c->seg_off[t]; g < c->seg_off[t + 1]; g++) {
        int32_t n = (g + 1 < c->seg_off[t + 1] ? c->seg_cum[g + 1] : c->n_pairs[t]) - c->seg_cum[g];
        for (int32_t i = 0; i < n; i++) {
            int64_t src = c->src[c->seg_src[g] + i];
            ref_pair(c, c->x_t + 4 * (int64_t)t, src, value, scratch);
            for (int k = 0; k < c->n_comp; k++) sum[k] += c->strength[src] * value[k];
            for (int k = 0; k < c->n_comp && mass != NULL; k++) mass[k] += fabs(c->strength[src] * value[k]);
        }
    }
    free(scratch);
}

/* One run: records, pair sums; out [n_t][n_comp] on the host. */
typedef struct gpu_run {
    ff_cuda_net *net;
    void *d_rec;
    float *d_part, *d_out;
    ff_cuda_pair_args args;
} gpu_run;

static inline ff_status gpu_run_open(gpu_run *r, const gpu_case *c, ff_cuda_precision precision)
{
    memset(r, 0, sizeof *r);
    ff_status st =
        ff_cuda_net_create(&c->s, c->w, c->b, c->gscalar, c->gvector, c->length, precision, NULL, &r->net);
    if (st != FF_OK) return st;
    size_t part = (size_t)c->lists.n_piece * (size_t)c->n_comp * 4,
           out = (size_t)c->n_t * (size_t)c->n_comp * 4;
    GPU_CHECK(cudaMalloc(&r->d_rec, ff_cuda_record_bytes(r->net, c->n_src)));
    GPU_CHECK(cudaMalloc((void **)&r->d_part, part + 16));
    GPU_CHECK(cudaMalloc((void **)&r->d_out, out + 16));
    GPU_CHECK(cudaMemset(r->d_part, 0xff, part + 16)); /* NaN: unwritten pieces show */
    GPU_CHECK(cudaMemset(r->d_out, 0xff, out + 16));
    r->args = {&c->lists, c->n_src, c->d_x_s, c->d_strength, r->d_rec, r->d_part, r->d_out};
    return ff_cuda_records(r->net, c->n_src, c->d_raw, r->d_rec, NULL);
}

static inline void gpu_run_close(gpu_run *r)
{
    ff_cuda_net_destroy(&r->net);
    cudaFree(r->d_rec);
    cudaFree(r->d_part);
    cudaFree(r->d_out);
}

/* Largest error over the given targets relative to each field's largest value there; ref [n][n_comp]. */
static inline double gpu_error(const gpu_case *c, const float *out, const double *ref, const int32_t *pick,
                               int n)
{
    double worst = 0.0;
    int at = 0;
    for (int f = 0; f < c->s.n_field; f++) {
        int len = c->rank[f] ? c->s.dim : 1;
        double err = 0.0, most = 1e-300;
        for (int i = 0; i < n; i++)
            for (int k = at; k < at + len; k++) {
                double x = out[(int64_t)pick[i] * c->n_comp + k], y = ref[(int64_t)i * c->n_comp + k];
                if (!(fabs(x - y) <= err)) err = fabs(x - y); /* NaN sticks */
                most = fmax(most, fabs(y));
            }
        if (!(err / most <= worst)) worst = err / most;
        at += len;
    }
    return worst;
}

#endif
