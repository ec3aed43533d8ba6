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
enum { N_MEASURED = sizeof measured / sizeof *measured };

/* Other densities and sets may be worse than those measured. */
static const double MARGIN = 2;

/* float32 pairs: coordinates relative to a leaf keep 24 bits. */
static const double SINGLE_LIMIT = 2e-5;

/* The leaf that suits an order: about as many points as proxies, so that a far pair of leaves costs what it saves. */
static int leaf_of(int order, int dim)
{
    const int n1 = order + 1, n = dim == 3 ? n1 * n1 * n1 : n1 * n1;
    return n < 128 ? 128 : n > 2048 ? 2048 : n;
}

static ff_status choose_row(ff_sum_opts *o)
{
    if (o->single && o->rtol < SINGLE_LIMIT)
        return ff_fail(FF_E_ARG, "sum: rtol = %g is out of reach of float32 (%g); use float64", o->rtol,
                       SINGLE_LIMIT);
    for (int i = 0; i < N_MEASURED; i++)
        if (measured[i].error * MARGIN <= o->rtol) {
            o->theta = measured[i].theta;
            o->order = measured[i].order;
            return FF_OK;
        }
    return ff_fail(
        FF_E_ARG,
        "sum: rtol = %g is out of reach, expected at least %.1e; give theta and order instead (theta 0: "
        "direct sums)",
        o->rtol, measured[N_MEASURED - 1].error * MARGIN);
}

ff_status ff_sum_choose(ff_sum_opts *o)
{
    if (o->rtol > 0) FF_TRY(choose_row(o));
    if (o->leaf_size == 0) o->leaf_size = leaf_of(o->order, o->dim);
    return FF_OK;
}
