/* The pair adjoint of wide networks in bf16 on sm_90: sizes, places and host entry points (kernels: adj_wide_tile.cu,
 * adj_wide_weights.cu). One layout serves three hidden layers of up to 256 units, 5 vectors, 4 vector fields and 12 scalar
 * ones; what a network lacks is padded with zero weights.
 *
 * Operands. Every bf16 operand lies in core matrices of 8 rows x 16 bytes, 128 contiguous bytes each, so that one layout
 * serves stores, bulk copies and wgmma, read along either index:
 *     activations   [unit / 8][pair 64][8 units]: rows are pairs. K-major for the layers' products (k = units), and read
 *                   transposed by the weight gradients (k = pairs)
 *     weights       per k step of 16: [2][column][8]; in the order of their use, forward W1 .. W4, back W4 .. W1, by halves
 *                   of 128 columns
 * Tile. 64 pairs = 4 groups of one list block; a warp's 16 rows are one group, all of one source.
 * Chunk. Of a tile: x0 (features), x1, x2, x3 (inputs of the layers), z1, z2, z3, z4 (cotangents of their outputs).
 * Columns of the features: vector k, harmonic n in column 16 (k / 4) + 8 ((n - 1) / 2) + 2 (k % 4) + (n - 1) % 2, so that
 * lane q of a quad holds vectors q and q + 4; the first of the vector behind the last is g(r). Columns of the outputs: tile j of
 * 8 holds numerator and denominator of slot (j, q) in columns 2 q, 2 q + 1: j = 0 .. 10 the coefficients of vector field q
 * (r^, then c_k, e_k), j = 11 .. 13 scalars 4 (j - 11) + q.
 * Scale. Kernels keep h = z / 2 forward (SiLU(z) = h + h tanh h) and cotangents of z; ff_globe_net.h's z log2(e) comes in with
 * the weights, and goes out with the sums (adj_wide_sums). */
#ifndef FF_ADJ_WIDE_CUH
#define FF_ADJ_WIDE_CUH

#include "ff_cuda_impl.cuh"

extern "C" {
#include "ff_adj_cfg.h"
}

enum {
    AW_TILE = 64,
    AW_GROUPS = AW_TILE / FF_ADJ_GROUP,
    AW_H = 256,
    AW_KF = 32, /* features */
    AW_NV = 5,  /* vectors beside r */
    AW_VF = 4,  /* vector fields */
    AW_SF = 12, /* scalar fields */
    AW_J = 14,  /* tiles of outputs */
    AW_NOUT = 8 * AW_J,
    AW_HALF = AW_H / 2,        /* columns of a product: accumulators of one half while the other's are used */
    AW_STEP = AW_HALF * 32,    /* bytes of one k step */
    AW_STAGE = 2 * AW_STEP,    /* two k steps: a stage of the ring */
    /* bytes of the chunk's tile */
    AW_X0 = 0,
    AW_X_BYTES = AW_TILE * AW_H * 2,
    AW_X0_BYTES = AW_TILE * AW_KF * 2,
    AW_X1 = AW_X0 + AW_X0_BYTES,
    AW_Z1 = AW_X1 + 3 * AW_X_BYTES,
    AW_Z4 = AW_Z1 + 3 * AW_X_BYTES,
    AW_Z4_BYTES = AW_TILE * AW_NOUT * 2,
    AW_TILE_BYTES = AW_Z4 + AW_Z4_BYTES,
    /* Image of the weights in the order of their use, in stages: [product][half][k step][2][128 columns][8]; the last
     * product has 32 columns and 8 k steps a stage, outputs are padded to 128. */
    AW_FULL = AW_H / 16, /* k steps of a hidden layer */
    AW_OUT = AW_HALF / 16,
    AW_IMAGE = 2 * AW_KF * AW_H * 2 + 4 * AW_H * AW_H * 2 + AW_H * AW_HALF * 2 * 2,
    AW_STAGES = AW_IMAGE / AW_STAGE,
    AW_BIAS = 2 * AW_H + AW_NOUT,
    /* a list block's float32 sums: weights of the four layers, then biases of the last three */
    AW_P1 = 0,
    AW_P2 = AW_P1 + AW_H * AW_KF,
    AW_P3 = AW_P2 + AW_H * AW_H,
    AW_P4 = AW_P3 + AW_H * AW_H,
    AW_PB = AW_P4 + AW_NOUT * AW_H,
    AW_PART = AW_PB + AW_BIAS,
};

/* Weights on the device, packed there, and the network's sizes, by value to every kernel. */
typedef struct adj_wide {
    ff_adj_cfg c;
    char *image;
    float *bias;
} adj_wide;

/* What a chunk's kernels read and write. Of the pairs' part, its image, bias and chunk are not read: the wide kernels have
 * their own. */
typedef struct adj_wide_io {
    adj_io pairs;
    int64_t tile_begin;
    const int64_t *block_off,
        *tile_off; /* [n_block + 1] of the chunk's blocks: groups and tiles of the whole list */
    int n_block, n_tile;
    int2 *tile;  /* [n_tile] first group, groups; written by adj_wide_tiles */
    char *chunk; /* [n_tile][AW_TILE_BYTES] */
    float *part; /* [n_block][AW_PART] */
} adj_wide_io;

/* Coefficient of output column n in the order of the packed network, or -1. */
static __device__ __forceinline__ int output_of(const ff_adj_cfg &c, int n)
{
    int j = n / 8, q = n % 8 / 2, half = n % 2, at;
    if (j < 1 + 2 * AW_NV) {
        if (q >= c.n_vf || j >= 1 + 2 * c.n_vec) return -1;
        at = c.vf_coef[q] + j;
    } else {
        int i = 4 * (j - 1 - 2 * AW_NV) + q;
        if (i >= c.n_sf) return -1;
        at = c.sf_coef[i];
    }
    return 2 * at + half;
}
/* Input of feature column k, or -1. */
static __device__ __forceinline__ int feature_of(const ff_adj_cfg &c, int k)
{
    int v = k % 8 / 2 + 4 * (k / 16), n = 1 + k / 8 % 2 * 2 + k % 2;
    if (v < c.n_vec) return n <= c.n_harm ? 1 + v * c.n_harm + n - 1 : -1;
    return v == c.n_vec && n == 1 ? 0 : -1;
}

/* Whether the current device and the layout serve this network. */
bool adj_wide_serves(const ff_adj_view *v, int prec);
/* c: as planned for v. *out NULL on failure. adj_wide_close: NULL inside is fine.                                               Local */
ff_status adj_wide_open(ff_cuda_impl *impl, const ff_adj_view *v, const ff_adj_cfg *c, adj_wide **out);
void adj_wide_close(ff_cuda_impl *impl, adj_wide **w);

cudaError_t adj_wide_tiles(const adj_wide *w, const adj_wide_io *io, int sms, cudaStream_t s);
/* Weight gradients of the chunk's list blocks; then added to the words of grad, one chunk after the other. */
cudaError_t adj_wide_weights(const adj_wide_io *io, int sms, cudaStream_t s);
cudaError_t adj_wide_add(const adj_wide *w, const adj_wide_io *io, cudaStream_t s);

#endif
