#include "ff_model.h"

#include "ff_h5.h"
#include "ff_mem.h"
#include "ff_model_write.h"
#include "ff_rng.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int by_name(const void *a, const void *b)
{
    return strcmp(((const ff_tensor *)a)->name, ((const ff_tensor *)b)->name);
}

const ff_tensor *ff_model_tensor(const ff_model *m, const char *name)
{
    ff_tensor key = {.name = (char *)(uintptr_t)name}; /* only compared */
    return bsearch(&key, m->tensor, (size_t)m->n_tensors, sizeof key, by_name);
}

void ff_model_destroy(ff_model **mp)
{
    ff_model *m = *mp;
    if (m == NULL) return;
    for (int i = 0; i < m->n_tensors; i++) {
        ff_free(m->tensor[i].name);
        ff_free(m->tensor[i].value);
    }
    ff_free(m->tensor);
    ff_free(m->source);
    ff_model_config_destroy(&m->config);
    FF_FREE(*mp);
}

/* ---- names and shapes that the constructor arguments imply ---- */

enum { NAME_MAX_LEN = 1024 };

static void network_name(const ff_model_config *c, int layer, int bc, int len, int k, const char *what,
                         char *out)
{
    (void)snprintf(out, NAME_MAX_LEN, "kernel_layers.%d.%s.kernels.%s.network.%s.layers.%d.%s", layer,
                   c->bc[bc].name, c->len[len], c->mlp ? "0" : "combined_mlp", 2 * k, what);
}

static void scale_name(const ff_model_config *c, int layer, int bc, int len, char *out)
{
    (void)snprintf(out, NAME_MAX_LEN, "kernel_layers.%d.%s.log_scalefactors.%s", layer, c->bc[bc].name,
                   c->len[len]);
}

/* Calls visit for every tensor the model must have. rows 0: shape [cols] or scalar-like [1]. */
typedef ff_status (*visit_fn)(void *ctx, const char *name, int64_t rows, int64_t cols);

static ff_status visit_network(const ff_model_config *c, int layer, int bc, visit_fn visit, void *ctx,
                               int *ranks)
{
    char name[NAME_MAX_LEN];
    ff_globe_shape s;
    ff_model_shape(c, layer, bc, ranks, &s);
    for (int len = 0; len < c->n_len; len++) {
        scale_name(c, layer, bc, len, name);
        FF_TRY(visit(ctx, name, 0, 1));
        for (int k = 0; k <= s.n_hidden; k++) {
            int64_t in = k == 0 ? ff_globe_n_in(&s) : s.hidden[k - 1];
            int64_t out = k == s.n_hidden ? ff_globe_n_net_out(&s) : s.hidden[k];
            network_name(c, layer, bc, len, k, "weight", name);
            FF_TRY(visit(ctx, name, out, in));
            network_name(c, layer, bc, len, k, "bias", name);
            FF_TRY(visit(ctx, name, 0, out));
        }
    }
    return FF_OK;
}

static ff_status visit_all(const ff_model_config *c, visit_fn visit, void *ctx)
{
    char name[NAME_MAX_LEN];
    int *ranks = NULL;
    FF_TRY(FF_NEW(ranks, ff_model_max_fields(c) + 1));
    ff_status st = FF_OK;
    for (int layer = 0; layer <= c->n_comm && st == FF_OK; layer++)
        for (int bc = 0; bc < c->n_bc && st == FF_OK; bc++)
            st = visit_network(c, layer, bc, visit, ctx, ranks);
    for (int i = 0; i < c->outputs.n && st == FF_OK; i++) {
        (void)snprintf(name, sizeof name, "final_field_transforms.%d.weight", i);
        st = visit(ctx, name, 1, 1);
        if (st != FF_OK || c->outputs.item[i].rank != 0) continue;
        (void)snprintf(name, sizeof name, "final_field_transforms.%d.bias", i);
        st = visit(ctx, name, 0, 1);
    }
    ff_free(ranks);
    return st;
}

