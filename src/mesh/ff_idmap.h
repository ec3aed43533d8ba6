/* Numbers that a file gives its points (any, in any order) to their place in the file. */
#ifndef FF_IDMAP_H
#define FF_IDMAP_H

#include "ff_status.h"

typedef struct ff_idmap {
    uint64_t *key;  /* [n] ascending */
    int64_t *place; /* [n] of equal numbers the first in the file comes first */
    int64_t n;
} ff_idmap;

/* id [n], borrowed, each >= 0. Free with ff_idmap_free, also after a failure. Local */
ff_status ff_idmap_build(ff_idmap *map, const int64_t *id, int64_t n);
void ff_idmap_free(ff_idmap *map);

int64_t ff_idmap_find(const ff_idmap *map, int64_t id); /* place in id [], -1: not there */

/* The next entry i > at, in ascending order of numbers, whose number is that of the entry before it, -1: none. */
int64_t ff_idmap_next_twice(const ff_idmap *map, int64_t at);

#endif
