/* Blocks of the fused scatter: one degree of 2 l + 1 = R rows, one vector of channels.
 * Included by ff_scatter_impl.h with BLOCK(name) and vec, once for each vector width; undefines both at its end.
 * R is a constant wherever these are called: rows beyond R vanish and the rest stay in registers. A product of a
 * vector and a number multiplies every lane. */

/* Messages of the edges k0 .. k1 - 1 of a node's list added to sum [R][C], in that order. */
INLINE void BLOCK(add)(const job *j, const int R, int l, int64_t k0, int64_t k1, int64_t c, real *sum)
{
    const int64_t n_chan = j->n_chan;
    const real *spin = R == 3 ? j->in.spin_l1 : NULL;
    vec EACH_NAME(a);
    EACH_ROW(ROW_LOAD)
    for (int64_t k = k0; k < k1; k++) {
        const int64_t e = j->csr->edge[k];
        const real *z = j->in.coupling + e * j->n_rows + (l * l - 1);
        const vec f = *(const vec *)(radial_at(j, e, l) + c);
        if (R == 3 && spin != NULL) {
            const real *s = spin + e * 3 * n_chan + c, g = gate_of(j, e);
            EACH_ROW(ROW_SPIN)
        } else if (j->in.gate != NULL) {
            const real g = j->in.gate[e];
            EACH_ROW(ROW_GATE)
        } else {
            EACH_ROW(ROW_PLAIN)
        }
    }
    EACH_ROW(ROW_STORE)
}

/* Channels c0 .. c1 - 1 of edge e: q [R] += sum over c of cot * radial, gradients of radial and spin, and the sum over
 * rows and channels of cot * spin. scale multiplies the gradients. */
INLINE real BLOCK(edge)(const job *j, const int R, int l, int64_t e, const real *cot, real scale, int64_t c0,
                        int64_t c1, real *q)
{
    const int64_t n_chan = j->n_chan;
    const real *spin = R == 3 ? j->in.spin_l1 : NULL, *f_of = radial_at(j, e, l);
    const real *z = j->in.coupling + e * j->n_rows + (l * l - 1);
    real *d_radial = j->grad.radial != NULL ? j->grad.radial + (e * j->lmax + l - 1) * n_chan : NULL;
    real *d_spin = R == 3 && j->grad.spin_l1 != NULL ? j->grad.spin_l1 + e * 3 * n_chan : NULL;
    vec EACH_NAME(a), dot = ZERO;
    for (int64_t c = c0; c < c1; c += (int64_t)(sizeof(vec) / sizeof(real))) {
        const vec f = *(const vec *)(f_of + c);
        vec d = ZERO;
        EACH_ROW(ROW_EDGE)
        if (d_radial != NULL) *(vec *)(d_radial + c) = d * scale;
        if (d_spin != NULL) {
            EACH_ROW(ROW_D_SPIN)
        }
        if (R == 3 && spin != NULL) {
            const real *s = spin + e * 3 * n_chan + c;
            EACH_ROW(ROW_DOT)
        }
    }
    EACH_ROW(ROW_LANES)
    return R == 3 && spin != NULL ? BLOCK(lanes)(&dot) : 0;
}

#undef BLOCK
#undef vec
