/* farfield_head.h: the geometric embedding head, from points to (N, D, C) node features and back.
 *
 *     points [N][3], cutoff, cell -- ff_graph_create --> edges dst <- src of all pairs closer than the cutoff
 *     graph, W1, W2               -- ff_head_forward  --> out [N][D][C]
 *     cotangent [N][D][C]         -- ff_head_backward --> gradients of sum(cotangent * out): points, W1, W2
 *
 * With d the length of an edge's vector x_src - x_dst (+ shift of its image), u its direction, x = d / cutoff:
 *     coupling  real spherical harmonics of u, degrees 1 .. lmax, unit sum of squares a degree
 *     radial    W2 silu(W1 b), b_n = E_p(x) sin(n pi x) / d
 *     out       zonal scatter of both (farfield_scatter.h) times 1 / sqrt(sum over a node's edges of E_q(x)^2 + floor)
 * Formulas: docs/embed.md. Edges and their geometry are float64 in either precision; the network and the scatter are
 * float32 or float64. Results are the same bits for any number of threads. Arrays are contiguous, row-major, host
 * memory, and must not overlap. */
#ifndef FARFIELD_HEAD_H
#define FARFIELD_HEAD_H

#include "farfield_scatter.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- neighbours ---- */

/* Vectors along which space repeats, as rows; those of axes that are not periodic are ignored. Any cell whose vectors
 * are not in one plane; a rectangular one must have positive lengths. Same unit as points. */
typedef struct ff_cell {
    double vector[3][3];
    int periodic[3]; /* 0 or 1 */
} ff_cell;

/* Edges by destination: those of node n are off[n] .. off[n + 1] - 1, their sources ascending; several images of one
 * source ascend by image. Readable by anyone, filled by ff_graph_create only.
 * Invariants: an edge's opposite (dst and src exchanged, -image) is an edge too, and its vector the exact negative;
 * opposite[opposite[e]] = e. A point is no neighbour of itself, but its images are. */
typedef struct ff_graph {
    int64_t n_nodes, n_edges; /* each at most 2^31 - 1 */
    double cutoff;
    int64_t *off;         /* [n_nodes + 1] */
    int32_t *dst, *src;   /* [n_edges] */
    int32_t *image;       /* [n_edges][3] cell vectors added to x_src; NULL in open space */
    double *vec;          /* [n_edges][3] x_src - x_dst + image . cell */
    uint32_t *opposite;   /* [n_edges] */
    int64_t n_coincident; /* edges of length 0: they have no direction, and so no coupling */
} ff_graph;

/* All pairs of points closer than cutoff.                                                                Local
 *   points  [n_points][3] anywhere, also outside of the cell; NULL if n_points = 0; not kept
 *   cutoff  > 0, of any size: several images of a point where it exceeds half a cell
 *   cell    NULL: open space
 *   out     new graph, owned by the caller, freed with ff_graph_destroy(); NULL on failure
 * OpenMP-parallel. Memory: 44 bytes an edge (56 periodic) and about 130 a point.
 * Errors: FF_E_ARG cutoff not positive, a cell of no volume or negative length, more than 2^20 images within reach,
 * more than 2^31 - 1 edges; FF_E_INPUT a coordinate that is not finite or beyond 1e18 (the point is named); FF_E_MEM. */
FF_API ff_status ff_graph_create(const double *points, int64_t n_points, double cutoff, const ff_cell *cell,
                                 ff_graph **out);

/* Frees the graph and writes NULL; NULL is fine. Local */
FF_API void ff_graph_destroy(ff_graph **graph);

/* ---- head ---- */

typedef struct ff_head_opts {
    size_t size;          /* sizeof(ff_head_opts): fields can be added later */
    int lmax;             /* 1 .. FF_SCATTER_LMAX */
    int n_radial;         /* basis functions, 1 .. 1024 */
    int n_hidden;         /* rows of W1, 1 .. 65536 */
    int64_t n_channels;   /* C, 1 .. 65536 */
    int rbf_exponent;     /* p of the basis' envelope, 1 .. 64 */
    int degree_exponent;  /* q of the degree's envelope, 1 .. 64 */
    double degree_floor;  /* >= 0; 0 needs every node to have an edge */
    ff_scatter_path path; /* of the scatter; outputs have the same bits with both */
} ff_head_opts;
#define FF_HEAD_OPTS_INIT                                                                                    \
    {                                                                                                        \
        sizeof(ff_head_opts), 3, 8, 16, 32, 7, 5, 0.25, FF_SCATTER_REFERENCE                                 \
    }

/* out [N][D][C], D = (lmax + 1)^2, overwritten; row 0 is 0.                                             Local
 *   w1  [n_hidden][n_radial]         w2  [lmax C][n_hidden], row (l - 1) C + c
 * OpenMP-parallel; the same bits for any number of threads. Memory: a few tens of MiB, whatever the number of edges:
 * nodes are worked off in chunks.
 * Errors: FF_E_ARG NULL, an option out of range; FF_E_INPUT a node without edges where degree_floor is 0; FF_E_MEM. */
FF_API ff_status ff_head_forward_f32(const ff_graph *graph, const ff_head_opts *opts, const float *w1,
                                     const float *w2, float *out);
FF_API ff_status ff_head_forward_f64(const ff_graph *graph, const ff_head_opts *opts, const double *w1,
                                     const double *w2, double *out);

/* Gradients, owned by the caller, overwritten; NULL: not wanted. Those of points are float64 in either precision. */
typedef struct ff_head_grad_f32 {
    size_t size;
    double *points; /* [N][3] */
    float *w1;      /* [n_hidden][n_radial] */
    float *w2;      /* [lmax C][n_hidden] */
} ff_head_grad_f32;

typedef struct ff_head_grad_f64 {
    size_t size;
    double *points;
    double *w1;
    double *w2;
} ff_head_grad_f64;
#define FF_HEAD_GRAD_F32_INIT                                                                                \
    {                                                                                                        \
        sizeof(ff_head_grad_f32), NULL, NULL, NULL                                                           \
    }
#define FF_HEAD_GRAD_F64_INIT                                                                                \
    {                                                                                                        \
        sizeof(ff_head_grad_f64), NULL, NULL, NULL                                                           \
    }

/* Gradients of L for cotangent [N][D][C] = dL/dout (its row 0 does not matter).                        Local
 * What an edge does to its two points is added in the order of the point's edges; the weights' gradients are summed a
 * node, then as integers (exact), so neither depends on threads. Edges of length 0 pull at no point.
 * Errors: as ff_head_forward_f32. Memory: 24 bytes an edge more. */
FF_API ff_status ff_head_backward_f32(const ff_graph *graph, const ff_head_opts *opts, const float *w1,
                                      const float *w2, const float *cotangent, const ff_head_grad_f32 *grad);
FF_API ff_status ff_head_backward_f64(const ff_graph *graph, const ff_head_opts *opts, const double *w1,
                                      const double *w2, const double *cotangent,
                                      const ff_head_grad_f64 *grad);

#ifdef __cplusplus
}
#endif
#endif
