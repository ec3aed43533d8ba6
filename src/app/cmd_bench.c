#include "app_backend.h"
#include "app_boundary.h"
#include "bench_blas.h"
#include "bench_plan_cuda.h"
#include "bench_scatter.h"
#include "dist_table.h"
#include "ff_grad.h"
#include "ff_pair_backend.h"
#include "ff_rng.h"
#include "sum_verb.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

/* The two measured configurations (docs/measurements.md). */
static const char *config_json(bool wide)
{
    return wide ? "{\"n_spatial_dims\": 3, \"output_field_ranks\": {\"C_p\": 0, \"C_f\": 1}, "
                  "\"boundary_source_data_ranks\": {\"vehicle\": {}, \"no_slip_floor\": {}, \"slip_floor\": "
                  "{}}, "
                  "\"reference_length_names\": [\"L_ref\", \"delta_turb\"], \"reference_area\": 2.17, "
                  "\"n_communication_hyperlayers\": 2, \"hidden_layer_sizes\": [256, 256, 256], "
                  "\"n_latent_scalars\": 8, \"n_latent_vectors\": 4, \"theta\": 1.0, \"leaf_size\": 1, "
                  "\"self_regularization_beta\": 0.01, \"latent_compression_scale\": 100.0, "
                  "\"expand_far_targets\": true}"
                : "{\"n_spatial_dims\": 3, \"output_field_ranks\": {\"C_p\": 0, \"C_f\": 1}, "
                  "\"boundary_source_data_ranks\": {\"vehicle\": {}, \"no_slip_floor\": {}, \"slip_floor\": "
                  "{}}, "
                  "\"reference_length_names\": [\"L_ref\", \"delta_turb\"], \"reference_area\": 2.17, "
                  "\"n_communication_hyperlayers\": 2, \"hidden_layer_sizes\": [64, 64, 64], "
                  "\"n_latent_scalars\": 12, \"n_latent_vectors\": 6, \"theta\": 1.0, \"leaf_size\": 1, "
                  "\"self_regularization_beta\": 0.01, \"latent_compression_scale\": 100.0, "
                  "\"expand_far_targets\": false}";
}

