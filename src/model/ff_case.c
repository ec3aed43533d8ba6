#include "ff_case.h"

#include "ff_mem.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

ff_status ff_case_create(const ff_model *model, ff_case **out)
{
    ff_status st = FF_OK;
    const ff_model_config *m = model->config;
    ff_case *c = NULL;
    *out = NULL;
    FF_GO(FF_NEW0(c, 1));
    c->model = model;
    c->target_source = -1;
    c->theta = m->theta;
    c->leaf_size = m->leaf_size;
    c->expand_far = m->expand_far;
    FF_GO(FF_NEW0(c->source, m->n_bc));
    FF_GO(FF_NEW0(c->length, m->n_len));
    FF_GO(FF_NEW0(c->global, ff_names_comp(&m->globals, m->dim) + 1));
    *out = c;
    c = NULL;
done:
    ff_case_destroy(&c);
    return st;
}

void ff_case_destroy(ff_case **cp)
{
    ff_case *c = *cp;
    if (c == NULL) return;
    for (int i = 0; i < c->n_sources; i++) {
        ff_source *s = &c->source[i];
        ff_free(s->x32);
        ff_free(s->x);
        ff_free(s->normal);
        ff_free(s->area);
        ff_free(s->mu);
        ff_free(s->field);
    }
    ff_free(c->source);
    ff_free(c->length);
    ff_free(c->global);
    ff_free(c->target_x32);
    ff_free(c->target_x);
    FF_FREE(*cp);
}

/* Centroid twice: float32 decides the plan (sum left to right, then divided), double enters the pair
 * geometry. */
static void face_centroid(int dim, const float *const *p, float *x32, double *x)
{
    for (int d = 0; d < dim; d++) {
        float sum = p[0][d] + p[1][d];
        double wide = (double)p[0][d] + (double)p[1][d];
        if (dim == 3) {
            sum = sum + p[2][d];
            wide += (double)p[2][d];
        }
        x32[d] = sum / (float)dim;
        x[d] = wide / dim;
    }
}

/* Area and unit normal in double; the zero vector where the area is zero. */
static double face_normal(int dim, const float *const *p, double *normal)
{
    double v[3] = {0, 0, 0};
    if (dim == 2) {
        v[0] = -((double)p[1][1] - (double)p[0][1]);
        v[1] = (double)p[1][0] - (double)p[0][0];
    } else {
        double e1[3], e2[3];
        for (int d = 0; d < 3; d++) {
            e1[d] = (double)p[1][d] - (double)p[0][d];
            e2[d] = (double)p[2][d] - (double)p[0][d];
        }
        v[0] = e1[1] * e2[2] - e1[2] * e2[1];
        v[1] = e1[2] * e2[0] - e1[0] * e2[2];
        v[2] = e1[0] * e2[1] - e1[1] * e2[0];
    }
    double len = sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
    for (int d = 0; d < dim; d++) normal[d] = len > 0 ? v[d] / len : 0;
    return dim == 2 ? len : len / 2;
}

ff_status ff_source_geometry(ff_source *s, int dim, const float *points, const int64_t *cells, int64_t n,
                             const double *weight, double reference_area)
{
    s->n = n;
    FF_TRY(FF_NEW(s->x32, n * dim));
    FF_TRY(FF_NEW(s->x, n * dim));
    FF_TRY(FF_NEW(s->normal, n * dim));
    FF_TRY(FF_NEW(s->area, n));
    FF_TRY(FF_NEW(s->mu, n));
    for (int64_t i = 0; i < n; i++) {
        const float *p[3] = {NULL, NULL, NULL};
        for (int k = 0; k < dim; k++) p[k] = points + cells[i * dim + k] * dim;
        face_centroid(dim, p, s->x32 + i * dim, s->x + i * dim);
        s->area[i] = face_normal(dim, p, s->normal + i * dim);
        s->mu[i] = s->area[i] * (weight != NULL ? weight[i] : 1.0) / reference_area;
    }
    return FF_OK;
}

/* The name as written, or as writers of VTKHDF must write it (no `/`, no `.`). */
static const ff_field *find_field(const ff_field_set *set, const char *name)
{
    const ff_field *f = ff_field_set_find(set, name);
    if (f != NULL) return f;
    char plain[512];
    size_t i = 0;
    for (; name[i] != 0 && i + 1 < sizeof plain; i++)
        plain[i] = name[i] == '/' || name[i] == '.' ? '_' : name[i];
    plain[i] = 0;
    return ff_field_set_find(set, plain);
}

/* The first n_comp components of each cell; what float32 cannot hold is not finite either. */
static ff_status check_finite(const char *bc, const char *name, const ff_mesh *m, const ff_field *f,
                              int n_comp)
{
    for (int64_t k = 0; k < m->n_cells; k++)
        for (int d = 0; d < n_comp; d++) {
            double v = f->value[k * f->n_comp + d];
            if (!isfinite((float)v))
                return ff_fail(FF_E_INPUT,
                               "boundary %s: cell field %s = %g at cell %lld, expected a finite number", bc,
                               name, v, (long long)(k + (m->cell_begin > 0 ? m->cell_begin : 0)));
        }
    return FF_OK;
}

