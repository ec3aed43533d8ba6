/* Random cases of the zonal scatter in one precision, and an oracle that makes the messages and adds them one edge after
 * the other. Included by tests with FF_T(name) and real defined. Every array ends in a guard of NaN that must stay. */

enum { FF_T(GUARD) = 16 };

typedef struct FF_T(arrays) {
    ff_scatter_shape s;
    int64_t n_rows, n_radial, n_out; /* D - 1, elements */
    int64_t *dst;
    real *coupling, *radial, *spin, *gate, *deg, *cot;
} FF_T(arrays);

static real *FF_T(guarded)(int64_t n)
{
    real *x = calloc((size_t)(n + FF_T(GUARD)), sizeof *x);
    assert_non_null(x);
    for (int i = 0; i < FF_T(GUARD); i++) x[n + i] = (real)NAN;
    return x;
}

static void FF_T(check_guard)(const real *x, int64_t n)
{
    for (int i = 0; i < FF_T(GUARD); i++) assert_true(isnan(x[n + i]));
}

static real *FF_T(drawn)(int64_t n, uint64_t stream)
{
    real *x = FF_T(guarded)(n);
    for (int64_t i = 0; i < n; i++) x[i] = (real)(float)(2 * ff_rng_uniform(SEED, stream, (uint64_t)i) - 1);
    return x;
}

/* Half of the edges go to few nodes, so that some nodes have none. */
static FF_T(arrays) FF_T(make)(int64_t n_nodes, int64_t n_edges, int64_t n_channels, int lmax)
{
    FF_T(arrays) a = {.s = {n_nodes, n_edges, n_channels, lmax}};
    a.n_rows = (lmax + 1) * (lmax + 1) - 1;
    a.n_radial = n_edges * lmax * n_channels;
    a.n_out = n_nodes * (a.n_rows + 1) * n_channels;
    a.dst = calloc((size_t)n_edges + 1, sizeof *a.dst);
    assert_non_null(a.dst);
    for (int64_t e = 0; e < n_edges; e++) {
        double u = ff_rng_uniform(SEED, 9, (uint64_t)e);
        a.dst[e] = (int64_t)(u * u * (double)n_nodes);
    }
    a.coupling = FF_T(drawn)(n_edges * a.n_rows, 1);
    a.radial = FF_T(drawn)(a.n_radial, 2);
    a.spin = FF_T(drawn)(n_edges * 3 * n_channels, 3);
    a.gate = FF_T(drawn)(n_edges, 4);
    a.deg = FF_T(drawn)(n_nodes, 5);
    a.cot = FF_T(drawn)(a.n_out, 6);
    return a;
}

static void FF_T(drop)(FF_T(arrays) * a)
{
    free(a->dst), free(a->coupling), free(a->radial), free(a->spin), free(a->gate), free(a->deg),
        free(a->cot);
}

/* variant: bit 0 spin, bit 1 gate, bit 2 inv_sqrt_deg */
static FF_T(ff_scatter_in) FF_T(inputs)(const FF_T(arrays) * a, int variant)
{
    return (FF_T(ff_scatter_in)){.size = sizeof(FF_T(ff_scatter_in)),
                                 .coupling = a->coupling,
                                 .radial = a->radial,
                                 .spin_l1 = variant & 1 ? a->spin : NULL,
                                 .gate = variant & 2 ? a->gate : NULL,
                                 .inv_sqrt_deg = variant & 4 ? a->deg : NULL};
}

