/* The pair lists of all layers. Up to a million points all lists are built at once and stay; where there are more, or
 * they do not fit, they are made in chunks of targets, of which as many stay as memory allows. Prediction points that are
 * a boundary's share the lists of the communication layers: only the centroids of node entries differ. */
#include "ff_resident.cuh"

extern "C" {
#include "ff_mem.h"
}

#include <string.h>

enum { AT_ONCE = 1 << 20 };
static const int64_t chunk_bytes = INT64_C(12) << 30; /* more does not make the traversal faster */

/* Lists of the final layer are those of the communication layers. */
static bool shared_lists(const ff_resident *r)
{
    return r->m.n_comm > 0 && r->m.target < r->m.n_src;
}

int ff_res_n_targets(const ff_resident *r, bool final)
{
    return final ? 1 : r->m.n_src;
}

/* The prediction points' cloud comes first, so that its entries are a list's first. */
int ff_res_target(const ff_resident *r, bool final, int k)
{
    int t = r->m.target;
    if (final) return t;
    return t >= r->m.n_src ? k : k == 0 ? t : k <= t ? k - 1 : k;
}

/* Every range of targets of a kind of layer that is late or not: cloud i, range q. */
#define EACH_RANGE(r, final, is_late, i, q)                                                                  \
    for (int t_ = 0, i = 0; t_ < ff_res_n_targets(r, final) && (i = ff_res_target(r, final, t_), true);      \
         t_++)                                                                                               \
        for (int q = 0; q < (r)->cloud[i].n_range; q++)                                                      \
            if ((r)->cloud[i].late[q] == (is_late))

int ff_res_n_parts(const ff_resident *r, bool final, bool late)
{
    int n = 0;
    int64_t points = 0;
    EACH_RANGE(r, final, late, i, q)
    {
        n++;
        points += r->cloud[i].range[q + 1] - r->cloud[i].range[q];
    }
    return points > 0 ? n : 0;
}

void ff_res_part(const ff_resident *r, bool final, bool late, int part, int *cloud, int *range)
{
    *cloud = *range = 0;
    EACH_RANGE(r, final, late, i, q)
    {
        if (part-- == 0) {
            *cloud = i;
            *range = q;
        }
    }
}

static ff_cuda_lists **list_at(const ff_resident *r, bool final, bool late, int j)
{
    return &r->lists[((final ? 2 : 0) + (late ? 1 : 0)) * r->m.n_src + j];
}

static int64_t *final_total(const ff_resident *r, bool late, int j)
{
    return r->final_total + 2 * ((late ? r->m.n_src : 0) + j);
}

/* ---- figures ---- */

/* Source ids that are points (sign 1), less the pairs of leaf entries, node centroid to point (sign -1). */
static __global__ void count_near(int64_t n, const int32_t *src, int32_t n_held, int sign,
                                  const int32_t *n_pairs, unsigned long long *near_pairs)
{
    int64_t sum = 0;
    for (int64_t k = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; k < n;
         k += (int64_t)gridDim.x * blockDim.x)
        sum += sign > 0 ? src[k] < n_held : n_pairs[k];
    for (int o = 16; o > 0; o /= 2) sum += __shfl_down_sync(0xffffffffu, sum, o);
    if (threadIdx.x % 32 == 0) atomicAdd(near_pairs, (unsigned long long)(sign * sum));
}

ff_status ff_res_counts_reset(ff_resident *r)
{
    ff_status st = FF_OK;
    memset(&r->counts, 0, sizeof r->counts);
    FF_CU(cudaMemsetAsync(r->d_count, 0, 2 * sizeof *r->d_count, ff_res_stream(r)));
done:
    return st;
}

/* Plans of the target boundary count once, though two kinds of layers have them. */
static ff_status count_lists(ff_resident *r, const ff_cuda_lists *l, int j, bool final)
{
    ff_status st = FF_OK;
    *(final ? &r->counts.final_evals : &r->counts.comm_evals) += l->pairs * r->m.n_len;
    if (final && shared_lists(r)) return FF_OK;
    r->counts.far_evals += l->pairs; /* near ones are taken off in ff_res_counts() */
    if (l->n_src_ids == 0) return FF_OK;
    count_near<<<512, 256, 0, ff_res_stream(r)>>>(l->n_src_ids, l->d_src, r->cloud[j].n_held, 1, NULL,
                                                  r->d_count);
    for (int p = 0; p < l->n_parts; p++)
        if (l->part[p].n_leaf > 0)
            count_near<<<64, 256, 0, ff_res_stream(r)>>>(l->part[p].n_leaf, NULL, 0, -1,
                                                         l->d_n_pairs + l->part[p].leaf_begin, r->d_count);
    FF_CU(cudaGetLastError());
done:
    return st;
}

