/* GLOBE pair kernel against a plain double implementation written here from docs/theory.md, over a table of
 * shapes that covers every option; bits that must not depend on lane, tile or instruction set; degenerate
 * input. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ff_globe.h"
#include "ff_mem.h"
#include "ff_rng.h"

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

static ff_globe_net_f32 *net_f32(const fixture *f)
{
    ff_globe_net_f32 *net = NULL;
    assert_int_equal(ff_globe_create_f32(&f->s, (const float *const *)f->w, (const float *const *)f->b,
                                         f->gscalar, f->gvector, f->length, &net),
                     FF_OK);
    return net;
}

/* Values of pairs order[0 .. n - 1] (NULL: as they stand) in tiles of the given size; out [n][n_comp]. */
static void run_f32(const fixture *f, const ff_globe_net_f32 *net, const float *rec, const int *order, int n,
                    int tile, float *out)
{
    size_t len = ff_globe_record_len_f32(net);
    float *scratch = ff_mem_alloc(ff_globe_scratch_len_f32(net), sizeof(float));
    memset(scratch, 0xff, ff_globe_scratch_len_f32(net) * sizeof(float)); /* NaN: nothing stale may be read */
    for (int i0 = 0; i0 < n; i0 += tile) {
        float dx[FF_GLOBE_TILE * 3], strength[FF_GLOBE_TILE];
        const float *r[FF_GLOBE_TILE];
        int m = n - i0 < tile ? n - i0 : tile;
        for (int i = 0; i < m; i++) {
            int p = order == NULL ? i0 + i : order[i0 + i];
            for (int c = 0; c < f->s.dim; c++) dx[i * f->s.dim + c] = f->dx[p * f->s.dim + c];
            strength[i] = f->strength[p];
            r[i] = rec + (size_t)p * len;
        }
        ff_globe_tile_f32(net, m, dx, r, strength, out + i0 * f->n_comp, scratch);
    }
    ff_free(scratch);
}

static float *records_f32(const fixture *f, const ff_globe_net_f32 *net)
{
    float *rec = ff_mem_alloc(N_PAIR * ff_globe_record_len_f32(net), sizeof(float));
    ff_globe_records_f32(net, N_PAIR, f->src, rec);
    return rec;
}

static const char *const isa_names[] = {"avx512", "avx2", "generic"};
enum { N_ISA = sizeof isa_names / sizeof *isa_names };

/* ---- tests ---- */

static void f32_matches_the_mathematics(void **state)
{
    (void)state;
    double limit = 5e-6; /* of the field's maximum: globe.md section 8, here for one pair rather than a sum */
    for (int k = 0; k < N_ISA; k++) {
        if (ff_globe_set_isa(isa_names[k]) != FF_OK) {
            printf("skipped: %s\n", ff_error_text());
            ff_error_clear();
            continue;
        }
        assert_string_equal(ff_globe_isa(), isa_names[k]);
        for (int row = 0; row < N_ROW; row++) {
            fixture f;
            fixture_open(&f, row);
            ff_globe_net_f32 *net = net_f32(&f);
            float *rec = records_f32(&f, net),
                  *out = ff_mem_alloc((size_t)(N_PAIR * f.n_comp), sizeof(float));
            run_f32(&f, net, rec, NULL, N_PAIR, FF_GLOBE_TILE, out);
            double worst = 0.0;
            for (int i = 0; i < N_PAIR * f.n_comp; i++) {
                double e = fabs((double)out[i] - f.want[i]) / f.scale[i % f.n_comp];
                worst = e > worst || isnan(e) ? e : worst;
            }
            printf("seed %d, %s, %s: used %.3f of %g\n", SEED, isa_names[k], table[row].name, worst / limit,
                   limit);
            assert_true(worst <= limit);
            ff_free(rec);
            ff_free(out);
            ff_globe_destroy_f32(&net);
            fixture_close(&f);
        }
    }
    assert_int_equal(ff_globe_set_isa("auto"), FF_OK);
}

