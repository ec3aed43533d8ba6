/* Dual traversal on the device, target-major and level by level: src/plan/ff_dtt.h, many plans at once. Compiled with
 * --fmad=false.
 *
 * walk_level: all target nodes of one level, each with the sources its parent left undecided
 * Work    one warp a target node. Its sources go through a window in shared memory: undecided ones are judged, a
 *         source split alone is replaced in place by its children, round by round until none is undecided, so
 *         everything stays in canonical order without a sort. Where the window is too small for the list, the warp
 *         takes the part of the list that fits and goes on from there (first counting, then a second time writing).
 * Launch  as many blocks as fit at once, 128 threads, 32 KiB shared, 96 registers -> 5 blocks an SM on sm_90
 *         (registers limit); one launch a level, no wait between them
 * Shapes  node [n] 32 bytes; lists [cap] i32 at places taken from cursors by atomics; slot [n_slots] 48 bytes
 * Order   lists begin anywhere, entries within a list are in canonical order, so results do not know scheduling
 * Bytes   a judgement reads a node, 32 bytes from L2, a far or leaf entry is written once, 4, and what is handed down
 *         written and read, 8. 81,920 points of a surface: 2.35e7 judgements and 1.2e7 entries, 0.86 GB: 0.16 ms at
 *         5.5 TB/s. Measured (ncu, 7 blocks an SM in two waves): 18 levels, 3.6 ms, 2.37 GB through L2: 4 %.
 *         What binds: up to level 13 there are fewer target nodes than warps, and the longest list of a level, about
 *         1,000 sources, takes one warp 0.25 ms; below, instructions at 40 % of the issue rate
 * Oracle  src/plan/ff_dtt.c, tests/gpu/test_plan.c: memcmp */
#include "ff_cuda_walk.cuh"

extern "C" {
#include "ff_mac.h"
#include "ff_mem.h"
}

enum { WARPS = 4, WINDOW = 1024, AHEAD = 4 };
enum { OPEN = 0, FAR = 1, LEAF = 2, NEXT = 3, TAG_SHIFT = 30, NO_ID = 0x3fffffff };

static __device__ ff_node load_node(const ff_node *p)
{
    ff_node n;
    float4 a = __ldg((const float4 *)p), b = __ldg((const float4 *)p + 1);
    n.lo[0] = a.x, n.lo[1] = a.y, n.lo[2] = a.z, n.hi[0] = a.w;
    n.hi[1] = b.x, n.hi[2] = b.y, n.diam2 = b.z, n.right = __float_as_int(b.w);
    return n;
}

static __device__ uint32_t tagged(int tag, int64_t id)
{
    return (uint32_t)tag << TAG_SHIFT | (uint32_t)id;
}

/* A target node and its list; from: what lies before this id is done. The same in all lanes. */
typedef struct target {
    const walk_part *p;
    walk_state *state;
    ff_node t;
    const int32_t *list;
    int32_t n, k;
    uint32_t from;
} target;

/* Judges source s, whose node is n; its one or two entries, those that lie before q.from left out. */
static __device__ int decide(const target &q, uint32_t s, const ff_node &n, uint32_t out[2])
{
    bool far = ff_mac_far(&q.t, &n, q.p->theta2);
    bool split_t = ff_mac_split_target(&q.t, &n), split_s = ff_mac_split_source(&q.t, &n);
    int tag = far ? FAR : split_t ? NEXT : split_s ? OPEN : LEAF;
    out[0] = tagged(tag, s);
    if (far || !split_s) return 1;
    if (n.right < 0) {
        walk_fail(q.state, WALK_S_CUT, q.p->s_id[s]);
        out[0] = tagged(FAR, s);
        return 1;
    }
    out[0] = tagged(tag, n.right);
    if ((uint32_t)n.right <= q.from) return 1;
    out[0] = tagged(tag, s + 1);
    out[1] = tagged(tag, n.right);
    return 2;
}

/* Adds each lane's c entries to the window, in lane order, if all of them fit. */
static __device__ bool append(uint32_t *window, int *m, int c, const uint32_t e[2])
{
    uint32_t below = (1u << (threadIdx.x % 32)) - 1;
    uint32_t one = __ballot_sync(0xffffffffu, c >= 1), two = __ballot_sync(0xffffffffu, c == 2);
    int at = *m + __popc(one & below) + __popc(two & below), end = *m + __popc(one) + __popc(two);
    if (end > WINDOW) return false;
    if (c >= 1) window[at] = e[0];
    if (c == 2) window[at + 1] = e[1];
    *m = end;
    return true;
}

