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
    EACH(n) m[i] = v[i][0] * v[i][0];
    UNROLL for (int c = 1; c < dim; c++) EACH(n) m[i] = v_fma(v[i][c], v[i][c], m[i]);
    EACH(n) m[i] = v_max(v_set1(R_TINY), v_sqrt(m[i] + v_set1(net->eps2)));
    UNROLL for (int c = 0; c < dim; c++) EACH(n) v[i][c] = v[i][c] / m[i];
}

/* S(mm) P_k(cosine), k = 1 .. n_harm, into rows from out on; mm is used up. */
INLINE void harmonics(const globe_net *net, vr *mm, const vr *cosine, real *out, int v, const int n)
{
    vr p0[FF_V], p1[FF_V];
    if (net->s.n_harm == 0) return;
    v_s(mm, n);
    EACH(n) p0[i] = v_set1(1);
    EACH(n) p1[i] = cosine[i];
    for (int k = 1; k <= net->s.n_harm; k++, out += LANES) {
        if (k > 1) EACH(n)
            {
                vr p2 = v_fma(v_set1(net->leg_a[k]) * cosine[i], p1[i], v_set1(net->leg_b[k]) * p0[i]);
                p0[i] = p1[i];
                p1[i] = p2;
            }
        EACH(n) v_store(out + v + i * FF_W, mm[i] * p1[i]);
    }
}

INLINE void dot_rows(const real *a, const real *b, vr *dot, int v, const int dim, const int n)
{
    EACH(n) dot[i] = v_load(a + v + i * FF_W) * v_load(b + v + i * FF_W);
    UNROLL for (int c = 1; c < dim; c++) EACH(n)
    {
        size_t at = (size_t)(c * LANES + v + i * FF_W);
        dot[i] = v_fma(v_load(a + at), v_load(b + at), dot[i]);
    }
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
    vr u[FF_V][3], m[FF_V];
    UNROLL for (int c = 0; c < dim; c++) EACH(n) u[i][c] = v_load(unit + c * LANES + v + i * FF_W);
    unit_vectors(net, u, m, dim, n);
    UNROLL for (int c = 0; c < dim; c++) EACH(n) v_store(unit + c * LANES + v + i * FF_W, u[i][c]);
    EACH(n) v_store(rows + (net->off_m + k) * LANES + v + i * FF_W, m[i]);
    v_s(m, n);
    EACH(n) v_store(rows + (net->off_g + k) * LANES + v + i * FF_W, m[i]);
}

INLINE void source_pair_bundle(const globe_net *net, int a, int b, real *rows, real *out, const int dim,
                               int v, const int n)
{
    const real *ma = rows + (net->off_m + a) * LANES + v, *mb = rows + (net->off_m + b) * LANES + v;
    vr mm[FF_V], cosine[FF_V];
    dot_rows(unit_row(net, rows, a), unit_row(net, rows, b), cosine, v, dim, n);
    EACH(n) mm[i] = v_load(ma + i * FF_W) * v_load(mb + i * FF_W);
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
    vr r[FF_V][3], q[FF_V], nonzero[FF_V];
    EACH(n) q[i] = v_set1(net->eps2);
    EACH(n) nonzero[i] = v_set1(0);
    UNROLL for (int c = 0; c < dim; c++) EACH(n)
    {
        vr x = v_load(w->rhat + c * LANES + v + i * FF_W) / v_set1(net->length);
        r[i][c] = v_min(v_set1(R_FAR), v_max(v_set1(-R_FAR), x)); /* |r|^2 must stay finite */
        q[i] = v_fma(r[i][c], r[i][c], q[i]);
    }
    unit_vectors(net, r, m, dim, n);
    UNROLL for (int c = 0; c < dim; c++) EACH(n)
    {
        nonzero[i] = v_max(nonzero[i], v_abs(r[i][c]));
        v_store(w->rhat + c * LANES + v + i * FF_W, r[i][c]);
    }
    EACH(n) v_store(w->minus_apart + v + i * FF_W, __builtin_convertvector(nonzero[i] > v_set1(0), vr));
    EACH(n) nonzero[i] = v_set1(1) + q[i]; /* -expm1(-q) / (1 + q)^((dim - 1) / 2) */
    v_em1(q, n);
    EACH(n) q[i] = q[i] / (dim == 3 ? nonzero[i] : v_sqrt(nonzero[i]));
    EACH(n) v_store(w->scale + v + i * FF_W, v_load(w->scale + v + i * FF_W) * q[i]);
    EACH(n) q[i] = m[i];
    v_s(q, n);
    EACH(n) v_store(w->features + v + i * FF_W, q[i]);
}

