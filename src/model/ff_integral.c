#include "ff_integral.h"

#include "ff_exact.h"
#include "ff_mem.h"

#include <string.h>

/* Place of an output field in a row, or -1. */
static int find_output(const ff_model_config *m, const char *name, int rank)
{
    int at = 0;
    for (int i = 0; i < m->outputs.n; i++) {
        const ff_ranked_name *f = &m->outputs.item[i];
        if (strcmp(f->name, name) == 0 && f->rank == rank) return at;
        at += f->rank == 0 ? 1 : m->dim;
    }
    return -1;
}

static void cross(const double *a, const double *b, double *out)
{
    out[0] = a[1] * b[2] - a[2] * b[1];
    out[1] = a[2] * b[0] - a[0] * b[2];
    out[2] = a[0] * b[1] - a[1] * b[0];
}

/* Force and its moment of one face: sums 0..2 and 3..5. */
static void add_force(ff_exact *sum, const double *arm, const double *force)
{
    double moment[3];
    cross(arm, force, moment);
    for (int d = 0; d < 3; d++) {
        ff_exact_add(&sum[d], force[d]);
        ff_exact_add(&sum[3 + d], moment[d]);
    }
}

enum { AREA, PRESSURE = 1, FRICTION = 7, FIELDS = 13 };

ff_status ff_integrals_run(ff_comm *comm, const ff_case *c, int s, const double *rows,
                           const ff_integral_opts *opts, ff_integrals *out)
{
    const ff_model_config *m = c->model->config;
    const ff_source *src = &c->source[s];
    int dim = m->dim, n_comp = ff_names_comp(&m->outputs, dim);
    int cp = find_output(m, "C_p", 0), cf = find_output(m, "C_f", 1);
    ff_exact *sum = NULL;
    memset(out, 0, sizeof *out);
    out->n_comp = n_comp;
    ff_status st = FF_NEW0(sum, FIELDS + n_comp);
    if (st == FF_OK) st = FF_NEW0(out->mean, n_comp);
    if ((st = ff_agree(comm, st)) != FF_OK) goto done;
    for (int64_t i = 0; i < src->n; i++) {
        const double *y = rows + i * n_comp;
        double area = src->area[i], arm[3] = {0, 0, 0}, p[3] = {0, 0, 0}, f[3] = {0, 0, 0};
        ff_exact_add(&sum[AREA], area);
        for (int k = 0; k < n_comp; k++) ff_exact_add(&sum[FIELDS + k], area * y[k]);
        if (cp < 0 || cf < 0) continue;
        for (int d = 0; d < dim; d++) {
            arm[d] = src->x[i * dim + d] + opts->shift[d] - opts->center[d];
            p[d] = -y[cp] * src->normal[i * dim + d] * area;
            f[d] = y[cf + d] * area;
        }
        add_force(&sum[PRESSURE], arm, p);
        add_force(&sum[FRICTION], arm, f);
    }
    FF_GO(ff_exact_allreduce(comm, sum, FIELDS + n_comp));
    out->area = ff_exact_value(&sum[AREA]);
    for (int k = 0; k < n_comp; k++)
        out->mean[k] = out->area > 0 ? ff_exact_value(&sum[FIELDS + k]) / out->area : 0;
    out->has_force = cp >= 0 && cf >= 0;
    for (int d = 0; d < 3 && out->has_force; d++) {
        out->force_p[d] = ff_exact_value(&sum[PRESSURE + d]) / opts->area;
        out->force_f[d] = ff_exact_value(&sum[FRICTION + d]) / opts->area;
        out->moment_p[d] = ff_exact_value(&sum[PRESSURE + 3 + d]) / (opts->area * opts->length);
        out->moment_f[d] = ff_exact_value(&sum[FRICTION + 3 + d]) / (opts->area * opts->length);
    }
done:
    ff_free(sum);
    if (st != FF_OK) ff_integrals_free(out);
    return st;
}

void ff_integrals_free(ff_integrals *i)
{
    FF_FREE(i->mean);
}