static ff_status check_one(void *ctx, const char *name, int64_t rows, int64_t cols)
{
    const ff_model *m = ctx;
    const ff_tensor *t = ff_model_tensor(m, name);
    if (t == NULL) return ff_fail(FF_E_INPUT, "%s: tensor %s is missing", m->source, name);
    bool fits = rows == 0 ? t->n == cols && t->n_dim <= 1
                          : t->n_dim == 2 && t->shape[0] == rows && t->shape[1] == cols;
    if (!fits)
        return ff_fail(FF_E_INPUT, "%s: tensor %s has shape [%lld%s%lld], expected [%lld%s%lld]", m->source,
                       name, (long long)t->shape[0], t->n_dim == 2 ? ", " : " x ", (long long)t->shape[1],
                       (long long)(rows == 0 ? cols : rows), rows == 0 ? " x " : ", ",
                       (long long)(rows == 0 ? 1 : cols));
    for (int64_t i = 0; i < t->n; i++)
        if (!isfinite(t->value[i]))
            return ff_fail(FF_E_INPUT, "%s: tensor %s is not finite", m->source, name);
    return FF_OK;
}

static ff_status finish(ff_model *m)
{
    if (m->n_tensors > 1) qsort(m->tensor, (size_t)m->n_tensors, sizeof *m->tensor, by_name);
    return visit_all(m->config, check_one, m);
}

/* ---- reading ---- */

static ff_status add_tensor(ff_model *m, const char *name, int n_dim, const int64_t *shape, float **value)
{
    ff_tensor *grown = ff_mem_resize(m->tensor, (size_t)m->n_tensors + 1, sizeof *grown);
    if (grown == NULL) return FF_E_MEM;
    m->tensor = grown;
    ff_tensor *t = &m->tensor[m->n_tensors];
    memset(t, 0, sizeof *t);
    t->n_dim = n_dim;
    t->shape[0] = n_dim > 0 ? shape[0] : 1;
    t->shape[1] = n_dim > 1 ? shape[1] : 1;
    t->n = t->shape[0] * t->shape[1];
    t->name = ff_strdup(name);
    if (t->name == NULL) return FF_E_MEM;
    m->n_tensors++;
    FF_TRY(FF_NEW(t->value, t->n));
    *value = t->value;
    return FF_OK;
}

/* PhysicsNeMo's buffers: known without the file. */
static bool is_constant(const char *name)
{
    size_t n = strlen(name);
    return strcmp(name, "reference_area") == 0 || (n >= 5 && strcmp(name + n - 5, "._one") == 0);
}

/* Whether a `|` in a tensor's name can only stand for `/`: no boundary's or length's name has one. */
static bool bars_are_slashes(const ff_model_config *c)
{
    for (int i = 0; i < c->n_bc; i++)
        if (strchr(c->bc[i].name, '|') != NULL) return false;
    for (int i = 0; i < c->n_len; i++)
        if (strchr(c->len[i], '|') != NULL) return false;
    return true;
}

static ff_status read_tensors(const ff_h5 *f, const char *group, ff_model *m)
{
    char **names = NULL;
    int n = 0;
    bool slashes = bars_are_slashes(m->config);
    FF_TRY(ff_h5_list(f, group, &names, &n));
    ff_status st = FF_OK;
    for (int i = 0; i < n && st == FF_OK; i++) {
        char path[NAME_MAX_LEN + 64];
        ff_h5_shape shape;
        float *value = NULL;
        if (is_constant(names[i])) continue;
        (void)snprintf(path, sizeof path, "%s/%s", group, names[i]);
        st = ff_h5_shape_of(f, path, &shape);
        if (st == FF_OK && (shape.rank > 2 || shape.kind != FF_H5_FLOAT))
            st = ff_fail(FF_E_INPUT,
                         "%s: tensor %s: expected a floating-point array of at most two dimensions",
                         ff_h5_path(f), names[i]);
        for (char *c = names[i]; st == FF_OK && *c != 0; c++) /* HDF5 has no '/' in names */
            if (*c == '|' && (slashes || ff_h5_attr_exists(f, path, "key"))) *c = '/';
        if (st == FF_OK) st = add_tensor(m, names[i], shape.rank, shape.dim, &value);
        if (st == FF_OK) st = ff_h5_read(f, path, FF_H5_F32, 0, shape.dim[0], value);
    }
    ff_h5_names_free(&names, n);
    return st;
}

