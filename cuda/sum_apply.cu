/* Sums on a GPU: one operation, and sums and adjoints made of it. */
#include "sum_dist.cuh"

#include <string.h>

enum { CHARGE = 1, DIPOLE = 2 }; /* ff_sum_pair.h, which needs a type of lanes */

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
    const int32_t leaves = from->level_n[0], groups = to->level_n[1];
    a->first_group = sum_first(to, 1);
    a->n_groups = sum_end(to, 1) - a->first_group;
    a->n_piece = groups > 0 ? 8192 / groups : 1;
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
        a.first_group = sum_first(j->to, 0);
        a.n_groups = sum_end(j->to, 0) - a.first_group;
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
static ff_status far_begin(job *j, sum_far *a)
{
    ff_status st = FF_OK;
    ff_sum_cuda *s = j->s;
    const size_t bytes = s->row->real_bytes * (size_t)sum_far_stride(s->o.order);
    memset(a, 0, sizeof *a);
    a->to = *j->to, a->from = *j->from, a->d_frame = s->d_frame, a->grad = j->spec.grad;
    a->list = {j->plan->d_far_at,   j->plan->d_far_n,       j->plan->d_far,
               j->plan->d_far_item, j->plan->d_far_item_at, (int64_t)j->plan->cursors.far_items};
    a->n_out = ff_sum_spec_out(&j->spec);
    a->kernel = j->spec.kernel, a->parameter = j->spec.parameter;
    a->what = j->spec.in == CHARGE ? SUM_FAR_CHARGE : j->spec.in == DIPOLE ? SUM_FAR_DIPOLE : SUM_FAR_BOTH;
    FF_GO(ff_cuda_alloc(s->pool, bytes * (size_t)j->from->n_nodes, &a->d_moments));
    FF_GO(ff_cuda_alloc(s->pool, bytes * (size_t)(j->to->n_nodes + a->list.n_items), &a->d_local));
done:
    return st;
}

static ff_status far_stage(job *j, sum_far *a, int k, int stage)
{
    ff_status st = FF_OK;
    if (j->spec.kernel == FF_SUM_STOKESLET) {
        a->what = SUM_FAR_X + k;
        a->kernel = k < 3 ? FF_SUM_INV_R : FF_SUM_POWER;
        a->parameter = -1;
    }
    a->d_part = j->d_part;
    FF_CU(j->s->row->far(j->s->o.order, a, stage, j->s->stream));
done:
    return st;
}

static int n_expansions(const job *j)
{
    return j->s->o.theta == 0 || j->from->n == 0 ? 0 : j->spec.kernel == FF_SUM_STOKESLET ? 4 : 1;
}

/* Near and far field of densities that are in place. */
static ff_status fields(job *j)
{
    sum_far a;
    const int n = n_expansions(j);
    memset(&a, 0, sizeof a);
    ff_status st = near_field(j);
    if (st == FF_OK && n > 0) st = far_begin(j, &a);
    for (int k = 0; k < n && st == FF_OK; k++) st = far_stage(j, &a, k, SUM_UP | SUM_DOWN);
    ff_cuda_free(j->s->pool, a.d_moments);
    ff_cuda_free(j->s->pool, a.d_local);
    return st;
}

/* The same over ranks: points of leaves travel while own moments are made, moments while the near field is. worked: what
 * failed here before. Collective */
static ff_status fields_dist(job *j, ff_status worked)
{
    sum_far a;
    sum_halo_flight f;
    ff_sum_cuda *s = j->s;
    const int n = n_expansions(j), from = (int)(j->from - s->side);
    ff_status st = FF_OK;
    memset(&a, 0, sizeof a);
    FF_GO(sum_halo_points_begin(s, from, j->plan, worked, &f));
    if (n > 0) worked = far_begin(j, &a);
    if (n > 0 && worked == FF_OK) worked = far_stage(j, &a, 0, SUM_UP);
    FF_GO(sum_halo_end(s, &f));
    for (int k = 0; k < n; k++) {
        if (k > 0 && worked == FF_OK) worked = far_stage(j, &a, k, SUM_UP);
        FF_GO(sum_halo_moments_begin(s, from, j->plan, worked, a.d_moments, &f));
        if (k == 0) worked = near_field(j);
        FF_GO(sum_halo_end(s, &f));
        if (worked == FF_OK) worked = far_stage(j, &a, k, SUM_DOWN);
    }
    if (n == 0) worked = near_field(j);
    st = ff_agree(s->dist->comm, worked);
done:
    ff_cuda_free(s->pool, a.d_moments);
    ff_cuda_free(s->pool, a.d_local);
    return st;
}

