/* Table of a backend that keeps a whole evaluation to itself: points and fields go up once, results come down. Trees
 * (on one rank), geometry aggregates, pair lists, layers and their adding up are the backend's; the model room gives
 * shapes, packed networks and, on several ranks, trees and the exchange.
 *
 * Order of a point's rows: HOME (as given, this rank's share) where the backend builds the trees, OWN (sorted) where trees
 * are given.
 * Source ids of a cloud: held point p is p, held node i is n_held + i. */
#ifndef FF_RESIDENT_H
#define FF_RESIDENT_H

#include "ff_comm.h"
#include "ff_hd.h"
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
    bool way_back;   /* an adjoint takes memory, too: lists stay only within half of the budget */
    const int *slot; /* [n_len] where branch k's strength stands among the n_len of a row */
    const int *n_scalar,
        *n_stat; /* [n_src] physical scalars; static features: scalars, normal, physical vectors */
    const float *weight, *bias; /* [n_out] calibration of a component */
    ff_pair_net *const *net;    /* [n_comm + 1][n_src][n_len] */
} ff_resident_model;

/* An upper node's sum: row to = row left, plus row right where that is not negative. Rows [0, n_sums) are the sums of all
 * ranks' bottoms in ascending id, rows n_sums + k those of upper[k]. Ascending level: a row's parts are of levels below. */
typedef struct ff_resident_up {
    int32_t to, left, right;
} ff_resident_up;

FF_HD double ff_resident_up_value(const ff_resident_up *u, const double *rows, int64_t stride, int64_t c)
{
    double v = rows[u->left * stride + c];
    return u->right < 0 ? v : v + rows[u->right * stride + c];
}

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
    int64_t n_sums, first_sum; /* bottoms of all ranks; the own ones are first_sum .. */
    const ff_resident_up *up;  /* [n_upper] */
    int n_level;
    const int32_t *level_off; /* [n_level + 1] into up */
    /* Own targets in ranges that end on block borders; late: some target reads a row that is received. */
    int n_range;
    const int64_t *range; /* [n_range + 1] sorted positions */
    const uint8_t *late;  /* [n_range] */
    /* Several ranks with whole trees (ff_resident_comm.whole), tree NULL: n and the arrays are this rank's share, rows
     * home[rank] .. of all points; targets of rank r are the sorted positions cut[r] .., at block borders. */
    const int64_t *home, *cut; /* [size + 1] */
} ff_resident_cloud;

/* Messages between device buffers, one row a library. Errors are FF_E_COMM; after one the row has given its connections
 * up, so that nothing on the device waits for another rank any more, and only agreements may follow. */
typedef struct ff_device_comm {
    const char *name; /* "nccl" */
    void *ctx;
    const ff_comm *comm; /* the ranks it joins */
    int n_blocks; /* multiprocessors that an exchange takes, from its start until all others have come */
    /* Enqueues messages as one group on a stream of the device. Several between two ranks keep their order.
     *                                                            Collective, though a rank need not wait for another */
    ff_status (*exchange)(void *ctx, const ff_msg *send, int n_send, const ff_msg *recv, int n_recv,
                          void *stream);
    /* While the host waits for what was enqueued, again and again: fails where the library knows of an error, or where
     * waited_s is above the deadline. Local */
    ff_status (*check)(void *ctx, double waited_s);
} ff_device_comm;

/* A list of messages; empty ones are left out on both sides. */
typedef struct ff_resident_msgs {
    ff_msg *send, *recv;
    int n_send, n_recv;
} ff_resident_msgs;

/* The exchange between ranks. Every rank makes the same calls. */
typedef struct ff_resident_comm {
    int size, rank;
    void *ctx;
    /* Every rank holds all points and builds whole trees; the ranks share the targets, and what crosses ranks are runs of
     * consecutive rows, from each to all. */
    bool whole;
    /* Through the host, pinned memory: bytes off[r] .. off[r + 1] of all come from rank r, own ones filled. Collective */
    ff_status (*gather)(void *ctx, void *all, const size_t *off);
    ff_status (*agree)(void *ctx, ff_status mine); /* Collective */
    /* Through the host, buffers are pinned memory.
     * own [n_bottom][m] sums of the own subtrees -> upper [n_upper][m], children left then right. Collective */
    ff_status (*upper)(void *ctx, int cloud, int m, const double *own, double *upper);
    /* Rows of the send ids to their readers, rows of the recv ids from their owners. Collective, both */
    ff_status (*begin)(void *ctx, int cloud, size_t row_bytes, void *send, void *recv);
    ff_status (*end)(void *ctx, int cloud);
    /* Between device buffers instead, where device is not NULL. A list has room for (size - 1) n_cloud messages a
     * direction; these add the ones of a cloud: one a peer. rows: payload; sums: all [n_sums] rows, own ones filled. Local */
    const ff_device_comm *device;
    void (*rows)(void *ctx, int cloud, size_t row_bytes, void *send, void *recv, ff_resident_msgs *m);
    void (*sums)(void *ctx, int cloud, size_t row_bytes, void *all, ff_resident_msgs *m);
} ff_resident_comm;

/* What the layers since the last start exchanged, this rank: from the first message enqueued to the last one received,
 * and of that the time in which the device had nothing else to do. */
typedef struct ff_resident_traffic {
    int64_t bytes_sent;
    double t_exchange_s, t_wait_s;
} ff_resident_traffic;

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
    /* After layer k: rows [n][n_comp] of a target cloud, before compression and calibration. */
    ff_status (*rows)(ff_resident *r, int k, int cloud, float *rows);
    /* After the last layer: calibrated [n][n_out]. */
    ff_status (*fields)(ff_resident *r, double *out);
    /* Source values [own points][latents, strengths], sorted order, of the last layer; not with whole trees. Local */
    ff_status (*values)(ff_resident *r, int source, float *rows);
    ff_status (*counts)(ff_resident *r, ff_resident_counts *c); /* Local */
    /* Device seconds by phase since start began; returns how many. Waits for the device. */
    int (*phases)(ff_resident *r, ff_resident_phase *p, int max);
    ff_status (*traffic)(ff_resident *r, ff_resident_traffic *t); /* After the last layer. Local */
    void (*idle)(ff_resident *r); /* Frees what only layers need, until the next one. Local */
} ff_resident_ops;

#endif
