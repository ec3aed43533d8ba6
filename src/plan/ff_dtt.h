/* Dual tree traversal, target-major.
 *
 * The recursion of the specification visits pairs (T, S). Its decisions depend on the pair alone, so the same
 * set of pairs is reached by walking the TARGET tree in preorder and handing each node the ordered list of
 * sources its parent left undecided. What follows: per target node everything is found at once, with sources
 * in ascending id (canonical order) and no sort; a walk can be restricted to any range of targets (a rank, a
 * chunk, a thread's task) by skipping target nodes outside it, and finds exactly the serial plan's pairs for
 * those targets.
 *
 *   walk(T, list):  for S in list, in order:  far -> far list of T
 *                                             both leaves -> leaf list of T (with masks)
 *                                             split S only -> its children take its place in this list
 *                                             split T (and S) -> S (or its children) go to the children's
 * list emit(T); for each child C of T that meets the range: walk(C, children's list) */
#ifndef FF_DTT_H
#define FF_DTT_H

#include "farfield_plan.h" /* ff_dtt_lists, ff_dtt_counts, ff_dtt_emit */
#include "ff_lbvh.h"

/* A row's ids (ff_dtt_lists) are HELD indices, equal to node ids in a complete tree. */

/* ff_dtt_walk (declared in farfield_plan.h) on trees that are held in part: the points of every target
 * leaf in the range must be held, and of every source leaf that has a near target (t_mask not 0); else, and
 * on opening a FF_NODE_CUT, FF_E_INTERNAL. */

/* The same pairs source by source: visits source nodes that meet [s_begin, s_end) and have more than more_than points,
 * in preorder, and hands each its ordered list of targets. In the lists t is the SOURCE node, far_s and leaf_s are
 * TARGET nodes and leaves; masks keep their meaning (t_mask: targets of leaf_s that no near-far entry covers, s_mask:
 * sources of t that no far-near entry covers). The points of every leaf met on either side must be held. Local */
ff_status ff_dtt_walk_sources(const ff_tree *sources, const ff_tree *targets, double theta, int64_t s_begin,
                              int64_t s_end, int64_t more_than, ff_dtt_emit emit, void *ctx);

/* What every walk checks first: FF_E_ARG unless theta is finite and >= 0, the dimensions agree and
 * 0 <= t_begin <= t_end <= targets->n_points.                                                          Local
 */
ff_status ff_dtt_check(const ff_tree *targets, const ff_tree *sources, double theta, int64_t t_begin,
                       int64_t t_end);

void ff_dtt_counts_add(ff_dtt_counts *to, const ff_dtt_counts *c);

/* Evaluations (pairs through the network) of one emitted node for targets in [t_begin, t_end). A far pair
 * whose target node spans the border of a range is counted where the node's first point lies, so that counts
 * over a partition of the targets add up to the serial count. */
void ff_dtt_count(const ff_tree *targets, const ff_tree *sources, const ff_dtt_lists *lists, bool expand_far,
                  int64_t t_begin, int64_t t_end, ff_dtt_counts *add_to);

/* Counts over [t_begin, t_end), OpenMP-parallel, nothing kept. work (may be NULL) [n_blocks]: evaluations a
 * block, for disjoint subtrees in order, usually those of ff_topo_blocks(n, leaf, max(FF_BLOCK_POINTS,
 * leaf)). Pairs of nodes above blocks are left out of work, but with expand_far their evaluations are counted
 * where the targets are. Local */
ff_status ff_dtt_count_range(const ff_tree *targets, const ff_tree *sources, double theta, bool expand_far,
                             int64_t t_begin, int64_t t_end, ff_dtt_counts *counts, const ff_subtree *blocks,
                             int64_t n_blocks, int64_t *work);

#endif
