#include "ff_sum.h"

#include "ff_mem.h"
#include "ff_sum_impl.h"
#include "ff_timer.h"

#include <math.h>
#include <string.h>

/* As in ff_sum_pair.h, which needs a type of lanes. */
enum { CHARGE = 1, DIPOLE = 2 };
enum { PARALLEL_MIN = 1 << 14 };

/* ---- options ---- */

typedef struct kernel_name {
    const char *name;
    ff_sum_kernel kernel;
    bool dipole;
} kernel_name;

static const kernel_name names[] = {
    {"1/r", FF_SUM_INV_R, false},
    {"1/r^k", FF_SUM_POWER, false},
    {"log", FF_SUM_LOG, false},
    {"yukawa", FF_SUM_YUKAWA, false},
    {"plummer", FF_SUM_PLUMMER, false},
    {"dipole", FF_SUM_INV_R, true},
    {"stokeslet", FF_SUM_STOKESLET, false},
};

ff_status ff_sum_kernel_find(const char *name, ff_sum_opts *opts)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i].name, name) == 0) {
            opts->kernel = names[i].kernel;
            opts->dipole = names[i].dipole;
            return FF_OK;
        }
    return ff_fail(FF_E_ARG, "kernel = %s, expected 1/r, 1/r^k, log, yukawa, plummer, dipole or stokeslet",
                   name);
}

static ff_status check_opts(const ff_sum_opts *given, ff_sum_opts *o)
{
    const ff_sum_opts init = FF_SUM_OPTS_INIT;
    *o = init;
    if (given != NULL) {
        size_t n;
        memcpy(&n, given, sizeof n);
        if (n < sizeof n || n > sizeof *o)
            return ff_fail(FF_E_ARG,
                           "FF_SUM_OPTS: size = %zu, expected at most %zu; initialise with FF_SUM_OPTS_INIT",
                           n, sizeof *o);
        memcpy(o, given, n);
    }
    FF_TRY(ff_sum_check_kernel(o));
    FF_TRY(ff_sum_check_triangles(o));
    if (o->n_densities < 1 || o->n_densities > 1024)
        return ff_fail(FF_E_ARG, "sum: n_densities = %d, expected 1 to 1024", o->n_densities);
    if (!(o->rtol >= 0 && o->rtol < 1))
        return ff_fail(FF_E_ARG, "sum: rtol = %g, expected 0 < rtol < 1, or 0 for theta and order", o->rtol);
    return FF_OK;
}

static ff_status check_numbers(const ff_sum_opts *o)
{
    if (!(o->theta >= 0 && o->theta <= 1e6))
        return ff_fail(FF_E_ARG, "sum: theta = %g, expected theta >= 0", o->theta);
    if (ff_sum_harmonic(o) && o->theta >= 2)
        return ff_fail(FF_E_ARG, "sum: theta = %g, expected theta < 2 with 1/R, where expansions converge",
                       o->theta);
    const int most = ff_sum_harmonic(o) ? FF_HARM_ORDER_MAX : FF_SUM_ORDER_MAX;
    if (o->order < 0 || o->order > most)
        return ff_fail(FF_E_ARG, "sum: order = %d, expected 0 to %d", o->order, most);
    if (o->leaf_size <= FF_LEAF_MAX || o->leaf_size > FF_LEAF_WHOLE_MAX)
        return ff_fail(FF_E_ARG, "sum: leaf_size = %d, expected %d to %d", o->leaf_size, FF_LEAF_MAX + 1,
                       FF_LEAF_WHOLE_MAX);
    return FF_OK;
}

/* ---- geometry ---- */

/* The first number that is not finite; n: there is none. */
static int64_t first_bad(const double *v, int64_t n)
{
    int64_t bad = n;
#pragma omp parallel for schedule(static) reduction(min : bad) if (n > PARALLEL_MIN)
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(v[i]) && i < bad) bad = i;
    return bad;
}

