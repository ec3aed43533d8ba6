#include "ff_morton.h"

#include <math.h>

enum { PARALLEL_MIN = 1 << 15 };

void ff_morton_box(const float *x, int64_t n, int dim, float lo[3], float hi[3])
{
    for (int d = 0; d < 3; d++) lo[d] = INFINITY, hi[d] = -INFINITY;
    for (int d = 0; d < dim; d++) {
        float a = INFINITY, b = -INFINITY;
#pragma omp parallel for schedule(static) reduction(min : a) reduction(max : b) if (n > PARALLEL_MIN)
        for (int64_t i = 0; i < n; i++) {
            float v = x[i * dim + d];
            if (v < a) a = v;
            if (v > b) b = v;
        }
        lo[d] = a, hi[d] = b;
    }
}

/* Bit b moves to 3 b (21 bits). */
static uint64_t spread3(uint64_t v)
{
    v = (v | v << 32) & UINT64_C(0x001f00000000ffff);
    v = (v | v << 16) & UINT64_C(0x001f0000ff0000ff);
    v = (v | v << 8) & UINT64_C(0x100f00f00f00f00f);
    v = (v | v << 4) & UINT64_C(0x10c30c30c30c30c3);
    return (v | v << 2) & UINT64_C(0x1249249249249249);
}

/* Bit b moves to 2 b (31 bits). */
static uint64_t spread2(uint64_t v)
{
    v = (v | v << 16) & UINT64_C(0x0000ffff0000ffff);
    v = (v | v << 8) & UINT64_C(0x00ff00ff00ff00ff);
    v = (v | v << 4) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    v = (v | v << 2) & UINT64_C(0x3333333333333333);
    return (v | v << 1) & UINT64_C(0x5555555555555555);
}

/* Truncate, then clamp as integers: in 2D the largest value rounds to 2^31 as a float, and 2^31 - 1 is kept.
 */
static uint64_t quantise(float x, float lo, float extent, float max_f, int64_t max)
{
    float v = (x - lo) / extent;
    v = v * max_f;
    if (!(v > 0.0f)) return 0;
    int64_t q = v < 0x1p62f ? (int64_t)v : max;
    return (uint64_t)(q > max ? max : q);
}

void ff_morton_codes(const float *x, int64_t n, int dim, const float lo[3], const float hi[3], uint64_t *code)
{
    const int64_t max = (INT64_C(1) << (63 / dim)) - 1;
    const float max_f = (float)max;
    float extent[3] = {1.0f, 1.0f, 1.0f};
    for (int d = 0; d < dim; d++) {
        float e = hi[d] - lo[d];
        extent[d] = e == 0.0f ? 1.0f : e;
    }
#pragma omp parallel for schedule(static) if (n > PARALLEL_MIN)
    for (int64_t i = 0; i < n; i++) {
        uint64_t c = 0;
        for (int d = 0; d < dim; d++) {
            uint64_t q = quantise(x[i * dim + d], lo[d], extent[d], max_f, max);
            c |= (dim == 3 ? spread3(q) : spread2(q)) << d;
        }
        code[i] = c;
    }
}
