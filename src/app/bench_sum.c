/* bench sum: the whole call (sort, trees, plan, sums) on points made in memory, time beside error. */
#include "sum_verb.h"

#include "app_backend.h"
#include "ff_generate.h"
#include "ff_mesh_dist.h"
#include "ff_sum_tile.h"
#include "sum_gpu.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>

typedef struct timed {
    double create_s, apply_s;
} timed;

static ff_status one(sum_verb *m, timed *t)
{
    ff_comm *comm = m->app->comm;
    ff_sum_destroy(&m->s);
    FF_TRY(ff_comm_barrier(comm));
    const double t0 = ff_now_s();
    FF_TRY(ff_sum_create_dist(comm, NULL, 0, m->x, m->n_home, &m->o, &m->s));
    const double t1 = ff_now_s();
    FF_TRY(ff_sum_apply(m->s, m->density, m->value, m->gradient));
    FF_TRY(ff_comm_barrier(comm));
    *t = (timed){t1 - t0, ff_now_s() - t1};
    return FF_OK;
}

/* Points and densities of this rank. Local */
static ff_status make(sum_verb *m)
{
    const ff_config *c = m->app->config;
    const ff_comm *comm = m->app->comm;
    const uint64_t seed = (uint64_t)ff_config_int(c, "run.seed");
    const int n_in = ff_sum_opts_in(&m->o);
    const int n_out = ff_sum_opts_out(&m->o);
    m->n_points = ff_config_int(c, "sum.n");
    const int64_t begin = ff_share_begin(m->n_points, comm->rank, comm->size);
    m->n_home = ff_share_begin(m->n_points, comm->rank + 1, comm->size) - begin;
    FF_TRY(FF_NEW(m->x, 3 * m->n_home + 1));
    FF_TRY(sum_make_density(m, n_in));
    FF_TRY(FF_NEW(m->value, m->n_home * n_out + 1));
    if (m->o.gradient) FF_TRY(FF_NEW(m->gradient, m->n_home * n_out * m->o.dim + 1));
    return ff_generate(ff_config_has(c, "sum.generate") ? ff_config_string(c, "sum.generate") : "uniform",
                       seed, begin, m->n_home, m->o.dim, m->x);
}

static ff_status on_gpu(sum_verb *m)
{
    const ff_config *c = m->app->config;
    ff_json *j = &m->app->json;
    sum_gpu_result r;
    char where[40] = "one GPU";
    m->o.adjoint = true;
    if (m->app->comm->size > 1) (void)snprintf(where, sizeof where, "%d ranks on GPUs", m->app->comm->size);
    FF_TRY(sum_gpu_run(m, 1000, (int)ff_config_int(c, "bench.repeat"), NULL, &r));
    ff_info("bench sum, %s, %lld points, kernel %s, %s, %s: theta %g, order %d, leaf %d",
            ff_config_has(c, "sum.generate") ? ff_config_string(c, "sum.generate") : "uniform",
            (long long)m->n_points, ff_config_string(c, "sum.kernel"), m->o.single ? "f32" : "f64", where,
            r.info.theta, r.info.order, r.info.leaf_size);
    ff_info(
        "  sort, tree, lists and sums: least %.3f ms, median %.3f ms; sums alone %.3f ms; %.4g direct pairs, "
        "%.4g far pairs of nodes",
        1e3 * r.best_s, 1e3 * r.median_s, 1e3 * r.apply_s, (double)r.info.direct_pairs,
        (double)r.info.far_pairs);
    if (m->app->comm->size > 1)
        ff_info("  exchanged %.2f MB a rank and whole call; largest work of a rank %.3f of the mean%s",
                1e-6 * (double)r.bytes_sent / m->app->comm->size, r.imbalance,
                r.cut_again ? ", points divided twice" : "");
    ff_info("  adjoint: by densities %.3f ms, by positions %.3f ms", 1e3 * r.adjoint_s, 1e3 * r.points_s);
    if (r.info.theta == 0) ff_info("  %.4g pairs a second", (double)r.info.direct_pairs / r.apply_s);
    ff_info("  1000 targets: L2 error %.2e, gradient %.2e; p99 %.2e, max %.2e; gradient p99 %.2e, max %.2e",
            r.l2[0], r.l2[1], r.value.p99, r.value.max, r.gradient.p99, r.gradient.max);
    ff_json_double(j, "best_s", r.best_s);
    ff_json_double(j, "median_s", r.median_s);
    ff_json_double(j, "apply_s", r.apply_s);
    ff_json_double(j, "adjoint_s", r.adjoint_s);
    ff_json_double(j, "adjoint_points_s", r.points_s);
    ff_json_double(j, "l2", r.l2[0]);
    ff_json_double(j, "gradient_l2", r.l2[1]);
    ff_json_double(j, "p99", r.value.p99);
    ff_json_double(j, "gradient_p99", r.gradient.p99);
    ff_json_int(j, "direct_pairs", r.info.direct_pairs);
    ff_json_int(j, "far_pairs", r.info.far_pairs);
    ff_json_int(j, "bytes_sent", r.bytes_sent);
    ff_json_double(j, "imbalance", r.imbalance);
    return FF_OK;
}

