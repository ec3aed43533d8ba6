/* farfield_plan.h: trees over points and interaction plans between two point sets, for any pair kernel.
 *
 * Points go in, a plan comes out: which pairs of points are evaluated one by one (near field) and which
 * through nodes of the trees (far field), such that every (target, source) pair is covered exactly once. No
 * model is needed; examples/plan_counts.c sums 1/R through a plan.
 *
 *     targets x ---- ff_tree_create ----.
 *                                        >-- ff_plan_create -- rows of lists, counts, work, digest
 *     sources y ---- ff_tree_create ----'    ff_dtt_walk: the same rows, handed to a callback, nothing kept
 *
 * Points are sorted along a Morton curve; a node is a range [start, start + count) of SORTED positions, and
 * order[k] is the original index at sorted position k. Node ids are preorder: root 0, left child id + 1;
 * ancestors have smaller ids, leaves ascend with their points. All decisions are float32 and the same on
 * every machine. */
#ifndef FARFIELD_PLAN_H
#define FARFIELD_PLAN_H

#include "farfield.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ff_tree ff_tree;
typedef struct ff_plan ff_plan;

/* ---- trees ---- */

typedef struct ff_tree_opts {
    size_t size;   /* sizeof(ff_tree_opts): fields can be added later */
    int leaf_size; /* points of a leaf at most, 1 to 64 */
} ff_tree_opts;
#define FF_TREE_OPTS_INIT                                                                                    \
    {                                                                                                        \
        sizeof(ff_tree_opts), 1                                                                              \
    }

/* Build the tree of n points.                                                                           Local
 *   x       [n][dim] coordinates, dim 2 or 3, any order; copied. The _f64 variant rounds them to float32
 * first opts    from FF_TREE_OPTS_INIT; NULL: the defaults order   [n] filled with the original index at each
 * sorted position; owned by the caller, may be NULL out     new tree, owned by the caller, freed with
 * ff_tree_destroy(); NULL on failure. n = 0 is valid OpenMP-parallel; the same bits for any number of
 * threads. Memory: about 140 bytes a point at leaf_size 1. Errors: FF_E_ARG dim, leaf_size, n < 0 or n above
 * 2^30 points; FF_E_INPUT a coordinate that is not finite (or, from float64, too large for float32), named by
 * its index; FF_E_MEM. */
FF_API ff_status ff_tree_create(const float *x, int64_t n, int dim, const ff_tree_opts *opts, int64_t *order,
                                ff_tree **out);
FF_API ff_status ff_tree_create_f64(const double *x, int64_t n, int dim, const ff_tree_opts *opts,
                                    int64_t *order, ff_tree **out);

/* Frees the tree and writes NULL; NULL is fine. Local */
FF_API void ff_tree_destroy(ff_tree **tree);

FF_API int64_t ff_tree_n_points(const ff_tree *tree); /* Local, like all queries */
FF_API int64_t ff_tree_n_nodes(const ff_tree *tree);
FF_API int64_t ff_tree_n_leaves(const ff_tree *tree);

typedef struct ff_node_info {
    int64_t start, count; /* sorted positions [start, start + count) */
    int64_t left, right;  /* ids of the children, -1 on a leaf */
    float lo[3], hi[3];   /* box; lo[2] = hi[2] = 0 in 2D */
    float diam2;          /* squared diagonal of the box */
} ff_node_info;
/* Errors: FF_E_ARG node outside 0 .. n_nodes - 1. Local */
FF_API ff_status ff_tree_node(const ff_tree *tree, int64_t node, ff_node_info *out);

/* ---- plans ---- */

typedef struct ff_plan_opts {
    size_t size;            /* sizeof(ff_plan_opts): fields can be added later */
    double theta;           /* far if gap * theta > sum of the diameters; 0: nothing is far, exact sums */
    bool expand_far;        /* far pairs stand for (each point of T, S) instead of (T, S) */
    int64_t t_begin, t_end; /* sorted targets to cover; t_end = -1: all */
} ff_plan_opts;
#define FF_PLAN_OPTS_INIT                                                                                    \
    {                                                                                                        \
        sizeof(ff_plan_opts), 1.0, false, 0, -1                                                              \
    }

/* All interactions of one target node T (a row). Lists ascend; ids are node ids of the two trees. A pair of
 * leaves that is not far as a whole is resolved by its points, with n_t and n_s the leaves' counts: near-near
 * (i, j)  for i in t_mask, j in s_mask      near-far (i, S)  for i < n_t not in t_mask far-near  (T, j)  for
 * j < n_s not in s_mask, added to the targets in t_mask; none where t_mask is 0 Bit i is the point at sorted
 * position start + i. s_mask is 0 where t_mask is 0. */
