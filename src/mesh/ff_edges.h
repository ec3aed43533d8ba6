/* Which cells use which edge of a welded surface (dim 2: which point of a curve), sorted so that the uses of
 * one edge are neighbours. */
#ifndef FF_EDGES_H
#define FF_EDGES_H

#include "ff_mesh.h"

typedef struct ff_edges {
    int64_t n;
    uint64_t *key; /* [n] lower point << 32 | higher point, ascending; dim 2: the point */
    int64_t *use;  /* [n] 2 cell + 1 if the cell goes from the lower to the higher point; dim 2: if it starts
                      there */
} ff_edges;

/* id [n_points]: the welded number of each point (ff_weld_points); edges between equal points are left out.
 * Errors: FF_E_UNSUPPORTED 2^32 distinct points or more; FF_E_MEM.                                     Local
 */
ff_status ff_edges_build(const ff_mesh *m, const int64_t *id, int64_t n_distinct, ff_edges *out);
void ff_edges_free(ff_edges *e);

/* End of the run of uses that begins at begin. */
static inline int64_t ff_edges_end(const ff_edges *e, int64_t begin)
{
    int64_t end = begin + 1;
    while (end < e->n && e->key[end] == e->key[begin]) end++;
    return end;
}

#endif
