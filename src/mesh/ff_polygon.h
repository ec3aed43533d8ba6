/* Vector area and fan of one polygon in space. */
#ifndef FF_POLYGON_H
#define FF_POLYGON_H

#include <stdbool.h>
#include <stdint.h>

/* ids [n], n >= 3, into points [][3]. */
typedef struct ff_polygon {
    const double *points;
    const int64_t *ids;
    int64_t n;
} ff_polygon;

/* Corner i relative to corner 0: differences keep their digits far from the origin. */
static inline void ff_polygon_corner(const ff_polygon *p, int64_t i, double out[3])
{
    for (int k = 0; k < 3; k++) out[k] = p->points[3 * p->ids[i] + k] - p->points[3 * p->ids[0] + k];
}

/* Sum of the fan's triangles' vector areas: the same for any triangulation. */
void ff_polygon_vector_area(const ff_polygon *p, double out[3]);

/* Whether each triangle of the fan from corner 0 has an area along the vector area of more than
 * min_share x (largest distance from corner 0)^2. With a small negative share: whether the fan is valid at
 * all. */
bool ff_polygon_fan_is_valid(const ff_polygon *p, const double vector_area[3], double min_share);

/* Area of the fan's triangles if it is valid (share -1e-12), else |vector area|. */
double ff_polygon_area(const ff_polygon *p, const double vector_area[3]);

#endif
