/* The scatter on the GPU in one precision, for the random cases of tests/unit/scatter_case_impl.h. Included with
 * FF_T(name) and real defined. Inputs are allocated to the element, so that compute-sanitizer sees a read past a row;
 * outputs end in a guard of NaN. */

typedef struct FF_T(dev) {
    ff_scatter_csr *csr;
    FF_T(ff_scatter_in) in;
    real *cot;
    void *block[8];
    int n_blocks;
} FF_T(dev);

static void *FF_T(put)(FF_T(dev) * d, const void *x, int64_t n, size_t size)
{
    void *p = NULL;
    CU(cudaMalloc(&p, n > 0 ? (size_t)n * size : 1));
    if (n > 0) CU(cudaMemcpy(p, x, (size_t)n * size, cudaMemcpyHostToDevice));
    return d->block[d->n_blocks++] = p;
}

/* extra: elements between the rows of channels of radial features, and before the first: a view. */
static FF_T(dev) FF_T(upload)(const FF_T(arrays) * a, int variant, int64_t extra)
{
    FF_T(dev) d = {.in = {.size = sizeof d.in}};
    const int64_t n_chan = a->s.n_channels, row = n_chan + extra, rows = a->s.n_edges * a->s.lmax;
    int64_t *dst = FF_T(put)(&d, a->dst, a->s.n_edges, sizeof *dst);
    assert_int_equal(ff_scatter_csr_create_cuda(dst, a->s.n_edges, a->s.n_nodes, NULL, &d.csr), FF_OK);
    d.in.coupling = FF_T(put)(&d, a->coupling, a->s.n_edges * a->n_rows, sizeof(real));
    real *view = calloc((size_t)(rows * row + extra) + 1, sizeof *view);
    for (int64_t i = 0; i < rows * n_chan; i++) view[extra + i / n_chan * row + i % n_chan] = a->radial[i];
    d.in.radial = (real *)FF_T(put)(&d, view, rows * row, sizeof(real)) + extra;
    if (extra > 0)
        d.in.radial_stride[0] = row * a->s.lmax, d.in.radial_stride[1] = row, d.in.radial_stride[2] = 1;
    free(view);
    if (variant & 1) d.in.spin_l1 = FF_T(put)(&d, a->spin, a->s.n_edges * 3 * n_chan, sizeof(real));
    if (variant & 2) d.in.gate = FF_T(put)(&d, a->gate, a->s.n_edges, sizeof(real));
    if (variant & 4) d.in.inv_sqrt_deg = FF_T(put)(&d, a->deg, a->s.n_nodes, sizeof(real));
    d.cot = FF_T(put)(&d, a->cot, a->n_out, sizeof(real));
    return d;
}

static void FF_T(release)(FF_T(dev) * d)
{
    ff_scatter_csr_destroy(&d->csr);
    for (int i = 0; i < d->n_blocks; i++) CU(cudaFree(d->block[i]));
}

/* Poisoned device array of n elements and a guard; read back with the guard checked. */
static real *FF_T(poisoned)(int64_t n)
{
    real *x = FF_T(guarded)(n), *p = NULL;
    for (int64_t i = 0; i < n; i++) x[i] = (real)77;
    CU(cudaMalloc((void **)&p, (size_t)(n + FF_T(GUARD)) * sizeof *p));
    CU(cudaMemcpy(p, x, (size_t)(n + FF_T(GUARD)) * sizeof *p, cudaMemcpyHostToDevice));
    free(x);
    return p;
}

static real *FF_T(fetched)(real *p, int64_t n)
{
    real *x = FF_T(guarded)(n);
    CU(cudaMemcpy(x, p, (size_t)(n + FF_T(GUARD)) * sizeof *p, cudaMemcpyDeviceToHost));
    CU(cudaFree(p));
    FF_T(check_guard)(x, n);
    return x;
}

static real *FF_T(gpu_forward)(const FF_T(arrays) * a, const FF_T(dev) * d, ff_scatter_path path)
{
    real *out = FF_T(poisoned)(a->n_out);
    ff_status st = FF_T(ff_scatter_forward)(d->csr, &a->s, &d->in, path, out);
    if (st != FF_OK) fail_msg("%s", ff_error_text());
    CU(cudaDeviceSynchronize());
    return FF_T(fetched)(out, a->n_out);
}

