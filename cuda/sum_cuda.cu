/* Sums on a GPU: options, geometry, one operation. */
#include "sum.cuh"

#include <math.h>
#include <string.h>

enum { CHARGE = 1, DIPOLE = 2 }; /* ff_sum_pair.h, which needs a type of lanes */

/* ---- options ---- */

static ff_status check_opts(const ff_sum_opts *given, ff_sum_opts *o)
{
    const ff_sum_opts init = FF_SUM_OPTS_INIT;
    *o = init;
    if (given != NULL) {
        if (given->size != sizeof *o)
            return ff_fail(FF_E_ARG,
                           "FF_SUM_OPTS: size = %zu, expected %zu; initialise with FF_SUM_OPTS_INIT",
                           given->size, sizeof *o);
        *o = *given;
    }
    FF_TRY(ff_sum_check_kernel(o));
    if (o->exact_within != 0)
        return ff_fail(FF_E_UNSUPPORTED,
                       "sum: exact_within: integrals over triangles are not there on a GPU");
    if (o->n_densities < 1 || o->n_densities > 1024)
        return ff_fail(FF_E_ARG, "sum: n_densities = %d, expected 1 to 1024", o->n_densities);
    return sum_choose(o);
}

static void choose(ff_sum_cuda *s)
{
    const bool stokes = s->o.kernel == FF_SUM_STOKESLET;
    s->spec = {s->o.kernel,
               stokes        ? 0u
               : s->o.dipole ? (unsigned)DIPOLE
                             : (unsigned)CHARGE,
               s->o.gradient, s->o.parameter, false};
    s->row = s->o.single ? &sum_row_f32 : &sum_row_f64;
    s->n_in = ff_sum_opts_in(&s->o);
    s->n_out = ff_sum_spec_out(&s->spec);
}

/* ---- geometry ---- */

static void side_shape(sum_side *side, int64_t n)
{
    int32_t at = 0;
    memset(side, 0, sizeof *side);
    side->n = n;
    side->n_pad = (n + 63) / 64 * 64;
    for (int32_t k = (int32_t)(side->n_pad / SUM_LEAF); k > 0; k = k > 1 ? (k + 1) / 2 : 0) {
        side->level_at[side->n_levels] = at;
        side->level_n[side->n_levels++] = k;
        at += k;
    }
    side->n_nodes = at;
}

static ff_status side_build(ff_sum_cuda *s, int k, const double *d_x, int64_t n)
{
    ff_status st = FF_OK;
    sum_side *side = &s->side[k];
    side_shape(side, n);
    FF_TRY(sum_sort(s->pool, d_x, s->o.dim, s->d_frame, side));
    FF_TRY(ff_cuda_alloc(s->pool, s->row->point_bytes * (size_t)side->n_pad, &side->d_point));
    FF_TRY(ff_cuda_alloc(s->pool, s->row->node_bytes * (size_t)side->n_nodes, &side->d_node));
    FF_TRY(ff_cuda_alloc(s->pool, s->row->box_bytes * (size_t)side->n_nodes, &side->d_box));
    FF_CU(s->row->place(side, d_x, s->o.dim, s->d_frame, s->stream));
done:
    return st;
}

/* Waits. */
static ff_status check_frame(ff_sum_cuda *s)
{
    sum_frame f;
    static const char *const what[2] = {"sources", "targets"};
    const int dim = s->o.dim;
    FF_TRY(ff_cuda_get(s->pool, &f, s->d_frame, sizeof f));
    FF_TRY(ff_cuda_wait(s->pool));
    for (int k = 0; k < s->n_side; k++)
        if (f.bad[k] != ~0ull)
            return ff_fail(FF_E_INPUT, "%s: point %lld: %c is not finite, expected a finite coordinate",
                           what[k], (long long)f.bad[k] / dim, "xyz"[f.bad[k] % (unsigned)dim]);
    for (int d = 0; d < dim; d++)
        if (f.hi[d] - f.lo[d] > 1e18)
            return ff_fail(FF_E_INPUT,
                           "sum: the points are %g wide along %c, expected at most 1e18; rescale them",
                           f.hi[d] - f.lo[d], "xyz"[d]);
    return FF_OK;
}

