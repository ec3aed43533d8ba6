#include "bench_scatter.h"

#include "ff_rng.h"
#include "ff_scatter.h"

#include <math.h>
#include <omp.h>
#include <string.h>

enum { COUPLING, RADIAL, COT, OUT, D_COUPLING, D_RADIAL, N_ARRAYS };

/* Arrays are float or double by f64. */
typedef struct bench {
    ff_app *app;
    ff_scatter_shape shape;
    bool f64, skewed;
    int repeat;
    size_t real_bytes;
    int64_t n[N_ARRAYS];
    void *a[N_ARRAYS];
    int64_t *dst;
    double copy_gbs; /* read + written, of a plain copy on the same threads */
} bench;

/* ---- the case ---- */

static ff_status make_arrays(bench *b, uint64_t seed)
{
    const ff_scatter_shape *s = &b->shape;
    int64_t rows = ff_scatter_n_rows(s->lmax);
    b->n[COUPLING] = b->n[D_COUPLING] = s->n_edges * rows;
    b->n[RADIAL] = b->n[D_RADIAL] = s->n_edges * s->lmax * s->n_channels;
    b->n[COT] = b->n[OUT] = s->n_nodes * (rows + 1) * s->n_channels;
    for (int i = 0; i < N_ARRAYS; i++) {
        b->a[i] = ff_mem_alloc((size_t)b->n[i] + 1, b->real_bytes);
        if (b->a[i] == NULL) return FF_E_MEM;
        bool input = i <= COT;
#pragma omp parallel for schedule(static)
        for (int64_t k = 0; k < b->n[i]; k++) {
            double x = input ? 2 * ff_rng_uniform(seed, (uint64_t)i, (uint64_t)k) - 1 : 0;
            if (b->f64)
                ((double *)b->a[i])[k] = x;
            else
                ((float *)b->a[i])[k] = (float)x;
        }
    }
    return FF_NEW(b->dst, s->n_edges + 1);
}

/* Skewed: the share of the first x N nodes is the fourth root of x; sorted edges then come from the same law. */
static void make_dst(bench *b, bool sorted, uint64_t seed)
{
    const int64_t n = b->shape.n_nodes, n_edges = b->shape.n_edges;
#pragma omp parallel for schedule(static)
    for (int64_t e = 0; e < n_edges; e++) {
        double u = sorted ? (double)e / (double)n_edges : ff_rng_uniform(seed, N_ARRAYS, (uint64_t)e);
        int64_t at = (int64_t)((b->skewed ? pow(u, 4) : u) * (double)n);
        b->dst[e] = at < n ? at : n - 1;
    }
}

/* ---- timing ---- */

static ff_status forward(bench *b, const ff_scatter_csr *csr, ff_scatter_path path)
{
    if (b->f64) {
        ff_scatter_in_f64 in = FF_SCATTER_IN_F64_INIT;
        in.coupling = b->a[COUPLING], in.radial = b->a[RADIAL];
        return ff_scatter_forward_f64(csr, &b->shape, &in, path, b->a[OUT]);
    }
    ff_scatter_in_f32 in = FF_SCATTER_IN_F32_INIT;
    in.coupling = b->a[COUPLING], in.radial = b->a[RADIAL];
    return ff_scatter_forward_f32(csr, &b->shape, &in, path, b->a[OUT]);
}

static ff_status backward(bench *b, const ff_scatter_csr *csr, ff_scatter_path path)
{
    if (b->f64) {
        ff_scatter_in_f64 in = FF_SCATTER_IN_F64_INIT;
        ff_scatter_grad_f64 d = FF_SCATTER_GRAD_F64_INIT;
        in.coupling = b->a[COUPLING], in.radial = b->a[RADIAL];
        d.coupling = b->a[D_COUPLING], d.radial = b->a[D_RADIAL];
        return ff_scatter_backward_f64(csr, &b->shape, &in, path, b->a[COT], &d);
    }
    ff_scatter_in_f32 in = FF_SCATTER_IN_F32_INIT;
    ff_scatter_grad_f32 d = FF_SCATTER_GRAD_F32_INIT;
    in.coupling = b->a[COUPLING], in.radial = b->a[RADIAL];
    d.coupling = b->a[D_COUPLING], d.radial = b->a[D_RADIAL];
    return ff_scatter_backward_f32(csr, &b->shape, &in, path, b->a[COT], &d);
}

typedef ff_status (*timed)(bench *, const ff_scatter_csr *, ff_scatter_path);

/* Best of repeat calls after one that warms up; the reference is timed once. */
static ff_status best_of(bench *b, timed f, const ff_scatter_csr *csr, ff_scatter_path path, double *t_s)
{
    *t_s = HUGE_VAL;
    int n = path == FF_SCATTER_REFERENCE ? 1 : b->repeat;
    if (n > 1) FF_TRY(f(b, csr, path));
    for (int k = 0; k < n; k++) {
        double t0 = ff_now_s();
        FF_TRY(f(b, csr, path));
        *t_s = fmin(*t_s, ff_now_s() - t0);
    }
    return FF_OK;
}

