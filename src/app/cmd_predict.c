#include "predict.h"

#include "dist_table.h"

#include <math.h>
#include <string.h>

static const ff_mesh *work_mesh(const predict *p, int i)
{
    return p->tri[i] != NULL ? p->tri[i] : p->boundary[i].mesh;
}

/* A file without name= is the model's only boundary. */
static ff_status name_boundaries(predict *p)
{
    const ff_model_config *m = p->model->config;
    int len = 0;
    if (p->n_boundaries != 1 || m->n_bc != 1) return FF_OK;
    (void)ff_config_split_name(ff_config_file(p->app->config, "mesh", 0), &len);
    if (len > 0) return FF_OK;
    ff_free(p->boundary[0].name);
    p->boundary[0].name = ff_strdup(m->bc[0].name);
    return p->boundary[0].name != NULL ? FF_OK : FF_E_MEM;
}

/* float32 has seven digits: where the coordinates are far from the origin, all of them are moved first. The
 * model sees differences only, so the fields do not change. By a multiple of 1 m, or of a power of two below
 * a smaller extent: a mesh that differs by such a distance gives the same bits. */
static ff_status choose_shift(predict *p)
{
    enum { FAR_RATIO = 8, WARN_RATIO = 100, LARGE_M = 100 };
    double box[6], far = 0, extent = 0;
    for (int d = 0; d < 6; d++) box[d] = HUGE_VAL; /* lo, -hi: one minimum does both */
    for (int i = 0; i < p->n_boundaries; i++) {
        const ff_mesh *m = p->boundary[i].mesh;
        int64_t n_corners = m->cell_off != NULL ? m->cell_off[m->n_cells] : m->dim * m->n_cells;
        for (int64_t k = 0; k < n_corners; k++) /* points that no cell uses may lie anywhere */
            for (int d = 0; d < 3; d++) {
                double x = m->points[3 * m->cell_pts[k] + d];
                box[d] = fmin(box[d], x);
                box[3 + d] = fmin(box[3 + d], -x);
            }
    }
    FF_TRY(ff_comm_allreduce(p->app->comm, box, 6, FF_MIN_F64));
    for (int d = 0; d < 3; d++) {
        far = fmax(far, fmax(fabs(box[d]), fabs(box[3 + d])));
        extent = fmax(extent, -box[3 + d] - box[d]);
    }
    if (extent > LARGE_M)
        ff_warn("the boundaries are %g long: if the files are in millimetres, add --scale 0.001", extent);
    if (!(far > FAR_RATIO * extent)) return FF_OK;
    double unit = extent > 0 && extent < 1 ? ldexp(1, ilogb(extent)) : 1;
    for (int d = 0; d < 3; d++) p->shift[d] = unit * nearbyint((box[d] - box[3 + d]) / 2 / unit);
    ff_log(far > WARN_RATIO * extent ? FF_LOG_WARN : FF_LOG_DEBUG,
           "the coordinates lie %.0f extents from the origin: moved by (%g, %g, %g) for the evaluation",
           far / extent, 0 - p->shift[0], 0 - p->shift[1], 0 - p->shift[2]);
    return FF_OK;
}

static ff_status add_boundaries(predict *p)
{
    for (int i = 0; i < p->n_boundaries; i++) {
        app_boundary *b = &p->boundary[i];
        if (b->mesh->dim == 3 && b->mesh->cell_off != NULL)
            FF_TRY(ff_mesh_triangulate(b->mesh, &p->tri[i], &p->parent[i]));
        FF_TRY(ff_case_add_mesh(p->c, b->name, work_mesh(p, i), p->shift));
    }
    return FF_OK;
}

/* A boundary without area has no influence on the fields: probably not what was meant. */
static ff_status warn_of_no_area(predict *p)
{
    ff_status st = FF_OK;
    double *most = NULL;
    FF_TRY(FF_NEW0_ALL(p->app->comm, most, p->c->n_sources));
    for (int j = 0; j < p->c->n_sources; j++) {
        const ff_source *s = &p->c->source[j];
        most[j] = s->n > 0 ? 0 : -1; /* -1: no faces here */
        for (int64_t i = 0; i < s->n; i++) most[j] = fmax(most[j], s->area[i]);
    }
    FF_GO(ff_comm_allreduce(p->app->comm, most, p->c->n_sources, FF_MAX_F64));
    for (int j = 0; j < p->c->n_sources; j++)
        if (most[j] == 0)
            ff_warn(
                "boundary \"%s\": no face has an area, so it does not act on the fields; see farfield check",
                p->model->config->bc[p->c->source[j].bc].name);
done:
    ff_free(most);
    return st;
}

