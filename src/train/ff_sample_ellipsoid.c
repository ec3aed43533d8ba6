#include "ff_ellipsoid.h"
#include "ff_mem.h"
#include "ff_mesh_dist.h"
#include "ff_sample.h"

#include <string.h>

static ff_status check_model(const ff_model_config *m)
{
    bool fits = m->dim == 3 && m->n_bc == 1 && m->bc[0].fields.n == 0 && m->n_len == 1 && m->globals.n == 1 &&
                strcmp(m->globals.item[0].name, "U_dir") == 0 && m->globals.item[0].rank == 1;
    for (int i = 0; i < m->outputs.n; i++) {
        const ff_ranked_name *f = &m->outputs.item[i];
        fits &=
            (strcmp(f->name, "C_p") == 0 && f->rank == 0) || (strcmp(f->name, "U_t") == 0 && f->rank == 1);
    }
    if (fits) return FF_OK;
    return ff_fail(FF_E_ARG,
                   "ellipsoids: the model must be 3D with one boundary without fields, one length, global "
                   "vector U_dir and outputs among C_p (scalar) and U_t (vector)");
}

/* Free stream of draw `draw`, and the true values at the faces. */
static void set_flow(ff_sample *s, const ff_ellipsoid *e, uint64_t seed, uint64_t draw)
{
    const ff_name_list *out = &s->c->model->config->outputs;
    int n_comp = ff_names_comp(out, 3);
    ff_random_direction(seed, (uint64_t)7 << 56 ^ draw, s->c->global);
    for (int64_t i = 0; i < s->n; i++) {
        double cp, ut[3], *row = s->truth + i * n_comp;
        ff_ellipsoid_flow(e, s->c->global, s->c->source[0].x + 3 * i, &cp, ut);
        for (int f = 0; f < out->n; f++) {
            bool scalar = out->item[f].rank == 0;
            memcpy(row, scalar ? &cp : ut, (scalar ? 1 : 3) * sizeof *row);
            row += scalar ? 1 : 3;
        }
    }
}

static ff_status fill(ff_sample *s, const ff_mesh *m)
{
    static const double no_shift[3] = {0, 0, 0};
    const ff_model_config *config = s->c->model->config;
    FF_TRY(ff_case_add_mesh(s->c, config->bc[0].name, m, no_shift));
    s->c->target_source = 0;
    s->c->length[0] = 1;
    s->n = m->n_cells;
    FF_TRY(FF_NEW(s->truth, s->n * ff_names_comp(&config->outputs, 3) + 1));
    FF_TRY(FF_NEW(s->weight, s->n + 1));
    memcpy(s->weight, s->c->source[0].area, (size_t)s->n * sizeof *s->weight);
    return FF_OK;
}

ff_status ff_sample_ellipsoid(ff_comm *comm, const ff_model *m, uint64_t seed, uint64_t body, int splits,
                              uint64_t draw, bool keep_mesh, ff_sample **out)
{
    ff_status st = FF_OK;
    ff_mesh *mesh = NULL;
    *out = NULL;
    FF_TRY(check_model(m->config));
    ff_ellipsoid e = ff_ellipsoid_random(seed, body);
    st = FF_NEW0(*out, 1);
    if (st == FF_OK)
        st = (((*out)->name = ff_strdup("ellipsoid")) != NULL) ? ff_case_create(m, &(*out)->c) : FF_E_MEM;
    if (st == FF_OK) st = ff_ellipsoid_mesh(&e, seed, body, splits, &mesh);
    if (st == FF_OK) {
        ff_mesh_keep_share(mesh, comm->rank, comm->size);
        st = fill(*out, mesh);
        if (st == FF_OK) set_flow(*out, &e, seed, draw);
    }
    if (keep_mesh && st == FF_OK) {
        (*out)->mesh = mesh;
        (*out)->drawn = true; /* every rank has all points */
        mesh = NULL;
    }
    ff_mesh_destroy(&mesh);
    st = ff_agree(comm, st);
    if (st != FF_OK) ff_sample_destroy(out);
    return st;
}

void ff_sample_ellipsoid_turn(ff_sample *s, uint64_t seed, uint64_t body, uint64_t draw)
{
    ff_ellipsoid e = ff_ellipsoid_random(seed, body);
    set_flow(s, &e, seed, draw);
}
