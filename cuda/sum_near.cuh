/* Near field and direct sums, one precision (sum_types.cuh).
 *
 * sum_near_pairs: part[piece][i][c] = sum over the leaves listed for group(i) of their points' pairs with i
 * Work    a warp GROUP leaves of targets, as many a lane; sources by leaves of 32 through shared memory, the next leaf in
 *         flight. Direct sums: two leaves; lists: one, for shorter lists
 * Launch  4 warps a block; grid (groups / 4) x pieces of the list; 4 KiB (8 in float64) of shared memory
 * Shapes  point [n_pad], more [n_pad] of both sides, part [n_piece][n_pad][n_out] f64
 * Order   leaves in list order, sources in leaf order; float32 goes into double every SUM_FOLD leaves
 * Bound   issue slots: a pair of 1/R with its force is 13 FP32 operations and a root; bench sum prints the rate
 * Oracle  ff_sum_pair_f64 over all pairs, tests/gpu/test_sum.c
 * Care    coordinates are relative to the group's centre and rounded once, the same for targets and sources */
#ifndef SUM_NEAR_CUH
#define SUM_NEAR_CUH

#include "sum_lanes.cuh"

static __device__ __forceinline__ void source_load(const sum_near &a, int64_t i, bool more, sum_point *p,
                                                   sum_four *m)
{
    *p = ((const sum_point *)a.from.d_point)[i];
    if (more) *m = ((const sum_four *)a.from.d_more)[i];
}

static __device__ __forceinline__ sum_four relative(const sum_point &p, const sum_node &c, real quantum)
{
    sum_four r = {sum_length(p.x - c.x, quantum), sum_length(p.y - c.y, quantum),
                  sum_length(p.z - c.z, quantum), p.q};
    return r;
}

/* Pairs of a leaf of sources, in shared memory, with this lane's targets. */
template <int KERNEL, unsigned IN, int GRAD, int GROUP, int N_OUT>
static __device__ __forceinline__ void near_leaf(const ff_radial_par &par, const sum_four *place,
                                                 const sum_four *extra, const real (&x)[GROUP][3],
                                                 real (&acc)[GROUP][N_OUT])
{
#pragma unroll 8
    for (int j = 0; j < SUM_LEAF; j++) {
        const sum_four y = place[j];
        real s[4] = {y.w, 0, 0, 0};
        if constexpr (IN != FF_SUM_CHARGE) {
            const sum_four m = extra[j];
            constexpr int AT = (IN & FF_SUM_CHARGE) != 0 ? 1 : 0;
            s[AT] = m.x, s[AT + 1] = m.y, s[AT + 2] = m.z;
        }
#pragma unroll
        for (int b = 0; b < GROUP; b++) {
            if constexpr (IN == 0)
                ff_pair_stokeslet(GRAD, x[b][0] - y.x, x[b][1] - y.y, x[b][2] - y.z, s, acc[b]);
            else
                ff_pair_radial(KERNEL, &par, IN, GRAD, x[b][0] - y.x, x[b][1] - y.y, x[b][2] - y.z, s, acc[b]);
        }
    }
}

