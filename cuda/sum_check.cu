/* Direct float64 sums at sampled targets, and the errors of given values.
 *
 * sum_exact: exact[k][c] = sum over all sources of the pairs with target k n_targets / n
 * Work    a block a sampled target, 256 threads share its sources; the arithmetic is that of ff_sum_pair.h in float64
 * Order   thread t adds sources t, t + 256, ..., then the threads by halves
 * Oracle  tests/gpu/test_sum.c */
#define SUM_F64 1
#include "sum_lanes.cuh"

#include <stdlib.h>

typedef struct exact_args {
    const double *x_t, *x_s, *q;
    int64_t n_t, n_s, n;
    int dim, n_in, n_dens, n_out;
    ff_sum_spec spec;
    double *exact; /* [n][12] */
} exact_args;

static __global__ void __launch_bounds__(256) sum_exact(const exact_args a, const ff_radial_par par)
{
    __shared__ double all[256];
    const int64_t t = (int64_t)((double)blockIdx.x * (double)a.n_t / (double)a.n);
    double x[3] = {0, 0, 0}, out[12] = {0};
    for (int d = 0; d < a.dim; d++) x[d] = a.x_t[t * a.dim + d];
    for (int64_t j = threadIdx.x; j < a.n_s; j += 256) {
        double d[3] = {0, 0, 0}, q[4] = {0, 0, 0, 0};
        for (int c = 0; c < a.dim; c++) d[c] = x[c] - a.x_s[j * a.dim + c];
        for (int c = 0; c < a.n_in; c++) q[c] = a.q[j * a.n_dens * a.n_in + c];
        if (a.spec.in == 0)
            ff_pair_stokeslet(a.spec.grad, d[0], d[1], d[2], q, out);
        else
            ff_pair_radial(a.spec.kernel, &par, a.spec.in, a.spec.grad, d[0], d[1], d[2], q, out);
    }
    for (int c = 0; c < a.n_out; c++) {
        all[threadIdx.x] = out[c];
        for (int half = 128; half > 0; half /= 2) {
            __syncthreads();
            if (threadIdx.x < half) all[threadIdx.x] += all[threadIdx.x + half];
        }
        __syncthreads();
        if (threadIdx.x == 0) a.exact[12 * (int64_t)blockIdx.x + c] = all[0];
        __syncthreads();
    }
}

/* Values as given, at the sampled targets: [n][12] like exact. */
static __global__ void __launch_bounds__(256)
    sum_sample(const exact_args a, const double *value, const double *gradient, int n_value, double *given)
{
    const int64_t k = ff_thread();
    if (k >= a.n) return;
    const int64_t t = (int64_t)((double)k * (double)a.n_t / (double)a.n);
    for (int c = 0; c < n_value; c++) given[12 * k + c] = value[t * a.n_dens * n_value + c];
    for (int c = 0; gradient != NULL && c < 3 * n_value; c++)
        given[12 * k + n_value + c] =
            c % 3 < a.dim ? gradient[t * a.n_dens * n_value * a.dim + c / 3 * a.dim + c % 3] : 0;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double at_share(const double *sorted, int64_t n, double share)
{
    const int64_t k = (int64_t)ceil(share * (double)n) - 1;
    return sorted[k < 0 ? 0 : k];
}

/* Errors of components [from, from + n_c). work [n]. */
static void errors(const double *exact, const double *given, int64_t n, int from, int n_c, double *work,
                   ff_sum_error *e, double *l2)
{
    double square = 0, wrong = 0;
    for (int64_t k = 0; k < n; k++)
        for (int c = from; c < from + n_c; c++) square += exact[12 * k + c] * exact[12 * k + c];
    const double rms = sqrt(square / (double)n);
    for (int64_t k = 0; k < n; k++) {
        double d2 = 0, e2 = 0;
        for (int c = from; c < from + n_c; c++) {
            const double x = exact[12 * k + c], d = given[12 * k + c] - x;
            d2 += d * d, e2 += x * x;
        }
        wrong += d2;
        const double scale = fmax(sqrt(e2), rms);
        work[k] = d2 == 0 ? 0 : scale > 0 ? sqrt(d2) / scale : HUGE_VAL;
        if (!(work[k] == work[k])) work[k] = HUGE_VAL;
    }
    qsort(work, (size_t)n, sizeof *work, by_value);
    *e = {at_share(work, n, 0.5), at_share(work, n, 0.95), at_share(work, n, 0.99), work[n - 1]};
    *l2 = square > 0 ? sqrt(wrong / square) : sqrt(wrong);
}

extern "C" ff_status ff_sum_cuda_check(ff_sum_cuda *s, const double *d_targets, const double *d_sources,
                                       const double *d_density, const double *d_value,
                                       const double *d_gradient, int64_t n, ff_sum_error *of_value,
                                       ff_sum_error *of_gradient, double l2[2])
{
    ff_status st = FF_OK;
    double *exact = NULL, *d_both = NULL;
    const int64_t n_t = sum_targets(s)->n;
    const int n_value = ff_sum_opts_out(&s->o);
    ff_sum_error unused, *e_v = of_value != NULL ? of_value : &unused;
    ff_sum_error *e_g = of_gradient != NULL ? of_gradient : &unused;
    *e_v = *e_g = {0, 0, 0, 0};
    l2[0] = l2[1] = 0;
    if (n > n_t) n = n_t;
    if (n < 1) return FF_OK;
    const exact_args a = {d_targets != NULL ? d_targets : d_sources,
                          d_sources,
                          d_density,
                          n_t,
                          s->side[0].n,
                          n,
                          s->o.dim,
                          s->n_in,
                          s->o.n_densities,
                          s->n_out,
                          s->spec,
                          NULL};
    exact_args b = a;
    exact = (double *)ff_mem_alloc0((size_t)(25 * n), sizeof *exact);
    FF_GO(exact != NULL ? FF_OK : FF_E_MEM);
    FF_GO(FF_ALLOC(s->pool, d_both, 24 * n));
    FF_GO(ff_cuda_zero(s->pool, d_both, (size_t)(24 * n) * sizeof *d_both));
    b.exact = d_both;
    sum_exact<<<(unsigned)n, 256, 0, s->stream>>>(b, sum_parameters(&s->spec));
    FF_CU(cudaGetLastError());
    sum_sample<<<ff_grid(n, 1), 256, 0, s->stream>>>(b, d_value, d_gradient, n_value, d_both + 12 * n);
    FF_CU(cudaGetLastError());
    FF_GO(ff_cuda_get(s->pool, exact, d_both, (size_t)(24 * n) * sizeof *exact));
    FF_GO(ff_cuda_wait(s->pool));
    errors(exact, exact + 12 * n, n, 0, n_value, exact + 24 * n, e_v, &l2[0]);
    if (d_gradient != NULL)
        errors(exact, exact + 12 * n, n, n_value, 3 * n_value, exact + 24 * n, e_g, &l2[1]);
done:
    ff_free(exact);
    ff_cuda_free(s->pool, d_both);
    return st;
}
