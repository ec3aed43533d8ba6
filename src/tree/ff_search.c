#include "ff_search.h"

enum { PARALLEL_MIN = 1 << 14 };

static ff_status count_images(ff_search *s)
{
    double n_all = 1;
    for (int a = 0; a < 3; a++) {
        /* Wrapped points differ by less than one cell; the rest is for rounding. */
        double n = s->lattice.periodic[a] ? floor(s->cutoff / s->lattice.height[a] + 1.001) : 0;
        n_all *= 2 * n + 1;
        s->n_image[a] = n < 0x1p20 ? (int)n : 1 << 20;
    }
    if (n_all > 1 << FF_SEARCH_IMAGE_BITS)
        return ff_fail(
            FF_E_ARG,
            "cell: a cutoff of %g reaches %.3g images of a cell %g x %g x %g high, expected at most "
            "%d; lower the cutoff or repeat the cell",
            s->cutoff, n_all, s->lattice.height[0], s->lattice.height[1], s->lattice.height[2],
            1 << FF_SEARCH_IMAGE_BITS);
    s->n_images = (int64_t)n_all;
    return FF_OK;
}

ff_status ff_search_start(double cutoff, const ff_cell *cell, ff_search *s)
{
    *s = (ff_search){.cutoff = cutoff};
    if (!(cutoff > 0 && cutoff < 1e18))
        return ff_fail(FF_E_ARG, "cutoff = %g, expected a positive length below 1e18", cutoff);
    FF_TRY(ff_lattice_create(cell, &s->lattice));
    return count_images(s);
}

static ff_status bad_point(const ff_search *s, const double *x, int64_t number)
{
    for (int d = 0; d < 3; d++)
        if (!(fabs(x[d]) <= 1e18))
            return ff_fail(FF_E_INPUT,
                           "points: point %lld: %c = %g, expected a finite coordinate of at most 1e18",
                           (long long)number, "xyz"[d], x[d]);
    return ff_fail(FF_E_INPUT,
                   "points: point %lld: (%g, %g, %g) lies more than 5e8 cells of height %g, %g, %g from the "
                   "origin",
                   (long long)number, x[0], x[1], x[2], s->lattice.height[0], s->lattice.height[1],
                   s->lattice.height[2]);
}

ff_status ff_search_box(ff_search *s, const double *x, int64_t n, int64_t first)
{
    double lo0 = INFINITY, lo1 = INFINITY, lo2 = INFINITY, hi0 = -INFINITY, hi1 = -INFINITY, hi2 = -INFINITY;
    double largest = 0;
    int64_t bad = INT64_MAX;
#pragma omp parallel for schedule(static) if (n > PARALLEL_MIN) reduction(min                                \
                                                                          : lo0, lo1, lo2, bad)              \
    reduction(max                                                                                            \
              : hi0, hi1, hi2, largest)
    for (int64_t i = 0; i < n; i++) {
        const double *p = x + 3 * i;
        double in[3];
        int32_t wrap[3];
        bool ok = fabs(p[0]) <= 1e18 && fabs(p[1]) <= 1e18 && fabs(p[2]) <= 1e18;
        if (!ok || !ff_lattice_wrap(&s->lattice, p, in, wrap)) {
            bad = i < bad ? i : bad;
            continue;
        }
        for (int d = 0; d < 3; d++) largest = fmax(largest, fabs(p[d]));
        lo0 = fmin(lo0, in[0]), lo1 = fmin(lo1, in[1]), lo2 = fmin(lo2, in[2]);
        hi0 = fmax(hi0, in[0]), hi1 = fmax(hi1, in[1]), hi2 = fmax(hi2, in[2]);
    }
    if (bad != INT64_MAX) return bad_point(s, x + 3 * bad, first + bad);
    s->lo[0] = lo0, s->lo[1] = lo1, s->lo[2] = lo2;
    s->hi[0] = hi0, s->hi[1] = hi1, s->hi[2] = hi2;
    s->largest = largest;
    return FF_OK;
}

void ff_search_finish(ff_search *s, int64_t n_all)
{
    double extent = 0, images = 0;
    for (int d = 0; d < 3; d++) {
        if (n_all == 0) s->lo[d] = s->hi[d] = 0;
        s->origin[d] = (s->lo[d] + s->hi[d]) / 2 + 0.0; /* no -0: minima of it depend on the order */
        extent = fmax(extent, s->hi[d] - s->lo[d]);
        images += s->n_image[d] * sqrt(ff_lattice_norm2(s->lattice.vector[d]));
    }
    /* float32 of the frame, and float64 of wrapping and shifting. */
    double reach = s->cutoff + 0x1p-22 * extent + 0x1p-45 * (s->largest + images);
    s->reach2 = reach * reach * (1 + 0x1p-40);
}

void ff_search_frame(const ff_search *s, const double *x, int64_t n, float *x_tree, int32_t *wrap)
{
#pragma omp parallel for schedule(static) if (n > PARALLEL_MIN)
    for (int64_t i = 0; i < n; i++) {
        double in[3];
        int32_t w[3];
        (void)ff_lattice_wrap(&s->lattice, x + 3 * i, in, w);
        for (int d = 0; d < 3; d++) {
            x_tree[3 * i + d] = (float)(in[d] - s->origin[d]);
            if (wrap != NULL) wrap[3 * i + d] = w[d];
        }
    }
}
