#include "ff_embed.h"

#include "ff_mem.h"

#include <string.h>

/* Local */
static ff_status build_graph(ff_embed *e, const ff_graph_maker *maker)
{
    const ff_halo *h = e->halo;
    const ff_graph_points p = {h->n_held, h->n_own, h->x, h->own, h->owner, e->comm->rank, e->comm->size};
    FF_TRY(FF_NEW0(e->rank_edges, e->comm->size));
    FF_TRY(maker != NULL ? maker->build(maker->ctx, &p, &h->search, &e->graph)
                         : ff_graph_build(&p, &h->search, &e->graph));
    return ff_graph_link(e->graph, &p, e->rank_edges, &e->send);
}

ff_status ff_embed_create(ff_comm *comm, const double *x_home, int64_t n_home, double cutoff,
                          const ff_cell *cell, const ff_graph_maker *maker, ff_embed **out)
{
    ff_status st = FF_OK;
    ff_embed *e = NULL;
    *out = NULL;
    FF_GO(FF_NEW0_ALL(comm, e, 1));
    *e = (ff_embed){.comm = comm, .n_home = n_home};
    FF_GO(ff_halo_create(comm, x_home, n_home, cutoff, cell, &e->halo));
    FF_GO(ff_agree(comm, build_graph(e, maker)));
    int64_t sum[3] = {n_home, e->graph->n_edges, e->graph->n_coincident};
    FF_GO(ff_comm_allreduce(comm, sum, 3, FF_SUM_I64));
    e->n_points = sum[0], e->n_edges = sum[1], e->n_coincident = sum[2];
    *out = e;
    e = NULL;
done:
    ff_embed_destroy(&e);
    return st;
}

void ff_embed_destroy(ff_embed **embed)
{
    ff_embed *e = *embed;
    if (e == NULL) return;
    ff_halo_destroy(&e->halo);
    ff_graph_destroy(&e->graph);
    ff_free(e->rank_edges);
    ff_free(e->send);
    ff_free(e);
    *embed = NULL;
}

ff_status ff_embed_check(const ff_embed *e, const ff_head_opts *o)
{
    const ff_graph *g = e->graph;
    for (int64_t k = 0; o->degree_floor == 0 && k < g->n_nodes; k++)
        if (g->off[k + 1] == g->off[k])
            return ff_fail(
                FF_E_INPUT,
                "head: point %lld has no neighbour within %g, so that 1 / sqrt(degree + floor) has no "
                "value with degree_floor = 0; raise the floor (0.25) or the cutoff",
                (long long)e->halo->gid[e->halo->own[k]], g->cutoff);
    return FF_OK;
}

/* An edge from another rank's point has its opposite there, so both send as much as they receive. */
ff_status ff_embed_point_grad(const ff_embed *e, const double *edge_grad, double *d_own)
{
    ff_status st = FF_OK;
    double *send = NULL, *recv = NULL;
    size_t *bytes = NULL;
    int64_t n = 0;
    FF_GO(FF_NEW_ALL(e->comm, bytes, e->comm->size));
    for (int r = 0; r < e->comm->size; r++) {
        bytes[r] = (size_t)e->rank_edges[r] * 3 * sizeof *send;
        n += e->rank_edges[r];
    }
    FF_GO(FF_NEW_ALL(e->comm, send, 3 * n));
    FF_GO(FF_NEW_ALL(e->comm, recv, 3 * n));
    for (int64_t i = 0; i < n; i++)
        memcpy(send + 3 * i, edge_grad + 3 * (int64_t)e->send[i], 3 * sizeof *send);
    FF_GO(ff_comm_alltoallv(e->comm, send, bytes, recv, bytes));
    ff_graph_point_grad(e->graph, edge_grad, recv, d_own);
done:
    ff_free(send);
    ff_free(recv);
    ff_free(bytes);
    return st;
}
