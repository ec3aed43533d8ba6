/* The cut by work and the figures: against serial counts of complete trees, and against the study of as many
 * ranks on one. */
#include "ff_mpi_test.h"

#include "ff_dtt.h"
#include "ff_let.h"
#include "ff_sets.h"

#include <string.h>

enum { N_SETS = 2 };

typedef struct balance_case {
    ff_set_kind kind[N_SETS];
    int64_t n[N_SETS];
    int dim, leaf_size;
    double theta;
    bool expand;
    uint8_t need[N_SETS * N_SETS];
    int64_t weight[N_SETS * N_SETS];
} balance_case;

static const balance_case cases[] = {
    {{FF_SET_SPHERE, FF_SET_CLUSTERS}, {3000, 1500}, 3, 4, 1.0, true, {1, 1, 1, 1}, {3, 1, 7, 2}},
    {{FF_SET_CLUSTERS, FF_SET_SPHERE}, {4000, 300}, 3, 1, 0.8, false, {1, 0, 1, 0}, {1, 0, 2, 0}},
    {{FF_SET_GRID, FF_SET_PAIRS}, {1000, 0}, 2, 16, 1.0, false, {1, 1, 1, 1}, {1, 1, 1, 1}},
    {{FF_SET_EQUAL, FF_SET_PAIRS}, {700, 500}, 2, 64, 1.0, true, {1, 1, 0, 0}, {5, 4, 0, 0}},
    {{FF_SET_SPHERE, FF_SET_SPHERE}, {3, 40}, 3, 1, 1.0, true, {1, 1, 1, 1}, {1, 1, 1, 1}},
    {{FF_SET_SPHERE, FF_SET_SPHERE}, {0, 0}, 3, 1, 1.0, true, {1, 1, 1, 1}, {1, 1, 1, 1}},
};

/* One set on any communicator; the points of rank r of size. */
static ff_cloud *make_cloud(ff_mt *t, ff_comm *comm, const balance_case *c, int k)
{
    ff_cloud *cloud = NULL;
    int rank = ff_comm_rank(comm), size = ff_comm_size(comm);
    int64_t begin = ff_set_home(c->n[k], size, rank, 3), end = ff_set_home(c->n[k], size, rank + 1, 3);
    float *x = ff_mem_alloc((size_t)((end - begin) * c->dim), sizeof *x);
    ff_set_fill(c->kind[k], begin, end - begin, c->dim, x);
    FF_EXPECT_OK(t, ff_cloud_create(comm, x, end - begin, c->dim, c->leaf_size, &cloud));
    ff_free(x);
    return cloud;
}

/* Work of a block as target of all sources: the counts of its own range. */
static int64_t block_work(ff_mt *t, const balance_case *c, ff_let *const *full, int i,
                          const ff_subtree *block)
{
    int64_t work = 0;
    for (int j = 0; j < N_SETS; j++) {
        ff_dtt_counts n;
        if (!c->need[i * N_SETS + j]) continue;
        FF_EXPECT_OK(t, ff_dtt_count_range(full[i]->tree, full[j]->tree, c->theta, c->expand, block->start,
                                           block->start + block->count, &n, NULL, 0, NULL));
        work += c->weight[i * N_SETS + j] * (n.near_near + n.near_far + n.far_near + n.far_far);
    }
    return work;
}

/* The cut that follows from the work of all blocks, counted one by one on complete trees. */
static void check_cut(ff_mt *t, const balance_case *c, ff_let *const *full, const ff_cloud *cloud, int i)
{
    ff_subtree *block = NULL;
    int64_t n_blocks = 0, want[64];
    FF_EXPECT_OK(t, ff_topo_blocks(cloud->n, c->leaf_size, FF_BLOCK_POINTS, &block, &n_blocks));
    int64_t *work = ff_mem_alloc0((size_t)n_blocks, 8);
    for (int64_t b = 0; b < n_blocks; b++) work[b] = block_work(t, c, full, i, &block[b]);
    int64_t cap = 4 * (cloud->n / t->size + 1) + FF_BLOCK_POINTS + FF_LEAF_MAX;
    FF_EXPECT_OK(t, ff_cut_by_work(block, n_blocks, work, t->size, cap, want));
    if (t->size > 1)
        FF_EXPECT(t, memcmp(want, cloud->cut, (size_t)(t->size + 1) * sizeof *want) == 0,
                  "set %d: the cut is not that of the serial work", i);
    ff_free(block), ff_free(work);
}