static ff_status build(ff_sum_cuda *s, const double *const d_x[2], const int64_t n[2])
{
    for (int k = 0; k < s->n_side; k++)
        if (n[k] < 0 || n[k] > INT32_MAX - 64)
            return ff_fail(FF_E_ARG, "sum: %lld points, expected 0 to %d on one GPU", (long long)n[k],
                           INT32_MAX - 64);
    FF_TRY(FF_ALLOC(s->pool, s->d_frame, 1));
    FF_TRY(sum_frame_find(s->pool, d_x, n, s->o.dim, s->d_frame));
    for (int k = 0; k < s->n_side; k++) FF_TRY(side_build(s, k, d_x[k], n[k]));
    FF_TRY(check_frame(s));
    s->info = {
        s->o.theta, s->o.order, SUM_LEAF, sum_targets(s)->n, s->side[0].n, sum_targets(s)->n * s->side[0].n,
        0,          1};
    if (s->o.theta > 0) {
        FF_TRY(sum_plan_make(s, sum_targets(s), &s->side[0], &s->plan));
        if (s->n_side == 2 && s->o.adjoint)
            FF_TRY(sum_plan_make(s, &s->side[0], sum_targets(s), &s->plan_back));
        s->info.direct_pairs = (int64_t)s->plan.cursors.near * SUM_LEAF * SUM_LEAF;
        s->info.far_pairs = (int64_t)s->plan.cursors.far;
    }
    return FF_OK;
}

extern "C" ff_status ff_sum_cuda_create(const double *d_targets, int64_t n_targets, const double *d_sources,
                                        int64_t n_sources, const ff_sum_opts *opts, void *stream,
                                        ff_sum_cuda **out)
{
    ff_status st = FF_OK;
    const double *const d_x[2] = {d_sources, d_targets};
    const int64_t n[2] = {n_sources, n_targets};
    ff_sum_cuda *s = (ff_sum_cuda *)ff_mem_alloc0(1, sizeof *s);
    *out = NULL;
    if (s == NULL) return FF_E_MEM;
    FF_GO(check_opts(opts, &s->o));
    choose(s);
    s->n_side = d_targets != NULL ? 2 : 1;
    s->stream = (cudaStream_t)stream;
    FF_CU(cudaGetDevice(&s->device));
    FF_GO(ff_cuda_pool_create(stream, &s->pool));
    FF_GO(build(s, d_x, n));
    *out = s;
    s = NULL;
done:
    ff_sum_cuda_destroy(&s);
    return st;
}

extern "C" void ff_sum_cuda_destroy(ff_sum_cuda **sp)
{
    if (*sp == NULL) return;
    ff_cuda_pool_destroy(&(*sp)->pool); /* and all blocks */
    ff_free(*sp);
    *sp = NULL;
}

extern "C" void ff_sum_cuda_get_info(const ff_sum_cuda *s, ff_sum_info *out)
{
    *out = s->info;
}

/* ---- one operation ---- */

/* Pieces in order, then to the caller's order: value [n][stride_v] gets the first n_value numbers, gradient the rest,
 * dim of every three. Read in the tree's order, which is no order of the caller's, and written in a row. */
typedef struct finish_args {
    const double *part; /* as sum_near.d_part */
    const int32_t *inverse;
    int64_t n, n_pad;
    sum_near_list list;
    int n_piece, n_all, n_value, dim;
    double *value, *gradient;
    int64_t stride_v, stride_g;
} finish_args;

static __global__ void __launch_bounds__(256) sum_finish(const finish_args a)
{
    const int64_t to = ff_thread();
    if (to >= a.n) return;
    const int64_t i = a.inverse[to], leaf = i / SUM_LEAF;
    const int32_t listed = a.list.d_n != NULL ? a.list.d_n[leaf] : 0;
    const int32_t more = listed > SUM_PIECE ? (listed - 1) / SUM_PIECE : 0;
    const double *extra =
        more > 0 ? a.part + (a.n_pad + 32 * (int64_t)a.list.d_item_at[leaf] + i % SUM_LEAF) * a.n_all : NULL;
    for (int c = 0; c < a.n_all; c++) {
        double u = 0;
        for (int p = 0; p < a.n_piece; p++) u += a.part[(p * a.n_pad + i) * a.n_all + c];
        for (int32_t k = 0; k < more; k++) u += extra[(int64_t)k * 32 * a.n_all + c];
        const int g = c - a.n_value;
        if (g < 0 && a.value != NULL) a.value[to * a.stride_v + c] = u;
        if (g >= 0 && a.gradient != NULL && g % 3 < a.dim)
            a.gradient[to * a.stride_g + g / 3 * a.dim + g % 3] = u;
    }
}

