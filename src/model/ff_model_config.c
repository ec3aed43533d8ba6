#include "ff_model_config.h"

#include "ff_mem.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ff_name_list_free(ff_name_list *l)
{
    for (int i = 0; i < l->n; i++) ff_free(l->item[i].name);
    FF_FREE(l->item);
    l->n = 0;
}

static ff_status list_add(ff_name_list *l, const char *name, int rank)
{
    ff_ranked_name *item = ff_mem_resize(l->item, (size_t)l->n + 1, sizeof *item);
    if (item == NULL) return FF_E_MEM;
    l->item = item;
    l->item[l->n].rank = rank;
    l->item[l->n].name = ff_strdup(name);
    if (l->item[l->n].name == NULL) return FF_E_MEM;
    l->n++;
    return FF_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const ff_ranked_name *)a)->name, ((const ff_ranked_name *)b)->name);
}

/* The reference sorts features by Python's printed form of their names, whose closing quote counts: "T" comes after
 * "T wall" (a space is less than a quote) but before "T_wall". */
static int by_feature_text(const char *a, const char *b)
{
    while (*a != 0 && *a == *b) a++, b++;
    return (int)(unsigned char)(*a != 0 ? *a : '\'') - (int)(unsigned char)(*b != 0 ? *b : '\'');
}

static int by_feature(const void *a, const void *b)
{
    return by_feature_text(((const ff_ranked_name *)a)->name, ((const ff_ranked_name *)b)->name);
}

static void list_sort(ff_name_list *l, int (*order)(const void *, const void *))
{
    if (l->n > 1) qsort(l->item, (size_t)l->n, sizeof *l->item, order);
}

int ff_names_count(const ff_name_list *l, int rank)
{
    int n = 0;
    for (int i = 0; i < l->n; i++) n += l->item[i].rank == rank;
    return n;
}

int ff_names_comp(const ff_name_list *l, int dim)
{
    int n = 0;
    for (int i = 0; i < l->n; i++) n += l->item[i].rank == 0 ? 1 : dim;
    return n;
}

/* A quote inside a name would change the printed form, and with it the order among latent features. */
static ff_status sort_features(ff_name_list *l, const char *where)
{
    for (int i = 0; i < l->n; i++)
        if (strchr(l->item[i].name, '\'') != NULL)
            return ff_fail(FF_E_INPUT,
                           "%s: field %s: a quote in a feature's name is not supported; rename it", where,
                           l->item[i].name);
    list_sort(l, by_feature);
    return FF_OK;
}

/* Nested objects become dotted names. */
static ff_status flatten(json_t *o, const char *prefix, const char *where, const char *key, ff_name_list *out)
{
    const char *name;
    json_t *v;
    if (!json_is_object(o)) return ff_fail(FF_E_INPUT, "%s: %s is no JSON object of name: rank", where, key);
    json_object_foreach(o, name, v)
    {
        char full[512];
        (void)snprintf(full, sizeof full, "%s%s%s", prefix, *prefix ? "." : "", name);
        if (json_is_object(v)) {
            FF_TRY(flatten(v, full, where, key, out));
        } else if (json_is_integer(v) && (json_integer_value(v) == 0 || json_integer_value(v) == 1)) {
            FF_TRY(list_add(out, full, (int)json_integer_value(v)));
        } else {
            return ff_fail(FF_E_INPUT, "%s: %s.%s: expected rank 0 (scalar) or 1 (vector)", where, key, full);
        }
    }
    return FF_OK;
}

static ff_status get_list(json_t *root, const char *key, bool required, const char *where, ff_name_list *out)
{
    json_t *v = json_object_get(root, key);
    if (v == NULL || json_is_null(v))
        return required ? ff_fail(FF_E_INPUT, "%s: constructor argument %s is missing", where, key) : FF_OK;
    return flatten(v, "", where, key, out);
}

static ff_status get_real(json_t *root, const char *key, double low, bool open, double fallback,
                          const char *where, double *out)
{
    json_t *v = json_object_get(root, key);
    *out = fallback;
    if (v == NULL || json_is_null(v)) return FF_OK;
    double x = json_is_number(v) ? json_number_value(v) : NAN;
    if (!isfinite(x) || x < low || (open && x == low))
        return ff_fail(FF_E_INPUT, "%s: %s: expected a number %s %g", where, key, open ? ">" : ">=", low);
    *out = x;
    return FF_OK;
}

