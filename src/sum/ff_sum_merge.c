/* Points that coincide, as one.
 *
 * A tree cannot part points that coincide, so n of them would be n^2 near pairs. Where a group holds a row of them,
 * those of that row with equal float64 coordinates are stood for by the first: it carries the sum of their
 * densities as a source, and as a target its values are theirs. That is the sum as defined, as pairs with R = 0 count for
 * all of them alike, and the adjoint stays the transpose. Groups do not depend on the ranks, so neither does what is merged;
 * a place is left with a point for each group that held many of it. */
#include "ff_sum_impl.h"

#include "ff_mem.h"

#include <stdlib.h>
#include <string.h>

enum { FEW = 32 }; /* in a row, that are left alone */

/* A row of points, in own order: [begin, end). */
typedef struct run {
    int64_t begin, end;
} run;

static bool same(const ff_cloud *c, int64_t i, int64_t j)
{
    const float *a = c->x + i * c->dim, *b = c->x + j * c->dim;
    bool equal = true;
    for (int d = 0; d < c->dim; d++) equal = equal && a[d] == b[d];
    return equal;
}

/* The next row of more than FEW points with equal float32 coordinates in [from, end); empty: there is none. Such a row holds
 * both from + k FEW and the place before for some k, so no others are looked at. */
static run next_run(const ff_cloud *c, int64_t from, int64_t end)
{
    for (int64_t i = from + FEW; i < end; i += FEW) {
        run r = {i, i + 1};
        if (!same(c, i - 1, i)) continue;
        while (r.begin > from && same(c, r.begin - 1, i)) r.begin--;
        while (r.end < end && same(c, r.end, i)) r.end++;
        if (r.end - r.begin > FEW) return r;
    }
    return (run){end, end};
}

/* Own groups, whole as they are: begin, end of the k-th among own points; false: another rank's. */
static bool own_group(const ff_cloud *c, const int64_t *start, int k, run *out)
{
    const int64_t first = c->cut[c->comm->rank];
    *out = (run){start[k] - first, start[k + 1] - first};
    return start[k] >= first && start[k + 1] <= first + c->n_own && start[k] < start[k + 1];
}

/* A point to be sorted: by coordinates, then by place. */
typedef struct item {
    double x[3];
    int64_t at;
} item;

static int by_place(const void *a, const void *b)
{
    const item *p = a, *q = b;
    for (int d = 0; d < 3; d++)
        if (p->x[d] != q->x[d]) return p->x[d] < q->x[d] ? -1 : 1;
    return p->at < q->at ? -1 : p->at > q->at;
}

/* first[i] of the points of a row: the first of those with the same coordinates. x [n_own][3]. Local */
static ff_status merge_run(run r, const double *x, int64_t *first)
{
    item *v = NULL;
    const int64_t n = r.end - r.begin;
    FF_TRY(FF_NEW(v, n));
    bool all = true;
    for (int64_t i = 0; i < n; i++) {
        memcpy(v[i].x, x + 3 * (r.begin + i), sizeof v[i].x);
        v[i].at = r.begin + i;
        for (int d = 0; d < 3; d++) all = all && v[i].x[d] == v[0].x[d];
    }
    if (!all) qsort(v, (size_t)n, sizeof *v, by_place);
    for (int64_t i = 0, of = 0; i < n; i++) {
        for (int d = 0; d < 3; d++)
            if (v[i].x[d] != v[of].x[d]) of = i;
        first[v[i].at] = v[of].at;
    }
    ff_free(v);
    return FF_OK;
}

/* Local */
static ff_status merge_groups(const ff_cloud *c, const int64_t *start, int n_groups, const double *x,
                              int64_t *first)
{
    run g;
    for (int64_t i = 0; i < c->n_own; i++) first[i] = i;
    for (int k = 0; k < n_groups; k++) {
        if (!own_group(c, start, k, &g)) continue;
        for (run r = next_run(c, g.begin, g.end); r.begin < r.end; r = next_run(c, r.end, g.end))
            FF_TRY(merge_run(r, x, first));
    }
    return FF_OK;
}

/* first becomes the number of the point that stands for each; m->x their positions. Local */
static ff_status number_them(sum_merge *m, const double *x)
{
    const int64_t n = m->cloud->n_own;
    for (int64_t i = 0; i < n; i++) m->n += m->row[i] == i;
    FF_TRY(FF_NEW(m->x, 3 * m->n + 1));
    for (int64_t i = 0, k = 0; i < n; i++) {
        const bool stands = m->row[i] == i;
        if (stands) memcpy(m->x + 3 * k, x + 3 * i, 3 * sizeof *x);
        m->row[i] = stands ? k++ : m->row[m->row[i]]; /* the first comes before */
    }
    return FF_OK;
}

