#include "sum_verb.h"

#include "app_backend.h"
#include "ff_result.h"
#include "ff_sum_tile.h"
#include "sum_gpu.h"

#include <math.h>
#include <omp.h>
#include <string.h>

static void print_error(sum_verb *m, const char *what, const ff_sum_error *e)
{
    ff_json *j = &m->app->json;
    ff_info("%s: relative error median %.2e, p95 %.2e, p99 %.2e, max %.2e", what, e->median, e->p95, e->p99,
            e->max);
    ff_json_open(j, what, '{');
    ff_json_double(j, "median", e->median);
    ff_json_double(j, "p95", e->p95);
    ff_json_double(j, "p99", e->p99);
    ff_json_double(j, "max", e->max);
    ff_json_close(j);
}

static void print_info(sum_verb *m, ff_sum_info i, const char *where)
{
    ff_json *j = &m->app->json;
    ff_info("%lld sources, %lld targets, kernel %s, %s (%s): theta %g, order %d, leaf %d",
            (long long)i.n_sources, (long long)i.n_targets, ff_config_string(m->app->config, "sum.kernel"),
            m->o.single ? "f32" : "f64", where, i.theta, i.order, i.leaf_size);
    if (!ff_config_given(m->app->config, "sum.density"))
        ff_info("densities random in [-1, 1), since none were given: --density FILE, or ones");
    ff_info("%.4g direct pairs, %.4g far pairs of nodes of %lld proxies", (double)i.direct_pairs,
            (double)i.far_pairs, (long long)i.proxies);
    ff_json_int(j, "sources", i.n_sources);
    ff_json_int(j, "targets", i.n_targets);
    ff_json_double(j, "theta", i.theta);
    ff_json_int(j, "order", i.order);
    ff_json_int(j, "leaf_size", i.leaf_size);
    ff_json_int(j, "direct_pairs", i.direct_pairs);
    ff_json_int(j, "far_pairs", i.far_pairs);
}

static double worst_of(const sum_verb *m, const ff_sum_error *e, const ff_sum_error *g)
{
    return m->gradient != NULL && g->p99 > e->p99 ? g->p99 : e->p99;
}

/* Errors of n sampled targets; with rtol, whether it was met. */
static void print_check(sum_verb *m, int64_t n, const ff_sum_error *e, const ff_sum_error *g)
{
    print_error(m, "value", e);
    if (m->gradient != NULL) print_error(m, "gradient", g);
    const double worst = worst_of(m, e, g), rtol = m->rtol;
    if (rtol > 0 && !(worst <= rtol))
        ff_warn("rtol = %g is not met: p99 %.2e of %lld targets; ask for less, or give --theta and --order",
                rtol, worst, (long long)n);
    else if (rtol > 0)
        ff_info("rtol = %g is met by 99 %% of the sampled targets", rtol);
}

/* The table of rtol knows sets and densities like those it was measured with; for others, as dipoles normal to a surface, the
 * check says when to ask for more: whether sums whose sampled errors are above rtol can be made more exact and were not
 * too often. Then o.rtol is what to ask for. Errors are the same on all ranks. */
static bool tighten(sum_verb *m, const ff_sum_error *e, const ff_sum_error *g)
{
    enum { MOST_TRIES = 4 };
    const double worst = worst_of(m, e, g);
    const double next = fmax(0.5 * m->o.rtol * m->rtol / worst, ff_sum_least_rtol(&m->o));
    if (m->rtol <= 0 || !(worst > m->rtol) || next >= m->o.rtol || ++m->n_tries >= MOST_TRIES) return false;
    ff_info("p99 of the sampled targets is %.2e, above rtol = %g: once more with %.2g", worst, m->rtol, next);
    m->o.rtol = next;
    return true;
}