/* Places of densities on this rank. */
static ff_status densities(job *j, const sum_in *in)
{
    ff_status st = FF_OK;
    ff_sum_cuda *s = j->s;
    if (in->d_more != NULL && j->from->d_more == NULL)
        FF_GO(ff_cuda_alloc(s->pool, s->row->more_bytes * (size_t)j->from->n_pad, &j->from->d_more));
    FF_CU(s->row->density(j->from, in, s->stream));
done:
    return st;
}

static ff_status operate(job *j, const sum_in *in, const sum_out *out)
{
    ff_status st = FF_OK;
    ff_sum_cuda *s = j->s;
    const sum_side *to = j->to;
    finish_args f;
    if (to->n == 0) return FF_OK;
    st = densities(j, in);
    if (s->dist != NULL)
        st = fields_dist(j, st);
    else if (st == FF_OK)
        st = fields(j);
    FF_GO(st);
    memset(&f, 0, sizeof f);
    f.part = j->d_part, f.inverse = to->d_inverse, f.n = to->n_own, f.n_pad = to->n_pad;
    f.n_piece = j->n_piece;
    if (s->o.theta > 0) f.list = near_list(j->plan);
    f.n_all = ff_sum_spec_out(&j->spec), f.n_value = ff_sum_opts_out(&s->o), f.dim = s->o.dim;
    f.value = out->d_value, f.stride_v = out->stride_value;
    f.gradient = out->d_gradient, f.stride_g = out->stride_gradient;
    if (f.n > 0) sum_finish<<<ff_grid(f.n, 1), 256, 0, s->stream>>>(f);
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

/* One array of rows of a side: the caller's on one rank, else own points' in a block of its own. */
typedef struct rows {
    int k;
    int64_t width;
    double *home, *own;
} rows;

/* Rows that are read. Collective with ranks */
static ff_status rows_in(ff_sum_cuda *s, int k, int64_t width, const double *d_home, rows *r)
{
    *r = {k, width, (double *)d_home, (double *)d_home};
    return s->dist != NULL ? sum_dist_in(s, k, d_home, width, &r->own) : FF_OK;
}

/* Rows to write. Local */
static ff_status rows_new(ff_sum_cuda *s, int k, int64_t width, double *d_home, rows *r)
{
    *r = {k, width, d_home, d_home};
    return s->dist != NULL ? FF_ALLOC(s->pool, r->own, s->side[k].n_own * width) : FF_OK;
}

/* Written rows to the caller, of one side and in one exchange; more: NULL. Collective with ranks */
static ff_status rows_out(ff_sum_cuda *s, const rows *r, const rows *more)
{
    sum_back b[SUM_BACK_MAX] = {{r->own, r->home, r->width}};
    if (more != NULL) b[1] = {more->own, more->home, more->width};
    return s->dist != NULL ? sum_dist_out(s, r->k, b, more != NULL ? 2 : 1) : FF_OK;
}

static void rows_free(ff_sum_cuda *s, rows *r)
{
    if (s->dist != NULL) ff_cuda_free(s->pool, r->own);
}

static ff_status agreed(const ff_sum_cuda *s, ff_status mine)
{
    return s->dist != NULL ? ff_agree(s->dist->comm, mine) : mine;
}

static ff_status gradient_given(const ff_sum_cuda *s, const double *d_gradient)
{
    const bool own = s->dist == NULL || s->dist->share[s->n_side - 1].n_home > 0;
    if (own && s->o.gradient != (d_gradient != NULL))
        return ff_fail(FF_E_ARG, "sum: gradient is %s, expected %s by the options",
                       d_gradient != NULL ? "given" : "NULL", s->o.gradient ? "an array" : "NULL");
    return FF_OK;
}

extern "C" ff_status ff_sum_cuda_apply(ff_sum_cuda *s, const double *d_density, double *d_value,
                                       double *d_gradient)
{
    job j = forward(s);
    const int64_t n_v = ff_sum_opts_out(&s->o), n_g = n_v * s->o.dim, n_dens = s->o.n_densities;
    const int to = s->n_side - 1;
    rows q = {0, 0, NULL, NULL}, v = q, g = q;
    FF_TRY(agreed(s, gradient_given(s, d_gradient)));
    ff_status st = rows_in(s, 0, n_dens * s->n_in, d_density, &q);
    FF_GO(st);
    st = rows_new(s, to, n_dens * n_v, d_value, &v);
    if (st == FF_OK && s->o.gradient) st = rows_new(s, to, n_dens * n_g, d_gradient, &g);
    FF_GO(agreed(s, st));
    for (int k = 0; k < n_dens; k++) {
        const sum_in in = input(s, q.own, k);
        const sum_out out = {v.own + k * n_v, g.own != NULL ? g.own + k * n_g : NULL, n_dens * n_v,
                             n_dens * n_g};
        FF_GO(operate(&j, &in, &out));
    }
    FF_GO(rows_out(s, &v, s->o.gradient ? &g : NULL));
done:
    rows_free(s, &q), rows_free(s, &v), rows_free(s, &g);
    return st;
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
    const int64_t dim = s->o.dim, n_dens = s->o.n_densities, n_v = ff_sum_opts_out(&s->o);
    const int to = s->n_side - 1;
    int64_t by_gradient = d_cot_gradient != NULL; /* a rank may have no targets */
    job j = backward(s);
    rows v = {0, 0, NULL, NULL}, g = v, q = v;
    FF_TRY(adjoint_allowed(s));
    if (s->dist != NULL) FF_TRY(ff_comm_allreduce(s->dist->comm, &by_gradient, 1, FF_MAX_I64));
    if (stokes && by_gradient != 0)
        return ff_fail(FF_E_UNSUPPORTED, "sum: the adjoint of the Stokeslet's gradient is not there");
    j.spec.in = stokes ? 0u : by_gradient != 0 ? (unsigned)(CHARGE | DIPOLE) : (unsigned)CHARGE;
    j.spec.grad = dipole;
    ff_status st = rows_in(s, to, n_dens * n_v, d_cot_value, &v);
    FF_GO(st);
    if (by_gradient != 0) FF_GO(rows_in(s, to, n_dens * dim, d_cot_gradient, &g));
    FF_GO(agreed(s, rows_new(s, 0, n_dens * s->n_in, d_density, &q)));
    for (int k = 0; k < n_dens; k++) {
        const sum_in in = stokes ? sum_in{NULL, v.own + 3 * k, 0, 3 * n_dens, 3}
                                 : sum_in{v.own + k, by_gradient != 0 ? g.own + k * dim : NULL, n_dens,
                                          n_dens * dim, (int)dim};
        const sum_out out = dipole ? sum_out{NULL, q.own + k * dim, 0, n_dens * dim}
                                   : sum_out{q.own + k * s->n_in, NULL, n_dens * s->n_in, 0};
        FF_GO(operate(&j, &in, &out));
    }
    FF_GO(rows_out(s, &q, NULL));
done:
    rows_free(s, &v), rows_free(s, &g), rows_free(s, &q);
    return st;
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

/* d of j's targets, from the gradients of sums of q there, times w; rows of own points. */
static ff_status points_of(job *j, const double *d_q, const double *d_w, bool add, double *d_out)
{
    ff_status st = FF_OK;
    ff_sum_cuda *s = j->s;
    const int64_t n_v = ff_sum_opts_out(&s->o), n = j->to->n_own, stride = s->o.n_densities * n_v;
    double *g = NULL;
    j->spec.grad = true;
    FF_GO(agreed(s, FF_ALLOC(s->pool, g, n * n_v * s->o.dim)));
    for (int k = 0; k < s->o.n_densities && j->to->n > 0; k++) {
        const sum_in in = input(s, d_q, k);
        const sum_out out = {NULL, g, 0, n_v * s->o.dim};
        FF_GO(operate(j, &in, &out));
        if (n > 0)
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
    const bool one = s->n_side == 1;
    const int64_t width = s->o.n_densities * (int64_t)ff_sum_opts_out(&s->o);
    rows q = {0, 0, NULL, NULL}, v = q, x = q, y = q;
    FF_TRY(adjoint_allowed(s));
    if (s->spec.in == DIPOLE)
        return ff_fail(FF_E_UNSUPPORTED, "sum: derivatives by the positions of dipoles are not there");
    ff_status st = rows_in(s, 0, width, d_density, &q);
    FF_GO(st);
    FF_GO(rows_in(s, s->n_side - 1, width, d_cot_value, &v));
    st = rows_new(s, 0, s->o.dim, d_sources, &y);
    if (st == FF_OK && !one) st = rows_new(s, 1, s->o.dim, d_targets, &x);
    FF_GO(agreed(s, st));
    FF_GO(points_of(&to, q.own, v.own, false, one ? y.own : x.own));
    FF_GO(points_of(&back, v.own, q.own, one, y.own));
    FF_GO(rows_out(s, &y, NULL));
    if (!one) FF_GO(rows_out(s, &x, NULL));
done:
    rows_free(s, &q), rows_free(s, &v), rows_free(s, &x), rows_free(s, &y);
    return st;
}
