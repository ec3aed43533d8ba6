/* res_aggregate: node rows bottom up, children left then right, in double
 *     geometry: plain and mu-weighted centroid, mu, static means;  layers: mu-weighted latents, sums of strengths
 * Work    one warp an item (a subtree of at most 64 leaves, see ff_resident.cuh), a lane a component; all clouds in
 *         one launch a pass, ceil(log_64 n) passes
 * Launch  grid (items, ceil(components / 32)), block 32; 28 (pass 0) or 46 KiB shared
 * Order   points in order within a leaf, then left + right: the sums of src/dist/ff_moment.c to the bit, whatever the
 *         passes, items and ranks are
 * Bound   latency: two passes of about 10 us; memory for meshes of millions of faces
 * Oracle  the CPU's evaluation, through whole runs (verify; equal bits on 1, 2, 3 ranks)
 * Care    no contraction: __dmul_rn, __dadd_rn */
#include "ff_resident.cuh"

extern "C" {
#include "ff_mem.h"
}

#include <string.h>

/* ---- items ---- */

typedef struct pass_list {
    ff_agg_item *item;
    int32_t *entry;
    int64_t n_item, cap_item, n_entry, cap_entry;
} pass_list;

typedef struct pass_builder {
    pass_list pass[FF_RES_MAX_PASS];
    int cloud, leaf_size;
    int64_t n_slots;
} pass_builder;

static int pass_of(int64_t count)
{
    int l = 0;
    for (int64_t limit = FF_RES_LIMIT; count > limit; limit *= FF_RES_LIMIT) l++;
    return l;
}

static ff_status add_root(pass_builder *b, int32_t node, int64_t count, int64_t slot);

static ff_status add_entry(pass_list *p, int32_t entry)
{
    FF_TRY(ff_mem_reserve(&p->entry, &p->cap_entry, p->n_entry + 1, sizeof *p->entry));
    p->entry[p->n_entry++] = entry;
    return FF_OK;
}

/* Entries of pass l under node, in preorder. */
static ff_status add_entries(pass_builder *b, int l, int32_t node, int64_t count)
{
    if (pass_of(count) < l) {
        int64_t slot = b->n_slots++;
        FF_TRY(add_root(b, node, count, slot));
        return add_entry(&b->pass[l], (int32_t)~slot);
    }
    int64_t left = count / 2;
    FF_TRY(add_entry(&b->pass[l], node));
    FF_TRY(add_entries(b, l, node + 1, left));
    return add_entries(b, l, node + 1 + (int32_t)ff_topo_nodes(left, b->leaf_size), count - left);
}

static ff_status add_root(pass_builder *b, int32_t node, int64_t count, int64_t slot)
{
    int l = pass_of(count);
    pass_list *p = &b->pass[l];
    ff_agg_item item = {b->cloud, (int32_t)slot, node, 0};
    if (l == 0) {
        item.to = node + (int32_t)ff_topo_nodes(count, b->leaf_size);
    } else {
        item.from = (int32_t)p->n_entry;
        FF_TRY(add_entries(b, l, node, count));
        item.to = (int32_t)p->n_entry;
    }
    FF_TRY(ff_mem_reserve(&p->item, &p->cap_item, p->n_item + 1, sizeof *p->item));
    p->item[p->n_item++] = item;
    return FF_OK;
}

/* Entries of all passes stand in one array: the items learn where theirs begin. */
static ff_status upload_passes(ff_cuda_pool *pool, pass_builder *b, ff_agg_passes *out)
{
    ff_status st = FF_OK;
    cudaStream_t s = (cudaStream_t)ff_cuda_pool_stream(pool);
    int64_t n_item = 0, n_entry = 0;
    for (int l = 0; l < FF_RES_MAX_PASS; l++) {
        pass_list *p = &b->pass[l];
        out->begin[l] = n_item;
        for (int64_t k = 0; l > 0 && k < p->n_item; k++) {
            p->item[k].from += (int32_t)n_entry;
            p->item[k].to += (int32_t)n_entry;
        }
        n_item += p->n_item;
        n_entry += p->n_entry;
        if (p->n_item > 0) out->n = l + 1;
    }
    out->begin[FF_RES_MAX_PASS] = n_item;
    out->n_slots = b->n_slots;
    out->n_entry = n_entry;
    FF_TRY(ff_cuda_alloc(pool, (size_t)n_item * sizeof(ff_agg_item), &out->d_item));
    FF_TRY(ff_cuda_alloc(pool, (size_t)n_entry * sizeof(int32_t), &out->d_entry));
    n_entry = 0;
    for (int l = 0; l < out->n; n_entry += b->pass[l++].n_entry) {
        const pass_list *p = &b->pass[l];
        FF_CU(cudaMemcpyAsync(out->d_item + out->begin[l], p->item, (size_t)p->n_item * sizeof *p->item,
                              cudaMemcpyHostToDevice, s));
        if (p->n_entry > 0)
            FF_CU(cudaMemcpyAsync(out->d_entry + n_entry, p->entry, (size_t)p->n_entry * sizeof *p->entry,
                                  cudaMemcpyHostToDevice, s));
    }
    FF_CU(cudaStreamSynchronize(s)); /* the host arrays go */
done:
    return st;
}

