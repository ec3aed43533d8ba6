/* Locally essential tree: what one rank holds of a distributed cloud's tree, and the fixed lists by which
 * payload moves every layer.
 *
 *            root                    upper tree U: replicated on every rank. Its BOTTOM nodes are maximal
 * subtrees /    \                   inside one rank's run with at most max(block, run / 64) points; their
 * boxes o        o                 are all-gathered, the nodes above combined in fixed child order.
 *       /   \    /   \
 *      b0   b1  b2   b3   bottoms    own subtrees below own bottoms: complete.
 *      own own  rank 1 ...           remote subtrees: only the nodes (and leaf points) that some target of
 * this rank can open; pushed by their owner, who walks the receiver's U with the same acceptance code and
 * takes a receiver's bottom as any node inside its box.
 *
 * Why the push is a superset of what the walk reads, without slack: a source S is split by a target T' inside
 * bottom T only if the pair is not far and diam(T') <= max(diam(S), largest leaf of T); leaf points are read
 * by leaves only. The criterion is monotone in box and diameter (ff_mac.h), so (box of T, that bound on the
 * diameter) judges S no farther than T' does. After the walks have marked what they name, the lists shrink to
 * exactly that. */
#ifndef FF_LET_H
#define FF_LET_H

#include "ff_cloud.h"

/* How payload moves between ranks: one row a transport. Messages as in ff_comm_exchange_begin. */
typedef struct ff_transport_ops {
    const char *name;
    ff_status (*begin)(ff_comm *c, const ff_msg *send, int n_send, const ff_msg *recv, int n_recv,
                       ff_request **out);
    ff_status (*end)(ff_comm *c, ff_request **req);
} ff_transport_ops;
/* Row "mpi": through ff_comm, whatever row that has. NULL for a name without a row. Local */
const ff_transport_ops *ff_transport_find(const char *name);

typedef struct ff_let {
    const ff_cloud *cloud; /* borrowed; may not be cut anew while the let lives */
    ff_tree *tree;         /* held part; own points are held contiguously from own_first */
    int32_t own_first;
    int64_t n_bottom;                         /* of all ranks, ascending id */
    ff_subtree *bottom;                       /* [n_bottom] */
    int *bottom_owner;                        /* [n_bottom] ascending */
    int32_t *bottom_node;                     /* [n_bottom] held index */
    int64_t own_bottom_begin, own_bottom_end; /* own bottoms are [begin, end) */
    uint8_t
        *node_remote;   /* [tree->n_nodes] 1 strictly below another rank's bottom: rows come by ff_let_push */
    uint8_t *node_used; /* [tree->n_nodes] marked by ff_let_mark: aggregate is read by a plan */
    uint8_t *leaf_used; /* [tree->n_nodes] marked: the leaf's points are read by a plan */
    const ff_transport_ops *transport; /* row "mpi" unless set by the caller, the same on all ranks */
    /* payload lists, after ff_let_finish: peer p sends and receives nodes, then points, ascending */
    int n_peers;
    int *peer;
    int64_t *send_node_off, *send_point_off, *recv_node_off, *recv_point_off; /* [n_peers + 1] */
    int32_t *send_node, *send_point, *recv_node, *recv_point;                 /* held indices */
} ff_let;

/* Builds the let of every cloud (clouds[i], i < n_clouds, all of one communicator) as target and source at
 * once: lets[i] holds what the walks of all pairs with need[i * n_clouds + j] != 0 (i target, j source) can
 * read. On one rank that is the complete tree, built in place. On failure all lets[i] are NULL. Errors:
 * FF_E_ARG theta negative or not finite; FF_E_MEM; FF_E_COMM.                              Collective */
ff_status ff_let_build(ff_cloud *const *clouds, int n_clouds, const uint8_t *need, double theta,
                       ff_let **lets);
void ff_let_destroy(ff_let **let);

/* The transposed trees, for the adjoint: a source's owner walks its sources against the targets (ff_dtt_walk_sources), so
 * lets[i] holds what the walks of all sources j with need[i * n_clouds + j] can read of cloud i as TARGETS. The same
 * selection with the roles exchanged; points of every leaf met, and with expand_far of every far node, come along: then
 * about all points of a target cloud are held by every rank that has sources of it. Errors: as ff_let_build. Collective */
ff_status ff_let_build_transposed(ff_cloud *const *clouds, int n_clouds, const uint8_t *need, double theta,
                                  bool expand_far, ff_let **lets);
/* Marks what the walks of the own sources (a let of any kind) read of targets, one of the above; then ff_let_finish.
 * A far pair of a source node that begins in another run is that rank's.                                       Local */
