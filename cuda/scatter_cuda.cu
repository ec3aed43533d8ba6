/* The CUDA row of the scatter: checks that need a device, alignment, scratch, one call a direction. */
#include "scatter.cuh"

#include <stdlib.h>

ff_status scatter_csr_build(const int32_t *d_i32, const int64_t *d_i64, int64_t n_edges, int64_t n_nodes,
                            void *stream, const ff_scatter_row *row, ff_scatter_csr **out);
void scatter_csr_free(ff_scatter_csr *csr);

/* A host pointer would fault in a kernel, long after the call. */
static ff_status check_place(const char *what, const void *p)
{
    ff_status st = FF_OK;
    cudaPointerAttributes at;
    if (p == NULL) return FF_OK;
    FF_CU(cudaPointerGetAttributes(&at, p));
    if (at.type == cudaMemoryTypeUnregistered)
        st = ff_fail(FF_E_ARG, "scatter: %s is host memory, expected device memory as the CSR's; copy it",
                     what);
done:
    return st;
}

static ff_status check_places(const ff_scatter_call *c)
{
    const struct {
        const char *what;
        const void *p;
    } all[] = {{"coupling", c->in.coupling},
               {"radial", c->in.radial},
               {"spin_l1", c->in.spin_l1},
               {"gate", c->in.gate},
               {"inv_sqrt_deg", c->in.inv_sqrt_deg},
               {"cotangent", c->cot},
               {"out", c->out},
               {"gradient of coupling", c->d_coupling},
               {"gradient of radial", c->d_radial},
               {"gradient of spin_l1", c->d_spin_l1},
               {"gradient of gate", c->d_gate},
               {"gradient of inv_sqrt_deg", c->d_inv_sqrt_deg}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) FF_TRY(check_place(all[i].what, all[i].p));
    return FF_OK;
}

/* Widest access in elements, at most 16 bytes, that all arrays with channels allow. */
static int widest(const ff_scatter_call *c)
{
    const int real = c->f64 ? 8 : 4;
    const void *p[] = {c->in.radial, c->in.spin_l1, c->cot, c->out, c->d_radial, c->d_spin_l1};
    int64_t bits = (c->n_chan | c->radial_stride[0] | c->radial_stride[1]) * real;
    for (size_t i = 0; i < sizeof p / sizeof *p; i++) bits |= (int64_t)(uintptr_t)p[i];
    int bytes = 16;
    while (bytes > real && bits % bytes != 0) bytes /= 2;
    return bytes / real;
}

template <typename T> static scatter_job<T> job_of(const ff_scatter_csr *csr, const ff_scatter_call *c)
{
    const scatter_lists *l = (const scatter_lists *)csr->impl;
    scatter_job<T> j;
    memset(&j, 0, sizeof j);
    j.n_nodes = csr->n_nodes, j.n_edges = csr->n_edges;
    j.s0 = c->radial_stride[0], j.s1 = c->radial_stride[1], j.s2 = c->radial_stride[2];
    j.n_chan = (int)c->n_chan, j.lmax = c->lmax, j.n_rows = ff_scatter_n_rows(c->lmax);
    j.row = (int)(c->n_chan * (int64_t)sizeof(T));
    j.f_edge = (int)(j.s0 * (int64_t)sizeof(T)), j.f_deg = (int)(j.s1 * (int64_t)sizeof(T));
    j.off = csr->off, j.edge = csr->edge, j.dst = csr->dst;
    j.visit = l->visit, j.piece = l->piece, j.lng = l->lng;
    j.n_piece = l->n_piece, j.n_long = l->n_long;
    j.z = (const T *)c->in.coupling, j.f = (const T *)c->in.radial, j.spin = (const T *)c->in.spin_l1;
    j.gate = (const T *)c->in.gate, j.deg = (const T *)c->in.inv_sqrt_deg;
    j.cot = (const T *)c->cot, j.out = (T *)c->out;
    j.dz = (T *)c->d_coupling, j.df = (T *)c->d_radial, j.dspin = (T *)c->d_spin_l1;
    j.dgate = (T *)c->d_gate, j.ddeg = (T *)c->d_inv_sqrt_deg;
    return j;
}

