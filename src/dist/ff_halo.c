#include "ff_halo.h"

#include "ff_mem.h"
#include "ff_sort.h"

#include <string.h>

enum { LEAF = 8, BOXES = 64 }; /* boxes a rank shows the others, about */

typedef struct box {
    float lo[3], hi[3];
} box;

typedef struct ghost {
    int64_t gid;
    double x[3];
} ghost;

/* What is needed while a halo is built. */
typedef struct builder {
    ff_comm *comm;
    ff_halo *h;
    double *x_own;  /* [n_own][3] by original number */
    int64_t *gid;   /* [n_own] */
    ff_tree *tree;  /* of own points */
    int64_t *order; /* [n_own] own point at each sorted position */
    box *mine, *all;
    int64_t n_mine;
    int64_t *box_off;                /* [size + 1] boxes of each rank in all */
    ghost *send, *recv;              /* by rank, ascending */
    size_t *send_bytes, *recv_bytes; /* [size] */
    int64_t n_send, cap_send, n_recv;
    uint8_t *mark; /* [n_own] */
} builder;

static void builder_free(builder *b)
{
    ff_free(b->x_own);
    ff_free(b->gid);
    ff_tree_destroy(&b->tree);
    ff_free(b->order);
    ff_free(b->mine);
    ff_free(b->all);
    ff_free(b->box_off);
    ff_free(b->send);
    ff_free(b->recv);
    ff_free(b->send_bytes);
    ff_free(b->recv_bytes);
    ff_free(b->mark);
}

/* ---- own points ---- */

/* Box of the points of all ranks. Collective */
static ff_status common_frame(ff_comm *comm, ff_search *s, const double *x_home, int64_t n_home)
{
    int64_t n_all = n_home, first = 0, *n_of = NULL;
    FF_TRY(FF_NEW_ALL(comm, n_of, comm->size));
    ff_status st = ff_comm_allgather(comm, &n_home, sizeof n_home, n_of);
    for (int r = 0; r < comm->rank; r++) first += n_of[r];
    ff_free(n_of);
    FF_TRY(st);
    FF_TRY(ff_agree(comm, ff_search_box(s, x_home, n_home, first)));
    FF_TRY(ff_comm_allreduce(comm, s->lo, 3, FF_MIN_F64));
    FF_TRY(ff_comm_allreduce(comm, s->hi, 3, FF_MAX_F64));
    FF_TRY(ff_comm_allreduce(comm, &s->largest, 1, FF_MAX_F64));
    FF_TRY(ff_comm_allreduce(comm, &n_all, 1, FF_SUM_I64));
    ff_search_finish(s, n_all);
    return FF_OK;
}

static ff_status make_cloud(ff_comm *comm, ff_halo *h, const double *x_home, int64_t n_home)
{
    float *x_tree = NULL;
    FF_TRY(FF_NEW_ALL(comm, x_tree, 3 * n_home));
    ff_search_frame(&h->search, x_home, n_home, x_tree, NULL);
    ff_status st = ff_cloud_create(comm, x_tree, n_home, 3, LEAF, &h->cloud);
    ff_free(x_tree);
    return st;
}

/* own_slot: the cloud's own order by original number. Local */
static ff_status sort_own(ff_halo *h)
{
    ff_status st = FF_OK;
    uint64_t *key = NULL;
    h->n_own = h->cloud->n_own;
    FF_GO(FF_NEW(key, h->n_own));
    FF_GO(FF_NEW(h->own_slot, h->n_own));
    for (int64_t i = 0; i < h->n_own; i++) {
        key[i] = (uint64_t)h->cloud->orig[i];
        h->own_slot[i] = i;
    }
    FF_GO(ff_sort_u64(key, h->own_slot, h->n_own));
done:
    ff_free(key);
    return st;
}

static ff_status own_alloc(builder *b)
{
    FF_TRY(sort_own(b->h));
    FF_TRY(FF_NEW(b->x_own, 3 * b->h->n_own));
    FF_TRY(FF_NEW(b->gid, b->h->n_own));
    FF_TRY(FF_NEW(b->order, b->h->n_own));
    for (int64_t i = 0; i < b->h->n_own; i++) b->gid[i] = b->h->cloud->orig[b->h->own_slot[i]];
    return FF_OK;
}

static ff_status own_tree(builder *b)
{
    float *x_tree = NULL;
    FF_TRY(FF_NEW(x_tree, 3 * b->h->n_own));
    ff_search_frame(&b->h->search, b->x_own, b->h->n_own, x_tree, NULL);
    ff_status st = ff_tree_build(x_tree, b->h->n_own, 3, LEAF, b->order, &b->tree);
    ff_free(x_tree);
    return st;
}

/* ---- who needs what ---- */

