/* What a cloud of several ranks brings to a backend that keeps evaluations: source ids of its messages, how upper nodes
 * follow from all ranks' sums, and which targets need nothing that is received. Private to the model room. */
#ifndef FF_EVAL_LINK_H
#define FF_EVAL_LINK_H

#include "ff_let.h"
#include "ff_resident.h"

typedef struct ff_link {
    const ff_let *let;                              /* borrowed */
    int32_t *bottom, *upper, *send, *recv, *row_of; /* row_of [n_nodes]: place of a node in upper, or -1 */
    int64_t n_upper, n_send, n_recv;
    int64_t *sum_off; /* [size + 1] bottoms by owner */
    ff_resident_up *up;
    int32_t *level_off;
    int n_level;
    int n_range;
    int64_t *range;
    uint8_t *late;
    ff_msg *send_msg, *recv_msg; /* [n_peers] of the exchange through the host */
} ff_link;

/* tasks: targets [task[k], task[k + 1]), remote [n_tasks] as ff_let_mark() sets it. Freed by ff_link_free() also on
 * failure. Errors: FF_E_MEM.                                                                              Local */
ff_status ff_link_make(const ff_let *let, bool source, const int64_t *task, const uint8_t *remote,
                       int64_t n_tasks, ff_link *out);
void ff_link_free(ff_link *l);

/* The longest runs of tasks that need nothing received become ranges of their own, FF_LINK_EARLY at most and no more
 * once they hold half of the targets: each range has lists of its own, and far nodes that span ranges are evaluated in
 * each. range [2 FF_LINK_EARLY + 2], late [2 FF_LINK_EARLY + 1]; returns the number of ranges, at least 1.     Local */
enum { FF_LINK_EARLY = 4 };
int ff_link_ranges(const int64_t *task, const uint8_t *remote, int64_t n_tasks, int64_t *range,
                   uint8_t *late);

/* As in ff_resident_comm. */
void ff_link_rows(const ff_link *l, size_t row_bytes, void *send, void *recv, ff_resident_msgs *m);
void ff_link_sums(const ff_link *l, size_t row_bytes, void *all, ff_resident_msgs *m);

/* Fills the fields of several ranks. */
void ff_link_give(const ff_link *l, ff_resident_cloud *c);

#endif
