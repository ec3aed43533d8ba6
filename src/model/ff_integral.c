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

static ff_status run_means(ff_comm *comm, const ff_source *src, const double *rows, ff_integrals *out)
{
    ff_status st = FF_OK;
    int n_comp = out->n_comp;
    ff_exact *sum = NULL;
    FF_TRY(FF_NEW0_ALL(comm, sum, n_comp + 1));
    for (int64_t i = 0; i < src->n; i++) {
        for (int k = 0; k < n_comp; k++) ff_exact_add(&sum[k], src->area[i] * rows[i * n_comp + k]);
        ff_exact_add(&sum[n_comp], src->area[i]);
    }
    FF_GO(ff_exact_allreduce(comm, sum, n_comp + 1));
    out->area = ff_exact_value(&sum[n_comp]);
    for (int k = 0; k < n_comp; k++) out->mean[k] = out->area > 0 ? ff_exact_value(&sum[k]) / out->area : 0;
done:
    ff_free(sum);
    return st;
}

ff_status ff_integrals_run(ff_comm *comm, const ff_case *c, int s, const double *rows,
                           const ff_integral_opts *opts, ff_integrals *out)
{
    ff_status st = FF_OK;
    const ff_model_config *m = c->model->config;
    const ff_source *src = &c->source[s];
    int n_comp = ff_names_comp(&m->outputs, m->dim);
    int cp = find_output(m, "C_p", 0), cf = find_output(m, "C_f", 1);
    ff_faces faces = {m->dim,    src->n,      src->x,          src->normal,
                      src->area, opts->patch, opts->n_patches, {0, 0, 0}};
    ff_loads loads = {cp >= 0 ? rows + cp : NULL, cf >= 0 ? rows + cf : NULL, n_comp, n_comp};
    *out = (ff_integrals){.n_comp = n_comp, .n_patches = opts->n_patches};
    FF_GO(FF_NEW0_ALL(comm, out->mean, n_comp));
    FF_GO(run_means(comm, src, rows, out));
    if (cp < 0) return FF_OK;
    memcpy(faces.shift, opts->shift, sizeof faces.shift);
    FF_GO(FF_NEW0_ALL(comm, out->force, 1 + out->n_patches));
    FF_GO(ff_forces_sum(comm, &faces, &loads, opts->center, out->force));
done:
    if (st != FF_OK) ff_integrals_free(out);
    return st;
}

void ff_integrals_free(ff_integrals *i)
{
    FF_FREE(i->mean);
    FF_FREE(i->force);
}
