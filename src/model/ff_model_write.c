#include "ff_model_write.h"

#include "ff_digest.h"
#include "ff_io.h"
#include "ff_mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_MAX_LEN = 1100 };

static const char area_name[] = "reference_area";

static const float *value_of(const ff_model *m, float *const *values, int i)
{
    return values != NULL ? values[i] : m->tensor[i].value;
}

void ff_model_dataset_name(char *out, size_t n, const char *group, const char *tensor)
{
    size_t at = (size_t)snprintf(out, n, "%s/", group);
    for (; *tensor != 0 && at + 1 < n; tensor++) out[at++] = *tensor == '/' ? '|' : *tensor;
    out[at < n ? at : n - 1] = 0;
}

/* Name, zero byte, shape as "64,25", zero byte, values: the machines this runs on are little-endian. */
static void digest_tensor(ff_digest *d, const char *name, int n_dim, const int64_t *shape, const void *v,
                          size_t size)
{
    char text[64] = "";
    int64_t n = 1;
    for (int k = 0; k < n_dim; k++) {
        size_t at = strlen(text);
        (void)snprintf(text + at, sizeof text - at, "%s%lld", k > 0 ? "," : "", (long long)shape[k]);
        n *= shape[k];
    }
    ff_digest_add(d, name, strlen(name) + 1);
    ff_digest_add(d, text, strlen(text) + 1);
    ff_digest_add(d, v, (size_t)n * size);
}

ff_status ff_model_digest(const ff_model *m, float *const *values, char hex[65])
{
    ff_digest *d = NULL;
    float area = (float)m->config->reference_area;
    bool done = false;
    FF_TRY(ff_digest_begin(&d));
    for (int i = 0; i <= m->n_tensors; i++) {
        /* reference_area stands among the tensors, in the order of names */
        if (!done && (i == m->n_tensors || strcmp(m->tensor[i].name, area_name) > 0)) {
            digest_tensor(d, area_name, 0, NULL, &area, sizeof area);
            done = true;
        }
        if (i == m->n_tensors) break;
        const ff_tensor *t = &m->tensor[i];
        digest_tensor(d, t->name, t->n_dim, t->shape, value_of(m, values, i), sizeof(float));
    }
    return ff_digest_end(&d, hex);
}

/* ---- of a file ---- */

typedef struct stored {
    char *key;        /* the tensor's name, owned */
    const char *link; /* the dataset's */
} stored;

static int by_key(const void *a, const void *b)
{
    return strcmp(((const stored *)a)->key, ((const stored *)b)->key);
}

static ff_status digest_stored(const ff_h5 *f, const stored *t, ff_digest *d)
{
    ff_status st = FF_OK;
    char path[NAME_MAX_LEN];
    ff_h5_shape s;
    void *v = NULL;
    (void)snprintf(path, sizeof path, "/weights/%s", t->link);
    FF_TRY(ff_h5_shape_of(f, path, &s));
    bool wide = s.elem_bytes == 8;
    if (s.kind != FF_H5_FLOAT || s.rank > 4 || (!wide && s.elem_bytes != 4))
        return ff_fail(FF_E_INPUT, "%s: %s: expected float32 or float64", ff_h5_path(f), path);
    v = ff_mem_alloc((size_t)(s.dim[0] * s.row_len) + 1, s.elem_bytes);
    if (v == NULL) return FF_E_MEM;
    FF_GO(ff_h5_read(f, path, wide ? FF_H5_F64 : FF_H5_F32, 0, s.dim[0], v));
    digest_tensor(d, t->key, s.rank, s.dim, v, s.elem_bytes);
done:
    ff_free(v);
    return st;
}

static ff_status stored_key(const ff_h5 *f, stored *t)
{
    char path[NAME_MAX_LEN];
    (void)snprintf(path, sizeof path, "/weights/%s", t->link);
    if (ff_h5_attr_exists(f, path, "key")) return ff_h5_attr_read_text(f, path, "key", &t->key);
    t->key = ff_strdup(t->link);
    return t->key != NULL ? FF_OK : FF_E_MEM;
}

