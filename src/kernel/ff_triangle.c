#include "ff_triangle.h"

#include <math.h>

static double dot(const double a[3], const double b[3])
{
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

static void cross(const double a[3], const double b[3], double out[3])
{
    out[0] = a[1] * b[2] - a[2] * b[1];
    out[1] = a[2] * b[0] - a[0] * b[2];
    out[2] = a[0] * b[1] - a[1] * b[0];
}

/* log((R+ + l+) / (R- + l-)) without a difference of like numbers; 0 on the edge, where it is infinite. */
static double edge_log(double r0, double r1, double l0, double l1, double least2)
{
    if (l0 > 0) return log((r1 + l1) / (r0 + l0));
    if (l1 < 0) return log((r0 - l0) / (r1 - l1));
    const double both = (r1 + l1) * (r0 - l0);
    return least2 > 0 && both > 0 ? log(both / least2) : 0;
}

/* The edge from a to b, both minus x: adds to the integral, the solid angle and (flat) the gradient in the plane. */
static void add_edge(const double a[3], const double b[3], const double n[3], double h, double *integral,
                     double *angle, double flat[3])
{
    double s[3], m[3];
    for (int d = 0; d < 3; d++) s[d] = b[d] - a[d];
    const double length = sqrt(dot(s, s));
    for (int d = 0; d < 3; d++) s[d] /= length;
    cross(s, n, m);
    const double t = dot(m, a), l0 = dot(s, a), l1 = dot(s, b), r0 = sqrt(dot(a, a)), r1 = sqrt(dot(b, b));
    const double least2 = t * t + h * h, f = edge_log(r0, r1, l0, l1, least2);
    const double beta = atan2(t * l1, least2 + fabs(h) * r1) - atan2(t * l0, least2 + fabs(h) * r0);
    *integral += t * f - fabs(h) * beta;
    *angle += beta;
    for (int d = 0; d < 3; d++) flat[d] -= m[d] * f;
}

static const double IN_PLANE = 1e-10;

bool ff_triangle_mean(const double corner[9], const double x[3], bool grad, double *out)
{
    double v[3][3], u[3], w[3], n[3], integral = 0, angle = 0, flat[3] = {0, 0, 0};
    for (int k = 0; k < 3; k++)
        for (int d = 0; d < 3; d++) v[k][d] = corner[3 * k + d] - x[d];
    for (int d = 0; d < 3; d++) {
        u[d] = corner[3 + d] - corner[d];
        w[d] = corner[6 + d] - corner[d];
    }
    cross(u, w, n);
    const double twice = sqrt(dot(n, n));
    if (!(twice > 1e-14 * (dot(u, u) + dot(w, w)))) return false;
    for (int d = 0; d < 3; d++) n[d] /= twice;
    double h = -dot(n, v[0]);
    if (fabs(h) < IN_PLANE * sqrt(twice))
        h = 0; /* what rounding leaves of a point of the plane knows no side */
    for (int k = 0; k < 3; k++) add_edge(v[k], v[(k + 1) % 3], n, h, &integral, &angle, flat);
    out[0] = 2 * integral / twice;
    const double side = h > 0 ? 1 : h < 0 ? -1 : 0;
    for (int d = 0; d < 3 && grad; d++) out[1 + d] = 2 * (flat[d] - n[d] * side * angle) / twice;
    return true;
}
