/* Periodic images: a point and its copies moved by whole numbers of the cell's vectors.
 *
 * Points may lie anywhere (an unwrapped trajectory). Wrapping writes x = x_in + sum over axes of wrap[a] vector[a] with
 * x_in in the cell; neighbours are sought among the wrapped points, but an edge's vector is always made from the
 * points as given, so it does not depend on how they were wrapped. */
#ifndef FF_LATTICE_H
#define FF_LATTICE_H

#include "farfield_head.h"

#include "ff_hd.h"
#include "ff_status.h"

#include <stdbool.h>

typedef struct ff_lattice {
    bool open;           /* no axis is periodic: vectors mean nothing */
    int periodic[3];     /* 0 or 1 */
    double vector[3][3]; /* rows; of axes that are not periodic: unit, perpendicular to the others */
    double dual[3][3];   /* rows; dual[a] . vector[b] = 1 if a = b, else 0 */
    double height[3];    /* distance of the cell's two faces of this axis */
} ff_lattice;

/* cell NULL: open. Errors: FF_E_ARG a vector of a periodic axis is not finite, zero, a negative length in a
 * rectangular cell, or in one plane with the others.                                                        Local */
ff_status ff_lattice_create(const ff_cell *cell, ff_lattice *out);

/* x -> x_in and wrap; false if x lies more than 2^29 cells away. Local */
bool ff_lattice_wrap(const ff_lattice *l, const double x[3], double x_in[3], int32_t wrap[3]);

/* sum over axes of k[a] vector[a]. Exactly negated for -k. */
FF_HD void ff_lattice_shift(const double vector[3][3], const int32_t k[3], double s[3])
{
    for (int i = 0; i < 3; i++)
        s[i] = (double)k[0] * vector[0][i] + (double)k[1] * vector[1][i] + (double)k[2] * vector[2][i];
}

/* Vector of the edge dst <- src: x_src - x_dst + shift of image k; exactly negated for the opposite edge. */
FF_HD void ff_lattice_edge(const double vector[3][3], const double x_src[3], const double x_dst[3],
                           const int32_t k[3], double v[3])
{
    double s[3];
    ff_lattice_shift(vector, k, s);
    for (int i = 0; i < 3; i++) v[i] = (x_src[i] - x_dst[i]) + s[i];
}

FF_HD double ff_lattice_norm2(const double v[3])
{
    return v[0] * v[0] + v[1] * v[1] + v[2] * v[2];
}

#endif
