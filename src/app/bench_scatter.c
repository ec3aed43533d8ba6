#include "bench_scatter.h"

#include "ff_rng.h"
#include "ff_scatter.h"
#include "scatter_place.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

enum { COUPLING, RADIAL, COT, OUT, D_COUPLING, D_RADIAL, N_ARRAYS };

/* Arrays are float or double by f64; there: where the calls work, the same on the CPU. */
typedef struct bench {
    ff_app *app;
    scatter_place place;
    ff_scatter_shape shape;
    bool f64, skewed;
    int repeat;
    size_t real_bytes;
    int64_t n[N_ARRAYS];
    void *a[N_ARRAYS], *there[N_ARRAYS];
    int64_t *dst, *dst_there;
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
        FF_TRY(scatter_place_put(&b->place, b->a[i], (size_t)b->n[i] * b->real_bytes, &b->there[i]));
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
        in.coupling = b->there[COUPLING], in.radial = b->there[RADIAL], in.stream = b->place.stream;
        return ff_scatter_forward_f64(csr, &b->shape, &in, path, b->there[OUT]);
    }
    ff_scatter_in_f32 in = FF_SCATTER_IN_F32_INIT;
    in.coupling = b->there[COUPLING], in.radial = b->there[RADIAL], in.stream = b->place.stream;
    return ff_scatter_forward_f32(csr, &b->shape, &in, path, b->there[OUT]);
}

static ff_status backward(bench *b, const ff_scatter_csr *csr, ff_scatter_path path)
{
    if (b->f64) {
        ff_scatter_in_f64 in = FF_SCATTER_IN_F64_INIT;
        ff_scatter_grad_f64 d = FF_SCATTER_GRAD_F64_INIT;
        in.coupling = b->there[COUPLING], in.radial = b->there[RADIAL], in.stream = b->place.stream;
        d.coupling = b->there[D_COUPLING], d.radial = b->there[D_RADIAL];
        return ff_scatter_backward_f64(csr, &b->shape, &in, path, b->there[COT], &d);
    }
    ff_scatter_in_f32 in = FF_SCATTER_IN_F32_INIT;
    ff_scatter_grad_f32 d = FF_SCATTER_GRAD_F32_INIT;
    in.coupling = b->there[COUPLING], in.radial = b->there[RADIAL], in.stream = b->place.stream;
    d.coupling = b->there[D_COUPLING], d.radial = b->there[D_RADIAL];
    return ff_scatter_backward_f32(csr, &b->shape, &in, path, b->there[COT], &d);
}

/* One call to be timed. */
typedef struct timed {
    bench *b;
    ff_status (*call)(bench *, const ff_scatter_csr *, ff_scatter_path);
    const ff_scatter_csr *csr;
    ff_scatter_path path;
} timed;

static ff_status timed_once(void *ctx)
{
    const timed *t = ctx;
    return t->call(t->b, t->csr, t->path);
}

/* CSR, made and freed: a GPU keeps the memory in its pool, so what counts is the work. */
static ff_status csr_once(void *ctx)
{
    const bench *b = ctx;
    ff_scatter_csr *csr = NULL;
    ff_status st = scatter_place_csr(&b->place, b->dst_there, b->shape.n_edges, b->shape.n_nodes, &csr);
    ff_scatter_csr_destroy(&csr);
    return st;
}

static int by_value(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return a < b ? -1 : a > b;
}

/* Samples after one that warms up: each one call on the CPU; on a GPU the mean of 10 calls in a row. t_s gets their
 * least and median. once: a single call, not warmed up. */
static ff_status sample(bench *b, ff_status (*call)(void *), void *ctx, bool once, double t_s[2])
{
    ff_status st = FF_OK;
    double *t = NULL;
    const int n = once ? 1 : b->repeat, in_row = b->place.cuda && !once ? 10 : 1;
    FF_TRY(FF_NEW(t, n));
    if (!once) FF_GO(scatter_place_time(&b->place, call, ctx, 1, t));
    for (int k = 0; k < n; k++) FF_GO(scatter_place_time(&b->place, call, ctx, in_row, &t[k]));
    qsort(t, (size_t)n, sizeof *t, by_value);
    t_s[0] = t[0], t_s[1] = n % 2 == 1 ? t[n / 2] : (t[n / 2 - 1] + t[n / 2]) / 2;
done:
    ff_free(t);
    return st;
}

/* The gradient's array onto the features': the largest pair there is. */
static ff_status copy_gbs(bench *b)
{
    size_t bytes = (size_t)b->n[RADIAL] * b->real_bytes;
    double t_s = HUGE_VAL;
    if (b->place.cuda)
        FF_TRY(scatter_place_copy_time(&b->place, b->there[D_RADIAL], b->there[RADIAL], bytes, &t_s));
    for (int k = 0; k < 5 && !b->place.cuda; k++) {
        double t0 = ff_now_s();
#pragma omp parallel
        {
            size_t i = (size_t)omp_get_thread_num(), n = (size_t)omp_get_num_threads();
            size_t from = bytes * i / n, to = bytes * (i + 1) / n;
            memcpy((char *)b->a[D_RADIAL] + from, (const char *)b->a[RADIAL] + from, to - from);
        }
        t_s = fmin(t_s, ff_now_s() - t0);
    }
    b->copy_gbs = 2e-9 * (double)bytes / t_s;
    return FF_OK;
}

