/* farfield forces: forces and moments from fields that a surface file carries. */
#include "app_forces.h"

#include <string.h>

typedef struct forces {
    ff_app *app;
    ff_mesh *mesh; /* this rank's cells */
    double *x, *normal, *area;
    double *p, *tau; /* [n_cells], [n_cells][dim]; NULL: not there */
} forces;

/* Values of a field at the cells: cell data, else the mean of point data at a cell's corners. out [n_cells][n_comp],
 * NULL where the file has no such field. Local */
static ff_status at_cells(const ff_mesh *m, const char *name, int n_comp, double **out)
{
    const ff_field *cell = ff_field_set_find(&m->cell_data, name), *f = cell;
    *out = NULL;
    if (f == NULL) f = ff_field_set_find(&m->point_data, name);
    if (f == NULL) return FF_OK;
    if (f->n_comp < n_comp || (n_comp == 1 && f->n_comp != 1))
        return ff_fail(FF_E_INPUT, "field %s has %d components, expected %d", name, f->n_comp, n_comp);
    FF_TRY(FF_NEW0(*out, m->n_cells * n_comp + 1));
    for (int64_t c = 0; c < m->n_cells; c++) {
        int64_t n = 1, first = cell != NULL ? c : ff_mesh_cell(m, c, &n);
        for (int64_t k = 0; k < n; k++) {
            const double *v = f->value + f->n_comp * (cell != NULL ? c : m->cell_pts[first + k]);
            for (int d = 0; d < n_comp; d++) (*out)[c * n_comp + d] += v[d] / (double)n;
        }
    }
    return FF_OK;
}

static ff_status missing(const forces *f, const char *key)
{
    ff_text names = {0};
    const ff_field_set *sets[2] = {&f->mesh->cell_data, &f->mesh->point_data};
    for (int s = 0; s < 2; s++)
        for (int i = 0; i < sets[s]->n; i++)
            ff_text_add(&names, "%s%s", names.n > 0 ? ", " : "", sets[s]->field[i].name);
    ff_status st = ff_fail(FF_E_INPUT, "%s: no field %s, expected --%s with one of: %s",
                           ff_config_file(f->app->config, "mesh", 0), ff_config_string(f->app->config, key),
                           strchr(key, '.') + 1, names.n > 0 ? ff_text_get(&names) : "none there");
    ff_text_free(&names);
    return st;
}

/* Pressure less its reference, and shear stress, both times their factors. Local */
static ff_status take_loads(forces *f)
{
    const ff_config *c = f->app->config;
    const ff_mesh *m = f->mesh;
    double p_factor = ff_config_double(c, "forces.pressure_factor"),
           p0 = ff_config_double(c, "forces.pressure_reference");
    double tau_factor = ff_config_double(c, "forces.shear_factor");
    FF_TRY(at_cells(m, ff_config_string(c, "forces.pressure"), 1, &f->p));
    FF_TRY(at_cells(m, ff_config_string(c, "forces.shear"), m->dim, &f->tau));
    if (f->p == NULL && (f->tau == NULL || ff_config_given(c, "forces.pressure")))
        return missing(f, "forces.pressure");
    if (f->tau == NULL && ff_config_given(c, "forces.shear")) return missing(f, "forces.shear");
    for (int64_t i = 0; i < m->n_cells && f->p != NULL; i++) f->p[i] = p_factor * (f->p[i] - p0);
    for (int64_t i = 0; i < m->n_cells * m->dim && f->tau != NULL; i++) f->tau[i] *= tau_factor;
    return FF_OK;
}

static ff_status run(forces *f)
{
    ff_status st = FF_OK;
    ff_app *app = f->app;
    ff_read_opts opts = ff_app_read_opts(app);
    ff_force *force = NULL;
    app_forces o;
    int len = 0;
    FF_TRY(ff_mesh_read_dist(app->comm, ff_config_split_name(ff_config_file(app->config, "mesh", 0), &len),
                             &opts, &f->mesh));
    const ff_mesh *m = f->mesh;
    FF_TRY(app_forces_options(app, m->dim, 1, &o));
    st = take_loads(f);
    if (st == FF_OK) st = ff_faces_of_mesh(m, &f->x, &f->normal, &f->area);
    FF_TRY(ff_agree(app->comm, st));
    ff_faces faces = {m->dim, m->n_cells, f->x, f->normal, f->area, m->cell_patch, m->n_patches, {0, 0, 0}};
    ff_loads loads = {f->p, f->tau, 1, m->dim};
    FF_TRY(FF_NEW0_ALL(app->comm, force, 1 + m->n_patches));
    FF_GO(ff_forces_sum(app->comm, &faces, &loads, o.center, force));
    ff_info("area               %g, reference %g", force->area, o.area);
    if (f->p == NULL)
        ff_info("pressure           no field %s: left out", ff_config_string(app->config, "forces.pressure"));
    if (f->tau == NULL)
        ff_info("friction           no field %s: left out", ff_config_string(app->config, "forces.shear"));
    app_forces_print(&o, force, m->n_patches, m->patch_name);
    ff_json_double(&app->json, "area", force->area);
    app_forces_json(&o, force, m->n_patches, m->patch_name, &app->json);
    FF_GO(app_forces_csv(app, &o, force, m->n_patches, m->patch_name));
done:
    ff_free(force);
    return st;
}

ff_status cmd_forces(ff_app *app)
{
    forces f = {.app = app};
    if (ff_config_has(app->config, "integrals.csv"))
        FF_TRY(ff_app_may_write_text(app, ff_config_string(app->config, "integrals.csv")));
    ff_status st = run(&f);
    ff_mesh_destroy(&f.mesh);
    ff_free(f.x);
    ff_free(f.normal);
    ff_free(f.area);
    ff_free(f.p);
    ff_free(f.tau);
    return st;
}
