/* What the embed verb reads: points with their cell, weights, cotangent. */
#include "embed.h"

#include "ff_mesh_dist.h"
#include "ff_points.h"
#include "ff_rng.h"
#include "ff_xyz.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *embed_at(const ff_app *app, const char *name, char at[512])
{
    const char *group = ff_config_string(app->config, "embed.group");
    (void)snprintf(at, 512, "%s%s%s%s", group[0] == '/' ? "" : "/", group,
                   group[0] != 0 && group[strlen(group) - 1] == '/' ? "" : "/", name);
    return at;
}

/* The group itself, without a slash at its end unless it is the root. */
static const char *group_of(const ff_app *app, char at[512])
{
    size_t n = strlen(embed_at(app, "", at));
    while (n > 1 && at[n - 1] == '/') at[--n] = 0;
    return at;
}

static ff_status close_after(ff_h5 **f, ff_status st)
{
    if (*f == NULL) return st;
    ff_status closed = ff_h5_close(f);
    return st != FF_OK ? st : closed;
}

/* ---- points ---- */

/* Whether the file is HDF5 with a dataset of points where the deck says; *mesh: one of VTK's, or no HDF5. */
static bool is_table_h5(const ff_app *app, const char *path, bool *mesh)
{
    ff_h5 *f = NULL;
    char at[512];
    *mesh = true;
    if (ff_h5_open(ff_comm_self(), path, &f) != FF_OK) {
        ff_error_clear(); /* another format: its reader says what is wrong */
        return false;
    }
    *mesh = ff_h5_exists(f, "/VTKHDF");
    bool here = ff_h5_exists(f, embed_at(app, "points", at)) && !*mesh;
    (void)ff_h5_close(&f);
    return here;
}

static ff_status check_finite(const char *path, const char *at, const double *x, int64_t n, int64_t first)
{
    for (int64_t i = 0; i < 3 * n; i++)
        if (!isfinite(x[i]))
            return ff_fail(FF_E_INPUT, "%s: %s: point %lld: %c = %g, expected a finite coordinate", path, at,
                           (long long)(first + i / 3), "xyz"[i % 3], x[i]);
    return FF_OK;
}

/* Each rank its share. Local */
static ff_status read_h5(embed *m, const char *path)
{
    ff_h5 *f = NULL;
    ff_h5_shape s;
    char at[512], group[512];
    const ff_comm *comm = m->app->comm;
    ff_status st;
    FF_GO(ff_h5_open(ff_comm_self(), path, &f));
    FF_GO(ff_h5_shape_of(f, embed_at(m->app, "points", at), &s));
    if (s.rank != 2 || s.dim[1] != 3)
        FF_GO(ff_fail(FF_E_INPUT, "%s: %s: rank %d with rows of %lld, expected (N, 3)", path, at, s.rank,
                      (long long)s.row_len));
    const int64_t begin = ff_share_begin(s.dim[0], comm->rank, comm->size);
    m->n_home = ff_share_begin(s.dim[0], comm->rank + 1, comm->size) - begin;
    FF_GO(FF_NEW(m->x, 3 * m->n_home + 1));
    FF_GO(ff_h5_read(f, at, FF_H5_F64, begin, m->n_home, m->x));
    FF_GO(check_finite(path, at, m->x, m->n_home, begin));
    FF_GO(app_cell_read(f, group_of(m->app, group), &m->cell, &m->periodic));
    const double scale = ff_config_double(m->app->config, "read.scale");
    for (int64_t i = 0; i < 3 * m->n_home; i++) m->x[i] *= scale;
    for (int i = 0; i < 9; i++) m->cell.vector[i / 3][i % 3] *= scale;
done:
    return close_after(&f, st);
}

