/* The GLOBE pair in plain double, written from docs/theory.md alone, over a table of shapes that covers every option;
 * for the tests of the kernel. Random networks and inputs come from SEED and the row's number. */
#ifndef GLOBE_REFERENCE_H
#define GLOBE_REFERENCE_H

#include "ff_globe.h"
#include "ff_mem.h"
#include "ff_rng.h"

#include <math.h>
#include <string.h>

enum { SEED = 20240611, N_PAIR = 157, MAX_OUT = 64 };

typedef struct shape_row {
    const char *name;
    int dim, n_gscalar, n_sscalar, n_gvector, n_svector, n_harm, n_hidden, hidden[FF_GLOBE_MAX_LAYERS];
    int n_field, rank[8];
    bool mlp;
    double beta, eps, length;
} shape_row;

static const shape_row table[] = {
    {"layer 0, 3d", 3, 0, 0, 0, 1, 4, 3, {64, 64, 64}, 4, {0, 0, 1, 1}, false, 0.0, 1e-8, 2.786},
    {"default-like", 3, 1, 12, 0, 7, 4, 3, {64, 64, 64}, 7, {0, 0, 1, 1, 1, 0, 0}, false, 0.01, 1e-8, 0.0423},
    {"wide", 3, 1, 8, 0, 5, 4, 3, {256, 256, 256}, 6, {0, 0, 0, 1, 1, 0}, false, 0.01, 1e-8, 2.786},
    {"2d, global data, odd widths", 2, 3, 4, 1, 4, 3, 2, {20, 29}, 4, {0, 1, 0, 1}, false, 0.0, 1e-8, 1.0},
    {"2d, two global vectors", 2, 0, 1, 2, 2, 5, 2, {7, 13}, 2, {1, 0}, false, 0.5, 1e-3, 0.3},
    {"mlp", 3, 2, 3, 2, 2, 2, 1, {16}, 3, {0, 1, 1}, true, 0.0, 1e-8, 0.7},
    {"no vectors", 3, 1, 2, 0, 0, 4, 2, {9, 9}, 2, {0, 1}, false, 0.0, 1e-8, 1.0},
    {"no vectors, no scalars, width 1", 2, 0, 0, 0, 0, 1, 1, {1}, 1, {0}, false, 0.0, 1e-8, 1.0},
    {"no harmonics, deep", 3, 0, 2, 1, 1, 0, 8, {5, 8, 3, 17, 8, 9, 2, 24}, 2, {1, 0}, false, 0.1, 1e-8, 1.0},
    {"one harmonic, widest", 3, 0, 0, 0, 2, 1, 1, {512}, 1, {1}, false, 0.0, 1e-8, 1.0},
    {"large smoothing radius", 3, 1, 1, 1, 2, 4, 2, {24, 24}, 2, {0, 1}, false, 0.0, 0.2, 1.0},
    {"many source features", 3, 2, 130, 2, 9, 6, 1, {33}, 1, {0}, false, 0.0, 1e-8, 1.0},
#ifdef GLOBE_REFERENCE_UNEVEN /* a wide network costs time: only where asked for */
    {"wide, uneven, 2d",
     2,
     1,
     3,
     1,
     4,
     3,
     3,
     {256, 200, 136},
     8,
     {1, 0, 1, 0, 0, 1, 1, 0},
     false,
     0.02,
     1e-8,
     0.9},
#endif
};
enum { N_ROW = sizeof table / sizeof *table };

/* ---- a random network and its inputs, all derived from SEED and the row's number ---- */

typedef struct fixture {
    ff_globe_shape s;
    float *w[FF_GLOBE_MAX_LAYERS + 1], *b[FF_GLOBE_MAX_LAYERS + 1];
    double *gscalar, *gvector, length;
    int n_src, n_comp;
    float *dx, *src, *strength; /* [N_PAIR] each */
    double *want, *scale;       /* [N_PAIR][n_comp] values; [n_comp] maximum of each component's field */
} fixture;

