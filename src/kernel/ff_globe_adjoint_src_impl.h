/* The adjoint of records. Part of ff_globe_adjoint_impl.h. */

INLINE void source_pair_adjoint(const globe_net *net, int a, int b, const adjoint_work *w, const real *f_bar,
                                const int dim, int v, const int n)
{
    const real *ua = w->f.rec + (net->off_unit + a * dim) * LANES;
    const real *ub = w->f.rec + (net->off_unit + b * dim) * LANES;
    real *ua_bar = w->rec_bar + (net->off_unit + a * dim) * LANES;
    real *ub_bar = w->rec_bar + (net->off_unit + b * dim) * LANES;
    real *ma_bar = w->rec_bar + (net->off_m + a) * LANES, *mb_bar = w->rec_bar + (net->off_m + b) * LANES;
    vr ma[BUNDLE], mb[BUNDLE], mm[BUNDLE], cosine[BUNDLE], c_bar[BUNDLE];
    EACH(n, ma[i] = at(w->f.rec + (net->off_m + a) * LANES, v, i));
    EACH(n, mb[i] = at(w->f.rec + (net->off_m + b) * LANES, v, i));
    dot_rows(ua, ub, cosine, v, dim, n);
    EACH(n, mm[i] = ma[i] * mb[i]);
    harmonics_adjoint(net, mm, cosine, c_bar, f_bar, v, n);
    EACH(n, put(ma_bar, v, i, v_fma(mm[i], mb[i], at(ma_bar, v, i))));
    EACH(n, put(mb_bar, v, i, v_fma(mm[i], ma[i], at(mb_bar, v, i))));
    XYZ(dim, EACH(n, put(ua_bar + c * LANES, v, i,
                         v_fma(c_bar[i], at(ub + c * LANES, v, i), at(ua_bar + c * LANES, v, i))));
        EACH(n, put(ub_bar + c * LANES, v, i,
                    v_fma(c_bar[i], at(ua + c * LANES, v, i), at(ub_bar + c * LANES, v, i)))));
}

/* One source vector: cotangents of m, g, unit -> of its components, left in the unit rows. */
INLINE void source_vector_adjoint(const globe_net *net, int k, const adjoint_work *w, const int dim, int v,
                                  const int n)
{
    const real *unit = w->f.rec + (net->off_unit + k * dim) * LANES;
    real *unit_bar = w->rec_bar + (net->off_unit + k * dim) * LANES;
    vr m[BUNDLE], m_bar[BUNDLE], s[BUNDLE], ds[BUNDLE], u_bar[BUNDLE][3];
    EACH(n, m[i] = at(w->f.rec + (net->off_m + k) * LANES, v, i));
    v_s_diff(m, s, ds, n);
    EACH(n, m_bar[i] = v_fma(ds[i], at(w->rec_bar + (net->off_g + k) * LANES, v, i),
                             at(w->rec_bar + (net->off_m + k) * LANES, v, i)));
    XYZ(dim, EACH(n, u_bar[i][c] = at(unit_bar + c * LANES, v, i) / m[i]);
        EACH(n, m_bar[i] = v_fma(-u_bar[i][c], at(unit + c * LANES, v, i), m_bar[i])));
    XYZ(dim,
        EACH(n, put(unit_bar + c * LANES, v, i, v_fma(m_bar[i], at(unit + c * LANES, v, i), u_bar[i][c]))));
}

