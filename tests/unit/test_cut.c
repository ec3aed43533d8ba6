/* Cuts by work against an exhaustive search, and caps. */
#include "ff_cloud.h"
#include "ff_mem.h"
#include "ff_rng.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

enum { SEED = 42, N_MAX = 400 };

static int64_t blocks_of(int64_t n, ff_subtree **blocks)
{
    int64_t n_blocks = 0;
    assert_int_equal(ff_topo_blocks(n, 1, FF_BLOCK_POINTS, blocks, &n_blocks), FF_OK);
    return n_blocks;
}

static int64_t work_between(const ff_subtree *blocks, int64_t n_blocks, const int64_t *work, int64_t from,
                            int64_t to)
{
    int64_t sum = 0;
    for (int64_t b = 0; b < n_blocks; b++)
        if (blocks[b].start >= from && blocks[b].start < to) sum += work[b];
    return sum;
}

/* The least possible largest work of a rank, by dynamic programming over (ranks, blocks). */
static int64_t best_of_all(const int64_t *work, int64_t n_blocks, int size)
{
    static int64_t best[41][N_MAX + 1];
    for (int64_t b = 0; b <= n_blocks; b++) best[0][b] = b == 0 ? 0 : INT64_MAX;
    for (int r = 1; r <= size; r++)
        for (int64_t b = 0; b <= n_blocks; b++) {
            best[r][b] = INT64_MAX;
            for (int64_t k = b, own = 0; k >= 0; own += k > 0 ? work[k - 1] : 0, k--) {
                int64_t top = best[r - 1][k] > own ? best[r - 1][k] : own;
                if (top < best[r][b]) best[r][b] = top;
            }
        }
    return best[size][n_blocks];
}

/* Work is a density over [0, 1): moved shares even it out, in a few steps where it is not even within runs. */
static void shares_follow_work(void **state)
{
    (void)state;
    enum { SIZE = 5, N = 100000, STEPS = 6 };
    double share[SIZE + 1], next[SIZE + 1];
    int64_t cut[SIZE + 1], work[SIZE] = {0, 0, 0, 0, 0}, most = 0;
    for (int r = 0; r <= SIZE; r++) share[r] = (double)r / SIZE;
    ff_cut_share(SIZE, work, share, next);
    for (int r = 0; r <= SIZE; r++) assert_true(next[r] == share[r]); /* nothing counted */
    for (int step = 0; step <= STEPS; step++) {
        ff_cut_by_share(N, 1, SIZE, share, cut);
        assert_true(cut[0] == 0 && cut[SIZE] == N);
        most = 0;
        for (int r = 0; r < SIZE; r++) { /* density 1 + 8 x^3: the integral is x + 2 x^4 */
            double a = (double)cut[r] / N, b = (double)cut[r + 1] / N;
            assert_true(cut[r] <= cut[r + 1] && ff_topo_border(N, 1, cut[r]) == cut[r]);
            work[r] = (int64_t)(1e9 * (b - a + 2 * (b * b * b * b - a * a * a * a)));
            if (work[r] > most) most = work[r];
        }
        ff_cut_share(SIZE, work, share, next);
        memcpy(share, next, sizeof share);
    }
    printf("imbalance after %d steps %.2f %%\n", STEPS, 100 * ((double)most / 6e8 - 1));
    assert_true((double)most < 1.01 * 6e8); /* blocks of 32 of 20,000 points and a density that varies by 9 */
    /* one rank has it all, another cloud is empty */
    memcpy(work, (int64_t[SIZE]){0, 0, 7, 0, 0}, sizeof work);
    for (int r = 0; r <= SIZE; r++) share[r] = (double)r / SIZE;
    ff_cut_share(SIZE, work, share, next);
    for (int r = 1; r < SIZE; r++) assert_true(next[r] > 0.4 && next[r] < 0.6 && next[r] > next[r - 1]);
    ff_cut_by_share(0, 1, SIZE, next, cut);
    for (int r = 0; r <= SIZE; r++) assert_int_equal(cut[r], 0);
}

static void largest_work_is_the_least_possible(void **state)
{
    (void)state;
    static const int64_t counts[] = {0, 1, 31, 33, 100, 3000};
    printf("seed %d\n", SEED);
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
        for (int size = 1; size < 40; size += 6) {
            ff_subtree *blocks = NULL;
            int64_t n = counts[c], n_blocks = blocks_of(n, &blocks), work[N_MAX], cut[64], top = 0;
            for (int64_t b = 0; b < n_blocks; b++) {
                work[b] = (int64_t)(ff_rng_u64(SEED, c, (uint64_t)b) % 1000);
                if (b == 3 && size % 4 == 1) work[b] = 100000; /* one block outweighs several shares */
            }
            if (n_blocks > 0) work[0] = 500;
            assert_int_equal(ff_cut_by_work(blocks, n_blocks, work, size, 0, cut), FF_OK);
            assert_true(cut[0] == 0 && cut[size] == n);
            for (int r = 0; r < size; r++) {
                int64_t own = work_between(blocks, n_blocks, work, cut[r], cut[r + 1]);
                assert_true(cut[r] <= cut[r + 1] && ff_topo_border(n, 1, cut[r]) == cut[r]);
                top = own > top ? own : top;
            }
            assert_true(top == best_of_all(work, n_blocks, size));
            ff_free(blocks);
        }
}

