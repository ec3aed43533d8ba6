/* Point sets for tests of trees and plans: a pure function of (kind, n, dim, seed). */
#ifndef FF_TEST_POINTS_H
#define FF_TEST_POINTS_H

#include "ff_rng.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

typedef enum ff_test_kind {
    POINTS_UNIFORM,    /* unit cube */
    POINTS_SPHERE,     /* surface: what meshes look like */
    POINTS_CLUSTERS,   /* eight tight clusters far apart */
    POINTS_DUPLICATES, /* a few places, each many times: equal Morton codes */
    POINTS_EQUAL,      /* one place */
    POINTS_LINE,       /* along the first axis: flat boxes */
    POINTS_GRID,       /* regular grid: exact ties in the acceptance test */
    POINTS_OFFSET,     /* far from the origin: few bits left */
    POINTS_KINDS
} ff_test_kind;

static const char *const ff_test_kind_name[POINTS_KINDS] = {"uniform", "sphere", "clusters", "duplicates",
                                                            "equal",   "line",   "grid",     "offset"};

static inline double ff_test_u(uint64_t seed, int64_t i, int d)
{
    return ff_rng_uniform(seed, (uint64_t)d, (uint64_t)i);
}

static inline double ff_test_coordinate(ff_test_kind kind, int64_t i, int d, int64_t side, uint64_t seed)
{
    switch (kind) {
    case POINTS_CLUSTERS:
        return 10.0 * (double)(i % 8 >> d & 1) + 0.01 * ff_test_u(seed, i, d);
    case POINTS_DUPLICATES:
        return ff_test_u(seed, i % 5, d);
    case POINTS_EQUAL:
        return 0.25 * (d + 1);
    case POINTS_LINE:
        return d == 0 ? ff_test_u(seed, i, d) : 1.0;
    case POINTS_GRID:
        return 0.5 * (double)(d == 0 ? i % side : d == 1 ? i / side % side : i / side / side);
    case POINTS_OFFSET:
        return 1000.0 + 0.01 * ff_test_u(seed, i, d);
    default:
        return ff_test_u(seed, i, d);
    }
}

/* x [n][dim], to be freed with free(). */
static inline float *ff_test_points(ff_test_kind kind, int64_t n, int dim, uint64_t seed)
{
    float *x = malloc((size_t)(n * dim + 1) * sizeof *x);
    int64_t side = 1;
    while (pow((double)side, dim) < (double)n) side++;
    for (int64_t i = 0; x != NULL && i < n; i++) {
        double r2 = 0.0;
        for (int d = 0; d < dim; d++) {
            double v = ff_test_coordinate(kind, i, d, side, seed);
            x[i * dim + d] = (float)v;
            r2 += (v - 0.5) * (v - 0.5);
        }
        for (int d = 0; kind == POINTS_SPHERE && d < dim; d++)
            x[i * dim + d] = (float)((x[i * dim + d] - 0.5) / sqrt(r2 + 1e-12));
    }
    return x;
}

#endif
