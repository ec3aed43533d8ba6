/* globe_records, globe_tile: the GLOBE pair kernel for one precision and vector width.
 * Included by ff_globe_<set>.c, which defines FF_T, real, FF_W, R_TINY, R_FAR and includes its ff_vec_*.h.
 *
 * Work    lane = pair (source in globe_records): every feature, activation and result is a row of
 * FF_GLOBE_TILE lanes, and every row is worked through in bundles of up to FF_V vectors. Lanes past n repeat
 * pair n - 1. Network out[j][lane] = b_j + sum_k W[j][k] in[k][lane], FF_J outputs x FF_V vectors in
 * registers, weights broadcast from packed blocks (ff_globe_net.h); SiLU or Pade follows at once, while the
 * block is in the first cache. Order   over k ascending from the bias (or h0), for each lane alone: a pair's
 * bits depend on nothing else. Shapes  see ff_globe.h; scratch: the rows of struct globe_work
 * (ff_globe_rows_impl.h). */
#include <string.h>

#include "ff_globe_rows_impl.h"

#include "ff_globe_linear_impl.h"

/* ---- features ---- */

/* v [n][3] -> v / m(v) in place, and m(v) = sqrt(|v|^2 + eps^2), never zero. */
INLINE void unit_vectors(const globe_net *net, vr (*v)[3], vr *m, const int dim, const int n)
{
    EACH(n, m[i] = v[i][0] * v[i][0]);
    EACH(n, m[i] = v_fma(v[i][1], v[i][1], m[i]));
    if (dim == 3) EACH(n, m[i] = v_fma(v[i][2], v[i][2], m[i]));
    EACH(n, m[i] = v_max(v_set1(R_TINY), v_sqrt(m[i] + v_set1(net->eps2))));
    XYZ(dim, EACH(n, v[i][c] = v[i][c] / m[i]));
}

/* S(mm) P_k(cosine), k = 1 .. n_harm, into rows from out on; mm is used up. */
INLINE void harmonics(const globe_net *net, vr *mm, const vr *cosine, real *out, int v, const int n)
{
    vr p0[BUNDLE], p1[BUNDLE], p2[BUNDLE];
    if (net->s.n_harm == 0) return;
    v_s(mm, n);
    EACH(n, p0[i] = v_set1(1));
    EACH(n, p1[i] = cosine[i]);
    EACH(n, put(out, v, i, mm[i] * p1[i]));
    for (int k = 2; k <= net->s.n_harm; k++) {
        out += LANES;
        EACH(n, p2[i] = v_fma(v_set1(net->leg_a[k]) * cosine[i], p1[i], v_set1(net->leg_b[k]) * p0[i]));
        EACH(n, p0[i] = p1[i]);
        EACH(n, p1[i] = p2[i]);
        EACH(n, put(out, v, i, mm[i] * p1[i]));
    }
}

INLINE void dot_rows(const real *a, const real *b, vr *dot, int v, const int dim, const int n)
{
    EACH(n, dot[i] = at(a, v, i) * at(b, v, i));
    EACH(n, dot[i] = v_fma(at(a + LANES, v, i), at(b + LANES, v, i), dot[i]));
    if (dim == 3) EACH(n, dot[i] = v_fma(at(a + 2 * LANES, v, i), at(b + 2 * LANES, v, i), dot[i]));
}

/* ---- records ---- */

enum { CHUNK = 96 }; /* rows of source-only features at a time, >= FF_GLOBE_MAX_HARM */

/* Source-only features are made in chunks; each is added to h0 when full, so any number of them fits. */
typedef struct feature_feed {
    const globe_net *net;
    real *h0, *chunk;
    int n_rows, k0, n_v;
} feature_feed;

static void feed_flush(feature_feed *f)
{
    for (int jb = 0; jb * FF_GLOBE_BLOCK < f->net->src.n_out; jb++) {
        real *h = f->h0 + jb * FF_GLOBE_BLOCK * LANES;
        linear_block(&f->net->src, jb, f->k0, f->n_rows, h, f->chunk, h, f->n_v);
    }
    f->k0 += f->n_rows;
    f->n_rows = 0;
}

