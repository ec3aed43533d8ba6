/* The packed network on the device and what the kernels of this room share. Private to cuda/. */
#ifndef FF_CUDA_NET_CUH
#define FF_CUDA_NET_CUH

extern "C" {
#include "ff_cuda.h"
#include "ff_status.h"
}

#include "ff_cuda_check.cuh"

enum { FF_MAX_FIELDS = 96 };

/* Shapes and small constants, passed to kernels by value. */
typedef struct ff_net_dims {
    int dim, n_hidden, hidden[FF_GLOBE_MAX_LAYERS];
    int n_gvec, n_svec, n_vec, n_sscalar, n_harm; /* n_vec = n_gvec + n_svec */
    int n_field, n_vfield, n_sfield, n_comp, n_coef, n_net_out;
    int n_feat;     /* per-pair features: n_vec n_harm, then g(r) */
    int n_src_feat; /* source-only features: scalars; g of source vectors; harmonics of pairs without r */
    int rec_vec;    /* vectors a record has room for: n_vec, or more where a fused kernel's shape is padded */
    int rec_len;    /* floats of a record before h0: (unit, m) [rec_vec][4], then g [rec_vec], padded to 4 */
    int h0_len;     /* hidden units of h0, padding included */
    int mlp;
    float beta, eps2, inv_length;
    int8_t rank[FF_MAX_FIELDS];
    int16_t comp[FF_MAX_FIELDS];                          /* first component of a field */
    int16_t vfield[FF_MAX_FIELDS], sfield[FF_MAX_FIELDS]; /* component offsets of vector and scalar fields */
} ff_net_dims;

struct ff_fused_row; /* one instance of the wgmma kernel */
struct ff_mma_cfg;   /* plan of the general fused kernel */

struct ff_cuda_net {
    ff_net_dims d;
    ff_cuda_precision precision;
    const struct ff_fused_row *fused; /* NULL: not the wgmma kernel */
    struct ff_mma_cfg *mma;           /* NULL: not the general fused kernel; both NULL: the plain one */
    float h0_scale;                   /* 0.5 for bf16 and TF32 (SiLU of x from x / 2) */
    float *w_src, *b_src;             /* [n_src_feat][H0], [H0]: record part of layer one, unscaled */
    float *gvec;                      /* [n_gvec][8]: unit, m, g */
    float *w_pair;                    /* plain kernel: layers, each [n_in][n_out] then bias [n_out] */
    char *image;                      /* fused kernels: packed weights */
    float *bias;                      /* fused kernels: hidden layers 2.., outputs */
    int32_t *tab;                     /* general fused kernel: see ff_mma_pack() */
    char *block;                      /* all of the above */
    size_t block_bytes;
    cudaStream_t stream;              /* in whose order the block is freed */
};

/* Everything a pair kernel reads or writes. */
typedef struct ff_pair_dev {
    const double *x_t, *x_s;
    const int32_t *seg_off, *seg_cum, *n_pairs, *src, *piece_off;
    const int64_t *seg_src, *group_off;
    const float *strength, *rec;
    const void *h0;
    float *part;
    int32_t n_t;
    int64_t n_piece, n_group;
    int spare; /* multiprocessors that the fused kernels leave alone */
} ff_pair_dev;

/* Multiprocessors of the current device less spare, at least one. */
static inline cudaError_t ff_cuda_processors(int spare, int *n)
{
    int device;
    cudaError_t e = cudaGetDevice(&device);
    if (e == cudaSuccess) e = cudaDeviceGetAttribute(n, cudaDevAttrMultiProcessorCount, device);
    if (e == cudaSuccess) *n = *n > spare ? *n - spare : 1;
    return e;
}

/* A row of the table of fused kernels: which shapes it serves, how weights are packed, how it starts. */
typedef struct ff_fused_row {
    ff_cuda_precision precision;
    int mlp, width, n_hidden, n_vec, n_harm, n_vfield,
        n_sfield; /* all but mlp, n_hidden, n_harm: at least the network's */
    size_t image_bytes;
    int n_bias;
    size_t h0_bytes; /* of one record */
    /* w[l] [out][in] in the kernel's feature and output order (see ff_fused_slot), scaled */
    void (*pack)(const ff_net_dims *d, const float *const *w, const float *const *b, char *image,
                 float *bias);
    cudaError_t (*launch)(const ff_net_dims *d, const ff_pair_dev *p, const char *image, const float *bias,
                          cudaStream_t stream);
} ff_fused_row;

