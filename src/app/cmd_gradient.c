/* Derivatives of one number J (sum, integral or mean of an output field over a boundary) with respect to that boundary's
 * vertices and physical fields, global data and reference lengths; with gradient.all also the other boundaries'. */
#include "predict.h"

#include "ff_exact.h"
#include "ff_grad.h"
#include "ff_sums.h"

#include <math.h>
#include <string.h>

typedef struct sensitivity {
    predict *p;
    int column; /* of the field's component in the output rows */
    enum { SUM, INTEGRAL, MEAN } reduce;
    int source; /* the target boundary in the case */
    int boundary,
        at; /* whose derivatives are made and written: the target's or another; its place in the case */
    double value, area; /* J; area of the boundary */
    double *bar;        /* [n_rows][n_comp] cotangent of the outputs */
    ff_sums *point;     /* [points of the file][3] */
    double *local;      /* [points here][3] */
    ff_grad *grad;
} sensitivity;

static const ff_mesh *triangles(const sensitivity *s)
{
    const predict *p = s->p;
    return p->tri[s->boundary] != NULL ? p->tri[s->boundary] : p->boundary[s->boundary].mesh;
}

static bool at_target(const sensitivity *s)
{
    return s->boundary == s->p->target;
}

/* ---- the number and its cotangent ---- */

static ff_status choose_field(sensitivity *s)
{
    const ff_config *c = s->p->app->config;
    const ff_name_list *f = &s->p->model->config->outputs;
    const char *name = ff_config_string(c, "gradient.of"), *reduce = ff_config_string(c, "gradient.reduce");
    int component = ff_config_string(c, "gradient.component")[0] - 'x', at = 0;
    for (int i = 0; i < f->n; i++) {
        int comp = f->item[i].rank == 0 ? 1 : s->p->model->config->dim;
        if (strcmp(f->item[i].name, name) == 0) {
            if (comp > 1 && component >= comp) break;
            s->column = at + (comp > 1 ? component : 0);
            s->reduce = strcmp(reduce, "sum") == 0 ? SUM : strcmp(reduce, "mean") == 0 ? MEAN : INTEGRAL;
            return FF_OK;
        }
        at += comp;
    }
    ff_text known = {0};
    for (int i = 0; i < f->n; i++) ff_text_add(&known, "%s%s", i > 0 ? ", " : "", f->item[i].name);
    ff_status st = ff_fail(
        FF_E_INPUT, "gradient.of = %s, component %c: expected a component of an output of the model: %s",
        name, 'x' + component, ff_text_get(&known));
    ff_text_free(&known);
    return st;
}

/* Face k's part of J, but for the division by the area. */
static double term(const sensitivity *s, int64_t k)
{
    double f = s->p->rows[k * s->p->n_comp + s->column];
    return s->reduce == SUM ? f : f * s->p->c->source[s->source].area[k];
}

/* J by exact sums, so that no rank count shows, with powers of two for their fixed unit; then dJ/d(output). */
static ff_status choose_cotangent(sensitivity *s)
{
    const predict *p = s->p;
    const ff_source *src = &p->c->source[s->source];
    ff_exact sum[2] = {{0, false}, {0, false}};
    double top[2] = {0, 0};
    int e[2] = {0, 0};
    FF_TRY(FF_NEW0_ALL(p->app->comm, s->bar, p->n_rows * p->n_comp + 1));
    for (int64_t k = 0; k < p->n_rows; k++) {
        top[0] = fmax(top[0], fabs(term(s, k)));
        top[1] = fmax(top[1], src->area[k]);
    }
    FF_TRY(ff_sums_exponents(p->app->comm, 2, top, e));
    for (int64_t k = 0; k < p->n_rows; k++) {
        ff_exact_add(&sum[0], ldexp(term(s, k), -e[0]));
        ff_exact_add(&sum[1], ldexp(src->area[k], -e[1]));
    }
    FF_TRY(ff_exact_allreduce(p->app->comm, sum, 2));
    s->area = ldexp(ff_exact_value(&sum[1]), e[1]);
    if (s->reduce == MEAN && !(s->area > 0)) /* the same on all ranks */
        return ff_fail(FF_E_INPUT,
                       "gradient.reduce = mean: boundary %s has no area to average over; expected faces with "
                       "an area, or sum",
                       p->boundary[p->target].name);
    s->value = ldexp(ff_exact_value(&sum[0]), e[0]) / (s->reduce == MEAN ? s->area : 1);
    for (int64_t k = 0; k < p->n_rows; k++)
        s->bar[k * p->n_comp + s->column] =
            s->reduce == SUM ? 1 : src->area[k] / (s->reduce == MEAN ? s->area : 1);
    return FF_OK;
}

