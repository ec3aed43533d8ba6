/* Adjoint of the GLOBE pair kernel: float64 against central differences for everything it differentiates; float32 on
 * every instruction set against float64; bits that must not depend on lane or tile. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "globe_reference.h"

enum { PAIRS = 61 }; /* a full tile and a part of one */

/* Inputs in double, and all cotangents. */
typedef struct problem {
    fixture f;
    double *dx, *src, *strength, *cot; /* [PAIRS] rows */
} problem;

typedef struct bars {
    double *w[FF_GLOBE_MAX_LAYERS + 1], *b[FF_GLOBE_MAX_LAYERS + 1], *gscalar, *gvector, length, *dx, *src,
        *strength;
} bars;

static int n_rows_of(const ff_globe_shape *s, int l)
{
    return l == s->n_hidden ? ff_globe_n_net_out(s) : s->hidden[l];
}

static int n_cols_of(const ff_globe_shape *s, int l)
{
    return l == 0 ? ff_globe_n_in(s) : s->hidden[l - 1];
}

/* Weights on a grid of 2^-18, so that steps of a power of two are exact in float32. */
static void problem_open(problem *p, int row)
{
    fixture_open(&p->f, row);
    const ff_globe_shape *s = &p->f.s;
    for (int l = 0; l <= s->n_hidden; l++) {
        for (int i = 0; i < n_rows_of(s, l) * n_cols_of(s, l); i++)
            p->f.w[l][i] = (float)(round((double)p->f.w[l][i] * 0x1p18) * 0x1p-18);
        for (int i = 0; i < n_rows_of(s, l); i++)
            p->f.b[l][i] = (float)(round((double)p->f.b[l][i] * 0x1p18) * 0x1p-18);
    }
    p->dx = ff_mem_alloc((size_t)(PAIRS * s->dim), sizeof(double));
    p->src = ff_mem_alloc((size_t)(PAIRS * p->f.n_src) + 1, sizeof(double));
    p->strength = ff_mem_alloc(PAIRS, sizeof(double));
    p->cot = ff_mem_alloc((size_t)(PAIRS * p->f.n_comp), sizeof(double));
    for (int i = 0; i < PAIRS * s->dim; i++) p->dx[i] = (double)p->f.dx[i];
    for (int i = 0; i < PAIRS * p->f.n_src; i++) p->src[i] = (double)p->f.src[i];
    for (int i = 0; i < PAIRS; i++) p->strength[i] = (double)p->f.strength[i];
    for (int i = 0; i < PAIRS * p->f.n_comp; i++) p->cot[i] = (double)(float)draw(7000, (uint64_t)i);
}

static void problem_close(problem *p)
{
    ff_free(p->dx);
    ff_free(p->src);
    ff_free(p->strength);
    ff_free(p->cot);
    fixture_close(&p->f);
}

static void bars_open(const problem *p, bars *b)
{
    const ff_globe_shape *s = &p->f.s;
    memset(b, 0, sizeof *b);
    for (int l = 0; l <= s->n_hidden; l++) {
        b->w[l] = ff_mem_alloc((size_t)(n_rows_of(s, l) * n_cols_of(s, l)), sizeof(double));
        b->b[l] = ff_mem_alloc((size_t)n_rows_of(s, l), sizeof(double));
        for (int i = 0; i < n_rows_of(s, l) * n_cols_of(s, l); i++)
            b->w[l][i] = NAN; /* all must be written */
    }
    b->gscalar = ff_mem_alloc0((size_t)s->n_gscalar + 1, sizeof(double));
    b->gvector = ff_mem_alloc0((size_t)(s->n_gvector * s->dim) + 1, sizeof(double));
    b->dx = ff_mem_alloc((size_t)(PAIRS * s->dim), sizeof(double));
    b->src = ff_mem_alloc((size_t)(PAIRS * p->f.n_src) + 1, sizeof(double));
    b->strength = ff_mem_alloc(PAIRS, sizeof(double));
}

static void bars_close(bars *b)
{
    for (int l = 0; l <= FF_GLOBE_MAX_LAYERS; l++) {
        ff_free(b->w[l]);
        ff_free(b->b[l]);
    }
    ff_free(b->gscalar);
    ff_free(b->gvector);
    ff_free(b->dx);
    ff_free(b->src);
    ff_free(b->strength);
}