/* Collective */
static ff_status read_xyz(embed *m, const char *path, ff_mesh **out)
{
    ff_comm *comm = m->app->comm;
    const ff_read_opts opts = ff_app_read_opts(m->app);
    ff_mesh *whole = NULL;
    ff_xyz_cell cell;
    memset(&cell, 0, sizeof cell);
    FF_TRY(ff_agree(comm, comm->rank == 0 ? ff_xyz_read(path, &opts, &whole, &cell) : FF_OK));
    FF_TRY(ff_comm_bcast(comm, &cell, sizeof cell, 0));
    memcpy(m->cell.vector, cell.vector, sizeof cell.vector);
    memcpy(m->cell.periodic, cell.periodic, sizeof cell.periodic);
    m->periodic = cell.given && (cell.periodic[0] || cell.periodic[1] || cell.periodic[2]);
    if (comm->size > 1) return ff_mesh_scatter(comm, &whole, out);
    *out = whole;
    return FF_OK;
}

/* Collective */
static ff_status read_mesh(embed *m, const char *path)
{
    const ff_read_opts opts = ff_app_read_opts(m->app);
    ff_mesh *mesh = NULL;
    FF_TRY(ff_xyz_named(path) ? read_xyz(m, path, &mesh)
                              : ff_points_read_dist(m->app->comm, path, &opts, &mesh));
    m->n_home = mesh->n_points;
    m->x = mesh->points; /* taken over */
    mesh->points = NULL;
    ff_mesh_destroy(&mesh);
    return FF_OK;
}

static ff_status cell_of_deck(embed *m)
{
    const ff_config *c = m->app->config;
    const int n = ff_config_count(c, "embed.cell");
    double v[9] = {0};
    if (n == 0) return FF_OK;
    if (n != 1 && n != 3 && n != 9) return ff_config_bad(c, "embed.cell", "1, 3 or 9 numbers");
    for (int i = 0; i < n; i++) v[i] = ff_config_item(c, "embed.cell", i);
    return app_cell_of("embed.cell", v, n, &m->cell, &m->periodic);
}

ff_status embed_read_points(embed *m)
{
    const char *path = ff_config_string(m->app->config, "points");
    ff_comm *comm = m->app->comm;
    int64_t table = 0;
    bool mesh = true;
    char at[512];
    ff_phase_begin("read");
    if (comm->rank == 0) {
        table = is_table_h5(m->app, path, &mesh) ? 1 : 0;
        if (table == 0 && !mesh) table = 2;
    }
    FF_TRY(ff_comm_bcast(comm, &table, sizeof table, 0));
    if (table == 2)
        return ff_fail(FF_E_INPUT, "%s: dataset %s is missing, expected points (N, 3); give --group", path,
                       embed_at(m->app, "points", at));
    FF_TRY(table == 1 ? ff_agree(comm, read_h5(m, path)) : read_mesh(m, path));
    FF_TRY(cell_of_deck(m));
    m->n_points = m->n_home;
    return ff_comm_allreduce(comm, &m->n_points, 1, FF_SUM_I64);
}

/* ---- weights ---- */

static ff_status random_weights(embed *m)
{
    const uint64_t seed = (uint64_t)ff_config_int(m->app->config, "run.seed");
    const int64_t n1 = ff_head_n_w1(&m->h.o), n2 = ff_head_n_w2(&m->h.o);
    FF_TRY(FF_NEW(m->h.w1, n1));
    FF_TRY(FF_NEW(m->h.w2, n2));
    for (int64_t i = 0; i < n1; i++) m->h.w1[i] = 2 * ff_rng_uniform(seed, 1, (uint64_t)i) - 1;
    for (int64_t i = 0; i < n2; i++)
        m->h.w2[i] = (2 * ff_rng_uniform(seed, 2, (uint64_t)i) - 1) / sqrt(m->h.o.n_hidden);
    return FF_OK;
}

static ff_status read_weights(embed *m, const char *path)
{
    ff_h5 *f = NULL;
    char group[512];
    ff_status st;
    FF_GO(ff_h5_open(ff_comm_self(), path, &f));
    FF_GO(app_head_read(f, group_of(m->app, group), &m->h));
done:
    return close_after(&f, st);
}

/* An option that says something else than the weights do. */
static ff_status check_int(const ff_config *c, const char *key, int64_t value)
{
    char want[80];
    if (!ff_config_has(c, key) || ff_config_int(c, key) == value) return FF_OK;
    (void)snprintf(want, sizeof want, "%lld, which the weights have", (long long)value);
    return ff_config_bad(c, key, want);
}

