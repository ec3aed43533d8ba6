/* scatter_forward, scatter_backward: the fused zonal scatter for one precision and instruction set.
 * Included by ff_scatter_f32.c and ff_scatter_f64.c with ISA(name) and TARGET, once an instruction set.
 *
 * Work    forward: a node's edges in strips of STRIP; of a strip one degree after the other, so that its radial
 *         features come from memory once; a degree's rows x one vector of channels stay in registers over the strip.
 *         backward: one edge after the other; its node's cotangent rows are read from cache.
 * Shapes  farfield_scatter.h. Channels are cut into vectors of 64, 32 and 16 bytes and single ones: nothing is read or
 *         written past a row, and the cut is the same on every instruction set
 * Order   forward: edges ascending, each element alone. backward: channels in vectors of the cut, lanes by halving
 * Bound   memory: docs/scatter.md
 * Oracle  reference path of ff_scatter_job.h, tests/unit/test_scatter.c */
#define INLINE static inline __attribute__((always_inline, unused)) TARGET

/* Sums of all lanes, by halving. */
INLINE real ISA(lanes_1)(const vec1 *v)
{
    return *v;
}

INLINE real ISA(lanes_16)(const vec16 *v)
{
    const real *p = (const real *)v;
    return LANES_OF(vec16) == 2 ? p[0] + p[1] : (p[0] + p[2]) + (p[1] + p[LANES_OF(vec16) - 1]);
}

INLINE real ISA(lanes_32)(const vec32 *v)
{
    const vec16 *half = (const vec16 *)v, sum = half[0] + half[1];
    return ISA(lanes_16)(&sum);
}

INLINE real ISA(lanes_64)(const vec64 *v)
{
    const vec32 *half = (const vec32 *)v, sum = half[0] + half[1];
    return ISA(lanes_32)(&sum);
}

#define BLOCK(name) ISA(name##_64)
#define vec         vec64
#include "ff_scatter_block_impl.h"

#define BLOCK(name) ISA(name##_32)
#define vec         vec32
#include "ff_scatter_block_impl.h"

#define BLOCK(name) ISA(name##_16)
#define vec         vec16
#include "ff_scatter_block_impl.h"

#define BLOCK(name) ISA(name##_1)
#define vec         vec1
#include "ff_scatter_block_impl.h"

/* ---- forward ---- */

INLINE void ISA(add_degree)(const job *j, const int R, int l, int64_t k0, int64_t k1, real *sum)
{
    int64_t c = 0;
    for (; c + LANES_OF(vec64) <= j->n_chan; c += LANES_OF(vec64)) ISA(add_64)(j, R, l, k0, k1, c, sum + c);
    for (; c + LANES_OF(vec32) <= j->n_chan; c += LANES_OF(vec32)) ISA(add_32)(j, R, l, k0, k1, c, sum + c);
    for (; c + LANES_OF(vec16) <= j->n_chan; c += LANES_OF(vec16)) ISA(add_16)(j, R, l, k0, k1, c, sum + c);
    for (; c < j->n_chan; c++) ISA(add_1)(j, R, l, k0, k1, c, sum + c);
}

