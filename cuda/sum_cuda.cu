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
    if (o->n_densities < 1 || o->n_densities > 1024)
        return ff_fail(FF_E_ARG, "sum: n_densities = %d, expected 1 to 1024", o->n_densities);
    if (o->rtol != 0 || o->theta != 0)
        return ff_fail(FF_E_UNSUPPORTED,
                       "sum: on a GPU only theta = 0 (all pairs) is there; give theta 0 and rtol 0");
    return FF_OK;
}

static void choose(ff_sum_cuda *s)
{
    const bool stokes = s->o.kernel == FF_SUM_STOKESLET;
    s->spec = {s->o.kernel,
               stokes        ? 0u
               : s->o.dipole ? (unsigned)DIPOLE
                             : (unsigned)CHARGE,
               s->o.gradient, s->o.parameter};
    s->row = s->o.single ? &sum_row_f32 : &sum_row_f64;
    s->n_in = stokes ? 3 : s->o.dipole ? s->o.dim : 1;
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
    if (s->spec.in != CHARGE)
        FF_TRY(ff_cuda_alloc(s->pool, s->row->more_bytes * (size_t)side->n_pad, &side->d_more));
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
    s->info = {0, 0, SUM_LEAF, sum_targets(s)->n, s->side[0].n, sum_targets(s)->n * s->side[0].n, 0, 0};
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
 * n_dim of every three. */
typedef struct finish_args {
    const double *part;
    const int32_t *order;
    int64_t n, n_pad;
    int n_piece, n_all, n_value, dim, stokes;
    double *value, *gradient;
    int64_t stride_v, stride_g;
} finish_args;

static __global__ void __launch_bounds__(256) sum_finish(const finish_args a)
{
    const int64_t i = ff_thread();
    if (i >= a.n) return;
    const int64_t to = a.order[i];
    for (int c = 0; c < a.n_all; c++) {
        double u = 0;
        for (int p = 0; p < a.n_piece; p++) u += a.part[((int64_t)p * a.n_all + c) * a.n_pad + i];
        const int g = c - a.n_value;
        if (g < 0)
            a.value[to * a.stride_v + c] = u;
        else if (g % 3 < a.dim)
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

static ff_status operate(ff_sum_cuda *s, const double *d_q, int k, double *d_value, double *d_gradient)
{
    ff_status st = FF_OK;
    const sum_side *to = sum_targets(s), *from = &s->side[0];
    const int n_value = s->o.kernel == FF_SUM_STOKESLET ? 3 : 1, n_dens = s->o.n_densities;
    sum_near a = {*to, *from, s->d_frame, {NULL, NULL, NULL}, 0, 0, 0, NULL};
    cut(to, from, &a);
    FF_GO(FF_ALLOC(s->pool, a.d_part, a.n_piece * s->n_out * to->n_pad));
    FF_CU(s->row->density(from, &s->spec, d_q, n_dens, k, s->n_in, s->stream));
    FF_CU(s->row->direct(&s->spec, &a, s->stream));
    if (to->n > 0) {
        const int n_g = n_value * s->o.dim;
        const finish_args f = {a.d_part,
                               to->d_order,
                               to->n,
                               to->n_pad,
                               a.n_piece,
                               s->n_out,
                               n_value,
                               s->o.dim,
                               n_value == 3,
                               d_value + k * n_value,
                               d_gradient != NULL ? d_gradient + k * n_g : NULL,
                               (int64_t)n_dens * n_value,
                               (int64_t)n_dens * n_g};
        sum_finish<<<ff_grid(to->n, 1), 256, 0, s->stream>>>(f);
        FF_CU(cudaGetLastError());
    }
done:
    ff_cuda_free(s->pool, a.d_part);
    return st;
}

extern "C" ff_status ff_sum_cuda_apply(ff_sum_cuda *s, const double *d_density, double *d_value,
                                       double *d_gradient)
{
    if (s->o.gradient != (d_gradient != NULL))
        return ff_fail(FF_E_ARG, "sum: gradient is %s, expected %s by the options",
                       d_gradient != NULL ? "given" : "NULL", s->o.gradient ? "an array" : "NULL");
    for (int k = 0; k < s->o.n_densities; k++) FF_TRY(operate(s, d_density, k, d_value, d_gradient));
    return FF_OK;
}
