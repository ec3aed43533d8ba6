/* Points over ranks with the others' points that lie within a cutoff of them (ghosts).
 *
 * Own points are a run of the Morton order (ff_cloud), cut like every other work. Each rank shows the others a few
 * boxes around its points; who owns a point within the cutoff of one of them, or with an image there, sends it. Held
 * points (own and ghosts) ascend by original number, so the edges of a node come in the same order on any rank. */
#ifndef FF_HALO_H
#define FF_HALO_H

#include "ff_cloud.h"
#include "ff_search.h"

typedef struct ff_halo {
    ff_search search; /* the same on all ranks */
    ff_cloud *cloud;
    int64_t n_own, n_held;
    double *x;         /* [n_held][3] as given */
    int64_t *gid;      /* [n_held] original numbers, ascending */
    int32_t *owner;    /* [n_held] rank */
    int32_t *own;      /* [n_own] held index of own points, ascending */
    int64_t *own_slot; /* [n_own] place of own point k in the cloud's own order */
} ff_halo;

/* x_home [n_home][3]: consecutive original numbers on each rank; n_home may be 0 on any or all.          Collective
 * Errors: FF_E_ARG, FF_E_INPUT as ff_search_start and ff_search_box; FF_E_MEM; FF_E_COMM. */
ff_status ff_halo_create(ff_comm *comm, const double *x_home, int64_t n_home, double cutoff,
                         const ff_cell *cell, ff_halo **out);
void ff_halo_destroy(ff_halo **h);

/* Rows of row_bytes bytes: home order <-> own points by original number. The two may not overlap. Collective */
ff_status ff_halo_to_own(const ff_halo *h, size_t row_bytes, const void *home, void *own);
ff_status ff_halo_to_home(const ff_halo *h, size_t row_bytes, const void *own, void *home);

#endif
