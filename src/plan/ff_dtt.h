/* Dual tree traversal, target-major.
 *
 * The recursion of the specification visits pairs (T, S). Its decisions depend on the pair alone, so the same set
 * of pairs is reached by walking the TARGET tree in preorder and handing each node the ordered list of sources its
 * parent left undecided. What follows: per target node everything is found at once, with sources in ascending id
 * (canonical order) and no sort; a walk can be restricted to any range of targets (a rank, a chunk, a thread's
 * task) by skipping target nodes outside it, and finds exactly the serial plan's pairs for those targets.
 *
 *   walk(T, list):  for S in list, in order:  far -> far list of T
 *                                             both leaves -> leaf list of T (with masks)
 *                                             split S only -> its children take its place in this list
 *                                             split T (and S) -> S (or its children) go to the children's list
 *                   emit(T); for each child C of T that meets the range: walk(C, children's list) */
#ifndef FF_DTT_H
#define FF_DTT_H

#include "ff_lbvh.h"

/* All interactions of one target node; arrays valid during the call only. Node ids are HELD indices.
 * The same struct serves every T; a T with neither list is not emitted. */
typedef struct ff_dtt_lists {
    int32_t t;               /* target node, held index in the target tree */
    const int32_t *far_s;    /* [n_far] accepted source nodes, ascending */
    int64_t n_far;
    const int32_t *leaf_s;   /* [n_leaf] source leaves of undecided leaf pairs, ascending (t is a leaf then) */
    const uint64_t *t_mask;  /* [n_leaf] bit i: target point i of the leaf survives stage 1 */
    const uint64_t *s_mask;  /* [n_leaf] bit j: source point j of the leaf is not accepted in stage 2 */
    int64_t n_leaf;
} ff_dtt_lists;
/* Meaning of a leaf pair, with n_t, n_s the leaves' points:
 *   near-near: (i, j) for i in t_mask, j in s_mask;  near-far: (i, S) for i not in t_mask (i < n_t);
 *   far-near: (T, j) for j not in s_mask (j < n_s), added to the targets in t_mask; none if t_mask is empty.
 * s_mask is 0 where t_mask is 0. */

typedef ff_status (*ff_dtt_emit)(void *ctx, const ff_dtt_lists *lists);

/* Walks the target nodes that meet sorted positions [t_begin, t_end). The points of every source leaf that is
 * reached, and of every target leaf in the range, must be held; reaching a FF_NODE_CUT source is FF_E_INTERNAL.
 * Local; re-entrant (one call a thread). Stops at the first emit that fails. theta 0: nothing is far. */
ff_status ff_dtt_walk(const ff_tree *targets, const ff_tree *sources, double theta, int64_t t_begin, int64_t t_end,
                      ff_dtt_emit emit, void *ctx);

/* What every walk checks first: FF_E_ARG unless theta is finite and >= 0, the dimensions agree and
 * 0 <= t_begin <= t_end <= targets->n_points.                                                          Local */
ff_status ff_dtt_check(const ff_tree *targets, const ff_tree *sources, double theta, int64_t t_begin, int64_t t_end);

/* Point-level pair counts and work of a walk. A far pair whose target node spans the border of a range is counted
 * where the node's first point lies, so that counts over a partition of the targets add up to the serial count. */
typedef struct ff_dtt_counts {
    int64_t near_near, near_far, far_near, far_far; /* expand_far: far_far is 0 and near_far holds the expansion */
    int64_t far_node_pairs, leaf_pairs;             /* list lengths */
} ff_dtt_counts;

void ff_dtt_counts_add(ff_dtt_counts *to, const ff_dtt_counts *c);

/* Evaluations (pairs through the network) of one emitted node for targets in [t_begin, t_end). */
void ff_dtt_count(const ff_tree *targets, const ff_tree *sources, const ff_dtt_lists *lists, bool expand_far,
                  int64_t t_begin, int64_t t_end, ff_dtt_counts *add_to);

/* Counts over [t_begin, t_end), OpenMP-parallel, nothing kept. work (may be NULL) [n_blocks]: evaluations a block
 * (blocks of ff_topo_blocks(n, leaf, max(FF_BLOCK_POINTS, leaf)) that lie inside the range, in order; pairs of
 * nodes above blocks are left out of work, but with expand_far their evaluations are counted where the targets
 * are).                                                                                                Local */
ff_status ff_dtt_count_range(const ff_tree *targets, const ff_tree *sources, double theta, bool expand_far,
                             int64_t t_begin, int64_t t_end, ff_dtt_counts *counts, const ff_subtree *blocks,
                             int64_t n_blocks, int64_t *work);

#endif