static real *feed_rows(feature_feed *f, int n)
{
    if (f->n_rows + n > CHUNK) feed_flush(f);
    real *rows = f->chunk + f->n_rows * LANES;
    f->n_rows += n;
    return rows;
}

static real *unit_row(const globe_net *net, real *rows, int k)
{
    return rows + (net->off_unit + k * net->s.dim) * LANES;
}

/* Rows m, g, unit of one global vector: constants. */
static void global_vector_rows(const globe_net *net, int k, real *rows)
{
    const real *gk = net->gvec + k * (2 + net->s.dim);
    for (int c = 0; c < 2 + net->s.dim; c++) {
        int row = c == 0 ? net->off_m + k : c == 1 ? net->off_g + k : net->off_unit + k * net->s.dim + c - 2;
        for (int i = 0; i < LANES; i++) rows[row * LANES + i] = gk[c];
    }
}

/* Rows m, g, unit of one source vector, whose components stand in its unit rows. */
INLINE void source_vector_bundle(const globe_net *net, int k, real *rows, const int dim, int v, const int n)
{
    real *unit = unit_row(net, rows, k);
    vr u[BUNDLE][3], m[BUNDLE];
    XYZ(dim, EACH(n, u[i][c] = at(unit + c * LANES, v, i)));
    unit_vectors(net, u, m, dim, n);
    XYZ(dim, EACH(n, put(unit + c * LANES, v, i, u[i][c])));
    EACH(n, put(rows + (net->off_m + k) * LANES, v, i, m[i]));
    v_s(m, n);
    EACH(n, put(rows + (net->off_g + k) * LANES, v, i, m[i]));
}

INLINE void source_pair_bundle(const globe_net *net, int a, int b, real *rows, real *out, const int dim,
                               int v, const int n)
{
    const real *ma = rows + (net->off_m + a) * LANES, *mb = rows + (net->off_m + b) * LANES;
    vr mm[BUNDLE], cosine[BUNDLE];
    dot_rows(unit_row(net, rows, a), unit_row(net, rows, b), cosine, v, dim, n);
    EACH(n, mm[i] = at(ma, v, i) * at(mb, v, i));
    harmonics(net, mm, cosine, out, v, n);
}

/* The rows of one group of n <= LANES records; see ff_globe_net.h for the order of features. */
INLINE void source_features(const globe_net *net, int n, const real *src, real *rows, feature_feed *feed,
                            const int dim)
{
    size_t stride = (size_t)net->n_source;
    int n_global = net->s.n_gvector, n_v = feed->n_v;
    for (int i = 0; i < net->s.n_sscalar; i++) gather_row(src + i, stride, n, n_v, feed_rows(feed, 1));
    for (int k = 0; k < n_global; k++) global_vector_rows(net, k, rows);
    for (int k = n_global; k < net->n_vec; k++) {
        const real *comp = src + net->s.n_sscalar + (k - n_global) * dim;
        for (int c = 0; c < dim; c++)
            gather_row(comp + c, stride, n, n_v, unit_row(net, rows, k) + c * LANES);
        BUNDLES(n_v, source_vector_bundle, net, k, rows, dim)
        memcpy(feed_rows(feed, 1), rows + (net->off_g + k) * LANES, LANES * sizeof(real));
    }
    for (int a = 0; a < net->n_vec; a++)
        for (int b = a + 1 > n_global ? a + 1 : n_global; b < net->n_vec; b++) {
            real *out = feed_rows(feed, net->s.n_harm);
            BUNDLES(n_v, source_pair_bundle, net, a, b, rows, out, dim)
        }
    feed_flush(feed);
}