static __device__ bool any_open(int c, const uint32_t e[2])
{
    return __any_sync(0xffffffffu, c > 0 && e[0] >> TAG_SHIFT == OPEN);
}

/* Index of the list entry that holds id. */
static __device__ int32_t find_entry(const target &q, uint32_t id)
{
    int32_t lo = 0, hi = q.n;
    while (hi - lo > 1) {
        int32_t mid = lo + (hi - lo) / 2;
        if ((uint32_t)q.list[mid] <= id)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

/* Entries [base, base + 32 AHEAD) of n in from, those not decided yet judged, are appended to the window; the nodes are
 * loaded together first, since a warp mostly waits for them. Returns the first entry that did not fit. */
static __device__ int step(const target &q, const uint32_t *from, int base, int n, uint32_t *window, int *m,
                           bool *open)
{
    int lane = (int)threadIdx.x % 32;
    uint32_t s[AHEAD], e[2];
    ff_node node[AHEAD];
#pragma unroll
    for (int j = 0; j < AHEAD; j++) {
        int i = base + 32 * j + lane;
        s[j] = i < n ? from[i] : tagged(LEAF, 0);
    }
#pragma unroll
    for (int j = 0; j < AHEAD; j++)
        if (s[j] >> TAG_SHIFT == OPEN) node[j] = load_node(q.p->s_node + s[j]);
#pragma unroll
    for (int j = 0; j < AHEAD; j++) {
        int c = base + 32 * j + lane < n;
        e[0] = s[j];
        if (s[j] >> TAG_SHIFT == OPEN) c = decide(q, s[j], node[j], e);
        if (!append(window, m, c, e)) return base + 32 * j;
        *open |= any_open(c, e);
    }
    return base + 32 * AHEAD;
}

/* Decides the list from (q.k, q.from) on, as far as the window holds, and moves both behind it. *window is where the
 * m entries lie in the end (two halves take turns). */
static __device__ int fill_window(target &q, uint32_t **window, uint32_t *other)
{
    int m = 0;
    uint32_t *a = *window, *b = other, limit = NO_ID;
    bool open = false;
    const uint32_t *list = (const uint32_t *)q.list; /* ids without a tag: not decided */
    for (int k = q.k, next; k < q.n; k = next) {
        next = step(q, list, k, q.n, a, &m, &open);
        if (next >= k + 32 * AHEAD) continue;
        limit = list[next];
        break;
    }
    while (open) {
        int old = m;
        open = false;
        m = 0;
        __syncwarp();
        for (int k = 0, next; k < old; k = next) {
            next = step(q, a, k, old, b, &m, &open);
            if (next >= k + 32 * AHEAD) continue;
            limit = a[next] & NO_ID;
            break;
        }
        uint32_t *swap = a;
        a = b;
        b = swap;
    }
    __syncwarp();
    *window = a;
    q.from = limit;
    q.k = limit == NO_ID ? q.n : find_entry(q, limit);
    return m;
}

typedef struct tally {
    int32_t of[4]; /* by tag */
} tally;

static __device__ void count_window(const uint32_t *window, int m, tally *n)
{
    for (int base = 0; base < m; base += 32) {
        int i = base + (int)threadIdx.x % 32, tag = i < m ? (int)(window[i] >> TAG_SHIFT) : OPEN;
        for (int k = FAR; k <= NEXT; k++) n->of[k] += __popc(__ballot_sync(0xffffffffu, tag == k));
    }
    __syncwarp(); /* the window is filled anew */
}

/* Appends the window's entries to the three lists; to [tag] is NULL where a list has no room. */
static __device__ void write_window(const uint32_t *window, int m, int32_t *const to[4], tally *n)
{
    uint32_t below = (1u << (threadIdx.x % 32)) - 1;
    for (int base = 0; base < m; base += 32) {
        int i = base + (int)threadIdx.x % 32, tag = i < m ? (int)(window[i] >> TAG_SHIFT) : OPEN;
        for (int k = FAR; k <= NEXT; k++) {
            uint32_t mine = __ballot_sync(0xffffffffu, tag == k);
            if (tag == k && to[k] != NULL)
                to[k][n->of[k] + __popc(mine & below)] = (int32_t)(window[i] & NO_ID);
            n->of[k] += __popc(mine);
        }
    }
    __syncwarp();
}

/* Places for n.of entries of each list, taken by lanes FAR, LEAF, NEXT. */
static __device__ void take_places(const walk_dev &d, int level, const tally &n, int64_t at[4],
                                   int32_t *to[4])
{
    unsigned long long *cursor[4] = {NULL, &d.state->far, &d.state->leaf, &d.state->next[level + 1]};
    int32_t *base[4] = {NULL, d.far, d.leaf, d.next[(level + 1) % 2]};
    int64_t cap[4] = {0, d.cap_far, d.cap_leaf, d.cap_next};
    for (int k = FAR; k <= NEXT; k++) {
        unsigned long long place = 0;
        if ((int)threadIdx.x % 32 == k && n.of[k] > 0) place = atomicAdd(cursor[k], (unsigned)n.of[k]);
        at[k] = (int64_t)__shfl_sync(0xffffffffu, place, k);
        to[k] = at[k] + n.of[k] <= cap[k] ? base[k] + at[k] : NULL;
    }
}

static __device__ void write_slot(const walk_dev &d, const walk_item &w, const tally &n, const int64_t at[4])
{
    walk_slot s;
    bool above = w.up >= 0;
    s.far_at = at[FAR];
    s.leaf_at = at[LEAF];
    s.node = w.node;
    s.n_far = n.of[FAR];
    s.n_leaf = n.of[LEAF];
    s.up = w.up;
    s.far_sum = n.of[FAR] + (above ? d.slot[w.up].far_sum : 0);
    s.n_fn = s.fn_ids = 0;
    s.part = (uint16_t)w.part;
    s.n_above = (uint16_t)((n.of[FAR] > 0 ? 1 : 0) + (above ? d.slot[w.up].n_above : 0));
    d.slot[w.slot] = s;
}

/* Lanes 0 and 1 queue the children that meet the range. */
static __device__ void hand_down(const walk_dev &d, const target &q, const walk_item &w, int level,
                                 const tally &n, int64_t list)
{
    int lane = (int)threadIdx.x % 32;
    int32_t child = lane == 0 ? w.node + 1 : q.t.right;
    int64_t start = 0;
    bool meets = false;
    uint32_t place = 0;
    if (lane < 2) {
        start = q.p->t_start[child];
        meets = start < q.p->end && start + q.p->t_count[child] > q.p->begin;
    }
    uint32_t both = __ballot_sync(0xffffffffu, meets);
    if (lane == 0) place = atomicAdd(&d.state->queued[level + 1], (uint32_t)__popc(both));
    place = __shfl_sync(0xffffffffu, place, 0) + (lane == 1 ? both & 1u : 0u);
    if (!meets) return;
    walk_item c;
    c.list = list;
    c.n = n.of[NEXT];
    c.part = w.part;
    c.node = child;
    c.slot = q.p->slot0 + (start >= q.p->begin ? WALK_ABOVE + child - q.p->node0 : level + 1);
    c.up = n.of[FAR] > 0 ? w.slot : w.up;
    c.unused = 0;
    d.queue[(level + 1) % 2][place] = c;
}

static __device__ void visit(const walk_dev &d, const walk_item &w, int level, uint32_t *shared)
{
    target q;
    tally n = {{0, 0, 0, 0}}, written = {{0, 0, 0, 0}};
    int64_t at[4];
    int32_t *to[4];
    uint32_t *window = shared;
    int m = 0;
    q.p = d.part + w.part;
    q.state = d.state;
    q.t = load_node(q.p->t_node + w.node);
    q.list = d.next[level % 2] + w.list;
    q.n = w.n;
    q.k = 0;
    q.from = 0;
    do {
        m = fill_window(q, &window, window == shared ? shared + WINDOW : shared);
        count_window(window, m, &n);
    } while (q.k < q.n);
    take_places(d, level, n, at, to);
    if (n.of[FAR] + n.of[LEAF] + n.of[NEXT] == m) { /* all of it lies in the window still */
        write_window(window, m, to, &written);
    } else {
        q.k = 0;
        q.from = 0;
        do {
            m = fill_window(q, &window, window == shared ? shared + WINDOW : shared);
            write_window(window, m, to, &written);
        } while (q.k < q.n);
    }
    if (threadIdx.x % 32 == 0) write_slot(d, w, n, at);
    if (n.of[NEXT] == 0) {
        int64_t start = q.p->t_start[w.node];
        if (threadIdx.x % 32 == 0)
            d.end_slot[q.p->point0 + (start > q.p->begin ? start - q.p->begin : 0)] = w.slot;
    } else if (q.t.right < 0) {
        walk_fail(d.state, WALK_T_CUT, q.p->t_id[w.node]);
    } else if (to[NEXT] == NULL) {
        d.state->cut_short = 1;
    } else {
        hand_down(d, q, w, level, n, at[NEXT]);
    }
}

static __global__ void __launch_bounds__(32 * WARPS) walk_level(walk_dev d, int level)
{
    __shared__ uint32_t window[WARPS][2 * WINDOW];
    uint32_t n = d.state->queued[level], stride = gridDim.x * WARPS;
    for (uint32_t i = blockIdx.x * WARPS + threadIdx.x / 32; i < n; i += stride)
        visit(d, d.queue[level % 2][i], level, window[threadIdx.x / 32]);
}

/* One thread a part: where the range's nodes begin, and the root's item. */
static __global__ void walk_begin(walk_dev d)
{
    int32_t k = (int32_t)ff_thread();
    if (k == 0) d.next[0][0] = 0; /* the list of every root: the source root */
    if (k >= d.n_parts || d.part[k].empty) return;
    walk_part *p = &d.part[k];
    int32_t lo = 0, hi = p->n_t_nodes; /* starts ascend with node ids */
    while (lo < hi) {
        int32_t mid = lo + (hi - lo) / 2;
        if (p->t_start[mid] < p->begin)
            lo = mid + 1;
        else
            hi = mid;
    }
    p->node0 = lo;
    walk_item c;
    c.list = 0;
    c.n = 1;
    c.part = k;
    c.node = 0;
    c.slot = p->slot0 + (lo == 0 ? WALK_ABOVE : 0);
    c.up = -1;
    c.unused = 0;
    d.queue[0][atomicAdd(&d.state->queued[0], 1u)] = c;
}

/* Points of a leaf that are not far from the box of node n. */
static __device__ uint64_t near_points(const float *x, int64_t count, int dim, const ff_node &n, float theta2)
{
    uint64_t mask = 0;
    for (int64_t i = 0; i < count; i++)
        if (!ff_mac_point_far(x + i * dim, dim, &n, theta2)) mask |= (uint64_t)1 << i;
    return mask;
}

/* walk_masks: both masks of every leaf pair, and the far-near sources of every slot
 * Work    a warp a slot, a lane a leaf pair; both leaves' points, at most 64 each, are read once a pair
 * Bytes   20 a leaf pair and the leaves' points, from L2 */
static __global__ void walk_masks(walk_dev d)
{
    int lane = (int)threadIdx.x % 32;
    if (!walk_fits(d)) return;
    for (int64_t i = ff_thread() / 32; i < d.n_slots; i += (int64_t)gridDim.x * 8) {
        walk_slot s = d.slot[i];
        const walk_part &p = d.part[s.part];
        if (s.n_leaf == 0 || !p.masked) continue;
        ff_node t = load_node(p.t_node + s.node);
        const int32_t t_first = p.t_first[s.node];
        const int64_t t_count = p.t_count[s.node];
        uint32_t n_fn = 0, fn_ids = 0;
        if (t_first < 0) {
            walk_fail(d.state, WALK_T_POINTS, p.t_id[s.node]);
            continue;
        }
        for (int32_t k = lane; k < s.n_leaf; k += 32) {
            int32_t leaf = d.leaf[s.leaf_at + k], s_first = p.s_first[leaf];
            int64_t s_count = p.s_count[leaf];
            bool single = t_count == 1 && s_count == 1; /* the pair's test and the points' are one */
            uint64_t t_mask = 1, s_mask;
            if (!single)
                t_mask = near_points(p.t_x + (int64_t)t_first * p.dim, t_count, p.dim,
                                     load_node(p.s_node + leaf), p.theta2);
            s_mask = t_mask;
            if (t_mask != 0 && s_first < 0) walk_fail(d.state, WALK_S_POINTS, p.s_id[leaf]);
            if (t_mask != 0 && s_first >= 0 && !single)
                s_mask = near_points(p.s_x + (int64_t)s_first * p.dim, s_count, p.dim, t, p.theta2);
            d.t_mask[s.leaf_at + k] = t_mask;
            d.s_mask[s.leaf_at + k] = s_mask;
            int fn = t_mask != 0 ? (int)s_count - __popcll(s_mask) : 0;
            n_fn += fn > 0;
            fn_ids += (uint32_t)fn;
        }
        n_fn = __reduce_add_sync(0xffffffffu, n_fn);
        fn_ids = __reduce_add_sync(0xffffffffu, fn_ids);
        if (lane == 0) {
            d.slot[i].n_fn = (int32_t)n_fn;
            d.slot[i].fn_ids = (int32_t)fn_ids;
        }
    }
}

/* ---- host ---- */

void ff_walk_destroy(ff_cuda_pool *pool, ff_walk **wp)
{
    ff_walk *w = *wp;
    if (w == NULL) return;
    ff_cuda_free(pool, w->d.part);
    ff_cuda_free(pool, w->d.slot);
    ff_cuda_free(pool, w->d.end_slot);
    ff_cuda_free(pool, w->d.far);
    ff_cuda_free(pool, w->d.leaf);
    ff_cuda_free(pool, w->d.t_mask);
    ff_cuda_free(pool, w->d.s_mask);
    for (int k = 0; k < 2; k++) {
        ff_cuda_free(pool, w->d.next[k]);
        ff_cuda_free(pool, w->d.queue[k]);
    }
    ff_cuda_free(pool, w->d.state);
    ff_free(w->part);
    ff_free(w);
    *wp = NULL;
}

static ff_status check_args(const ff_cuda_target *t, const ff_cuda_lists_args *a)
{
    const ff_cuda_tree *tree = t->tree, *s = a->source;
    if (!(a->theta >= 0.0) || isinf(a->theta))
        return ff_fail(FF_E_ARG, "plan: theta = %g, expected a finite theta >= 0", a->theta);
    if (tree->dim != s->dim)
        return ff_fail(FF_E_ARG, "plan: targets have %d dimensions, sources %d; expected the same", tree->dim,
                       s->dim);
    if (t->begin < 0 || t->begin > t->end || t->end > tree->n_points)
        return ff_fail(FF_E_ARG, "plan: target range [%lld, %lld), expected a range within [0, %lld)",
                       (long long)t->begin, (long long)t->end, (long long)tree->n_points);
    if (tree->n_nodes >= NO_ID || s->n_nodes >= NO_ID)
        return ff_fail(FF_E_UNSUPPORTED,
                       "plan: a tree of %d nodes on one GPU, expected below 2^30; use more GPUs",
                       tree->n_nodes > s->n_nodes ? tree->n_nodes : s->n_nodes);
    return FF_OK;
}

static walk_part make_part(const ff_cuda_target *t, const ff_cuda_lists_args *a)
{
    const ff_cuda_tree *tree = t->tree, *s = a->source;
    walk_part p;
    memset(&p, 0, sizeof p);
    p.t_node = tree->d_node, p.s_node = s->d_node;
    p.t_start = tree->d_start, p.t_count = tree->d_count, p.t_id = tree->d_id;
    p.s_count = s->d_count, p.s_id = s->d_id;
    p.t_first = tree->d_first, p.s_first = s->d_first;
    p.t_x = tree->d_x, p.s_x = s->d_x;
    p.begin = t->begin, p.end = t->end;
    p.n_t_nodes = tree->n_nodes;
    p.s_held = s->n_held;
    p.dim = tree->dim;
    p.masked = tree->leaf_size > 1 || s->leaf_size > 1;
    p.expand = a->expand_far;
    p.empty = tree->n_nodes == 0 || s->n_nodes == 0 || t->begin == t->end;
    p.theta2 = ff_mac_theta2(a->theta);
    return p;
}

/* Nodes that begin inside a range of n points: at most 2 n and one a level (those that end behind it). */
static int64_t slots_of(const ff_cuda_target *t)
{
    int64_t most = 2 * (t->end - t->begin) + WALK_ABOVE;
    return WALK_ABOVE + (most < t->tree->n_nodes ? most : t->tree->n_nodes);
}

static ff_status make_parts(ff_walk *w, const ff_cuda_lists_args *args, int n_args)
{
    int64_t slots = 0, points = 0, n = 0;
    for (int i = 0; i < n_args; i++) n += args[i].n;
    if (n > UINT16_MAX)
        return ff_fail(FF_E_UNSUPPORTED, "%lld plans at once, expected below 2^16", (long long)n);
    FF_TRY((w->part = (walk_part *)ff_mem_alloc((size_t)n + 1, sizeof *w->part)) != NULL ? FF_OK : FF_E_MEM);
    for (int i = 0; i < n_args; i++)
        for (int k = 0; k < args[i].n; k++) {
            const ff_cuda_target *t = &args[i].target[k];
            FF_TRY(check_args(t, &args[i]));
            walk_part *p = &w->part[w->d.n_parts++];
            *p = make_part(t, &args[i]);
            p->slot0 = (int32_t)slots;
            p->n_slots = (int32_t)slots_of(t);
            p->point0 = points;
            slots += p->n_slots;
            points += t->end - t->begin;
            w->masked |= p->masked;
            if (t->tree->depth + 1 > w->levels) w->levels = t->tree->depth + 1;
            if (slots > INT32_MAX)
                return ff_fail(FF_E_UNSUPPORTED,
                               "plans of %lld targets at once, expected below 2^30; use chunks",
                               (long long)points);
        }
    w->d.n_slots = (int32_t)slots;
    w->d.n_points = points;
    return FF_OK;
}

/* Before anything is known: surfaces at theta = 1 need 180 far entries a target and hand down 20 a level. */
static const ff_cuda_density first_room = {256, 16, 40};
enum { ROOM_FLOOR = 1 << 16 }; /* small sets have long lists for their size */

static ff_status make_room(ff_cuda_pool *pool, const ff_cuda_density *room, ff_walk *w)
{
    ff_status st = FF_OK;
    walk_dev *d = &w->d;
    double n = 1.125 * (double)d->n_points; /* chunks of one plan differ a little */
    d->cap_far = (int64_t)(n * room->far) + ROOM_FLOOR;
    d->cap_leaf = (int64_t)(n * room->leaf) + ROOM_FLOOR;
    d->cap_next = (int64_t)(n * room->next) + ROOM_FLOOR;
    FF_GO(FF_ALLOC(pool, d->part, d->n_parts));
    FF_GO(FF_ALLOC(pool, d->slot, d->n_slots));
    FF_GO(FF_ALLOC(pool, d->end_slot, d->n_points));
    FF_GO(FF_ALLOC(pool, d->far, d->cap_far));
    FF_GO(FF_ALLOC(pool, d->leaf, d->cap_leaf));
    if (w->masked) FF_GO(FF_ALLOC(pool, d->t_mask, d->cap_leaf));
    if (w->masked) FF_GO(FF_ALLOC(pool, d->s_mask, d->cap_leaf));
    for (int k = 0; k < 2; k++) {
        FF_GO(FF_ALLOC(pool, d->next[k], d->cap_next));
        FF_GO(FF_ALLOC(pool, d->queue[k], d->n_points));
    }
    FF_GO(FF_ALLOC(pool, d->state, 1));
done:
    return st;
}

int64_t ff_walk_point_bytes(const ff_cuda_density *room, int masked)
{
    if (!(room->next > 0)) room = &first_room;
    return (int64_t)(1.125 * (4 * room->far + (masked ? 20 : 4) * room->leaf + 8 * room->next)) +
           2 * (int64_t)(sizeof(walk_slot) + sizeof(walk_item)) + 4;
}

int64_t ff_walk_chunk(const ff_cuda_tree *t, int64_t at, int64_t end, int64_t point_bytes,
                      int64_t budget_bytes)
{
    if (budget_bytes <= 0 || (end - at) <= budget_bytes / point_bytes) return end;
    int64_t to = ff_topo_border(t->n_points, t->leaf_size, at + budget_bytes / point_bytes);
    if (to <= at) to = ff_topo_border(t->n_points, t->leaf_size, at + FF_LEAF_MAX);
    return to < end ? to : end;
}

static int blocks_of_device(int an_sm)
{
    int device = 0, sm = 0;
    if (cudaGetDevice(&device) != cudaSuccess) return an_sm;
    (void)cudaDeviceGetAttribute(&sm, cudaDevAttrMultiProcessorCount, device);
    return sm * an_sm;
}

static ff_status run(ff_cuda_pool *pool, ff_walk *w)
{
    ff_status st = FF_OK;
    walk_dev *d = &w->d;
    cudaStream_t s = (cudaStream_t)ff_cuda_pool_stream(pool);
    int an_sm = 0, blocks = 0;
    FF_CU(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&an_sm, walk_level, 32 * WARPS, 0));
    blocks = blocks_of_device(an_sm > 0 ? an_sm : 1);
    FF_GO(ff_cuda_put(pool, d->part, w->part, (size_t)d->n_parts * sizeof *d->part));
    FF_GO(ff_cuda_zero(pool, d->state, sizeof *d->state));
    FF_GO(ff_cuda_zero(pool, d->slot, (size_t)d->n_slots * sizeof *d->slot));
    if (d->n_points > 0)
        FF_CU(cudaMemsetAsync(d->end_slot, 0xff, (size_t)d->n_points * sizeof *d->end_slot, s));
    walk_begin<<<ff_grid(d->n_parts, 1), 256, 0, s>>>(*d);
    for (int l = 0; l < w->levels; l++) walk_level<<<(unsigned)blocks, 32 * WARPS, 0, s>>>(*d, l);
    if (w->masked) walk_masks<<<(unsigned)blocks, 256, 0, s>>>(*d);
    FF_CU(cudaGetLastError());
done:
    return st;
}

static ff_status fail_held(const walk_state *s)
{
    bool points = s->error == WALK_S_POINTS || s->error == WALK_T_POINTS;
    bool source = s->error == WALK_S_POINTS || s->error == WALK_S_CUT;
    return ff_fail(FF_E_INTERNAL, "traversal %s %lld of the %s tree, whose %s are not held",
                   points ? "reads leaf" : "opens node", s->error_id, source ? "source" : "target",
                   points ? "points" : "children");
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

ff_status ff_walk_check(ff_cuda_pool *pool, ff_walk *w, ff_cuda_density *room, bool *fits)
{
    const walk_state *s = &w->state;
    double n = (double)(w->d.n_points > 0 ? w->d.n_points : 1), next = 0;
    FF_TRY(ff_cuda_get(pool, &w->state, w->d.state, sizeof w->state));
    FF_TRY(ff_cuda_wait(pool));
    if (s->error != WALK_FINE) return fail_held(s);
    bool whole = s->cut_short == 0;
    *fits = whole && s->far <= (uint64_t)w->d.cap_far && s->leaf <= (uint64_t)w->d.cap_leaf;
    for (int l = 0; l < 40; l++) next = larger(next, (double)s->next[l]);
    if (*fits) { /* what was used */
        room->far = (double)s->far / n;
        room->leaf = (double)s->leaf / n;
        room->next = next / n;
        return FF_OK;
    }
    /* A traversal that is not whole says too little: at least twice as much next time. */
    room->next = whole ? larger(room->next, next / n) : larger(2 * room->next + 1, 1.25 * next / n);
    room->far = larger(room->far, (whole ? 1.0 : 1.5) * (double)s->far / n);
    room->leaf = larger(room->leaf, (whole ? 1.0 : 1.5) * (double)s->leaf / n);
    return FF_OK;
}

ff_status ff_walk_create(ff_cuda_pool *pool, const ff_cuda_lists_args *args, int n_args,
                         const ff_cuda_density *room, ff_walk **out)
{
    ff_status st = FF_OK;
    ff_walk *w = (ff_walk *)ff_mem_alloc0(1, sizeof *w);
    *out = NULL;
    if (w == NULL) return FF_E_MEM;
    FF_GO(make_parts(w, args, n_args));
    FF_GO(make_room(pool, room->next > 0 ? room : &first_room, w));
    FF_GO(run(pool, w));
    *out = w;
    w = NULL;
done:
    ff_walk_destroy(pool, &w);
    return st;
}
