/* Potential and field of 20,000 random charges with the treecode, its error, and the derivative of the field energy
 * with respect to the charges. Needs farfield_sum.h only. */
#include "farfield_sum.h"

#include <math.h>
#include <stdio.h>

enum { N = 20000 };

static double x[3 * N], q[N], phi[N], field[3 * N], d_q[N];

int main(void)
{
    ff_sum *s = NULL;
    ff_sum_error of_phi, of_field;
    ff_sum_info info;
    ff_sum_opts opts = FF_SUM_OPTS_INIT;
    opts.kernel = FF_SUM_INV_R;
    opts.rtol = 1e-3;
    opts.gradient = opts.adjoint = true;
    for (int i = 0; i < 3 * N; i++) x[i] = fmod(0.5 + sin(12.9898 * i) * 43758.5453, 1.0);
    for (int i = 0; i < N; i++) q[i] = i % 2 != 0 ? 1.0 : -0.5;

    ff_status st = ff_sum_create(NULL, 0, x, N, &opts, &s);
    if (st == FF_OK) st = ff_sum_apply(s, q, phi, field);
    if (st == FF_OK) st = ff_sum_check(s, q, phi, field, 20, &of_phi, &of_field);
    /* E = 1/2 q . phi(q); its derivative is phi where the kernel is symmetric, and so it comes out. */
    if (st == FF_OK) st = ff_sum_adjoint(s, q, NULL, d_q);
    if (st != FF_OK) {
        fprintf(stderr, "sum: %s\n", ff_error_text());
        return 1;
    }
    ff_sum_get_info(s, &info);
    printf("theta %g, order %d: %.3g direct pairs instead of %.3g\n", info.theta, info.order,
           (double)info.direct_pairs, (double)N * N);
    printf("error (p99) of phi %.1e, of the field %.1e\n", of_phi.p99, of_field.p99);
    printf("phi[7] = %.6f, dE/dq[7] = %.6f\n", phi[7], d_q[7]);
    ff_sum_destroy(&s);
    return of_phi.p99 < 1e-3 && of_field.p99 < 1e-3 && fabs(phi[7] - d_q[7]) < 1e-9 * (1 + fabs(phi[7])) ? 0
                                                                                                         : 1;
}
