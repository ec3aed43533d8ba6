/* Fields of an OpenFOAM case at its boundary: volume fields of one time folder. Included by ff_foam*.c only. */
#ifndef FF_FOAM_FIELD_H
#define FF_FOAM_FIELD_H

#include "ff_mesh.h"

typedef struct foam_place { /* a patch and its faces in the mesh */
    const char *name;       /* as in the file boundary, name_len characters */
    size_t name_len;
    int64_t n;            /* faces */
    int64_t cell0;        /* the first one's cell in the mesh; -1: left out */
    const int64_t *owner; /* [n] volume cell at each face */
} foam_place;

/* Adds the fields of a time folder beside the mesh (folder .../constant/polyMesh; none elsewhere) as cell data: step 0
 * the last time after 0, step n the n-th folder. Values are those of the patches; where a patch has none, the cell's at
 * its faces (zeroGradient and the like), 0 (noSlip) or NaN with a warning.                                  Local
 * Errors: FF_E_INPUT a damaged field, lists of the wrong length, a step that is not there. */
ff_status foam_fields(const char *folder, int64_t step, const foam_place *place, int64_t n_places,
                      int64_t n_volume_cells, ff_mesh *m);

#endif
