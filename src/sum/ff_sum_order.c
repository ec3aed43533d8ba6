/* Order of points inside groups: halves along the longer side instead of the Morton curve's.
 *
 * The tree splits a sorted sequence in the middle, wherever that is on the curve, and pieces of a Morton curve are long and
 * overlap. So the points of a subtree of at most group points are sorted once more: at each of its nodes the lower half
 * along the longest axis of the node's box comes first. Boxes are then apart and compact, and there are about a third as
 * many near pairs. Groups depend on N and the leaf size alone and are never cut between ranks: the same order on any
 * number of them. */
#include "ff_sum_impl.h"

#include "ff_mem.h"

enum { FEW = 2048, BINS = 512, BINS_FEW = 64, PARALLEL_MIN = 1 << 14 };

typedef struct item {
    float x[3];
    int32_t at; /* in the group, where points come by number */
} item;

static inline bool before(const item *a, const item *b, int axis)
{
    return a->x[axis] < b->x[axis] || (a->x[axis] == b->x[axis] && a->at < b->at);
}

static inline void swap(item *a, item *b)
{
    const item t = *a;
    *a = *b;
    *b = t;
}

/* Afterwards no item of v[0, k) comes after one of v[k, n). Hoare's selection, median of three. */
static void halve(item *v, int64_t n, int64_t k, int axis)
{
    int64_t lo = 0, hi = n - 1;
    while (lo < hi) {
        const int64_t mid = lo + (hi - lo) / 2;
        if (before(&v[mid], &v[lo], axis)) swap(&v[mid], &v[lo]);
        if (before(&v[hi], &v[lo], axis)) swap(&v[hi], &v[lo]);
        if (before(&v[hi], &v[mid], axis)) swap(&v[hi], &v[mid]);
        const item pivot = v[mid];
        int64_t i = lo, j = hi;
        while (i <= j) {
            while (before(&v[i], &pivot, axis)) i++;
            while (before(&pivot, &v[j], axis)) j--;
            if (i <= j) swap(&v[i++], &v[j--]);
        }
        if (k <= j)
            hi = j;
        else if (k >= i)
            lo = i;
        else
            return;
    }
}

/* Equal slices of a range of coordinates; a slice's number does not fall as the coordinate grows. */
typedef struct slices {
    int axis, n;
    float lo, scale;
} slices;

static slices longest_axis(const item *v, int64_t n)
{
    float lo[4], hi[4];
    slices s = {.axis = 0, .n = n < FEW ? BINS_FEW : BINS};
    for (int d = 0; d < 3; d++) lo[d] = hi[d] = v[0].x[d];
    for (int64_t i = 1; i < n; i++)
        for (int d = 0; d < 3; d++) {
            lo[d] = v[i].x[d] < lo[d] ? v[i].x[d] : lo[d];
            hi[d] = v[i].x[d] > hi[d] ? v[i].x[d] : hi[d];
        }
    for (int d = 1; d < 3; d++)
        if (hi[d] - lo[d] > hi[s.axis] - lo[s.axis]) s.axis = d;
    s.lo = lo[s.axis];
    s.scale = (float)s.n / (hi[s.axis] - lo[s.axis]);
    if (!(s.scale < 1e30f)) s.scale = 0; /* next to no width */
    return s;
}

static inline int slice_of(const slices *s, const item *v)
{
    const int b = (int)((v->x[s->axis] - s->lo) * s->scale);
    return b < s->n ? b : s->n - 1;
}

/* v [n] to out, the lower k first: slices below the middle one, that one halved, those above. */
static void halve_to(const item *v, int64_t n, int64_t k, item *out)
{
    const slices s = longest_axis(v, n);
    int32_t count[BINS] = {0};
    int64_t to[3] = {0, 0, 0};
    int middle = 0;
    for (int64_t i = 0; i < n; i++) count[slice_of(&s, &v[i])]++;
    while (to[1] + count[middle] <= k && middle < s.n - 1) to[1] += count[middle++];
    to[2] = to[1] + count[middle];
    const int64_t begin = to[1], end = to[2];
    for (int64_t i = 0; i < n; i++) {
        const int b = slice_of(&s, &v[i]);
        out[to[(b >= middle) + (b > middle)]++] = v[i];
    }
    halve(out + begin, end - begin, k - begin, s.axis);
}

