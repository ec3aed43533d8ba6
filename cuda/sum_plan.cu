/* Lists of near leaves and far nodes: memory, and a second walk where the first did not fit. */
#include "sum_dist.cuh"

#include <math.h>
#include <string.h>

/* Entries a leaf of the targets, at first: what an even cube takes at theta 0.7, and half as much again. */
static constexpr int FIRST_FAR = 240, FIRST_NEAR = 100, FIRST_NEXT = 120;

static void drop(ff_cuda_pool *pool, sum_plan *p)
{
    const void *block[] = {p->d_far, p->d_near, p->d_next[0], p->d_next[1], p->d_far_item, p->d_near_item};
    for (int k = 0; k < 6; k++) ff_cuda_free(pool, block[k]);
    p->d_far = p->d_near = p->d_next[0] = p->d_next[1] = NULL;
    p->d_far_item = p->d_near_item = NULL;
}

static ff_status walk_once(ff_sum_cuda *s, const sum_side *to, const sum_side *from, sum_plan *p)
{
    ff_status st = FF_OK;
    FF_GO(FF_ALLOC(s->pool, p->d_far, p->cap_far));
    FF_GO(FF_ALLOC(s->pool, p->d_near, p->cap_near));
    FF_GO(FF_ALLOC(s->pool, p->d_far_item, p->cap_far / SUM_PIECE + 1));
    FF_GO(FF_ALLOC(s->pool, p->d_near_item, p->cap_near / SUM_PIECE + 1));
    for (int k = 0; k < 2; k++) FF_GO(FF_ALLOC(s->pool, p->d_next[k], p->cap_next));
    FF_CU(s->row->walk(to, from, s->d_frame, s->o.theta, p, s->stream));
    FF_GO(ff_cuda_get(s->pool, &p->cursors, p->d_cursors, sizeof p->cursors));
    FF_GO(ff_cuda_wait(s->pool));
done:
    return st;
}

/* What was asked for, and some more: levels below one that did not fit have counted too little. */
static bool grow(int64_t *cap, int64_t used)
{
    if (used <= *cap) return false;
    *cap = used + used / 2;
    return true;
}

void sum_plan_drop(ff_sum_cuda *s, sum_plan *p)
{
    drop(s->pool, p);
    const void *block[] = {p->d_far_at,       p->d_far_n,   p->d_near_at,   p->d_near_n,   p->d_far_item_at,
                           p->d_near_item_at, p->d_cursors, p->d_read_node, p->d_read_leaf};
    for (int k = 0; k < 9; k++) ff_cuda_free(s->pool, block[k]);
    for (int k = 0; k < 2 && p->halo != NULL; k++) {
        ff_cuda_free(s->pool, p->halo->rows[k].d_want);
        ff_cuda_free(s->pool, p->halo->rows[k].d_give);
    }
    sum_halo_destroy(&p->halo);
    memset(p, 0, sizeof *p);
}

/* Several ranks: marks of what is read, none yet; theta 0: all leaves. */
static ff_status marks(ff_sum_cuda *s, const sum_side *from, sum_plan *p)
{
    ff_status st = FF_OK;
    const bool listed = s->o.theta > 0;
    const int32_t below = from->n_levels > SUM_SHARED ? from->level_at[SUM_SHARED] : from->n_nodes;
    if (s->dist == NULL || from->n == 0) return FF_OK;
    FF_GO(FF_ALLOC(s->pool, p->d_read_leaf, from->level_n[0]));
    FF_CU(cudaMemsetAsync(p->d_read_leaf, listed ? 0 : 1, (size_t)from->level_n[0], s->stream));
    if (!listed) return FF_OK;
    FF_GO(FF_ALLOC(s->pool, p->d_read_node, below));
    FF_GO(ff_cuda_zero(s->pool, p->d_read_node, (size_t)below));
done:
    return st;
}

