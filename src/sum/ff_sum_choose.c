/* Order, theta and leaf size for a requested error. */
#include "ff_sum_impl.h"

#include <math.h>

/* What the worst of the kernels and sets measured reached (99th percentile, value or gradient, random densities of both signs;
 * docs/measurements.md, "Analytic kernels"), with leaves of 65 points, the smallest there are: larger leaves only
 * replace far pairs by exact ones. */
typedef struct accuracy {
    double error, theta;
    int order;
} accuracy;

static const accuracy measured[] = {{3.2e-3, 2.0, 2}, {2.5e-4, 2.0, 4}, {3.4e-5, 1.4, 4},  {1.3e-5, 2.0, 6},
                                    {7.2e-7, 1.4, 6}, {4.9e-8, 1.4, 8}, {7.3e-10, 1.4, 10}};
/* 1/R and its dipoles: solid harmonics, for points that fill the boxes of their nodes or a surface in them evenly. */
static const accuracy harmonic[] = {
    {9.8e-2, 1.6, 1},   {2.3e-2, 1.5, 2},  {7.6e-3, 1.5, 3},  {2.9e-3, 1.5, 4},  {1.2e-3, 1.5, 5},
    {5.0e-4, 1.5, 6},   {1.5e-4, 1.4, 7},  {6.3e-5, 1.4, 8},  {7.8e-6, 1.3, 9},  {3.2e-6, 1.3, 10},
    {2.8e-7, 1.2, 11},  {1.0e-7, 1.2, 12}, {3.9e-8, 1.2, 13}, {1.5e-8, 1.2, 14}, {1.2e-9, 1.1, 15},
    {4.2e-10, 1.1, 16}, {5.2e-11, 1.1, 18}};
enum { N_MEASURED = sizeof measured / sizeof *measured, N_HARMONIC = sizeof harmonic / sizeof *harmonic };

/* Measured errors of order p grow with theta to the power 1.15 p to 2 p. */
static double widened(const accuracy *row, double wanted)
{
    const double f = pow(wanted / row->error, 1 / (2.0 * row->order));
    return row->theta * (f < 1.1 ? f : 1.1);
}

/* Other densities and sets may be worse than those measured; with harmonics normal deviates, and of these dipoles, were. */
static const double MARGIN = 2, MARGIN_HARMONIC = 8, MARGIN_DIPOLE = 12;

/* float32 pairs: coordinates relative to a leaf keep 24 bits. */
static const double SINGLE_LIMIT = 2e-5;

/* The leaf that suits an order: about as many points as proxies, so that a far pair of leaves costs what it saves. */
static int leaf_of(const ff_sum_opts *o)
{
    const int order = o->order, dim = o->dim;
    if (ff_sum_harmonic(o)) return FF_LEAF_MAX + 1; /* ff_sum_adapt knows more */
    const int n1 = order + 1, n = dim == 3 ? n1 * n1 * n1 : n1 * n1;
    return n < 128 ? 128 : n > 2048 ? 2048 : n;
}

/* The table for o's kernel, its rows and the factor in reserve. */
static const accuracy *table_of(const ff_sum_opts *o, int *n, double *margin)
{
    const ff_sum_opts expanded = {.kernel = o->kernel, .dim = o->dim, .order = 1};
    const bool is_harmonic = ff_sum_harmonic(&expanded);
    *n = is_harmonic ? N_HARMONIC : N_MEASURED;
    *margin = !is_harmonic ? MARGIN : o->dipole ? MARGIN_DIPOLE : MARGIN_HARMONIC;
    return is_harmonic ? harmonic : measured;
}

double ff_sum_least_rtol(const ff_sum_opts *o)
{
    int n;
    double margin;
    const accuracy *table = table_of(o, &n, &margin);
    const double least = table[n - 1].error * margin;
    return o->single && least < SINGLE_LIMIT ? SINGLE_LIMIT : least;
}

