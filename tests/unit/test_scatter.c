/* Zonal scatter: CSR, outputs equal to the bit with stored messages added in order, gradients, views, bad input. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ff_log.h"
#include "ff_mem.h"
#include "ff_rng.h"
#include "ff_scatter.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

enum { SEED = 31 };

#define FF_T(name) name##_f32
#define real       float
#include "scatter_case_impl.h"
#undef FF_T
#undef real

#define FF_T(name) name##_f64
#define real       double
#include "scatter_case_impl.h"
#undef FF_T
#undef real

/* ---- CSR ---- */

static void check_csr(const int64_t *dst, int64_t n_edges, int64_t n_nodes)
{
    ff_scatter_csr *csr = NULL;
    int sorted = 1;
    assert_int_equal(ff_scatter_csr_create(dst, n_edges, n_nodes, &csr), FF_OK);
    assert_int_equal(csr->off[0], 0);
    assert_int_equal(csr->off[n_nodes], n_edges);
    char *seen = calloc((size_t)n_edges + 1, 1);
    for (int64_t n = 0; n < n_nodes; n++)
        for (int64_t k = csr->off[n]; k < csr->off[n + 1]; k++) {
            assert_in_range(csr->edge[k], 0, n_edges - 1);
            assert_int_equal(dst[csr->edge[k]], n);
            assert_false(seen[csr->edge[k]]++);
            if (k > csr->off[n]) assert_true(csr->edge[k] > csr->edge[k - 1]); /* stable */
        }
    for (int64_t e = 0; e < n_edges; e++) {
        assert_int_equal(csr->dst[e], dst[e]);
        sorted = sorted && (e == 0 || dst[e] >= dst[e - 1]);
    }
    assert_int_equal(csr->sorted, sorted);
    free(seen);
    ff_scatter_csr_destroy(&csr);
    assert_null(csr);
}

static void edges_are_sorted_stably(void **state)
{
    (void)state;
    static const int64_t shape[][2] = {{0, 0},      {0, 5},       {1, 1},        {100, 7},
                                       {100, 1000}, {200000, 50}, {70000, 30000}};
    print_message("seed %d\n", SEED);
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
        for (int k = 0; k < 6; k++) {
            int64_t n_edges = shape[i][0], n_nodes = shape[i][1];
            int64_t *dst = calloc((size_t)n_edges + 1, sizeof *dst);
            omp_set_num_threads(1 + k / 2);
            for (int64_t e = 0; e < n_edges; e++)
                dst[e] = k % 2 ? e * n_nodes / n_edges
                               : (int64_t)(ff_rng_uniform(SEED, (uint64_t)i, (uint64_t)e) * (double)n_nodes);
            check_csr(dst, n_edges, n_nodes);
            free(dst);
        }
    omp_set_num_threads(2);
}

static void narrow_and_wide_node_numbers_agree(void **state)
{
    (void)state;
    const int64_t wide[] = {3, 0, 3, 2, 0};
    const int32_t narrow[] = {3, 0, 3, 2, 0};
    ff_scatter_csr *a = NULL, *b = NULL;
    assert_int_equal(ff_scatter_csr_create(wide, 5, 5, &a), FF_OK);
    assert_int_equal(ff_scatter_csr_create_i32(narrow, 5, 5, &b), FF_OK);
    assert_memory_equal(a->off, b->off, 6 * sizeof *a->off);
    assert_memory_equal(a->edge, b->edge, 5 * sizeof *a->edge);
    ff_scatter_csr_destroy(&a);
    ff_scatter_csr_destroy(&b);
}

static void expect_csr_refused(const int64_t *dst, int64_t n_edges, int64_t n_nodes, const char *text)
{
    ff_scatter_csr *csr = (ff_scatter_csr *)&csr;
    ff_error_clear();
    assert_int_equal(ff_scatter_csr_create(dst, n_edges, n_nodes, &csr), FF_E_ARG);
    assert_null(csr);
    if (strstr(ff_error_text(), text) == NULL) fail_msg("\"%s\" lacks \"%s\"", ff_error_text(), text);
}

