/* Sums edge features onto nodes with the fused zonal scatter and checks one gradient by a difference quotient.
 * Needs farfield_scatter.h only. */
#include "farfield_scatter.h"

#include <math.h>
#include <stdio.h>

enum { N = 3, E = 6, C = 4, LMAX = 2, D = 9 };

static double loss(const ff_scatter_csr *csr, const ff_scatter_in_f64 *in, const double *cot, double *out)
{
    const ff_scatter_shape shape = {N, E, C, LMAX};
    double sum = 0;
    if (ff_scatter_forward_f64(csr, &shape, in, FF_SCATTER_FUSED, out) != FF_OK) return NAN;
    for (int i = 0; i < N * D * C; i++) sum += cot[i] * out[i];
    return sum;
}

int main(void)
{
    const int64_t dst[E] = {2, 0, 2, 2, 0, 2}; /* node 1 has no edge */
    const ff_scatter_shape shape = {N, E, C, LMAX};
    static double coupling[E * (D - 1)], radial[E * LMAX * C], cot[N * D * C], out[N * D * C],
        d_coupling[E * (D - 1)];
    for (int i = 0; i < E * (D - 1); i++) coupling[i] = sin(1.0 + i);
    for (int i = 0; i < E * LMAX * C; i++) radial[i] = cos(2.0 * i);
    for (int i = 0; i < N * D * C; i++) cot[i] = sin(3.0 * i);

    ff_scatter_csr *csr = NULL;
    ff_scatter_in_f64 in = FF_SCATTER_IN_F64_INIT;
    ff_scatter_grad_f64 grad = FF_SCATTER_GRAD_F64_INIT;
    in.coupling = coupling, in.radial = radial;
    grad.coupling = d_coupling;
    ff_status st = ff_scatter_csr_create(dst, E, N, &csr);
    if (st == FF_OK) st = ff_scatter_backward_f64(csr, &shape, &in, FF_SCATTER_FUSED, cot, &grad);
    if (st == FF_OK) {
        double before = loss(csr, &in, cot, out), difference;
        for (int n = 0; n < N; n++)
            printf("node %d: first channel of l = 1: %+.4f\n", n, out[(n * D + 1) * C]);
        coupling[5] += 1; /* the sum is linear in each input: any step is exact */
        difference = loss(csr, &in, cot, out) - before;
        printf("gradient %.12f, difference quotient %.12f\n", d_coupling[5], difference);
        if (!(fabs(difference - d_coupling[5]) < 1e-12)) st = FF_E_CHECK;
    }
    if (st != FF_OK) fprintf(stderr, "scatter: %s\n", ff_error_text());
    ff_scatter_csr_destroy(&csr);
    return ff_exit_code(st);
}