/* The formula of the specification with the messages [E][D - 1][C] stored. */
static real *FF_T(oracle)(const FF_T(arrays) * a, int variant)
{
    int64_t n_chan = a->s.n_channels, per_edge = a->n_rows * n_chan, per_node = per_edge + n_chan;
    real *message = calloc((size_t)(a->s.n_edges * per_edge) + 1, sizeof *message),
         *out = FF_T(guarded)(a->n_out);
    assert_non_null(message);
    for (int64_t e = 0; e < a->s.n_edges; e++)
        for (int64_t i = 0; i < per_edge; i++) {
            int64_t row = i / n_chan, c = i % n_chan, l = 1;
            while (row >= l * l + 2 * l) l++;
            real m = a->coupling[e * a->n_rows + row] * a->radial[(e * a->s.lmax + l - 1) * n_chan + c];
            if (variant & 1 && row < 3) m += a->spin[(e * 3 + row) * n_chan + c];
            if (variant & 2) m *= a->gate[e];
            message[e * per_edge + i] = m;
        }
    for (int64_t e = 0; e < a->s.n_edges; e++)
        for (int64_t i = 0; i < per_edge; i++)
            out[a->dst[e] * per_node + n_chan + i] += message[e * per_edge + i];
    for (int64_t i = 0; i < a->n_out && variant & 4; i++) out[i] *= a->deg[i / per_node];
    free(message);
    return out;
}

static ff_scatter_csr *FF_T(csr_of)(const FF_T(arrays) * a)
{
    ff_scatter_csr *csr = NULL;
    assert_int_equal(ff_scatter_csr_create(a->dst, a->s.n_edges, a->s.n_nodes, &csr), FF_OK);
    return csr;
}

/* Equal bits, but for the sign of zero: a sum that starts at +0 never ends at -0 unless scaled by a negative number. */
static void FF_T(same)(const real *a, const real *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!(a[i] == b[i]))
            fail_msg("element %lld: %.17g, expected %.17g", (long long)i, (double)a[i], (double)b[i]);
}

__attribute__((unused)) static void FF_T(check_forward)(const FF_T(arrays) * a, int variant)
{
    FF_T(ff_scatter_in) in = FF_T(inputs)(a, variant);
    ff_scatter_csr *csr = FF_T(csr_of)(a);
    real *expected = FF_T(oracle)(a, variant), *out = FF_T(guarded)(a->n_out);
    for (int path = 0; path < 2; path++) {
        for (int64_t i = 0; i < a->n_out; i++) out[i] = (real)77; /* all of it is overwritten */
        assert_int_equal(FF_T(ff_scatter_forward)(csr, &a->s, &in, (ff_scatter_path)path, out), FF_OK);
        FF_T(same)(out, expected, a->n_out);
        FF_T(check_guard)(out, a->n_out);
    }
    free(expected), free(out);
    ff_scatter_csr_destroy(&csr);
}

/* ---- gradients ---- */

typedef struct FF_T(grads) {
    real *g[5];
    int64_t n[5];
} FF_T(grads);

static FF_T(grads)
    FF_T(gradients)(const FF_T(arrays) * a, const FF_T(ff_scatter_in) * in, ff_scatter_path path, int want)
{
    FF_T(grads)
    r = {.n = {a->s.n_edges * a->n_rows, a->n_radial, a->s.n_edges * 3 * a->s.n_channels, a->s.n_edges,
               a->s.n_nodes}};
    ff_scatter_csr *csr = FF_T(csr_of)(a);
    FF_T(ff_scatter_grad) d = {.size = sizeof d};
    real **slot[5] = {&d.coupling, &d.radial, &d.spin_l1, &d.gate, &d.inv_sqrt_deg};
    const void *given[5] = {in->coupling, in->radial, in->spin_l1, in->gate, in->inv_sqrt_deg};
    for (int i = 0; i < 5; i++) {
        r.g[i] = FF_T(guarded)(r.n[i]);
        for (int64_t k = 0; k < r.n[i]; k++) r.g[i][k] = (real)77;
        if (want >> i & 1 && given[i] != NULL) *slot[i] = r.g[i];
    }
    assert_int_equal(FF_T(ff_scatter_backward)(csr, &a->s, in, path, a->cot, &d), FF_OK);
    for (int i = 0; i < 5; i++) FF_T(check_guard)(r.g[i], r.n[i]);
    ff_scatter_csr_destroy(&csr);
    return r;
}

static void FF_T(drop_grads)(FF_T(grads) * r)
{
    for (int i = 0; i < 5; i++) free(r->g[i]);
}