ff_status sum_write(const sum_verb *m)
{
    const ff_config *c = m->app->config;
    const int64_t n = m->xt != NULL ? m->n_t_home : m->n_home;
    const int dim = m->o.dim, n_out = ff_sum_opts_out(&m->o);
    const double *x = m->xt != NULL ? m->xt : m->x;
    ff_text deck = {0};
    double *points = NULL;
    ff_phase_begin("write");
    ff_config_print(c, &deck);
    ff_status st = ff_text_status(&deck);
    if (st == FF_OK) st = FF_NEW0(points, 3 * n + 1);
    FF_GO(ff_agree(m->app->comm, st));
    for (int64_t i = 0; i < n; i++)
        for (int d = 0; d < dim; d++) points[3 * i + d] = x[i * dim + d];
    const ff_result_field field[2] = {{"value", n_out, FF_H5_F64, m->value},
                                      {"gradient", n_out * dim, FF_H5_F64, m->gradient}};
    const ff_result_text text[2] = {{"deck", ff_text_get(&deck)}, {"version", ff_version()}};
    ff_result r = {.dim = 0, .n_points = n, .points = points};
    r.n_point_fields = m->gradient != NULL ? 2 : 1;
    r.point_field = field;
    r.n_texts = 2;
    r.text = text;
    FF_GO(ff_result_write(m->app->comm, &r, ff_config_string(c, "output"), ff_config_bool(c, "write.force")));
    ff_info("wrote %s", ff_config_string(c, "output"));
done:
    ff_text_free(&deck);
    ff_free(points);
    return st;
}

static bool again_on_gpu(sum_verb *m, const sum_gpu_result *r)
{
    return tighten(m, &r->value, &r->gradient);
}

static ff_status on_gpu(sum_verb *m)
{
    const int64_t n = ff_config_int(m->app->config, "sum.check");
    sum_gpu_result r;
    ff_phase_begin("sums");
    FF_TRY(sum_gpu_run(m, n, 0, n > 0 ? again_on_gpu : NULL, &r));
    print_info(m, r.info, "GPU");
    if (n > 0) print_check(m, n, &r.value, &r.gradient);
    return FF_OK;
}

/* Sums, and their errors if n > 0. Collective */
static ff_status sum_once(sum_verb *m, int64_t n, ff_sum_error *e, ff_sum_error *g)
{
    ff_sum_destroy(&m->s);
    FF_TRY(ff_sum_create_dist(m->app->comm, m->xt, m->n_t_home, m->x, m->n_home, &m->o, &m->s));
    FF_TRY(ff_sum_apply(m->s, m->density, m->value, m->gradient));
    ff_phase_count("near and far", "targets", (double)(m->xt != NULL ? m->n_t_home : m->n_home), 0);
    if (n == 0) return FF_OK;
    ff_phase_begin("check");
    return ff_sum_check(m->s, m->density, m->value, m->gradient, n, e, m->gradient != NULL ? g : NULL);
}

/* Collective */
static ff_status on_cpu(sum_verb *m)
{
    const int64_t n = ff_config_int(m->app->config, "sum.check");
    ff_sum_info i;
    ff_sum_error e, g;
    do FF_TRY(sum_once(m, n, &e, &g));
    while (n > 0 && tighten(m, &e, &g));
    ff_sum_get_info(m->s, &i);
    print_info(m, i, ff_sum_isa());
    if (n > 0) print_check(m, n, &e, &g);
    return FF_OK;
}

/* Collective */
static ff_status run(sum_verb *m)
{
    const ff_config *c = m->app->config;
    ff_comm *comm = m->app->comm;
    const bool gpu = sum_gpu_wanted(m->app);
    int device; /* asked for before anything is read */
    ff_status st = sum_options(m->app, &m->o);
    FF_TRY(ff_agree(comm, st));
    m->rtol = m->o.rtol;
    if (gpu) FF_TRY(app_gpu_pick(m->app, &device));
    if (ff_config_has(c, "output"))
        FF_TRY(ff_result_check_path(comm, ff_config_string(c, "output"), ff_config_bool(c, "write.force")));
    FF_TRY(sum_read(m));
    const int64_t n_t = (m->xt != NULL ? m->n_t_home : m->n_home) * ff_sum_opts_out(&m->o);
    st = FF_NEW(m->value, n_t + 1);
    if (st == FF_OK && m->o.gradient) st = FF_NEW(m->gradient, n_t * m->o.dim + 1);
    FF_TRY(ff_agree(comm, st));
    FF_TRY(gpu ? on_gpu(m) : on_cpu(m));
    return ff_config_has(c, "output") ? sum_write(m) : FF_OK;
}

ff_status cmd_sum(ff_app *app)
{
    sum_verb m = {.app = app};
    ff_status st = run(&m);
    void *const owned[] = {m.x, m.xt, m.corners, m.density, m.value, m.gradient};
    for (int i = 0; i < 6; i++) ff_free(owned[i]);
    ff_sum_destroy(&m.s);
    return st;
}
