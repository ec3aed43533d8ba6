/* Several ranks with whole trees: what of a layer can be summed while other ranks' values are under way.
 *
 * Of the largest subtree that lies within a rank's own points all values, aggregates and records are known before the
 * exchange. Pieces of target lists that read nothing else can be summed early, by the first branch's network; the others,
 * and the other branches, afterwards. A piece is summed by itself in a fixed order, so its bits do not know the launch.
 *
 * Early work has to last for an exchange, mostly the wait for a slower GPU (0.3 % of a layer's time was measured), and no
 * longer: the exchange's own kernels hold multiprocessors, which the early launch leaves to them. So it takes a 32nd of a
 * list, 2 million pairs at least (1.3 ms of the wide network, 0.5 ms of the default one).
 *
 * One source has its lists in two: the one with most pairs. Where lists come in chunks there is no split: exchanges of
 * meshes that large take less than the records of a rank's own points.
 *
 * split_groups, split_choose, split_count, split_fill, and scans
 * Work    a thread a target, which walks its pieces; a run of pieces becomes a target of the early list or of the rest
 * Launch  256 threads a block
 * Order   runs in the order of targets and pieces
 * Bytes   of a target 12, of a segment 12 and the ends of its ids 8 are read, twice; of a run 60, of its segments 12 written
 * Oracle  tests/unit/test_pair_lists.c for ff_list_split.h; equal bits on 1, 2, 3 ranks */
#include "ff_cuda_scan.cuh"
#include "ff_resident.cuh"

extern "C" {
#include "ff_list_split.h"
}

#include <string.h>

enum { EARLY_SHARE = 32, EARLY_PAIRS = 1 << 21 };

static_assert((int)FF_LIST_PIECE == (int)FF_CUDA_PIECE, "pieces are those of the kernels");

/* Targets whose early pieces are taken, the rest keep their list whole; in device memory, as it follows from counts. */
typedef struct split_window {
    int32_t begin, end;
} split_window;

/* Early groups of FF_CUDA_GROUP pairs of each target. */
static __global__ void split_groups(ff_split_lists l, int32_t n_t, ff_split_early e, int32_t *groups)
{
    int64_t t = ff_thread();
    if (t > n_t) return;
    int32_t n = t < n_t ? (l.n_pairs[t] + FF_LIST_PIECE - 1) / FF_LIST_PIECE : 0, sum = 0;
    for (int32_t k = 0, seg = n > 0 ? l.seg_off[t] : 0; k < n;) {
        ff_split_run r = ff_split_next(&l, t, &e, k, seg);
        if (r.early) sum += (ff_split_pairs(&l, t, &r) + FF_CUDA_GROUP - 1) / FF_CUDA_GROUP;
        k = r.end;
        seg = r.next_seg;
    }
    groups[t] = sum;
}

/* First target before which there are at least so many groups. */
static __device__ int32_t target_at(const int32_t *before, int32_t n_t, int64_t groups)
{
    int32_t lo = 0, hi = n_t;
    while (lo < hi) {
        int32_t mid = lo + (hi - lo) / 2;
        if (before[mid] >= groups)
            hi = mid;
        else
            lo = mid + 1;
    }
    return lo;
}

/* Targets in one piece, from the middle, that hold most groups, about. before [n_t + 1]: groups before each. */
static __global__ void split_choose(const int32_t *before, int32_t n_t, int64_t most, split_window *out)
{
    int64_t all = before[n_t];
    out->begin = all <= most ? 0 : target_at(before, n_t, (all - most) / 2);
    out->end = all <= most ? n_t : target_at(before, n_t, (all + most) / 2);
}

static __device__ ff_split_early early_of(const ff_split_early &e, const split_window *w, int64_t t)
{
    ff_split_early none = {0, 0, 0, 0};
    return t >= w->begin && t < w->end ? e : none;
}

/* Numbers of a target's runs and their segments: [0] early, [1] the rest; afterwards the sums before it. */
typedef struct split_counts {
    int32_t *run[2], *seg[2]; /* [n_t + 1] */
} split_counts;

/* A list's arrays while they are filled; piece_off in the order of the targets, not yet of the cut. */
typedef struct split_out {
    double *x_t;
    int32_t *seg_off, *seg_cum, *n_pairs, *first_piece, *target;
    int64_t *seg_src;
} split_out;

