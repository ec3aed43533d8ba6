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
    if (st == FF_OK && c->comm->size > 1) st = FF_NEW(slot, c->n_own);
    if (st == FF_OK) st = FF_NEW(x, c->n_own * c->dim);
    const int64_t n = st == FF_OK ? c->n_own : 0;
#pragma omp parallel for schedule(static) if (n > PARALLEL_MIN)
    for (int64_t i = 0; i < n; i++) {
        orig[i] = c->orig[from[i]];
        if (slot != NULL) slot[i] = c->own_slot[from[i]];
        memcpy(x + i * c->dim, c->x + from[i] * c->dim, (size_t)c->dim * sizeof *x);
    }
    if (st == FF_OK) {
        int64_t *const old_orig = c->orig, *const old_slot = c->own_slot;
        float *const old_x = c->x;
        c->orig = orig;
        c->x = x;
        orig = old_orig;
        x = old_x;
        if (slot != NULL) {
            c->own_slot = slot;
            slot = old_slot;
        }
    }
    if (st == FF_OK && c->comm->size == 1) { /* rows move by home_slot alone */
#pragma omp parallel for schedule(static) if (n > PARALLEL_MIN)
        for (int64_t i = 0; i < n; i++) c->home_slot[c->orig[i] - c->home_begin] = i;
    }
    ff_free(orig);
    ff_free(slot);
    ff_free(x);
    return st;
}