void ff_sum_merge_destroy(sum_merge **mp)
{
    sum_merge *m = *mp;
    if (m == NULL) return;
    ff_cloud_destroy(&m->cloud);
    ff_free(m->row);
    ff_free(m->x);
    ff_free(m);
    *mp = NULL;
}

ff_status ff_sum_merge(ff_sum *s, sum_side *side, const double *home)
{
    ff_cloud *c = side->cloud;
    int64_t start[(1 << FF_SUM_GROUP_LEVELS) + 1], some[2] = {0, 0};
    const int n_groups = ff_sum_group_starts(c->n, c->leaf_size, start);
    sum_merge *m = NULL;
    double *x = NULL;
    run g;
    for (int k = 0; k < n_groups; k++)
        if (own_group(c, start, k, &g)) some[0] += next_run(c, g.begin, g.end).begin < g.end;
    FF_TRY(ff_comm_allreduce(s->comm, some, 1, FF_SUM_I64));
    if (some[0] == 0) return FF_OK;
    ff_status st = FF_NEW0(m, 1);
    if (st == FF_OK) st = FF_NEW(m->row, c->n_own + 1);
    if (st == FF_OK) st = FF_NEW(x, 3 * c->n_own + 1);
    FF_GO(ff_agree(s->comm, st));
    m->cloud = c;
    FF_GO(ff_cloud_to_own(c, 3 * sizeof *x, home, x));
    st = merge_groups(c, start, n_groups, x, m->row);
    FF_GO(ff_agree(s->comm, st == FF_OK ? number_them(m, x) : st));
    some[1] = m->n;
    FF_GO(ff_comm_allreduce(s->comm, &some[1], 1, FF_SUM_I64));
    if (some[1] < c->n) { /* else they differ in float64 */
        side->merge = m;
        side->cloud = NULL;
        m = NULL;
    }
done:
    if (m != NULL) m->cloud = NULL; /* still the side's */
    ff_sum_merge_destroy(&m);
    ff_free(x);
    return st;
}

const ff_cloud *ff_sum_home(const sum_side *side)
{
    return side->merge != NULL ? side->merge->cloud : side->cloud;
}

/* Rows of n numbers for all points, and zeros for those that are left. Collective */
static ff_status new_rows(const sum_merge *m, int64_t n, double **all, double **left)
{
    ff_status st = FF_NEW(*all, m->cloud->n_own * n + 1);
    if (st == FF_OK) st = FF_NEW0(*left, m->n * n + 1);
    return ff_agree(m->cloud->comm, st);
}

ff_status ff_sum_to_own(const sum_side *side, int64_t n, const double *home, double *own)
{
    const size_t bytes = (size_t)n * sizeof *home;
    const sum_merge *m = side->merge;
    double *all = NULL, *sum = NULL;
    if (m == NULL) return ff_cloud_to_own(side->cloud, bytes, home, own);
    ff_status st = FF_OK;
    FF_GO(new_rows(m, n, &all, &sum));
    FF_GO(ff_cloud_to_own(m->cloud, bytes, home, all));
    for (int64_t i = 0; i < m->cloud->n_own; i++)
        for (int64_t c = 0; c < n; c++) sum[m->row[i] * n + c] += all[i * n + c];
    st = ff_cloud_to_own(side->cloud, bytes, sum, own);
done:
    ff_free(all);
    ff_free(sum);
    return st;
}

ff_status ff_sum_to_home(const sum_side *side, int64_t n, const double *own, double *home)
{
    const size_t bytes = (size_t)n * sizeof *home;
    const sum_merge *m = side->merge;
    double *all = NULL, *one = NULL;
    if (m == NULL) return ff_cloud_to_home(side->cloud, bytes, own, home);
    ff_status st = FF_OK;
    FF_GO(new_rows(m, n, &all, &one));
    FF_GO(ff_cloud_to_home(side->cloud, bytes, own, one));
    for (int64_t i = 0; i < m->cloud->n_own; i++) memcpy(all + i * n, one + m->row[i] * n, bytes);
    st = ff_cloud_to_home(m->cloud, bytes, all, home);
done:
    ff_free(all);
    ff_free(one);
    return st;
}