static ff_status make_case(ff_app *app, const ff_model *model, ff_case **out)
{
    static const double no_shift[3] = {0, 0, 0}, length[2] = {2.786, 0.0423};
    app_boundary *b = NULL;
    int n = 0;
    FF_TRY(app_boundaries_read(app, &b, &n));
    ff_status st = ff_case_create(model, out);
    for (int i = 0; i < n && st == FF_OK; i++) st = ff_case_add_mesh(*out, b[i].name, b[i].mesh, no_shift);
    app_boundaries_free(&b, n);
    if (st != FF_OK) return st;
    memcpy((*out)->length, length, sizeof length);
    (*out)->target_source = 0;
    ff_app_plan_options(app, &(*out)->theta, &(*out)->leaf_size, &(*out)->expand_far);
    return FF_OK;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

typedef struct bench_sums {
    int64_t pairs, flop, peak, faces;
} bench_sums;

/* The longest rank counts for times, the sum for work, the largest for memory. */
static ff_status reduce(ff_comm *comm, double *t_s, int n, bench_sums *s)
{
    FF_TRY(ff_comm_allreduce(comm, t_s, n, FF_MAX_F64));
    int64_t sum[3] = {s->pairs, s->flop, s->faces};
    FF_TRY(ff_comm_allreduce(comm, sum, 3, FF_SUM_I64));
    FF_TRY(ff_comm_allreduce(comm, &s->peak, 1, FF_MAX_I64));
    s->pairs = sum[0], s->flop = sum[1], s->faces = sum[2];
    return FF_OK;
}

/* Dense tensor rate of an H200 in TFLOP/s as measured (docs/kernels.md); float32 is three TF32 products. */
static double h200_tflops(const ff_app *app)
{
    const char *p = ff_config_string(app->config, "run.precision");
    return strcmp(p, "bf16") == 0 ? 790 : strcmp(p, "tf32") == 0 ? 395 : 395.0 / 3;
}

/* Arithmetic of a call. A training step counts as four forward passes: the forward one, the same again on the way back,
 * and the products that give the inputs' and the weights' cotangents. */
static double report_flop(ff_app *app, const bench_sums *s, double t_s, bool train)
{
    double flop = (train ? 4.0 : 1.0) * (double)s->flop, gflops = 1e-9 * flop / t_s;
    ff_info("network FLOP          %.4g (2 x multiply-adds a pair after hoisting%s), %.1f GFLOP/s", flop,
            train ? "; a step is 4 forward passes: forward, recomputed, two products back" : "", gflops);
    if (app->backend != NULL)
        ff_info("tensor rate           %.1f %% of %.0f TFLOP/s a GPU, an H200's for %s",
                0.1 * gflops / h200_tflops(app) / app->comm->size, h200_tflops(app),
                ff_config_string(app->config, "run.precision"));
    ff_json_double(&app->json, "flop", flop);
    ff_json_double(&app->json, "gflops", gflops);
    return gflops;
}

/* Device memory of rank 0 in parts. Lists are a column of their own: they grow with the pairs, nothing else does. */
static void report_device(ff_app *app)
{
    const ff_pair_backend *b = app->backend;
    ff_json *j = &app->json;
    ff_device_memory m;
    const double mib = 1048576;
    if (b->device_memory == NULL) return;
    b->device_memory(b->impl, &m);
    ff_info("device memory         %.1f MiB at the peak of rank 0", (double)m.peak / mib);
    ff_info("  lists               %.1f MiB at their peak", (double)m.lists / mib);
    ff_info(
        "  all but lists       %.1f MiB at its peak: weights %.1f, points %.1f, records %.1f, chunk %.1f, "
        "other %.1f",
        (double)m.rest / mib, (double)m.weights / mib, (double)m.points / mib, (double)m.records / mib,
        (double)m.chunk / mib, (double)m.other / mib);
    ff_json_int(j, "device_peak_bytes", m.peak);
    ff_json_open(j, "device_bytes", '{');
    ff_json_int(j, "lists", m.lists);
    ff_json_int(j, "all_but_lists", m.rest);
    ff_json_int(j, "weights", m.weights);
    ff_json_int(j, "points", m.points);
    ff_json_int(j, "records", m.records);
    ff_json_int(j, "chunk", m.chunk);
    ff_json_int(j, "other", m.other);
    ff_json_close(j);
}

static void report(ff_app *app, double *t_s, int n, double t_setup_s, const bench_sums *s, bool train)
{
    ff_json *j = &app->json;
    int threads = omp_get_max_threads();
    qsort(t_s, (size_t)n, sizeof *t_s, by_value);
    double median = n % 2 == 1 ? t_s[n / 2] : (t_s[n / 2 - 1] + t_s[n / 2]) / 2;
    const ff_pair_backend *gpu = app->backend;
    if (gpu == NULL) ff_phase_begin("sgemm");
    double gflops, gemm = gpu == NULL ? bench_sgemm_gflops(2048, threads) : 0;
    ff_phase_end();
    ff_info("time of a call        %.1f ms min, %.1f ms median of %d (of these %.1f ms trees and plans)",
            1e3 * t_s[0], 1e3 * median, n, 1e3 * t_setup_s);
    ff_info("pair evaluations      %.4g, %.4g a second", (double)s->pairs, (double)s->pairs / t_s[0]);
    gflops = report_flop(app, s, t_s[0], train);
    ff_json_int(j, "faces", s->faces);
    ff_json_double(j, "t_min_s", t_s[0]);
    ff_json_double(j, "t_median_s", median);
    ff_json_double(j, "t_setup_s", t_setup_s);
    ff_json_int(j, "pair_evaluations", s->pairs);
    if (gemm > 0) {
        double all = gemm * app->comm->size;
        ff_info("sgemm at 2048^3       %.0f GFLOP/s a rank with %d threads: %.0f %% of %d ranks' sgemm rate "
                "reached",
                gemm, threads, 100 * gflops / all, app->comm->size);
        ff_info("scaled to 350 GFLOP/s %.1f ms (times measured on a machine of that sgemm rate: "
                "docs/measurements.md)",
                1e3 * t_s[0] * all / 350);
        ff_json_double(j, "sgemm_gflops", gemm);
        ff_json_double(j, "t_scaled_s", t_s[0] * all / 350);
    } else if (gpu != NULL) {
        report_device(app);
    } else {
        ff_info("sgemm at 2048^3       no BLAS library found (Debian: libopenblas0)");
    }
    ff_info("peak memory           %.1f MiB a rank", (double)s->peak / 1048576);
    ff_json_int(j, "peak_rank_bytes", s->peak);
}

/* One number for all fields: the sum over all values of a hash of their place and bits, whatever rank they are on. */
static ff_status digest(ff_comm *comm, const double *out, int64_t n, int n_comp, int64_t *sum)
{
    int64_t *all = NULL, first = 0;
    FF_TRY(FF_NEW_ALL(comm, all, comm->size));
    ff_status st = ff_comm_allgather(comm, &n, sizeof n, all);
    for (int r = 0; r < comm->rank; r++) first += all[r];
    ff_free(all);
    FF_TRY(st);
    *sum = 0;
    for (int64_t k = 0; k < n * n_comp; k++) { /* 32 bits a value: no overflow below 2^31 values */
        uint64_t bits;
        memcpy(&bits, &out[k], sizeof bits);
        *sum += (int64_t)(ff_rng_u64(bits, 0, (uint64_t)(first * n_comp + k)) >> 32);
    }
    return ff_comm_allreduce(comm, sum, 1, FF_SUM_I64);
}

/* Device seconds by phase of the fastest call on this rank. */
typedef struct bench_phases {
    ff_resident_phase row[16];
    int n;
    double t_s;
} bench_phases;

static void keep_phases(ff_eval *e, double t_s, bench_phases *p)
{
    if (p->n > 0 && t_s >= p->t_s) return;
    p->n = ff_eval_resident_phases(e, p->row, (int)(sizeof p->row / sizeof *p->row));
    p->t_s = t_s;
}

static void print_phases(ff_app *app, const bench_phases *p)
{
    double sum = 0;
    if (p->n == 0) return;
    ff_info("fastest call on rank 0, device time by phase:");
    ff_json_open(&app->json, "phases_s", '{');
    for (int k = 0; k < p->n; k++) {
        ff_info("  %-12s %9.3f ms  %5.1f %%", p->row[k].name, 1e3 * p->row[k].t_s,
                100 * p->row[k].t_s / p->t_s);
        ff_json_double(&app->json, p->row[k].name, p->row[k].t_s);
        sum += p->row[k].t_s;
    }
    ff_info("  %-12s %9.3f ms  %5.1f %%", "other", 1e3 * (p->t_s - sum), 100 * (1 - sum / p->t_s));
    ff_json_double(&app->json, "other", p->t_s - sum);
    ff_json_close(&app->json);
}

/* A call is then a whole training step without the optimiser. */
static void report_train(ff_app *app, double t_forward_s, double t_backward_s, const ff_grad_stats *g,
                         size_t forward_peak, int64_t peak)
{
    ff_json *j = &app->json;
    ff_info("forward, backward     %.1f ms, %.1f ms: %.2f of forward (layers alone; backward with its trees)",
            1e3 * t_forward_s, 1e3 * t_backward_s, t_backward_s / t_forward_s);
    if (g->t_pairs_s > 0)
        ff_info("last way back         %.1f ms: waiting for lists %.1f ms, pairs on the GPU %.1f ms (copies "
                "included), the rest %.1f ms",
                1e3 * g->t_run_s, 1e3 * g->t_lists_s, 1e3 * g->t_pairs_s,
                1e3 * (g->t_run_s - g->t_lists_s - g->t_pairs_s));
    ff_info("peak of forward       %.1f MiB a rank: training takes %.2f of it",
            (double)forward_peak / 1048576, (double)peak / (double)forward_peak);
    ff_json_double(j, "t_forward_s", t_forward_s);
    ff_json_double(j, "t_backward_s", t_backward_s);
    ff_json_int(j, "forward_peak_rank_bytes", (int64_t)forward_peak);
}

/* One number for all gradients, the same on every rank. */
static int64_t gradients_digest(const ff_model *m, const ff_grad *g)
{
    int64_t sum = 0;
    for (int i = 0; i < m->n_tensors; i++)
        for (int64_t k = 0; k < (int64_t)m->tensor[i].n; k++) {
            uint64_t bits;
            memcpy(&bits, &ff_grad_get(g)->tensor[i][k], sizeof bits);
            sum += (int64_t)(ff_rng_u64(bits, (uint64_t)i, (uint64_t)k) >> 32);
        }
    return sum;
}

/* A step: the forward run, and gradients of all parameters of sum(out). Trees and lists of the way back are part of it,
 * since faces are drawn anew. peak (or NULL): memory of the forward run, before which nothing else is made then. sum (or NULL): digest of the gradients. */
static ff_status train_step(ff_app *app, ff_eval *e, const ff_case *cs, double *out, size_t *peak,
                            int64_t *sum, double *t_backward_s, ff_grad_stats *stats)
{
    ff_status st = FF_OK;
    ff_grad *g = NULL;
    double *bar = NULL, t0 = ff_now_s();
    FF_TRY(FF_NEW_ALL(app->comm, bar, cs->source[0].n * 4 + 1));
    for (int64_t k = 0; k < cs->source[0].n * 4; k++) bar[k] = 1;
    if (peak == NULL) FF_GO(ff_grad_create(e, FF_GRAD_PARAMS, &g));
    FF_GO(ff_eval_run(e, out));
    if (peak != NULL) *peak = ff_mem_peak();
    if (peak != NULL) FF_GO(ff_grad_create(e, FF_GRAD_PARAMS, &g));
    FF_GO(ff_grad_run(g, bar));
    if (sum != NULL) *sum = gradients_digest(cs->model, g);
    *stats = *ff_grad_get_stats(g);
done:
    ff_grad_destroy(&g);
    ff_free(bar);
    *t_backward_s = ff_now_s() - t0 - ff_eval_get_stats(e)->t_layers_s;
    return st;
}

/* What a bench of evaluations or steps of training has measured. */
typedef struct bench_run {
    ff_app *app;
    bool train;
    int repeat;
    ff_model *model;
    ff_case *cs;
    ff_eval *e;
    double *t_s, *out;                           /* [repeat + 2]; [faces][4] */
    double t_setup_s, t_forward_s, t_backward_s; /* of the last one, of the best ones */
    size_t forward_peak;
    int64_t gradients; /* digest */
    ff_grad_stats way_back;
    bench_phases phases;
    ff_progress *progress; /* of the calls */
} bench_run;

static ff_status bench_repeat(bench_run *b)
{
    ff_comm *comm = b->app->comm;
    ff_eval_opts opts = FF_EVAL_OPTS_INIT;
    double t_backward_s = 0;
    opts.backend = b->app->backend;
    opts.device_only = true;
    opts.f64 = strcmp(ff_config_string(b->app->config, "run.precision"), "f64") == 0;
    opts.keep = b->train;
    opts.adjoint = b->train ? b->app->backend : NULL;
    b->t_forward_s = b->t_backward_s = HUGE_VAL;
    ff_mem_reset_peak();
    ff_info("one call to warm up, %d to be timed", b->repeat);
    for (int k = -1; k < b->repeat; k++) { /* -1: warms up, packs networks */
        FF_TRY(ff_comm_barrier(comm));
        double t0 = ff_now_s();
        if (k < 0)
            FF_TRY(ff_eval_create(comm, b->cs, &opts, &b->e));
        else
            FF_TRY(ff_eval_refresh(b->e));
        FF_TRY(b->train ? train_step(b->app, b->e, b->cs, b->out, k < 0 ? &b->forward_peak : NULL,
                                     k < 0 ? &b->gradients : NULL, &t_backward_s, &b->way_back)
                        : ff_eval_run(b->e, b->out));
        FF_TRY(ff_comm_barrier(comm));
        b->t_s[k < 0 ? 0 : k] = ff_now_s() - t0;
        ff_progress_add(b->progress, 1);
        if (k < 0) continue;
        b->t_setup_s = ff_eval_get_stats(b->e)->t_setup_s;
        keep_phases(b->e, b->t_s[k], &b->phases);
        b->t_backward_s = fmin(b->t_backward_s, t_backward_s);
        b->t_forward_s = fmin(b->t_forward_s, ff_eval_get_stats(b->e)->t_layers_s);
    }
    return b->train ? ff_comm_allreduce(comm, &b->t_backward_s, 1, FF_MAX_F64) : FF_OK;
}

static ff_status bench_report(bench_run *b, const char *config)
{
    ff_app *app = b->app;
    const ff_eval_stats *s = ff_eval_get_stats(b->e);
    bench_sums sums = {s->pairs, s->flop, (int64_t)ff_mem_peak(), b->cs->source[0].n};
    int64_t sum = 0;
    FF_TRY(reduce(app->comm, b->t_s, b->repeat, &sums));
    ff_info("bench globe, case %s, config %s, %s, %lld body faces, %d ranks x %d threads, kernel %s",
            ff_config_string(app->config, "case"), config, ff_config_string(app->config, "run.precision"),
            (long long)sums.faces, app->comm->size, omp_get_max_threads(),
            app->backend != NULL ? app->backend->name : ff_globe_isa());
    report(app, b->t_s, b->repeat, b->t_setup_s, &sums, b->train);
    print_phases(app, &b->phases);
    FF_TRY(digest(app->comm, b->out, b->cs->source[0].n, 4, &sum));
    ff_info("fields                digest %016llx", (unsigned long long)sum);
    ff_json_int(&app->json, "fields_digest", sum);
    if (b->train) {
        ff_info("gradients             digest %016llx", (unsigned long long)b->gradients);
        ff_json_int(&app->json, "gradients_digest", b->gradients);
    }
    if (b->train)
        report_train(app, b->t_forward_s, b->t_backward_s, &b->way_back, b->forward_peak, sums.peak);
    return dist_table(app, b->e);
}

static ff_status bench_globe(ff_app *app)
{
    ff_status st = FF_OK;
    const ff_config *c = app->config;
    bool wide = strcmp(ff_config_string(c, "bench.config"), "wide") == 0;
    bench_run b = {.app = app,
                   .train = strcmp(ff_config_string(c, "bench.mode"), "train") == 0,
                   .repeat = (int)ff_config_int(c, "bench.repeat")};
    if (b.train) ff_app_keep_pages();
    FF_GO(ff_agree(app->comm,
                   ff_model_random(config_json(wide), (uint64_t)ff_config_int(c, "run.seed"), &b.model)));
    FF_GO(ff_agree(app->comm, make_case(app, b.model, &b.cs)));
    FF_GO(FF_NEW_ALL(app->comm, b.t_s, b.repeat + 2));
    FF_GO(FF_NEW_ALL(app->comm, b.out, b.cs->source[0].n * 4 + 1));
    FF_GO(ff_agree(app->comm, ff_progress_create("calls", b.repeat + 1, &b.progress)));
    FF_GO(bench_repeat(&b));
    ff_progress_destroy(&b.progress);
    st = bench_report(&b, wide ? "wide" : "default");
done:
    ff_progress_destroy(&b.progress);
    ff_free(b.t_s);
    ff_free(b.out);
    ff_eval_destroy(&b.e);
    ff_case_destroy(&b.cs);
    ff_model_destroy(&b.model);
    return st;
}

/* Trees and plans alone: the communication plans of the three boundaries and the body's prediction plans. */
static ff_status bench_plan(ff_app *app)
{
    ff_status st = FF_OK;
    const ff_config *c = app->config;
    int repeat = (int)ff_config_int(c, "bench.repeat");
    ff_model *model = NULL;
    ff_case *cs = NULL;
    ff_eval *e = NULL;
    double *t_s = NULL;
    ff_progress *progress = NULL;
    int64_t pairs = 0;
    ff_eval_opts opts = FF_EVAL_OPTS_INIT;
    opts.backend = app->backend;
    opts.device_only = true;
    bool wide = strcmp(ff_config_string(c, "bench.config"), "wide") == 0;
    FF_TRY(ff_agree(app->comm, ff_model_random(config_json(wide), 1, &model)));
    FF_GO(ff_agree(app->comm, make_case(app, model, &cs)));
    if (app->backend != NULL && ff_comm_size(app->comm) == 1) {
        st = bench_plan_cuda(app, cs);
        goto done;
    }
    FF_GO(FF_NEW_ALL(app->comm, t_s, repeat + 1));
    FF_GO(ff_agree(app->comm, ff_progress_create("calls", repeat + 1, &progress)));
    for (int k = -1; k < repeat; k++) {
        FF_GO(ff_comm_barrier(app->comm));
        double t0 = ff_now_s();
        if (k < 0)
            FF_GO(ff_eval_create(app->comm, cs, &opts, &e));
        else
            FF_GO(ff_eval_refresh(e));
        FF_GO(ff_comm_barrier(app->comm));
        t_s[k < 0 ? 0 : k] = ff_now_s() - t0;
        ff_progress_add(progress, 1);
    }
    ff_progress_destroy(&progress);
    pairs = ff_eval_get_stats(e)->dist.near_pairs + ff_eval_get_stats(e)->dist.far_evals;
    FF_GO(ff_comm_allreduce(app->comm, t_s, repeat, FF_MAX_F64));
    FF_GO(ff_comm_allreduce(app->comm, &pairs, 1, FF_SUM_I64));
    qsort(t_s, (size_t)repeat, sizeof *t_s, by_value);
    ff_info(
        "bench plan, case %s: %.1f ms min, %.1f ms median of %d; %.4g evaluations in 9 communication and 3 "
        "prediction plans",
        ff_config_string(c, "case"), 1e3 * t_s[0], 1e3 * t_s[repeat / 2], repeat, (double)pairs);
    ff_json_double(&app->json, "t_min_s", t_s[0]);
    ff_json_double(&app->json, "t_median_s", t_s[repeat / 2]);
    ff_json_int(&app->json, "evaluations", pairs);
    FF_GO(dist_table(app, e));
done:
    ff_progress_destroy(&progress);
    ff_free(t_s);
    ff_eval_destroy(&e);
    ff_case_destroy(&cs);
    ff_model_destroy(&model);
    return st;
}

ff_status cmd_bench(ff_app *app)
{
    const ff_config *c = app->config;
    if (strcmp(ff_config_string(c, "bench.kind"), "scatter") == 0) return bench_scatter(app);
    if (strcmp(ff_config_string(c, "bench.kind"), "sum") == 0) return bench_sum(app);
    FF_TRY(ff_config_need(c, "case"));
    return strcmp(ff_config_string(c, "bench.kind"), "plan") == 0 ? bench_plan(app) : bench_globe(app);
}
