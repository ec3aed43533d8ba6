/* Sums on a GPU: options, geometry. */
#include "sum_dist.cuh"

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
    side->n = side->n_own = n;
    side->n_pad = side->hi = (n + 63) / 64 * 64;
    for (int32_t k = (int32_t)(side->n_pad / SUM_LEAF); k > 0; k = k > 1 ? (k + 1) / 2 : 0) {
        side->level_at[side->n_levels] = at;
        side->level_n[side->n_levels++] = k;
        at += k;
    }
    side->n_nodes = at;
}

static ff_status side_alloc(ff_sum_cuda *s, sum_side *side)
{
    FF_TRY(ff_cuda_alloc(s->pool, s->row->point_bytes * (size_t)side->n_pad, &side->d_point));
    FF_TRY(ff_cuda_alloc(s->pool, s->row->node_bytes * (size_t)side->n_nodes, &side->d_node));
    return ff_cuda_alloc(s->pool, s->row->box_bytes * (size_t)side->n_nodes, &side->d_box);
}

/* d_x [n] as given. */
static ff_status side_build(ff_sum_cuda *s, int k, const double *d_x, int64_t n)
{
    ff_status st = FF_OK;
    sum_side *side = &s->side[k];
    side_shape(side, n);
    FF_TRY(sum_sort(s->pool, d_x, s->o.dim, s->d_frame, side));
    FF_TRY(side_alloc(s, side));
    FF_CU(s->row->place(side, d_x, s->o.dim, s->d_frame, SUM_UP | SUM_DOWN, s->stream));
done:
    return st;
}

/* The same of points that all ranks gave. Collective */
static ff_status side_build_dist(ff_sum_cuda *s, int k, const double *d_x, int64_t n)
{
    ff_status st = FF_OK;
    sum_side *side = &s->side[k];
    double *d_own = NULL;
    side_shape(side, n);
    FF_GO(sum_share_points(s, k, d_x, &d_own));
    st = side_alloc(s, side);
    if (st == FF_OK && s->row->place(side, d_own, s->o.dim, s->d_frame, SUM_UP, s->stream) != cudaSuccess)
        st = ff_fail(FF_E_INTERNAL, "cuda: a launch failed: boxes of nodes");
    FF_GO(ff_agree(s->dist->comm, st));
    FF_GO(sum_share_nodes(s, k));
    if (s->row->place(side, d_own, s->o.dim, s->d_frame, SUM_DOWN, s->stream) != cudaSuccess)
        st = ff_fail(FF_E_INTERNAL, "cuda: a launch failed: places of points");
    st = ff_agree(s->dist->comm, st);
done:
    ff_cuda_free(s->pool, d_own);
    return st;
}

