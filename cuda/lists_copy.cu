/* What else is done with pair lists on the device: freeing, their size, a copy on the host. */
#include "ff_cuda_scan.cuh"

extern "C" {
#include "ff_cuda_tree.h"
#include "ff_mem.h"
}

void ff_cuda_lists_destroy(ff_cuda_pool *pool, ff_cuda_lists **lists)
{
    ff_cuda_lists *l = *lists;
    if (l == NULL) return;
    const void *block[8] = {l->d_x_t,     l->d_seg_off, l->d_seg_src,   l->d_seg_cum,
                            l->d_n_pairs, l->d_src,     l->d_piece_off, l->d_group_off};
    for (int k = 0; k < 8; k++) ff_cuda_free(pool, block[k]);
    for (int k = 0; l->part != NULL && k < l->n_parts; k++) {
        ff_cuda_free(pool, l->part[k].d_far_up);
        ff_cuda_free(pool, l->part[k].d_far_of);
        ff_cuda_free(pool, l->part[k].d_leaf_from);
        ff_cuda_free(pool, l->part[k].d_leaf_mask);
        ff_cuda_free(pool, l->part[k].d_node);
    }
    ff_free(l->part);
    ff_free(l);
    *lists = NULL;
}

int64_t ff_cuda_lists_bytes(const ff_cuda_lists *l)
{
    int64_t bytes = 52 * (int64_t)l->n_t + 12 * l->n_seg + 4 * l->n_src_ids;
    for (int k = 0; k < l->n_parts; k++)
        bytes += 12 * l->part[k].n_far + 20 * l->part[k].n_leaf +
                 (l->part[k].n_far > 0 ? 8 * l->part[k].n_points : 0);
    return bytes;
}

#define NEW(p, n) (((p) = (decltype(p))ff_mem_alloc((size_t)(n), sizeof *(p))) != NULL ? FF_OK : FF_E_MEM)

/* A host array of n + 1 elements with the first n copied. */
#define COPY(p, d, n)                                                                                        \
    do {                                                                                                     \
        FF_GO(NEW(p, (n) + 1));                                                                              \
        FF_GO(ff_cuda_get(pool, p, d, (size_t)(n) * sizeof *(p)));                                           \
    } while (0)

static ff_status copy_part(ff_cuda_pool *pool, const ff_cuda_part *c, ff_pair_part *h)
{
    ff_status st = FF_OK;
    h->point_begin = c->point_begin, h->n_points = c->n_points;
    h->n_far = c->n_far, h->far_begin = c->far_begin;
    h->n_leaf = c->n_leaf, h->leaf_begin = c->leaf_begin;
    COPY(h->far_up, c->d_far_up, c->n_far);
    if (c->n_far > 0) COPY(h->far_of, c->d_far_of, c->n_points);
    COPY(h->leaf_from, c->d_leaf_from, c->n_leaf);
    COPY(h->leaf_mask, c->d_leaf_mask, c->n_leaf);
done:
    return st;
}

ff_status ff_cuda_lists_download(ff_cuda_pool *pool, const ff_cuda_lists *l, ff_pair_lists **out)
{
    ff_status st = FF_OK;
    ff_pair_lists *h = (ff_pair_lists *)ff_mem_alloc0(1, sizeof *h);
    *out = NULL;
    if (h == NULL) return FF_E_MEM;
    h->n_t = l->n_t;
    h->n_seg = l->n_seg, h->n_src_ids = l->n_src_ids, h->pairs = l->pairs;
    h->part = (ff_pair_part *)ff_mem_alloc0((size_t)l->n_parts + 1, sizeof *h->part);
    if (h->part == NULL) FF_GO(FF_E_MEM);
    h->n_parts = l->n_parts;
    for (int k = 0; k < l->n_parts; k++) FF_GO(copy_part(pool, &l->part[k], &h->part[k]));
    COPY(h->x_t, l->d_x_t, 4 * (int64_t)l->n_t);
    COPY(h->seg_off, l->d_seg_off, (int64_t)l->n_t + 1);
    COPY(h->seg_src, l->d_seg_src, l->n_seg);
    COPY(h->seg_cum, l->d_seg_cum, l->n_seg);
    COPY(h->n_pairs, l->d_n_pairs, (int64_t)l->n_t);
    COPY(h->src, l->d_src, l->n_src_ids);
    FF_GO(ff_cuda_wait(pool));
    *out = h;
    h = NULL;
done:
    ff_pair_lists_destroy(&h);
    return st;
}
