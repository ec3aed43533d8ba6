/* farfield plan: clouds, trees and the interaction plans of all boundaries, counted and not kept. */
#include "app_boundary.h"

#include "ff_dtt.h"
#include "ff_let.h"
#include "ff_model.h"
#include "plan_gpu.h"

#include <math.h>
#include <string.h>

typedef struct plan_set {
    int n;
    app_boundary *boundary;                 /* [n]; meshes are gone once the clouds are there */
    ff_cloud **cloud;                       /* [n] */
    ff_let **let;                           /* [n] */
    plan_gpu *gpu;                          /* NULL: the CPU counts */
    uint8_t *need;                          /* [n][n] ones: every boundary acts on every other */
    int64_t *weight;                        /* [n][n] layers that use a plan */
    int dim, leaf_size, n_layers, n_floats; /* n_floats: payload of a point or node in a layer */
    bool expand_far;
    double theta;
} plan_set;

static void plan_set_free(plan_set *p)
{
    for (int i = 0; i < p->n; i++) {
        if (p->let != NULL) ff_let_destroy(&p->let[i]);
        if (p->cloud != NULL) ff_cloud_destroy(&p->cloud[i]);
    }
    plan_gpu_close(&p->gpu);
    ff_free(p->let);
    ff_free(p->cloud);
    ff_free(p->need);
    ff_free(p->weight);
    app_boundaries_free(&p->boundary, p->n);
}

/* Defaults, then the model's values, then the user's. */
static ff_status plan_options(ff_app *app, plan_set *p)
{
    p->theta = 1, p->leaf_size = 1, p->n_layers = 2, p->n_floats = 40;
    if (ff_config_has(app->config, "model")) {
        ff_model *m = NULL;
        FF_TRY(ff_model_read(app->comm, ff_config_string(app->config, "model"), &m));
        const ff_model_config *c = m->config;
        p->theta = c->theta, p->leaf_size = c->leaf_size, p->expand_far = c->expand_far;
        p->n_layers = c->n_comm;
        p->n_floats = c->n_len + c->n_latent_scalar + c->dim * c->n_latent_vector;
        ff_status st = FF_OK;
        for (int i = 0; i < p->n && st == FF_OK; i++)
            if (!ff_config_has(app->config, "case") && ff_model_find_bc(c, p->boundary[i].name) < 0 &&
                c->n_bc > 1)
                st = ff_fail(FF_E_INPUT, "boundary \"%s\" is not in the model %s; name the files: name=file",
                             p->boundary[i].name, ff_config_string(app->config, "model"));
        ff_model_destroy(&m);
        FF_TRY(st);
    }
    ff_app_plan_options(app, &p->theta, &p->leaf_size, &p->expand_far);
    return FF_OK;
}

static ff_status make_clouds(ff_app *app, plan_set *p)
{
    ff_status st = FF_OK;
    float *x = NULL;
    int64_t n_home = 0;
    st = FF_NEW0(p->cloud, p->n);
    if (st == FF_OK) st = FF_NEW0(p->let, p->n);
    if (st == FF_OK) st = FF_NEW(p->need, p->n * p->n);
    if (st == FF_OK) st = FF_NEW(p->weight, p->n * p->n);
    FF_TRY(ff_agree(app->comm, st));
    p->dim = p->boundary[0].mesh->dim;
    for (int i = 0; i < p->n; i++) {
        /* Targets of the last layer are the centroids of the first boundary: its plans serve once more. */
        for (int j = 0; j < p->n; j++) {
            p->need[i * p->n + j] = 1;
            p->weight[i * p->n + j] = p->n_layers + (i == 0);
        }
        ff_phase_begin("centroids");
        FF_GO(ff_agree(app->comm, app_boundary_centroids(&p->boundary[i], &x, &n_home)));
        ff_phase_begin("sort");
        FF_GO(ff_cloud_create(app->comm, x, n_home, p->dim, p->leaf_size, &p->cloud[i]));
        ff_phase_count("sort", "points", (double)n_home, 0);
        FF_FREE(x);
    }
done:
    ff_free(x);
    return st;
}