static void sum_rows(ff_mt *t, const ff_dist_row *mine, ff_dist_row *sum)
{
    int64_t v[9] = {mine->points,      mine->near_pairs, mine->far_evals,   mine->peers, mine->send_nodes,
                    mine->send_points, mine->recv_nodes, mine->recv_points, mine->work};
    FF_EXPECT_OK(t, ff_comm_allreduce(t->world, v, 9, FF_SUM_I64));
    *sum = (ff_dist_row){v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8]};
}

static void check_figures(ff_mt *t, const balance_case *c, ff_let *const *full, ff_let *const *lets,
                          int number)
{
    ff_dist_row mine = {0}, sum, *study = ff_mem_alloc0((size_t)t->size, sizeof *study);
    ff_dtt_counts total = {0};
    int64_t work = 0, evals;
    FF_EXPECT_OK(t, ff_let_figures(lets, N_SETS, c->need, c->weight, c->theta, c->expand, &mine));
    sum_rows(t, &mine, &sum);
    for (int p = 0; p < N_SETS * N_SETS; p++) {
        ff_dtt_counts one;
        if (!c->need[p]) continue;
        FF_EXPECT_OK(t, ff_dtt_count_range(full[p / N_SETS]->tree, full[p % N_SETS]->tree, c->theta,
                                           c->expand, 0, c->n[p / N_SETS], &one, NULL, 0, NULL));
        ff_dtt_counts_add(&total, &one);
        work += c->weight[p] * (one.near_near + one.near_far + one.far_near + one.far_far);
    }
    evals = total.near_far + total.far_near + total.far_far;
    FF_EXPECT(t, sum.points == c->n[0] + c->n[1], "case %d: %lld points", number, (long long)sum.points);
    FF_EXPECT(t, sum.near_pairs == total.near_near && sum.far_evals == evals && sum.work == work,
              "case %d: pairs %lld %lld work %lld, serial %lld %lld %lld", number, (long long)sum.near_pairs,
              (long long)sum.far_evals, (long long)sum.work, (long long)total.near_near, (long long)evals,
              (long long)work);
    FF_EXPECT(t, sum.send_nodes == sum.recv_nodes && sum.send_points == sum.recv_points,
              "case %d: sent and received rows differ", number);
    FF_EXPECT_OK(t, ff_dist_study(full, N_SETS, c->need, c->weight, c->theta, c->expand, t->size, study));
    if (t->size > 1)
        FF_EXPECT(t, memcmp(&study[t->rank], &mine, sizeof mine) == 0,
                  "case %d: study says %lld points, %lld peers, nodes %lld %lld, points %lld %lld, work "
                  "%lld; run %lld, "
                  "%lld, %lld %lld, %lld %lld, %lld",
                  number, (long long)study[t->rank].points, (long long)study[t->rank].peers,
                  (long long)study[t->rank].send_nodes, (long long)study[t->rank].recv_nodes,
                  (long long)study[t->rank].send_points, (long long)study[t->rank].recv_points,
                  (long long)study[t->rank].work, (long long)mine.points, (long long)mine.peers,
                  (long long)mine.send_nodes, (long long)mine.recv_nodes, (long long)mine.send_points,
                  (long long)mine.recv_points, (long long)mine.work);
    ff_free(study);
}

