#include "ff_golden.h"

#include "ff_mem.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const double no_shift[3] = {0, 0, 0};

/* Both have couplings; those of a head come from edges' vectors. */
static ff_golden_kind kind_of_groups(const ff_h5 *f)
{
    ff_golden_kind kind = FF_GOLDEN_UNKNOWN;
    char **names = NULL, at[600];
    int n = 0;
    if (ff_h5_list(f, "/", &names, &n) != FF_OK) return kind;
    for (int i = 0; i < n && kind != FF_GOLDEN_HEAD; i++) {
        (void)snprintf(at, sizeof at, "/%s/zonal_coupling", names[i]);
        if (ff_h5_exists(f, at)) kind = FF_GOLDEN_SCATTER;
        (void)snprintf(at, sizeof at, "/%s/edge_vec", names[i]);
        if (ff_h5_exists(f, at)) kind = FF_GOLDEN_HEAD;
        (void)snprintf(at, sizeof at, "/%s/unit_vectors", names[i]);
        if (ff_h5_exists(f, at)) kind = FF_GOLDEN_HEAD;
    }
    ff_h5_names_free(&names, n);
    return kind;
}

ff_status ff_golden_kind_of(const char *path, ff_golden_kind *out)
{
    ff_h5 *f = NULL;
    *out = FF_GOLDEN_UNKNOWN;
    FF_TRY(ff_h5_open(ff_comm_self(), path, &f));
    if (ff_h5_attr_exists(f, "/", "config_json"))
        *out = FF_GOLDEN_GLOBE;
    else
        *out = kind_of_groups(f);
    return ff_h5_close(&f);
}

const char *ff_golden_name(const ff_golden *g, int i)
{
    return i < 0 ? "prediction" : g->source_name[i];
}

void ff_golden_field(const char *name, char *out)
{
    size_t i = 0;
    for (; name[i] != 0 && i < 511; i++) out[i] = name[i] == '/' ? '|' : name[i];
    out[i] = 0;
}

bool ff_golden_has(const ff_golden *g, const char *dataset)
{
    return ff_h5_exists(g->file, dataset);
}

ff_status ff_golden_f64(const ff_golden *g, const char *dataset, double **out, int64_t *rows,
                        int64_t *row_len)
{
    ff_h5_shape s;
    *out = NULL;
    FF_TRY(ff_h5_shape_of(g->file, dataset, &s));
    *rows = s.rank == 0 ? 1 : s.dim[0];
    if (row_len != NULL) *row_len = s.row_len;
    FF_TRY(FF_NEW(*out, *rows * s.row_len + 1));
    ff_status st = *rows > 0 ? ff_h5_read(g->file, dataset, FF_H5_F64, 0, *rows, *out) : FF_OK;
    if (st != FF_OK) FF_FREE(*out);
    return st;
}

ff_status ff_golden_i64(const ff_golden *g, const char *dataset, int64_t **out, int64_t *n)
{
    ff_h5_shape s;
    *out = NULL;
    FF_TRY(ff_h5_shape_of(g->file, dataset, &s));
    *n = (s.rank == 0 ? 1 : s.dim[0]) * s.row_len;
    FF_TRY(FF_NEW(*out, *n + 1));
    ff_status st =
        *n > 0 ? ff_h5_read(g->file, dataset, FF_H5_I64, 0, s.rank == 0 ? 1 : s.dim[0], *out) : FF_OK;
    if (st != FF_OK) FF_FREE(*out);
    return st;
}