static ff_status choose_row(ff_sum_opts *o)
{
    int n;
    double margin;
    const accuracy *table = table_of(o, &n, &margin);
    if (o->single && o->rtol < SINGLE_LIMIT)
        return ff_fail(FF_E_ARG, "sum: rtol = %g is out of reach of float32 (%g); use float64", o->rtol,
                       SINGLE_LIMIT);
    for (int i = 0; i < n; i++)
        if (table[i].error * margin <= o->rtol) {
            o->theta = table == harmonic ? widened(&table[i], o->rtol / margin) : table[i].theta;
            o->order = table[i].order;
            return FF_OK;
        }
    return ff_fail(
        FF_E_ARG,
        "sum: rtol = %g is out of reach, expected at least %.1e; give theta and order instead (theta 0: "
        "direct sums)",
        o->rtol, ff_sum_least_rtol(o));
}

ff_status ff_sum_choose(ff_sum_opts *o)
{
    if (o->rtol > 0) FF_TRY(choose_row(o));
    if (o->leaf_size == 0) o->leaf_size = leaf_of(o);
    return FF_OK;
}

/* Where spread is more than EVEN, errors are those of a larger theta: in galaxies (0.80) of one 1.3 times as large. */
static const double EVEN = 0.36, POWER = 0.36;

/* Shrinking of boxes between that of surfaces, 1/8, and of volumes, 1/4 (galaxies 0.18, the airplane 0.145). From order 10 on a far pair costs so much that
 * surfaces, whose leaves have a fifth of the near ones that those of volumes have, are better off with leaves of up to 96. */
static const double SURFACE = 0.165;
enum { SURFACE_ORDER = 10, SURFACE_LEAF = 96 };

/* The groups that points are divided into over ranks know the leaf size only of smaller sets. */
static bool leaf_may_grow(const ff_sum *s)
{
    bool may = s->leaf_open && s->o.order >= SURFACE_ORDER;
    for (int k = 0; k < s->n_side; k++)
        may = may && s->side[k].cloud->n >= (int64_t)SURFACE_LEAF << FF_SUM_GROUP_LEVELS;
    return may;
}

/* Between leaves of two sets of different sizes the ratio of a far pair is that of one of them alone, and points at its rim
 * are not few: errors are near their bound, which the half of theta would bring to where they are otherwise. Interpolation
 * measures gaps of boxes, which shrink less than distances. */
static double of_sizes(const sum_spread *a, const sum_spread *b, bool is_harmonic)
{
    const double most = fmax(a->size, b->size), least = fmin(a->size, b->size),
                 low = is_harmonic ? 0.45 : 0.3;
    return most > 0 ? low + (0.9 - low) * least / most : 1;
}

/* Points that stand for many: a far pair of a node and such a point has errors near its bound too, and there is one result
 * for many targets. theta is narrowed, unless so few points are merged that the 99th percentile knows nothing of them. */
static double of_merged(const ff_sum *s)
{
    static const double MERGED_HARMONIC = 0.65, MERGED = 0.6, FEW = 0.005;
    double part = 0;
    for (int k = 0; k < s->n_side; k++)
        if (s->side[k].merge != NULL)
            part = fmax(part, 1 - (double)s->side[k].cloud->n / (double)ff_sum_home(&s->side[k])->n);
    return part < FEW ? 1 : s->harm != NULL ? MERGED_HARMONIC : MERGED;
}

ff_status ff_sum_adapt(ff_sum *s)
{
    const bool may = s->harm != NULL && leaf_may_grow(s), two = s->n_side == 2;
    sum_spread v[2];
    if (s->o.rtol > 0) s->o.theta *= of_merged(s);
    if (!may && (s->o.rtol == 0 || (s->harm == NULL && !two))) return FF_OK;
    for (int k = 0; k < s->n_side; k++) FF_TRY(ff_sum_spread(s->side[k].cloud, &v[k]));
    if (!two) v[1] = v[0];
    if (s->o.rtol > 0 && s->harm != NULL)
        s->o.theta /= pow(fmax(EVEN, fmax(v[0].spread, v[1].spread)) / EVEN, POWER);
    if (s->o.rtol > 0 && two) s->o.theta *= of_sizes(&v[0], &v[1], s->harm != NULL);
    if (may && fmax(v[0].shrinking, v[1].shrinking) < SURFACE) s->o.leaf_size = SURFACE_LEAF;
    return FF_OK;
}
