#include "ff_polygon.h"

#include <math.h>

static void cross_of(const double a[3], const double b[3], double out[3])
{
    out[0] = a[1] * b[2] - a[2] * b[1];
    out[1] = a[2] * b[0] - a[0] * b[2];
    out[2] = a[0] * b[1] - a[1] * b[0];
}

static double dot(const double a[3], const double b[3])
{
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

/* Twice the vector area of triangle (0, i, i + 1). */
static void fan_triangle(const ff_polygon *p, int64_t i, double out[3])
{
    double a[3], b[3];
    ff_polygon_corner(p, i, a);
    ff_polygon_corner(p, i + 1, b);
    cross_of(a, b, out);
}

void ff_polygon_vector_area(const ff_polygon *p, double out[3])
{
    out[0] = out[1] = out[2] = 0;
    for (int64_t i = 1; i + 1 < p->n; i++) {
        double t[3];
        fan_triangle(p, i, t);
        for (int k = 0; k < 3; k++) out[k] += 0.5 * t[k];
    }
}

bool ff_polygon_fan_is_valid(const ff_polygon *p, const double vector_area[3], double min_share)
{
    double norm = sqrt(dot(vector_area, vector_area)), size2 = 0;
    if (norm == 0) return false;
    for (int64_t i = 1; i < p->n; i++) {
        double a[3];
        ff_polygon_corner(p, i, a);
        size2 = fmax(size2, dot(a, a));
    }
    for (int64_t i = 1; i + 1 < p->n; i++) {
        double t[3];
        fan_triangle(p, i, t);
        if (!(0.5 * dot(t, vector_area) / norm > min_share * size2)) return false;
    }
    return true;
}

double ff_polygon_area(const ff_polygon *p, const double vector_area[3])
{
    double area = sqrt(dot(vector_area, vector_area));
    if (p->n == 3 || !ff_polygon_fan_is_valid(p, vector_area, -1e-12)) return area;
    area = 0;
    for (int64_t i = 1; i + 1 < p->n; i++) {
        double t[3];
        fan_triangle(p, i, t);
        area += 0.5 * sqrt(dot(t, t));
    }
    return area;
}