/* Pieces of the list of all leaves: enough warps for small sets, by the numbers of points alone. */
static void cut(const sum_side *to, const sum_side *from, sum_near *a)
{
    const int32_t leaves = from->level_n[0];
    a->n_groups = to->level_n[1];
    a->n_piece = a->n_groups > 0 ? 8192 / a->n_groups : 1;
    if (a->n_piece < 1) a->n_piece = 1;
    if (a->n_piece > 256) a->n_piece = 256;
    a->piece = (leaves + a->n_piece - 1) / a->n_piece;
    if (a->piece < SUM_FOLD) a->piece = SUM_FOLD;
    a->n_piece = leaves > 0 ? (leaves + a->piece - 1) / a->piece : 1;
}

/* One operation: where from, where to, which lists (theta > 0). */
typedef struct job {
    ff_sum_cuda *s;
    sum_side *to, *from;
    const sum_plan *plan;
    ff_sum_spec spec;
    double *d_part; /* as sum_near.d_part */
    int n_piece;
} job;

static sum_near_list near_list(const sum_plan *p)
{
    return {p->d_near_at,   p->d_near_n,       p->d_near,
            p->d_near_item, p->d_near_item_at, (int64_t)p->cursors.near_items};
}

static ff_status near_field(job *j)
{
    ff_status st = FF_OK;
    ff_sum_cuda *s = j->s;
    const bool listed = s->o.theta > 0;
    const int n_out = ff_sum_spec_out(&j->spec);
    sum_near a;
    memset(&a, 0, sizeof a);
    a.to = *j->to, a.from = *j->from, a.d_frame = s->d_frame;
    if (listed) {
        a.n_groups = j->to->level_n[0];
        a.n_piece = 1;
        a.piece = SUM_PIECE;
        a.list = near_list(j->plan);
    } else {
        cut(j->to, j->from, &a);
    }
    FF_TRY(FF_ALLOC(s->pool, j->d_part, (a.n_piece * j->to->n_pad + 32 * a.list.n_items) * n_out));
    a.d_part = j->d_part;
    j->n_piece = a.n_piece;
    FF_CU(listed ? s->row->lists(&j->spec, &a, s->stream) : s->row->direct(&j->spec, &a, s->stream));
    a.items = 1;
    if (a.list.n_items > 0) FF_CU(s->row->lists(&j->spec, &a, s->stream));
done:
    return st;
}

/* Expansions of a radial kernel: one; of the Stokeslet: three of 2 / R, by component, and one of R. */
static ff_status far_field(job *j)
{
    ff_status st = FF_OK;
    ff_sum_cuda *s = j->s;
    const bool stokes = j->spec.kernel == FF_SUM_STOKESLET;
    const size_t bytes = s->row->real_bytes * (size_t)sum_far_stride(s->o.order);
    sum_far a;
    memset(&a, 0, sizeof a);
    a.to = *j->to, a.from = *j->from, a.d_frame = s->d_frame, a.d_part = j->d_part, a.grad = j->spec.grad;
    a.list = {j->plan->d_far_at,   j->plan->d_far_n,       j->plan->d_far,
              j->plan->d_far_item, j->plan->d_far_item_at, (int64_t)j->plan->cursors.far_items};
    a.n_out = ff_sum_spec_out(&j->spec);
    a.kernel = j->spec.kernel, a.parameter = j->spec.parameter;
    a.what = j->spec.in == CHARGE ? SUM_FAR_CHARGE : j->spec.in == DIPOLE ? SUM_FAR_DIPOLE : SUM_FAR_BOTH;
    FF_GO(ff_cuda_alloc(s->pool, bytes * (size_t)j->from->n_nodes, &a.d_moments));
    FF_GO(ff_cuda_alloc(s->pool, bytes * (size_t)(j->to->n_nodes + a.list.n_items), &a.d_local));
    for (int k = 0; k < (stokes ? 4 : 1); k++) {
        if (stokes) {
            a.what = SUM_FAR_X + k;
            a.kernel = k < 3 ? FF_SUM_INV_R : FF_SUM_POWER;
            a.parameter = -1;
        }
        FF_CU(s->row->far(s->o.order, &a, s->stream));
    }
done:
    ff_cuda_free(s->pool, a.d_moments);
    ff_cuda_free(s->pool, a.d_local);
    return st;
}