/* Errors name a point by its number over all ranks. Collective */
static ff_status check_points(ff_comm *comm, const char *what, const double *x, int64_t n, int dim)
{
    ff_status st = FF_OK;
    int64_t *all = NULL, first = 0;
    FF_TRY(FF_NEW_ALL(comm, all, comm->size));
    FF_GO(ff_comm_allgather(comm, &n, sizeof n, all));
    for (int r = 0; r < comm->rank; r++) first += all[r];
    const int64_t i = first_bad(x, n * dim);
    if (i < n * dim)
        st = ff_fail(FF_E_INPUT, "%s: point %lld: %c = %g, expected a finite coordinate", what,
                     (long long)(first + i / dim), "xyz"[i % dim], x[i]);
    st = ff_agree(comm, st);
done:
    ff_free(all);
    return st;
}

/* Widths of sets that boxes of float32 take, and with float32 pairs those that leave R^2 of close points and the steepest power of
 * a pair above the least number. */
static void widths(const ff_sum_opts *o, double *least, double *most)
{
    const bool grad = o->gradient || o->adjoint;
    double power = o->kernel == FF_SUM_POWER && o->parameter < 3 ? o->parameter : 1;
    if (o->kernel == FF_SUM_STOKESLET) power = 3;
    power += (grad ? 2 : 0) + (o->dipole ? 2 : 0);
    *least = o->single ? 1e-12 : 1e-18;
    *most = o->single ? fmin(1e18, pow(10, 37 / power)) : 1e18;
}

/* Middle of the box of both sets. Collective */
static ff_status find_centre(ff_sum *s, const double *x[2], const int64_t n[2])
{
    double box[6];
    for (int d = 0; d < 6; d++) box[d] = -HUGE_VAL;
    for (int k = 0; k < s->n_side; k++) {
#pragma omp parallel for schedule(static) reduction(max : box) if (n[k] > PARALLEL_MIN)
        for (int64_t i = 0; i < n[k]; i++)
            for (int d = 0; d < s->o.dim; d++) {
                const double v = x[k][i * s->o.dim + d];
                if (-v > box[d]) box[d] = -v;
                if (v > box[3 + d]) box[3 + d] = v;
            }
    }
    FF_TRY(ff_comm_allreduce(s->comm, box, 6, FF_MAX_F64));
    const bool single = s->o.single;
    double least, most, width = 0;
    int along = 0;
    if (!(box[3] >= -box[0])) return FF_OK; /* no points */
    for (int d = 0; d < s->o.dim; d++) {
        const double w = box[3 + d] + box[d];
        s->centre[d] = -box[d] + 0.5 * w;
        if (w > width) width = w, along = d;
    }
    widths(&s->o, &least, &most);
    if (width > 0 && !(width >= least && width <= most))
        return ff_fail(FF_E_INPUT, "sum: the points are %g wide along %c, expected %g to %g%s; rescale them",
                       width, "xyz"[along], least, most, single ? " in float32" : "");
    return FF_OK;
}

/* A side's points home [n][3] sorted over ranks. Collective */
static ff_status sort_points(ff_sum *s, sum_side *side, const double *home, int64_t n)
{
    const int dim = s->o.dim;
    float *narrow = NULL;
    uint64_t *code = NULL;
    ff_status st = FF_NEW(narrow, n * dim + 1);
    if (st == FF_OK) st = FF_NEW(code, n + 1);
    FF_GO(ff_agree(s->comm, st));
#pragma omp parallel for schedule(static) if (n > PARALLEL_MIN)
    for (int64_t i = 0; i < n; i++)
        for (int d = 0; d < dim; d++) narrow[i * dim + d] = (float)home[3 * i + d];
    FF_GO(ff_sum_codes(s->comm, narrow, n, dim, s->order_leaf, code));
    FF_GO(ff_cloud_create_coded(s->comm, narrow, code, n, dim, s->order_leaf, &side->cloud));
    FF_GO(ff_sum_order_points(side->cloud, side->wanted));
done:
    ff_free(narrow);
    ff_free(code);
    return st;
}

