/* What the files of the scatter's CUDA row share: one call as kernels see it, work lists of a CSR, vector accesses.
 * Compiled with --fmad=false: a product and a sum of the forward pass never round together. */
#ifndef FF_CUDA_SCATTER_CUH
#define FF_CUDA_SCATTER_CUH

extern "C" {
#include "ff_scatter.h"
}

#include "ff_cuda_check.cuh"

#include <string.h>

/* SCATTER_BATCH: edges of a warp of the backward pass. The fewer edges are under way at once, the nearer to each other they
 * lie in memory, which random order needs: 32 cost 6 % more there. */
enum { SCATTER_BATCH = 16, SCATTER_WARPS = 4, SCATTER_BLOCK = 32 * SCATTER_WARPS,
       SCATTER_BLOCK_EDGES = SCATTER_BATCH * SCATTER_WARPS };

/* Behind ff_scatter_csr.impl. Work lists, device memory, in one block with the CSR's arrays:
 *   visit  [n_edges] (edge, node): by window of consecutive edge numbers, then node, then edge, so that edges in random
 *          order are still met in about the order in which they lie in memory
 *   piece  [n_piece] (node, first place, last place + 1, 0): FF_SCATTER_PIECE edges or fewer of a long node, one with
 *          more than FF_SCATTER_PIECE edges; pieces of a node are neighbours, in order
 *   lng    [n_long] (node, first piece, pieces, 0) */
typedef struct scatter_lists {
    int device;
    int64_t n_piece, n_long;
    void *block[2];
    int2 *visit;
    int4 *piece, *lng;
} scatter_lists;

/* One call. Node data is [n_nodes][n_rows + 1][n_chan]. Optional pointers are NULL. */
template <typename T> struct scatter_job {
    int64_t n_nodes, n_edges, s0, s1, s2; /* strides of f */
    int n_chan, lmax, n_rows, n_tile;
    int f_edge, f_deg, row; /* bytes from an edge's features to the next one's, from a degree's; of C elements */
    const int64_t *off;
    const int32_t *edge;
    const int32_t *dst;
    const int2 *visit;
    const int4 *piece, *lng;
    int64_t n_piece, n_long;
    const T *z, *f, *spin, *gate, *deg, *cot;
    T *out, *part; /* part [n_piece][n_rows][n_chan] */
    T *dz, *df, *dspin, *dgate, *ddeg;
    double *share; /* [n_edges] what an edge adds to the gradient of its node's inv_sqrt_deg */
};

/* The row's work, one precision a file. job.part and job.share are the caller's. vec: widest access that the
 * alignment of all arrays allows, in elements, a power of two. */
cudaError_t scatter_forward_f32(const scatter_job<float> *job, ff_scatter_path path, int vec, cudaStream_t s);
cudaError_t scatter_forward_f64(const scatter_job<double> *job, ff_scatter_path path, int vec,
                                cudaStream_t s);
cudaError_t scatter_backward_f32(const scatter_job<float> *job, ff_scatter_path path, int vec,
                                 cudaStream_t s);
cudaError_t scatter_backward_f64(const scatter_job<double> *job, ff_scatter_path path, int vec,
                                 cudaStream_t s);

#ifdef __CUDACC__

/* ---- vectors of V elements ---- */

template <typename T, int V> static __device__ __forceinline__ void set_zero(T (&x)[V])
{
#pragma unroll
    for (int v = 0; v < V; v++) x[v] = 0;
}

/* At most n of the V elements of x to p, streaming; WORD = 16: p is aligned to V elements and n is at least V. */
template <int V, int WORD, typename T>
static __device__ __forceinline__ void store(T *p, const T (&x)[V], int n)
{
    if (WORD == 16 && V * sizeof(T) == 16) {
        int4 w;
        memcpy(&w, x, sizeof w);
        __stcs((int4 *)p, w);
    } else if (WORD == 16 && V * sizeof(T) == 8) {
        int2 w;
        memcpy(&w, x, sizeof w);
        __stcs((int2 *)p, w);
    } else {
#pragma unroll
        for (int v = 0; v < V; v++)
            if (v < n) __stcs(p + v, x[v]);
    }
}

