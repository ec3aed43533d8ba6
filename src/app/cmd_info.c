/* farfield info: what a file holds. Rank 0 works; the others wait for its verdict. */
#include "ff_app.h"
#include "ff_extract.h"
#include "ff_h5.h"
#include "ff_io.h"
#include "ff_model.h"

#include <string.h>

/* ---- meshes ---- */

static void json_fields(ff_json *j, const char *key, const ff_field_set *s)
{
    ff_json_open(j, key, '[');
    for (int i = 0; i < s->n; i++) {
        ff_json_open(j, NULL, '{');
        ff_json_string(j, "name", s->field[i].name);
        ff_json_int(j, "components", s->field[i].n_comp);
        ff_json_close(j);
    }
    ff_json_close(j);
}

/* patch_cells [n_patches] */
static void json_mesh(ff_json *j, const ff_mesh *m, const ff_mesh_stats *s, const int64_t *patch_cells)
{
    ff_json_string(j, "kind", "mesh");
    ff_json_int(j, "dimensions", m->dim);
    ff_json_int(j, "points", s->points);
    ff_json_int(j, "cells", s->cells);
    ff_json_int(j, "triangles", s->triangles);
    ff_json_double(j, "area", s->area);
    ff_json_open(j, "box", '{');
    ff_json_doubles(j, "min", s->lo, 3);
    ff_json_doubles(j, "max", s->hi, 3);
    ff_json_close(j);
    ff_json_int(j, "zero_area_cells", s->zero_area_cells);
    ff_json_int(j, "duplicate_points", s->duplicate_points);
    ff_json_int(j, "unused_points", s->unused_points);
    ff_json_int(j, "open_edges", s->open_edges);
    ff_json_int(j, "nonmanifold_edges", s->nonmanifold_edges);
    ff_json_int(j, "repeated_cells", s->repeated_cells);
    ff_json_doubles(j, "vector_area", s->vector_area, 3);
    ff_json_open(j, "patches", '[');
    for (int p = 0; p < m->n_patches; p++) {
        ff_json_open(j, NULL, '{');
        ff_json_string(j, "name", m->patch_name[p]);
        ff_json_int(j, "cells", patch_cells[p]);
        ff_json_close(j);
    }
    ff_json_close(j);
    json_fields(j, "cell_data", &m->cell_data);
    json_fields(j, "point_data", &m->point_data);
}

static void print_fields(const char *what, const ff_field_set *s)
{
    for (int i = 0; i < s->n; i++)
        ff_print("  %-18s %s, %d component%s\n", i == 0 ? what : "", s->field[i].name, s->field[i].n_comp,
                 s->field[i].n_comp == 1 ? "" : "s");
}

static void print_mesh(const char *path, const ff_mesh *m, const ff_mesh_stats *s, const int64_t *patch_cells)
{
    ff_print("%s: %s\n", path, m->dim == 3 ? "surface" : "curve");
    ff_print("  points             %lld (%lld duplicate, %lld unused)\n", (long long)s->points,
             (long long)s->duplicate_points, (long long)s->unused_points);
    ff_print("  cells              %lld (%lld of zero area)\n", (long long)s->cells,
             (long long)s->zero_area_cells);
    ff_print("  triangles          %lld\n", (long long)s->triangles);
    ff_print("  %-18s %.12g\n", m->dim == 3 ? "area" : "length", s->area);
    ff_print("  box                [%.9g %.9g %.9g] to [%.9g %.9g %.9g]\n", s->lo[0], s->lo[1], s->lo[2],
             s->hi[0], s->hi[1], s->hi[2]);
    for (int p = 0; p < m->n_patches; p++)
        ff_print("  %-18s %s, %lld cells\n", p == 0 ? "patches" : "", m->patch_name[p],
                 (long long)patch_cells[p]);
    print_fields("cell data", &m->cell_data);
    print_fields("point data", &m->point_data);
}

static ff_status info_mesh(ff_app *app, const char *path, bool json)
{
    ff_status st = FF_OK;
    ff_mesh *m = NULL;
    ff_mesh_stats s;
    int64_t *patch_cells = NULL;
    ff_read_opts opts = ff_app_read_opts(app);
    FF_TRY(ff_mesh_read(path, &opts, &m));
    FF_GO(ff_mesh_measure(m, &s));
    FF_GO(FF_NEW(patch_cells, m->n_patches));
    ff_mesh_patch_cells(m, patch_cells);
    json_mesh(&app->json, m, &s, patch_cells);
    if (!json) print_mesh(path, m, &s, patch_cells);
done:
    ff_free(patch_cells);
    ff_mesh_destroy(&m);
    return st;
}

/* ---- models ---- */

static void json_names(ff_json *j, const char *key, const ff_name_list *l)
{
    ff_json_open(j, key, '{');
    for (int i = 0; i < l->n; i++)
        ff_json_string(j, l->item[i].name, l->item[i].rank == 0 ? "scalar" : "vector");
    ff_json_close(j);
}

/* What a model file says of itself: where its weights come from (NULL: nothing) and, in a checkpoint, the steps of
 * the training that are done (else -1). */
