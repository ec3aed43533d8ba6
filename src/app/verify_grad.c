/* Gradients of a golden file's loss = sum(loss_weights * output) against its float64 gradients. One row a kind of
 * quantity: the worst array counts, each measured by its own maximum; arrays of one element, which may cancel, by the
 * largest of their kind in the file. */
#include "verify_grad.h"

#include "ff_grad.h"

#include <math.h>
#include <string.h>

/* What golden files ask for; in float64 most reach 1e-12, but where sources see little beyond themselves, weights' arrays are
 * what is left of others 1e17 times as large. */
static double tolerance(const verify *v)
{
    return verify_f64(v) ? 1e-5 : 5e-5;
}

/* ---- cotangents ---- */

/* Rows [from, from + n) of the loss weights, fields sorted. */
static ff_status loss_weights(const verify *v, int64_t from, int64_t n, double *bar)
{
    const ff_model_config *c = v->g->model->config;
    int n_comp = ff_names_comp(&c->outputs, c->dim), at = 0;
    for (int f = 0; f < c->outputs.n; f++) {
        char name[512], dataset[600];
        double *w = NULL;
        int64_t rows = 0, len = 0, comp = c->outputs.item[f].rank == 0 ? 1 : c->dim;
        ff_golden_field(c->outputs.item[f].name, name);
        (void)snprintf(dataset, sizeof dataset, "/loss_weights/%s", name);
        FF_TRY(ff_golden_f64(v->g, dataset, &w, &rows, &len));
        if (len != comp || from + n > rows) {
            ff_free(w);
            return ff_fail(FF_E_INPUT, "%s: %s has %lld rows of %lld, expected %lld of %lld", v->file,
                           dataset, (long long)rows, (long long)len, (long long)v->g->n_targets,
                           (long long)comp);
        }
        for (int64_t k = 0; k < n; k++)
            for (int64_t d = 0; d < comp; d++) bar[k * n_comp + at + d] = w[(from + k) * comp + d];
        at += (int)comp;
        ff_free(w);
    }
    return FF_OK;
}

/* ---- kinds ---- */

/* What is compared under one heading. Single elements wait for the largest of the kind. */
typedef struct kind {
    const char *what;
    double err, single_diff, single_max;
    int n_arrays;
} kind;

/* single: the whole array, of which these n values are this rank's, has one element. */
static void add_array(kind *q, const double *a, const double *ref, int64_t n, double scale, bool single)
{
    q->n_arrays++;
    if (n == 1 && single) {
        q->single_diff = isfinite(a[0]) ? fmax(q->single_diff, fabs(a[0] - ref[0])) : HUGE_VAL;
        q->single_max = fmax(q->single_max, scale);
    } else {
        q->err = fmax(q->err, verify_error(a, ref, n, scale));
    }
}

/* Rows [from, from + n) of a dataset of row_len values; absent: nothing to compare. */
static ff_status add_dataset(const verify *v, kind *q, const char *dataset, const double *a, int64_t from,
                             int64_t n, int64_t row_len)
{
    double *ref = NULL;
    int64_t rows = 0, len = 0;
    if (!ff_golden_has(v->g, dataset)) return FF_OK;
    FF_TRY(ff_golden_f64(v->g, dataset, &ref, &rows, &len));
    if (from + n > rows || (rows > 0 && len != row_len)) {
        ff_free(ref);
        return ff_fail(FF_E_INPUT, "%s: %s has %lld rows of %lld, expected %lld of %lld", v->file, dataset,
                       (long long)rows, (long long)len, (long long)(from + n), (long long)row_len);
    }
    add_array(q, a, ref + from * row_len, n * row_len, verify_max_abs(ref, rows * len), rows * len == 1);
    ff_free(ref);
    return FF_OK;
}

static ff_status finish(verify *v, kind *q)
{
    double single = q->single_diff > 0 ? q->single_diff / q->single_max : 0;
    int64_t any = q->n_arrays;
    FF_TRY(ff_comm_allreduce(v->app->comm, &any, 1, FF_MAX_I64));
    return any > 0 ? verify_row(v, q->what, fmax(q->err, single), tolerance(v)) : FF_OK;
}

static ff_status compare_params(const verify *v, const ff_grad_values *g, kind q[5])
{
    const ff_model *m = v->g->model;
    for (int t = 0; t < m->n_tensors; t++) {
        char dataset[1200] = "/f64/grads/params/", *at = dataset + strlen(dataset);
        const char *name = m->tensor[t].name;
        size_t len = strlen(name);
        bool bias = len > 5 && strcmp(name + len - 5, ".bias") == 0, final = strncmp(name, "final_", 6) == 0;
        int k = strstr(name, "log_scalefactors") != NULL ? 2 : (final ? 3 : 0) + (bias ? 1 : 0);
        int64_t rows = m->tensor[t].n_dim > 0 ? m->tensor[t].shape[0] : 1;
        (void)snprintf(at, sizeof dataset - (size_t)(at - dataset), "%s", name);
        for (; *at != 0; at++) *at = *at == '/' ? '|' : *at;
        FF_TRY(add_dataset(v, &q[k], dataset, g->tensor[t], 0, rows, m->tensor[t].n / (rows > 0 ? rows : 1)));
    }
    return FF_OK;
}

