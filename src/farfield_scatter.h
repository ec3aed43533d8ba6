/* farfield_scatter.h: fused zonal scatter of edge features onto nodes, forward and backward.
 *
 * An edge e carries D - 1 zonal couplings (D = (lmax + 1)^2; degree l owns rows l^2 - 1 .. l^2 + 2 l - 1) and lmax x C
 * radial features, and adds their product to its destination node:
 *
 *     message[e, row, c] = coupling[e, row] * radial[e, l(row) - 1, c]
 *                          (+ spin_l1[e, row, c] on the three rows of l = 1) (* gate[e])
 *     out[n, 0, c]       = 0
 *     out[n, 1 + row, c] = (sum over the edges e with dst[e] = n, in ascending e, of message[e, row, c])
 *                          (* inv_sqrt_deg[n])
 *
 *     dst [E] -- ff_scatter_csr_create --> edges of each node, ascending
 *     coupling, radial, ... -- ff_scatter_forward  --> out [N][D][C]
 *     cotangent [N][D][C]   -- ff_scatter_backward --> gradients of every input
 *
 * The (E, D - 1, C) messages never exist. Nothing is multiplied and added in one rounding and the order of a sum is
 * that of the edges, so outputs are those of a sequential index_add to the last bit, in float32 and float64, for any
 * number of threads and any instruction set. Arrays are contiguous, row-major and must not overlap. The CSR says where
 * they are: in host memory with ff_scatter_csr_create(), on a GPU with ff_scatter_csr_create_cuda(). */
#ifndef FARFIELD_SCATTER_H
#define FARFIELD_SCATTER_H

#include "farfield.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    FF_SCATTER_LMAX = 6,
    FF_SCATTER_PIECE =
        512 /* GPU, float32: edges of a node are summed in pieces of this many, then the pieces */
};

/* Which row of the implementation works. */
typedef enum ff_scatter_path {
    FF_SCATTER_REFERENCE =
        0, /* multiply and index-add, edge after edge, one thread: what the other is checked against */
    FF_SCATTER_FUSED /* threads over nodes (forward) and edges (backward), vectors over channels; a radial
                                 view whose channels are not adjacent is served by the reference, with a log line.
                                 GPU: one warp sums a piece of a node (forward), edges in parallel (backward) */
} ff_scatter_path;

/* ---- edges by destination ---- */

/* Stable CSR of the edges by destination node. Readable by anyone, filled by ff_scatter_csr_create only.
 * Invariants: off ascends from 0 to n_edges; the edges edge[off[n] .. off[n + 1]) are those with dst = n, ascending;
 * every dst is in 0 .. n_nodes - 1. sorted: edge[k] = k, that is dst ascends. */
typedef struct ff_scatter_csr {
    int64_t n_nodes, n_edges; /* each at most 2^31 - 1 */
    int64_t *off;             /* [n_nodes + 1] */
    int32_t *edge;            /* [n_edges] */
    int32_t *dst;             /* [n_edges] in the original order */
    int sorted;
    const struct ff_scatter_row
        *row;   /* NULL: arrays of host memory. Else off, edge, dst and all arrays of the calls are
                                         in the memory of the GPU it was made on */
    void *impl; /* the row's own */
} ff_scatter_csr;

/* Sort edges by destination.                                                                            Local
 *   dst      [n_edges] node of each edge, any order; may be NULL if n_edges = 0; copied
 *   n_nodes  may be 0 if n_edges is; nodes without edges are fine
 *   out      new CSR, owned by the caller, freed with ff_scatter_csr_destroy(); NULL on failure
 * OpenMP-parallel; the same bits for any number of threads. Memory: 8 (N + 1) + 8 E bytes, and while it is built
 * 4 bytes x (N + 1) x threads.
 * Errors: FF_E_ARG a negative or too large count, NULL, dst out of range (edge and value are named); FF_E_MEM. */
FF_API ff_status ff_scatter_csr_create(const int64_t *dst, int64_t n_edges, int64_t n_nodes,
                                       ff_scatter_csr **out);
FF_API ff_status ff_scatter_csr_create_i32(const int32_t *dst, int64_t n_edges, int64_t n_nodes,
                                           ff_scatter_csr **out);

/* The same on the current GPU: d_dst is device memory, the CSR and all arrays of the calls that use it are, too. Local
 *   stream  cudaStream_t; NULL: the default stream. The call waits for it
 * Memory of the device: 8 (N + 1) + 16 E bytes, and 16 a piece of a node of more than FF_SCATTER_PIECE edges; while
 * it is built about 24 N + 17 E bytes more.
 * Errors: as above; FF_E_UNSUPPORTED a library built without CUDA. */
FF_API ff_status ff_scatter_csr_create_cuda(const int64_t *d_dst, int64_t n_edges, int64_t n_nodes,
                                            void *stream, ff_scatter_csr **out);
FF_API ff_status ff_scatter_csr_create_cuda_i32(const int32_t *d_dst, int64_t n_edges, int64_t n_nodes,
                                                void *stream, ff_scatter_csr **out);

/* Frees the CSR and writes NULL; NULL is fine. One of a GPU waits for that GPU first. Local */
FF_API void ff_scatter_csr_destroy(ff_scatter_csr **csr);

/* ---- shapes and arrays ---- */