static void f64_and_probe_match_the_mathematics(void **state)
{
    (void)state;
    double limit =
        1e-12; /* of the field's (feature's, coefficient's) maximum: rounding of sums of some 1000 terms */
    for (int row = 0; row < N_ROW; row++) {
        fixture f;
        fixture_open(&f, row);
        ff_globe_net_f64 *net = NULL;
        assert_int_equal(ff_globe_create_f64(&f.s, (const float *const *)f.w, (const float *const *)f.b,
                                             f.gscalar, f.gvector, f.length, &net),
                         FF_OK);
        int n_in = ff_globe_n_in(&f.s), n_coef = ff_globe_n_coef(&f.s);
        double *src = ff_mem_alloc0((size_t)f.n_src, sizeof(double)), worst = 0.0, worst_probe = 0.0;
        double *rec = ff_mem_alloc(ff_globe_record_len_f64(net), sizeof(double));
        double *scratch = ff_mem_alloc(ff_globe_scratch_len_f64(net), sizeof(double));
        double *in = ff_mem_alloc((size_t)n_in, sizeof(double)),
               *y = ff_mem_alloc((size_t)n_coef, sizeof(double));
        for (int i = 0; i < N_PAIR; i++) {
            double dx[3], strength = (double)f.strength[i], out[MAX_OUT], want_in[1200], want_y[300],
                          dummy[MAX_OUT];
            const double *r = rec;
            for (int c = 0; c < f.n_src; c++) src[c] = (double)f.src[i * f.n_src + c];
            for (int c = 0; c < f.s.dim; c++) dx[c] = (double)f.dx[i * f.s.dim + c];
            ff_globe_records_f64(net, 1, src, rec);
            ff_globe_tile_f64(net, 1, dx, &r, &strength, out, scratch);
            for (int c = 0; c < f.n_comp; c++)
                worst = fmax(worst, fabs(out[c] - f.want[i * f.n_comp + c]) / f.scale[c]);
            assert_int_equal(ff_globe_probe_f64(net, 1, dx, src, in, y), FF_OK);
            ref_pair(&f, f.dx + i * f.s.dim, f.src + i * f.n_src, 1.0, want_in, want_y, dummy);
            for (int c = 0; c < n_in; c++)
                worst_probe = fmax(worst_probe, fabs(in[c] - want_in[c]) / (1 + fabs(want_in[c])));
            for (int c = 0; c < n_coef; c++)
                worst_probe = fmax(worst_probe, fabs(y[c] - want_y[c]) / (1 + fabs(want_y[c])));
        }
        printf("%s: tile used %.3f, probe %.3f of %g\n", table[row].name, worst / limit, worst_probe / limit,
               limit);
        assert_true(worst <= limit && worst_probe <= limit);
        ff_free(src);
        ff_free(rec);
        ff_free(scratch);
        ff_free(in);
        ff_free(y);
        ff_globe_destroy_f64(&net);
        fixture_close(&f);
    }
}

/* Tiles of every size, and a shuffled order, give the bits of full tiles in order. */
static void bits_do_not_depend_on_the_tile(void **state)
{
    (void)state;
    for (int k = 0; k < N_ISA; k++) {
        if (ff_globe_set_isa(isa_names[k]) != FF_OK) continue;
        for (int row = 0; row < N_ROW; row++) {
            fixture f;
            fixture_open(&f, row);
            ff_globe_net_f32 *net = net_f32(&f);
            size_t bytes = (size_t)(N_PAIR * f.n_comp) * sizeof(float),
                   one = (size_t)f.n_comp * sizeof(float);
            float *rec = records_f32(&f, net), *base = ff_mem_alloc(bytes, 1), *out = ff_mem_alloc(bytes, 1);
            int order[N_PAIR];
            run_f32(&f, net, rec, NULL, N_PAIR, FF_GLOBE_TILE, base);
            for (int tile = 1; tile <= FF_GLOBE_TILE; tile += table[row].hidden[0] > 64 ? 5 : 1) {
                run_f32(&f, net, rec, NULL, N_PAIR, tile, out);
                assert_memory_equal(out, base, bytes);
            }
            for (int i = 0; i < N_PAIR; i++) order[i] = i * 59 % N_PAIR; /* 157 is prime: a permutation */
            run_f32(&f, net, rec, order, N_PAIR, 37, out);
            for (int i = 0; i < N_PAIR; i++)
                assert_memory_equal(out + i * f.n_comp, base + order[i] * f.n_comp, one);
            ff_free(rec);
            ff_free(base);
            ff_free(out);
            ff_globe_destroy_f32(&net);
            fixture_close(&f);
        }
    }
    assert_int_equal(ff_globe_set_isa("auto"), FF_OK);
}

