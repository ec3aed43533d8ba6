/* Coordinate systems of Nastran: CORD1R/C/S by three points, CORD2R/C/S by three places in another system. */
#ifndef FF_NASTRAN_CORD_H
#define FF_NASTRAN_CORD_H

#include "ff_idmap.h"
#include "ff_status.h"

#include <stdbool.h>

typedef enum ff_cord_kind { FF_CORD_RECTANGULAR, FF_CORD_CYLINDRICAL, FF_CORD_SPHERICAL } ff_cord_kind;

typedef struct ff_cord {
    int64_t id;
    ff_cord_kind kind;
    bool by_points;   /* CORD1 */
    int64_t point[3]; /* CORD1: numbers of the points A (origin), B (on the z axis), C (in the x-z plane) */
    int64_t in;       /* CORD2: the system of abc; 0: basic */
    double abc[9];    /* CORD2: A, B, C */
    int64_t line;
    /* found by ff_cords_resolve: */
    int state;                    /* 0: not begun, 1: waits for others, 2: known */
    double origin[3], axis[3][3]; /* in the basic system */
} ff_cord;

typedef struct ff_cords {
    const char *path;
    ff_cord *cord; /* [n] */
    int64_t n, cap;
    ff_idmap map; /* of their ids */
    /* The points of CORD1, borrowed: numbers, coordinates as in the file and their systems. */
    const ff_idmap *points;
    const double *x;       /* [][3] */
    const int64_t *x_cord; /* system of each point */
} ff_cords;

/* Finds all systems in the basic one. FF_E_INPUT: unknown system or point, systems that define each other, three
 * places on a line. Local */
ff_status ff_cords_resolve(ff_cords *s);
/* A place x of system id in the basic system, in place; what and number name it in messages. Local */
ff_status ff_cords_to_basic(const ff_cords *s, int64_t id, const char *what, int64_t number, double x[3]);
void ff_cords_free(ff_cords *s);

#endif
