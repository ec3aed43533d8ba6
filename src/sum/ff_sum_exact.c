/* Triangles as sources: near pairs by the integral of 1/R over them in place of 1/R to their centroid.
 *
 * A pair is exact if the target lies closer to the centroid than exact_within times the triangle's longest edge. A leaf of targets
 * and one of sources with such a pair are added here, pair by pair; tiles and expansions do the others. */
#include "ff_sum_impl.h"

#include "ff_mem.h"
#include "ff_triangle.h"

#include <math.h>
#include <string.h>

enum { CHARGE = 1, DIPOLE = 2, CORNERS = 9 };

ff_status ff_sum_check_triangles(const ff_sum_opts *o)
{
    if (!(o->exact_within >= 0 && isfinite(o->exact_within)))
        return ff_fail(FF_E_ARG, "sum: exact_within = %g, expected >= 0", o->exact_within);
    if (o->exact_within > 0 && (o->kernel != FF_SUM_INV_R || o->dipole || o->dim != 3))
        return ff_fail(
            FF_E_UNSUPPORTED,
            "sum: exact_within: integrals over triangles are there for charges with 1/R in 3 dimensions");
    return FF_OK;
}

/* Square of the distance below which a triangle is exact. */
static double reach2_of(const double *c, double within)
{
    double most = 0;
    for (int k = 0; k < 3; k++) {
        double e2 = 0;
        for (int d = 0; d < 3; d++) e2 += pow(c[3 * k + d] - c[(3 * k + 3 + d) % CORNERS], 2);
        most = e2 > most ? e2 : most;
    }
    return within * within * most;
}

static ff_status check_corners(const double *corners, int64_t n)
{
    if (corners == NULL) return n > 0 ? ff_fail(FF_E_ARG, "sum: exact_within without corners") : FF_OK;
    for (int64_t i = 0; i < CORNERS * n; i++)
        if (!isfinite(corners[i]))
            return ff_fail(FF_E_INPUT, "sum: triangle %lld: a corner is %g, expected a finite coordinate",
                           (long long)(i / CORNERS), corners[i]);
    return FF_OK;
}

ff_status ff_sum_place_triangles(ff_sum *s, const double *corners)
{
    sum_side *side = ff_sum_sources(s);
    const ff_let *let = side->let;
    const int64_t n_home = side->cloud->n_home, n_held = let->tree->n_held;
    ff_let_transfer *t = NULL;
    double *home = NULL;
    ff_status st = FF_OK;
    if (s->o.exact_within == 0) return FF_OK;
    st = check_corners(corners, n_home);
    if (st == FF_OK) st = FF_NEW(home, CORNERS * n_home + 1);
    if (st == FF_OK) st = FF_NEW0(side->corner, CORNERS * n_held + 1);
    if (st == FF_OK) st = FF_NEW0(side->reach2, n_held + 1);
    FF_GO(ff_agree(s->comm, st));
    for (int64_t i = 0; i < CORNERS * n_home; i++) home[i] = corners[i] - s->centre[i % 3];
    FF_GO(ff_cloud_to_own(side->cloud, CORNERS * sizeof *home, home,
                          side->corner + CORNERS * (int64_t)let->own_first));
    if (let->peer != NULL) {
        FF_GO(ff_let_push_begin(let, 0, NULL, CORNERS * sizeof *home, side->corner, &t));
        FF_GO(ff_let_push_end(&t));
    }
    for (int64_t i = 0; i < n_held; i++)
        side->reach2[i] = reach2_of(side->corner + CORNERS * i, s->o.exact_within);
done:
    ff_free(home);
    return st;
}

/* Triangle j of the sources, a point x; d = x minus the centroid. True: out [4] is what a unit charge on it makes at x. */
static bool exact_pair(const sum_side *sources, int64_t j, const double x[3], const double d[3], bool grad,
                       double out[4])
{
    const double r2 = d[0] * d[0] + d[1] * d[1] + d[2] * d[2];
    return r2 < sources->reach2[j] && ff_triangle_mean(sources->corner + CORNERS * j, x, grad, out);
}

/* The pair as spec says, d = to - from. v: exact_pair's; back: from is the point x, to the triangle, whose derivative by its
 * position is the negative of that by x. */
static void add_exact(const ff_sum_spec *spec, bool back, const double v[4], const double *q, double *out)
{
    const double charge = (spec->in & CHARGE) != 0 ? q[0] : 0, sign = back ? -1 : 1;
    out[0] += charge * v[0];
    if ((spec->in & DIPOLE) != 0) /* of points, which the adjoint alone has */
        for (int d = 0; d < 3; d++) out[0] += q[1 + d] * v[1 + d];
    for (int d = 0; d < 3 && spec->grad; d++) out[1 + d] += sign * charge * v[1 + d];
}

static bool any_exact(const sum_job *j, int64_t to, int64_t n_to, int64_t from, int64_t n_from)
{
    const double *reach2 = j->back ? j->to->reach2 : j->from->reach2;
    for (int64_t a = to; a < to + n_to; a++) {
        const double *x = j->to->x + 3 * a;
        for (int64_t b = from; b < from + n_from; b++) {
            const double *y = j->from->x + 3 * b;
            const double dx = x[0] - y[0], dy = x[1] - y[1], dz = x[2] - y[2];
            if (dx * dx + dy * dy + dz * dz < reach2[j->back ? a : b]) return true;
        }
    }
    return false;
}

static void pair(const sum_job *j, int64_t a, int64_t b, double *u)
{
    const double *x = j->to->x + 3 * a, *y = j->from->x + 3 * b, *q = j->q + b * j->n_dens * j->n_in;
    const double d[3] = {x[0] - y[0], x[1] - y[1], x[2] - y[2]};
    const bool derivative = j->spec.grad || (j->spec.in & DIPOLE) != 0;
    double v[4];
    const bool exact =
        j->back ? exact_pair(j->to, a, y, d, derivative, v) : exact_pair(j->from, b, x, d, derivative, v);
    for (int k = 0; k < j->n_dens; k++) {
        if (exact)
            add_exact(&j->spec, j->back, v, q + k * j->n_in, u + k * j->n_out);
        else
            ff_sum_pair_f64(&j->spec, d, q + k * j->n_in, u + k * j->n_out);
    }
}

bool ff_sum_exact_leaf(const sum_job *j, int32_t t, int32_t s, double *u)
{
    const ff_tree *to = j->to->let->tree, *from = j->from->let->tree;
    if (j->s->o.exact_within == 0) return false;
    if (!any_exact(j, to->first[t], to->count[t], from->first[s], from->count[s])) return false;
    for (int64_t a = 0; a < to->count[t]; a++)
        for (int64_t b = 0; b < from->count[s]; b++)
            pair(j, to->first[t] + a, from->first[s] + b, u + a * j->n_dens * j->n_out);
    return true;
}

void ff_sum_exact_pairs(const ff_sum *s, const ff_sum_spec *spec, const double x[3], int64_t first, int64_t n,
                        const double *q, double *out)
{
    const sum_side *from = &s->side[0];
    const int in = ff_sum_spec_in(spec);
    for (int64_t j = first; j < first + n; j++, q += in) {
        const double *y = from->x + 3 * j, d[3] = {x[0] - y[0], x[1] - y[1], x[2] - y[2]};
        double v[4];
        if (exact_pair(from, j, x, d, spec->grad, v))
            add_exact(spec, false, v, q, out);
        else
            ff_sum_pair_f64(spec, d, q, out);
    }
}
