/* Pair lists on the device, equal to the bit to ff_pair_lists_build: what the traversal left is counted, scanned and
 * written in canonical order, for all lists at once.
 *
 * slot_sums, point_sums, CUB scans, then lists_far, lists_points, lists_entries, lists_leaf
 * Work    a thread a slot or point; a warp a slot where rows of ids are copied
 * Launch  256 threads a block
 * Order   every id's place follows from the scans; nothing depends on scheduling
 * Bytes   a far id is read and written once (8), a leaf id likewise; a target 60 and a segment 12 are written,
 *         a slot 72 and a point 28 are read or written by the scans. 81,920 points of a surface, 1.2e7 far entries:
 *         lists_far 97 MB, 0.023 ms at 4.3 TB/s, measured 0.091 ms (ncu), 25 %: rows of 70 ids leave lanes idle; the
 *         other kernels and scans together 0.08 ms
 * Oracle  src/kernel/ff_pair_lists.c, tests/gpu/test_plan.c: memcmp */
#include "ff_cuda_walk.cuh"

extern "C" {
#include "ff_mem.h"
}

#include <cub/device/device_scan.cuh>

typedef struct slot_sum {
    int64_t far, fn_ids;
    int32_t entries, leaves; /* node and leaf entries */
} slot_sum;

typedef struct point_sum {
    int64_t ids, segments, pairs; /* pairs: of expanded far rows */
} point_sum;

struct add_slots {
    __device__ slot_sum operator()(const slot_sum &a, const slot_sum &b) const
    {
        return {a.far + b.far, a.fn_ids + b.fn_ids, a.entries + b.entries, a.leaves + b.leaves};
    }
};
struct add_points {
    __device__ point_sum operator()(const point_sum &a, const point_sum &b) const
    {
        return {a.ids + b.ids, a.segments + b.segments, a.pairs + b.pairs};
    }
};
struct larger_i32 {
    __device__ int32_t operator()(int32_t a, int32_t b) const { return a > b ? a : b; }
};

/* One part's place in its list: where its targets, segments and ids begin, and the sums before it. */
typedef struct list_part {
    const double *x_point, *x_node; /* x_point: of the part's first target */
    double *x_t;
    int32_t *seg_off, *seg_cum, *n_pairs, *src;
    int64_t *seg_src, *far_up, *far_of, *leaf_from;
    int32_t *node;
    uint64_t *leaf_mask;
    int64_t t_point, t_far, t_leaf;       /* targets */
    int64_t seg_point, seg_far, seg_leaf; /* segments */
    int64_t far0;                         /* far ids of slots before the list */
    int64_t src_point, src_fn;            /* ids */
    slot_sum slots;                       /* of slots before the part */
    point_sum points;                     /* of points before the part */
    int64_t own_begin;                    /* sorted position of the first target */
} list_part;

typedef struct lists_dev {
    walk_dev w;
    slot_sum *slots;   /* [n_slots + 1] */
    point_sum *points; /* [n_points + 1] */
    list_part *part;   /* [n_parts] */
} lists_dev;

/* ---- counting ---- */

static __global__ void slot_sums(lists_dev d)
{
    int64_t i = ff_thread();
    slot_sum s = {0, 0, 0, 0};
    if (i > d.w.n_slots) return;
    if (i < d.w.n_slots && walk_good(d.w)) {
        walk_slot w = d.w.slot[i];
        s.far = w.n_far;
        s.fn_ids = w.fn_ids;
        s.entries = w.n_far > 0 && !d.w.part[w.part].expand;
        s.leaves = w.n_fn;
    }
    d.slots[i] = s;
}

