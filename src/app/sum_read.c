/* What the sum verb reads: options, points, densities. */
#include "sum_verb.h"

#include "ff_generate.h"
#include "ff_h5.h"
#include "ff_mesh_dist.h"
#include "ff_points.h"
#include "ff_rng.h"
#include "ff_sum_tile.h"

#include <math.h>
#include <string.h>

ff_status sum_options(const ff_app *app, ff_sum_opts *o)
{
    const ff_config *c = app->config;
    const ff_sum_opts init = FF_SUM_OPTS_INIT;
    *o = init;
    FF_TRY(ff_sum_kernel_find(ff_config_string(c, "sum.kernel"), o));
    static const char *const key[] = {NULL, "sum.exponent", NULL, "sum.kappa", "sum.softening", NULL};
    if (key[o->kernel] != NULL) o->parameter = ff_config_double(c, key[o->kernel]);
    if (o->kernel == FF_SUM_LOG) o->dim = 2;
    o->gradient = ff_config_bool(c, "sum.gradient");
    o->exact_within = ff_config_double(c, "sum.exact_within");
    const char *precision =
        ff_config_given(c, "run.precision") ? ff_config_string(c, "run.precision") : "f64";
    o->single = strcmp(precision, "f32") == 0;
    if (ff_config_has(c, "sum.leaf")) o->leaf_size = (int)ff_config_int(c, "sum.leaf");
    const bool by_hand = ff_config_has(c, "plan.theta") || ff_config_has(c, "sum.order");
    if (ff_config_given(c, "sum.rtol") && by_hand)
        return ff_config_bad(c, "sum.rtol", "rtol alone, or theta and order without it");
    o->rtol = by_hand ? 0 : ff_config_double(c, "sum.rtol");
    if (ff_config_has(c, "plan.theta")) o->theta = ff_config_double(c, "plan.theta");
    if (ff_config_has(c, "sum.order")) o->order = (int)ff_config_int(c, "sum.order");
    if (strcmp(precision, "f64") != 0 && !o->single) return ff_config_bad(c, "run.precision", "f64 or f32");
    return FF_OK;
}

/* ---- points ---- */

static bool is_dataset(const char *path, const char *name)
{
    ff_h5 *f = NULL;
    if (ff_h5_open(ff_comm_self(), path, &f) != FF_OK) {
        ff_error_clear(); /* another format */
        return false;
    }
    bool here = !ff_h5_exists(f, "/VTKHDF") && ff_h5_exists(f, name);
    (void)ff_h5_close(&f);
    return here;
}

/* Rows of this rank's share of dataset name [N][n_comp] (n_comp 1: also [N]). Local */
static ff_status read_rows(const ff_app *app, const char *path, const char *name, int64_t n_comp, int64_t *n,
                           int64_t *n_all, double **out)
{
    ff_h5 *f = NULL;
    ff_h5_shape s;
    const ff_comm *comm = app->comm;
    ff_status st;
    FF_GO(ff_h5_open(ff_comm_self(), path, &f));
    FF_GO(ff_h5_shape_of(f, name, &s));
    if (s.row_len != n_comp || s.rank < 1)
        FF_GO(ff_fail(FF_E_INPUT, "%s: %s: rows of %lld numbers, expected (N, %lld)", path, name,
                      (long long)s.row_len, (long long)n_comp));
    const int64_t begin = ff_share_begin(s.dim[0], comm->rank, comm->size);
    *n = ff_share_begin(s.dim[0], comm->rank + 1, comm->size) - begin;
    *n_all = s.dim[0];
    FF_GO(FF_NEW(*out, n_comp * *n + 1));
    FF_GO(ff_h5_read(f, name, FF_H5_F64, begin, *n, *out));
done:
    if (f != NULL) {
        ff_status closed = ff_h5_close(&f);
        if (st == FF_OK) st = closed;
    }
    return st;
}

/* Corners of cells, all of them triangles. Local */
static ff_status triangles(const char *path, const ff_mesh *mesh, double **out)
{
    FF_TRY(FF_NEW(*out, 9 * mesh->n_cells + 1));
    for (int64_t c = 0; c < mesh->n_cells; c++) {
        int64_t n, from = ff_mesh_cell(mesh, c, &n);
        if (n != 3)
            return ff_fail(FF_E_INPUT,
                           "%s: a cell has %lld corners, expected triangles with sum.exact_within", path,
                           (long long)n);
        for (int64_t k = 0; k < 3; k++)
            memcpy(*out + 9 * c + 3 * k, mesh->points + 3 * mesh->cell_pts[from + k], 3 * sizeof **out);
    }
    return FF_OK;
}

/* Centroids of a surface's cells: the mean of their corners. Local */
static ff_status centroids(const ff_mesh *mesh, double **out)
{
    FF_TRY(FF_NEW(*out, 3 * mesh->n_cells + 1));
    for (int64_t c = 0; c < mesh->n_cells; c++) {
        int64_t n, from = ff_mesh_cell(mesh, c, &n);
        for (int d = 0; d < 3; d++) {
            double sum = 0;
            for (int64_t k = 0; k < n; k++) sum += mesh->points[3 * mesh->cell_pts[from + k] + d];
            (*out)[3 * c + d] = sum / (double)n;
        }
    }
    return FF_OK;
}