ff_status ff_agg_build(ff_cuda_pool *pool, ff_res_cloud *cloud, int n_cloud, int leaf_size,
                       const ff_resident_cloud *given, ff_agg_passes *out)
{
    ff_status st = FF_OK;
    pass_builder b;
    memset(&b, 0, sizeof b);
    memset(out, 0, sizeof *out);
    b.leaf_size = leaf_size;
    for (int i = 0; i < n_cloud && st == FF_OK; i++) {
        const ff_tree *t = given[i].tree;
        int64_t n_root = t != NULL ? given[i].n_bottom : cloud[i].n > 0;
        b.cloud = i;
        cloud[i].slot0 = b.n_slots;
        cloud[i].n_bottom = n_root;
        b.n_slots += n_root;
        for (int64_t k = 0; k < n_root && st == FF_OK; k++)
            st = t != NULL
                     ? add_root(&b, given[i].bottom[k], t->count[given[i].bottom[k]], cloud[i].slot0 + k)
                     : add_root(&b, 0, cloud[i].n, cloud[i].slot0);
    }
    if (st == FF_OK) st = upload_passes(pool, &b, out);
    for (int l = 0; l < FF_RES_MAX_PASS; l++) {
        ff_free(b.pass[l].item);
        ff_free(b.pass[l].entry);
    }
    return st;
}

void ff_agg_free(ff_cuda_pool *pool, ff_agg_passes *p)
{
    ff_cuda_free(pool, p->d_item);
    ff_cuda_free(pool, p->d_entry);
    memset(p, 0, sizeof *p);
}

/* ---- device ---- */

ff_agg_view ff_agg_view_of(const ff_res_cloud *c)
{
    ff_agg_view v = {c->tree->d_node, c->tree->d_count, c->tree->d_first, c->d_xp,          c->d_xn,
                     c->d_plain,      c->d_xs,          c->d_mu,          c->d_stat,        c->d_dyn,
                     c->n_held,       c->own_first,     c->n_stat,        c->source ? 1 : 0};
    return v;
}

static __host__ __device__ int row_width(int dim, int n_dyn, int n_stat, int source, bool geometry)
{
    return !geometry ? (source ? n_dyn : 0) : source ? 2 * dim + n_stat : dim;
}

int ff_agg_width(const ff_res_cloud *c, const ff_agg_dims *d, bool geometry)
{
    return row_width(d->dim, d->n_dyn, c->n_stat, c->source, geometry);
}

/* Component c of held point p: geometry x | mu x | mu static; layers mu latents | strengths. */
template <bool GEO>
static __device__ double point_value(const ff_agg_view &v, const ff_agg_dims &d, int64_t p, int c)
{
    if (!GEO) {
        double x = (double)v.dyn[p * d.n_dyn + c];
        return c < d.n_lat ? __dmul_rn(v.mu[p], x) : x;
    }
    if (c < d.dim) return v.xp[p * d.dim + c];
    double x = c < 2 * d.dim ? v.xp[p * d.dim + c - d.dim] : (double)v.stat[p * v.n_stat + c - 2 * d.dim];
    return __dmul_rn(v.mu[p], x);
}

/* Writes a node's finished sum; all lanes of the warp come here. */
template <bool GEO>
static __device__ void node_finish(const ff_agg_view &v, const ff_agg_dims &d, int64_t node, int64_t count,
                                   int m, int c, double sum, double mu)
{
    int64_t row = v.n_held + node;
    if (!GEO) {
        if (c < m) v.dyn[row * d.n_dyn + c] = (float)(c >= d.n_lat ? sum : mu != 0.0 ? sum / mu : 0.0);
        return;
    }
    double plain = sum / (double)count;
    double back = __shfl_sync(0xffffffffu, plain, max((int)(threadIdx.x & 31) - d.dim, 0));
    if (c < d.dim) v.plain[node * d.dim + c] = plain;
    if (!v.source || c >= m) return;
    if (c == 0) v.mu[row] = mu;
    if (c < d.dim) return;
    if (c < 2 * d.dim) { /* in the first 32 components, where back is the plain mean */
        double x = mu != 0.0 ? sum / mu : back;
        v.xn[node * d.dim + c - d.dim] = x;
        v.xs[row * 4 + c - d.dim] = x;
    } else {
        v.stat[row * v.n_stat + c - 2 * d.dim] = mu != 0.0 ? (float)(sum / mu) : 0.0f;
    }
}