/* ---- vertices ---- */

/* Cotangents of face k's corners. */
static void corners_of(const sensitivity *s, const ff_mesh *m, int64_t k, double bar[9])
{
    const predict *p = s->p;
    const ff_source *src = &p->c->source[s->at];
    const ff_grad_values *v = ff_grad_get(s->grad);
    int dim = p->model->config->dim;
    int64_t corner[3] = {0, 1, 2};
    float x[9];
    double f = at_target(s) ? p->rows[k * p->n_comp + s->column] : 0, area_bar = 0;
    for (int a = 0; a < 9; a++) bar[a] = 0;
    for (int a = 0; a < dim; a++)
        for (int d = 0; d < dim; d++)
            x[a * dim + d] = (float)(m->points[3 * m->cell_pts[k * dim + a] + d] - p->shift[d]);
    if (src->area[k] > 0) area_bar = v->mu[s->at][k] * src->mu[k] / src->area[k];
    if (at_target(s) && s->reduce == INTEGRAL) area_bar += f; /* the weights of J are areas */
    if (at_target(s) && s->reduce == MEAN) area_bar += (f - s->value) / s->area;
    ff_grad_corners(dim, x, corner, 1, NULL, 1, v->centroid[s->at] + k * dim, v->normal[s->at] + k * dim,
                    &area_bar, bar);
}

/* Each face's corners go to exact sums by the point's number in the file: no order, no rank count. Those have a fixed unit:
 * first a power of two brings the largest cotangent below 1. */
static ff_status add_corners(sensitivity *s)
{
    const predict *p = s->p;
    const ff_mesh *m = triangles(s), *own = p->boundary[s->boundary].mesh;
    const int64_t *gid = own->point_gid, n_faces = p->c->source[s->at].n;
    int dim = p->model->config->dim, e = 0;
    double top = 0, *bar = NULL; /* [n_faces][9] */
    ff_sums_destroy(&s->point);
    FF_FREE(s->local);
    ff_status st = ff_sums_create(3 * (gid != NULL ? own->n_points_global : own->n_points), &s->point);
    if (st == FF_OK) st = FF_NEW(bar, 9 * n_faces + 1);
    if (st == FF_OK) st = FF_NEW0(s->local, 3 * own->n_points + 1);
    FF_GO(ff_agree(p->app->comm, st));
    for (int64_t k = 0; k < n_faces; k++) corners_of(s, m, k, bar + 9 * k);
    for (int64_t k = 0; k < 9 * n_faces; k++) top = fmax(top, fabs(bar[k]));
    FF_GO(ff_sums_exponents(p->app->comm, 1, &top, &e));
    for (int64_t k = 0; k < n_faces; k++)
        for (int a = 0; a < dim; a++) {
            int64_t i = m->cell_pts[k * dim + a], g = gid != NULL ? gid[i] : i;
            for (int d = 0; d < dim; d++)
                ff_sums_add_one(s->point, 3 * g + d, ldexp(bar[9 * k + a * dim + d], -e));
        }
    FF_GO(ff_sums_allreduce(p->app->comm, s->point));
    for (int64_t i = 0; i < 3 * own->n_points; i++) {
        int64_t g = gid != NULL ? gid[i / 3] : i / 3;
        s->local[i] = ldexp(ff_sums_value(s->point, 3 * g + i % 3), e);
    }
done:
    ff_free(bar);
    return st;
}

/* ---- output ---- */

enum { MAX_FIELDS = 256 };

typedef struct out_fields {
    ff_result_field field[MAX_FIELDS];
    void *owned[2 * MAX_FIELDS];
    int n, n_owned;
} out_fields;

/* One field of the faces, to the mesh's own cells: derivatives of a polygon's triangles add up, values are its
 * triangles' area-weighted mean. 2D vectors become (x, y, 0). */
