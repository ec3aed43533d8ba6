#include "ff_ellipsoid.h"

#include "ff_bodies.h"
#include "ff_rng.h"

#include <math.h>

enum { AXES = 1, TURN, LUMPS, SHAKE, SIGMAS }; /* streams of a body, times 2^32 */

static uint64_t stream(uint64_t body, int what)
{
    return (uint64_t)what << 56 ^ body;
}

/* Standard normal (Box-Muller). */
static double normal(uint64_t seed, uint64_t s, uint64_t i)
{
    double u = 1 - ff_rng_uniform(seed, s, 2 * i), v = ff_rng_uniform(seed, s, 2 * i + 1);
    return sqrt(-2 * log(u)) * cos(2 * 3.14159265358979323846 * v);
}

void ff_random_direction(uint64_t seed, uint64_t s, double out[3])
{
    double z = 2 * ff_rng_uniform(seed, s, 0) - 1,
           phi = 2 * 3.14159265358979323846 * ff_rng_uniform(seed, s, 1);
    double r = sqrt(fmax(0, 1 - z * z));
    out[0] = r * cos(phi);
    out[1] = r * sin(phi);
    out[2] = z;
}

/* Rotation of a unit quaternion of four normal numbers: uniform over rotations. */
static void random_rotation(uint64_t seed, uint64_t s, double r[3][3])
{
    double q[4], len = 0;
    for (uint64_t k = 0; k < 4; k++) {
        q[k] = normal(seed, s, k);
        len += q[k] * q[k];
    }
    for (int k = 0; k < 4; k++) q[k] /= sqrt(len);
    double w = q[0], x = q[1], y = q[2], z = q[3];
    const double m[3][3] = {{1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)},
                            {2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)},
                            {2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)}};
    for (int i = 0; i < 9; i++) r[i / 3][i % 3] = m[i / 3][i % 3];
}

ff_ellipsoid ff_ellipsoid_random(uint64_t seed, uint64_t body)
{
    ff_ellipsoid e;
    double mean = 0;
    for (int k = 0; k < 3; k++) {
        e.axes[k] = (2 * ff_rng_uniform(seed, stream(body, AXES), (uint64_t)k) - 1) * log(2);
        mean += e.axes[k] / 3;
    }
    for (int k = 0; k < 3; k++) e.axes[k] = exp(e.axes[k] - mean);
    random_rotation(seed, stream(body, TURN), e.rot);
    return e;
}

/* Moves point i of the unit sphere along it by a normal step of this length. */
static void shake(double *p, double length, uint64_t seed, uint64_t s, uint64_t i)
{
    double q[3], dot = 0, len = 0;
    for (uint64_t k = 0; k < 3; k++) {
        q[k] = normal(seed, s, 3 * i + k);
        dot += q[k] * p[k];
    }
    for (int k = 0; k < 3; k++) {
        p[k] += length * (q[k] - dot * p[k]);
        len += p[k] * p[k];
    }
    for (int k = 0; k < 3; k++) p[k] /= sqrt(len);
}

static double mean_edge(const ff_mesh *m)
{
    double sum = 0;
    for (int64_t h = 0; h < 3 * m->n_cells; h++) {
        const double *a = m->points + 3 * m->cell_pts[h],
                     *b = m->points + 3 * m->cell_pts[h % 3 == 2 ? h - 2 : h + 1];
        sum += sqrt((a[0] - b[0]) * (a[0] - b[0]) + (a[1] - b[1]) * (a[1] - b[1]) +
                    (a[2] - b[2]) * (a[2] - b[2]));
    }
    return sum / (double)(3 * m->n_cells);
}