/* Local */
static ff_status take_head(embed *m)
{
    const ff_config *c = m->app->config;
    const char *weights = ff_config_string(c, "embed.weights");
    const bool random = strcmp(weights, "random") == 0;
    const ff_head_opts init = FF_HEAD_OPTS_INIT;
    ff_head_opts *o = &m->h.o;
    *o = init;
    if (ff_config_has(c, "embed.lmax")) o->lmax = (int)ff_config_int(c, "embed.lmax");
    if (random) {
        if (ff_config_has(c, "embed.channels")) o->n_channels = ff_config_int(c, "embed.channels");
        if (ff_config_has(c, "embed.n_radial")) o->n_radial = (int)ff_config_int(c, "embed.n_radial");
        if (ff_config_has(c, "embed.n_hidden")) o->n_hidden = (int)ff_config_int(c, "embed.n_hidden");
    } else {
        if (!ff_config_has(c, "embed.lmax")) o->lmax = 0;
        FF_TRY(read_weights(m, weights));
    }
    FF_TRY(check_int(c, "embed.lmax", o->lmax));
    FF_TRY(check_int(c, "embed.channels", o->n_channels));
    FF_TRY(check_int(c, "embed.n_radial", o->n_radial));
    FF_TRY(check_int(c, "embed.n_hidden", o->n_hidden));
    if (ff_config_has(c, "embed.degree_floor")) o->degree_floor = ff_config_double(c, "embed.degree_floor");
    if (ff_config_has(c, "embed.cutoff")) m->h.cutoff = ff_config_double(c, "embed.cutoff");
    o->path =
        strcmp(ff_config_string(c, "embed.scatter"), "fused") == 0 ? FF_SCATTER_FUSED : FF_SCATTER_REFERENCE;
    if (m->h.cutoff == 0) return ff_config_need(c, "embed.cutoff");
    ff_head_opts checked;
    FF_TRY(ff_head_take(o, &checked));
    return random ? random_weights(m) : FF_OK;
}

ff_status embed_read_head(embed *m)
{
    FF_TRY(ff_config_need(m->app->config, "embed.weights"));
    return ff_agree(m->app->comm, take_head(m));
}

/* ---- cotangent ---- */

/* Local */
static ff_status cotangent_of_file(embed *m, const char *path)
{
    ff_h5 *f = NULL;
    ff_h5_shape s;
    char at[512];
    const ff_comm *comm = m->app->comm;
    const int64_t n_out = ff_head_n_out(&m->h.o);
    ff_status st;
    int64_t begin = ff_share_begin(m->n_points, comm->rank, comm->size);
    FF_GO(ff_h5_open(ff_comm_self(), path, &f));
    FF_GO(ff_h5_shape_of(f, embed_at(m->app, "cotangent", at), &s));
    if (s.dim[0] != m->n_points || s.row_len != n_out)
        FF_GO(ff_fail(FF_E_INPUT, "%s: %s: %lld rows of %lld numbers, expected (N, D, C): %lld rows of %lld",
                      path, at, (long long)s.dim[0], (long long)s.row_len, (long long)m->n_points,
                      (long long)n_out));
    FF_GO(ff_h5_read(f, at, m->f64 ? FF_H5_F64 : FF_H5_F32, begin, m->n_home, m->cotangent));
done:
    return close_after(&f, st);
}

ff_status embed_read_cotangent(embed *m)
{
    const char *what = ff_config_string(m->app->config, "embed.cotangent");
    const size_t real = m->f64 ? sizeof(double) : sizeof(float);
    const size_t n = (size_t)(m->n_home * ff_head_n_out(&m->h.o));
    m->cotangent = ff_mem_alloc(n + 1, real);
    ff_status st = m->cotangent != NULL ? FF_OK : FF_E_MEM;
    if (st == FF_OK && strcmp(what, "output") != 0) st = cotangent_of_file(m, what);
    if (st == FF_OK && strcmp(what, "output") == 0 && n > 0) memcpy(m->cotangent, m->out, n * real);
    return ff_agree(m->app->comm, st);
}
