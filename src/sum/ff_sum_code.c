/* The upper levels of the order of points, over ranks: which of 2^levels groups a point belongs to.
 *
 * Level by level each node's points are halved along the longest axis of their box, the lower ones by (coordinate, number)
 * first, so that halves have the counts of the midpoint tree. A histogram over slices of the box decides all points but
 * those of the slice with the middle; of these the middle one is selected by its digits. Sums of integers: the same groups
 * on any number of ranks and threads. */
#include "ff_sum_impl.h"

#include "ff_mem.h"

#include <math.h>
#include <string.h>

enum { DIGIT = 11, BINS = 1 << DIGIT, X_BITS = 32, KEY_BITS = X_BITS + 4 * DIGIT, PARALLEL_MIN = 1 << 14 };

/* Points of slices below the middle one, and of that one those before pivot (bits of the coordinate, then number), are the
 * lower half. A slice's number does not fall as the coordinate grows. */
typedef struct half {
    int axis, slice;
    double lo, scale;
    int64_t count, left; /* points; of the lower half those not yet found */
    uint64_t x, orig;    /* pivot */
    bool known;
} half;

typedef struct coder {
    ff_comm *comm;
    const float *x; /* [n][dim] */
    int64_t n, first;
    int dim, n_nodes;
    uint64_t *node; /* [n] */
    half *half;     /* [n_nodes] */
    float *box;     /* [n_nodes][6] -lo, hi */
    int64_t *bin;   /* [n_nodes][BINS] */
    int64_t *open;  /* [n] points of the middle slices, the first n_open entries */
    int64_t n_open;
} coder;

int ff_sum_group_levels(int64_t n, int leaf_size)
{
    int levels = 0;
    while (levels < FF_SUM_GROUP_LEVELS && n >> levels > leaf_size) levels++;
    return levels;
}

/* Ascending bits of a finite number; both zeros are one. */
static inline uint64_t bits_of(float v)
{
    uint32_t b;
    v += 0.0f;
    memcpy(&b, &v, sizeof b);
    return b ^ ((b >> 31) != 0 ? 0xffffffffu : 0x80000000u);
}

/* The next digit of a point's key, or -1 if earlier digits are not the pivot's. done: bits already known. */
static inline int64_t digit_of(const coder *c, int64_t i, const half *h, int done)
{
    const uint64_t x = bits_of(c->x[i * c->dim + h->axis]), orig = (uint64_t)(c->first + i);
    if (done < X_BITS) {
        const int rest = X_BITS - done, width = rest < DIGIT ? rest : DIGIT;
        if (done > 0 && (x ^ h->x) >> rest != 0) return -1;
        return (int64_t)(x >> (rest - width) & (BINS - 1) & ((UINT64_C(1) << width) - 1));
    }
    const int rest = KEY_BITS - done;
    if (x != h->x || (done > X_BITS && (orig ^ h->orig) >> rest != 0)) return -1;
    return (int64_t)(orig >> (rest - DIGIT) & (BINS - 1));
}

static inline int slice_of(const half *h, float x)
{
    const int b = (int)(((double)x - h->lo) * h->scale);
    return b < BINS ? b : BINS - 1;
}

/* A point's half and where its coordinate along the axis stands. */
static inline const half *half_of(const coder *c, int64_t i, uint64_t node, float *x)
{
    const half *h = &c->half[node];
    *x = c->x[i * c->dim + h->axis];
    return h;
}

/* own [n_nodes][BINS] of this thread, NULL: there was no memory. */
static void count_slices(const coder *c, int32_t *own)
{
#pragma omp for schedule(static)
    for (int64_t i = 0; i < c->n; i++) {
        float x;
        const half *h = half_of(c, i, c->node[i], &x);
        if (own != NULL) own[(int64_t)c->node[i] * BINS + slice_of(h, x)]++;
    }
}

/* Points left open have the number of their node's lower child. */
static void count_digits(const coder *c, int done, int32_t *own)
{
#pragma omp for schedule(static)
    for (int64_t k = 0; k < c->n_open; k++) {
        const int64_t i = c->open[k];
        const uint64_t node = c->node[i] / 2;
        if (own == NULL || c->half[node].known) continue;
        const int64_t b = digit_of(c, i, &c->half[node], done);
        if (b >= 0) own[(int64_t)node * BINS + b]++;
    }
}

