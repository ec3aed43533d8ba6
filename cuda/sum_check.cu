/* Direct float64 sums at sampled targets, and the errors of given values.
 *
 * sum_exact: exact[k][c] = sum over all sources of the pairs with target k n_targets / n
 * Work    a block a sampled target, 256 threads share its sources; the arithmetic is that of ff_sum_pair.h in float64
 * Order   thread t adds sources t, t + 256, ..., then the threads by halves
 * Oracle  tests/gpu/test_sum.c */
#define SUM_F64 1
#include "sum_dist.cuh"
#include "sum_lanes.cuh"

#include <stdlib.h>

typedef struct exact_args {
    const double *x_t, *x_s, *q;
    int64_t n_t, n_s, n;
    int64_t first, here; /* targets of this rank */
    int dim, n_in, n_dens, n_out;
    ff_sum_spec spec;
    double *exact; /* [n][12] */
} exact_args;

static __global__ void __launch_bounds__(256) sum_exact(const exact_args a, const ff_radial_par par)
{
    __shared__ double all[256];
    const int64_t t = (int64_t)((double)blockIdx.x * (double)a.n_t / (double)a.n) - a.first;
    if (t < 0 || t >= a.here) return; /* another rank's */
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
    const int64_t t = (int64_t)((double)k * (double)a.n_t / (double)a.n) - a.first;
    if (t < 0 || t >= a.here) return;
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

/* Sums and values of this rank's targets; zeros for others. exact [2][n][12] */
static ff_status sampled(ff_sum_cuda *s, exact_args a, const double *d_value, const double *d_gradient,
                         double *exact)
{
    ff_status st = FF_OK;
    double *d_both = NULL;
    const int64_t n = a.n;
    FF_GO(FF_ALLOC(s->pool, d_both, 24 * n));
    FF_GO(ff_cuda_zero(s->pool, d_both, (size_t)(24 * n) * sizeof *d_both));
    a.exact = d_both;
    sum_exact<<<(unsigned)n, 256, 0, s->stream>>>(a, sum_parameters(&s->spec));
    FF_CU(cudaGetLastError());
    sum_sample<<<ff_grid(n, 1), 256, 0, s->stream>>>(a, d_value, d_gradient, ff_sum_opts_out(&s->o),
                                                     d_both + 12 * n);
    FF_CU(cudaGetLastError());
    FF_GO(ff_cuda_get(s->pool, exact, d_both, (size_t)(24 * n) * sizeof *exact));
    FF_GO(ff_cuda_wait(s->pool));
done:
    ff_cuda_free(s->pool, d_both);
    return st;
}

/* Each number is one rank's and has no bit set elsewhere: bits are joined as integers. Collective */
static ff_status join(ff_comm *comm, double *exact, int64_t n)
{
    return ff_comm_allreduce(comm, exact, n, FF_SUM_I64);
}

static ff_status check_dist(ff_sum_cuda *s, exact_args a, const double *d_value, const double *d_gradient,
                            double *exact)
{
    ff_status st = FF_OK;
    const sum_share *h = &s->dist->share[s->n_side - 1];
    double *x_s = NULL, *q = NULL;
    FF_GO(sum_dist_all(s, 0, a.x_s, s->o.dim, &x_s));
    FF_GO(sum_dist_all(s, 0, a.q, (int64_t)s->n_in * s->o.n_densities, &q));
    a.x_s = x_s, a.q = q, a.first = h->first_home, a.here = h->n_home;
    FF_GO(ff_agree(s->dist->comm, sampled(s, a, d_value, d_gradient, exact)));
    st = join(s->dist->comm, exact, 24 * a.n);
done:
    ff_cuda_free(s->pool, x_s);
    ff_cuda_free(s->pool, q);
    return st;
}

extern "C" ff_status ff_sum_cuda_check(ff_sum_cuda *s, const double *d_targets, const double *d_sources,
                                       const double *d_density, const double *d_value,
                                       const double *d_gradient, int64_t n, ff_sum_error *of_value,
                                       ff_sum_error *of_gradient, double l2[2])
{
    ff_status st = FF_OK;
    double *exact = NULL;
    int64_t grad = d_gradient != NULL; /* a rank may have no targets */
    const int64_t n_t = sum_targets(s)->n;
    const int n_value = ff_sum_opts_out(&s->o);
    ff_sum_error unused, *e_v = of_value != NULL ? of_value : &unused;
    ff_sum_error *e_g = of_gradient != NULL ? of_gradient : &unused;
    *e_v = *e_g = {0, 0, 0, 0};
    l2[0] = l2[1] = 0;
    if (n > n_t) n = n_t;
    if (s->dist != NULL) FF_TRY(ff_comm_allreduce(s->dist->comm, &grad, 1, FF_MAX_I64));
    if (n < 1) return FF_OK;
    const exact_args a = {s->n_side == 2 ? d_targets : d_sources,
                          d_sources,
                          d_density,
                          n_t,
                          s->side[0].n,
                          n,
                          0,
                          n_t,
                          s->o.dim,
                          s->n_in,
                          s->o.n_densities,
                          s->n_out,
                          s->spec,
                          NULL};
    exact = (double *)ff_mem_alloc0((size_t)(25 * n), sizeof *exact);
    st = exact != NULL ? FF_OK : FF_E_MEM;
    if (s->dist != NULL) st = ff_agree(s->dist->comm, st);
    FF_GO(st);
    FF_GO(s->dist != NULL ? check_dist(s, a, d_value, d_gradient, exact)
                          : sampled(s, a, d_value, d_gradient, exact));
    errors(exact, exact + 12 * n, n, 0, n_value, exact + 24 * n, e_v, &l2[0]);
    if (grad != 0) errors(exact, exact + 12 * n, n, n_value, 3 * n_value, exact + 24 * n, e_g, &l2[1]);
done:
    ff_free(exact);
    return st;
}
