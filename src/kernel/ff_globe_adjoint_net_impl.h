/* Rows, sums over lanes and the network of the adjoint. Part of ff_globe_adjoint_impl.h. */

/* A cotangent is called NAME_bar. Rows of LANES reals unless said. */
typedef struct adjoint_work {
    globe_work f;                    /* forward; apart and basis have rows of their own */
    real *dx, *strength, *m;         /* [dim], [1], [1]: as given; m(r) */
    real *act[FF_GLOBE_MAX_LAYERS];  /* [act_rows] outputs of hidden layers */
    real *diff[FF_GLOBE_MAX_LAYERS]; /* [act_rows] SiLU' */
    real *raw, *coef;                /* [outputs of the last layer], [coefficients] */
    real *coef_bar;                  /* [coefficients] */
    real *out_bar;                   /* [n_comp padded] */
    real *z_bar, *x_bar;             /* [widest] of a layer's outputs and inputs */
    real *rec_bar;                   /* [rec_len] */
    real *apart_bar, *basis_bar;     /* [n_vec], [n_vec][dim] */
    real *rhat_bar, *scale_bar;      /* [dim], [1] */
    real *dx_bar, *length_bar;       /* [dim], [1] */
    real *turned;                    /* [LANES][widest input padded] */
    real *src_rows, *src_bar;        /* records: [source-only features] each */
} adjoint_work;

/* The next rows of a scratch block; base NULL only counts. */
static real *take_rows(real *base, size_t *rows, int n)
{
    real *p = base == NULL ? NULL : base + *rows * LANES;
    *rows += (size_t)n;
    return p;
}

static int widest_rows(const globe_net *net)
{
    int n = ff_globe_round_up(net->pair[net->s.n_hidden].n_out, FF_GLOBE_ROW_PAD);
    for (int l = 0; l <= net->s.n_hidden; l++) {
        int in = ff_globe_round_up(net->pair[l].n_in, FF_GLOBE_ROW_PAD);
        n = in > n ? in : n;
    }
    int act = ff_globe_round_up(net->act_rows, FF_GLOBE_ROW_PAD);
    return act > n ? act : n;
}

/* Places of all rows; returns the rows needed. */
static size_t adjoint_rows(const globe_net *net, real *s, adjoint_work *w)
{
    size_t rows = 0;
    int dim = net->s.dim, widest = widest_rows(net), n_vec = net->n_vec;
    int last = ff_globe_round_up(net->pair[net->s.n_hidden].n_out, FF_GLOBE_BLOCK);
    int comp = ff_globe_round_up(net->n_comp, FF_GLOBE_ROW_PAD);
    int act = ff_globe_round_up(net->act_rows, FF_GLOBE_ROW_PAD);
    int n_src = ff_globe_round_up(net->src.n_in, FF_GLOBE_ROW_PAD);
    memset(w, 0, sizeof *w);
    w->f.rec = take_rows(s, &rows, net->rec_len);
    w->f.apart = take_rows(s, &rows, n_vec);
    w->f.basis = take_rows(s, &rows, n_vec * dim);
    w->f.rhat = take_rows(s, &rows, dim);
    w->f.scale = take_rows(s, &rows, 1);
    w->f.minus_apart = take_rows(s, &rows, 1);
    w->f.features = take_rows(s, &rows, ff_globe_round_up(net->pair[0].n_in, FF_GLOBE_ROW_PAD));
    w->dx = take_rows(s, &rows, dim);
    w->strength = take_rows(s, &rows, 1);
    w->m = take_rows(s, &rows, 1);
    for (int l = 0; l < net->s.n_hidden; l++) w->act[l] = take_rows(s, &rows, act);
    for (int l = 0; l < net->s.n_hidden; l++) w->diff[l] = take_rows(s, &rows, act);
    w->raw = take_rows(s, &rows, last);
    w->coef = take_rows(s, &rows, last);
    w->coef_bar = take_rows(s, &rows, last);
    w->out_bar = take_rows(s, &rows, comp);
    w->z_bar = take_rows(s, &rows, widest);
    w->x_bar = take_rows(s, &rows, widest);
    w->rec_bar = take_rows(s, &rows, net->rec_len);
    w->apart_bar = take_rows(s, &rows, n_vec);
    w->basis_bar = take_rows(s, &rows, n_vec * dim);
    w->rhat_bar = take_rows(s, &rows, dim);
    w->scale_bar = take_rows(s, &rows, 1);
    w->dx_bar = take_rows(s, &rows, dim);
    w->length_bar = take_rows(s, &rows, 1);
    w->turned = take_rows(s, &rows, n_src > widest ? n_src : widest);
    w->src_rows = take_rows(s, &rows, n_src);
    w->src_bar = take_rows(s, &rows, n_src);
    return rows;
}

