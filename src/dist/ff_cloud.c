#include "ff_cloud.h"

#include "ff_mem.h"
#include "ff_morton.h"
#include "ff_sort.h"

#include <math.h>
#include <string.h>

enum { PARALLEL_MIN = 1 << 14 };

/* The home side's points in local Morton order; ties by index, that is by original id. */
typedef struct sorted_home {
    uint64_t *code; /* [n] ascending */
    int64_t *index; /* [n] home index */
    int64_t n;
} sorted_home;

/* The borders between runs, found in the global order: border k has the smaller keys (code, orig) before it.
 */
typedef struct borders {
    int n;                 /* size - 1 */
    uint64_t *code, *high; /* [n] bisected; high is the upper end */
    int64_t *orig, *top;   /* [n] */
    int64_t *count;        /* [n] scratch of the reductions, in the end local counts before each border */
} borders;

static int64_t first_not_below(const uint64_t *code, int64_t n, uint64_t c)
{
    int64_t lo = 0, hi = n;
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;
        if (code[mid] < c)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* Local points with a key before (code, orig). */
static int64_t count_before(const ff_cloud *c, const sorted_home *s, uint64_t code, int64_t orig)
{
    int64_t lo = first_not_below(s->code, s->n, code), hi = first_not_below(s->code, s->n, code + 1);
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;
        if (c->home_begin + s->index[mid] < orig)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static ff_status borders_create(int n, borders *b)
{
    *b = (borders){.n = n};
    FF_TRY(FF_NEW0(b->code, n));
    FF_TRY(FF_NEW0(b->high, n));
    FF_TRY(FF_NEW0(b->orig, n));
    FF_TRY(FF_NEW0(b->top, n));
    return FF_NEW0(b->count, n);
}

static void borders_destroy(borders *b)
{
    ff_free(b->code);
    ff_free(b->high);
    ff_free(b->orig);
    ff_free(b->top);
    ff_free(b->count);
}

/* All borders at once, a reduction of integers a step: first the least code with enough points up to it, then
 * among the points of that code the least original id. No key is gathered. Collective. */
static ff_status find_borders(const ff_cloud *c, const sorted_home *s, borders *b)
{
    for (int k = 0; k < b->n; k++) b->high[k] = (UINT64_C(1) << 63) - 1, b->top[k] = c->n;
    for (int step = 0; step < 63; step++) {
        for (int k = 0; k < b->n; k++)
            b->count[k] = count_before(c, s, b->code[k] + (b->high[k] - b->code[k]) / 2 + 1, 0);
        FF_TRY(ff_comm_allreduce(c->comm, b->count, b->n, FF_SUM_I64));
        for (int k = 0; k < b->n; k++) {
            uint64_t mid = b->code[k] + (b->high[k] - b->code[k]) / 2;
            if (b->count[k] >= c->cut[k + 1])
                b->high[k] = mid;
            else
                b->code[k] = mid + 1;
        }
    }
    for (int64_t span = c->n; span > 0; span /= 2) {
        for (int k = 0; k < b->n; k++)
            b->count[k] = count_before(c, s, b->code[k], b->orig[k] + (b->top[k] - b->orig[k]) / 2);
        FF_TRY(ff_comm_allreduce(c->comm, b->count, b->n, FF_SUM_I64));
        for (int k = 0; k < b->n; k++) {
            if (b->orig[k] == b->top[k]) continue;
            int64_t mid = b->orig[k] + (b->top[k] - b->orig[k]) / 2;
            if (b->count[k] >= c->cut[k + 1])
                b->top[k] = mid;
            else
                b->orig[k] = mid + 1;
        }
    }
    for (int k = 0; k < b->n; k++) b->count[k] = count_before(c, s, b->code[k], b->orig[k]);
    return FF_OK;
}

/* Counts of the route, from the borders, on both sides. Collective. */
static ff_status route_counts(ff_cloud *c, const sorted_home *s)
{
    borders b;
    ff_status st = ff_agree(c->comm, borders_create(c->comm->size - 1, &b));
    if (st == FF_OK) st = find_borders(c, s, &b);
    for (int r = 0; st == FF_OK && r < c->comm->size; r++) {
        int64_t from = r > 0 ? b.count[r - 1] : 0, to = r < b.n ? b.count[r] : s->n;
        c->home_rows[r] = (size_t)(to - from);
    }
    borders_destroy(&b);
    FF_TRY(st);
    return ff_comm_alltoall_counts(c->comm, c->home_rows, c->own_rows);
}

/* Packed rows along the route, from home to own or back. Collective. */
static ff_status travel(const ff_cloud *c, size_t row_bytes, bool to_own, const void *send, void *recv)
{
    ff_status st = FF_OK;
    size_t *bytes = NULL, size = (size_t)c->comm->size;
    FF_GO(FF_NEW_ALL(c->comm, bytes, 2 * size));
    for (size_t r = 0; r < size; r++) {
        bytes[r] = row_bytes * (to_own ? c->home_rows[r] : c->own_rows[r]);
        bytes[size + r] = row_bytes * (to_own ? c->own_rows[r] : c->home_rows[r]);
    }
    st = ff_comm_alltoallv(c->comm, send, bytes, recv, bytes + size);
done:
    ff_free(bytes);
    return st;
}

/* to[i] = from[at[i] - first], rows of one width: at[] jumps all over from, so lines are asked for ahead of their use. */
static inline void gather_width(const int64_t *at, int64_t first, int64_t n, size_t bytes, const char *from,
                                char *to)
{
    enum { AHEAD = 24 };
#pragma omp parallel for schedule(static) if (n > PARALLEL_MIN)
    for (int64_t i = 0; i < n; i++) {
        if (i + AHEAD < n) __builtin_prefetch(from + (size_t)(at[i + AHEAD] - first) * bytes);
        memcpy(to + (size_t)i * bytes, from + (size_t)(at[i] - first) * bytes, bytes);
    }
}

static void gather(const int64_t *at, int64_t first, int64_t n, size_t bytes, const char *from, char *to)
{
    switch (bytes) { /* a copy of known width is no call */
    case 8:
        gather_width(at, first, n, 8, from, to);
        return;
    case 12:
        gather_width(at, first, n, 12, from, to);
        return;
    case 24:
        gather_width(at, first, n, 24, from, to);
        return;
    case 32:
        gather_width(at, first, n, 32, from, to);
        return;
    default:
        gather_width(at, first, n, bytes, from, to);
    }
}

/* packed[slot[i]] = rows[i], or back. */
static void permute(const int64_t *slot, int64_t n, size_t row_bytes, bool pack, char *rows, char *packed)
{
    if (!pack) {
        gather(slot, 0, n, row_bytes, packed, rows);
        return;
    }
#pragma omp parallel for schedule(static) if (n > PARALLEL_MIN)
    for (int64_t i = 0; i < n; i++)
        memcpy(packed + (size_t)slot[i] * row_bytes, rows + (size_t)i * row_bytes, row_bytes);
}

/* The home side's rows are packed by home_slot, the own side's by own_slot. Collective. */
static ff_status move_rows(const ff_cloud *c, size_t row_bytes, bool to_own, char *home, char *own)
{
    if (row_bytes == 0) return FF_OK;
    if (c->comm->size == 1) { /* own_slot is the identity: own is the packed buffer */
        if (to_own)
            gather(c->orig, c->home_begin, c->n_own, row_bytes, home, own);
        else
            gather(c->home_slot, 0, c->n_home, row_bytes, own, home);
        return FF_OK;
    }
    char *home_packed = NULL, *own_packed = NULL;
    ff_status st = FF_NEW(home_packed, (size_t)c->n_home * row_bytes);
    if (st == FF_OK) st = FF_NEW(own_packed, (size_t)c->n_own * row_bytes);
    FF_GO(ff_agree(c->comm, st));
    if (to_own) {
        permute(c->home_slot, c->n_home, row_bytes, true, home, home_packed);
        FF_GO(travel(c, row_bytes, true, home_packed, own_packed));
        permute(c->own_slot, c->n_own, row_bytes, false, own, own_packed);
    } else {
        permute(c->own_slot, c->n_own, row_bytes, true, own, own_packed);
        FF_GO(travel(c, row_bytes, false, own_packed, home_packed));
        permute(c->home_slot, c->n_home, row_bytes, false, home, home_packed);
    }
done:
    ff_free(home_packed);
    ff_free(own_packed);
    return st;
}

/* The source of a move is only read: the casts drop const for the shared code. */
ff_status ff_cloud_to_own(const ff_cloud *c, size_t row_bytes, const void *home, void *own)
{
    return move_rows(c, row_bytes, true, (char *)(uintptr_t)home, own);
}

ff_status ff_cloud_to_home(const ff_cloud *c, size_t row_bytes, const void *own, void *home)
{
    return move_rows(c, row_bytes, false, home, (char *)(uintptr_t)own);
}

/* Arguments and the arrays that do not depend on other ranks. Local. */
static ff_status cloud_start(ff_comm *comm, int64_t n_home, int dim, int leaf_size, ff_cloud **out)
{
    ff_cloud *c = NULL;
    if (dim != 2 && dim != 3) return ff_fail(FF_E_ARG, "cloud: dim = %d, expected 2 or 3", dim);
    if (leaf_size < 1 || leaf_size > FF_LEAF_WHOLE_MAX)
        return ff_fail(FF_E_ARG, "cloud: leaf_size = %d, expected 1 to %d", leaf_size, FF_LEAF_WHOLE_MAX);
    if (n_home < 0) return ff_fail(FF_E_ARG, "cloud: n_home = %lld, expected >= 0", (long long)n_home);
    FF_TRY(FF_NEW0(c, 1));
    *out = c;
    *c = (ff_cloud){.comm = comm, .dim = dim, .leaf_size = leaf_size, .n_home = n_home};
    FF_TRY(FF_NEW0(c->home, comm->size + 1));
    FF_TRY(FF_NEW0(c->cut, comm->size + 1));
    FF_TRY(FF_NEW0(c->home_rows, comm->size));
    FF_TRY(FF_NEW0(c->own_rows, comm->size));
    return FF_NEW(c->home_slot, n_home);
}

/* Original ids at home on each rank, and the first cut. Collective. */
static ff_status number_points(ff_cloud *c)
{
    int size = c->comm->size;
    FF_TRY(ff_comm_allgather(c->comm, &c->n_home, sizeof c->n_home, c->home + 1));
    for (int r = 0; r < size; r++) c->home[r + 1] += c->home[r];
    c->home_begin = c->home[c->comm->rank];
    c->n = c->home[size];
    ff_cut_by_count(c->n, c->leaf_size, size, c->cut);
    c->n_own = c->cut[c->comm->rank + 1] - c->cut[c->comm->rank];
    return FF_OK;
}

static ff_status check_finite(const ff_cloud *c, const float *x)
{
    int64_t bad = INT64_MAX, n = c->n_home * c->dim;
#pragma omp parallel for schedule(static) reduction(min : bad) if (n > PARALLEL_MIN)
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(x[i]) && i < bad) bad = i;
    if (bad == INT64_MAX) return FF_OK;
    return ff_fail(FF_E_INPUT, "points: point %lld: %c = %g, expected a finite coordinate",
                   (long long)(c->home_begin + bad / c->dim), "xyz"[bad % c->dim], (double)x[bad]);
}

/* Collective. */
static ff_status global_box(ff_cloud *c, const float *x)
{
    ff_morton_box(x, c->n_home, c->dim, c->lo, c->hi);
    FF_TRY(ff_comm_allreduce(c->comm, c->lo, 3, FF_MIN_F32));
    FF_TRY(ff_comm_allreduce(c->comm, c->hi, 3, FF_MAX_F32));
    for (int d = 0; d < 3; d++) { /* no -0, whose place in a minimum depends on the order of the ranks */
        c->lo[d] = c->n == 0 || d >= c->dim ? 0.0f : c->lo[d] + 0.0f;
        c->hi[d] = c->n == 0 || d >= c->dim ? 0.0f : c->hi[d] + 0.0f;
    }
    return FF_OK;
}

/* Sorts the home side and notes where each of its rows goes. Local. */
static ff_status sort_home(ff_cloud *c, const float *x, const uint64_t *code, sorted_home *s)
{
    s->n = c->n_home;
    FF_TRY(FF_NEW(s->code, s->n));
    FF_TRY(FF_NEW(s->index, s->n));
    if (code != NULL)
        ff_mem_copy(s->code, code, (size_t)s->n * sizeof *code);
    else
        ff_morton_codes(x, s->n, c->dim, c->lo, c->hi, s->code);
#pragma omp parallel for schedule(static) if (s->n > PARALLEL_MIN)
    for (int64_t i = 0; i < s->n; i++) s->index[i] = i;
    FF_TRY(ff_sort_u64(s->code, s->index, s->n));
#pragma omp parallel for schedule(static) if (s->n > PARALLEL_MIN)
    for (int64_t i = 0; i < s->n; i++) c->home_slot[s->index[i]] = i;
    return FF_OK;
}

/* Merges what came from all homes, each part ascending, parts in rank order: a stable sort by code gives
 * (code, original id). Local. */
static ff_status sort_own(ff_cloud *c, uint64_t *code, const int64_t *orig)
{
#pragma omp parallel for schedule(static) if (c->n_own > PARALLEL_MIN)
    for (int64_t i = 0; i < c->n_own; i++) c->own_slot[i] = i;
    if (c->comm->size > 1) FF_TRY(ff_sort_u64(code, c->own_slot, c->n_own)); /* one part is sorted */
#pragma omp parallel for schedule(static) if (c->n_own > PARALLEL_MIN)
    for (int64_t i = 0; i < c->n_own; i++) c->orig[i] = orig[c->own_slot[i]];
    return FF_OK;
}

static ff_status own_alloc(ff_cloud *c, uint64_t **code, int64_t **orig)
{
    FF_TRY(FF_NEW(*code, c->n_own));
    FF_TRY(FF_NEW(*orig, c->n_own));
    FF_TRY(FF_NEW(c->own_slot, c->n_own));
    FF_TRY(FF_NEW(c->orig, c->n_own));
    return FF_NEW(c->x, c->n_own * c->dim);
}

/* Sends the sorted keys to their owners and sorts there. Collective. */
static ff_status distribute(ff_cloud *c, sorted_home *s)
{
    ff_status st = FF_OK;
    uint64_t *code = NULL;
    int64_t *orig = NULL;
    FF_GO(route_counts(c, s));
    FF_GO(ff_agree(c->comm, own_alloc(c, &code, &orig)));
    FF_GO(travel(c, sizeof *code, true, s->code, code));
    for (int64_t i = 0; i < s->n; i++) s->index[i] += c->home_begin;
    FF_GO(travel(c, sizeof *orig, true, s->index, orig));
    FF_GO(ff_agree(c->comm, sort_own(c, code, orig)));
done:
    ff_free(code);
    ff_free(orig);
    return st;
}

ff_status ff_cloud_create(ff_comm *comm, const float *x_home, int64_t n_home, int dim, int leaf_size,
                          ff_cloud **out)
{
    return ff_cloud_create_coded(comm, x_home, NULL, n_home, dim, leaf_size, out);
}

ff_status ff_cloud_create_coded(ff_comm *comm, const float *x_home, const uint64_t *code, int64_t n_home,
                                int dim, int leaf_size, ff_cloud **out)
{
    ff_cloud *c = NULL;
    sorted_home s = {NULL, NULL, 0};
    *out = NULL;
    ff_status st = ff_agree(comm, cloud_start(comm, n_home, dim, leaf_size, &c));
    if (st != FF_OK) goto done;
    FF_GO(number_points(c));
    FF_GO(ff_agree(comm, check_finite(c, x_home)));
    FF_GO(global_box(c, x_home));
    FF_GO(ff_agree(comm, sort_home(c, x_home, code, &s)));
    FF_GO(distribute(c, &s));
    FF_GO(ff_cloud_to_own(c, (size_t)dim * sizeof(float), x_home, c->x));
    *out = c;
    c = NULL;
done:
    ff_free(s.code);
    ff_free(s.index);
    ff_cloud_destroy(&c);
    return st;
}

void ff_cloud_destroy(ff_cloud **cloud)
{
    ff_cloud *c = *cloud;
    if (c == NULL) return;
    ff_free(c->home);
    ff_free(c->cut);
    ff_free(c->orig);
    ff_free(c->x);
    ff_free(c->home_rows);
    ff_free(c->own_rows);
    ff_free(c->home_slot);
    ff_free(c->own_slot);
    ff_free(c);
    *cloud = NULL;
}
