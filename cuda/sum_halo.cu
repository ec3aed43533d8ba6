/* What targets read of other ranks: moments of nodes below level SUM_SHARED and points of leaves. The walk has marked them;
 * the marks of each other rank's nodes become a list of ids, which their owner gets once; then rows go by these lists.
 *
 * sum_marks      marks of the nodes of others, in order of ranks, levels, nodes: a thread a node
 * sum_marked     their ids, without gaps
 * sum_take_rows, sum_put_rows (sum_dist.cuh)   rows of 16-byte words to and from a list of ids: a thread a word
 * Order   ids ascend in each rank's part
 * Oracle  tests/gpu/sum_ranks.c: bits of one rank */
#include "sum_dist.cuh"

#include <cub/device/device_scan.cuh>

#include <string.h>

/* A run of nodes of one owner and level: entries [at, at + n) of all are ids first, first + 1, ... */
typedef struct run {
    int64_t at, n, first;
} run;

typedef struct mark_args {
    const run *runs; /* [n_run] */
    int n_run;
    int64_t n; /* entries */
    const uint8_t *read;
    int32_t *flag;     /* [n + 1] */
    const int32_t *at; /* [n + 1] */
    int32_t *id;
} mark_args;

static __device__ int64_t id_of(const mark_args &a, int64_t i)
{
    int lo = 0, hi = a.n_run - 1;
    while (lo < hi) {
        const int mid = (lo + hi + 1) / 2;
        if (a.runs[mid].at <= i)
            lo = mid;
        else
            hi = mid - 1;
    }
    return a.runs[lo].first + i - a.runs[lo].at;
}

static __global__ void __launch_bounds__(256) sum_marks(const mark_args a)
{
    const int64_t i = ff_thread();
    if (i <= a.n) a.flag[i] = i < a.n ? a.read[id_of(a, i)] : 0;
}

static __global__ void __launch_bounds__(256) sum_marked(const mark_args a)
{
    const int64_t i = ff_thread();
    if (i < a.n && a.at[i] < a.at[i + 1]) a.id[a.at[i]] = (int32_t)id_of(a, i);
}

/* ---- lists ---- */

static void rows_free(sum_rows *r)
{
    ff_free(r->want);
    ff_free(r->give);
}

void sum_halo_destroy(sum_halo **h) /* blocks of the device go with the pool */
{
    if (*h == NULL) return;
    for (int k = 0; k < 2; k++) rows_free(&(*h)->rows[k]);
    ff_free(*h);
    *h = NULL;
}

/* Runs of a list in order of ranks, first entry of each rank to border [size + 1]. Returns how many. */
static int find_runs(const sum_side *from, const sum_dist *d, const int64_t *cut, int levels, run *runs,
                     int64_t *border)
{
    int n_run = 0;
    int64_t at = 0;
    for (int r = 0; r < d->comm->size; r++) {
        sum_side of = *from;
        of.lo = cut[r], of.hi = cut[r + 1];
        border[r] = at;
        for (int l = 0; l < levels && r != d->comm->rank; l++) {
            const int64_t n = sum_end(&of, l) - sum_first(&of, l);
            if (n > 0) runs[n_run++] = {at, n, from->level_at[l] + sum_first(&of, l)};
            at += n;
        }
    }
    border[d->comm->size] = at;
    return n_run;
}

/* Ids that are read, and their number from each rank. Waits. Local */
static ff_status list_marked(ff_sum_cuda *s, const sum_side *from, const int64_t *cut, int levels,
                             const uint8_t *d_read, sum_rows *out)
{
    ff_status st = FF_OK;
    const sum_dist *d = s->dist;
    const int size = d->comm->size;
    run *runs = NULL, *d_runs = NULL;
    int32_t *flag = NULL, *at = NULL, *h_at = NULL;
    int64_t *border = NULL;
    void *scratch = NULL;
    size_t bytes = 0;
    mark_args a;
    memset(&a, 0, sizeof a);
    runs = (run *)ff_mem_alloc0((size_t)(size * levels) + 1, sizeof *runs);
    border = (int64_t *)ff_mem_alloc0((size_t)size + 1, sizeof *border);
    h_at = (int32_t *)ff_mem_alloc0((size_t)size + 1, sizeof *h_at);
    FF_GO(runs != NULL && border != NULL && h_at != NULL ? FF_OK : FF_E_MEM);
    a.n_run = find_runs(from, d, cut, levels, runs, border);
    a.n = border[size];
    a.read = d_read;
    if (a.n == 0) goto done;
    FF_GO(ff_cuda_new(s->pool, runs, (size_t)a.n_run * sizeof *runs, &d_runs));
    FF_GO(FF_ALLOC(s->pool, flag, a.n + 1));
    FF_GO(FF_ALLOC(s->pool, at, a.n + 1));
    a.runs = d_runs, a.flag = flag, a.at = at;
    sum_marks<<<ff_grid(a.n + 1, 1), 256, 0, s->stream>>>(a);
    FF_CU(cudaGetLastError());
    FF_CU(cub::DeviceScan::ExclusiveSum(NULL, bytes, flag, at, a.n + 1, s->stream));
    FF_GO(ff_cuda_alloc(s->pool, bytes, &scratch));
    FF_CU(cub::DeviceScan::ExclusiveSum(scratch, bytes, flag, at, a.n + 1, s->stream));
    for (int r = 0; r <= size; r++) FF_GO(ff_cuda_get(s->pool, h_at + r, at + border[r], sizeof *at));
    FF_GO(ff_cuda_wait(s->pool));
    for (int r = 0; r < size; r++) out->want[r] = h_at[r + 1] - h_at[r];
    out->n_want = h_at[size];
    FF_GO(FF_ALLOC(s->pool, out->d_want, out->n_want));
    a.id = out->d_want;
    sum_marked<<<ff_grid(a.n, 1), 256, 0, s->stream>>>(a);
    FF_CU(cudaGetLastError());
done:
    ff_cuda_free(s->pool, d_runs);
    ff_cuda_free(s->pool, flag);
    ff_cuda_free(s->pool, at);
    ff_cuda_free(s->pool, scratch);
    ff_free(runs);
    ff_free(border);
    ff_free(h_at);
    return st;
}

