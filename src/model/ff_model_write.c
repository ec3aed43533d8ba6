#include "ff_model_write.h"

#include "ff_digest.h"
#include "ff_io.h"
#include "ff_mem.h"

#include <stdio.h>
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
static void digest_tensor(ff_digest *d, const char *name, int n_dim, const int64_t *shape, const float *v)
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
    ff_digest_add(d, v, (size_t)n * sizeof *v);
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
            digest_tensor(d, area_name, 0, NULL, &area);
            done = true;
        }
        if (i == m->n_tensors) break;
        const ff_tensor *t = &m->tensor[i];
        digest_tensor(d, t->name, t->n_dim, t->shape, value_of(m, values, i));
    }
    return ff_digest_end(&d, hex);
}

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