static double draw(uint64_t stream, uint64_t i)
{
    return 2.0 * ff_rng_uniform(SEED, stream, i) - 1.0;
}

static void make_network(fixture *f, const shape_row *t, uint64_t id)
{
    int n_in = ff_globe_n_in(&f->s);
    for (int l = 0; l <= t->n_hidden; l++) {
        int n_out = l == t->n_hidden ? ff_globe_n_net_out(&f->s) : t->hidden[l];
        double gain =
            1.6 * sqrt(3.0 / n_in); /* amplified: SiLU halves the signal, and every layer must matter */
        f->w[l] = ff_mem_alloc((size_t)n_in * (size_t)n_out, sizeof(float));
        f->b[l] = ff_mem_alloc((size_t)n_out, sizeof(float));
        for (int i = 0; i < n_in * n_out; i++)
            f->w[l][i] = (float)(gain * draw(100 * id + (uint64_t)l, (uint64_t)i));
        for (int i = 0; i < n_out; i++)
            f->b[l][i] = (float)(0.5 * draw(100 * id + 10 + (uint64_t)l, (uint64_t)i));
        n_in = n_out;
    }
    f->gscalar = ff_mem_alloc0((size_t)t->n_gscalar, sizeof(double));
    f->gvector = ff_mem_alloc0((size_t)(t->n_gvector * t->dim), sizeof(double));
    for (int i = 0; i < t->n_gscalar; i++) f->gscalar[i] = draw(100 * id + 20, (uint64_t)i);
    for (int i = 0; i < t->n_gvector * t->dim; i++) f->gvector[i] = draw(100 * id + 21, (uint64_t)i);
}

/* Distances from 1e-4 to 1e2 reference lengths; sources with unit normals and latents of order one. */
static void make_pairs(fixture *f, const shape_row *t, uint64_t id)
{
    f->dx = ff_mem_alloc((size_t)(N_PAIR * t->dim), sizeof(float));
    f->src = ff_mem_alloc0((size_t)(N_PAIR * f->n_src), sizeof(float));
    f->strength = ff_mem_alloc(N_PAIR, sizeof(float));
    for (int i = 0; i < N_PAIR; i++) {
        double far = pow(10.0, -4.0 + 6.0 * ff_rng_uniform(SEED, 100 * id + 30, (uint64_t)i)) * t->length;
        for (int c = 0; c < t->dim; c++) {
            uint64_t at = (uint64_t)(i * t->dim + c);
            f->dx[at] = (float)(far * draw(100 * id + 31, at));
        }
        for (int c = 0; c < f->n_src; c++) {
            uint64_t at = (uint64_t)(i * f->n_src + c);
            f->src[at] = (float)(1.5 * draw(100 * id + 32, at));
        }
        f->strength[i] = (float)(1.0 + 0.5 * draw(100 * id + 33, (uint64_t)i));
    }
}

/* ---- the mathematics in double ---- */

static double ref_s(double x)
{
    return -expm1(-x) * log1p(x);
}

static double ref_m(const double *v, int dim, double eps)
{
    double q = eps * eps;
    for (int c = 0; c < dim; c++) q += v[c] * v[c];
    return sqrt(q);
}

static double ref_legendre(int n, double x)
{
    switch (n) { /* closed forms: another route than the recurrence */
    case 1:
        return x;
    case 2:
        return (3 * x * x - 1) / 2;
    case 3:
        return (5 * x * x - 3) * x / 2;
    case 4:
        return ((35 * x * x - 30) * x * x + 3) / 8;
    case 5:
        return ((63 * x * x - 70) * x * x + 15) * x / 8;
    default:
        return (((231 * x * x - 315) * x * x + 105) * x * x - 5) / 16;
    }
}

