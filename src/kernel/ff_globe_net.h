/* The packed network as the kernels see it, and the table of instruction sets. Private to this room.
 *
 * Layers. Weights are packed in blocks of FF_GLOBE_BLOCK outputs, [block][n_in][FF_GLOBE_BLOCK], rows past
 * n_out zero, so that one block's weights for input k are one run of memory, whatever the vector width. src
 * source-only features -> first hidden layer (run once a source, in ff_globe_records) pair[0]  per-pair
 * features    -> first hidden layer, added to the record's h0 pair[l]  hidden l - 1 -> hidden l;
 * pair[n_hidden]  last hidden -> coefficients (Pade: a_0 d_0 a_1 d_1 ...) Source-only features in the order
 * of their columns here: source scalars; g of source vectors; for every pair a < b of vectors without r, b a
 * source vector: n = 1 .. n_harm. What depends on the global data alone (global scalars, g and harmonics of
 * global vectors) is a constant, folded into the bias in double. Per-pair features: g(r); for every vector k:
 * n = 1 .. n_harm of (k, r).
 *
 * Scale. Hidden pre-activations z are kept as z log2(e): then exp(-z) = 2^(-z'), whose range reduction is
 * exact and two operations shorter. SiLU is homogeneous in that scale (silu' = z' sigmoid(z)), so only the
 * first weights, the biases (x log2 e) and the last weights (x ln 2) differ from the model's. */
#ifndef FF_GLOBE_NET_H
#define FF_GLOBE_NET_H

#include "ff_globe.h"

enum { FF_GLOBE_BLOCK = 8, FF_GLOBE_ROW_PAD = 16 };

/* Rows padded to whole vectors of the widest kind, n up to a multiple of pad. */
static inline int ff_globe_round_up(int n, int pad)
{
    return (n + pad - 1) / pad * pad;
}

#define FF_GLOBE_NET(T, real)                                                                                     \
    typedef struct ff_globe_linear_##T {                                                                          \
        int n_in, n_out;                                                                                          \
        real *w; /* packed */                                                                                     \
        real *b; /* [n_out rounded up to FF_GLOBE_BLOCK]; NULL where the result is added to h0 */                 \
    } ff_globe_linear_##T;                                                                                        \
    struct ff_globe_net_##T {                                                                                     \
        ff_globe_shape s; /* field_rank is our own copy */                                                        \
        int n_vec, n_coef, n_comp, n_source;                                                                      \
        int off_m, off_g, off_unit, rec_len; /* places in a record, in reals */                                   \
        int act_rows;                        /* rows of an activation buffer */                                   \
        real length, eps2, beta;                                                                                  \
        real *gvec;          /* [n_gvector][2 + dim]: m, g, unit */                                               \
        real *leg_a, *leg_b; /* [n_harm + 1]: P_n = a_n c P_(n-1) + b_n P_(n-2) */                                \
        ff_globe_linear_##T src, pair[FF_GLOBE_MAX_LAYERS + 1];                                                   \
        /* Transposed, for the adjoint: outputs and inputs of src and pair change places. After                \
         * ff_globe_adjoint_prepare only; b is zero. */  \
        ff_globe_linear_##T src_t, pair_t[FF_GLOBE_MAX_LAYERS + 1];                                               \
        /* Places in the packed gradient, in reals: matrices [out][in padded], their biases (none for pair[0]), \
         * the global vectors' m, g, unit, the length. */ \
        size_t at_w[FF_GLOBE_MAX_LAYERS + 1], at_b[FF_GLOBE_MAX_LAYERS + 1], at_src_w, at_src_b, at_gvec,         \
            at_length, grad_len;                                                                                  \
        float *raw_w[FF_GLOBE_MAX_LAYERS + 1],                                                                    \
            *raw_b[FF_GLOBE_MAX_LAYERS + 1]; /* as given, for the probe */                                        \
        double *gscalar, *gvector;           /* as given */                                                       \
    };
FF_GLOBE_NET(f32, float)
FF_GLOBE_NET(f64, double)

/* Column of a feature in the reference's order (docs/theory.md): vectors count globals, sources, r (= n_vec).
 */
int ff_globe_col_g(const ff_globe_shape *s, int vector);
int ff_globe_col_harm(const ff_globe_shape *s, int n, int a, int b); /* a < b, n = 1 .. n_harm */

/* FF_E_ARG with the offending count, or FF_OK. */
ff_status ff_globe_shape_check(const ff_globe_shape *s);

/* One instruction set's kernels; NULL functions where this build lacks it. */
typedef struct ff_globe_isa_row {
    const char *name;
    void (*records)(const ff_globe_net_f32 *net, int64_t n, const float *src, float *rec);
    void (*tile)(const ff_globe_net_f32 *net, int n, const float *dx, const float *const *rec,
                 const float *strength, float *out, float *scratch);
    void (*records_adjoint)(const ff_globe_net_f32 *net, int n, const float *src, const float *rec_bar,
                            float *src_bar, float *grad, float *scratch);
    void (*tile_adjoint)(const ff_globe_net_f32 *net, int n, const float *dx, const float *const *rec,
                         const float *strength, const float *out_bar, float *rec_bar, float *strength_bar,
                         float *dx_bar, float *grad, float *scratch);
} ff_globe_isa_row;
extern const ff_globe_isa_row ff_globe_isa_avx512, ff_globe_isa_avx2, ff_globe_isa_generic;

#endif
