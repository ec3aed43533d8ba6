/* Results of predict: integrals, the check against no far field, the dry run, the output file. */
#include "predict.h"

#include "dist_table.h"

#include "ff_polygon.h"
#include "ff_rng.h"
#include "ff_sort.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

/* ---- integrals ---- */

static int field_comp(const predict *p, int i)
{
    return p->model->config->outputs.item[i].rank == 0 ? 1 : p->model->config->dim;
}

/* Patches of the target boundary as the file has them. */
static const ff_mesh *patches(const predict *p)
{
    return p->tri[p->target] != NULL ? p->tri[p->target] : p->boundary[p->target].mesh;
}

static void add_integrals(const predict *p, ff_json *j, bool print)
{
    const ff_integrals *q = &p->integrals;
    const ff_mesh *mesh = patches(p);
    int at = 0;
    ff_json_double(j, "area", q->area);
    ff_json_open(j, "mean", '{');
    for (int i = 0; i < p->model->config->outputs.n; i++) {
        const char *name = p->model->config->outputs.item[i].name;
        int comp = field_comp(p, i);
        ff_json_doubles(j, name, q->mean + at, comp);
        if (print && comp == 1) ff_info("mean %-13s %g", name, q->mean[at]);
        if (print && comp == 2) ff_info("mean %-13s (%g, %g)", name, q->mean[at], q->mean[at + 1]);
        if (print && comp == 3)
            ff_info("mean %-13s (%g, %g, %g)", name, q->mean[at], q->mean[at + 1], q->mean[at + 2]);
        at += comp;
    }
    ff_json_close(j);
    if (q->force != NULL) app_forces_json(&p->forces, q->force, mesh->n_patches, mesh->patch_name, j);
}

ff_status predict_integrals(predict *p)
{
    const ff_model_config *m = p->model->config;
    const ff_mesh *mesh = patches(p);
    ff_integral_opts o = {.patch = mesh->cell_patch, .n_patches = mesh->n_patches};
    FF_TRY(app_forces_options(p->app, m->dim, m->reference_area, &p->forces));
    for (int d = 0; d < 3; d++) {
        o.center[d] = p->forces.center[d];
        o.shift[d] = p->shift[d];
    }
    FF_TRY(ff_integrals_run(p->app->comm, p->c, p->c->target_source, p->rows, &o, &p->integrals));
    p->has_integrals = true;
    ff_info("target area        %g (area-weighted means follow)", p->integrals.area);
    ff_json *j = &p->app->json;
    ff_json_open(j, "integrals", '{');
    add_integrals(p, j, true);
    ff_json_close(j);
    if (p->integrals.force == NULL) return FF_OK;
    app_forces_print(&p->forces, p->integrals.force, mesh->n_patches, mesh->patch_name);
    return app_forces_csv(p->app, &p->forces, p->integrals.force, mesh->n_patches, mesh->patch_name);
}

/* ---- check ---- */

