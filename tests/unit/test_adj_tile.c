/* The text of the device's pair adjoint, run on the host lane by lane: against the CPU's adjoint in float64 for every
 * precision and shape, for the same bits whatever the chunks, and on 99 KiB of shared memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "adj_case.h"
#include "ff_adj_backend.h"

enum { SMALL_SHARED = 99 * 1024 };

/* All pairs in chunks of n_blocks blocks; what belongs to sources stays zero. */
static void run(const adj_case *q, const ff_adj_cfg *c, int64_t n_blocks, adj_result *r)
{
    int bad = 0;
    uint32_t *image = ff_mem_alloc0((size_t)c->image_words, sizeof *image);
    float *bias = ff_mem_alloc0((size_t)c->n_bias, sizeof *bias);
    adj_io io = {.rec = q->rec, .strength = q->strength, .out_bar = q->out_bar};
    ff_adj_pack(&q->v, c, image, bias);
    io.image = image;
    io.bias = bias;
    io.target_words = r->target;
    io.grad = r->grad;
    io.bad = &bad;
    ff_adj_job *job = NULL;
    assert_int_equal(ab_job_create(NULL, q->lists, &job), FF_OK);
    assert_int_equal(ab_chunks(job, c, n_blocks, &io, r->rows), FF_OK);
    ab_job_destroy(NULL, &job);
    ff_free(image);
    ff_free(bias);
}

/* float32: rounding of 24 bits amplified by networks of gain 1.6 a layer (the CPU's float32 stays below 5e-5 of each
 * array in the same table). TF32 and bf16: operands of 11 and 8 bits, each layer adds about 2^-12 and 2^-9 forward and
 * again backward; sums of some 100 pairs average little of it away. */
static const double tolerance[3] = {1e-5, 3e-2, 1.5e-1};
static const char *const mode[3] = {"f32", "tf32", "bf16"};

static int most_pairs(int row)
{
    return table[row].hidden[0] >= 256 ? 12 : 40;
}

static void tile_matches_the_cpu(void **state)
{
    (void)state;
    printf("seed %d\n", (int)SEED);
    for (int row = 0; row < N_ROW; row++) {
        adj_case q;
        assert_int_equal(adj_case_open(&q, row, 3, most_pairs(row)), FF_OK);
        for (int prec = FF_ADJ_F32; prec <= FF_ADJ_BF16; prec++) {
            ff_adj_cfg c;
            adj_result r;
            ff_pair_backend b = ab_backend(&prec);
            assert_int_equal(ff_adj_plan(&q.v, prec, AB_SHARED, &c), FF_OK);
            assert_int_equal(adj_case_run(&b, &q, q.lists, &r), FF_OK);
            double err = adj_case_error(&q, &r, tolerance[prec]);
            printf("%-32s %-4s %d x %d warps, %d pairs, %d bytes: error %.2e, used %.2f of %.0e\n",
                   table[row].name, mode[prec], c.wr, c.wc, c.rows, c.smem, err, err / tolerance[prec],
                   tolerance[prec]);
            assert_true(err <= tolerance[prec]);
            assert_false(r.bad);
            adj_result_close(&r);
        }
        adj_case_close(&q);
    }
}

/* Other chunks and other tiles: the same pairs in other places. */
static void bits_do_not_depend_on_chunks_and_tiles(void **state)
{
    (void)state;
    for (int row = 0; row < N_ROW; row++) {
        adj_case q;
        if (table[row].hidden[0] > 64) continue;
        assert_int_equal(adj_case_open(&q, row, 3, 60), FF_OK);
        for (int prec = FF_ADJ_F32; prec <= FF_ADJ_BF16; prec++) {
            ff_adj_cfg c, small;
            adj_result a, b;
            assert_int_equal(ff_adj_plan(&q.v, prec, AB_SHARED, &c), FF_OK);
            assert_int_equal(ff_adj_plan(&q.v, prec, SMALL_SHARED, &small), FF_OK);
            assert_int_equal(adj_result_open(&q, q.lists, &a), FF_OK);
            assert_int_equal(adj_result_open(&q, q.lists, &b), FF_OK);
            run(&q, &c, 3, &a);
            run(&q, &small, 1, &b);
            assert_memory_equal(a.rows, b.rows, (size_t)(q.lists->n_slot * c.row_len) * sizeof *a.rows);
            assert_memory_equal(a.grad, b.grad, (size_t)(2 * c.grad_len) * sizeof *a.grad);
            assert_memory_equal(a.target, b.target,
                                (size_t)(2 * q.lists->n_target * c.dim) * sizeof *a.target);
            adj_result_close(&a);
            adj_result_close(&b);
        }
        adj_case_close(&q);
    }
}

