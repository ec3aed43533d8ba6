/* A mesh that grows point by point and cell by cell, for readers of files whose sizes are known only at their
 * end. */
#ifndef FF_BUILDER_H
#define FF_BUILDER_H

#include "ff_mesh.h"

/* cell_off is made when the first cell of another size than dim comes, cell_patch when a second patch does.
 * A patch is made by its first cell: no empty ones, in file order. */
typedef struct ff_builder {
    ff_mesh *m;
    int64_t cap_points, cap_off, cap_pts, cap_patch_cells; /* capacities of m's arrays, in elements */
    int64_t n_pts;                                         /* entries of cell_pts */
    char *name;                                            /* patch of the next cells, NULL: none named yet */
    int32_t patch;                                         /* its number, -1: not made yet */
    int64_t cap_names, n_slots;
    int32_t *slot; /* [n_slots] hash table over patch names: patch number, -1 empty; n_slots a power of two */
} ff_builder;

ff_status ff_builder_begin(ff_builder *b, int dim);
ff_status ff_builder_point(ff_builder *b, const double x[3]);
ff_status ff_builder_cell(ff_builder *b, const int64_t *ids, int64_t n);
/* The following cells belong to this patch. */
ff_status ff_builder_patch(ff_builder *b, const char *name, size_t len);
/* Hands the mesh over; the builder is empty then and needs no free. */
ff_mesh *ff_builder_take(ff_builder *b);
void ff_builder_free(ff_builder *b);

#endif
