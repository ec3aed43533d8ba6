/* Faces of volume cells, and which of them are free: used by one cell only, the boundary of the volume. In two
 * dimensions: edges of polygons. */
#ifndef FF_FACES_H
#define FF_FACES_H

#include "ff_status.h"

#include <stdint.h>

/* Faces as added, with the cell each came from. */
typedef struct ff_faces {
    int64_t n;
    int64_t *off;  /* [n + 1] into ids; NULL while empty */
    int64_t *ids;  /* corners, as given */
    int64_t *cell; /* [n] */
    int64_t n_ids, cap_off, cap_ids, cap_cell;
} ff_faces;

/* Corner order as in CGNS (SIDS): the base is seen counter-clockwise from inside. VTK differs in the wedge only. */
typedef enum ff_shape {
    FF_SHAPE_TETRA,
    FF_SHAPE_PYRAMID,
    FF_SHAPE_WEDGE,
    FF_SHAPE_HEXA,
    FF_SHAPE_PRISM5, /* pentagonal and hexagonal prisms (VTK only) */
    FF_SHAPE_PRISM6
} ff_shape;
int ff_shape_corners(ff_shape s);

/* Adds a face of n corners. Repeated neighbours are joined (collapsed cells); what has fewer than least corners then
 * is no face and is left out. Local */
ff_status ff_faces_add(ff_faces *f, int64_t cell, const int64_t *ids, int64_t n, int64_t least);
/* Adds the faces of a cell, which look outwards. */
ff_status ff_faces_add_cell(ff_faces *f, int64_t cell, ff_shape shape, const int64_t *ids);
/* Adds the edges of a polygon, in its direction. */
ff_status ff_faces_add_edges(ff_faces *f, int64_t cell, const int64_t *ids, int64_t n);

/* Leaves the free faces only, in the order they were added. About 40 bytes a face and 8 a corner for a while. Local */
ff_status ff_faces_keep_free(ff_faces *f);
/* Faces from the n-th on are looked for among those before it, which are free ones: cell[f->cell[i]] becomes the cell of
 * the face with the same corners as face i; unchanged where there is none. Local */
ff_status ff_faces_behind(const ff_faces *f, int64_t n, int64_t *cell);
void ff_faces_free(ff_faces *f);

#endif
