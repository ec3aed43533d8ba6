/* What the precision-independent part of the gradient (ff_grad.c, ff_grad_points.c, ff_grad_out.c) shares with its two
 * instances (ff_grad_f32.c, ff_grad_f64.c). Private to the model room. */
#ifndef FF_GRAD_INT_H
#define FF_GRAD_INT_H

#include "ff_eval_int.h"
#include "ff_grad.h"
#include "ff_pair_adjoint.h"
#include "ff_sums.h"

/* A unit is what one thread works on at once and what weight gradients are rounded after: a block of sources with all
 * its nodes, or one node above blocks. Units depend on (N, leaf_size) alone. */
typedef struct grad_unit {
    int32_t node; /* held index in the source's let */
    bool single;
} grad_unit;

/* One cloud. As target: rows of its transposed let (tlet), held indices. As source: rows of its let. */
typedef struct grad_set {
    double *x_point, *x_plain, *x_node; /* [n_held][dim], [n_nodes][dim]; the forward's own on one rank */
    double *mu_node;                    /* [n_nodes] of tlet; FF_GRAD_FACES */
    /* Cotangents of target positions, exact, over one layer: FF_GRAD_POINTS or FF_GRAD_FACES. Communication layers
     * [0], final layer [1]: points, plain centroids, mu-weighted centroids ([0] only). */
    ff_sums *t_point[2], *t_plain[2], *t_node;
    int64_t n_units;
    grad_unit *unit; /* [n_units] of the own sources, single nodes first */
    /* As source, over all layers. Own points [n_own], held nodes [n_nodes] (own ones are set). */
    double *stat_bar, *stat_node_bar; /* [..][n_stat]: FF_GRAD_FIELDS or FF_GRAD_FACES */
    double *x_bar, *x_node_bar;       /* [..][dim]: FF_GRAD_FACES */
    double *mu_bar;                   /* [n_own]: FF_GRAD_FACES */
} grad_set;

/* Points of a target's leaf whose cotangents add up at the leaf's centroid. */
typedef struct grad_some {
    int cloud;
    int32_t node;
    int64_t first; /* held point of bit 0 */
    uint64_t mask;
} grad_some;

/* Lists of one source's pairs for a backend, made once a geometry. Slots: unit after unit, points then nodes. */
typedef struct grad_pairs {
    bool taken;          /* lists are ready */
    ff_adj_lists *lists; /* until the backend has them */
    ff_adj_job *job;
    int64_t n_slot, n_target, n_fixed, n_some, pairs;
    int64_t *unit_slot;    /* [n_units + 1] */
    int64_t *point, *node; /* [n_cloud] first target of a cloud's held points, nodes */
    grad_some *some;       /* targets n_fixed .. */
} grad_pairs;

typedef struct grad_ahead grad_ahead; /* a thread that makes lists: ff_grad_lists_impl.h */

struct ff_grad {
    ff_eval *e;
    unsigned want;
    ff_grad_stats stats;
    ff_let **tlet; /* [n_cloud]; e->let on one rank */
    bool own_tlet;
    grad_set *set;        /* [n_cloud] */
    grad_pairs *pairs[2]; /* [n_src] communication layers, final layer; with opts.adjoint */
    grad_ahead *ahead;    /* with opts.adjoint; NULL: lists are made when they are needed */
    ff_grad_values v;
    double *gscalar_bar, *gvector_bar; /* sums over networks */
};

bool ff_grad_moves(const ff_grad *g);  /* positions of targets are asked for */
bool ff_grad_faces(const ff_grad *g);  /* positions, normals and measures of sources are */
bool ff_grad_static(const ff_grad *g); /* static source features are */

/* Backward through all layers: out_bar [own targets][n_comp] in own order, calibration included. Collective */
ff_status ff_grad_layers_f32(ff_grad *g, const double *out_bar);
ff_status ff_grad_layers_f64(ff_grad *g, const double *out_bar);

/* Pair lists for opts.adjoint: a thread begins to make them; it is stopped and waited for. In between the caller's teams have
 * one more than half of its threads. By one thread. Local */
ff_status ff_grad_lists_begin(ff_grad *g);
void ff_grad_lists_end(ff_grad *g);

/* Calibration: gradients of its parameters from own rows, and the cotangent before it in place. y: final outputs before
 * calibration, own rows in the instance's type. Collective */
ff_status ff_grad_calibrate(ff_grad *g, const void *y, double *out_bar);

/* Target positions: transposed geometry at creation; contributions home at the end of a run. Collective */
ff_status ff_grad_points_create(ff_grad *g);
void ff_grad_points_clear(ff_grad *g); /* Local */
/* What the final layer or one communication layer left in the accumulators, times unscale; they are zero afterwards. */
ff_status ff_grad_points_collect(ff_grad *g, bool final, double unscale);

/* Static features, source positions and measures from nodes to points, then rows home. Collective */
ff_status ff_grad_static_collect(ff_grad *g);
ff_status ff_grad_rows_home(ff_grad *g);

/* Below so many rows, or numbers of weights, a loop is not worth waking threads for. */
enum { GRAD_MANY_ROWS = 2048, GRAD_MANY_WEIGHTS = 1 << 17 };
bool ff_grad_many_weights(const ff_grad *g); /* of the model */

/* Index of the tensor that holds these values; the entry of a log scale factor's gradient. */
int ff_grad_tensor(const ff_grad *g, const float *value);
double *ff_grad_scale_bar(const ff_grad *g, int layer, int bc, int len);

#endif