ff_status predict_warn_not_finite(const predict *p)
{
    int64_t n[2] = {0, p->n_rows};
    for (int64_t k = 0; k < p->n_rows; k++)
        for (int d = 0; d < p->n_comp; d++)
            if (!isfinite(p->rows[k * p->n_comp + d])) {
                n[0]++;
                break;
            }
    FF_TRY(ff_comm_allreduce(p->app->comm, n, 2, FF_SUM_I64));
    if (n[0] > 0)
        ff_warn("outputs are not finite at %lld of %lld targets: fields, global data, lengths or the model's "
                "weights are beyond what %s can hold",
                (long long)n[0], (long long)n[1], ff_config_string(p->app->config, "run.precision"));
    return FF_OK;
}

/* Every name of the deck must be known, every name of the model given. */
static ff_status unknown_name(const ff_config *c, const char *key, const char *known, int i)
{
    return ff_fail(FF_E_INPUT, "%s.%s: unknown to the model, which has: %s", key,
                   ff_config_map_name(c, key, i), known);
}

static ff_status take_lengths(predict *p)
{
    const ff_config *c = p->app->config;
    const ff_model_config *m = p->model->config;
    ff_text known = {0};
    ff_status st = FF_OK;
    for (int i = 0; i < m->n_len; i++) ff_text_add(&known, "%s%s", i > 0 ? ", " : "", m->len[i]);
    for (int i = 0; i < m->n_len && st == FF_OK; i++) {
        int k = ff_config_map_find(c, "lengths", m->len[i]);
        if (k < 0)
            st = ff_fail(FF_E_INPUT, "reference length %s is missing, expected --set lengths.%s=METRES > 0",
                         m->len[i], m->len[i]);
        else
            p->c->length[i] = ff_config_map_item(c, "lengths", k, 0);
    }
    for (int k = 0; k < ff_config_count(c, "lengths") && st == FF_OK; k++) {
        bool found = false;
        for (int i = 0; i < m->n_len; i++)
            found |= strcmp(m->len[i], ff_config_map_name(c, "lengths", k)) == 0;
        if (!found) st = unknown_name(c, "lengths", ff_text_get(&known), k);
    }
    ff_text_free(&known);
    return st;
}

static const char *shape(int comp)
{
    return comp == 1 ? "NUMBER" : comp == 2 ? "[x,y]" : "[x,y,z]";
}

static ff_status take_globals(predict *p)
{
    const ff_config *c = p->app->config;
    const ff_name_list *g = &p->model->config->globals;
    ff_text known = {0};
    ff_status st = FF_OK;
    int at = 0;
    for (int i = 0; i < g->n; i++) ff_text_add(&known, "%s%s", i > 0 ? ", " : "", g->item[i].name);
    for (int i = 0; i < g->n && st == FF_OK; i++) {
        int comp = g->item[i].rank == 0 ? 1 : p->model->config->dim;
        int k = ff_config_map_find(c, "global", g->item[i].name);
        if (k < 0)
            st = ff_fail(FF_E_INPUT, "global data %s is missing, expected --set global.%s=%s",
                         g->item[i].name, g->item[i].name, shape(comp));
        else if (ff_config_map_len(c, "global", k) != comp)
            st = ff_fail(FF_E_INPUT, "global.%s: number of values %d, expected %d, --set global.%s=%s",
                         g->item[i].name, ff_config_map_len(c, "global", k), comp, g->item[i].name,
                         shape(comp));
        for (int d = 0; d < comp && st == FF_OK; d++)
            p->c->global[at++] = ff_config_map_item(c, "global", k, d);
    }
    for (int k = 0; k < ff_config_count(c, "global") && st == FF_OK; k++) {
        bool found = false;
        for (int i = 0; i < g->n; i++)
            found |= strcmp(g->item[i].name, ff_config_map_name(c, "global", k)) == 0;
        if (!found) st = unknown_name(c, "global", g->n > 0 ? ff_text_get(&known) : "none", k);
    }
    ff_text_free(&known);
    return st;
}

/* The boundary whose faces or points are the targets: the one asked for, else the first given. */
static ff_status choose_target(predict *p)
{
    const char *name = ff_config_string(p->app->config, "predict.target_boundary");
    p->target = 0;
    if (name == NULL) return FF_OK;
    for (int i = 0; i < p->n_boundaries; i++)
        if (strcmp(p->boundary[i].name, name) == 0) {
            p->target = i;
            return FF_OK;
        }
    return ff_config_bad(p->app->config, "predict.target_boundary", "the name of a boundary given");
}

