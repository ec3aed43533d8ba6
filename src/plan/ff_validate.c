#include "ff_plan.h"

#include "ff_mem.h"

/* Coverage table: cell (target, source) of the plan's range holds how often the pair was met. */
typedef struct table {
    const ff_plan *plan;
    const ff_tree *t, *s;
    uint8_t *times; /* [targets of the range][sources] */
} table;

static ff_status mark(const table *c, int64_t target, int64_t source)
{
    if (target < c->plan->t_begin || target >= c->plan->t_end) return FF_OK;
    uint8_t *cell = &c->times[(target - c->plan->t_begin) * c->s->n_points + source];
    if (*cell != 0)
        return ff_fail(FF_E_CHECK, "plan: sorted target %lld and source %lld are paired twice, expected once",
                       (long long)target, (long long)source);
    *cell = 1;
    return FF_OK;
}

static ff_status mark_far(const table *c, int32_t t, int32_t s)
{
    for (int64_t i = 0; i < c->t->count[t]; i++)
        for (int64_t j = 0; j < c->s->count[s]; j++) FF_TRY(mark(c, c->t->start[t] + i, c->s->start[s] + j));
    return FF_OK;
}

/* Near-near, near-far and far-near parts of a leaf pair, each marked from its own definition. */
static ff_status mark_leaf(const table *c, int32_t t, int32_t s, uint64_t t_mask, uint64_t s_mask)
{
    int64_t n_t = c->t->count[t], n_s = c->s->count[s];
    if ((n_t < 64 && t_mask >> n_t != 0) || (n_s < 64 && s_mask >> n_s != 0) || (t_mask == 0 && s_mask != 0))
        return ff_fail(
            FF_E_CHECK,
            "plan: leaf pair (%lld, %lld): masks %llx and %llx, expected bits of %lld and %lld points",
            (long long)c->t->id[t], (long long)c->s->id[s], (unsigned long long)t_mask,
            (unsigned long long)s_mask, (long long)n_t, (long long)n_s);
    for (int64_t i = 0; i < n_t; i++) {
        for (int64_t j = 0; j < n_s; j++) {
            bool i_near = t_mask >> i & 1, j_near = s_mask >> j & 1;
            bool near_near = i_near && j_near, near_far = !i_near, far_near = i_near && !j_near;
            if (near_near || near_far || far_near) FF_TRY(mark(c, c->t->start[t] + i, c->s->start[s] + j));
        }
    }
    return FF_OK;
}

static ff_status check_ascending(const ff_tree *s, const int32_t *list, int64_t n, int64_t row,
                                 const char *what)
{
    for (int64_t k = 0; k < n; k++) {
        if (list[k] < 0 || list[k] >= s->n_nodes)
            return ff_fail(FF_E_CHECK, "plan: row %lld: %s source %d, expected 0 to %d", (long long)row, what,
                           list[k], s->n_nodes - 1);
        if (k > 0 && list[k] <= list[k - 1])
            return ff_fail(FF_E_CHECK, "plan: row %lld: %s source %d after %d, expected ascending ids",
                           (long long)row, what, list[k], list[k - 1]);
    }
    return FF_OK;
}

static ff_status check_row(const table *c, int64_t r, int32_t previous)
{
    ff_dtt_lists l;
    ff_plan_row(c->plan, r, &l);
    if (l.t <= previous || l.t >= c->t->n_nodes)
        return ff_fail(FF_E_CHECK, "plan: row %lld: target %d after %d, expected ascending ids below %d",
                       (long long)r, l.t, previous, c->t->n_nodes);
    if (l.n_leaf > 0 && c->t->node[l.t].right != FF_NODE_LEAF)
        return ff_fail(FF_E_CHECK, "plan: row %lld: leaf pairs of target %d, which is no leaf", (long long)r,
                       l.t);
    FF_TRY(check_ascending(c->s, l.far_s, l.n_far, r, "far"));
    FF_TRY(check_ascending(c->s, l.leaf_s, l.n_leaf, r, "leaf"));
    for (int64_t k = 0; k < l.n_far; k++) FF_TRY(mark_far(c, l.t, l.far_s[k]));
    for (int64_t k = 0; k < l.n_leaf; k++) {
        if (c->s->node[l.leaf_s[k]].right != FF_NODE_LEAF)
            return ff_fail(FF_E_CHECK, "plan: row %lld: leaf pair with source %d, which is no leaf",
                           (long long)r, l.leaf_s[k]);
        FF_TRY(mark_leaf(c, l.t, l.leaf_s[k], l.t_mask[k], l.s_mask[k]));
    }
    return FF_OK;
}

ff_status ff_plan_validate(const ff_plan *plan, const ff_tree *targets, const ff_tree *sources)
{
    ff_status st = FF_OK;
    table c = {plan, targets, sources, NULL};
    int64_t n_cells = (plan->t_end - plan->t_begin) * sources->n_points;
    FF_GO(FF_NEW0(c.times, n_cells));
    for (int64_t r = 0; r < plan->n_rows; r++) FF_GO(check_row(&c, r, r > 0 ? plan->t_node[r - 1] : -1));
    for (int64_t k = 0; k < n_cells; k++) {
        if (c.times[k] != 0) continue;
        FF_GO(ff_fail(FF_E_CHECK, "plan: sorted target %lld and source %lld are not paired, expected once",
                      (long long)(plan->t_begin + k / sources->n_points),
                      (long long)(k % sources->n_points)));
    }
done:
    ff_free(c.times);
    return st;
}
