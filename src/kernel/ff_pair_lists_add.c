/* Adding the rows of a list's targets to the points they stand for. */
#include "ff_pair_lists.h"

/* Entries from the root down. */
static void add_far(const ff_pair_part *part, int64_t e, int64_t n_comp, const float *rows, double *total)
{
    if (e < 0) return;
    add_far(part, part->far_up[e], n_comp, rows, total);
    const float *row = rows + (part->far_begin + e) * n_comp;
    for (int64_t d = 0; d < n_comp; d++) total[d] += (double)row[d];
}

/* First leaf entry whose points may reach point i or later. */
static int64_t first_leaf(const ff_pair_part *part, int64_t i)
{
    int64_t lo = 0, hi = part->n_leaf;
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;
        if (part->leaf_from[mid] + FF_LEAF_MAX <= i)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

void ff_pair_lists_add(const ff_pair_lists *l, int k, int n_comp, const float *rows, double *total)
{
    const ff_pair_part *part = &l->part[k];
    int64_t c = n_comp;
    enum { STRIPE = 256 };
#pragma omp parallel for schedule(dynamic, 4)
    for (int64_t s = 0; s < (part->n_points + STRIPE - 1) / STRIPE; s++) {
        int64_t from = s * STRIPE, to = from + STRIPE < part->n_points ? from + STRIPE : part->n_points;
        for (int64_t i = from * c; i < to * c; i++) total[i] += (double)rows[part->point_begin * c + i];
        for (int64_t e = first_leaf(part, from); e < part->n_leaf && part->leaf_from[e] < to; e++) {
            const float *row = rows + (part->leaf_begin + e) * c;
            for (uint64_t m = part->leaf_mask[e]; m != 0; m &= m - 1) {
                int64_t i = part->leaf_from[e] + __builtin_ctzll(m);
                if (i < from || i >= to) continue;
                for (int64_t d = 0; d < c; d++) total[i * c + d] += (double)row[d];
            }
        }
        for (int64_t i = from; i < to && part->n_far > 0; i++)
            add_far(part, part->far_of[i], c, rows, total + i * c);
    }
}
