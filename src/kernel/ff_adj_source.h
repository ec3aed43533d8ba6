/* What the pair adjoint does a source instead of a pair: source-only features and the record's vectors before the pairs,
 * and after them, from the sums of a source's pairs, cotangents of its raw features and of the global vectors. One text
 * for the device (cuda/adj_source.cu) and the host's test; products with the first layer's matrix stand beside it.
 *
 * A row of features: source scalars; g of source vectors; for every pair a < b of vectors without r, b a source vector:
 * n = 1 .. n_harm; last a 1, whose weight is the bias. */
#ifndef FF_ADJ_SOURCE_H
#define FF_ADJ_SOURCE_H

#include "ff_hd.h"
#include "ff_pair_adjoint.h"

#include <math.h>

typedef struct ff_adj_source {
    int dim, n_scalar, n_gvec, n_vec, n_harm, n_raw;
    int n_feat;                                   /* without the 1 */
    int n_out;                                    /* units of the first hidden layer */
    int off_m, off_g, off_unit, rec_len, row_len; /* record; ff_adj_row_len() */
    int pitch;                                    /* of a row of the packed gradient */
    float gvec_scale[FF_GLOBE_MAX_VEC];           /* ff_globe_gvec_scale() */
    float eps2, leg_a[FF_GLOBE_MAX_HARM + 1], leg_b[FF_GLOBE_MAX_HARM + 1];
    int64_t at_w, at_b, at_gvec, at_length, grad_len;
} ff_adj_source;

void ff_adj_source_plan(const ff_adj_view *v, ff_adj_source *c); /* Local */

/* Weight of feature f for unit o in the packed matrix. */
FF_HD int64_t ff_adj_source_at(const ff_adj_source *c, int o, int f)
{
    return ((int64_t)(o / 8) * c->n_feat + f) * 8 + o % 8;
}

FF_HD int ff_adj_source_pairs(const ff_adj_source *c)
{
    return c->n_harm > 0 ? (c->n_feat - c->n_scalar - (c->n_vec - c->n_gvec)) / c->n_harm : 0;
}

/* First feature of the pair a < b. */
FF_HD int ff_adj_source_column(const ff_adj_source *c, int a, int b)
{
    int n_svec = c->n_vec - c->n_gvec, i = a - c->n_gvec, pair;
    if (i < 0)
        pair = a * n_svec + b - c->n_gvec;
    else
        pair = c->n_gvec * n_svec + i * (n_svec - 1) - i * (i - 1) / 2 + b - a - 1;
    return c->n_scalar + n_svec + pair * c->n_harm;
}

/* S(x) and its derivative. */
FF_HD float ff_adj_smooth(float x)
{
    return -expm1f(-x) * log1pf(x);
}

FF_HD float ff_adj_smooth_diff(float x)
{
    return expf(-x) * log1pf(x) - expm1f(-x) / (1.0f + x);
}

/* m(v), g(m), unit vector of vector k; gvec [n_gvec][2 + dim]: those of the global ones. */
FF_HD void ff_adj_source_vector(const ff_adj_source *c, const float *raw, const float *gvec, int k, float *m,
                                float *u)
{
    const float *x = raw + c->n_scalar + (k - c->n_gvec) * c->dim;
    float q = c->eps2;
    if (k < c->n_gvec) {
        *m = gvec[k * (2 + c->dim)];
        for (int d = 0; d < c->dim; d++) u[d] = gvec[k * (2 + c->dim) + 2 + d];
        return;
    }
    for (int d = 0; d < c->dim; d++) q += x[d] * x[d];
    *m = fmaxf(0x1p-126f, sqrtf(q));
    for (int d = 0; d < c->dim; d++) u[d] = x[d] / *m;
}

FF_HD float ff_adj_dot(int dim, const float *a, const float *b)
{
    float sum = 0.0f;
    for (int d = 0; d < dim; d++) sum += a[d] * b[d];
    return sum;
}