static void bad_destinations_are_refused(void **state)
{
    (void)state;
    const int64_t high[] = {0, 1, 4, 9}, low[] = {0, -1, 2, -7}, huge[] = {INT64_C(1) << 32};
    expect_csr_refused(high, 4, 4, "dst[2] = 4, expected 0 to 3");
    expect_csr_refused(low, 4, 4, "dst[1] = -1");
    expect_csr_refused(huge, 1, 4, "dst[0] = 4294967296");
    expect_csr_refused(high, 1, 0, "dst[0] = 0");
    expect_csr_refused(NULL, 1, 4, "dst is NULL");
    expect_csr_refused(high, -1, 4, "n_edges = -1");
    expect_csr_refused(high, 1, -4, "n_nodes = -4");
    expect_csr_refused(high, 1, INT64_C(1) << 40, "n_nodes");
    assert_int_equal(ff_scatter_csr_create(high, 1, 1, NULL), FF_E_ARG);
    assert_int_equal(ff_mem_blocks(), 0);
}

/* ---- outputs and gradients over shapes ---- */

static const struct {
    int64_t n_nodes, n_edges, n_channels;
    int lmax;
} shapes[] = {{7, 60, 1, 3},    {7, 61, 3, 2},   {20, 90, 33, 3}, {20, 90, 40, 3},  {9, 70, 100, 4},
              {12, 500, 32, 3}, {5, 40, 24, 5},  {6, 50, 17, 6},  {10, 90, 8, 1},   {5, 0, 16, 3},
              {0, 0, 4, 2},     {1, 300, 20, 3}, {90, 30, 31, 1}, {300, 3000, 5, 2}};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

static void outputs_equal_stored_messages_to_the_bit(void **state)
{
    (void)state;
    for (int i = 0; i < N_SHAPES; i++) {
        arrays_f32 a = make_f32(shapes[i].n_nodes, shapes[i].n_edges, shapes[i].n_channels, shapes[i].lmax);
        arrays_f64 b = make_f64(shapes[i].n_nodes, shapes[i].n_edges, shapes[i].n_channels, shapes[i].lmax);
        for (int isa = 0; isa <= 2; isa++)
            for (int variant = 0; variant < 8; variant++) {
                (void)ff_scatter_isa_limit(isa);
                omp_set_num_threads(1 + variant % 3);
                check_forward_f32(&a, variant);
                check_forward_f64(&b, variant);
            }
        drop_f32(&a), drop_f64(&b);
    }
    (void)ff_scatter_isa_limit(2);
    omp_set_num_threads(2);
}

/* A node with most of the edges is shared out by degree. */
static void a_heavy_node_is_shared_and_keeps_its_bits(void **state)
{
    (void)state;
    arrays_f64 a = make_f64(6, 12000, 6, 4);
    for (int64_t e = 0; e < a.s.n_edges; e++)
        if (e % 13 != 0) a.dst[e] = 3;
    for (int threads = 1; threads <= 3; threads++) {
        omp_set_num_threads(threads);
        check_forward_f64(&a, 7);
    }
    omp_set_num_threads(2);
    drop_f64(&a);
}

/* Largest difference as a share of the array's maximum; arrays without gradient stay at 77. */
static double grad_error(const grads_f64 *a, const grads_f64 *b, int q)
{
    double worst = 0, most = 0;
    for (int64_t k = 0; k < a->n[q]; k++) {
        worst = fmax(worst, fabs(a->g[q][k] - b->g[q][k]));
        most = fmax(most, fabs(b->g[q][k]));
    }
    return worst > 0 ? worst / most : 0;
}

/* Float32 against float64: the specification's 1e-6 of the maximum, 5e-5 for inv_sqrt_deg. The two paths in float64:
 * sums of up to 100 channels in another order, 1e-13. */