template <int KERNEL, unsigned IN, int GRAD, int GROUP>
static __global__ void __launch_bounds__(128) sum_near_pairs(const sum_near a, const ff_radial_par par)
{
    constexpr bool STOKES = IN == 0, MORE = IN != FF_SUM_CHARGE;
    constexpr int N_OUT = STOKES ? (GRAD ? 12 : 3) : (GRAD ? 4 : 1);
    __shared__ sum_four place[4][2][SUM_LEAF], extra[4][MORE ? 2 : 1][SUM_LEAF];
    const int lane = threadIdx.x % 32, w = threadIdx.x / 32;
    const int64_t task = (int64_t)blockIdx.x * 4 + w;
    const bool item = a.items != 0;
    if (task >= (item ? a.list.n_items : a.n_groups)) return; /* whole warps */
    const int32_t group = item ? a.list.d_item[task].node : a.first_group + (int32_t)task;
    const int32_t first = item ? a.list.d_item[task].first : (int32_t)blockIdx.y * a.piece;
    const int32_t *list = a.list.d_at == NULL ? NULL : a.list.d_leaf + a.list.d_at[group];
    int32_t n = (list == NULL ? a.from.level_n[0] : a.list.d_n[group]) - first;
    if (n > a.piece) n = a.piece;
    const real quantum = (real)a.d_frame->quantum;
    const sum_node centre = ((const sum_node *)a.to.d_node)[a.to.level_at[GROUP - 1] + group];
    real x[GROUP][3], acc[GROUP][N_OUT];
    double sum[GROUP][N_OUT];
    for (int b = 0; b < GROUP; b++) {
        const sum_four t =
            relative(((const sum_point *)a.to.d_point)[(int64_t)group * (32 * GROUP) + 32 * b + lane], centre,
                     quantum);
        x[b][0] = t.x, x[b][1] = t.y, x[b][2] = t.z;
        for (int c = 0; c < N_OUT; c++) acc[b][c] = 0, sum[b][c] = 0;
    }
    sum_point next;
    sum_four next_more = {0, 0, 0, 0};
    if (n > 0) source_load(a, (int64_t)(list ? list[first] : first) * 32 + lane, MORE, &next, &next_more);
    for (int32_t e = 0; e < n; e++) {
        place[w][e & 1][lane] = relative(next, centre, quantum);
        if constexpr (MORE) extra[w][e & 1][lane] = next_more;
        __syncwarp();
        if (e + 1 < n)
            source_load(a, (int64_t)(list ? list[first + e + 1] : first + e + 1) * 32 + lane, MORE, &next,
                        &next_more);
        near_leaf<KERNEL, IN, GRAD, GROUP, N_OUT>(par, place[w][e & 1], extra[w][MORE ? e & 1 : 0], x, acc);
        if ((e + 1) % SUM_FOLD == 0 || e + 1 == n)
            for (int b = 0; b < GROUP; b++)
                for (int c = 0; c < N_OUT; c++) sum[b][c] += (double)acc[b][c], acc[b][c] = 0;
    }
    const int64_t row =
        item ? a.to.n_pad + 32 * task : blockIdx.y * a.to.n_pad + (int64_t)group * (32 * GROUP);
    double *out = a.d_part + (row + lane) * N_OUT;
    for (int b = 0; b < GROUP; b++)
        for (int c = 0; c < N_OUT; c++) out[32 * b * N_OUT + c] = sum[b][c];
}

template <int KERNEL, unsigned IN>
static void near_of(bool grad, const sum_near &a, const ff_radial_par &par, cudaStream_t s)
{
    const dim3 grid((unsigned)(((a.items ? a.list.n_items : a.n_groups) + 3) / 4), (unsigned)a.n_piece);
    if (grad)
        sum_near_pairs<KERNEL, IN, 1, SUM_GROUP><<<grid, 128, 0, s>>>(a, par);
    else
        sum_near_pairs<KERNEL, IN, 0, SUM_GROUP><<<grid, 128, 0, s>>>(a, par);
}

template <int KERNEL>
static void near_radial(const ff_sum_spec *spec, const sum_near &a, const ff_radial_par &par, cudaStream_t s)
{
    if (spec->in == FF_SUM_CHARGE)
        near_of<KERNEL, FF_SUM_CHARGE>(spec->grad, a, par, s);
    else if (spec->in == FF_SUM_DIPOLE)
        near_of<KERNEL, FF_SUM_DIPOLE>(spec->grad, a, par, s);
    else
        near_of<KERNEL, FF_SUM_CHARGE | FF_SUM_DIPOLE>(spec->grad, a, par, s);
}

cudaError_t SUM_NEAR_RUN(const ff_sum_spec *spec, const sum_near *a, cudaStream_t s)
{
    const ff_radial_par par = sum_parameters(spec);
    if (a->n_groups == 0) return cudaSuccess;
    switch (spec->kernel) {
    case FF_SUM_INV_R:
        near_radial<FF_SUM_INV_R>(spec, *a, par, s);
        break;
    case FF_SUM_POWER:
        near_radial<FF_SUM_POWER>(spec, *a, par, s);
        break;
    case FF_SUM_LOG:
        near_radial<FF_SUM_LOG>(spec, *a, par, s);
        break;
    case FF_SUM_YUKAWA:
        near_radial<FF_SUM_YUKAWA>(spec, *a, par, s);
        break;
    case FF_SUM_PLUMMER:
        near_radial<FF_SUM_PLUMMER>(spec, *a, par, s);
        break;
    case FF_SUM_STOKESLET:
        near_of<0, 0>(spec->grad, *a, par, s);
        break;
    }
    return cudaGetLastError();
}

#endif