/* The part of point i of all parts. */
static __device__ int part_of(const walk_dev &d, int64_t i)
{
    int lo = 0, hi = d.n_parts;
    while (hi - lo > 1) {
        int mid = (lo + hi) / 2;
        if (d.part[mid].point0 <= i)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

/* Slot of the node where the traversal ended above point i; -1 in an empty plan. end_slot holds running maxima. */
static __device__ int32_t slot_of(const walk_dev &d, const walk_part &p, int64_t i)
{
    int32_t s = d.end_slot[i];
    return s >= p.slot0 ? s : -1;
}

/* Ids that the leaf pairs of slot s add to point j of its leaf. */
static __device__ int64_t leaf_ids(const walk_dev &d, const walk_part &p, const walk_slot &s, int64_t j)
{
    int64_t n = 0;
    if (s.n_leaf > 0 && p.t_first[s.node] < 0) walk_fail(d.state, WALK_T_POINTS, p.t_id[s.node]);
    for (int64_t k = s.leaf_at; k < s.leaf_at + s.n_leaf; k++) {
        if (p.masked) {
            n += d.t_mask[k] >> j & 1 ? __popcll(d.s_mask[k]) : 1;
        } else {
            n++;
            if (p.s_first[d.leaf[k]] < 0) walk_fail(d.state, WALK_S_POINTS, p.s_id[d.leaf[k]]);
        }
    }
    return n;
}

static __global__ void point_sums(lists_dev d)
{
    int64_t i = ff_thread();
    point_sum sum = {0, 0, 0};
    if (i > d.w.n_points) return;
    if (i < d.w.n_points && walk_good(d.w)) {
        const walk_part &p = d.w.part[part_of(d.w, i)];
        int32_t at = slot_of(d.w, p, i);
        if (at >= 0) {
            walk_slot s = d.w.slot[at];
            sum.ids = leaf_ids(d.w, p, s, p.begin + i - p.point0 - p.t_start[s.node]);
            sum.segments = (sum.ids > 0) + (p.expand ? s.n_above : 0);
            sum.pairs = p.expand ? s.far_sum : 0;
        }
    }
    d.points[i] = sum;
}

/* Sums at the borders of the parts, for the host. */
typedef struct border {
    slot_sum slots;
    point_sum points;
} border;

static __global__ void part_borders(lists_dev d, border *out)
{
    int k = (int)ff_thread();
    if (k > d.w.n_parts) return;
    out[k].slots = d.slots[k < d.w.n_parts ? d.w.part[k].slot0 : d.w.n_slots];
    out[k].points = d.points[k < d.w.n_parts ? d.w.part[k].point0 : d.w.n_points];
}

/* ---- filling ---- */

static __device__ void set_target(const list_part &l, int64_t t, const double *x, int dim, int64_t segment,
                                  int64_t pairs)
{
    for (int c = 0; c < 4; c++) l.x_t[4 * t + c] = c < dim ? x[c] : 0;
    l.seg_off[t] = (int32_t)segment;
    l.n_pairs[t] = (int32_t)pairs;
}

static __device__ void set_segment(const list_part &l, int64_t segment, int64_t src, int64_t cum)
{
    l.seg_src[segment] = src;
    l.seg_cum[segment] = (int32_t)cum;
}

static __global__ void lists_far(lists_dev d)
{
    int lane = (int)threadIdx.x % 32;
    for (int64_t i = ff_thread() / 32; i < d.w.n_slots; i += (int64_t)gridDim.x * 8) {
        const walk_slot &s = d.w.slot[i];
        int32_t n = s.n_far, held = d.w.part[s.part].s_held;
        if (n == 0) continue;
        const int32_t *from = d.w.far + s.far_at;
        int32_t *to = d.part[s.part].src + d.slots[i].far - d.part[s.part].far0;
        for (int32_t k = lane; k < n; k += 32) to[k] = held + from[k];
    }
}

/* Node entry of slot s or the nearest above that has one, counted from the part's first; -1: none. */
static __device__ int64_t entry_of(const lists_dev &d, const list_part &l, int32_t s)
{
    if (s >= 0 && d.w.slot[s].n_far == 0) s = d.w.slot[s].up;
    return s >= 0 ? d.slots[s].entries - l.slots.entries : -1;
}

/* Near ids, then accepted nodes, of point j of slot s's leaf. */
static __device__ void write_leaf_ids(const walk_dev &d, const walk_part &p, const walk_slot &s, int64_t j,
                                      int32_t *to)
{
    for (int64_t k = s.leaf_at; k < s.leaf_at + s.n_leaf; k++) {
        if (p.masked && !(d.t_mask[k] >> j & 1)) continue;
        int32_t first = p.s_first[d.leaf[k]];
        for (uint64_t m = p.masked ? d.s_mask[k] : 1; m != 0; m &= m - 1)
            *to++ = first + __ffsll((long long)m) - 1;
    }
    for (int64_t k = s.leaf_at; p.masked && k < s.leaf_at + s.n_leaf; k++)
        if (!(d.t_mask[k] >> j & 1)) *to++ = p.s_held + d.leaf[k];
}

/* Rows above slot at that hold far ids, the root's first, in segments from first on. */
static __device__ void write_rows_above(const lists_dev &d, const list_part &l, int32_t at, int64_t near,
                                        int64_t first)
{
    if (d.w.slot[at].n_far == 0) at = d.w.slot[at].up;
    for (; at >= 0; at = d.w.slot[at].up) {
        const walk_slot &s = d.w.slot[at];
        set_segment(l, first + s.n_above - 1, d.slots[at].far - l.far0, near + s.far_sum - s.n_far);
    }
}

static __global__ void lists_points(lists_dev d)
{
    int64_t i = ff_thread();
    if (i >= d.w.n_points) return;
    int k = part_of(d.w, i);
    const walk_part &p = d.w.part[k];
    const list_part &l = d.part[k];
    point_sum sum = d.points[i], next = d.points[i + 1];
    int64_t in_part = i - p.point0, ids = next.ids - sum.ids;
    int64_t segment = l.seg_point + sum.segments - l.points.segments;
    int64_t src = l.src_point + sum.ids - l.points.ids;
    int32_t at = slot_of(d.w, p, i);
    set_target(l, l.t_point + in_part, l.x_point + in_part * p.dim, p.dim, segment,
               ids + next.pairs - sum.pairs);
    if (l.far_of != NULL) l.far_of[in_part] = entry_of(d, l, at);
    if (ids > 0) {
        walk_slot s = d.w.slot[at];
        set_segment(l, segment, src, 0);
        write_leaf_ids(d.w, p, s, p.begin + in_part - p.t_start[s.node], l.src + src);
    }
    if (p.expand && at >= 0) write_rows_above(d, l, at, ids, segment + (ids > 0));
}

/* Nodes with far rows become targets, where rows are not expanded. */
static __global__ void lists_entries(lists_dev d)
{
    int64_t i = ff_thread();
    if (i >= d.w.n_slots) return;
    walk_slot s = d.w.slot[i];
    const walk_part &p = d.w.part[s.part];
    const list_part &l = d.part[s.part];
    if (s.n_far == 0 || p.expand) return;
    int64_t e = d.slots[i].entries - l.slots.entries;
    set_target(l, l.t_far + e, l.x_node + (int64_t)s.node * p.dim, p.dim, l.seg_far + e, s.n_far);
    set_segment(l, l.seg_far + e, d.slots[i].far - l.far0, 0);
    l.far_up[e] = entry_of(d, l, s.up);
    l.node[e] = s.node;
}

/* Leaf pairs with far-near sources become targets: a warp a slot, a lane a leaf pair. */
static __global__ void lists_leaf(lists_dev d)
{
    int lane = (int)threadIdx.x % 32;
    for (int64_t i = ff_thread() / 32; i < d.w.n_slots; i += (int64_t)gridDim.x * 8) {
        walk_slot s = d.w.slot[i];
        if (s.n_fn == 0) continue;
        const walk_part &p = d.w.part[s.part];
        const list_part &l = d.part[s.part];
        int64_t e = d.slots[i].leaves - l.slots.leaves;
        int64_t src = l.src_fn + d.slots[i].fn_ids - l.slots.fn_ids;
        for (int32_t k0 = 0; k0 < s.n_leaf; k0 += 32) {
            int64_t k = s.leaf_at + k0 + lane;
            uint64_t fn = 0;
            if (k0 + lane < s.n_leaf && d.w.t_mask[k] != 0) {
                int64_t n = p.s_count[d.w.leaf[k]];
                fn = (n >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << n) - 1) & ~d.w.s_mask[k];
            }
            uint32_t some = __ballot_sync(0xffffffffu, fn != 0);
            int ids = __popcll(fn), before = ids;
            for (int o = 1; o < 32; o *= 2) { /* running sum over lanes */
                int v = __shfl_up_sync(0xffffffffu, before, o);
                if (lane >= o) before += v;
            }
            int all = __shfl_sync(0xffffffffu, before, 31);
            if (fn != 0) {
                int64_t own = e + __popc(some & ((1u << lane) - 1)), at = src + before - ids;
                set_target(l, l.t_leaf + own, l.x_node + (int64_t)s.node * p.dim, p.dim, l.seg_leaf + own,
                           ids);
                set_segment(l, l.seg_leaf + own, at, 0);
                l.leaf_from[own] = p.t_start[s.node] - l.own_begin;
                l.leaf_mask[own] = d.w.t_mask[k];
                l.node[l.t_leaf - l.t_far + own] = s.node;
                for (uint64_t m = fn; m != 0; m &= m - 1)
                    l.src[at++] = p.s_first[d.w.leaf[k]] + __ffsll((long long)m) - 1;
            }
            e += __popc(some);
            src += all;
        }
    }
}

/* ---- host ---- */

typedef struct builder {
    lists_dev d;
    ff_walk *w;
    border *d_borders, *borders; /* [n_parts + 1] */
    list_part *part;             /* [n_parts] */
    void *d_scan;
} builder;

static void builder_free(ff_cuda_pool *pool, builder *b)
{
    ff_walk_destroy(pool, &b->w);
    ff_cuda_free(pool, b->d.slots);
    ff_cuda_free(pool, b->d.points);
    ff_cuda_free(pool, b->d.part);
    ff_cuda_free(pool, b->d_borders);
    ff_cuda_free(pool, b->d_scan);
    ff_free(b->borders);
    ff_free(b->part);
    memset(b, 0, sizeof *b);
}

static ff_status run_scans(ff_cuda_pool *pool, builder *b)
{
    ff_status st = FF_OK;
    cudaStream_t s = (cudaStream_t)ff_cuda_pool_stream(pool);
    walk_dev *w = &b->w->d;
    const slot_sum no_slot = {0, 0, 0, 0};
    const point_sum no_point = {0, 0, 0};
    size_t need[3] = {0, 0, 0}, most;
    int64_t n_slots = (int64_t)w->n_slots + 1, n_points = w->n_points + 1;
    FF_CU(cub::DeviceScan::ExclusiveScan(NULL, need[0], b->d.slots, b->d.slots, add_slots(), no_slot, n_slots,
                                         s));
    FF_CU(cub::DeviceScan::ExclusiveScan(NULL, need[1], b->d.points, b->d.points, add_points(), no_point,
                                         n_points, s));
    FF_CU(cub::DeviceScan::InclusiveScan(NULL, need[2], w->end_slot, w->end_slot, larger_i32(), n_points, s));
    most = need[0] > need[1] ? need[0] : need[1];
    most = most > need[2] ? most : need[2];
    FF_GO(ff_cuda_alloc(pool, most, &b->d_scan));
    if (w->n_points > 0)
        FF_CU(cub::DeviceScan::InclusiveScan(b->d_scan, need[2], w->end_slot, w->end_slot, larger_i32(),
                                             w->n_points, s));
    slot_sums<<<ff_grid(n_slots, 1), 256, 0, s>>>(b->d);
    FF_CU(cub::DeviceScan::ExclusiveScan(b->d_scan, need[0], b->d.slots, b->d.slots, add_slots(), no_slot,
                                         n_slots, s));
    point_sums<<<ff_grid(n_points, 1), 256, 0, s>>>(b->d);
    FF_CU(cub::DeviceScan::ExclusiveScan(b->d_scan, need[1], b->d.points, b->d.points, add_points(), no_point,
                                         n_points, s));
    part_borders<<<ff_grid(w->n_parts + 1, 1), 256, 0, s>>>(b->d, b->d_borders);
    FF_CU(cudaGetLastError());
done:
    return st;
}

/* Traversal and sums; the sums at the parts' borders come to the host. */
static ff_status traverse(ff_cuda_pool *pool, const ff_cuda_lists_args *args, int n_args,
                          ff_cuda_density *density, builder *b, bool *fits)
{
    ff_status st = FF_OK;
    size_t n_parts = 0;
    FF_GO(ff_walk_create(pool, args, n_args, density, &b->w));
    b->d.w = b->w->d;
    n_parts = (size_t)b->d.w.n_parts;
    FF_GO(FF_ALLOC(pool, b->d.slots, (int64_t)b->d.w.n_slots + 1));
    FF_GO(FF_ALLOC(pool, b->d.points, b->d.w.n_points + 1));
    FF_GO(FF_ALLOC(pool, b->d.part, n_parts));
    FF_GO(FF_ALLOC(pool, b->d_borders, n_parts + 1));
    b->borders = (border *)ff_mem_alloc0(n_parts + 1, sizeof *b->borders);
    b->part = (list_part *)ff_mem_alloc0(n_parts + 1, sizeof *b->part);
    if (b->borders == NULL || b->part == NULL) FF_GO(FF_E_MEM);
    FF_GO(run_scans(pool, b));
    FF_GO(ff_cuda_get(pool, b->borders, b->d_borders, (n_parts + 1) * sizeof *b->borders));
    FF_GO(ff_walk_check(pool, b->w, density, fits));
done:
    return st;
}

/* Numbers the targets, segments and ids of one list; part: the list's first. */
static ff_status number_list(const builder *b, const ff_cuda_lists_args *args, int part, ff_cuda_lists *l)
{
    const border *first = &b->borders[part];
    int64_t n_t = 0, n_seg = 0, n_src = b->borders[part + args->n].slots.far - first->slots.far;
    for (int k = 0; k < args->n; k++) {
        const border *at = first + k, *end = at + 1;
        list_part *p = &b->part[part + k];
        ff_cuda_part *c = &l->part[k];
        const ff_cuda_target *t = &args->target[k];
        int64_t far = end->slots.far - at->slots.far, fn_ids = end->slots.fn_ids - at->slots.fn_ids;
        int64_t ids = end->points.ids - at->points.ids, rows = end->points.pairs - at->points.pairs;
        int64_t segments = end->points.segments - at->points.segments;
        c->n_points = t->end - t->begin;
        c->n_far = end->slots.entries - at->slots.entries;
        c->n_leaf = end->slots.leaves - at->slots.leaves;
        c->point_begin = p->t_point = n_t;
        c->far_begin = p->t_far = n_t + c->n_points;
        c->leaf_begin = p->t_leaf = p->t_far + c->n_far;
        n_t = p->t_leaf + c->n_leaf;
        p->seg_point = n_seg;
        p->seg_far = n_seg + segments;
        p->seg_leaf = p->seg_far + c->n_far;
        n_seg = p->seg_leaf + c->n_leaf;
        p->src_point = n_src;
        p->src_fn = n_src + ids;
        n_src = p->src_fn + fn_ids;
        p->far0 = first->slots.far;
        p->slots = at->slots;
        p->points = at->points;
        p->own_begin = t->begin;
        p->x_point = t->d_x_point + (t->tree->own_first + t->begin - t->tree->own_begin) * t->tree->dim;
        p->x_node = t->d_x_node;
        l->pairs += ids + rows + fn_ids + (args->expand_far ? 0 : far);
    }
    if (n_t > INT32_MAX - 1 || n_seg > INT32_MAX - 1)
        return ff_fail(FF_E_UNSUPPORTED, "%lld targets on one rank, expected below 2^31; use more ranks",
                       (long long)n_t);
    l->n_t = (int32_t)n_t;
    l->n_seg = n_seg;
    l->n_src_ids = n_src;
    return FF_OK;
}

/* Arrays of a numbered list; its parts' kernels learn where they are. */
static ff_status alloc_list(ff_cuda_pool *pool, const ff_cuda_lists_args *args, list_part *part,
                            ff_cuda_lists *l)
{
    ff_status st = FF_OK;
    list_part a;
    int64_t n = l->n_t;
    int32_t last = (int32_t)l->n_seg;
    memset(&a, 0, sizeof a);
    FF_GO(FF_ALLOC(pool, a.x_t, 4 * n));
    l->d_x_t = a.x_t;
    FF_GO(FF_ALLOC(pool, a.seg_off, n + 1));
    l->d_seg_off = a.seg_off;
    FF_GO(FF_ALLOC(pool, a.seg_src, l->n_seg));
    l->d_seg_src = a.seg_src;
    FF_GO(FF_ALLOC(pool, a.seg_cum, l->n_seg));
    l->d_seg_cum = a.seg_cum;
    FF_GO(FF_ALLOC(pool, a.n_pairs, n));
    l->d_n_pairs = a.n_pairs;
    FF_GO(FF_ALLOC(pool, a.src, l->n_src_ids));
    l->d_src = a.src;
    FF_GO(FF_ALLOC(pool, l->d_piece_off, n + 1));
    FF_GO(FF_ALLOC(pool, l->d_group_off, n + 1));
    FF_GO(ff_cuda_put(pool, a.seg_off + n, &last, sizeof last));
    for (int k = 0; k < args->n; k++) {
        ff_cuda_part *c = &l->part[k];
        list_part *p = &part[k];
        FF_GO(FF_ALLOC(pool, p->far_up, c->n_far));
        c->d_far_up = p->far_up;
        if (c->n_far > 0) FF_GO(FF_ALLOC(pool, p->far_of, c->n_points));
        c->d_far_of = p->far_of;
        FF_GO(FF_ALLOC(pool, p->leaf_from, c->n_leaf));
        c->d_leaf_from = p->leaf_from;
        FF_GO(FF_ALLOC(pool, p->leaf_mask, c->n_leaf));
        c->d_leaf_mask = p->leaf_mask;
        FF_GO(FF_ALLOC(pool, p->node, c->n_far + c->n_leaf));
        c->d_node = p->node;
        p->x_t = a.x_t, p->seg_off = a.seg_off, p->seg_src = a.seg_src, p->seg_cum = a.seg_cum;
        p->n_pairs = a.n_pairs, p->src = a.src;
    }
done:
    return st;
}

static ff_status fill_lists(ff_cuda_pool *pool, builder *b)
{
    ff_status st = FF_OK;
    cudaStream_t s = (cudaStream_t)ff_cuda_pool_stream(pool);
    int64_t n_slots = b->d.w.n_slots, n_points = b->d.w.n_points,
            most = n_slots < 1 << 17 ? n_slots : 1 << 17;
    FF_GO(ff_cuda_put(pool, b->d.part, b->part, (size_t)b->d.w.n_parts * sizeof *b->part));
    lists_far<<<ff_grid(most, 32), 256, 0, s>>>(b->d);
    lists_points<<<ff_grid(n_points, 1), 256, 0, s>>>(b->d);
    lists_entries<<<ff_grid(n_slots, 1), 256, 0, s>>>(b->d);
    if (b->w->masked) lists_leaf<<<ff_grid(most, 32), 256, 0, s>>>(b->d);
    FF_CU(cudaGetLastError());
done:
    return st;
}

static ff_status cut_list(ff_cuda_pool *pool, ff_cuda_lists *l)
{
    ff_status st = FF_OK;
    void *work = NULL;
    FF_GO(ff_cuda_alloc(pool, ff_cuda_cut_bytes(l->n_t), &work));
    FF_GO(ff_cuda_lists_cut(l, work, ff_cuda_pool_stream(pool)));
done:
    ff_cuda_free(pool, work);
    return st;
}

/* Lists of a traversal that fitted its buffers. */
static ff_status make_lists(ff_cuda_pool *pool, const ff_cuda_lists_args *args, int n_args, builder *b,
                            ff_cuda_lists **out)
{
    ff_status st = FF_OK;
    for (int i = 0, part = 0; i < n_args; part += args[i++].n) {
        ff_cuda_lists *l = (ff_cuda_lists *)ff_mem_alloc0(1, sizeof *l);
        if (l == NULL) FF_GO(FF_E_MEM);
        out[i] = l;
        l->part = (ff_cuda_part *)ff_mem_alloc0((size_t)args[i].n + 1, sizeof *l->part);
        if (l->part == NULL) FF_GO(FF_E_MEM);
        l->n_parts = args[i].n;
        FF_GO(number_list(b, &args[i], part, l));
        FF_GO(alloc_list(pool, &args[i], &b->part[part], l));
    }
    FF_GO(fill_lists(pool, b));
    for (int i = 0; i < n_args; i++) FF_GO(cut_list(pool, out[i]));
done:
    return st;
}

ff_status ff_cuda_lists_build(ff_cuda_pool *pool, const ff_cuda_lists_args *args, int n_lists,
                              ff_cuda_lists **out)
{
    ff_status st = FF_OK;
    builder b;
    ff_cuda_density density = {0, 0, 0};
    bool fits = false;
    memset(&b, 0, sizeof b);
    for (int i = 0; i < n_lists; i++) out[i] = NULL;
    while (!fits) {
        builder_free(pool, &b);
        FF_GO(traverse(pool, args, n_lists, &density, &b, &fits));
    }
    FF_GO(make_lists(pool, args, n_lists, &b, out));
done:
    builder_free(pool, &b);
    for (int i = 0; i < n_lists && st != FF_OK; i++) ff_cuda_lists_destroy(pool, &out[i]);
    return st;
}

/* Device memory a target of a chunk, roughly: the traversal, the sums, and the lists. */
static int64_t point_bytes(const ff_cuda_lists_args *args, const ff_cuda_density *density)
{
    int masked = args->target[0].tree->leaf_size > 1 || args->source->leaf_size > 1;
    int64_t walk = ff_walk_point_bytes(density, masked);
    int64_t sums = 2 * (int64_t)sizeof(slot_sum) + (int64_t)sizeof(point_sum);
    int64_t targets = args->expand_far ? 1 : 3, segments = args->expand_far ? WALK_ABOVE / 2 : 3;
    /* ids cost as much again as in the traversal, which counts leaf ids of one target; leaves have several */
    int64_t ids = walk + (masked ? 4 * FF_LEAF_MAX : 0);
    return walk + sums + ids + targets * 72 + segments * 12;
}

ff_status ff_cuda_lists_next(ff_cuda_pool *pool, const ff_cuda_lists_args *args, int64_t budget_bytes,
                             int64_t *at, ff_cuda_density *density, ff_cuda_lists **out)
{
    ff_status st = FF_OK;
    builder b;
    ff_cuda_target t = args->target[0];
    ff_cuda_lists_args part = *args;
    bool fits = false;
    memset(&b, 0, sizeof b);
    *out = NULL;
    if (args->n != 1) return ff_fail(FF_E_ARG, "chunk of %d targets, expected 1", args->n);
    part.target = &t;
    t.begin = *at;
    while (!fits) {
        t.end = ff_walk_chunk(t.tree, *at, args->target[0].end, point_bytes(args, density), budget_bytes);
        builder_free(pool, &b);
        FF_GO(traverse(pool, &part, 1, density, &b, &fits));
    }
    FF_GO(make_lists(pool, &part, 1, &b, out));
    *at = t.end;
done:
    builder_free(pool, &b);
    if (st != FF_OK) ff_cuda_lists_destroy(pool, out);
    return st;
}
