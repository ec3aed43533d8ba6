/* Rows and vectors of the fused scatter, its instruction sets, and the public calls, for one precision. Included by
 * ff_scatter_f32.c and ff_scatter_f64.c after ff_scatter_job.h. */

/* Vectors at any address; arithmetic of each lane is that of one number. */
typedef real vec64 __attribute__((vector_size(64), aligned(sizeof(real)), may_alias));
typedef real vec32 __attribute__((vector_size(32), aligned(sizeof(real)), may_alias));
typedef real vec16 __attribute__((vector_size(16), aligned(sizeof(real)), may_alias));
typedef real vec1;
#define LANES_OF(type) ((int64_t)(sizeof(type) / sizeof(real)))
#define ZERO                                                                                                 \
    (vec)                                                                                                    \
    {                                                                                                        \
        0                                                                                                    \
    }

/* 13 variables, and a statement for each of the first R. */
#define EACH_NAME(a)                                                                                         \
    a##0 = ZERO, a##1 = ZERO, a##2 = ZERO, a##3 = ZERO, a##4 = ZERO, a##5 = ZERO, a##6 = ZERO, a##7 = ZERO,  \
    a##8 = ZERO, a##9 = ZERO, a##10 = ZERO, a##11 = ZERO, a##12 = ZERO
#define EACH_ROW(M)                                                                                          \
    M(0, a0) M(1, a1) M(2, a2) if (R > 3)                                                                    \
    {                                                                                                        \
        M(3, a3) M(4, a4)                                                                                    \
    }                                                                                                        \
    if (R > 5) {                                                                                             \
        M(5, a5) M(6, a6)                                                                                    \
    }                                                                                                        \
    if (R > 7) {                                                                                             \
        M(7, a7) M(8, a8)                                                                                    \
    }                                                                                                        \
    if (R > 9) {                                                                                             \
        M(9, a9) M(10, a10)                                                                                  \
    }                                                                                                        \
    if (R > 11) {                                                                                            \
        M(11, a11) M(12, a12)                                                                                \
    }
#define ROW_LOAD(i, a)  a = *(const vec *)(sum + i * n_chan);
#define ROW_STORE(i, a) *(vec *)(sum + i * n_chan) = a;
#define ROW_PLAIN(i, a) a += f * z[i];
#define ROW_GATE(i, a)  a += f * z[i] * g;
#define ROW_SPIN(i, a)  a += (f * z[i] + *(const vec *)(s + i * n_chan)) * g;
#define ROW_EDGE(i, a)                                                                                       \
    {                                                                                                        \
        const vec t = *(const vec *)(cot + i * n_chan + c);                                                  \
        a += t * f;                                                                                          \
        d += t * z[i];                                                                                       \
    }
#define ROW_D_SPIN(i, a)                                                                                     \
    if (i < 3) *(vec *)(d_spin + i * n_chan + c) = *(const vec *)(cot + i * n_chan + c) * scale;
#define ROW_DOT(i, a)                                                                                        \
    if (i < 3) dot += *(const vec *)(cot + i * n_chan + c) * *(const vec *)(s + i * n_chan);
#define ROW_LANES(i, a) q[i] += BLOCK(lanes)(&a);

#define ISA(name) name##_base
#define TARGET
#include "ff_scatter_impl.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define ISA(name) name##_avx2
#define TARGET    __attribute__((target("avx2")))
#include "ff_scatter_impl.h"

#define ISA(name) name##_avx512
#define TARGET    __attribute__((target("avx512f,avx2")))
#include "ff_scatter_impl.h"
#define IF_X86(f) f
#else
#define IF_X86(f) NULL
#endif

static const ff_scatter_task forward_of[] = {forward_base, IF_X86(forward_avx2), IF_X86(forward_avx512)};
static void (*const backward_of[])(const job *, int64_t, int64_t) = {backward_base, IF_X86(backward_avx2),
                                                                     IF_X86(backward_avx512)};

enum { EDGE_BLOCK = 256 };