ff_status ff_res_counts(ff_resident *r, ff_resident_counts *n)
{
    int64_t count[2]; /* near pairs; pairs of the final layer where its lists are shared ones, negative */
    *n = r->counts;
    FF_TRY(ff_res_download(r, count, r->d_count, sizeof count));
    n->near_pairs = count[0];
    n->far_evals -= count[0];
    n->final_evals -= count[1] * r->m.n_len;
    return FF_OK;
}

/* ---- all at once ---- */

/* Range q of cloud i against source j. */
static ff_cuda_target target_of(const ff_resident *r, bool final, int i, int q, int j)
{
    const ff_res_cloud *c = &r->cloud[i];
    ff_cuda_target t = {c->tree, c->d_xp, !final && i == j ? c->d_xn : c->d_plain, c->range[q],
                        c->range[q + 1]};
    return t;
}

/* Whether the kind of lists (bit 1: final, bit 0: late) is made. */
static bool is_made(const ff_resident *r, int kind)
{
    bool final = kind / 2 != 0;
    return (final ? !shared_lists(r) : r->m.n_comm > 0) && ff_res_n_parts(r, final, kind % 2 != 0) > 0;
}

static ff_status build_all(ff_resident *r)
{
    ff_status st = FF_OK;
    int n = r->m.n_src, n_lists = 0, at = 0, ranges = 0;
    ff_cuda_lists_args *args = NULL;
    ff_cuda_target *target = NULL;
    ff_cuda_lists **out = NULL;
    for (int i = 0; i < r->m.n_cloud; i++) ranges += r->cloud[i].n_range;
    FF_GO(FF_NEW_CUDA(args, 4 * n + 1));
    FF_GO(FF_NEW_CUDA(target, 2 * n * ranges + 1));
    FF_GO(FF_NEW_CUDA(out, 4 * n + 1));
    for (int kind = 0; kind < 4; kind++)
        for (int j = 0; j < n && is_made(r, kind); j++) {
            bool final = kind / 2 != 0, late = kind % 2 != 0;
            args[n_lists++] = (ff_cuda_lists_args){target + at, ff_res_n_parts(r, final, late),
                                                   r->cloud[j].tree, r->m.theta, r->m.expand_far};
            EACH_RANGE(r, final, late, i, q) target[at++] = target_of(r, final, i, q, j);
        }
    if (n_lists > 0) FF_GO(ff_cuda_lists_build(r->impl->pool, args, n_lists, out));
    for (int kind = 0, k = 0; kind < 4; kind++)
        for (int j = 0; j < n && is_made(r, kind); j++) r->lists[kind * n + j] = out[k++];
done:
    ff_free(args);
    ff_free(target);
    ff_free(out);
    return st;
}

static __global__ void totals_at(const int32_t *piece_off, const int64_t *group_off, int64_t t, int64_t *out)
{
    out[0] = piece_off[t];
    out[1] = group_off[t];
}

/* Entries of the first n parts of a list: a part's targets stand together. */
static int64_t n_entries(const ff_cuda_lists *l, int n)
{
    return l->part[n - 1].leaf_begin + l->part[n - 1].n_leaf;
}

