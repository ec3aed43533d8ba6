/* Splitting target lists in two: what can be summed early, from sources that are known before the others, and the rest.
 *
 * A target's list is cut into pieces of FF_LIST_PIECE pairs counted from its own start, each summed by itself, so which launch
 * sums a piece does not change its bits. A run is a maximal series of pieces of one target that are all early, or all not;
 * it becomes a target of one of two lists, which borrow the ids of the whole one.
 *
 * Early are pieces whose ids stand in [point, point_end) or [node, node_end). Ids of a segment ascend (ff_pair_lists.h), so
 * its first and last one tell; a segment that has early points and early nodes counts as not early. */
#ifndef FF_LIST_SPLIT_H
#define FF_LIST_SPLIT_H

#include "ff_hd.h"

#include <stdbool.h>
#include <stdint.h>

enum { FF_LIST_PIECE = 128 };

/* Arrays of ff_pair_lists. */
typedef struct ff_split_lists {
    const int32_t *seg_off, *seg_cum, *n_pairs, *src;
    const int64_t *seg_src;
} ff_split_lists;

typedef struct ff_split_early {
    int32_t point, point_end, node, node_end;
} ff_split_early;

typedef struct ff_split_run {
    int32_t piece, end; /* pieces [piece, end) of the target */
    int32_t seg, n_seg; /* segments that they touch */
    bool early;
    int32_t next_seg; /* where the run after this one begins */
} ff_split_run;

/* Whether all pairs of piece k are early; *seg: segment of its first pair, afterwards of the pair behind it; *last: of its
 * last one. */
FF_HD bool ff_split_piece(const ff_split_lists *l, int64_t t, const ff_split_early *e, int32_t k,
                          int32_t *seg, int32_t *last)
{
    int32_t n = l->n_pairs[t], from = k * FF_LIST_PIECE,
            to = n - from < FF_LIST_PIECE ? n : from + FF_LIST_PIECE;
    int32_t segs = l->seg_off[t + 1];
    bool early = true;
    for (int32_t s = *seg; s < segs; s++) {
        int32_t begin = l->seg_cum[s], end = s + 1 < segs ? l->seg_cum[s + 1] : n;
        int32_t lo = begin > from ? begin : from, hi = end < to ? end : to;
        if (hi > lo) {
            const int32_t *id = l->src + l->seg_src[s] + (lo - begin);
            int32_t a = id[0], b = id[hi - lo - 1];
            early = early && ((a >= e->point && b < e->point_end) || (a >= e->node && b < e->node_end));
        }
        *last = s;
        *seg = end > to ? s : s + 1;
        if (end >= to) break;
    }
    return early;
}

/* The run from piece on; seg: segment of its first pair. There is one: piece is below the target's number of pieces. */
FF_HD ff_split_run ff_split_next(const ff_split_lists *l, int64_t t, const ff_split_early *e, int32_t piece,
                                 int32_t seg)
{
    int32_t n = (l->n_pairs[t] + FF_LIST_PIECE - 1) / FF_LIST_PIECE, last = seg, at = seg;
    ff_split_run r = {piece, piece + 1, seg, 1, false, seg};
    r.early = ff_split_piece(l, t, e, piece, &at, &last);
    for (;;) {
        int32_t next = at, next_last = last;
        r.n_seg = last - seg + 1;
        r.next_seg = at;
        if (r.end == n || ff_split_piece(l, t, e, r.end, &next, &next_last) != r.early) return r;
        r.end++;
        at = next;
        last = next_last;
    }
}

FF_HD int32_t ff_split_pairs(const ff_split_lists *l, int64_t t, const ff_split_run *r)
{
    int32_t n = l->n_pairs[t], from = r->piece * FF_LIST_PIECE;
    return (n - from < (r->end - r->piece) * FF_LIST_PIECE ? n - from : (r->end - r->piece) * FF_LIST_PIECE);
}

/* Segment i of the run as one of the new target's: where it begins in src, and pairs of the run before it. */
FF_HD void ff_split_segment(const ff_split_lists *l, const ff_split_run *r, int32_t i, int64_t *src,
                            int32_t *cum)
{
    int32_t from = r->piece * FF_LIST_PIECE, begin = l->seg_cum[r->seg + i];
    *src = l->seg_src[r->seg + i] + (from > begin ? from - begin : 0);
    *cum = begin > from ? begin - from : 0;
}

#endif
