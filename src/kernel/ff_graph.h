/* Neighbour graph of points of which only some are destinations: what ff_graph_create and the distributed head share.
 *
 * Held points ascend by original number; nodes are those of them that are own, in the same order. Sources are held
 * indices, so sources that ascend also ascend by original number, on any rank. */
#ifndef FF_GRAPH_H
#define FF_GRAPH_H

#include "farfield_head.h"

#include "ff_search.h"

typedef struct ff_graph_points {
    int64_t n_held, n_nodes;
    const double *x;      /* [n_held][3] as given */
    const int32_t *node;  /* [n_nodes] held index of each node, ascending; NULL: all held points are nodes */
    const int32_t *owner; /* [n_held] rank of each point; NULL: all are ours */
    int rank, n_ranks;
} ff_graph_points;

enum { FF_GRAPH_LEAF = 8 }; /* points a leaf of the search tree */

/* Edges, without opposite. Local */
ff_status ff_graph_build(const ff_graph_points *p, const ff_search *s, ff_graph **out);

/* Another builder of the same edges, to the bit: a GPU's (ff_cuda_graph.h). build(ctx, ..) is as ff_graph_build. */
typedef struct ff_graph_maker {
    ff_status (*build)(void *ctx, const ff_graph_points *p, const ff_search *s, ff_graph **out);
    void *ctx;
} ff_graph_maker;

/* For builders: a graph with off [n_nodes + 1] to be filled; *out may be set on failure, too. Then n_edges from off, and
 * the edges' arrays. Errors: FF_E_INPUT too many points or edges for 32 bits; FF_E_MEM. Local */
ff_status ff_graph_start(const ff_graph_points *p, const ff_search *s, ff_graph **out);
ff_status ff_graph_alloc(const ff_search *s, ff_graph *g);

/* Opposite of every edge. An edge from another rank's point has its opposite there; what that rank knows of it comes
 * in a list of rank_edges[r] rows from each rank r, in rank order: row i of the list is number n_edges + i here.
 *   rank_edges  [n_ranks] edges whose source is rank r's, 0 for our own; NULL if all points are ours
 *   send        [sum of rank_edges] those edges, in the order in which their owners expect them: by rank, source,
 *               destination, image; owned by the caller; NULL if all points are ours                          Local */
ff_status ff_graph_link(ff_graph *g, const ff_graph_points *p, int64_t *rank_edges, int32_t **send);

/* grad [n_nodes][3]: what its edges do to a node, in their order: edge_grad of the opposite edge minus edge_grad.
 *   edge_grad  [n_edges][3] dL/dvec;   received  rows of other ranks' edges, or NULL                         Local */
void ff_graph_point_grad(const ff_graph *g, const double *edge_grad, const double *received, double *grad);

#endif
