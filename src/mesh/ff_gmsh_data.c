/* $NodeData and $ElementData: fields at points and cells. */
#include "ff_gmsh_impl.h"
#include "ff_idmap.h"
#include "ff_log.h"
#include "ff_mem.h"

#include <math.h>
#include <string.h>

/* ---- reading ---- */

/* A line with one number, text in binary files, too. */
static ff_status head_number(ff_gmsh_in *in, const char *what, bool whole, int64_t *out)
{
    char *line;
    size_t len;
    double ignored;
    FF_TRY(ff_gmsh_line(in, &line, &len));
    if (line == NULL) return ff_gmsh_fail(in, "the file ends, expected %s: cut?", what);
    char *w = ff_word(&line, &len);
    if (whole ? ff_word_i64(w, len, out) : ff_word_double(w, len, &ignored)) return FF_OK;
    return ff_gmsh_fail(in, "%s: \"%s\", expected a %snumber", what, ff_show(w, len).s,
                        whole ? "whole " : "");
}

/* The texts of the head, the first of which is the field's name. */
static ff_status head_name(ff_gmsh_in *in, ff_gmsh_data *d)
{
    int64_t n = 0;
    char *line;
    size_t len;
    FF_TRY(head_number(in, "the number of texts", true, &n));
    for (int64_t i = 0; i < n; i++) {
        FF_TRY(ff_gmsh_line(in, &line, &len));
        if (line == NULL) return ff_gmsh_fail(in, "the file ends, expected a text: cut?");
        if (i > 0) continue;
        char *open = strchr(line, '"'), *close = strrchr(line, '"');
        if (open == NULL || close == open)
            return ff_gmsh_fail(in, "\"%s\", expected the name of a field between quotation marks",
                                ff_show(line, len).s);
        *close = 0;
        for (char *p = open; *p != 0; p++)
            if ((unsigned char)*p < ' ') *p = ' ';
        if ((d->name = ff_strdup(open + 1)) == NULL) return FF_E_MEM;
    }
    if (d->name != NULL && d->name[0] != 0) return FF_OK;
    return ff_gmsh_fail(in, "data without a name");
}

/* Real numbers (the time) are not used; whole ones are step, components, rows and perhaps a partition. */
static ff_status read_head(ff_gmsh_in *in, ff_gmsh_data *d)
{
    int64_t n = 0, v = 0;
    FF_TRY(head_name(in, d));
    FF_TRY(head_number(in, "the number of real tags", true, &n));
    for (int64_t i = 0; i < n; i++) FF_TRY(head_number(in, "a real tag", false, &v));
    FF_TRY(head_number(in, "the number of whole tags", true, &n));
    if (n < 3) return ff_gmsh_fail(in, "%lld whole tags, expected 3 or more", (long long)n);
    for (int64_t i = 0; i < n; i++) {
        FF_TRY(head_number(in, "a whole tag", true, &v));
        if (i == 1) d->n_comp = v;
        if (i == 2) in->n_rows = v;
    }
    if (d->n_comp >= 1 && d->n_comp <= 10000 && in->n_rows >= 0) return FF_OK;
    return ff_gmsh_fail(in, "%lld components and %lld rows, expected 1 to 10000 and 0 or more",
                        (long long)d->n_comp, (long long)in->n_rows);
}

static ff_status read_rows(ff_gmsh_in *in, ff_gmsh_data *d)
{
    int64_t cap_tags = 0, cap_values = 0;
    while (in->row < in->n_rows) {
        in->row++;
        FF_TRY(ff_mem_reserve(&d->tag, &cap_tags, d->n + 1, sizeof *d->tag));
        FF_TRY(ff_mem_reserve(&d->value, &cap_values, (d->n + 1) * d->n_comp, sizeof *d->value));
        FF_TRY(in->binary ? ff_gmsh_int(in, "a number", &d->tag[d->n])
                          : ff_gmsh_id(in, "a number", &d->tag[d->n]));
        if (d->tag[d->n] < 0)
            return ff_gmsh_fail(in, "number %lld, expected 0 or more", (long long)d->tag[d->n]);
        for (int64_t k = 0; k < d->n_comp; k++)
            FF_TRY(ff_gmsh_double(in, "a value", &d->value[d->n * d->n_comp + k]));
        d->n++;
    }
    return FF_OK;
}