static ff_status add_field(const sensitivity *s, out_fields *f, const char *prefix, const char *name,
                           const double *rows, int n_comp, int at, int comp, bool add_up)
{
    const predict *p = s->p;
    const ff_mesh *m = p->boundary[s->boundary].mesh;
    const ff_source *src = &p->c->source[s->at];
    const int64_t *parent = p->parent[s->boundary];
    int wide = comp == 2 ? 3 : comp;
    double *v = NULL, *weight = NULL;
    if (f->n == MAX_FIELDS) return ff_fail(FF_E_UNSUPPORTED, "more than %d fields", MAX_FIELDS);
    size_t len = strlen(prefix) + strlen(name) + 1;
    char *full = ff_mem_alloc(len, 1);
    f->owned[f->n_owned++] = full;
    if (full == NULL) return FF_E_MEM;
    (void)snprintf(full, len, "%s%s", prefix, name);
    FF_TRY(FF_NEW0(v, m->n_cells * wide + 1));
    f->owned[f->n_owned++] = v;
    FF_TRY(FF_NEW0(weight, m->n_cells + 1));
    for (int64_t k = 0; k < src->n; k++) {
        int64_t cell = parent != NULL ? parent[k] : k;
        double w = add_up ? 1 : src->area[k] > 0 ? src->area[k] : 1e-300;
        weight[cell] += w;
        for (int d = 0; d < comp; d++) v[cell * wide + d] += w * rows[k * n_comp + at + d];
    }
    for (int64_t k = 0; k < m->n_cells && !add_up; k++)
        for (int d = 0; d < comp && weight[k] > 0; d++) v[k * wide + d] /= weight[k];
    ff_free(weight);
    f->field[f->n++] = (ff_result_field){full, wide, FF_H5_F64, v};
    return FF_OK;
}

static ff_status fill_fields(const sensitivity *s, out_fields *f)
{
    const predict *p = s->p;
    const ff_model_config *m = p->model->config;
    const ff_name_list *fields = &m->bc[p->c->source[s->at].bc].fields;
    int at = 0, n_field = ff_names_comp(fields, m->dim);
    for (int i = 0; i < m->outputs.n && at_target(s); i++) {
        int comp = m->outputs.item[i].rank == 0 ? 1 : m->dim;
        FF_TRY(add_field(s, f, "", m->outputs.item[i].name, p->rows, p->n_comp, at, comp, false));
        at += comp;
    }
    at = 0;
    for (int rank = 0; rank < 2; rank++) /* all scalars, then all vectors */
        for (int i = 0; i < fields->n; i++) {
            if (fields->item[i].rank != rank) continue;
            int comp = rank == 0 ? 1 : m->dim;
            FF_TRY(add_field(s, f, "gradient_", fields->item[i].name, ff_grad_get(s->grad)->field[s->at],
                             n_field, at, comp, true));
            at += comp;
        }
    return FF_OK;
}

enum { PATH_LEN = 4096 };

/* The output's name; for another boundary with .NAME before its ending. */
static void path_of(const sensitivity *s, char out[PATH_LEN])
{
    const char *path = ff_config_string(s->p->app->config, "output"), *slash = strrchr(path, '/');
    const char *dot = strrchr(slash != NULL ? slash : path, '.');
    size_t stem = dot != NULL ? (size_t)(dot - path) : strlen(path);
    if (at_target(s)) {
        (void)snprintf(out, PATH_LEN, "%s", path);
        return;
    }
    int from = snprintf(out, PATH_LEN, "%.*s.", (int)stem, path);
    (void)snprintf(out + from, (size_t)(PATH_LEN - from), "%s%s", s->p->boundary[s->boundary].name,
                   path + stem);
    for (char *c = out + from; *c != 0; c++)
        if (*c == '/' || *c == ' ') *c = '_';
}

static ff_status write_result(const sensitivity *s)
{
    const predict *p = s->p;
    out_fields f = {.n = 0};
    ff_text deck = {0};
    char path[PATH_LEN];
    path_of(s, path);
    ff_result r = ff_result_of_mesh(p->boundary[s->boundary].mesh);
    ff_result_field shape = {"gradient_points", 3, FF_H5_F64, s->local};
    ff_status st = fill_fields(s, &f);
    ff_config_print(p->app->config, &deck);
    if (st == FF_OK) st = ff_text_status(&deck);
    FF_GO(ff_agree(p->app->comm, st));
    ff_result_text text[2] = {{"deck", ff_text_get(&deck)}, {"version", ff_version()}};
    r.n_texts = 2;
    r.text = text;
    r.n_cell_fields = f.n;
    r.cell_field = f.field;
    r.n_point_fields = 1;
    r.point_field = &shape;
    FF_GO(ff_result_write(p->app->comm, &r, path, ff_config_bool(p->app->config, "write.force")));
    ff_info("wrote %s", path);
done:
    for (int i = 0; i < f.n_owned; i++) ff_free(f.owned[i]);
    ff_text_free(&deck);
    return st;
}