enum { SLICES = -1 };

/* Histogram of all nodes: of slices, or of the digit after done bits. Collective */
static ff_status count(coder *c, int done)
{
    const size_t n_bins = (size_t)c->n_nodes * BINS;
    ff_status st = FF_OK;
    memset(c->bin, 0, n_bins * sizeof *c->bin);
#pragma omp parallel if (c->n > PARALLEL_MIN)
    {
        int32_t *own = NULL;
        const ff_status mine = FF_NEW0(own, n_bins);
        if (mine != FF_OK) {
#pragma omp atomic write
            st = mine;
        }
        if (done == SLICES)
            count_slices(c, own);
        else
            count_digits(c, done, own);
#pragma omp critical
        for (size_t b = 0; own != NULL && b < n_bins; b++) c->bin[b] += own[b];
        ff_free(own);
    }
    FF_TRY(ff_agree(c->comm, st));
    return ff_comm_allreduce(c->comm, c->bin, (int64_t)n_bins, FF_SUM_I64);
}

/* Takes of each node the bin that holds the middle; known once nothing of it is left to divide. Returns whether all are. */
static bool narrow_down(coder *c, int done)
{
    bool all = true;
    const int width = done < X_BITS && X_BITS - done < DIGIT ? X_BITS - done : DIGIT;
    for (int k = 0; k < c->n_nodes; k++) {
        half *h = &c->half[k];
        if (h->known) continue;
        const int64_t *bin = c->bin + (int64_t)k * BINS;
        uint64_t b = 0;
        while (b < BINS - 1 && bin[b] <= h->left) h->left -= bin[b++];
        if (done == SLICES)
            h->slice = (int)b;
        else if (done < X_BITS)
            h->x |= b << (X_BITS - done - width);
        else
            h->orig |= b << (KEY_BITS - done - width);
        h->known = h->left == 0;
        all = all && h->known;
    }
    return all;
}

/* Longest axes of the boxes. Collective */
static ff_status find_axes(coder *c)
{
    FF_TRY(ff_comm_allreduce(c->comm, c->box, 6 * c->n_nodes, FF_MAX_F32));
    for (int k = 0; k < c->n_nodes; k++) {
        const float *b = c->box + 6 * k;
        half *h = &c->half[k];
        *h = (half){.count = h->count, .left = h->count / 2};
        for (int d = 1; d < c->dim; d++)
            if (b[d] + b[3 + d] > b[h->axis] + b[3 + h->axis]) h->axis = d;
        const double width = (double)b[h->axis] + b[3 + h->axis];
        h->lo = -(double)b[h->axis];
        h->scale = width > 0 ? BINS / width : 0;
    }
    return FF_OK;
}

/* Marks point i as one of a node of the next level, in its box of this thread. */
static inline void give(coder *c, int64_t i, uint64_t node, float *box)
{
    c->node[i] = node;
    for (int d = 0; d < c->dim; d++) {
        const float v = c->x[i * c->dim + d];
        float *b = box + 6 * node + d;
        b[0] = -v > b[0] ? -v : b[0];
        b[3] = v > b[3] ? v : b[3];
    }
}

/* Points of slices that are not the middle one get their node of the next level, the others are listed. */
static void give_by_slice(coder *c, float *box)
{
#pragma omp for schedule(static)
    for (int64_t i = 0; i < c->n; i++) {
        float x;
        const uint64_t node = c->node[i];
        const half *h = half_of(c, i, node, &x);
        const int b = slice_of(h, x);
        if (b != h->slice || h->known) {
            if (box != NULL) give(c, i, 2 * node + (b >= h->slice ? 1 : 0), box);
            continue;
        }
        int64_t at;
#pragma omp atomic capture
        at = c->n_open++;
        c->open[at] = i;
        c->node[i] = 2 * node;
    }
}