/* The whole adjoint in precision T, in tiles of the given size. */
#define ADJOINT(T, real)                                                                                     \
    static void adjoint_##T(const problem *p, int tile, bars *out, real *packed_out)                         \
    {                                                                                                        \
        const fixture *f = &p->f;                                                                            \
        ff_globe_net_##T *net = NULL;                                                                        \
        assert_int_equal(ff_globe_create_##T(&f->s, (const float *const *)f->w, (const float *const *)f->b,  \
                                             f->gscalar, f->gvector, f->length, &net),                       \
                         FF_OK);                                                                             \
        assert_int_equal(ff_globe_adjoint_prepare_##T(net), FF_OK);                                          \
        size_t len = ff_globe_record_len_##T(net), n_grad = ff_globe_grad_len_##T(net);                      \
        size_t n_scratch = ff_globe_adjoint_scratch_len_##T(net);                                            \
        int dim = f->s.dim, n_src = f->n_src, n_comp = f->n_comp;                                            \
        real *rec = ff_mem_alloc(PAIRS * len, sizeof(real)), *grad = ff_mem_alloc0(n_grad, sizeof(real));    \
        real *src = ff_mem_alloc((size_t)(PAIRS * n_src) + 1, sizeof(real));                                 \
        real *scratch = ff_mem_alloc(n_scratch, sizeof(real));                                               \
        double *packed = ff_mem_alloc(n_grad, sizeof(double));                                               \
        memset(scratch, 0xff, n_scratch * sizeof(real));                                                     \
        for (int i = 0; i < PAIRS * n_src; i++) src[i] = (real)p->src[i];                                    \
        ff_globe_records_##T(net, PAIRS, src, rec);                                                          \
        for (int i0 = 0; i0 < PAIRS; i0 += tile) {                                                           \
            int n = PAIRS - i0 < tile ? PAIRS - i0 : tile;                                                   \
            real dx[FF_GLOBE_TILE * 3], strength[FF_GLOBE_TILE], cot[FF_GLOBE_TILE * MAX_OUT];               \
            real dx_bar[FF_GLOBE_TILE * 3], strength_bar[FF_GLOBE_TILE];                                     \
            const real *r[FF_GLOBE_TILE];                                                                    \
            real *rec_bar = ff_mem_alloc(FF_GLOBE_TILE * len, sizeof(real));                                 \
            real *src_bar = ff_mem_alloc((size_t)(FF_GLOBE_TILE * n_src) + 1, sizeof(real));                 \
            for (int i = 0; i < n; i++) {                                                                    \
                for (int c = 0; c < dim; c++) dx[i * dim + c] = (real)p->dx[(i0 + i) * dim + c];             \
                for (int c = 0; c < n_comp; c++) cot[i * n_comp + c] = (real)p->cot[(i0 + i) * n_comp + c];  \
                strength[i] = (real)p->strength[i0 + i];                                                     \
                r[i] = rec + (size_t)(i0 + i) * len;                                                         \
            }                                                                                                \
            ff_globe_tile_adjoint_##T(net, n, dx, r, strength, cot, rec_bar, strength_bar, dx_bar, grad,     \
                                      scratch);                                                              \
            ff_globe_records_adjoint_##T(net, n, src + i0 * n_src, rec_bar, src_bar, grad, scratch);         \
            for (int i = 0; i < n * dim; i++) out->dx[i0 * dim + i] = (double)dx_bar[i];                     \
            for (int i = 0; i < n * n_src; i++) out->src[i0 * n_src + i] = (double)src_bar[i];               \
            for (int i = 0; i < n; i++) out->strength[i0 + i] = (double)strength_bar[i];                     \
            ff_free(rec_bar);                                                                                \
            ff_free(src_bar);                                                                                \
        }                                                                                                    \
        for (size_t i = 0; i < n_grad; i++) packed[i] = (double)grad[i];                                     \
        if (packed_out != NULL) memcpy(packed_out, grad, n_grad * sizeof(real));                             \
        assert_int_equal(                                                                                    \
            ff_globe_unpack_##T(net, packed, out->w, out->b, out->gscalar, out->gvector, &out->length),      \
            FF_OK);                                                                                          \
        ff_free(rec);                                                                                        \
        ff_free(grad);                                                                                       \
        ff_free(src);                                                                                        \
        ff_free(scratch);                                                                                    \
        ff_free(packed);                                                                                     \
        ff_globe_destroy_##T(&net);                                                                          \
    }
