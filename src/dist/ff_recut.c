/* Moves the runs of a cloud to another cut. */
#include "ff_cloud.h"

#include "ff_mem.h"

#include <string.h>

/* What replaces the own side of a cloud. */
typedef struct own_side {
    int64_t n;
    int64_t *cut, *orig, *slot;
    float *x;
    size_t *own_rows, *home_rows;
    size_t *send, *recv, *bytes; /* [size], [size], [2 size]: rows that change owners; scratch in bytes */
} own_side;

static ff_status check_cut(const ff_cloud *c, const int64_t *cut)
{
    int size = c->comm->size;
    bool good = cut[0] == 0 && cut[size] == c->n;
    for (int r = 0; r < size; r++)
        good = good && cut[r] <= cut[r + 1] && ff_topo_border(c->n, c->leaf_size, cut[r]) == cut[r];
    if (good) return FF_OK;
    return ff_fail(FF_E_ARG, "cloud: the new cut is not a row of ascending block borders from 0 to %lld",
                   (long long)c->n);
}

static size_t overlap(const int64_t *a, int ra, const int64_t *b, int rb)
{
    int64_t lo = a[ra] > b[rb] ? a[ra] : b[rb], hi = a[ra + 1] < b[rb + 1] ? a[ra + 1] : b[rb + 1];
    return hi > lo ? (size_t)(hi - lo) : 0;
}

static ff_status own_start(const ff_cloud *c, const int64_t *cut, own_side *o)
{
    int size = c->comm->size, me = c->comm->rank;
    FF_TRY(check_cut(c, cut));
    o->n = cut[me + 1] - cut[me];
    FF_TRY(FF_NEW(o->cut, size + 1));
    FF_TRY(FF_NEW(o->orig, o->n));
    FF_TRY(FF_NEW(o->slot, o->n));
    FF_TRY(FF_NEW(o->x, o->n * c->dim));
    FF_TRY(FF_NEW0(o->own_rows, size));
    FF_TRY(FF_NEW0(o->home_rows, size));
    FF_TRY(FF_NEW(o->send, size));
    FF_TRY(FF_NEW(o->recv, size));
    FF_TRY(FF_NEW(o->bytes, 2 * size));
    memcpy(o->cut, cut, ((size_t)size + 1) * sizeof *cut);
    for (int r = 0; r < size; r++) {
        o->send[r] = overlap(c->cut, me, cut, r);
        o->recv[r] = overlap(c->cut, r, cut, me);
    }
    return FF_OK;
}

/* Runs are contiguous and ascend with the rank, so packed rows are rows in order. Collective. */
static ff_status move_run(const ff_cloud *c, own_side *o, size_t row_bytes, const void *from, void *to)
{
    int size = c->comm->size;
    for (int r = 0; r < size; r++) {
        o->bytes[r] = o->send[r] * row_bytes;
        o->bytes[size + r] = o->recv[r] * row_bytes;
    }
    return ff_comm_alltoallv(c->comm, from, o->bytes, to, o->bytes + size);
}

/* Which home each new own row has; rows of one home are packed in ascending position. The home side packs in
 * local Morton order under any cut, so home_slot stays. o->send is scratch here. */
static void own_route(const ff_cloud *c, own_side *o)
{
    int size = c->comm->size;
    for (int64_t i = 0; i < o->n; i++) o->own_rows[ff_cut_owner(c->home, size, o->orig[i])]++;
    size_t at = 0;
    for (int r = 0; r < size; r++) {
        o->send[r] = at;
        at += o->own_rows[r];
    }
    for (int64_t i = 0; i < o->n; i++)
        o->slot[i] = (int64_t)o->send[ff_cut_owner(c->home, size, o->orig[i])]++;
}

#define SWAP(type, a, b)                                                                                     \
    do {                                                                                                     \
        type swap_ = (a);                                                                                    \
        (a) = (b);                                                                                           \
        (b) = swap_;                                                                                         \
    } while (0)

static void own_swap(ff_cloud *c, own_side *o)
{
    c->n_own = o->n;
    SWAP(int64_t *, c->cut, o->cut);
    SWAP(int64_t *, c->orig, o->orig);
    SWAP(int64_t *, c->own_slot, o->slot);
    SWAP(float *, c->x, o->x);
    SWAP(size_t *, c->own_rows, o->own_rows);
    SWAP(size_t *, c->home_rows, o->home_rows);
}

ff_status ff_cloud_recut(ff_cloud *c, const int64_t *cut)
{
    own_side o = {.n = 0};
    ff_status st = ff_agree(c->comm, own_start(c, cut, &o));
    if (st != FF_OK) goto done;
    FF_GO(move_run(c, &o, sizeof *o.orig, c->orig, o.orig));
    FF_GO(move_run(c, &o, (size_t)c->dim * sizeof *o.x, c->x, o.x));
    own_route(c, &o);
    FF_GO(ff_comm_alltoall_counts(c->comm, o.own_rows, o.home_rows));
    own_swap(c, &o);
done:
    ff_free(o.cut);
    ff_free(o.orig);
    ff_free(o.slot);
    ff_free(o.x);
    ff_free(o.own_rows);
    ff_free(o.home_rows);
    ff_free(o.send);
    ff_free(o.recv);
    ff_free(o.bytes);
    return st;
}