/* Boxes of the largest subtrees of at most a BOXES-th of the own points. Local */
static ff_status show_boxes(builder *b)
{
    const ff_tree *t = b->tree;
    const int64_t largest = b->h->n_own / BOXES > LEAF ? b->h->n_own / BOXES : LEAF;
    int32_t stack[FF_SEARCH_DEPTH];
    int64_t cap = 0;
    int n = t->n_nodes > 0;
    stack[0] = 0;
    while (n > 0) {
        int32_t i = stack[--n];
        if (t->count[i] > largest && t->node[i].right != FF_NODE_LEAF) {
            stack[n++] = t->node[i].right;
            stack[n++] = i + 1;
            continue;
        }
        FF_TRY(ff_mem_reserve(&b->mine, &cap, b->n_mine + 1, sizeof *b->mine));
        memcpy(b->mine[b->n_mine].lo, t->node[i].lo, sizeof b->mine->lo);
        memcpy(b->mine[b->n_mine++].hi, t->node[i].hi, sizeof b->mine->hi);
    }
    return FF_OK;
}

/* Collective */
static ff_status gather_boxes(builder *b)
{
    ff_status st = FF_OK;
    ff_comm *comm = b->comm;
    size_t *bytes = NULL;
    int64_t n;
    FF_GO(FF_NEW0_ALL(comm, b->box_off, comm->size + 1));
    FF_GO(FF_NEW_ALL(comm, bytes, comm->size));
    FF_GO(ff_comm_allgather(comm, &b->n_mine, sizeof n, b->box_off + 1));
    for (int r = 0; r < comm->size; r++) {
        bytes[r] = (size_t)b->box_off[r + 1] * sizeof *b->all;
        b->box_off[r + 1] += b->box_off[r];
    }
    FF_GO(FF_NEW_ALL(comm, b->all, b->box_off[comm->size]));
    FF_GO(ff_comm_allgatherv(comm, b->mine, bytes[comm->rank], b->all, bytes));
done:
    ff_free(bytes);
    return st;
}

/* Marks own points with an image in reach of a box. */
static void mark_box(builder *b, const box *a)
{
    const ff_search *s = &b->h->search;
    const ff_tree *t = b->tree;
    double lo[3], hi[3], shift[3];
    int32_t m[3];
    for (int d = 0; d < 3; d++) lo[d] = (double)a->lo[d], hi[d] = (double)a->hi[d];
    for (int64_t i = 0; i < s->n_images; i++) {
        ff_search_walk w;
        ff_search_image(s, i, m);
        ff_lattice_shift(s->lattice.vector, m, shift);
        ff_search_begin(&w, s, t->node, t->n_nodes, lo, hi, shift);
        for (int32_t leaf; (leaf = ff_search_leaf(&w)) >= 0;)
            for (int64_t k = t->start[leaf]; k < t->start[leaf] + t->count[leaf]; k++) {
                ff_node point;
                memcpy(point.lo, t->x + 3 * k, sizeof point.lo);
                memcpy(point.hi, t->x + 3 * k, sizeof point.hi);
                if (ff_search_distance2(&w, &point) <= w.reach2) b->mark[b->order[k]] = 1;
            }
    }
}

/* Own points that rank r needs, ascending. Local */
static ff_status list_for(builder *b, int r)
{
    const int64_t before = b->n_send;
    memset(b->mark, 0, (size_t)b->h->n_own);
    for (int64_t k = b->box_off[r]; k < b->box_off[r + 1]; k++) mark_box(b, &b->all[k]);
    for (int64_t i = 0; i < b->h->n_own; i++) {
        if (!b->mark[i]) continue;
        FF_TRY(ff_mem_reserve(&b->send, &b->cap_send, b->n_send + 1, sizeof *b->send));
        ghost *g = &b->send[b->n_send++];
        g->gid = b->gid[i];
        memcpy(g->x, b->x_own + 3 * i, sizeof g->x);
    }
    b->send_bytes[r] = (size_t)(b->n_send - before) * sizeof *b->send;
    return FF_OK;
}

static ff_status list_all(builder *b)
{
    FF_TRY(FF_NEW0(b->send_bytes, b->comm->size));
    FF_TRY(FF_NEW0(b->recv_bytes, b->comm->size));
    FF_TRY(FF_NEW(b->mark, b->h->n_own));
    for (int r = 0; r < b->comm->size; r++)
        if (r != b->comm->rank) FF_TRY(list_for(b, r));
    return FF_OK;
}

/* Collective */
static ff_status exchange(builder *b)
{
    FF_TRY(ff_comm_alltoall_counts(b->comm, b->send_bytes, b->recv_bytes));
    for (int r = 0; r < b->comm->size; r++) b->n_recv += (int64_t)(b->recv_bytes[r] / sizeof *b->recv);
    FF_TRY(FF_NEW_ALL(b->comm, b->recv, b->n_recv));
    return ff_comm_alltoallv(b->comm, b->send, b->send_bytes, b->recv, b->recv_bytes);
}

/* ---- held points ---- */

