/* GLOBE forward evaluation over ranks: clouds, trees and plans once; layers one after the other, targets in
 * tasks of a few hundred whose interactions are found by a restricted walk and evaluated at once. Nothing per
 * pair is kept: memory grows with faces. Results are equal to the bit on any number of ranks and threads,
 * because every target's pairs are summed in canonical order in double, one rounding at the end. */
#ifndef FF_EVAL_H
#define FF_EVAL_H

#include "ff_case.h"
#include "ff_let.h"
#include "ff_pair_backend.h"

typedef struct ff_eval ff_eval; /* of one precision */

typedef struct ff_eval_opts {
    const ff_pair_backend *backend; /* evaluates the layers (float32 inputs); NULL: the CPU. Borrowed */
    bool f64;                       /* network, features and sums' inputs in double (verification) */
    bool progress;
    bool keep; /* layers' outputs stay (n_own rows a layer and boundary): ff_grad_run needs them */
    /* With a backend that keeps evaluations (ff_resident.h): no figures, geometry and last values on the host, on one
     * rank, or with whole trees on every device, no trees either. ff_eval_lets, _node, _direct, _bytes are not to be called then. */
    bool device_only;
    /* Evaluates pair adjoints of ff_grad_run (its .adjoint; float32 only); NULL: the CPU. Borrowed, until ff_grad_destroy */
    const ff_pair_backend *adjoint;
    /* Called after each communication layer for each boundary (source index), before compression, and for the
     * final layer before calibration (source -1): home-order rows [n_home][n_comp], fields sorted. May be
     * NULL. Collective: every rank calls it, also with n_home = 0. */
    ff_status (*layer)(void *ctx, int layer, int source, int64_t n_home, const double *rows);
    void *ctx;
} ff_eval_opts;
#define FF_EVAL_OPTS_INIT                                                                                    \
    {                                                                                                        \
        NULL, false, false, false, false, NULL, NULL, NULL                                                   \
    }

typedef struct ff_eval_stats {
    int64_t pairs; /* pair evaluations (a pair through one branch's network in one layer), this rank */
    int64_t flop;  /* 2 x multiply-adds of the per-pair networks after hoisting, this rank */
    double t_setup_s, t_layers_s, t_exchange_s, t_wait_s; /* exchange in flight; of that, waited for */
    int64_t bytes_sent;                                   /* payload of all layers, this rank */
    ff_dist_row dist;
} ff_eval_stats;

/* Clouds, balanced cut, locally essential trees, payload lists, geometry aggregates.               Collective
 */
ff_status ff_eval_create(ff_comm *comm, const ff_case *c, const ff_eval_opts *opts, ff_eval **out);
/* Trees, plans and geometry anew, for points or fields of the case that have changed in place; networks stay. */
ff_status ff_eval_refresh(ff_eval *e); /* Collective */
/* For runs to come, and those of its ff_grad: global data as they stand in the case now; another lane of the backend
 * (ff_pair_backend.lane_create) it was created with; trees and lists stay.                                    Local */
ff_status ff_eval_rebind(ff_eval *e, const ff_pair_backend *lane);
/* All layers. out [n home targets][n_comp of the output fields], calibrated, home order, caller's. Collective
 */
ff_status ff_eval_run(ff_eval *e, double *out);
const ff_eval_stats *ff_eval_get_stats(const ff_eval *e);
void ff_eval_destroy(ff_eval **e);

/* Seconds of the device by phase since ff_eval_create or ff_eval_refresh; returns how many, 0 without a backend that
 * keeps evaluations. Local */
int ff_eval_resident_phases(ff_eval *e, ff_resident_phase *phase, int max);

int64_t ff_eval_n_targets_home(const ff_eval *e);
int ff_eval_n_layers(const ff_eval *e); /* the final one included */
/* The distributed trees: sources in order, then the targets' own one if they are no boundary. */
int ff_eval_lets(const ff_eval *e, ff_let *const **lets, const uint8_t **need, const int64_t **weight);

/* Aggregates of a source's node (held index): mu-weighted centroid and normal [dim], total mu.          Local
 */
void ff_eval_node(const ff_eval *e, int source, int32_t node, const double **x, const double **normal,
                  double *mu);

/* Direct evaluation of the final layer at k home targets' positions (theta = 0, from this run's latents and
 * strengths): pick [k] = global original target ids, ascending, the same on all ranks; exact [k][n_comp],
 * calibrated. Collective */
ff_status ff_eval_direct(ff_eval *e, const int64_t *pick, int64_t k, double *exact);

/* Bytes in use at the peak of ff_eval_run on this rank: what is in use now and the largest layer. Local */
int64_t ff_eval_bytes(const ff_eval *e);
/* Pair evaluations a second and thread, timed for a fraction of a second on made-up pairs. Local */
ff_status ff_eval_pair_rate(const ff_eval *e, double *rate);

#endif