static void fused_edges(const job *j)
{
    void (*backward)(const job *, int64_t, int64_t) = backward_of[ff_scatter_isa()];
    const int64_t n = j->csr->n_edges;
#pragma omp parallel for schedule(static) if (n > EDGE_BLOCK)
    for (int64_t b = 0; b < (n + EDGE_BLOCK - 1) / EDGE_BLOCK; b++)
        backward(j, b * EDGE_BLOCK, (b + 1) * EDGE_BLOCK < n ? (b + 1) * EDGE_BLOCK : n);
}

static ff_status fused_backward(job *j)
{
    ff_status st = FF_OK;
    const ff_scatter_csr *csr = j->csr;
    if (j->grad.inv_sqrt_deg != NULL) FF_GO(FF_NEW(j->share, csr->n_edges));
    fused_edges(j);
    if (j->grad.inv_sqrt_deg == NULL) goto done;
#pragma omp parallel for schedule(static) if (csr->n_edges > EDGE_BLOCK)
    for (int64_t n = 0; n < csr->n_nodes; n++) {
        double d = 0;
        for (int64_t k = csr->off[n]; k < csr->off[n + 1]; k++) d += j->share[csr->edge[k]];
        j->grad.inv_sqrt_deg[n] = (real)d;
    }
done:
    FF_FREE(j->share);
    return st;
}

/* ---- public calls ---- */

static ff_scatter_call call_of(const job *j, ff_scatter_path path)
{
    const int64_t *stride = j->in.radial_stride;
    return (ff_scatter_call){.f64 = sizeof(real) == sizeof(double),
                             .path = path,
                             .n_chan = j->n_chan,
                             .lmax = j->lmax,
                             .radial_stride = {stride[0], stride[1], stride[2]},
                             .in = given_of(&j->in),
                             .cot = j->cot,
                             .out = j->out,
                             .d_coupling = j->grad.coupling,
                             .d_radial = j->grad.radial,
                             .d_spin_l1 = j->grad.spin_l1,
                             .d_gate = j->grad.gate,
                             .d_inv_sqrt_deg = j->grad.inv_sqrt_deg,
                             .stream = j->in.stream};
}

ff_status FF_T(ff_scatter_forward)(const ff_scatter_csr *csr, const ff_scatter_shape *shape,
                                   const FF_T(ff_scatter_in) * in, ff_scatter_path path, real *out)
{
    job j = {.out = out};
    FF_TRY(ff_scatter_take(IN_NAME, in, &j.in, sizeof j.in));
    ff_scatter_given g = given_of(&j.in);
    FF_TRY(ff_scatter_check(csr, shape, &g, out, "out"));
    job_fill(&j, csr, shape);
    FF_TRY(ff_scatter_choose(path, j.in.radial_stride, &path));
    if (csr->row != NULL) {
        ff_scatter_call call = call_of(&j, path);
        return csr->row->forward(csr, &call);
    }
    if (path == FF_SCATTER_FUSED)
        ff_scatter_nodes(csr, shape->lmax, forward_of[ff_scatter_isa()], &j);
    else
        reference_forward(&j);
    return FF_OK;
}

ff_status FF_T(ff_scatter_backward)(const ff_scatter_csr *csr, const ff_scatter_shape *shape,
                                    const FF_T(ff_scatter_in) * in, ff_scatter_path path,
                                    const real *cotangent, const FF_T(ff_scatter_grad) * grad)
{
    job j = {.cot = cotangent};
    FF_TRY(ff_scatter_take(IN_NAME, in, &j.in, sizeof j.in));
    FF_TRY(ff_scatter_take(GRAD_NAME, grad, &j.grad, sizeof j.grad));
    ff_scatter_given g = given_of(&j.in),
                     d = {j.grad.coupling, j.grad.radial, j.grad.spin_l1, j.grad.gate, j.grad.inv_sqrt_deg};
    FF_TRY(ff_scatter_check(csr, shape, &g, cotangent, "cotangent"));
    FF_TRY(ff_scatter_check_grad(&g, &d));
    job_fill(&j, csr, shape);
    FF_TRY(ff_scatter_choose(path, j.in.radial_stride, &path));
    if (csr->row != NULL) {
        ff_scatter_call call = call_of(&j, path);
        return csr->row->backward(csr, &call);
    }
    return path == FF_SCATTER_FUSED ? fused_backward(&j) : reference_backward(&j);
}
