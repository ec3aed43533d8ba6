#include "plan_gpu.h"

#include "app_backend.h"

#ifdef FF_HAVE_CUDA

#include "ff_cuda_copy.h"
#include "ff_cuda_tree.h"

/* Of a traversal, where run.gpu_memory says nothing: chunks of targets as large as that are fast enough. */
#define CHUNK_BYTES (INT64_C(2) << 30)

struct plan_gpu {
    int n;
    int64_t (*own)[2]; /* [n] first own sorted position and the end */
    ff_cuda_pool *pool;
    ff_cuda_tree **tree; /* [n] */
    int64_t chunk_bytes;
};

void plan_gpu_close(plan_gpu **g)
{
    plan_gpu *p = *g;
    if (p == NULL) return;
    for (int i = 0; i < p->n && p->tree != NULL; i++) ff_cuda_tree_destroy(p->pool, &p->tree[i]);
    if (p->pool != NULL) ff_cuda_stream_close(&p->pool);
    ff_free(p->tree);
    ff_free(p->own);
    FF_FREE(*g);
}

static ff_status build(plan_gpu *g, const float *x, const ff_cloud *c, ff_cuda_tree **out)
{
    float *d_x = NULL;
    ff_status st = ff_cuda_new(g->pool, x, (size_t)(c->n * c->dim) * sizeof *x, &d_x);
    if (st == FF_OK) st = ff_cuda_tree_build(g->pool, d_x, c->n, c->dim, c->leaf_size, NULL, out);
    ff_cuda_free(g->pool, d_x);
    return st;
}

/* All points in Morton order: sorting them anew keeps it, as it is stable. */
static ff_status add_tree(plan_gpu *g, const ff_cloud *c, int i)
{
    ff_status st = FF_OK;
    float *x = NULL;
    size_t *bytes = NULL;
    int size = c->comm->size, rank = c->comm->rank;
    FF_GO(FF_NEW_ALL(c->comm, bytes, size));
    FF_GO(FF_NEW_ALL(c->comm, x, c->n * c->dim + 1));
    for (int r = 0; r < size; r++) bytes[r] = (size_t)((c->cut[r + 1] - c->cut[r]) * c->dim) * sizeof *x;
    FF_GO(ff_comm_allgatherv(c->comm, c->x, bytes[rank], x, bytes));
    FF_GO(ff_agree(c->comm, build(g, x, c, &g->tree[i])));
    g->own[i][0] = c->cut[rank];
    g->own[i][1] = c->cut[rank + 1];
done:
    ff_free(x);
    ff_free(bytes);
    return st;
}

static ff_status alloc(plan_gpu **out, int n)
{
    plan_gpu *g;
    FF_TRY(FF_NEW0(*out, 1));
    g = *out;
    g->n = n;
    FF_TRY(FF_NEW0(g->tree, n));
    return FF_NEW0(g->own, n);
}

ff_status plan_gpu_open(const ff_app *app, ff_cloud *const *cloud, int n, plan_gpu **out)
{
    ff_status st = FF_OK;
    int device = -1;
    *out = NULL;
    FF_TRY(app_gpu_pick(app, &device));
    if (device < 0) return FF_OK;
    FF_GO(ff_agree(app->comm, alloc(out, n)));
    FF_GO(ff_agree(app->comm, ff_cuda_stream_open(device, &(*out)->pool)));
    int64_t memory = ff_config_int(app->config, "run.gpu_memory");
    (*out)->chunk_bytes = memory > 0 ? memory : CHUNK_BYTES;
    for (int i = 0; i < n; i++) FF_GO(add_tree(*out, cloud[i], i));
done:
    if (st != FF_OK) plan_gpu_close(out);
    return st;
}

ff_status plan_gpu_count(plan_gpu *g, int i, int j, double theta, bool expand_far, ff_dtt_counts *out)
{
    uint64_t digest;
    *out = (ff_dtt_counts){0};
    if (g->own[i][0] == g->own[i][1] || g->tree[j]->n_points == 0) return FF_OK;
    return ff_cuda_plan_count(g->pool, g->tree[i], g->tree[j], theta, expand_far, g->own[i][0], g->own[i][1],
                              g->chunk_bytes, out, &digest);
}

#else

ff_status plan_gpu_open(const ff_app *app, ff_cloud *const *cloud, int n, plan_gpu **out)
{
    int device = -1;
    (void)cloud, (void)n;
    *out = NULL;
    return app_gpu_pick(app, &device); /* says that this build has no CUDA */
}

ff_status plan_gpu_count(plan_gpu *g, int i, int j, double theta, bool expand_far, ff_dtt_counts *out)
{
    (void)g, (void)i, (void)j, (void)theta, (void)expand_far;
    *out = (ff_dtt_counts){0};
    return FF_OK;
}

void plan_gpu_close(plan_gpu **g)
{
    *g = NULL;
}

#endif
