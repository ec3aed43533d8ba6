/* scatter_csr: stable CSR of edges by destination, and the work lists of the kernels
 * Work    check and narrow dst; radix sort of (node, edge) over the bits of a node number, which is stable; offsets by
 *         binary search in the sorted nodes; one scan gives the places of windows' edges, pieces and long nodes. A
 *         window of edge numbers holds about WINDOW_DEGREE edges of each node
 * Launch  a thread an edge, a node or an entry of a list
 * Order   the result of a stable sort is unique; lists are in node order. Integer minimum and or as the only atomics
 * Bound   memory: 2 passes of 12 bits or fewer over 8 E bytes each at the production shape, each read twice and written
 * Oracle  ff_scatter_csr_create(), tests/gpu/test_scatter.c */
#include "scatter.cuh"

#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>

extern "C" {
#include "ff_mem.h"
}

enum { BLOCK = 256, WINDOW_DEGREE = 8, WINDOW_MIN = 1 << 15 };

/* What building one CSR takes. found: first edge out of range (n_edges: none), 1 if dst descends anywhere. */
typedef struct build {
    const int32_t *d_i32;
    const int64_t *d_i64;
    ff_scatter_csr *csr;
    scatter_lists *lists;
    cudaStream_t stream;
    int64_t *found;           /* [2] */
    int32_t *node, *iota;     /* [E] sorted destinations; edge numbers */
    int64_t window, n_window; /* edges of a window; windows */
    int64_t *count;           /* [n_window][N] edges, [N] pieces, [N] 1 if long, 0; then where each begins */
    void *work;
    size_t work_bytes;
} build;

static unsigned blocks_of(int64_t n)
{
    return (unsigned)((n + BLOCK - 1) / BLOCK);
}

static __global__ void take_dst(int64_t n_edges, int64_t n_nodes, const int32_t *i32, const int64_t *i64,
                                int32_t *dst, int32_t *iota, int64_t *found)
{
    const int64_t e = (int64_t)blockIdx.x * BLOCK + threadIdx.x;
    if (e >= n_edges) return;
    const int64_t n = i64 != NULL ? i64[e] : i32[e];
    const int64_t before = e == 0 ? n : i64 != NULL ? i64[e - 1] : i32[e - 1];
    const bool bad = n < 0 || n >= n_nodes;
    dst[e] = bad ? 0 : (int32_t)n;
    iota[e] = (int32_t)e;
    if (bad) atomicMin((long long *)&found[0], (long long)e);
    if (n < before) atomicMax((long long *)&found[1], 1ll);
}

