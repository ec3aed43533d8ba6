/* Adjoint of pair sums on a backend: what the model room gives (networks as the CPU packs them, lists of pairs sorted
 * by source) and the table of a backend. Arithmetic of a tile, shared by host and device: ff_adj_tile.h.
 *
 * Everything is in the scale and order of ff_globe_net.h: raw features of the sources in, as ff_globe_records_f32 takes
 * them, their cotangents and the packed gradient out, as ff_globe_tile_adjoint_f32 and ff_globe_records_adjoint_f32 would
 * leave them. */
#ifndef FF_PAIR_ADJOINT_H
#define FF_PAIR_ADJOINT_H

#include "ff_globe.h"

/* Pairs of one source stand in groups of FF_ADJ_GROUP (the last one padded); weight gradients are summed in float32 over
 * blocks of up to FF_ADJ_BLOCK groups of one unit, then rounded once to the exact sums of ff_sums.h. */
enum { FF_ADJ_GROUP = 16, FF_ADJ_BLOCK = 128, FF_ADJ_MAX_FIELDS = 96 };

/* A packed network, read only. w [(n_out rounded up to 8) / 8][n_in][8], b [n_out rounded up to 8] (NULL in layer 0,
 * where the record's first rows take its place). */
typedef struct ff_adj_view {
    ff_globe_shape s;
    int n_vec, n_coef, n_comp;
    int off_m, off_g, off_unit, rec_len; /* places in a record */
    float length, eps2, beta;
    const float *leg_a, *leg_b; /* [n_harm + 1] */
    struct {
        int n_in, n_out;
        const float *w, *b;
        int64_t at_w, at_b; /* places in the packed gradient: [n_out][n_in rounded up to 16], [n_out] */
    } layer[FF_GLOBE_MAX_LAYERS + 1];
    /* Source-only features -> first hidden layer: as a layer, its matrix's rows padded alike. */
    struct {
        int n_in, n_out;
        const float *w, *b;
        int64_t at_w, at_b;
    } source;
    const float *gvec; /* [n_gvector][2 + dim]: m, g, unit of the global vectors */
    int64_t at_gvec, at_length, grad_len;
} ff_adj_view;

/* Borrows from net.                                                                                        Local */
void ff_globe_adj_view_f32(const ff_globe_net_f32 *net, ff_adj_view *v);

/* Consecutive targets first .. first + n - 1 of one slot. */
typedef struct ff_adj_run {
    int32_t slot, first, n;
} ff_adj_run;

/* Pairs of one source boundary with its targets, host memory. A slot is a source (point or node) of this rank, a target
 * a row of positions and cotangents (a point, a node's centroid, some points of a leaf). */
typedef struct ff_adj_lists {
    int64_t n_slot, n_target, n_group, n_block, n_run, pairs, n_unit;
    double *x_s, *x_t;  /* [n_slot][4], [n_target][4]: x, y, z (0 in 2D), 0 */
    int64_t *group_off; /* [n_slot + 1] groups of a slot, slots in order */
    int64_t *run_off;   /* [n_slot + 1] runs of a slot */
    ff_adj_run *run;    /* [n_run] in the order of their sums */
    int64_t *block_off; /* [n_block + 1] groups of a block: slots of one unit only */
    int64_t *unit_off;  /* [n_unit + 1] slots of a unit */
} ff_adj_lists;

/* Every pair's target [n_group][FF_ADJ_GROUP], -1: padding, and the groups' slots [n_group].               Local */
void ff_adj_lists_expand(const ff_adj_lists *l, int32_t *target, int32_t *group_slot);

/* Lists of a growing number of units. runs: the pairs of one unit's n_slots slots (0 .. n_slots - 1 in run), in the order
 * of their sums; slots are numbered on from those before. finish: frees what only building needs. After an error only
 * destroy.                                                                                       Local, FF_E_MEM */
typedef struct ff_adj_builder ff_adj_builder;
ff_status ff_adj_builder_create(ff_adj_builder **out);
ff_status ff_adj_builder_slots(ff_adj_builder *b, int64_t n,
                               const double *x); /* positions [n][4] of new slots */
ff_status ff_adj_builder_target(ff_adj_builder *b, const double x[4], int32_t *index);
ff_status ff_adj_builder_runs(ff_adj_builder *b, int64_t n_slots, int64_t n, const ff_adj_run *run);
ff_status ff_adj_builder_finish(ff_adj_builder **b, ff_adj_lists **out);
void ff_adj_builder_destroy(ff_adj_builder **b);
void ff_adj_lists_destroy(ff_adj_lists **l);

/* Lists of several units or samples behind each other: slots and targets are renumbered in the order given. Targets
 * 0 .. n_fixed - 1 with positions x_fixed [n_fixed][4] are those of all parts; a part's target n_fixed + k is the k-th
 * of its own, and no run holds both. Parts are copied in parallel.                                                        Local, FF_E_MEM */
ff_status ff_adj_lists_join(int64_t n_fixed, const double *x_fixed, const ff_adj_lists *const *part,
                            int64_t n, ff_adj_lists **out);

/* Sums of one network over a slot's pairs: [h0: off_m | (m, g, unit x, y, z) n_vec | strength | x_t - x_s (3) | length],
 * ff_adj_row_len() doubles. */
int ff_adj_row_len(const ff_adj_view *v);

/* What n_net networks of one shape, with the same sources, take and leave. Weights and all that is summed over sources
 * are rounded once a list block or unit to the words of ff_sums.h. */
typedef struct ff_adj_args {
    int n_net;
    const float *raw;      /* [n_slot][ff_globe_n_source()] */
    const float *strength; /* [n_net][n_slot] */
    const float *out_bar;  /* [n_target][n_comp] */
    /* Overwritten: sums over the networks [n_slot][n_source]; [n_net][n_slot]; sums [n_slot][dim], NULL: not wanted */
    double *raw_bar, *strength_bar, *x_bar;
    int64_t *grad;   /* [n_net][grad_len][2] words, overwritten: packed gradients */
    int64_t *target; /* [n_target][dim][2] words, overwritten: cotangents of x_t; NULL: not wanted */
    double *rows;    /* [n_net][n_slot][ff_adj_row_len()], overwritten: what tests look at; else NULL */
    bool bad;        /* out: a term was not finite or out of range */
    /* Called once when the device has all its work, before it is waited for; uses no backend. NULL: nothing to do */
    void (*meanwhile)(void *ctx);
    void *ctx;
} ff_adj_args;

typedef struct ff_adj_job ff_adj_job;
typedef struct ff_adj_net ff_adj_net;

/* All calls Local, host memory. */
typedef struct ff_pair_adjoint_ops {
    ff_status (*job_create)(void *impl, const ff_adj_lists *lists, ff_adj_job **out); /* copies */
    void (*job_destroy)(void *impl, ff_adj_job **job);
    /* FF_E_UNSUPPORTED names the size that does not fit. */
    ff_status (*net_create)(void *impl, const ff_adj_view *v, ff_adj_net **out); /* copies */
    void (*net_destroy)(void *impl, ff_adj_net **net);
    ff_status (*run)(void *impl, const ff_adj_job *job, ff_adj_net *const *net, ff_adj_args *a);
} ff_pair_adjoint_ops;

#endif
