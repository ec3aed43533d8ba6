/* Table of a backend that keeps a whole evaluation to itself: points and fields go up once, results come down. Trees
 * (on one rank), geometry aggregates, pair lists, layers and their adding up are the backend's; the model room gives
 * shapes, packed networks and, on several ranks, trees and the exchange.
 *
 * Order of a point's rows: HOME (as given) where the backend builds the trees, OWN (sorted) where trees are given.
 * Source ids of a cloud: held point p is p, held node i is n_held + i. */
#ifndef FF_RESIDENT_H
#define FF_RESIDENT_H

#include "ff_lbvh.h"

typedef struct ff_pair_net ff_pair_net;
typedef struct ff_resident ff_resident;

/* Shapes of the model; everything is borrowed until destroy. Clouds 0 .. n_src - 1 are the sources. */
typedef struct ff_resident_model {
    int dim, n_src, n_cloud, target, n_comm;
    int n_ls, n_lv, n_len, n_out; /* latent scalars, vectors; lengths; components of the final layer */
    int leaf_size;
    double theta, compression, eps;
    bool expand_far;
    const int *slot; /* [n_len] where branch k's strength stands among the n_len of a row */
    const int *n_scalar,
        *n_stat; /* [n_src] physical scalars; static features: scalars, normal, physical vectors */
    const float *weight, *bias; /* [n_out] calibration of a component */
    ff_pair_net *const *net;    /* [n_comm + 1][n_src][n_len] */
} ff_resident_model;

/* One cloud on this rank; borrowed during start. */
typedef struct ff_resident_cloud {
    int64_t n;                         /* points given */
    const float *x32;                  /* [n][dim] what the tree sees; read where tree is NULL */
    const double *x;                   /* [n][dim] */
    const double *normal, *field, *mu; /* [n][dim], [n][n_stat - dim], [n]; sources only */
    /* Several ranks: the held tree, own subtrees, and what crosses ranks. tree NULL: one rank, built here. */
    const ff_tree *tree;
    int32_t own_first; /* held index of the first own point */
    int64_t own_begin; /* its sorted position */
    int64_t n_bottom;  /* own complete subtrees, ascending held index of their roots */
    const int32_t *bottom;
    int64_t n_upper; /* nodes whose sums come from ff_resident_comm.upper */
    const int32_t *upper;
    int64_t n_send, n_recv; /* source ids in the order of the messages */
    const int32_t *send, *recv;
} ff_resident_cloud;

/* The exchange, one row a transport. Buffers are host memory (pinned). Every rank makes the same calls. */
typedef struct ff_resident_comm {
    int size;
    void *ctx;
    ff_status (*agree)(void *ctx, ff_status mine); /* Collective */
    /* own [n_bottom][m] sums of the own subtrees -> upper [n_upper][m], children left then right. Collective */
    ff_status (*upper)(void *ctx, int cloud, int m, const double *own, double *upper);
    /* Rows of the send ids to their readers, rows of the recv ids from their owners. Collective, both */
    ff_status (*begin)(void *ctx, int cloud, size_t row_bytes, void *send, void *recv);
    ff_status (*end)(void *ctx, int cloud);
} ff_resident_comm;

typedef struct ff_resident_counts {
    int64_t near_pairs, far_evals;   /* point to point; anything with a node: each plan once */
    int64_t comm_evals, final_evals; /* evaluations of one layer, all branches */
} ff_resident_counts;

typedef struct ff_resident_phase {
    const char *name;
    double t_s;
} ff_resident_phase;

/* All calls are collective over comm where its size is above 1: a failure is agreed before the next exchange. */
typedef struct ff_resident_ops {
    ff_status (*create)(void *impl, const ff_resident_model *m, const ff_resident_comm *comm,
                        ff_resident **out); /* Local */
    void (*destroy)(ff_resident **r);
    /* Uploads the clouds (anew), builds trees, geometry aggregates and lists. */
    ff_status (*start)(ff_resident *r, const ff_resident_cloud *cloud);
    /* Layer k of n_comm + 1; values, aggregates and strengths of the next one included. */
    ff_status (*layer)(ff_resident *r, int k);
    /* After layer k: rows [n][n_comp] of a target cloud, before compression and calibration. Local */
    ff_status (*rows)(ff_resident *r, int k, int cloud, float *rows);
    /* After the last layer: calibrated [n][n_out]. Local */
    ff_status (*fields)(ff_resident *r, double *out);
    /* Source values [own points][latents, strengths], sorted order, of the last layer. Local */
    ff_status (*values)(ff_resident *r, int source, float *rows);
    ff_status (*counts)(ff_resident *r, ff_resident_counts *c); /* Local */
    /* Device seconds by phase since start began; returns how many. Waits for the device. */
    int (*phases)(ff_resident *r, ff_resident_phase *p, int max);
} ff_resident_ops;

#endif
