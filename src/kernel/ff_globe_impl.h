/* globe_records, globe_tile: the GLOBE pair kernel for one precision and vector width.
 * Included by ff_globe_<set>.c, which defines FF_T, real, FF_W, R_TINY, R_FAR and includes its ff_vec_*.h.
 *
 * Work    lane = pair (source in globe_records): every feature, activation and result is a row of
 * FF_GLOBE_TILE lanes, and every row is worked through vector by vector. Lanes past n repeat pair n - 1.
 * Network out[j][lane] = b_j + sum_k W[j][k] in[k][lane], FF_J outputs x FF_V vectors in registers, weights
 * broadcast from packed blocks (ff_globe_net.h); SiLU or Pade follows at once, while the block is in the
 * first cache. Order   over k ascending from the bias (or h0), for each lane alone: a pair's bits depend on
 * nothing else. Shapes  see ff_globe.h; scratch: the rows of struct globe_work, one after the other. */
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

typedef FF_T(ff_globe_net) globe_net;
typedef FF_T(ff_globe_linear) globe_linear;

enum { LANES = FF_GLOBE_TILE, CHUNK = 96 }; /* rows a chunk of source-only features, >= FF_GLOBE_MAX_HARM */
_Static_assert(FF_GLOBE_TILE % 16 == 0 && FF_GLOBE_ROW_PAD % FF_W == 0, "rows are whole vectors");

typedef struct globe_work {
    real *rec;         /* [rec_len]: the record, then m and unit rows turned into g k^.r^ and g k^ */
    real *rhat;        /* [dim] */
    real *scale;       /* [1]: strength, then times the envelope */
    real *minus_apart; /* [1]: 0 where r^ is exactly zero, else -1 */
    real *features;    /* [per-pair features] */
    real *act[2];      /* [act_rows] each */
    real *comp;        /* [n_comp padded] */
    real *aos;         /* [LANES][n_comp padded] */
} globe_work;

static globe_work work_of(const globe_net *net, real *scratch)
{
    globe_work w;
    w.rec = scratch;
    w.rhat = w.rec + net->rec_len * LANES;
    w.scale = w.rhat + net->s.dim * LANES;
    w.minus_apart = w.scale + LANES;
    w.features = w.minus_apart + LANES;
    w.act[0] = w.features + net->pair[0].n_in * LANES;
    w.act[1] = w.act[0] + net->act_rows * LANES;
    w.comp = w.act[1] + net->act_rows * LANES;
    w.aos = w.comp + ff_globe_round_up(net->n_comp, FF_GLOBE_ROW_PAD) * LANES;
    return w;
}

/* ---- linear layers ---- */

/* y[j][v] = (b[j] or init[j][v]) + sum_k w[k][j] x[k][v] for n_j <= FF_J outputs and n_v <= FF_V vectors,
 * both constants of the caller; w [n_k][FF_GLOBE_BLOCK]. y may be init. */
INLINE void register_block(const real *w, const real *b, const real *init, int n_k, const real *x, real *y,
                           const int n_v)
{
    vr acc[FF_J][FF_V];
    UNROLL for (int j = 0; j < FF_J; j++) UNROLL for (int v = 0; v < n_v; v++) acc[j][v] =
        init != NULL ? v_load(init + j * LANES + v * FF_W) : v_set1(b[j]);
    for (int k = 0; k < n_k; k++, w += FF_GLOBE_BLOCK, x += LANES) {
        vr in[FF_V];
        UNROLL for (int v = 0; v < n_v; v++) in[v] = v_load(x + v * FF_W);
        UNROLL for (int j = 0; j < FF_J; j++)
        {
            vr wj = v_set1(w[j]);
            UNROLL for (int v = 0; v < n_v; v++) acc[j][v] = v_fma(wj, in[v], acc[j][v]);
        }
    }
    UNROLL for (int j = 0; j < FF_J; j++) UNROLL for (int v = 0; v < n_v; v++)
        v_store(y + j * LANES + v * FF_W, acc[j][v]);
}

/* Outputs FF_GLOBE_BLOCK * jb .. of a layer from inputs k0 .. k0 + n_k - 1 (x: row k0), n_v vectors of lanes.
 */
static void linear_block(const globe_linear *lin, int jb, int k0, int n_k, const real *init, const real *x,
                         real *y, int n_v)
{
    const real *w = lin->w + ((size_t)jb * (size_t)lin->n_in + (size_t)k0) * FF_GLOBE_BLOCK;
    const real *b = init == NULL ? lin->b + jb * FF_GLOBE_BLOCK : NULL;
    for (int j = 0; j < FF_GLOBE_BLOCK; j += FF_J)
        for (int v = 0; v < n_v; v += FF_V) {
            const real *bj = b == NULL ? NULL : b + j;
            const real *ij = init == NULL ? NULL : init + j * LANES + v * FF_W;
            const real *xv = x + v * FF_W;
            real *yv = y + j * LANES + v * FF_W;
            if (n_v - v >= FF_V)
                register_block(w + j, bj, ij, n_k, xv, yv, FF_V);
            else if (n_v - v == 2)
                register_block(w + j, bj, ij, n_k, xv, yv, FF_V < 2 ? FF_V : 2);
            else
                register_block(w + j, bj, ij, n_k, xv, yv, 1);
        }
}