static void try_case(ff_mt *t, const balance_case *c, int number)
{
    ff_cloud *cloud[N_SETS] = {NULL}, *alone[N_SETS] = {NULL};
    ff_let *lets[N_SETS] = {NULL}, *full[N_SETS] = {NULL};
    for (int k = 0; k < N_SETS; k++) {
        cloud[k] = make_cloud(t, t->world, c, k);
        alone[k] = make_cloud(t, ff_comm_self(), c, k);
    }
    if (ff_mt_good(t)) FF_EXPECT_OK(t, ff_let_build(alone, N_SETS, c->need, c->theta, full));
    if (ff_mt_good(t))
        FF_EXPECT_OK(t, ff_let_balance(cloud, N_SETS, c->need, c->weight, c->theta, c->expand));
    if (ff_mt_good(t)) FF_EXPECT_OK(t, ff_let_build(cloud, N_SETS, c->need, c->theta, lets));
    if (ff_mt_good(t)) {
        for (int k = 0; k < N_SETS; k++) check_cut(t, c, full, cloud[k], k);
        for (int p = 0; p < N_SETS * N_SETS; p++)
            if (c->need[p])
                FF_EXPECT_OK(
                    t, ff_let_mark(lets[p / N_SETS], lets[p % N_SETS], c->theta, c->expand, NULL, 0, NULL));
        for (int k = 0; k < N_SETS; k++) FF_EXPECT_OK(t, ff_let_finish(lets[k]));
        if (ff_mt_good(t)) check_figures(t, c, full, lets, number);
    }
    for (int k = 0; k < N_SETS; k++) {
        ff_let_destroy(&lets[k]), ff_let_destroy(&full[k]);
        ff_cloud_destroy(&cloud[k]), ff_cloud_destroy(&alone[k]);
    }
}

static void cut_and_figures_are_the_serial_ones(void **state)
{
    ff_mt *t = *state;
    if (t->rank == 0) printf("seed %d\n", (int)FF_SET_SEED);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) try_case(t, &cases[k], (int)k);
    ff_mt_verdict(t);
}

/* Two clusters of very different density: an equal count of points is no equal work. */
static void work_is_even(void **state)
{
    ff_mt *t = *state;
    balance_case c = {.kind = {FF_SET_CLUSTERS}, .n = {20000}, .dim = 3, .leaf_size = 1, .theta = 1.0};
    uint8_t need = 1;
    int64_t weight = 1;
    ff_dist_row row[2] = {{0}, {0}};
    ff_cloud *cloud = make_cloud(t, t->world, &c, 0);
    for (int pass = 0; pass < 2; pass++) {
        ff_let *let = NULL;
        if (pass == 1) FF_EXPECT_OK(t, ff_let_balance(&cloud, 1, &need, &weight, 1.0, true));
        FF_EXPECT_OK(t, ff_let_build(&cloud, 1, &need, 1.0, &let));
        if (!ff_mt_good(t)) break;
        FF_EXPECT_OK(t, ff_let_figures(&let, 1, &need, &weight, 1.0, true, &row[pass]));
        int64_t sum = row[pass].work, top = row[pass].work;
        FF_EXPECT_OK(t, ff_comm_allreduce(t->world, &sum, 1, FF_SUM_I64));
        FF_EXPECT_OK(t, ff_comm_allreduce(t->world, &top, 1, FF_MAX_I64));
        double imbalance = (double)top * t->size / (double)sum - 1.0;
        if (t->rank == 0)
            printf("%s: imbalance %.2f %%\n", pass == 0 ? "equal count" : "by work", 100.0 * imbalance);
        /* A cut is at most half a block off; a rank has at least 20000 / 7 / 32 = 89 blocks. */
        if (pass == 1) FF_EXPECT(t, imbalance < 0.03, "imbalance %.3f, expected < 0.03", imbalance);
        ff_let_destroy(&let);
    }
    ff_cloud_destroy(&cloud);
    ff_mt_verdict(t);
}

static const struct CMUnitTest tests[] = {
    FF_MT(cut_and_figures_are_the_serial_ones),
    FF_MT(work_is_even),
};
FF_MT_MAIN(tests)