/* Distances and per-pair features; rows m -> g (k^ . r^), unit -> g k^. */
INLINE void pair_bundle(const globe_net *net, const globe_work *w, const int dim, int v, const int n)
{
    vr m[FF_V], mm[FF_V], cosine[FF_V];
    distance_bundle(net, w, m, dim, v, n);
    for (int k = 0; k < net->n_vec; k++) {
        real *mk = w->rec + (net->off_m + k) * LANES + v, *unit = unit_row(net, w->rec, k);
        const real *gk = w->rec + (net->off_g + k) * LANES + v;
        dot_rows(unit, w->rhat, cosine, v, dim, n);
        EACH(n) mm[i] = v_load(mk + i * FF_W) * m[i];
        harmonics(net, mm, cosine, w->features + (1 + k * net->s.n_harm) * LANES, v, n);
        EACH(n) v_store(mk + i * FF_W, v_load(gk + i * FF_W) * cosine[i]);
        UNROLL for (int c = 0; c < dim; c++) EACH(n)
        {
            real *u = unit + c * LANES + v + i * FF_W;
            v_store(u, v_load(gk + i * FF_W) * v_load(u));
        }
    }
}

/* One vector field from its 1 + 2 n_vec coefficient rows: y_0 r^ + sum_k y_(1+2k) g k^ + y_(2+2k) g e_k with
 * e_k = (k^ . r^) r^ - k^, collected by r^ and k^; e_k counts as 0 where r^ = 0. */
INLINE void vector_field(const globe_net *net, const globe_work *w, const real *y, real *comp, const int dim,
                         int v, const int n)
{
    vr along[FF_V], out[FF_V][3];
    EACH(n) along[i] = v_load(y + v + i * FF_W);
    UNROLL for (int c = 0; c < dim; c++) EACH(n) out[i][c] = v_set1(0);
    for (int k = 0; k < net->n_vec; k++) {
        const real *unit = unit_row(net, w->rec, k) + v, *gk = w->rec + (net->off_m + k) * LANES + v;
        EACH(n)
        {
            vr y1 = v_load(y + (1 + 2 * k) * LANES + v + i * FF_W),
               y2 = v_load(y + (2 + 2 * k) * LANES + v + i * FF_W);
            vr across = v_fma(v_load(w->minus_apart + v + i * FF_W), y2, y1);
            along[i] = v_fma(v_load(gk + i * FF_W), y2, along[i]);
            UNROLL for (int c = 0; c < dim; c++) out[i][c] =
                v_fma(across, v_load(unit + c * LANES + i * FF_W), out[i][c]);
        }
    }
    UNROLL for (int c = 0; c < dim; c++) EACH(n)
    {
        vr sum = v_fma(along[i], v_load(w->rhat + c * LANES + v + i * FF_W), out[i][c]);
        v_store(comp + c * LANES + v + i * FF_W, v_load(w->scale + v + i * FF_W) * sum);
    }
}

INLINE void scalar_field(const globe_work *w, const real *y, real *comp, int v, const int n)
{
    EACH(n) v_store(comp + v + i * FF_W, v_load(w->scale + v + i * FF_W) * v_load(y + v + i * FF_W));
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
