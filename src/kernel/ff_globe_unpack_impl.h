/* Text of ff_globe_unpack for one precision: from a packed gradient to the model's own order. Macros as in
 * ff_globe_pack_impl.h. */

/* Matrix rows row[j], columns col[k] of w_bar [..][ld] from the packed rows at g; row[j] < 0 is padding. */
static void FF_T(unpack_matrix)(const double *g, int n_row, const int *row, int n_col, const int *col,
                                double scale, double *w_bar, int ld)
{
    size_t len = (size_t)ff_globe_round_up(n_col, FF_GLOBE_ROW_PAD);
    for (int j = 0; j < n_row; j++)
        for (int k = 0; k < n_col && row[j] >= 0; k++)
            w_bar[(size_t)row[j] * (size_t)ld + (size_t)col[k]] = scale * g[(size_t)j * len + (size_t)k];
}

ff_status FF_T(ff_globe_unpack)(const FF_T(ff_globe_net) * net, const double *packed, double *const *w_bar,
                                double *const *b_bar, double *gscalar_bar, double *gvector_bar,
                                double *length_bar)
{
    ff_status st = FF_OK;
    const ff_globe_shape *s = &net->s;
    globe_lists q = {0};
    double *v_bar = NULL;
    int n_in = ff_globe_n_in(s), pad0 = ff_globe_round_up(s->hidden[0], FF_GLOBE_BLOCK);
    FF_GO(globe_lists_build(&q, s, net->raw_w[0], net->raw_b[0], net->gscalar, net->gvector));
    FF_GO(FF_NEW0(v_bar, s->n_gvector * (2 + s->dim) + 1));
    FF_T(unpack_matrix)(packed + net->at_src_w, pad0, q.row, q.n_src, q.src_col, LOG2_E, w_bar[0], n_in);
    FF_T(unpack_matrix)(packed + net->at_w[0], pad0, q.row, q.n_pair, q.pair_col, LOG2_E, w_bar[0], n_in);
    for (int j = 0; j < s->hidden[0]; j++) b_bar[0][j] = LOG2_E * packed[net->at_src_b + (size_t)j];
    for (int l = 1; l <= s->n_hidden; l++) {
        bool last = l == s->n_hidden;
        int n_out = last ? ff_globe_n_net_out(s) : s->hidden[l],
            padded = ff_globe_round_up(n_out, FF_GLOBE_BLOCK);
        const int *row = globe_lists_rows(&q, s, l);
        FF_T(unpack_matrix)
        (packed + net->at_w[l], padded, row, s->hidden[l - 1], q.identity, last ? 1.0 / LOG2_E : 1.0,
         w_bar[l], s->hidden[l - 1]);
        for (int j = 0; j < padded; j++)
            if (row[j] >= 0) b_bar[l][row[j]] = (last ? 1.0 : LOG2_E) * packed[net->at_b[l] + (size_t)j];
    }
    for (int k = 0, at = 0; k < s->n_gvector; k++) {
        double scale = ff_globe_gvec_scale((double)net->gvec[at]);
        for (int c = 0; c < 2 + s->dim; c++, at++)
            v_bar[at] = packed[net->at_gvec + (size_t)at] / (c >= 2 ? scale : 1);
    }
    globe_global_adjoint(s, net->raw_w[0], b_bar[0], net->gscalar, net->gvector, v_bar, w_bar[0], gscalar_bar,
                         gvector_bar);
    *length_bar += packed[net->at_length];
done:
    globe_lists_destroy(&q);
    ff_free(v_bar);
    return st;
}
