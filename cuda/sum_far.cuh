/* Far field by Cartesian Taylor expansions (sum_cartesian.cuh), one precision (sum_types.cuh), one order a call.
 *
 * sum_far_leaves   moments of leaves from points: a thread a leaf
 * sum_far_up       moments of the nodes of a level from their children's: a thread a node
 * sum_far_pairs    L of every node from the moments of the nodes of its far list: FAR_LANES lanes a node share the list,
 *                  then add up in order of lanes
 * sum_far_join     pieces of long lists, added in order: a warp a node, lanes over numbers
 * sum_far_down     L of a level's nodes, their parents' added: a thread a node
 * sum_far_points   values at the points of a leaf, added to part: a lane a point
 * Launch  128 threads a block, no shared memory
 * Shapes  moments, local [n_nodes][CART_STRIDE]; part [n_out][n_pad] f64
 * Order   lists in ascending order of sources, lane l takes entries l, l + FAR_LANES, ...; no atomics
 * Bound   FP32: binomial(p + 6, 6) multiply-adds and some 1.6 binomial(p + 4, 4) for the tensor a pair of nodes
 * Oracle  direct sums, tests/gpu/test_sum.c; the functions themselves on the CPU, tests/gpu/test_sum.c */
#ifndef SUM_FAR_CUH
#define SUM_FAR_CUH

#include "sum_cartesian.cuh"

enum { FAR_LANES = 8 };

/* Length unit of a node: the power of two above its radius, so that scaling is exact. */
static __device__ __forceinline__ real far_unit(const sum_node &c)
{
#if SUM_F64
    return __longlong_as_double((__double_as_longlong(c.r) & 0x7ff0000000000000ll) + 0x0010000000000000ll);
#else
    return __int_as_float((__float_as_int(c.r) & 0x7f800000) + 0x00800000);
#endif
}

template <int P> static __device__ __forceinline__ void far_read(const real *from, real *to)
{
#pragma unroll
    for (int c = 0; c < CART_STRIDE(P); c += 4) {
        const sum_four v = *(const sum_four *)(from + c);
        to[c] = v.x, to[c + 1] = v.y, to[c + 2] = v.z, to[c + 3] = v.w;
    }
}

template <int P> static __device__ __forceinline__ void far_write(const real *from, real *to)
{
#pragma unroll
    for (int c = 0; c < CART_STRIDE(P); c += 4) {
        const sum_four v = {from[c], from[c + 1], from[c + 2], from[c + 3]};
        *(sum_four *)(to + c) = v;
    }
}

template <int P>
static __global__ void __launch_bounds__(128)
    sum_far_leaves(const sum_side side, const sum_frame *frame, int what, real *moments)
{
    constexpr int N = CART_STRIDE(P);
    const int64_t leaf = sum_first(&side, 0) + (int64_t)blockIdx.x * 128 + threadIdx.x;
    if (leaf >= sum_end(&side, 0)) return;
    const sum_node c = ((const sum_node *)side.d_node)[leaf];
    const real quantum = (real)frame->quantum, inverse = 1 / far_unit(c);
    real q[N] = {0}, m[N];
    for (int k = 0; k < SUM_LEAF; k++) {
        const sum_point y = ((const sum_point *)side.d_point)[32 * leaf + k];
        const real x[3] = {sum_length(c.x - y.x, quantum) * inverse, sum_length(c.y - y.y, quantum) * inverse,
                           sum_length(c.z - y.z, quantum) * inverse};
        cart_monomials<P>(x, m);
        if (what == SUM_FAR_CHARGE || what == SUM_FAR_BOTH) cart_charge<P>(y.q, m, q);
        if (what == SUM_FAR_CHARGE) continue;
        const sum_four d = ((const sum_four *)side.d_more)[32 * leaf + k];
        if (what <= SUM_FAR_BOTH || what == SUM_FAR_ROOT) {
            const real v[3] = {d.x * inverse, d.y * inverse, d.z * inverse};
            cart_dipole<P>(v, m, q);
        } else
            cart_charge<P>(what == SUM_FAR_X ? d.x : what == SUM_FAR_Y ? d.y : d.z, m, q);
    }
    far_write<P>(q, moments + leaf * N);
}

/* Of child minus parent over the parent's unit, times sign. */
template <int P>
static __device__ __forceinline__ void far_shift(const sum_node &child, const sum_node &parent, real quantum,
                                                 real sign, real *m)
{
    const real s = sign / far_unit(parent);
    const real x[3] = {sum_length(child.x - parent.x, quantum) * s,
                       sum_length(child.y - parent.y, quantum) * s,
                       sum_length(child.z - parent.z, quantum) * s};
    cart_monomials<P>(x, m);
}