/* The first n of V elements of a node, zeros for the rest; WORD = 16: p is aligned to V elements and n is 0, less, or at
 * least V. Through the first cache: edges of a node share them. */
template <int V, int WORD, typename T>
static __device__ __forceinline__ void load_node(T (&x)[V], const T *p, int n)
{
    set_zero(x);
    if (WORD == 16 && V * sizeof(T) == 16) {
        if (n <= 0) return;
        const int4 w = __ldg((const int4 *)p);
        memcpy(x, &w, sizeof w);
    } else if (WORD == 16 && V * sizeof(T) == 8) {
        if (n <= 0) return;
        const int2 w = __ldg((const int2 *)p);
        memcpy(x, &w, sizeof w);
    } else {
#pragma unroll
        for (int v = 0; v < V; v++)
            if (v < n) x[v] = __ldg(p + v);
    }
}

/* N elements of shared memory, aligned to the widest access that N allows. */
template <int N, typename T> static __device__ __forceinline__ void load_shared(T (&x)[N], const T *p)
{
    constexpr int bytes = N * (int)sizeof(T), word = bytes % 16 == 0 ? 16 : bytes % 8 == 0 ? 8 : 4;
#pragma unroll
    for (int k = 0; k < bytes / word; k++) {
        if (word == 16) {
            const int4 w = ((const int4 *)p)[k];
            memcpy((char *)x + 16 * k, &w, 16);
        } else if (word == 8) {
            const int2 w = ((const int2 *)p)[k];
            memcpy((char *)x + 8 * k, &w, 8);
        } else {
            const int w = ((const int *)p)[k];
            memcpy((char *)x + 4 * k, &w, 4);
        }
    }
}

/* ---- global into shared memory, without passing through registers ---- */

/* WORD bytes; 16 bytes skip the first cache. */
template <int WORD> static __device__ __forceinline__ void copy_async(void *shared, const void *p)
{
    const unsigned at = (unsigned)__cvta_generic_to_shared(shared);
    if (WORD == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(p) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(at), "l"(p), "n"(WORD) : "memory");
}
static __device__ __forceinline__ void copies_begun(void)
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}
/* All copies but those of the last N groups are there, for the whole warp. */
template <int N> static __device__ __forceinline__ void copies_wait(void)
{
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
    __syncwarp();
}

/* Degrees A .. B of an edge: couplings (then the gate) padded to 16 bytes; of features (and spin) WIDE channels a row,
 * rows PAD elements apart. Edges pass through a ring of STAGES stages of EDGES edges in shared memory, one ring a warp. */
template <typename T, bool FULL, int A, int B, int WIDE, int PAD = 0> struct edge_stage {
    static constexpr int first = A * A - 1, n = B * B + 2 * B - first, n_deg = B - A + 1;
    static constexpr int unit = 16 / (int)sizeof(T), n_z = (n + (FULL ? 1 : 0) + unit - 1) / unit * unit;
    static constexpr int n_chan_rows = n_deg + (FULL && A == 1 ? 3 : 0), line = WIDE + PAD;
    static constexpr int n_f = n_chan_rows * line;
    static constexpr int size = n_z + n_f; /* elements an edge */
};

/* Element i of an array of 32-bit stride bytes: one multiply-add, where 64-bit strides take a long product. */
template <typename T> static __device__ __forceinline__ T *strided(T *p, int i, int bytes)
{
    return (T *)((uintptr_t)p + (uintptr_t)((int64_t)i * bytes));
}

/* Begins the copy of the edges at, at + 1, .. at + EDGES - 1 of the item; lane i holds the number of edge at / 32 * 32 + i.
 * WORD: bytes of an access to channels, 16 or those of one element. c0: first channel. A lane's edge and channels are
 * the same in all rows: LINE lanes a row, EI edges and ROWS rows at once. */
