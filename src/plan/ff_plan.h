/* Stored interaction plan: the lists of a walk in CSR by target node.
 * Node-level: 4 bytes a far pair, 4 (leaf_size 1) or 20 bytes a leaf pair; kernels expand to points. */
#ifndef FF_PLAN_H
#define FF_PLAN_H

#include "ff_dtt.h"

typedef struct ff_plan {
    int64_t t_begin, t_end; /* range of sorted targets it covers */
    bool expand_far;        /* far pairs are meant as (point of T, S) instead of (T, S) */
    bool masked;            /* masks stored (either leaf_size > 1); else every mask is 1 */
    int64_t n_rows;         /* target nodes with at least one pair */
    int32_t *t_node;        /* [n_rows] held ids, ascending */
    int64_t *far_off;       /* [n_rows + 1] */
    int32_t *far_s;
    int64_t *leaf_off; /* [n_rows + 1] */
    int32_t *leaf_s;
    uint64_t *t_mask, *s_mask; /* NULL unless masked */
    uint64_t *ones;            /* NULL if masked; what ff_plan_row hands out as both masks of any row */
    ff_dtt_counts counts;
} ff_plan;

/* Builds the plan of targets [t_begin, t_end) against sources; OpenMP-parallel, same bits for any thread
 * count. Errors: FF_E_ARG theta negative or not finite; FF_E_MEM. Local */
ff_status ff_plan_build(const ff_tree *targets, const ff_tree *sources, double theta, bool expand_far,
                        int64_t t_begin, int64_t t_end, ff_plan **out);

/* ff_plan_destroy, ff_plan_row (arrays are the plan's own; masks of a plan without stored ones come from
 * ones), ff_plan_validate and ff_plan_digest: declared in farfield_plan.h. */

#endif
