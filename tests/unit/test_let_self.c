/* The let on one rank is the complete tree; the study of hypothetical ranks adds up to the serial figures. */
#include "ff_dtt.h"
#include "ff_let.h"
#include "ff_mem.h"
#include "ff_sets.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

static void make(ff_set_kind kind, int64_t n, int dim, int leaf, ff_cloud **cloud, ff_tree **tree)
{
    float *x = ff_mem_alloc((size_t)(n * dim), sizeof *x);
    assert_non_null(x);
    ff_set_fill(kind, 0, n, dim, x);
    assert_int_equal(ff_cloud_create(ff_comm_self(), x, n, dim, leaf, cloud), FF_OK);
    if (tree != NULL) assert_int_equal(ff_tree_build(x, n, dim, leaf, NULL, tree), FF_OK);
    ff_free(x);
}

static void same_tree(const ff_tree *a, const ff_tree *b)
{
    size_t n = (size_t)b->n_nodes, held = (size_t)b->n_held;
    assert_int_equal(a->n_nodes, b->n_nodes);
    assert_int_equal(a->n_held, b->n_held);
    if (n == 0) return;
    assert_memory_equal(a->node, b->node, n * sizeof *a->node);
    assert_memory_equal(a->id, b->id, n * sizeof *a->id);
    assert_memory_equal(a->start, b->start, n * sizeof *a->start);
    assert_memory_equal(a->count, b->count, n * sizeof *a->count);
    assert_memory_equal(a->first, b->first, n * sizeof *a->first);
    assert_memory_equal(a->x, b->x, held * (size_t)b->dim * sizeof *a->x);
    assert_memory_equal(a->pos, b->pos, held * sizeof *a->pos);
}

/* Bottoms cover the points once, in order, and are nodes of the tree. */
static void check_bottoms(const ff_let *let)
{
    int64_t at = 0;
    for (int64_t b = 0; b < let->n_bottom; b++) {
        int32_t i = let->bottom_node[b];
        assert_true(let->bottom[b].start == at && let->tree->id[i] == let->bottom[b].id);
        assert_true(let->tree->count[i] == let->bottom[b].count && let->bottom_owner[b] == 0);
        at += let->bottom[b].count;
    }
    assert_true(at == let->cloud->n && let->own_bottom_begin == 0 && let->own_bottom_end == let->n_bottom);
}

static void one_rank_holds_the_complete_tree(void **state)
{
    (void)state;
    static const int64_t counts[] = {0, 1, 5, 64, 65, 3000, 40000};
    printf("seed %d\n", (int)FF_SET_SEED);
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
        int dim = k % 2 == 0 ? 3 : 2, leaf = k % 3 == 0 ? 1 : 6;
        ff_cloud *cloud = NULL;
        ff_tree *tree = NULL;
        ff_let *let = NULL;
        uint8_t need = 1;
        make(FF_SET_SPHERE, counts[k], dim, leaf, &cloud, &tree);
        assert_int_equal(ff_let_build(&cloud, 1, &need, 1.0, &let), FF_OK);
        same_tree(let->tree, tree);
        check_bottoms(let);
        assert_int_equal(let->own_first, 0);
        ff_let_destroy(&let);
        ff_tree_destroy(&tree);
        ff_cloud_destroy(&cloud);
    }
}

static void nothing_moves_on_one_rank(void **state)
{
    (void)state;
    ff_cloud *cloud = NULL;
    ff_let *let = NULL;
    ff_let_transfer *t = NULL;
    uint8_t need = 1, remote[2] = {0, 0};
    make(FF_SET_CLUSTERS, 500, 3, 4, &cloud, NULL);
    assert_int_equal(ff_let_build(&cloud, 1, &need, 1.0, &let), FF_OK);
    int64_t task[3] = {0, ff_topo_border(500, 4, 250), 500}, used = 0;
    assert_int_equal(ff_let_mark(let, let, 1.0, true, task, 2, remote), FF_OK);
    assert_true(remote[0] == 0 && remote[1] == 0);
    for (int32_t i = 0; i < let->tree->n_nodes; i++) used += let->node_used[i];
    assert_true(used > 0 && let->node_used[0] == 0);
    assert_int_equal(ff_let_finish(let), FF_OK);
    assert_int_equal(let->n_peers, 0);
    int *row = ff_mem_alloc0((size_t)let->tree->n_nodes, sizeof *row),
        *all = ff_mem_alloc0(1000, sizeof *all);
    row[3] = 7;
    assert_int_equal(ff_let_push_begin(let, sizeof *row, row, 0, NULL, &t), FF_OK);
    assert_int_equal(ff_let_push_end(&t), FF_OK);
    assert_true(t == NULL && row[3] == 7 && row[4] == 0);
    assert_int_equal(ff_let_push_end(&t), FF_OK);
    assert_int_equal(ff_let_gather_bottom(let, sizeof *row, row, all), FF_OK);
    assert_memory_equal(all, row, (size_t)let->n_bottom * sizeof *row);
    assert_int_equal(ff_let_finish(let), FF_E_INTERNAL);
    ff_error_clear();
    ff_free(row), ff_free(all);
    ff_let_destroy(&let);
    ff_cloud_destroy(&cloud);
}