typedef struct made_from {
    char *source;
    int64_t step;
} made_from;

static ff_status read_made_from(const ff_h5 *f, made_from *out)
{
    int64_t integers[16] = {0},
            n = ff_h5_exists(f, "/training") ? ff_h5_attr_count(f, "/training", "integers") : 0;
    out->step = -1;
    if (ff_h5_attr_exists(f, "/", "source")) FF_TRY(ff_h5_attr_read_text(f, "/", "source", &out->source));
    if (n < 1 || n > 16) return FF_OK;
    FF_TRY(ff_h5_attr_read(f, "/training", "integers", FF_H5_I64, n, integers));
    out->step = integers[0];
    return FF_OK;
}

static void json_model(ff_json *j, const ff_model *m, const made_from *from, int64_t n_weights)
{
    const ff_model_config *c = m->config;
    ff_json_string(j, "kind", from->step < 0 ? "model" : "checkpoint");
    if (from->step >= 0) ff_json_int(j, "steps_done", from->step);
    if (from->source != NULL) ff_json_string(j, "source", from->source);
    ff_json_int(j, "dimensions", c->dim);
    json_names(j, "outputs", &c->outputs);
    ff_json_open(j, "boundaries", '{');
    for (int b = 0; b < c->n_bc; b++) json_names(j, c->bc[b].name, &c->bc[b].fields);
    ff_json_close(j);
    ff_json_open(j, "lengths", '[');
    for (int i = 0; i < c->n_len; i++) ff_json_string(j, NULL, c->len[i]);
    ff_json_close(j);
    json_names(j, "globals", &c->globals);
    ff_json_double(j, "reference_area", c->reference_area);
    ff_json_double(j, "theta", c->theta);
    ff_json_int(j, "leaf_size", c->leaf_size);
    ff_json_bool(j, "expand_far", c->expand_far);
    ff_json_int(j, "communication_layers", c->n_comm);
    ff_json_int(j, "parameters", n_weights);
}

static void print_names(const char *what, const ff_name_list *l)
{
    for (int i = 0; i < l->n; i++)
        ff_print("  %-18s %s, %s\n", i == 0 ? what : "", l->item[i].name,
                 l->item[i].rank == 0 ? "scalar" : "vector");
}

static void print_model(const char *path, const ff_model *m, const made_from *from, int64_t n_weights)
{
    const ff_model_config *c = m->config;
    ff_print("%s: %s, %d dimensions, %lld parameters\n", path,
             from->step < 0 ? "model" : "checkpoint of a training", c->dim, (long long)n_weights);
    if (from->step >= 0) ff_print("  steps done         %lld\n", (long long)from->step);
    if (from->source != NULL) ff_print("  source             %s\n", from->source);
    print_names("outputs", &c->outputs);
    for (int b = 0; b < c->n_bc; b++) {
        ff_print("  %-18s %s\n", b == 0 ? "boundaries" : "", c->bc[b].name);
        print_names("    fields", &c->bc[b].fields);
    }
    for (int i = 0; i < c->n_len; i++) ff_print("  %-18s %s\n", i == 0 ? "lengths" : "", c->len[i]);
    print_names("global data", &c->globals);
    ff_print("  reference area     %g\n", c->reference_area);
    ff_print("  plan               theta %g, leaf_size %d, far targets %s\n", c->theta, c->leaf_size,
             c->expand_far ? "expanded" : "not expanded");
    ff_print("  layers             %d communication, then the final one; hidden", c->n_comm);
    for (int i = 0; i < c->n_hidden; i++) ff_print(" %d", c->hidden[i]);
    ff_print("; %d and %d latents\n", c->n_latent_scalar, c->n_latent_vector);
}

static ff_status info_model(ff_app *app, const char *path, const made_from *from, bool json)
{
    ff_model *m = NULL;
    int64_t n = 0;
    FF_TRY(ff_model_read(ff_comm_self(), path, &m));
    for (int i = 0; i < m->n_tensors; i++) n += m->tensor[i].n;
    json_model(&app->json, m, from, n);
    if (!json) print_model(path, m, from, n);
    ff_model_destroy(&m);
    return FF_OK;
}

/* ---- results and other HDF5 files ---- */

/* What made the file: the texts of group /farfield (resolved deck, integrals, ...). */
static ff_status info_origin(ff_app *app, const ff_h5 *f, bool json)
{
    ff_status st = FF_OK;
    ff_json *j = &app->json;
    char **name = NULL, *text = NULL, path[300];
    int n = 0;
    FF_GO(ff_h5_attr_read_text(f, "/farfield", "version", &text));
    ff_json_open(j, "made_by", '{');
    ff_json_string(j, "version", text);
    if (!json) ff_print("%s: written by farfield %s\n", ff_h5_path(f), text);
    FF_GO(ff_h5_list(f, "/farfield", &name, &n));
    for (int i = 0; i < n; i++) {
        if (strcmp(name[i], "version") == 0) continue;
        FF_FREE(text);
        (void)snprintf(path, sizeof path, "/farfield/%s", name[i]);
        FF_GO(ff_h5_read_text(f, path, &text));
        ff_json_string(j, name[i], text);
        if (!json)
            ff_print("%s:\n%s%s", name[i], text, text[0] != 0 && text[strlen(text) - 1] != '\n' ? "\n" : "");
    }
    ff_json_close(j);
done:
    ff_free(text);
    ff_h5_names_free(&name, n);
    return st;
}

