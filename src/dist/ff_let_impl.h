/* Steps of ff_let_build, one file each; for the files of ff_let only. */
#ifndef FF_LET_IMPL_H
#define FF_LET_IMPL_H

#include "ff_dtt.h"
#include "ff_let.h"

/* Own bottoms are limited to a run's share of this. */
enum { FF_BOTTOMS_A_RUN = 64 };

/* All lets of one build. */
typedef struct ff_let_set {
    ff_comm *comm;
    int n;
    ff_let **let;        /* [n] */
    float **leaf_diam2;  /* [n][n_bottom]: the largest diameter^2 of a leaf of each bottom */
    const uint8_t *need; /* [n][n] (walks along, walked against) */
    double theta;
    bool transposed,
        expand_far; /* what is held is for ff_dtt_walk_sources; far pairs name the targets' points */
} ff_let_set;

/* A growing message. */
typedef struct ff_packet {
    char *buf;
    int64_t len, cap;
} ff_packet;

/* A message holds, per cloud of the set, two int64 (entries, points); then per cloud its entries and its
 * points. Entries are nodes in preorder, all of the sender's bottoms and below them the children of each
 * opened node; in place of ff_node.right stand flags. A cloud of which nothing is needed has no entries;
 * nothing at all: no bytes. */
enum { FF_ENTRY_OPEN = 1, FF_ENTRY_POINTS = 2 }; /* its children follow; its points are among the points */

/* What rank receiver may read of the own subtrees, as a message. scratch: one byte a node of the largest
 * tree. Local */
ff_status ff_let_select(const ff_let_set *set, int receiver, uint8_t *scratch, ff_packet *out);

/* One cloud's part of a message from one rank; cursors move as it is read. */
typedef struct ff_stream {
    const char *entry, *point;
    int64_t n_entries, n_points;
} ff_stream;

/* Replaces the tree of U and own subtrees by the one that holds in [size] too. Local */
ff_status ff_let_grow(ff_let *let, ff_stream *in);

/* Drops what no mark names: nodes whose parents no walk opened, points of leaves that are not read. Local */
ff_status ff_let_shrink(ff_let *let);

/* Zeroed marks for the nodes of let->tree. Local */
ff_status ff_let_alloc_marks(ff_let *let);

/* Whether a node whose parent is no bottom is one: its owner, or -1 if the node lies above bottoms. Local */
int ff_let_bottom_owner(const int64_t *cut, int size, int leaf_size, int64_t start, int64_t count);

/* All blocks of a set, cut at max(FF_BLOCK_POINTS, leaf_size); owned by the caller. Local */
ff_status ff_work_blocks(const ff_let *let, ff_subtree **blocks, int64_t *n_blocks);

/* Work of cloud i's blocks as targets, all of which lie in one run; work [n_blocks] is set. Local */
ff_status ff_work_count(ff_let *const *lets, int n_clouds, int i, const uint8_t *need, const int64_t *weight,
                        double theta, bool expand_far, const ff_subtree *blocks, int64_t n_blocks,
                        int64_t *work);

/* The cut that follows from the work of all blocks. cut [size + 1]. Local */
ff_status ff_work_cut(const ff_subtree *blocks, int64_t n_blocks, const int64_t *work, int size,
                      int64_t *cut);

/* Adds counts of one pair of clouds to a row. Local */
void ff_dist_add(ff_dist_row *row, const ff_dtt_counts *c, int64_t weight);

#endif
