/* Details of weights' and packed gradients' layout that only host code needs. */
#ifndef FF_GLOBE_LAYOUT_H
#define FF_GLOBE_LAYOUT_H

#include <math.h>

/* Place of degree n = 1 .. n_harm among the blocks of harmonics. The reference sorts them by the text of n - 1, so that
 * "10" stands before "2" where there are more than ten (two digits at most: FF_GLOBE_MAX_HARM). */
static inline int ff_globe_harm_place(int n, int n_harm)
{
    int place = 0, key = n <= 10 ? 100 * (n - 1) : 100 * ((n - 1) / 10) + (n - 1) % 10 + 1;
    for (int i = 0; i < n_harm; i++) place += (i < 10 ? 100 * i : 100 * (i / 10) + i % 10 + 1) < key;
    return place;
}

/* Power of two that the cotangent of a global vector's direction carries in the packed gradient: it is about m^2 small
 * where the vector's magnitude m is, but will be divided by m, and exact sums have a fixed unit. */
static inline double ff_globe_gvec_scale(double m)
{
    int e = 0;
    if (m > 0 && m < 1) (void)frexp(m, &e);
    return ldexp(1, e < -26 ? 52 : -2 * e);
}

#endif