/* Harmonics of pair number `pair` into f [n_harm]. */
FF_HD void ff_adj_source_harmonics(const ff_adj_source *c, const float *raw, const float *gvec, int pair,
                                   float *f)
{
    int a = 0, b, n = c->n_gvec > 0 ? c->n_vec - c->n_gvec : c->n_vec - 1; /* pairs of vector a */
    float ma, mb, ua[3], ub[3];
    while (pair >= n) {
        pair -= n;
        a++;
        n = a < c->n_gvec ? c->n_vec - c->n_gvec : c->n_vec - 1 - a;
    }
    b = (a < c->n_gvec ? c->n_gvec : a + 1) + pair;
    ff_adj_source_vector(c, raw, gvec, a, &ma, ua);
    ff_adj_source_vector(c, raw, gvec, b, &mb, ub);
    float cosine = ff_adj_dot(c->dim, ua, ub), s = ff_adj_smooth(ma * mb), p0 = 1.0f, p1 = cosine;
    for (int n_l = 1; n_l <= c->n_harm; n_l++) {
        if (n_l > 1) {
            float p2 = c->leg_a[n_l] * cosine * p1 + c->leg_b[n_l] * p0;
            p0 = p1;
            p1 = p2;
        }
        f[n_l - 1] = s * p1;
    }
}

/* Items of a source on the way in: scalars, vectors, pairs, and one for the rest. */
FF_HD int ff_adj_source_items(const ff_adj_source *c)
{
    return c->n_scalar + c->n_vec + ff_adj_source_pairs(c) + 1;
}

/* Item of a source: its part of feat [n_feat + 1] and, but for h0, of rec [rec_len]. */
FF_HD void ff_adj_source_item(const ff_adj_source *c, const float *raw, const float *gvec, int item,
                              float *feat, float *rec)
{
    int k = item - c->n_scalar, pair = k - c->n_vec, pairs = ff_adj_source_pairs(c);
    if (k < 0) {
        feat[item] = raw[item];
    } else if (pair < 0) {
        float m, u[3], g;
        ff_adj_source_vector(c, raw, gvec, k, &m, u);
        g = k < c->n_gvec ? gvec[k * (2 + c->dim) + 1] : ff_adj_smooth(m);
        rec[c->off_m + k] = m;
        rec[c->off_g + k] = g;
        for (int d = 0; d < c->dim; d++) rec[c->off_unit + k * c->dim + d] = u[d];
        if (k >= c->n_gvec) feat[c->n_scalar + k - c->n_gvec] = g;
    } else if (pair < pairs) {
        ff_adj_source_harmonics(c, raw, gvec, pair,
                                feat + c->n_scalar + c->n_vec - c->n_gvec + pair * c->n_harm);
    } else {
        feat[c->n_feat] = 1.0f;
        for (int i = c->off_unit + c->n_vec * c->dim; i < c->rec_len; i++) rec[i] = 0.0f;
    }
}

/* f_bar [n_harm]: cotangents of S(mm) P_n(cosine); returns that of mm, *c_bar: of the cosine. */
FF_HD float ff_adj_harmonics_back(const ff_adj_source *c, float mm, float cosine, const float *f_bar,
                                  float *c_bar)
{
    float p0 = 1.0f, p1 = cosine, d0 = 0.0f, d1 = 1.0f, s_bar = 0.0f, sum = 0.0f;
    for (int n = 1; n <= c->n_harm; n++) {
        if (n > 1) { /* P'_n = a_n (P_(n-1) + c P'_(n-1)) + b_n P'_(n-2) */
            float d2 = c->leg_a[n] * (p1 + cosine * d1) + c->leg_b[n] * d0;
            float p2 = c->leg_a[n] * cosine * p1 + c->leg_b[n] * p0;
            p0 = p1;
            p1 = p2;
            d0 = d1;
            d1 = d2;
        }
        s_bar += f_bar[n - 1] * p1;
        sum += f_bar[n - 1] * d1;
    }
    *c_bar = sum * ff_adj_smooth(mm);
    return s_bar * ff_adj_smooth_diff(mm);
}

