/* GLOBE pair kernel against the plain double of globe_reference.h; bits that must not depend on lane, tile, batch or
 * instruction set; degenerate input; failures. */
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
