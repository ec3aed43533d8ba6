#include "ff_snap.h"

#include "ff_mem.h"

#include <math.h>
#include <string.h>

/* Kept points by the cell of a grid of the tolerance's width: a point's partner lies in its cell or a neighbour. */
typedef struct grid {
    double *x; /* [n_points][3] */
    double tol;
    int64_t mask; /* table size - 1, a power of two */
    int64_t *head, *next;
} grid;

static int64_t slot(const grid *g, const int64_t c[3])
{
    uint64_t h = 0;
    for (int k = 0; k < 3; k++) {
        h = (h ^ (uint64_t)c[k]) * 0x9e3779b97f4a7c15u;
        h ^= h >> 32;
    }
    return (int64_t)h & g->mask;
}

static bool near(const grid *g, int64_t a, int64_t b)
{
    double d2 = 0;
    for (int k = 0; k < 3; k++) {
        double d = g->x[3 * a + k] - g->x[3 * b + k];
        d2 += d * d;
    }
    return d2 <= g->tol * g->tol;
}

/* Earliest kept point within the tolerance of point i, whose cell is c; -1 if there is none. */
static int64_t find_partner(const grid *g, int64_t i, const int64_t c[3])
{
    int64_t best = -1;
    for (int k = 0; k < 27; k++) {
        int64_t at[3] = {c[0] + k % 3 - 1, c[1] + k / 3 % 3 - 1, c[2] + k / 9 - 1};
        for (int64_t j = g->head[slot(g, at)]; j >= 0; j = g->next[j])
            if ((best < 0 || j < best) && near(g, i, j)) best = j;
    }
    return best;
}

static ff_status check(const ff_mesh *m, double tol)
{
    double top = 0;
    for (int64_t i = 0; i < 3 * m->n_points; i++) top = fmax(top, fabs(m->points[i]));
    if (!(tol > 0) || isinf(tol) || top / tol > 0x1p52)
        return ff_fail(FF_E_ARG,
                       "weld tolerance %g with coordinates up to %g, expected a positive one of at least %g",
                       tol, top, top * 0x1p-52);
    return FF_OK;
}

ff_status ff_mesh_snap(ff_mesh *m, double tolerance, int64_t *n_moved)
{
    ff_status st = FF_OK;
    grid g = {.x = m->points, .tol = tolerance, .mask = 1};
    *n_moved = 0;
    FF_TRY(check(m, tolerance));
    while (g.mask < 2 * m->n_points) g.mask *= 2;
    FF_GO(FF_NEW(g.head, g.mask));
    FF_GO(FF_NEW(g.next, m->n_points + 1));
    for (int64_t k = 0; k < g.mask; k++) g.head[k] = -1;
    g.mask--;
    for (int64_t i = 0; i < m->n_points; i++) {
        int64_t c[3];
        for (int k = 0; k < 3; k++) c[k] = (int64_t)floor(m->points[3 * i + k] / tolerance);
        int64_t j = find_partner(&g, i, c), *head = &g.head[slot(&g, c)];
        if (j < 0) {
            g.next[i] = *head;
            *head = i;
            continue;
        }
        *n_moved += memcmp(&m->points[3 * i], &m->points[3 * j], 3 * sizeof *m->points) != 0;
        memcpy(&m->points[3 * i], &m->points[3 * j], 3 * sizeof *m->points);
    }
done:
    ff_free(g.head);
    ff_free(g.next);
    return st;
}