static ff_status operate(job *j, const sum_in *in, const sum_out *out)
{
    ff_status st = FF_OK;
    ff_sum_cuda *s = j->s;
    const sum_side *to = j->to;
    finish_args f;
    if (to->n == 0) return FF_OK;
    if (in->d_more != NULL && j->from->d_more == NULL)
        FF_GO(ff_cuda_alloc(s->pool, s->row->more_bytes * (size_t)j->from->n_pad, &j->from->d_more));
    FF_CU(s->row->density(j->from, in, s->stream));
    FF_GO(near_field(j));
    if (s->o.theta > 0 && j->from->n > 0) FF_GO(far_field(j));
    memset(&f, 0, sizeof f);
    f.part = j->d_part, f.inverse = to->d_inverse, f.n = to->n, f.n_pad = to->n_pad, f.n_piece = j->n_piece;
    if (s->o.theta > 0) f.list = near_list(j->plan);
    f.n_all = ff_sum_spec_out(&j->spec), f.n_value = ff_sum_opts_out(&s->o), f.dim = s->o.dim;
    f.value = out->d_value, f.stride_v = out->stride_value;
    f.gradient = out->d_gradient, f.stride_g = out->stride_gradient;
    sum_finish<<<ff_grid(to->n, 1), 256, 0, s->stream>>>(f);
    FF_CU(cudaGetLastError());
done:
    ff_cuda_free(s->pool, j->d_part);
    j->d_part = NULL;
    return st;
}

/* ---- sums and adjoint in the caller's layout ---- */

static job forward(ff_sum_cuda *s)
{
    return {s, &s->side[s->n_side - 1], &s->side[0], &s->plan, s->spec, NULL, 0};
}

/* Roles exchanged: the same pairs, since what is far and how lists are cut know no direction. */
static job backward(ff_sum_cuda *s)
{
    return {s, &s->side[0], &s->side[s->n_side - 1], s->n_side == 2 ? &s->plan_back : &s->plan, s->spec, NULL,
            0};
}

/* Density k of [n][n_densities][n_in]. */
static sum_in input(const ff_sum_cuda *s, const double *d_q, int k)
{
    const int64_t stride = (int64_t)s->o.n_densities * s->n_in;
    const double *at = d_q + (int64_t)k * s->n_in;
    if (s->spec.in == CHARGE) return {at, NULL, stride, 0, 0};
    return {NULL, at, 0, stride, s->n_in};
}

extern "C" ff_status ff_sum_cuda_apply(ff_sum_cuda *s, const double *d_density, double *d_value,
                                       double *d_gradient)
{
    job j = forward(s);
    const int64_t n_v = ff_sum_opts_out(&s->o), n_g = n_v * s->o.dim, n_dens = s->o.n_densities;
    if (s->o.gradient != (d_gradient != NULL))
        return ff_fail(FF_E_ARG, "sum: gradient is %s, expected %s by the options",
                       d_gradient != NULL ? "given" : "NULL", s->o.gradient ? "an array" : "NULL");
    for (int k = 0; k < n_dens; k++) {
        const sum_in in = input(s, d_density, k);
        const sum_out out = {d_value + k * n_v, d_gradient != NULL ? d_gradient + k * n_g : NULL,
                             n_dens * n_v, n_dens * n_g};
        FF_TRY(operate(&j, &in, &out));
    }
    return FF_OK;
}

