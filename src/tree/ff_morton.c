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

void ff_morton_codes(const float *x, int64_t n, int dim, const float lo[3], const float hi[3], uint64_t *code)
{
    float extent[3] = {1.0f, 1.0f, 1.0f};
    for (int d = 0; d < dim; d++) extent[d] = ff_morton_extent(lo[d], hi[d]);
#pragma omp parallel for schedule(static) if (n > PARALLEL_MIN)
    for (int64_t i = 0; i < n; i++) code[i] = ff_morton_code(x + i * dim, dim, lo, extent);
}
