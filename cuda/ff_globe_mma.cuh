/* Plan of the general fused kernel for one network: padded sizes, order of the packed weights, shared memory.
 *
 * Rows and columns. A block has wr row groups of 16 mt pairs, each with wc warps beside each other; a warp computes
 * 16 mt pairs x up to 64 units of a hidden layer at a time, and 64 output rows x 16 mt pairs of the output layer,
 * which is taken transposed so that a coefficient's pairs lie in one thread.
 * Weights. Cut into chunks of kc k steps (a k step is 32 bytes of a row: 16 bf16 or 8 float32) in the order of their
 * use; a chunk holds [rows][32 kc bytes], 16-byte units of a row swizzled so that ldmatrix meets no bank twice.
 * Output rows. Tile i of 16 holds coefficients 8 i .. 8 i + 7 (in the reference's order): numerators, then
 * denominators. A coefficient's contribution to its field is a vector known for the pair, one of n_kind:
 *     0 scalar (w, 0, 0);  1 r^ w;  2 + 2 k: w g_k k^;  3 + 2 k: w g_k (-k^ + (k^ . r^) r^) */
#ifndef FF_GLOBE_MMA_CUH
#define FF_GLOBE_MMA_CUH

#include "ff_cuda_net.cuh"

enum {
    FF_MMA_COLS = 64,  /* units of a layer that one warp computes */
    FF_MMA_WARPS = 8,  /* most warps that compute in a block */
    FF_MMA_TURNS = 16, /* see ff_border in pair_globe_fwd.cuh */
    FF_MMA_MAX_WIDTH = FF_MMA_COLS * FF_MMA_WARPS
};

typedef struct ff_mma_cfg {
    int mt, wr, wc; /* 16-pair tiles of a warp, row groups, warps of a row group */
    int feeders;    /* warps that find the pairs */
    int kc, stages; /* k steps of a chunk, chunks in shared memory */
    int n_layer;    /* hidden layers */
    int chunks[FF_GLOBE_MAX_LAYERS + 1], rows[FF_GLOBE_MAX_LAYERS + 1]; /* of layer l; last: of an output pass */
    int bias_at[FF_GLOBE_MAX_LAYERS + 1];                               /* l >= 1 */
    int passes, tiles;  /* output passes; 16-row tiles of a warp in each, 1 .. 4 */
    int n_slot;         /* coefficients, padded */
    int n_kind, kind_len; /* basis vectors of a pair; floats of one for a row group, padded against conflicts */
    int act_stride, stage_bytes; /* bytes of a pair's row of activations, of a chunk's room */
    int o_weights, o_basis, o_sum, o_done, o_geo, o_border, smem; /* bytes */
    size_t image_bytes, n_bias;
} ff_mma_cfg;

/* Offset in a chunk of row n, unit u (16 bytes). */
static __host__ __device__ inline int ff_mma_at(int kc, int n, int u)
{
    return kc == 2 ? n * 64 + ((u ^ (n >> 1 & 3)) << 4) : n * 32 + ((u ^ (n >> 2 & 1)) << 4);
}

/* Plans the kernel for the current device, with at most `shared` bytes of shared memory where that is not 0.
 * FF_E_UNSUPPORTED says which size does not fit. */
ff_status ff_mma_plan(const ff_net_dims *d, ff_cuda_precision precision, int shared, ff_mma_cfg *c);
/* tab: [n_slot] offsets of basis vectors, then first slot, slots, axis of each component. */
void ff_mma_pack(const ff_net_dims *d, const ff_mma_cfg *c, ff_cuda_precision precision, const float *const *w,
                 const float *const *b, char *image, float *bias, int32_t *tab);
size_t ff_mma_tab_len(const ff_net_dims *d, const ff_mma_cfg *c);
cudaError_t ff_mma_launch(const ff_net_dims *d, const ff_mma_cfg *c, ff_cuda_precision precision,
                          const ff_pair_dev *p, const char *image, const float *bias, const int32_t *tab,
                          cudaStream_t stream);
/* Padded multiply-adds of a pair, for the choice of a kernel. */
double ff_mma_work(const ff_net_dims *d, const ff_mma_cfg *c);

#endif
