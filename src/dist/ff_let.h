/* Locally essential tree: what one rank holds of a distributed cloud's tree, and the fixed lists by which payload
 * moves every layer.
 *
 *            root                    upper tree U: replicated on every rank. Its BOTTOM nodes are maximal subtrees
 *           /    \                   inside one rank's run with at most max(block, run / 64) points; their boxes
 *         o        o                 are all-gathered, the nodes above combined in fixed child order.
 *       /   \    /   \
 *      b0   b1  b2   b3   bottoms    own subtrees below own bottoms: complete.
 *      own own  rank 1 ...           remote subtrees: only the nodes (and leaf points) that some target tree of this
 *                                    rank can open; pushed by their owner, who walks the receiver's U with the same
 *                                    acceptance code, taking a receiver's bottom as splittable without end.
 * The criterion is monotone under box containment (ff_mac.h), so the push is a superset of what the walk reads:
 * no slack is needed. After the walks have marked what they name, the lists shrink to exactly that. */
#ifndef FF_LET_H
#define FF_LET_H

#include "ff_cloud.h"

typedef struct ff_let {
    const ff_cloud *cloud;   /* borrowed */
    ff_tree *tree;           /* held part; own points are held contiguously from own_first */
    int32_t own_first;
    int64_t n_bottom;        /* of all ranks, ascending id */
    ff_subtree *bottom;      /* [n_bottom] */
    int *bottom_owner;       /* [n_bottom] */
    int32_t *bottom_node;    /* [n_bottom] held index */
    int64_t own_bottom_begin, own_bottom_end; /* own bottoms are [begin, end) */
    uint8_t *node_used;      /* [tree->n_nodes] marked by ff_let_mark: aggregate is read by a plan */
    uint8_t *leaf_used;      /* [tree->n_nodes] marked: the leaf's points are read by a plan */
    /* payload lists, after ff_let_finish: peer p sends and receives nodes, then points, ascending */
    int n_peers;
    int *peer;
    int64_t *send_node_off, *send_point_off, *recv_node_off, *recv_point_off; /* [n_peers + 1] */
    int32_t *send_node, *send_point, *recv_node, *recv_point;                 /* held indices */
} ff_let;

/* Builds the let of every cloud (clouds[i], i < n_clouds) as target and source at once: lets[i] holds what the
 * walks of all pairs with need[i * n_clouds + j] != 0 (i target, j source) can read. leaf_size as in the clouds.
 * Errors: FF_E_ARG theta negative or not finite; FF_E_MEM; FF_E_COMM.                              Collective */
ff_status ff_let_build(ff_cloud *const *clouds, int n_clouds, const uint8_t *need, double theta, ff_let **lets);
void ff_let_destroy(ff_let **let);

/* Marks on sources->node_used and leaf_used all that the walk of this rank's targets reads. remote_task (may be
 * NULL) [n_tasks]: set to 1 where targets of task k, sorted positions [task[k], task[k + 1]), read anything not
 * owned here.                                                                                        Local */
ff_status ff_let_mark(const ff_let *targets, ff_let *sources, double theta, bool expand_far, const int64_t *task,
                      int64_t n_tasks, uint8_t *remote_task);

/* Turns marks into the payload lists (one sparse exchange of requests).                               Collective */
ff_status ff_let_finish(ff_let *let);

/* ---- payload, every layer ---- */
typedef struct ff_let_transfer ff_let_transfer;
/* Starts filling the remote rows that plans name: node_rows [tree->n_nodes][node_bytes] (may be NULL with bytes 0),
 * point_rows [tree->n_held][point_bytes]; own rows are read, named remote rows written by ff_let_push_end.
 * Upper nodes are not sent (see ff_let_gather_bottom).                                                Collective */
ff_status ff_let_push_begin(const ff_let *let, size_t node_bytes, void *node_rows, size_t point_bytes,
                            void *point_rows, ff_let_transfer **out);
ff_status ff_let_push_end(ff_let_transfer **t);                                                     /* Collective */

/* Rows of own bottoms to everyone: own [own bottoms][row_bytes] -> all [n_bottom][row_bytes].         Collective */
ff_status ff_let_gather_bottom(const ff_let *let, size_t row_bytes, const void *own, void *all);

/* Two-pass cut: clouds with an equal-count cut come in; blocks' work as targets (sum over sources j with
 * need[i * n + j], weight[i * n + j] evaluations each) is counted and all-gathered, and clouds are cut anew. Collective */
ff_status ff_let_balance(ff_cloud *const *clouds, int n_clouds, const uint8_t *need, const int64_t *weight,
                         double theta, bool expand_far);

/* Figures of one rank for the run's table and for plan --ranks. */
typedef struct ff_dist_row {
    int64_t points, near_pairs, far_evals, peers, send_nodes, send_points, recv_nodes, recv_points, work;
} ff_dist_row;
/* Figures of this rank's part of all pairs (after ff_let_finish).                                     Local */
ff_status ff_let_figures(ff_let *const *lets, int n_clouds, const uint8_t *need, const int64_t *weight,
                         double theta, bool expand_far, ff_dist_row *row);
/* The same for every rank of a hypothetical run with n_ranks ranks, worked out on one rank from complete trees
 * (lets of a one-rank communicator): rows [n_ranks]. OpenMP-parallel.                                 Local */
ff_status ff_dist_study(ff_let *const *lets, int n_clouds, const uint8_t *need, const int64_t *weight, double theta,
                        bool expand_far, int n_ranks, ff_dist_row *rows);

#endif
