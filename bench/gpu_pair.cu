/* Time of the GLOBE pair kernels on one GPU with the plans of car:6 (body <- body, 81,920 faces, theta 1, leaf 1).
 *
 *   cmake -S . -B build -DFF_CUDA=ON -DFF_BENCH=ON && cmake --build build --target gpu_pair
 *   build/bench/gpu_pair [edge splits, default 64: faces = 20 splits^2]
 *
 * Prints a row a kernel: pairs, median and least time of 7, evaluations/s, FLOP/s counted as 2 x multiply-adds of the
 * per-pair network after hoisting, unpadded, and its share of 790 TFLOP/s; error against double at 8 targets, relative to a
 * field's largest value there. Sums of random networks cancel: a line before each group says how often the sum of the pairs'
 * magnitudes holds the largest value, in the worst field; an error of e in every pair may appear multiplied by that. */
#include "gpu_case.h"

extern "C" {
#include "ff_mem.h"
#include "ff_plan.h"
}

enum { REPS = 7, PICK = 8 };

/* Centroids of an icosahedron's faces, each edge split n times, on an ellipsoid of half axes 2.3, 0.9, 0.7. */
static float *body_points(int n, int64_t *count)
{
    static const int face[20][3] = {{0, 11, 5}, {0, 5, 1},  {0, 1, 7},   {0, 7, 10}, {0, 10, 11},
                                    {1, 5, 9},  {5, 11, 4}, {11, 10, 2}, {10, 7, 6}, {7, 1, 8},
                                    {3, 9, 4},  {3, 4, 2},  {3, 2, 6},   {3, 6, 8},  {3, 8, 9},
                                    {4, 9, 5},  {2, 4, 11}, {6, 2, 10},  {8, 6, 7},  {9, 8, 1}};
    double p = (1.0 + sqrt(5.0)) / 2.0,
           v[12][3] = {{-1, p, 0},  {1, p, 0},  {-1, -p, 0}, {1, -p, 0}, {0, -1, p},  {0, 1, p},
                       {0, -1, -p}, {0, 1, -p}, {p, 0, -1},  {p, 0, 1},  {-p, 0, -1}, {-p, 0, 1}};
    float *x = (float *)malloc((size_t)n * (size_t)n * 60 * sizeof *x);
    int64_t at = 0;
    for (int f = 0; f < 20; f++)
        for (int i = 0; i < n; i++)
            for (int j = 0; j < 2 * (n - i) - 1;
                 j++) { /* barycentric centroid of sub-triangle j of strip i */
                double a = (i + (j % 2 ? 2.0 : 1.0) / 3.0) / n, b = (j / 2 + (j % 2 ? 2.0 : 1.0) / 3.0) / n,
                       q[3], r = 0.0;
                for (int k = 0; k < 3; k++) {
                    q[k] = a * v[face[f][0]][k] + b * v[face[f][1]][k] + (1.0 - a - b) * v[face[f][2]][k];
                    r += q[k] * q[k];
                }
                const double axis[3] = {2.3, 0.9, 0.7};
                for (int k = 0; k < 3; k++) x[at++] = (float)(q[k] / sqrt(r) * axis[k]);
            }
    *count = at / 3;
    return x;
}

/* Mean position of every node. */
static double *node_centroids(const ff_tree *t)
{
    double *x = (double *)calloc((size_t)t->n_nodes * 3, sizeof *x);
    for (int32_t i = 0; i < t->n_nodes; i++) {
        for (int64_t j = t->start[i]; j < t->start[i] + t->count[i]; j++)
            for (int k = 0; k < 3; k++) x[3 * i + k] += t->x[3 * j + k];
        for (int k = 0; k < 3; k++) x[3 * i + k] /= (double)t->count[i];
    }
    return x;
}

/* Lists of the plan: a point's are its ancestors' rows, root first, its own leaf row last (expand), or every node with
 * a row is a target of its own. At leaf size 1 source nodes stand for points. */