/* Vectors of a pair: global, source, r (last); v [n][3]. */
static int ref_vectors(const fixture *f, const float *dx, const float *src, double (*v)[3])
{
    const ff_globe_shape *s = &f->s;
    int n = 0;
    for (int k = 0; k < s->n_gvector; k++, n++)
        for (int c = 0; c < s->dim; c++) v[n][c] = f->gvector[k * s->dim + c];
    for (int k = 0; k < s->n_svector; k++, n++)
        for (int c = 0; c < s->dim; c++) v[n][c] = (double)src[s->n_sscalar + k * s->dim + c];
    for (int c = 0; c < s->dim; c++) v[n][c] = (double)dx[c] / f->length;
    return n + 1;
}

static int ref_features(const fixture *f, const float *src, int n_v, double (*v)[3], double *in)
{
    const ff_globe_shape *s = &f->s;
    int at = 0, n_g = s->n_gvector;
    for (int i = 0; i < s->n_gscalar; i++) in[at++] = f->gscalar[i];
    for (int i = 0; i < s->n_sscalar; i++) in[at++] = (double)src[i];
    for (int k = 0; k < n_g; k++) in[at++] = ref_s(ref_m(v[k], s->dim, s->eps));
    in[at++] = ref_s(ref_m(v[n_v - 1], s->dim, s->eps));
    for (int k = n_g; k < n_v - 1; k++) in[at++] = ref_s(ref_m(v[k], s->dim, s->eps));
    for (int n = 1; n <= s->n_harm; n++)
        for (int a = 0; a < n_v; a++)
            for (int b = a + 1; b < n_v; b++) {
                double ma = ref_m(v[a], s->dim, s->eps), mb = ref_m(v[b], s->dim, s->eps), dot = 0.0;
                for (int c = 0; c < s->dim; c++) dot += v[a][c] / ma * (v[b][c] / mb);
                in[at++] = ref_s(ma * mb) * ref_legendre(n, dot);
            }
    return at;
}

static void ref_network(const fixture *f, const double *in, int n_in, double *coef)
{
    const ff_globe_shape *s = &f->s;
    double x[1200], y[1200];
    memcpy(x, in, (size_t)n_in * sizeof *x);
    for (int l = 0; l <= s->n_hidden; l++) {
        int n_out = l == s->n_hidden ? ff_globe_n_net_out(s) : s->hidden[l];
        for (int j = 0; j < n_out; j++) {
            double z = (double)f->b[l][j];
            for (int k = 0; k < n_in; k++) z += (double)f->w[l][j * n_in + k] * x[k];
            y[j] = l == s->n_hidden ? z : z / (1.0 + exp(-z));
        }
        memcpy(x, y, (size_t)n_out * sizeof *x);
        n_in = n_out;
    }
    int n_coef = ff_globe_n_coef(s);
    for (int c = 0; c < n_coef; c++) {
        double a = x[c], d = s->mlp ? 0.0 : x[n_coef + c];
        coef[c] = s->mlp ? tanh(a) : (a < 0.0 ? -1.0 : 1.0) * a * a / (1.0 + d * d + s->beta * a * a);
    }
}

static void ref_vector_field(const fixture *f, const double *y, int n_v, double (*v)[3], double *out)
{
    const ff_globe_shape *s = &f->s;
    const double *r = v[n_v - 1];
    double mr = ref_m(r, s->dim, s->eps);
    bool zero = true;
    for (int c = 0; c < s->dim; c++) zero = zero && r[c] == 0.0;
    for (int c = 0; c < s->dim; c++) out[c] = y[0] * r[c] / mr;
    for (int k = 0; k < n_v - 1; k++) {
        double m = ref_m(v[k], s->dim, s->eps), g = ref_s(m), dot = 0.0;
        for (int c = 0; c < s->dim; c++) dot += v[k][c] / m * r[c] / mr;
        for (int c = 0; c < s->dim; c++) {
            double e = zero ? 0.0 : -v[k][c] / m + dot * r[c] / mr;
            out[c] += y[1 + 2 * k] * g * v[k][c] / m + y[2 + 2 * k] * g * e;
        }
    }
}

