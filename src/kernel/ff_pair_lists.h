/* A plan expanded for backends that take whole layers: every target has a list of source ids, cut into segments of
 * one id array, so that targets under one node share its row and nothing is stored per point pair.
 *
 * Targets of one source boundary, over all target clouds, in this order:
 *     own points of cloud 0, 1, ...     near and near-far pairs, expanded far rows
 *     nodes with a far row              far-far pairs (plans without expansion), once a node
 *     leaf pairs with far-near pairs    once a leaf pair; their value goes to the leaf points in mask
 * Source ids: held point p is p, held node i is n_held + i. */
#ifndef FF_PAIR_LISTS_H
#define FF_PAIR_LISTS_H

#include "ff_plan.h"

/* One cloud's part: which entries belong to it and how node and leaf entries are added to its points. */
typedef struct ff_pair_part {
    int64_t point_begin,
        n_points;             /* targets [point_begin, point_begin + n_points) are its own points in order */
    int64_t n_far, far_begin; /* node entries from far_begin */
    int64_t *far_up;          /* [n_far] entry of the nearest node above that has one, or -1 */
    int64_t *far_of; /* [n_points] entry of the deepest node above the point, or -1; NULL if n_far is 0 */
    int64_t n_leaf, leaf_begin; /* leaf entries from leaf_begin, leaves ascending */
    int64_t *leaf_from;         /* [n_leaf] point of bit 0 of leaf_mask */
    uint64_t *leaf_mask;
} ff_pair_part;

typedef struct ff_pair_lists {
    int32_t n_t;
    double *x_t;                     /* [n_t][4] x, y, z (0 in 2D), 0 */
    int32_t *seg_off;                /* [n_t + 1] */
    int64_t *seg_src;                /* [n_seg] first id of a segment in src */
    int32_t *seg_cum;                /* [n_seg] pairs of the same target before it */
    int32_t *n_pairs;                /* [n_t] */
    int32_t *src;                    /* [n_src_ids] */
    int64_t n_seg, n_src_ids, pairs; /* pairs: sum of n_pairs */
    int n_parts;
    ff_pair_part *part;
} ff_pair_lists;

/* What one cloud brings. x_point [n_held][dim] of its tree (own points from own_first, sorted positions from
 * own_begin), x_node [n_nodes][dim] centroids for node entries. */
typedef struct ff_pair_target {
    const ff_tree *tree;
    const double *x_point, *x_node;
    int32_t own_first;
    int64_t own_begin, own_end;
} ff_pair_target;

/* Builds the plans of n targets against one source tree and expands them. 2^31 targets or entries of one target's
 * list at most.                                                                                          Local
 * Errors: FF_E_MEM; FF_E_UNSUPPORTED too many targets. */
ff_status ff_pair_lists_build(const ff_pair_target *target, int n, const ff_tree *sources, double theta,
                              bool expand_far, ff_pair_lists **out);
void ff_pair_lists_destroy(ff_pair_lists **l);

/* Adds the entries' rows [n_t][n_comp] of part k to total [n_points][n_comp]: point rows, leaf rows, then node rows
 * from the root down. OpenMP-parallel; a point's order is fixed.                                         Local */
void ff_pair_lists_add(const ff_pair_lists *l, int k, int n_comp, const float *rows, double *total);

#endif
