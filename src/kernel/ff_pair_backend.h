/* Table of a backend that evaluates whole layers from pair lists (the CUDA row is in cuda/). The CPU evaluates tiles
 * inside its own walk (model/ff_eval_impl.h) and needs no row. All calls Local; one thread a table. */
#ifndef FF_PAIR_BACKEND_H
#define FF_PAIR_BACKEND_H

#include "ff_globe.h"
#include "ff_pair_lists.h"
#include "ff_resident.h" /* ff_pair_net: a packed network of the backend */

typedef struct ff_pair_job ff_pair_job;                 /* pair lists where the backend wants them */
typedef struct ff_pair_adjoint_ops ff_pair_adjoint_ops; /* ff_pair_adjoint.h */

/* Largest amounts of device memory so far, bytes. */
typedef struct ff_device_memory {
    int64_t peak;    /* of everything at once */
    int64_t lists;   /* of pair lists alone */
    int64_t rest;    /* of everything but pair lists, and what it was made of then: */
    int64_t weights; /* networks, their gradients */
    int64_t points;  /* geometry, trees, values of points and nodes */
    int64_t records; /* of the sources in work: records, sums, cotangents */
    int64_t chunk;   /* of the pairs in work */
    int64_t other;
} ff_device_memory;

typedef struct ff_pair_backend {
    const char *name;
    void *impl;
    ff_status (*net_create)(void *impl, const ff_globe_shape *s, const float *const *w, const float *const *b,
                            const double *gscalar, const double *gvector, double length, ff_pair_net **out);
    void (*net_destroy)(void *impl, ff_pair_net **net);
    ff_status (*job_create)(void *impl, const ff_pair_lists *lists, ff_pair_job **out);
    void (*job_destroy)(void *impl, ff_pair_job **job);
    /* rows [n_t][n_comp] = sum over the networks of pair sums (overwritten). n_src sources: x [n_src][4] double,
     * raw features [n_src][ff_globe_n_source], strength [n_net][n_src]; all host memory. */
    ff_status (*job_run)(void *impl, ff_pair_job *job, ff_pair_net *const *net, int n_net, int64_t n_src,
                         const double *x, const float *raw, const float *strength, float *rows);
    int64_t (*device_peak)(void *impl);                     /* bytes of device memory at the peak */
    void (*device_memory)(void *impl, ff_device_memory *m); /* the same in parts; NULL: not known */
    const ff_resident_ops *resident; /* whole evaluations instead of jobs; may be NULL */
    /* Set by who made the backend, borrowed: messages between the devices of several ranks, NULL: through the host; and
     * how long an exchange may last, 0: for ever. */
    const ff_device_comm *device_comm;
    double deadline_s;
    const ff_pair_adjoint_ops *adjoint; /* gradients' pair sums; NULL: the CPU's */
    /* Several ranks: up to so many bytes a device, trees of all points are built on every one, and the ranks share targets
     * only; above, each holds a part of the trees, made on the host. */
    int64_t whole_bytes;
    /* One more table of the same device for one more thread of the rank: its work waits for nobody else's. Jobs of one
     * may be run and destroyed with any other; device_peak is that of all. NULL: there is only this one. */
    ff_status (*lane_create)(void *impl, struct ff_pair_backend **out);
    void (*lane_destroy)(struct ff_pair_backend **lane);
} ff_pair_backend;

#endif
