/* Order, theta and leaf size for a requested error. */
#include "ff_sum_impl.h"

/* What the worst of the kernels and sets measured reached (99th percentile, value or gradient, random densities of both signs;
 * docs/measurements.md, "Analytic kernels"), with leaves of 65 points, the smallest there are: larger leaves only
 * replace far pairs by exact ones. */
typedef struct accuracy {
    double error, theta;
    int order;
} accuracy;

static const accuracy measured[] = {{3.2e-3, 2.0, 2}, {2.5e-4, 2.0, 4}, {3.4e-5, 1.4, 4},  {1.3e-5, 2.0, 6},
                                    {7.2e-7, 1.4, 6}, {4.9e-8, 1.4, 8}, {7.3e-10, 1.4, 10}};
/* 1/R and its dipoles: solid harmonics. */
static const accuracy harmonic[] = {
    {6.0e-3, 1.0, 2},  {1.1e-3, 1.0, 4},  {1.1e-4, 1.0, 6},  {2.9e-5, 1.0, 7},  {4.6e-6, 1.0, 9},
    {1.6e-6, 1.0, 10}, {1.3e-7, 1.0, 12}, {4.0e-8, 1.0, 13}, {3.9e-9, 1.0, 16}, {2.2e-10, 1.0, 20}};
enum { N_MEASURED = sizeof measured / sizeof *measured, N_HARMONIC = sizeof harmonic / sizeof *harmonic };

/* Other densities and sets may be worse than those measured. */
static const double MARGIN = 2;

/* float32 pairs: coordinates relative to a leaf keep 24 bits. */
static const double SINGLE_LIMIT = 2e-5;

/* The leaf that suits an order: about as many points as proxies, so that a far pair of leaves costs what it saves. */
static int leaf_of(const ff_sum_opts *o)
{
    const int order = o->order, dim = o->dim;
    if (ff_sum_harmonic(o)) return order < 10 ? 65 : 96; /* a far pair costs 1,000 to 5,000 near ones */
    const int n1 = order + 1, n = dim == 3 ? n1 * n1 * n1 : n1 * n1;
    return n < 128 ? 128 : n > 2048 ? 2048 : n;
}

static ff_status choose_row(ff_sum_opts *o)
{
    if (o->single && o->rtol < SINGLE_LIMIT)
        return ff_fail(FF_E_ARG, "sum: rtol = %g is out of reach of float32 (%g); use float64", o->rtol,
                       SINGLE_LIMIT);
    const ff_sum_opts expanded = {.kernel = o->kernel, .dim = o->dim, .order = 1};
    const bool is_harmonic = ff_sum_harmonic(&expanded);
    const accuracy *table = is_harmonic ? harmonic : measured;
    const int n = is_harmonic ? N_HARMONIC : N_MEASURED;
    for (int i = 0; i < n; i++)
        if (table[i].error * MARGIN <= o->rtol) {
            o->theta = table[i].theta;
            o->order = table[i].order;
            return FF_OK;
        }
    return ff_fail(
        FF_E_ARG,
        "sum: rtol = %g is out of reach, expected at least %.1e; give theta and order instead (theta 0: "
        "direct sums)",
        o->rtol, table[n - 1].error * MARGIN);
}

ff_status ff_sum_choose(ff_sum_opts *o)
{
    if (o->rtol > 0) FF_TRY(choose_row(o));
    if (o->leaf_size == 0) o->leaf_size = leaf_of(o);
    return FF_OK;
}
