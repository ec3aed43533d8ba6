/* Pair lists of the adjoint on the device, and how a run walks them: span by span of whole units, so that what a source
 * needs beside its features is there for the sources in work only, and lists that do not stay on the device are expanded
 * for one span at a time. Private to cuda/. */
#ifndef FF_ADJ_JOB_CUH
#define FF_ADJ_JOB_CUH

#include "ff_cuda_impl.cuh"

extern "C" {
#include "ff_adj_cfg.h"
}

struct ff_adj_job {
    int64_t n_slot, n_target, n_block, n_unit;
    int64_t *host_off, *host_tile;    /* [n_block + 1], host: groups; tiles of the wide kernels */
    int64_t *host_unit, *unit_block;  /* [n_unit + 1], host: slots, list blocks of a unit */
    int64_t *run_off;                 /* host: [n_slot + 1], runs; NULL where the lists stay on the device */
    ff_adj_run *run;
    double *x_s, *x_t; /* device, and so on */
    int64_t *group_off, *block_off, *tile_off, *unit_off;
    int32_t *group_slot, *target; /* [n_group], [n_group][16]; NULL: runs instead */
};

/* Whole units of a job that are worked at together. */
typedef struct adj_span {
    int64_t unit_begin, unit_end, slot_begin, slot_end, block_begin, block_end, group_begin, group_end;
    const int32_t *group_slot, *target; /* indexed by groups of the whole list */
} adj_span;

/* The largest that spans of a job may have and have, and device memory for lists of one. */
typedef struct adj_spans {
    int64_t most_slots, most_groups; /* but always a unit */
    int64_t slots, groups, runs;
    int64_t *run_off; /* [slots + 1] */
    ff_adj_run *run;
    int32_t *group_slot, *target;
} adj_spans;

/* d as the address of entry 0 of an array of which only the entries from n on are there, the first of them at d. */
template <class T> static inline T *adj_from(T *d, int64_t n)
{
    return (T *)((uintptr_t)d - (uintptr_t)n * sizeof(T));
}

ff_status adj_job_create(void *impl, const ff_adj_lists *l, ff_adj_job **out);
void adj_job_destroy(void *impl, ff_adj_job **jp);

/* The span from unit_begin on; false: there are no more units. */
bool adj_span_next(const ff_adj_job *j, const adj_spans *s, int64_t unit_begin, adj_span *span);
/* Sizes of the largest spans, and where lists are streamed memory for theirs. close: also after a failure. */
ff_status adj_spans_open(ff_cuda_impl *c, const ff_adj_job *j, adj_spans *s);
void adj_spans_close(ff_cuda_impl *c, adj_spans *s);
/* The span's lists. */
ff_status adj_span_lists(ff_cuda_impl *c, const ff_adj_job *j, const adj_spans *s, adj_span *span);

#endif
