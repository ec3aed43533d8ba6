/* How points lie in the boxes of a tree's nodes.
 *
 * Spread: the mean of |x - middle|^2 / radius^2 over the points of a level. It is 1/3 where boxes are filled evenly (a line,
 * a plane, a cube), up to 1 where points gather in a corner, as those of nodes at the rim of a cluster do. Far pairs of such
 * nodes converge more slowly.
 *
 * Shrinking: the mean of radius^2 of the nodes three levels below a node, over its own. Eight parts of a cube have 1/4, of a
 * square 1/8, of a line 1/64: it tells volumes from surfaces.
 *
 * Size: the mean radius of leaves, weighted by points. */
#include "ff_sum_impl.h"

#include "ff_mem.h"

#include <math.h>
#include <string.h>

enum { UNITS = 1 << 20, LEVELS = 64, PARALLEL_MIN = 1 << 14, DOWN = 3 };
enum { SHRINKING = LEVELS, SIZE, ROWS }; /* of sums, after the levels */

/* Of some points, positions minus an origin. */
typedef struct moments {
    double n, lo[3], hi[3], sum[3], sum2;
} moments;
enum { ROW = sizeof(moments) / sizeof(double) };

static moments of_points(const float *x, int64_t n, int dim, const double origin[3])
{
    moments m = {.n = (double)n};
    for (int d = 0; d < dim; d++) {
        float lo = x[d], hi = lo;
        for (int64_t i = 0; i < n; i++) {
            const float v = x[i * dim + d];
            const double w = (double)v - origin[d];
            lo = v < lo ? v : lo;
            hi = v > hi ? v : hi;
            m.sum[d] += w;
            m.sum2 += w * w;
        }
        m.lo[d] = (double)lo - origin[d];
        m.hi[d] = (double)hi - origin[d];
    }
    return m;
}

static moments joined(const moments *a, const moments *b)
{
    moments m = {.n = a->n + b->n, .sum2 = a->sum2 + b->sum2};
    for (int d = 0; d < 3; d++) {
        m.lo[d] = a->lo[d] < b->lo[d] ? a->lo[d] : b->lo[d];
        m.hi[d] = a->hi[d] > b->hi[d] ? a->hi[d] : b->hi[d];
        m.sum[d] = a->sum[d] + b->sum[d];
    }
    return m;
}

/* The same minus another origin, which is by lower. */
static void move(moments *m, const double by[3])
{
    for (int d = 0; d < 3; d++) {
        m->sum2 += by[d] * (2 * m->sum[d] + m->n * by[d]);
        m->sum[d] += m->n * by[d];
        m->lo[d] += by[d];
        m->hi[d] += by[d];
    }
}

static double radius2(const moments *m)
{
    double size2 = 0;
    for (int d = 0; d < 3; d++) {
        const double half = 0.5 * (m->hi[d] - m->lo[d]);
        size2 += half * half;
    }
    return size2;
}

/* A node in the sums of its level: whole numbers, the same for any division among ranks and threads. */
static void note(const moments *m, int64_t sum[2])
{
    const double size2 = radius2(m);
    double mean2 = m->sum2;
    for (int d = 0; d < 3; d++) {
        const double middle = 0.5 * (m->lo[d] + m->hi[d]);
        mean2 += middle * (m->n * middle - 2 * m->sum[d]);
    }
    sum[1] += (int64_t)m->n;
    if (size2 > 0 && mean2 > 0) sum[0] += (int64_t)(UNITS * (mean2 < m->n * size2 ? mean2 / size2 : m->n));
}

static double width_of(const ff_cloud *c)
{
    double w = 0;
    for (int d = 0; d < c->dim; d++) w = fmax(w, (double)c->hi[d] - c->lo[d]);
    return w;
}

/* Sums of the levels [LEVELS], of shrinking and of size (by the width of all points). size [DOWN + 1]: sums of n radius^2 of the node and of
 * those 1, 2, 3 levels below it, 0 where there are none. */