/* corners: where those of triangles are wanted, else NULL. Collective */
static ff_status read_mesh(const ff_app *app, const char *path, bool cells, int64_t *n, double **x,
                           double **corners)
{
    const ff_read_opts opts = ff_app_read_opts(app);
    ff_mesh *mesh = NULL;
    FF_TRY(cells ? ff_mesh_read_dist(app->comm, path, &opts, &mesh)
                 : ff_points_read_dist(app->comm, path, &opts, &mesh));
    ff_status st = FF_OK;
    *n = cells ? mesh->n_cells : mesh->n_points;
    if (cells) {
        st = centroids(mesh, x);
        if (st == FF_OK && corners != NULL) st = triangles(path, mesh, corners);
    } else {
        *x = mesh->points; /* taken over */
        mesh->points = NULL;
    }
    ff_mesh_destroy(&mesh);
    return ff_agree(app->comm, st);
}

/* Points of a file in shares. Collective */
static ff_status read_points(const ff_app *app, const char *path, int64_t *n, double **x, double **corners)
{
    int64_t table = app->comm->rank == 0 && is_dataset(path, "/points") ? 1 : 0, n_all;
    FF_TRY(ff_comm_bcast(app->comm, &table, sizeof table, 0));
    if (table == 0) return read_mesh(app, path, ff_config_bool(app->config, "sum.centroids"), n, x, corners);
    ff_status st = ff_agree(app->comm, read_rows(app, path, "/points", 3, n, &n_all, x));
    const double scale = ff_config_double(app->config, "read.scale");
    for (int64_t i = 0; i < 3 * *n && st == FF_OK; i++) (*x)[i] *= scale;
    return st;
}

static ff_status generate(sum_verb *m)
{
    const ff_config *c = m->app->config;
    const ff_comm *comm = m->app->comm;
    m->n_points = ff_config_int(c, "sum.n");
    const int64_t begin = ff_share_begin(m->n_points, comm->rank, comm->size);
    m->n_home = ff_share_begin(m->n_points, comm->rank + 1, comm->size) - begin;
    FF_TRY(FF_NEW0(m->x, 3 * m->n_home + 1));
    return ff_generate(ff_config_string(c, "sum.generate"), (uint64_t)ff_config_int(c, "run.seed"), begin,
                       m->n_home, 3, m->x);
}

/* The kernel's dimensions of rows of 3, in place. */
static void narrow(double *x, int64_t n, int dim)
{
    for (int64_t i = 0; i < n && dim < 3; i++)
        for (int d = 0; d < dim; d++) x[i * dim + d] = x[3 * i + d];
}

/* ---- densities ---- */

ff_status sum_make_density(sum_verb *m, int n_in)
{
    const ff_config *c = m->app->config;
    const ff_comm *comm = m->app->comm;
    const bool ones = strcmp(ff_config_string(c, "sum.density"), "ones") == 0;
    const uint64_t seed = (uint64_t)ff_config_int(c, "run.seed");
    const int64_t first = ff_share_begin(m->n_points, comm->rank, comm->size) * n_in;
    FF_TRY(FF_NEW(m->density, m->n_home * n_in + 1));
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < m->n_home * n_in; i++)
        m->density[i] = ones ? 1 : 2 * ff_rng_uniform(seed, 200, (uint64_t)(first + i)) - 1;
    return FF_OK;
}

static ff_status read_density(sum_verb *m, int n_in)
{
    const char *what = ff_config_string(m->app->config, "sum.density");
    int64_t n = 0, n_all = 0;
    if (strcmp(what, "random") == 0 || strcmp(what, "ones") == 0) return sum_make_density(m, n_in);
    FF_TRY(read_rows(m->app, what, "/density", n_in, &n, &n_all, &m->density));
    if (n_all != m->n_points)
        return ff_fail(FF_E_INPUT, "%s: /density: %lld rows, expected one for each of %lld points", what,
                       (long long)n_all, (long long)m->n_points);
    return FF_OK;
}

ff_status sum_read(sum_verb *m)
{
    const ff_config *c = m->app->config;
    ff_comm *comm = m->app->comm;
    const bool made = ff_config_has(c, "sum.generate"), file = ff_config_has(c, "points");
    const bool exact = m->o.exact_within > 0;
    if (made == file)
        return ff_fail(FF_E_ARG, "command line: %s, expected a file of points or --generate KIND --n N",
                       made ? "points both from a file and generated" : "nothing to sum");
    ff_phase_begin("read");
    FF_TRY(made ? ff_agree(comm, generate(m))
                : read_points(m->app, ff_config_string(c, "points"), &m->n_home, &m->x,
                              exact ? &m->corners : NULL));
    if (exact && (made || m->corners == NULL))
        return ff_config_bad(c, "sum.exact_within", "a mesh of triangles and --centroids");
    m->o.corners = m->corners;
    m->n_points = m->n_home;
    FF_TRY(ff_comm_allreduce(comm, &m->n_points, 1, FF_SUM_I64));
    if (ff_config_has(c, "sum.targets"))
        FF_TRY(read_points(m->app, ff_config_string(c, "sum.targets"), &m->n_t_home, &m->xt, NULL));
    narrow(m->x, m->n_home, m->o.dim);
    if (m->xt != NULL) narrow(m->xt, m->n_t_home, m->o.dim);
    const int n_in = ff_sum_opts_in(&m->o);
    return ff_agree(comm, read_density(m, n_in));
}
