/* GLOBE pair sums on the GPU against a double reference on the host, for every kernel and many shapes.
 * Prints one line a case; exit code 1 if any misses its tolerance. */
#include "ff_gpu_test.h"
#include "gpu_case.h"

typedef struct shape_row {
    const char *name;
    int dim, width, n_hidden, n_gscalar, n_sscalar, n_gvec, n_svec, n_harm, n_sf, n_vf, mlp;
} shape_row;

static const shape_row shapes[] = {
    {"wide", 3, 256, 3, 1, 8, 0, 5, 4, 10, 4, 0},
    {"wide, tanh network", 3, 256, 3, 1, 8, 0, 5, 4, 10, 4, 1},
    {"default", 3, 64, 3, 1, 12, 0, 7, 4, 14, 6, 0},
    {"default, two global vectors", 3, 64, 3, 2, 12, 2, 5, 4, 14, 6, 0},
    {"2D", 2, 64, 3, 1, 12, 0, 7, 4, 14, 6, 0},
    {"wide, layer 0", 3, 256, 3, 1, 0, 0, 1, 4, 10, 4, 0},
    {"wide, final layer", 3, 256, 3, 1, 8, 0, 5, 4, 1, 1, 0},
    {"default, layer 0", 3, 64, 3, 1, 0, 0, 1, 4, 14, 6, 0},
    {"default, final layer", 3, 64, 3, 1, 12, 0, 7, 4, 1, 1, 0},
    {"24 x 3, padded", 3, 24, 3, 1, 4, 1, 3, 3, 5, 3, 0},
    {"32 x 2, padded", 3, 32, 2, 2, 4, 0, 3, 4, 5, 2, 0},
    {"16 x 1, 2D, padded, tanh", 2, 16, 1, 0, 3, 1, 2, 2, 3, 1, 1},
    {"128 x 3, padded", 3, 128, 3, 1, 3, 0, 4, 4, 2, 3, 0},
    {"odd", 3, 37, 2, 0, 3, 1, 2, 3, 2, 1, 0},
    {"deep, wide", 3, 512, 4, 1, 2, 0, 3, 2, 1, 2, 0},
    {"one layer, no vectors out", 2, 20, 1, 1, 0, 0, 1, 0, 3, 0, 1},
    {"64 x 4, 6 harmonics", 3, 64, 4, 1, 2, 1, 3, 6, 3, 2, 0},
    {"160 x 2, tanh", 3, 160, 2, 0, 2, 0, 2, 5, 2, 4, 1},
    {"320 x 1, 2D", 2, 320, 1, 1, 3, 1, 4, 4, 3, 2, 0},
    {"many latents", 3, 96, 2, 2, 16, 1, 14, 3, 13, 12, 0},
};

/* f32: 24-bit arithmetic, pieces of 128 summed in float32. tf32, bf16: operands of 11 and 8 bits, so each layer adds
 * about 2^-12 and 2^-9 of its size; random networks of gain 2.5 raise that 4 to 8 times over 4 layers, and lists of
 * about 100 pairs average little of it away; a fourth hidden layer doubles it again, and
 * so do 3 targets in place of 50. Errors are relative to a field's
 * largest value over the targets. */
static const struct {
    const char *name;
    ff_cuda_precision precision;
    double tol;
} modes[] = {{"f32", FF_CUDA_F32, 5e-6}, {"tf32", FF_CUDA_TF32, 4e-3}, {"bf16", FF_CUDA_BF16, 3e-2}};

static int n_targets = 50;
static bool small; /* one run of a kernel, few targets */
static int only_mode = -1;

/* Which kernels a mode is run with. */
static const struct {
    ff_cuda_kernel kernel;
    bool f32_only;
} kernels[] = {
    {FF_CUDA_BEST, false}, {FF_CUDA_MMA, false}, {FF_CUDA_MMA_SMALL, false}, {FF_CUDA_PLAIN, true}};

/* The last n targets alone, as another GPU would have them: the same bits. */
static bool same_alone(const gpu_case *c, const gpu_run *r, const float *out, int n)
{
    ff_cuda_lists part = c->lists;
    ff_cuda_pair_args args = r->args;
    int skip = c->n_t - n;
    size_t bytes = (size_t)n * (size_t)c->n_comp * 4;
    void *work;
    float *alone = (float *)malloc(bytes);
    part.n_t = n;
    part.d_x_t += 4 * skip;
    part.d_seg_off += skip;
    part.d_n_pairs += skip;
    GPU_CHECK(cudaMalloc((void **)&part.d_piece_off, (size_t)(n + 1) * 4));
    GPU_CHECK(cudaMalloc((void **)&part.d_group_off, (size_t)(n + 1) * 8));
    GPU_CHECK(cudaMalloc(&work, ff_cuda_cut_bytes(n)));
    FF_CHECK(ff_cuda_lists_cut(&part, work, NULL));
    args.lists = &part;
    FF_CHECK(ff_cuda_pair_forward(r->net, &args, NULL));
    GPU_CHECK(cudaMemcpy(alone, args.d_out, bytes, cudaMemcpyDeviceToHost));
    bool same = memcmp(alone, out + (size_t)skip * (size_t)c->n_comp, bytes) == 0;
    cudaFree(part.d_piece_off);
    cudaFree(part.d_group_off);
    cudaFree(work);
    free(alone);
    return same;
}

