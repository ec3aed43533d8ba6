/* Random evaluation cases for tests: boundaries of scattered small faces, random weights, every option drawn
 * from the seed. The whole case is a function of the seed; rank r of size keeps its share at home. */
#ifndef FF_RANDOM_CASE_H
#define FF_RANDOM_CASE_H

#include "ff_case.h"
#include "ff_mem.h"
#include "ff_rng.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct ff_random_case {
    ff_model *model;
    ff_case *c;
    int64_t n_targets; /* of all ranks */
} ff_random_case;

typedef struct ff_random_shape {
    const char *json;
    int64_t n_faces[3]; /* of the model's boundaries; -1: absent */
    int64_t n_targets;  /* prediction points, or -1: centroids of boundary 0 */
} ff_random_shape;

static inline double ff_rc_draw(uint64_t seed, uint64_t stream, int64_t i)
{
    return 2 * ff_rng_uniform(seed, stream, (uint64_t)i) - 1;
}

/* One boundary: faces about random points of a stretched sphere; some coincide, one has no area. */
static inline ff_status ff_rc_boundary(ff_case *c, int bc, int64_t n, uint64_t seed, int rank, int size)
{
    static const double no_shift[3] = {0, 0, 0};
    const ff_model_config *m = c->model->config;
    int dim = m->dim;
    ff_mesh *mesh = NULL;
    ff_status st = ff_mesh_create(&mesh);
    if (st != FF_OK) return st;
    int64_t from = n * rank / size, n_mine = n * (rank + 1) / size - from;
    mesh->dim = dim;
    mesh->n_points = n_mine * dim;
    mesh->n_cells = n_mine;
    st = FF_NEW0(mesh->points, 3 * mesh->n_points + 1);
    if (st == FF_OK) st = FF_NEW(mesh->cell_pts, n_mine * dim + 1);
    for (int64_t i = 0; i < n_mine && st == FF_OK; i++) {
        int64_t g = from + i,
                like = g % 11 == 10 ? g - 1 : g; /* every eleventh face repeats the one before */
        double x[3], r = 0;
        for (int d = 0; d < dim; d++) x[d] = ff_rc_draw(seed, (uint64_t)(10 * bc + d), like);
        for (int d = 0; d < dim; d++) r += x[d] * x[d];
        for (int k = 0; k < dim; k++)
            for (int d = 0; d < dim; d++) {
                double off =
                    like == 7 ? 0 : 0.05 * ff_rc_draw(seed, (uint64_t)(100 + 10 * bc + 3 * k + d), like);
                mesh->points[3 * (i * dim + k) + d] =
                    (double)(float)(x[d] / sqrt(r) * (1 + d) + off + 0.7 * bc);
            }
        for (int k = 0; k < dim; k++) mesh->cell_pts[i * dim + k] = i * dim + k;
    }
    for (int f = 0; f < m->bc[bc].fields.n && st == FF_OK; f++) {
        int comp = m->bc[bc].fields.item[f].rank == 0 ? 1 : dim;
        double *v = NULL;
        st = FF_NEW(v, n_mine * comp + 1);
        for (int64_t k = 0; k < n_mine * comp && st == FF_OK; k++)
            v[k] = (double)(float)ff_rc_draw(seed, (uint64_t)(200 + 10 * bc + f), from * comp + k);
        if (st == FF_OK)
            st = ff_field_set_add(&mesh->cell_data, m->bc[bc].fields.item[f].name, comp, n_mine, &v);
    }
    if (st == FF_OK) st = ff_case_add_mesh(c, m->bc[bc].name, mesh, no_shift);
    ff_mesh_destroy(&mesh);
    return st;
}

static inline ff_status ff_rc_targets(ff_case *c, int64_t n, uint64_t seed, int rank, int size)
{
    static const double no_shift[3] = {0, 0, 0};
    int64_t from = n * rank / size, n_mine = n * (rank + 1) / size - from;
    double *x = NULL;
    FF_TRY(FF_NEW(x, 3 * n_mine + 1));
    for (int64_t k = 0; k < 3 * n_mine; k++) x[k] = 2 * ff_rc_draw(seed, 999, 3 * from + k);
    ff_status st = ff_case_set_targets(c, x, n_mine, no_shift);
    ff_free(x);
    return st;
}

static inline void ff_random_case_free(ff_random_case *r)
{
    ff_case_destroy(&r->c);
    ff_model_destroy(&r->model);
}

static inline ff_status ff_random_case_make(const ff_random_shape *s, uint64_t seed, int rank, int size,
                                            ff_random_case *out)
{
    memset(out, 0, sizeof *out);
    ff_status st = ff_model_random(s->json, seed, &out->model);
    if (st == FF_OK) st = ff_case_create(out->model, &out->c);
    if (st != FF_OK) return st;
    const ff_model_config *m = out->model->config;
    for (int i = 0; i < m->n_len; i++) out->c->length[i] = 0.3 + 0.5 * i;
    for (int i = 0; i < ff_names_comp(&m->globals, m->dim); i++) out->c->global[i] = ff_rc_draw(seed, 998, i);
    for (int bc = 0; bc < m->n_bc && st == FF_OK; bc++)
        if (s->n_faces[bc] >= 0) st = ff_rc_boundary(out->c, bc, s->n_faces[bc], seed, rank, size);
    out->n_targets = s->n_targets;
    if (s->n_targets < 0) {
        out->c->target_source = 0;
        out->n_targets = s->n_faces[0];
    } else if (st == FF_OK) {
        st = ff_rc_targets(out->c, s->n_targets, seed, rank, size);
    }
    return st;
}

#endif
