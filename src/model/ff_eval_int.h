/* What the precision-independent part of the evaluation (ff_eval.c) shares with its two instances
 * (ff_eval_f32.c, ff_eval_f64.c). Private to the model room. */
#ifndef FF_EVAL_INT_H
#define FF_EVAL_INT_H

#include "ff_eval.h"
#include "ff_log.h"

/* Geometry of one cloud. Held points and nodes as in its let; rows of remote ones are filled by the payload.
 */
typedef struct eval_set {
    int n_stat;         /* static source features a point: physical scalars, normals, physical vectors */
    double *x_point;    /* [n_held][dim] */
    double *x_node;     /* [n_nodes][dim] mu-weighted centroid (plain where mu is 0); sources only */
    double *x_plain;    /* [n_nodes][dim] plain mean of the points: target centroid for other trees' plans */
    double *stat_point; /* [n_held][n_stat]; sources only */
    double *stat_node;  /* [n_nodes][n_stat] mu-weighted means */
    double *mu_own;     /* [n_own] */
    double *mu_node;    /* [n_nodes] */
    uint8_t *late_node; /* [n_nodes] 1: arrives by the payload exchange */
    int64_t n_tasks;
    int64_t *task;   /* [n_tasks + 1] sorted positions, at block borders */
    uint8_t *remote; /* [n_tasks] 1: reads something that arrives by the payload exchange */
} eval_set;

/* Pair lists of one source for a backend, kept over the layers. */
typedef struct eval_job {
    ff_pair_lists *lists; /* only what adding up needs */
    ff_pair_job *job;
} eval_job;

typedef struct eval_resident eval_resident; /* ff_eval_resident.c */

struct ff_eval {
    ff_comm *comm;
    const ff_case *c;
    ff_eval_opts opts;
    ff_eval_stats stats;
    bool whole; /* every rank's device holds all points; there are no clouds and trees here then */
    int dim, n_src, n_cloud, target; /* target: cloud whose points are the prediction points */
    ff_cloud **cloud;
    ff_let **let;
    uint8_t *need;   /* [n_cloud][n_cloud] (target, source) */
    int64_t *weight; /* evaluations a pair counts for, over all layers and branches */
    eval_set *set;   /* [n_cloud] */
    double *gscalar, *gvector;
    int n_lat, n_len, n_dyn; /* latent components; lengths; n_dyn = n_lat + n_len values a source and layer */
    eval_job *job[2];        /* [n_src] communication layers, final layer; with a backend only */
    eval_resident *res;      /* instead of jobs, with a backend that keeps evaluations */
    void **
        kept; /* [n_comm + 1][n_cloud] with opts.keep: out of each layer, own rows of the instance's type, before
                    compression and calibration; NULL where the cloud is no target of the layer */
    void *last_dyn; /* instance's own: last layer's source values, for ff_eval_direct */
};

ff_status ff_eval_layers_f32(ff_eval *e, double *out);
ff_status ff_eval_layers_f64(ff_eval *e, double *out);
ff_status ff_eval_direct_f32(ff_eval *e, const double *x, int64_t k, double *exact);
ff_status ff_eval_direct_f64(ff_eval *e, const double *x, int64_t k, double *exact);
int64_t ff_eval_layer_bytes_f32(const ff_eval *e);
int64_t ff_eval_layer_bytes_f64(const ff_eval *e);
ff_status ff_eval_pair_rate_f32(const ff_eval *e, double *rate);
ff_status ff_eval_pair_rate_f64(const ff_eval *e, double *rate);
void ff_eval_free_f32(ff_eval *e);
/* Compression of one output row (latents and strengths), in double, rounded once a value. */
void ff_eval_compress_f32(const ff_model_config *m, int dim, float *v);
void ff_eval_compress_f64(const ff_model_config *m, int dim, double *v);
void ff_eval_drop_kept(ff_eval *e);
void ff_eval_free_f64(ff_eval *e);

/* Layers on a backend (ff_eval_jobs.c): rows of source j added to total [n_cloud][n_own][n_comp] of the targets.
 * Sources are the held points, then the held nodes: raw [n][n_raw], strength [n_len][n]. pairs: evaluations. Local */
typedef struct eval_job_args {
    int j, n_comp;
    bool final;
    ff_pair_net *const *net;
    const float *raw, *strength;
    double *const *total;
} eval_job_args;
ff_status ff_eval_jobs_run(ff_eval *e, const eval_job_args *a, int64_t *pairs);
void ff_eval_jobs_free(ff_eval *e);

/* Evaluation on a backend that keeps it (ff_eval_resident.c). start: after the trees of several ranks, again for new
 * points. Collective but for is_, phases, free */
bool ff_eval_is_resident(const ff_eval *e);
/* Whether the points of all ranks fit on every device (ff_pair_backend.whole_bytes). Collective */
ff_status ff_eval_resident_whole(ff_eval *e);
ff_status ff_eval_resident_start(ff_eval *e);
ff_status ff_eval_resident_run(ff_eval *e, double *out);
void ff_eval_resident_free(ff_eval *e);
/* Source values of the last run for ff_eval_direct_f32. Local */
ff_status ff_eval_resident_values(ff_eval *e, int j, float *rows);
ff_status ff_eval_take_values_f32(ff_eval *e);

/* Calibration y = w y + b of final rows [n][n_comp], in place. */
void ff_eval_calibrate(const ff_eval *e, int64_t n, double *rows);

#endif