/* A record made alone, or in any batch, has the same bits (padding included). */
static void records_do_not_depend_on_the_batch(void **state)
{
    (void)state;
    for (int k = 0; k < N_ISA; k++) {
        if (ff_globe_set_isa(isa_names[k]) != FF_OK) continue;
        for (int row = 0; row < N_ROW; row++) {
            fixture f;
            fixture_open(&f, row);
            ff_globe_net_f32 *net = net_f32(&f);
            size_t len = ff_globe_record_len_f32(net);
            assert_int_equal(len % 16, 0);
            float *rec = records_f32(&f, net), *again = ff_mem_alloc(N_PAIR * len, sizeof(float));
            int i = 0;
            for (int n = 1; i < N_PAIR; i += n, n += 6)
                ff_globe_records_f32(net, i + n < N_PAIR ? n : N_PAIR - i, f.src + i * f.n_src,
                                     again + (size_t)i * len);
            assert_memory_equal(again, rec, N_PAIR * len * sizeof(float));
            ff_free(rec);
            ff_free(again);
            ff_globe_destroy_f32(&net);
            fixture_close(&f);
        }
    }
    assert_int_equal(ff_globe_set_isa("auto"), FF_OK);
}

static void avx2_and_avx512_agree(void **state)
{
    (void)state;
    if (ff_globe_set_isa("avx512") != FF_OK || ff_globe_set_isa("avx2") != FF_OK) {
        printf("skipped: %s\n", ff_error_text());
        ff_error_clear();
        skip();
    }
    for (int row = 0; row < N_ROW; row++) {
        fixture f;
        fixture_open(&f, row);
        ff_globe_net_f32 *net = net_f32(&f);
        size_t bytes = (size_t)(N_PAIR * f.n_comp) * sizeof(float);
        float *rec[2], *out[2];
        for (int k = 0; k < 2; k++) {
            assert_int_equal(ff_globe_set_isa(isa_names[k]), FF_OK);
            rec[k] = records_f32(&f, net);
            out[k] = ff_mem_alloc(bytes, 1);
            run_f32(&f, net, rec[k], NULL, N_PAIR, FF_GLOBE_TILE, out[k]);
        }
        assert_memory_equal(rec[0], rec[1], N_PAIR * ff_globe_record_len_f32(net) * sizeof(float));
        assert_memory_equal(out[0], out[1], bytes);
        for (int k = 0; k < 2; k++) {
            ff_free(rec[k]);
            ff_free(out[k]);
        }
        ff_globe_destroy_f32(&net);
        fixture_close(&f);
    }
    assert_int_equal(ff_globe_set_isa("auto"), FF_OK);
}

/* Zero and tiny vectors, coincident points, tiny and huge distances: finite, and right where float32 can be.
 */