static void plan_lists(gpu_case *c, const ff_tree *t, const ff_plan *plan, const double *centroid, int expand)
{
    int64_t far = plan->far_off[plan->n_rows], leaf = plan->leaf_off[plan->n_rows];
    c->n_ids = far + leaf;
    c->src = (int32_t *)malloc((size_t)c->n_ids * 4 + 16);
    memcpy(c->src, plan->far_s, (size_t)far * 4);
    memcpy(c->src + far, plan->leaf_s, (size_t)leaf * 4);
    int32_t *row_of = (int32_t *)malloc((size_t)t->n_nodes * 4);
    for (int32_t i = 0; i < t->n_nodes; i++) row_of[i] = -1;
    for (int64_t r = 0; r < plan->n_rows; r++) row_of[plan->t_node[r]] = (int32_t)r;
    c->n_t = expand ? t->n_held : t->n_nodes;
    size_t nt = (size_t)c->n_t, most = expand ? nt * 40 : nt * 2;
    c->x_t = (double *)calloc(nt * 4, 8);
    c->seg_off = (int32_t *)calloc(nt + 1, 4);
    c->seg_cum = (int32_t *)calloc(most, 4);
    c->seg_src = (int64_t *)calloc(most, 8);
    c->n_pairs = (int32_t *)calloc(nt, 4);
    int32_t at = 0;
    for (int32_t i = 0; i < c->n_t; i++) {
        int32_t node = expand ? 0 : i, n = 0;
        for (;;) {
            int32_t r = row_of[node];
            for (int kind = 0; kind < 2 && r >= 0; kind++) {
                int64_t b = kind ? far + plan->leaf_off[r] : plan->far_off[r];
                int64_t e = kind ? far + plan->leaf_off[r + 1] : plan->far_off[r + 1];
                if (b == e) continue;
                c->seg_src[at] = b;
                c->seg_cum[at++] = n;
                n += (int32_t)(e - b);
            }
            if (!expand || t->node[node].right < 0) break;
            int32_t right = t->node[node].right;
            node = i >= t->start[right] ? right : node + 1;
        }
        c->seg_off[i + 1] = at;
        c->n_pairs[i] = n;
        c->total += n;
        for (int k = 0; k < 3; k++)
            c->x_t[4 * i + k] = expand ? (double)t->x[3 * i + k] : centroid[3 * i + k];
    }
    c->n_seg = at;
    free(row_of);
}