static ff_status take_fields(ff_source *s, const ff_model_bc *bc, const ff_mesh *m, int dim)
{
    int n_comp = ff_names_comp(&bc->fields, dim), at = 0;
    FF_TRY(FF_NEW(s->field, s->n * n_comp + 1));
    for (int rank = 0; rank < 2; rank++)
        for (int i = 0; i < bc->fields.n; i++) {
            const ff_ranked_name *want = &bc->fields.item[i];
            if (want->rank != rank) continue;
            int comp = rank == 0 ? 1 : dim;
            const ff_field *f = find_field(&m->cell_data, want->name);
            if (f == NULL)
                return ff_fail(FF_E_INPUT, "boundary %s: cell field %s (%s) is missing%s", bc->name,
                               want->name, rank == 0 ? "scalar" : "vector",
                               find_field(&m->point_data, want->name) != NULL
                                   ? ": the file has it as point data; convert it to cell data"
                                   : "; add it to the mesh file");
            if (f->n_comp != comp && !(rank == 1 && f->n_comp == 3))
                return ff_fail(FF_E_INPUT, "boundary %s: cell field %s has %d components, expected %d",
                               bc->name, want->name, f->n_comp, comp);
            FF_TRY(check_finite(bc->name, want->name, m, f, comp));
            for (int64_t k = 0; k < s->n; k++)
                for (int d = 0; d < comp; d++) s->field[k * n_comp + at + d] = f->value[k * f->n_comp + d];
            at += comp;
        }
    return FF_OK;
}

/* The field that multiplies areas, NULL where there is none. */
static ff_status find_weights(const ff_mesh *m, const char *bc, const double **weight)
{
    static const char name[] = "_measure_weights";
    const ff_field *f = ff_field_set_find(&m->cell_data, name);
    *weight = NULL;
    if (f == NULL) return FF_OK;
    if (f->n_comp != 1)
        return ff_fail(FF_E_INPUT, "boundary %s: cell field %s has %d components, expected 1", bc, name,
                       f->n_comp);
    *weight = f->value;
    return check_finite(bc, name, m, f, 1);
}

ff_status ff_case_add_mesh(ff_case *c, const char *bc_name, const ff_mesh *m, const double shift[3])
{
    ff_status st = FF_OK;
    const ff_model_config *mc = c->model->config;
    int dim = mc->dim, bc = ff_model_find_bc(mc, bc_name), at = 0;
    float *points = NULL;
    const double *weight = NULL;
    if (bc < 0) {
        char names[512] = "";
        for (int i = 0; i < mc->n_bc; i++) {
            size_t k = strlen(names);
            (void)snprintf(names + k, sizeof names - k, "%s%s", i > 0 ? ", " : "", mc->bc[i].name);
        }
        return ff_fail(FF_E_INPUT, "boundary %s is unknown to the model, which has: %s", bc_name, names);
    }
    if (m->dim != dim)
        return ff_fail(FF_E_INPUT, "boundary %s: the mesh is %dD, the model %dD", bc_name, m->dim, dim);
    while (at < c->n_sources && c->source[at].bc < bc) at++;
    if (at < c->n_sources && c->source[at].bc == bc)
        return ff_fail(FF_E_INPUT, "boundary %s is given twice; join the files or name another boundary",
                       bc_name);
    memmove(c->source + at + 1, c->source + at, (size_t)(c->n_sources - at) * sizeof *c->source);
    ff_source *s = &c->source[at];
    memset(s, 0, sizeof *s);
    s->bc = bc;
    c->n_sources++;
    FF_GO(FF_NEW(points, m->n_points * dim + 1));
    for (int64_t i = 0; i < m->n_points; i++)
        for (int d = 0; d < dim; d++) points[i * dim + d] = (float)(m->points[3 * i + d] - shift[d]);
    FF_GO(find_weights(m, bc_name, &weight));
    FF_GO(ff_source_geometry(s, dim, points, m->cell_pts, m->n_cells, weight, mc->reference_area));
    FF_GO(take_fields(s, &mc->bc[bc], m, dim));
done:
    ff_free(points);
    return st;
}

ff_status ff_case_set_targets(ff_case *c, const double *points, int64_t n, const double shift[3])
{
    int dim = c->model->config->dim;
    c->n_targets = n;
    c->target_source = -1;
    FF_TRY(FF_NEW(c->target_x32, n * dim + 1));
    FF_TRY(FF_NEW(c->target_x, n * dim + 1));
    for (int64_t i = 0; i < n; i++)
        for (int d = 0; d < dim; d++) {
            c->target_x32[i * dim + d] = (float)(points[3 * i + d] - shift[d]);
            c->target_x[i * dim + d] = (double)c->target_x32[i * dim + d];
        }
    return FF_OK;
}