static __global__ void split_count(ff_split_lists l, int32_t n_t, ff_split_early ids, const split_window *w,
                                   split_counts c)
{
    int64_t t = ff_thread();
    int32_t runs[2] = {0, 0}, segs[2] = {0, 0};
    if (t > n_t) return;
    ff_split_early e = early_of(ids, w, t);
    int32_t n = t < n_t ? (l.n_pairs[t] + FF_LIST_PIECE - 1) / FF_LIST_PIECE : 0;
    for (int32_t k = 0, seg = n > 0 ? l.seg_off[t] : 0; k < n;) {
        ff_split_run r = ff_split_next(&l, t, &e, k, seg);
        runs[r.early ? 0 : 1]++;
        segs[r.early ? 0 : 1] += r.n_seg;
        k = r.end;
        seg = r.next_seg;
    }
    for (int i = 0; i < 2; i++) {
        c.run[i][t] = runs[i];
        c.seg[i][t] = segs[i];
    }
}

static __global__ void split_fill(ff_split_lists l, int32_t n_t, ff_split_early ids, const split_window *w,
                                  split_counts c, const int32_t *piece_off, split_out early, split_out rest)
{
    int64_t t = ff_thread();
    if (t >= n_t) return;
    ff_split_early e = early_of(ids, w, t);
    int32_t run[2] = {c.run[0][t], c.run[1][t]}, at[2] = {c.seg[0][t], c.seg[1][t]};
    int32_t n = (l.n_pairs[t] + FF_LIST_PIECE - 1) / FF_LIST_PIECE;
    for (int32_t k = 0, seg = l.seg_off[t]; k < n;) {
        ff_split_run r = ff_split_next(&l, t, &e, k, seg);
        int i = r.early ? 0 : 1;
        const split_out &o = r.early ? early : rest;
        o.seg_off[run[i]] = at[i];
        o.n_pairs[run[i]] = ff_split_pairs(&l, t, &r);
        o.first_piece[run[i]] = piece_off[t] + k;
        o.target[run[i]++] = (int32_t)t;
        for (int32_t s = 0; s < r.n_seg; s++, at[i]++)
            ff_split_segment(&l, &r, s, &o.seg_src[at[i]], &o.seg_cum[at[i]]);
        k = r.end;
        seg = r.next_seg;
    }
    if (t < n_t - 1) return;
    early.seg_off[run[0]] = at[0];
    rest.seg_off[run[1]] = at[1];
}

static __global__ void split_targets(int64_t n, const int32_t *target, const double *x_t, double *out)
{
    int64_t k = ff_thread();
    if (k >= 4 * n) return;
    out[k] = x_t[4 * (int64_t)target[k / 4] + k % 4];
}

ff_status ff_res_split_targets(ff_resident *r, const ff_res_split *s, const ff_cuda_lists *whole)
{
    ff_status st = FF_OK;
    for (int i = 0; i < 2; i++) {
        int64_t n = s->list[i].n_t;
        if (n > 0)
            split_targets<<<ff_grid(4 * n, 1), 256, 0, ff_res_stream(r)>>>(n, s->d_target[i], whole->d_x_t,
                                                                           (double *)s->list[i].d_x_t);
    }
    FF_CU(cudaGetLastError());
done:
    return st;
}

/* ---- building ---- */

static void split_free(ff_resident *r, ff_res_split *s)
{
    ff_cuda_pool *pool = r->impl->pool;
    for (int i = 0; i < 2; i++) {
        ff_cuda_lists *l = &s->list[i];
        const void *block[] = {l->d_x_t,     l->d_seg_off,   l->d_seg_src,   l->d_seg_cum,
                               l->d_n_pairs, l->d_piece_off, l->d_group_off, s->d_target[i]};
        for (size_t k = 0; k < sizeof block / sizeof *block; k++) ff_cuda_free(pool, block[k]);
    }
    memset(s, 0, sizeof *s);
    s->source = -1;
}

void ff_res_split_drop(ff_resident *r)
{
    for (int i = 0; i < 2; i++) split_free(r, &r->split[i]);
}

