/* Sizes and places of the pair adjoint for one network and precision, computed once on the host and handed to every
 * kernel by value. Read by ff_adj_tile.h (host and device) and the packing of weights (ff_adj_cfg.c).
 *
 * Words. Operands of tensor-core products are 32-bit words: two bf16 or one TF32 / float32. A k step is 8 words, so
 * that mma m16n8k16 (bf16) and m16n8k8 (TF32) have one layout: lane = 4 g + q holds
 *     A  (row g, word q), (row g + 8, word q), (row g, word q + 4), (row g + 8, word q + 4)
 *     B  (column g, word q), (column g, word q + 4)
 *     C  (row g, column 2 q), (g, 2 q + 1), (g + 8, 2 q), (g + 8, 2 q + 1)
 * Weights lie in the order of B: [tile of 8 columns][k step][lane][2], for the way forward and, transposed, back.
 * Chunk. What the weight gradients need of a run of groups lies in device memory in rows of row_words words, [16 / kpw
 * rows a group]: row g of a group holds pairs g and g + 8 in one word (bf16), or one pair (TF32, float32). */
#ifndef FF_ADJ_CFG_H
#define FF_ADJ_CFG_H

#include "ff_pair_adjoint.h"

enum { FF_ADJ_F32 = 0, FF_ADJ_TF32, FF_ADJ_BF16 }; /* as ff_cuda_precision */
enum { FF_ADJ_COLS = 4 };                          /* tiles of 8 columns a warp computes at a time */

/* Rows of a pair's quantities in shared memory, each as long as the tile has pairs. */
enum {
    FF_ADJ_U = 0,     /* r^: 3 */
    FF_ADJ_M = 3,     /* m(r) */
    FF_ADJ_R = 4,     /* r: 3 */
    FF_ADJ_STR = 7,   /* strength, 0 for padding */
    FF_ADJ_SCALE = 8, /* strength times envelope */
    FF_ADJ_MINUS = 9, /* -1, or 0 where r^ is zero */
    FF_ADJ_END = 10,  /* then the cotangents of the outputs: strength, x_t - x_s (3), length */
    FF_ADJ_OUT = 15,  /* cotangents of the sums: n_comp; then FF_ADJ_PART rows a vector, r last: */
    FF_ADJ_PART = 10, /* scale; r^ (3); cotangents of m, g, unit (3); m(r) */
};

/* Of a launch: most 16-row tiles of a warp; weight gradients: rows of a slab, side of the largest square, words between
 * the rows of a square of side n in shared memory, its threads (warps of n / 2 outputs x 32 inputs). */
enum { ADJ_MT = 8, ADJ_SLAB = 32, ADJ_SIDE_MAX = 128 };
#define ADJ_PITCH(n)        ((n) + 8)
#define ADJ_GRAD_THREADS(n) (2 * (n))

/* Accumulators of a warp, one entry a lane: [16-row tile][8-column tile][4]. */
typedef float adj_acc[ADJ_MT][FF_ADJ_COLS][4];

typedef uint16_t __attribute__((may_alias)) adj_half; /* one bf16 of a word */

typedef struct ff_adj_cfg {
    int prec, kpw;                 /* pairs or units of a word */
    int mt, wr, wc, rows, threads; /* 16-row tiles of a warp; row groups, warps of one; pairs of a tile */
    int side, squares; /* of weight gradients: side of a square, 64 or 128; squares of all layers */
    int dim, n_hidden, n_vec, n_harm, n_feat, n_comp, mlp;
    int n_vf, n_sf;                      /* vector and scalar fields */
    int off_m, off_g, off_unit, rec_len; /* record */
    int row_len;                         /* ff_adj_row_len() */
    float length, inv_length, eps2, beta;
    float leg_a[FF_GLOBE_MAX_HARM + 1], leg_b[FF_GLOBE_MAX_HARM + 1];
    int16_t vf_comp[FF_ADJ_MAX_FIELDS], vf_coef[FF_ADJ_MAX_FIELDS];
    int16_t sf_comp[FF_ADJ_MAX_FIELDS], sf_coef[FF_ADJ_MAX_FIELDS];
    struct {
        int n_in, n_out;       /* as they are */
        int tiles, steps;      /* forward: tiles of 8 outputs, k steps of the inputs */
        int tiles_t, steps_t;  /* back: tiles of 8 inputs, k steps of the outputs */
        int at, at_t, at_bias; /* places in the image (words) and among the biases */
        int x, z, diff; /* columns in a chunk's rows: inputs, cotangents of outputs, SiLU' (hidden layers) */
        int64_t at_w, at_b;  /* packed gradient */
        int across, squares; /* of its weight gradient: squares a row of squares, and all */
    } layer[FF_GLOBE_MAX_LAYERS + 1];
    int row_words;         /* of a chunk's row */
    int stride;            /* words of a pair's row in shared memory, 4 mod 8: no bank conflicts */
    int n_rows;            /* rows of quantities */
    int o_row, o_id, smem; /* bytes: quantities; targets and slots; all */
    int64_t image_words, n_bias, grad_len;
} ff_adj_cfg;

/* What a launch reads and writes. Group 0 of the chunk is group_begin of the lists. */
typedef struct adj_io {
    const uint32_t *image;
    const float *bias, *rec, *strength, *out_bar;
    const double *x_s, *x_t;
    const int32_t *group_slot, *target;
    int64_t group_begin, group_end;
    uint32_t *chunk;       /* [groups of the chunk][16 / kpw][row_words] */
    float *group_rows;     /* [groups of the chunk][row_len] */
    int64_t *target_words; /* or NULL */
    int64_t *grad;         /* [grad_len][2] words */
    int *bad;
} adj_io;

/* Plans for a block of at most smem_max bytes of shared memory. FF_E_UNSUPPORTED names what does not fit.  Local */
ff_status ff_adj_plan(const ff_adj_view *v, int prec, int smem_max, ff_adj_cfg *c);
/* image [image_words], bias [n_bias], both zeroed by the caller.                                           Local */
void ff_adj_pack(const ff_adj_view *v, const ff_adj_cfg *c, uint32_t *image, float *bias);

#endif
