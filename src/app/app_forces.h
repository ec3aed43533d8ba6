/* Forces as they are reported: coefficients, their parts along the directions of drag and lift, all faces and patches;
 * printed, as JSON and as CSV. */
#ifndef APP_FORCES_H
#define APP_FORCES_H

#include "ff_app.h"
#include "ff_force.h"

typedef struct app_forces {
    double area, length;     /* references: m2 (2D: m), m */
    double center[3];        /* of moments, m */
    double drag[3], lift[3]; /* unit vectors */
} app_forces;

/* Options integrals.*; area unset: the given one. lift unset: z (2D: y). Local; FF_E_ARG for a direction of length 0. */
ff_status app_forces_options(const ff_app *app, int dim, double area, app_forces *out);

/* Prints force [1 + n_patches] as coefficients (a table of patches where there are several) and adds them to json.
 * name [n_patches]. Local */
void app_forces_print(const app_forces *o, const ff_force *force, int n_patches, char *const *name);
void app_forces_json(const app_forces *o, const ff_force *force, int n_patches, char *const *name,
                     ff_json *j);

/* integrals.csv, if asked for: a row for all faces, then one a patch.                                    Collective */
ff_status app_forces_csv(const ff_app *app, const app_forces *o, const ff_force *force, int n_patches,
                         char *const *name);

#endif