static ff_status compare_globals(const verify *v, const ff_grad_values *g, kind *scalars, kind *vectors,
                                 kind *lengths)
{
    const ff_model_config *c = v->g->model->config;
    char name[512], dataset[600];
    for (int i = 0, at = 0; i < c->globals.n; i++) {
        int comp = c->globals.item[i].rank == 0 ? 1 : c->dim;
        ff_golden_field(c->globals.item[i].name, name);
        (void)snprintf(dataset, sizeof dataset, "/f64/grads/global_data/%s", name);
        FF_TRY(add_dataset(v, comp == 1 ? scalars : vectors, dataset, g->global + at, 0, comp, 1));
        at += comp;
    }
    for (int i = 0; i < c->n_len; i++) {
        ff_golden_field(c->len[i], name);
        (void)snprintf(dataset, sizeof dataset, "/f64/grads/reference_lengths/%s", name);
        FF_TRY(add_dataset(v, lengths, dataset, g->length + i, 0, 1, 1));
    }
    return FF_OK;
}

/* One field's columns out of rows [n][n_comp]. */
static ff_status compare_field(const verify *v, int j, int f, const double *rows, int n_comp, int at, kind *q)
{
    const ff_source *s = &v->g->c->source[j];
    const ff_model_config *c = v->g->model->config;
    const ff_ranked_name *field = &c->bc[s->bc].fields.item[f];
    int comp = field->rank == 0 ? 1 : c->dim;
    char name[512], dataset[900];
    double *col = NULL;
    FF_TRY(FF_NEW(col, s->n * comp + 1));
    for (int64_t k = 0; k < s->n; k++)
        for (int d = 0; d < comp; d++) col[k * comp + d] = rows[k * n_comp + at + d];
    ff_golden_field(field->name, name);
    (void)snprintf(dataset, sizeof dataset, "/f64/grads/cell_data/%s/%s", ff_golden_name(v->g, j), name);
    int64_t from = v->g->n_faces[j] * v->app->comm->rank / v->app->comm->size;
    ff_status st = add_dataset(v, q, dataset, col, from, s->n, comp);
    ff_free(col);
    return st;
}

static ff_status compare_fields(const verify *v, const ff_grad_values *g, kind *q)
{
    const ff_model_config *c = v->g->model->config;
    for (int j = 0; j < v->g->c->n_sources; j++) {
        const ff_name_list *fields = &c->bc[v->g->c->source[j].bc].fields;
        int n_comp = ff_names_comp(fields, c->dim), at = 0;
        for (int rank = 0; rank < 2; rank++) /* all scalars, then all vectors */
            for (int f = 0; f < fields->n; f++) {
                if (fields->item[f].rank != rank) continue;
                FF_TRY(compare_field(v, j, f, g->field[j], n_comp, at, q));
                at += rank == 0 ? 1 : c->dim;
            }
    }
    return FF_OK;
}

static ff_status compare_all(verify *v, const ff_grad_values *g, int64_t from, int64_t n)
{
    enum { N_KIND = 10 };
    kind q[N_KIND] = {{.what = "grads/weights"},
                      {.what = "grads/biases"},
                      {.what = "grads/log_scalefactors"},
                      {.what = "grads/calibration weights"},
                      {.what = "grads/calibration biases"},
                      {.what = "grads/prediction_points"},
                      {.what = "grads/cell_data"},
                      {.what = "grads/global scalars"},
                      {.what = "grads/global vectors"},
                      {.what = "grads/reference_lengths"}};
    ff_status st = compare_params(v, g, q);
    if (st == FF_OK)
        st = add_dataset(v, &q[5], "/f64/grads/prediction_points", g->points, from, n,
                         v->g->model->config->dim);
    if (st == FF_OK) st = compare_fields(v, g, &q[6]);
    if (st == FF_OK) st = compare_globals(v, g, &q[7], &q[8], &q[9]);
    FF_TRY(ff_agree(v->app->comm, st));
    for (int k = 0; k < N_KIND; k++) FF_TRY(finish(v, &q[k]));
    return FF_OK;
}

ff_status verify_gradients(verify *v, ff_eval *e)
{
    ff_status st = FF_OK;
    ff_grad *g = NULL;
    double *bar = NULL;
    const ff_model_config *c = v->g->model->config;
    int64_t n = ff_eval_n_targets_home(e), from = v->g->n_targets * v->app->comm->rank / v->app->comm->size;
    FF_TRY(FF_NEW_ALL(v->app->comm, bar, n * ff_names_comp(&c->outputs, c->dim) + 1));
    FF_GO(ff_agree(v->app->comm, loss_weights(v, from, n, bar)));
    FF_GO(ff_grad_create(e, FF_GRAD_POINTS | FF_GRAD_FIELDS, &g));
    FF_GO(ff_grad_run(g, bar));
    FF_GO(compare_all(v, ff_grad_get(g), from, n));
done:
    ff_grad_destroy(&g);
    ff_free(bar);
    return st;
}