static void degenerate_pairs_are_finite(void **state)
{
    (void)state;
    static const float far[] = {0.0f, 1e-45f, 1e-30f, 1e-12f, 1e-8f, 1e6f, 1e15f, 3e38f};
    static const float size[] = {0.0f, 1e-44f, 1e-25f, 1.0f, 1e10f};
    enum { N_FAR = sizeof far / sizeof *far, N_SIZE = sizeof size / sizeof *size };
    for (int k = 0; k < N_ISA; k++) {
        if (ff_globe_set_isa(isa_names[k]) != FF_OK) continue;
        for (int row = 0; row < N_ROW; row++) {
            fixture f;
            fixture_open(&f, row);
            for (int i = 0; i < N_FAR * N_SIZE; i++) {
                for (int c = 0; c < f.s.dim; c++) f.dx[i * f.s.dim + c] = c == 1 ? 0.0f : -far[i % N_FAR];
                for (int c = f.s.n_sscalar; c < f.n_src; c++)
                    f.src[i * f.n_src + c] = size[i / N_FAR] * (c % 2 ? 0.6f : -0.8f);
            }
            ff_globe_net_f32 *net = net_f32(&f);
            float *rec = records_f32(&f, net),
                  *out = ff_mem_alloc((size_t)(N_PAIR * f.n_comp), sizeof(float));
            run_f32(&f, net, rec, NULL, N_FAR * N_SIZE, FF_GLOBE_TILE, out);
            double worst = 0.0;
            for (int i = 0; i < N_FAR * N_SIZE; i++) {
                double want[MAX_OUT];
                ref_pair(&f, f.dx + i * f.s.dim, f.src + i * f.n_src, (double)f.strength[i], NULL, NULL,
                         want);
                for (int c = 0; c < f.n_comp; c++) {
                    double got = (double)out[i * f.n_comp + c];
                    assert_true(isfinite(got));
                    if (far[i % N_FAR] > 1e16f || size[i / N_FAR] > 2.0f) continue;
                    worst = fmax(worst, fabs(got - want[c]) / fmax(fabs(want[c]), f.scale[c]));
                }
            }
            assert_true(worst <= 5e-6); /* the same tolerance, of the ordinary pairs' maximum */
            ff_free(rec);
            ff_free(out);
            ff_globe_destroy_f32(&net);
            fixture_close(&f);
        }
    }
    assert_int_equal(ff_globe_set_isa("auto"), FF_OK);
}

/* r^ = 0 with a smoothing radius that leaves the envelope far from zero: e_k counts as 0. */
static void coincident_points_have_no_e(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f, 10);
    memset(f.dx, 0, N_PAIR * 3 * sizeof(float));
    ff_globe_net_f32 *net = net_f32(&f);
    float *rec = records_f32(&f, net), *out = ff_mem_alloc((size_t)(N_PAIR * f.n_comp), sizeof(float));
    run_f32(&f, net, rec, NULL, N_PAIR, FF_GLOBE_TILE, out);
    double top = 0.0, worst = 0.0;
    for (int i = 0; i < N_PAIR; i++) {
        double want[MAX_OUT];
        ref_pair(&f, f.dx, f.src + i * f.n_src, (double)f.strength[i], NULL, NULL, want);
        for (int c = 0; c < f.n_comp; c++) {
            top = fmax(top, fabs(want[c]));
            worst = fmax(worst, fabs((double)out[i * f.n_comp + c] - want[c]));
        }
    }
    assert_true(top > 1e-3 && worst <= 5e-6 * top);
    ff_free(rec);
    ff_free(out);
    ff_globe_destroy_f32(&net);
    fixture_close(&f);
}

/* A NaN that enters (a broken latent, strength or weight) must come out, never be clamped away. */
static void nan_is_not_hidden(void **state)
{
    (void)state;
    for (int k = 0; k < N_ISA; k++) {
        if (ff_globe_set_isa(isa_names[k]) != FF_OK) continue;
        fixture f;
        fixture_open(&f, 1);
        f.src[0 * f.n_src + 2] = NAN;                 /* a scalar latent */
        f.src[1 * f.n_src + f.s.n_sscalar + 4] = NAN; /* a component of a vector */
        f.dx[2 * 3 + 1] = NAN;
        f.strength[3] = NAN;
        ff_globe_net_f32 *net = net_f32(&f);
        float *rec = records_f32(&f, net), *out = ff_mem_alloc((size_t)(N_PAIR * f.n_comp), sizeof(float));
        run_f32(&f, net, rec, NULL, N_PAIR, FF_GLOBE_TILE, out);
        for (int i = 0; i < N_PAIR; i++) assert_int_equal(isnan(out[i * f.n_comp]) != 0, i < 4);
        ff_free(rec);
        ff_free(out);
        ff_globe_destroy_f32(&net);
        fixture_close(&f);
    }
    assert_int_equal(ff_globe_set_isa("auto"), FF_OK);
}