static ff_status get_int(json_t *root, const char *key, int low, int high, int fallback, const char *where,
                         int *out)
{
    json_t *v = json_object_get(root, key);
    *out = fallback;
    if (v == NULL || json_is_null(v)) {
        return fallback >= low ? FF_OK
                               : ff_fail(FF_E_INPUT, "%s: constructor argument %s is missing", where, key);
    }
    if (!json_is_integer(v) || json_integer_value(v) < low || json_integer_value(v) > high)
        return ff_fail(FF_E_INPUT, "%s: %s: expected an integer in %d .. %d", where, key, low, high);
    *out = (int)json_integer_value(v);
    return FF_OK;
}

static ff_status get_bcs(json_t *root, const char *where, ff_model_config *c)
{
    json_t *v = json_object_get(root, "boundary_source_data_ranks"), *fields;
    const char *name;
    if (!json_is_object(v) || json_object_size(v) == 0)
        return ff_fail(FF_E_INPUT, "%s: boundary_source_data_ranks: expected at least one boundary", where);
    FF_TRY(FF_NEW0(c->bc, json_object_size(v)));
    json_object_foreach(v, name, fields)
    {
        ff_model_bc *bc = &c->bc[c->n_bc];
        bc->name = ff_strdup(name);
        if (bc->name == NULL) return FF_E_MEM;
        c->n_bc++;
        FF_TRY(flatten(fields, "", where, name, &bc->fields));
        FF_TRY(sort_features(&bc->fields, where));
    }
    return FF_OK;
}

static ff_status get_lengths(json_t *root, const char *where, ff_model_config *c)
{
    json_t *v = json_object_get(root, "reference_length_names"), *name;
    size_t i;
    if (!json_is_array(v) || json_array_size(v) == 0)
        return ff_fail(FF_E_INPUT, "%s: reference_length_names: expected a list with at least one name",
                       where);
    FF_TRY(FF_NEW0(c->len, json_array_size(v)));
    json_array_foreach(v, i, name)
    {
        if (!json_is_string(name))
            return ff_fail(FF_E_INPUT, "%s: reference_length_names: expected strings", where);
        c->len[i] = ff_strdup(json_string_value(name));
        if (c->len[i] == NULL) return FF_E_MEM;
        c->n_len++;
    }
    return FF_OK;
}

static ff_status get_hidden(json_t *root, const char *where, ff_model_config *c)
{
    json_t *v = json_object_get(root, "hidden_layer_sizes"), *size;
    size_t i;
    c->n_hidden = 3;
    for (int k = 0; k < 3; k++) c->hidden[k] = 64;
    if (v == NULL || json_is_null(v)) return FF_OK;
    if (!json_is_array(v) || json_array_size(v) < 1 || json_array_size(v) > FF_GLOBE_MAX_LAYERS)
        return ff_fail(FF_E_INPUT, "%s: hidden_layer_sizes: expected 1 to %d sizes", where,
                       FF_GLOBE_MAX_LAYERS);
    c->n_hidden = (int)json_array_size(v);
    json_array_foreach(v, i, size)
    {
        if (!json_is_integer(size) || json_integer_value(size) < 1 || json_integer_value(size) > 4096)
            return ff_fail(FF_E_INPUT, "%s: hidden_layer_sizes: expected integers in 1 .. 4096", where);
        c->hidden[i] = (int)json_integer_value(size);
    }
    return FF_OK;
}

static ff_status get_switches(json_t *root, const char *where, ff_model_config *c)
{
    const json_t *net = json_object_get(root, "network_type"),
                 *far = json_object_get(root, "expand_far_targets");
    if (net != NULL && !json_is_null(net) && !json_is_string(net))
        return ff_fail(FF_E_INPUT, "%s: network_type: expected a text, pade or mlp", where);
    const char *type = json_is_string(net) ? json_string_value(net) : "pade";
    c->mlp = strcmp(type, "mlp") == 0;
    if (!c->mlp && strcmp(type, "pade") != 0)
        return ff_fail(FF_E_INPUT, "%s: network_type = %s, expected pade or mlp", where, type);
    if (far != NULL && !json_is_null(far) && !json_is_boolean(far))
        return ff_fail(FF_E_INPUT, "%s: expand_far_targets: expected true or false", where);
    c->expand_far = json_is_true(far);
    return FF_OK;
}

