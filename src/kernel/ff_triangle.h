/* 1/R over a flat triangle in closed form.
 *
 * With h the height of x over the plane of unit normal n, and for each edge the unit tangent s, the outward normal m = s x n
 * in the plane, t = m . (a - x) and R- , R+ , l- , l+ the distances of its ends from x and their components along s
 * (D. R. Wilton et al., IEEE Trans. Antennas Propag. 32, 276 (1984)):
 *
 *     integral dA / R = sum over edges  t f - |h| b        f = log((R+ + l+) / (R- + l-))
 *     its gradient    = sum over edges -m f - n sgn(h) b   b = atan2(t l+, t^2 + h^2 + |h| R+) - the same of l-, R-
 */
#ifndef FF_TRIANGLE_H
#define FF_TRIANGLE_H

#include <stdbool.h>

/* Mean of 1 / |x - y| over y in the triangle corner [3][3], and (grad) its derivative by x: out [4]. Finite everywhere but for
 * the gradient on an edge, whose infinite part is left out; in the plane (to 1e-10 of the size) the normal part of the gradient
 * is the mean of both sides, 0. False, out untouched: the triangle has no area. */
bool ff_triangle_mean(const double corner[9], const double x[3], bool grad, double *out);

#endif
