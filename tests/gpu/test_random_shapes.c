/* Whole layers on the GPU against the CPU's tiles, for networks whose every size is drawn at random: dimension, hidden
 * layers of different widths, harmonics, latents, lengths, kinds of interaction. The seed is printed with each case. */
#include "ff_eval.h"
#include "ff_gpu_test.h"
#include "ff_random_case.h"

enum { N_CASES = 24 };

static int draw(uint64_t seed, int what, int lo, int hi)
{
    int n = lo + (int)(ff_rng_uniform(seed, 77, (uint64_t)what) * (hi - lo + 1));
    return n > hi ? hi : n;
}

/* Model of case `seed` as JSON. Hidden sizes: half of the cases up to 64, the others up to 512. */
static void make_json(uint64_t seed, char *json, size_t size)
{
    char hidden[80] = "";
    int n = draw(seed, 0, 1, 4), most = draw(seed, 1, 0, 1) ? 512 : 64;
    for (int l = 0; l < n; l++) {
        size_t at = strlen(hidden);
        (void)snprintf(hidden + at, sizeof hidden - at, "%s%d", l > 0 ? ", " : "",
                       draw(seed, 10 + l, 1, most));
    }
    (void)snprintf(
        json, size,
        "{\"n_spatial_dims\": %d, \"output_field_ranks\": {\"C_p\": 0, \"C_f\": 1, \"k\": 0},"
        " \"boundary_source_data_ranks\": {\"body\": {\"b\": 0, \"v\": 1}, \"floor\": {}},"
        " \"global_data_ranks\": {\"alpha\": 0, \"wind\": 1},"
        " \"reference_length_names\": [\"L\"%s], \"hidden_layer_sizes\": [%s], \"network_type\": \"%s\","
        " \"n_latent_scalars\": %d, \"n_latent_vectors\": %d, \"n_spherical_harmonics\": %d,"
        " \"n_communication_hyperlayers\": %d, \"theta\": %.1f, \"leaf_size\": %d,"
        " \"expand_far_targets\": %s, \"self_regularization_beta\": %s}",
        draw(seed, 2, 2, 3), draw(seed, 3, 0, 1) ? ", \"delta\"" : "", hidden,
        draw(seed, 4, 0, 3) ? "pade" : "mlp", draw(seed, 5, 0, 13), draw(seed, 6, 0, 8), draw(seed, 7, 0, 7),
        draw(seed, 8, 0, 1), 0.5 * draw(seed, 9, 0, 4), draw(seed, 20, 1, 5),
        draw(seed, 21, 0, 1) ? "true" : "false", draw(seed, 22, 0, 1) ? "0.01" : "null");
}

static ff_status evaluate(const ff_random_shape *s, uint64_t seed, const ff_pair_backend *b, bool f64,
                          double **out, int64_t *n)
{
    ff_random_case rc;
    ff_eval *e = NULL;
    ff_eval_opts opts = FF_EVAL_OPTS_INIT;
    opts.backend = b;
    opts.f64 = f64;
    ff_status st = ff_random_case_make(s, seed, 0, 1, &rc);
    if (st == FF_OK) {
        *n = rc.n_targets * ff_names_comp(&rc.model->config->outputs, rc.model->config->dim);
        st = FF_NEW(*out, *n + 1);
    }
    if (st == FF_OK) st = ff_eval_create(ff_comm_self(), rc.c, &opts, &e);
    if (st == FF_OK) st = ff_eval_run(e, *out);
    ff_eval_destroy(&e);
    ff_random_case_free(&rc);
    return st;
}

static double error(const double *a, const double *ref, int64_t n)
{
    double worst = 0, top = 1e-300;
    for (int64_t i = 0; i < n; i++) {
        if (!(fabs(a[i] - ref[i]) <= worst)) worst = fabs(a[i] - ref[i]); /* NaN sticks */
        top = fmax(top, fabs(ref[i]));
    }
    return worst / top;
}

/* float32: as good as the CPU's float32, give or take the order of sums (random networks amplify rounding, so the CPU's
 * own error is the measure), and never worse than 5e-6 where the CPU is below 1e-6. TF32, bf16: 11 and 8 bits in up to
 * 5 products a layer and 2 layers. */
static int check(uint64_t seed, int precision, double err, double cpu)
{
    static const char *const name[] = {"f32", "tf32", "bf16"};
    double tol = precision == FF_CUDA_F32 ? fmax(5e-6, 5 * cpu) : precision == FF_CUDA_TF32 ? 2e-2 : 1.5e-1;
    bool ok = err <= tol;
    printf("seed %llu %-4s error %.2e, used %.2f of %.1e (CPU in float32: %.2e) %s\n",
           (unsigned long long)seed, name[precision], err, err / tol, tol, cpu, ok ? "ok" : "FAILED");
    return !ok;
}

/* only: this precision alone, -1: all. tiny: a few faces. */
static int run_case(uint64_t seed, int only, bool tiny)
{
    char json[1200];
    make_json(seed, json, sizeof json);
    ff_random_shape s = {json, {draw(seed, 30, 60, 160), draw(seed, 31, 1, 40), -1}, draw(seed, 32, 5, 60)};
    if (tiny) s = (ff_random_shape){json, {12, 3, -1}, 2};
    double *ref = NULL, *cpu = NULL, *gpu = NULL;
    int64_t n = 0;
    int bad = 0;
    printf("%s\n", json);
    ff_status st = evaluate(&s, seed, NULL, true, &ref, &n);
    if (st == FF_OK) st = evaluate(&s, seed, NULL, false, &cpu, &n);
    for (int p = FF_CUDA_F32; p <= FF_CUDA_BF16 && st == FF_OK; p++) {
        ff_pair_backend *b = NULL;
        if (only >= 0 && only != p) continue;
        st = ff_cuda_backend_create(0, (ff_cuda_precision)p, &b);
        if (st == FF_OK) st = evaluate(&s, seed, b, false, &gpu, &n);
        if (st == FF_OK) bad += check(seed, p, error(gpu, ref, n), error(cpu, ref, n));
        ff_cuda_backend_destroy(&b);
        FF_FREE(gpu);
    }
    if (st != FF_OK) printf("seed %llu FAILED: %s\n", (unsigned long long)seed, ff_error_text());
    FF_FREE(ref);
    FF_FREE(cpu);
    FF_FREE(gpu);
    return bad + (st != FF_OK);
}

int main(int argc, char **argv)
{
    int bad = 0, only = ff_gpu_pick(argc, argv, 2), n = ff_gpu_small(argc, argv) ? 3 : N_CASES;
    ff_gpu_or_skip(1);
    if (ff_gpu_asks_cases(argc, argv)) return ff_gpu_print_cases(3, 1), 0;
    for (int i = 0; i < N_CASES; i++)
        if (only < 0 ? i < n : only == i)
            bad += run_case(1000 + (uint64_t)i, ff_gpu_pick(argc, argv, 3), only >= 0);
    printf("%s\n", bad == 0 ? "all cases within tolerance" : "some cases failed");
    return bad != 0;
}
