/* Packing of a GLOBE network, and its plain reference arithmetic, in both precisions. */
#include "ff_globe_layout.h"
#include "ff_globe_net.h"
#include "ff_mem.h"

#include <math.h>
#include <string.h>

#define LOG2_E 1.4426950408889634

/* ---- what both precisions share: lists of rows and columns, the constant part of the first layer ---- */

typedef struct globe_lists {
    int *identity;           /* 0, 1, 2, ..., widest */
    int *row;                /* identity over the first hidden layer's rows, then -1: padding */
    int *out_row;            /* rows of one later layer, rewritten by globe_lists_rows */
    int *src_col, *pair_col; /* columns of the first weight matrix: source-only, per-pair */
    int n_src, n_pair;
    double *bias0; /* [hidden[0]]: bias and what depends on the global data alone */
    double *bias;  /* room for one layer's */
} globe_lists;

static double globe_s(double x)
{
    return -expm1(-x) * log1p(x);
}

static double globe_unit(const ff_globe_shape *s, const double *v, double *unit)
{
    double m2 = s->eps * s->eps;
    for (int c = 0; c < s->dim; c++) m2 += v[c] * v[c];
    double m = sqrt(m2);
    for (int c = 0; c < s->dim; c++) unit[c] = m > 0.0 ? v[c] / m : 0.0;
    return m;
}

static double globe_legendre(int n, double c)
{
    double p0 = 1.0, p1 = c;
    for (int i = 2; i <= n; i++) {
        double p2 = ((2.0 * i - 1.0) * c * p1 - (i - 1.0) * p0) / i;
        p0 = p1;
        p1 = p2;
    }
    return p1;
}

/* Rows of layer l >= 1 in packed order: Pade alternates numerator and denominator, so that one block of the
 * kernel holds both halves of its coefficients. Padded with -1. */
static const int *globe_lists_rows(const globe_lists *q, const ff_globe_shape *s, int l)
{
    bool last = l == s->n_hidden;
    int n_coef = ff_globe_n_coef(s), n_out = last ? ff_globe_n_net_out(s) : s->hidden[l];
    for (int j = 0; j < ff_globe_round_up(n_out, FF_GLOBE_BLOCK); j++) {
        int row = last && !s->mlp ? j / 2 + (j % 2) * n_coef : j;
        q->out_row[j] = j < n_out ? row : -1;
    }
    return q->out_row;
}

static void globe_lists_columns(globe_lists *q, const ff_globe_shape *s)
{
    int n_vec = ff_globe_n_vec(s);
    for (int i = 0; i < s->n_sscalar; i++) q->src_col[q->n_src++] = s->n_gscalar + i;
    for (int k = s->n_gvector; k < n_vec; k++) q->src_col[q->n_src++] = ff_globe_col_g(s, k);
    for (int a = 0; a < n_vec; a++)
        for (int b = a + 1; b < n_vec; b++)
            for (int n = 1; n <= s->n_harm && b >= s->n_gvector; n++)
                q->src_col[q->n_src++] = ff_globe_col_harm(s, n, a, b);
    q->pair_col[q->n_pair++] = ff_globe_col_g(s, n_vec);
    for (int k = 0; k < n_vec; k++)
        for (int n = 1; n <= s->n_harm; n++) q->pair_col[q->n_pair++] = ff_globe_col_harm(s, n, k, n_vec);
}

static void add_column(double *bias, const float *w, const ff_globe_shape *s, int col, double feature)
{
    size_t n_in = (size_t)ff_globe_n_in(s);
    for (int j = 0; j < s->hidden[0]; j++) bias[j] += (double)w[(size_t)j * n_in + (size_t)col] * feature;
}

static void globe_lists_bias(globe_lists *q, const ff_globe_shape *s, const float *w, const float *b,
                             const double *gscalar, const double *gvector)
{
    double ua[3], ub[3];
    for (int j = 0; j < s->hidden[0]; j++) q->bias0[j] = (double)b[j];
    for (int i = 0; i < s->n_gscalar; i++) add_column(q->bias0, w, s, i, gscalar[i]);
    for (int a = 0; a < s->n_gvector; a++) {
        double ma = globe_unit(s, gvector + a * s->dim, ua);
        add_column(q->bias0, w, s, ff_globe_col_g(s, a), globe_s(ma));
        for (int k = a + 1; k < s->n_gvector; k++) {
            double mb = globe_unit(s, gvector + k * s->dim, ub), c = 0.0;
            for (int i = 0; i < s->dim; i++) c += ua[i] * ub[i];
            for (int n = 1; n <= s->n_harm; n++)
                add_column(q->bias0, w, s, ff_globe_col_harm(s, n, a, k),
                           globe_s(ma * mb) * globe_legendre(n, c));
        }
    }
}

static ff_status globe_lists_build(globe_lists *q, const ff_globe_shape *s, const float *w, const float *b,
                                   const double *gscalar, const double *gvector)
{
    int n_in = ff_globe_n_in(s), widest = ff_globe_n_net_out(s);
    for (int l = 0; l < s->n_hidden; l++) widest = s->hidden[l] > widest ? s->hidden[l] : widest;
    widest = ff_globe_round_up(widest, FF_GLOBE_BLOCK);
    FF_TRY(FF_NEW(q->identity, widest));
    FF_TRY(FF_NEW(q->row, widest));
    FF_TRY(FF_NEW(q->out_row, widest));
    FF_TRY(FF_NEW(q->src_col, n_in));
    FF_TRY(FF_NEW(q->pair_col, n_in));
    FF_TRY(FF_NEW(q->bias0, s->hidden[0]));
    FF_TRY(FF_NEW(q->bias, widest));
    for (int j = 0; j < widest; j++) {
        q->identity[j] = j;
        q->row[j] = j < s->hidden[0] ? j : -1;
    }
    globe_lists_columns(q, s);
    globe_lists_bias(q, s, w, b, gscalar, gvector);
    return FF_OK;
}