/* Features, coefficients (either may be NULL) and value [n_comp] of one pair. */
static void ref_pair(const fixture *f, const float *dx, const float *src, double strength, double *features,
                     double *coefs, double *out)
{
    const ff_globe_shape *s = &f->s;
    double v[24][3], in[1200], coef[300];
    int n_v = ref_vectors(f, dx, src, v), n_in = ref_features(f, src, n_v, v, in);
    assert_int_equal(n_in, ff_globe_n_in(s));
    ref_network(f, in, n_in, coef);
    if (features != NULL) memcpy(features, in, (size_t)n_in * sizeof *in);
    if (coefs != NULL) memcpy(coefs, coef, (size_t)ff_globe_n_coef(s) * sizeof *coef);
    double q = ref_m(v[n_v - 1], s->dim, s->eps);
    q *= q;
    double envelope = -expm1(-q) / pow(1.0 + q, (s->dim - 1) / 2.0);
    const double *y = coef;
    for (int i = 0, at = 0; i < s->n_field; i++) {
        int n = s->field_rank[i] == 0 ? 1 : s->dim;
        if (n == 1)
            out[at] = y[0];
        else
            ref_vector_field(f, y, n_v, v, out + at);
        for (int c = 0; c < n; c++) out[at + c] *= envelope * strength;
        y += n == 1 ? 1 : 1 + 2 * (n_v - 1);
        at += n;
    }
}

/* ---- fixture ---- */

static void fixture_open(fixture *f, int row)
{
    const shape_row *t = &table[row];
    memset(f, 0, sizeof *f);
    f->s = (ff_globe_shape){.dim = t->dim,
                            .n_gscalar = t->n_gscalar,
                            .n_sscalar = t->n_sscalar,
                            .n_gvector = t->n_gvector,
                            .n_svector = t->n_svector,
                            .n_harm = t->n_harm,
                            .n_hidden = t->n_hidden,
                            .n_field = t->n_field,
                            .field_rank = t->rank,
                            .mlp = t->mlp,
                            .beta = t->beta,
                            .eps = t->eps};
    memcpy(f->s.hidden, t->hidden, sizeof t->hidden);
    f->length = t->length;
    f->n_src = ff_globe_n_source(&f->s);
    f->n_comp = ff_globe_n_comp(&f->s);
    make_network(f, t, (uint64_t)row);
    make_pairs(f, t, (uint64_t)row);
    f->want = ff_mem_alloc((size_t)(N_PAIR * f->n_comp), sizeof(double));
    f->scale = ff_mem_alloc0((size_t)f->n_comp, sizeof(double));
    for (int i = 0; i < N_PAIR; i++)
        ref_pair(f, f->dx + i * t->dim, f->src + i * f->n_src, (double)f->strength[i], NULL, NULL,
                 f->want + i * f->n_comp);
    for (int fi = 0, at = 0; fi < t->n_field; fi++) {
        int n = t->rank[fi] == 0 ? 1 : t->dim;
        double top = 0.0;
        for (int i = 0; i < N_PAIR; i++)
            for (int c = 0; c < n; c++) top = fmax(top, fabs(f->want[i * f->n_comp + at + c]));
        for (int c = 0; c < n; c++) f->scale[at + c] = top;
        at += n;
    }
}

static void fixture_close(fixture *f)
{
    for (int l = 0; l <= FF_GLOBE_MAX_LAYERS; l++) {
        ff_free(f->w[l]);
        ff_free(f->b[l]);
    }
    ff_free(f->gscalar);
    ff_free(f->gvector);
    ff_free(f->dx);
    ff_free(f->src);
    ff_free(f->strength);
    ff_free(f->want);
    ff_free(f->scale);
}

#endif