ff_status ff_ellipsoid_mesh(const ff_ellipsoid *e, uint64_t seed, uint64_t body, int splits, ff_mesh **out)
{
    double radius[FF_BODY_LUMPS], sigma = 0.3 * ff_rng_uniform(seed, stream(body, SIGMAS), 0);
    double step = 0.12 * ff_rng_uniform(seed, stream(body, SIGMAS), 1);
    for (uint64_t i = 0; i < FF_BODY_LUMPS; i++)
        radius[i] = exp(sigma * normal(seed, stream(body, LUMPS), i));
    FF_TRY(ff_body_lumpy(radius, splits, out));
    ff_mesh *m = *out;
    for (int64_t i = 0; i < m->n_points; i++) {
        double *p = m->points + 3 * i, len = sqrt(p[0] * p[0] + p[1] * p[1] + p[2] * p[2]);
        for (int k = 0; k < 3; k++) p[k] /= len;
    }
    step *= mean_edge(m);
    for (int64_t i = 0; i < m->n_points; i++) {
        double *p = m->points + 3 * i, q[3];
        shake(p, step, seed, stream(body, SHAKE), (uint64_t)i);
        for (int k = 0; k < 3; k++) q[k] = e->axes[k] * p[k];
        for (int k = 0; k < 3; k++)
            p[k] = (double)(float)(e->rot[k][0] * q[0] + e->rot[k][1] * q[1] + e->rot[k][2] * q[2]);
    }
    return FF_OK;
}

/* ---- exact solution ---- */

/* Carlson's R_D(x, y, z) = 3/2 int_0^inf dl / ((l + z) sqrt((l + x)(l + y)(l + z))), by duplication (B. C. Carlson,
 * Numer. Math. 33, 1979), to rounding. */
static double carlson_rd(double x, double y, double z)
{
    double sum = 0, power = 1, mean, dx, dy, dz;
    for (;;) {
        mean = (x + y + 3 * z) / 5;
        dx = 1 - x / mean;
        dy = 1 - y / mean;
        dz = 1 - z / mean;
        if (fmax(fabs(dx), fmax(fabs(dy), fabs(dz))) < 1e-3) break;
        double l = sqrt(x * y) + sqrt(y * z) + sqrt(z * x);
        sum += power / (sqrt(z) * (z + l));
        power /= 4;
        x = (x + l) / 4;
        y = (y + l) / 4;
        z = (z + l) / 4;
    }
    double ea = dx * dy, eb = dz * dz, ec = ea - eb, ed = ea - 6 * eb, ef = ed + 2 * ec;
    double series = 1 + ed * (-3.0 / 14 + 9.0 / 88 * ed - 4.5 / 26 * dz * ef) +
                    dz * (ef / 6 + dz * (-9.0 / 22 * ec + dz * 3.0 / 26 * ea));
    return 3 * sum + power * series / (mean * sqrt(mean));
}

void ff_ellipsoid_flow(const ff_ellipsoid *e, const double u[3], const double x[3], double *cp, double ut[3])
{
    double body_u[3], y[3], n[3], v[3] = {0, 0, 0}, world_n[3] = {0, 0, 0}, len = 0, dot = 0, speed2 = 0;
    const double *a = e->axes, abc = a[0] * a[1] * a[2];
    for (int k = 0; k < 3; k++) {
        body_u[k] = e->rot[0][k] * u[0] + e->rot[1][k] * u[1] + e->rot[2][k] * u[2];
        y[k] = (e->rot[0][k] * x[0] + e->rot[1][k] * x[1] + e->rot[2][k] * x[2]) / a[k];
        n[k] = y[k] / a[k]; /* the normal's direction: y needs no unit length for it */
        len += n[k] * n[k];
    }
    for (int k = 0; k < 3; k++) {
        int i = (k + 1) % 3, j = (k + 2) % 3;
        double alpha = 2.0 / 3 * abc * carlson_rd(a[i] * a[i], a[j] * a[j], a[k] * a[k]);
        double w = 2 / (2 - alpha) * body_u[k];
        for (int d = 0; d < 3; d++) {
            v[d] += e->rot[d][k] * w;
            world_n[d] += e->rot[d][k] * n[k] / sqrt(len);
        }
    }
    for (int d = 0; d < 3; d++) dot += world_n[d] * v[d];
    for (int d = 0; d < 3; d++) {
        ut[d] = v[d] - dot * world_n[d];
        speed2 += ut[d] * ut[d];
    }
    *cp = 1 - speed2;
}
