/* globe_tile_adjoint, globe_records_adjoint: the adjoint of the GLOBE pair kernel for one precision and vector
 * width. Included after ff_globe_impl.h, whose rows and bundles it uses. Mathematics: docs/theory.md, "Adjoint".
 *
 * Work    lane = pair (source in globe_records_adjoint). The tile is evaluated once more with activations and
 * derivatives of SiLU kept in rows, then walked backward: fields, Pade, layers (products with transposed weights,
 * packed as the forward's), features, distance. Nothing of it outlives the call.
 * Weights grad[j][k] += sum over lanes of cotangent[j] input[k]: inputs are turned to [lane][k], so that vectors run
 * over k and each sum runs over the lanes one by one: the order of the pairs, whatever the vector width.
 * Padding lanes past n carry zero cotangents and are left out of the sums over lanes; padding rows are zero. */

#include "ff_globe_adjoint_net_impl.h"
#include "ff_globe_layout.h"

/* ---- fields ---- */

INLINE void scalar_adjoint(const adjoint_work *w, const real *y, real *y_bar, const real *out_bar, int v,
                           const int n)
{
    vr c[BUNDLE];
    EACH(n, c[i] = at(out_bar, v, i));
    EACH(n, put(y_bar, v, i, at(w->f.scale, v, i) * c[i]));
    EACH(n, put(w->scale_bar, v, i, v_fma(at(y, v, i), c[i], at(w->scale_bar, v, i))));
}

/* vector_field backward; o: cotangent of its components, o.r^ and o.(g k^) are what everything is made of. */
INLINE void vector_adjoint(const globe_net *net, const adjoint_work *w, const real *y, real *y_bar,
                           const real *out_bar, const int dim, int v, const int n)
{
    vr o[BUNDLE][3], along[BUNDLE], along_bar[BUNDLE], across[BUNDLE], across_bar[BUNDLE], s[BUNDLE],
        t[BUNDLE];
    EACH(n, along[i] = at(y, v, i));
    EACH(n, along_bar[i] = t[i] = v_set1(0));
    XYZ(dim, EACH(n, o[i][c] = at(out_bar + c * LANES, v, i)));
    XYZ(dim, EACH(n, along_bar[i] = v_fma(o[i][c], at(w->f.rhat + c * LANES, v, i), along_bar[i])));
    EACH(n, s[i] = at(w->f.scale, v, i));
    EACH(n, put(y_bar, v, i, s[i] * along_bar[i]));
    for (int k = 0; k < net->n_vec; k++) {
        const real *basis = w->f.basis + k * dim * LANES, *gk = w->f.apart + k * LANES;
        real *basis_bar = w->basis_bar + k * dim * LANES, *gk_bar = w->apart_bar + k * LANES;
        const real *y1 = y + (1 + 2 * k) * LANES, *y2 = y1 + LANES;
        real *y1_bar = y_bar + (1 + 2 * k) * LANES;
        EACH(n, across_bar[i] = v_set1(0));
        XYZ(dim, EACH(n, across_bar[i] = v_fma(o[i][c], at(basis + c * LANES, v, i), across_bar[i])));
        EACH(n, along[i] = v_fma(at(gk, v, i), at(y2, v, i), along[i]));
        EACH(n, across[i] = v_fma(at(w->f.minus_apart, v, i), at(y2, v, i), at(y1, v, i)));
        EACH(n, t[i] = v_fma(across[i], across_bar[i], t[i]));
        EACH(n, put(y1_bar, v, i, s[i] * across_bar[i]));
        EACH(n, across_bar[i] = across_bar[i] * at(w->f.minus_apart, v, i));
        EACH(n, put(y1_bar + LANES, v, i, s[i] * v_fma(at(gk, v, i), along_bar[i], across_bar[i])));
        EACH(n, put(gk_bar, v, i, v_fma(s[i] * at(y2, v, i), along_bar[i], at(gk_bar, v, i))));
        EACH(n, across[i] = across[i] * s[i]);
        XYZ(dim, EACH(n, put(basis_bar + c * LANES, v, i,
                             v_fma(across[i], o[i][c], at(basis_bar + c * LANES, v, i)))));
    }
    EACH(n, t[i] = v_fma(along[i], along_bar[i], t[i]));
    EACH(n, put(w->scale_bar, v, i, at(w->scale_bar, v, i) + t[i]));
    EACH(n, along[i] = along[i] * s[i]);
    XYZ(dim, EACH(n, put(w->rhat_bar + c * LANES, v, i,
                         v_fma(along[i], o[i][c], at(w->rhat_bar + c * LANES, v, i)))));
}

