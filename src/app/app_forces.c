#include "app_forces.h"

#include "ff_io.h"

#include <math.h>
#include <string.h>

/* ---- options ---- */

static ff_status direction(const ff_config *c, const char *key, double out[3])
{
    double len = 0;
    if (ff_config_has(c, key))
        for (int d = 0; d < 3; d++) out[d] = ff_config_item(c, key, d);
    for (int d = 0; d < 3; d++) len = hypot(len, out[d]);
    if (!(len > 0)) return ff_config_bad(c, key, "a direction, not the zero vector");
    for (int d = 0; d < 3; d++) out[d] /= len;
    return FF_OK;
}

ff_status app_forces_options(const ff_app *app, int dim, double area, app_forces *out)
{
    const ff_config *c = app->config;
    *out = (app_forces){.area = area, .length = ff_config_double(c, "integrals.length")};
    if (ff_config_given(c, "integrals.area")) out->area = ff_config_double(c, "integrals.area");
    for (int d = 0; d < 3; d++) out->center[d] = ff_config_item(c, "integrals.center", d);
    out->lift[dim - 1] = 1;
    FF_TRY(direction(c, "integrals.drag", out->drag));
    return direction(c, "integrals.lift", out->lift);
}

/* ---- figures ---- */

static double along(const double *v, const double *unit, double per)
{
    return (v[0] * unit[0] + v[1] * unit[1] + v[2] * unit[2]) / per;
}

/* Drag and lift coefficients: in all, pressure, friction. */
static void coefficients(const double *unit, const app_forces *o, const ff_force *f, double out[3])
{
    out[1] = along(f->pressure, unit, o->area);
    out[2] = along(f->friction, unit, o->area);
    out[0] = out[1] + out[2];
}

/* Both parts of a vector over a reference. */
static void scaled(const double *pressure, const double *friction, double per, double p[3], double f[3])
{
    for (int d = 0; d < 3; d++) {
        p[d] = pressure[d] / per;
        f[d] = friction[d] / per;
    }
}

/* ---- text ---- */

static void print_vector(const char *name, const double p[3], const double f[3])
{
    ff_info("%-18s (%g, %g, %g) = pressure (%g, %g, %g) + friction (%g, %g, %g)", name, p[0] + f[0],
            p[1] + f[1], p[2] + f[2], p[0], p[1], p[2], f[0], f[1], f[2]);
}

static void print_part(const char *name, const double c[3])
{
    ff_info("%-18s %g = pressure %g + friction %g", name, c[0], c[1], c[2]);
}

void app_forces_print(const app_forces *o, const ff_force *force, int n_patches, char *const *name)
{
    double p[3], f[3], drag[3], lift[3];
    scaled(force->pressure, force->friction, o->area, p, f);
    print_vector("force coefficient", p, f);
    scaled(force->moment_pressure, force->moment_friction, o->area * o->length, p, f);
    print_vector("moment coefficient", p, f);
    coefficients(o->drag, o, force, drag);
    coefficients(o->lift, o, force, lift);
    print_part("drag coefficient", drag);
    print_part("lift coefficient", lift);
    ff_info("%-18s area %g m2, length %g m, moments about (%g, %g, %g)", "reference", o->area, o->length,
            o->center[0], o->center[1], o->center[2]);
    if (n_patches < 2) return;
    ff_info("  %-32s %12s %12s %12s", "patch", "area", "drag", "lift");
    for (int k = 0; k < n_patches; k++) {
        coefficients(o->drag, o, &force[1 + k], drag);
        coefficients(o->lift, o, &force[1 + k], lift);
        ff_info("  %-32s %12.6g %12.4e %12.4e", name[k], force[1 + k].area, drag[0], lift[0]);
    }
}

/* ---- JSON ---- */

static void json_vector(ff_json *j, const char *key, const double p[3], const double f[3])
{
    ff_json_open(j, key, '{');
    ff_json_doubles(j, "pressure", p, 3);
    ff_json_doubles(j, "friction", f, 3);
    ff_json_close(j);
}

static void json_part(ff_json *j, const char *key, const double c[3])
{
    ff_json_open(j, key, '{');
    ff_json_double(j, "total", c[0]);
    ff_json_double(j, "pressure", c[1]);
    ff_json_double(j, "friction", c[2]);
    ff_json_close(j);
}

