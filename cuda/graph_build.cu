/* Edges of points closer than a cutoff, equal to the bit to ff_graph_build. Compiled with --fmad=false.
 *
 * ff_cuda_tree_build, graph_sorted, graph_count, CUB scan, graph_fill, CUB segmented sort, graph_edges
 * Work    a thread a held point, in Morton order, so that a warp walks the same part of the tree: leaves in reach of the
 *         point or one of its images, then every point of them, in float64 as given; twice, to count and to write keys
 *         (source, image). Each node's keys are sorted; then a thread an edge writes image and vector
 * Launch  256 threads a block, no shared memory; the walk's stack is 256 bytes of local memory a thread
 * Shapes  x [n_held][3] f64, x_tree [n_held][3] f32 in the search's frame, wrap [n_held][3] i32; key [E] u64; dst, src [E]
 *         i32, image [E][3] i32, vec [E][3] f64
 * Order   of edges: destination, source, image, whatever the order in which they were found. Integer sums only
 * Bound   latency of the walk, then the copies of 44 bytes an edge to the host (56 in a periodic cell)
 * Oracle  src/kernel/ff_graph.c, tests/gpu/test_graph.c
 * Care    the asking point is rounded to float32 here, which takes half of what the reach allows for rounding */
#include "ff_cuda_scan.cuh"

extern "C" {
#include "ff_cuda_graph.h"
#include "ff_cuda_tree.h"
#include "ff_mem.h"
}

#include <cub/device/device_scan.cuh>
#include <cub/device/device_segmented_sort.cuh>
#include <string.h>

/* What the kernels read. wrap and wrap_sorted are NULL in open space, node and held where all held points are nodes. */
typedef struct graph_job {
    ff_search s;
    int64_t n_held;
    int32_t n_tree;
    const ff_node *tree;
    const int64_t *start, *count, *order;
    const float *x_tree;        /* by place in the tree */
    const double *x, *x_sorted; /* by held index, by place */
    const int32_t *wrap, *wrap_sorted;
    const int32_t *node, *held; /* node of a held index or -1; held index of a node */
} graph_job;

typedef struct graph_scratch {
    float *d_x_tree;
    double *d_x, *d_x_sorted, *d_vec;
    int32_t *d_wrap, *d_wrap_sorted, *d_node, *d_held, *d_dst, *d_src, *d_image;
    int64_t *d_order, *d_off;
    uint64_t *d_key, *d_key_sorted;
    unsigned long long *d_coincident;
    void *d_work;
    ff_cuda_tree *tree;
} graph_scratch;

static void scratch_free(ff_cuda_pool *pool, graph_scratch *w)
{
    const void *all[] = {w->d_x_tree,      w->d_x,     w->d_x_sorted, w->d_vec, w->d_wrap,
                         w->d_wrap_sorted, w->d_node,  w->d_held,     w->d_dst, w->d_src,
                         w->d_image,       w->d_order, w->d_off,      w->d_key, w->d_key_sorted,
                         w->d_coincident,  w->d_work};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) ff_cuda_free(pool, all[i]);
    ff_cuda_tree_destroy(pool, &w->tree);
}

static __global__ void graph_sorted(int64_t n, const int64_t *order, const double *x, const int32_t *wrap,
                                    double *x_sorted, int32_t *wrap_sorted)
{
    const int64_t i = ff_thread();
    if (i >= n) return;
    for (int d = 0; d < 3; d++) {
        x_sorted[3 * i + d] = x[3 * order[i] + d];
        if (wrap != NULL) wrap_sorted[3 * i + d] = wrap[3 * order[i] + d];
    }
}

