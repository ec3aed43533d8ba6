/* Text of ff_globe_probe for one precision: the mathematics of docs/theory.md line by line, from the weights
 * as given, one pair at a time. Macros as in ff_globe_pack_impl.h. */

static real FF_T(probe_s)(real x)
{
    return -R_EXPM1(-x) * R_LOG1P(x);
}

/* m(v) and v / m(v). */
static real FF_T(probe_unit)(const ff_globe_shape *s, const real *v, real *unit)
{
    real m2 = (real)(s->eps * s->eps);
    for (int c = 0; c < s->dim; c++) m2 += v[c] * v[c];
    real m = R_SQRT(m2);
    for (int c = 0; c < s->dim; c++) unit[c] = m > 0 ? v[c] / m : 0;
    return m;
}

/* Features of one pair; m [n_vec + 1] and unit [n_vec + 1][3] of global vectors, source vectors, r. */
static void FF_T(probe_features)(const FF_T(ff_globe_net) * net, const real *src, const real *m,
                                 const real (*unit)[3], real *in)
{
    const ff_globe_shape *s = &net->s;
    int n_v = net->n_vec + 1, at = 0;
    for (int i = 0; i < s->n_gscalar; i++) in[at++] = (real)net->gscalar[i];
    for (int i = 0; i < s->n_sscalar; i++) in[at++] = src[i];
    for (int k = 0; k < n_v; k++) in[ff_globe_col_g(s, k)] = FF_T(probe_s)(m[k]);
    for (int n = 1; n <= s->n_harm; n++)
        for (int a = 0; a < n_v; a++)
            for (int b = a + 1; b < n_v; b++) {
                real c = 0, p0 = 1, p1;
                for (int i = 0; i < s->dim; i++) c += unit[a][i] * unit[b][i];
                p1 = c;
                for (int i = 2; i <= n; i++) {
                    real p2 = ((real)(2 * i - 1) * c * p1 - (real)(i - 1) * p0) / (real)i;
                    p0 = p1;
                    p1 = p2;
                }
                in[ff_globe_col_harm(s, n, a, b)] = FF_T(probe_s)(m[a] * m[b]) * p1;
            }
}

/* The network after Pade or tanh; x, y: two buffers of the widest layer. */
static void FF_T(probe_network)(const FF_T(ff_globe_net) * net, const real *in, real *x, real *y, real *out)
{
    const ff_globe_shape *s = &net->s;
    int n_in = ff_globe_n_in(s);
    memcpy(x, in, (size_t)n_in * sizeof *x);
    for (int l = 0; l <= s->n_hidden; l++) {
        bool last = l == s->n_hidden;
        int n_out = last ? ff_globe_n_net_out(s) : s->hidden[l];
        for (int j = 0; j < n_out; j++) {
            const float *w = net->raw_w[l] + (size_t)j * (size_t)n_in;
            real sum = (real)net->raw_b[l][j];
            for (int k = 0; k < n_in; k++) sum += (real)w[k] * x[k];
            y[j] = last ? sum : sum / (1 + R_EXP(-sum));
        }
        n_in = n_out;
        real *swap = x;
        x = y;
        y = swap;
    }
    for (int c = 0; c < net->n_coef; c++) {
        real a = x[c], d = s->mlp ? 0 : x[net->n_coef + c];
        out[c] = s->mlp ? R_TANH(a) : a * (a < 0 ? -a : a) / (1 + d * d + net->beta * a * a);
    }
}

ff_status FF_T(ff_globe_probe)(const FF_T(ff_globe_net) * net, int n, const real *dx, const real *src,
                               real *net_in, real *net_out)
{
    const ff_globe_shape *s = &net->s;
    int n_in = ff_globe_n_in(s), widest = n_in > ff_globe_n_net_out(s) ? n_in : ff_globe_n_net_out(s);
    real m[FF_GLOBE_MAX_VEC + 1], unit[FF_GLOBE_MAX_VEC + 1][3], r[3], g[3];
    real *x = NULL;
    for (int l = 0; l < s->n_hidden; l++) widest = s->hidden[l] > widest ? s->hidden[l] : widest;
    FF_TRY(FF_NEW(x, 2 * (size_t)widest));
    for (int i = 0; i < n; i++) {
        const real *sv = src + (size_t)i * (size_t)net->n_source;
        real *in = net_in + (size_t)i * (size_t)n_in;
        for (int k = 0; k < s->n_gvector; k++) {
            for (int c = 0; c < s->dim; c++) g[c] = (real)net->gvector[k * s->dim + c];
            m[k] = FF_T(probe_unit)(s, g, unit[k]);
        }
        for (int k = 0; k < s->n_svector; k++)
            m[s->n_gvector + k] = FF_T(probe_unit)(s, sv + s->n_sscalar + k * s->dim, unit[s->n_gvector + k]);
        for (int c = 0; c < s->dim; c++) r[c] = dx[i * s->dim + c] / net->length;
        m[net->n_vec] = FF_T(probe_unit)(s, r, unit[net->n_vec]);
        FF_T(probe_features)(net, sv, m, (const real(*)[3])unit, in);
        FF_T(probe_network)(net, in, x, x + widest, net_out + (size_t)i * (size_t)net->n_coef);
    }
    ff_free(x);
    return FF_OK;
}
