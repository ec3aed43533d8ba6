#include "app_boundary.h"

#include "ff_bodies.h"
#include "ff_case.h"
#include "ff_mesh_dist.h"

#include <string.h>

/* "dir/car_body.stl.gz" -> "car_body", and so for a folder "dir/car_body/". */
static char *stem_of(const char *path)
{
    size_t end = strlen(path), begin;
    while (end > 1 && path[end - 1] == '/') end--;
    for (begin = end; begin > 0 && path[begin - 1] != '/';) begin--;
    char *s = ff_strdup(path + begin);
    if (s == NULL) return NULL;
    s[end - begin] = 0;
    char *dot = strchr(s + (s[0] != 0), '.');
    if (dot != NULL) *dot = 0;
    return s;
}

static ff_status read_files(const ff_app *app, app_boundary *b, int n)
{
    ff_read_opts opts = ff_app_read_opts(app);
    for (int i = 0; i < n; i++) {
        int len = 0;
        const char *arg = ff_config_file(app->config, "mesh", i), *path = ff_config_split_name(arg, &len);
        if (*path == 0) return ff_fail(FF_E_ARG, "boundary \"%s\" names no file, expected name=file", arg);
        b[i].name = len > 0 ? ff_strdup(arg) : stem_of(path);
        if (b[i].name != NULL && len > 0) b[i].name[len] = 0;
        FF_TRY(ff_agree(app->comm, b[i].name != NULL ? FF_OK : FF_E_MEM));
        FF_TRY(ff_mesh_read_dist(app->comm, path, &opts, &b[i].mesh));
    }
    return FF_OK;
}

static ff_status make_case(const ff_app *app, app_boundary *b)
{
    static const char *const name[3] = {"vehicle", "no_slip_floor", "slip_floor"};
    const char *case_name = ff_config_string(app->config, "case");
    ff_status st = ff_body_car(case_name, &b[0].mesh, &b[1].mesh, &b[2].mesh);
    for (int i = 0; i < 3 && st == FF_OK; i++) {
        ff_mesh_keep_share(b[i].mesh, ff_comm_rank(app->comm), ff_comm_size(app->comm));
        b[i].name = ff_strdup(name[i]);
        if (b[i].name == NULL) st = FF_E_MEM;
    }
    return ff_agree(app->comm, st);
}

static ff_status no_face(const ff_app *app, int n)
{
    const char *first = ff_config_file(app->config, "mesh", 0); /* a case made in memory has faces */
    return ff_fail(FF_E_INPUT, "%s: %s no face, expected at least one", first,
                   n == 1 ? "holds" : "this and the other boundaries hold");
}

/* The same verdict on all ranks: dimensions and names are. */
static ff_status examine(const ff_app *app, const app_boundary *b, int n)
{
    int64_t faces = 0;
    for (int i = 0; i < n; i++) {
        faces += b[i].mesh->n_cells;
        for (int j = 0; j < i; j++)
            if (strcmp(b[i].name, b[j].name) == 0)
                return ff_fail(FF_E_ARG, "boundary \"%s\" is given twice; name them: name=file", b[i].name);
        if (b[i].mesh->dim != b[0].mesh->dim)
            return ff_fail(FF_E_INPUT, "boundary \"%s\" is %s, \"%s\" is %s; expected all alike", b[0].name,
                           b[0].mesh->dim == 3 ? "a surface" : "a curve", b[i].name,
                           b[i].mesh->dim == 3 ? "a surface" : "a curve");
    }
    FF_TRY(ff_comm_allreduce(app->comm, &faces, 1, FF_SUM_I64));
    return faces > 0 ? FF_OK : no_face(app, n);
}

ff_status app_boundaries_read(const ff_app *app, app_boundary **out, int *n)
{
    ff_status st = FF_OK;
    int n_files = ff_config_count(app->config, "mesh");
    bool made = ff_config_has(app->config, "case");
    app_boundary *b = NULL;
    *out = NULL;
    if (made && n_files > 0)
        return ff_fail(FF_E_ARG, "command line: both mesh files and --case given, expected one of them");
    if (!made && n_files == 0)
        return ff_fail(FF_E_ARG, "command line: no boundary, expected [NAME=]MESH... or --case car:S");
    *n = made ? 3 : n_files;
    FF_TRY(FF_NEW0_ALL(app->comm, b, *n));
    FF_GO(made ? make_case(app, b) : read_files(app, b, n_files));
    FF_GO(examine(app, b, *n));
done:
    if (st != FF_OK) app_boundaries_free(&b, *n);
    *out = b;
    return st;
}

void app_boundaries_free(app_boundary **b, int n)
{
    for (int i = 0; i < n && *b != NULL; i++) {
        ff_free((*b)[i].name);
        ff_mesh_destroy(&(*b)[i].mesh);
    }
    FF_FREE(*b);
}

/* Triangles (or edges) of b in place of its polygons. */
static ff_status cut_polygons(app_boundary *b)
{
    ff_mesh *t = NULL;
    int64_t *parent = NULL;
    if (b->mesh->cell_off == NULL) return FF_OK;
    FF_TRY(ff_mesh_triangulate(b->mesh, &t, &parent));
    ff_free(parent);
    ff_mesh_destroy(&b->mesh);
    b->mesh = t;
    return FF_OK;
}

ff_status app_boundary_centroids(app_boundary *b, float **x, int64_t *n)
{
    ff_status st = FF_OK;
    ff_source s = {0};
    float *points = NULL;
    *x = NULL;
    FF_GO(cut_polygons(b));
    int dim = b->mesh->dim;
    FF_GO(FF_NEW(points, dim * b->mesh->n_points));
    for (int64_t i = 0; i < b->mesh->n_points; i++)
        for (int d = 0; d < dim; d++) points[dim * i + d] = (float)b->mesh->points[3 * i + d];
    FF_GO(ff_source_geometry(&s, dim, points, b->mesh->cell_pts, b->mesh->n_cells, NULL, 1.0));
    *x = s.x32;
    *n = b->mesh->n_cells;
    s.x32 = NULL;
done:
    ff_free(points);
    ff_free(s.x32);
    ff_free(s.x);
    ff_free(s.normal);
    ff_free(s.area);
    ff_free(s.mu);
    ff_mesh_destroy(&b->mesh);
    return st;
}
