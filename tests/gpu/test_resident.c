/* Whole evaluations on the device: the fields of the CPU in double, equal bits whatever the budget, the run or the
 * refresh, nothing left behind after failures. */
#include "ff_eval.h"
#include "ff_random_case.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include "ff_gpu_test.h"

#define HEAD                                                                                                 \
    "{\"n_spatial_dims\": 3, \"output_field_ranks\": {\"C_p\": 0, \"C_f\": 1},"                              \
    " \"boundary_source_data_ranks\": {\"body\": {\"b\": 0, \"v\": 1}, \"floor\": {}},"                      \
    " \"reference_length_names\": [\"L\", \"delta\"], \"hidden_layer_sizes\": [12, 9],"                      \
    " \"n_latent_scalars\": 3, \"n_latent_vectors\": 2"
#define FLAT                                                                                                 \
    "{\"n_spatial_dims\": 2, \"output_field_ranks\": {\"p\": 0, \"u\": 1},"                                  \
    " \"boundary_source_data_ranks\": {\"foil\": {}, \"far\": {}},"                                          \
    " \"reference_length_names\": [\"c\"], \"hidden_layer_sizes\": [16], \"n_latent_scalars\": 2,"           \
    " \"n_latent_vectors\": 13"

static const ff_random_shape shapes[] = {
    {HEAD ", \"theta\": 1.0, \"leaf_size\": 1, \"expand_far_targets\": true}", {400, 60, -1}, -1},
    {HEAD ", \"theta\": 1.0, \"leaf_size\": 1}", {400, 60, -1}, 80},
    {HEAD ", \"theta\": 1.0, \"leaf_size\": 1, \"latent_compression_scale\": 2.0}", {9000, 60, -1}, -1},
    {HEAD ", \"theta\": 1.7, \"leaf_size\": 4}", {350, 70, -1}, -1},
    {HEAD ", \"theta\": 1.7, \"leaf_size\": 4, \"n_communication_hyperlayers\": 0}", {350, 70, -1}, -1},
    {HEAD ", \"theta\": 1.3, \"leaf_size\": 5, \"expand_far_targets\": true}", {300, 0, -1}, 44},
    {HEAD ", \"theta\": 0.0, \"leaf_size\": 64}", {90, 20, -1}, 10},
    {HEAD ", \"theta\": 2.5, \"leaf_size\": 64}", {300, 20, -1}, -1},
    {HEAD ", \"theta\": 1.0, \"leaf_size\": 2}", {1, 1, -1}, 1},
    {HEAD ", \"theta\": 1.0}", {0, 0, -1}, 3},
    {FLAT ", \"theta\": 1.0, \"leaf_size\": 3}", {700, 50, -1}, -1},
};
enum { N_SHAPES = sizeof shapes / sizeof shapes[0] };

static ff_pair_backend *gpu;
static bool small;

/* Shape k; with --small of a fifth of the faces, of 600 where there are thousands. */
static ff_random_shape shape(int k)
{
    ff_random_shape s = shapes[k];
    for (int i = 0; i < 3 && small; i++)
        if (s.n_faces[i] > 50) s.n_faces[i] = s.n_faces[i] > 3000 ? 600 : s.n_faces[i] / 5;
    return s;
}

typedef struct result {
    double *v;
    int64_t n, pairs;
} result;

/* times 1: create, run; 2: run again; 3: refresh and run. */
static ff_status evaluate(const ff_random_shape *s, const ff_eval_opts *opts, int times, result *r)
{
    ff_random_case rc;
    ff_eval *e = NULL;
    *r = (result){NULL, 0, 0};
    ff_status st = ff_random_case_make(s, 5, 0, 1, &rc);
    if (st == FF_OK) r->n = rc.n_targets * (1 + rc.model->config->dim);
    if (st == FF_OK) st = FF_NEW(r->v, r->n + 1);
    if (st == FF_OK) st = ff_eval_create(ff_comm_self(), rc.c, opts, &e);
    for (int k = 1; k <= times && st == FF_OK; k++) {
        if (k == 3) st = ff_eval_refresh(e);
        if (st == FF_OK) st = ff_eval_run(e, r->v);
    }
    if (st == FF_OK) r->pairs = ff_eval_get_stats(e)->pairs;
    ff_eval_destroy(&e);
    ff_random_case_free(&rc);
    return st;
}

static bool same_bits(const result *a, const result *b)
{
    bool same = a->n == b->n;
    for (int64_t i = 0; same && i < a->n; i++) same = a->v[i] == b->v[i];
    return same;
}

static ff_eval_opts on_gpu(void)
{
    ff_eval_opts opts = FF_EVAL_OPTS_INIT;
    opts.backend = gpu;
    opts.device_only = true;
    return opts;
}