static void globe_records(const globe_net *net, int64_t n, const real *src, real *rec)
{
    enum { MAX_ROWS = FF_GLOBE_MAX_HIDDEN + 5 * FF_GLOBE_MAX_VEC + FF_GLOBE_ROW_PAD };
    _Alignas(64) real rows[MAX_ROWS * LANES], chunk[CHUNK * LANES];
    memset(rows, 0, (size_t)net->rec_len * LANES * sizeof(real)); /* padding must not carry stale bits */
    memset(chunk, 0, sizeof chunk);
    for (int64_t i0 = 0; i0 < n; i0 += LANES) {
        int m = n - i0 < LANES ? (int)(n - i0) : LANES, n_v = (m + FF_W - 1) / FF_W;
        feature_feed feed = {net, rows, chunk, 0, 0, n_v};
        for (int j = 0; j < net->off_m; j++)
            for (int v = 0; v < n_v * FF_W; v += FF_W) v_store(rows + j * LANES + v, v_set1(net->src.b[j]));
        if (net->s.dim == 3)
            source_features(net, m, src + i0 * net->n_source, rows, &feed, 3);
        else
            source_features(net, m, src + i0 * net->n_source, rows, &feed, 2);
        rows_to_records(rows, m, net->rec_len, rec + i0 * net->rec_len);
    }
}

/* ---- pairs ---- */

/* r^, whether it is zero, envelope times strength, g(r); m: m(r). */
INLINE void distance_bundle(const globe_net *net, const globe_work *w, vr *m, const int dim, int v,
                            const int n)
{
    vr r[BUNDLE][3], q[BUNDLE], low[BUNDLE];
    XYZ(dim, EACH(n, r[i][c] = at(w->rhat + c * LANES, v, i) / v_set1(net->length)));
    XYZ(dim,
        EACH(n, r[i][c] = v_min(v_set1(R_FAR), v_max(v_set1(-R_FAR), r[i][c])))); /* |r|^2 stays finite */
    EACH(n, q[i] = v_set1(net->eps2));
    XYZ(dim, EACH(n, q[i] = v_fma(r[i][c], r[i][c], q[i])));
    unit_vectors(net, r, m, dim, n);
    XYZ(dim, EACH(n, put(w->rhat + c * LANES, v, i, r[i][c])));
    EACH(n, low[i] = v_set1(0));
    XYZ(dim, EACH(n, low[i] = v_max(low[i], v_abs(r[i][c]))));
    EACH(n, put(w->minus_apart, v, i, __builtin_convertvector(low[i] > v_set1(0), vr)));
    EACH(n, low[i] = v_set1(1) + q[i]); /* -expm1(-q) / (1 + q)^((dim - 1) / 2) */
    if (dim == 2) EACH(n, low[i] = v_sqrt(low[i]));
    v_em1(q, n);
    EACH(n, put(w->scale, v, i, at(w->scale, v, i) * (q[i] / low[i])));
    EACH(n, q[i] = m[i]);
    v_s(q, n);
    EACH(n, put(w->features, v, i, q[i]));
}

/* Distances, per-pair features and what the basis of vector fields needs. */
INLINE void pair_bundle(const globe_net *net, const globe_work *w, const int dim, int v, const int n)
{
    vr m[BUNDLE], mm[BUNDLE], cosine[BUNDLE], g[BUNDLE];
    distance_bundle(net, w, m, dim, v, n);
    for (int k = 0; k < net->n_vec; k++) {
        const real *mk = w->rec + (net->off_m + k) * LANES, *unit = unit_row(net, w->rec, k);
        real *basis = w->basis + k * dim * LANES;
        dot_rows(unit, w->rhat, cosine, v, dim, n);
        EACH(n, mm[i] = at(mk, v, i) * m[i]);
        harmonics(net, mm, cosine, w->features + (1 + k * net->s.n_harm) * LANES, v, n);
        EACH(n, g[i] = at(w->rec + (net->off_g + k) * LANES, v, i));
        EACH(n, put(w->apart + k * LANES, v, i, g[i] * cosine[i]));
        XYZ(dim, EACH(n, put(basis + c * LANES, v, i, g[i] * at(unit + c * LANES, v, i))));
    }
}