static void silu_block(real *y, int n_v)
{
    for (int j = 0; j < FF_GLOBE_BLOCK; j++, y += LANES)
        for (int v = 0; v < n_v; v++) v_store(y + v * FF_W, v_silu2(v_load(y + v * FF_W)));
}

/* sign(a) a^2 / (1 + d^2 + beta a^2); raw: rows a_0 d_0 a_1 d_1 ..., y: half as many. */
static void pade_block(real beta, const real *raw, real *y, int n_v)
{
    for (int j = 0; j < FF_GLOBE_BLOCK / 2; j++)
        for (int v = 0; v < n_v; v++) {
            vr a = v_load(raw + 2 * j * LANES + v * FF_W), d = v_load(raw + (2 * j + 1) * LANES + v * FF_W);
            vr low = v_fma(v_set1(beta), a * a, v_fma(d, d, v_set1(1)));
            v_store(y + j * LANES + v * FF_W, a * v_abs(a) / low);
        }
}

static void tanh_block(const real *raw, real *y, int n_v)
{
    for (int j = 0; j < FF_GLOBE_BLOCK; j++)
        for (int v = 0; v < n_v; v++)
            v_store(y + j * LANES + v * FF_W, v_tanh(v_load(raw + j * LANES + v * FF_W)));
}

/* Coefficient rows from per-pair features and h0 (the record's first rows); the two activation buffers take
 * turns. */
static const real *network(const globe_net *net, const globe_work *work, int n_v)
{
    _Alignas(64) real raw[FF_GLOBE_BLOCK * LANES];
    int n_hidden = net->s.n_hidden, n_y = net->s.mlp ? FF_GLOBE_BLOCK : FF_GLOBE_BLOCK / 2;
    const real *x = work->features;
    for (int l = 0; l < n_hidden; l++) {
        const globe_linear *lin = &net->pair[l];
        for (int jb = 0; jb * FF_GLOBE_BLOCK < lin->n_out; jb++) {
            size_t row = (size_t)jb * FF_GLOBE_BLOCK * LANES;
            real *y = work->act[l % 2] + row;
            linear_block(lin, jb, 0, lin->n_in, l == 0 ? work->rec + row : NULL, x, y, n_v);
            silu_block(y, n_v);
        }
        x = work->act[l % 2];
    }
    const globe_linear *lin = &net->pair[n_hidden];
    real *coef = work->act[n_hidden % 2];
    for (int jb = 0; jb * FF_GLOBE_BLOCK < lin->n_out; jb++) {
        linear_block(lin, jb, 0, lin->n_in, NULL, x, raw, n_v);
        if (net->s.mlp)
            tanh_block(raw, coef + jb * n_y * LANES, n_v);
        else
            pade_block(net->beta, raw, coef + jb * n_y * LANES, n_v);
    }
    return coef;
}

/* ---- between arrays of structures and rows ---- */

/* row[lane] = src[lane][0] for n lanes, the last one repeated. */
static void gather_row(const real *src, size_t stride, int n, int n_v, real *row)
{
    for (int i = 0; i < n_v * FF_W; i++) row[i] = src[(size_t)(i < n ? i : n - 1) * stride];
}

/* rows[c][lane] = rec[lane][c], len a multiple of FF_GLOBE_ROW_PAD. */
static void records_to_rows(const real *const *rec, int n, int len, real *rows, int n_v)
{
    for (int v = 0; v < n_v; v++)
        for (int c = 0; c < len; c += FF_W) {
            vr t[FF_W];
            UNROLL for (int i = 0; i < FF_W; i++)
            {
                int lane = v * FF_W + i;
                t[i] = v_load(rec[lane < n ? lane : n - 1] + c);
            }
            v_transpose(t);
            UNROLL for (int i = 0; i < FF_W; i++) v_store(rows + (c + i) * LANES + v * FF_W, t[i]);
        }
}

/* rec[lane][c] = rows[c][lane] for n lanes; rec [n][len]. */
static void rows_to_records(const real *rows, int n, int len, real *rec)
{
    for (int i0 = 0; i0 < n; i0 += FF_W)
        for (int c = 0; c < len; c += FF_W) {
            vr t[FF_W];
            UNROLL for (int i = 0; i < FF_W; i++) t[i] = v_load(rows + (c + i) * LANES + i0);
            v_transpose(t);
            for (int i = 0; i < FF_W && i0 + i < n; i++)
                v_store(rec + (size_t)(i0 + i) * (size_t)len + c, t[i]);
        }
}

