/* What a walk reads of its sources, as marks; for the files of src/dist only. */
#ifndef FF_MARK_H
#define FF_MARK_H

#include "ff_dtt.h"

typedef struct ff_marker {
    const ff_tree *targets;
    uint8_t *node_used, *leaf_used; /* of the source tree's held nodes; may be shared by threads */
} ff_marker;

/* For ff_dtt_walk; ctx is an ff_marker. Aggregates of far pairs and of leaf pairs that some target accepts;
 * points of leaf pairs that some target does not. Local */
ff_status ff_mark_emit(void *ctx, const ff_dtt_lists *lists);

#endif