static void paths_and_precisions_agree_on_gradients(void **state)
{
    (void)state;
    double used32 = 0, used64 = 0;
    for (int i = 0; i < N_SHAPES; i++) {
        arrays_f32 a = make_f32(shapes[i].n_nodes, shapes[i].n_edges, shapes[i].n_channels, shapes[i].lmax);
        arrays_f64 b = make_f64(shapes[i].n_nodes, shapes[i].n_edges, shapes[i].n_channels, shapes[i].lmax);
        for (int variant = 0; variant < 8; variant++) {
            ff_scatter_in_f32 in32 = inputs_f32(&a, variant);
            ff_scatter_in_f64 in64 = inputs_f64(&b, variant);
            grads_f64 ref = gradients_f64(&b, &in64, FF_SCATTER_REFERENCE, 31);
            grads_f64 fused = gradients_f64(&b, &in64, FF_SCATTER_FUSED, 31);
            for (int path = 0; path < 2; path++) {
                grads_f32 g = gradients_f32(&a, &in32, (ff_scatter_path)path, 31);
                grads_f64 wide = {.n = {g.n[0], g.n[1], g.n[2], g.n[3], g.n[4]}};
                for (int q = 0; q < 5; q++) {
                    wide.g[q] = calloc((size_t)g.n[q] + 1, sizeof(double));
                    for (int64_t k = 0; k < g.n[q]; k++) wide.g[q][k] = (double)g.g[q][k];
                    used32 = fmax(used32, grad_error(&wide, &ref, q) / (q == 4 ? 5e-5 : 1e-6));
                }
                drop_grads_f64(&wide), drop_grads_f32(&g);
            }
            for (int q = 0; q < 5; q++) used64 = fmax(used64, grad_error(&fused, &ref, q) / 1e-13);
            drop_grads_f64(&ref), drop_grads_f64(&fused);
        }
        drop_f32(&a), drop_f64(&b);
    }
    print_message("float32 used %.2f of its tolerance, float64 %.2f of 1e-13\n", used32, used64);
    assert_true(used32 <= 1 && used64 <= 1);
}

static double loss(const arrays_f64 *a, const ff_scatter_in_f64 *in)
{
    ff_scatter_csr *csr = csr_of_f64(a);
    double sum = 0, *out = guarded_f64(a->n_out);
    assert_int_equal(ff_scatter_forward_f64(csr, &a->s, in, FF_SCATTER_FUSED, out), FF_OK);
    for (int64_t i = 0; i < a->n_out; i++) sum += a->cot[i] * out[i];
    free(out);
    ff_scatter_csr_destroy(&csr);
    return sum;
}

/* The loss is linear in each input by itself, so a difference quotient of any width is exact up to rounding. */
static void gradients_match_central_differences(void **state)
{
    (void)state;
    arrays_f64 a = make_f64(9, 80, 21, 4);
    ff_scatter_in_f64 in = inputs_f64(&a, 7);
    double *const input[5] = {a.coupling, a.radial, a.spin, a.gate, a.deg}, worst = 0;
    for (int path = 0; path < 2; path++) {
        grads_f64 g = gradients_f64(&a, &in, (ff_scatter_path)path, 31);
        for (int q = 0; q < 5; q++) {
            double expected = 0, size = 0, *step = drawn_f64(g.n[q], (uint64_t)(20 + q));
            for (int64_t k = 0; k < g.n[q]; k++) expected += step[k] * g.g[q][k];
            for (int64_t k = 0; k < g.n[q]; k++) size += fabs(step[k] * g.g[q][k]);
            for (int64_t k = 0; k < g.n[q]; k++) input[q][k] += step[k];
            double up = loss(&a, &in);
            for (int64_t k = 0; k < g.n[q]; k++) input[q][k] -= 2 * step[k];
            double down = loss(&a, &in);
            for (int64_t k = 0; k < g.n[q]; k++) input[q][k] += step[k];
            worst = fmax(worst, fabs((up - down) / 2 - expected) / size);
            free(step);
        }
        drop_grads_f64(&g);
    }
    /* Rounding of sums of 80 x 24 x 21 terms: about sqrt(4e4) * 1e-16, and some room. */
    print_message("used %.3f of 1e-12\n", worst / 1e-12);
    assert_true(worst <= 1e-12);
    drop_f64(&a);
}