static ff_status rows_alloc(sum_rows *r, int size)
{
    r->want = (int64_t *)ff_mem_alloc0((size_t)size, sizeof *r->want);
    r->give = (int64_t *)ff_mem_alloc0((size_t)size, sizeof *r->give);
    return r->want != NULL && r->give != NULL ? FF_OK : FF_E_MEM;
}

/* give of each list from the others' want. Collective */
static ff_status exchange_counts(sum_dist *d, sum_halo *h)
{
    const int size = d->comm->size;
    int64_t *all = NULL, *mine = NULL;
    ff_status st = FF_OK;
    FF_TRY(ff_new_all(d->comm, &mine, (size_t)(2 * size), sizeof *mine, false));
    FF_GO(ff_new_all(d->comm, &all, (size_t)(2 * size * size), sizeof *all, false));
    for (int k = 0; k < 2; k++) memcpy(mine + k * size, h->rows[k].want, (size_t)size * sizeof *mine);
    FF_GO(ff_comm_allgather(d->comm, mine, (size_t)(2 * size) * sizeof *mine, all));
    for (int r = 0; r < size; r++)
        for (int k = 0; k < 2; k++) {
            h->rows[k].give[r] = all[(2 * r + k) * size + d->comm->rank];
            h->rows[k].n_give += h->rows[k].give[r];
        }
done:
    ff_free(mine);
    ff_free(all);
    return st;
}

/* Messages of both directions of a list, rows of bytes; d_out by give, d_in by want. ids: the other way round. */
static ff_status add_rows(sum_dist *d, const sum_rows *r, void *d_out, void *d_in, size_t bytes, bool ids)
{
    char *out = (char *)d_out, *in = (char *)d_in;
    const int64_t *n_out = ids ? r->want : r->give, *n_in = ids ? r->give : r->want;
    for (int q = 0; q < d->comm->size; q++) {
        FF_TRY(sum_dist_add(d, true, q, out, (size_t)n_out[q] * bytes));
        FF_TRY(sum_dist_add(d, false, q, in, (size_t)n_in[q] * bytes));
        out += (size_t)n_out[q] * bytes;
        in += (size_t)n_in[q] * bytes;
    }
    return FF_OK;
}

/* Collective */
static ff_status exchange_ids(ff_sum_cuda *s, sum_halo *h)
{
    ff_status st = FF_OK;
    sum_dist *d = s->dist;
    sum_dist_clear(d);
    for (int k = 0; k < 2; k++) {
        FF_GO(FF_ALLOC(s->pool, h->rows[k].d_give, h->rows[k].n_give));
        FF_GO(add_rows(d, &h->rows[k], h->rows[k].d_want, h->rows[k].d_give, sizeof(int32_t), true));
    }
done:
    st = sum_dist_begin(s, st);
    return st == FF_OK ? sum_dist_end(s) : st;
}

ff_status sum_halo_make(ff_sum_cuda *s, int from, sum_plan *plan)
{
    ff_status st = FF_OK;
    sum_dist *d = s->dist;
    const sum_side *side = &s->side[from];
    const int64_t *cut = d->share[from].cut;
    const int levels = side->n_levels < SUM_SHARED ? side->n_levels : SUM_SHARED;
    FF_TRY(ff_new_all(d->comm, &plan->halo, 1, sizeof *plan->halo, true));
    sum_halo *h = plan->halo;
    for (int k = 0; k < 2; k++) FF_GO(rows_alloc(&h->rows[k], d->comm->size));
    if (plan->d_read_node != NULL)
        FF_GO(list_marked(s, side, cut, levels, plan->d_read_node, &h->rows[SUM_ROWS_NODE]));
    if (levels > 0) FF_GO(list_marked(s, side, cut, 1, plan->d_read_leaf, &h->rows[SUM_ROWS_LEAF]));
done:
    FF_TRY(ff_agree(d->comm, st));
    FF_TRY(exchange_counts(d, h));
    return exchange_ids(s, h);
}