/* Neighbours of the point at place i among image number image; keys to key if not NULL. Returns how many. */
static __device__ int64_t find_image(const graph_job &g, int64_t i, int64_t image, uint64_t *key)
{
    const double x_in[3] = {(double)g.x_tree[3 * i], (double)g.x_tree[3 * i + 1],
                            (double)g.x_tree[3 * i + 2]};
    ff_search_walk w;
    int32_t m[3], k[3] = {0, 0, 0};
    double shift[3], v[3];
    int64_t n = 0;
    ff_search_image(&g.s, image, m);
    ff_lattice_shift(g.s.lattice.vector, m, shift);
    ff_search_begin(&w, &g.s, g.tree, g.n_tree, x_in, x_in, shift);
    const bool self = m[0] == 0 && m[1] == 0 && m[2] == 0;
    for (int32_t leaf; (leaf = ff_search_leaf(&w)) >= 0;)
        for (int64_t j = g.start[leaf]; j < g.start[leaf] + g.count[leaf]; j++) {
            if (self && j == i) continue;
            if (!g.s.lattice.open) ff_search_image_of(m, g.wrap_sorted + 3 * j, g.wrap_sorted + 3 * i, k);
            if (!ff_search_edge(&g.s, g.x_sorted + 3 * j, g.x_sorted + 3 * i, k, v)) continue;
            if (key != NULL) key[n] = (uint64_t)g.order[j] << FF_SEARCH_IMAGE_BITS | (uint64_t)image;
            n++;
        }
    return n;
}

static __device__ int64_t find(const graph_job &g, int64_t i, uint64_t *key)
{
    int64_t n = 0;
    for (int64_t image = 0; image < g.s.n_images; image++)
        n += find_image(g, i, image, key != NULL ? key + n : NULL);
    return n;
}

/* Node of the point at place i, -1 if it is none. */
static __device__ int64_t node_at(const graph_job &g, int64_t i)
{
    return g.node != NULL ? g.node[g.order[i]] : g.order[i];
}

static __global__ void graph_count(const graph_job g, int64_t *count)
{
    const int64_t i = ff_thread();
    if (i >= g.n_held) return;
    const int64_t node = node_at(g, i);
    if (node >= 0) count[node] = find(g, i, NULL);
}

static __global__ void graph_fill(const graph_job g, const int64_t *off, uint64_t *key, int32_t *dst)
{
    const int64_t i = ff_thread();
    if (i >= g.n_held) return;
    const int64_t node = node_at(g, i);
    if (node < 0) return;
    const int64_t n = find(g, i, key + off[node]);
    for (int64_t e = off[node]; e < off[node] + n; e++) dst[e] = (int32_t)node;
}

static __global__ void graph_edges(const graph_job g, int64_t n_edges, const uint64_t *key,
                                   const int32_t *dst, int32_t *src, int32_t *image, double *vec,
                                   unsigned long long *coincident)
{
    const int64_t e = ff_thread();
    if (e >= n_edges) return;
    const int64_t from = (int64_t)(key[e] >> FF_SEARCH_IMAGE_BITS);
    const int64_t to = g.held != NULL ? g.held[dst[e]] : dst[e];
    int32_t m[3], k[3] = {0, 0, 0};
    double v[3];
    src[e] = (int32_t)from;
    if (!g.s.lattice.open) {
        ff_search_image(&g.s, (int64_t)(key[e] & ((1ull << FF_SEARCH_IMAGE_BITS) - 1)), m);
        ff_search_image_of(m, g.wrap + 3 * from, g.wrap + 3 * to, k);
        for (int d = 0; d < 3; d++) image[3 * e + d] = k[d];
    }
    (void)ff_search_edge(&g.s, g.x + 3 * from, g.x + 3 * to, k, v);
    for (int d = 0; d < 3; d++) vec[3 * e + d] = v[d];
    if (ff_lattice_norm2(v) == 0) atomicAdd(coincident, 1ull);
}