static void globe_lists_destroy(globe_lists *q)
{
    ff_free(q->identity);
    ff_free(q->row);
    ff_free(q->out_row);
    ff_free(q->src_col);
    ff_free(q->pair_col);
    ff_free(q->bias0);
    ff_free(q->bias);
}

/* ---- the way back: what depends on the global data alone, in double ---- */

static double globe_s_diff(double x)
{
    return exp(-x) * log1p(x) - expm1(-x) / (1 + x);
}

static double globe_legendre_diff(int n, double c)
{
    double p0 = 1.0, p1 = c, d0 = 0.0, d1 = 1.0;
    for (int i = 2; i <= n; i++) {
        double p2 = ((2.0 * i - 1.0) * c * p1 - (i - 1.0) * p0) / i;
        double d2 = ((2.0 * i - 1.0) * (p1 + c * d1) - (i - 1.0) * d0) / i;
        p0 = p1, p1 = p2;
        d0 = d1, d1 = d2;
    }
    return d1;
}

/* Sum over rows of bias cotangent times the weight of column col; the weight's own gradient goes to w_bar. */
static double column_adjoint(const ff_globe_shape *s, const float *w, const double *bias_bar, int col,
                             double feature, double *w_bar)
{
    size_t n_in = (size_t)ff_globe_n_in(s);
    double sum = 0.0;
    for (int j = 0; j < s->hidden[0]; j++) {
        size_t at = (size_t)j * n_in + (size_t)col;
        sum += bias_bar[j] * (double)w[at];
        w_bar[at] = bias_bar[j] * feature;
    }
    return sum;
}

/* Adjoint of globe_lists_bias; v_bar [n_gvector][2 + dim]: cotangents of m, g, unit of the global vectors, added to;
 * those of the vectors themselves are added to gvector_bar. */
static void globe_global_adjoint(const ff_globe_shape *s, const float *w, const double *bias_bar,
                                 const double *gscalar, const double *gvector, double *v_bar, double *w_bar,
                                 double *gscalar_bar, double *gvector_bar)
{
    double ua[3], ub[3];
    int len = 2 + s->dim;
    for (int i = 0; i < s->n_gscalar; i++)
        gscalar_bar[i] += column_adjoint(s, w, bias_bar, i, gscalar[i], w_bar);
    for (int a = 0; a < s->n_gvector; a++) {
        double ma = globe_unit(s, gvector + a * s->dim, ua);
        double *va = v_bar + a * len;
        va[1] += column_adjoint(s, w, bias_bar, ff_globe_col_g(s, a), globe_s(ma), w_bar);
        for (int k = a + 1; k < s->n_gvector; k++) {
            double mb = globe_unit(s, gvector + k * s->dim, ub), c = 0.0, *vb = v_bar + k * len;
            for (int i = 0; i < s->dim; i++) c += ua[i] * ub[i];
            double sm = globe_s(ma * mb), dsm = globe_s_diff(ma * mb);
            for (int n = 1; n <= s->n_harm; n++) {
                double p = globe_legendre(n, c);
                double f_bar = column_adjoint(s, w, bias_bar, ff_globe_col_harm(s, n, a, k), sm * p, w_bar);
                va[0] += f_bar * dsm * p * mb;
                vb[0] += f_bar * dsm * p * ma;
                double c_bar = f_bar * sm * globe_legendre_diff(n, c);
                for (int i = 0; i < s->dim; i++) {
                    va[2 + i] += c_bar * ub[i];
                    vb[2 + i] += c_bar * ua[i];
                }
            }
        }
    }
    for (int a = 0; a < s->n_gvector; a++) {
        const double *va = v_bar + a * len;
        double m = globe_unit(s, gvector + a * s->dim, ua), m_bar = va[0] + va[1] * globe_s_diff(m);
        for (int i = 0; i < s->dim; i++) m_bar -= m > 0 ? va[2 + i] * ua[i] / m : 0;
        for (int i = 0; i < s->dim; i++)
            gvector_bar[a * s->dim + i] += (m > 0 ? va[2 + i] / m : 0) + m_bar * ua[i];
    }
}

/* ---- float ---- */

#define FF_T(name) name##_f32
#define real       float
#define R_EXP      expf
#define R_EXPM1    expm1f
#define R_LOG1P    log1pf
#define R_SQRT     sqrtf
#define R_TANH     tanhf
#include "ff_globe_pack_impl.h"
#include "ff_globe_probe_impl.h"
#include "ff_globe_unpack_impl.h"
#undef FF_T
#undef real
#undef R_EXP
#undef R_EXPM1
#undef R_LOG1P
#undef R_SQRT
#undef R_TANH

/* ---- double ---- */

#define FF_T(name) name##_f64
#define real       double
#define R_EXP      exp
#define R_EXPM1    expm1
#define R_LOG1P    log1p
#define R_SQRT     sqrt
#define R_TANH     tanh
#include "ff_globe_pack_impl.h"
#include "ff_globe_probe_impl.h"
#include "ff_globe_unpack_impl.h"