/* Where h0 begins in a buffer of n records. */
static inline size_t ff_h0_offset(const ff_net_dims *d, int64_t n)
{
    return ((size_t)n * (size_t)d->rec_len * sizeof(float) + 255) / 256 * 256;
}

/* Source rows of one boundary: static features [n][n_stat] (n_scalar scalars first) and the layer's values [n][n_dyn]
 * (n_ls latent scalars, n_lv components of latent vectors, ...). n_ls = n_lv = 0: no latents in this layer. */
typedef struct ff_rec_rows {
    int64_t n;
    const float *stat, *dyn;
    int n_stat, n_dyn, n_scalar, n_ls, n_lv;
} ff_rec_rows;
enum { FF_REC_NETS = 8 };
/* Records of n_net networks of one shape: one d_rec, d_h0 and d_strength (may be NULL) a network; strength k is column
 * slot[k] of dyn. */
ff_status ff_records_run(const ff_cuda_net *const *net, int n_net, const ff_rec_rows *rows, float *d_rec,
                         void *const *d_h0, float *const *d_strength, const int *slot, cudaStream_t s);
size_t ff_h0_bytes(const ff_cuda_net *net); /* of one source */

/* Pair sums of one network into rows [n_t][n_comp]: added where add is set, else overwritten. */
typedef struct ff_pair_run_args {
    const ff_cuda_lists *lists;
    const double *x_s;
    const float *strength, *rec;
    const void *h0;
    float *part, *rows;
    bool add;
    int spare; /* of the launch, as in ff_pair_dev */
} ff_pair_run_args;
ff_status ff_pair_run(const ff_cuda_net *net, const ff_pair_run_args *a, cudaStream_t s);
/* Its two steps. Launch sums the pieces of lists into part; where the network's kernel takes them (ff_pair_splits) the
 * lists may be runs of pieces of others (src/kernel/ff_list_split.h). */
ff_status ff_pair_launch(const ff_cuda_net *net, const ff_pair_run_args *a, cudaStream_t s);
ff_status ff_pair_reduce(const ff_cuda_net *net, const ff_pair_run_args *a, cudaStream_t s);
bool ff_pair_splits(const ff_cuda_net *net);

const ff_fused_row *ff_fused_find(const ff_net_dims *d, ff_cuda_precision precision);
double ff_fused_work(const ff_fused_row *row); /* padded multiply-adds of a pair */
cudaError_t ff_plain_launch(const ff_net_dims *d, const ff_pair_dev *p, const float *w, cudaStream_t stream);

/* ---- shared device arithmetic ---- */

/* Position of a work unit: pairs [p, ...) of target t. */
typedef struct ff_cursor {
    int t, p;
} ff_cursor;

/* First piece boundary at or after group g of the whole launch, and the group it starts at. */
static __device__ inline ff_cursor ff_piece_at(const ff_pair_dev &q, int64_t g, int64_t *group)
{
    int lo = 0, hi = q.n_t; /* last t with group_off[t] <= g */
    while (hi - lo > 1) {
        int mid = (lo + hi) / 2;
        if (q.group_off[mid] <= g)
            lo = mid;
        else
            hi = mid;
    }
    constexpr int per = FF_CUDA_PIECE / FF_CUDA_GROUP;
    int64_t into = g - q.group_off[lo], piece = (into + per - 1) / per;
    if (g >= q.n_group || piece * per >= q.group_off[lo + 1] - q.group_off[lo]) {
        int t = g >= q.n_group ? q.n_t : lo + 1;
        *group = q.group_off[t];
        return {t, 0};
    }
    *group = q.group_off[lo] + piece * per;
    return {lo, (int)(piece * FF_CUDA_PIECE)};
}

#endif