/* S(x), S'(x) = exp(-x) log(1 + x) + (1 - exp(-x)) / (1 + x), x >= 0. */
INLINE void v_s_diff(const vr *x, vr *s, vr *diff, const int n)
{
    vr e[BUNDLE], l[BUNDLE];
    EACH(n, e[i] = l[i] = s[i] = v_min(v_set1(R_BIG), x[i]));
    v_em1(e, n);
    v_log1p(l, n);
    EACH(n, diff[i] = v_fma(v_set1(1) - e[i], l[i], e[i] / (v_set1(1) + s[i])));
    EACH(n, s[i] = e[i] * l[i]);
}

/* ---- sums over lanes ---- */

/* grad[j][k] += sum over the first lanes of z_bar[j][lane] turned[lane][k], FF_J rows j, n vectors of k. */
INLINE void outer_block(const real *z_bar, const real *turned, int len, int n_lanes, real *grad, const int n)
{
    vr acc[FF_J][BUNDLE], in[BUNDLE];
    UNROLL for (int j = 0; j < FF_J; j++) EACH(n, acc[j][i] = v_load(grad + j * len + i * FF_W));
    for (int lane = 0; lane < n_lanes; lane++, turned += len) {
        EACH(n, in[i] = v_load(turned + i * FF_W));
        UNROLL for (int j = 0; j < FF_J; j++)
        {
            vr z = v_set1(z_bar[j * LANES + lane]);
            EACH(n, acc[j][i] = v_fma(z, in[i], acc[j][i]));
        }
    }
    UNROLL for (int j = 0; j < FF_J; j++) EACH(n, v_store(grad + j * len + i * FF_W, acc[j][i]));
}

/* Weight gradient of one layer: z_bar rows of its outputs, x rows of its n_in inputs; grad [out][len]. x must have
 * rows up to len, the next multiple of FF_GLOBE_ROW_PAD, which are zeroed here. */
static void outer_product(const real *z_bar, int n_out, real *x, int n_in, int n, real *turned, real *grad)
{
    int len = ff_globe_round_up(n_in, FF_GLOBE_ROW_PAD);
    memset(x + n_in * LANES, 0, (size_t)(len - n_in) * LANES * sizeof(real));
    rows_to_records(x, n, len, turned);
    for (int j = 0; j < ff_globe_round_up(n_out, FF_GLOBE_BLOCK); j += FF_J)
        for (int k = 0; k < len; k += FF_V * FF_W) {
            real *g = grad + (size_t)j * (size_t)len + k;
            if (len - k >= FF_V * FF_W)
                outer_block(z_bar + j * LANES, turned + k, len, n, g, FF_V);
            else if (len - k == 2 * FF_W)
                outer_block(z_bar + j * LANES, turned + k, len, n, g, FF_V < 2 ? FF_V : 2);
            else
                for (int i = k; i < len; i += FF_W)
                    outer_block(z_bar + j * LANES, turned + i, len, n, grad + (size_t)j * (size_t)len + i, 1);
        }
}

/* sum[j] += sum over the first n lanes of rows[j], FF_GLOBE_BLOCK rows at a time side by side. */
static void add_lanes(const real *rows, int n_rows, int n, real *sum)
{
    for (int j0 = 0; j0 < n_rows; j0 += FF_GLOBE_BLOCK, rows += FF_GLOBE_BLOCK * LANES) {
        real acc[FF_GLOBE_BLOCK];
        for (int j = 0; j < FF_GLOBE_BLOCK; j++) acc[j] = sum[j0 + j];
        for (int i = 0; i < n; i++)
            for (int j = 0; j < FF_GLOBE_BLOCK; j++) acc[j] += rows[j * LANES + i];
        for (int j = 0; j < FF_GLOBE_BLOCK; j++) sum[j0 + j] = acc[j];
    }
}

static void add_one_row(const real *row, int n, real *sum)
{
    real acc = *sum;
    for (int i = 0; i < n; i++) acc += row[i];
    *sum = acc;
}

static void zero_rows(real *rows, int n)
{
    memset(rows, 0, (size_t)n * LANES * sizeof(real));
}

/* Lanes past n of rows become zero. */
static void zero_lanes(real *rows, int n_rows, int n, int n_v)
{
    for (int r = 0; r < n_rows; r++)
        for (int i = n; i < n_v * FF_W; i++) rows[r * LANES + i] = 0;
}

/* x_bar = transposed weights times z_bar. */
static void transposed_product(const globe_linear *t, const real *z_bar, real *x_bar, int n_v)
{
    for (int jb = 0; jb * FF_GLOBE_BLOCK < t->n_out; jb++)
        linear_block(t, jb, 0, t->n_in, NULL, z_bar, x_bar + (size_t)jb * FF_GLOBE_BLOCK * LANES, n_v);
}

/* ---- network, forward with what the way back needs ---- */

INLINE void silu_diff_bundle(real *y, real *diff, int v, const int n)
{
    for (int j = 0; j < FF_GLOBE_BLOCK; j++, y += LANES, diff += LANES) {
        vr z[BUNDLE], d[BUNDLE];
        EACH(n, z[i] = at(y, v, i));
        v_silu2_diff(z, d, n);
        EACH(n, put(y, v, i, z[i]));
        EACH(n, put(diff, v, i, d[i]));
    }
}