/* One vector field from its 1 + 2 n_vec coefficient rows: y_0 r^ + sum_k y_(1+2k) g k^ + y_(2+2k) g e_k with
 * e_k = (k^ . r^) r^ - k^, collected by r^ and k^; e_k counts as 0 where r^ = 0. */
INLINE void vector_field(const globe_net *net, const globe_work *w, const real *y, real *comp, const int dim,
                         int v, const int n)
{
    vr along[BUNDLE], across[BUNDLE], sum[BUNDLE][3];
    EACH(n, along[i] = at(y, v, i));
    XYZ(dim, EACH(n, sum[i][c] = v_set1(0)));
    for (int k = 0; k < net->n_vec; k++) {
        const real *basis = w->basis + k * dim * LANES, *gk = w->apart + k * LANES;
        const real *y1 = y + (1 + 2 * k) * LANES, *y2 = y1 + LANES;
        EACH(n, along[i] = v_fma(at(gk, v, i), at(y2, v, i), along[i]));
        EACH(n, across[i] = v_fma(at(w->minus_apart, v, i), at(y2, v, i), at(y1, v, i)));
        XYZ(dim, EACH(n, sum[i][c] = v_fma(across[i], at(basis + c * LANES, v, i), sum[i][c])));
    }
    XYZ(dim, EACH(n, sum[i][c] = v_fma(along[i], at(w->rhat + c * LANES, v, i), sum[i][c])));
    XYZ(dim, EACH(n, put(comp + c * LANES, v, i, at(w->scale, v, i) * sum[i][c])));
}

INLINE void scalar_field(const globe_work *w, const real *y, real *comp, int v, const int n)
{
    EACH(n, put(comp, v, i, at(w->scale, v, i) * at(y, v, i)));
}

/* Component rows of all fields from the coefficient rows y. */
INLINE void fields(const globe_net *net, const globe_work *w, const real *y, int n_v, const int dim)
{
    real *comp = w->comp;
    for (int f = 0; f < net->s.n_field; f++) {
        if (net->s.field_rank[f] == 0) {
            BUNDLES(n_v, scalar_field, w, y, comp)
            comp += LANES;
            y += LANES;
        } else {
            BUNDLES(n_v, vector_field, net, w, y, comp, dim)
            comp += dim * LANES;
            y += (1 + 2 * net->n_vec) * LANES;
        }
    }
}

static void globe_tile(const globe_net *net, int n, const real *dx, const real *const *rec,
                       const real *strength, real *out, real *scratch)
{
    if (n <= 0) return;
    globe_work w = work_of(net, scratch);
    int n_v = (n + FF_W - 1) / FF_W, dim = net->s.dim;
    int padded = ff_globe_round_up(net->n_comp, FF_GLOBE_ROW_PAD);
    records_to_rows(rec, n, net->rec_len, w.rec, n_v);
    for (int c = 0; c < dim; c++) gather_row(dx + c, (size_t)dim, n, n_v, w.rhat + c * LANES);
    gather_row(strength, 1, n, n_v, w.scale);
    if (dim == 3)
        BUNDLES(n_v, pair_bundle, net, &w, 3)
    else
        BUNDLES(n_v, pair_bundle, net, &w, 2)
    const real *y = network(net, &w, n_v);
    if (dim == 3)
        fields(net, &w, y, n_v, 3);
    else
        fields(net, &w, y, n_v, 2);
    for (int c = net->n_comp; c < padded; c++) memset(w.comp + c * LANES, 0, LANES * sizeof(real));
    rows_to_records(w.comp, n, padded, w.aos);
    for (int i = 0; i < n; i++)
        memcpy(out + (size_t)i * (size_t)net->n_comp, w.aos + i * padded, (size_t)net->n_comp * sizeof(real));
}
