/* Where the Morton order is cut into runs, one a rank. */
#include "ff_cloud.h"

#include "ff_mem.h"

/* floor(a (k / size)) without overflow, 0 <= k <= size. */
static int64_t share(int64_t a, int64_t k, int64_t size)
{
    return a / size * k + a % size * k / size;
}

void ff_cut_by_count(int64_t n, int leaf_size, int size, int64_t *cut)
{
    cut[0] = 0;
    for (int r = 1; r < size; r++) cut[r] = ff_topo_border(n, leaf_size, share(n, r, size));
    cut[size] = n;
}

void ff_cut_share(int size, const int64_t *work, const double *old, double *share)
{
    double total = 0, before = 0; /* before: work of ranks below q */
    for (int r = 0; r < size; r++) total += (double)work[r];
    for (int r = 0; r <= size; r++) share[r] = old[r];
    for (int r = 1, q = 0; r < size && total > 0; r++) {
        double wanted = total / size * r;
        while (q + 1 < size && before + (double)work[q] < wanted) before += (double)work[q++];
        double part = work[q] > 0 ? (wanted - before) / (double)work[q] : 0;
        share[r] = old[q] + (old[q + 1] - old[q]) * (part < 0 ? 0 : part > 1 ? 1 : part);
    }
}

void ff_cut_by_share(int64_t n, int leaf_size, int size, const double *share, int64_t *cut)
{
    cut[0] = 0;
    for (int r = 1; r < size; r++) {
        cut[r] = ff_topo_border(n, leaf_size, (int64_t)(share[r] * (double)n));
        if (cut[r] < cut[r - 1]) cut[r] = cut[r - 1];
    }
    cut[size] = n;
}

int ff_cut_owner(const int64_t *cut, int size, int64_t pos)
{
    int lo = 0, hi = size - 1; /* the last r with cut[r] <= pos: empty runs before it are skipped */
    while (lo < hi) {
        int mid = lo + (hi - lo + 1) / 2;
        if (cut[mid] <= pos)
            lo = mid;
        else
            hi = mid - 1;
    }
    return lo;
}

/* Cumulative work before each block: cum [n_blocks + 1]. */
static ff_status accumulate(const ff_subtree *blocks, int64_t n_blocks, const int64_t *work, int64_t *cum)
{
    cum[0] = 0;
    for (int64_t b = 0; b < n_blocks; b++) {
        if (work[b] < 0 || work[b] > INT64_MAX - cum[b])
            return ff_fail(FF_E_ARG, "cut: block %lld: work = %lld, expected >= 0 and a sum below 2^63",
                           (long long)b, (long long)work[b]);
        cum[b + 1] = cum[b] + work[b];
    }
    if (cum[n_blocks] == 0)
        for (int64_t b = 0; b < n_blocks; b++) cum[b + 1] = blocks[b].start + blocks[b].count;
    return FF_OK;
}

/* What one rank may have at most. */
typedef struct cap {
    const ff_subtree *blocks;
    const int64_t *cum;
    int64_t n_blocks, work, points;
    int size;
} cap;

static int64_t border_position(const cap *c, int64_t b)
{
    return b == 0 ? 0 : c->blocks[b - 1].start + c->blocks[b - 1].count;
}

static bool fits(const cap *c, int64_t b0, int64_t b1)
{
    return c->cum[b1] - c->cum[b0] <= c->work && border_position(c, b1) - border_position(c, b0) <= c->points;
}

/* low[r]: the least border at which rank r may begin so that ranks r .. size - 1 hold the rest. Whether all fits. */
static bool least_borders(const cap *c, int64_t *low)
{
    low[c->size] = c->n_blocks;
    for (int r = c->size - 1; r >= 0; r--) {
        int64_t b = low[r + 1];
        while (b > 0 && fits(c, b - 1, low[r + 1])) b--;
        low[r] = b;
    }
    return low[0] == 0;
}

/* The least work a rank for which a cut exists: c->work, with its least borders in low. */
static ff_status least_work(cap *c, int64_t *low)
{
    int64_t total = c->cum[c->n_blocks], from = total / c->size, to = total;
    c->work = total;
    if (!least_borders(c, low))
        return ff_fail(FF_E_MEM,
                       "cut: %lld points do not fit %d ranks of at most %lld points; use more ranks",
                       (long long)border_position(c, c->n_blocks), c->size, (long long)c->points);
    while (from < to) {
        c->work = from + (to - from) / 2;
        if (least_borders(c, low))
            to = c->work;
        else
            from = c->work + 1;
    }
    c->work = to;
    (void)least_borders(c, low);
    return FF_OK;
}

/* The border whose cumulative work is nearest the target, not before border b. */
static int64_t nearest(const cap *c, int64_t b, int64_t target)
{
    while (b < c->n_blocks && c->cum[b + 1] <= target) b++;
    if (b < c->n_blocks && c->cum[b + 1] - target < target - c->cum[b]) b++;
    return b;
}

ff_status ff_cut_by_work(const ff_subtree *blocks, int64_t n_blocks, const int64_t *work, int size,
                         int64_t max_points, int64_t *cut)
{
    ff_status st = FF_OK;
    int64_t *cum = NULL, *low = NULL;
    FF_GO(FF_NEW(cum, n_blocks + 1));
    FF_GO(FF_NEW(low, size + 1));
    FF_GO(accumulate(blocks, n_blocks, work, cum));
    cap c = {blocks, cum, n_blocks, 0, max_points > 0 ? max_points : INT64_MAX, size};
    FF_GO(least_work(&c, low));
    cut[0] = 0;
    for (int64_t r = 1, b = 0; r <= size; r++) {
        int64_t next = r < size ? nearest(&c, b, share(cum[n_blocks], r, size)) : n_blocks;
        if (next < low[r]) next = low[r];
        while (!fits(&c, b, next)) next--; /* stays >= low[r], as b >= low[r - 1] */
        b = next;
        cut[r] = border_position(&c, b);
    }
done:
    ff_free(cum);
    ff_free(low);
    return st;
}