static int by_id(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* k different ids below n, ascending: the first k of a random order would do, but needs n words; draws with
 * the repeated ones left out need k. */
static ff_status draw_ids(uint64_t seed, int64_t n, int64_t *k, int64_t **out)
{
    FF_TRY(FF_NEW(*out, *k + 1));
    for (int64_t i = 0; i < *k; i++) (*out)[i] = (int64_t)(ff_rng_uniform(seed, 77, (uint64_t)i) * (double)n);
    qsort(*out, (size_t)*k, sizeof **out, by_id);
    int64_t kept = 0;
    for (int64_t i = 0; i < *k; i++)
        if (kept == 0 || (*out)[kept - 1] != (*out)[i]) (*out)[kept++] = (*out)[i];
    *k = kept;
    return FF_OK;
}

/* Percentiles of |error| of one field, relative to the largest exact value among the targets drawn. */
static ff_status check_field(predict *p, int at, int comp, const char *name, const double *ours,
                             const double *exact, int64_t k)
{
    double *err = NULL, top = 0;
    FF_TRY(FF_NEW_ALL(p->app->comm, err, k + 1));
    for (int64_t i = 0; i < k; i++) {
        double e2 = 0, v2 = 0;
        for (int d = 0; d < comp; d++) {
            double v = exact[i * p->n_comp + at + d], e = ours[i * p->n_comp + at + d] - v;
            e2 += e * e;
            v2 += v * v;
        }
        err[i] = sqrt(e2);
        top = fmax(top, sqrt(v2));
    }
    qsort(err, (size_t)k, sizeof *err, by_value);
    double q[4] = {err[k / 2], err[(k - 1) * 95 / 100], err[(k - 1) * 99 / 100], err[k - 1]};
    for (int i = 0; i < 4; i++) q[i] = top > 0 ? q[i] / top : 0;
    ff_info("  %-16s median %.2e  p95 %.2e  p99 %.2e  max %.2e of its largest value", name, q[0], q[1], q[2],
            q[3]);
    ff_json_doubles(&p->app->json, name, q, 4);
    ff_free(err);
    return FF_OK;
}

ff_status predict_check(predict *p, int64_t k)
{
    ff_status st = FF_OK;
    ff_comm *comm = p->app->comm;
    ff_let *const *lets;
    const uint8_t *need;
    const int64_t *weight;
    int n = ff_eval_lets(p->e, &lets, &need, &weight), at = 0;
    const ff_cloud *cloud = lets[p->c->target_source >= 0 ? p->c->target_source : n - 1]->cloud;
    int64_t *pick = NULL;
    double *ours = NULL, *exact = NULL;
    ff_phase_begin("check");
    if (cloud->n == 0) return FF_OK;
    st = draw_ids((uint64_t)ff_config_int(p->app->config, "run.seed"), cloud->n, &k, &pick);
    if (st == FF_OK) st = FF_NEW(ours, k * p->n_comp + 1);
    if (st == FF_OK) st = FF_NEW(exact, k * p->n_comp + 1);
    FF_GO(ff_agree(comm, st));
    for (int64_t i = 0; i < k; i++)
        for (int c = 0; c < p->n_comp; c++) {
            int64_t row = pick[i] - cloud->home_begin;
            ours[i * p->n_comp + c] =
                row >= 0 && row < cloud->n_home ? p->rows[row * p->n_comp + c] : -HUGE_VAL;
        }
    FF_GO(ff_comm_allreduce(comm, ours, k * p->n_comp, FF_MAX_F64));
    FF_GO(ff_eval_direct(p->e, pick, k, exact));
    ff_info("check: final layer without far field at %lld targets, from this run's latents and strengths",
            (long long)k);
    ff_json_open(&p->app->json, "check", '{');
    for (int i = 0; i < p->model->config->outputs.n; i++) {
        FF_GO(check_field(p, at, field_comp(p, i), p->model->config->outputs.item[i].name, ours, exact, k));
        at += field_comp(p, i);
    }
    ff_json_close(&p->app->json);
done:
    ff_free(pick);
    ff_free(ours);
    ff_free(exact);
    return st;
}

/* ---- dry run ---- */

ff_status predict_dry_run(predict *p)
{
    ff_comm *comm = p->app->comm;
    const ff_eval_stats *s = ff_eval_get_stats(p->e);
    double rate = 0;
    FF_TRY(dist_table(p->app, p->e));
    FF_TRY(ff_agree(comm, ff_eval_pair_rate(p->e, &rate)));
    int64_t bytes = ff_eval_bytes(p->e), over = 0, work = s->dist.work;
    double t_s = (double)work / (rate * omp_get_max_threads());
    FF_TRY(ff_comm_allreduce(comm, &bytes, 1, FF_MAX_I64));
    FF_TRY(ff_comm_allreduce(comm, &t_s, 1, FF_MAX_F64));
    FF_TRY(ff_comm_allreduce(comm, &work, 1, FF_SUM_I64));
    ff_info("dry run: %.4g pair evaluations, %.1f MiB a rank, about %.0f s (pair kernel timed here: %.3g a "
            "second and "
            "thread)",
            (double)work, (double)bytes / 1048576, t_s, rate);
    ff_json_int(&p->app->json, "pair_evaluations", work);
    ff_json_int(&p->app->json, "peak_rank_bytes", bytes);
    ff_json_double(&p->app->json, "t_estimate_s", t_s);
    if (ff_mem_budget() != 0) over = (uint64_t)bytes > ff_mem_budget();
    FF_TRY(ff_comm_allreduce(comm, &over, 1, FF_MAX_I64));
    if (!over) return FF_OK;
    return ff_fail(FF_E_MEM,
                   "run.memory = %zu bytes, expected at least %lld a rank; raise --memory or use more ranks",
                   ff_mem_budget(), (long long)bytes);
}

/* ---- output ---- */

/* Rows at triangles to rows at the mesh's own cells: area-weighted means of a cell's triangles. */
static ff_status rows_of_cells(const predict *p, const double *rows, int n_comp, double **out)
{
    const ff_mesh *m = p->boundary[p->target].mesh, *tri = p->tri[p->target];
    const int64_t *parent = p->parent[p->target];
    double *area = NULL, *sum = NULL;
    ff_status st = FF_NEW(area, tri->n_cells + 1);
    if (st == FF_OK) st = FF_NEW0(sum, m->n_cells + 1);
    if (st == FF_OK) st = FF_NEW0(*out, m->n_cells * n_comp + 1);
    if (st == FF_OK) {
        ff_mesh_cell_areas(tri, area);
        for (int64_t t = 0; t < tri->n_cells; t++) {
            double w = area[t] > 0 ? area[t] : 1e-300; /* cells without area: plain mean */
            sum[parent[t]] += w;
            for (int c = 0; c < n_comp; c++) (*out)[parent[t] * n_comp + c] += w * rows[t * n_comp + c];
        }
        for (int64_t k = 0; k < m->n_cells; k++)
            for (int c = 0; c < n_comp; c++) (*out)[k * n_comp + c] /= sum[k];
    }
    ff_free(area);
    ff_free(sum);
    return st;
}

/* Areas of the mesh's own cells; those of a polygon's triangles add up to its own, as in the integrals. */
static ff_status areas_of_cells(const predict *p, double **out)
{
    const ff_mesh *m = p->boundary[p->target].mesh, *tri = p->tri[p->target];
    double *area = NULL;
    FF_TRY(FF_NEW0(*out, m->n_cells + 1));
    if (tri == NULL) {
        ff_mesh_cell_areas(m, *out);
        return FF_OK;
    }
    if (FF_NEW(area, tri->n_cells + 1) != FF_OK) {
        FF_FREE(*out);
        return FF_E_MEM;
    }
    ff_mesh_cell_areas(tri, area);
    for (int64_t t = 0; t < tri->n_cells; t++) (*out)[p->parent[p->target][t]] += area[t];
    ff_free(area);
    return FF_OK;
}

/* Cell normals (unit, zero without area) of the mesh's own cells, float32 values in double. */
static ff_status cell_normals(const ff_mesh *m, double **out)
{
    FF_TRY(FF_NEW0(*out, 3 * m->n_cells + 1));
    for (int64_t k = 0; k < m->n_cells; k++) {
        int64_t n, first = ff_mesh_cell(m, k, &n);
        const int64_t *id = m->cell_pts + first;
        double *v = *out + 3 * k;
        if (m->dim == 2) {
            v[0] = m->points[3 * id[0] + 1] - m->points[3 * id[1] + 1];
            v[1] = m->points[3 * id[1]] - m->points[3 * id[0]];
        } else {
            ff_polygon_vector_area(&(ff_polygon){m->points, id, n}, v);
        }
        double len = sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
        for (int d = 0; d < 3; d++) v[d] = len > 0 ? v[d] / len : 0;
    }
    return FF_OK;
}

enum { MAX_FIELDS = 256 };

typedef struct out_fields {
    ff_result_field field[MAX_FIELDS];
    void *owned[MAX_FIELDS];
    int n;
} out_fields;

static void fields_free(out_fields *f)
{
    for (int i = 0; i < f->n; i++) ff_free(f->owned[i]);
}

/* One field out of packed rows; 2D vectors become (x, y, 0), as every reader expects. */
static ff_status add_field(out_fields *f, const char *name, const double *rows, int64_t n, int n_comp, int at,
                           int comp, bool f64)
{
    int wide = comp == 2 ? 3 : comp;
    if (f->n == MAX_FIELDS) return ff_fail(FF_E_UNSUPPORTED, "more than %d output fields", MAX_FIELDS);
    void *v = ff_mem_alloc0((size_t)(n * wide) + 1, f64 ? sizeof(double) : sizeof(float));
    if (v == NULL) return FF_E_MEM;
    for (int64_t i = 0; i < n; i++)
        for (int d = 0; d < comp; d++) {
            double x = rows[i * n_comp + at + d];
            if (f64)
                ((double *)v)[i * wide + d] = x;
            else
                ((float *)v)[i * wide + d] = (float)x;
        }
    f->owned[f->n] = v;
    f->field[f->n++] = (ff_result_field){name, wide, f64 ? FF_H5_F64 : FF_H5_F32, v};
    return FF_OK;
}

static ff_status add_outputs(const predict *p, out_fields *f, const double *rows, int64_t n)
{
    bool f64 = strcmp(ff_config_string(p->app->config, "run.precision"), "f64") == 0;
    int at = 0;
    for (int i = 0; i < p->model->config->outputs.n; i++) {
        int comp = field_comp(p, i);
        FF_TRY(add_field(f, p->model->config->outputs.item[i].name, rows, n, p->n_comp, at, comp, f64));
        at += comp;
    }
    return FF_OK;
}

static ff_status add_geometry(const predict *p, out_fields *f)
{
    const ff_mesh *m = p->boundary[p->target].mesh;
    double *v = NULL;
    ff_status st = FF_OK;
    if (ff_config_bool(p->app->config, "write.areas")) {
        FF_TRY(areas_of_cells(p, &v));
        st = add_field(f, "area", v, m->n_cells, 1, 0, 1, true);
        FF_FREE(v);
    }
    if (st == FF_OK && ff_config_bool(p->app->config, "write.normals")) {
        FF_TRY(cell_normals(m, &v));
        st = add_field(f, "normal", v, m->n_cells, 3, 0, 3, false);
        ff_free(v);
    }
    return st;
}

/* The rows as they go to the file: at cells, at held points, or at free points. */
static ff_status fill_result(const predict *p, ff_result *r, out_fields *f)
{
    const ff_mesh *m = p->boundary[p->target].mesh;
    double *rows = NULL;
    ff_status st = FF_OK;
    if (p->kind == AT_FILE_POINTS) {
        *r = (ff_result){.dim = 0, .n_points = p->n_rows, .points = p->x_point};
        st = add_outputs(p, f, p->rows, p->n_rows);
    } else if (p->kind == AT_MESH_POINTS) {
        *r = ff_result_of_mesh(m);
        st = predict_spread_points(p, &rows);
        if (st == FF_OK) st = add_outputs(p, f, rows, m->n_points);
    } else {
        *r = ff_result_of_mesh(m);
        if (p->tri[p->target] != NULL) st = rows_of_cells(p, p->rows, p->n_comp, &rows);
        if (st == FF_OK) st = add_outputs(p, f, rows != NULL ? rows : p->rows, m->n_cells);
        if (st == FF_OK) st = add_geometry(p, f);
    }
    ff_free(rows);
    if (p->kind == AT_CENTROIDS) {
        r->n_cell_fields = f->n;
        r->cell_field = f->field;
    } else {
        r->n_point_fields = f->n;
        r->point_field = f->field;
    }
    return st;
}

static ff_status integrals_text(const predict *p, ff_json *j)
{
    ff_json_open(j, NULL, '{');
    if (p->has_integrals) add_integrals(p, j, false);
    ff_json_close(j);
    return ff_text_status(&j->text);
}

ff_status predict_write(predict *p)
{
    ff_result r;
    out_fields f = {.n = 0};
    ff_text deck = {0};
    ff_json integrals = {0};
    const char *path = ff_config_string(p->app->config, "output");
    ff_status st = fill_result(p, &r, &f);
    ff_config_print(p->app->config, &deck);
    if (st == FF_OK) st = ff_text_status(&deck);
    if (st == FF_OK) st = integrals_text(p, &integrals);
    FF_GO(ff_agree(p->app->comm, st));
    ff_result_text text[3] = {
        {"deck", ff_text_get(&deck)}, {"integrals", ff_text_get(&integrals.text)}, {"version", ff_version()}};
    r.n_texts = 3;
    r.text = text;
    FF_GO(ff_result_write(p->app->comm, &r, path, ff_config_bool(p->app->config, "write.force")));
    ff_info("wrote %s", path);
done:
    fields_free(&f);
    ff_text_free(&deck);
    ff_json_free(&integrals);
    return st;
}