typedef struct ff_dtt_lists {
    int32_t t;            /* target node */
    const int32_t *far_s; /* [n_far] far source nodes */
    int64_t n_far;
    const int32_t *leaf_s;  /* [n_leaf] source leaves of undecided leaf pairs (t is a leaf then) */
    const uint64_t *t_mask; /* [n_leaf] target points that no near-far entry covers */
    const uint64_t *s_mask; /* [n_leaf] source points that no far-near entry covers */
    int64_t n_leaf;
} ff_dtt_lists;

/* Pair evaluations by kind, and the lengths of the lists. With expand_far, near_far holds the expansion and
 * far_far is 0. Counts over a partition of the targets add up to those of the whole. */
typedef struct ff_dtt_counts {
    int64_t near_near, near_far, far_near, far_far;
    int64_t far_node_pairs, leaf_pairs;
} ff_dtt_counts;

/* Build and keep the plan of targets against sources.                                                   Local
 *   targets, sources  trees of one dimension, borrowed, needed again by the calls below that name them;
 * either may be empty, and both may be the same tree opts              from FF_PLAN_OPTS_INIT; NULL: the
 * defaults out               new plan, owned by the caller, freed with ff_plan_destroy(); NULL on failure
 * OpenMP-parallel; the same bits for any number of threads. Memory: 4 bytes a far pair, 4 (leaf_size 1) or 20
 * bytes a leaf pair, 20 bytes a row: ask ff_plan_count() first. Errors: FF_E_ARG theta negative or not
 * finite, dimensions that differ, a range outside the targets; FF_E_MEM. */
FF_API ff_status ff_plan_create(const ff_tree *targets, const ff_tree *sources, const ff_plan_opts *opts,
                                ff_plan **out);

/* Counts of the plan that ff_plan_create would build; keeps nothing.                                    Local
 * Errors: as ff_plan_create. */
FF_API ff_status ff_plan_count(const ff_tree *targets, const ff_tree *sources, const ff_plan_opts *opts,
                               ff_dtt_counts *counts);

/* Hands every row of targets [t_begin, t_end) to emit, in order, and keeps nothing.                     Local
 * The lists are valid during the call only; a failure of emit ends the walk and is returned. Re-entrant.
 * Errors: as ff_plan_create; whatever emit returns. */
typedef ff_status (*ff_dtt_emit)(void *ctx, const ff_dtt_lists *lists);
FF_API ff_status ff_dtt_walk(const ff_tree *targets, const ff_tree *sources, double theta, int64_t t_begin,
                             int64_t t_end, ff_dtt_emit emit, void *ctx);

/* Frees the plan and writes NULL; NULL is fine. Local */
FF_API void ff_plan_destroy(ff_plan **plan);

FF_API void ff_plan_counts(const ff_plan *plan, ff_dtt_counts *out); /* Local */

/* Rows are ordered by target node; nodes without pairs have none. Row r's arrays are the plan's own. Local */
FF_API int64_t ff_plan_n_rows(const ff_plan *plan);
FF_API void ff_plan_row(const ff_plan *plan, int64_t r, ff_dtt_lists *out);

/* Checks that every (target, source) pair of points is covered exactly once, ids are in range, and lists
 * ascend without duplicates. Needs a byte and some time for every pair: small sets only. Local Errors:
 * FF_E_CHECK, with what is wrong; FF_E_MEM. */
FF_API ff_status ff_plan_validate(const ff_plan *plan, const ff_tree *targets, const ff_tree *sources);

/* A number that depends on the set of pairs alone, not on order, threads or how targets were divided: digests
 * of the parts of a partition of the targets add up, modulo 2^64, to the digest of the whole. Local */
FF_API uint64_t ff_plan_digest(const ff_plan *plan, const ff_tree *targets, const ff_tree *sources);

/* Pair evaluations that each target leaf causes: work [ff_tree_n_leaves(targets)], leaves in Morton order. A
 * far pair of an inner node (not expanded) is evaluated once and counted at the node's first leaf, so that
 * the sum is the total of ff_plan_counts. Local Errors: FF_E_MEM. */
FF_API ff_status ff_plan_leaf_work(const ff_plan *plan, const ff_tree *targets, const ff_tree *sources,
                                   int64_t *work);

#ifdef __cplusplus
}
#endif
#endif
