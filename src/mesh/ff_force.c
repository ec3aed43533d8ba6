#include "ff_force.h"

#include "ff_exact.h"
#include "ff_mem.h"
#include "ff_polygon.h"

#include <math.h>
#include <string.h>

enum { AREA, PRESSURE, FRICTION = PRESSURE + 6, N_SUMS = FRICTION + 6 };

static void cross(const double *a, const double *b, double *out)
{
    out[0] = a[1] * b[2] - a[2] * b[1];
    out[1] = a[2] * b[0] - a[0] * b[2];
    out[2] = a[0] * b[1] - a[1] * b[0];
}

/* What one face adds to the N_SUMS sums. */
static void face_terms(const ff_faces *f, const ff_loads *l, const double *center, int64_t i, double *term)
{
    double arm[3] = {0, 0, 0}, area = f->area[i];
    memset(term, 0, N_SUMS * sizeof *term);
    term[AREA] = area;
    for (int d = 0; d < f->dim; d++) {
        arm[d] = f->x[i * f->dim + d] + f->shift[d] - center[d];
        if (l->p != NULL) term[PRESSURE + d] = -l->p[i * l->p_stride] * f->normal[i * f->dim + d] * area;
        if (l->tau != NULL) term[FRICTION + d] = l->tau[i * l->tau_stride + d] * area;
    }
    cross(arm, term + PRESSURE, term + PRESSURE + 3);
    cross(arm, term + FRICTION, term + FRICTION + 3);
}

static void take(const ff_exact *sum, ff_force *out)
{
    out->area = ff_exact_value(&sum[AREA]);
    for (int d = 0; d < 3; d++) {
        out->pressure[d] = ff_exact_value(&sum[PRESSURE + d]);
        out->friction[d] = ff_exact_value(&sum[FRICTION + d]);
        out->moment_pressure[d] = ff_exact_value(&sum[PRESSURE + 3 + d]);
        out->moment_friction[d] = ff_exact_value(&sum[FRICTION + 3 + d]);
    }
}

ff_status ff_forces_sum(ff_comm *comm, const ff_faces *f, const ff_loads *loads, const double center[3],
                        ff_force *out)
{
    ff_status st = FF_OK;
    int n = (1 + f->n_patches) * N_SUMS;
    ff_exact *sum = NULL;
    FF_TRY(FF_NEW0_ALL(comm, sum, n));
    for (int64_t i = 0; i < f->n; i++) {
        double term[N_SUMS];
        ff_exact *patch = sum + (1 + (f->patch != NULL ? f->patch[i] : 0)) * N_SUMS;
        face_terms(f, loads, center, i, term);
        for (int k = 0; k < N_SUMS; k++) {
            ff_exact_add(&sum[k], term[k]);
            if (f->n_patches > 0) ff_exact_add(&patch[k], term[k]);
        }
    }
    FF_GO(ff_exact_allreduce(comm, sum, n));
    for (int k = 0; k <= f->n_patches; k++) take(sum + k * N_SUMS, &out[k]);
done:
    ff_free(sum);
    return st;
}

/* ---- geometry ---- */

static void edge_geometry(const ff_mesh *m, const int64_t *id, double *x, double *normal, double *area)
{
    const double *a = m->points + 3 * id[0], *b = m->points + 3 * id[1];
    double v[2] = {a[1] - b[1], b[0] - a[0]}, len = sqrt(v[0] * v[0] + v[1] * v[1]);
    for (int d = 0; d < 2; d++) {
        x[d] = (a[d] + b[d]) / 2;
        normal[d] = len > 0 ? v[d] / len : 0;
    }
    *area = len;
}

/* Twice the area of the fan's triangle (0, i, i + 1), and a third of its corners' sum, both from corner 0. */
static double fan_triangle(const ff_polygon *p, int64_t i, const double *normal, double *middle)
{
    double a[3], b[3], v[3];
    ff_polygon_corner(p, i, a);
    ff_polygon_corner(p, i + 1, b);
    cross(a, b, v);
    for (int d = 0; d < 3; d++) middle[d] = (a[d] + b[d]) / 3;
    return v[0] * normal[0] + v[1] * normal[1] + v[2] * normal[2];
}

static void polygon_geometry(const ff_polygon *p, double *x, double *normal, double *area)
{
    double v[3], middle[3], sum[3] = {0, 0, 0}, mean[3] = {0, 0, 0}, total = 0;
    ff_polygon_vector_area(p, v);
    *area = sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
    for (int d = 0; d < 3; d++) normal[d] = *area > 0 ? v[d] / *area : 0;
    for (int64_t i = 1; i + 1 < p->n; i++) {
        double w = fan_triangle(p, i, normal, middle); /* signed: right for concave polygons too */
        total += w;
        for (int d = 0; d < 3; d++) {
            sum[d] += w * middle[d];
            mean[d] += middle[d] / (double)(p->n - 2);
        }
    }
    for (int d = 0; d < 3; d++) x[d] = p->points[3 * p->ids[0] + d] + (total > 0 ? sum[d] / total : mean[d]);
}

ff_status ff_faces_of_mesh(const ff_mesh *m, double **x, double **normal, double **area)
{
    ff_status st = FF_OK;
    *x = *normal = *area = NULL;
    FF_GO(FF_NEW(*x, m->n_cells * m->dim + 1));
    FF_GO(FF_NEW(*normal, m->n_cells * m->dim + 1));
    FF_GO(FF_NEW(*area, m->n_cells + 1));
    for (int64_t c = 0; c < m->n_cells; c++) {
        int64_t n, first = ff_mesh_cell(m, c, &n);
        double *xc = *x + c * m->dim, *nc = *normal + c * m->dim;
        if (m->dim == 2)
            edge_geometry(m, m->cell_pts + first, xc, nc, *area + c);
        else
            polygon_geometry(&(ff_polygon){m->points, m->cell_pts + first, n}, xc, nc, *area + c);
    }
done:
    if (st != FF_OK) {
        FF_FREE(*x);
        FF_FREE(*normal);
        FF_FREE(*area);
    }
    return st;
}
