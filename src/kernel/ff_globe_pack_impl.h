/* Text of ff_globe_create, destroy and probe for one precision; included by ff_globe_pack.c with
 *   FF_T(name) -> name_f32 or name_f64, real, R_EXP, R_EXPM1, R_LOG1P, R_SQRT, R_TANH. */

/* Packs rows row[j] and columns col[k] of w [..][ld] times scale; row[j] < 0 is a row of zeros. */
static void FF_T(pack)(real *dst, const float *w, int ld, const int *row, int n_row, const int *col,
                       int n_col, double scale)
{
    for (int j = 0; j < n_row; j++)
        for (int k = 0; k < n_col; k++) {
            size_t at = ((size_t)(j / FF_GLOBE_BLOCK) * (size_t)n_col + (size_t)k) * FF_GLOBE_BLOCK +
                        (size_t)(j % FF_GLOBE_BLOCK);
            dst[at] =
                row[j] < 0 ? 0 : (real)(scale * (double)w[(size_t)row[j] * (size_t)ld + (size_t)col[k]]);
        }
}

/* One linear layer: rows of w in the order row [n_row] (n_row a multiple of FF_GLOBE_BLOCK), columns col. */
static ff_status FF_T(linear)(FF_T(ff_globe_linear) * lin, const float *w, int ld, const int *row, int n_row,
                              int n_out, const int *col, int n_col, double w_scale, const double *bias,
                              double b_scale)
{
    lin->n_in = n_col;
    lin->n_out = n_out;
    FF_TRY(FF_NEW(lin->w, (size_t)n_row * (size_t)n_col));
    FF_T(pack)(lin->w, w, ld, row, n_row, col, n_col, w_scale);
    if (bias == NULL) return FF_OK;
    FF_TRY(FF_NEW(lin->b, n_row));
    for (int j = 0; j < n_row; j++) lin->b[j] = row[j] < 0 ? 0 : (real)(b_scale * bias[row[j]]);
    return FF_OK;
}

static ff_status FF_T(pack_layers)(FF_T(ff_globe_net) * net, const float *const *w, const float *const *b,
                                   const globe_lists *q)
{
    const ff_globe_shape *s = &net->s;
    int pad0 = ff_globe_round_up(s->hidden[0], FF_GLOBE_BLOCK);
    int n_in = ff_globe_n_in(s);
    FF_TRY(FF_T(linear)(&net->src, w[0], n_in, q->row, pad0, s->hidden[0], q->src_col, q->n_src, LOG2_E,
                        q->bias0, LOG2_E));
    FF_TRY(FF_T(linear)(&net->pair[0], w[0], n_in, q->row, pad0, s->hidden[0], q->pair_col, q->n_pair, LOG2_E,
                        NULL, 0.0));
    for (int l = 1; l <= s->n_hidden; l++) {
        bool last = l == s->n_hidden;
        int n_out = last ? ff_globe_n_net_out(s) : s->hidden[l];
        const int *row = globe_lists_rows(q, s, l);
        for (int j = 0; j < n_out; j++) q->bias[j] = (double)b[l][j];
        FF_TRY(FF_T(linear)(&net->pair[l], w[l], s->hidden[l - 1], row,
                            ff_globe_round_up(n_out, FF_GLOBE_BLOCK), n_out, q->identity, s->hidden[l - 1],
                            last ? 1.0 / LOG2_E : 1.0, q->bias, last ? 1.0 : LOG2_E));
    }
    return FF_OK;
}

static ff_status FF_T(keep_given)(FF_T(ff_globe_net) * net, const float *const *w, const float *const *b,
                                  const double *gscalar, const double *gvector)
{
    const ff_globe_shape *s = &net->s;
    for (int l = 0; l <= s->n_hidden; l++) {
        size_t n_in = (size_t)(l == 0 ? ff_globe_n_in(s) : s->hidden[l - 1]);
        size_t n_out = (size_t)(l == s->n_hidden ? ff_globe_n_net_out(s) : s->hidden[l]);
        FF_TRY(FF_NEW(net->raw_w[l], n_out * n_in));
        FF_TRY(FF_NEW(net->raw_b[l], n_out));
        memcpy(net->raw_w[l], w[l], n_out * n_in * sizeof(float));
        memcpy(net->raw_b[l], b[l], n_out * sizeof(float));
    }
    FF_TRY(FF_NEW0(net->gscalar, s->n_gscalar));
    FF_TRY(FF_NEW0(net->gvector, s->n_gvector * s->dim));
    for (int i = 0; i < s->n_gscalar; i++) net->gscalar[i] = gscalar[i];
    for (int i = 0; i < s->n_gvector * s->dim; i++) net->gvector[i] = gvector[i];
    return FF_OK;
}