/* Frame, wraps and numbers of nodes are made on the host, in one pass over the points. */
static ff_status upload(ff_cuda_pool *pool, const ff_graph_points *p, const ff_search *s, graph_scratch *w)
{
    ff_status st = FF_OK;
    const size_t n = (size_t)p->n_held;
    float *x_tree = (float *)ff_mem_alloc(3 * n, sizeof *x_tree);
    int32_t *wrap = s->lattice.open ? NULL : (int32_t *)ff_mem_alloc(3 * n, sizeof *wrap);
    int32_t *node = p->node == NULL ? NULL : (int32_t *)ff_mem_alloc(n, sizeof *node);
    if (x_tree == NULL || (wrap == NULL && !s->lattice.open) || (node == NULL && p->node != NULL))
        FF_GO(FF_E_MEM);
    ff_search_frame(s, p->x, p->n_held, x_tree, wrap);
    if (node != NULL) {
        for (size_t i = 0; i < n; i++) node[i] = -1;
        for (int64_t k = 0; k < p->n_nodes; k++) node[p->node[k]] = (int32_t)k;
    }
    FF_GO(ff_cuda_new(pool, x_tree, 3 * n * sizeof *x_tree, &w->d_x_tree));
    FF_GO(ff_cuda_new(pool, p->x, 3 * n * sizeof *p->x, &w->d_x));
    FF_GO(ff_cuda_new(pool, wrap, 3 * n * sizeof *wrap, &w->d_wrap));
    FF_GO(ff_cuda_new(pool, node, n * sizeof *node, &w->d_node));
    FF_GO(ff_cuda_new(pool, p->node, (size_t)p->n_nodes * sizeof *p->node, &w->d_held));
done:
    ff_free(x_tree);
    ff_free(wrap);
    ff_free(node);
    return st;
}

/* The tree, and what the walk reads in its order. */
static ff_status prepare(ff_cuda_pool *pool, const ff_graph_points *p, const ff_search *s, graph_scratch *w,
                         graph_job *g)
{
    ff_status st = FF_OK;
    const int64_t n = p->n_held;
    FF_GO(upload(pool, p, s, w));
    FF_GO(FF_ALLOC(pool, w->d_order, n));
    FF_GO(FF_ALLOC(pool, w->d_x_sorted, 3 * n));
    if (w->d_wrap != NULL) FF_GO(FF_ALLOC(pool, w->d_wrap_sorted, 3 * n));
    FF_GO(ff_cuda_tree_build(pool, w->d_x_tree, n, 3, FF_GRAPH_LEAF, w->d_order, &w->tree));
    graph_sorted<<<ff_grid(n, 1), 256, 0, (cudaStream_t)ff_cuda_pool_stream(pool)>>>(
        n, w->d_order, w->d_x, w->d_wrap, w->d_x_sorted, w->d_wrap_sorted);
    FF_CU(cudaGetLastError());
    *g = {*s,
          n,
          w->tree->n_nodes,
          w->tree->d_node,
          w->tree->d_start,
          w->tree->d_count,
          w->d_order,
          w->tree->d_x,
          w->d_x,
          w->d_x_sorted,
          w->d_wrap,
          w->d_wrap_sorted,
          w->d_node,
          w->d_held};
done:
    return st;
}

/* off of the graph, on both sides. Waits. */
static ff_status count_edges(ff_cuda_pool *pool, const graph_job *g, graph_scratch *w, ff_graph *graph)
{
    ff_status st = FF_OK;
    cudaStream_t s = (cudaStream_t)ff_cuda_pool_stream(pool);
    const int64_t n = graph->n_nodes + 1;
    size_t bytes = 0;
    FF_GO(FF_ALLOC(pool, w->d_off, n));
    FF_GO(ff_cuda_zero(pool, w->d_off, (size_t)n * sizeof *w->d_off));
    FF_CU(cub::DeviceScan::ExclusiveSum(NULL, bytes, w->d_off, w->d_off, n, s));
    FF_GO(ff_cuda_alloc(pool, bytes, &w->d_work));
    graph_count<<<ff_grid(g->n_held, 1), 256, 0, s>>>(*g, w->d_off);
    FF_CU(cudaGetLastError());
    FF_CU(cub::DeviceScan::ExclusiveSum(w->d_work, bytes, w->d_off, w->d_off, n, s));
    FF_GO(ff_cuda_get(pool, graph->off, w->d_off, (size_t)n * sizeof *graph->off));
    FF_GO(ff_cuda_wait(pool));
done:
    ff_cuda_free(pool, w->d_work);
    w->d_work = NULL;
    return st;
}