template <bool FIRST> struct agg_shared {
    static constexpr int LEAVES = FIRST ? FF_RES_LIMIT : 2 * FF_RES_LIMIT, NODES = 2 * LEAVES, DEPTH = 12;
    double leaf[LEAVES][32], stack[DEPTH][32], stack_mu[DEPTH][32], leaf_mu[LEAVES], node_mu[NODES];
    int32_t right[NODES], count[NODES], at[NODES]; /* at: first point of a leaf, within the item; entry */
};

/* What the item reads, all loads independent of each other. Returns the number of leaf rows. */
template <bool GEO>
static __device__ int load_first(agg_shared<true> &s, const ff_agg_view &v, const ff_agg_dims &d,
                                 const ff_agg_item &it, int m, int c)
{
    int lane = threadIdx.x & 31;
    int64_t p0 = v.first[it.from];
    int n = (int)v.count[it.from];
    for (int k = lane; k < it.to - it.from; k += 32) {
        int64_t node = it.from + k;
        s.right[k] = v.node[node].right;
        s.count[k] = (int32_t)v.count[node];
        s.at[k] = (int32_t)(v.first[node] - p0);
        s.node_mu[k] = !GEO ? v.mu[v.n_held + node] : 0.0;
    }
    for (int k = lane; GEO && v.source && k < n; k += 32) s.leaf_mu[k] = v.mu[p0 + k];
#pragma unroll 8
    for (int k = 0; k < n; k++) s.leaf[k][lane] = c < m ? point_value<GEO>(v, d, p0 + k, c) : 0.0;
    return n;
}

template <bool GEO>
static __device__ int load_later(agg_shared<false> &s, const ff_agg_view &v, const ff_agg_dims &d,
                                 const ff_agg_item &it, const int32_t *entry, const double *sums, int c)
{
    int lane = threadIdx.x & 31, n = 0;
    for (int k = lane; k < it.to - it.from; k += 32) {
        int32_t e = entry[it.from + k];
        s.at[k] = e;
        s.count[k] = e >= 0 ? (int32_t)v.count[e] : 0;
        s.node_mu[k] = !GEO && e >= 0 ? v.mu[v.n_held + e] : 0.0;
    }
    __syncwarp();
    for (int k = 0; k < it.to - it.from; k++) {
        if (s.at[k] >= 0) continue;
        const double *row = sums + (int64_t)~s.at[k] * d.stride;
        s.leaf[n][lane] = c < d.stride - 1 ? row[c] : 0.0;
        if (lane == 0) s.leaf_mu[n] = row[d.stride - 1];
        n++;
    }
    return n;
}

template <bool GEO, bool FIRST>
static __global__ void __launch_bounds__(32) aggregate(const ff_agg_item *items, const int32_t *entry,
                                                       const ff_agg_view *views, ff_agg_dims d, double *sums)
{
    __shared__ agg_shared<FIRST> s;
    ff_agg_item it = items[blockIdx.x];
    ff_agg_view v = views[it.cloud];
    int lane = threadIdx.x & 31, c = (int)blockIdx.y * 32 + lane, n, sp = 0;
    int m = row_width(d.dim, d.n_dyn, v.n_stat, v.source, GEO);
    if ((int)blockIdx.y * 32 >= m) return;
    if constexpr (FIRST)
        n = load_first<GEO>(s, v, d, it, m, c);
    else
        n = load_later<GEO>(s, v, d, it, entry, sums, c);
    __syncwarp();
    for (int k = it.to - it.from - 1; k >= 0; k--) { /* reverse preorder: right subtree, left subtree, node */
        double sum = 0.0, mu = 0.0;
        bool leaf = FIRST ? s.right[k] < 0 : s.at[k] < 0;
        if (!leaf) { /* the left child came last */
            sum = __dadd_rn(s.stack[sp - 1][lane], s.stack[sp - 2][lane]);
            mu = __dadd_rn(s.stack_mu[sp - 1][lane], s.stack_mu[sp - 2][lane]);
            sp -= 2;
        } else if (FIRST) {
            for (int p = s.at[k]; p < s.at[k] + s.count[k]; p++) {
                sum = __dadd_rn(sum, s.leaf[p][lane]);
                if (GEO && v.source) mu = __dadd_rn(mu, s.leaf_mu[p]);
            }
        } else {
            n--;
            sum = s.leaf[n][lane];
            mu = s.leaf_mu[n];
        }
        s.stack[sp][lane] = sum;
        s.stack_mu[sp][lane] = mu;
        sp++;
        if (FIRST || !leaf)
            node_finish<GEO>(v, d, FIRST ? it.from + k : s.at[k], s.count[k], m, c, sum,
                             GEO ? mu : s.node_mu[k]);
    }
    if (c < m) sums[(int64_t)it.slot * d.stride + c] = s.stack[0][lane];
    if (c == 0) sums[(int64_t)it.slot * d.stride + d.stride - 1] = s.stack_mu[0][0];
}

