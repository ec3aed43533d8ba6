#include "bench_plan_cuda.h"

#ifdef FF_HAVE_CUDA

#include "ff_cuda_tree.h"
#include "ff_timer.h"

#include <stdlib.h>
#include <string.h>

/* Lists and scratch of one chunk at most; with the trees of 8.8e6 faces everything stays below 16 GiB. Clouds of up to
 * AT_ONCE points have all plans built in one traversal. */
#define CHUNK_BYTES (INT64_C(12) << 30)
enum { AT_ONCE = 1 << 20 };

typedef struct plan_bench {
    const ff_case *cs;
    ff_cuda_pool *pool;
    int n;                                   /* boundaries */
    float **d_x;                             /* [n] points on the device */
    ff_cuda_tree **tree;                     /* [n] */
    double **d_x_point, **d_x_node;          /* [n] zeros: centroids are not part of this */
    ff_cuda_target *target;                  /* [n] */
    ff_cuda_lists_args *args;                /* [2 n] communication, then prediction */
    ff_cuda_lists **lists;                   /* [2 n] */
    ff_cuda_density *density;                /* [n][2 n] of a plan in chunks */
    int64_t points, list_bytes, pairs, seen; /* of one build; seen: chunks */
} plan_bench;

static void bench_free(plan_bench *b)
{
    for (int i = 0; i < b->n && b->pool != NULL; i++) {
        if (b->tree != NULL) ff_cuda_tree_destroy(b->pool, &b->tree[i]);
        for (int k = 0; b->lists != NULL && k < 2; k++) ff_cuda_lists_destroy(b->pool, &b->lists[2 * i + k]);
    }
    ff_cuda_pool_destroy(&b->pool); /* frees the points, too */
    ff_free(b->d_x);
    ff_free(b->tree);
    ff_free(b->d_x_point);
    ff_free(b->d_x_node);
    ff_free(b->target);
    ff_free(b->args);
    ff_free(b->lists);
    ff_free(b->density);
}

static ff_status bench_init(plan_bench *b, const ff_case *cs)
{
    int n = cs->n_sources, dim = cs->model->config->dim;
    b->cs = cs;
    b->n = n;
    FF_TRY(FF_NEW0(b->d_x, n));
    FF_TRY(FF_NEW0(b->tree, n));
    FF_TRY(FF_NEW0(b->d_x_point, n));
    FF_TRY(FF_NEW0(b->d_x_node, n));
    FF_TRY(FF_NEW0(b->target, n));
    FF_TRY(FF_NEW0(b->args, 2 * n));
    FF_TRY(FF_NEW0(b->lists, 2 * n));
    FF_TRY(FF_NEW0(b->density, 2 * n * n));
    FF_TRY(ff_cuda_pool_create(NULL, &b->pool));
    for (int i = 0; i < n; i++) {
        size_t bytes = (size_t)(cs->source[i].n * dim) * sizeof(float);
        FF_TRY(ff_cuda_alloc(b->pool, bytes, &b->d_x[i]));
        FF_TRY(ff_cuda_put(b->pool, b->d_x[i], cs->source[i].x32, bytes));
        size_t rows = (size_t)ff_topo_nodes(cs->source[i].n, cs->leaf_size) * (size_t)dim * sizeof(double);
        FF_TRY(ff_cuda_alloc(b->pool, 2 * bytes, &b->d_x_point[i]));
        FF_TRY(ff_cuda_zero(b->pool, b->d_x_point[i], 2 * bytes));
        FF_TRY(ff_cuda_alloc(b->pool, rows, &b->d_x_node[i]));
        FF_TRY(ff_cuda_zero(b->pool, b->d_x_node[i], rows));
        b->points += cs->source[i].n;
    }
    return FF_OK;
}

static ff_status build_trees(plan_bench *b)
{
    const ff_case *cs = b->cs;
    for (int i = 0; i < b->n; i++) {
        ff_cuda_tree_destroy(b->pool, &b->tree[i]);
        FF_TRY(ff_cuda_tree_build(b->pool, b->d_x[i], cs->source[i].n, cs->model->config->dim, cs->leaf_size,
                                  NULL, &b->tree[i]));
        b->target[i] = (ff_cuda_target){b->tree[i], b->d_x_point[i], b->d_x_node[i], 0, cs->source[i].n};
    }
    for (int j = 0; j < 2 * b->n; j++) /* the last layer's targets are the first boundary's points */
        b->args[j] = (ff_cuda_lists_args){b->target, j < b->n ? b->n : 1, b->tree[j % b->n], cs->theta,
                                          cs->expand_far};
    return ff_cuda_wait(b->pool);
}

static void count_lists(plan_bench *b, ff_cuda_lists **l)
{
    b->list_bytes += ff_cuda_lists_bytes(*l);
    b->pairs += (*l)->pairs;
    b->seen++;
    ff_cuda_lists_destroy(b->pool, l);
}

/* Plans too large to be kept: chunk after chunk, as an evaluation streams them. */
static ff_status build_chunks(plan_bench *b)
{
    for (int j = 0; j < 2 * b->n; j++)
        for (int i = 0; i < b->args[j].n; i++) {
            ff_cuda_lists_args one = b->args[j];
            one.target = &b->target[i];
            one.n = 1;
            for (int64_t at = 0; at < b->target[i].end;) {
                ff_cuda_lists *l = NULL;
                FF_TRY(ff_cuda_lists_next(b->pool, &one, CHUNK_BYTES, &at, &b->density[j * b->n + i], &l));
                count_lists(b, &l);
            }
        }
    return ff_cuda_wait(b->pool);
}