static void gradients_do_not_know_threads_or_instructions(void **state)
{
    (void)state;
    arrays_f32 a = make_f32(30, 2000, 45, 3);
    ff_scatter_in_f32 in = inputs_f32(&a, 7);
    grads_f32 first = gradients_f32(&a, &in, FF_SCATTER_FUSED, 31);
    for (int isa = 0; isa <= 2; isa++)
        for (int threads = 1; threads <= 3; threads++) {
            (void)ff_scatter_isa_limit(isa);
            omp_set_num_threads(threads);
            grads_f32 g = gradients_f32(&a, &in, FF_SCATTER_FUSED, 31);
            for (int q = 0; q < 5; q++) same_f32(g.g[q], first.g[q], g.n[q]);
            drop_grads_f32(&g);
        }
    (void)ff_scatter_isa_limit(2);
    omp_set_num_threads(2);
    drop_grads_f32(&first), drop_f32(&a);
}

/* Any choice of wanted gradients gives the values that asking for all gives, and touches no other array. */
static void only_wanted_gradients_are_written(void **state)
{
    (void)state;
    arrays_f64 a = make_f64(9, 80, 21, 3);
    ff_scatter_in_f64 in = inputs_f64(&a, 7);
    for (int path = 0; path < 2; path++) {
        grads_f64 all = gradients_f64(&a, &in, (ff_scatter_path)path, 31);
        for (int want = 0; want < 31; want++) {
            grads_f64 g = gradients_f64(&a, &in, (ff_scatter_path)path, want);
            for (int q = 0; q < 5; q++)
                if (want >> q & 1)
                    same_f64(g.g[q], all.g[q], g.n[q]);
                else
                    for (int64_t k = 0; k < g.n[q]; k++) assert_true(g.g[q][k] == 77);
            drop_grads_f64(&g);
        }
        drop_grads_f64(&all);
    }
    drop_f64(&a);
}

/* ---- views ---- */

/* radial inside a larger array full of NaN: what is read beyond the view shows in the result. */
static void sliced_radial_features_need_no_copy(void **state)
{
    (void)state;
    arrays_f64 a = make_f64(11, 90, 13, 3);
    const int64_t e = a.s.n_edges, c = a.s.n_channels, lmax = a.s.lmax;
    ff_scatter_in_f64 plain = inputs_f64(&a, 7), view = plain;
    ff_scatter_csr *csr = csr_of_f64(&a);
    double *expected = oracle_f64(&a, 7), *out = guarded_f64(a.n_out);
    grads_f64 whole[2] = {gradients_f64(&a, &plain, FF_SCATTER_REFERENCE, 31),
                          gradients_f64(&a, &plain, FF_SCATTER_FUSED, 31)};
    for (int step = 1; step <= 2; step++) { /* step 2: every other channel, the reference's */
        int64_t stride[3] = {(lmax + 2) * (step * c + 5), step * c + 5, step}, first = stride[1] + 2;
        double *large = malloc((size_t)(e * stride[0]) * sizeof *large);
        for (int64_t i = 0; i < e * stride[0]; i++) large[i] = (double)NAN;
        for (int64_t i = 0; i < e * lmax * c; i++)
            large[first + i / (lmax * c) * stride[0] + i / c % lmax * stride[1] + i % c * stride[2]] =
                a.radial[i];
        view.radial = large + first;
        memcpy(view.radial_stride, stride, sizeof stride);
        for (int path = 0; path < 2; path++) {
            assert_int_equal(ff_scatter_forward_f64(csr, &a.s, &view, (ff_scatter_path)path, out), FF_OK);
            same_f64(out, expected, a.n_out);
            grads_f64 g = gradients_f64(&a, &view, (ff_scatter_path)path, 31);
            for (int q = 0; q < 5; q++) same_f64(g.g[q], whole[step == 1 ? path : 0].g[q], g.n[q]);
            drop_grads_f64(&g);
        }
        free(large);
    }
    drop_grads_f64(&whole[0]), drop_grads_f64(&whole[1]);
    free(expected), free(out);
    ff_scatter_csr_destroy(&csr);
    drop_f64(&a);
}

/* ---- bad input ---- */

static void expect_text(ff_status st, const char *text)
{
    assert_int_equal(st, FF_E_ARG);
    if (strstr(ff_error_text(), text) == NULL) fail_msg("\"%s\" lacks \"%s\"", ff_error_text(), text);
    ff_error_clear();
}