static ff_status parse_root(json_t *root, const char *where, ff_model_config *c)
{
    FF_TRY(get_int(root, "n_spatial_dims", 2, 3, 0, where, &c->dim));
    FF_TRY(get_list(root, "output_field_ranks", true, where, &c->outputs));
    list_sort(&c->outputs, by_name);
    if (c->outputs.n == 0) return ff_fail(FF_E_INPUT, "%s: output_field_ranks is empty", where);
    FF_TRY(get_bcs(root, where, c));
    FF_TRY(get_lengths(root, where, c));
    FF_TRY(get_list(root, "global_data_ranks", false, where, &c->globals));
    FF_TRY(sort_features(&c->globals, where));
    FF_TRY(get_real(root, "reference_area", 0, true, 1.0, where, &c->reference_area));
    FF_TRY(get_real(root, "smoothing_radius", 0, false, 1e-8, where, &c->eps));
    FF_TRY(get_real(root, "theta", 0, false, 1.0, where, &c->theta));
    FF_TRY(get_real(root, "self_regularization_beta", 0, false, 0, where, &c->beta));
    FF_TRY(get_real(root, "latent_compression_scale", 0, false, 0, where, &c->compression));
    FF_TRY(get_int(root, "n_communication_hyperlayers", 0, 64, 2, where, &c->n_comm));
    FF_TRY(get_int(root, "n_latent_scalars", 0, 1024, 12, where, &c->n_latent_scalar));
    FF_TRY(get_int(root, "n_latent_vectors", 0, 1024, 6, where, &c->n_latent_vector));
    FF_TRY(get_int(root, "n_spherical_harmonics", 0, 32, 4, where, &c->n_harm));
    FF_TRY(get_int(root, "leaf_size", 1, 64, 1, where, &c->leaf_size));
    FF_TRY(get_hidden(root, where, c));
    return get_switches(root, where, c);
}

ff_status ff_model_config_parse(const char *json, const char *where, ff_model_config **out)
{
    ff_status st = FF_OK;
    ff_model_config *c = NULL;
    json_error_t err;
    *out = NULL;
    json_t *root = json_loads(json, 0, &err);
    if (root == NULL || !json_is_object(root)) {
        st = ff_fail(FF_E_INPUT, "%s: constructor arguments are no JSON object: %s", where,
                     root ? "" : err.text);
        goto done;
    }
    FF_GO(FF_NEW0(c, 1));
    c->json = ff_strdup(json);
    FF_GO(c->json != NULL ? FF_OK : FF_E_MEM);
    FF_GO(parse_root(root, where, c));
    *out = c;
    c = NULL;
done:
    json_decref(root);
    ff_model_config_destroy(&c);
    return st;
}

void ff_model_config_destroy(ff_model_config **cp)
{
    ff_model_config *c = *cp;
    if (c == NULL) return;
    ff_name_list_free(&c->outputs);
    ff_name_list_free(&c->globals);
    for (int i = 0; i < c->n_bc; i++) {
        ff_free(c->bc[i].name);
        ff_name_list_free(&c->bc[i].fields);
    }
    for (int i = 0; i < c->n_len; i++) ff_free(c->len[i]);
    ff_free(c->bc);
    ff_free(c->len);
    ff_free(c->json);
    FF_FREE(*cp);
}

int ff_model_find_bc(const ff_model_config *c, const char *name)
{
    for (int i = 0; i < c->n_bc; i++)
        if (strcmp(c->bc[i].name, name) == 0) return i;
    return -1;
}

static ff_status add_numbered(ff_name_list *l, const char *prefix, int n, int rank)
{
    for (int i = 0; i < n; i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "%s.%d", prefix, i);
        FF_TRY(list_add(l, name, rank));
    }
    return FF_OK;
}

static ff_status comm_fields(const ff_model_config *c, ff_name_list *out)
{
    FF_TRY(add_numbered(out, "latent.scalars", c->n_latent_scalar, 0));
    FF_TRY(add_numbered(out, "latent.vectors", c->n_latent_vector, 1));
    for (int i = 0; i < c->n_len; i++) {
        char name[512];
        (void)snprintf(name, sizeof name, "strengths.%s", c->len[i]);
        FF_TRY(list_add(out, name, 0));
    }
    list_sort(out, by_name);
    return FF_OK;
}

static ff_status copy_list(const ff_name_list *from, ff_name_list *to)
{
    for (int i = 0; i < from->n; i++) FF_TRY(list_add(to, from->item[i].name, from->item[i].rank));
    return FF_OK;
}

ff_status ff_model_layer_fields(const ff_model_config *c, int layer, ff_name_list *out)
{
    memset(out, 0, sizeof *out);
    ff_status st = layer < c->n_comm ? comm_fields(c, out) : copy_list(&c->outputs, out);
    if (st != FF_OK) ff_name_list_free(out);
    return st;
}

int ff_model_length_slot(const ff_model_config *c, int i)
{
    int slot = 0;
    for (int k = 0; k < c->n_len; k++) slot += strcmp(c->len[k], c->len[i]) < 0;
    return slot;
}

int ff_model_max_fields(const ff_model_config *c)
{
    int comm = c->n_latent_scalar + c->n_latent_vector + c->n_len;
    return comm > c->outputs.n ? comm : c->outputs.n;
}

