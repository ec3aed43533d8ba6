/* Synthetic point sets: a pure function of (kind, seed, index), so any rank makes its share. */
#ifndef FF_GENERATE_H
#define FF_GENERATE_H

#include "ff_status.h"

/* Kinds, separated by | as in the table of options. */
#define FF_GENERATE_KINDS "uniform|sphere|plummer|galaxies|airplane|plate|point|line"

/* Points [first, first + n) of a set: x [n][dim], dim 2 leaves out z.                                   Local
 *   uniform   in the unit cube            sphere   on the unit sphere (dim 2: the circle)
 *   plummer   Plummer's model of scale 1, cut at radius 20     galaxies  two of them, 4 apart, one of a third of the points
 *   airplane  surface of a fuselage, wings and a tail          plate     1 x 1 x 0.001
 *   point     all equal                                        line      along (1, 1, 1)
 * Errors: FF_E_ARG an unknown kind. */
ff_status ff_generate(const char *kind, uint64_t seed, int64_t first, int64_t n, int dim, double *x);

#endif