/* Whether a distribution over ranks is shown: of this run, or of plan.ranks. */
static bool distributed(const ff_app *app)
{
    return ff_comm_size(app->comm) > 1 || ff_config_int(app->config, "plan.ranks") > 0;
}

static ff_status make_trees(ff_app *app, plan_set *p)
{
    if (ff_comm_size(app->comm) > 1) {
        ff_phase_begin("balance");
        FF_TRY(ff_let_balance(p->cloud, p->n, p->need, p->weight, p->theta, p->expand_far));
    }
    ff_phase_begin("trees");
    FF_TRY(plan_gpu_open(app, p->cloud, p->n, &p->gpu));
    if (p->gpu == NULL || distributed(app)) FF_TRY(ff_let_build(p->cloud, p->n, p->need, p->theta, p->let));
    for (int i = 0; i < p->n; i++) {
        int64_t all = ff_topo_nodes(p->cloud[i]->n, p->leaf_size);
        ff_phase_count("trees", "nodes", (double)(p->let[i] != NULL ? p->let[i]->tree->n_nodes : all), 0);
    }
    ff_phase_end();
    return FF_OK;
}

static double evaluations(const ff_dtt_counts *c)
{
    return (double)c->near_near + (double)c->near_far + (double)c->far_near + (double)c->far_far;
}

/* Counts of targets i against sources j, summed over ranks; *t_s: the slowest rank's time. */
static ff_status count_pair(ff_app *app, const plan_set *p, int i, int j, ff_dtt_counts *c, double *t_s)
{
    const ff_cloud *cloud = p->cloud[i];
    int rank = ff_comm_rank(app->comm);
    *c = (ff_dtt_counts){0};
    ff_phase_begin("walk");
    double t0 = ff_now_s();
    ff_status st = p->gpu != NULL
                       ? plan_gpu_count(p->gpu, i, j, p->theta, p->expand_far, c)
                       : ff_dtt_count_range(p->let[i]->tree, p->let[j]->tree, p->theta, p->expand_far,
                                            cloud->cut[rank], cloud->cut[rank + 1], c, NULL, 0, NULL);
    *t_s = ff_now_s() - t0;
    ff_phase_count("walk", "node pairs", (double)(c->far_node_pairs + c->leaf_pairs), 0);
    ff_phase_end();
    FF_TRY(ff_agree(app->comm, st));
    int64_t v[6] = {c->near_near, c->near_far, c->far_near, c->far_far, c->far_node_pairs, c->leaf_pairs};
    FF_TRY(ff_comm_allreduce(app->comm, v, 6, FF_SUM_I64));
    *c = (ff_dtt_counts){v[0], v[1], v[2], v[3], v[4], v[5]};
    return ff_comm_allreduce(app->comm, t_s, 1, FF_MAX_F64);
}

static void json_pair(ff_json *j, const plan_set *p, int i, int k, const ff_dtt_counts *c, double t_s)
{
    ff_json_open(j, NULL, '{');
    ff_json_string(j, "target", p->boundary[i].name);
    ff_json_string(j, "source", p->boundary[k].name);
    ff_json_int(j, "near", c->near_near);
    ff_json_int(j, "near_far", c->near_far);
    ff_json_int(j, "far_near", c->far_near);
    ff_json_int(j, "far", c->far_far);
    ff_json_int(j, "far_node_pairs", c->far_node_pairs);
    ff_json_int(j, "leaf_pairs", c->leaf_pairs);
    ff_json_double(j, "t_s", t_s);
    ff_json_close(j);
}