/* The gradient's array onto the features': the largest pair there is. */
static double copy_gbs(const bench *b)
{
    size_t bytes = (size_t)b->n[RADIAL] * b->real_bytes;
    double t_s = HUGE_VAL;
    for (int k = 0; k < 5; k++) {
        double t0 = ff_now_s();
#pragma omp parallel
        {
            size_t i = (size_t)omp_get_thread_num(), n = (size_t)omp_get_num_threads();
            size_t from = bytes * i / n, to = bytes * (i + 1) / n;
            memcpy((char *)b->a[D_RADIAL] + from, (const char *)b->a[RADIAL] + from, to - from);
        }
        t_s = fmin(t_s, ff_now_s() - t0);
    }
    return 2e-9 * (double)bytes / t_s;
}

/* Bytes that must move: every input and output once, and the edge or node number of each edge. */
static double floor_bytes(const bench *b, bool back)
{
    double edge = (double)(b->n[COUPLING] + b->n[RADIAL]), node = (double)b->n[OUT];
    double ids = 4 * (double)b->shape.n_edges + (back ? 0 : 8 * (double)b->shape.n_nodes);
    return (double)b->real_bytes * ((back ? 2 : 1) * edge + node) + ids;
}

static void row(bench *b, const char *order, const char *what, double t_s, double bytes)
{
    ff_json *j = &b->app->json;
    double gbs = 1e-9 * bytes / t_s;
    if (b->copy_gbs <= 0) bytes = 0; /* no edges, no rate */
    if (bytes > 0)
        ff_info("  %-8s %-22s %9.3f ms %8.1f GB/s %6.0f %%", order, what, 1e3 * t_s, gbs,
                100 * gbs / b->copy_gbs);
    else
        ff_info("  %-8s %-22s %9.3f ms", order, what, 1e3 * t_s);
    ff_json_open(j, NULL, '{');
    ff_json_string(j, "order", order);
    ff_json_string(j, "what", what);
    ff_json_double(j, "t_min_s", t_s);
    if (bytes > 0) ff_json_double(j, "gb_per_s", gbs);
    ff_json_close(j);
}

static ff_status time_order(bench *b, bool sorted, uint64_t seed)
{
    ff_status st = FF_OK;
    ff_scatter_csr *csr = NULL;
    const char *order = sorted ? "sorted" : "random";
    double t_s = HUGE_VAL;
    make_dst(b, sorted, seed);
    for (int k = 0; k <= b->repeat; k++) {
        ff_scatter_csr_destroy(&csr);
        double t0 = ff_now_s();
        FF_GO(ff_scatter_csr_create(b->dst, b->shape.n_edges, b->shape.n_nodes, &csr));
        t_s = fmin(t_s, ff_now_s() - t0);
    }
    row(b, order, "CSR", t_s, 0);
    size_t before = ff_mem_used();
    ff_mem_reset_peak();
    FF_GO(best_of(b, forward, csr, FF_SCATTER_FUSED, &t_s));
    row(b, order, "forward", t_s, floor_bytes(b, false));
    FF_GO(best_of(b, backward, csr, FF_SCATTER_FUSED, &t_s));
    row(b, order, "backward", t_s, floor_bytes(b, true));
    ff_info("  %-8s %-22s %9.3f MiB", order, "memory of the calls",
            (double)(ff_mem_peak() - before) / 1048576);
    FF_GO(best_of(b, forward, csr, FF_SCATTER_REFERENCE, &t_s));
    row(b, order, "forward, reference", t_s, 0);
    FF_GO(best_of(b, backward, csr, FF_SCATTER_REFERENCE, &t_s));
    row(b, order, "backward, reference", t_s, 0);
done:
    ff_scatter_csr_destroy(&csr);
    return st;
}

/* Local */
static ff_status run(bench *b, uint64_t seed)
{
    ff_json *j = &b->app->json;
    FF_TRY(make_arrays(b, seed));
    b->copy_gbs = b->shape.n_edges > 0 ? copy_gbs(b) : 0;
    ff_info("bench scatter, N %lld, E %lld, C %lld, lmax %d, %s degrees, %s, %d threads, %s, copy %.1f GB/s",
            (long long)b->shape.n_nodes, (long long)b->shape.n_edges, (long long)b->shape.n_channels,
            b->shape.lmax, b->skewed ? "skewed" : "even", b->f64 ? "f64" : "f32", omp_get_max_threads(),
            ff_scatter_isa_name(), b->copy_gbs);
    ff_json_double(j, "copy_gb_per_s", b->copy_gbs);
    ff_json_double(j, "forward_bytes", floor_bytes(b, false));
    ff_json_double(j, "backward_bytes", floor_bytes(b, true));
    ff_json_open(j, "rows", '[');
    ff_status st = time_order(b, true, seed);
    if (st == FF_OK) st = time_order(b, false, seed);
    ff_json_close(j);
    return st;
}

ff_status bench_scatter(ff_app *app)
{
    const ff_config *c = app->config;
    bench b = {.app = app,
               .shape = {ff_config_int(c, "bench.nodes"), ff_config_int(c, "bench.edges"),
                         ff_config_int(c, "bench.channels"), (int)ff_config_int(c, "bench.lmax")},
               .f64 = strcmp(ff_config_string(c, "run.precision"), "f64") == 0,
               .skewed = strcmp(ff_config_string(c, "bench.degrees"), "skewed") == 0,
               .repeat = (int)ff_config_int(c, "bench.repeat")};
    b.real_bytes = b.f64 ? sizeof(double) : sizeof(float);
    ff_status st = ff_agree(app->comm, run(&b, (uint64_t)ff_config_int(c, "run.seed")));
    for (int i = 0; i < N_ARRAYS; i++) ff_free(b.a[i]);
    ff_free(b.dst);
    return st;
}