/* One kernel on one case: error against double, two runs, a part of the targets alone. */
static int run_kernel(const shape_row *row, const gpu_case *c, size_t mode, ff_cuda_kernel kernel,
                      const double *ref, const int32_t *pick)
{
    size_t n = (size_t)c->n_t * (size_t)c->n_comp;
    float *out = (float *)malloc(n * 4), *again = (float *)malloc(n * 4);
    gpu_run r;
    ff_cuda_prefer(kernel);
    FF_CHECK(gpu_run_open(&r, c, modes[mode].precision));
    FF_CHECK(ff_cuda_pair_forward(r.net, &r.args, NULL));
    GPU_CHECK(cudaMemcpy(out, r.d_out, n * 4, cudaMemcpyDeviceToHost));
    if (!small) FF_CHECK(ff_cuda_pair_forward(r.net, &r.args, NULL));
    GPU_CHECK(cudaMemcpy(again, r.d_out, n * 4, cudaMemcpyDeviceToHost));
    double err = gpu_error(c, out, ref, pick, c->n_t);
    double tol = modes[mode].tol;
    if (modes[mode].precision != FF_CUDA_F32) tol *= (row->n_hidden > 3 ? 2.0 : 1.0) * (small ? 2.0 : 1.0);
    bool same = memcmp(out, again, n * 4) == 0 && (small || same_alone(c, &r, out, c->n_t / 3));
    bool ok = err <= tol && same;
    printf("%-28s %-4s %-11s error %.2e, used %.2f of %.1e; %s; %s\n", row->name, modes[mode].name,
           ff_cuda_net_kernel(r.net), err, err / tol, tol, same ? "equal runs" : "RUNS DIFFER",
           ok ? "ok" : "FAILED");
    gpu_run_close(&r);
    free(out);
    free(again);
    return !ok;
}

static int run_case(const shape_row *row, uint64_t seed)
{
    enum { MOST = 50 };
    int bad = 0;
    gpu_case c;
    memset(&c, 0, sizeof c);
    c.seed = seed;
    gpu_case_network(&c, row->dim, row->width, row->n_hidden, row->n_gscalar, row->n_sscalar, row->n_gvec,
                     row->n_svec, row->n_harm, row->n_sf, row->n_vf, row->mlp);
    gpu_case_sources(&c, 700, NULL);
    gpu_case_lists(&c, n_targets, 5, 35);
    gpu_case_upload(&c);
    double *ref = (double *)malloc((size_t)n_targets * (size_t)c.n_comp * sizeof *ref);
    int32_t pick[MOST];
#pragma omp parallel for schedule(dynamic)
    for (int t = 0; t < n_targets; t++) {
        pick[t] = t;
        ref_target(&c, t, ref + (size_t)t * (size_t)c.n_comp, NULL);
    }
    for (size_t m = 0; m < sizeof modes / sizeof *modes; m++)
        for (size_t k = 0; k < sizeof kernels / sizeof *kernels; k++)
            if ((!kernels[k].f32_only || modes[m].precision == FF_CUDA_F32) &&
                (only_mode < 0 || only_mode == (int)m))
                bad += run_kernel(row, &c, m, kernels[k].kernel, ref, pick);
    free(ref);
    gpu_case_free(&c);
    return bad;
}

int main(int argc, char **argv)
{
    int bad = 0, only = ff_gpu_pick(argc, argv, 2);
    ff_gpu_or_skip(1);
    if (ff_gpu_asks_cases(argc, argv)) return ff_gpu_print_cases(sizeof shapes / sizeof *shapes, 3), 0;
    small = ff_gpu_small(argc, argv);
    only_mode = ff_gpu_pick(argc, argv, 3);
    if (small) n_targets = 3;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (only < 0 ? !small || i % 3 == 0 : only == (int)i) bad += run_case(&shapes[i], 7 + i);
    printf("%s\n", bad == 0 ? "all cases within tolerance" : "some cases failed");
    return bad != 0;
}