/* Collective */
static ff_status run(sum_verb *m)
{
    const ff_config *c = m->app->config;
    ff_json *j = &m->app->json;
    const bool gpu = sum_gpu_wanted(m->app);
    timed t, best = {HUGE_VAL, HUGE_VAL};
    ff_sum_info info;
    ff_sum_error e, g = {0, 0, 0, 0};
    double imbalance;
    int device; /* asked for before points are made */
    FF_TRY(ff_agree(m->app->comm, sum_options(m->app, &m->o)));
    if (gpu) FF_TRY(app_gpu_pick(m->app, &device));
    FF_TRY(ff_agree(m->app->comm, make(m)));
    if (gpu) return on_gpu(m);
    for (int64_t k = 0; k < ff_config_int(c, "bench.repeat"); k++) {
        FF_TRY(one(m, &t));
        if (t.create_s + t.apply_s < best.create_s + best.apply_s) best = t;
    }
    FF_TRY(ff_sum_check(m->s, m->density, m->value, m->gradient, 100, &e, m->gradient != NULL ? &g : NULL));
    ff_sum_get_info(m->s, &info);
    FF_TRY(ff_sum_imbalance(m->s, &imbalance));
    ff_info(
        "bench sum, %s, %lld points, kernel %s, %s (%s), %d ranks x %d threads: theta %g, order %d, leaf %d",
        ff_config_has(c, "sum.generate") ? ff_config_string(c, "sum.generate") : "uniform",
        (long long)m->n_points, ff_config_string(c, "sum.kernel"), m->o.single ? "f32" : "f64", ff_sum_isa(),
        m->app->comm->size, omp_get_max_threads(), info.theta, info.order, info.leaf_size);
    ff_info("  sort, trees, plan %.3f s, sums %.3f s; %.4g direct pairs, %.4g far pairs of nodes",
            best.create_s, best.apply_s, (double)info.direct_pairs, (double)info.far_pairs);
    if (m->app->comm->size > 1)
        ff_info("  largest work of a rank %.3f of the mean of all, by counts of pairs", imbalance);
    ff_info("  relative error p99 %.2e, max %.2e; gradient p99 %.2e, max %.2e", e.p99, e.max, g.p99, g.max);
    ff_json_double(j, "create_s", best.create_s);
    ff_json_double(j, "apply_s", best.apply_s);
    ff_json_double(j, "imbalance", imbalance);
    ff_json_double(j, "p99", e.p99);
    ff_json_double(j, "max", e.max);
    ff_json_double(j, "gradient_p99", g.p99);
    ff_json_double(j, "theta", info.theta);
    ff_json_int(j, "order", info.order);
    ff_json_int(j, "leaf_size", info.leaf_size);
    return FF_OK;
}

ff_status bench_sum(ff_app *app)
{
    sum_verb m = {.app = app};
    ff_status st = run(&m);
    void *const owned[] = {m.x, m.density, m.value, m.gradient};
    for (int i = 0; i < 4; i++) ff_free(owned[i]);
    ff_sum_destroy(&m.s);
    return st;
}