/* Where nearest borders do not raise the largest work, they are taken: even work, and one heavy end. */
static void cut_is_at_the_nearest_border(void **state)
{
    (void)state;
    ff_subtree *blocks = NULL;
    int64_t n = 64 * 32, n_blocks = blocks_of(n, &blocks), work[N_MAX], cut[4];
    assert_true(n_blocks == 64);
    for (int64_t b = 0; b < n_blocks; b++) work[b] = 10;
    work[63] = 1000; /* total 1630: shares end at 543 and 1086; rank 2 has the heavy block at best alone */
    assert_int_equal(ff_cut_by_work(blocks, n_blocks, work, 3, 0, cut), FF_OK);
    assert_true(cut[1] == 54 * 32 && cut[2] == 63 * 32 && cut[3] == n);
    ff_free(blocks);
}

static void no_work_means_points(void **state)
{
    (void)state;
    ff_subtree *blocks = NULL;
    int64_t n = 4096, n_blocks = blocks_of(n, &blocks), work[N_MAX] = {0}, cut[9];
    assert_int_equal(ff_cut_by_work(blocks, n_blocks, work, 8, 0, cut), FF_OK);
    for (int r = 0; r <= 8; r++) assert_true(cut[r] == 512 * r);
    ff_free(blocks);
}

static void cap_is_kept(void **state)
{
    (void)state;
    ff_subtree *blocks = NULL;
    int64_t n = 5000, n_blocks = blocks_of(n, &blocks), work[N_MAX], cut[64];
    for (int reversed = 0; reversed < 2; reversed++)
        for (int64_t cap = 800; cap < 5200; cap += 300) {
            for (int64_t b = 0; b < n_blocks; b++) work[b] = (b < n_blocks / 2) != reversed ? 1000 : 1;
            assert_int_equal(ff_cut_by_work(blocks, n_blocks, work, 7, cap, cut), FF_OK);
            assert_true(cut[0] == 0 && cut[7] == n);
            for (int r = 0; r < 7; r++) {
                assert_true(cut[r] <= cut[r + 1] && cut[r + 1] - cut[r] <= cap);
                assert_true(ff_topo_border(n, 1, cut[r]) == cut[r]);
            }
        }
    ff_free(blocks);
}

static void what_cannot_be_met_is_refused(void **state)
{
    (void)state;
    ff_subtree *blocks = NULL;
    int64_t n = 5000, n_blocks = blocks_of(n, &blocks), work[N_MAX] = {0}, cut[64];
    assert_int_equal(ff_cut_by_work(blocks, n_blocks, work, 7, 700, cut), FF_E_MEM); /* 7 x 700 < 5000 */
    assert_non_null(strstr(ff_error_text(), "use more ranks"));
    ff_error_clear();
    assert_int_equal(ff_cut_by_work(blocks, n_blocks, work, 7, 3, cut), FF_E_MEM); /* less than a block */
    work[5] = -1;
    assert_int_equal(ff_cut_by_work(blocks, n_blocks, work, 7, 0, cut), FF_E_ARG);
    work[5] = INT64_MAX, work[6] = 1;
    assert_int_equal(ff_cut_by_work(blocks, n_blocks, work, 7, 0, cut), FF_E_ARG);
    ff_free(blocks);
    ff_error_clear();
}

static void owners(void **state)
{
    (void)state;
    const int64_t cut[] = {0, 0, 3, 3, 3, 8, 9, 9};
    const int want[] = {1, 1, 1, 4, 4, 4, 4, 4, 5};
    for (int64_t pos = 0; pos < 9; pos++) assert_int_equal(ff_cut_owner(cut, 7, pos), want[pos]);
}

static void count_cut_covers_any_size(void **state)
{
    (void)state;
    for (int64_t n = 0; n < 200; n += 7)
        for (int size = 1; size < 50; size += 6) {
            int64_t cut[64];
            ff_cut_by_count(n, 4, size, cut);
            assert_true(cut[0] == 0 && cut[size] == n);
            for (int r = 0; r < size; r++) {
                int64_t even = n * (r + 1) / size;
                assert_true(cut[r] <= cut[r + 1]);
                assert_true(cut[r + 1] <= even && even - cut[r + 1] < FF_BLOCK_POINTS);
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_follow_work),
        cmocka_unit_test(largest_work_is_the_least_possible),
        cmocka_unit_test(cut_is_at_the_nearest_border),
        cmocka_unit_test(no_work_means_points),
        cmocka_unit_test(cap_is_kept),
        cmocka_unit_test(what_cannot_be_met_is_refused),
        cmocka_unit_test(owners),
        cmocka_unit_test(count_cut_covers_any_size),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed != 0 || ff_mem_blocks() != 0;
}