/* ---- rows ---- */

static ff_status pack(ff_sum_cuda *s, sum_halo_flight *f, int k, void *d_array, size_t bytes)
{
    ff_status st = FF_OK;
    const sum_rows *r = f->rows;
    const int64_t words = (int64_t)(bytes / sizeof(uint4));
    f->d_array[k] = d_array;
    f->bytes[k] = bytes;
    FF_GO(ff_cuda_alloc(s->pool, bytes * (size_t)r->n_give, &f->d_out[k]));
    FF_GO(ff_cuda_alloc(s->pool, bytes * (size_t)r->n_want, &f->d_in[k]));
    if (r->n_give > 0)
        sum_take_rows<<<ff_grid(r->n_give * words, 1), 256, 0, s->stream>>>(
            r->n_give, words, r->d_give, (const uint4 *)d_array, (uint4 *)f->d_out[k]);
    FF_CU(cudaGetLastError());
    FF_GO(add_rows(s->dist, r, f->d_out[k], f->d_in[k], bytes, false));
done:
    return st;
}

ff_status sum_halo_points_begin(ff_sum_cuda *s, int from, const sum_plan *plan, ff_status mine,
                                sum_halo_flight *f)
{
    const sum_side *side = &s->side[from];
    memset(f, 0, sizeof *f);
    f->rows = &plan->halo->rows[SUM_ROWS_LEAF];
    sum_dist_clear(s->dist);
    ff_status st = mine;
    if (st == FF_OK) st = pack(s, f, 0, side->d_point, SUM_LEAF * s->row->point_bytes);
    if (st == FF_OK && side->d_more != NULL) st = pack(s, f, 1, side->d_more, SUM_LEAF * s->row->more_bytes);
    return sum_dist_begin(s, st);
}

/* Own moments of level SUM_SHARED to all ranks, theirs to their places. */
static ff_status add_shared(ff_sum_cuda *s, int from, char *moments, size_t row)
{
    sum_dist *d = s->dist;
    const sum_side *side = &s->side[from];
    const int64_t *cut = d->share[from].cut;
    if (side->n_levels <= SUM_SHARED) return FF_OK;
    for (int r = 0; r < d->comm->size; r++) {
        sum_side of = *side;
        of.lo = cut[r], of.hi = cut[r + 1];
        const int32_t mine = sum_first(side, SUM_SHARED), n_mine = sum_end(side, SUM_SHARED) - mine;
        const int32_t first = sum_first(&of, SUM_SHARED), n = sum_end(&of, SUM_SHARED) - first;
        const size_t at = (size_t)side->level_at[SUM_SHARED];
        if (r == d->comm->rank) continue;
        FF_TRY(sum_dist_add(d, true, r, moments + (at + (size_t)mine) * row, (size_t)n_mine * row));
        FF_TRY(sum_dist_add(d, false, r, moments + (at + (size_t)first) * row, (size_t)n * row));
    }
    return FF_OK;
}

ff_status sum_halo_moments_begin(ff_sum_cuda *s, int from, const sum_plan *plan, ff_status mine,
                                 void *d_moments, sum_halo_flight *f)
{
    const size_t row = s->row->real_bytes * (size_t)sum_far_stride(s->o.order);
    memset(f, 0, sizeof *f);
    f->rows = &plan->halo->rows[SUM_ROWS_NODE];
    sum_dist_clear(s->dist);
    ff_status st = mine;
    if (st == FF_OK) st = pack(s, f, 0, d_moments, row);
    if (st == FF_OK) st = add_shared(s, from, (char *)d_moments, row);
    return sum_dist_begin(s, st);
}

ff_status sum_halo_end(ff_sum_cuda *s, sum_halo_flight *f)
{
    ff_status st = sum_dist_end(s);
    for (int k = 0; k < 2; k++) {
        const int64_t n = f->rows->n_want, words = (int64_t)(f->bytes[k] / sizeof(uint4));
        if (st == FF_OK && n > 0 && words > 0)
            sum_put_rows<<<ff_grid(n * words, 1), 256, 0, s->stream>>>(
                n, words, f->rows->d_want, (const uint4 *)f->d_in[k], (uint4 *)f->d_array[k]);
        ff_cuda_free(s->pool, f->d_out[k]);
        ff_cuda_free(s->pool, f->d_in[k]);
    }
    FF_GO(st);
    FF_CU(cudaGetLastError());
done:
    return st;
}
