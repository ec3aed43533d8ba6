#include "app_head.h"

#include "ff_mem.h"

#include <stdio.h>
#include <string.h>

ff_status app_read_f64(const ff_h5 *f, const char *dataset, int64_t n, double **out)
{
    ff_h5_shape s;
    FF_TRY(ff_h5_shape_of(f, dataset, &s));
    if (s.dim[0] * s.row_len != n)
        return ff_fail(FF_E_INPUT, "%s: %s: %lld values, expected %lld", ff_h5_path(f), dataset,
                       (long long)(s.dim[0] * s.row_len), (long long)n);
    FF_TRY(FF_NEW(*out, n + 1));
    return ff_h5_read(f, dataset, FF_H5_F64, 0, s.dim[0], *out);
}

ff_status app_narrow(const double *x, int64_t n, float **out)
{
    FF_TRY(FF_NEW(*out, n + 1));
    for (int64_t i = 0; i < n; i++) (*out)[i] = (float)x[i];
    return FF_OK;
}

/* ---- cell ---- */

ff_status app_cell_of(const char *name, const double *v, int64_t n, ff_cell *cell, bool *has)
{
    memset(cell, 0, sizeof *cell);
    *has = false;
    if (n != 1 && n != 3 && n != 9)
        return ff_fail(FF_E_INPUT, "%s: cell of %lld numbers, expected 1, 3 or 9 (rows are its vectors)",
                       name, (long long)n);
    for (int a = 0; a < 3; a++) {
        double *row = cell->vector[a];
        if (n == 9)
            memcpy(row, v + 3 * a, 3 * sizeof *row);
        else
            row[a] = v[n == 1 ? 0 : a];
        if (n != 9 && row[a] < 0)
            return ff_fail(FF_E_INPUT,
                           "%s: cell length %g, expected > 0, or 0 along an axis that does not repeat", name,
                           row[a]);
        cell->periodic[a] = row[0] != 0 || row[1] != 0 || row[2] != 0;
        *has = *has || cell->periodic[a];
    }
    return FF_OK;
}

ff_status app_cell_read(const ff_h5 *f, const char *group, ff_cell *cell, bool *has)
{
    const char *attr = ff_h5_attr_exists(f, group, "box") ? "box" : "cell";
    int64_t n = ff_h5_attr_count(f, group, attr), pbc[3];
    double v[9] = {0};
    char name[700];
    *has = false;
    memset(cell, 0, sizeof *cell);
    if (n == 0) return FF_OK;
    (void)snprintf(name, sizeof name, "%s: %s: attribute %s", ff_h5_path(f), group, attr);
    if (n == 1 || n == 3 || n == 9) FF_TRY(ff_h5_attr_read(f, group, attr, FF_H5_F64, n, v));
    FF_TRY(app_cell_of(name, v, n, cell, has));
    if (!ff_h5_attr_exists(f, group, "pbc")) return FF_OK;
    FF_TRY(ff_h5_attr_read(f, group, "pbc", FF_H5_I64, 3, pbc));
    *has = false;
    for (int a = 0; a < 3; a++) {
        cell->periodic[a] = pbc[a] != 0;
        *has = *has || cell->periodic[a];
    }
    return FF_OK;
}

/* ---- head ---- */

static ff_status attr_int(const ff_h5 *f, const char *group, const char *name, int64_t *value)
{
    if (!ff_h5_attr_exists(f, group, name)) return FF_OK;
    FF_TRY(ff_h5_attr_read(f, group, name, FF_H5_I64, 1, value));
    if (*value < 1 || *value > INT32_MAX)
        return ff_fail(FF_E_INPUT, "%s: %s: attribute %s = %lld, expected a positive number", ff_h5_path(f),
                       group, name, (long long)*value);
    return FF_OK;
}

