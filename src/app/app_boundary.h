/* The boundaries of a run as files or cases give them. */
#ifndef APP_BOUNDARY_H
#define APP_BOUNDARY_H

#include "ff_app.h"

typedef struct app_boundary {
    char *name;
    ff_mesh *mesh; /* this rank's cells: polygons, or edges in 2D */
} app_boundary;

/* Reads the option mesh, or makes the option case; each rank gets its share of the cells. The name of `file`
 * without `name=` is the file's name without folder and endings. out [n] owned by the caller,
 * app_boundaries_free. Errors: FF_E_ARG neither or both given, a name twice; FF_E_INPUT no faces at all, 2D
 * and 3D mixed. Collective */
ff_status app_boundaries_read(const ff_app *app, app_boundary **out, int *n);
void app_boundaries_free(app_boundary **b, int n);

/* Face centroids in float32, as the tree sees them: x [n][dim], owned by the caller; polygons are cut into
 * triangles first. The mesh is freed on the way. Local */
ff_status app_boundary_centroids(app_boundary *b, float **x, int64_t *n);

#endif