template <bool GEO>
static cudaError_t launch_passes(const ff_agg_passes *p, const ff_agg_view *d_view, const ff_agg_dims *d,
                                 int most, double *d_sums, cudaStream_t s)
{
    for (int l = 0; l < p->n; l++) {
        int64_t n = p->begin[l + 1] - p->begin[l];
        dim3 grid((unsigned)n, (unsigned)((most + 31) / 32));
        const ff_agg_item *item = p->d_item + p->begin[l];
        if (n == 0 || most == 0) continue;
        if (l == 0)
            aggregate<GEO, true><<<grid, 32, 0, s>>>(item, p->d_entry, d_view, *d, d_sums);
        else
            aggregate<GEO, false><<<grid, 32, 0, s>>>(item, p->d_entry, d_view, *d, d_sums);
    }
    return cudaGetLastError();
}

ff_status ff_agg_run(const ff_agg_passes *p, const ff_agg_view *d_view, const ff_agg_dims *d, int most,
                     bool geometry, double *d_sums, cudaStream_t s)
{
    ff_status st = FF_OK;
    FF_CU(geometry ? launch_passes<true>(p, d_view, d, most, d_sums, s)
                   : launch_passes<false>(p, d_view, d, most, d_sums, s));
done:
    return st;
}

/* combine_upper: sums of the nodes above the bottoms, level by level
 * Work    one block; a thread a component of a node
 * Launch  1 x 1024
 * Order   left + right, as in the tree
 * Bound   latency: a barrier a level, some ten levels; a few hundred nodes
 * Oracle  ff_moment_upper; tests/mpi/test_link.c for the parts */
static __global__ void __launch_bounds__(1024)
    combine_upper(const ff_resident_up *up, int n_level, const int32_t *level_off, int stride, double *rows)
{
    for (int l = 0; l < n_level; l++) {
        int64_t n = (int64_t)(level_off[l + 1] - level_off[l]) * stride;
        for (int64_t k = threadIdx.x; k < n; k += blockDim.x) {
            const ff_resident_up *u = up + level_off[l] + k / stride;
            rows[(int64_t)u->to * stride + k % stride] = ff_resident_up_value(u, rows, stride, k % stride);
        }
        __syncthreads();
    }
}

ff_status ff_agg_combine(const ff_res_cloud *c, const ff_agg_dims *d, cudaStream_t s)
{
    ff_status st = FF_OK;
    if (c->n_upper == 0) return FF_OK;
    combine_upper<<<1, 1024, 0, s>>>(c->d_up, c->n_level, c->d_level_off, d->stride, c->d_allsum);
    FF_CU(cudaGetLastError());
done:
    return st;
}

template <bool GEO>
static __global__ void __launch_bounds__(32)
    finish_upper(ff_agg_view v, ff_agg_dims d, const int32_t *node, const double *rows)
{
    int64_t i = node[blockIdx.x];
    int m = row_width(d.dim, d.n_dyn, v.n_stat, v.source, GEO), c = (int)blockIdx.y * 32 + (int)threadIdx.x;
    const double *row = rows + (int64_t)blockIdx.x * d.stride;
    double mu = GEO ? row[d.stride - 1] : v.mu[v.n_held + i];
    node_finish<GEO>(v, d, i, v.count[i], m, c, c < m ? row[c] : 0.0, mu);
}

ff_status ff_agg_upper(const ff_res_cloud *c, const ff_agg_dims *d, bool geometry, cudaStream_t s)
{
    ff_status st = FF_OK;
    dim3 grid((unsigned)c->n_upper, (unsigned)((ff_agg_width(c, d, geometry) + 31) / 32));
    if (c->n_upper == 0 || grid.y == 0) return FF_OK;
    if (geometry)
        finish_upper<true><<<grid, 32, 0, s>>>(ff_agg_view_of(c), *d, c->d_upper, c->d_urow);
    else
        finish_upper<false><<<grid, 32, 0, s>>>(ff_agg_view_of(c), *d, c->d_upper, c->d_urow);
    FF_CU(cudaGetLastError());
done:
    return st;
}
