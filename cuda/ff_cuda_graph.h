/* Neighbours within a cutoff on the GPU. Plain C. */
#ifndef FF_CUDA_GRAPH_H
#define FF_CUDA_GRAPH_H

#include "ff_cuda_pool.h"
#include "ff_graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ff_graph_build with the tree and the search on the GPU of the pool (an ff_cuda_pool, as the ctx of an ff_graph_maker):
 * the same edges and vectors to the bit, in host memory. Waits for the stream.
 * Device memory: about 150 bytes a point and 60 an edge while it works.                                     Local
 * Errors: as ff_graph_build; FF_E_MEM the device is full. */
ff_status ff_cuda_graph_build(void *pool, const ff_graph_points *p, const ff_search *s, ff_graph **out);

#ifdef __cplusplus
}
#endif
#endif
