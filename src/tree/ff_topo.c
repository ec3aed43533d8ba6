/* The shape of the midpoint tree, from the number of points and the leaf size alone.
 * Subtrees of one level hold m or m + 1 points, m = n div 2^level, so a level is two counters. */
#include "ff_lbvh.h"

#include "ff_mem.h"

typedef struct level {
    int64_t m, n_m, n_m1; /* nodes of m and of m + 1 points */
} level;

static bool level_down(level *l, int64_t leaf_size)
{
    if (l->m <= leaf_size) l->n_m = 0;
    if (l->m + 1 <= leaf_size) l->n_m1 = 0;
    if (l->n_m == 0 && l->n_m1 == 0) return false;
    int64_t even = l->n_m, odd = l->n_m1;
    if (l->m % 2 == 0) { /* m = h + h, m + 1 = h + (h + 1) */
        l->n_m = 2 * even + odd;
        l->n_m1 = odd;
    } else { /* m = h + (h + 1), m + 1 = (h + 1) + (h + 1) */
        l->n_m = even;
        l->n_m1 = even + 2 * odd;
    }
    l->m /= 2;
    return true;
}

int64_t ff_topo_nodes(int64_t n, int leaf_size)
{
    if (n <= 0) return 0;
    level l = {n, 1, 0};
    int64_t nodes = 1;
    while (level_down(&l, leaf_size)) nodes += l.n_m + l.n_m1;
    return nodes;
}

int ff_topo_depth(int64_t n, int leaf_size)
{
    int depth = 0;
    for (; n > leaf_size; n -= n / 2) depth++;
    return depth;
}

typedef struct block_list {
    int64_t next_id, n, largest;
    int leaf_size;
    int64_t count[2], nodes[2]; /* a block's nodes by its count; the few counts that occur, newest first */
    ff_subtree *out;
} block_list;

static int64_t nodes_of(block_list *b, int64_t count)
{
    if (count != b->count[0]) {
        int64_t old_count = b->count[0], old_nodes = b->nodes[0];
        b->nodes[0] = count == b->count[1] ? b->nodes[1] : ff_topo_nodes(count, b->leaf_size);
        b->count[0] = count;
        b->count[1] = old_count;
        b->nodes[1] = old_nodes;
    }
    return b->nodes[0];
}

static void list_blocks(block_list *b, int64_t start, int64_t count)
{
    if (count <= b->largest) {
        b->out[b->n++] = (ff_subtree){b->next_id, start, count};
        b->next_id += nodes_of(b, count);
        return;
    }
    b->next_id++;
    list_blocks(b, start, count / 2);
    list_blocks(b, start + count / 2, count - count / 2);
}

ff_status ff_topo_blocks(int64_t n, int leaf_size, int64_t max_points, ff_subtree **out, int64_t *n_out)
{
    block_list b = {.leaf_size = leaf_size, .largest = max_points > leaf_size ? max_points : leaf_size};
    int64_t n_blocks = 0;
    level l = {n, n > 0, 0}; /* leaves of the tree that stops at blocks */
    for (bool more = n > 0; more;) {
        if (l.m <= b.largest) n_blocks += l.n_m;
        if (l.m + 1 <= b.largest) n_blocks += l.n_m1;
        more = level_down(&l, b.largest);
    }
    *out = NULL;
    *n_out = 0;
    FF_TRY(FF_NEW(b.out, n_blocks));
    if (n > 0) list_blocks(&b, 0, n);
    *out = b.out;
    *n_out = b.n;
    return FF_OK;
}

int64_t ff_topo_border(int64_t n, int leaf_size, int64_t pos)
{
    int64_t largest = leaf_size > FF_BLOCK_POINTS ? leaf_size : FF_BLOCK_POINTS, start = 0;
    if (pos >= n) return n;
    while (n > largest) {
        int64_t left = n / 2;
        if (pos < start + left) {
            n = left;
        } else {
            start += left;
            n -= left;
        }
    }
    return start;
}

static void largest_in(ff_subtree s, int leaf_size, int64_t begin, int64_t end, ff_subtree *best)
{
    int64_t left = s.count / 2, s_end = s.start + s.count;
    if (s.start >= end || s_end <= begin) return;
    if (s.start >= begin && s_end <= end) {
        if (s.count > best->count) *best = s;
        return;
    }
    if (s.count <= leaf_size) return;
    largest_in((ff_subtree){s.id + 1, s.start, left}, leaf_size, begin, end, best);
    largest_in((ff_subtree){s.id + 1 + ff_topo_nodes(left, leaf_size), s.start + left, s.count - left},
               leaf_size, begin, end, best);
}

ff_subtree ff_topo_largest(int64_t n, int leaf_size, int64_t begin, int64_t end)
{
    ff_subtree best = {0, 0, 0};
    largest_in((ff_subtree){0, 0, n}, leaf_size, begin, end, &best);
    return best;
}