static FF_T(grads)
    FF_T(gpu_backward)(const FF_T(arrays) * a, const FF_T(dev) * d, ff_scatter_path path, int want)
{
    FF_T(grads)
    r = {.n = {a->s.n_edges * a->n_rows, a->n_radial, a->s.n_edges * 3 * a->s.n_channels, a->s.n_edges,
               a->s.n_nodes}};
    FF_T(ff_scatter_grad) g = {.size = sizeof g};
    real **slot[5] = {&g.coupling, &g.radial, &g.spin_l1, &g.gate, &g.inv_sqrt_deg}, *dev[5];
    const void *given[5] = {d->in.coupling, d->in.radial, d->in.spin_l1, d->in.gate, d->in.inv_sqrt_deg};
    for (int i = 0; i < 5; i++) {
        dev[i] = FF_T(poisoned)(r.n[i]);
        if (want >> i & 1 && given[i] != NULL) *slot[i] = dev[i];
    }
    ff_status st = FF_T(ff_scatter_backward)(d->csr, &a->s, &d->in, path, d->cot, &g);
    if (st != FF_OK) fail_msg("%s", ff_error_text());
    CU(cudaDeviceSynchronize());
    for (int i = 0; i < 5; i++) r.g[i] = FF_T(fetched)(dev[i], r.n[i]);
    return r;
}

/* Largest difference over the largest value, and the share of tol used. */
static void FF_T(close)(const char *what, const real *a, const real *b, int64_t n, double tol)
{
    double most = 0, err = 0;
    for (int64_t i = 0; i < n; i++) {
        double diff = fabs((double)a[i] - (double)b[i]);
        most = fmax(most, fabs((double)b[i]));
        err = diff > err || isnan(diff) ? (isnan(diff) ? HUGE_VAL : diff) : err;
    }
    if (err > tol * most)
        fail_msg("%s: error %.3g of the largest value %.3g, expected at most %.1e of it", what, err, most,
                 tol);
    if (most > 0) worst[sizeof(real) == 8] = fmax(worst[sizeof(real) == 8], err / most / tol);
}

/* float32: 24-bit sums of up to a few hundred terms against the CPU's, which are as short; inv_sqrt_deg is one long sum
 * a node that cancels. float64: the specification's 1e-13. */
static double FF_T(grad_tol)(int input)
{
    if (sizeof(real) == 8) return 1e-13;
    return input == 4 ? 5e-5 : 1e-6;
}

/* Both paths of the GPU against the messages added in order (to the bit unless tol > 0) and the CPU's gradients. */
static void FF_T(gpu_against_cpu)(const FF_T(arrays) * a, int variant, int64_t extra, double tol)
{
    static const char *const name[5] = {"grad coupling", "grad radial", "grad spin", "grad gate",
                                        "grad inv_sqrt_deg"};
    FF_T(dev) d = FF_T(upload)(a, variant, extra);
    FF_T(ff_scatter_in) in = FF_T(inputs)(a, variant);
    real *expected = FF_T(oracle)(a, variant);
    FF_T(grads) cpu = FF_T(gradients)(a, &in, FF_SCATTER_REFERENCE, 31);
    for (int path = small ? FF_SCATTER_FUSED : FF_SCATTER_REFERENCE; path <= FF_SCATTER_FUSED; path++) {
        real *out = FF_T(gpu_forward)(a, &d, (ff_scatter_path)path);
        if (tol > 0 && path == FF_SCATTER_FUSED)
            FF_T(close)("out", out, expected, a->n_out, tol);
        else
            FF_T(same)(out, expected, a->n_out);
        FF_T(grads)
        gpu = FF_T(gpu_backward)(a, &d, (ff_scatter_path)path, 31),
        again = FF_T(gpu_backward)(a, &d, (ff_scatter_path)path, 31);
        for (int i = 0; i < 5; i++) {
            FF_T(close)(name[i], gpu.g[i], cpu.g[i], gpu.n[i], FF_T(grad_tol)(i));
            assert_memory_equal(gpu.g[i], again.g[i], (size_t)gpu.n[i] * sizeof(real));
        }
        FF_T(drop_grads)(&gpu), FF_T(drop_grads)(&again);
        free(out);
    }
    FF_T(drop_grads)(&cpu);
    free(expected);
    FF_T(release)(&d);
}