static void counts_are_those_of_the_wide_configuration(void **state)
{
    (void)state;
    int rank[14] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0};
    ff_globe_shape s = {.dim = 3,
                        .n_gscalar = 1,
                        .n_sscalar = 8,
                        .n_svector = 5,
                        .n_harm = 4,
                        .n_hidden = 3,
                        .hidden = {256, 256, 256},
                        .n_field = 14,
                        .field_rank = rank};
    assert_int_equal(ff_globe_n_in(&s), 75);
    assert_int_equal(ff_globe_n_coef(&s), 54);
    assert_int_equal(ff_globe_n_net_out(&s), 108);
    assert_int_equal(ff_globe_n_comp(&s), 22);
    assert_int_equal(ff_globe_n_source(&s), 23);
    assert_int_equal(ff_globe_pair_madds(&s), 21 * 256 + 2 * 256 * 256 + 256 * 108);
}

static void bad_shapes_are_refused(void **state)
{
    (void)state;
    for (int bad = 0; bad < 8; bad++) {
        fixture f;
        fixture_open(&f, 0);
        int rank[4] = {0, 0, bad == 0 ? 2 : 1, 1};
        f.s.field_rank = rank;
        if (bad == 1) f.s.dim = 4;
        if (bad == 2) f.s.n_hidden = 0;
        if (bad == 3) f.s.hidden[1] = 0;
        if (bad == 4) f.s.n_harm = -1;
        if (bad == 5) f.s.beta = NAN;
        if (bad == 6) f.length = 0.0;
        if (bad == 7) f.s.n_svector = FF_GLOBE_MAX_VEC + 1;
        ff_globe_net_f32 *net = NULL;
        ff_error_clear();
        assert_int_equal(ff_globe_create_f32(&f.s, (const float *const *)f.w, (const float *const *)f.b,
                                             f.gscalar, f.gvector, f.length, &net),
                         FF_E_ARG);
        assert_null(net);
        assert_non_null(strstr(ff_error_text(), "expected"));
        fixture_close(&f);
    }
    ff_error_clear();
    assert_int_equal(ff_globe_set_isa("mmx"), FF_E_ARG);
    ff_error_clear();
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f, 3);
    size_t blocks = ff_mem_blocks();
    for (int64_t n = 1;; n++) {
        ff_globe_net_f32 *net = NULL;
        ff_mem_fail_at(n);
        ff_status st = ff_globe_create_f32(&f.s, (const float *const *)f.w, (const float *const *)f.b,
                                           f.gscalar, f.gvector, f.length, &net);
        bool hit = ff_mem_fault_hit();
        ff_mem_fail_at(0);
        assert_int_equal(st, hit ? FF_E_MEM : FF_OK);
        ff_globe_destroy_f32(&net);
        assert_int_equal(ff_mem_blocks(), blocks);
        if (!hit) break;
        assert_true(n < 1000);
    }
    ff_error_clear();
    fixture_close(&f);
}

static int nothing_is_leaked(void **state)
{
    (void)state;
    return ff_mem_blocks() == 0 ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f32_matches_the_mathematics),
        cmocka_unit_test(f64_and_probe_match_the_mathematics),
        cmocka_unit_test(bits_do_not_depend_on_the_tile),
        cmocka_unit_test(records_do_not_depend_on_the_batch),
        cmocka_unit_test(avx2_and_avx512_agree),
        cmocka_unit_test(degenerate_pairs_are_finite),
        cmocka_unit_test(coincident_points_have_no_e),
        cmocka_unit_test(nan_is_not_hidden),
        cmocka_unit_test(counts_are_those_of_the_wide_configuration),
        cmocka_unit_test(bad_shapes_are_refused),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, nothing_is_leaked);
}