INLINE void fields_adjoint(const globe_net *net, const adjoint_work *w, int n_v, const int dim)
{
    const real *out_bar = w->out_bar, *y = w->coef;
    real *y_bar = w->coef_bar;
    for (int f = 0; f < net->s.n_field; f++) {
        if (net->s.field_rank[f] == 0) {
            BUNDLES(n_v, scalar_adjoint, w, y, y_bar, out_bar)
            out_bar += LANES, y += LANES, y_bar += LANES;
        } else {
            BUNDLES(n_v, vector_adjoint, net, w, y, y_bar, out_bar, dim)
            out_bar += dim * LANES;
            y += (1 + 2 * net->n_vec) * LANES, y_bar += (1 + 2 * net->n_vec) * LANES;
        }
    }
}

/* ---- features ---- */

/* Cotangents of S(mm) P_k(cosine), k = 1 .. n_harm (rows f_bar): those of mm (overwritten) and of the cosine. */
INLINE void harmonics_adjoint(const globe_net *net, vr *mm, const vr *cosine, vr *cosine_bar,
                              const real *f_bar, int v, const int n)
{
    vr p0[BUNDLE], p1[BUNDLE], p2[BUNDLE], d0[BUNDLE], d1[BUNDLE], s[BUNDLE], ds[BUNDLE], s_bar[BUNDLE];
    EACH(n, cosine_bar[i] = v_set1(0));
    if (net->s.n_harm == 0) {
        EACH(n, mm[i] = v_set1(0));
        return;
    }
    v_s_diff(mm, s, ds, n);
    EACH(n, p0[i] = d1[i] = v_set1(1));
    EACH(n, d0[i] = v_set1(0));
    EACH(n, p1[i] = cosine[i]);
    EACH(n, cosine_bar[i] = at(f_bar, v, i));
    EACH(n, s_bar[i] = cosine_bar[i] * p1[i]);
    for (int k = 2; k <= net->s.n_harm; k++) { /* P'_k = a_k (P_(k-1) + c P'_(k-1)) + b_k P'_(k-2) */
        vr a = v_set1(net->leg_a[k]), b = v_set1(net->leg_b[k]);
        f_bar += LANES;
        EACH(n, d0[i] = v_fma(a, v_fma(cosine[i], d1[i], p1[i]), b * d0[i]));
        EACH(n, p2[i] = v_fma(a * cosine[i], p1[i], b * p0[i]));
        EACH(n, p0[i] = p1[i]);
        EACH(n, p1[i] = p2[i]);
        EACH(n, p2[i] = d1[i]);
        EACH(n, d1[i] = d0[i]);
        EACH(n, d0[i] = p2[i]);
        EACH(n, p2[i] = at(f_bar, v, i));
        EACH(n, s_bar[i] = v_fma(p2[i], p1[i], s_bar[i]));
        EACH(n, cosine_bar[i] = v_fma(p2[i], d1[i], cosine_bar[i]));
    }
    EACH(n, cosine_bar[i] = cosine_bar[i] * s[i]);
    EACH(n, mm[i] = ds[i] * s_bar[i]);
}