static int by_value(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static void time_kernel(const char *name, gpu_case *c, ff_cuda_precision precision, ff_cuda_kernel kernel,
                        const double *ref, const int32_t *pick)
{
    gpu_run r;
    ff_cuda_prefer(kernel);
    {
        ff_status so = gpu_run_open(&r, c, precision);
        if (so != FF_OK) {
            printf("%s: %s\n", name, ff_error_text());
            ff_error_clear();
            return;
        }
    }
    cudaEvent_t e[3];
    float ms[REPS], rec_ms;
    for (int i = 0; i < 3; i++) GPU_CHECK(cudaEventCreate(&e[i]));
    for (int i = -1; i < REPS; i++) {
        GPU_CHECK(cudaEventRecord(e[0]));
        FF_CHECK(ff_cuda_records(r.net, c->n_src, c->d_raw, r.d_rec, NULL));
        GPU_CHECK(cudaEventRecord(e[1]));
        FF_CHECK(ff_cuda_pair_forward(r.net, &r.args, NULL));
        GPU_CHECK(cudaEventRecord(e[2]));
        GPU_CHECK(cudaEventSynchronize(e[2]));
        GPU_CHECK(cudaEventElapsedTime(&rec_ms, e[0], e[1]));
        GPU_CHECK(cudaEventElapsedTime(&ms[i < 0 ? 0 : i], e[1], e[2]));
    }
    qsort(ms, REPS, sizeof *ms, by_value);
    size_t n = (size_t)c->n_t * (size_t)c->n_comp;
    float *out = (float *)malloc(n * 4);
    GPU_CHECK(cudaMemcpy(out, r.d_out, n * 4, cudaMemcpyDeviceToHost));
    double madds = 0.0, n_in = 1 + c->n_vec * c->s.n_harm;
    for (int l = 0; l <= c->s.n_hidden; l++) {
        double n_out = l < c->s.n_hidden ? c->s.hidden[l] : c->n_out;
        madds += n_in * n_out;
        n_in = n_out;
    }
    double s = ms[REPS / 2] * 1e-3, rate = (double)c->total / s, flop = 2.0 * madds * rate;
    printf(
        "%-18s %-11s %11lld pairs  median %8.3f min %8.3f ms  %.3e eval/s  %6.1f TFLOP/s  %5.1f %% of 790  "
        "error %.2e  records %.3f ms\n",
        name, ff_cuda_net_kernel(r.net), (long long)c->total, ms[REPS / 2], ms[0], rate, flop * 1e-12,
        flop / 7.9e12, gpu_error(c, out, ref, pick, PICK), rec_ms);
    fflush(stdout);
    free(out);
    gpu_run_close(&r);
}

typedef struct bench_mode {
    ff_cuda_precision precision;
    ff_cuda_kernel kernel;
} bench_mode;

/* Largest sum of magnitudes over the largest sum of a field, of the field where that is worst. */
static double cancellation(const gpu_case *c, const double *ref, const double *mass)
{
    double worst = 0.0;
    int at = 0;
    for (int f = 0; f < c->s.n_field; f++) {
        int len = c->rank[f] ? c->s.dim : 1;
        double sum = 1e-300, all = 0.0;
        for (int i = 0; i < PICK; i++)
            for (int k = at; k < at + len; k++) {
                sum = fmax(sum, fabs(ref[i * c->n_comp + k]));
                all = fmax(all, mass[i * c->n_comp + k]);
            }
        worst = fmax(worst, all / sum);
        at += len;
    }
    return worst;
}

static void bench_model(const char *name, const ff_tree *tree, const ff_plan *plan, const double *centroid,
                        int expand, int width, int n_sscalar, int n_svec, int n_sf, int n_vf,
                        const bench_mode *modes, int n_modes)
{
    static const char *label[] = {"f32", "tf32", "bf16"};
    gpu_case c;
    memset(&c, 0, sizeof c);
    c.seed = 3;
    gpu_case_network(&c, 3, width, 3, 1, n_sscalar, 0, n_svec, 4, n_sf, n_vf, 0);
    c.length = 2.786;
    gpu_case_sources(&c, tree->n_nodes, centroid);
    plan_lists(&c, tree, plan, centroid, expand);
    gpu_case_upload(&c);
    int32_t pick[PICK];
    double *ref = (double *)malloc(PICK * (size_t)c.n_comp * sizeof *ref);
    double *mass = (double *)malloc(PICK * (size_t)c.n_comp * sizeof *mass);
#pragma omp parallel for schedule(dynamic)
    for (int i = 0; i < PICK; i++) {
        pick[i] = (int32_t)((int64_t)c.n_t * i / PICK + 7);
        ref_target(&c, pick[i], ref + (size_t)i * (size_t)c.n_comp, mass + (size_t)i * (size_t)c.n_comp);
    }
    printf("%s: magnitudes of pairs over the largest sum: %.1f in the worst field\n", name,
           cancellation(&c, ref, mass));
    for (int m = 0; m < n_modes; m++) {
        char text[64];
        snprintf(text, sizeof text, "%s %s", name, label[modes[m].precision]);
        time_kernel(text, &c, modes[m].precision, modes[m].kernel, ref, pick);
    }
    free(ref);
    free(mass);
    gpu_case_free(&c);
}

int main(int argc, char **argv)
{
    int splits = argc > 1 ? atoi(argv[1]) : 64;
    int64_t n;
    float *x = body_points(splits, &n);
    ff_tree *tree;
    ff_plan *plan;
    FF_CHECK(ff_tree_build(x, n, 3, 1, NULL, &tree));
    FF_CHECK(ff_plan_build(tree, tree, 1.0, false, 0, n, &plan));
    double *centroid = node_centroids(tree);
    printf("body %lld faces: %lld far node pairs, %lld leaf pairs\n", (long long)n,
           (long long)plan->counts.far_node_pairs, (long long)plan->counts.leaf_pairs);
    const bench_mode both[] = {{FF_CUDA_BF16, FF_CUDA_BEST}, {FF_CUDA_BF16, FF_CUDA_MMA}};
    const bench_mode tensor[] = {{FF_CUDA_BF16, FF_CUDA_BEST},
                                 {FF_CUDA_BF16, FF_CUDA_MMA},
                                 {FF_CUDA_TF32, FF_CUDA_BEST},
                                 {FF_CUDA_TF32, FF_CUDA_MMA}};
    const bench_mode all[] = {{FF_CUDA_BF16, FF_CUDA_BEST}, {FF_CUDA_BF16, FF_CUDA_MMA},
                              {FF_CUDA_TF32, FF_CUDA_BEST}, {FF_CUDA_TF32, FF_CUDA_MMA},
                              {FF_CUDA_F32, FF_CUDA_MMA},   {FF_CUDA_F32, FF_CUDA_PLAIN}};
    const bench_mode general[] = {{FF_CUDA_BF16, FF_CUDA_MMA},
                                  {FF_CUDA_TF32, FF_CUDA_MMA},
                                  {FF_CUDA_F32, FF_CUDA_MMA},
                                  {FF_CUDA_F32, FF_CUDA_PLAIN}};
    bench_model("wide expanded", tree, plan, centroid, 1, 256, 8, 5, 10, 4, both, 1);
    bench_model("256x3 nodes", tree, plan, centroid, 0, 256, 8, 5, 10, 4, all, 6);
    bench_model("64x3 nodes", tree, plan, centroid, 0, 64, 12, 7, 14, 6, all, 6);
    bench_model("128x3 nodes", tree, plan, centroid, 0, 128, 12, 7, 14, 6, general, 4);
    bench_model("512x3 nodes", tree, plan, centroid, 0, 512, 8, 5, 10, 4, general, 4);
    bench_model("wide layer 0", tree, plan, centroid, 1, 256, 0, 1, 10, 4, both, 1);
    bench_model("wide final", tree, plan, centroid, 1, 256, 8, 5, 1, 1, both, 1);
    bench_model("64x3 layer 0", tree, plan, centroid, 0, 64, 0, 1, 14, 6, tensor, 4);
    bench_model("64x3 final", tree, plan, centroid, 0, 64, 12, 7, 1, 1, tensor, 4);
    free(centroid);
    ff_plan_destroy(&plan);
    ff_tree_destroy(&tree);
    free(x);
    return 0;
}