ADJOINT(f32, float)
ADJOINT(f64, double)

static double loss(const problem *p)
{
    const fixture *f = &p->f;
    ff_globe_net_f64 *net = NULL;
    assert_int_equal(ff_globe_create_f64(&f->s, (const float *const *)f->w, (const float *const *)f->b,
                                         f->gscalar, f->gvector, f->length, &net),
                     FF_OK);
    size_t len = ff_globe_record_len_f64(net);
    double *rec = ff_mem_alloc(PAIRS * len, sizeof(double));
    double *scratch = ff_mem_alloc(ff_globe_scratch_len_f64(net), sizeof(double)), sum = 0;
    ff_globe_records_f64(net, PAIRS, p->src, rec);
    for (int i0 = 0; i0 < PAIRS; i0 += FF_GLOBE_TILE) {
        int n = PAIRS - i0 < FF_GLOBE_TILE ? PAIRS - i0 : FF_GLOBE_TILE;
        double out[FF_GLOBE_TILE * MAX_OUT];
        const double *r[FF_GLOBE_TILE];
        for (int i = 0; i < n; i++) r[i] = rec + (size_t)(i0 + i) * len;
        ff_globe_tile_f64(net, n, p->dx + i0 * f->s.dim, r, p->strength + i0, out, scratch);
        for (int i = 0; i < n * f->n_comp; i++) sum += out[i] * p->cot[i0 * f->n_comp + i];
    }
    ff_free(rec);
    ff_free(scratch);
    ff_globe_destroy_f64(&net);
    return sum;
}

/* Fourth-order central difference in *x (float or double), step h. */
static double difference(const problem *p, float *xf, double *xd, double h)
{
    static const double step[4] = {-2, -1, 1, 2}, weight[4] = {1, -8, 8, -1};
    double x0 = xf != NULL ? (double)*xf : *xd, sum = 0;
    for (int k = 0; k < 4; k++) {
        if (xf != NULL)
            *xf = (float)(x0 + step[k] * h);
        else
            *xd = x0 + step[k] * h;
        sum += weight[k] * loss(p);
    }
    if (xf != NULL)
        *xf = (float)x0;
    else
        *xd = x0;
    return sum / (12 * h);
}

static double largest(const double *v, int n)
{
    double m = 0;
    for (int i = 0; i < n; i++) m = fmax(m, fabs(v[i]));
    return m;
}

typedef struct verdict {
    const char *name;
    double worst, limit;
} verdict;

/* Up to 5 entries of one array, drawn from id. */
static void check_array(verdict *t, const problem *p, const char *what, uint64_t id, float *xf, double *xd,
                        int n, const double *bar, double h)
{
    double scale = largest(bar, n);
    for (int k = 0; k < 5 && k < n; k++) {
        int i = n <= 5 ? k : (int)(ff_rng_uniform(SEED, 9000 + id, (uint64_t)k) * n);
        double step = xf != NULL || h < 0 ? fabs(h) : h * fmax(fabs(xd[i]), 1e-6);
        double want = difference(p, xf != NULL ? xf + i : NULL, xf != NULL ? NULL : xd + i, step);
        double err = fabs(bar[i] - want) / (scale + 1e-300);
        if (!(err <= t->limit))
            printf("%s: %s[%d] = %.10g, differences %.10g\n", t->name, what, i, bar[i], want);
        t->worst = err > t->worst || isnan(err) ? err : t->worst;
    }
}