TARGET static void ISA(forward_node)(const job *j, int64_t n, int l0, int l1)
{
    real *sum = j->out + node_at(j, n);
    const int64_t first = (l0 * l0 - 1) * j->n_chan, end = (l1 * l1 + 2 * l1) * j->n_chan;
    if (l0 == 1) memset(sum - j->n_chan, 0, (size_t)j->n_chan * sizeof *sum);
    memset(sum + first, 0, (size_t)(end - first) * sizeof *sum);
    for (int64_t k0 = j->csr->off[n]; k0 < j->csr->off[n + 1]; k0 += STRIP) {
        const int64_t k1 = k0 + STRIP < j->csr->off[n + 1] ? k0 + STRIP : j->csr->off[n + 1];
        for (int l = l0; l <= l1; l++) {
            real *rows = sum + (l * l - 1) * j->n_chan;
            switch (l) {
            case 1:
                ISA(add_degree)(j, 3, 1, k0, k1, rows);
                break;
            case 2:
                ISA(add_degree)(j, 5, 2, k0, k1, rows);
                break;
            case 3:
                ISA(add_degree)(j, 7, 3, k0, k1, rows);
                break;
            case 4:
                ISA(add_degree)(j, 9, 4, k0, k1, rows);
                break;
            case 5:
                ISA(add_degree)(j, 11, 5, k0, k1, rows);
                break;
            default:
                ISA(add_degree)(j, 13, 6, k0, k1, rows);
                break;
            }
        }
    }
    if (j->in.inv_sqrt_deg != NULL)
        for (int64_t i = first; i < end; i++) sum[i] *= j->in.inv_sqrt_deg[n];
}

static void ISA(forward)(void *ctx, int64_t n0, int64_t n1, int l0, int l1)
{
    for (int64_t n = n0; n < n1; n++) ISA(forward_node)(ctx, n, l0, l1);
}

/* ---- backward ---- */

/* One degree of edge e; returns its part of the gradient of the gate, without inv_sqrt_deg. */
INLINE double ISA(edge_degree)(const job *j, const int R, int l, int64_t e, const real *cot_rows, real scale)
{
    const int64_t n_chan = j->n_chan, row0 = l * l - 1;
    const int64_t c64 = n_chan - n_chan % LANES_OF(vec64), c32 = n_chan - n_chan % LANES_OF(vec32),
                  c16 = n_chan - n_chan % LANES_OF(vec16);
    const real *cot = cot_rows + row0 * n_chan, *z = j->in.coupling + e * j->n_rows + row0;
    real q[13] = {0}, dot = 0;
    if (c64 > 0) dot += ISA(edge_64)(j, R, l, e, cot, scale, 0, c64, q);
    if (c32 > c64) dot += ISA(edge_32)(j, R, l, e, cot, scale, c64, c32, q);
    if (c16 > c32) dot += ISA(edge_16)(j, R, l, e, cot, scale, c32, c16, q);
    if (n_chan > c16) dot += ISA(edge_1)(j, R, l, e, cot, scale, c16, n_chan, q);
    if (j->grad.coupling != NULL)
        for (int i = 0; i < R; i++) j->grad.coupling[e * j->n_rows + row0 + i] = q[i] * scale;
    double d_gate = (double)dot;
    if (j->grad.gate != NULL || j->share != NULL)
        for (int i = 0; i < R; i++) d_gate += (double)z[i] * (double)q[i];
    return d_gate;
}

TARGET static void ISA(backward_edge)(const job *j, int64_t e)
{
    const int64_t n = j->csr->dst[e];
    const real *cot = j->cot + node_at(j, n), g = gate_of(j, e), scale = scale_of(j, n) * g;
    double d_gate = ISA(edge_degree)(j, 3, 1, e, cot, scale);
    if (j->lmax >= 2) d_gate += ISA(edge_degree)(j, 5, 2, e, cot, scale);
    if (j->lmax >= 3) d_gate += ISA(edge_degree)(j, 7, 3, e, cot, scale);
    if (j->lmax >= 4) d_gate += ISA(edge_degree)(j, 9, 4, e, cot, scale);
    if (j->lmax >= 5) d_gate += ISA(edge_degree)(j, 11, 5, e, cot, scale);
    if (j->lmax >= 6) d_gate += ISA(edge_degree)(j, 13, 6, e, cot, scale);
    if (j->grad.gate != NULL) j->grad.gate[e] = (real)(d_gate * (double)scale_of(j, n));
    if (j->share != NULL) j->share[e] = d_gate * (double)g;
}

static void ISA(backward)(const job *j, int64_t e0, int64_t e1)
{
    for (int64_t e = e0; e < e1; e++) ISA(backward_edge)(j, e);
}

#undef INLINE
#undef ISA
#undef TARGET