/* ---- features ---- */

/* m(v) = sqrt(|v|^2 + eps^2), never zero, and v / m(v) in place. */
INLINE vr unit_vector(const globe_net *net, vr *v)
{
    vr m2 = v[0] * v[0];
    for (int c = 1; c < net->s.dim; c++) m2 = v_fma(v[c], v[c], m2);
    vr m = v_max(v_set1(R_TINY), v_sqrt(m2 + v_set1(net->eps2)));
    for (int c = 0; c < net->s.dim; c++) v[c] = v[c] / m;
    return m;
}

/* S(mm) P_n(cosine), n = 1 .. n_harm, into rows from out on. */
INLINE void harmonics(const globe_net *net, vr mm, vr cosine, real *out)
{
    if (net->s.n_harm == 0) return;
    vr s = v_s(mm), p0 = v_set1(1), p1 = cosine;
    v_store(out, s * p1);
    for (int n = 2; n <= net->s.n_harm; n++) {
        vr p2 = v_fma(v_set1(net->leg_a[n]) * cosine, p1, v_set1(net->leg_b[n]) * p0);
        p0 = p1;
        p1 = p2;
        v_store(out + (n - 1) * LANES, s * p1);
    }
}

INLINE vr dot_rows(const real *a, const real *b, int dim)
{
    vr c = v_load(a) * v_load(b);
    for (int i = 1; i < dim; i++) c = v_fma(v_load(a + i * LANES), v_load(b + i * LANES), c);
    return c;
}

/* ---- records ---- */

/* Source-only features are made in chunks; each chunk is added to h0 when full, so any number of them fits.
 */
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

/* Rows m, g, unit of global vectors (constants) and source vectors. */
static void vector_rows(const globe_net *net, int n, const real *src, real *rows, int n_v)
{
    int dim = net->s.dim;
    for (int k = 0; k < net->n_vec; k++) {
        real *m = rows + (net->off_m + k) * LANES, *g = rows + (net->off_g + k) * LANES;
        real *unit = rows + (net->off_unit + k * dim) * LANES;
        bool global = k < net->s.n_gvector;
        const real *gk = net->gvec + k * (2 + dim);
        for (int c = 0; c < dim && !global; c++)
            gather_row(src + net->s.n_sscalar + (k - net->s.n_gvector) * dim + c, (size_t)net->n_source, n,
                       n_v, unit + c * LANES);
        for (int v = 0; v < n_v * FF_W; v += FF_W) {
            vr u[3] = {v_set1(0), v_set1(0), v_set1(0)}, mk;
            for (int c = 0; c < dim; c++) u[c] = global ? v_set1(gk[2 + c]) : v_load(unit + c * LANES + v);
            mk = global ? v_set1(gk[0]) : unit_vector(net, u);
            v_store(m + v, mk);
            v_store(g + v, global ? v_set1(gk[1]) : v_s(mk));
            for (int c = 0; c < dim; c++) v_store(unit + c * LANES + v, u[c]);
        }
    }
}

/* The rows of one group of n <= LANES records; see ff_globe_net.h for the order of features. */
static void source_features(const globe_net *net, int n, const real *src, real *rows, feature_feed *feed)
{
    int dim = net->s.dim, n_v = feed->n_v, n_harm = net->s.n_harm;
    for (int i = 0; i < net->s.n_sscalar; i++)
        gather_row(src + i, (size_t)net->n_source, n, n_v, feed_rows(feed, 1));
    vector_rows(net, n, src, rows, n_v);
    for (int k = net->s.n_gvector; k < net->n_vec; k++)
        memcpy(feed_rows(feed, 1), rows + (net->off_g + k) * LANES, LANES * sizeof(real));
    for (int a = 0; a < net->n_vec; a++)
        for (int b = a + 1; b < net->n_vec; b++) {
            if (b < net->s.n_gvector || n_harm == 0) continue;
            const real *ma = rows + (net->off_m + a) * LANES, *ua = rows + (net->off_unit + a * dim) * LANES;
            const real *mb = rows + (net->off_m + b) * LANES, *ub = rows + (net->off_unit + b * dim) * LANES;
            real *out = feed_rows(feed, n_harm);
            for (int v = 0; v < n_v * FF_W; v += FF_W)
                harmonics(net, v_load(ma + v) * v_load(mb + v), dot_rows(ua + v, ub + v, dim), out + v);
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
        source_features(net, m, src + i0 * net->n_source, rows, &feed);
        rows_to_records(rows, m, net->rec_len, rec + i0 * net->rec_len);
    }
}

