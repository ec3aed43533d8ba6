/* Cells with a defect, and the repairs that are safe. "Welded": points of equal coordinates are taken for
 * one. */
#ifndef FF_REPAIR_H
#define FF_REPAIR_H

#include "ff_mesh.h"

/* Why a cell is bad; the definitions are those of ff_mesh_stats. */
enum {
    FF_BAD_ZERO_AREA = 1,
    FF_BAD_SLIVER = 2,
    FF_BAD_REPEATED = 4,     /* an earlier cell has its corners */
    FF_BAD_OPEN = 8,         /* at an open edge */
    FF_BAD_NONMANIFOLD = 16, /* at an edge of more than two cells */
    FF_BAD_WINDING = 32      /* at an edge that its two cells walk in the same direction */
};

/* bad [n_cells], the caller's: FF_BAD_* of each cell. Errors: FF_E_MEM, FF_E_UNSUPPORTED as ff_mesh_measure.
 * Local */
ff_status ff_mesh_find_bad(const ff_mesh *m, uint8_t *bad);

typedef struct ff_repair_counts {
    int64_t welded_points;  /* points that went into an equal one */
    int64_t dropped_points; /* used by no cell that is left */
    int64_t dropped_repeated, dropped_zero_area;
    int64_t kept_zero_area; /* without them an edge would be open */
    int64_t flipped_cells;
    int64_t turned_parts;  /* closed parts of one winding whose normals pointed inwards (with outward) */
    int64_t twisted_parts; /* parts that no flipping makes consistent (Moebius bands): left as they are */
} ff_repair_counts;

/* A repaired copy, owned by the caller (outward: see below):
 *   equal points become one; cells that repeat an earlier one go, then cells of zero area, unless that would
 *   open an edge; then the winding of each part (cells connected by edges of two cells) is made consistent: a
 *   closed part of mixed winding gets outward normals, an open one keeps the side with the larger area, a
 *   consistent one is left as it is, unless outward is given: then a closed part that encloses a negative volume is
 *   turned (an inner wall that is meant to face inwards is, too). Positions never move, so holes, intersections and slivers stay. Local */
ff_status ff_mesh_repair(const ff_mesh *m, bool outward, ff_repair_counts *counts, ff_mesh **out);

#endif
