/* The embedding head over ranks: points at home in, features and gradients at home out.
 *
 *     points (home) ── ff_halo ──► own points and ghosts ── ff_graph ──► edges of own points
 *     edges, W1, W2 ── ff_head ──► out of own points ──► home
 *     cotangent (home) ──► own ── ff_head ──► dL/dvec of own edges ── exchange with the owners of their sources
 *                                             │                        ──► gradients of own points ──► home
 *                                             └─► W1, W2: integers, summed over ranks
 *
 * Each number is made by the same operations in the same order on any number of ranks. */
#ifndef FF_EMBED_H
#define FF_EMBED_H

#include "ff_graph.h"
#include "ff_halo.h"

typedef struct ff_embed {
    ff_comm *comm;
    ff_halo *halo;
    ff_graph *graph; /* nodes: own points by original number; sources: held indices */
    int64_t n_home, n_points, n_edges, n_coincident; /* all but the first: of all ranks */
    int64_t *rank_edges;                             /* [size] edges from each other rank's points */
    int32_t *send;                                   /* those edges as their owners expect them */
} ff_embed;

/* Points of all ranks, consecutive numbers on each; cell NULL: open space; maker finds the neighbours, NULL: the CPU.
 * Errors: as ff_graph_create.                                                                          Collective */
ff_status ff_embed_create(ff_comm *comm, const double *x_home, int64_t n_home, double cutoff,
                          const ff_cell *cell, const ff_graph_maker *maker, ff_embed **out);
void ff_embed_destroy(ff_embed **e);

/* out_home [n_home][D][C]. w1 and w2 are the same on all ranks. Collective. Errors: as ff_head_forward_f32. */
ff_status ff_embed_forward_f32(const ff_embed *e, const ff_head_opts *o, const float *w1, const float *w2,
                               float *out_home);
ff_status ff_embed_forward_f64(const ff_embed *e, const ff_head_opts *o, const double *w1, const double *w2,
                               double *out_home);

/* cotangent_home [n_home][D][C]; d_points_home [n_home][3], d_w1 and d_w2 the same on all ranks. Collective */
ff_status ff_embed_backward_f32(const ff_embed *e, const ff_head_opts *o, const float *w1, const float *w2,
                                const float *cotangent_home, double *d_points_home, float *d_w1, float *d_w2);
ff_status ff_embed_backward_f64(const ff_embed *e, const ff_head_opts *o, const double *w1, const double *w2,
                                const double *cotangent_home, double *d_points_home, double *d_w1,
                                double *d_w2);

/* ---- shared by both precisions ---- */
/* FF_E_INPUT with the number of an own point without neighbours where degree_floor is 0. Local */
ff_status ff_embed_check(const ff_embed *e, const ff_head_opts *o);
/* Gradients of own points [own][3] from those of own edges [edges][3]. Collective */
ff_status ff_embed_point_grad(const ff_embed *e, const double *edge_grad, double *d_own);

#endif