static ff_status split_alloc(ff_cuda_pool *pool, ff_res_split *s, int i, int32_t n_t, int32_t n_seg,
                             split_out *o)
{
    ff_status st = FF_OK;
    ff_cuda_lists *l = &s->list[i];
    size_t n = (size_t)n_t;
    FF_GO(FF_ALLOC(pool, o->x_t, 4 * n));
    l->d_x_t = o->x_t;
    FF_GO(FF_ALLOC(pool, o->seg_off, n + 1));
    l->d_seg_off = o->seg_off;
    FF_GO(FF_ALLOC(pool, o->seg_src, n_seg));
    l->d_seg_src = o->seg_src;
    FF_GO(FF_ALLOC(pool, o->seg_cum, n_seg));
    l->d_seg_cum = o->seg_cum;
    FF_GO(FF_ALLOC(pool, o->n_pairs, n));
    l->d_n_pairs = o->n_pairs;
    FF_GO(FF_ALLOC(pool, o->target, n));
    s->d_target[i] = o->target;
    FF_GO(FF_ALLOC(pool, l->d_piece_off, n + 1)); /* what the cut makes of it is not kept */
    FF_GO(FF_ALLOC(pool, l->d_group_off, n + 1));
    FF_GO(FF_ALLOC(pool, o->first_piece, n + 1));
    l->n_t = n_t;
    l->n_seg = n_seg;
done:
    return st;
}

/* Groups of the runs; then a run's pieces are those of the whole list. */
static ff_status split_cut(ff_cuda_pool *pool, ff_cuda_lists *l, const split_out *o, void *d_work)
{
    FF_TRY(ff_cuda_lists_cut(l, d_work, ff_cuda_pool_stream(pool)));
    ff_cuda_free(pool, l->d_piece_off);
    l->d_piece_off = o->first_piece;
    return FF_OK;
}

/* n_final: targets of the whole list that the final layer has, too; 0: none. */
static ff_status split_list(ff_resident *r, const ff_cuda_lists *l, int32_t n_final, const ff_split_early *e,
                            ff_res_split *s)
{
    ff_status st = FF_OK;
    ff_cuda_pool *pool = r->impl->pool;
    cudaStream_t stream = ff_res_stream(r);
    split_counts c;
    split_out out[2];
    int32_t n = l->n_t + 1, total[4], *d_counts = NULL, most = n;
    void *d_work = NULL;
    split_window *d_window = NULL;
    int64_t least = EARLY_PAIRS / FF_CUDA_GROUP, part = l->n_group / EARLY_SHARE,
            keep = part > least ? part : least;
    ff_split_lists v = {l->d_seg_off, l->d_seg_cum, l->d_n_pairs, l->d_src, l->d_seg_src};
    memset(out, 0, sizeof out);
    FF_GO(FF_ALLOC(pool, d_counts, 4 * (size_t)n));
    for (int i = 0; i < 2; i++) {
        c.run[i] = d_counts + (int64_t)i * n;
        c.seg[i] = d_counts + (int64_t)(2 + i) * n;
    }
    FF_GO(ff_cuda_alloc(pool, ff_cuda_cut_bytes(n), &d_work));
    FF_GO(FF_ALLOC(pool, d_window, 1));
    split_groups<<<ff_grid(n, 1), 256, 0, stream>>>(v, l->n_t, *e, d_counts);
    FF_GO(ff_scan_i32(d_counts, n, d_work, stream));
    split_choose<<<1, 1, 0, stream>>>(d_counts, l->n_t, keep, d_window);
    split_count<<<ff_grid(n, 1), 256, 0, stream>>>(v, l->n_t, *e, d_window, c);
    FF_CU(cudaGetLastError());
    for (int i = 0; i < 4; i++) FF_GO(ff_scan_i32(d_counts + (int64_t)i * n, n, d_work, stream));
    for (int i = 0; i < 4; i++)
        FF_GO(ff_cuda_get(pool, &total[i], d_counts + (int64_t)(i + 1) * n - 1, sizeof total[i]));
    for (int i = 0; i < 2; i++)
        FF_GO(ff_cuda_get(pool, &s->n_final[i], c.run[i] + n_final, sizeof s->n_final[i]));
    FF_GO(ff_cuda_wait(pool));
    if (total[0] == 0) goto done;
    for (int i = 0; i < 2; i++) {
        s->list[i].d_src = l->d_src;
        FF_GO(split_alloc(pool, s, i, total[i], total[2 + i], &out[i]));
        if (total[i] > most) most = total[i];
    }
    split_fill<<<ff_grid(l->n_t, 1), 256, 0, stream>>>(v, l->n_t, *e, d_window, c, l->d_piece_off, out[0],
                                                       out[1]);
    FF_CU(cudaGetLastError());
    ff_cuda_free(pool, d_work);
    d_work = NULL;
    FF_GO(ff_cuda_alloc(pool, ff_cuda_cut_bytes(most + 1), &d_work));
    for (int i = 0; i < 2; i++) {
        FF_GO(split_cut(pool, &s->list[i], &out[i], d_work));
        out[i].first_piece = NULL;
        FF_GO(ff_cuda_get(pool, &s->final_group[i], s->list[i].d_group_off + s->n_final[i],
                          sizeof s->final_group[i]));
    }
    FF_GO(ff_cuda_wait(pool));
done:
    for (int i = 0; i < 2; i++) ff_cuda_free(pool, out[i].first_piece);
    ff_cuda_free(pool, d_counts);
    ff_cuda_free(pool, d_work);
    ff_cuda_free(pool, d_window);
    return st;
}