ff_status ff_model_check_digest(const ff_h5 *f)
{
    ff_status st = FF_OK;
    char **names = NULL, *have = NULL, hex[FF_DIGEST_HEX] = "";
    stored *t = NULL;
    ff_digest *d = NULL;
    int n = 0;
    FF_TRY(ff_h5_list(f, "/weights", &names, &n));
    FF_GO(ff_h5_attr_read_text(f, "/", "digest", &have));
    FF_GO(FF_NEW0(t, n + 1));
    for (int i = 0; i < n; i++) {
        t[i].link = names[i];
        FF_GO(stored_key(f, &t[i]));
    }
    qsort(t, (size_t)n, sizeof *t, by_key);
    FF_GO(ff_digest_begin(&d));
    for (int i = 0; i < n; i++) FF_GO(digest_stored(f, &t[i], d));
    FF_GO(ff_digest_end(&d, hex));
    if (strcmp(have, hex) != 0)
        st = ff_fail(FF_E_INPUT,
                     "%s: attribute digest = %.16s..., but the tensors give %.16s...: the weights are "
                     "damaged, or were "
                     "changed by hand; write the model anew, or delete the attribute to read it as it is",
                     ff_h5_path(f), have, hex);
done:
    if (d != NULL) (void)ff_digest_end(&d, hex);
    for (int i = 0; t != NULL && i < n; i++) ff_free(t[i].key);
    ff_free(t);
    ff_free(have);
    ff_h5_names_free(&names, n);
    return st;
}

/* ---- writing ---- */

static ff_status put_tensor(ff_h5 *f, const char *name, int n_dim, const int64_t *shape, const float *v)
{
    char path[NAME_MAX_LEN];
    ff_model_dataset_name(path, sizeof path, "/weights", name);
    FF_TRY(ff_h5_dataset(f, path, FF_H5_F32, n_dim, shape));
    FF_TRY(ff_h5_write(f, path, FF_H5_F32, 0, n_dim > 0 ? shape[0] : 1, v));
    return strchr(name, '/') != NULL ? ff_h5_attr_write_text(f, path, "key", name) : FF_OK;
}

ff_status ff_model_put(ff_h5 *f, const ff_model *m, float *const *values, const char *source)
{
    char hex[65];
    int64_t version = 1;
    float area = (float)m->config->reference_area;
    FF_TRY(ff_model_digest(m, values, hex));
    FF_TRY(ff_h5_attr_write_text(f, "/", "format", "farfield-model"));
    FF_TRY(ff_h5_attr_write_scalar(f, "/", "format_version", FF_H5_I64, &version));
    FF_TRY(ff_h5_attr_write_text(f, "/", "source", source));
    FF_TRY(ff_h5_attr_write_text(f, "/", "digest", hex));
    FF_TRY(ff_h5_attr_write_text(f, "/", "config_json", m->config->json));
    FF_TRY(ff_h5_group(f, "/weights"));
    FF_TRY(put_tensor(f, area_name, 0, NULL, &area));
    for (int i = 0; i < m->n_tensors; i++)
        FF_TRY(
            put_tensor(f, m->tensor[i].name, m->tensor[i].n_dim, m->tensor[i].shape, value_of(m, values, i)));
    return FF_OK;
}

ff_status ff_model_write(const ff_model *m, float *const *values, const char *source, const char *path)
{
    ff_h5 *f = NULL;
    char *tmp = NULL;
    FF_TRY(ff_io_tmp_name(path, &tmp));
    ff_status st = ff_h5_create(ff_comm_self(), tmp, &f);
    if (st == FF_OK) {
        st = ff_model_put(f, m, values, source);
        ff_status closed = ff_h5_close(&f);
        if (st == FF_OK) st = closed;
    }
    if (st == FF_OK)
        st = ff_io_publish(tmp, path);
    else
        ff_io_discard(tmp);
    ff_free(tmp);
    return st;
}
