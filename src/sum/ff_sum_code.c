/* The upper levels of the order of points, over ranks: which of 2^levels groups a point belongs to.
 *
 * Level by level each node's points are halved along the longest axis of their box, the lower ones by (coordinate, number)
 * first, so that halves have the counts of the midpoint tree. The element in the middle is selected by its digits from
 * histograms, sums of integers: the same groups on any number of ranks and threads. */
#include "ff_sum_impl.h"

#include "ff_mem.h"

#include <math.h>
#include <string.h>

enum { DIGIT = 11, BINS = 1 << DIGIT, X_BITS = 32, KEY_BITS = X_BITS + 4 * DIGIT };

/* Points before pivot (bits of the coordinate, then number) are the lower half. */
typedef struct half {
    int axis;
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

/* Histogram of the next digit in all nodes. Collective */
static ff_status count_digit(coder *c, int done)
{
    const size_t n_bins = (size_t)c->n_nodes * BINS;
    ff_status st = FF_OK;
    memset(c->bin, 0, n_bins * sizeof *c->bin);
#pragma omp parallel
    {
        int32_t *own = NULL;
        const ff_status mine = FF_NEW0(own, n_bins);
        if (mine != FF_OK) {
#pragma omp atomic write
            st = mine;
        }
#pragma omp for schedule(static)
        for (int64_t i = 0; i < c->n; i++) {
            const half *h = &c->half[c->node[i]];
            if (mine != FF_OK || h->known) continue;
            const int64_t b = digit_of(c, i, h, done);
            if (b >= 0) own[(int64_t)c->node[i] * BINS + b]++;
        }
#pragma omp critical
        for (size_t b = 0; mine == FF_OK && b < n_bins; b++) c->bin[b] += own[b];
        ff_free(own);
    }
    FF_TRY(ff_agree(c->comm, st));
    return ff_comm_allreduce(c->comm, c->bin, (int64_t)n_bins, FF_SUM_I64);
}

/* Takes the bin that holds the middle; known once nothing of it is left to divide. Returns whether all are. */
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
        if (done < X_BITS)
            h->x |= b << (X_BITS - done - width);
        else
            h->orig |= b << (KEY_BITS - done - width);
        h->known = h->left == 0;
        all = all && h->known;
    }
    return all;
}

/* Collective */
static ff_status find_axes(coder *c)
{
    const int n_box = 6 * c->n_nodes;
    ff_status st = FF_OK;
    for (int k = 0; k < n_box; k++) c->box[k] = -HUGE_VALF;
#pragma omp parallel
    {
        float *own = NULL;
        const ff_status mine = FF_NEW(own, n_box);
        if (mine != FF_OK) {
#pragma omp atomic write
            st = mine;
        }
        for (int k = 0; k < n_box && mine == FF_OK; k++) own[k] = -HUGE_VALF;
#pragma omp for schedule(static)
        for (int64_t i = 0; i < c->n; i++)
            for (int d = 0; d < c->dim && mine == FF_OK; d++) {
                float *b = own + 6 * c->node[i];
                const float v = c->x[i * c->dim + d];
                b[d] = -v > b[d] ? -v : b[d];
                b[3 + d] = v > b[3 + d] ? v : b[3 + d];
            }
#pragma omp critical
        for (int k = 0; k < n_box && mine == FF_OK; k++) c->box[k] = own[k] > c->box[k] ? own[k] : c->box[k];
        ff_free(own);
    }
    FF_TRY(ff_agree(c->comm, st));
    FF_TRY(ff_comm_allreduce(c->comm, c->box, n_box, FF_MAX_F32));
    for (int k = 0; k < c->n_nodes; k++) {
        const float *b = c->box + 6 * k;
        int axis = 0;
        for (int d = 1; d < c->dim; d++)
            if (b[d] + b[3 + d] > b[axis] + b[3 + axis]) axis = d;
        c->half[k].axis = axis;
    }
    return FF_OK;
}

/* Every node into two. Collective */
static ff_status halve_all(coder *c)
{
    FF_TRY(find_axes(c));
    for (int k = 0; k < c->n_nodes; k++) {
        half *h = &c->half[k];
        h->left = h->count / 2;
        h->x = h->orig = 0;
        h->known = false;
    }
    bool all = false;
    for (int done = 0; !all && done < KEY_BITS;
         done += done < X_BITS && X_BITS - done < DIGIT ? X_BITS - done : DIGIT) {
        FF_TRY(count_digit(c, done));
        all = narrow_down(c, done);
    }
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < c->n; i++) {
        const half *h = &c->half[c->node[i]];
        const uint64_t x = bits_of(c->x[i * c->dim + h->axis]), orig = (uint64_t)(c->first + i);
        c->node[i] = 2 * c->node[i] + (x > h->x || (x == h->x && orig >= h->orig) ? 1 : 0);
    }
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
    FF_GO(ff_agree(comm, st));
    FF_GO(ff_comm_allgather(comm, &n, sizeof n, all));
    for (int r = 0; r < comm->size; r++) {
        if (r < comm->rank) c.first += all[r];
        total += all[r];
    }
    for (int64_t i = 0; i < n; i++) code[i] = 0;
    c.half[0].count = total;
    for (int l = ff_sum_group_levels(total, leaf_size); l > 0; l--) FF_GO(halve_all(&c));
done:
    ff_free(all);
    ff_free(c.half);
    ff_free(c.box);
    ff_free(c.bin);
    return st;
}