static void f64_matches_central_differences(void **state)
{
    (void)state;
    for (int row = 0; row < N_ROW; row++) {
        problem p;
        bars b;
        verdict t = {table[row].name, 0,
                     1e-6}; /* sign(a) a^2 has a kink in its second derivative: error of order h */
        problem_open(&p, row);
        bars_open(&p, &b);
        adjoint_f64(&p, FF_GLOBE_TILE, &b, NULL);
        const ff_globe_shape *s = &p.f.s;
        for (int l = 0; l <= s->n_hidden; l++) {
            int rows = n_rows_of(s, l), cols = n_cols_of(s, l);
            check_array(&t, &p, "weight", (uint64_t)(100 * row + l), p.f.w[l], NULL, rows * cols, b.w[l],
                        0x1p-15);
            check_array(&t, &p, "bias", (uint64_t)(100 * row + 20 + l), p.f.b[l], NULL, rows, b.b[l],
                        0x1p-15);
        }
        check_array(&t, &p, "global scalar", (uint64_t)(100 * row + 40), NULL, p.f.gscalar, s->n_gscalar,
                    b.gscalar, -1e-5);
        check_array(&t, &p, "global vector", (uint64_t)(100 * row + 41), NULL, p.f.gvector,
                    s->n_gvector * s->dim, b.gvector, -1e-5);
        check_array(&t, &p, "length", (uint64_t)(100 * row + 42), NULL, &p.f.length, 1, &b.length, 1e-5);
        check_array(&t, &p, "dx", (uint64_t)(100 * row + 43), NULL, p.dx, PAIRS * s->dim, b.dx, 1e-5);
        check_array(&t, &p, "source", (uint64_t)(100 * row + 44), NULL, p.src, PAIRS * p.f.n_src, b.src,
                    -1e-5);
        check_array(&t, &p, "strength", (uint64_t)(100 * row + 45), NULL, p.strength, PAIRS, b.strength,
                    1e-3);
        printf("seed %d, %s: used %.3f of %g\n", SEED, t.name, t.worst / t.limit, t.limit);
        assert_true(t.worst <= t.limit);
        bars_close(&b);
        problem_close(&p);
    }
}

static double compare(const double *a, const double *want, int n)
{
    double scale = largest(want, n), worst = 0;
    for (int i = 0; i < n; i++) {
        double e = fabs(a[i] - want[i]) / (scale + 1e-300);
        worst = e > worst || isnan(e) ? e : worst;
    }
    return worst;
}

static const char *const isa_names[] = {"avx512", "avx2", "generic"};

static void f32_matches_f64(void **state)
{
    (void)state;
    double limit = 5e-5; /* of the array's maximum: globe.md section 8 */
    for (int k = 0; k < 3; k++) {
        if (ff_globe_set_isa(isa_names[k]) != FF_OK) {
            ff_error_clear();
            continue;
        }
        for (int row = 0; row < N_ROW; row++) {
            problem p;
            bars a, b;
            problem_open(&p, row);
            const ff_globe_shape *s = &p.f.s;
            bars_open(&p, &a);
            bars_open(&p, &b);
            adjoint_f64(&p, FF_GLOBE_TILE, &b, NULL);
            adjoint_f32(&p, FF_GLOBE_TILE, &a, NULL);
            double worst = 0;
            for (int l = 0; l <= s->n_hidden; l++) {
                worst = fmax(worst, compare(a.w[l], b.w[l], n_rows_of(s, l) * n_cols_of(s, l)));
                worst = fmax(worst, compare(a.b[l], b.b[l], n_rows_of(s, l)));
            }
            worst = fmax(worst, compare(a.gscalar, b.gscalar, s->n_gscalar));
            worst = fmax(worst, compare(a.gvector, b.gvector, s->n_gvector * s->dim));
            worst = fmax(worst, compare(&a.length, &b.length, 1));
            worst = fmax(worst, compare(a.dx, b.dx, PAIRS * s->dim));
            worst = fmax(worst, compare(a.src, b.src, PAIRS * p.f.n_src));
            worst = fmax(worst, compare(a.strength, b.strength, PAIRS));
            printf("seed %d, %s, %s: used %.3f of %g\n", SEED, isa_names[k], table[row].name, worst / limit,
                   limit);
            assert_true(worst <= limit);
            bars_close(&a);
            bars_close(&b);
            problem_close(&p);
        }
    }
    assert_int_equal(ff_globe_set_isa("auto"), FF_OK);
}

/* Tiles of other sizes give the same cotangents of pairs to the bit, and since sums run pair by pair, the same weight
 * gradients of the pair layers too. */
