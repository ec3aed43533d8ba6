#include "ff_lattice.h"

#include <math.h>
#include <string.h>

static void cross(const double a[3], const double b[3], double out[3])
{
    for (int i = 0; i < 3; i++) {
        int j = (i + 1) % 3, k = (i + 2) % 3;
        out[i] = a[j] * b[k] - a[k] * b[j];
    }
}

static double dot(const double a[3], const double b[3])
{
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

static bool normalise(double v[3])
{
    double n = sqrt(dot(v, v));
    for (int i = 0; i < 3; i++) v[i] = n > 0 ? v[i] / n : 0;
    return n > 0;
}

/* Unit vector perpendicular to a. */
static void perpendicular(const double a[3], double out[3])
{
    double e[3] = {0, 0, 0};
    int small = 0;
    for (int i = 1; i < 3; i++)
        if (fabs(a[i]) < fabs(a[small])) small = i;
    e[small] = 1;
    cross(a, e, out);
    (void)normalise(out);
}

/* Vectors of axes that are not periodic: what they are does not matter, so they are chosen here. */
static void complete(ff_lattice *l)
{
    for (int a = 0; a < 3; a++) {
        int b = (a + 1) % 3, c = (a + 2) % 3;
        if (l->periodic[a]) continue;
        if (l->periodic[b] && l->periodic[c]) {
            cross(l->vector[b], l->vector[c], l->vector[a]);
            (void)normalise(l->vector[a]);
        } else if (l->periodic[b]) {
            perpendicular(l->vector[b], l->vector[a]);
            cross(l->vector[a], l->vector[b], l->vector[c]);
            (void)normalise(l->vector[c]);
            return;
        }
    }
}

static ff_status check_vectors(const ff_cell *cell)
{
    bool rectangular = true;
    for (int a = 0; a < 3; a++)
        for (int i = 0; i < 3; i++)
            rectangular = rectangular && (a == i || !cell->periodic[a] || cell->vector[a][i] == 0);
    for (int a = 0; a < 3; a++) {
        const double *v = cell->vector[a];
        double n2 = dot(v, v);
        if (!cell->periodic[a]) continue;
        /* Squares and products of three lengths stay in range with these. */
        if (!(n2 > 1e-60 && n2 < 1e36) || (rectangular && v[a] < 0))
            return ff_fail(FF_E_ARG, "cell: vector %d = (%g, %g, %g), expected a positive length below 1e18",
                           a, v[0], v[1], v[2]);
    }
    return FF_OK;
}

ff_status ff_lattice_create(const ff_cell *cell, ff_lattice *l)
{
    double area[3];
    memset(l, 0, sizeof *l);
    l->open = cell == NULL || (!cell->periodic[0] && !cell->periodic[1] && !cell->periodic[2]);
    if (l->open) return FF_OK;
    FF_TRY(check_vectors(cell));
    for (int a = 0; a < 3; a++) {
        l->periodic[a] = cell->periodic[a] != 0;
        if (l->periodic[a]) memcpy(l->vector[a], cell->vector[a], sizeof l->vector[a]);
    }
    complete(l);
    double lengths = 1;
    for (int a = 0; a < 3; a++) lengths *= sqrt(dot(l->vector[a], l->vector[a]));
    cross(l->vector[1], l->vector[2], area);
    double volume = dot(l->vector[0], area);
    if (!(fabs(volume) > 1e-10 * lengths))
        return ff_fail(FF_E_ARG,
                       "cell: its vectors lie in one plane (volume %g), expected three directions; mark axes "
                       "that do not repeat as not periodic",
                       volume);
    for (int a = 0; a < 3; a++) {
        cross(l->vector[(a + 1) % 3], l->vector[(a + 2) % 3], l->dual[a]);
        for (int i = 0; i < 3; i++) l->dual[a][i] /= volume;
        l->height[a] = 1 / sqrt(dot(l->dual[a], l->dual[a]));
    }
    return FF_OK;
}

bool ff_lattice_wrap(const ff_lattice *l, const double x[3], double x_in[3], int32_t wrap[3])
{
    double s[3];
    for (int a = 0; a < 3; a++) {
        double f = l->periodic[a] ? floor(dot(l->dual[a], x)) : 0;
        if (!(fabs(f) < 0x1p29)) return false;
        wrap[a] = (int32_t)f;
    }
    ff_lattice_shift(l->vector, wrap, s);
    for (int i = 0; i < 3; i++) x_in[i] = x[i] - s[i];
    return true;
}