static ff_status model_start(const char *json, const char *source, ff_model **out)
{
    ff_model *m = NULL;
    FF_TRY(FF_NEW0(m, 1));
    m->source = ff_strdup(source);
    ff_status st = m->source != NULL ? ff_model_config_parse(json, source, &m->config) : FF_E_MEM;
    if (st != FF_OK) ff_model_destroy(&m);
    *out = m;
    return st;
}

ff_status ff_model_from_group(const char *path, const char *group, const char *json, ff_model **out)
{
    ff_h5 *f = NULL;
    *out = NULL;
    FF_TRY(ff_h5_open(ff_comm_self(), path, &f));
    ff_status st = model_start(json, path, out);
    if (st == FF_OK) st = read_tensors(f, group, *out);
    if (st == FF_OK) st = finish(*out);
    if (st != FF_OK) ff_model_destroy(out);
    ff_status closed = ff_h5_close(&f);
    return st != FF_OK ? st : closed;
}

static ff_status read_file(const char *path, ff_model **out)
{
    ff_status st = FF_OK;
    ff_h5 *f = NULL;
    char *format = NULL, *json = NULL;
    int64_t version = 0;
    const char *dot = strrchr(path, '.');
    if (dot != NULL && strcmp(dot, ".mdlus") == 0)
        return ff_fail(
            FF_E_INPUT,
            "%s: a PhysicsNeMo checkpoint, expected a model file; tools/farfield_convert.py makes one of it",
            path);
    FF_TRY(ff_h5_open(ff_comm_self(), path, &f));
    if (!ff_h5_attr_exists(f, "/", "format") || !ff_h5_attr_exists(f, "/", "config_json")) {
        st = ff_fail(FF_E_INPUT, "%s: no farfield model file; make one with tools/farfield_convert.py", path);
        goto done;
    }
    FF_GO(ff_h5_attr_read_text(f, "/", "format", &format));
    FF_GO(ff_h5_attr_read_text(f, "/", "config_json", &json));
    FF_GO(ff_h5_attr_read(f, "/", "format_version", FF_H5_I64, 1, &version));
    if (strcmp(format, "farfield-model") != 0 || version != 1) {
        st = ff_fail(FF_E_INPUT, "%s: format %s version %lld, expected farfield-model version 1", path,
                     format, (long long)version);
        goto done;
    }
    FF_GO(model_start(json, path, out));
    FF_GO(read_tensors(f, "/weights", *out));
    if (ff_h5_attr_exists(f, "/", "digest")) FF_GO(ff_model_check_digest(f));
    st = finish(*out);
done:
    ff_free(format);
    ff_free(json);
    (void)ff_h5_close(&f);
    if (st != FF_OK) ff_model_destroy(out);
    return st;
}

/* ---- spreading: the text, then one fixed record a tensor, then its values ---- */

typedef struct tensor_head {
    char name[NAME_MAX_LEN];
    int64_t n_dim, shape[2];
} tensor_head;

static ff_status spread_tensors(ff_comm *comm, ff_model *m, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        tensor_head h = {{0}, 0, {0, 0}};
        float *value = NULL;
        ff_status st = FF_OK;
        if (comm->rank == 0) {
            const ff_tensor *t = &m->tensor[i];
            (void)snprintf(h.name, sizeof h.name, "%s", t->name);
            h.n_dim = t->n_dim;
            memcpy(h.shape, t->shape, sizeof h.shape);
            value = t->value;
        }
        FF_TRY(ff_comm_bcast(comm, &h, sizeof h, 0));
        if (comm->rank != 0) st = add_tensor(m, h.name, (int)h.n_dim, h.shape, &value);
        FF_TRY(ff_agree(comm, st));
        FF_TRY(ff_comm_bcast(comm, value, (size_t)(h.shape[0] * h.shape[1]) * sizeof *value, 0));
    }
    return FF_OK;
}