static ff_status held_alloc(builder *b, uint64_t **key, int64_t **from)
{
    ff_halo *h = b->h;
    int32_t n;
    h->n_held = h->n_own + b->n_recv;
    FF_TRY(ff_to_i32(h->n_held, "points of one rank with those around them", &n));
    FF_TRY(FF_NEW(*key, h->n_held));
    FF_TRY(FF_NEW(*from, h->n_held));
    FF_TRY(FF_NEW(h->x, 3 * h->n_held));
    FF_TRY(FF_NEW(h->gid, h->n_held));
    FF_TRY(FF_NEW(h->owner, h->n_held));
    return FF_NEW(h->own, h->n_own);
}

static void held_fill(builder *b, const int64_t *from)
{
    ff_halo *h = b->h;
    int64_t n_own = 0;
    for (int64_t i = 0; i < h->n_held; i++) {
        const int64_t k = from[i] - h->n_own;
        memcpy(h->x + 3 * i, k < 0 ? b->x_own + 3 * from[i] : b->recv[k].x, 3 * sizeof *h->x);
        h->gid[i] = k < 0 ? b->gid[from[i]] : b->recv[k].gid;
        if (k < 0) {
            h->owner[i] = b->comm->rank;
            h->own[n_own++] = (int32_t)i;
            continue;
        }
        int r = 0;
        for (size_t end = b->recv_bytes[0]; (size_t)k * sizeof *b->recv >= end; end += b->recv_bytes[r]) r++;
        h->owner[i] = r;
    }
}

/* Own and received points by original number. Local */
static ff_status merge(builder *b)
{
    ff_status st = FF_OK;
    uint64_t *key = NULL;
    int64_t *from = NULL;
    FF_GO(held_alloc(b, &key, &from));
    for (int64_t i = 0; i < b->h->n_held; i++) {
        from[i] = i;
        key[i] = (uint64_t)(i < b->h->n_own ? b->gid[i] : b->recv[i - b->h->n_own].gid);
    }
    FF_GO(ff_sort_u64(key, from, b->h->n_held));
    held_fill(b, from);
done:
    ff_free(key);
    ff_free(from);
    return st;
}

ff_status ff_halo_create(ff_comm *comm, const double *x_home, int64_t n_home, double cutoff,
                         const ff_cell *cell, ff_halo **out)
{
    ff_halo *h = NULL;
    builder b = {.comm = comm};
    *out = NULL;
    ff_status st = FF_NEW0(h, 1);
    if (st == FF_OK) st = ff_search_start(cutoff, cell, &h->search);
    FF_GO(ff_agree(comm, st));
    b.h = h;
    FF_GO(common_frame(comm, &h->search, x_home, n_home));
    FF_GO(make_cloud(comm, h, x_home, n_home));
    FF_GO(ff_agree(comm, own_alloc(&b)));
    FF_GO(ff_halo_to_own(h, 3 * sizeof *x_home, x_home, b.x_own));
    st = own_tree(&b);
    if (st == FF_OK) st = show_boxes(&b);
    FF_GO(ff_agree(comm, st));
    FF_GO(gather_boxes(&b));
    FF_GO(ff_agree(comm, list_all(&b)));
    FF_GO(exchange(&b));
    FF_GO(ff_agree(comm, merge(&b)));
    *out = h;
    h = NULL;
done:
    builder_free(&b);
    ff_halo_destroy(&h);
    return st;
}

void ff_halo_destroy(ff_halo **halo)
{
    ff_halo *h = *halo;
    if (h == NULL) return;
    ff_cloud_destroy(&h->cloud);
    ff_free(h->x);
    ff_free(h->gid);
    ff_free(h->owner);
    ff_free(h->own);
    ff_free(h->own_slot);
    ff_free(h);
    *halo = NULL;
}

/* ---- rows ---- */

ff_status ff_halo_to_own(const ff_halo *h, size_t row_bytes, const void *home, void *own)
{
    char *sorted = NULL;
    FF_TRY(FF_NEW_ALL(h->cloud->comm, sorted, (size_t)h->n_own * row_bytes));
    ff_status st = ff_cloud_to_own(h->cloud, row_bytes, home, sorted);
    for (int64_t i = 0; st == FF_OK && i < h->n_own; i++)
        memcpy((char *)own + (size_t)i * row_bytes, sorted + (size_t)h->own_slot[i] * row_bytes, row_bytes);
    ff_free(sorted);
    return st;
}

ff_status ff_halo_to_home(const ff_halo *h, size_t row_bytes, const void *own, void *home)
{
    char *sorted = NULL;
    FF_TRY(FF_NEW_ALL(h->cloud->comm, sorted, (size_t)h->n_own * row_bytes));
    for (int64_t i = 0; i < h->n_own; i++)
        memcpy(sorted + (size_t)h->own_slot[i] * row_bytes, (const char *)own + (size_t)i * row_bytes,
               row_bytes);
    ff_status st = ff_cloud_to_home(h->cloud, row_bytes, sorted, home);
    ff_free(sorted);
    return st;
}