/* One boundary as a mesh: all points, this rank's cells with their fields. */
static ff_status boundary_mesh(ff_comm *comm, ff_golden *g, const char *name, ff_mesh **out, int64_t *n_faces)
{
    ff_status st = FF_OK;
    ff_mesh *m = NULL;
    char path[700];
    double *points = NULL;
    int64_t *cells = NULL, rows = 0, n = 0, dim = g->model->config->dim;
    char **fields = NULL;
    int n_fields = 0;
    FF_GO(ff_mesh_create(&m));
    m->dim = (int)dim;
    (void)snprintf(path, sizeof path, "/inputs/boundary/%s/points", name);
    FF_GO(ff_golden_f64(g, path, &points, &rows, NULL));
    m->n_points = rows;
    FF_GO(FF_NEW0(m->points, 3 * rows + 1));
    for (int64_t i = 0; i < rows; i++)
        for (int64_t d = 0; d < dim; d++) m->points[3 * i + d] = points[i * dim + d];
    (void)snprintf(path, sizeof path, "/inputs/boundary/%s/cells", name);
    FF_GO(ff_golden_i64(g, path, &cells, &n));
    for (int64_t i = 0; i < n; i++)
        if (cells[i] < 0 || cells[i] >= rows)
            FF_GO(ff_fail(FF_E_INPUT, "%s: %s: cell %lld has point %lld, expected 0 to %lld", g->path, path,
                          (long long)(i / dim), (long long)cells[i], (long long)rows - 1));
    n /= dim;
    *n_faces = n;
    int64_t from = n * comm->rank / comm->size, to = n * (comm->rank + 1) / comm->size;
    m->n_cells = to - from;
    m->n_cells_global = n;
    m->cell_begin = from;
    FF_GO(FF_NEW(m->cell_pts, m->n_cells * dim + 1));
    if (m->n_cells > 0) memcpy(m->cell_pts, cells + from * dim, (size_t)(m->n_cells * dim) * sizeof *cells);
    (void)snprintf(path, sizeof path, "/inputs/boundary/%s/cell_data", name);
    if (ff_h5_exists(g->file, path)) FF_GO(ff_h5_list(g->file, path, &fields, &n_fields));
    for (int i = 0; i < n_fields; i++) {
        double *all = NULL, *mine = NULL;
        int64_t n_rows = 0, comp = 0;
        char plain[512];
        (void)snprintf(path, sizeof path, "/inputs/boundary/%s/cell_data/%s", name, fields[i]);
        FF_GO(ff_golden_f64(g, path, &all, &n_rows, &comp));
        for (size_t k = 0; k <= strlen(fields[i]) && k < sizeof plain; k++)
            plain[k] = fields[i][k] == '|' ? '/' : fields[i][k];
        st = FF_NEW(mine, m->n_cells * comp + 1);
        if (st == FF_OK && m->n_cells > 0)
            memcpy(mine, all + from * comp, (size_t)(m->n_cells * comp) * sizeof *mine);
        ff_free(all);
        if (st == FF_OK) st = ff_field_set_add(&m->cell_data, plain, (int)comp, m->n_cells, &mine);
        FF_GO(st);
    }
    *out = m;
    m = NULL;
done:
    ff_h5_names_free(&fields, n_fields);
    ff_free(points);
    ff_free(cells);
    ff_mesh_destroy(&m);
    return st;
}

static ff_status read_lengths(ff_golden *g)
{
    char *text = NULL;
    ff_status st = FF_OK;
    json_t *root = NULL;
    FF_TRY(ff_h5_attr_read_text(g->file, "/", "reference_lengths_json", &text));
    root = json_loads(text, 0, NULL);
    for (int i = 0; i < g->model->config->n_len && st == FF_OK; i++) {
        json_t *v = json_object_get(root, g->model->config->len[i]);
        if (!json_is_number(v))
            st =
                ff_fail(FF_E_INPUT, "%s: reference_lengths_json lacks %s", g->path, g->model->config->len[i]);
        else
            g->c->length[i] = json_number_value(v);
    }
    json_decref(root);
    ff_free(text);
    return st;
}

static ff_status read_globals(ff_golden *g)
{
    const ff_name_list *l = &g->model->config->globals;
    int at = 0;
    for (int i = 0; i < l->n; i++) {
        char path[700], name[512];
        double *v = NULL;
        int64_t rows = 0, len = 0;
        ff_golden_field(l->item[i].name, name);
        (void)snprintf(path, sizeof path, "/inputs/global_data/%s", name);
        FF_TRY(ff_golden_f64(g, path, &v, &rows, &len));
        int64_t want = l->item[i].rank == 0 ? 1 : g->model->config->dim;
        if (rows * len == want) memcpy(g->c->global + at, v, (size_t)want * sizeof *v);
        ff_free(v);
        if (rows * len != want)
            return ff_fail(FF_E_INPUT, "%s: %s has %lld values, expected %lld", g->path, path,
                           (long long)(rows * len), (long long)want);
        at += (int)want;
    }
    return FF_OK;
}