static ff_status adjoint_allowed(const ff_sum_cuda *s)
{
    if (!s->o.adjoint) return ff_fail(FF_E_ARG, "sum: no adjoint; set adjoint in the options");
    return FF_OK;
}

/* A cotangent of a value acts as a charge, one of a gradient as a dipole; a dipole's derivative is a gradient. */
extern "C" ff_status ff_sum_cuda_adjoint(ff_sum_cuda *s, const double *d_cot_value,
                                         const double *d_cot_gradient, double *d_density)
{
    const bool stokes = s->spec.kernel == FF_SUM_STOKESLET, dipole = s->spec.in == DIPOLE;
    const int64_t dim = s->o.dim, n_dens = s->o.n_densities;
    job j = backward(s);
    FF_TRY(adjoint_allowed(s));
    if (stokes && d_cot_gradient != NULL)
        return ff_fail(FF_E_UNSUPPORTED, "sum: the adjoint of the Stokeslet's gradient is not there");
    j.spec.in = stokes ? 0u : d_cot_gradient != NULL ? (unsigned)(CHARGE | DIPOLE) : (unsigned)CHARGE;
    j.spec.grad = dipole;
    for (int k = 0; k < n_dens; k++) {
        const sum_in in =
            stokes ? sum_in{NULL, d_cot_value + 3 * k, 0, 3 * n_dens, 3}
                   : sum_in{d_cot_value + k, d_cot_gradient != NULL ? d_cot_gradient + k * dim : NULL, n_dens,
                            n_dens * dim, (int)dim};
        const sum_out out = dipole ? sum_out{NULL, d_density + k * dim, 0, n_dens * dim}
                                   : sum_out{d_density + k * s->n_in, NULL, n_dens * s->n_in, 0};
        FF_TRY(operate(&j, &in, &out));
    }
    return FF_OK;
}

/* d [n][dim] = (or +=) sum over v of w[i stride + v] g[i][v][dim]. */
static __global__ void __launch_bounds__(256) sum_dot(int64_t n, int n_v, int dim, const double *w,
                                                      int64_t stride, const double *g, bool add, double *d)
{
    const int64_t i = ff_thread();
    if (i >= n) return;
    for (int c = 0; c < dim; c++) {
        double u = add ? d[i * dim + c] : 0;
        for (int v = 0; v < n_v; v++) u += w[i * stride + v] * g[(i * n_v + v) * dim + c];
        d[i * dim + c] = u;
    }
}

/* d of j's targets, from the gradients of sums of q there, times w. */
static ff_status points_of(job *j, const double *d_q, const double *d_w, bool add, double *d_out)
{
    ff_status st = FF_OK;
    ff_sum_cuda *s = j->s;
    const int64_t n_v = ff_sum_opts_out(&s->o), n = j->to->n, stride = s->o.n_densities * n_v;
    double *g = NULL;
    j->spec.grad = true;
    FF_GO(FF_ALLOC(s->pool, g, n * n_v * s->o.dim));
    for (int k = 0; k < s->o.n_densities && n > 0; k++) {
        const sum_in in = input(s, d_q, k);
        const sum_out out = {NULL, g, 0, n_v * s->o.dim};
        FF_GO(operate(j, &in, &out));
        sum_dot<<<ff_grid(n, 1), 256, 0, s->stream>>>(n, (int)n_v, s->o.dim, d_w + k * n_v, stride, g,
                                                      add || k > 0, d_out);
        FF_CU(cudaGetLastError());
    }
done:
    ff_cuda_free(s->pool, g);
    return st;
}

extern "C" ff_status ff_sum_cuda_adjoint_points(ff_sum_cuda *s, const double *d_density,
                                                const double *d_cot_value, double *d_targets,
                                                double *d_sources)
{
    job to = forward(s), back = backward(s);
    FF_TRY(adjoint_allowed(s));
    if (s->spec.in == DIPOLE)
        return ff_fail(FF_E_UNSUPPORTED, "sum: derivatives by the positions of dipoles are not there");
    FF_TRY(points_of(&to, d_density, d_cot_value, false, s->n_side == 1 ? d_sources : d_targets));
    return points_of(&back, d_cot_value, d_density, s->n_side == 1, d_sources);
}
