/* The cut by work, and the figures of a rank. */
#include "ff_let_impl.h"

#include "ff_mem.h"
#include "ff_task.h"

enum { CAP_OF_MEAN = 4 };

ff_status ff_work_blocks(const ff_let *let, ff_subtree **blocks, int64_t *n_blocks)
{
    const ff_cloud *c = let->cloud;
    return ff_topo_blocks(c->n, c->leaf_size, FF_BLOCK_POINTS, blocks, n_blocks);
}

/* One task of the count: blocks [b, n_blocks) are still to come. */
typedef struct work_counter {
    const ff_tree *t, *s;
    bool expand_far;
    int64_t begin, end;
    const ff_subtree *block;
    int64_t n_blocks, b, weight;
    int64_t *work;
} work_counter;

/* Every block that a node meets gets what ff_dtt_count gives to the block's targets, so that blocks add up to the
 * serial count: far pairs of a node above blocks too. */
static ff_status work_emit(void *ctx, const ff_dtt_lists *q)
{
    work_counter *w = ctx;
    int64_t start = w->t->start[q->t], end = start + w->t->count[q->t];
    if (end > w->end) end = w->end;
    if (start < w->begin) start = w->begin; /* does not descend from one node to the next */
    while (w->b < w->n_blocks && w->block[w->b].start + w->block[w->b].count <= start) w->b++;
    for (int64_t b = w->b; b < w->n_blocks && w->block[b].start < end; b++) {
        ff_dtt_counts c = {0};
        ff_dtt_count(w->t, w->s, q, w->expand_far, w->block[b].start, w->block[b].start + w->block[b].count,
                     &c);
        w->work[b] += w->weight * (c.near_near + c.near_far + c.far_near + c.far_far);
    }
    return FF_OK;
}

typedef struct work_job {
    work_counter proto;
    double theta;
} work_job;

/* Tasks are cut at borders of blocks (ff_task_cut), so no two write one block. */
static ff_status work_task(void *ctx, int64_t k, int64_t begin, int64_t end)
{
    (void)k;
    const work_job *job = ctx;
    work_counter w = job->proto;
    w.begin = begin;
    w.end = end;
    int64_t lo = 0, hi = w.n_blocks;
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;
        if (w.block[mid].start < begin)
            lo = mid + 1;
        else
            hi = mid;
    }
    w.b = lo;
    return ff_dtt_walk(w.t, w.s, job->theta, begin, end, work_emit, &w);
}

ff_status ff_work_count(ff_let *const *lets, int n_clouds, int i, const uint8_t *need, const int64_t *weight,
                        double theta, bool expand_far, const ff_subtree *blocks, int64_t n_blocks,
                        int64_t *work)
{
    ff_status st = FF_OK;
    int64_t *task = NULL, n_tasks = 0;
    for (int64_t b = 0; b < n_blocks; b++) work[b] = 0;
    if (n_blocks == 0) return FF_OK;
    int64_t begin = blocks[0].start, end = blocks[n_blocks - 1].start + blocks[n_blocks - 1].count;
    FF_GO(ff_task_cut(lets[i]->tree, begin, end, &task, &n_tasks));
    for (int j = 0; j < n_clouds; j++) {
        if (!need[i * n_clouds + j]) continue;
        FF_GO(ff_dtt_check(lets[i]->tree, lets[j]->tree, theta, begin, end));
        work_job job = {{lets[i]->tree, lets[j]->tree, expand_far, 0, 0, blocks, n_blocks, 0,
                         weight[i * n_clouds + j], work},
                        theta};
        FF_GO(ff_task_run(task, n_tasks, work_task, &job));
    }
done:
    ff_free(task);
    return st;
}

ff_status ff_work_cut(const ff_subtree *blocks, int64_t n_blocks, const int64_t *work, int size, int64_t *cut)
{
    int64_t n = n_blocks > 0 ? blocks[n_blocks - 1].start + blocks[n_blocks - 1].count : 0;
    int64_t cap = CAP_OF_MEAN * (n / size + 1) + FF_BLOCK_POINTS + FF_LEAF_MAX;
    return ff_cut_by_work(blocks, n_blocks, work, size, cap, cut);
}

/* Blocks of one cloud, this rank's among them, and work. */
typedef struct work_table {
    ff_subtree *block;
    int64_t n, own_begin, own_end;
    int64_t *own, *all;
    size_t *bytes; /* [size] */
    int64_t *cut;
} work_table;

static void table_destroy(work_table *w)
{
    ff_free(w->block);
    ff_free(w->own);
    ff_free(w->all);
    ff_free(w->bytes);
    ff_free(w->cut);
}