/* Recentred positions, 0 in dimensions that are not there. Local */
static ff_status recentre(const ff_sum *s, const double *x, int64_t n, double **home)
{
    const int dim = s->o.dim;
    FF_TRY(FF_NEW(*home, 3 * n + 1));
#pragma omp parallel for schedule(static) if (n > PARALLEL_MIN)
    for (int64_t i = 0; i < n; i++)
        for (int d = 0; d < 3; d++) (*home)[3 * i + d] = d < dim ? x[i * dim + d] - s->centre[d] : 0;
    return FF_OK;
}

/* Points sorted over ranks, those that coincide as one; home gets the positions of the cloud's points. Collective */
static ff_status make_cloud(ff_sum *s, int k, const double *x, int64_t n, double **home)
{
    sum_side *side = &s->side[k];
    if (side->merge == NULL) {
        FF_TRY(ff_agree(s->comm, recentre(s, x, n, home)));
        FF_TRY(sort_points(s, side, *home, n));
        if (s->o.exact_within > 0) return FF_OK; /* a triangle is more than its centroid */
        FF_TRY(ff_sum_merge(s, side, *home));
        if (side->merge == NULL) return FF_OK;
        ff_free(*home);
        *home = NULL;
    }
    const sum_merge *m = side->merge;
    FF_TRY(FF_NEW_ALL(s->comm, *home, 3 * m->n + 1));
    memcpy(*home, m->x, (size_t)(3 * m->n) * sizeof **home);
    return sort_points(s, side, m->x, m->n);
}

/* Trees over ranks, and what each reads of the others. need: [target][source]. Collective */
static ff_status make_lets(ff_sum *s)
{
    const int n = s->n_side;
    ff_status st = FF_OK;
    ff_cloud *cloud[2] = {s->side[0].cloud, s->side[1].cloud};
    ff_let *let[2] = {NULL, NULL};
    uint8_t need[4] = {0, 0, 0, 0};
    need[(n - 1) * n + 0] = 1;
    if (s->o.adjoint) need[0 * n + (n - 1)] = 1;
    FF_TRY(ff_let_build(cloud, n, need, s->o.theta, let));
    for (int k = 0; k < n; k++) s->side[k].let = let[k];
    for (int k = 0; k < n && s->harm != NULL; k++) ff_sum_middles(let[k]->tree);
    st = ff_let_mark(let[n - 1], let[0], s->o.theta, false, NULL, 0, NULL);
    if (st == FF_OK && n == 2 && s->o.adjoint)
        st = ff_let_mark(let[0], let[1], s->o.theta, false, NULL, 0, NULL);
    FF_TRY(ff_agree(s->comm, st));
    FF_TRY(ff_let_finish(let[0]));
    if (n == 2 && s->o.adjoint) FF_TRY(ff_let_finish(let[1]));
    return FF_OK;
}

/* Own positions, then those of points of others. Collective */
static ff_status place_points(ff_sum *s, sum_side *side, const double *home)
{
    ff_let_transfer *t = NULL;
    const ff_let *let = side->let;
    FF_TRY(FF_NEW_ALL(s->comm, side->x, 3 * let->tree->n_held + 1));
    FF_TRY(ff_cloud_to_own(side->cloud, 3 * sizeof *home, home, side->x + 3 * (int64_t)let->own_first));
    if (let->peer != NULL) {
        FF_TRY(ff_let_push_begin(let, 0, NULL, 3 * sizeof *home, side->x, &t));
        FF_TRY(ff_let_push_end(&t));
    }
    FF_TRY(ff_agree(s->comm, ff_sum_boxes(s, side)));
    return s->o.order > 0 ? FF_OK : ff_sum_centroids(side);
}

static ff_status make_plan(const ff_sum *s, const sum_side *to, const sum_side *from, ff_plan **out)
{
    const int64_t *cut = to->cloud->cut;
    const int r = s->comm->rank;
    return ff_plan_build(to->let->tree, from->let->tree, s->o.theta, false, cut[r], cut[r + 1], out);
}