static ff_status sort_keys(ff_cuda_pool *pool, graph_scratch *w, const ff_graph *graph)
{
    ff_status st = FF_OK;
    cudaStream_t s = (cudaStream_t)ff_cuda_pool_stream(pool);
    size_t bytes = 0;
    FF_CU(cub::DeviceSegmentedSort::SortKeys(NULL, bytes, w->d_key, w->d_key_sorted, graph->n_edges,
                                             graph->n_nodes, w->d_off, w->d_off + 1, s));
    FF_GO(ff_cuda_alloc(pool, bytes, &w->d_work));
    FF_CU(cub::DeviceSegmentedSort::SortKeys(w->d_work, bytes, w->d_key, w->d_key_sorted, graph->n_edges,
                                             graph->n_nodes, w->d_off, w->d_off + 1, s));
done:
    return st;
}

/* The arrays of the edges, in host memory. Waits. */
static ff_status fill_edges(ff_cuda_pool *pool, const graph_job *g, graph_scratch *w, ff_graph *graph)
{
    ff_status st = FF_OK;
    cudaStream_t s = (cudaStream_t)ff_cuda_pool_stream(pool);
    const int64_t n = graph->n_edges;
    unsigned long long coincident = 0;
    FF_GO(FF_ALLOC(pool, w->d_key, n));
    FF_GO(FF_ALLOC(pool, w->d_key_sorted, n));
    FF_GO(FF_ALLOC(pool, w->d_dst, n));
    FF_GO(FF_ALLOC(pool, w->d_src, n));
    FF_GO(FF_ALLOC(pool, w->d_vec, 3 * n));
    if (graph->image != NULL) FF_GO(FF_ALLOC(pool, w->d_image, 3 * n));
    FF_GO(FF_ALLOC(pool, w->d_coincident, 1));
    FF_GO(ff_cuda_zero(pool, w->d_coincident, sizeof *w->d_coincident));
    graph_fill<<<ff_grid(g->n_held, 1), 256, 0, s>>>(*g, w->d_off, w->d_key, w->d_dst);
    FF_CU(cudaGetLastError());
    FF_GO(sort_keys(pool, w, graph));
    graph_edges<<<ff_grid(n, 1), 256, 0, s>>>(*g, n, w->d_key_sorted, w->d_dst, w->d_src, w->d_image,
                                              w->d_vec, w->d_coincident);
    FF_CU(cudaGetLastError());
    FF_GO(ff_cuda_get(pool, graph->dst, w->d_dst, (size_t)n * sizeof *graph->dst));
    FF_GO(ff_cuda_get(pool, graph->src, w->d_src, (size_t)n * sizeof *graph->src));
    FF_GO(ff_cuda_get(pool, graph->vec, w->d_vec, 3 * (size_t)n * sizeof *graph->vec));
    if (graph->image != NULL)
        FF_GO(ff_cuda_get(pool, graph->image, w->d_image, 3 * (size_t)n * sizeof *graph->image));
    FF_GO(ff_cuda_get(pool, &coincident, w->d_coincident, sizeof coincident));
    FF_GO(ff_cuda_wait(pool));
    graph->n_coincident = (int64_t)coincident;
done:
    return st;
}

ff_status ff_cuda_graph_build(void *ctx, const ff_graph_points *p, const ff_search *s, ff_graph **out)
{
    ff_status st = FF_OK;
    ff_cuda_pool *pool = (ff_cuda_pool *)ctx;
    ff_graph *graph = NULL;
    graph_scratch w;
    graph_job g;
    *out = NULL;
    memset(&w, 0, sizeof w);
    FF_GO(ff_graph_start(p, s, &graph));
    memset(graph->off, 0, (size_t)(p->n_nodes + 1) * sizeof *graph->off);
    if (p->n_nodes > 0) {
        FF_GO(prepare(pool, p, s, &w, &g));
        FF_GO(count_edges(pool, &g, &w, graph));
    }
    FF_GO(ff_graph_alloc(s, graph));
    if (graph->n_edges > 0) FF_GO(fill_edges(pool, &g, &w, graph));
    *out = graph;
    graph = NULL;
done:
    scratch_free(pool, &w);
    ff_graph_destroy(&graph);
    return st;
}
