/* GLOBE pair kernel: parameters of one (layer, source boundary, length) network, packing, records, tiles.
 * Mathematics: docs/theory.md. Two instances from one text: _f32 and _f64 (ff_globe_impl.h).
 *
 * Per source (point or node) everything that does not depend on the target is computed once a layer into a
 * RECORD, opaque to the caller (its order and scale: ff_globe_net.h): [ h0 ]                    first-layer
 * pre-activation of all source-only features, bias included [ m_k, g_k : n_vec each ] magnitude and g of the
 * source's and the global vectors, in the order of the basis [ unit_k : n_vec x dim ]  their directions A
 * pair then has 1 + n_vec * n_harm features left (g(r); S(m_k m_r) P_n(k^ . r^) for every k and n). Order of
 * the vectors k: global vectors, then source vectors, each sorted by dotted name (as in the basis).
 *
 * Feature order of the reference (checked against every golden probe to 1e-15): global scalars; source
 * scalars; g of the global vectors, of r, of the source vectors; then for n = 1 .. n_harm (outermost), for a,
 * for b > a in the list [global vectors, source vectors, r]: S(m_a m_b) P_n(a^ . b^). */
#ifndef FF_GLOBE_H
#define FF_GLOBE_H

#include "ff_status.h"

#include <stdbool.h>

enum {
    FF_GLOBE_TILE =
        48, /* pairs a tile: three AVX-512 vectors, so that 8 outputs x 3 vectors fill the registers */
    FF_GLOBE_MAX_LAYERS = 8,
    FF_GLOBE_MAX_HIDDEN = 1024, /* these three bound the stack of ff_globe_records */
    FF_GLOBE_MAX_VEC = 64,      /* global and source vectors */
    FF_GLOBE_MAX_HARM = 32
};

/* Shapes of one network; all counts, no pointers. Filled by the model room. */
typedef struct ff_globe_shape {
    int dim;                  /* 2 or 3 */
    int n_gscalar;            /* global scalars including log length ratios, sorted */
    int n_sscalar;            /* source scalars, sorted */
    int n_gvector, n_svector; /* global and source vectors (r not counted) */
    int n_harm;
    int n_hidden; /* hidden layers, 1 .. FF_GLOBE_MAX_LAYERS */
    int hidden[FF_GLOBE_MAX_LAYERS];
    int n_field;           /* output fields, sorted */
    const int *field_rank; /* [n_field] 0 or 1; borrowed during create only */
    bool mlp;              /* tanh network instead of Pade */
    double beta;           /* 0: term absent */
    double eps;            /* smoothing radius */
} ff_globe_shape;

/* Derived counts. n_vec = n_gvector + n_svector; n_in as the reference counts it; n_coef = sum over fields of
 * (scalar 1, vector 1 + 2 n_vec); n_net_out = 2 n_coef (pade) or n_coef (mlp); n_comp = components of all
 * fields. */
int ff_globe_n_vec(const ff_globe_shape *s);
int ff_globe_n_in(const ff_globe_shape *s);
int ff_globe_n_coef(const ff_globe_shape *s);
int ff_globe_n_net_out(const ff_globe_shape *s);
int ff_globe_n_comp(const ff_globe_shape *s);
int ff_globe_n_source(const ff_globe_shape *s); /* raw source features: n_sscalar + dim * n_svector */
/* Multiply-adds of the network for one pair after hoisting, unpadded: the figure FLOP rates are quoted in. */
int64_t ff_globe_pair_madds(const ff_globe_shape *s);

/* One packed network with its global data; opaque, of one precision. */
typedef struct ff_globe_net_f32 ff_globe_net_f32;
typedef struct ff_globe_net_f64 ff_globe_net_f64;

/* Instantiated for T in {f32 with real = float, f64 with real = double}; X(name) = name##_f32 / _f64:
 *
 * ff_status ff_globe_create_T(const ff_globe_shape *s,
 *         const float *const w[n_hidden + 1],  w[l] [out_l][in_l] row-major in the reference's feature order
 *         const float *const b[n_hidden + 1],  b[l] [out_l]
 *         const double *gscalar, const double *gvector,   [n_gscalar], [n_gvector][dim]
 *         double length,                       effective reference length L_ref exp(log_scalefactor)
 *         ff_globe_net_T **out);                            Local, FF_E_MEM, FF_E_ARG (a count out of range)
 * void   ff_globe_destroy_T(ff_globe_net_T **);
 * size_t ff_globe_record_len_T(const ff_globe_net_T *);           reals a record, padded to 64 bytes
 * void   ff_globe_records_T(const net *, int64_t n, const real *src, real *rec);
 *         src [n][ff_globe_n_source]: scalars, then vectors [n_svector][dim], both sorted; rec
 * [n][record_len]. A record's bits do not depend on n or on its neighbours.                          Local,
 * thread-safe void   ff_globe_tile_T(const net *, int n, const real *dx, const real *const *rec, const real
 * *strength, real *out, real *scratch); n <= FF_GLOBE_TILE pairs: dx [n][dim] = x_t - x_s (not yet divided by
 * L), rec[i] the source's record, strength [n]; out [n][n_comp] = strength * pair value, fields in order,
 * vectors [dim]. scratch: ff_globe_scratch_len_T(net) reals, 64-byte aligned, one a thread. A pair's bits
 * depend on that pair alone, never on n or on its place in the tile.  Local, thread-safe Finite for zero
 * vectors, coincident points and any finite dx. n == 0 is fine. Lanes come in vectors of 16 (AVX-512), 8 or
 * 4: a tile of 48 costs least a pair, one of 1 as much as one of 16. void   ff_globe_probe_T(const net *, int
 * n, const real *dx, const real *src, real *net_in, real *net_out); plain reference arithmetic for tests and
 * verify: features [n][n_in] in the reference's order and the network's output [n][n_coef] after Pade or
 * tanh, before the envelope.
 */
