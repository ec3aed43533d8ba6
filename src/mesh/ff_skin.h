/* The boundary of a set of volume cells: the faces that only one cell has. */
#ifndef FF_SKIN_H
#define FF_SKIN_H

#include "ff_status.h"

/* Corner order of a tetrahedron, hexahedron, prism, pyramid as in Gmsh, SU2 and CGNS: the base counted so that its
 * normal points into the cell. */
typedef enum ff_solid { FF_TET, FF_HEX, FF_PRISM, FF_PYRAMID } ff_solid;
int ff_solid_corners(ff_solid kind);

typedef struct ff_skin_face {
    int64_t id[4]; /* corners, the normal out of the cell; id[3] = -1: a triangle */
    int64_t cell;  /* number given to ff_skin_add */
} ff_skin_face;

typedef struct ff_skin {
    ff_skin_face *face; /* [n] */
    int64_t n, cap;
} ff_skin;

/* Adds the faces of a cell; corner ids >= 0. Start with {0}, end with ff_skin_free. Local */
ff_status ff_skin_add(ff_skin *s, ff_solid kind, const int64_t *corner, int64_t cell);
/* Leaves the faces that occur once, in their order; same bits for any thread count. Local */
ff_status ff_skin_reduce(ff_skin *s);
void ff_skin_free(ff_skin *s);

#endif