template <typename T, bool FULL, int A, int B, int WIDE, int EDGES, int WORD, int PAD = 0>
static __device__ __forceinline__ void stage_edges(const scatter_job<T> &j, int id, int at, int n, int c0,
                                                   int lane, T *to)
{
    typedef edge_stage<T, FULL, A, B, WIDE, PAD> stage;
    constexpr int W = WORD / (int)sizeof(T), words = WIDE / W, LINE = words < 32 ? words : 32, group = 32 / LINE;
    constexpr int EI = group < EDGES ? group : EDGES, ROWS = group / EI;
#pragma unroll
    for (int i0 = 0; i0 < EDGES; i0 += EI) {
        const int i = i0 + lane / LINE % EI, row0 = lane / LINE / EI;
        const int e = __shfl_sync(~0u, id, (at + i) & 31);
#pragma unroll
        for (int w0 = 0; w0 < words; w0 += LINE) {
            const int w = (w0 + lane % LINE) * W, c = c0 + w;
            if (at + i >= n || c >= j.n_chan) continue;
            T *here = to + i * stage::size + stage::n_z + w;
            const T *f = strided(strided(j.f + c, e, j.f_edge), A - 1, j.f_deg);
#pragma unroll
            for (int k = 0; k < stage::n_deg; k += ROWS)
                if (ROWS == 1 || k + row0 < stage::n_deg)
                    copy_async<WORD>(here + (k + row0) * stage::line, strided(f, k + row0, j.f_deg));
            if (stage::n_chan_rows == stage::n_deg || j.spin == NULL) continue;
            const T *spin = strided(j.spin + c, e, 3 * j.row);
#pragma unroll
            for (int k = 0; k < 3; k += ROWS)
                if (ROWS == 1 || k + row0 < 3)
                    copy_async<WORD>(here + (stage::n_deg + k + row0) * stage::line, strided(spin, k + row0, j.row));
        }
    }
    constexpr int want = stage::n + (FULL ? 1 : 0),
                  width = want <= 4 ? 4 : want <= 8 ? 8 : want <= 16 ? 16 : 32;
    const int r = lane % width, z_edge = j.n_rows * (int)sizeof(T);
#pragma unroll
    for (int i0 = 0; i0 < EDGES; i0 += 32 / width) {
        const int i = i0 + lane / width;
        const int e = __shfl_sync(~0u, id, (at + i) & 31);
        if (i >= EDGES || at + i >= n) continue;
        if (r < stage::n)
            copy_async<(int)sizeof(T)>(to + i * stage::size + r, strided(j.z + stage::first + r, e, z_edge));
        else if (FULL && r == stage::n && j.gate != NULL)
            copy_async<(int)sizeof(T)>(to + i * stage::size + r, j.gate + e);
    }
    copies_begun();
}

/* ---- copies counted by a barrier in shared memory, one warp ---- */

static __device__ __forceinline__ void bar_init(uint64_t *bar)
{
    const unsigned at = (unsigned)__cvta_generic_to_shared(bar);
    asm volatile("mbarrier.init.shared.b64 [%0], 32;" ::"r"(at) : "memory");
}
/* The lane arrives when all copies that it has begun so far are there. */
static __device__ __forceinline__ void bar_arrive_copies(uint64_t *bar)
{
    const unsigned at = (unsigned)__cvta_generic_to_shared(bar);
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(at) : "memory");
}
static __device__ __forceinline__ void bar_wait(uint64_t *bar, unsigned parity)
{
    const unsigned at = (unsigned)__cvta_generic_to_shared(bar);
    unsigned done;
    do {
        asm volatile("{\n.reg .pred p;\nmbarrier.test_wait.parity.shared.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                     : "=r"(done)
                     : "r"(at), "r"(parity)
                     : "memory");
    } while (done == 0);
}

/* Message of one edge, ((coupling x radial) + spin) x gate, as on the CPU. */
static __device__ __forceinline__ float message(float z, float f, float s, float g)
{
    return ff_scatter_message_f32(z, f, s, g);
}
static __device__ __forceinline__ double message(double z, double f, double s, double g)
{
    return ff_scatter_message_f64(z, f, s, g);
}

#endif
#endif
