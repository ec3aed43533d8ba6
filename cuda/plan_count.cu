/* Counts and digest of plans, from a traversal whose lists are not kept: ff_dtt_count and ff_plan_digest on the device.
 *
 * plan_count: work a warp a slot, a lane an entry; integer sums in any order
 * Launch  256 threads a block, grid 8 blocks an SM's worth of slots
 * Bytes   an entry is read once: 4, of leaf pairs 20, and a global id of 8 from L2 */
#include "ff_cuda_walk.cuh"

typedef struct plan_sums {
    unsigned long long near_near, near_far, far_near, far_far, far_node_pairs, leaf_pairs, digest;
} plan_sums;

/* As in ff_plan.c. */
static __device__ uint64_t mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) + 0x9e3779b97f4a7c15ull;
    h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9ull;
    h = (h ^ h >> 27) * 0x94d049bb133111ebull;
    return h ^ h >> 31;
}

enum { KIND_FAR = 1, KIND_FAR_EXPANDED = 2, KIND_LEAF = 3 };

static __device__ uint64_t bits_in_range(int64_t start, int64_t count, int64_t begin, int64_t end)
{
    int64_t a = max(begin - start, (int64_t)0), b = min(end - start, count);
    if (a >= b) return 0;
    uint64_t below_b = b >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << b) - 1;
    return below_b & (~(uint64_t)0 << a);
}

static __device__ void count_leaf(const walk_dev &d, const walk_part &p, const walk_slot &s, int32_t k,
                                  int64_t start, int64_t n_inside, bool owned, plan_sums *sum)
{
    int32_t leaf = d.leaf[s.leaf_at + k];
    uint64_t t_mask = p.masked ? d.t_mask[s.leaf_at + k] : 1, s_mask = p.masked ? d.s_mask[s.leaf_at + k] : 1;
    uint64_t inside = bits_in_range(start, p.t_count[s.node], p.begin, p.end);
    int64_t n_t = __popcll(t_mask & inside), n_s = __popcll(s_mask);
    sum->near_near += (unsigned long long)(n_t * n_s);
    sum->near_far += (unsigned long long)(n_inside - n_t);
    if (!owned) return;
    if (t_mask != 0) sum->far_near += (unsigned long long)(p.s_count[leaf] - n_s);
    uint64_t h = mix(mix(0, KIND_LEAF), (uint64_t)p.t_id[s.node]);
    sum->digest += mix(mix(mix(h, (uint64_t)p.s_id[leaf]), t_mask), s_mask);
}

static __device__ void count_slot(const walk_dev &d, const walk_slot &s, int lane, plan_sums *sum)
{
    const walk_part &p = d.part[s.part];
    int64_t start = p.t_start[s.node], count = p.t_count[s.node];
    bool owned = start >= p.begin && start < p.end;
    int64_t n_inside = min(start + count, p.end) - max(start, p.begin);
    uint64_t h = mix(mix(0, p.expand ? KIND_FAR_EXPANDED : KIND_FAR), (uint64_t)p.t_id[s.node]);
    for (int32_t k = lane; owned && k < s.n_far; k += 32)
        sum->digest += mix(h, (uint64_t)p.s_id[d.far[s.far_at + k]]);
    for (int32_t k = lane; k < s.n_leaf; k += 32) count_leaf(d, p, s, k, start, n_inside, owned, sum);
    if (lane != 0) return;
    if (owned) sum->far_node_pairs += (unsigned)s.n_far;
    if (owned) sum->leaf_pairs += (unsigned)s.n_leaf;
    if (p.expand) sum->near_far += (unsigned long long)(s.n_far * n_inside);
    if (!p.expand && owned) sum->far_far += (unsigned)s.n_far;
}

/* Adds the sum over the warp. */
static __device__ void add(unsigned long long *to, unsigned long long v)
{
    for (int o = 16; o > 0; o /= 2) v += __shfl_xor_sync(0xffffffffu, v, o);
    if (threadIdx.x % 32 == 0) atomicAdd(to, v);
}

static __global__ void plan_count(walk_dev d, plan_sums *out)
{
    plan_sums sum = {0, 0, 0, 0, 0, 0, 0};
    int lane = (int)threadIdx.x % 32;
    if (!walk_good(d)) return;
    for (int64_t i = ff_thread() / 32; i < d.n_slots; i += (int64_t)gridDim.x * 8)
        if (d.slot[i].n_far > 0 || d.slot[i].n_leaf > 0) count_slot(d, d.slot[i], lane, &sum);
    add(&out->near_near, sum.near_near);
    add(&out->near_far, sum.near_far);
    add(&out->far_near, sum.far_near);
    add(&out->far_far, sum.far_far);
    add(&out->far_node_pairs, sum.far_node_pairs);
    add(&out->leaf_pairs, sum.leaf_pairs);
    add(&out->digest, sum.digest);
}

/* Targets from *at on that fit the budget; zeros where the buffers were too small. */
static ff_status count_chunk(ff_cuda_pool *pool, const ff_cuda_lists_args *args, ff_cuda_density *room,
                             plan_sums *out, bool *fits)
{
    ff_status st = FF_OK;
    ff_walk *w = NULL;
    plan_sums *d_sums = NULL;
    FF_GO(FF_ALLOC(pool, d_sums, 1));
    FF_GO(ff_cuda_zero(pool, d_sums, sizeof *d_sums));
    FF_GO(ff_walk_create(pool, args, 1, room, &w));
    plan_count<<<ff_grid(w->d.n_slots < 1 << 15 ? w->d.n_slots : 1 << 15, 32), 256, 0,
                 (cudaStream_t)ff_cuda_pool_stream(pool)>>>(w->d, d_sums);
    FF_CU(cudaGetLastError());
    FF_GO(ff_cuda_get(pool, out, d_sums, sizeof *out));
    FF_GO(ff_walk_check(pool, w, room, fits));
done:
    ff_walk_destroy(pool, &w);
    ff_cuda_free(pool, d_sums);
    return st;
}

ff_status ff_cuda_plan_count(ff_cuda_pool *pool, const ff_cuda_tree *targets, const ff_cuda_tree *source,
                             double theta, bool expand_far, int64_t begin, int64_t end, int64_t budget_bytes,
                             ff_dtt_counts *counts, uint64_t *digest)
{
    ff_cuda_target t = {targets, NULL, NULL, begin, end};
    ff_cuda_lists_args args = {&t, 1, source, theta, expand_far};
    ff_cuda_density room = {0, 0, 0};
    ff_dtt_counts zero = {0, 0, 0, 0, 0, 0};
    int64_t at = begin;
    int masked = targets->leaf_size > 1 || source->leaf_size > 1;
    *counts = zero;
    *digest = 0;
    do {
        plan_sums sum;
        bool fits = false;
        t.begin = at;
        t.end = ff_walk_chunk(targets, at, end, ff_walk_point_bytes(&room, masked), budget_bytes);
        FF_TRY(count_chunk(pool, &args, &room, &sum, &fits));
        if (!fits) continue;
        counts->near_near += (int64_t)sum.near_near;
        counts->near_far += (int64_t)sum.near_far;
        counts->far_near += (int64_t)sum.far_near;
        counts->far_far += (int64_t)sum.far_far;
        counts->far_node_pairs += (int64_t)sum.far_node_pairs;
        counts->leaf_pairs += (int64_t)sum.leaf_pairs;
        *digest += sum.digest;
        at = t.end;
    } while (at < end);
    return FF_OK;
}
