/* Stable CSR of edges by destination: a counting sort over chunks of the edges. The result of a stable sort is unique,
 * so it does not depend on the number of chunks or threads. */
#include "ff_mem.h"
#include "ff_scatter.h"

#include <omp.h>

enum { EDGES_MIN = 1 << 14 }; /* fewer edges than this are not worth a thread */

/* int32 or int64 destinations of the caller. */
typedef struct given {
    const int32_t *i32;
    const int64_t *i64;
} given;

static int64_t dst_at(const given *g, int64_t e)
{
    return g->i64 != NULL ? g->i64[e] : g->i32[e];
}

ff_status ff_scatter_check_counts(const void *dst, int64_t n_edges, int64_t n_nodes, const void *out)
{
    if (out == NULL) return ff_fail(FF_E_ARG, "scatter: out is NULL, expected a place for the CSR");
    if (n_edges < 0 || n_edges > INT32_MAX)
        return ff_fail(FF_E_ARG, "scatter: n_edges = %lld, expected 0 to %d", (long long)n_edges, INT32_MAX);
    if (n_nodes < 0 || n_nodes > INT32_MAX)
        return ff_fail(FF_E_ARG, "scatter: n_nodes = %lld, expected 0 to %d", (long long)n_nodes, INT32_MAX);
    if (n_edges > 0 && dst == NULL)
        return ff_fail(FF_E_ARG, "scatter: dst is NULL, expected [%lld] node numbers", (long long)n_edges);
    return FF_OK;
}

ff_status ff_scatter_bad_dst(int64_t e, int64_t node, int64_t n_nodes)
{
    return ff_fail(FF_E_ARG, "scatter: dst[%lld] = %lld, expected 0 to %lld (n_nodes = %lld)", (long long)e,
                   (long long)node, (long long)n_nodes - 1, (long long)n_nodes);
}

/* Narrows dst into the CSR; the first edge out of range is named. */
static ff_status take_dst(ff_scatter_csr *csr, const given *g)
{
    int64_t bad = csr->n_edges;
    int descents = 0;
#pragma omp parallel for schedule(static) reduction(min : bad) reduction(+ : descents) if (csr->n_edges > EDGES_MIN)
    for (int64_t e = 0; e < csr->n_edges; e++) {
        int64_t n = dst_at(g, e);
        if (n < 0 || n >= csr->n_nodes)
            bad = e < bad ? e : bad;
        else
            csr->dst[e] = (int32_t)n;
        descents |= e > 0 && n < dst_at(g, e - 1);
    }
    if (bad < csr->n_edges) return ff_scatter_bad_dst(bad, dst_at(g, bad), csr->n_nodes);
    csr->sorted = descents == 0;
    return FF_OK;
}

static int64_t chunk_begin(const ff_scatter_csr *csr, int c, int n_chunks)
{
    return csr->n_edges * c / n_chunks;
}

/* place [n_chunks][N]: edges of a node in a chunk, then where the chunk's first such edge goes. */
static void count(const ff_scatter_csr *csr, int32_t *place, int n_chunks)
{
#pragma omp parallel for schedule(static) if (n_chunks > 1)
    for (int c = 0; c < n_chunks; c++) {
        int32_t *mine = place + c * csr->n_nodes;
        for (int64_t n = 0; n < csr->n_nodes; n++) mine[n] = 0;
        for (int64_t e = chunk_begin(csr, c, n_chunks); e < chunk_begin(csr, c + 1, n_chunks); e++)
            mine[csr->dst[e]]++;
    }
    int32_t sum = 0;
    for (int64_t n = 0; n < csr->n_nodes; n++) {
        csr->off[n] = sum;
        for (int c = 0; c < n_chunks; c++) {
            int32_t here = place[c * csr->n_nodes + n];
            place[c * csr->n_nodes + n] = sum;
            sum += here;
        }
    }
    csr->off[csr->n_nodes] = sum;
}

static void fill(ff_scatter_csr *csr, int32_t *place, int n_chunks)
{
#pragma omp parallel for schedule(static) if (n_chunks > 1)
    for (int c = 0; c < n_chunks; c++) {
        int32_t *mine = place + c * csr->n_nodes;
        for (int64_t e = chunk_begin(csr, c, n_chunks); e < chunk_begin(csr, c + 1, n_chunks); e++)
            csr->edge[mine[csr->dst[e]]++] = (int32_t)e;
    }
}

/* As many chunks as threads, as long as their counts stay small beside the edges. */
static int choose_chunks(const ff_scatter_csr *csr)
{
    int64_t most = csr->n_edges / (csr->n_nodes > EDGES_MIN ? csr->n_nodes : EDGES_MIN);
    int threads = omp_get_max_threads();
    return most < 1 ? 1 : most < threads ? (int)most : threads;
}

static ff_status create(const given *g, int64_t n_edges, int64_t n_nodes, ff_scatter_csr **out)
{
    ff_status st = FF_OK;
    ff_scatter_csr *csr = NULL;
    int32_t *place = NULL;
    if (out != NULL) *out = NULL;
    const void *dst = g->i64 != NULL ? (const void *)g->i64 : (const void *)g->i32;
    FF_TRY(ff_scatter_check_counts(dst, n_edges, n_nodes, out));
    FF_GO(FF_NEW0(csr, 1));
    csr->n_nodes = n_nodes;
    csr->n_edges = n_edges;
    FF_GO(FF_NEW(csr->off, n_nodes + 1));
    FF_GO(FF_NEW(csr->edge, n_edges));
    FF_GO(FF_NEW(csr->dst, n_edges));
    FF_GO(take_dst(csr, g));
    int n_chunks = choose_chunks(csr);
    FF_GO(FF_NEW(place, n_chunks * n_nodes));
    count(csr, place, n_chunks);
    fill(csr, place, n_chunks);
    *out = csr;
    csr = NULL;
done:
    ff_free(place);
    ff_scatter_csr_destroy(&csr);
    return st;
}

ff_status ff_scatter_csr_create(const int64_t *dst, int64_t n_edges, int64_t n_nodes, ff_scatter_csr **out)
{
    return create(&(given){NULL, dst}, n_edges, n_nodes, out);
}

ff_status ff_scatter_csr_create_i32(const int32_t *dst, int64_t n_edges, int64_t n_nodes,
                                    ff_scatter_csr **out)
{
    return create(&(given){dst, NULL}, n_edges, n_nodes, out);
}

void ff_scatter_csr_destroy(ff_scatter_csr **csr)
{
    if (csr == NULL || *csr == NULL) return;
    if ((*csr)->row != NULL) {
        (*csr)->row->csr_free(*csr);
        FF_FREE(*csr);
        return;
    }
    ff_free((*csr)->off);
    ff_free((*csr)->edge);
    ff_free((*csr)->dst);
    FF_FREE(*csr);
}