static void transports(void **state)
{
    (void)state;
    assert_non_null(ff_transport_find("mpi"));
    assert_string_equal(ff_transport_find("mpi")->name, "mpi");
    assert_null(ff_transport_find("pigeon"));
}

typedef struct total {
    int64_t points, near, far, work, send_nodes, recv_nodes, send_points, recv_points, most_peers, most_work;
} total;

static total add_up(const ff_dist_row *row, int n)
{
    total s = {0};
    for (int r = 0; r < n; r++) {
        s.points += row[r].points;
        s.near += row[r].near_pairs;
        s.far += row[r].far_evals;
        s.work += row[r].work;
        s.send_nodes += row[r].send_nodes;
        s.recv_nodes += row[r].recv_nodes;
        s.send_points += row[r].send_points;
        s.recv_points += row[r].recv_points;
        if (row[r].peers > s.most_peers) s.most_peers = row[r].peers;
        if (row[r].work > s.most_work) s.most_work = row[r].work;
    }
    return s;
}

static void study_adds_up(void **state)
{
    (void)state;
    static const int ranks[] = {1, 2, 7, 64, 300};
    ff_cloud *cloud[2] = {NULL};
    ff_let *let[2] = {NULL};
    const uint8_t need[4] = {1, 0, 1, 0};
    const int64_t weight[4] = {2, 0, 5, 0};
    ff_dtt_counts one[2];
    ff_dist_row row[300], figures;
    make(FF_SET_SPHERE, 6000, 3, 4, &cloud[0], NULL);
    make(FF_SET_GRID, 900, 3, 4, &cloud[1], NULL);
    assert_int_equal(ff_let_build(cloud, 2, need, 1.0, let), FF_OK);
    for (int i = 0; i < 2; i++)
        assert_int_equal(
            ff_dtt_count_range(let[i]->tree, let[0]->tree, 1.0, true, 0, cloud[i]->n, &one[i], NULL, 0, NULL),
            FF_OK);
    int64_t near = one[0].near_near + one[1].near_near, far = 0, work = 0;
    for (int i = 0; i < 2; i++) {
        int64_t f = one[i].near_far + one[i].far_near + one[i].far_far;
        far += f;
        work += weight[2 * i] * (one[i].near_near + f);
    }
    assert_int_equal(ff_let_figures(let, 2, need, weight, 1.0, true, &figures), FF_OK);
    assert_true(figures.points == 6900 && figures.near_pairs == near && figures.far_evals == far);
    assert_true(figures.work == work && figures.peers == 0 && figures.recv_nodes == 0);
    for (size_t k = 0; k < sizeof ranks / sizeof *ranks; k++) {
        int n = ranks[k];
        assert_int_equal(ff_dist_study(let, 2, need, weight, 1.0, true, n, row), FF_OK);
        total s = add_up(row, n);
        assert_true(s.points == 6900 && s.near == near && s.far == far && s.work == work);
        assert_true(s.send_nodes == s.recv_nodes && s.send_points == s.recv_points && s.most_peers < n);
        assert_true(n == 1 ? s.recv_nodes == 0 : s.recv_nodes > 0);
        printf("%3d ranks: imbalance %.1f %%, %.1f peers at most, %lld nodes, %lld points received by all\n",
               n, 100.0 * ((double)s.most_work * n / (double)s.work - 1.0), (double)s.most_peers,
               (long long)s.recv_nodes, (long long)s.recv_points);
    }
    for (int i = 0; i < 2; i++) ff_let_destroy(&let[i]), ff_cloud_destroy(&cloud[i]);
}

static void bad_arguments(void **state)
{
    (void)state;
    ff_cloud *cloud = NULL;
    ff_let *let = NULL;
    ff_dist_row row;
    uint8_t need = 1;
    int64_t weight = 1;
    make(FF_SET_SPHERE, 50, 3, 4, &cloud, NULL);
    assert_int_equal(ff_let_build(&cloud, 1, &need, -0.5, &let), FF_E_ARG);
    assert_null(let);
    assert_non_null(strstr(ff_error_text(), "theta = -0.5"));
    ff_error_clear();
    assert_int_equal(ff_let_build(&cloud, 1, &need, 1.0, &let), FF_OK);
    assert_int_equal(ff_dist_study(&let, 1, &need, &weight, 1.0, true, 0, &row), FF_E_ARG);
    ff_error_clear();
    assert_int_equal(ff_dist_study(&let, 1, &need, &weight, -1.0, true, 1, &row), FF_E_ARG);
    ff_error_clear();
    ff_let_destroy(&let);
    ff_cloud_destroy(&cloud);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank_holds_the_complete_tree),
        cmocka_unit_test(nothing_moves_on_one_rank),
        cmocka_unit_test(transports),
        cmocka_unit_test(study_adds_up),
        cmocka_unit_test(bad_arguments),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed != 0 || ff_mem_blocks() != 0;
}
