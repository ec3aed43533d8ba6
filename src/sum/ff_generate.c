#include "ff_generate.h"

#include "ff_rng.h"

#include <math.h>
#include <string.h>

#define PI 3.14159265358979323846

static void uniform(const double u[4], int dim, double x[3])
{
    (void)dim;
    for (int d = 0; d < 3; d++) x[d] = u[d];
}

static void sphere(const double u[4], int dim, double x[3])
{
    const double z = dim == 2 ? 0 : 2 * u[0] - 1, r = sqrt(1 - z * z), a = 2 * PI * u[1];
    x[0] = r * cos(a);
    x[1] = r * sin(a);
    x[2] = z;
}

/* Mass inside r is r^3 / (1 + r^2)^(3/2), cut where r = 20. */
static void plummer(const double u[4], int dim, double x[3])
{
    const double most = pow(400.0 / 401.0, 1.5), r = 1 / sqrt(pow(u[2] * most, -2.0 / 3.0) - 1);
    sphere(u, dim, x);
    for (int d = 0; d < 3; d++) x[d] *= r;
}

static void galaxies(const double u[4], int dim, double x[3])
{
    plummer(u, dim, x);
    if (u[3] >= 0.25) return;
    for (int d = 0; d < 3; d++) x[d] *= 0.5;
    x[0] += 4;
    x[1] += 0.7;
}

static void wing(double u, double v, double side, double at, double chord, double span, double x[3])
{
    const double y = span * u, c = chord * (1 - 0.6 * u), a = 2 * PI * v;
    x[0] = at - 0.4 * y + 0.5 * c * cos(a);
    x[1] = side * y;
    x[2] = 0.06 * c * sin(a);
}

/* Half of the points on the fuselage, a third on the wings, the rest on tail and fin. */
static void airplane(const double u[4], int dim, double x[3])
{
    (void)dim;
    if (u[0] < 0.5) {
        const double s = 2 * u[1] - 1, r = 0.3 * sqrt(1 - pow(s, 4)), a = 2 * PI * u[2];
        x[0] = 3 * s;
        x[1] = r * cos(a);
        x[2] = r * sin(a);
    } else if (u[0] < 0.84) {
        wing(u[1], u[2], u[3] < 0.5 ? 1 : -1, 0.3, 1.0, 3.0, x);
    } else if (u[0] < 0.94) {
        wing(u[1], u[2], u[3] < 0.5 ? 1 : -1, -2.6, 0.6, 1.0, x);
    } else {
        double y[3];
        wing(u[1], u[2], 1, -2.6, 0.6, 0.9, y);
        x[0] = y[0];
        x[1] = y[2];
        x[2] = y[1];
    }
}

static void plate(const double u[4], int dim, double x[3])
{
    uniform(u, dim, x);
    x[2] *= 0.001;
}

static void point(const double u[4], int dim, double x[3])
{
    (void)u;
    (void)dim;
    for (int d = 0; d < 3; d++) x[d] = 0.25 * (d + 1);
}

static void line(const double u[4], int dim, double x[3])
{
    (void)dim;
    for (int d = 0; d < 3; d++) x[d] = u[0];
}

typedef struct kind_row {
    const char *name;
    void (*make)(const double u[4], int dim, double x[3]);
} kind_row;

static const kind_row kinds[] = {{"uniform", uniform},   {"sphere", sphere},     {"plummer", plummer},
                                 {"galaxies", galaxies}, {"airplane", airplane}, {"plate", plate},
                                 {"point", point},       {"line", line}};

ff_status ff_generate(const char *kind, uint64_t seed, int64_t first, int64_t n, int dim, double *x)
{
    const kind_row *k = NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].name, kind) == 0) k = &kinds[i];
    if (k == NULL) return ff_fail(FF_E_ARG, "generate = %s, expected one of " FF_GENERATE_KINDS, kind);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++) {
        double u[4], p[3];
        for (int c = 0; c < 4; c++) u[c] = ff_rng_uniform(seed, 100 + (uint64_t)c, (uint64_t)(first + i));
        k->make(u, dim, p);
        for (int d = 0; d < dim; d++) x[i * dim + d] = p[d];
    }
    return FF_OK;
}