/* Counts, places in a record, constants of the recurrence and of the global vectors. */
static ff_status FF_T(fill_constants)(FF_T(ff_globe_net) * net)
{
    const ff_globe_shape *s = &net->s;
    int widest = ff_globe_n_coef(s);
    for (int l = 0; l < s->n_hidden; l++) widest = s->hidden[l] > widest ? s->hidden[l] : widest;
    net->n_vec = ff_globe_n_vec(s);
    net->n_coef = ff_globe_n_coef(s);
    net->n_comp = ff_globe_n_comp(s);
    net->n_source = ff_globe_n_source(s);
    net->act_rows = ff_globe_round_up(widest, FF_GLOBE_BLOCK);
    net->off_m = ff_globe_round_up(s->hidden[0], FF_GLOBE_BLOCK);
    net->off_g = net->off_m + net->n_vec;
    net->off_unit = net->off_g + net->n_vec;
    net->rec_len = ff_globe_round_up(net->off_unit + net->n_vec * s->dim, FF_GLOBE_ROW_PAD);
    net->eps2 = (real)(s->eps * s->eps);
    net->beta = (real)s->beta;
    FF_TRY(FF_NEW0(net->leg_a, s->n_harm + 1));
    FF_TRY(FF_NEW0(net->leg_b, s->n_harm + 1));
    for (int n = 2; n <= s->n_harm; n++) {
        net->leg_a[n] = (real)((2.0 * n - 1.0) / n);
        net->leg_b[n] = (real)(-(n - 1.0) / n);
    }
    FF_TRY(FF_NEW0(net->gvec, s->n_gvector * (2 + s->dim)));
    for (int k = 0; k < s->n_gvector; k++) {
        real *g = net->gvec + k * (2 + s->dim);
        double unit[3], m = globe_unit(s, net->gvector + k * s->dim, unit);
        g[0] = (real)m;
        g[1] = (real)globe_s(m);
        for (int c = 0; c < s->dim; c++) g[2 + c] = (real)unit[c];
    }
    return FF_OK;
}

/* Places in the packed gradient: rows of matrices padded as the adjoint's products write them. */
static void FF_T(place_gradient)(FF_T(ff_globe_net) * net)
{
    size_t at = 0;
    for (int l = 0; l <= net->s.n_hidden; l++) {
        const FF_T(ff_globe_linear) *lin = &net->pair[l];
        size_t rows = (size_t)ff_globe_round_up(lin->n_out, FF_GLOBE_BLOCK);
        net->at_w[l] = at;
        at += rows * (size_t)ff_globe_round_up(lin->n_in, FF_GLOBE_ROW_PAD);
        net->at_b[l] = at;
        at += l > 0 ? rows : 0;
    }
    net->at_src_w = at;
    at += (size_t)net->off_m * (size_t)ff_globe_round_up(net->src.n_in, FF_GLOBE_ROW_PAD);
    net->at_src_b = at;
    at += (size_t)net->off_m;
    net->at_gvec = at;
    at += (size_t)(net->s.n_gvector * (2 + net->s.dim));
    net->at_length = at;
    net->grad_len = (at + 1 + FF_GLOBE_ROW_PAD - 1) / FF_GLOBE_ROW_PAD * FF_GLOBE_ROW_PAD;
}