/* r, envelope and length: from cotangents of r^, m(r) and the scale to those of strength, x_t - x_s and L. */
INLINE void distance_adjoint(const globe_net *net, const adjoint_work *w, vr (*rhat_bar)[3], vr *m_bar,
                             const int dim, int v, const int n)
{
    vr r[BUNDLE][3], q[BUNDLE], e[BUNDLE], low[BUNDLE], env[BUNDLE], m[BUNDLE], sum[BUNDLE];
    XYZ(dim, EACH(n, r[i][c] = at(w->dx + c * LANES, v, i) / v_set1(net->length)));
    XYZ(dim, EACH(n, r[i][c] = v_min(v_set1(R_FAR), v_max(v_set1(-R_FAR), r[i][c]))));
    EACH(n, q[i] = v_set1(net->eps2));
    XYZ(dim, EACH(n, q[i] = v_fma(r[i][c], r[i][c], q[i])));
    EACH(n, e[i] = q[i]);
    v_em1(e, n);
    EACH(n, q[i] = v_set1(1) + q[i]);
    EACH(n, low[i] = q[i]);
    if (dim == 2) EACH(n, low[i] = v_sqrt(low[i]));
    EACH(n, env[i] = e[i] / low[i]);
    EACH(n, sum[i] = at(w->scale_bar, v, i));
    EACH(n, put(w->scale_bar, v, i, sum[i] * env[i])); /* of the strength from here on */
    EACH(n, sum[i] = sum[i] * at(w->strength, v, i));
    EACH(n, q[i] = (v_set1(1) - e[i]) / low[i] - v_set1(dim == 2 ? (real)0.5 : 1) * env[i] / q[i]);
    EACH(n, q[i] = v_set1(2) * sum[i] * q[i]);
    EACH(n, m[i] = at(w->m, v, i));
    EACH(n, sum[i] = v_set1(0));
    XYZ(dim, EACH(n, rhat_bar[i][c] = rhat_bar[i][c] / m[i]));
    XYZ(dim, EACH(n, sum[i] = v_fma(rhat_bar[i][c], at(w->f.rhat + c * LANES, v, i), sum[i])));
    EACH(n, m_bar[i] = m_bar[i] - sum[i]);
    EACH(n, sum[i] = v_set1(0));
    XYZ(dim, EACH(n, rhat_bar[i][c] = v_fma(m_bar[i], at(w->f.rhat + c * LANES, v, i), rhat_bar[i][c])));
    XYZ(dim, EACH(n, rhat_bar[i][c] = v_fma(q[i], r[i][c], rhat_bar[i][c]) / v_set1(net->length)));
    XYZ(dim, EACH(n, sum[i] = v_fma(rhat_bar[i][c], r[i][c], sum[i])));
    XYZ(dim, EACH(n, put(w->dx_bar + c * LANES, v, i, rhat_bar[i][c])));
    EACH(n, put(w->length_bar, v, i, -sum[i]));
}

/* pair_bundle backward: w->x_bar holds cotangents of the features. */
INLINE void pair_adjoint(const globe_net *net, const adjoint_work *w, const int dim, int v, const int n)
{
    vr m[BUNDLE], m_bar[BUNDLE], rhat_bar[BUNDLE][3], s[BUNDLE], mm[BUNDLE], mk[BUNDLE], cosine[BUNDLE],
        c_bar[BUNDLE], g[BUNDLE], g_bar[BUNDLE], u_bar[BUNDLE], u[BUNDLE];
    EACH(n, m[i] = at(w->m, v, i));
    v_s_diff(m, s, m_bar, n);
    EACH(n, m_bar[i] = m_bar[i] * at(w->x_bar, v, i));
    XYZ(dim, EACH(n, rhat_bar[i][c] = at(w->rhat_bar + c * LANES, v, i)));
    for (int k = 0; k < net->n_vec; k++) {
        const real *unit = w->f.rec + (net->off_unit + k * dim) * LANES,
                   *basis = w->basis_bar + k * dim * LANES;
        real *unit_bar = w->rec_bar + (net->off_unit + k * dim) * LANES;
        dot_rows(unit, w->f.rhat, cosine, v, dim, n);
        EACH(n, mk[i] = at(w->f.rec + (net->off_m + k) * LANES, v, i));
        EACH(n, mm[i] = mk[i] * m[i]);
        harmonics_adjoint(net, mm, cosine, c_bar, w->x_bar + (1 + k * net->s.n_harm) * LANES, v, n);
        EACH(n, put(w->rec_bar + (net->off_m + k) * LANES, v, i, mm[i] * m[i]));
        EACH(n, m_bar[i] = v_fma(mm[i], mk[i], m_bar[i]));
        EACH(n, g[i] = at(w->f.rec + (net->off_g + k) * LANES, v, i));
        EACH(n, g_bar[i] = at(w->apart_bar + k * LANES, v, i));
        EACH(n, c_bar[i] = v_fma(g_bar[i], g[i], c_bar[i]));
        EACH(n, g_bar[i] = g_bar[i] * cosine[i]);
        XYZ(dim, EACH(n, u_bar[i] = at(basis + c * LANES, v, i)); EACH(n, u[i] = at(unit + c * LANES, v, i));
            EACH(n, g_bar[i] = v_fma(u_bar[i], u[i], g_bar[i]));
            EACH(n, rhat_bar[i][c] = v_fma(c_bar[i], u[i], rhat_bar[i][c]));
            EACH(n, put(unit_bar + c * LANES, v, i,
                        v_fma(u_bar[i], g[i], c_bar[i] * at(w->f.rhat + c * LANES, v, i)))));
        EACH(n, put(w->rec_bar + (net->off_g + k) * LANES, v, i, g_bar[i]));
    }
    distance_adjoint(net, w, rhat_bar, m_bar, dim, v, n);
}