static ff_status read_targets(ff_comm *comm, ff_golden *g)
{
    ff_status st = FF_OK;
    double *x = NULL, *padded = NULL;
    int64_t n = 0, dim = g->model->config->dim;
    FF_GO(ff_golden_f64(g, "/inputs/prediction_points", &x, &n, NULL));
    g->n_targets = n;
    int64_t from = n * comm->rank / comm->size, to = n * (comm->rank + 1) / comm->size;
    FF_GO(FF_NEW0(padded, 3 * (to - from) + 1));
    for (int64_t i = from; i < to; i++)
        for (int64_t d = 0; d < dim; d++) padded[3 * (i - from) + d] = x[i * dim + d];
    st = ff_case_set_targets(g->c, padded, to - from, no_shift);
done:
    ff_free(x);
    ff_free(padded);
    return st;
}

static ff_status load(ff_comm *comm, ff_golden *g)
{
    ff_status st = FF_OK;
    char *json = NULL, **names = NULL;
    int n = 0;
    FF_GO(ff_h5_open(ff_comm_self(), g->path, &g->file));
    FF_GO(ff_h5_attr_read_text(g->file, "/", "config_json", &json));
    FF_GO(ff_model_from_group(g->path, "/weights", json, &g->model));
    FF_GO(ff_case_create(g->model, &g->c));
    FF_GO(read_lengths(g));
    FF_GO(read_globals(g));
    FF_GO(FF_NEW0(g->n_faces, g->model->config->n_bc + 1));
    FF_GO(FF_NEW0(g->source_name, g->model->config->n_bc + 1));
    FF_GO(ff_h5_list(g->file, "/inputs/boundary", &names, &n));
    for (int bc = 0; bc < g->model->config->n_bc; bc++) /* the model's order, so that sources stay in place */
        for (int i = 0; i < n; i++) {
            ff_mesh *m = NULL;
            char *name = g->source_name[g->c->n_sources];
            ff_golden_field(g->model->config->bc[bc].name, name);
            if (strcmp(names[i], name) != 0) continue;
            FF_GO(boundary_mesh(comm, g, name, &m, &g->n_faces[g->c->n_sources]));
            st = ff_case_add_mesh(g->c, g->model->config->bc[bc].name, m, no_shift);
            ff_mesh_destroy(&m);
            FF_GO(st);
        }
    st = read_targets(comm, g);
done:
    ff_free(json);
    ff_h5_names_free(&names, n);
    return st;
}

ff_status ff_golden_open(ff_comm *comm, const char *path, ff_golden **out)
{
    ff_golden *g = NULL;
    *out = NULL;
    ff_status st = FF_NEW0(g, 1);
    if (st == FF_OK) {
        g->path = ff_strdup(path);
        st = g->path != NULL ? load(comm, g) : FF_E_MEM;
    }
    st = ff_agree(comm, st);
    if (st != FF_OK) ff_golden_close(&g);
    *out = g;
    return st;
}

ff_status ff_golden_round_as_file(ff_comm *comm, ff_golden *g)
{
    ff_status st = FF_OK;
    for (int i = 0; i < g->c->n_sources && st == FF_OK; i++) {
        ff_source *s = &g->c->source[i];
        char path[700];
        double *mu = NULL;
        int64_t rows = 0, len = 0, from = g->n_faces[i] * comm->rank / comm->size;
        (void)snprintf(path, sizeof path, "/geometry/%s/measure_over_reference_area", g->source_name[i]);
        st = ff_golden_f64(g, path, &mu, &rows, &len);
        if (st == FF_OK && (rows != g->n_faces[i] || len != 1))
            st = ff_fail(FF_E_INPUT, "%s: %s has %lld rows of %lld, expected %lld of 1", g->path, path,
                         (long long)rows, (long long)len, (long long)g->n_faces[i]);
        if (st == FF_OK && s->n > 0) memcpy(s->mu, mu + from, (size_t)s->n * sizeof *mu);
        ff_free(mu);
    }
    double eps = g->model->config->eps;
    g->model->config->eps = sqrt((double)(float)(eps * eps));
    return ff_agree(comm, st);
}

void ff_golden_close(ff_golden **gp)
{
    ff_golden *g = *gp;
    if (g == NULL) return;
    ff_free(g->path);
    if (g->file != NULL) (void)ff_h5_close(&g->file);
    ff_case_destroy(&g->c);
    ff_model_destroy(&g->model);
    ff_free(g->n_faces);
    ff_free(g->source_name);
    FF_FREE(*gp);
}