/* The datasets of one group of a plain result. */
static ff_status info_group(ff_app *app, const ff_h5 *f, const char *group, bool json)
{
    ff_status st = FF_OK;
    char **name = NULL, path[300];
    int n = 0;
    ff_json_open(&app->json, group + 1, '[');
    if (ff_h5_exists(f, group)) FF_GO(ff_h5_list(f, group, &name, &n));
    for (int i = 0; i < n; i++) {
        ff_h5_shape s;
        (void)snprintf(path, sizeof path, "%s/%s", group, name[i]);
        FF_GO(ff_h5_shape_of(f, path, &s));
        ff_json_open(&app->json, NULL, '{');
        ff_json_string(&app->json, "name", name[i]);
        ff_json_int(&app->json, "rows", s.dim[0]);
        ff_json_int(&app->json, "components", s.row_len);
        ff_json_close(&app->json);
        if (!json)
            ff_print("  %-14s %s, %lld x %lld\n", i == 0 ? group + 1 : "", name[i], (long long)s.dim[0],
                     (long long)s.row_len);
    }
    ff_json_close(&app->json);
done:
    ff_h5_names_free(&name, n);
    return st;
}

/* Plain HDF5 results (.h5): they are no mesh to read, so their arrays are listed. */
static ff_status info_plain(ff_app *app, const ff_h5 *f, bool json)
{
    ff_h5_shape points, offsets;
    FF_TRY(ff_h5_shape_of(f, "/points", &points));
    FF_TRY(ff_h5_shape_of(f, "/cells/offsets", &offsets));
    ff_json_string(&app->json, "kind", "result");
    ff_json_int(&app->json, "points", points.dim[0]);
    ff_json_int(&app->json, "cells", offsets.dim[0] - 1);
    if (!json)
        ff_print("  points         %lld\n  cells          %lld\n", (long long)points.dim[0],
                 (long long)offsets.dim[0] - 1);
    FF_TRY(info_group(app, f, "/cell_data", json));
    return info_group(app, f, "/point_data", json);
}

/* ---- which ---- */

static bool is_hdf5(const char *path)
{
    static const char magic[8] = {'\x89', 'H', 'D', 'F', '\r', '\n', '\x1a', '\n'};
    char head[8] = "";
    FILE *f = ff_io_is_stream(path) ? NULL : fopen(path, "rb");
    if (f == NULL) return false; /* the mesh reader says what is wrong */
    size_t got = fread(head, 1, sizeof head, f);
    (void)fclose(f);
    return got == sizeof head && memcmp(head, magic, sizeof head) == 0;
}

static ff_status info_hdf5(ff_app *app, const char *path, bool json, bool *is_mesh)
{
    ff_status st = FF_OK;
    ff_h5 *f = NULL;
    char *format = NULL;
    made_from from = {.source = NULL};
    *is_mesh = false;
    FF_TRY(ff_h5_open(ff_comm_self(), path, &f));
    if (ff_h5_attr_exists(f, "/", "format")) FF_GO(ff_h5_attr_read_text(f, "/", "format", &format));
    if (format != NULL && strcmp(format, "farfield-model") == 0) {
        FF_GO(read_made_from(f, &from));
        FF_GO(ff_h5_close(&f));
        st = info_model(app, path, &from, json);
        goto done;
    }
    if (ff_h5_exists(f, "/farfield")) FF_GO(info_origin(app, f, json));
    *is_mesh = format == NULL || strncmp(format, "farfield surface", 16) != 0;
    if (!*is_mesh) FF_GO(info_plain(app, f, json));
done:
    ff_free(format);
    ff_free(from.source);
    ff_status closed = ff_h5_close(&f);
    return st != FF_OK ? st : closed;
}

static ff_status info_file(ff_app *app, const char *path)
{
    bool json = ff_config_bool(app->config, "info.json"), is_mesh = true;
    ff_json_string(&app->json, "file", path);
    if (is_hdf5(path)) FF_TRY(info_hdf5(app, path, json, &is_mesh));
    return is_mesh ? info_mesh(app, path, json) : FF_OK;
}

ff_status cmd_info(ff_app *app)
{
    ff_status st = FF_OK;
    int n = ff_config_count(app->config, "file");
    if (n > 1 && ff_config_bool(app->config, "info.json"))
        return ff_fail(FF_E_ARG, "command line: %d files, expected one with --json", n);
    for (int i = 0; i < n && st == FF_OK; i++) {
        if (ff_comm_rank(app->comm) == 0) st = info_file(app, ff_config_file(app->config, "file", i));
        st = ff_agree(app->comm, st);
    }
    return st;
}