static void drop(ff_gmsh_data *d)
{
    ff_free(d->name);
    ff_free(d->tag);
    ff_free(d->value);
    *d = (ff_gmsh_data){0};
}

void ff_gmsh_drop_data(ff_gmsh *g)
{
    for (int64_t i = 0; i < g->n_data; i++) drop(&g->data[i]);
    FF_FREE(g->data);
    g->n_data = 0;
}

/* Sections of the same name and kind are its time steps: the first one is kept until the one asked for comes. */
static ff_status keep(ff_gmsh *g, ff_gmsh_data *d)
{
    for (int64_t i = 0; i < g->n_data; i++) {
        ff_gmsh_data *have = &g->data[i];
        if (have->at_points != d->at_points || strcmp(have->name, d->name) != 0) continue;
        int64_t steps = ++have->steps;
        if (steps - 1 != g->step) {
            drop(d);
            return FF_OK;
        }
        d->steps = steps;
        drop(have);
        *have = *d;
        *d = (ff_gmsh_data){0};
        return FF_OK;
    }
    FF_TRY(ff_mem_reserve(&g->data, &g->cap_data, g->n_data + 1, sizeof *g->data));
    d->steps = 1;
    g->data[g->n_data++] = *d;
    *d = (ff_gmsh_data){0};
    return FF_OK;
}

ff_status ff_gmsh_read_data(ff_gmsh *g, bool at_points)
{
    ff_gmsh_data d = {.at_points = at_points};
    ff_status st;
    FF_GO(read_head(&g->in, &d));
    FF_GO(read_rows(&g->in, &d));
    FF_GO(ff_gmsh_end(&g->in));
    FF_GO(keep(g, &d));
done:
    drop(&d);
    return st;
}

/* ---- to fields ---- */

/* One row for each of n tags, in their order; those without one are NaN. */
static ff_status add_field(ff_gmsh *g, ff_mesh *m, const ff_gmsh_data *d, const int64_t *tag, int64_t n)
{
    ff_idmap rows = {0};
    double *value = NULL;
    int64_t missing = 0;
    ff_status st;
    ff_field_set *set = d->at_points ? &m->point_data : &m->cell_data;
    FF_GO(ff_idmap_build(&rows, d->tag, d->n));
    FF_GO(FF_NEW(value, n * d->n_comp));
    for (int64_t i = 0; i < n; i++) {
        int64_t at = ff_idmap_find(&rows, tag[i]);
        missing += at < 0;
        for (int64_t k = 0; k < d->n_comp; k++)
            value[i * d->n_comp + k] = at < 0 ? (double)NAN : d->value[at * d->n_comp + k];
    }
    if (missing == n && n > 0) goto done; /* of other elements: volumes */
    if (missing > 0)
        ff_warn("%s: field \"%s\" has no value at %lld of %lld %s: NaN", ff_bytes_path(g->in.b), d->name,
                (long long)missing, (long long)n, d->at_points ? "points" : "cells");
    st = ff_field_set_add(set, d->name, (int)d->n_comp, n, &value);
done:
    ff_free(value);
    ff_idmap_free(&rows);
    return st;
}

ff_status ff_gmsh_fields(ff_gmsh *g, ff_mesh *m, const int64_t *cell_tag)
{
    bool reached = g->step == 0;
    for (int64_t i = 0; i < g->n_data; i++) {
        const ff_gmsh_data *d = &g->data[i];
        reached |= g->step > 0 && d->steps > g->step;
        FF_TRY(add_field(g, m, d, d->at_points ? g->point_tag : cell_tag,
                         d->at_points ? m->n_points : m->n_cells));
    }
    if (reached) return FF_OK;
    return ff_fail(FF_E_INPUT, "%s: step = %lld, but no field has so many steps", ff_bytes_path(g->in.b),
                   (long long)g->step);
}