/* Bytes that must move: every input and output once, and the edge or node number of each edge. */
static double floor_bytes(const bench *b, bool back)
{
    double edge = (double)(b->n[COUPLING] + b->n[RADIAL]), node = (double)b->n[OUT];
    double ids = 4 * (double)b->shape.n_edges + (back ? 0 : 8 * (double)b->shape.n_nodes);
    return (double)b->real_bytes * ((back ? 2 : 1) * edge + node) + ids;
}

static void row(bench *b, const char *order, const char *what, const double *t_s, double bytes)
{
    ff_json *j = &b->app->json;
    double gbs = 1e-9 * bytes / t_s[1];
    if (b->copy_gbs <= 0) bytes = 0; /* no edges, no rate */
    if (bytes > 0)
        ff_info("  %-8s %-20s %9.4f ms least %9.4f ms median %8.1f GB/s %6.0f %%", order, what, 1e3 * t_s[0],
                1e3 * t_s[1], gbs, 100 * gbs / b->copy_gbs);
    else
        ff_info("  %-8s %-20s %9.4f ms least %9.4f ms median", order, what, 1e3 * t_s[0], 1e3 * t_s[1]);
    ff_json_open(j, NULL, '{');
    ff_json_string(j, "order", order);
    ff_json_string(j, "what", what);
    ff_json_double(j, "t_min_s", t_s[0]);
    ff_json_double(j, "t_median_s", t_s[1]);
    if (bytes > 0) ff_json_double(j, "gb_per_s", gbs);
    ff_json_close(j);
}

static ff_status time_calls(bench *b, const char *order, const ff_scatter_csr *csr)
{
    static const char *const name[] = {"forward", "backward", "forward, reference", "backward, reference"};
    double t_s[2];
    for (int k = 0; k < 4; k++) {
        const bool back = k % 2 == 1, reference = k >= 2;
        timed t = {b, back ? backward : forward, csr, reference ? FF_SCATTER_REFERENCE : FF_SCATTER_FUSED};
        FF_TRY(sample(b, timed_once, &t, reference, t_s));
        row(b, order, name[k], t_s, reference ? 0 : floor_bytes(b, back));
    }
    return FF_OK;
}

static ff_status time_order(bench *b, bool sorted, uint64_t seed)
{
    ff_status st = FF_OK;
    ff_scatter_csr *csr = NULL;
    const char *order = sorted ? "sorted" : "random";
    const size_t n = (size_t)b->shape.n_edges;
    double t_s[2];
    void *there = NULL;
    make_dst(b, sorted, seed);
    FF_GO(scatter_place_put(&b->place, b->dst, n * sizeof *b->dst, &there));
    b->dst_there = there;
    FF_GO(sample(b, csr_once, b, false, t_s));
    row(b, order, "CSR", t_s, 0);
    FF_GO(scatter_place_csr(&b->place, b->dst_there, b->shape.n_edges, b->shape.n_nodes, &csr));
    FF_GO(time_calls(b, order, csr));
done:
    if (there != NULL) scatter_place_drop(&b->place, there);
    ff_scatter_csr_destroy(&csr);
    return st;
}

/* Local */
static ff_status run(bench *b, uint64_t seed)
{
    ff_json *j = &b->app->json;
    FF_TRY(make_arrays(b, seed));
    if (b->shape.n_edges > 0) FF_TRY(copy_gbs(b));
    ff_info("bench scatter on %s, N %lld, E %lld, C %lld, lmax %d, %s degrees, %s, %d threads, %s, copy %.1f "
            "GB/s",
            scatter_place_name(&b->place), (long long)b->shape.n_nodes, (long long)b->shape.n_edges,
            (long long)b->shape.n_channels, b->shape.lmax, b->skewed ? "skewed" : "even",
            b->f64 ? "f64" : "f32", omp_get_max_threads(), ff_scatter_isa_name(), b->copy_gbs);
    ff_json_string(j, "place", scatter_place_name(&b->place));
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
    FF_TRY(scatter_place_open(app, &b.place));
    ff_status st = ff_agree(app->comm, run(&b, (uint64_t)ff_config_int(c, "run.seed")));
    for (int i = 0; i < N_ARRAYS; i++) {
        if (b.there[i] != NULL) scatter_place_drop(&b.place, b.there[i]);
        ff_free(b.a[i]);
    }
    scatter_place_close(&b.place);
    ff_free(b.dst);
    return st;
}