static bool shared(const ff_resident *r)
{
    return r->m.target < r->m.n_src;
}

/* The source with most pairs, and of it what this rank knows by itself. */
static ff_status split_kind(ff_resident *r, bool final)
{
    ff_res_split *s = &r->split[final ? 1 : 0];
    ff_cuda_lists whole, most;
    int source = -1, rank = r->comm.rank;
    memset(&most, 0, sizeof most);
    if (ff_res_n_parts(r, final, false) == 0) return FF_OK;
    for (int j = 0; j < r->m.n_src; j++) {
        ff_res_lists_of(r, final, false, j, &whole);
        if (whole.pairs <= most.pairs) continue;
        most = whole;
        source = j;
    }
    if (source < 0) return FF_OK;
    const ff_res_cloud *c = &r->cloud[source];
    s->from = ff_topo_largest(c->n, r->m.leaf_size, c->cut[rank], c->cut[rank + 1]);
    if (s->from.count == 0) return FF_OK;
    ff_split_early e = {(int32_t)s->from.start, (int32_t)(s->from.start + s->from.count),
                        (int32_t)(c->n_held + s->from.id),
                        (int32_t)(c->n_held + s->from.id + ff_topo_nodes(s->from.count, r->m.leaf_size))};
    ff_cuda_lists last;
    int32_t n_final = 0;
    if (!final && shared(r) && ff_res_n_parts(r, true, false) > 0) {
        ff_res_lists_of(r, true, false, source, &last);
        n_final = last.n_t;
    }
    FF_TRY(split_list(r, &most, n_final, &e, s));
    if (s->list[0].n_group > 0) s->source = source;
    return FF_OK;
}

static int64_t early_row_bytes(const ff_resident *r)
{
    ff_cuda_lists whole;
    int64_t most = 0, n_comp = r->n_dyn > r->m.n_out ? r->n_dyn : r->m.n_out;
    for (int i = 0; i < 2; i++) {
        if (r->split[i].source < 0) continue;
        ff_res_lists_of(r, i == 1, false, r->split[i].source, &whole);
        if (whole.n_t > most) most = whole.n_t;
    }
    return most * n_comp * (int64_t)sizeof(float);
}

/* Without memory for it there is no split. */
ff_status ff_res_split_lists(ff_resident *r)
{
    ff_status st = FF_OK;
    if (!ff_res_whole(r) || r->chunked || r->m.n_src == 0 || r->m.n_comm == 0) return FF_OK;
    if (r->m.n_comm > 1 || shared(r)) st = split_kind(r, false);
    if (st == FF_OK && !shared(r)) st = split_kind(r, true);
    if (st == FF_OK && ff_res_lists_fit(r, early_row_bytes(r))) return FF_OK;
    ff_res_split_drop(r);
    if (st == FF_E_MEM) {
        ff_error_clear();
        st = FF_OK;
    }
    return st;
}

bool ff_res_split_of(const ff_resident *r, int k, ff_res_split *view)
{
    bool final = k == r->m.n_comm;
    const ff_res_split *s = &r->split[final && !shared(r) ? 1 : 0];
    if (k == 0 || !ff_res_whole(r) || s->source < 0) return false;
    *view = *s;
    for (int i = 0; i < 2 && final && shared(r); i++) {
        view->list[i].n_t = s->n_final[i];
        view->list[i].n_group = view->list[i].n_piece = s->final_group[i];
    }
    const ff_resident_model *m = &r->m;
    return ff_pair_splits((const ff_cuda_net *)m->net[(k * m->n_src + s->source) * m->n_len]);
}