ff_status ff_let_mark_transposed(const ff_let *sources, ff_let *targets, double theta, bool expand_far);
/* Held index of the first point of node i, or -1 unless all its points are held.               O(log n_held). Local */
int32_t ff_let_first_point(const ff_let *let, int32_t i);

/* Marks on sources->node_used and leaf_used all that the walk of this rank's targets reads: a node if its
 * aggregate is (far pairs; near-far of a leaf pair), a leaf if its points are (near-near and far-near). Marks
 * add up over calls. task [n_tasks + 1]: sorted positions within the own run, ascending from its begin to its
 * end; NULL: any division, n_tasks is ignored. remote_task (may be NULL) [n_tasks]: set to 1 where targets of
 * task k read a row that ff_let_push_end fills, else left alone. OpenMP-parallel over tasks. Local */
ff_status ff_let_mark(const ff_let *targets, ff_let *sources, double theta, bool expand_far,
                      const int64_t *task, int64_t n_tasks, uint8_t *remote_task);

/* Turns marks into the payload lists (one sparse exchange of requests); once, after all marks. On more than
 * one rank the tree shrinks to what the marked walks read: held indices and own_first change, walks stay the
 * same. Collective */
ff_status ff_let_finish(ff_let *let);

/* ---- payload, every layer ---- */
typedef struct ff_let_transfer ff_let_transfer;
/* Starts filling the remote rows that plans name: node_rows [tree->n_nodes][node_bytes] (may be NULL with
 * bytes 0), point_rows [tree->n_held][point_bytes] (likewise); own rows are read here, named remote rows
 * written by ff_let_push_end; no other row is touched. Rows of bottoms and of the nodes above are not sent:
 * they are had from ff_let_gather_bottom. Points of a leaf that is itself a bottom are sent. Several
 * transfers may be under way; all ranks begin and end them in one order. Collective */
ff_status ff_let_push_begin(const ff_let *let, size_t node_bytes, void *node_rows, size_t point_bytes,
                            void *point_rows, ff_let_transfer **out);
ff_status ff_let_push_end(ff_let_transfer **t); /* NULL inside is fine Collective */

/* The push backwards: what was added here to rows of others returns to their owner. get writes this rank's row of a held
 * remote node or point, add receives another rank's row of an own one; node_bytes and point_bytes a row, 0: none. A row
 * must be such that the order of additions is no matter (integers). Rows of bottoms and of nodes above are not moved.
 *                                                                                                     Collective */
typedef struct ff_let_return_ops {
    size_t node_bytes, point_bytes;
    void (*get)(void *ctx, bool point, int32_t i, void *row);
    void (*add)(void *ctx, bool point, int32_t i, const void *row);
    void *ctx;
} ff_let_return_ops;
ff_status ff_let_return(const ff_let *let, const ff_let_return_ops *ops);

/* Rows of own bottoms to everyone: own [own bottoms][row_bytes] -> all [n_bottom][row_bytes]. Collective */
ff_status ff_let_gather_bottom(const ff_let *let, size_t row_bytes, const void *own, void *all);

/* Two-pass cut: clouds with any cut come in; blocks' work as targets (sum over sources j with need[i * n +
 * j], weight[i * n + j] an evaluation) is counted and all-gathered, and clouds are cut anew; no rank gets
 * more than four times the mean count of points (and a block). Collective */
ff_status ff_let_balance(ff_cloud *const *clouds, int n_clouds, const uint8_t *need, const int64_t *weight,
                         double theta, bool expand_far);

/* Figures of one rank for the run's table and for plan --ranks, summed over clouds (pairs of clouds).
 *   near_pairs  near-near; far_evals  near-far, far-near and far-far evaluations; work  weight times all of
 * them peers       ranks with which it exchanges anything in ff_let_push send, recv  rows of one ff_let_push
 * of every cloud (bottoms and upper nodes are all-gathered, not counted) */
typedef struct ff_dist_row {
    int64_t points, near_pairs, far_evals, peers, send_nodes, send_points, recv_nodes, recv_points, work;
} ff_dist_row;
/* Figures of this rank's part of all pairs (after ff_let_finish).                                     Local
 */
ff_status ff_let_figures(ff_let *const *lets, int n_clouds, const uint8_t *need, const int64_t *weight,
                         double theta, bool expand_far, ff_dist_row *row);
/* The same for every rank of a hypothetical run with n_ranks ranks, cut by work as ff_let_balance does,
 * worked out on one rank from complete trees (lets of a one-rank communicator): rows [n_ranks].
 * OpenMP-parallel. Errors: FF_E_ARG n_ranks < 1, trees not complete; FF_E_MEM. Local */
ff_status ff_dist_study(ff_let *const *lets, int n_clouds, const uint8_t *need, const int64_t *weight,
                        double theta, bool expand_far, int n_ranks, ff_dist_row *rows);

#endif