static ff_status table_start(const ff_let *let, work_table *w)
{
    const ff_cloud *c = let->cloud;
    int size = c->comm->size;
    FF_TRY(ff_work_blocks(let, &w->block, &w->n));
    FF_TRY(FF_NEW0(w->bytes, size));
    FF_TRY(FF_NEW(w->cut, size + 1));
    FF_TRY(FF_NEW(w->all, w->n));
    w->own_begin = w->n;
    for (int64_t b = w->n - 1; b >= 0; b--) {
        int owner = ff_cut_owner(c->cut, size, w->block[b].start);
        w->bytes[owner] += sizeof *w->all;
        if (owner == c->comm->rank) w->own_begin = b;
    }
    w->own_end = w->own_begin + (int64_t)(w->bytes[c->comm->rank] / sizeof *w->all);
    return FF_NEW(w->own, w->own_end - w->own_begin);
}

/* New cuts of all clouds from the lets of the old ones: table[i].cut. */
static ff_status count_and_cut(ff_let *const *lets, int n_clouds, const uint8_t *need, const int64_t *weight,
                               double theta, bool expand_far, work_table *table) /* Collective */
{
    ff_comm *comm = lets[0]->cloud->comm;
    ff_status st = FF_OK;
    for (int i = 0; i < n_clouds && st == FF_OK; i++) {
        work_table *w = &table[i];
        st = table_start(lets[i], w);
        if (st == FF_OK)
            st = ff_work_count(lets, n_clouds, i, need, weight, theta, expand_far, w->block + w->own_begin,
                               w->own_end - w->own_begin, w->own);
    }
    FF_TRY(ff_agree(comm, st));
    for (int i = 0; i < n_clouds; i++)
        FF_TRY(
            ff_comm_allgatherv(comm, table[i].own, table[i].bytes[comm->rank], table[i].all, table[i].bytes));
    for (int i = 0; i < n_clouds && st == FF_OK; i++)
        st = ff_work_cut(table[i].block, table[i].n, table[i].all, comm->size, table[i].cut);
    return ff_agree(comm, st);
}

ff_status ff_let_balance(ff_cloud *const *clouds, int n_clouds, const uint8_t *need, const int64_t *weight,
                         double theta, bool expand_far)
{
    if (n_clouds == 0 || clouds[0]->comm->size == 1) return FF_OK;
    ff_comm *comm = clouds[0]->comm;
    ff_let **lets = NULL;
    work_table *table = NULL;
    ff_status st = FF_NEW0(lets, n_clouds);
    if (st == FF_OK) st = FF_NEW0(table, n_clouds);
    FF_GO(ff_agree(comm, st));
    FF_GO(ff_let_build(clouds, n_clouds, need, theta, lets));
    FF_GO(count_and_cut(lets, n_clouds, need, weight, theta, expand_far, table));
    for (int i = 0; i < n_clouds; i++) ff_let_destroy(&lets[i]);
    for (int i = 0; i < n_clouds; i++) FF_GO(ff_cloud_recut(clouds[i], table[i].cut));
done:
    for (int i = 0; i < n_clouds; i++) {
        if (lets != NULL) ff_let_destroy(&lets[i]);
        if (table != NULL) table_destroy(&table[i]);
    }
    ff_free(lets);
    ff_free(table);
    return st;
}

/* ---- figures ---- */

void ff_dist_add(ff_dist_row *row, const ff_dtt_counts *c, int64_t weight)
{
    int64_t far = c->near_far + c->far_near + c->far_far;
    row->near_pairs += c->near_near;
    row->far_evals += far;
    row->work += weight * (c->near_near + far);
}

ff_status ff_let_figures(ff_let *const *lets, int n_clouds, const uint8_t *need, const int64_t *weight,
                         double theta, bool expand_far, ff_dist_row *row)
{
    ff_status st = FF_OK;
    uint8_t *is_peer = NULL;
    *row = (ff_dist_row){0};
    if (n_clouds == 0) return FF_OK;
    int size = lets[0]->cloud->comm->size, me = lets[0]->cloud->comm->rank;
    FF_GO(FF_NEW0(is_peer, size));
    for (int i = 0; i < n_clouds; i++) {
        const ff_let *let = lets[i];
        const int64_t *cut = let->cloud->cut;
        row->points += let->cloud->n_own;
        for (int p = 0; p < let->n_peers; p++) is_peer[let->peer[p]] = 1;
        if (let->peer != NULL) {
            row->send_nodes += let->send_node_off[let->n_peers];
            row->send_points += let->send_point_off[let->n_peers];
            row->recv_nodes += let->recv_node_off[let->n_peers];
            row->recv_points += let->recv_point_off[let->n_peers];
        }
        for (int j = 0; j < n_clouds; j++) {
            ff_dtt_counts counts;
            if (!need[i * n_clouds + j]) continue;
            FF_GO(ff_dtt_count_range(let->tree, lets[j]->tree, theta, expand_far, cut[me], cut[me + 1],
                                     &counts, NULL, 0, NULL));
            ff_dist_add(row, &counts, weight[i * n_clouds + j]);
        }
    }
    for (int r = 0; r < size; r++) row->peers += is_peer[r];
done:
    ff_free(is_peer);
    return st;
}
