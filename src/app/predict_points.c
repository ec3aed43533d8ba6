/* Targets of predict: face centroids, points of a mesh, points of a file; and the way back for mesh points.
 */
#include "predict.h"

#include "ff_mesh_dist.h"
#include "ff_points.h"

#include <string.h>

/* Points of a mesh may stand on several ranks; each is a target once, at home on the rank of its share. */
typedef struct point_route {
    size_t *send, *recv; /* [size] rows to and from each rank */
    int64_t n_recv;
    int64_t *slot; /* [n_recv] place of each received row in the home share */
} point_route;

static void route_free(point_route *r)
{
    ff_free(r->send);
    ff_free(r->recv);
    ff_free(r->slot);
}

static int64_t gid_of(const ff_mesh *m, int64_t i)
{
    return m->point_gid != NULL ? m->point_gid[i] : i;
}

static int64_t n_points_global(const ff_mesh *m)
{
    return m->point_gid != NULL ? m->n_points_global : m->n_points;
}

/* Rows of width bytes a row between holders and homes: scales the row counts. */
static ff_status move(ff_comm *comm, const size_t *from_rows, const size_t *to_rows, size_t width,
                      const void *send, void *recv)
{
    size_t *a = NULL, *b = NULL;
    ff_status st = FF_NEW(a, comm->size);
    if (st == FF_OK) st = FF_NEW(b, comm->size);
    if ((st = ff_agree(comm, st)) != FF_OK) goto done;
    for (int r = 0; r < comm->size; r++) {
        a[r] = from_rows[r] * width;
        b[r] = to_rows[r] * width;
    }
    st = ff_comm_alltoallv(comm, send, a, recv, b);
done:
    ff_free(a);
    ff_free(b);
    return st;
}

/* Held points ascend by number, so they are packed by home rank already. */
static ff_status route_build(ff_comm *comm, const ff_mesh *m, point_route *r)
{
    int64_t n_all = n_points_global(m), *gid = NULL;
    ff_status st = FF_NEW0(r->send, comm->size);
    if (st == FF_OK) st = FF_NEW0(r->recv, comm->size);
    if (st == FF_OK) st = FF_NEW(gid, m->n_points + 1);
    FF_GO(ff_agree(comm, st));
    for (int64_t i = 0; i < m->n_points; i++) {
        gid[i] = gid_of(m, i);
        r->send[ff_share_owner(n_all, gid[i], comm->size)]++;
    }
    FF_GO(ff_comm_alltoall_counts(comm, r->send, r->recv));
    for (int k = 0; k < comm->size; k++) r->n_recv += (int64_t)r->recv[k];
    FF_GO(FF_NEW_ALL(comm, r->slot, r->n_recv + 1));
    FF_GO(move(comm, r->send, r->recv, sizeof *gid, gid, r->slot));
    for (int64_t i = 0; i < r->n_recv; i++) r->slot[i] -= ff_share_begin(n_all, comm->rank, comm->size);
done:
    ff_free(gid);
    return st;
}

static ff_status points_of_mesh(predict *p)
{
    ff_comm *comm = p->app->comm;
    const ff_mesh *m = p->boundary[p->target].mesh;
    point_route r = {0};
    double *x = NULL;
    int64_t n_all = n_points_global(m);
    ff_status st = route_build(comm, m, &r);
    FF_GO(st);
    p->n_rows =
        ff_share_begin(n_all, comm->rank + 1, comm->size) - ff_share_begin(n_all, comm->rank, comm->size);
    st = FF_NEW(x, 3 * r.n_recv + 1);
    if (st == FF_OK) st = FF_NEW0(p->x_point, 3 * p->n_rows + 1);
    FF_GO(ff_agree(comm, st));
    FF_GO(move(comm, r.send, r.recv, 3 * sizeof *x, m->points, x));
    for (int64_t i = 0; i < r.n_recv; i++) memcpy(p->x_point + 3 * r.slot[i], x + 3 * i, 3 * sizeof *x);
done:
    ff_free(x);
    route_free(&r);
    return st;
}

ff_status predict_spread_points(const predict *p, double **local)
{
    ff_comm *comm = p->app->comm;
    const ff_mesh *m = p->boundary[p->target].mesh;
    point_route r = {0};
    double *out = NULL;
    size_t width = (size_t)p->n_comp;
    ff_status st = route_build(comm, m, &r);
    FF_GO(st);
    st = FF_NEW(out, r.n_recv * p->n_comp + 1);
    if (st == FF_OK) st = FF_NEW(*local, m->n_points * p->n_comp + 1);
    FF_GO(ff_agree(comm, st));
    for (int64_t i = 0; i < r.n_recv; i++)
        memcpy(out + (size_t)i * width, p->rows + (size_t)r.slot[i] * width, width * sizeof *out);
    st = move(comm, r.recv, r.send, width * sizeof *out, out, *local);
done:
    ff_free(out);
    route_free(&r);
    return st;
}

static ff_status points_of_file(predict *p, const char *path)
{
    ff_read_opts opts = ff_app_read_opts(p->app);
    ff_mesh *m = NULL;
    p->kind = AT_FILE_POINTS;
    FF_TRY(ff_points_read_dist(p->app->comm, path, &opts, &m));
    int64_t n_all = p->n_rows = m->n_points;
    bool flat = m->dim < p->model->config->dim;
    p->x_point = m->points; /* taken over */
    m->points = NULL;
    ff_mesh_destroy(&m);
    FF_TRY(ff_comm_allreduce(p->app->comm, &n_all, 1, FF_SUM_I64));
    if (n_all == 0) return ff_fail(FF_E_INPUT, "%s: holds no point, expected at least one", path);
    if (flat) return ff_fail(FF_E_INPUT, "%s: 2 columns, but the model is 3D; add z", path);
    return FF_OK;
}

ff_status predict_targets(predict *p)
{
    const char *what = ff_config_string(p->app->config, "predict.targets");
    ff_status st = FF_OK;
    if (strcmp(what, "centroids") == 0) {
        p->kind = AT_CENTROIDS;
        int bc = ff_model_find_bc(p->model->config, p->boundary[p->target].name);
        for (int i = 0; i < p->c->n_sources; i++)
            if (p->c->source[i].bc == bc) p->c->target_source = i;
        return FF_OK;
    }
    if (strcmp(what, "points") == 0) {
        p->kind = AT_MESH_POINTS;
        FF_TRY(points_of_mesh(p));
    } else {
        FF_TRY(points_of_file(p, what));
    }
    st = ff_case_set_targets(p->c, p->x_point, p->n_rows, p->shift);
    return ff_agree(p->app->comm, st);
}
