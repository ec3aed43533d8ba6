/* Where the scatter of verify and bench works: on the CPU with arrays where they are, or on a GPU with copies. */
#ifndef SCATTER_PLACE_H
#define SCATTER_PLACE_H

#include "farfield_scatter.h"
#include "ff_app.h"

typedef struct scatter_place {
    bool cuda;
    struct ff_cuda_pool *pool; /* NULL on the CPU */
    void *stream;              /* for the inputs of a call */
} scatter_place;

/* By run.backend: auto takes a GPU where every rank sees one. On failure the place is closed.                 Collective */
ff_status scatter_place_open(const ff_app *app, scatter_place *p);
void scatter_place_close(scatter_place *p);
const char *scatter_place_name(const scatter_place *p);

/* *out: host itself on the CPU, else a copy of bytes bytes on the GPU; scatter_place_drop() frees the copy.   Local */
ff_status scatter_place_put(const scatter_place *p, void *host, size_t bytes, void **out);
/* The array back into host, the same that was put. Nothing on the CPU.                                        Local */
ff_status scatter_place_get(const scatter_place *p, const void *there, void *host, size_t bytes);
void scatter_place_drop(const scatter_place *p, void *there);

/* A CSR from destinations that were put.                                                                      Local */
ff_status scatter_place_csr(const scatter_place *p, const int64_t *dst, int64_t n_edges, int64_t n_nodes,
                            ff_scatter_csr **out);

/* Seconds of one of n calls that follow each other: by events on a GPU, where a call only queues work.        Local */
ff_status scatter_place_time(const scatter_place *p, ff_status (*call)(void *ctx), void *ctx, int n,
                             double *t_s);
/* Seconds to copy bytes from one array to another of the GPU; CPU: FF_E_UNSUPPORTED.                          Local */
ff_status scatter_place_copy_time(const scatter_place *p, void *to, void *from, size_t bytes, double *t_s);

#endif
