/* Morton codes (spec of the order: docs/theory.md, "Morton order"). Decision arithmetic: float32, no
 * contraction. */
#ifndef FF_MORTON_H
#define FF_MORTON_H

#include "ff_hd.h"
#include "ff_status.h"

/* ---- one point; shared by host and device ---- */

/* Bit b moves to 3 b (21 bits). */
FF_HD uint64_t ff_morton_spread3(uint64_t v)
{
    v = (v | v << 32) & UINT64_C(0x001f00000000ffff);
    v = (v | v << 16) & UINT64_C(0x001f0000ff0000ff);
    v = (v | v << 8) & UINT64_C(0x100f00f00f00f00f);
    v = (v | v << 4) & UINT64_C(0x10c30c30c30c30c3);
    return (v | v << 2) & UINT64_C(0x1249249249249249);
}

/* Bit b moves to 2 b (31 bits). */
FF_HD uint64_t ff_morton_spread2(uint64_t v)
{
    v = (v | v << 16) & UINT64_C(0x0000ffff0000ffff);
    v = (v | v << 8) & UINT64_C(0x00ff00ff00ff00ff);
    v = (v | v << 4) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    v = (v | v << 2) & UINT64_C(0x3333333333333333);
    return (v | v << 1) & UINT64_C(0x5555555555555555);
}

/* Truncate, then clamp as integers: in 2D the largest value rounds to 2^31 as a float, and 2^31 - 1 is kept. */
FF_HD uint64_t ff_morton_axis(float x, float lo, float extent, float max_f, int64_t max)
{
    float v = (x - lo) / extent;
    v = v * max_f;
    if (!(v > 0.0f)) return 0;
    int64_t q = v < 4611686018427387904.0f ? (int64_t)v : max; /* 2^62 */
    return (uint64_t)(q > max ? max : q);
}

/* Code of x [dim] in a box that begins at lo, with extents that are not 0. */
FF_HD uint64_t ff_morton_code(const float *x, int dim, const float lo[3], const float extent[3])
{
    const int64_t max = (INT64_C(1) << (63 / dim)) - 1;
    const float max_f = (float)max;
    uint64_t code = 0;
    for (int d = 0; d < dim; d++) {
        uint64_t q = ff_morton_axis(x[d], lo[d], extent[d], max_f, max);
        code |= (dim == 3 ? ff_morton_spread3(q) : ff_morton_spread2(q)) << d;
    }
    return code;
}

FF_HD float ff_morton_extent(float lo, float hi)
{
    float e = hi - lo;
    return e == 0.0f ? 1.0f : e;
}

/* ---- whole sets ---- */

/* Smallest and largest coordinate per axis; x [n][dim]. n = 0 gives lo = +inf, hi = -inf. Local */
void ff_morton_box(const float *x, int64_t n, int dim, float lo[3], float hi[3]);

/* code [n] of points x [n][dim] in the global box lo, hi. bits = min(62, 63 div dim) per axis. Local */
void ff_morton_codes(const float *x, int64_t n, int dim, const float lo[3], const float hi[3],
                     uint64_t *code);

#endif