static void report(const sensitivity *s)
{
    const predict *p = s->p;
    const ff_model_config *m = p->model->config;
    const ff_grad_values *v = ff_grad_get(s->grad);
    ff_json *j = &p->app->json;
    ff_info("J = %s of %s over %s: %.9g", ff_config_string(p->app->config, "gradient.reduce"),
            ff_config_string(p->app->config, "gradient.of"), p->boundary[p->target].name, s->value);
    ff_json_double(j, "value", s->value);
    ff_json_open(j, "gradient_global", '{');
    for (int i = 0, at = 0; i < m->globals.n; i++) {
        int comp = m->globals.item[i].rank == 0 ? 1 : m->dim;
        ff_json_doubles(j, m->globals.item[i].name, v->global + at, comp);
        for (int d = 0; d < comp; d++)
            ff_info("dJ/d %s%s = %.9g", m->globals.item[i].name,
                    comp == 1 ? ""
                    : d == 0  ? ".x"
                    : d == 1  ? ".y"
                              : ".z",
                    v->global[at + d]);
        at += comp;
    }
    ff_json_close(j);
    ff_json_open(j, "gradient_lengths", '{');
    for (int i = 0; i < m->n_len; i++) {
        ff_json_double(j, m->len[i], v->length[i]);
        ff_info("dJ/d %s = %.9g / m", m->len[i], v->length[i]);
    }
    ff_json_close(j);
}

static void choose_boundary(sensitivity *s, int b)
{
    const predict *p = s->p;
    int bc = ff_model_find_bc(p->model->config, p->boundary[b].name);
    s->boundary = b;
    for (int i = 0; i < p->c->n_sources; i++)
        if (p->c->source[i].bc == bc) s->at = i;
}

/* Before any work: no file of the other boundaries is in the way. */
static ff_status check_others(sensitivity *s)
{
    const predict *p = s->p;
    char path[PATH_LEN];
    if (!ff_config_bool(p->app->config, "gradient.all")) return FF_OK;
    for (int b = 0; b < p->n_boundaries; b++) {
        choose_boundary(s, b);
        path_of(s, path);
        FF_TRY(ff_result_check_path(p->app->comm, path, ff_config_bool(p->app->config, "write.force")));
    }
    return FF_OK;
}

static ff_status others(sensitivity *s)
{
    const predict *p = s->p;
    for (int b = 0; b < p->n_boundaries && ff_config_bool(p->app->config, "gradient.all"); b++) {
        if (b == p->target) continue;
        choose_boundary(s, b);
        FF_TRY(add_corners(s));
        FF_TRY(write_result(s));
    }
    return FF_OK;
}

static ff_status run(sensitivity *s)
{
    predict *p = s->p;
    ff_eval_opts opts = FF_EVAL_OPTS_INIT;
    opts.f64 = strcmp(ff_config_string(p->app->config, "run.precision"), "f64") == 0;
    opts.backend = opts.adjoint = p->app->backend;
    opts.progress = true;
    opts.keep = true;
    s->source = p->c->target_source;
    FF_TRY(ff_agree(p->app->comm, choose_field(s)));
    FF_TRY(check_others(s));
    choose_boundary(s, p->target);
    FF_TRY(ff_eval_create(p->app->comm, p->c, &opts, &p->e));
    p->n_rows = ff_eval_n_targets_home(p->e);
    FF_TRY(FF_NEW_ALL(p->app->comm, p->rows, p->n_rows * p->n_comp + 1));
    ff_phase_begin("trees of the way back");
    FF_TRY(ff_grad_create(p->e, FF_GRAD_FIELDS | FF_GRAD_FACES, &s->grad));
    FF_TRY(ff_eval_run(p->e, p->rows));
    FF_TRY(predict_warn_not_finite(p));
    FF_TRY(choose_cotangent(s));
    ff_phase_begin("gradient");
    FF_TRY(ff_grad_run(s->grad, s->bar));
    FF_TRY(add_corners(s));
    ff_phase_end();
    report(s);
    ff_phase_begin("write");
    FF_TRY(write_result(s));
    return others(s);
}

ff_status cmd_gradient(ff_app *app)
{
    const ff_config *c = app->config;
    predict p = {.app = app};
    sensitivity s = {.p = &p};
    FF_TRY(ff_config_need(c, "model"));
    FF_TRY(ff_config_need(c, "output"));
    FF_TRY(ff_config_need(c, "gradient.of"));
    FF_TRY(ff_result_check_path(app->comm, ff_config_string(c, "output"), ff_config_bool(c, "write.force")));
    ff_status st = predict_setup(&p);
    if (st == FF_OK) st = run(&s);
    ff_grad_destroy(&s.grad);
    ff_sums_destroy(&s.point);
    ff_free(s.local);
    ff_free(s.bar);
    predict_free(&p);
    return st;
}