static ff_status spread(ff_comm *comm, const char *path, ff_model **mp)
{
    ff_status st = FF_OK;
    char *json = NULL;
    int64_t head[2] = {0, 0};
    if (comm->size == 1) return FF_OK;
    if (comm->rank == 0) {
        head[0] = (int64_t)strlen((*mp)->config->json) + 1;
        head[1] = (*mp)->n_tensors;
    }
    FF_TRY(ff_comm_bcast(comm, head, sizeof head, 0));
    FF_TRY(FF_NEW0_ALL(comm, json, head[0]));
    if (comm->rank == 0) memcpy(json, (*mp)->config->json, (size_t)head[0]);
    FF_GO(ff_comm_bcast(comm, json, (size_t)head[0], 0));
    if (comm->rank != 0) st = model_start(json, path, mp);
    FF_GO(ff_agree(comm, st));
    FF_GO(spread_tensors(comm, *mp, head[1]));
done:
    ff_free(json);
    return st;
}

ff_status ff_model_read(ff_comm *comm, const char *path, ff_model **out)
{
    *out = NULL;
    FF_TRY(ff_agree(comm, comm->rank == 0 ? read_file(path, out) : FF_OK));
    ff_status st = spread(comm, path, out);
    if (st != FF_OK) ff_model_destroy(out);
    return st;
}

/* ---- random weights ---- */

typedef struct random_ctx {
    ff_model *m;
    uint64_t seed, stream;
    int64_t fan_in;
} random_ctx;

/* Linear layers: uniform in +-1/sqrt(fan in) for weight and bias; scale factors 0; calibration 1 and 0. */
static ff_status random_one(void *ctx, const char *name, int64_t rows, int64_t cols)
{
    random_ctx *r = ctx;
    float *value = NULL;
    int64_t shape[2] = {rows == 0 ? cols : rows, cols};
    FF_TRY(add_tensor(r->m, name, rows == 0 ? 1 : 2, shape, &value));
    bool network = strstr(name, ".network.") != NULL, final = strncmp(name, "final_", 6) == 0;
    if (rows != 0) r->fan_in = cols;
    double bound = 1 / sqrt((double)(r->fan_in > 0 ? r->fan_in : 1));
    int64_t n = r->m->tensor[r->m->n_tensors - 1].n;
    r->stream++;
    for (int64_t i = 0; i < n; i++) {
        double u = 2 * ff_rng_uniform(r->seed, r->stream, (uint64_t)i) - 1;
        value[i] = network ? (float)(bound * u) : final && rows != 0 ? 1.0f : 0.0f;
    }
    return FF_OK;
}

ff_status ff_model_random(const char *json, uint64_t seed, ff_model **out)
{
    *out = NULL;
    FF_TRY(model_start(json, "random weights", out));
    random_ctx ctx = {*out, seed, 0, 1};
    ff_status st = visit_all((*out)->config, random_one, &ctx);
    if (st == FF_OK) st = finish(*out);
    if (st != FF_OK) ff_model_destroy(out);
    return st;
}

/* ---- use ---- */

static const float *values(const ff_model *m, const char *name)
{
    const ff_tensor *t = ff_model_tensor(m, name);
    return t != NULL ? t->value : NULL;
}

void ff_model_network(const ff_model *m, int layer, int bc, int len, const float **w, const float **b)
{
    char name[NAME_MAX_LEN];
    for (int k = 0; k <= m->config->n_hidden; k++) {
        network_name(m->config, layer, bc, len, k, "weight", name);
        w[k] = values(m, name);
        network_name(m->config, layer, bc, len, k, "bias", name);
        b[k] = values(m, name);
    }
}

double ff_model_log_scale(const ff_model *m, int layer, int bc, int len)
{
    char name[NAME_MAX_LEN];
    scale_name(m->config, layer, bc, len, name);
    return (double)values(m, name)[0];
}

void ff_model_calibration(const ff_model *m, int field, double *weight, double *bias)
{
    char name[64];
    (void)snprintf(name, sizeof name, "final_field_transforms.%d.weight", field);
    *weight = (double)values(m, name)[0];
    (void)snprintf(name, sizeof name, "final_field_transforms.%d.bias", field);
    const float *b = values(m, name);
    *bias = b != NULL ? (double)b[0] : 0;
}