ff_status predict_setup(predict *p)
{
    ff_comm *comm = p->app->comm;
    ff_phase_begin("read");
    FF_TRY(ff_model_read(comm, ff_config_string(p->app->config, "model"), &p->model));
    ff_status st = ff_case_create(p->model, &p->c);
    if (st == FF_OK) st = take_lengths(p);
    if (st == FF_OK) st = take_globals(p);
    FF_TRY(ff_agree(comm, st));
    ff_app_plan_options(p->app, &p->c->theta, &p->c->leaf_size, &p->c->expand_far);
    FF_TRY(app_boundaries_read(p->app, &p->boundary, &p->n_boundaries));
    st = name_boundaries(p);
    if (st == FF_OK) st = choose_target(p);
    if (st == FF_OK) st = FF_NEW0(p->tri, p->n_boundaries);
    if (st == FF_OK) st = FF_NEW0(p->parent, p->n_boundaries);
    FF_TRY(ff_agree(comm, st));
    FF_TRY(choose_shift(p));
    FF_TRY(ff_agree(comm, add_boundaries(p)));
    FF_TRY(warn_of_no_area(p));
    p->n_comp = ff_names_comp(&p->model->config->outputs, p->model->config->dim);
    return predict_targets(p);
}

static void print_case(const predict *p)
{
    const ff_model_config *m = p->model->config;
    ff_info("model %s: %dD, %d boundaries, %d lengths, %d communication layers", p->model->source, m->dim,
            m->n_bc, m->n_len, m->n_comm);
    ff_info("plan  theta %g, leaf size %d, far targets %s", p->c->theta, p->c->leaf_size,
            p->c->expand_far ? "expanded to points" : "kept as nodes");
}

static ff_status evaluate(predict *p)
{
    const ff_config *c = p->app->config;
    ff_eval_opts opts = FF_EVAL_OPTS_INIT;
    opts.backend = p->app->backend;
    opts.f64 = strcmp(ff_config_string(c, "run.precision"), "f64") == 0;
    opts.progress = true;
    opts.device_only = !ff_config_bool(c, "predict.dry_run") && ff_config_int(c, "predict.check") == 0;
    print_case(p);
    FF_TRY(ff_eval_create(p->app->comm, p->c, &opts, &p->e));
    p->n_rows = ff_eval_n_targets_home(p->e);
    if (ff_config_bool(c, "predict.dry_run")) return predict_dry_run(p);
    FF_TRY(FF_NEW_ALL(p->app->comm, p->rows, p->n_rows * p->n_comp + 1));
    FF_TRY(ff_eval_run(p->e, p->rows));
    FF_TRY(predict_warn_not_finite(p));
    FF_TRY(dist_table(p->app, p->e));
    int64_t k = ff_config_int(c, "predict.check");
    if (k > 0) FF_TRY(predict_check(p, k));
    ff_eval_destroy(&p->e);
    if (p->kind == AT_CENTROIDS) FF_TRY(predict_integrals(p));
    ff_phase_begin("write");
    return predict_write(p);
}

void predict_free(predict *p)
{
    ff_eval_destroy(&p->e);
    ff_case_destroy(&p->c);
    ff_model_destroy(&p->model);
    for (int i = 0; i < p->n_boundaries; i++) {
        if (p->tri != NULL) ff_mesh_destroy(&p->tri[i]);
        if (p->parent != NULL) ff_free(p->parent[i]);
    }
    ff_free(p->tri);
    ff_free(p->parent);
    app_boundaries_free(&p->boundary, p->n_boundaries);
    ff_free(p->x_point);
    ff_free(p->rows);
    ff_integrals_free(&p->integrals);
}

ff_status cmd_predict(ff_app *app)
{
    const ff_config *c = app->config;
    predict p = {.app = app};
    FF_TRY(ff_config_need(c, "model"));
    if (!ff_config_bool(c, "predict.dry_run")) {
        FF_TRY(ff_config_need(c, "output"));
        FF_TRY(
            ff_result_check_path(app->comm, ff_config_string(c, "output"), ff_config_bool(c, "write.force")));
        if (ff_config_has(c, "integrals.csv"))
            FF_TRY(ff_app_may_write_text(app, ff_config_string(c, "integrals.csv")));
    }
    ff_status st = predict_setup(&p);
    if (st == FF_OK) st = evaluate(&p);
    predict_free(&p);
    return st;
}
