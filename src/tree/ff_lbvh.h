/* Linear bounding volume hierarchy over the Morton order (midpoint splits).
 *
 * Topology. A node of n points splits at n div 2 while n > leaf_size, so the tree's shape depends on N and
 * leaf_size alone and every rank knows it without communication. Nodes are numbered in PREORDER over the
 * global tree: root 0, left child id + 1, right child id + 1 + ff_topo_nodes(left count). What follows from
 * it: a subtree is a contiguous range of ids and of sorted points; an ancestor's id is smaller; leaves ascend
 * in Morton order; a rank's run is a few contiguous ranges. (The public reference numbers level by level;
 * ff_tree_bfs_ids gives that numbering for comparisons.)
 *
 * A tree may hold only part of the global tree: what a rank owns, the nodes above, and what it fetched from
 * others (locally essential tree). Held nodes are stored in ascending id, held points in ascending sorted
 * position, so every loop meets them in the global canonical order. Siblings are held together, hence left
 * child of i  = i + 1                    right child of i = node[i].right node[i].right == FF_NODE_LEAF (-1):
 * a leaf; FF_NODE_CUT (-2): an inner node whose children are not held. */
#ifndef FF_LBVH_H
#define FF_LBVH_H

#include "ff_node.h"
#include "ff_status.h"

#include <stdbool.h>

/* Leaves of more than FF_LEAF_MAX points have no masks: pairs of such leaves are not resolved by points, all of their
 * points are near (the treecode of analytic kernels). */
enum { FF_LEAF_MAX = 64, FF_LEAF_WHOLE_MAX = 8192, FF_BLOCK_POINTS = 32 };

typedef struct ff_tree {
    int dim, leaf_size;
    int64_t n_points; /* of the whole set, over all ranks */
    int32_t n_nodes;  /* held */
    int32_t n_held;   /* held points */
    ff_node *node;    /* [n_nodes] */
    int64_t *id;      /* [n_nodes] global preorder id */
    int64_t *start;   /* [n_nodes] first sorted point */
    int64_t *count;   /* [n_nodes] points */
    int32_t *first;   /* [n_nodes] held index of the node's first point if all its points are held
                                   contiguously, else -1 (always set for leaves whose points are held and for
                                   nodes inside the own run) */
    float *x;         /* [n_held][dim] held points */
    int64_t *pos;     /* [n_held] their sorted positions, ascending */
} ff_tree;

/* ---- topology: functions of (n, leaf_size) alone; Local, cannot fail ---- */
int64_t ff_topo_nodes(int64_t n, int leaf_size); /* nodes of a (sub)tree of n points; 0 for n = 0. O(log n) */
int ff_topo_depth(int64_t n, int leaf_size);     /* levels below the root */
typedef struct ff_subtree {
    int64_t id, start, count;
} ff_subtree;
/* Maximal subtrees of at most max_points points (a leaf is never cut) inside [0, n), in Morton order.
 * out owned by the caller (ff_free).                                                                 */
ff_status ff_topo_blocks(int64_t n, int leaf_size, int64_t max_points, ff_subtree **out, int64_t *n_out);
/* The last block border (for blocks of at most max(FF_BLOCK_POINTS, leaf_size) points) not after pos. */
int64_t ff_topo_border(int64_t n, int leaf_size, int64_t pos);
/* The largest subtree all of whose points lie in [begin, end), the first of equal ones; count 0: none. */
ff_subtree ff_topo_largest(int64_t n, int leaf_size, int64_t begin, int64_t end);

/* ---- building ---- */
/* Writes the whole subtree s (preorder, ff_topo_nodes(s.count) nodes) at node[at..], id, start, count, first
 * included; x [s.count][dim] are the subtree's sorted points, whose held index is first_held. Local
 * OpenMP-parallel inside for large subtrees. */
void ff_tree_fill(ff_tree *t, int32_t at, ff_subtree s, const float *x, int32_t first_held);

/* Complete tree of all n points x [n][dim] (any order) on one rank. order [n] (caller-allocated, may be NULL)
 * receives the original index at each sorted position. n = 0 gives a tree without nodes. Local Errors:
 * FF_E_ARG dim not 2 or 3, leaf_size outside 1..64; FF_E_INPUT non-finite coordinate; FF_E_MEM. */
ff_status ff_tree_build(const float *x, int64_t n, int dim, int leaf_size, int64_t *order, ff_tree **out);
ff_status ff_tree_alloc(int dim, int leaf_size, int64_t n_points, int32_t n_nodes, int32_t n_held,
                        ff_tree **out);
void ff_tree_destroy(ff_tree **t);

/* Level-by-level numbering used by the public reference: bfs [n_nodes], for a complete tree. Local */
ff_status ff_tree_bfs_ids(const ff_tree *t, int64_t *bfs);

/* Held index of the node with this global id, or -1. O(log n_nodes). */
int32_t ff_tree_find(const ff_tree *t, int64_t id);

#endif