static ff_status count_all(ff_app *app, const plan_set *p)
{
    double layer = 0, run = 0, stored = 0, t_total_s = 0;
    int64_t faces = 0;
    ff_info("%-34s %13s %14s %13s %14s %9s", "target <- source", "near", "near-far", "far-near", "far-far",
            "s");
    ff_json_open(&app->json, "plans", '[');
    for (int i = 0; i < p->n; i++) {
        faces += p->cloud[i]->n;
        for (int j = 0; j < p->n; j++) {
            ff_dtt_counts c;
            double t_s = 0;
            char name[72];
            FF_TRY(count_pair(app, p, i, j, &c, &t_s));
            (void)snprintf(name, sizeof name, "%.33s <- %.33s", p->boundary[i].name, p->boundary[j].name);
            ff_info("%-34s %13lld %14lld %13lld %14lld %9.3f", name, (long long)c.near_near,
                    (long long)c.near_far, (long long)c.far_near, (long long)c.far_far, t_s);
            json_pair(&app->json, p, i, j, &c, t_s);
            layer += evaluations(&c);
            run += (double)p->weight[i * p->n + j] * evaluations(&c);
            stored +=
                4.0 * (double)c.far_node_pairs + (p->leaf_size == 1 ? 4.0 : 20.0) * (double)c.leaf_pairs;
            t_total_s += t_s;
        }
    }
    ff_json_close(&app->json);
    ff_info("faces %lld, theta %g, leaf_size %d, %s far targets", (long long)faces, p->theta, p->leaf_size,
            p->expand_far ? "expanded" : "not expanded");
    ff_info("work: %.5g evaluations a communication layer and length; %.5g with %d layers and the targets of "
            "\"%s\", which use its own plans",
            layer, run, p->n_layers, p->boundary[0].name);
    ff_info("walk%s: %.3f s, %.3g us a face; lists of %.3g GiB if they were kept, none is",
            p->gpu != NULL ? " on GPUs" : "", t_total_s, 1e6 * t_total_s / (double)(faces > 0 ? faces : 1),
            stored / 0x1p30);
    ff_json_int(&app->json, "faces", faces);
    ff_json_double(&app->json, "evaluations_layer", layer);
    ff_json_double(&app->json, "evaluations_run", run);
    ff_json_double(&app->json, "list_bytes", stored);
    ff_json_double(&app->json, "walk_s", t_total_s);
    return FF_OK;
}

/* ---- distribution ---- */

typedef struct spread {
    double min, avg, max;
} spread;

static spread spread_of(const ff_dist_row *row, int n, double (*value)(const ff_dist_row *, double),
                        double factor)
{
    spread s = {INFINITY, 0, 0};
    for (int r = 0; r < n; r++) {
        double v = value(&row[r], factor);
        s.min = fmin(s.min, v);
        s.max = fmax(s.max, v);
        s.avg += v / n;
    }
    return s;
}

static double points_of(const ff_dist_row *r, double f)
{
    return f * (double)r->points;
}
static double near_of(const ff_dist_row *r, double f)
{
    return f * (double)r->near_pairs;
}
static double far_of(const ff_dist_row *r, double f)
{
    return f * (double)r->far_evals;
}
static double work_of(const ff_dist_row *r, double f)
{
    return f * (double)r->work;
}
static double peers_of(const ff_dist_row *r, double f)
{
    return f * (double)r->peers;
}
static double sent_of(const ff_dist_row *r, double f)
{
    return f * (double)(r->send_nodes + r->send_points);
}
static double received_of(const ff_dist_row *r, double f)
{
    return f * (double)(r->recv_nodes + r->recv_points);
}

