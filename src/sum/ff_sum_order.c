/* Order of points inside groups: halves along the longer side instead of the Morton curve's.
 *
 * The tree splits a sorted sequence in the middle, wherever that is on the curve, and pieces of a Morton curve are long and
 * overlap. So the points of a subtree of at most group points are sorted once more: at each of its nodes the lower half
 * along the longest axis of the node's box comes first. Boxes are then apart and compact, and there are about a third as
 * many near pairs. Groups depend on N and the leaf size alone and are never cut between ranks: the same order on any
 * number of them. */
#include "ff_sum_impl.h"

#include "ff_mem.h"

typedef struct item {
    float x[3];
    int64_t orig, at;
} item;

static inline bool before(const item *a, const item *b, int axis)
{
    return a->x[axis] < b->x[axis] || (a->x[axis] == b->x[axis] && a->orig < b->orig);
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

static int longest_axis(const item *v, int64_t n)
{
    float width[3];
    for (int d = 0; d < 3; d++) {
        float lo = v[0].x[d], hi = lo;
        for (int64_t i = 1; i < n; i++) {
            lo = v[i].x[d] < lo ? v[i].x[d] : lo;
            hi = v[i].x[d] > hi ? v[i].x[d] : hi;
        }
        width[d] = hi - lo;
    }
    int axis = width[1] > width[0] ? 1 : 0;
    return width[2] > width[axis] ? 2 : axis;
}

static void order_node(item *v, int64_t n, int leaf_size)
{
    for (; n > leaf_size; v += n / 2, n -= n / 2) {
        halve(v, n, n / 2, longest_axis(v, n));
        order_node(v, n / 2, leaf_size);
    }
}

/* Starts of the groups, [2^levels + 1]. */
static void group_starts(int64_t start, int64_t n, int levels, int64_t *out)
{
    if (levels == 0) {
        out[0] = start;
        out[1] = start + n;
        return;
    }
    group_starts(start, n / 2, levels - 1, out);
    group_starts(start + n / 2, n - n / 2, levels - 1, out + (1 << (levels - 1)));
}

static void order_group(const ff_cloud *c, item *v, int64_t start, int64_t n, int64_t *from)
{
    const int64_t first = start - c->cut[c->comm->rank];
    for (int64_t i = 0; i < n; i++) {
        v[i] = (item){{0, 0, 0}, c->orig[first + i], first + i};
        for (int d = 0; d < c->dim; d++) v[i].x[d] = c->x[(first + i) * c->dim + d];
    }
    order_node(v, n, c->leaf_size);
    for (int64_t i = 0; i < n; i++) from[first + i] = v[i].at;
}

/* from [n_own]; start [n_groups + 1]. Local */
static ff_status find_order(const ff_cloud *c, const int64_t *start, int n_groups, int64_t *from)
{
    ff_status st = FF_OK;
    const int64_t begin = c->cut[c->comm->rank], end = c->cut[c->comm->rank + 1];
#pragma omp parallel
    {
        item *v = NULL;
        const ff_status mine = FF_NEW(v, c->n / n_groups + 2);
        if (mine != FF_OK) {
#pragma omp atomic write
            st = mine;
        }
#pragma omp for schedule(dynamic, 1)
        for (int k = 0; k < n_groups; k++)
            if (mine == FF_OK && start[k] >= begin && start[k] < end)
                order_group(c, v, start[k], start[k + 1] - start[k], from);
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

ff_status ff_sum_order_points(ff_cloud *c)
{
    int64_t *from = NULL, *cut = NULL, start[(1 << FF_SUM_GROUP_LEVELS) + 1];
    const int levels = ff_sum_group_levels(c->n, c->leaf_size), size = c->comm->size;
    ff_status st = FF_OK;
    group_starts(0, c->n, levels, start);
    FF_GO(FF_NEW_ALL(c->comm, cut, size + 1));
    if (size > 1) {
        for (int r = 0; r <= size; r++) cut[r] = (int64_t)((__int128)c->n * r / size);
        cut_between_groups(start, 1 << levels, size, cut);
        FF_GO(ff_cloud_recut(c, cut));
    }
    FF_GO(FF_NEW_ALL(c->comm, from, c->n_own + 1));
    FF_GO(ff_agree(c->comm, find_order(c, start, 1 << levels, from)));
    st = ff_agree(c->comm, ff_cloud_reorder(c, from));
done:
    ff_free(from);
    ff_free(cut);
    return st;
}