/* Collective */
static ff_status make_plans(ff_sum *s)
{
    ff_status st = make_plan(s, ff_sum_targets(s), ff_sum_sources(s), &s->plan);
    if (st == FF_OK && s->n_side == 2 && s->o.adjoint)
        st = make_plan(s, ff_sum_sources(s), ff_sum_targets(s), &s->plan_back);
    FF_TRY(ff_agree(s->comm, st));
    int64_t counts[2] = {s->plan->counts.near_near, s->plan->counts.far_node_pairs};
    FF_TRY(ff_comm_allreduce(s->comm, counts, 2, FF_SUM_I64));
    s->info = (ff_sum_info){.theta = s->o.theta,
                            .order = s->o.order,
                            .leaf_size = s->o.leaf_size,
                            .n_targets = ff_sum_home(ff_sum_targets(s))->n,
                            .n_sources = ff_sum_home(ff_sum_sources(s))->n,
                            .direct_pairs = counts[0],
                            .far_pairs = counts[1],
                            .proxies = s->n_proxy};
    return FF_OK;
}

/* The bound of the expansions' ratio, (theta / 2)^(order + 1), from where on their errors are above those of quick roots:
 * errors met are 1e-3 of it and less. Not with an adjoint, which is the transpose to rounding. */
static const double QUICK_BOUND = 1e-4;

/* Order, trees and lists of both sides. first: theta and the leaf size are still to be fitted to the points. Collective */
static ff_status make_geometry(ff_sum *s, const double *x[2], const int64_t n[2], bool first)
{
    ff_status st = FF_OK;
    double *home[2] = {NULL, NULL};
    ff_phase_begin("order of points");
    for (int k = 0; k < s->n_side; k++) FF_GO(make_cloud(s, k, x[k], n[k], &home[k]));
    ff_phase_begin("trees");
    if (first) FF_GO(ff_sum_adapt(s));
    for (int k = 0; k < s->n_side; k++) s->side[k].cloud->leaf_size = s->o.leaf_size;
    FF_GO(make_lets(s));
    for (int k = 0; k < s->n_side; k++) FF_GO(place_points(s, &s->side[k], home[k]));
    FF_GO(ff_sum_place_triangles(s, s->o.corners));
    ff_phase_begin("plan");
    FF_GO(make_plans(s));
done:
    ff_phase_end();
    ff_free(home[0]);
    ff_free(home[1]);
    return st;
}

/* All but the cuts wanted and what is merged. */
static void drop_geometry(ff_sum *s)
{
    ff_plan_destroy(&s->plan);
    ff_plan_destroy(&s->plan_back);
    for (int k = 0; k < s->n_side; k++) {
        const sum_side kept = {.wanted = s->side[k].wanted, .merge = s->side[k].merge};
        ff_free(s->side[k].x);
        ff_free(s->side[k].mid);
        ff_free(s->side[k].half);
        ff_free(s->side[k].radius);
        ff_free(s->side[k].corner);
        ff_free(s->side[k].reach2);
        ff_let_destroy(&s->side[k].let);
        ff_cloud_destroy(&s->side[k].cloud);
        s->side[k] = kept;
    }
}