static void print_rows(ff_app *app, const plan_set *p, const ff_dist_row *row, int n_ranks)
{
    const double bytes = 4.0 * p->n_floats;
    const struct {
        const char *name, *key;
        double (*value)(const ff_dist_row *, double);
        double factor;
    } column[] = {
        {"faces", "points", points_of, 1},
        {"near pairs", "near_pairs", near_of, 1},
        {"far evaluations", "far_evals", far_of, 1},
        {"work", "work", work_of, 1},
        {"peers", "peers", peers_of, 1},
        {"kB sent a layer", "bytes_sent", sent_of, bytes},
        {"kB received a layer", "bytes_received", received_of, bytes},
    };
    ff_json *j = &app->json;
    spread w = spread_of(row, n_ranks, work_of, 1);
    double imbalance = w.avg > 0 ? 100 * (w.max / w.avg - 1) : 0;
    ff_info("distribution over %d ranks: imbalance of work %.2f %% (largest over mean)", n_ranks, imbalance);
    ff_info("  %-20s %14s %14s %14s", "a rank", "min", "mean", "max");
    ff_json_open(j, "distribution", '{');
    ff_json_int(j, "ranks", n_ranks);
    ff_json_double(j, "imbalance_percent", imbalance);
    for (size_t i = 0; i < sizeof column / sizeof column[0]; i++) {
        spread s = spread_of(row, n_ranks, column[i].value, column[i].factor);
        double shown = strncmp(column[i].name, "kB", 2) == 0 ? 1e-3 : 1;
        ff_info("  %-20s %14.6g %14.6g %14.6g", column[i].name, shown * s.min, shown * s.avg, shown * s.max);
        ff_json_doubles(j, column[i].key, (double[]){s.min, s.avg, s.max}, 3);
    }
    ff_json_close(j);
    ff_info("  (%d floats a node or point and layer; upper nodes, which all ranks hold, are not counted)",
            p->n_floats);
}

/* Of this run, or of a run with plan.ranks ranks. */
static ff_status distribution(ff_app *app, const plan_set *p)
{
    ff_status st = FF_OK;
    ff_dist_row *row = NULL, mine;
    int size = ff_comm_size(app->comm), n = (int)ff_config_int(app->config, "plan.ranks");
    if (!distributed(app)) return FF_OK;
    if (n == 0) {
        for (int i = 0; i < p->n; i++)
            for (int j = 0; j < p->n; j++) {
                FF_TRY(ff_agree(app->comm,
                                ff_let_mark(p->let[i], p->let[j], p->theta, p->expand_far, NULL, 0, NULL)));
            }
        for (int i = 0; i < p->n; i++) FF_TRY(ff_let_finish(p->let[i]));
        FF_TRY(ff_agree(app->comm,
                        ff_let_figures(p->let, p->n, p->need, p->weight, p->theta, p->expand_far, &mine)));
    }
    ff_phase_begin("distribution");
    FF_GO(FF_NEW0_ALL(app->comm, row, n > 0 ? n : size));
    if (n > 0)
        FF_GO(ff_dist_study(p->let, p->n, p->need, p->weight, p->theta, p->expand_far, n, row));
    else
        FF_GO(ff_comm_allgather(app->comm, &mine, sizeof mine, row));
    ff_phase_end();
    print_rows(app, p, row, n > 0 ? n : size);
done:
    ff_free(row);
    return st;
}

ff_status cmd_plan(ff_app *app)
{
    ff_status st = FF_OK;
    plan_set p = {0};
    if (ff_config_has(app->config, "plan.ranks") && ff_comm_size(app->comm) > 1)
        return ff_config_bad(app->config, "plan.ranks", "a run on one rank: it works out the others itself");
    ff_phase_begin("read");
    FF_GO(app_boundaries_read(app, &p.boundary, &p.n));
    FF_GO(plan_options(app, &p));
    FF_GO(make_clouds(app, &p));
    FF_GO(make_trees(app, &p));
    FF_GO(count_all(app, &p));
    FF_GO(distribution(app, &p));
    int64_t peak = (int64_t)ff_mem_peak();
    FF_GO(ff_comm_allreduce(app->comm, &peak, 1, FF_MAX_I64));
    ff_info("peak memory %.3f GiB a rank", (double)peak / 0x1p30);
done:
    plan_set_free(&p);
    return st;
}