static void give_open(coder *c, float *box)
{
#pragma omp for schedule(static)
    for (int64_t k = 0; k < c->n_open; k++) {
        const int64_t i = c->open[k];
        float v;
        const half *h = half_of(c, i, c->node[i] / 2, &v);
        const uint64_t x = bits_of(v), orig = (uint64_t)(c->first + i);
        const bool upper = x > h->x || (x == h->x && orig >= h->orig);
        if (box != NULL) give(c, i, c->node[i] + (upper ? 1 : 0), box);
    }
}

enum { ALL, BY_SLICE, OPEN };

/* Nodes of the next level for some points; their boxes grow. Local */
static ff_status give_points(coder *c, int which)
{
    ff_status st = FF_OK;
    const int n_box = 12 * c->n_nodes;
#pragma omp parallel if (c->n > PARALLEL_MIN)
    {
        float *own = NULL;
        const ff_status mine = FF_NEW(own, n_box);
        if (mine != FF_OK) {
#pragma omp atomic write
            st = mine;
        }
        for (int k = 0; k < n_box && own != NULL; k++) own[k] = -HUGE_VALF;
        if (which == BY_SLICE) {
            give_by_slice(c, own);
        } else if (which == OPEN) {
            give_open(c, own);
        } else {
#pragma omp for schedule(static)
            for (int64_t i = 0; i < c->n; i++)
                if (own != NULL) give(c, i, 0, own);
        }
#pragma omp critical
        for (int k = 0; k < n_box && own != NULL; k++) c->box[k] = own[k] > c->box[k] ? own[k] : c->box[k];
        ff_free(own);
    }
    return st;
}

/* Every node into two. Collective */
static ff_status halve_all(coder *c)
{
    FF_TRY(find_axes(c));
    FF_TRY(count(c, SLICES));
    bool all = narrow_down(c, SLICES);
    for (int k = 0; k < 12 * c->n_nodes; k++) c->box[k] = -HUGE_VALF;
    c->n_open = 0;
    FF_TRY(ff_agree(c->comm, give_points(c, BY_SLICE)));
    for (int done = 0; !all && done < KEY_BITS;
         done += done < X_BITS && X_BITS - done < DIGIT ? X_BITS - done : DIGIT) {
        FF_TRY(count(c, done));
        all = narrow_down(c, done);
    }
    FF_TRY(ff_agree(c->comm, give_points(c, OPEN)));
    for (int k = c->n_nodes - 1; k >= 0; k--) {
        const int64_t n = c->half[k].count;
        c->half[2 * k].count = n / 2;
        c->half[2 * k + 1].count = n - n / 2;
    }
    c->n_nodes *= 2;
    return FF_OK;
}

ff_status ff_sum_codes(ff_comm *comm, const float *x, int64_t n, int dim, int leaf_size, uint64_t *code)
{
    coder c = {.comm = comm, .x = x, .n = n, .dim = dim, .n_nodes = 1, .node = code};
    int64_t *all = NULL, total = 0;
    ff_status st = FF_NEW(all, comm->size);
    if (st == FF_OK) st = FF_NEW0(c.half, 1 << FF_SUM_GROUP_LEVELS);
    if (st == FF_OK) st = FF_NEW(c.box, 6 << FF_SUM_GROUP_LEVELS);
    if (st == FF_OK) st = FF_NEW(c.bin, (size_t)BINS << FF_SUM_GROUP_LEVELS);
    if (st == FF_OK) st = FF_NEW(c.open, n + 1);
    FF_GO(ff_agree(comm, st));
    FF_GO(ff_comm_allgather(comm, &n, sizeof n, all));
    for (int r = 0; r < comm->size; r++) {
        if (r < comm->rank) c.first += all[r];
        total += all[r];
    }
    c.half[0].count = total;
    for (int k = 0; k < 12; k++) c.box[k] = -HUGE_VALF;
    FF_GO(ff_agree(comm, give_points(&c, ALL)));
    for (int l = ff_sum_group_levels(total, leaf_size); l > 0; l--) FF_GO(halve_all(&c));
done:
    ff_free(all);
    ff_free(c.half);
    ff_free(c.box);
    ff_free(c.bin);
    ff_free(c.open);
    return st;
}