/* In the end from[i] is the item that is to stand at i. v and tmp [n] are scratch. */
static void order_node(item *v, item *tmp, int64_t n, int leaf_size, int64_t first, int64_t *from)
{
    if (n <= leaf_size) {
        for (int64_t i = 0; i < n; i++) from[i] = first + v[i].at;
        return;
    }
    halve_to(v, n, n / 2, tmp);
    order_node(tmp, v, n / 2, leaf_size, first, from);
    order_node(tmp + n / 2, v + n / 2, n - n / 2, leaf_size, first, from + n / 2);
}

static void starts_below(int64_t start, int64_t n, int levels, int64_t *out)
{
    if (levels == 0) {
        out[0] = start;
        out[1] = start + n;
        return;
    }
    starts_below(start, n / 2, levels - 1, out);
    starts_below(start + n / 2, n - n / 2, levels - 1, out + (1 << (levels - 1)));
}

int ff_sum_group_starts(int64_t n, int leaf_size, int64_t *start)
{
    const int levels = ff_sum_group_levels(n, leaf_size);
    starts_below(0, n, levels, start);
    return 1 << levels;
}

static void order_group(const ff_cloud *c, item *v, item *tmp, int64_t start, int64_t n, int64_t *from)
{
    const int64_t first = start - c->cut[c->comm->rank];
    for (int64_t i = 0; i < n; i++) {
        v[i] = (item){{0, 0, 0}, (int32_t)i};
        for (int d = 0; d < c->dim; d++) v[i].x[d] = c->x[(first + i) * c->dim + d];
    }
    order_node(v, tmp, n, c->leaf_size, first, from + first);
}

/* from [n_own]; start [n_groups + 1]. Local */
static ff_status find_order(const ff_cloud *c, const int64_t *start, int n_groups, int64_t *from)
{
    ff_status st = FF_OK;
    const int64_t begin = c->cut[c->comm->rank], end = c->cut[c->comm->rank + 1];
#pragma omp parallel if (c->n_own > PARALLEL_MIN)
    {
        item *v = NULL;
        const int64_t most = c->n / n_groups + 2;
        const ff_status mine = FF_NEW(v, 2 * most);
        if (mine != FF_OK) {
#pragma omp atomic write
            st = mine;
        }
#pragma omp for schedule(dynamic, 1)
        for (int k = 0; k < n_groups; k++)
            if (mine == FF_OK && start[k] >= begin && start[k] < end)
                order_group(c, v, v + most, start[k], start[k + 1] - start[k], from);
        ff_free(v);
    }
    return st;
}

/* Each cut to the border of groups before it. */
static void cut_between_groups(const int64_t *start, int n_groups, int size, int64_t *cut)
{
    for (int r = 1; r < size; r++) {
        int g = 0;
        while (g < n_groups && start[g + 1] <= cut[r]) g++;
        cut[r] = start[g];
    }
}

ff_status ff_sum_order_points(ff_cloud *c, const int64_t *wanted)
{
    int64_t *from = NULL, *cut = NULL, start[(1 << FF_SUM_GROUP_LEVELS) + 1];
    const int n_groups = ff_sum_group_starts(c->n, c->leaf_size, start), size = c->comm->size;
    ff_status st = FF_OK;
    FF_GO(FF_NEW_ALL(c->comm, cut, size + 1));
    if (size > 1) {
        for (int r = 0; r <= size; r++)
            cut[r] = wanted != NULL ? wanted[r] : (int64_t)((__int128)c->n * r / size);
        cut_between_groups(start, n_groups, size, cut);
        FF_GO(ff_cloud_recut(c, cut));
    }
    FF_GO(FF_NEW_ALL(c->comm, from, c->n_own + 1));
    FF_GO(ff_agree(c->comm, find_order(c, start, n_groups, from)));
    st = ff_agree(c->comm, ff_cloud_reorder(c, from));
done:
    ff_free(from);
    ff_free(cut);
    return st;
}
