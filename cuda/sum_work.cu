/* Cuts of points between ranks by work, as the lists of the first cut show it.
 *
 * sum_group_work   work of a group of SUM_GROUP_POINTS places, by the lengths of its lists
 * Work    a block a group, threads over its nodes
 * Order   sums of integers, in any
 * Oracle  tests/gpu/sum_ranks.c: bits of one rank, whatever the cut */
#include "sum_dist.cuh"

#include <string.h>

/* In fifths of a near pair of leaves: a far pair of nodes of order 6, what else a leaf costs (docs/measurements.md). */
enum { NEAR_COST = 5, LEAF_COST = 100, GROUP_LEVELS = 8 };

static __global__ void __launch_bounds__(128)
    sum_group_work(const sum_side to, const int32_t *far_n, const int32_t *near_n, int far_cost,
                   unsigned long long *work)
{
    const int64_t group = to.lo / SUM_GROUP_POINTS + blockIdx.x;
    unsigned long long sum = 0;
    for (int l = 0; l < GROUP_LEVELS && l < to.n_levels; l++) {
        const int64_t i = (group << (GROUP_LEVELS - 1 - l)) + threadIdx.x;
        if (threadIdx.x >= 128u >> l || i >= to.level_n[l]) continue;
        const int32_t far = far_n[to.level_at[l] + i];
        if (far > 0) sum += (unsigned long long)far * (unsigned)far_cost;
        if (l == 0) sum += (unsigned long long)near_n[i] * NEAR_COST + LEAF_COST;
    }
    if (sum > 0) atomicAdd(&work[blockIdx.x], sum); /* integers: in any order */
}

/* Of a far pair, order 6: 1; as its multiply-adds. */
static int far_cost(int order)
{
    const double n =
        (double)(order + 6) * (order + 5) * (order + 4) * (order + 3) * (order + 2) * (order + 1);
    const int c = (int)(n / (12.0 * 11 * 10 * 9 * 8 * 7) + 0.5);
    return c < 1 ? 1 : c;
}

/* Work of all groups on every rank. Collective */
static ff_status all_work(ff_sum_cuda *s, int k, const sum_plan *plan, int64_t groups, int64_t *work)
{
    ff_status st = FF_OK;
    sum_dist *d = s->dist;
    const sum_side *to = &s->side[k];
    const int64_t first = to->lo / SUM_GROUP_POINTS;
    const int64_t n = (to->hi + SUM_GROUP_POINTS - 1) / SUM_GROUP_POINTS - first;
    unsigned long long *d_work = NULL;
    memset(work, 0, (size_t)groups * sizeof *work);
    if (to->hi > to->lo) {
        FF_GO(FF_ALLOC(s->pool, d_work, n));
        FF_GO(ff_cuda_zero(s->pool, d_work, (size_t)n * sizeof *d_work));
        sum_group_work<<<(unsigned)n, 128, 0, s->stream>>>(*to, plan->d_far_n, plan->d_near_n,
                                                           far_cost(s->o.order), d_work);
        FF_CU(cudaGetLastError());
        FF_GO(ff_cuda_get(s->pool, work + first, d_work, (size_t)n * sizeof *d_work));
        FF_GO(ff_cuda_wait(s->pool));
    }
done:
    ff_cuda_free(s->pool, d_work);
    FF_TRY(ff_agree(d->comm, st));
    return ff_comm_allreduce(d->comm, work, groups, FF_SUM_I64);
}

/* Groups to ranks so that sums of work come nearest to equal shares. */
static void cut_by_work(const sum_side *side, const int64_t *work, int64_t groups, int size, int64_t *cut)
{
    double all = 0, sum = 0;
    int64_t g = 0;
    for (int64_t i = 0; i < groups; i++) all += (double)work[i];
    cut[0] = 0;
    for (int r = 1; r < size; r++) {
        const double share = all * r / size;
        while (g < groups && sum + 0.5 * (double)work[g] < share) sum += (double)work[g++];
        cut[r] = g * SUM_GROUP_POINTS < side->n_pad ? g * SUM_GROUP_POINTS : side->n_pad;
    }
    cut[size] = side->n_pad;
}

/* Largest work of a rank over the mean. */
static double imbalance(const int64_t *work, int64_t groups, const int64_t *cut, int size)
{
    double most = 0, all = 0;
    int64_t g = 0;
    for (int r = 0; r < size; r++) {
        double sum = 0;
        for (; g < groups && g * SUM_GROUP_POINTS < cut[r + 1]; g++) sum += (double)work[g];
        all += sum;
        most = sum > most ? sum : most;
    }
    return all > 0 ? most * size / all : 1;
}

ff_status sum_dist_balance(ff_sum_cuda *s, int k, const sum_plan *plan, bool *again)
{
    static const double GAIN = 0.1; /* of the mean: dividing again costs about that */
    ff_status st = FF_OK;
    sum_dist *d = s->dist;
    sum_share *h = &d->share[k];
    const sum_side *side = &s->side[k];
    const int size = d->comm->size;
    const int64_t groups = (side->n_pad + SUM_GROUP_POINTS - 1) / SUM_GROUP_POINTS;
    int64_t *work = NULL, *cut = NULL;
    if (groups == 0) return FF_OK;
    FF_GO(ff_new_all(d->comm, &work, (size_t)groups, sizeof *work, false));
    FF_GO(ff_new_all(d->comm, &cut, (size_t)size + 1, sizeof *cut, false));
    FF_GO(all_work(s, k, plan, groups, work));
    d->traffic.imbalance = imbalance(work, groups, h->cut, size);
    cut_by_work(side, work, groups, size, cut);
    if (h->wanted == NULL && d->traffic.imbalance - imbalance(work, groups, cut, size) > GAIN) {
        h->wanted = cut;
        cut = NULL;
        *again = true;
        d->traffic.cut_again = true;
    }
done:
    ff_free(work);
    ff_free(cut);
    return st;
}
