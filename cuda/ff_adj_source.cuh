/* The part of the pair adjoint that belongs to sources: records before a network's pairs, their adjoint after them
 * (ff_adj_source.h; kernels: adj_source.cu). Private to cuda/. */
#ifndef FF_ADJ_SOURCE_CUH
#define FF_ADJ_SOURCE_CUH

#include "ff_cuda_impl.cuh"

extern "C" {
#include "ff_adj_source.h"
}

/* Device pointers, indexed by slots and units of the whole list; of the rows only those of the slots in work are there. A
 * slot's row of features holds n_feat + 1 floats. */
typedef struct adj_source_io {
    int64_t slot_begin, slot_end, unit_begin, unit_end; /* in work */
    const int64_t *unit_off;                            /* [n_unit + 1] */
    const float *w, *b, *gvec, *raw; /* of the network; [n_slot][n_raw] */
    float *feat, *rec;              /* [n_slot][n_feat + 1], [n_slot][rec_len] */
    const double *rows;             /* [n_slot][row_len] */
    float *feat_bar, *gvec_bar;     /* [n_slot][n_feat], [n_slot][n_gvec][2 + dim] */
    double *raw_bar, *strength_bar, *x_bar; /* as ff_adj_args, of this network */
    int64_t *grad;                          /* [grad_len][2] words */
    int *bad;
    bool first; /* of the networks that share raw_bar and x_bar */
} adj_source_io;

/* What all networks share: features, and records but for h0. */
cudaError_t adj_source_features(const ff_adj_source *c, const adj_source_io *io, cudaStream_t s);
/* h0 of one network. */
cudaError_t adj_source_hidden(const ff_adj_source *c, const adj_source_io *io, cudaStream_t s);
/* From rows to everything else. */
cudaError_t adj_source_back(const ff_adj_source *c, const adj_source_io *io, cudaStream_t s);

#endif
