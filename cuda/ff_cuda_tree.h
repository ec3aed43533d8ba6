/* Trees, dual traversal and pair lists on the GPU, equal to the bit to those of the CPU (src/tree, src/plan,
 * src/kernel/ff_pair_lists.h). Plain C; d_ marks device pointers, memory comes from a pool and all work goes to the
 * pool's stream. All calls Local.
 *
 * What is decided on the GPU is float32 without contraction, with IEEE division and root, like on the CPU. */
#ifndef FF_CUDA_TREE_H
#define FF_CUDA_TREE_H

#include "ff_cuda.h"
#include "ff_cuda_pool.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- trees ---- */

/* ff_tree in device memory; may be held in part, as there. */
typedef struct ff_cuda_tree {
    int dim, leaf_size, depth; /* depth: levels below the root */
    int64_t n_points;
    int32_t n_nodes, n_held;
    ff_node *d_node;            /* [n_nodes] */
    int64_t *d_id;              /* [n_nodes] */
    int64_t *d_start, *d_count; /* [n_nodes] */
    int32_t *d_first;           /* [n_nodes] */
    float *d_x;                 /* [n_held][dim] */
    int64_t *d_pos;             /* [n_held] */
    int32_t own_first;          /* held index of the first own point */
    int64_t own_begin, own_end; /* own sorted positions; all of them where the tree was built here */
} ff_cuda_tree;

/* Copy of a host tree, whole or held in part. */
ff_status ff_cuda_tree_upload(ff_cuda_pool *pool, const ff_tree *tree, int32_t own_first, int64_t own_begin,
                              int64_t own_end, ff_cuda_tree **out);

/* Complete tree of n points d_x [n][dim] in any order, as ff_tree_build. d_order [n] (may be NULL) receives the
 * original index at each sorted position. n = 0 gives a tree without nodes. Waits for the stream once (the check).
 * Errors as ff_tree_build; FF_E_MEM. */
ff_status ff_cuda_tree_build(ff_cuda_pool *pool, const float *d_x, int64_t n, int dim, int leaf_size,
                             int64_t *d_order, ff_cuda_tree **out);

/* Copy in host memory, owned by the caller (ff_tree_destroy). Waits for the stream. */
ff_status ff_cuda_tree_download(ff_cuda_pool *pool, const ff_cuda_tree *tree, ff_tree **out);
void ff_cuda_tree_destroy(ff_cuda_pool *pool, ff_cuda_tree **tree); /* NULL inside is fine */

/* ---- pair lists ---- */

/* What one cloud brings: targets [begin, end) of its tree (sorted positions within the own run; a chunk, or all). */
typedef struct ff_cuda_target {
    const ff_cuda_tree *tree;
    const double *d_x_point; /* [n_held][dim] */
    const double *d_x_node;  /* [n_nodes][dim] centroids for node entries */
    int64_t begin, end;
} ff_cuda_target;

/* Lists of n target clouds against one source tree: ff_pair_lists of the host, part k for target k. */
typedef struct ff_cuda_lists_args {
    const ff_cuda_target *target;
    int n;
    const ff_cuda_tree *source;
    double theta;
    bool expand_far;
} ff_cuda_lists_args;

/* Builds n_lists lists (all sources of a layer, say) in one traversal: out [n_lists], each owned by the caller; on
 * failure all are NULL. Every array of ff_pair_lists and its parts, with the host's bits, and the cut into pieces
 * (ff_cuda_lists_cut). Waits for the stream a few times, never once a level.
 * Errors as ff_pair_lists_build; FF_E_MEM. */
ff_status ff_cuda_lists_build(ff_cuda_pool *pool, const ff_cuda_lists_args *args, int n_lists,
                              ff_cuda_lists **out);
void ff_cuda_lists_destroy(ff_cuda_pool *pool, ff_cuda_lists **lists); /* NULL inside is fine */
int64_t ff_cuda_lists_bytes(const ff_cuda_lists *lists);               /* device memory they hold */

/* Entries a target: what buffers are made for. Zeros before the first call; kept by the caller between calls of one
 * plan, so that they are made right at once. */
typedef struct ff_cuda_density {
    double far, leaf, next;
} ff_cuda_density;

/* Chunks for lists that do not fit at once. args->n must be 1. Builds lists of targets [*at, *at + k) of args->target[0]
 * (within its range), as many as fit in budget_bytes (at least one block of points, FF_E_MEM if not even that fits),
 * scratch included, and moves *at behind them. *guess: 0 before the first call, kept by the caller between calls of one
 * plan. Chunks end at block borders (ff_topo_border), so targets keep their lists' bits; a far node that spans chunks
 * has an entry in each. Where the chunks end depends on budget and plan, the sums of a target do not. */
ff_status ff_cuda_lists_next(ff_cuda_pool *pool, const ff_cuda_lists_args *args, int64_t budget_bytes,
                             int64_t *at, ff_cuda_density *density, ff_cuda_lists **out);

/* Host copy of the lists, for tests and comparisons; owned by the caller (ff_pair_lists_destroy). Waits. */
ff_status ff_cuda_lists_download(ff_cuda_pool *pool, const ff_cuda_lists *lists, ff_pair_lists **out);

/* Counts and digest of the plan of targets [begin, end) against source, as ff_plan_counts and ff_plan_digest of
 * ff_plan_build give them; nothing is kept. budget_bytes: memory of the traversal at most, 0: whatever it takes. */
ff_status ff_cuda_plan_count(ff_cuda_pool *pool, const ff_cuda_tree *targets, const ff_cuda_tree *source,
                             double theta, bool expand_far, int64_t begin, int64_t end, int64_t budget_bytes,
                             ff_dtt_counts *counts, uint64_t *digest);

#ifdef __cplusplus
}
#endif
#endif