/* First place in x [lo, hi), ascending, that is not below bound; hi if there is none. */
static __device__ int64_t lower_bound(const int32_t *x, int64_t lo, int64_t hi, int64_t bound)
{
    while (lo < hi) {
        const int64_t mid = (lo + hi) / 2;
        if (x[mid] < bound)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static __global__ void find_offsets(int64_t n_edges, int64_t n_nodes, const int32_t *node, int64_t *off)
{
    const int64_t n = (int64_t)blockIdx.x * BLOCK + threadIdx.x;
    if (n <= n_nodes) off[n] = lower_bound(node, 0, n_edges, n);
}

/* A thread a cell: (window, node), then a node for pieces and long nodes. */
static __global__ void count_work(int64_t n_nodes, int64_t n_window, int64_t window, const int64_t *off,
                                  const int32_t *edge, int64_t *count)
{
    const int64_t cell = (int64_t)blockIdx.x * BLOCK + threadIdx.x, n_cell = n_window * n_nodes;
    if (cell >= n_cell) return;
    const int64_t w = cell / n_nodes, n = cell % n_nodes, begin = off[n], end = off[n + 1];
    const int64_t k0 = lower_bound(edge, begin, end, w * window),
                  k1 = lower_bound(edge, k0, end, (w + 1) * window);
    const bool is_long = end - begin > FF_SCATTER_PIECE;
    count[cell] = k1 - k0;
    if (w > 0) return;
    count[n_cell + n] = is_long ? (end - begin + FF_SCATTER_PIECE - 1) / FF_SCATTER_PIECE : 0;
    count[n_cell + n_nodes + n] = is_long;
    if (n == 0) count[n_cell + 2 * n_nodes] = 0;
}

/* Cell that entry i belongs to: the last one with begin[cell] <= i. */
static __device__ int64_t owner(const int64_t *begin, int64_t n_cell, int64_t i)
{
    int64_t lo = 0, hi = n_cell;
    while (hi - lo > 1) {
        const int64_t mid = (lo + hi) / 2;
        if (begin[mid] <= i)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

/* A thread a place k of the CSR: its edge is as far behind the first of its cell in visit as it is in the CSR. */
static __global__ void fill_visit(int64_t n_edges, int64_t n_nodes, int64_t window, const int64_t *off,
                                  const int32_t *edge, const int32_t *node, const int64_t *begin, int2 *visit)
{
    const int64_t k = (int64_t)blockIdx.x * BLOCK + threadIdx.x;
    if (k >= n_edges) return;
    const int64_t e = edge[k], n = node[k], w = e / window;
    const int64_t first = lower_bound(edge, off[n], k, w * window);
    visit[begin[w * n_nodes + n] + k - first] = make_int2((int)e, (int)n);
}

static __global__ void fill_pieces(int64_t n_piece, int64_t n_nodes, const int64_t *off, const int64_t *begin,
                                   int4 *piece)
{
    const int64_t i = (int64_t)blockIdx.x * BLOCK + threadIdx.x;
    if (i >= n_piece) return;
    const int64_t base = begin[0], n = owner(begin, n_nodes, base + i);
    const int64_t k0 = off[n] + (base + i - begin[n]) * FF_SCATTER_PIECE, k1 = k0 + FF_SCATTER_PIECE;
    piece[i] = make_int4((int)n, (int)k0, (int)(k1 < off[n + 1] ? k1 : off[n + 1]), 0);
}

static __global__ void fill_long(int64_t n_nodes, const int64_t *off, const int64_t *begin, int4 *lng)
{
    const int64_t n = (int64_t)blockIdx.x * BLOCK + threadIdx.x;
    if (n >= n_nodes || off[n + 1] - off[n] <= FF_SCATTER_PIECE) return;
    const int64_t *piece = begin, *place = begin + n_nodes;
    lng[place[n] - place[0]] =
        make_int4((int)n, (int)(piece[n] - piece[0]), (int)(piece[n + 1] - piece[n]), 0);
}

static ff_status allocate(cudaStream_t s, size_t bytes, void *out)
{
    ff_status st = FF_OK;
    FF_CU(cudaMallocAsync((void **)out, bytes + 256, s));
done:
    return st;
}

/* Scratch and the CSR's own arrays. */
static ff_status allocate_all(build *b)
{
    const size_t n = (size_t)b->csr->n_nodes, e = (size_t)b->csr->n_edges;
    const size_t n_count = ((size_t)b->n_window + 2) * n + 1;
    size_t sort = 0, scan = 0;
    char *own = NULL;
    ff_status st = FF_OK;
    FF_CU(cub::DeviceRadixSort::SortPairs(NULL, sort, b->node, b->node, b->iota, b->iota, (int)e, 0, 32,
                                          b->stream));
    FF_CU(cub::DeviceScan::ExclusiveSum(NULL, scan, b->count, b->count, (int64_t)n_count, b->stream));
    b->work_bytes = sort > scan ? sort : scan;
    FF_GO(allocate(b->stream, 8 * (n + 1) + 8 * e, &own));
    b->lists->block[0] = own;
    b->csr->off = (int64_t *)own;
    b->csr->edge = (int32_t *)(own + 8 * (n + 1));
    b->csr->dst = b->csr->edge + e;
    FF_GO(allocate(b->stream, 2 * sizeof *b->found, &b->found));
    FF_GO(allocate(b->stream, e * sizeof *b->node, &b->node));
    FF_GO(allocate(b->stream, e * sizeof *b->iota, &b->iota));
    FF_GO(allocate(b->stream, n_count * sizeof *b->count, &b->count));
    FF_GO(allocate(b->stream, b->work_bytes, &b->work));
done:
    return st;
}

static int bits_of(int64_t n_nodes)
{
    int bits = 1;
    while (bits < 31 && ((int64_t)1 << bits) < n_nodes) bits++;
    return bits;
}

/* Fills the CSR's arrays; reads back what was found and the lengths of the lists (waits for the stream). */
static ff_status sort_edges(build *b, int64_t *found)
{
    ff_status st = FF_OK;
    ff_scatter_csr *c = b->csr;
    scatter_lists *l = b->lists;
    const int64_t n = c->n_nodes, e = c->n_edges, n_cell = b->n_window * n;
    int64_t begin[3] = {0, 0, 0}; /* edges, then with pieces, then with long nodes */
    size_t bytes = b->work_bytes;
    found[0] = e, found[1] = 0;
    FF_CU(cudaMemcpyAsync(b->found, found, 2 * sizeof *found, cudaMemcpyHostToDevice, b->stream));
    if (e > 0) {
        take_dst<<<blocks_of(e), BLOCK, 0, b->stream>>>(e, n, b->d_i32, b->d_i64, c->dst, b->iota, b->found);
        FF_CU(cudaGetLastError());
        FF_CU(cub::DeviceRadixSort::SortPairs(b->work, bytes, c->dst, b->node, b->iota, c->edge, (int)e, 0,
                                              bits_of(n), b->stream));
    }
    find_offsets<<<blocks_of(n + 1), BLOCK, 0, b->stream>>>(e, n, b->node, c->off);
    FF_CU(cudaGetLastError());
    if (n > 0) {
        count_work<<<blocks_of(n_cell), BLOCK, 0, b->stream>>>(n, b->n_window, b->window, c->off, c->edge,
                                                               b->count);
        FF_CU(cudaGetLastError());
        bytes = b->work_bytes;
        FF_CU(
            cub::DeviceScan::ExclusiveSum(b->work, bytes, b->count, b->count, n_cell + 2 * n + 1, b->stream));
        for (int k = 0; k < 3; k++)
            FF_CU(cudaMemcpyAsync(&begin[k], b->count + n_cell + k * n, sizeof *begin, cudaMemcpyDeviceToHost,
                                  b->stream));
    }
    FF_CU(cudaMemcpyAsync(found, b->found, 2 * sizeof *found, cudaMemcpyDeviceToHost, b->stream));
    FF_CU(cudaStreamSynchronize(b->stream));
    l->n_piece = begin[1] - begin[0];
    l->n_long = begin[2] - begin[1];
    c->sorted = found[1] == 0;
done:
    return st;
}

static ff_status fill_lists(build *b)
{
    ff_status st = FF_OK;
    scatter_lists *l = b->lists;
    const int64_t n = b->csr->n_nodes, e = b->csr->n_edges, *off = b->csr->off,
                  *begin = b->count + b->n_window * n;
    if (e == 0) return FF_OK;
    FF_GO(allocate(b->stream, (size_t)(l->n_piece + l->n_long) * sizeof(int4) + (size_t)e * sizeof(int2),
                   &l->block[1]));
    l->piece = (int4 *)l->block[1];
    l->lng = l->piece + l->n_piece;
    l->visit = (int2 *)(l->lng + l->n_long);
    fill_visit<<<blocks_of(e), BLOCK, 0, b->stream>>>(e, n, b->window, off, b->csr->edge, b->node, b->count,
                                                      l->visit);
    FF_CU(cudaGetLastError());
    if (l->n_long == 0) return FF_OK;
    fill_pieces<<<blocks_of(l->n_piece), BLOCK, 0, b->stream>>>(l->n_piece, n, off, begin, l->piece);
    fill_long<<<blocks_of(n), BLOCK, 0, b->stream>>>(n, off, begin, l->lng);
    FF_CU(cudaGetLastError());
done:
    return st;
}

/* The number that was out of range, for the message. */
static ff_status bad_dst(const build *b, int64_t e)
{
    ff_status st = FF_OK;
    int64_t wide = 0;
    int32_t narrow = 0;
    if (b->d_i64 != NULL)
        FF_CU(cudaMemcpy(&wide, b->d_i64 + e, sizeof wide, cudaMemcpyDeviceToHost));
    else
        FF_CU(cudaMemcpy(&narrow, b->d_i32 + e, sizeof narrow, cudaMemcpyDeviceToHost));
    st = ff_scatter_bad_dst(e, b->d_i64 != NULL ? wide : narrow, b->csr->n_nodes);
done:
    return st;
}

static ff_status build_run(build *b)
{
    ff_status st = FF_OK;
    int64_t found[2];
    FF_GO(allocate_all(b));
    FF_GO(sort_edges(b, found));
    if (found[0] < b->csr->n_edges) FF_GO(bad_dst(b, found[0]));
    FF_GO(fill_lists(b));
    /* Calls on other streams may use the lists at once. */
    FF_CU(cudaStreamSynchronize(b->stream));
done:
    void *scratch[] = {b->found, b->node, b->iota, b->count, b->work};
    for (size_t k = 0; k < sizeof scratch / sizeof *scratch; k++)
        if (scratch[k] != NULL) (void)cudaFreeAsync(scratch[k], b->stream);
    return st;
}

/* The pool of the device keeps what is freed: scratch of a call costs no call into the system. */
static ff_status keep_memory(int *device)
{
    ff_status st = FF_OK;
    cudaMemPool_t pool;
    uint64_t keep = UINT64_MAX;
    FF_CU(cudaGetDevice(device));
    FF_CU(cudaDeviceGetDefaultMemPool(&pool, *device));
    FF_CU(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
done:
    return st;
}

ff_status scatter_csr_build(const int32_t *d_i32, const int64_t *d_i64, int64_t n_edges, int64_t n_nodes,
                            void *stream, const ff_scatter_row *row, ff_scatter_csr **out)
{
    ff_status st = FF_OK;
    build b;
    memset(&b, 0, sizeof b);
    b.d_i32 = d_i32;
    b.d_i64 = d_i64;
    b.stream = (cudaStream_t)stream;
    b.csr = (ff_scatter_csr *)ff_mem_alloc0(1, sizeof *b.csr);
    if (b.csr == NULL) return FF_E_MEM;
    b.csr->n_nodes = n_nodes;
    b.csr->n_edges = n_edges;
    b.window = n_nodes * WINDOW_DEGREE;
    if (b.window < WINDOW_MIN) b.window = WINDOW_MIN;
    b.n_window = n_edges / b.window + 1;
    b.csr->row = row;
    b.csr->impl = b.lists = (scatter_lists *)ff_mem_alloc0(1, sizeof *b.lists);
    if (b.lists == NULL) FF_GO(FF_E_MEM);
    FF_GO(keep_memory(&b.lists->device));
    FF_GO(build_run(&b));
    *out = b.csr;
    b.csr = NULL;
done:
    ff_scatter_csr_destroy(&b.csr);
    return st;
}

void scatter_csr_free(ff_scatter_csr *csr)
{
    scatter_lists *l = (scatter_lists *)csr->impl;
    int current = 0;
    if (l == NULL) return;
    (void)cudaGetDevice(&current);
    (void)cudaSetDevice(l->device);
    (void)cudaDeviceSynchronize(); /* calls of any stream may still read it */
    for (int k = 0; k < 2; k++)
        if (l->block[k] != NULL) (void)cudaFreeAsync(l->block[k], NULL);
    (void)cudaSetDevice(current);
    ff_free(l);
}