static ff_status read_attributes(const ff_h5 *f, const char *group, app_head *h, int64_t *channels)
{
    int64_t lmax = h->o.lmax, p = h->o.rbf_exponent, q = h->o.degree_exponent;
    FF_TRY(attr_int(f, group, "lmax", &lmax));
    FF_TRY(attr_int(f, group, "channels", channels));
    FF_TRY(attr_int(f, group, "rbf_exponent", &p));
    FF_TRY(attr_int(f, group, "degree_exponent", &q));
    h->o.lmax = (int)lmax, h->o.rbf_exponent = (int)p, h->o.degree_exponent = (int)q;
    if (ff_h5_attr_exists(f, group, "degree_floor"))
        FF_TRY(ff_h5_attr_read(f, group, "degree_floor", FF_H5_F64, 1, &h->o.degree_floor));
    if (ff_h5_attr_exists(f, group, "cutoff"))
        FF_TRY(ff_h5_attr_read(f, group, "cutoff", FF_H5_F64, 1, &h->cutoff));
    if (lmax < 1 || lmax > FF_SCATTER_LMAX)
        return ff_fail(FF_E_INPUT, "%s: %s: lmax = %lld, expected 1 to %d; give --lmax or an attribute lmax",
                       ff_h5_path(f), group, (long long)lmax, FF_SCATTER_LMAX);
    return FF_OK;
}

static ff_status read_matrix(const ff_h5 *f, const char *group, const char *name, int64_t *rows, int64_t *len,
                             double **out)
{
    char at[700];
    ff_h5_shape s;
    (void)snprintf(at, sizeof at, "%s/%s", strcmp(group, "/") == 0 ? "" : group, name);
    FF_TRY(ff_h5_shape_of(f, at, &s));
    if (s.rank != 2 || s.dim[0] < 1 || s.dim[1] < 1 || s.dim[0] > INT32_MAX || s.dim[1] > INT32_MAX)
        return ff_fail(FF_E_INPUT, "%s: %s: rank %d, expected a matrix of weights", ff_h5_path(f), at,
                       s.rank);
    *rows = s.dim[0], *len = s.dim[1];
    return app_read_f64(f, at, s.dim[0] * s.dim[1], out);
}

static ff_status check_finite(const ff_h5 *f, const char *name, const double *w, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!(w[i] - w[i] == 0))
            return ff_fail(FF_E_INPUT, "%s: %s: weight %lld is %g, expected a finite number", ff_h5_path(f),
                           name, (long long)i, w[i]);
    return FF_OK;
}

ff_status app_head_read(const ff_h5 *f, const char *group, app_head *h)
{
    int64_t channels = 0, n_hidden, n_radial, rows, len, asked;
    FF_TRY(read_attributes(f, group, h, &channels));
    FF_TRY(read_matrix(f, group, "W1", &n_hidden, &n_radial, &h->w1));
    FF_TRY(read_matrix(f, group, "W2", &rows, &len, &h->w2));
    asked = n_radial;
    FF_TRY(attr_int(f, group, "n_radial", &asked));
    if (asked != n_radial || len != n_hidden || rows % h->o.lmax != 0 ||
        (channels != 0 && rows != channels * h->o.lmax))
        return ff_fail(FF_E_INPUT,
                       "%s: %s: W1 is %lld x %lld and W2 %lld x %lld, expected hidden x n_radial and lmax "
                       "channels x hidden with lmax = %d, n_radial = %lld, channels = %lld",
                       ff_h5_path(f), group, (long long)n_hidden, (long long)n_radial, (long long)rows,
                       (long long)len, h->o.lmax, (long long)asked,
                       (long long)(channels != 0 ? channels : rows / h->o.lmax));
    h->o.n_hidden = (int)n_hidden;
    h->o.n_radial = (int)n_radial;
    h->o.n_channels = rows / h->o.lmax;
    FF_TRY(check_finite(f, "W1", h->w1, n_hidden * n_radial));
    return check_finite(f, "W2", h->w2, rows * len);
}

void app_head_free(app_head *h)
{
    FF_FREE(h->w1);
    FF_FREE(h->w2);
}
