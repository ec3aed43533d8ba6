/* Clouds with their trees on the host and on the device, and exact comparison of trees and pair lists. */
#ifndef FF_GPU_PLAN_CASE_H
#define FF_GPU_PLAN_CASE_H

#include "ff_cuda_tree.h"
#include "ff_mem.h"
#include "ff_test_points.h"

#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

#include "ff_gpu_test.h"

typedef struct plan_cloud {
    ff_tree *h;
    ff_cuda_tree *d;
    double *x_point, *x_node; /* any numbers: they are copied */
    double *d_x_point, *d_x_node;
} plan_cloud;

static inline void check_ok(ff_status st)
{
    if (st != FF_OK) printf("%s\n", ff_error_text());
    assert_int_equal(st, FF_OK);
}

/* A block on the device with a copy of host. */
static inline void *to_device(ff_cuda_pool *pool, const void *host, size_t bytes)
{
    void *d = NULL;
    check_ok(ff_cuda_alloc(pool, bytes, &d));
    check_ok(ff_cuda_put(pool, d, host, bytes));
    return d;
}

static inline double *random_rows(int64_t n, uint64_t stream)
{
    double *x = NULL;
    check_ok(FF_NEW(x, n + 1));
    for (int64_t i = 0; i < n; i++) x[i] = ff_rng_uniform(9, stream, (uint64_t)i);
    return x;
}

/* Tree h, taken over, on both sides; own points as said. */
static inline void cloud_of_tree(ff_cuda_pool *pool, ff_tree *h, int32_t own_first, int64_t begin,
                                 int64_t end, plan_cloud *c)
{
    int64_t np = (int64_t)h->n_held * h->dim, nn = (int64_t)h->n_nodes * h->dim;
    *c = (plan_cloud){.h = h, .x_point = random_rows(np, 1), .x_node = random_rows(nn, 2)};
    check_ok(ff_cuda_tree_upload(pool, h, own_first, begin, end, &c->d));
    c->d_x_point = to_device(pool, c->x_point, (size_t)np * sizeof(double));
    c->d_x_node = to_device(pool, c->x_node, (size_t)nn * sizeof(double));
}

static inline void cloud_make(ff_cuda_pool *pool, ff_test_kind kind, int64_t n, int dim, int leaf_size,
                              uint64_t seed, plan_cloud *c)
{
    float *x = ff_test_points(kind, n, dim, seed);
    ff_tree *h = NULL;
    check_ok(ff_tree_build(x, n, dim, leaf_size, NULL, &h));
    free(x);
    cloud_of_tree(pool, h, 0, 0, n, c);
}

static inline void cloud_free(ff_cuda_pool *pool, plan_cloud *c)
{
    ff_tree_destroy(&c->h);
    ff_cuda_tree_destroy(pool, &c->d);
    ff_free(c->x_point);
    ff_free(c->x_node);
    ff_cuda_free(pool, c->d_x_point);
    ff_cuda_free(pool, c->d_x_node);
}

static inline ff_pair_target host_target(const plan_cloud *c, int64_t begin, int64_t end)
{
    int32_t first = c->d->own_first + (int32_t)(begin - c->d->own_begin);
    return (ff_pair_target){c->h, c->x_point, c->x_node, first, begin, end};
}

static inline ff_cuda_target device_target(const plan_cloud *c, int64_t begin, int64_t end)
{
    return (ff_cuda_target){c->d, c->d_x_point, c->d_x_node, begin, end};
}

#define SAME(a, b, n)                                                                                        \
    do {                                                                                                     \
        if ((n) > 0 && memcmp((a), (b), (size_t)(n) * sizeof *(a)) != 0) {                                   \
            printf("%s differs\n", #a);                                                                      \
            fail();                                                                                          \
        }                                                                                                    \
    } while (0)

static inline void same_trees(const ff_tree *a, const ff_tree *b)
{
    assert_int_equal(a->dim, b->dim);
    assert_int_equal(a->leaf_size, b->leaf_size);
    assert_int_equal(a->n_points, b->n_points);
    assert_int_equal(a->n_nodes, b->n_nodes);
    assert_int_equal(a->n_held, b->n_held);
    SAME(a->x, b->x, (int64_t)a->n_held * a->dim);
    SAME(a->pos, b->pos, a->n_held);
    SAME(a->id, b->id, a->n_nodes);
    SAME(a->start, b->start, a->n_nodes);
    SAME(a->count, b->count, a->n_nodes);
    SAME(a->first, b->first, a->n_nodes);
    SAME(a->node, b->node, a->n_nodes);
}

static inline void same_parts(const ff_pair_part *a, const ff_pair_part *b)
{
    assert_int_equal(a->point_begin, b->point_begin);
    assert_int_equal(a->n_points, b->n_points);
    assert_int_equal(a->n_far, b->n_far);
    assert_int_equal(a->far_begin, b->far_begin);
    assert_int_equal(a->n_leaf, b->n_leaf);
    assert_int_equal(a->leaf_begin, b->leaf_begin);
    assert_int_equal(a->far_of == NULL, b->far_of == NULL);
    SAME(a->far_up, b->far_up, a->n_far);
    if (a->far_of != NULL) SAME(a->far_of, b->far_of, a->n_points);
    SAME(a->leaf_from, b->leaf_from, a->n_leaf);
    SAME(a->leaf_mask, b->leaf_mask, a->n_leaf);
}

static inline void same_lists(const ff_pair_lists *a, const ff_pair_lists *b)
{
    assert_int_equal(a->n_t, b->n_t);
    assert_int_equal(a->n_seg, b->n_seg);
    assert_int_equal(a->n_src_ids, b->n_src_ids);
    assert_int_equal(a->pairs, b->pairs);
    assert_int_equal(a->n_parts, b->n_parts);
    SAME(a->seg_off, b->seg_off, (int64_t)a->n_t + 1);
    SAME(a->n_pairs, b->n_pairs, a->n_t);
    SAME(a->seg_src, b->seg_src, a->n_seg);
    SAME(a->seg_cum, b->seg_cum, a->n_seg);
    SAME(a->src, b->src, a->n_src_ids);
    SAME(a->x_t, b->x_t, 4 * (int64_t)a->n_t);
    for (int k = 0; k < a->n_parts; k++) same_parts(&a->part[k], &b->part[k]);
}

#endif