/* Random sums of groups: slots of 0 to 700 groups, units of up to 6 slots, list blocks of up to FF_ADJ_BLOCK groups. */
enum { ROW_UNITS = 40, ROW_SLOTS = 6 * ROW_UNITS, ROW_COLS = 3, ROW_GROUPS = 700 * ROW_SLOTS };
typedef struct row_case {
    int64_t n_slot, n_group, n_block, group_off[ROW_SLOTS + 1], block_off[ROW_GROUPS + 1];
    int32_t group_slot[ROW_GROUPS];
    float group_rows[ROW_GROUPS * ROW_COLS];
} row_case;

static void row_case_fill(row_case *q)
{
    memset(q, 0, sizeof *q);
    for (int unit = 0; unit < ROW_UNITS; unit++) {
        int64_t first = q->n_group;
        for (int s = 0; s <= unit % 6; s++) {
            double x = ff_rng_uniform(SEED, 920, (uint64_t)q->n_slot);
            int64_t n = s % 3 == 1 ? (int64_t)(700 * x) : (int64_t)(20 * x); /* some have none */
            for (int64_t k = 0; k < n; k++) q->group_slot[q->n_group++] = (int32_t)q->n_slot;
            q->group_off[++q->n_slot] = q->n_group;
        }
        for (int64_t g = first; g < q->n_group; g += FF_ADJ_BLOCK)
            q->block_off[++q->n_block] = g + FF_ADJ_BLOCK < q->n_group ? g + FF_ADJ_BLOCK : q->n_group;
    }
    for (int64_t k = 0; k < q->n_group * ROW_COLS; k++)
        q->group_rows[k] = (float)adj_draw(SEED, 921, (uint64_t)k);
}

/* In chunks of n blocks; edges hold NaN before. */
static void row_case_run(const row_case *q, int64_t n, double *rows)
{
    ff_adj_cfg c = {.row_len = ROW_COLS};
    double *edge = ff_mem_alloc((size_t)(2 * n * ROW_COLS), sizeof *edge);
    for (int64_t b0 = 0; b0 < q->n_block; b0 += n) {
        int64_t b1 = b0 + n < q->n_block ? b0 + n : q->n_block;
        adj_io io = {.group_slot = q->group_slot, .group_begin = q->block_off[b0]};
        io.group_rows = (float *)q->group_rows + io.group_begin * ROW_COLS;
        memset(edge, 0xff, (size_t)(2 * n * ROW_COLS) * sizeof *edge);
        for (int64_t b = b0; b < b1; b++)
            for (int k = 0; k < ROW_COLS; k++)
                adj_block_rows(&c, &io, q->group_off, q->block_off[b], q->block_off[b + 1], k,
                               edge + 2 * (b - b0) * ROW_COLS, rows);
        for (int64_t b = b0; b < b1; b++)
            for (int k = 0; k < ROW_COLS; k++)
                adj_edge_rows(&c, &io, q->group_off, q->block_off + b0, (int)(b1 - b0), (int)(b - b0), k,
                              edge, rows);
    }
    ff_free(edge);
}

/* Against plain sums (700 terms below 1: 700 x 2^-53 x 700 / 2 is 2.7e-11), and equal bits in chunks of any size. */
static void rows_are_sums_whatever_the_chunks(void **state)
{
    (void)state;
    static row_case q;
    static double one[ROW_SLOTS * ROW_COLS], many[ROW_SLOTS * ROW_COLS];
    static const int64_t chunk[] = {2, 3, 5, 1000};
    row_case_fill(&q);
    assert_true(q.n_block > 100);
    memset(one, 0, sizeof one);
    row_case_run(&q, 1, one);
    for (int64_t s = 0; s < q.n_slot; s++)
        for (int k = 0; k < ROW_COLS; k++) {
            double sum = 0;
            for (int64_t g = q.group_off[s]; g < q.group_off[s + 1]; g++)
                sum += (double)q.group_rows[g * ROW_COLS + k];
            assert_true(fabs(one[s * ROW_COLS + k] - sum) <= 2.7e-11);
        }
    for (size_t i = 0; i < sizeof chunk / sizeof *chunk; i++) {
        memset(many, 0, sizeof many);
        row_case_run(&q, chunk[i], many);
        assert_memory_equal(one, many, sizeof one);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tile_matches_the_cpu),
        cmocka_unit_test(bits_do_not_depend_on_chunks_and_tiles),
        cmocka_unit_test(rows_are_sums_whatever_the_chunks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
