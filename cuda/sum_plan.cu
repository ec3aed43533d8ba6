/* Lists of near leaves and far nodes: memory, and a second walk where the first did not fit. */
#include "sum.cuh"

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

ff_status sum_plan_make(ff_sum_cuda *s, const sum_side *to, const sum_side *from, sum_plan *p)
{
    ff_status st = FF_OK;
    const int64_t leaves = to->level_n[0];
    FF_GO(FF_ALLOC(s->pool, p->d_cursors, 1));
    FF_GO(FF_ALLOC(s->pool, p->d_far_at, to->n_nodes));
    FF_GO(FF_ALLOC(s->pool, p->d_far_n, to->n_nodes));
    FF_GO(FF_ALLOC(s->pool, p->d_far_item_at, to->n_nodes));
    FF_GO(FF_ALLOC(s->pool, p->d_near_item_at, leaves));
    FF_GO(FF_ALLOC(s->pool, p->d_near_at, leaves));
    FF_GO(FF_ALLOC(s->pool, p->d_near_n, leaves));
    FF_GO(ff_cuda_zero(s->pool, p->d_near_n, (size_t)leaves * sizeof *p->d_near_n));
    for (int k = 0; k < 2; k++) {
        FF_GO(FF_ALLOC(s->pool, p->d_next_at[k], leaves));
        FF_GO(FF_ALLOC(s->pool, p->d_next_n[k], leaves));
    }
    p->cap_far = 1024 + FIRST_FAR * leaves;
    p->cap_near = 1024 + FIRST_NEAR * leaves;
    p->cap_next = 1024 + FIRST_NEXT * leaves;
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

int sum_far_stride(int order)
{
    const int n = (order + 1) * (order + 2) * (order + 3) / 6;
    return (n + 3) / 4 * 4;
}

ff_status sum_choose(ff_sum_opts *o)
{
    if (o->rtol != 0)
        return ff_fail(FF_E_UNSUPPORTED,
                       "sum: rtol = %g: a GPU has no table to choose from; give theta and order", o->rtol);
    if (!(o->theta >= 0 && o->theta < 1))
        return ff_fail(FF_E_ARG, "sum: theta = %g, expected 0 <= theta < 1 on a GPU", o->theta);
    if (o->theta > 0 && (o->order < 3 || o->order > 6))
        return ff_fail(FF_E_ARG, "sum: order = %d, expected 3 to 6 on a GPU", o->order);
    return FF_OK;
}
