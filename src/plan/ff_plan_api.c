/* What farfield_plan.h adds to the functions that it exports as they are: options, float64 points, queries.
 */
#include "farfield_plan.h"

#include "ff_mem.h"
#include "ff_plan.h"

#include <math.h>
#include <string.h>

/* Copies a caller's options over the defaults in ours; a caller built against an older header passes fewer
 * bytes. */
static ff_status take_opts(const char *what, const void *opts, void *ours, size_t size)
{
    size_t given;
    if (opts == NULL) return FF_OK;
    memcpy(&given, opts, sizeof given);
    if (given < sizeof given || given > size)
        return ff_fail(FF_E_ARG,
                       "%s: size = %zu, expected at most %zu; initialise with %s_INIT of this version", what,
                       given, size, what);
    memcpy(ours, opts, given);
    return FF_OK;
}

ff_status ff_tree_create(const float *x, int64_t n, int dim, const ff_tree_opts *opts, int64_t *order,
                         ff_tree **out)
{
    ff_tree_opts o = FF_TREE_OPTS_INIT;
    *out = NULL;
    FF_TRY(take_opts("FF_TREE_OPTS", opts, &o, sizeof o));
    if (o.leaf_size > FF_LEAF_MAX)
        return ff_fail(FF_E_ARG, "tree: leaf_size = %d, expected 1 to %d", o.leaf_size, FF_LEAF_MAX);
    return ff_tree_build(x, n, dim, o.leaf_size, order, out);
}

static ff_status narrow(const double *x, int64_t n, int dim, float *narrowed)
{
    for (int64_t i = 0; i < n * dim; i++) {
        narrowed[i] = (float)x[i];
        if (!isfinite(narrowed[i]))
            return ff_fail(FF_E_INPUT,
                           "points: point %lld: %c = %g, expected a finite coordinate within float32",
                           (long long)(i / dim), "xyz"[i % dim], x[i]);
    }
    return FF_OK;
}

ff_status ff_tree_create_f64(const double *x, int64_t n, int dim, const ff_tree_opts *opts, int64_t *order,
                             ff_tree **out)
{
    ff_status st = FF_OK;
    float *narrowed = NULL;
    *out = NULL;
    if (n < 0 || (dim != 2 && dim != 3))
        return ff_tree_create(NULL, n, dim, opts, order, out); /* says why not */
    FF_GO(FF_NEW(narrowed, n * dim));
    FF_GO(narrow(x, n, dim, narrowed));
    FF_GO(ff_tree_create(narrowed, n, dim, opts, order, out));
done:
    ff_free(narrowed);
    return st;
}

int64_t ff_tree_n_points(const ff_tree *tree)
{
    return tree->n_points;
}
int64_t ff_tree_n_nodes(const ff_tree *tree)
{
    return tree->n_nodes;
}
int64_t ff_tree_n_leaves(const ff_tree *tree)
{
    return (tree->n_nodes + INT64_C(1)) / 2;
}

ff_status ff_tree_node(const ff_tree *tree, int64_t node, ff_node_info *out)
{
    if (node < 0 || node >= tree->n_nodes)
        return ff_fail(FF_E_ARG, "node = %lld, expected 0 to %lld", (long long)node,
                       (long long)tree->n_nodes - 1);
    const ff_node *n = &tree->node[node];
    bool leaf = n->right == FF_NODE_LEAF;
    *out = (ff_node_info){.start = tree->start[node],
                          .count = tree->count[node],
                          .left = leaf ? -1 : node + 1,
                          .right = leaf ? -1 : n->right,
                          .diam2 = n->diam2};
    memcpy(out->lo, n->lo, sizeof out->lo);
    memcpy(out->hi, n->hi, sizeof out->hi);
    return FF_OK;
}

/* Defaults, then the caller's, with the end of the range made definite. */
static ff_status plan_opts(const ff_tree *targets, const ff_plan_opts *opts, ff_plan_opts *o)
{
    *o = (ff_plan_opts)FF_PLAN_OPTS_INIT;
    FF_TRY(take_opts("FF_PLAN_OPTS", opts, o, sizeof *o));
    if (o->t_end == -1) o->t_end = targets->n_points;
    return FF_OK;
}

ff_status ff_plan_create(const ff_tree *targets, const ff_tree *sources, const ff_plan_opts *opts,
                         ff_plan **out)
{
    ff_plan_opts o;
    *out = NULL;
    FF_TRY(plan_opts(targets, opts, &o));
    return ff_plan_build(targets, sources, o.theta, o.expand_far, o.t_begin, o.t_end, out);
}

ff_status ff_plan_count(const ff_tree *targets, const ff_tree *sources, const ff_plan_opts *opts,
                        ff_dtt_counts *counts)
{
    ff_plan_opts o;
    FF_TRY(plan_opts(targets, opts, &o));
    return ff_dtt_count_range(targets, sources, o.theta, o.expand_far, o.t_begin, o.t_end, counts, NULL, 0,
                              NULL);
}

void ff_plan_counts(const ff_plan *plan, ff_dtt_counts *out)
{
    *out = plan->counts;
}
int64_t ff_plan_n_rows(const ff_plan *plan)
{
    return plan->n_rows;
}

/* Index of the leaf that holds sorted position pos: leaf starts ascend. */
static int64_t find_leaf(const int64_t *leaf_start, int64_t n_leaves, int64_t pos)
{
    int64_t lo = 0, hi = n_leaves;
    while (hi - lo > 1) {
        int64_t mid = lo + (hi - lo) / 2;
        if (leaf_start[mid] <= pos)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

/* Adds one row to the leaves of its node, each as far as it lies in the plan's range. */
static void add_row_work(const ff_plan *plan, const ff_tree *targets, const ff_tree *sources,
                         const ff_dtt_lists *l, const int64_t *leaf_start, int64_t n_leaves, int64_t *work)
{
    int64_t end = targets->start[l->t] + targets->count[l->t];
    int64_t leaf = find_leaf(leaf_start, n_leaves, targets->start[l->t]);
    for (; leaf < n_leaves && leaf_start[leaf] < end; leaf++) {
        int64_t a = leaf_start[leaf], b = leaf + 1 < n_leaves ? leaf_start[leaf + 1] : targets->n_points;
        if (a < plan->t_begin) a = plan->t_begin;
        if (b > plan->t_end) b = plan->t_end;
        if (a >= b) continue;
        ff_dtt_counts c = {0};
        ff_dtt_count(targets, sources, l, plan->expand_far, a, b, &c);
        work[leaf] += c.near_near + c.near_far + c.far_near + c.far_far;
        if (!plan->expand_far && l->n_leaf == 0) break; /* counted once, at the first leaf */
    }
}

ff_status ff_plan_leaf_work(const ff_plan *plan, const ff_tree *targets, const ff_tree *sources,
                            int64_t *work)
{
    ff_status st = FF_OK;
    int64_t *leaf_start = NULL, n_leaves = ff_tree_n_leaves(targets), k = 0;
    FF_GO(FF_NEW(leaf_start, n_leaves));
    for (int64_t i = 0; i < targets->n_nodes; i++)
        if (targets->node[i].right == FF_NODE_LEAF) leaf_start[k++] = targets->start[i];
    for (k = 0; k < n_leaves; k++) work[k] = 0;
    for (int64_t r = 0; r < plan->n_rows; r++) {
        ff_dtt_lists l;
        ff_plan_row(plan, r, &l);
        add_row_work(plan, targets, sources, &l, leaf_start, n_leaves, work);
    }
done:
    ff_free(leaf_start);
    return st;
}