static void side_drop(ff_sum_cuda *s, int k)
{
    const sum_side *side = &s->side[k];
    const void *block[] = {side->d_order, side->d_inverse, side->d_point,
                           side->d_more,  side->d_node,    side->d_box};
    for (int i = 0; i < 6; i++) ff_cuda_free(s->pool, block[i]);
    memset(&s->side[k], 0, sizeof s->side[k]);
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

/* Counts of pairs, over all ranks. Collective with ranks */
static ff_status count_pairs(ff_sum_cuda *s)
{
    const sum_cursors *c = &s->plan.cursors;
    int64_t pairs[2] = {(int64_t)c->near * SUM_LEAF * SUM_LEAF, (int64_t)(c->far - c->shared)};
    s->info = {
        s->o.theta, s->o.order, SUM_LEAF, sum_targets(s)->n, s->side[0].n, sum_targets(s)->n * s->side[0].n,
        0,          1};
    if (s->o.theta == 0) return FF_OK;
    if (s->dist != NULL) FF_TRY(ff_comm_allreduce(s->dist->comm, pairs, 2, FF_SUM_I64));
    s->info.direct_pairs = pairs[0];
    s->info.far_pairs = pairs[1];
    return FF_OK;
}

static ff_status make_plans(ff_sum_cuda *s)
{
    const int to = s->n_side - 1;
    if (s->dist == NULL && s->o.theta == 0) return FF_OK;
    FF_TRY(sum_plan_make(s, to, 0, &s->plan));
    return to == 1 && s->o.adjoint ? sum_plan_make(s, 0, 1, &s->plan_back) : FF_OK;
}

static ff_status build(ff_sum_cuda *s, const double *const d_x[2], const int64_t n[2])
{
    for (int k = 0; k < s->n_side; k++)
        if (n[k] < 0 || n[k] > INT32_MAX - 64)
            return ff_fail(FF_E_ARG, "sum: %lld points, expected 0 to %d on one GPU", (long long)n[k],
                           INT32_MAX - 64);
    FF_TRY(FF_ALLOC(s->pool, s->d_frame, 1));
    FF_TRY(sum_frame_box(s->pool, d_x, n, s->o.dim, s->d_frame));
    FF_TRY(sum_frame_finish(s->pool, s->d_frame));
    for (int k = 0; k < s->n_side; k++) FF_TRY(side_build(s, k, d_x[k], n[k]));
    FF_TRY(check_frame(s));
    FF_TRY(make_plans(s));
    return count_pairs(s);
}

/* Points of all ranks, and where this one's begin. Collective */
static ff_status count_points(ff_sum_cuda *s, const int64_t n[2], int64_t all[2])
{
    ff_status st = FF_OK;
    sum_dist *d = s->dist;
    int64_t *each = NULL;
    all[0] = all[1] = 0;
    FF_TRY(ff_new_all(d->comm, &each, (size_t)(2 * d->comm->size), sizeof *each, false));
    FF_GO(ff_comm_allgather(d->comm, n, 2 * sizeof *n, each));
    for (int k = 0; k < s->n_side; k++) {
        for (int r = 0; r < d->comm->size; r++) {
            const int64_t of = each[2 * r + k];
            if (of < 0 && st == FF_OK) st = ff_fail(FF_E_ARG, "sum: rank %d: %lld points", r, (long long)of);
            if (r == d->comm->rank) d->share[k].first_home = all[k];
            all[k] += of;
        }
        d->share[k].n_home = n[k];
        if (all[k] > INT32_MAX - 64 && st == FF_OK)
            st = ff_fail(FF_E_ARG, "sum: %lld points, expected 0 to %d on GPUs", (long long)all[k],
                         INT32_MAX - 64);
    }
done:
    ff_free(each);
    return st;
}

/* Trees and lists; again: some side should be cut at other places. Collective */
static ff_status build_once(ff_sum_cuda *s, const double *const d_x[2], const int64_t all[2], bool *again)
{
    *again = false;
    for (int k = 0; k < s->n_side; k++) FF_TRY(side_build_dist(s, k, d_x[k], all[k]));
    FF_TRY(make_plans(s));
    if (s->o.theta == 0) return FF_OK;
    if (s->n_side == 2 && s->o.adjoint) FF_TRY(sum_dist_balance(s, 0, &s->plan_back, again));
    return sum_dist_balance(s, s->n_side - 1, &s->plan, again);
}

/* Collective */
static ff_status build_dist(ff_sum_cuda *s, const double *const d_x[2], const int64_t n[2])
{
    int64_t all[2];
    bool again;
    ff_comm *comm = s->dist->comm;
    FF_TRY(count_points(s, n, all));
    ff_status st = FF_ALLOC(s->pool, s->d_frame, 1);
    if (st == FF_OK) st = sum_frame_box(s->pool, d_x, n, s->o.dim, s->d_frame);
    FF_TRY(ff_agree(comm, st));
    st = sum_dist_frame(s);
    if (st == FF_OK) st = sum_frame_finish(s->pool, s->d_frame);
    if (st == FF_OK) st = check_frame(s);
    FF_TRY(ff_agree(comm, st));
    FF_TRY(build_once(s, d_x, all, &again));
    if (again) {
        sum_plan_drop(s, &s->plan);
        sum_plan_drop(s, &s->plan_back);
        for (int k = 0; k < s->n_side; k++) side_drop(s, k);
        FF_TRY(build_once(s, d_x, all, &again));
    }
    return count_pairs(s);
}

static ff_status create(ff_comm *comm, const ff_device_comm *device, const double *const d_x[2],
                        const int64_t n[2], bool two, const ff_sum_opts *opts, void *stream, ff_sum_cuda *s)
{
    ff_status st = FF_OK;
    FF_GO(check_opts(opts, &s->o));
    choose(s);
    s->n_side = two ? 2 : 1;
    s->stream = (cudaStream_t)stream;
    FF_CU(cudaGetDevice(&s->device));
    FF_GO(ff_cuda_pool_create(stream, &s->pool));
    if (comm == NULL || comm->size == 1) return build(s, d_x, n);
done:
    if (comm == NULL || comm->size == 1) return st;
    FF_TRY(ff_agree(comm, st));
    FF_TRY(sum_dist_create(s, comm, device));
    return build_dist(s, d_x, n);
}

extern "C" ff_status ff_sum_cuda_create(const double *d_targets, int64_t n_targets, const double *d_sources,
                                        int64_t n_sources, const ff_sum_opts *opts, void *stream,
                                        ff_sum_cuda **out)
{
    const double *const d_x[2] = {d_sources, d_targets};
    const int64_t n[2] = {n_sources, n_targets};
    ff_sum_cuda *s = (ff_sum_cuda *)ff_mem_alloc0(1, sizeof *s);
    *out = NULL;
    if (s == NULL) return FF_E_MEM;
    const ff_status st = create(NULL, NULL, d_x, n, d_targets != NULL, opts, stream, s);
    if (st == FF_OK)
        *out = s;
    else
        ff_sum_cuda_destroy(&s);
    return st;
}

extern "C" ff_status ff_sum_cuda_create_dist(ff_comm *comm, const ff_device_comm *device,
                                             const double *d_targets, int64_t n_targets,
                                             const double *d_sources, int64_t n_sources,
                                             const ff_sum_opts *opts, void *stream, ff_sum_cuda **out)
{
    int64_t two = d_targets != NULL; /* a rank may have none of the targets */
    const double *const d_x[2] = {d_sources, d_targets};
    ff_sum_cuda *s = NULL;
    *out = NULL;
    FF_TRY(ff_comm_allreduce(comm, &two, 1, FF_MAX_I64));
    FF_TRY(ff_new_all(comm, &s, 1, sizeof *s, true));
    const int64_t n[2] = {n_sources, d_targets != NULL ? n_targets : 0};
    const ff_status st = create(comm, device, d_x, n, two != 0, opts, stream, s);
    if (st == FF_OK)
        *out = s;
    else
        ff_sum_cuda_destroy(&s);
    return st;
}

extern "C" void ff_sum_cuda_destroy(ff_sum_cuda **sp)
{
    ff_sum_cuda *s = *sp;
    if (s == NULL) return;
    sum_halo_destroy(&s->plan.halo);
    sum_halo_destroy(&s->plan_back.halo);
    if (s->dist != NULL && s->stream != NULL) (void)cudaStreamSynchronize(s->stream); /* pinned buffers */
    sum_dist_destroy(s);
    ff_cuda_pool_destroy(&s->pool); /* and all blocks */
    ff_free(s);
    *sp = NULL;
}

extern "C" void ff_sum_cuda_get_info(const ff_sum_cuda *s, ff_sum_info *out)
{
    *out = s->info;
}

extern "C" ff_status ff_sum_cuda_get_traffic(const ff_sum_cuda *s, ff_sum_cuda_traffic *out)
{
    *out = {0, 1, false};
    if (s->dist != NULL) *out = s->dist->traffic;
    return FF_OK;
}
