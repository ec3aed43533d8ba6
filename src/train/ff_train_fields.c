#include "ff_train_fields.h"

#include "ff_mem.h"
#include "ff_result.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NAME_LEN = 512, KINDS = 3 }; /* given, true, error */

typedef struct fields {
    int n;
    ff_result_field *field; /* [KINDS outputs] */
    char (*name)[NAME_LEN];
    float **value;
} fields;

static void fields_free(fields *f)
{
    for (int i = 0; i < f->n; i++) ff_free(f->value[i]);
    ff_free(f->field);
    ff_free(f->name);
    ff_free(f->value);
}

/* Columns [at, at + comp) of the rows, or of what is known, or their difference; 2D vectors become (x, y, 0). */
static ff_status add(fields *f, const char *name, int kind, const ff_sample *s, const double *rows,
                     int n_comp, int at, int comp)
{
    static const char *const end[KINDS] = {"", "_true", "_error"};
    int wide = comp == 2 ? 3 : comp;
    float *v = NULL;
    FF_TRY(FF_NEW0(v, s->n * wide + 1));
    for (int64_t i = 0; i < s->n; i++)
        for (int d = 0; d < comp; d++) {
            double given = rows[i * n_comp + at + d], truth = s->truth[i * n_comp + at + d];
            v[i * wide + d] = (float)(kind == 0 ? given : kind == 1 ? truth : given - truth);
        }
    (void)snprintf(f->name[f->n], NAME_LEN, "%.*s%s", NAME_LEN - 8, name, end[kind]);
    f->value[f->n] = v;
    f->field[f->n] = (ff_result_field){f->name[f->n], wide, FF_H5_F32, v};
    f->n++;
    return FF_OK;
}

static ff_status make_fields(const ff_sample *s, const double *rows, fields *f)
{
    const ff_model_config *m = s->c->model->config;
    int n = KINDS * m->outputs.n, n_comp = ff_names_comp(&m->outputs, m->dim), at = 0;
    FF_TRY(FF_NEW0(f->field, n + 1));
    FF_TRY(FF_NEW0(f->name, n + 1));
    FF_TRY(FF_NEW0(f->value, n + 1));
    for (int i = 0; i < m->outputs.n; i++) {
        int comp = m->outputs.item[i].rank == 0 ? 1 : m->dim;
        for (int kind = 0; kind < KINDS; kind++)
            FF_TRY(add(f, m->outputs.item[i].name, kind, s, rows, n_comp, at, comp));
        at += comp;
    }
    return FF_OK;
}

/* Every face with corners of its own: for parts of a mesh whose points no rank knows the numbers of. */
typedef struct loose {
    double *points; /* [dim n_cells][3] */
    int64_t *cells; /* [n_cells][dim] */
} loose;

static ff_status loosen(const ff_mesh *m, loose *l, ff_result *r)
{
    int64_t n = m->n_cells * m->dim;
    FF_TRY(FF_NEW(l->points, 3 * n + 1));
    FF_TRY(FF_NEW(l->cells, n + 1));
    for (int64_t i = 0; i < n; i++) {
        memcpy(l->points + 3 * i, m->points + 3 * m->cell_pts[i], 3 * sizeof *l->points);
        l->cells[i] = i;
    }
    *r = (ff_result){
        .dim = m->dim, .n_points = n, .points = l->points, .n_cells = m->n_cells, .cell_pts = l->cells};
    return FF_OK;
}

/* Free targets: their points, z = 0 in 2D. */
static ff_status place_points(const ff_sample *s, loose *l, ff_result *r)
{
    int dim = s->c->model->config->dim;
    FF_TRY(FF_NEW0(l->points, 3 * s->n + 1));
    for (int64_t i = 0; i < s->n; i++)
        memcpy(l->points + 3 * i, s->c->target_x + dim * i, (size_t)dim * sizeof *l->points);
    *r = (ff_result){.dim = 0, .n_points = s->n, .points = l->points};
    return FF_OK;
}

ff_status train_fields_write(ff_comm *comm, const ff_sample *s, const double *rows, const char *path)
{
    ff_result r = {0};
    fields f = {0};
    loose l = {NULL, NULL};
    ff_status st = make_fields(s, rows, &f);
    if (st == FF_OK) {
        if (s->mesh == NULL)
            st = place_points(s, &l, &r);
        else if (s->drawn)
            st = loosen(s->mesh, &l, &r);
        else
            r = ff_result_of_mesh(s->mesh);
    }
    FF_GO(ff_agree(comm, st));
    if (s->mesh != NULL) {
        r.n_cell_fields = f.n;
        r.cell_field = f.field;
    } else {
        r.n_point_fields = f.n;
        r.point_field = f.field;
    }
    st = ff_result_write(comm, &r, path, true);
done:
    fields_free(&f);
    ff_free(l.points);
    ff_free(l.cells);
    return st;
}