static void json_force(const app_forces *o, const ff_force *force, ff_json *j)
{
    double p[3], f[3], c[3];
    scaled(force->pressure, force->friction, o->area, p, f);
    json_vector(j, "force coefficient", p, f);
    scaled(force->moment_pressure, force->moment_friction, o->area * o->length, p, f);
    json_vector(j, "moment coefficient", p, f);
    coefficients(o->drag, o, force, c);
    json_part(j, "drag coefficient", c);
    coefficients(o->lift, o, force, c);
    json_part(j, "lift coefficient", c);
}

void app_forces_json(const app_forces *o, const ff_force *force, int n_patches, char *const *name, ff_json *j)
{
    json_force(o, force, j);
    ff_json_double(j, "reference_area", o->area);
    ff_json_double(j, "reference_length", o->length);
    ff_json_open(j, "patches", '[');
    for (int k = 0; k < n_patches; k++) {
        ff_json_open(j, NULL, '{');
        ff_json_string(j, "name", name[k]);
        ff_json_double(j, "area", force[1 + k].area);
        json_force(o, &force[1 + k], j);
        ff_json_close(j);
    }
    ff_json_close(j);
}

/* ---- CSV ---- */

/* A name as a CSV cell: always quoted, quotes doubled. */
static ff_status write_name(FILE *file, const char *path, const char *name)
{
    FF_TRY(ff_file_printf(file, path, "\""));
    for (; *name != 0; name++) FF_TRY(ff_file_printf(file, path, *name == '"' ? "\"\"" : "%c", *name));
    return ff_file_printf(file, path, "\"");
}

static ff_status write_row(FILE *file, const char *path, const app_forces *o, const ff_force *force,
                           const char *name)
{
    double drag[3], lift[3], m[4][3];
    coefficients(o->drag, o, force, drag);
    coefficients(o->lift, o, force, lift);
    scaled(force->pressure, force->friction, o->area, m[0], m[1]);
    scaled(force->moment_pressure, force->moment_friction, o->area * o->length, m[2], m[3]);
    FF_TRY(write_name(file, path, name));
    FF_TRY(ff_file_printf(file, path, ",%.17g", force->area));
    for (int k = 0; k < 3; k++) FF_TRY(ff_file_printf(file, path, ",%.17g", drag[k]));
    for (int k = 0; k < 3; k++) FF_TRY(ff_file_printf(file, path, ",%.17g", lift[k]));
    for (int k = 0; k < 12; k++) FF_TRY(ff_file_printf(file, path, ",%.17g", m[k / 3][k % 3]));
    return ff_file_printf(file, path, "\n");
}

static ff_status write_rows(FILE *file, const char *path, const app_forces *o, const ff_force *force,
                            int n_patches, char *const *name)
{
    FF_TRY(ff_file_printf(file, path,
                          "patch,area,drag,drag_pressure,drag_friction,lift,lift_pressure,lift_friction,"
                          "force_pressure_x,force_pressure_y,force_pressure_z,force_friction_x,"
                          "force_friction_y,force_friction_z,moment_pressure_x,moment_pressure_y,"
                          "moment_pressure_z,moment_friction_x,moment_friction_y,moment_friction_z\n"));
    FF_TRY(write_row(file, path, o, force, "(all)"));
    for (int k = 0; k < n_patches; k++) FF_TRY(write_row(file, path, o, &force[1 + k], name[k]));
    return FF_OK;
}

/* The whole table or none. */
static ff_status write_table(const char *path, const app_forces *o, const ff_force *force, int n_patches,
                             char *const *name)
{
    FILE *file = NULL;
    char *tmp = NULL;
    FF_TRY(ff_io_tmp_name(path, &tmp));
    ff_status st = ff_io_open(tmp, &file);
    if (st == FF_OK) st = write_rows(file, tmp, o, force, n_patches, name);
    ff_status closed = ff_io_close(&file, tmp);
    if (st == FF_OK) st = closed;
    if (st == FF_OK)
        st = ff_io_publish(tmp, path);
    else
        ff_io_discard(tmp);
    ff_free(tmp);
    return st;
}

ff_status app_forces_csv(const ff_app *app, const app_forces *o, const ff_force *force, int n_patches,
                         char *const *name)
{
    ff_status st = FF_OK;
    const char *path = ff_config_string(app->config, "integrals.csv");
    if (path == NULL) return FF_OK;
    if (strcmp(path, "-") == 0) path = "/dev/stdout";
    if (ff_comm_rank(app->comm) == 0) st = write_table(path, o, force, n_patches, name);
    FF_TRY(ff_agree(app->comm, st));
    ff_info("wrote %s", path);
    return FF_OK;
}