static ff_status build_plans(plan_bench *b)
{
    b->list_bytes = b->pairs = b->seen = 0;
    if (b->points > AT_ONCE) return build_chunks(b);
    FF_TRY(ff_cuda_lists_build(b->pool, b->args, 2 * b->n, b->lists));
    FF_TRY(ff_cuda_wait(b->pool));
    for (int j = 0; j < 2 * b->n; j++) count_lists(b, &b->lists[j]);
    return FF_OK;
}

/* Sum of the digests and counts of the communication plans on the CPU and on the GPU (prediction repeats some). */
static ff_status compare(plan_bench *b, uint64_t digest[2], ff_dtt_counts counts[2])
{
    const ff_case *cs = b->cs;
    ff_status st = FF_OK;
    ff_tree **host = NULL;
    ff_plan *p = NULL;
    FF_GO(FF_NEW0(host, b->n));
    for (int i = 0; i < b->n; i++)
        FF_GO(ff_tree_build(cs->source[i].x32, cs->source[i].n, cs->model->config->dim, cs->leaf_size, NULL,
                            &host[i]));
    for (int j = 0; j < b->n; j++)
        for (int i = 0; i < b->n; i++) {
            ff_dtt_counts c;
            uint64_t d;
            ff_plan_destroy(&p);
            FF_GO(ff_plan_build(host[i], host[j], cs->theta, cs->expand_far, 0, cs->source[i].n, &p));
            digest[0] += ff_plan_digest(p, host[i], host[j]);
            ff_dtt_counts_add(&counts[0], &p->counts);
            FF_GO(ff_cuda_plan_count(b->pool, b->tree[i], b->tree[j], cs->theta, cs->expand_far, 0,
                                     cs->source[i].n, CHUNK_BYTES, &c, &d));
            digest[1] += d;
            ff_dtt_counts_add(&counts[1], &c);
        }
done:
    ff_plan_destroy(&p);
    for (int i = 0; host != NULL && i < b->n; i++) ff_tree_destroy(&host[i]);
    ff_free(host);
    return st;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void report_time(ff_app *app, const char *what, const char *key, double *t_s, int n)
{
    qsort(t_s, (size_t)n, sizeof *t_s, by_value);
    ff_info("%-22s%.3f ms min, %.3f ms median of %d", what, 1e3 * t_s[0], 1e3 * t_s[n / 2], n);
    ff_json_double(&app->json, key, t_s[0]);
}

static ff_status report(ff_app *app, plan_bench *b, double *t_s, int n)
{
    uint64_t digest[2] = {0, 0};
    ff_dtt_counts counts[2] = {{0}, {0}};
    FF_TRY(compare(b, digest, counts));
    ff_info("bench plan, case %s, %lld faces, cuda: %d communication and %d prediction plans, in %lld lists",
            ff_config_string(app->config, "case"), (long long)b->points, b->n * b->n, b->n,
            (long long)b->seen);
    report_time(app, "trees", "t_trees_s", t_s, n);
    report_time(app, "plans", "t_plans_s", t_s + n, n);
    ff_info("node pairs            %.4g far, %.4g of leaves; %.4g evaluations",
            (double)counts[1].far_node_pairs, (double)counts[1].leaf_pairs, (double)b->pairs);
    ff_info("lists                 %.1f MiB; device memory %.1f MiB at the peak",
            (double)b->list_bytes / 1048576, (double)ff_cuda_pool_peak(b->pool) / 1048576);
    ff_info("digest                %016llx, the CPU's %016llx", (unsigned long long)digest[1],
            (unsigned long long)digest[0]);
    ff_json_int(&app->json, "faces", b->points);
    ff_json_int(&app->json, "far_node_pairs", counts[1].far_node_pairs);
    ff_json_int(&app->json, "evaluations", b->pairs);
    ff_json_int(&app->json, "list_bytes", b->list_bytes);
    ff_json_int(&app->json, "device_peak_bytes", ff_cuda_pool_peak(b->pool));
    if (digest[0] != digest[1] || memcmp(&counts[0], &counts[1], sizeof counts[0]) != 0)
        return ff_fail(FF_E_CHECK, "bench plan: the GPU's plans differ from the CPU's");
    return FF_OK;
}

ff_status bench_plan_cuda(ff_app *app, const ff_case *cs)
{
    ff_status st = FF_OK;
    plan_bench b = {0};
    double *t_s = NULL; /* [repeat] trees, [repeat] plans */
    int repeat = (int)ff_config_int(app->config, "bench.repeat");
    FF_GO(FF_NEW(t_s, 2 * repeat + 1));
    FF_GO(bench_init(&b, cs));
    for (int k = -1; k < repeat; k++) { /* -1: warms up */
        int at = k < 0 ? 0 : k;
        double t0 = ff_now_s();
        FF_GO(build_trees(&b));
        double t1 = ff_now_s();
        FF_GO(build_plans(&b));
        t_s[at] = t1 - t0;
        t_s[repeat + at] = ff_now_s() - t1;
    }
    FF_GO(report(app, &b, t_s, repeat));
done:
    ff_free(t_s);
    bench_free(&b);
    return st;
}

#else

ff_status bench_plan_cuda(ff_app *app, const ff_case *cs)
{
    (void)app, (void)cs;
    return ff_fail(FF_E_UNSUPPORTED, "bench plan: this build has no CUDA backend");
}

#endif