static void bits_do_not_depend_on_the_tile(void **state)
{
    (void)state;
    for (int row = 0; row < N_ROW; row++) {
        problem p;
        bars a, b;
        problem_open(&p, row);
        bars_open(&p, &a);
        bars_open(&p, &b);
        adjoint_f32(&p, FF_GLOBE_TILE, &a, NULL);
        adjoint_f32(&p, 11, &b, NULL);
        assert_memory_equal(a.dx, b.dx, (size_t)(PAIRS * p.f.s.dim) * sizeof(double));
        assert_memory_equal(a.src, b.src, (size_t)(PAIRS * p.f.n_src) * sizeof(double));
        assert_memory_equal(a.strength, b.strength, PAIRS * sizeof(double));
        for (int l = 0; l <= p.f.s.n_hidden; l++)
            assert_memory_equal(a.w[l], b.w[l],
                                (size_t)(n_rows_of(&p.f.s, l) * n_cols_of(&p.f.s, l)) * sizeof(double));
        bars_close(&a);
        bars_close(&b);
        problem_close(&p);
    }
}

/* AVX2 and AVX-512 agree to the bit. */
static void wide_sets_give_equal_bits(void **state)
{
    (void)state;
    if (ff_globe_set_isa("avx512") != FF_OK || ff_globe_set_isa("avx2") != FF_OK) {
        ff_error_clear();
        skip();
    }
    for (int row = 0; row < N_ROW; row++) {
        problem p;
        bars a, b;
        float *ga, *gb;
        ff_globe_net_f32 *net = NULL;
        problem_open(&p, row);
        bars_open(&p, &a);
        bars_open(&p, &b);
        assert_int_equal(ff_globe_create_f32(&p.f.s, (const float *const *)p.f.w, (const float *const *)p.f.b,
                                             p.f.gscalar, p.f.gvector, p.f.length, &net),
                         FF_OK);
        size_t n = ff_globe_grad_len_f32(net);
        ga = ff_mem_alloc(n, sizeof *ga);
        gb = ff_mem_alloc(n, sizeof *gb);
        assert_int_equal(ff_globe_set_isa("avx512"), FF_OK);
        adjoint_f32(&p, FF_GLOBE_TILE, &a, ga);
        assert_int_equal(ff_globe_set_isa("avx2"), FF_OK);
        adjoint_f32(&p, FF_GLOBE_TILE, &b, gb);
        assert_memory_equal(ga, gb, n * sizeof *ga);
        assert_memory_equal(a.src, b.src, (size_t)(PAIRS * p.f.n_src) * sizeof(double));
        ff_free(ga);
        ff_free(gb);
        ff_globe_destroy_f32(&net);
        bars_close(&a);
        bars_close(&b);
        problem_close(&p);
    }
    assert_int_equal(ff_globe_set_isa("auto"), FF_OK);
}

/* Coincident points and zero vectors: finite, and no gradient from what the envelope switches off. */
static void degenerate_pairs_are_finite(void **state)
{
    (void)state;
    for (int row = 0; row < N_ROW; row++) {
        problem p;
        bars a;
        problem_open(&p, row);
        bars_open(&p, &a);
        memset(p.dx, 0, (size_t)(PAIRS * p.f.s.dim) * sizeof(double));
        for (int i = 0; i < p.f.n_src; i++) p.src[i] = 0;
        for (int c = 0; c < p.f.s.dim; c++) p.dx[5 * p.f.s.dim + c] = 1e30;
        adjoint_f32(&p, FF_GLOBE_TILE, &a, NULL);
        for (int i = 0; i < PAIRS * p.f.n_src; i++) assert_true(isfinite(a.src[i]));
        for (int i = 0; i < PAIRS * p.f.s.dim; i++) assert_true(isfinite(a.dx[i]));
        for (int l = 0; l <= p.f.s.n_hidden; l++)
            for (int i = 0; i < n_rows_of(&p.f.s, l) * n_cols_of(&p.f.s, l); i++)
                assert_true(isfinite(a.w[l][i]));
        bars_close(&a);
        problem_close(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f64_matches_central_differences), cmocka_unit_test(f32_matches_f64),
        cmocka_unit_test(bits_do_not_depend_on_the_tile),  cmocka_unit_test(wide_sets_give_equal_bits),
        cmocka_unit_test(degenerate_pairs_are_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