/* The fused kernels have 32-bit strides, in bytes: of an edge's rows and of a node's. */
static ff_scatter_path path_of(const ff_scatter_call *c)
{
    const int64_t most = INT32_MAX / (c->f64 ? 8 : 4), rows = ff_scatter_n_rows(c->lmax) + 1;
    const bool fits =
        c->n_chan * rows <= most && llabs(c->radial_stride[0]) <= most && llabs(c->radial_stride[1]) <= most;
    return fits ? c->path : FF_SCATTER_REFERENCE;
}

/* The CSR's device is the current one for the call. */
static ff_status enter(const ff_scatter_csr *csr, int *before)
{
    ff_status st = FF_OK;
    const int device = ((const scatter_lists *)csr->impl)->device;
    FF_CU(cudaGetDevice(before));
    if (*before != device) FF_CU(cudaSetDevice(device));
done:
    return st;
}

static ff_status forward(const ff_scatter_csr *csr, const ff_scatter_call *c)
{
    ff_status st = FF_OK;
    cudaStream_t s = (cudaStream_t)c->stream;
    const scatter_lists *l = (const scatter_lists *)csr->impl;
    void *part = NULL;
    int before = 0;
    FF_TRY(enter(csr, &before));
    FF_GO(check_places(c));
    if (!c->f64 && c->path == FF_SCATTER_FUSED && l->n_piece > 0)
        FF_CU(cudaMallocAsync(
            &part, (size_t)(l->n_piece * ff_scatter_n_rows(c->lmax) * c->n_chan) * sizeof(float), s));
    if (c->f64) {
        scatter_job<double> j = job_of<double>(csr, c);
        FF_CU(scatter_forward_f64(&j, path_of(c), widest(c), s));
    } else {
        scatter_job<float> j = job_of<float>(csr, c);
        j.part = (float *)part;
        FF_CU(scatter_forward_f32(&j, path_of(c), widest(c), s));
    }
done:
    if (part != NULL) (void)cudaFreeAsync(part, s);
    (void)cudaSetDevice(before);
    return st;
}

static ff_status backward(const ff_scatter_csr *csr, const ff_scatter_call *c)
{
    ff_status st = FF_OK;
    cudaStream_t s = (cudaStream_t)c->stream;
    double *share = NULL;
    int before = 0;
    FF_TRY(enter(csr, &before));
    FF_GO(check_places(c));
    /* Also where one launch leaves its part of the gate's gradient for the next. */
    if ((c->d_inv_sqrt_deg != NULL || (c->d_gate != NULL && c->lmax > 3)) && csr->n_edges > 0)
        FF_CU(cudaMallocAsync((void **)&share, (size_t)csr->n_edges * sizeof *share, s));
    if (c->f64) {
        scatter_job<double> j = job_of<double>(csr, c);
        j.share = share;
        FF_CU(scatter_backward_f64(&j, path_of(c), widest(c), s));
    } else {
        scatter_job<float> j = job_of<float>(csr, c);
        j.share = share;
        FF_CU(scatter_backward_f32(&j, path_of(c), widest(c), s));
    }
done:
    if (share != NULL) (void)cudaFreeAsync(share, s);
    (void)cudaSetDevice(before);
    return st;
}

static const ff_scatter_row cuda_row = {"cuda", forward, backward, scatter_csr_free};

static ff_status create(const int32_t *d_i32, const int64_t *d_i64, int64_t n_edges, int64_t n_nodes,
                        void *stream, ff_scatter_csr **out)
{
    const void *dst = d_i64 != NULL ? (const void *)d_i64 : (const void *)d_i32;
    if (out != NULL) *out = NULL;
    FF_TRY(ff_scatter_check_counts(dst, n_edges, n_nodes, out));
    FF_TRY(check_place("dst", dst));
    return scatter_csr_build(d_i32, d_i64, n_edges, n_nodes, stream, &cuda_row, out);
}

extern "C" ff_status ff_scatter_csr_create_cuda(const int64_t *d_dst, int64_t n_edges, int64_t n_nodes,
                                                void *stream, ff_scatter_csr **out)
{
    return create(NULL, d_dst, n_edges, n_nodes, stream, out);
}

extern "C" ff_status ff_scatter_csr_create_cuda_i32(const int32_t *d_dst, int64_t n_edges, int64_t n_nodes,
                                                    void *stream, ff_scatter_csr **out)
{
    return create(d_dst, NULL, n_edges, n_nodes, stream, out);
}