static void bad_arguments_are_refused_and_nothing_is_written(void **state)
{
    (void)state;
    arrays_f32 a = make_f32(9, 80, 21, 3);
    ff_scatter_csr *csr = csr_of_f32(&a);
    const ff_scatter_in_f32 in = inputs_f32(&a, 0);
    float *out = guarded_f32(a.n_out);
    for (int64_t i = 0; i < a.n_out; i++) out[i] = 77;
    ff_error_clear();
    for (int p = 0; p < 2; p++) {
        ff_scatter_path path = (ff_scatter_path)p;
        ff_scatter_shape s = a.s;
        ff_scatter_in_f32 bad = in;
        expect_text(ff_scatter_forward_f32(NULL, &s, &in, path, out), "csr is NULL");
        expect_text(ff_scatter_forward_f32(csr, NULL, &in, path, out), "shape is NULL");
        expect_text(ff_scatter_forward_f32(csr, &s, NULL, path, out), "FF_SCATTER_IN_F32 is NULL");
        expect_text(ff_scatter_forward_f32(csr, &s, &in, path, NULL), "out is NULL");
        s.n_nodes++, expect_text(ff_scatter_forward_f32(csr, &s, &in, path, out), "n_nodes = 10"), s = a.s;
        s.n_edges--, expect_text(ff_scatter_forward_f32(csr, &s, &in, path, out), "n_edges = 79"), s = a.s;
        s.lmax = 0, expect_text(ff_scatter_forward_f32(csr, &s, &in, path, out), "lmax = 0"), s = a.s;
        s.lmax = 7, expect_text(ff_scatter_forward_f32(csr, &s, &in, path, out), "lmax = 7"), s = a.s;
        s.n_channels = 0, expect_text(ff_scatter_forward_f32(csr, &s, &in, path, out), "n_channels = 0"),
        s = a.s;
        bad.coupling = NULL,
        expect_text(ff_scatter_forward_f32(csr, &s, &bad, path, out), "coupling is NULL");
        bad = in, bad.radial = NULL;
        expect_text(ff_scatter_forward_f32(csr, &s, &bad, path, out), "radial is NULL");
        bad = in, bad.size = 1000;
        expect_text(ff_scatter_forward_f32(csr, &s, &bad, path, out), "size = 1000");
        bad.size = 0, expect_text(ff_scatter_forward_f32(csr, &s, &bad, path, out), "size = 0");
        ff_scatter_grad_f32 d = FF_SCATTER_GRAD_F32_INIT;
        expect_text(ff_scatter_backward_f32(csr, &s, &in, path, NULL, &d), "cotangent is NULL");
        expect_text(ff_scatter_backward_f32(csr, &s, &in, path, a.cot, NULL), "FF_SCATTER_GRAD_F32 is NULL");
        d.gate = out, expect_text(ff_scatter_backward_f32(csr, &s, &in, path, a.cot, &d), "gradient of gate");
        d.gate = NULL, d.spin_l1 = out;
        expect_text(ff_scatter_backward_f32(csr, &s, &in, path, a.cot, &d), "gradient of spin_l1");
    }
    expect_text(ff_scatter_forward_f32(csr, &a.s, &in, (ff_scatter_path)5, out), "path = 5");
    for (int64_t i = 0; i < a.n_out; i++) assert_true(out[i] == 77);
    free(out);
    ff_scatter_csr_destroy(&csr);
    drop_f32(&a);
    assert_int_equal(ff_mem_blocks(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(edges_are_sorted_stably),
        cmocka_unit_test(narrow_and_wide_node_numbers_agree),
        cmocka_unit_test(bad_destinations_are_refused),
        cmocka_unit_test(outputs_equal_stored_messages_to_the_bit),
        cmocka_unit_test(a_heavy_node_is_shared_and_keeps_its_bits),
        cmocka_unit_test(paths_and_precisions_agree_on_gradients),
        cmocka_unit_test(gradients_match_central_differences),
        cmocka_unit_test(gradients_do_not_know_threads_or_instructions),
        cmocka_unit_test(only_wanted_gradients_are_written),
        cmocka_unit_test(sliced_radial_features_need_no_copy),
        cmocka_unit_test(bad_arguments_are_refused_and_nothing_is_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
