/* Host entry points of the CUDA room, plain C. Includes no CUDA header: device pointers are marked d_, streams are
 * cudaStream_t passed as void *.
 *
 * Pair sums of one (layer, source boundary, length) network:
 *     out[t] = sum over the list of t of strength[s] * value(x_t - x_s, record s)
 * A target is a point, or a node's centroid for pairs evaluated once a node. Its list is a sequence of SEGMENTS
 * of one array of source ids (a row of the plan; with expanded far pairs the rows of the target's ancestors, root
 * first, so that all points of a node share one row): nothing per point pair is stored. */
#ifndef FF_CUDA_H
#define FF_CUDA_H

#include "ff_globe.h"
#include "ff_pair_backend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Fixed pieces a target's list is cut into, counted from its own start: each is summed in float32 in a fixed order,
 * then the pieces in double. */
enum { FF_CUDA_PIECE = 128, FF_CUDA_GROUP = 16 };

typedef enum ff_cuda_precision {
    FF_CUDA_F32 = 0, /* float32 arithmetic throughout */
    FF_CUDA_TF32,    /* network products in TF32, float32 accumulation */
    FF_CUDA_BF16     /* network products in bf16, float32 accumulation */
} ff_cuda_precision;

/* ff_pair_part with its tables in device memory. */
typedef struct ff_cuda_part {
    int64_t point_begin, n_points, n_far, far_begin, n_leaf, leaf_begin;
    const int64_t *d_far_up;     /* [n_far] */
    const int64_t *d_far_of;     /* [n_points]; NULL if n_far is 0 */
    const int64_t *d_leaf_from;  /* [n_leaf] */
    const uint64_t *d_leaf_mask; /* [n_leaf] */
    const int32_t *d_node;       /* [n_far + n_leaf] held node of each node entry, then of each leaf entry */
} ff_cuda_part;

/* Source ids and segments, all in device memory, borrowed or built by ff_cuda_lists_build() (ff_cuda_tree.h). */
typedef struct ff_cuda_lists {
    int32_t n_t;              /* targets */
    const double *d_x_t;      /* [n_t][4] x, y, z (0 in 2D), unused */
    const int32_t *d_seg_off; /* [n_t + 1] segments of a target */
    const int64_t *d_seg_src; /* [n_seg] where the segment begins in d_src */
    const int32_t *d_seg_cum; /* [n_seg] pairs of the same target in earlier segments */
    const int32_t *d_n_pairs; /* [n_t] */
    const int32_t *d_src;     /* source ids (rows of the records) */
    /* Filled by ff_cuda_lists_cut(): */
    int32_t *d_piece_off;     /* [n_t + 1] pieces of a target */
    int64_t *d_group_off;     /* [n_t + 1] groups of FF_CUDA_GROUP pairs */
    int64_t n_piece, n_group; /* totals, on the host */
    /* What adding up needs (ff_pair_lists.h); only the pair kernels do without. */
    int64_t n_seg, n_src_ids, pairs;
    int n_parts;
    ff_cuda_part *part; /* [n_parts], host memory */
} ff_cuda_lists;

typedef struct ff_cuda_net ff_cuda_net; /* one packed network on the device */

/* Weights as in ff_globe_create_f32(); packed on the host, copied to the current device in the
 * order of stream, in which it is given back, too.                                       Local
 * FF_E_UNSUPPORTED where the current device lacks the precision; FF_E_MEM. */
ff_status ff_cuda_net_create(const ff_globe_shape *shape, const float *const *w, const float *const *b,
                             const double *gscalar, const double *gvector, double length,
                             ff_cuda_precision precision, void *stream, ff_cuda_net **out);
void ff_cuda_net_destroy(ff_cuda_net **net);

/* The kernel that will run: "globe_wgmma" (fused, sm_90a), "globe_mma" (fused, any shape, sm_80 on; float32 as three
 * TF32 products) or "globe_plain" (float32, one thread an output). */
const char *ff_cuda_net_kernel(const ff_cuda_net *net);

/* For tests and benches: which kernel serves networks created from now on, where it can; the fastest by default.
 * MMA_SMALL: globe_mma as planned for a GPU with 99 KiB of shared memory a block (sm_86, 89, 120). */
typedef enum ff_cuda_kernel {
    FF_CUDA_BEST = 0,
    FF_CUDA_MMA,
    FF_CUDA_MMA_SMALL,
    FF_CUDA_PLAIN
} ff_cuda_kernel;
void ff_cuda_prefer(ff_cuda_kernel kernel);

/* Device bytes of n records, and their computation from raw features d_src [n][n_sscalar + dim n_svector].  Local */
size_t ff_cuda_record_bytes(const ff_cuda_net *net, int64_t n);
ff_status ff_cuda_records(const ff_cuda_net *net, int64_t n, const float *d_src, void *d_rec, void *stream);

/* Fills piece_off, group_off (caller's memory) and the totals from n_pairs; waits for the stream.
 * d_work: ff_cuda_cut_bytes(n_t) bytes. */
size_t ff_cuda_cut_bytes(int32_t n_t);
ff_status ff_cuda_lists_cut(ff_cuda_lists *lists, void *d_work, void *stream);

/* out [n_t][n_comp] (overwritten; fields in order, vectors [dim]).                                          Local
 *   n_src, d_x_s [n_src][4] double, d_strength [n_src], d_rec as filled by ff_cuda_records() for n_src sources
 *   d_part: n_piece * n_comp floats of scratch */
typedef struct ff_cuda_pair_args {
    const ff_cuda_lists *lists;
    int64_t n_src;
    const double *d_x_s;
    const float *d_strength;
    const void *d_rec;
    float *d_part;
    float *d_out;
} ff_cuda_pair_args;
ff_status ff_cuda_pair_forward(const ff_cuda_net *net, const ff_cuda_pair_args *args, void *stream);

/* ---- the backend row ---- */

/* GPUs this process can use; 0 without a driver, too.                                                       Local */
int ff_cuda_device_count(void);
ff_status ff_cuda_device_name(int device, char *name, size_t size);

/* The CUDA row of ff_pair_backend on one device (it becomes the current one). Owned by the caller.           Local
 * FF_E_MEM; FF_E_INTERNAL with the driver's text. */
ff_status ff_cuda_backend_create(int device, ff_cuda_precision precision, ff_pair_backend **out);
/* Device memory the backend may take; nine tenths of what is free when it is created. Lists that do not fit are built
 * chunk by chunk in every layer; results do not depend on it.                                               Local */
void ff_cuda_backend_set_budget(ff_pair_backend *backend, int64_t bytes);
int64_t ff_cuda_backend_budget(const ff_pair_backend *backend); /* Local */
void ff_cuda_backend_destroy(ff_pair_backend **backend);

#ifdef __cplusplus
}
#endif
#endif
