/* Point sets for tests of trees and their distribution: functions of (kind, i) alone, so every rank can make
 * any part of a set, or all of it. */
#ifndef FF_SETS_H
#define FF_SETS_H

#include "ff_rng.h"

#include <math.h>
#include <stddef.h>

enum { FF_SET_SEED = 20240611 };

typedef enum ff_set_kind {
    FF_SET_SPHERE,   /* on the unit sphere (circle) */
    FF_SET_CLUSTERS, /* two far apart, of very different size */
    FF_SET_GRID,     /* regular: many equal gaps and diameters; few distinct codes a cell */
    FF_SET_EQUAL,    /* one place: all codes tie */
    FF_SET_PAIRS,    /* every point twice, on a line with a kink */
    FF_SET_KINDS
} ff_set_kind;

static inline const char *ff_set_name(ff_set_kind kind)
{
    static const char *const name[] = {"sphere", "clusters", "grid", "equal", "pairs"};
    return name[kind];
}

static inline double ff_set_random(int64_t i, int d)
{
    return ff_rng_uniform(FF_SET_SEED, (uint64_t)d, (uint64_t)i);
}

/* Point i of a set, x [dim]. */
static inline void ff_set_point(ff_set_kind kind, int64_t i, int dim, float *x)
{
    double p[3] = {0.0, 0.0, 0.0}, norm = 0.0;
    int64_t edge = dim == 3 ? 11 : 37;
    switch (kind) {
    case FF_SET_SPHERE:
        for (int d = 0; d < dim; d++) {
            p[d] = ff_set_random(i, d) + ff_set_random(i, d + 3) - 1.0;
            norm += p[d] * p[d];
        }
        for (int d = 0; d < dim; d++) p[d] /= sqrt(norm);
        break;
    case FF_SET_CLUSTERS:
        for (int d = 0; d < dim; d++)
            p[d] = i % 5 == 0 ? 40.0 + 0.01 * ff_set_random(i, d) : ff_set_random(i, d);
        break;
    case FF_SET_GRID:
        p[0] = (double)(i % edge);
        p[1] = (double)(i / edge % edge);
        p[2] = (double)(i / (edge * edge) % edge);
        break;
    case FF_SET_PAIRS:
        p[0] = (double)(i / 2);
        p[1] = fabs(p[0] - 100.0) * 0.5;
        break;
    default:
        for (int d = 0; d < 3; d++) p[d] = 0.5;
        break;
    }
    for (int d = 0; d < dim; d++) x[d] = (float)p[d];
}

/* Points [begin, begin + n) of a set, x [n][dim]. */
static inline void ff_set_fill(ff_set_kind kind, int64_t begin, int64_t n, int dim, float *x)
{
    for (int64_t i = 0; i < n; i++) ff_set_point(kind, begin + i, dim, x + i * dim);
}

/* First original id at home on rank r under spread s: even, all on the last rank, all on rank 0, growing
 * shares, every other rank without any. */
enum { FF_SPREADS = 5 };
static inline int64_t ff_set_home(int64_t n, int size, int r, int spread)
{
    switch (spread) {
    case 0:
        return n * r / size;
    case 1:
        return r < size ? 0 : n;
    case 2:
        return r == 0 ? 0 : n;
    case 3:
        return n * r * (r + 1) / (size * (size + 1));
    default:
        return r == size ? n : n * (r / 2 * 2) / size;
    }
}

#endif
