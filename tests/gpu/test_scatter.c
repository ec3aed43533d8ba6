/* Zonal scatter on the GPU against the CPU: CSR, outputs to the bit, gradients, views, long nodes, bad input.
 *   gpu_scatter [--small [TEST]]     fewer shapes, for compute-sanitizer; one test alone */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ff_gpu_test.h"
#include "ff_mem.h"
#include "ff_rng.h"
#include "ff_scatter.h"

#include <cuda_runtime_api.h>
#include <math.h>
#include <string.h>

enum { SEED = 47 };
static double worst[2]; /* largest share of a tolerance, float32 and float64 */
static int small;

#define CU(call)                                                                                             \
    do {                                                                                                     \
        cudaError_t cu_ = (call);                                                                            \
        if (cu_ != cudaSuccess) fail_msg("%s: %s", #call, cudaGetErrorString(cu_));                          \
    } while (0)

#define FF_T(name) name##_f32
#define real       float
#include "../unit/scatter_case_impl.h"
#include "scatter_gpu_impl.h"
#undef FF_T
#undef real

#define FF_T(name) name##_f64
#define real       double
#include "../unit/scatter_case_impl.h"
#include "scatter_gpu_impl.h"
#undef FF_T
#undef real

/* ---- CSR ---- */

static void check_csr(const int64_t *dst, int64_t n_edges, int64_t n_nodes)
{
    ff_scatter_csr *cpu = NULL, *gpu[2] = {NULL};
    int64_t *d64 = NULL, *off = calloc((size_t)n_nodes + 1, sizeof *off);
    int32_t *d32 = NULL, *narrow = calloc((size_t)n_edges + 1, sizeof *narrow);
    size_t e = (size_t)n_edges;
    for (size_t i = 0; i < e; i++) narrow[i] = (int32_t)dst[i];
    CU(cudaMalloc((void **)&d64, e * 8 + 1));
    CU(cudaMalloc((void **)&d32, e * 4 + 1));
    CU(cudaMemcpy(d64, dst, e * 8, cudaMemcpyHostToDevice));
    CU(cudaMemcpy(d32, narrow, e * 4, cudaMemcpyHostToDevice));
    assert_int_equal(ff_scatter_csr_create(dst, n_edges, n_nodes, &cpu), FF_OK);
    assert_int_equal(ff_scatter_csr_create_cuda(d64, n_edges, n_nodes, NULL, &gpu[0]), FF_OK);
    assert_int_equal(ff_scatter_csr_create_cuda_i32(d32, n_edges, n_nodes, NULL, &gpu[1]), FF_OK);
    for (int k = 0; k < 2; k++) {
        assert_int_equal(gpu[k]->n_edges, n_edges);
        assert_int_equal(gpu[k]->n_nodes, n_nodes);
        assert_int_equal(gpu[k]->sorted, cpu->sorted);
        CU(cudaMemcpy(off, gpu[k]->off, ((size_t)n_nodes + 1) * 8, cudaMemcpyDeviceToHost));
        assert_memory_equal(off, cpu->off, ((size_t)n_nodes + 1) * 8);
        CU(cudaMemcpy(narrow, gpu[k]->edge, e * 4, cudaMemcpyDeviceToHost));
        if (e > 0) assert_memory_equal(narrow, cpu->edge, e * 4);
        CU(cudaMemcpy(narrow, gpu[k]->dst, e * 4, cudaMemcpyDeviceToHost));
        if (e > 0) assert_memory_equal(narrow, cpu->dst, e * 4);
        ff_scatter_csr_destroy(&gpu[k]);
    }
    ff_scatter_csr_destroy(&cpu);
    CU(cudaFree(d64));
    CU(cudaFree(d32));
    free(off), free(narrow);
}

static void edges_are_sorted_as_on_the_cpu(void **state)
{
    (void)state;
    static const int64_t shape[][2] = {{0, 0},    {0, 5},      {1, 1},         {100, 7},
                                       {5000, 1}, {100, 1000}, {200000, 4097}, {70000, 30000}};
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
        for (int sorted = 0; sorted < 2; sorted++) {
            int64_t n_edges = shape[i][0], n_nodes = shape[i][1];
            int64_t *dst = calloc((size_t)n_edges + 1, sizeof *dst);
            for (int64_t e = 0; e < n_edges; e++)
                dst[e] = sorted ? e * n_nodes / n_edges
                                : (int64_t)(ff_rng_uniform(SEED, i, (uint64_t)e) * (double)n_nodes);
            check_csr(dst, n_edges, n_nodes);
            free(dst);
        }
}

/* ---- against the CPU ---- */

static void both_precisions(int64_t n_nodes, int64_t n_edges, int64_t n_chan, int lmax, int variant,
                            int64_t extra)
{
    arrays_f32 a = make_f32(n_nodes, n_edges, n_chan, lmax);
    arrays_f64 b = make_f64(n_nodes, n_edges, n_chan, lmax);
    gpu_against_cpu_f32(&a, variant, extra, 0);
    gpu_against_cpu_f64(&b, variant, extra, 0);
    drop_f32(&a), drop_f64(&b);
}

static void every_channel_count_and_degree(void **state)
{
    static const int64_t chan[] = {1, 3, 33, 40, 100, 4, 6, 32, 34, 64, 66, 128, 260};
    (void)state;
    print_message("seed %d\n", SEED);
    for (size_t c = 0; c < (small ? 5 : sizeof chan / sizeof *chan); c++)
        for (int lmax = 1; lmax <= 6; lmax++) {
            if (small && lmax % 3 != 0) continue;
            if (!small || lmax == 3) both_precisions(30, small ? 100 : 400, chan[c], lmax, 0, 0);
            both_precisions(30, small ? 100 : 400, chan[c], lmax, 7, 0);
        }
}

static void every_variant(void **state)
{
    (void)state;
    for (int variant = 1; variant < 7 && !small; variant++) {
        both_precisions(20, 200, 32, 3, variant, 0);
        both_precisions(20, 200, 5, 2, variant, 0);
    }
}

/* A view whose rows are 1, 2 or 4 elements apart: the width of an access is chosen by the alignment. */
static void views_of_radial_features(void **state)
{
    (void)state;
    for (int64_t extra = 1; extra <= 4; extra++) {
        both_precisions(20, 200, 32, 3, 0, extra);
        both_precisions(20, 200, 128, 2, 7, extra);
    }
}

/* Channels two elements apart in the first degree of a view. */
static void channels_apart_take_the_reference(void **state)
{
    (void)state;
    arrays_f64 a = make_f64(10, 100, 14, 1), half = make_f64(10, 100, 7, 1);
    dev_f64 d = upload_f64(&a, 0, 0);
    d.in.radial_stride[0] = 14, d.in.radial_stride[1] = 14, d.in.radial_stride[2] = 2;
    for (int64_t i = 0; i < half.n_radial; i++) half.radial[i] = a.radial[2 * i];
    memcpy(half.coupling, a.coupling, (size_t)(100 * half.n_rows) * sizeof *half.coupling);
    double *expected = oracle_f64(&half, 0), *out = gpu_forward_f64(&half, &d, FF_SCATTER_FUSED);
    same_f64(out, expected, half.n_out);
    free(expected), free(out);
    release_f64(&d);
    drop_f64(&a), drop_f64(&half);
}

static void no_edges_and_no_nodes(void **state)
{
    (void)state;
    both_precisions(5, 0, 32, 3, 0, 0);
    both_precisions(5, 0, 3, 2, 7, 0);
    both_precisions(0, 0, 32, 3, 7, 0);
    both_precisions(3000, 20, 32, 3, 7, 0); /* most nodes are empty */
}

/* float32 against the messages added in float64. */
static void near_float64(const arrays_f32 *a, const arrays_f64 *b, int variant)
{
    dev_f32 d = upload_f32(a, variant, 0);
    float *out = gpu_forward_f32(a, &d, FF_SCATTER_FUSED);
    double *expected = oracle_f64(b, variant), *wide = guarded_f64(a->n_out);
    for (int64_t i = 0; i < a->n_out; i++) wide[i] = (double)out[i];
    close_f64("out", wide, expected, a->n_out, 1e-6);
    free(out), free(expected), free(wide);
    release_f32(&d);
}

/* Nodes of 0, 1, 511, 512, 513 and 3000 edges. float64 and the reference keep the order of the edges. float32 adds
 * pieces of FF_SCATTER_PIECE, which is nearer to float64 (the specification's 1e-6) than the CPU's one long sum is:
 * that one is some sqrt(3000) 2^-24 = 3e-6 of its largest partial sum away, hence 1e-5 between the two. */
static void long_nodes(void **state)
{
    (void)state;
    static const int64_t degree[] = {0, 1, 511, 512, 513, 3000, 2, 1024};
    for (int variant = small ? 7 : 0; variant < 8; variant += 7)
        for (int64_t chan = 32; chan <= (small ? 33 : 36); chan++) {
            arrays_f32 a = make_f32(8, 5563, chan, 3);
            arrays_f64 b = make_f64(8, 5563, chan, 3), high = make_f64(8, 5563, 3, 6);
            int64_t at = 0;
            for (int64_t n = 0; n < 8; n++)
                for (int64_t k = 0; k < degree[n]; k++, at++)
                    a.dst[at * 2003 % 5563] = b.dst[at * 2003 % 5563] = high.dst[at * 2003 % 5563] = n;
            assert_int_equal(at, 5563);
            gpu_against_cpu_f32(&a, variant, 0, 1e-5);
            gpu_against_cpu_f64(&b, variant, 0, 0);
            if (chan == 32) gpu_against_cpu_f64(&high, variant, 0, 0);
            near_float64(&a, &b, variant);
            drop_f32(&a), drop_f64(&b), drop_f64(&high);
        }
}

/* Only what is wanted is written. */
static void wanted_gradients_only(void **state)
{
    (void)state;
    arrays_f32 a = make_f32(20, 200, 40, 3);
    dev_f32 d = upload_f32(&a, 7, 0);
    grads_f32 all = gpu_backward_f32(&a, &d, FF_SCATTER_FUSED, 31);
    for (int want = 0; want < 32; want += small ? 5 : 1) {
        grads_f32 some = gpu_backward_f32(&a, &d, FF_SCATTER_FUSED, want);
        for (int i = 0; i < 5; i++)
            for (int64_t k = 0; k < some.n[i]; k++)
                assert_true(some.g[i][k] == (want >> i & 1 ? all.g[i][k] : 77));
        drop_grads_f32(&some);
    }
    drop_grads_f32(&all);
    release_f32(&d);
    drop_f32(&a);
}

/* ---- bad input ---- */

static void expect_text(const char *part)
{
    if (strstr(ff_error_text(), part) == NULL)
        fail_msg("message \"%s\", expected \"%s\" in it", ff_error_text(), part);
    ff_error_clear();
}

static void bad_input_is_refused(void **state)
{
    (void)state;
    arrays_f32 a = make_f32(20, 200, 8, 2);
    dev_f32 d = upload_f32(&a, 0, 0);
    ff_scatter_csr *csr = NULL;
    float *out = poisoned_f32(a.n_out);
    const int64_t bad[] = {-1, 20, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int64_t save = a.dst[123];
        a.dst[123] = bad[i];
        CU(cudaMemcpy(d.block[0], a.dst, 200 * sizeof *a.dst, cudaMemcpyHostToDevice));
        assert_int_equal(ff_scatter_csr_create_cuda(d.block[0], 200, 20, NULL, &csr), FF_E_ARG);
        expect_text("dst[123] = ");
        assert_null(csr);
        a.dst[123] = save;
    }
    assert_int_equal(ff_scatter_csr_create_cuda(a.dst, 200, 20, NULL, &csr), FF_E_ARG);
    expect_text("dst is host memory");
    assert_int_equal(ff_scatter_csr_create_cuda(NULL, 200, 20, NULL, &csr), FF_E_ARG);
    expect_text("dst is NULL");
    assert_int_equal(ff_scatter_forward_f32(d.csr, &a.s, &d.in, FF_SCATTER_FUSED, a.cot), FF_E_ARG);
    expect_text("out is host memory");
    ff_scatter_shape s = a.s;
    s.n_edges--;
    assert_int_equal(ff_scatter_forward_f32(d.csr, &s, &d.in, FF_SCATTER_FUSED, out), FF_E_ARG);
    expect_text("n_edges = 199");
    free(fetched_f32(out, a.n_out));
    release_f32(&d);
    drop_f32(&a);
}

static void host_memory_balances(void **state)
{
    (void)state;
    assert_int_equal(ff_mem_blocks(), 0);
    print_message("used %.2f of the float32 and %.2f of the float64 tolerances\n", worst[0], worst[1]);
}

int main(int argc, char **argv)
{
    ff_gpu_or_skip(1);
    small = ff_gpu_small(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(edges_are_sorted_as_on_the_cpu),
        cmocka_unit_test(every_channel_count_and_degree),
        cmocka_unit_test(every_variant),
        cmocka_unit_test(views_of_radial_features),
        cmocka_unit_test(channels_apart_take_the_reference),
        cmocka_unit_test(no_edges_and_no_nodes),
        cmocka_unit_test(long_nodes),
        cmocka_unit_test(wanted_gradients_only),
        cmocka_unit_test(bad_input_is_refused),
        cmocka_unit_test(host_memory_balances),
    };
    return FF_GPU_RUN_TESTS(argc, argv, tests);
}
