/* Optimisers of a model's tensors. Every rank holds all of them and does the same arithmetic in the same order, so
 * weights stay equal to the bit without communication.
 *
 *   rest    AdamW (Loshchilov & Hutter 2019) or RAdam (Liu et al. 2020), decoupled weight decay
 *   Muon    for weight matrices of networks (Jordan et al. 2024): Nesterov momentum, the update orthogonalised by five
 *           Newton-Schulz steps X <- a X + (b X X^T + c (X X^T)^2) X, (a, b, c) = (3.4445, -4.7750, 2.0315), times
 *           0.2 sqrt(max(rows, columns)) so that its entries have the root mean square of an AdamW step */
#ifndef FF_OPTIM_H
#define FF_OPTIM_H

#include "ff_model.h"

typedef enum ff_optim_rest { FF_REST_ADAMW, FF_REST_RADAM } ff_optim_rest;

typedef struct ff_optim_opts {
    bool muon; /* network matrices; else they are treated as the rest */
    ff_optim_rest rest;
    double beta2;        /* AdamW, RAdam: decay of the mean square; 0: 0.999 */
    double weight_decay; /* per step: w <- w (1 - lr weight_decay) */
    double clip;         /* largest global norm of the gradient; 0: no limit */
    double ema;          /* decay of the averaged weights, 0: none kept */
} ff_optim_opts;

typedef struct ff_optim {
    ff_optim_opts opts;
    int n;           /* tensors, in the model's order */
    int64_t step;    /* steps done */
    int64_t skipped; /* steps left out because the gradient was not finite */
    float **first;   /* [n][tensor n] momentum */
    float **second;  /* [n][tensor n] mean square; NULL where Muon is used */
    float **ema;     /* [n][tensor n] averaged weights; NULL if none are kept */
} ff_optim;

/* State for a model, zero; averaged weights begin as the model's. Local; FF_E_MEM, FF_E_ARG a value out of range. */
ff_status ff_optim_create(const ff_model *m, const ff_optim_opts *opts, ff_optim **out);
void ff_optim_destroy(ff_optim **o);

/* Whether tensor i is stepped by Muon. */
bool ff_optim_is_muon(const ff_optim *o, const ff_model *m, int i);

/* One step with learning rate lr: grad [n] points to [tensor n] each (scaled in place when clipped). *norm: the
 * gradient's norm before clipping. A gradient that is not finite changes nothing but `skipped`. OpenMP-parallel over
 * tensors, same bits for any thread count.                                                              Local */
ff_status ff_optim_step(ff_optim *o, ff_model *m, float *const *grad, double lr, double *norm);

/* Orthogonalises g [rows][cols] in place (Newton-Schulz as above); work: 2 rows cols + 2 min(rows, cols)^2 floats. */
void ff_muon_orthogonalise(float *g, int64_t rows, int64_t cols, float *work);

#endif