/* The final layer's part of shared lists: totals of its entries. */
static ff_status cut_final(ff_resident *r)
{
    ff_status st = FF_OK;
    int n = r->m.n_src;
    size_t bytes = 4 * (size_t)n * sizeof(int64_t);
    int64_t *d_total = NULL;
    if (!shared_lists(r)) return FF_OK;
    FF_GO(ff_cuda_alloc(r->impl->pool, bytes, &d_total));
    FF_CU(cudaMemsetAsync(d_total, 0, bytes, ff_res_stream(r)));
    for (int late = 0; late < 2; late++) {
        int n_parts = ff_res_n_parts(r, true, late != 0);
        for (int j = 0; j < n && n_parts > 0; j++) {
            const ff_cuda_lists *l = *list_at(r, false, late != 0, j);
            int64_t n_t = n_entries(l, n_parts);
            totals_at<<<1, 1, 0, ff_res_stream(r)>>>(l->d_piece_off, l->d_group_off, n_t,
                                                     d_total + 2 * (late * n + j));
            count_near<<<256, 256, 0, ff_res_stream(r)>>>(n_t, NULL, 0, -1, l->d_n_pairs, r->d_count + 1);
        }
    }
    FF_CU(cudaGetLastError());
    FF_GO(ff_res_download(r, r->final_total, d_total, bytes));
done:
    ff_cuda_free(r->impl->pool, d_total);
    return st;
}

void ff_res_lists_of(const ff_resident *r, bool final, bool late, int j, ff_cuda_lists *view)
{
    *view = **list_at(r, final && !shared_lists(r), late, j);
    if (!final || !shared_lists(r)) return;
    view->n_parts = ff_res_n_parts(r, true, late);
    view->n_t = (int32_t)n_entries(view, view->n_parts);
    view->n_piece = final_total(r, late, j)[0];
    view->n_group = final_total(r, late, j)[1];
}

static int64_t most_piece_bytes(const ff_resident *r)
{
    int64_t most = 0, n_comp = r->n_dyn > r->m.n_out ? r->n_dyn : r->m.n_out;
    for (int k = 0; k < 4 * r->m.n_src; k++) {
        const ff_cuda_lists *l = r->lists[k];
        if (l == NULL) continue;
        int64_t bytes = (l->n_t + l->n_piece) * n_comp * (int64_t)sizeof(float);
        if (bytes > most) most = bytes;
    }
    return most;
}

static int64_t record_bytes(const ff_resident *r)
{
    int64_t most = 0;
    const ff_resident_model *m = &r->m;
    for (int k = 0; k <= m->n_comm; k++)
        for (int j = 0; j < m->n_src; j++) {
            const ff_cuda_net *net = (const ff_cuda_net *)m->net[(k * m->n_src + j) * m->n_len];
            int64_t row = (int64_t)(net->d.rec_len * sizeof(float)) +
                          (int64_t)(ff_h0_bytes(net) + sizeof(float)) * m->n_len;
            int64_t bytes = row * ((int64_t)r->cloud[j].n_held + r->cloud[j].n_nodes);
            if (bytes > most) most = bytes;
        }
    return most;
}

bool ff_res_lists_fit(const ff_resident *r, int64_t more)
{
    int64_t budget = r->m.way_back ? r->impl->budget / 2 : r->impl->budget;
    return budget <= 0 ||
           ff_cuda_pool_used(r->impl->pool) + most_piece_bytes(r) + record_bytes(r) + more <= budget;
}

static void lists_drop(ff_resident *r)
{
    for (int k = 0; k < 4 * r->m.n_src; k++) ff_cuda_lists_destroy(r->impl->pool, &r->lists[k]);
}

void ff_res_lists_drop(ff_resident *r)
{
    lists_drop(r);
    for (int k = 0; k < 2 * r->m.n_cloud * r->m.n_src; k++) {
        ff_res_chunks *c = &r->kept[k];
        for (int64_t i = 0; i < c->n; i++) ff_cuda_lists_destroy(r->impl->pool, &c->chunk[i].lists);
        ff_free(c->chunk);
        memset(c, 0, sizeof *c);
    }
}

ff_status ff_res_lists(ff_resident *r)
{
    int64_t budget = r->impl->budget, points = 0;
    FF_TRY(ff_res_counts_reset(r));
    if (r->m.n_src == 0) return FF_OK;
    for (int i = 0; i < r->m.n_cloud; i++) points += r->cloud[i].n_own;
    r->chunked = r->chunked || points > AT_ONCE; /* once chunked, always chunked: they did not fit */
    if (r->chunked) return FF_OK;
    ff_status st = build_all(r);
    if (st == FF_E_MEM && budget > 0) {
        ff_error_clear();
        r->chunked = true;
        return FF_OK;
    }
    FF_TRY(st);
    if (!ff_res_lists_fit(r, 0)) {
        lists_drop(r);
        r->chunked = true;
        return FF_OK;
    }
    for (int k = 0; k < 4 * r->m.n_src; k++)
        if (r->lists[k] != NULL) FF_TRY(count_lists(r, r->lists[k], k % r->m.n_src, k >= 2 * r->m.n_src));
    return cut_final(r);
}