/* ---- pairs ---- */

/* -expm1(-q) / (1 + q)^((dim - 1) / 2) */
INLINE vr envelope(const globe_net *net, vr q)
{
    vr low = v_set1(1) + q;
    return v_em1(q) / (net->s.dim == 3 ? low : v_sqrt(low));
}

/* r, envelope, per-pair features; rows m -> g (k^ . r^), unit -> g k^. */
INLINE void pair_features(const globe_net *net, const globe_work *w, int v)
{
    int dim = net->s.dim;
    vr r[3] = {v_set1(0), v_set1(0), v_set1(0)}, nonzero = v_set1(0), q = v_set1(net->eps2);
    for (int c = 0; c < dim; c++) {
        r[c] = v_load(w->rhat + c * LANES + v) / v_set1(net->length);
        r[c] = v_min(v_set1(R_FAR), v_max(v_set1(-R_FAR), r[c])); /* |r|^2 must stay finite */
        q = v_fma(r[c], r[c], q);
    }
    vr m = unit_vector(net, r);
    v_store(w->features + v, v_s(m));
    for (int c = 0; c < dim; c++) {
        v_store(w->rhat + c * LANES + v, r[c]);
        nonzero = v_max(nonzero, v_abs(r[c]));
    }
    v_store(w->minus_apart + v, __builtin_convertvector(nonzero > v_set1(0), vr));
    v_store(w->scale + v, v_load(w->scale + v) * envelope(net, q));
    for (int k = 0; k < net->n_vec; k++) {
        real *mk = w->rec + (net->off_m + k) * LANES + v,
             *unit = w->rec + (net->off_unit + k * dim) * LANES + v;
        vr g = v_load(w->rec + (net->off_g + k) * LANES + v);
        vr cosine = dot_rows(unit, w->rhat + v, dim);
        harmonics(net, v_load(mk) * m, cosine, w->features + (1 + k * net->s.n_harm) * LANES + v);
        v_store(mk, g * cosine);
        for (int c = 0; c < dim; c++) v_store(unit + c * LANES, g * v_load(unit + c * LANES));
    }
}

/* One vector field from its 1 + 2 n_vec coefficient rows: y_0 r^ + sum_k y_(1+2k) g k^ + y_(2+2k) g e_k with
 * e_k = (k^ . r^) r^ - k^, collected by r^ and k^; e_k counts as 0 where r^ = 0. */
INLINE void vector_field(const globe_net *net, const globe_work *w, const real *y, real *comp, int v)
{
    int dim = net->s.dim;
    vr along = v_load(y), out[3] = {v_set1(0), v_set1(0), v_set1(0)},
       minus_apart = v_load(w->minus_apart + v), scale = v_load(w->scale + v);
    for (int k = 0; k < net->n_vec; k++) {
        const real *unit = w->rec + (net->off_unit + k * dim) * LANES + v;
        vr y1 = v_load(y + (1 + 2 * k) * LANES), y2 = v_load(y + (2 + 2 * k) * LANES);
        along = v_fma(v_load(w->rec + (net->off_m + k) * LANES + v), y2, along);
        vr across = v_fma(minus_apart, y2, y1);
        for (int c = 0; c < dim; c++) out[c] = v_fma(across, v_load(unit + c * LANES), out[c]);
    }
    for (int c = 0; c < dim; c++)
        v_store(comp + c * LANES, scale * v_fma(along, v_load(w->rhat + c * LANES + v), out[c]));
}

/* Component rows of all fields from the coefficient rows y. */
static void fields(const globe_net *net, const globe_work *w, const real *y, int n_v)
{
    real *comp = w->comp;
    for (int f = 0; f < net->s.n_field; f++) {
        bool is_vector = net->s.field_rank[f] != 0;
        for (int v = 0; v < n_v * FF_W; v += FF_W) {
            if (is_vector)
                vector_field(net, w, y + v, comp + v, v);
            else
                v_store(comp + v, v_load(y + v) * v_load(w->scale + v));
        }
        comp += (is_vector ? net->s.dim : 1) * LANES;
        y += (is_vector ? 1 + 2 * net->n_vec : 1) * LANES;
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
    for (int v = 0; v < n_v * FF_W; v += FF_W) pair_features(net, &w, v);
    const real *y = network(net, &w, n_v);
    fields(net, &w, y, n_v);
    for (int c = net->n_comp; c < padded; c++) memset(w.comp + c * LANES, 0, LANES * sizeof(real));
    rows_to_records(w.comp, n, padded, w.aos);
    for (int i = 0; i < n; i++)
        memcpy(out + (size_t)i * (size_t)net->n_comp, w.aos + i * padded, (size_t)net->n_comp * sizeof(real));
}
