/* Fused zonal scatter: what its files share. Semantics and errors: farfield_scatter.h; data flow: docs/scatter.md. */
#ifndef FF_SCATTER_H
#define FF_SCATTER_H

#include "farfield_scatter.h"

#include "ff_scatter_math.h"
#include "ff_status.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Pointers of one call without their type, for the checks that both precisions share. */
typedef struct ff_scatter_given {
    const void *coupling, *radial, *spin_l1, *gate, *inv_sqrt_deg;
} ff_scatter_given;

/* One checked call for another row than the CPU: float or double by f64, strides resolved, arrays where the CSR is. */
typedef struct ff_scatter_call {
    bool f64;
    ff_scatter_path path;
    int64_t n_chan;
    int lmax;
    int64_t radial_stride[3];
    ff_scatter_given in;
    const void *cot; /* backward */
    void *out;       /* forward */
    void *d_coupling, *d_radial, *d_spin_l1, *d_gate, *d_inv_sqrt_deg;
    void *stream;
} ff_scatter_call;

/* A row of the table; the CPU is the row NULL. Local */
typedef struct ff_scatter_row {
    const char *name;
    ff_status (*forward)(const ff_scatter_csr *csr, const ff_scatter_call *call);
    ff_status (*backward)(const ff_scatter_csr *csr, const ff_scatter_call *call);
    void (*csr_free)(ff_scatter_csr *csr); /* what is behind the pointers, not csr itself */
} ff_scatter_row;

/* FF_E_ARG if the counts of a CSR are out of range, or dst or out is missing. Local */
ff_status ff_scatter_check_counts(const void *dst, int64_t n_edges, int64_t n_nodes, const void *out);
/* FF_E_ARG that names edge e and its node. Local */
ff_status ff_scatter_bad_dst(int64_t e, int64_t node, int64_t n_nodes);

/* FF_E_ARG with what is wrong; in are the inputs, data is out or cotangent, named by what.                  Local */
ff_status ff_scatter_check(const ff_scatter_csr *csr, const ff_scatter_shape *shape,
                           const ff_scatter_given *in, const void *data, const char *what);
/* FF_E_ARG if a gradient is wanted of an input that was not given. Local */
ff_status ff_scatter_check_grad(const ff_scatter_given *in, const ff_scatter_given *grad);
/* Copies a caller's structure of (perhaps an older) size over ours. Local */
ff_status ff_scatter_take(const char *what, const void *given, void *ours, size_t size);
/* The path that serves this input: a log line where it is not the one asked for. Local */
ff_status ff_scatter_choose(ff_scatter_path asked, const int64_t *radial_stride, ff_scatter_path *out);

/* Instruction set of the fused path: 2 AVX-512, 1 AVX2, 0 what the compiler's flags give. The best one at first; all
 * give the same bits, tests set each. ff_scatter_isa_limit returns the level in use. Local */
int ff_scatter_isa(void);
int ff_scatter_isa_limit(int level);
const char *ff_scatter_isa_name(void);

/* Cuts nodes into tasks of about equal work: calls task(ctx, n0, n1, l0, l1) for disjoint (nodes [n0, n1)) x (degrees
 * l0 .. l1) that cover all, from several threads. A node with much of the work is given out degree by degree. Local */
typedef void (*ff_scatter_task)(void *ctx, int64_t n0, int64_t n1, int l0, int l1);
void ff_scatter_nodes(const ff_scatter_csr *csr, int lmax, ff_scatter_task task, void *ctx);

#ifdef __cplusplus
}
#endif
#endif