/* ---- node entries of shared lists ---- */

static __global__ void set_centroids(int64_t n, int dim, const int32_t *node, const double *x, double *x_t)
{
    int64_t k = (int64_t)blockIdx.x * 256 + threadIdx.x;
    if (k >= n) return;
    for (int d = 0; d < dim; d++) x_t[4 * k + d] = x[(int64_t)node[k] * dim + d];
}

/* Lists that communication and final layers share: mu-weighted centroids for the former, plain ones for the latter,
 * where the targets are the source boundary's own. */
ff_status ff_res_centroids(ff_resident *r, const ff_cuda_lists *l, int part, bool final, int i, int j)
{
    ff_status st = FF_OK;
    const ff_res_cloud *c = &r->cloud[r->m.target];
    const ff_cuda_part *p = &l->part[part];
    int64_t n = p->n_far + p->n_leaf;
    if (!shared_lists(r) || i != r->m.target || j != i || n == 0) return FF_OK;
    set_centroids<<<(unsigned)((n + 255) / 256), 256, 0, ff_res_stream(r)>>>(
        n, r->m.dim, p->d_node, final ? c->d_plain : c->d_xn, (double *)l->d_x_t + 4 * p->far_begin);
    FF_CU(cudaGetLastError());
done:
    return st;
}

/* ---- chunks ---- */

static ff_res_chunks *kept_of(ff_resident *r, bool final, int i, int j)
{
    return &r->kept[((final && !shared_lists(r) ? r->m.n_cloud : 0) + i) * r->m.n_src + j];
}

/* Next chunk of targets of a range of cloud i from sorted position *at on (moved behind it): one that stayed, or a new one. Lists
 * take two fifths of what is left, their rows the rest. */
ff_status ff_res_chunk_get(ff_resident *r, bool final, int i, int range, int j, int64_t *at,
                           ff_cuda_density *density, ff_res_chunk *out)
{
    ff_res_chunks *kept = kept_of(r, final, i, j);
    ff_cuda_target target = target_of(r, final, i, range, j);
    ff_cuda_lists_args args = {&target, 1, r->cloud[j].tree, r->m.theta, r->m.expand_far};
    memset(out, 0, sizeof *out);
    for (int64_t k = 0; k < kept->n; k++)
        if (kept->chunk[k].begin == *at) {
            *out = kept->chunk[k];
            out->stays = true;
            *at = out->end;
            return ff_res_centroids(r, out->lists, 0, final, i, j);
        }
    int64_t rows = (int64_t)(r->work_bytes[FF_RES_PART] + r->work_bytes[FF_RES_ROWS]);
    int64_t left = (r->impl->budget - ff_cuda_pool_used(r->impl->pool) + rows) / 5 * 2;
    out->begin = *at;
    ff_cuda_kind before = ff_cuda_pool_kind(r->impl->pool, FF_CUDA_LISTS);
    ff_status st = ff_cuda_lists_next(r->impl->pool, &args, left < chunk_bytes ? left : chunk_bytes, at,
                                      density, &out->lists);
    (void)ff_cuda_pool_kind(r->impl->pool, before);
    out->end = *at;
    return st;
}

/* Frees the chunk or lets it stay for the layers to come. */
ff_status ff_res_chunk_done(ff_resident *r, bool final, int i, int j, bool count, ff_res_chunk *c)
{
    ff_status st = FF_OK;
    ff_res_chunks *kept = kept_of(r, final, i, j);
    if (count) st = count_lists(r, c->lists, j, final);
    if (c->stays) return st;
    if (st == FF_OK && !final && ff_cuda_pool_used(r->impl->pool) < r->impl->budget / 2) {
        st = ff_mem_reserve(&kept->chunk, &kept->cap, kept->n + 1, sizeof *kept->chunk);
        if (st == FF_OK) {
            kept->chunk[kept->n++] = *c;
            return FF_OK;
        }
    }
    ff_cuda_lists_destroy(r->impl->pool, &c->lists);
    return st;
}
