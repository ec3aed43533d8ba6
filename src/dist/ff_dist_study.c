/* The table of a run on many ranks, worked out on one. */
#include "ff_let_impl.h"

#include "ff_mark.h"
#include "ff_mem.h"

#include <string.h>

typedef struct study {
    ff_let *const *let;
    int n, n_ranks;
    const uint8_t *need;
    const int64_t *weight;
    double theta;
    bool expand_far;
    int64_t **cut; /* [n][n_ranks + 1] */
    int **below;   /* [n][nodes] the rank strictly below one of whose bottoms a node lies, or -1 */
    uint8_t *from; /* [n_ranks][n_ranks] row r, column q: r receives from q */
    ff_dist_row *row;
} study;

/* Marks of one thread for one rank at a time. */
typedef struct reader {
    uint8_t **node_used, **leaf_used; /* [n][nodes] */
} reader;

/* ---- cut and owners ---- */

static ff_status cut_cloud(study *s, int i)
{
    ff_status st = FF_OK;
    ff_subtree *block = NULL;
    int64_t n_blocks = 0, *work = NULL;
    FF_GO(ff_work_blocks(s->let[i], &block, &n_blocks));
    FF_GO(FF_NEW(work, n_blocks));
    FF_GO(ff_work_count(s->let, s->n, i, s->need, s->weight, s->theta, s->expand_far, block, n_blocks, work));
    FF_GO(FF_NEW(s->cut[i], s->n_ranks + 1));
    FF_GO(ff_work_cut(block, n_blocks, work, s->n_ranks, s->cut[i]));
done:
    ff_free(block);
    ff_free(work);
    return st;
}

static void mark_owners(const study *s, int i, int32_t node, int owner)
{
    const ff_tree *t = s->let[i]->tree;
    s->below[i][node] = owner;
    if (owner < 0)
        owner = ff_let_bottom_owner(s->cut[i], s->n_ranks, t->leaf_size, t->start[node], t->count[node]);
    if (t->node[node].right < 0) return;
    mark_owners(s, i, node + 1, owner);
    mark_owners(s, i, t->node[node].right, owner);
}

static ff_status prepare(study *s)
{
    FF_TRY(FF_NEW0(s->cut, s->n));
    FF_TRY(FF_NEW0(s->below, s->n));
    FF_TRY(FF_NEW0(s->from, (size_t)s->n_ranks * (size_t)s->n_ranks));
    for (int i = 0; i < s->n; i++) {
        FF_TRY(cut_cloud(s, i));
        FF_TRY(FF_NEW(s->below[i], s->let[i]->tree->n_nodes));
        if (s->let[i]->tree->n_nodes > 0) mark_owners(s, i, 0, -1);
    }
    return FF_OK;
}

/* ---- one rank ---- */

typedef struct reading {
    ff_marker marker;
    const ff_tree *t, *s;
    bool expand_far;
    int64_t begin, end;
    ff_dtt_counts counts;
} reading;

static ff_status read_emit(void *ctx, const ff_dtt_lists *q)
{
    reading *r = ctx;
    ff_dtt_count(r->t, r->s, q, r->expand_far, r->begin, r->end, &r->counts);
    return ff_mark_emit(&r->marker, q);
}

static int64_t next_mark(const uint8_t *mark, int64_t n, int64_t from)
{
    const uint8_t *at = from < n ? memchr(mark + from, 1, (size_t)(n - from)) : NULL;
    return at != NULL ? at - mark : n;
}

static void add_i64(int64_t *to, int64_t value)
{
#pragma omp atomic update
    *to += value;
}

/* Rows that rank r receives of cloud j. */
static void count_rows(const study *s, int r, int j, const reader *rd)
{
    const ff_tree *t = s->let[j]->tree;
    uint8_t *from = s->from + (size_t)r * (size_t)s->n_ranks;
    for (int64_t i = next_mark(rd->node_used[j], t->n_nodes, 0); i < t->n_nodes;
         i = next_mark(rd->node_used[j], t->n_nodes, i + 1)) {
        int owner = s->below[j][i];
        if (owner < 0 || owner == r) continue;
        from[owner] = 1;
        add_i64(&s->row[r].recv_nodes, 1);
        add_i64(&s->row[owner].send_nodes, 1);
    }
    for (int64_t i = next_mark(rd->leaf_used[j], t->n_nodes, 0); i < t->n_nodes;
         i = next_mark(rd->leaf_used[j], t->n_nodes, i + 1)) {
        int owner = ff_cut_owner(s->cut[j], s->n_ranks, t->start[i]);
        if (owner == r) continue;
        from[owner] = 1;
        add_i64(&s->row[r].recv_points, t->count[i]);
        add_i64(&s->row[owner].send_points, t->count[i]);
    }
}