static void network_keep(const globe_net *net, const adjoint_work *w, int n_v)
{
    int n_hidden = net->s.n_hidden, n_y = net->s.mlp ? FF_GLOBE_BLOCK : FF_GLOBE_BLOCK / 2;
    const real *x = w->f.features;
    for (int l = 0; l < n_hidden; l++) {
        const globe_linear *lin = &net->pair[l];
        for (int jb = 0; jb * FF_GLOBE_BLOCK < lin->n_out; jb++) {
            size_t row = (size_t)jb * FF_GLOBE_BLOCK * LANES;
            linear_block(lin, jb, 0, lin->n_in, l == 0 ? w->f.rec + row : NULL, x, w->act[l] + row, n_v);
            BUNDLES(n_v, silu_diff_bundle, w->act[l] + row, w->diff[l] + row)
        }
        x = w->act[l];
    }
    const globe_linear *lin = &net->pair[n_hidden];
    for (int jb = 0; jb * FF_GLOBE_BLOCK < lin->n_out; jb++) {
        real *raw = w->raw + (size_t)jb * FF_GLOBE_BLOCK * LANES, *y = w->coef + (size_t)(jb * n_y) * LANES;
        linear_block(lin, jb, 0, lin->n_in, NULL, x, raw, n_v);
        if (net->s.mlp)
            tanh_block(raw, y, n_v);
        else
            pade_block(net->beta, raw, y, n_v);
    }
}

/* raw a, d -> their cotangents, in place; y, y_bar: coefficients. With q = 1 + d^2 + beta a^2:
 * dy/da = 2 (|a| - beta a y) / q, dy/dd = -2 y d / q. */
INLINE void pade_adjoint_bundle(real beta, real *raw, const real *y, const real *y_bar, int n_coef, int v,
                                const int n)
{
    for (int j = 0; j < n_coef; j++) {
        vr a[BUNDLE], d[BUNDLE], q[BUNDLE], t[BUNDLE];
        EACH(n, a[i] = at(raw + 2 * j * LANES, v, i));
        EACH(n, d[i] = at(raw + (2 * j + 1) * LANES, v, i));
        EACH(n, q[i] = v_fma(v_set1(beta), a[i] * a[i], v_fma(d[i], d[i], v_set1(1))));
        EACH(n, t[i] = at(y_bar + j * LANES, v, i) * v_set1(2) / q[i]);
        EACH(n, q[i] = at(y + j * LANES, v, i));
        EACH(n, a[i] = v_fma(v_set1(-beta) * a[i], q[i], v_abs(a[i])));
        EACH(n, put(raw + 2 * j * LANES, v, i, t[i] * a[i]));
        EACH(n, put(raw + (2 * j + 1) * LANES, v, i, -t[i] * q[i] * d[i]));
    }
}

INLINE void tanh_adjoint_bundle(real *raw, const real *y, const real *y_bar, int n_coef, int v, const int n)
{
    for (int j = 0; j < n_coef; j++) {
        vr t[BUNDLE];
        EACH(n, t[i] = at(y + j * LANES, v, i));
        EACH(n, put(raw + j * LANES, v, i, at(y_bar + j * LANES, v, i) * v_fma(-t[i], t[i], v_set1(1))));
    }
}

INLINE void times_bundle(real *x, const real *by, int n_rows, int v, const int n)
{
    for (int j = 0; j < n_rows; j++)
        EACH(n, put(x + j * LANES, v, i, at(x + j * LANES, v, i) * at(by + j * LANES, v, i)));
}

/* From cotangents of the last layer's outputs (w->raw) to those of h0 (w->rec_bar) and of the features (w->x_bar);
 * adds the weight gradients. */
static void network_adjoint(const globe_net *net, const adjoint_work *w, int n, int n_v, real *grad)
{
    real *z_bar = w->raw;
    for (int l = net->s.n_hidden; l >= 0; l--) {
        const globe_linear *lin = &net->pair[l];
        real *x = l == 0 ? w->f.features : w->act[l - 1], *x_bar = z_bar == w->x_bar ? w->z_bar : w->x_bar;
        outer_product(z_bar, lin->n_out, x, lin->n_in, n, w->turned, grad + net->at_w[l]);
        if (l > 0)
            add_lanes(z_bar, ff_globe_round_up(lin->n_out, FF_GLOBE_BLOCK), n, grad + net->at_b[l]);
        else
            memcpy(w->rec_bar, z_bar, (size_t)net->off_m * LANES * sizeof(real));
        transposed_product(&net->pair_t[l], z_bar, x_bar, n_v);
        if (l > 0)
            BUNDLES(n_v, times_bundle, x_bar, w->diff[l - 1], ff_globe_round_up(lin->n_in, FF_GLOBE_BLOCK))
        z_bar = x_bar;
    }
    if (z_bar != w->x_bar) memcpy(w->x_bar, z_bar, (size_t)net->pair[0].n_in * LANES * sizeof(real));
}