#define FF_GLOBE_DECLARE(T, real)                                                                            \
    ff_status ff_globe_create_##T(const ff_globe_shape *s, const float *const *w, const float *const *b,     \
                                  const double *gscalar, const double *gvector, double length,               \
                                  ff_globe_net_##T **out);                                                   \
    void ff_globe_destroy_##T(ff_globe_net_##T **net);                                                       \
    const ff_globe_shape *ff_globe_shape_##T(const ff_globe_net_##T *net);                                   \
    size_t ff_globe_record_len_##T(const ff_globe_net_##T *net);                                             \
    size_t ff_globe_scratch_len_##T(const ff_globe_net_##T *net);                                            \
    void ff_globe_records_##T(const ff_globe_net_##T *net, int64_t n, const real *src, real *rec);           \
    void ff_globe_tile_##T(const ff_globe_net_##T *net, int n, const real *dx, const real *const *rec,       \
                           const real *strength, real *out, real *scratch);                                  \
    ff_status ff_globe_probe_##T(const ff_globe_net_##T *net, int n, const real *dx, const real *src,        \
                                 real *net_in, real *net_out);
FF_GLOBE_DECLARE(f32, float)
FF_GLOBE_DECLARE(f64, double)

/* The adjoint. A cotangent (X_bar: derivative of the loss with respect to X) goes in for every tile's out and comes out
 * for everything it depends on. Weight gradients and the like are summed in a PACKED GRADIENT of the network,
 * grad [ff_globe_grad_len_T], which the caller zeroes and may add up with others of the same shape; the order of its
 * sums is the order of the pairs, and it holds no more than rounding beside (padding is zero).
 *
 * ff_status ff_globe_adjoint_prepare_T(net *)   once, before the adjoint functions: transposed weights. Local, FF_E_MEM
 * void ff_globe_tile_adjoint_T(net, n, dx, rec, strength, out_bar, rec_bar, strength_bar, dx_bar, grad, scratch)
 *         n <= FF_GLOBE_TILE pairs as in ff_globe_tile_T; out_bar [n][n_comp] in; rec_bar [n][record_len],
 *         strength_bar [n], dx_bar [n][dim] overwritten, grad added to. A pair's cotangents depend on it alone.
 *         scratch: ff_globe_adjoint_scratch_len_T(net) reals, 64-byte aligned, one a thread.   Local, thread-safe
 * void ff_globe_records_adjoint_T(net, n, src, rec_bar, src_bar, grad, scratch)
 *         n <= FF_GLOBE_TILE sources: src [n][ff_globe_n_source] as in ff_globe_records_T, rec_bar [n][record_len] the
 *         sums over their pairs; src_bar [n][ff_globe_n_source] overwritten, grad added to.    Local, thread-safe
 * void ff_globe_unpack_T(net, packed, w_bar, b_bar, gscalar_bar, gvector_bar, length_bar)
 *         packed [grad_len] in double, the sum over all pairs and sources; w_bar[l] [out_l][in_l], b_bar[l] [out_l] in the
 *         reference's order overwritten; gscalar_bar [n_gscalar], gvector_bar [n_gvector][dim], length_bar [1] added to
 *         (derivative with respect to the effective length).                                   Local, FF_E_MEM */
#define FF_GLOBE_DECLARE_ADJOINT(T, real)                                                                    \
    ff_status ff_globe_adjoint_prepare_##T(ff_globe_net_##T *net);                                           \
    size_t ff_globe_grad_len_##T(const ff_globe_net_##T *net);                                               \
    size_t ff_globe_adjoint_scratch_len_##T(const ff_globe_net_##T *net);                                    \
    void ff_globe_tile_adjoint_##T(                                                                          \
        const ff_globe_net_##T *net, int n, const real *dx, const real *const *rec, const real *strength,    \
        const real *out_bar, real *rec_bar, real *strength_bar, real *dx_bar, real *grad, real *scratch);    \
    void ff_globe_records_adjoint_##T(const ff_globe_net_##T *net, int n, const real *src,                   \
                                      const real *rec_bar, real *src_bar, real *grad, real *scratch);        \
    ff_status ff_globe_unpack_##T(const ff_globe_net_##T *net, const double *packed, double *const *w_bar,   \
                                  double *const *b_bar, double *gscalar_bar, double *gvector_bar,            \
                                  double *length_bar);
FF_GLOBE_DECLARE_ADJOINT(f32, float)
FF_GLOBE_DECLARE_ADJOINT(f64, double)

/* "avx512", "avx2" or "generic": the instruction set chosen at run time for the f32 tiles and records (all
 * three serve the same packed network and the same records). ff_globe_set_isa forces one for tests, "auto"
 * goes back (FF_E_UNSUPPORTED if this processor lacks it). avx512 and avx2 give equal bits; generic, which
 * has no fused multiply-add, differs from them by rounding. */
const char *ff_globe_isa(void);
ff_status ff_globe_set_isa(const char *name);

#endif