static ff_status build(ff_sum *s, const double *x[2], const int64_t n[2])
{
    static const char *const what[2] = {"sources", "targets"};
    bool again;
    for (int k = 0; k < s->n_side; k++) FF_TRY(check_points(s->comm, what[k], x[k], n[k], s->o.dim));
    s->leaf_open = s->o.leaf_size == 0;
    FF_TRY(ff_sum_choose(&s->o));
    s->order_leaf = s->o.leaf_size;
    FF_TRY(check_numbers(&s->o));
    ff_sum_basis_init(&s->basis, ff_sum_harmonic(&s->o) ? 0 : s->o.order);
    s->n_proxy = s->basis.n1 * s->basis.n1 * (s->o.dim == 3 ? s->basis.n1 : 1);
    if (ff_sum_harmonic(&s->o)) {
        FF_TRY(ff_agree(s->comm, ff_harm_create(s->o.order, &s->harm)));
        s->n_proxy = s->harm->n;
    }
    FF_TRY(find_centre(s, x, n));
    FF_TRY(make_geometry(s, x, n, true));
    if (s->harm != NULL) s->quick = !s->o.adjoint && pow(0.5 * s->o.theta, s->o.order + 1) > QUICK_BOUND;
    FF_TRY(ff_sum_balance(s, &again));
    if (again) {
        drop_geometry(s);
        FF_TRY(make_geometry(s, x, n, false));
    }
    s->o.corners = NULL; /* the caller's */
    return FF_OK;
}

ff_status ff_sum_create_dist(ff_comm *comm, const double *targets, int64_t n_targets, const double *sources,
                             int64_t n_sources, const ff_sum_opts *opts, ff_sum **out)
{
    ff_sum *s = NULL;
    *out = NULL;
    int64_t two = targets != NULL; /* a rank may have none of the targets */
    FF_TRY(ff_comm_allreduce(comm, &two, 1, FF_MAX_I64));
    FF_TRY(FF_NEW0_ALL(comm, s, 1));
    s->comm = comm;
    s->n_side = two != 0 ? 2 : 1;
    ff_status st = check_opts(opts, &s->o);
    if (st == FF_OK && (n_sources < 0 || (two != 0 && n_targets < 0)))
        st = ff_fail(FF_E_ARG, "sum: a negative number of points");
    st = ff_agree(comm, st);
    const double *x[2] = {sources, targets};
    const int64_t n[2] = {n_sources, two != 0 && targets != NULL ? n_targets : 0};
    if (st == FF_OK) st = build(s, x, n);
    if (st == FF_OK)
        *out = s;
    else
        ff_sum_destroy(&s);
    return st;
}

ff_status ff_sum_create(const double *targets, int64_t n_targets, const double *sources, int64_t n_sources,
                        const ff_sum_opts *opts, ff_sum **out)
{
    return ff_sum_create_dist(ff_comm_self(), targets, n_targets, sources, n_sources, opts, out);
}

void ff_sum_destroy(ff_sum **sp)
{
    ff_sum *s = *sp;
    if (s == NULL) return;
    ff_harm_destroy(&s->harm);
    drop_geometry(s);
    for (int k = 0; k < s->n_side; k++) {
        ff_free(s->side[k].wanted);
        ff_sum_merge_destroy(&s->side[k].merge);
    }
    ff_free(s);
    *sp = NULL;
}

int ff_sum_n_in(const ff_sum *s)
{
    return ff_sum_opts_in(&s->o);
}

int ff_sum_n_out(const ff_sum *s)
{
    return ff_sum_opts_out(&s->o);
}

void ff_sum_get_info(const ff_sum *s, ff_sum_info *out)
{
    *out = s->info;
}

/* ---- sums and adjoint in the caller's layout ---- */

static ff_status check_finite(const char *what, const double *v, int64_t n)
{
    const int64_t i = v != NULL ? first_bad(v, n) : n;
    if (i == n) return FF_OK;
    return ff_fail(FF_E_INPUT, "sum: %s: number %lld is %g, expected a finite one", what, (long long)i, v[i]);
}

/* Rows of n_from numbers at from to rows of n_to at to + at, the rest of which is left alone. */
static void copy_rows(int64_t n, const double *from, int n_from, int stride_from, double *to, int stride_to)
{
#pragma omp parallel for schedule(static) if (n > PARALLEL_MIN)
    for (int64_t i = 0; i < n; i++)
        for (int c = 0; c < n_from; c++) to[i * stride_to + c] = from[i * stride_from + c];
}

