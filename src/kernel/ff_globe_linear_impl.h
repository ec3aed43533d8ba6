/* Linear layers and what follows them, block by block. Part of ff_globe_impl.h. */

/* y[j][v] = (b[j] or init[j][v]) + sum_k w[k][j] x[k][v] for FF_J outputs and n <= FF_V vectors from lane v
 * on; w [n_k][FF_GLOBE_BLOCK]. y may be init. All of acc stays in registers. */
INLINE void register_block(const real *w, const real *b, const real *init, int n_k, const real *x, real *y,
                           int v, const int n)
{
    vr acc[FF_J][BUNDLE], in[BUNDLE];
    if (init != NULL)
        UNROLL for (int j = 0; j < FF_J; j++) EACH(n, acc[j][i] = at(init + j * LANES, v, i));
    else
        UNROLL for (int j = 0; j < FF_J; j++) EACH(n, acc[j][i] = v_set1(b[j]));
    for (int k = 0; k < n_k; k++, w += FF_GLOBE_BLOCK, x += LANES) {
        EACH(n, in[i] = at(x, v, i));
        UNROLL for (int j = 0; j < FF_J; j++)
        {
            vr wj = v_set1(w[j]);
            EACH(n, acc[j][i] = v_fma(wj, in[i], acc[j][i]));
        }
    }
    UNROLL for (int j = 0; j < FF_J; j++) EACH(n, put(y + j * LANES, v, i, acc[j][i]));
}

/* Outputs FF_GLOBE_BLOCK * jb .. of a layer from inputs k0 .. k0 + n_k - 1 (x: row k0), n_v vectors of lanes;
 * starts from the bias, or from the rows init. */
static void linear_block(const globe_linear *lin, int jb, int k0, int n_k, const real *init, const real *x,
                         real *y, int n_v)
{
    const real *w = lin->w + ((size_t)jb * (size_t)lin->n_in + (size_t)k0) * FF_GLOBE_BLOCK;
    for (int j = 0; j < FF_GLOBE_BLOCK; j += FF_J) {
        const real *b = init == NULL ? lin->b + jb * FF_GLOBE_BLOCK + j : NULL;
        const real *rows = init == NULL ? NULL : init + j * LANES;
        BUNDLES(n_v, register_block, w + j, b, rows, n_k, x, y + j * LANES)
    }
}

INLINE void silu_bundle(real *y, int v, const int n)
{
    for (int j = 0; j < FF_GLOBE_BLOCK; j++, y += LANES) {
        vr z[BUNDLE];
        EACH(n, z[i] = at(y, v, i));
        v_silu2(z, n);
        EACH(n, put(y, v, i, z[i]));
    }
}

/* sign(a) a^2 / (1 + d^2 + beta a^2); raw: rows a_0 d_0 a_1 d_1 ..., y: half as many. */
INLINE void pade_bundle(real beta, const real *raw, real *y, int v, const int n)
{
    for (int j = 0; j < FF_GLOBE_BLOCK / 2; j++) {
        vr a[BUNDLE], d[BUNDLE];
        EACH(n, a[i] = at(raw + 2 * j * LANES, v, i));
        EACH(n, d[i] = at(raw + (2 * j + 1) * LANES, v, i));
        EACH(n, d[i] = v_fma(v_set1(beta), a[i] * a[i], v_fma(d[i], d[i], v_set1(1))));
        EACH(n, put(y + j * LANES, v, i, a[i] * v_abs(a[i]) / d[i]));
    }
}

INLINE void tanh_bundle(const real *raw, real *y, int v, const int n)
{
    for (int j = 0; j < FF_GLOBE_BLOCK; j++) {
        vr z[BUNDLE];
        EACH(n, z[i] = at(raw + j * LANES, v, i));
        v_tanh(z, n);
        EACH(n, put(y + j * LANES, v, i, z[i]));
    }
}

static void silu_block(real *y, int n_v)
{
    BUNDLES(n_v, silu_bundle, y)
}

static void pade_block(real beta, const real *raw, real *y, int n_v)
{
    BUNDLES(n_v, pade_bundle, beta, raw, y)
}

static void tanh_block(const real *raw, real *y, int n_v)
{
    BUNDLES(n_v, tanh_bundle, raw, y)
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