template <int P>
static __global__ void __launch_bounds__(128)
    sum_far_up(const sum_side side, const sum_frame *frame, int level, int32_t first, int32_t end,
               real *moments)
{
    constexpr int N = CART_STRIDE(P);
    const int32_t i = first + (int32_t)(blockIdx.x * 128 + threadIdx.x);
    if (i >= end) return;
    const sum_node *node = (const sum_node *)side.d_node;
    const sum_node c = node[side.level_at[level] + i];
    real q[N] = {0}, m[N], child[N];
    for (int k = 0; k < 2 && 2 * i + k < side.level_n[level - 1]; k++) {
        const int64_t from = side.level_at[level - 1] + 2 * i + k;
        far_read<P>(moments + from * N, child);
        far_shift<P>(node[from], c, (real)frame->quantum, -1, m);
        cart_scale<P>(far_unit(node[from]) / far_unit(c), child);
        cart_up<P>(child, m, q);
    }
    far_write<P>(q, moments + (int64_t)(side.level_at[level] + i) * N);
}

template <int P>
static __global__ void __launch_bounds__(128)
    sum_far_pairs(const sum_side to, const sum_side from, const sum_frame *frame, const sum_far_list list,
                  int items, int kernel, const ff_radial_par par, const real *moments, real *local)
{
    constexpr int N = CART_STRIDE(P);
    const int64_t task = ((int64_t)blockIdx.x * 128 + threadIdx.x) / FAR_LANES;
    const int lane = threadIdx.x % FAR_LANES;
    const bool here = task < (items ? list.n_items : to.n_nodes) && (items || list.d_n[task] >= 0);
    const int64_t node = !here ? 0 : items ? list.d_item[task].node : task;
    const int32_t first = here && items ? list.d_item[task].first : 0;
    const sum_node *s_node = (const sum_node *)from.d_node;
    const sum_node x = ((const sum_node *)to.d_node)[node];
    const real quantum = (real)frame->quantum, unit = far_unit(x);
    const int32_t left = here ? list.d_n[node] - first : 0, n = left < SUM_PIECE ? left : SUM_PIECE;
    const int32_t *source = list.d_node + (here ? list.d_at[node] + first : 0);
    real l[N] = {0};
#pragma unroll 1
    for (int32_t e = lane; e < n; e += FAR_LANES) {
        const int64_t s = source[e];
        const sum_node y = s_node[s];
        /* In units of the larger node nothing overflows, and what underflows does not count. */
        const real own = far_unit(y), h = own > unit ? own : unit, inverse = 1 / h;
        real d[3] = {sum_length(x.x - y.x, quantum), sum_length(x.y - y.y, quantum),
                     sum_length(x.z - y.z, quantum)};
        real f[P + 1], t[CART_N(P)], q[N];
        ff_radial_chain(kernel, &par, ff_radial_argument(kernel, &par, d[0], d[1], d[2]), h * h, P, f);
        for (int c = 0; c < 3; c++) d[c] *= inverse;
        cart_tensor<P>(f, d, t);
        far_read<P>(moments + s * N, q);
        cart_scale<P>(own * inverse, q);
        cart_far<P>(q, t, unit * inverse, l);
    }
#pragma unroll
    for (int c = 0; c < CART_N(P); c++)
#pragma unroll
        for (int k = 1; k < FAR_LANES; k *= 2) l[c] += __shfl_xor_sync(~0u, l[c], k);
    if (here && lane == 0) far_write<P>(l, local + (items ? to.n_nodes + task : task) * N);
}

template <int P>
static __global__ void __launch_bounds__(128)
    sum_far_join(const sum_side to, const sum_far_list list, real *local)
{
    constexpr int N = CART_STRIDE(P);
    const int64_t node = (int64_t)blockIdx.x * 4 + threadIdx.x / 32;
    if (node >= to.n_nodes || list.d_n[node] <= SUM_PIECE) return;
    const int32_t more = (list.d_n[node] - 1) / SUM_PIECE;
    const real *from = local + ((int64_t)to.n_nodes + list.d_item_at[node]) * N;
    for (int c = (int)(threadIdx.x % 32); c < N; c += 32) {
        real s = local[node * N + c];
        for (int32_t k = 0; k < more; k++) s += from[(int64_t)k * N + c];
        local[node * N + c] = s;
    }
}

template <int P>
static __global__ void __launch_bounds__(128)
    sum_far_down(const sum_side side, const sum_frame *frame, int level, real *local)
{
    constexpr int N = CART_STRIDE(P);
    const int32_t i = sum_first(&side, level) + (int32_t)(blockIdx.x * 128 + threadIdx.x);
    if (i >= sum_end(&side, level)) return;
    const sum_node *node = (const sum_node *)side.d_node;
    const int64_t me = side.level_at[level] + i, up = side.level_at[level + 1] + i / 2;
    real l[N], m[N], parent[N];
    far_read<P>(local + up * N, parent);
    far_read<P>(local + me * N, l);
    far_shift<P>(node[me], node[up], (real)frame->quantum, 1, m);
    cart_far<P>(m, parent, far_unit(node[me]) / far_unit(node[up]), l);
    far_write<P>(l, local + me * N);
}

/* Value and derivatives of the expansion of a leaf at its points, into part (ff_sum_spec_out rows). A Stokeslet is
 * u_i = 2 A_i + dB / dx_i: its expansions of 1/R by force component go to rows of u_i, that of R of dipoles to all. */