static void fields_are_those_of_the_cpu(void **state)
{
    (void)state;
    for (int k = 0; k < N_SHAPES; k += small ? 2 : 1) {
        const ff_random_shape s = shape(k);
        ff_eval_opts cpu = FF_EVAL_OPTS_INIT, device = on_gpu();
        result a, b;
        double worst = 0, top = 0;
        cpu.f64 = true;
        assert_int_equal(evaluate(&s, &cpu, 1, &a), FF_OK);
        assert_int_equal(evaluate(&s, &device, 1, &b), FF_OK);
        for (int64_t i = 0; i < a.n; i++) {
            worst = fmax(worst, fabs(a.v[i] - b.v[i]));
            top = fmax(top, fabs(a.v[i]));
        }
        /* float32 layers: the bound that holds for golden files (docs/measurements.md) */
        printf("shape %d: %lld pairs, difference %.1e of the largest value, used %.2f of 5e-6\n", k,
               (long long)b.pairs, top > 0 ? worst / top : 0, top > 0 ? worst / top / 5e-6 : 0);
        assert_true(b.pairs <= a.pairs); /* the CPU evaluates nodes that span tasks in each of them */
        assert_true(worst <= 5e-6 * top);
        ff_free(a.v);
        ff_free(b.v);
    }
}

static void bits_know_no_budget_run_or_refresh(void **state)
{
    (void)state;
    for (int k = small ? 3 : 0; k < N_SHAPES; k += small ? N_SHAPES : 1) {
        const ff_random_shape s = shape(k);
        ff_eval_opts device = on_gpu(), both = on_gpu();
        result once, more;
        both.device_only = false;
        assert_int_equal(evaluate(&s, &device, 1, &once), FF_OK);
        for (int times = small ? 3 : 2; times <= 3; times++) {
            assert_int_equal(evaluate(&s, &device, times, &more), FF_OK);
            assert_true(same_bits(&once, &more));
            ff_free(more.v);
        }
        assert_int_equal(evaluate(&s, &both, 1, &more), FF_OK);
        assert_true(same_bits(&once, &more));
        ff_free(more.v);
        /* lists at once, in a few chunks, in many, not at all */
        for (int64_t mib = small ? 16 : 256; mib >= 1; mib /= small ? 16 : 4) {
            ff_cuda_backend_set_budget(gpu, mib << 20);
            ff_error_clear();
            ff_status st = evaluate(&s, &device, small ? 1 : 3, &more);
            assert_true(st == FF_OK || (st == FF_E_MEM && mib < 64));
            if (st == FF_OK && !same_bits(&once, &more))
                fail_msg("shape %d, %lld MiB: other bits", k, (long long)mib);
            if (st == FF_OK) assert_true(more.pairs >= once.pairs); /* nodes that span chunks, likewise */
            ff_free(more.v);
        }
        ff_cuda_backend_set_budget(gpu, INT64_C(4) << 30);
        ff_free(once.v);
    }
    ff_error_clear();
}

static void failed_allocations_leave_nothing(void **state)
{
    (void)state;
    const ff_random_shape s = shape(3);
    const int times = small ? 1 : 3, fewer = small ? 2 : 30;
    ff_eval_opts opts = on_gpu();
    result whole;
    int64_t n = 0, runs = 0;
    assert_int_equal(evaluate(&s, &opts, times, &whole), FF_OK);
    const size_t before = ff_mem_blocks();
    for (bool hit = true; hit; n += 1 + n / fewer, runs++) {
        result r;
        ff_error_clear();
        ff_mem_fail_at(n + 1);
        ff_status st = evaluate(&s, &opts, times, &r);
        hit = ff_mem_fault_hit();
        ff_mem_fail_at(0);
        if (st == FF_OK) /* not hit, or lists that failed were made in chunks */
            assert_true(same_bits(&whole, &r));
        else
            assert_true(hit && st == FF_E_MEM);
        ff_free(r.v);
        assert_int_equal(ff_mem_blocks(), before);
    }
    ff_free(whole.v);
    printf("%lld runs up to allocation %lld\n", (long long)runs, (long long)n);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(fields_are_those_of_the_cpu),
                                       cmocka_unit_test(bits_know_no_budget_run_or_refresh),
                                       cmocka_unit_test(failed_allocations_leave_nothing)};
    ff_gpu_or_skip(1);
    small = ff_gpu_small(argc, argv);
    if (ff_cuda_backend_create(0, FF_CUDA_F32, &gpu) != FF_OK) return 1;
    ff_cuda_backend_set_budget(gpu, INT64_C(4) << 30);
    int failed = FF_GPU_RUN_TESTS(argc, argv, tests);
    ff_cuda_backend_destroy(&gpu);
    if (ff_mem_blocks() != 0) failed++;
    return failed;
}