static moments below(const ff_cloud *c, const float *x, int64_t n, const double origin[3], int level,
                     int64_t (*sum)[2], double *size)
{
    moments m;
    const bool is_leaf = n <= c->leaf_size;
    for (int k = 0; k <= DOWN; k++) size[k] = 0;
    if (is_leaf) {
        m = of_points(x, n, c->dim, origin);
    } else {
        double by_left[DOWN + 1], by_right[DOWN + 1];
        const moments left = below(c, x, n / 2, origin, level + 1, sum, by_left),
                      right = below(c, x + (n / 2) * c->dim, n - n / 2, origin, level + 1, sum, by_right);
        m = joined(&left, &right);
        for (int k = 0; k < DOWN; k++) size[k + 1] = by_left[k] + by_right[k];
    }
    size[0] = m.n * radius2(&m);
    if (size[DOWN] > 0) { /* not of nodes of no width */
        sum[SHRINKING][0] += (int64_t)(UNITS * (m.n * size[DOWN] / size[0]));
        sum[SHRINKING][1] += n;
    }
    if (is_leaf && size[0] > 0) sum[SIZE][0] += (int64_t)(UNITS * (m.n * sqrt(radius2(&m)) / width_of(c)));
    if (is_leaf) sum[SIZE][1] += n;
    note(&m, sum[level]);
    return m;
}

static moments above(const moments *group, int n_groups, int level, int64_t (*sum)[2])
{
    if (n_groups == 1) return *group;
    const moments left = above(group, n_groups / 2, level + 1, sum),
                  right = above(group + n_groups / 2, n_groups / 2, level + 1, sum),
                  m = joined(&left, &right);
    note(&m, sum[level]);
    return m;
}

typedef struct spreads {
    int64_t start[(1 << FF_SUM_GROUP_LEVELS) + 1], sum[ROWS][2];
    moments group[1 << FF_SUM_GROUP_LEVELS];
    int n_groups, levels;
} spreads;

/* Own groups and what is below them; group holds zeros for others. Local */
static void own_groups(const ff_cloud *c, spreads *p)
{
    const int64_t begin = c->cut[c->comm->rank], end = begin + c->n_own;
#pragma omp parallel for schedule(dynamic, 1) if (c->n_own > PARALLEL_MIN)
    for (int g = 0; g < p->n_groups; g++) {
        int64_t sum[ROWS][2] = {{0}};
        double origin[3] = {0, 0, 0}, size[DOWN + 1];
        const float *x = c->x + (p->start[g] - begin) * c->dim;
        if (p->start[g] < begin || p->start[g + 1] > end || p->start[g] == p->start[g + 1]) continue;
        for (int d = 0; d < c->dim; d++) origin[d] = x[d];
        p->group[g] = below(c, x, p->start[g + 1] - p->start[g], origin, p->levels, sum, size);
        move(&p->group[g], origin);
#pragma omp critical
        for (int l = 0; l < ROWS; l++) {
            p->sum[l][0] += sum[l][0];
            p->sum[l][1] += sum[l][1];
        }
    }
}

static double mean(const int64_t sum[2])
{
    return sum[1] > 0 ? (double)sum[0] / UNITS / (double)sum[1] : 0;
}

ff_status ff_sum_spread(const ff_cloud *c, sum_spread *out)
{
    int64_t bits[(1 << FF_SUM_GROUP_LEVELS) * ROW];
    spreads *p = NULL;
    *out = (sum_spread){0, 0, 0};
    if (c->n == 0) return FF_OK;
    FF_TRY(FF_NEW0_ALL(c->comm, p, 1));
    p->n_groups = ff_sum_group_starts(c->n, c->leaf_size, p->start);
    p->levels = ff_sum_group_levels(c->n, c->leaf_size);
    own_groups(c, p);
    memcpy(bits, p->group, sizeof bits);
    ff_status st =
        ff_comm_allreduce(c->comm, bits, (int64_t)p->n_groups * ROW, FF_SUM_I64); /* one is not 0 */
    if (st == FF_OK) st = ff_comm_allreduce(c->comm, p->sum, 2 * ROWS, FF_SUM_I64);
    memcpy(p->group, bits, sizeof bits);
    if (st == FF_OK) (void)above(p->group, p->n_groups, 0, p->sum);
    for (int l = 0; l < LEVELS; l++) out->spread = fmax(out->spread, mean(p->sum[l]));
    out->shrinking = mean(p->sum[SHRINKING]);
    out->size = mean(p->sum[SIZE]) * width_of(c);
    ff_free(p);
    return st;
}
