/* Points and nodes over ranks: which rank owns which places, points to their owners, boxes and centres to all.
 *
 * The order of all points is that of one GPU: by key, equal keys by number. Each rank sorts what it was given; a cut before
 * place P is the key K with fewer keys below it than P and no fewer up to it, found digit by digit from counts of keys over
 * all ranks, and of points with that very key the first ones. What a rank gets is a sorted run from each other rank.
 *
 * sum_count_below   keys below each of DIGIT_PROBES probes: a thread a probe, by bisection
 * sum_merge         place of a point among those of all runs: a thread a point, by bisection in the other runs
 * Order             ties: earlier ranks first, as their points' numbers are lower
 * Oracle            tests/gpu/sum_ranks.c: bits of one rank */
#include "sum_dist.cuh"

#include <string.h>

/* FEW: keys that still may be a cut are gathered from all ranks; on a curve of random points that is after two digits. */
enum { DIGIT = 13, DIGIT_PROBES = (1 << DIGIT) + 1, FEW = 256 };

/* Keys below k, or with ties up to it. */
static __device__ int64_t count_below(const uint64_t *key, int64_t n, uint64_t k, bool ties)
{
    int64_t lo = 0, hi = n;
    while (lo < hi) {
        const int64_t mid = (lo + hi) / 2;
        const bool left = ties ? key[mid] <= k : key[mid] < k;
        if (left)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static __global__ void __launch_bounds__(256)
    sum_count_below(const uint64_t *key, int64_t n, const uint64_t *from, int n_cut, int shift, int64_t *out)
{
    const int64_t i = ff_thread();
    if (i >= (int64_t)n_cut * DIGIT_PROBES) return;
    const uint64_t base = from[i / DIGIT_PROBES], step = (uint64_t)(i % DIGIT_PROBES);
    out[i] = step > (~UINT64_C(0) - base) >> shift ? n : count_below(key, n, base + (step << shift), false);
}

typedef struct merge_args {
    const uint64_t *key; /* [n] runs one after the other */
    const int64_t *at;   /* [n_run + 1] */
    int64_t n;
    int n_run;
    int32_t *curve;
} merge_args;

static __global__ void __launch_bounds__(256) sum_merge(const merge_args a)
{
    const int64_t i = ff_thread();
    if (i >= a.n) return;
    const uint64_t key = a.key[i];
    int64_t place = 0;
    for (int r = 0; r < a.n_run; r++) {
        const int64_t at = a.at[r], n = a.at[r + 1] - at;
        const bool own = i >= at && i < at + n;
        place += own ? i - at : count_below(a.key + at, n, key, i >= at + n);
    }
    a.curve[place] = (int32_t)i;
}

/* ---- cuts ---- */

typedef struct cutter {
    ff_sum_cuda *s;
    const uint64_t *d_key; /* [n] of this rank, ascending */
    int64_t n;
    int n_cut; /* between the first and the last place */
    uint64_t *from, *d_from;
    int64_t *mine, *all, *d_count; /* [n_cut][DIGIT_PROBES] keys below, here and over all ranks */
} cutter;

static void cutter_free(cutter *c)
{
    ff_free(c->from);
    ff_free(c->mine);
    ff_free(c->all);
    ff_cuda_free(c->s->pool, c->d_from);
    ff_cuda_free(c->s->pool, c->d_count);
}

static ff_status cutter_alloc(cutter *c)
{
    ff_status st = FF_OK;
    const size_t n = (size_t)c->n_cut * DIGIT_PROBES;
    c->from = (uint64_t *)ff_mem_alloc0((size_t)c->n_cut, sizeof *c->from);
    c->mine = (int64_t *)ff_mem_alloc(n, sizeof *c->mine);
    c->all = (int64_t *)ff_mem_alloc(n, sizeof *c->all);
    if (c->from == NULL || c->mine == NULL || c->all == NULL) return FF_E_MEM;
    FF_GO(FF_ALLOC(c->s->pool, c->d_from, c->n_cut));
    FF_GO(FF_ALLOC(c->s->pool, c->d_count, (int64_t)n));
done:
    return st;
}

/* Counts of all probes of a digit. Collective */
static ff_status probe(cutter *c, int shift)
{
    ff_status st = FF_OK;
    const size_t n = (size_t)c->n_cut * DIGIT_PROBES;
    FF_GO(ff_cuda_put(c->s->pool, c->d_from, c->from, (size_t)c->n_cut * sizeof *c->from));
    sum_count_below<<<ff_grid((int64_t)n, 1), 256, 0, c->s->stream>>>(c->d_key, c->n, c->d_from, c->n_cut,
                                                                      shift, c->d_count);
    FF_CU(cudaGetLastError());
    FF_GO(ff_cuda_get(c->s->pool, c->mine, c->d_count, n * sizeof *c->mine));
    FF_GO(ff_cuda_wait(c->s->pool));
    memcpy(c->all, c->mine, n * sizeof *c->mine);
done:
    FF_TRY(ff_agree(c->s->dist->comm, st));
    return ff_comm_allreduce(c->s->dist->comm, c->all, (int64_t)n, FF_SUM_I64);
}

/* The last probe with no more than place keys below it; all [DIGIT_PROBES] ascends. */
static int digit_of(const int64_t *all, int64_t place)
{
    int lo = 0, hi = DIGIT_PROBES - 1;
    while (lo + 1 < hi) {
        const int mid = (lo + hi) / 2;
        if (all[mid] <= place)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

/* The bin of each cut after a probe. */
static int bin_of(const cutter *c, const int64_t *place, int k)
{
    return digit_of(c->all + (int64_t)k * DIGIT_PROBES, place[k]);
}

/* Whether few keys are left in every bin, over all ranks. */
static bool few_left(const cutter *c, const int64_t *place)
{
    bool few = true;
    for (int k = 0; k < c->n_cut; k++) {
        const int64_t *all = c->all + (int64_t)k * DIGIT_PROBES;
        const int j = bin_of(c, place, k);
        few = few && all[j + 1] - all[j] <= FEW;
    }
    return few;
}

/* Number of own keys among the first left of all ranks' keys [size][FEW], n [size] of them; equal ones by rank. */
static int64_t own_among(const uint64_t *key, const int64_t *n, int64_t step, int size, int me, int64_t left)
{
    int64_t own = 0;
    for (int64_t i = 0; i < n[me * step]; i++) {
        const uint64_t mine = key[me * step * FEW + i];
        int64_t before = i;
        for (int r = 0; r < size; r++)
            for (int64_t j = 0; j < n[r * step] && r != me; j++) {
                const uint64_t other = key[r * step * FEW + j];
                before += other < mine || (other == mine && r < me);
            }
        own += before < left;
    }
    return own;
}

/* bound [n_cut] by gathering the keys of all bins. Collective */
static ff_status bounds_by_keys(cutter *c, const int64_t *place, int64_t *bound)
{
    ff_status st = FF_OK;
    ff_comm *comm = c->s->dist->comm;
    const size_t rows = (size_t)c->n_cut * (size_t)comm->size;
    uint64_t *key = NULL, *mine = NULL;
    int64_t *n = NULL;
    FF_TRY(ff_new_all(comm, &key, rows * FEW, sizeof *key, true));
    FF_GO(ff_new_all(comm, &mine, (size_t)c->n_cut * FEW, sizeof *mine, true));
    FF_GO(ff_new_all(comm, &n, rows + (size_t)c->n_cut, sizeof *n, true));
    for (int k = 0; k < c->n_cut && st == FF_OK; k++) {
        const int64_t *below = c->mine + (int64_t)k * DIGIT_PROBES + bin_of(c, place, k);
        n[rows + (size_t)k] = below[1] - below[0];
        if (below[1] > below[0])
            st = ff_cuda_get(c->s->pool, mine + (size_t)k * FEW, c->d_key + below[0],
                             (size_t)(below[1] - below[0]) * sizeof *mine);
    }
    if (st == FF_OK) st = ff_cuda_wait(c->s->pool);
    FF_GO(ff_agree(comm, st));
    FF_GO(ff_comm_allgather(comm, mine, (size_t)c->n_cut * FEW * sizeof *mine, key));
    FF_GO(ff_comm_allgather(comm, n + rows, (size_t)c->n_cut * sizeof *n, n));
    for (int k = 0; k < c->n_cut; k++) {
        const int64_t at = (int64_t)k * DIGIT_PROBES + bin_of(c, place, k);
        bound[k] = c->mine[at] + own_among(key + (size_t)k * FEW, n + k, c->n_cut, comm->size, comm->rank,
                                           place[k] - c->all[at]);
    }
done:
    ff_free(key);
    ff_free(mine);
    ff_free(n);
    return st;
}

/* The same where all digits are known: what is left in a bin are points with one key. Collective */
static ff_status bounds_by_ties(cutter *c, const int64_t *place, int64_t *bound)
{
    ff_status st = FF_OK;
    ff_comm *comm = c->s->dist->comm;
    int64_t *ties = NULL;
    FF_TRY(ff_new_all(comm, &ties, (size_t)c->n_cut * (size_t)(comm->size + 1), sizeof *ties, false));
    for (int k = 0; k < c->n_cut; k++) {
        const int64_t *mine = c->mine + (int64_t)k * DIGIT_PROBES;
        const int j = bin_of(c, place, k);
        bound[k] = mine[j];
        ties[k] = mine[j + 1] - mine[j];
        c->all[k] = place[k] - c->all[(int64_t)k * DIGIT_PROBES + j]; /* ties that go left */
    }
    FF_GO(ff_comm_allgather(comm, ties, (size_t)c->n_cut * sizeof *ties, ties + c->n_cut));
    for (int k = 0; k < c->n_cut; k++) {
        int64_t left = c->all[k];
        for (int r = 0; r < comm->rank; r++) left -= ties[(r + 1) * c->n_cut + k];
        bound[k] += left < 0 ? 0 : left > ties[k] ? ties[k] : left;
    }
done:
    ff_free(ties);
    return st;
}

/* bound [n_cut]: how many of this rank's sorted points lie before each cut. place [n_cut] below n. Collective */
static ff_status find_bounds(cutter *c, const int64_t *place, int bits, int64_t *bound)
{
    ff_status st = FF_OK;
    bool few = false;
    FF_GO(ff_agree(c->s->dist->comm, cutter_alloc(c)));
    for (int shift = (bits + DIGIT - 1) / DIGIT * DIGIT - DIGIT; shift >= 0 && !few; shift -= DIGIT) {
        FF_GO(probe(c, shift));
        few = few_left(c, place);
        for (int k = 0; k < c->n_cut; k++) c->from[k] += (uint64_t)bin_of(c, place, k) << shift;
    }
    FF_GO(few ? bounds_by_keys(c, place, bound) : bounds_by_ties(c, place, bound));
done:
    cutter_free(c);
    return st;
}

static void cut_evenly(const sum_side *side, int size, int64_t *cut)
{
    const int64_t groups = (side->n_pad + SUM_GROUP_POINTS - 1) / SUM_GROUP_POINTS;
    for (int r = 0; r <= size; r++) {
        const int64_t at = (groups * r + size / 2) / size * SUM_GROUP_POINTS;
        cut[r] = at < side->n_pad ? at : side->n_pad;
    }
}

/* give, take from the cut. Collective */
static ff_status count_rows(ff_sum_cuda *s, int k, const uint64_t *d_key)
{
    ff_status st = FF_OK;
    sum_dist *d = s->dist;
    sum_share *h = &d->share[k];
    sum_side *side = &s->side[k];
    const int size = d->comm->size;
    cutter c = {s, d_key, h->n_home, 0, NULL, NULL, NULL, NULL, NULL};
    int64_t *place = NULL, *bound = NULL, *all = NULL;
    if (h->wanted != NULL)
        memcpy(h->cut, h->wanted, (size_t)(size + 1) * sizeof *h->cut);
    else
        cut_evenly(side, size, h->cut);
    FF_TRY(ff_new_all(d->comm, &place, (size_t)(2 * size + 2), sizeof *place, false));
    bound = place + size + 1;
    FF_GO(ff_new_all(d->comm, &all, (size_t)(size * size), sizeof *all, false));
    for (int r = 1; r < size; r++)
        if (h->cut[r] > 0 && h->cut[r] < side->n) place[c.n_cut++] = h->cut[r];
    if (c.n_cut > 0) FF_GO(find_bounds(&c, place, 3 * sum_key_bits(side->n), bound));
    for (int r = 0, at = 0, next = 0; r < size; r++, at = next) {
        const int64_t end = h->cut[r + 1];
        if (r == size - 1 || end >= side->n)
            next = (int)h->n_home;
        else if (end > 0)
            for (int i = 0; i < c.n_cut; i++)
                if (place[i] == end) next = (int)bound[i];
        h->give[r] = next - at;
    }
    FF_GO(ff_comm_allgather(d->comm, h->give, (size_t)size * sizeof *h->give, all));
    for (int r = 0; r < size; r++) h->take[r] = all[r * size + d->comm->rank];
    side->lo = h->cut[d->comm->rank];
    side->hi = h->cut[d->comm->rank + 1];
    side->n_own = 0;
    for (int r = 0; r < size; r++) side->n_own += h->take[r];
done:
    ff_free(place);
    ff_free(all);
    return st;
}

/* ---- points ---- */

/* Own points along the curve, from runs of keys. */
static ff_status merge(ff_sum_cuda *s, int k, const uint64_t *d_key, int32_t **d_curve)
{
    ff_status st = FF_OK;
    const sum_share *h = &s->dist->share[k];
    const int size = s->dist->comm->size;
    const int64_t n = s->side[k].n_own;
    int64_t *at = NULL, *d_at = NULL;
    at = (int64_t *)ff_mem_alloc0((size_t)size + 1, sizeof *at);
    if (at == NULL) return FF_E_MEM;
    for (int r = 0; r < size; r++) at[r + 1] = at[r] + h->take[r];
    FF_GO(FF_ALLOC(s->pool, *d_curve, n));
    FF_GO(ff_cuda_new(s->pool, at, (size_t)(size + 1) * sizeof *at, &d_at));
    if (n > 0) {
        const merge_args a = {d_key, d_at, n, size, *d_curve};
        sum_merge<<<ff_grid(n, 1), 256, 0, s->stream>>>(a);
        FF_CU(cudaGetLastError());
    }
done:
    ff_cuda_free(s->pool, d_at);
    ff_free(at);
    return st;
}

/* Messages of sorted keys, which travel as they lie. Local */
static ff_status add_keys(ff_sum_cuda *s, int k, const uint64_t *d_key, uint64_t **d_own)
{
    ff_status st = FF_OK;
    sum_dist *d = s->dist;
    const sum_share *h = &d->share[k];
    int64_t at = 0, to = 0;
    FF_GO(FF_ALLOC(s->pool, *d_own, s->side[k].n_own));
    for (int r = 0; r < d->comm->size; at += h->give[r], to += h->take[r], r++) {
        const size_t give = (size_t)h->give[r] * sizeof *d_key, take = (size_t)h->take[r] * sizeof *d_key;
        if (r == d->comm->rank && give > 0)
            FF_CU(cudaMemcpyAsync(*d_own + to, d_key + at, give, cudaMemcpyDeviceToDevice, s->stream));
        if (r == d->comm->rank) continue;
        FF_GO(sum_dist_add(d, true, r, (void *)(d_key + at), give));
        FF_GO(sum_dist_add(d, false, r, *d_own + to, take));
    }
done:
    return st;
}

/* Keys and positions to the owners. Collective */
static ff_status move_points(ff_sum_cuda *s, int k, const uint64_t *d_key, const double *d_home,
                             uint64_t **d_own_key, double **d_own)
{
    double *send = NULL;
    sum_dist_clear(s->dist);
    ff_status st = add_keys(s, k, d_key, d_own_key);
    if (st == FF_OK) st = sum_dist_add_in(s, k, d_home, s->o.dim, &send, d_own);
    st = sum_dist_begin(s, st);
    if (st == FF_OK) st = sum_dist_end(s);
    ff_cuda_free(s->pool, send);
    return st;
}

ff_status sum_share_points(ff_sum_cuda *s, int k, const double *d_home, double **d_own)
{
    ff_status st = FF_OK;
    sum_dist *d = s->dist;
    sum_share *h = &d->share[k];
    sum_side *side = &s->side[k];
    uint64_t *key = NULL, *own = NULL;
    int32_t *curve = NULL;
    *d_own = NULL;
    ff_cuda_free(s->pool, h->d_home);
    h->d_home = NULL;
    FF_GO(ff_agree(d->comm, sum_keys_sorted(s->pool, d_home, h->n_home, side->n, s->o.dim, s->d_frame, &key,
                                            &h->d_home)));
    FF_GO(count_rows(s, k, key));
    FF_GO(move_points(s, k, key, d_home, &own, d_own));
    st = merge(s, k, own, &curve);
    if (st == FF_OK) st = sum_refined(s->pool, *d_own, s->o.dim, s->d_frame, curve, side);
    st = ff_agree(d->comm, st);
done:
    ff_cuda_free(s->pool, key);
    ff_cuda_free(s->pool, own);
    ff_cuda_free(s->pool, curve);
    return st;
}

/* ---- nodes ---- */

/* Nodes of level l of rank r. */
static void nodes_of(const sum_side *side, const int64_t *cut, int r, int l, int64_t *first, int64_t *n)
{
    sum_side of = *side;
    of.lo = cut[r], of.hi = cut[r + 1];
    *first = side->level_at[l] + sum_first(&of, l);
    *n = sum_end(&of, l) - sum_first(&of, l);
}

ff_status sum_share_nodes(ff_sum_cuda *s, int k)
{
    ff_status st = FF_OK;
    sum_dist *d = s->dist;
    const sum_side *side = &s->side[k];
    const int64_t *cut = d->share[k].cut;
    const int me = d->comm->rank;
    sum_dist_clear(d);
    for (int l = 0; l <= SUM_SHARED && l < side->n_levels; l++) {
        const size_t row = l < SUM_SHARED ? s->row->node_bytes : s->row->box_bytes;
        char *array = (char *)(l < SUM_SHARED ? side->d_node : side->d_box);
        int64_t mine, n_mine, first, n;
        nodes_of(side, cut, me, l, &mine, &n_mine);
        for (int r = 0; r < d->comm->size; r++) {
            if (r == me) continue;
            nodes_of(side, cut, r, l, &first, &n);
            FF_GO(sum_dist_add(d, true, r, array + (size_t)mine * row, (size_t)n_mine * row));
            FF_GO(sum_dist_add(d, false, r, array + (size_t)first * row, (size_t)n * row));
        }
    }
done:
    st = sum_dist_begin(s, st);
    return st == FF_OK ? sum_dist_end(s) : st;
}