template <int P>
static __global__ void __launch_bounds__(128)
    sum_far_points(const sum_side side, const sum_frame *frame, int what, int grad, int n_out,
                   const real *local, double *part)
{
    constexpr int N = CART_STRIDE(P);
    const int64_t i = side.lo + (int64_t)blockIdx.x * 128 + threadIdx.x;
    if (i >= side.hi) return;
    const sum_node c = ((const sum_node *)side.d_node)[i / 32];
    const sum_point x = ((const sum_point *)side.d_point)[i];
    const real quantum = (real)frame->quantum, inverse = 1 / far_unit(c);
    real l[N], m[N], out[4];
    far_read<P>(local + i / 32 * N, l);
    const real t[3] = {sum_length(x.x - c.x, quantum) * inverse, sum_length(x.y - c.y, quantum) * inverse,
                       sum_length(x.z - c.z, quantum) * inverse};
    cart_monomials<P>(t, m);
    cart_value<P>(l, m, out);
    for (int d = 1; d < 4; d++) out[d] *= inverse;
    double *u = part + i * n_out;
    if (what <= SUM_FAR_BOTH) {
        for (int d = 0; d < (grad ? 4 : 1); d++) u[d] += (double)out[d];
        return;
    }
    if (what < SUM_FAR_ROOT) {
        const int d = what - SUM_FAR_X;
        u[d] += 2 * (double)out[0];
        for (int b = 0; b < 3 && grad; b++) u[3 + 3 * d + b] += 2 * (double)out[1 + b];
        return;
    }
    for (int d = 0; d < 3; d++) u[d] += (double)out[1 + d];
    if (!grad) return;
    real second[3][3];
    cart_second<P>(l, m, second);
    for (int a = 0; a < 3; a++)
        for (int b = 0; b < 3; b++) u[3 + 3 * a + b] += (double)(second[a][b] * inverse * inverse);
}

static inline unsigned far_grid(int64_t n)
{
    return (unsigned)((n + 127) / 128);
}

/* Moments: of own nodes up to SUM_SHARED, then of all above. */
template <int P> static void far_moments(const sum_far *a, int stage, cudaStream_t s)
{
    const sum_side *from = &a->from;
    real *moments = (real *)a->d_moments;
    const int32_t leaves = sum_end(from, 0) - sum_first(from, 0);
    if (stage == SUM_UP && leaves > 0)
        sum_far_leaves<P><<<far_grid(leaves), 128, 0, s>>>(*from, a->d_frame, a->what, moments);
    for (int l = 1; l < from->n_levels; l++) {
        const bool own = l <= SUM_SHARED;
        const int32_t first = own ? sum_first(from, l) : 0, end = own ? sum_end(from, l) : from->level_n[l];
        if (own == (stage == SUM_UP) && end > first)
            sum_far_up<P><<<far_grid(end - first), 128, 0, s>>>(*from, a->d_frame, l, first, end, moments);
    }
}

/* One expansion, from points to points. */
template <int P> static cudaError_t far_run(const sum_far *a, int stage, cudaStream_t s)
{
    const sum_side *from = &a->from, *to = &a->to;
    real *moments = (real *)a->d_moments, *local = (real *)a->d_local;
    if ((stage & SUM_UP) != 0) far_moments<P>(a, SUM_UP, s);
    if ((stage & SUM_DOWN) == 0 || to->lo == to->hi) return cudaGetLastError();
    far_moments<P>(a, SUM_DOWN, s);
    const ff_sum_spec spec = {a->kernel, FF_SUM_CHARGE, false, a->parameter, false};
    sum_far_pairs<P><<<far_grid((int64_t)to->n_nodes * FAR_LANES), 128, 0, s>>>(
        *to, *from, a->d_frame, a->list, 0, (int)a->kernel, sum_parameters(&spec), moments, local);
    if (a->list.n_items > 0) {
        sum_far_pairs<P><<<far_grid(a->list.n_items * FAR_LANES), 128, 0, s>>>(
            *to, *from, a->d_frame, a->list, 1, (int)a->kernel, sum_parameters(&spec), moments, local);
        sum_far_join<P><<<far_grid((int64_t)to->n_nodes * 32), 128, 0, s>>>(*to, a->list, local);
    }
    for (int l = to->n_levels - 2; l >= 0; l--)
        sum_far_down<P><<<far_grid(sum_end(to, l) - sum_first(to, l)), 128, 0, s>>>(*to, a->d_frame, l, local);
    sum_far_points<P>
        <<<far_grid(to->hi - to->lo), 128, 0, s>>>(*to, a->d_frame, a->what, a->grad, a->n_out, local, a->d_part);
    return cudaGetLastError();
}

cudaError_t SUM_T(sum_far)(int order, const sum_far *a, int stage, cudaStream_t s)
{
    switch (order) {
    case 3:
        return far_run<3>(a, stage, s);
    case 4:
        return far_run<4>(a, stage, s);
    case 5:
        return far_run<5>(a, stage, s);
    case 6:
        return far_run<6>(a, stage, s);
    default:
        return cudaErrorInvalidValue;
    }
}

#endif
