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

/* low[r]: the least border at which rank r may begin so that ranks r .. size - 1 hold the rest within the
 * cap. */
static ff_status least_borders(const ff_subtree *blocks, int64_t n_blocks, int size, int64_t max_points,
                               int64_t *low)
{
    int64_t end = n_blocks > 0 ? blocks[n_blocks - 1].start + blocks[n_blocks - 1].count : 0;
    low[size] = n_blocks;
    for (int r = size - 1; r >= 0; r--) {
        int64_t b = low[r + 1], last = b < n_blocks ? blocks[b].start : end;
        while (b > 0 && (max_points == 0 || last - blocks[b - 1].start <= max_points)) b--;
        low[r] = b;
    }
    if (low[0] == 0) return FF_OK;
    return ff_fail(FF_E_MEM, "cut: %lld points do not fit %d ranks of at most %lld points; use more ranks",
                   (long long)end, size, (long long)max_points);
}

/* The border whose cumulative work is nearest the target, not before border b. */
static int64_t nearest(const int64_t *cum, int64_t n_blocks, int64_t b, int64_t target)
{
    while (b < n_blocks && cum[b + 1] <= target) b++;
    if (b < n_blocks && cum[b + 1] - target < target - cum[b]) b++;
    return b;
}

static int64_t within_cap(const ff_subtree *blocks, int64_t b0, int64_t b1, int64_t max_points)
{
    if (max_points == 0) return b1;
    while (b1 > b0 && blocks[b1 - 1].start + blocks[b1 - 1].count - blocks[b0].start > max_points) b1--;
    return b1;
}

ff_status ff_cut_by_work(const ff_subtree *blocks, int64_t n_blocks, const int64_t *work, int size,
                         int64_t max_points, int64_t *cut)
{
    ff_status st = FF_OK;
    int64_t *cum = NULL, *low = NULL;
    FF_GO(FF_NEW(cum, n_blocks + 1));
    FF_GO(FF_NEW(low, size + 1));
    FF_GO(accumulate(blocks, n_blocks, work, cum));
    FF_GO(least_borders(blocks, n_blocks, size, max_points, low));
    int64_t b = 0;
    cut[0] = 0;
    for (int r = 1; r <= size; r++) {
        int64_t next = r < size ? nearest(cum, n_blocks, b, share(cum[n_blocks], r, size)) : n_blocks;
        if (next < low[r]) next = low[r];
        b = within_cap(blocks, b, next, max_points); /* >= low[r], as b was >= low[r - 1] */
        cut[r] = b > 0 ? blocks[b - 1].start + blocks[b - 1].count : 0;
    }
done:
    ff_free(cum);
    ff_free(low);
    return st;
}