/* Rows of all source-only features (w->src_rows) and of the records' vectors, as in source_features. */
INLINE void source_rows(const globe_net *net, int n, const real *src, const adjoint_work *w, int n_v,
                        const int dim)
{
    size_t stride = (size_t)net->n_source;
    int n_global = net->s.n_gvector;
    real *out = w->src_rows;
    for (int i = 0; i < net->s.n_sscalar; i++, out += LANES) gather_row(src + i, stride, n, n_v, out);
    for (int k = 0; k < n_global; k++) global_vector_rows(net, k, w->f.rec);
    for (int k = n_global; k < net->n_vec; k++, out += LANES) {
        const real *comp = src + net->s.n_sscalar + (k - n_global) * dim;
        for (int c = 0; c < dim; c++)
            gather_row(comp + c, stride, n, n_v, unit_row(net, w->f.rec, k) + c * LANES);
        BUNDLES(n_v, source_vector_bundle, net, k, w->f.rec, dim)
        memcpy(out, w->f.rec + (net->off_g + k) * LANES, LANES * sizeof(real));
    }
    for (int a = 0; a < net->n_vec; a++)
        for (int b = a + 1 > n_global ? a + 1 : n_global; b < net->n_vec; b++, out += net->s.n_harm * LANES)
            BUNDLES(n_v, source_pair_bundle, net, a, b, w->f.rec, out, dim)
}

INLINE void records_adjoint(const globe_net *net, int n, const real *src, const adjoint_work *w, int n_v,
                            real *src_bar, real *grad, const int dim)
{
    int n_global = net->s.n_gvector, n_scalar = net->s.n_sscalar;
    const real *f_bar = w->src_bar;
    source_rows(net, n, src, w, n_v, dim);
    outer_product(w->rec_bar, net->src.n_out, w->src_rows, net->src.n_in, n, w->turned, grad + net->at_src_w);
    add_lanes(w->rec_bar, net->off_m, n, grad + net->at_src_b);
    transposed_product(&net->src_t, w->rec_bar, w->src_bar, n_v);
    for (int i = 0; i < n_scalar; i++, f_bar += LANES)
        for (int p = 0; p < n; p++) src_bar[p * net->n_source + i] = f_bar[p];
    for (int k = n_global; k < net->n_vec; k++, f_bar += LANES) {
        real *g_bar = w->rec_bar + (net->off_g + k) * LANES;
        for (int i = 0; i < n_v * FF_W; i++) g_bar[i] += f_bar[i];
    }
    for (int a = 0; a < net->n_vec; a++)
        for (int b = a + 1 > n_global ? a + 1 : n_global; b < net->n_vec; b++, f_bar += net->s.n_harm * LANES)
            BUNDLES(n_v, source_pair_adjoint, net, a, b, w, f_bar, dim)
    for (int k = 0; k < n_global; k++)
        for (int c = 0; c < 2 + dim; c++) {
            int row = c == 0 ? net->off_m + k : c == 1 ? net->off_g + k : net->off_unit + k * dim + c - 2;
            real *bar = w->rec_bar + row * LANES, scale = (real)ff_globe_gvec_scale(net->gvec[k * (2 + dim)]);
            for (int p = 0; p < n && c >= 2; p++) bar[p] *= scale;
            add_one_row(bar, n, grad + net->at_gvec + k * (2 + dim) + c);
        }
    for (int k = n_global; k < net->n_vec; k++) {
        BUNDLES(n_v, source_vector_adjoint, net, k, w, dim)
        for (int c = 0; c < dim; c++)
            for (int p = 0; p < n; p++)
                src_bar[p * net->n_source + n_scalar + (k - n_global) * dim + c] =
                    w->rec_bar[(net->off_unit + k * dim + c) * LANES + p];
    }
}

static void globe_records_adjoint(const globe_net *net, int n, const real *src, const real *rec_bar,
                                  real *src_bar, real *grad, real *scratch)
{
    adjoint_work w;
    const real *rec[LANES] = {NULL};
    if (n <= 0) return;
    (void)adjoint_rows(net, scratch, &w);
    int n_v = (n + FF_W - 1) / FF_W;
    for (int i = 0; i < n; i++) rec[i] = rec_bar + (size_t)i * (size_t)net->rec_len;
    records_to_rows(rec, n, net->rec_len, w.rec_bar, n_v);
    zero_lanes(w.rec_bar, net->rec_len, n, n_v);
    if (net->s.dim == 3)
        records_adjoint(net, n, src, &w, n_v, src_bar, grad, 3);
    else
        records_adjoint(net, n, src, &w, n_v, src_bar, grad, 2);
}
