#include "ff_nastran_cord.h"

#include "ff_mem.h"

#include <math.h>
#include <string.h>

enum { FRESH, WAITING, KNOWN };

static double dot(const double a[3], const double b[3])
{
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

static void cross(const double a[3], const double b[3], double out[3])
{
    for (int k = 0; k < 3; k++) out[k] = a[(k + 1) % 3] * b[(k + 2) % 3] - a[(k + 2) % 3] * b[(k + 1) % 3];
}

/* Local coordinates of a system to its rectangular ones; angles are degrees, theta of a sphere counts from z. */
static void straighten(ff_cord_kind kind, double x[3])
{
    const double degree = 3.14159265358979323846 / 180;
    double r = x[0], a = x[1] * degree, b = x[2] * degree;
    if (kind == FF_CORD_CYLINDRICAL) {
        x[0] = r * cos(a);
        x[1] = r * sin(a);
    } else if (kind == FF_CORD_SPHERICAL) {
        x[0] = r * sin(a) * cos(b);
        x[1] = r * sin(a) * sin(b);
        x[2] = r * cos(a);
    }
}

static void place(const ff_cord *c, double x[3])
{
    double y[3];
    straighten(c->kind, x);
    for (int k = 0; k < 3; k++)
        y[k] = c->origin[k] + x[0] * c->axis[0][k] + x[1] * c->axis[1][k] + x[2] * c->axis[2][k];
    memcpy(x, y, sizeof y);
}

ff_status ff_cords_to_basic(const ff_cords *s, int64_t id, const char *what, int64_t number, double x[3])
{
    if (id == 0) return FF_OK;
    int64_t at = ff_idmap_find(&s->map, id);
    if (at < 0)
        return ff_fail(FF_E_INPUT,
                       "%s: %s %lld: coordinate system %lld is not defined by a CORD1 or CORD2 entry",
                       s->path, what, (long long)number, (long long)id);
    place(&s->cord[at], x);
    return FF_OK;
}

static ff_status cord_fail(const ff_cords *s, const ff_cord *c, const char *text, long long number)
{
    return ff_fail(FF_E_INPUT, "%s: line %lld: coordinate system %lld: %s %lld", s->path, (long long)c->line,
                   (long long)c->id, text, number);
}

/* ---- order ---- */

/* Place of the i-th system that c needs, -1: the basic one; at most 3. */
static ff_status need(const ff_cords *s, const ff_cord *c, int i, int64_t *at)
{
    int64_t id = c->in;
    *at = -1;
    if (c->by_points) {
        int64_t p = ff_idmap_find(s->points, c->point[i]);
        if (p < 0) return cord_fail(s, c, "no GRID", (long long)c->point[i]);
        id = s->x_cord[p];
    }
    if (id == 0) return FF_OK;
    *at = ff_idmap_find(&s->map, id);
    if (*at < 0) return cord_fail(s, c, "is defined in a system that is not defined,", (long long)id);
    return FF_OK;
}

/* A, B, C in the basic system: all systems they need are known. */
static ff_status corners(const ff_cords *s, const ff_cord *c, double abc[9])
{
    if (!c->by_points) memcpy(abc, c->abc, sizeof c->abc);
    for (int64_t i = 0; i < 3; i++) {
        int64_t at;
        if (c->by_points)
            memcpy(abc + 3 * i, s->x + 3 * ff_idmap_find(s->points, c->point[i]), 3 * sizeof *abc);
        FF_TRY(need(s, c, (int)i, &at));
        if (at >= 0) place(&s->cord[at], abc + 3 * i);
    }
    return FF_OK;
}

/* Axes: z from A to B, y normal to the plane with C, x completes them. Tolerance: what rounding of coordinates makes
 * of three places on a line. */
static ff_status find_axes(const ff_cords *s, ff_cord *c)
{
    double abc[9], *z = c->axis[2], *y = c->axis[1], to_c[3];
    FF_TRY(corners(s, c, abc));
    memcpy(c->origin, abc, sizeof c->origin);
    for (int k = 0; k < 3; k++) {
        z[k] = abc[3 + k] - abc[k];
        to_c[k] = abc[6 + k] - abc[k];
    }
    double len_z = sqrt(dot(z, z)), len_c = sqrt(dot(to_c, to_c));
    cross(z, to_c, y);
    double len_y = sqrt(dot(y, y));
    if (!(len_y > 1e-12 * len_z * len_c) || !isfinite(len_y))
        return cord_fail(s, c, "its three places A, B and C are on one line; expected a plane, system",
                         (long long)c->id);
    for (int k = 0; k < 3; k++) z[k] /= len_z, y[k] /= len_y;
    cross(y, z, c->axis[0]);
    c->state = KNOWN;
    return FF_OK;
}

/* Resolves system first and all that it needs; stack [n] holds those that wait. */
static ff_status resolve_from(ff_cords *s, int64_t first, int64_t *stack)
{
    int64_t n = 0;
    if (s->cord[first].state == KNOWN) return FF_OK;
    stack[n++] = first;
    while (n > 0) {
        ff_cord *c = &s->cord[stack[n - 1]];
        int64_t at = -1;
        c->state = WAITING;
        for (int i = 0; i < (c->by_points ? 3 : 1); i++) {
            FF_TRY(need(s, c, i, &at));
            if (at >= 0 && s->cord[at].state != KNOWN) break;
            at = -1;
        }
        if (at >= 0 && s->cord[at].state == WAITING)
            return cord_fail(s, c, "is defined by itself, through system", (long long)s->cord[at].id);
        if (at >= 0) {
            stack[n++] = at;
        } else {
            FF_TRY(find_axes(s, c));
            n--;
        }
    }
    return FF_OK;
}

ff_status ff_cords_resolve(ff_cords *s)
{
    int64_t *id = NULL; /* ids, then the systems that wait */
    ff_status st;
    FF_GO(FF_NEW(id, s->n));
    for (int64_t i = 0; i < s->n; i++) id[i] = s->cord[i].id;
    FF_GO(ff_idmap_build(&s->map, id, s->n));
    int64_t twice = ff_idmap_next_twice(&s->map, 0);
    if (twice >= 0) {
        const ff_cord *c = &s->cord[s->map.place[twice]];
        st = cord_fail(s, c, "is defined already in line", (long long)s->cord[s->map.place[twice - 1]].line);
        goto done;
    }
    for (int64_t i = 0; i < s->n; i++) FF_GO(resolve_from(s, i, id));
done:
    ff_free(id);
    return st;
}

void ff_cords_free(ff_cords *s)
{
    FF_FREE(s->cord);
    ff_idmap_free(&s->map);
}