/* Items of a source on the way back: scalars, vectors, and one for strength and position. */
FF_HD int ff_adj_source_back_items(const ff_adj_source *c)
{
    return c->n_scalar + c->n_vec + 1;
}

/* Cotangents of vector k's m, g and unit vector from its pairs' and features'. */
FF_HD void ff_adj_source_vector_back(const ff_adj_source *c, const float *rec, const double *row,
                                     const float *feat_bar, int k, float *m_bar, float *g_bar, float *u_bar)
{
    const float *m = rec + c->off_m, *unit = rec + c->off_unit;
    row += c->off_m + 5 * k;
    *m_bar = (float)row[0];
    *g_bar = (float)row[1];
    for (int d = 0; d < c->dim; d++) u_bar[d] = (float)row[2 + d];
    if (k >= c->n_gvec) *g_bar += feat_bar[c->n_scalar + k - c->n_gvec];
    for (int i = 0; i < c->n_vec && c->n_harm > 0; i++) {
        if (i == k || (i < c->n_gvec && k < c->n_gvec)) continue;
        const float *f_bar = feat_bar + ff_adj_source_column(c, i < k ? i : k, i < k ? k : i),
                    *other = unit + i * c->dim;
        float c_bar, cosine = ff_adj_dot(c->dim, unit + k * c->dim, other),
                     mm_bar = ff_adj_harmonics_back(c, m[i] * m[k], cosine, f_bar, &c_bar);
        *m_bar += mm_bar * m[i];
        for (int d = 0; d < c->dim; d++) u_bar[d] += c_bar * other[d];
    }
}

/* Where a source's cotangents go. first: of several networks, whose terms add up in raw and x. */
typedef struct ff_adj_source_bar {
    double *raw, *strength, *x; /* [n_raw], [1], [dim] or NULL */
    float *gvec;                /* [n_gvec][2 + dim] */
    bool first;
} ff_adj_source_bar;

FF_HD void ff_adj_source_back(const ff_adj_source *c, const float *rec, const double *row,
                              const float *feat_bar, int item, const ff_adj_source_bar *out)
{
    int k = item - c->n_scalar;
    if (k < 0) {
        out->raw[item] = (out->first ? 0.0 : out->raw[item]) + (double)feat_bar[item];
    } else if (k < c->n_vec) {
        float m_bar, g_bar, u_bar[3], m = rec[c->off_m + k], *to = out->gvec + k * (2 + c->dim);
        const float *u = rec + c->off_unit + k * c->dim;
        ff_adj_source_vector_back(c, rec, row, feat_bar, k, &m_bar, &g_bar, u_bar);
        if (k < c->n_gvec) {
            to[0] = m_bar;
            to[1] = g_bar;
            for (int d = 0; d < c->dim; d++) to[2 + d] = c->gvec_scale[k] * u_bar[d];
            return;
        }
        double *raw = out->raw + c->n_scalar + (k - c->n_gvec) * c->dim;
        m_bar += ff_adj_smooth_diff(m) * g_bar;
        for (int d = 0; d < c->dim; d++) m_bar -= u_bar[d] / m * u[d];
        for (int d = 0; d < c->dim; d++)
            raw[d] = (out->first ? 0.0 : raw[d]) + (double)(m_bar * u[d] + u_bar[d] / m);
    } else {
        row += c->off_m + 5 * c->n_vec;
        *out->strength = row[0];
        for (int d = 0; d < c->dim && out->x != NULL; d++)
            out->x[d] = (out->first ? 0.0 : out->x[d]) - row[1 + d];
    }
}

/* Term `entry` of a source for the sums over a unit: global vectors' m, g, unit, then the length. */
FF_HD double ff_adj_source_term(const ff_adj_source *c, const double *row, const float *gvec_bar, int entry)
{
    return entry < c->n_gvec * (2 + c->dim) ? (double)gvec_bar[entry] : row[c->off_m + 5 * c->n_vec + 4];
}

FF_HD int64_t ff_adj_source_term_at(const ff_adj_source *c, int entry)
{
    return entry < c->n_gvec * (2 + c->dim) ? c->at_gvec + entry : c->at_length;
}

#endif