static ff_status read_pair(const study *s, int r, int i, int j, const reader *rd)
{
    reading w = {.marker = {s->let[i]->tree, rd->node_used[j], rd->leaf_used[j]},
                 .t = s->let[i]->tree,
                 .s = s->let[j]->tree,
                 .expand_far = s->expand_far,
                 .begin = s->cut[i][r],
                 .end = s->cut[i][r + 1]};
    FF_TRY(ff_dtt_walk(w.t, w.s, s->theta, w.begin, w.end, read_emit, &w));
    ff_dist_add(&s->row[r], &w.counts, s->weight[i * s->n + j]);
    return FF_OK;
}

static ff_status study_rank(const study *s, int r, const reader *rd)
{
    for (int i = 0; i < s->n; i++) s->row[r].points += s->cut[i][r + 1] - s->cut[i][r];
    for (int j = 0; j < s->n; j++) {
        size_t n_nodes = (size_t)s->let[j]->tree->n_nodes;
        memset(rd->node_used[j], 0, n_nodes);
        memset(rd->leaf_used[j], 0, n_nodes);
        for (int i = 0; i < s->n; i++)
            if (s->need[i * s->n + j]) FF_TRY(read_pair(s, r, i, j, rd));
        count_rows(s, r, j, rd);
    }
    return FF_OK;
}

/* ---- all ranks ---- */

static void reader_destroy(const study *s, reader *rd)
{
    for (int j = 0; j < s->n; j++) {
        if (rd->node_used != NULL) ff_free(rd->node_used[j]);
        if (rd->leaf_used != NULL) ff_free(rd->leaf_used[j]);
    }
    ff_free(rd->node_used);
    ff_free(rd->leaf_used);
}

static ff_status reader_create(const study *s, reader *rd)
{
    FF_TRY(FF_NEW0(rd->node_used, s->n));
    FF_TRY(FF_NEW0(rd->leaf_used, s->n));
    for (int j = 0; j < s->n; j++) {
        FF_TRY(FF_NEW(rd->node_used[j], s->let[j]->tree->n_nodes));
        FF_TRY(FF_NEW(rd->leaf_used[j], s->let[j]->tree->n_nodes));
    }
    return FF_OK;
}

static ff_status study_ranks(const study *s)
{
    ff_status all = FF_OK;
#pragma omp parallel
    {
        reader rd = {NULL, NULL};
        ff_status st = reader_create(s, &rd);
#pragma omp for schedule(dynamic)
        for (int r = 0; r < s->n_ranks; r++)
            if (st == FF_OK) st = study_rank(s, r, &rd);
        reader_destroy(s, &rd);
        if (st != FF_OK) {
#pragma omp critical(ff_study)
            all = st;
        }
    }
    return all;
}

static void count_peers(const study *s)
{
    size_t n = (size_t)s->n_ranks;
    for (size_t r = 0; r < n; r++)
        for (size_t q = 0; q < n; q++) s->row[r].peers += s->from[r * n + q] | s->from[q * n + r];
}

static ff_status check_study(const study *s)
{
    if (s->n_ranks < 1) return ff_fail(FF_E_ARG, "ranks = %d, expected >= 1", s->n_ranks);
    for (int i = 0; i < s->n; i++)
        if (s->let[i]->tree->n_held != s->let[i]->cloud->n)
            return ff_fail(FF_E_ARG,
                           "a study needs complete trees: %lld of %lld points are here; run it on one rank",
                           (long long)s->let[i]->tree->n_held, (long long)s->let[i]->cloud->n);
    return FF_OK;
}

ff_status ff_dist_study(ff_let *const *lets, int n_clouds, const uint8_t *need, const int64_t *weight,
                        double theta, bool expand_far, int n_ranks, ff_dist_row *rows)
{
    ff_status st = FF_OK;
    study s = {.let = lets,
               .n = n_clouds,
               .n_ranks = n_ranks,
               .need = need,
               .weight = weight,
               .theta = theta,
               .expand_far = expand_far,
               .row = rows};
    FF_TRY(check_study(&s));
    memset(rows, 0, (size_t)n_ranks * sizeof *rows);
    FF_GO(prepare(&s));
    FF_GO(study_ranks(&s));
    count_peers(&s);
done:
    for (int i = 0; i < n_clouds; i++) {
        if (s.cut != NULL) ff_free(s.cut[i]);
        if (s.below != NULL) ff_free(s.below[i]);
    }
    ff_free(s.cut);
    ff_free(s.below);
    ff_free(s.from);
    return st;
}
