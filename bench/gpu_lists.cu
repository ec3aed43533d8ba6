/* Trees and pair lists of one plan on the GPU: an ellipsoid's surface as target and source, one point a leaf.
 *   gpu_lists [points [theta]]      default: 81920 and 1000000 points, theta 1 */
extern "C" {
#include "ff_cuda_tree.h"
#include "ff_mem.h"
}
#include "gpu_case.h"

#include <time.h>

enum { REPEAT = 15 };

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static float *surface(int64_t n)
{
    static const double axis[3] = {2.3, 0.9, 0.7};
    float *x = (float *)malloc((size_t)n * 3 * sizeof *x);
    for (int64_t i = 0; i < n; i++) {
        double v[3], r2 = 2;
        for (uint64_t k = 0; r2 > 1; k++) {
            r2 = 0;
            for (int d = 0; d < 3; d++) {
                v[d] = gpu_rand(7 + k, (uint64_t)d, (uint64_t)i);
                r2 += v[d] * v[d];
            }
        }
        for (int d = 0; d < 3; d++) x[3 * i + d] = (float)(axis[d] * v[d] / sqrt(r2));
    }
    return x;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void report(const char *what, double *t_ms)
{
    qsort(t_ms, REPEAT, sizeof *t_ms, by_value);
    printf("  %-18s %8.3f ms min, %8.3f ms median of %d\n", what, t_ms[0], t_ms[REPEAT / 2], (int)REPEAT);
}

static void bench(ff_cuda_pool *pool, int64_t n, double theta)
{
    float *x = surface(n), *d_x = NULL;
    double *d_rows = NULL, t_ms[REPEAT];
    ff_cuda_tree *tree = NULL;
    FF_CHECK(ff_cuda_alloc(pool, (size_t)n * 12, &d_x));
    FF_CHECK(ff_cuda_put(pool, d_x, x, (size_t)n * 12));
    FF_CHECK(ff_cuda_alloc(pool, (size_t)n * 48, &d_rows)); /* stands for positions of points and nodes */
    FF_CHECK(ff_cuda_zero(pool, d_rows, (size_t)n * 48));
    for (int k = -1; k < REPEAT; k++) {
        double t0 = now_ms();
        ff_cuda_tree_destroy(pool, &tree);
        FF_CHECK(ff_cuda_tree_build(pool, d_x, n, 3, 1, NULL, &tree));
        t_ms[k < 0 ? 0 : k] = now_ms() - t0;
    }
    printf("%lld points, theta %g\n", (long long)n, theta);
    report("tree", t_ms);
    for (int expand = 0; expand < 2; expand++) {
        ff_cuda_target t = {tree, d_rows, d_rows, 0, n};
        ff_cuda_lists_args args = {&t, 1, tree, theta, expand == 1};
        int64_t pairs = 0, bytes = 0;
        for (int k = -1; k < REPEAT; k++) {
            ff_cuda_lists *l = NULL;
            double t0 = now_ms();
            FF_CHECK(ff_cuda_lists_build(pool, &args, 1, &l));
            FF_CHECK(ff_cuda_wait(pool));
            t_ms[k < 0 ? 0 : k] = now_ms() - t0;
            pairs = l->pairs;
            bytes = ff_cuda_lists_bytes(l);
            ff_cuda_lists_destroy(pool, &l);
        }
        report(expand ? "lists, expanded" : "lists", t_ms);
        printf("  %-18s %.4g pairs, %.1f MiB\n", "", (double)pairs, (double)bytes / 1048576);
    }
    for (int k = -1; k < REPEAT; k++) {
        ff_dtt_counts c;
        uint64_t digest;
        double t0 = now_ms();
        FF_CHECK(ff_cuda_plan_count(pool, tree, tree, theta, false, 0, n, 0, &c, &digest));
        t_ms[k < 0 ? 0 : k] = now_ms() - t0;
    }
    report("counts alone", t_ms);
    ff_cuda_tree_destroy(pool, &tree);
    ff_cuda_free(pool, d_x);
    ff_cuda_free(pool, d_rows);
    free(x);
}

int main(int argc, char **argv)
{
    ff_cuda_pool *pool = NULL;
    double theta = argc > 2 ? atof(argv[2]) : 1.0;
    FF_CHECK(ff_cuda_pool_create(NULL, &pool));
    bench(pool, argc > 1 ? atoll(argv[1]) : 81920, theta);
    if (argc == 1) bench(pool, 1000000, theta);
    printf("device memory: %.1f MiB at the peak\n", (double)ff_cuda_pool_peak(pool) / 1048576);
    ff_cuda_pool_destroy(&pool);
    return 0;
}