typedef struct ff_scatter_shape {
    int64_t n_nodes, n_edges; /* those of the CSR */
    int64_t n_channels;       /* C >= 1 */
    int lmax;                 /* 1 .. FF_SCATTER_LMAX */
} ff_scatter_shape;

/* Inputs; borrowed. Optional ones are NULL: no spin, gate 1, inv_sqrt_deg 1. coupling and radial may be NULL only if
 * E = 0. radial[e, l - 1, c] is at radial[e * stride[0] + (l - 1) * stride[1] + c * stride[2]], so that a slice of a
 * larger array needs no copy; all three strides 0: contiguous [E][lmax][C]. */
typedef struct ff_scatter_in_f32 {
    size_t size;               /* sizeof(ff_scatter_in_f32): fields can be added later */
    const float *coupling;     /* [E][D - 1] */
    const float *radial;       /* [E][lmax][C], strided */
    int64_t radial_stride[3];  /* in elements */
    const float *spin_l1;      /* [E][3][C] or NULL */
    const float *gate;         /* [E] or NULL */
    const float *inv_sqrt_deg; /* [N] or NULL */
    void *stream;              /* GPU: cudaStream_t the work is queued on; NULL: the default stream */
} ff_scatter_in_f32;

typedef struct ff_scatter_in_f64 {
    size_t size;
    const double *coupling;
    const double *radial;
    int64_t radial_stride[3];
    const double *spin_l1;
    const double *gate;
    const double *inv_sqrt_deg;
    void *stream;
} ff_scatter_in_f64;
#define FF_SCATTER_IN_F32_INIT                                                                               \
    {                                                                                                        \
        sizeof(ff_scatter_in_f32), NULL, NULL, {0, 0, 0}, NULL, NULL, NULL, NULL                             \
    }
#define FF_SCATTER_IN_F64_INIT                                                                               \
    {                                                                                                        \
        sizeof(ff_scatter_in_f64), NULL, NULL, {0, 0, 0}, NULL, NULL, NULL, NULL                             \
    }

/* Gradients, owned by the caller, overwritten; NULL: not wanted. The gradient of an optional input that was not given
 * is an error. All contiguous, radial too. */
typedef struct ff_scatter_grad_f32 {
    size_t size;
    float *coupling;     /* [E][D - 1] */
    float *radial;       /* [E][lmax][C] */
    float *spin_l1;      /* [E][3][C] */
    float *gate;         /* [E] */
    float *inv_sqrt_deg; /* [N] */
} ff_scatter_grad_f32;

typedef struct ff_scatter_grad_f64 {
    size_t size;
    double *coupling;
    double *radial;
    double *spin_l1;
    double *gate;
    double *inv_sqrt_deg;
} ff_scatter_grad_f64;
#define FF_SCATTER_GRAD_F32_INIT                                                                             \
    {                                                                                                        \
        sizeof(ff_scatter_grad_f32), NULL, NULL, NULL, NULL, NULL                                            \
    }
#define FF_SCATTER_GRAD_F64_INIT                                                                             \
    {                                                                                                        \
        sizeof(ff_scatter_grad_f64), NULL, NULL, NULL, NULL, NULL                                            \
    }

/* ---- forward and backward ---- */

/* out [N][D][C] from the inputs, overwritten.                                                           Local
 *   csr    built from dst with the counts of shape; borrowed
 *   path   which implementation; both give the same bits (GPU, float32: with at most FF_SCATTER_PIECE edges a node)
 * On a GPU the call returns when the work is queued on in->stream.
 * Memory: none. GPU, float32, nodes of more than FF_SCATTER_PIECE edges: (D - 1) C elements for each of their pieces.
 * Errors: FF_E_ARG NULL, counts that differ from the CSR's, lmax, C < 1, a size of a structure from another version,
 * a host pointer with a CSR of a GPU. */
FF_API ff_status ff_scatter_forward_f32(const ff_scatter_csr *csr, const ff_scatter_shape *shape,
                                        const ff_scatter_in_f32 *in, ff_scatter_path path, float *out);
FF_API ff_status ff_scatter_forward_f64(const ff_scatter_csr *csr, const ff_scatter_shape *shape,
                                        const ff_scatter_in_f64 *in, ff_scatter_path path, double *out);

/* Gradients of L for cotangent [N][D][C] = dL/dout (its row 0 does not matter, as out[n, 0, c] is constant). Local
 * One pass over the edges; the same bits for any number of threads. Sums over channels are ordered differently by the
 * two paths. Memory: fused: 8 E bytes if grad->inv_sqrt_deg is wanted; reference: N D C elements then (GPU: 8 E bytes).
 * Errors: as ff_scatter_forward_f32; FF_E_ARG a gradient of an input that was not given; FF_E_MEM. */
FF_API ff_status ff_scatter_backward_f32(const ff_scatter_csr *csr, const ff_scatter_shape *shape,
                                         const ff_scatter_in_f32 *in, ff_scatter_path path,
                                         const float *cotangent, const ff_scatter_grad_f32 *grad);
FF_API ff_status ff_scatter_backward_f64(const ff_scatter_csr *csr, const ff_scatter_shape *shape,
                                         const ff_scatter_in_f64 *in, ff_scatter_path path,
                                         const double *cotangent, const ff_scatter_grad_f64 *grad);

#ifdef __cplusplus
}
#endif
#endif
