/* Cases of the embedding head for its tests: points, weights and cotangents as functions of numbers alone. */
#ifndef HEAD_CASE_H
#define HEAD_CASE_H

#include "farfield_head.h"
#include "ff_head.h"
#include "ff_rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { HEAD_SEED = 47 };

/* Uniform in [-1, 1). */
static inline double head_random(int stream, int64_t i)
{
    return 2 * ff_rng_uniform(HEAD_SEED, (uint64_t)stream, (uint64_t)i) - 1;
}

typedef enum head_set {
    HEAD_UNIFORM,  /* in the unit cube */
    HEAD_CLUSTERS, /* tight groups far apart, and some at one place */
    HEAD_GRID,     /* many equal distances */
    HEAD_LINE,     /* along z: at the poles of the harmonics */
    HEAD_SETS
} head_set;

/* Coordinates of point i. */
static inline void head_point(head_set set, int64_t i, double x[3])
{
    for (int d = 0; d < 3; d++) {
        const double u = 0.5 + 0.5 * head_random(d, i);
        if (set == HEAD_CLUSTERS)
            x[d] = i % 7 == 0 ? 3.5 : (double)(i % 3) * 4 + 0.4 * u;
        else if (set == HEAD_GRID)
            x[d] = 0.25 * (double)(d == 0 ? i % 5 : d == 1 ? i / 5 % 5 : i / 25);
        else if (set == HEAD_LINE)
            x[d] = d == 2 ? u : 0.5;
        else
            x[d] = u;
    }
}

static inline double *head_points(head_set set, int64_t n)
{
    double *x = malloc(((size_t)n * 3 + 1) * sizeof *x);
    for (int64_t i = 0; x != NULL && i < n; i++) head_point(set, i, x + 3 * i);
    return x;
}

/* n numbers in [-1, 1), to be freed with free(). */
static inline double *head_numbers(int stream, int64_t n)
{
    double *x = malloc(((size_t)n + 1) * sizeof *x);
    for (int64_t i = 0; x != NULL && i < n; i++) x[i] = head_random(stream, i);
    return x;
}

static inline float *head_narrow(const double *x, int64_t n)
{
    float *y = malloc(((size_t)n + 1) * sizeof *y);
    for (int64_t i = 0; y != NULL && i < n; i++) y[i] = (float)x[i];
    return y;
}

/* Cells of the tests: open, cube, box that repeats along two axes, skew, one skew axis alone. */
enum { HEAD_CELLS = 5 };
static inline const ff_cell *head_cell(int i)
{
    static const ff_cell cell[HEAD_CELLS] = {
        {{{0}}, {0, 0, 0}},
        {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}, {1, 1, 1}},
        {{{1.1, 0, 0}, {0, 0, 0}, {0, 0, 0.9}}, {1, 0, 1}},
        {{{1, 0.1, 0}, {-0.4, 1.2, 0.1}, {0.2, 0.3, 0.8}}, {1, 1, 1}},
        {{{0, 0, 0}, {0.2, 1, -0.3}, {0, 0, 0}}, {0, 1, 0}},
    };
    return i == 0 ? NULL : &cell[i];
}

#endif