ff_status FF_T(ff_globe_create)(const ff_globe_shape *s, const float *const *w, const float *const *b,
                                const double *gscalar, const double *gvector, double length,
                                FF_T(ff_globe_net) * *out)
{
    FF_T(ff_globe_net) *net = NULL;
    globe_lists q = {0};
    ff_status st = FF_OK;
    *out = NULL;
    FF_GO(ff_globe_shape_check(s));
    if (!(length > 0.0))
        FF_GO(ff_fail(FF_E_ARG, "GLOBE network: reference length = %g, expected > 0", length));
    FF_GO(FF_NEW0(net, 1));
    net->s = *s;
    net->s.field_rank = NULL;
    net->length = (real)length;
    int *rank = NULL;
    FF_GO(FF_NEW(rank, s->n_field));
    memcpy(rank, s->field_rank, (size_t)s->n_field * sizeof *rank);
    net->s.field_rank = rank;
    FF_GO(FF_T(keep_given)(net, w, b, gscalar, gvector));
    FF_GO(FF_T(fill_constants)(net));
    FF_GO(globe_lists_build(&q, &net->s, w[0], b[0], net->gscalar, net->gvector));
    FF_GO(FF_T(pack_layers)(net, w, b, &q));
    FF_T(place_gradient)(net);
    *out = net;
    net = NULL;
done:
    globe_lists_destroy(&q);
    FF_T(ff_globe_destroy)(&net);
    return st;
}

void FF_T(ff_globe_destroy)(FF_T(ff_globe_net) * *net_ptr)
{
    FF_T(ff_globe_net) *net = *net_ptr;
    if (net == NULL) return;
    for (int l = 0; l <= FF_GLOBE_MAX_LAYERS; l++) {
        ff_free(net->raw_w[l]);
        ff_free(net->raw_b[l]);
        ff_free(net->pair[l].w);
        ff_free(net->pair[l].b);
        ff_free(net->pair_t[l].w);
        ff_free(net->pair_t[l].b);
    }
    ff_free(net->src_t.w);
    ff_free(net->src_t.b);
    ff_free(net->src.w);
    ff_free(net->src.b);
    ff_free(net->gvec);
    ff_free(net->leg_a);
    ff_free(net->leg_b);
    ff_free(net->gscalar);
    ff_free(net->gvector);
    ff_free((void *)(uintptr_t)net->s.field_rank);
    ff_free(net);
    *net_ptr = NULL;
}

const ff_globe_shape *FF_T(ff_globe_shape)(const FF_T(ff_globe_net) * net)
{
    return &net->s;
}

size_t FF_T(ff_globe_record_len)(const FF_T(ff_globe_net) * net)
{
    return (size_t)net->rec_len;
}

/* Rows of FF_GLOBE_TILE reals; the order is that of the tile (ff_globe_impl.h). */
size_t FF_T(ff_globe_scratch_len)(const FF_T(ff_globe_net) * net)
{
    int rows = net->rec_len + net->s.dim + 2 + net->pair[0].n_in + 2 * net->act_rows +
               2 * ff_globe_round_up(net->n_comp, FF_GLOBE_ROW_PAD);
    return (size_t)rows * FF_GLOBE_TILE;
}

static ff_status FF_T(transpose)(const FF_T(ff_globe_linear) * lin, FF_T(ff_globe_linear) * t)
{
    enum { B = FF_GLOBE_BLOCK };
    if (t->w != NULL) return FF_OK;
    t->n_in = lin->n_out;
    t->n_out = lin->n_in;
    size_t padded = (size_t)ff_globe_round_up(lin->n_in, B);
    FF_TRY(FF_NEW0(t->b, padded));
    FF_TRY(FF_NEW0(t->w, padded * (size_t)lin->n_out));
    for (int j = 0; j < lin->n_out; j++)
        for (int k = 0; k < lin->n_in; k++)
            t->w[((size_t)(k / B) * (size_t)lin->n_out + (size_t)j) * B + (size_t)(k % B)] =
                lin->w[((size_t)(j / B) * (size_t)lin->n_in + (size_t)k) * B + (size_t)(j % B)];
    return FF_OK;
}

ff_status FF_T(ff_globe_adjoint_prepare)(FF_T(ff_globe_net) * net)
{
    FF_TRY(FF_T(transpose)(&net->src, &net->src_t));
    for (int l = 0; l <= net->s.n_hidden; l++) FF_TRY(FF_T(transpose)(&net->pair[l], &net->pair_t[l]));
    return FF_OK;
}

size_t FF_T(ff_globe_grad_len)(const FF_T(ff_globe_net) * net)
{
    return net->grad_len;
}