void ff_model_shape(const ff_model_config *c, int layer, int bc, int *ranks, ff_globe_shape *s)
{
    bool latent = layer > 0, final = layer == c->n_comm;
    const ff_name_list *f = &c->bc[bc].fields;
    memset(s, 0, sizeof *s);
    s->dim = c->dim;
    s->n_gscalar = ff_names_count(&c->globals, 0) + c->n_len * (c->n_len - 1) / 2;
    s->n_gvector = ff_names_count(&c->globals, 1);
    s->n_sscalar = ff_names_count(f, 0) + (latent ? c->n_latent_scalar : 0);
    s->n_svector = ff_names_count(f, 1) + 1 + (latent ? c->n_latent_vector : 0);
    s->n_harm = c->n_harm;
    s->n_hidden = c->n_hidden;
    memcpy(s->hidden, c->hidden, sizeof s->hidden);
    s->n_field = 0;
    if (final) {
        for (int i = 0; i < c->outputs.n; i++) ranks[s->n_field++] = c->outputs.item[i].rank;
    } else {
        for (int i = 0; i < c->n_latent_scalar; i++) ranks[s->n_field++] = 0;
        for (int i = 0; i < c->n_latent_vector; i++) ranks[s->n_field++] = 1;
        for (int i = 0; i < c->n_len; i++) ranks[s->n_field++] = 0;
    }
    s->field_rank = ranks;
    s->mlp = c->mlp;
    s->beta = c->beta;
    s->eps = c->eps;
}

/* Scalars are the globals' own and the log ratios, sorted together as features. */
typedef struct named_value {
    char name[1100]; /* a log ratio's: two parts as printed, ', ' between them */
    int at;          /* place among the flattened global data, or -1: */
    int a, b;        /* the lengths of a log ratio */
} named_value;

static int by_value_name(const void *a, const void *b)
{
    return by_feature_text(((const named_value *)a)->name, ((const named_value *)b)->name);
}

static ff_status list_scalars(const ff_model_config *c, named_value **out, int *n_out)
{
    int n = ff_names_count(&c->globals, 0) + c->n_len * (c->n_len - 1) / 2, k = 0, at = 0;
    named_value *all = NULL;
    FF_TRY(FF_NEW(all, n + 1));
    for (int i = 0; i < c->globals.n; at += c->globals.item[i++].rank == 0 ? 1 : c->dim) {
        if (c->globals.item[i].rank != 0) continue;
        (void)snprintf(all[k].name, sizeof all[k].name, "%s", c->globals.item[i].name);
        all[k++].at = at;
    }
    for (int a = 0; a < c->n_len; a++)
        for (int b = a + 1; b < c->n_len; b++) {
            (void)snprintf(all[k].name, sizeof all[k].name, "log_reference_length_ratios', '%s_%s", c->len[a],
                           c->len[b]);
            all[k].at = -1;
            all[k].a = a;
            all[k++].b = b;
        }
    qsort(all, (size_t)n, sizeof *all, by_value_name);
    *out = all;
    *n_out = n;
    return FF_OK;
}

ff_status ff_model_globals(const ff_model_config *c, const double *values, const double *length,
                           double *gscalar, double *gvector)
{
    named_value *all = NULL;
    int n = 0, at = 0;
    FF_TRY(list_scalars(c, &all, &n));
    for (int i = 0; i < n; i++)
        gscalar[i] = all[i].at >= 0 ? values[all[i].at] : log(length[all[i].a] / length[all[i].b]);
    for (int i = 0; i < c->globals.n; i++) {
        bool vector = c->globals.item[i].rank != 0;
        for (int d = 0; d < c->dim && vector; d++) *gvector++ = values[at + d];
        at += vector ? c->dim : 1;
    }
    ff_free(all);
    return FF_OK;
}

ff_status ff_model_globals_adjoint(const ff_model_config *c, const double *length, const double *gscalar_bar,
                                   const double *gvector_bar, double *values_bar, double *length_bar)
{
    named_value *all = NULL;
    int n = 0, at = 0;
    FF_TRY(list_scalars(c, &all, &n));
    for (int i = 0; i < n; i++) {
        if (all[i].at >= 0) {
            values_bar[all[i].at] += gscalar_bar[i];
        } else {
            length_bar[all[i].a] += gscalar_bar[i] / length[all[i].a];
            length_bar[all[i].b] -= gscalar_bar[i] / length[all[i].b];
        }
    }
    for (int i = 0; i < c->globals.n; i++) {
        bool vector = c->globals.item[i].rank != 0;
        for (int d = 0; d < c->dim && vector; d++) values_bar[at + d] += *gvector_bar++;
        at += vector ? c->dim : 1;
    }
    ff_free(all);
    return FF_OK;
}
