/* Another order of a rank's own points. */
#include "ff_cloud.h"

#include "ff_mem.h"

#include <string.h>

enum { PARALLEL_MIN = 1 << 14 };

ff_status ff_cloud_reorder(ff_cloud *c, const int64_t *from)
{
    int64_t *orig = NULL, *slot = NULL;
    float *x = NULL;
    ff_status st = FF_NEW(orig, c->n_own);
    if (st == FF_OK) st = FF_NEW(slot, c->n_own);
    if (st == FF_OK) st = FF_NEW(x, c->n_own * c->dim);
    const int64_t n = st == FF_OK ? c->n_own : 0;
#pragma omp parallel for schedule(static) if (n > PARALLEL_MIN)
    for (int64_t i = 0; i < n; i++) {
        orig[i] = c->orig[from[i]];
        slot[i] = c->own_slot[from[i]];
        memcpy(x + i * c->dim, c->x + from[i] * c->dim, (size_t)c->dim * sizeof *x);
    }
    if (st == FF_OK) {
        memcpy(c->orig, orig, (size_t)c->n_own * sizeof *orig);
        memcpy(c->x, x, (size_t)(c->n_own * c->dim) * sizeof *x);
        if (c->comm->size > 1)
            memcpy(c->own_slot, slot, (size_t)c->n_own * sizeof *slot);
        else /* rows move by home_slot alone */
            for (int64_t i = 0; i < n; i++) c->home_slot[orig[i] - c->home_begin] = i;
    }
    ff_free(orig);
    ff_free(slot);
    ff_free(x);
    return st;
}