static ff_status lists(ff_sum_cuda *s, const sum_side *to, const sum_side *from, sum_plan *p)
{
    ff_status st = FF_OK;
    const int64_t leaves = to->level_n[0], own = (to->hi - to->lo) / SUM_LEAF;
    FF_GO(FF_ALLOC(s->pool, p->d_cursors, 1));
    FF_GO(FF_ALLOC(s->pool, p->d_far_at, to->n_nodes));
    FF_GO(FF_ALLOC(s->pool, p->d_far_n, to->n_nodes));
    FF_GO(FF_ALLOC(s->pool, p->d_far_item_at, to->n_nodes));
    FF_GO(FF_ALLOC(s->pool, p->d_near_item_at, leaves));
    FF_GO(FF_ALLOC(s->pool, p->d_near_at, leaves));
    FF_GO(FF_ALLOC(s->pool, p->d_near_n, leaves));
    FF_GO(ff_cuda_zero(s->pool, p->d_near_n, (size_t)leaves * sizeof *p->d_near_n));
    if (from->n == 0) FF_GO(ff_cuda_zero(s->pool, p->d_far_n, (size_t)to->n_nodes * sizeof *p->d_far_n));
    for (int k = 0; k < 2; k++) {
        FF_GO(FF_ALLOC(s->pool, p->d_next_at[k], leaves));
        FF_GO(FF_ALLOC(s->pool, p->d_next_n[k], leaves));
    }
    p->cap_far = 1024 + FIRST_FAR * own;
    p->cap_near = 1024 + FIRST_NEAR * own;
    p->cap_next = 1024 + FIRST_NEXT * own;
    for (bool again = true; again;) {
        int64_t next = 0;
        FF_GO(walk_once(s, to, from, p));
        for (int l = 0; l < SUM_LEVELS; l++)
            if ((int64_t)p->cursors.next[l] > next) next = (int64_t)p->cursors.next[l];
        again = grow(&p->cap_far, (int64_t)p->cursors.far);
        again = grow(&p->cap_near, (int64_t)p->cursors.near) || again;
        again = grow(&p->cap_next, next) || again;
        if (again) drop(s->pool, p);
    }
done:
    for (int k = 0; k < 2; k++) {
        ff_cuda_free(s->pool, p->d_next[k]);
        ff_cuda_free(s->pool, p->d_next_at[k]);
        ff_cuda_free(s->pool, p->d_next_n[k]);
        p->d_next[k] = NULL;
    }
    return st;
}

ff_status sum_plan_make(ff_sum_cuda *s, int to, int from, sum_plan *p)
{
    ff_status st = marks(s, &s->side[from], p);
    if (st == FF_OK && s->o.theta > 0) st = lists(s, &s->side[to], &s->side[from], p);
    if (s->dist == NULL) return st;
    FF_TRY(ff_agree(s->dist->comm, st));
    return sum_halo_make(s, from, p);
}

int sum_far_stride(int order)
{
    const int n = (order + 1) * (order + 2) * (order + 3) / 6;
    return (n + 3) / 4 * 4;
}

/* ---- options ---- */

/* 99th percentile of errors of order 6 at theta, the worst of value and gradient, of uniform points, a sphere, a plate and two
 * Plummer spheres with densities of both signs (docs/measurements.md, "Sums on a GPU"). Softened and two-dimensional
 * gradients are less those of a few close points; a Stokeslet is a derivative of its expansions. */
enum { N_THETA = 6 };
static const double measured_at[N_THETA] = {0.25, 0.4, 0.5, 0.6, 0.7, 0.8};
static const double measured[3][N_THETA] = {{1.2e-6, 5.8e-5, 3.4e-4, 1.4e-3, 4.0e-3, 1.4e-2},
                                            {9.6e-6, 2.6e-4, 1.4e-3, 4.9e-3, 1.2e-2, 3.0e-2},
                                            {6.3e-5, 7.1e-4, 2.5e-3, 6.9e-3, 1.4e-2, 3.0e-2}};
/* Below the first of them errors fall with theta to this power at least. */
static const double power[3] = {7, 7, 5};
static const double MARGIN = 3;          /* other densities and sets may be worse */
static const double SINGLE_LIMIT = 2e-5; /* as on a CPU; what float32 pairs reach is 5e-6 */

static double theta_for(const ff_sum_opts *o)
{
    const bool smooth = o->gradient && (o->kernel == FF_SUM_PLUMMER || o->kernel == FF_SUM_LOG);
    const int row = o->kernel == FF_SUM_STOKESLET ? 2 : smooth ? 1 : 0;
    const double want = o->rtol / MARGIN, *error = measured[row];
    if (want <= error[0]) return measured_at[0] * pow(want / error[0], 1 / power[row]);
    for (int k = 1; k < N_THETA; k++)
        if (want < error[k]) {
            const double share = log(want / error[k - 1]) / log(error[k] / error[k - 1]);
            return measured_at[k - 1] * pow(measured_at[k] / measured_at[k - 1], share);
        }
    return measured_at[N_THETA - 1];
}

ff_status sum_choose(ff_sum_opts *o)
{
    if (!(o->rtol >= 0 && o->rtol < 1))
        return ff_fail(FF_E_ARG, "sum: rtol = %g, expected 0 < rtol < 1, or 0 for theta and order", o->rtol);
    if (o->single && o->rtol > 0 && o->rtol < SINGLE_LIMIT)
        return ff_fail(FF_E_ARG, "sum: rtol = %g is out of reach of float32 (%g); use float64", o->rtol,
                       SINGLE_LIMIT);
    if (o->rtol > 0) {
        o->order = 6;
        o->theta = theta_for(o);
    }
    if (!(o->theta >= 0 && o->theta < 1))
        return ff_fail(FF_E_ARG, "sum: theta = %g, expected 0 <= theta < 1 on a GPU", o->theta);
    if (o->theta > 0 && (o->order < 3 || o->order > 6))
        return ff_fail(FF_E_ARG, "sum: order = %d, expected 3 to 6 on a GPU", o->order);
    return FF_OK;
}