INLINE void magnitude_bundle(const globe_net *net, const adjoint_work *w, const int dim, int v, const int n)
{
    vr m[BUNDLE], r[BUNDLE];
    EACH(n, m[i] = v_set1(0));
    XYZ(dim, EACH(n, r[i] = at(w->dx + c * LANES, v, i) / v_set1(net->length));
        EACH(n, r[i] = v_min(v_set1(R_FAR), v_max(v_set1(-R_FAR), r[i])));
        EACH(n, m[i] = v_fma(r[i], r[i], m[i])));
    EACH(n, put(w->m, v, i, v_max(v_set1(R_TINY), v_sqrt(m[i] + v_set1(net->eps2)))));
}

/* One precision's tile, dim a constant. */
INLINE void tile_adjoint(const globe_net *net, const adjoint_work *w, int n, int n_v, real *grad,
                         const int dim)
{
    BUNDLES(n_v, magnitude_bundle, net, w, dim)
    BUNDLES(n_v, pair_bundle, net, &w->f, dim)
    network_keep(net, w, n_v);
    zero_rows(w->apart_bar, net->n_vec);
    zero_rows(w->basis_bar, net->n_vec * dim);
    zero_rows(w->rhat_bar, dim);
    zero_rows(w->scale_bar, 1);
    fields_adjoint(net, w, n_v, dim);
    int padded = ff_globe_round_up(net->pair[net->s.n_hidden].n_out, FF_GLOBE_BLOCK);
    int n_out = (net->s.mlp ? 1 : 2) * net->n_coef;
    if (net->s.mlp)
        BUNDLES(n_v, tanh_adjoint_bundle, w->raw, w->coef, w->coef_bar, net->n_coef)
    else
        BUNDLES(n_v, pade_adjoint_bundle, net->beta, w->raw, w->coef, w->coef_bar, net->n_coef)
    zero_rows(w->raw + n_out * LANES, padded - n_out);
    network_adjoint(net, w, n, n_v, grad);
    BUNDLES(n_v, pair_adjoint, net, w, dim)
    int used = net->off_unit + net->n_vec * dim;
    zero_rows(w->rec_bar + used * LANES, net->rec_len - used);
}

static void globe_tile_adjoint(const globe_net *net, int n, const real *dx, const real *const *rec,
                               const real *strength, const real *out_bar, real *rec_bar, real *strength_bar,
                               real *dx_bar, real *grad, real *scratch)
{
    adjoint_work w;
    if (n <= 0) return;
    (void)adjoint_rows(net, scratch, &w);
    int n_v = (n + FF_W - 1) / FF_W, dim = net->s.dim;
    records_to_rows(rec, n, net->rec_len, w.f.rec, n_v);
    for (int c = 0; c < dim; c++) {
        gather_row(dx + c, (size_t)dim, n, n_v, w.dx + c * LANES);
        memcpy(w.f.rhat + c * LANES, w.dx + c * LANES, LANES * sizeof(real));
    }
    gather_row(strength, 1, n, n_v, w.strength);
    memcpy(w.f.scale, w.strength, LANES * sizeof(real));
    for (int c = 0; c < net->n_comp; c++)
        gather_row(out_bar + c, (size_t)net->n_comp, n, n_v, w.out_bar + c * LANES);
    zero_lanes(w.out_bar, net->n_comp, n, n_v);
    if (dim == 3)
        tile_adjoint(net, &w, n, n_v, grad, 3);
    else
        tile_adjoint(net, &w, n, n_v, grad, 2);
    add_one_row(w.length_bar, n, grad + net->at_length);
    rows_to_records(w.rec_bar, n, net->rec_len, rec_bar);
    for (int i = 0; i < n; i++) {
        strength_bar[i] = w.scale_bar[i];
        for (int c = 0; c < dim; c++) dx_bar[i * dim + c] = w.dx_bar[c * LANES + i];
    }
}

#include "ff_globe_adjoint_src_impl.h"