static ff_sum_spec forward_spec(const ff_sum *s)
{
    return (ff_sum_spec){.kernel = s->o.kernel,
                         .in = s->o.kernel == FF_SUM_STOKESLET ? 0
                               : s->o.dipole                   ? DIPOLE
                                                               : CHARGE,
                         .grad = s->o.gradient,
                         .parameter = s->o.parameter};
}

ff_status ff_sum_apply(ff_sum *s, const double *density, double *value, double *gradient)
{
    const ff_sum_spec spec = forward_spec(s);
    const int64_t n_s = ff_sum_home(ff_sum_sources(s))->n_home * s->o.n_densities;
    const int64_t n_t = ff_sum_home(ff_sum_targets(s))->n_home * s->o.n_densities;
    const int in = ff_sum_spec_in(&spec), out = ff_sum_spec_out(&spec), n_in = ff_sum_n_in(s),
              n_out = ff_sum_n_out(s), dim = s->o.dim;
    double *q = NULL, *u = NULL;
    ff_status st = check_finite("density", density, n_s * n_in);
    if (st == FF_OK && gradient != NULL && !s->o.gradient)
        st = ff_fail(FF_E_ARG, "sum: a gradient is wanted, but opts.gradient was false");
    if (st == FF_OK) st = FF_NEW0(q, n_s * in + 1);
    if (st == FF_OK) st = FF_NEW(u, n_t * out + 1);
    FF_GO(ff_agree(s->comm, st));
    copy_rows(n_s, density, n_in, n_in, q, in);
    FF_GO(ff_sum_operate(s, false, &spec, q, u));
    copy_rows(n_t, u, n_out, out, value, n_out);
    for (int k = 0; k < n_out && gradient != NULL; k++)
        copy_rows(n_t, u + n_out + 3 * k, dim, out, gradient + k * dim, n_out * dim);
done:
    ff_free(q);
    ff_free(u);
    return st;
}

ff_status ff_sum_adjoint(ff_sum *s, const double *cot_value, const double *cot_gradient, double *d_density)
{
    const bool stokes = s->o.kernel == FF_SUM_STOKESLET;
    ff_sum_spec spec = forward_spec(s);
    spec.in = stokes ? 0 : (unsigned)(CHARGE | (cot_gradient != NULL ? DIPOLE : 0));
    spec.grad = s->o.dipole;
    const int64_t n_s = ff_sum_home(ff_sum_sources(s))->n_home * s->o.n_densities;
    const int64_t n_t = ff_sum_home(ff_sum_targets(s))->n_home * s->o.n_densities;
    const int in = ff_sum_spec_in(&spec), out = ff_sum_spec_out(&spec), n_in = ff_sum_n_in(s),
              n_out = ff_sum_n_out(s), dim = s->o.dim;
    double *q = NULL, *u = NULL;
    ff_status st = check_finite("cotangent of values", cot_value, n_t * n_out);
    if (st == FF_OK) st = check_finite("cotangent of gradients", cot_gradient, n_t * n_out * dim);
    if (st == FF_OK && !s->o.adjoint)
        st = ff_fail(FF_E_ARG, "sum: the adjoint is wanted, but opts.adjoint was false");
    if (st == FF_OK && stokes && cot_gradient != NULL)
        st = ff_fail(FF_E_UNSUPPORTED, "sum: the adjoint of the Stokeslet's gradient is not offered");
    if (st == FF_OK) st = FF_NEW0(q, n_t * in + 1);
    if (st == FF_OK) st = FF_NEW(u, n_s * out + 1);
    FF_GO(ff_agree(s->comm, st));
    copy_rows(n_t, cot_value, n_out, n_out, q, in);
    if (cot_gradient != NULL) copy_rows(n_t, cot_gradient, dim, dim, q + 1, in);
    FF_GO(ff_sum_operate(s, true, &spec, q, u));
    copy_rows(n_s, u + (s->o.dipole ? 1 : 0), n_in, out, d_density, n_in);
done:
    ff_free(q);
    ff_free(u);
    return st;
}
