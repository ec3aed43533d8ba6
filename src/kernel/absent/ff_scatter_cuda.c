/* The GPU entry points of the scatter in a build without CUDA. */
#include "ff_scatter.h"

static ff_status absent(ff_scatter_csr **out)
{
    if (out != NULL) *out = NULL;
    return ff_fail(FF_E_UNSUPPORTED,
                   "scatter: this library was built without CUDA; build it with -DFF_CUDA=ON, or use "
                   "ff_scatter_csr_create()");
}

ff_status ff_scatter_csr_create_cuda(const int64_t *d_dst, int64_t n_edges, int64_t n_nodes, void *stream,
                                     ff_scatter_csr **out)
{
    (void)d_dst, (void)n_edges, (void)n_nodes, (void)stream;
    return absent(out);
}

ff_status ff_scatter_csr_create_cuda_i32(const int32_t *d_dst, int64_t n_edges, int64_t n_nodes, void *stream,
                                         ff_scatter_csr **out)
{
    (void)d_dst, (void)n_edges, (void)n_nodes, (void)stream;
    return absent(out);
}
