/* The adjoint of pair sums on the GPU: against the CPU's adjoint in float64 for every shape and precision, equal bits of
 * two runs, and bits that do not depend on what other units share the launch. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define GLOBE_REFERENCE_UNEVEN 1
#include "adj_case.h"
#include "ff_cuda.h"
#include "ff_gpu_test.h"

/* As tests/unit/test_adj_tile.c states them; the device's SiLU of TF32 and bf16 adds 2^-22. */
static const double tolerance[3] = {1e-5, 3e-2, 1.5e-1};
static const char *const mode[3] = {"f32", "tf32", "bf16"};

static bool same_bytes(const void *a, const void *b, int64_t n)
{
    return memcmp(a, b, (size_t)n * sizeof(int64_t)) == 0;
}

static bool same(const adj_case *q, const adj_result *a, const adj_result *b)
{
    int64_t n = q->lists->n_slot, dim = q->f.s.dim;
    return same_bytes(a->rows, b->rows, n * ff_adj_row_len(&q->v)) &&
           same_bytes(a->raw_bar, b->raw_bar, n * q->f.n_src) &&
           same_bytes(a->strength_bar, b->strength_bar, n) && same_bytes(a->x_bar, b->x_bar, n * dim) &&
           same_bytes(a->grad, b->grad, 2 * q->v.grad_len) &&
           same_bytes(a->target, b->target, 2 * q->lists->n_target * dim);
}

/* The integer that an entry's words stand for. */
static __int128 sum_of(const int64_t *w)
{
    return ((__int128)w[0] * ((__int128)1 << 48)) + w[1];
}

/* Two samples in one launch: the second's rows are those it has alone, and exact sums are twice the single ones. */
static ff_status joined_same(const ff_pair_backend *b, const adj_case *q, const adj_result *alone, bool *ok)
{
    ff_status st = FF_OK;
    adj_case two = *q;
    adj_result r = {0};
    const ff_adj_lists *part[2] = {q->lists, q->lists};
    int64_t n = q->lists->n_slot, n_t = q->lists->n_target * q->v.n_comp, len = n * ff_adj_row_len(&q->v);
    two.lists = NULL;
    two.src = two.strength = two.out_bar = NULL;
    FF_GO(ff_adj_lists_join(0, NULL, part, 2, &two.lists));
    FF_GO(FF_NEW(two.src, 2 * n * q->f.n_src + 1));
    FF_GO(FF_NEW(two.strength, 2 * n));
    FF_GO(FF_NEW(two.out_bar, 2 * n_t));
    for (int k = 0; k < 2; k++) {
        memcpy(two.src + k * n * q->f.n_src, q->src, (size_t)(n * q->f.n_src) * sizeof *q->src);
        memcpy(two.strength + k * n, q->strength, (size_t)n * sizeof *q->strength);
        memcpy(two.out_bar + k * n_t, q->out_bar, (size_t)n_t * sizeof *q->out_bar);
    }
    FF_GO(adj_case_run(b, &two, two.lists, &r));
    *ok = same_bytes(r.rows, alone->rows, len) && same_bytes(r.rows + len, alone->rows, len) &&
          same_bytes(r.raw_bar, alone->raw_bar, n * q->f.n_src) &&
          same_bytes(r.raw_bar + n * q->f.n_src, alone->raw_bar, n * q->f.n_src);
    for (int64_t k = 0; k < q->v.grad_len; k++)
        *ok = *ok && sum_of(r.grad + 2 * k) == 2 * sum_of(alone->grad + 2 * k);
done:
    adj_result_close(&r);
    ff_adj_lists_destroy(&two.lists);
    ff_free(two.src);
    ff_free(two.strength);
    ff_free(two.out_bar);
    return st;
}

/* With `bytes` of device memory while the lists are made and `rest` afterwards. */
static ff_status run_within(ff_pair_backend *b, const adj_case *q, int64_t bytes, int64_t rest, adj_result *r)
{
    ff_status st = FF_OK;
    ff_adj_job *job = NULL;
    memset(r, 0, sizeof *r);
    ff_cuda_backend_set_budget(b, bytes);
    FF_GO(b->adjoint->job_create(b->impl, q->lists, &job));
    ff_cuda_backend_set_budget(b, rest);
    FF_GO(adj_case_run_job(b, q, q->lists, job, r));
done:
    if (job != NULL) b->adjoint->job_destroy(b->impl, &job);
    return st;
}

/* Less and less device memory, until it does not suffice. lists false: for everything, so that chunks are smaller, several of
 * them are beside each other and sources come in several spans; true: for the lists alone, which then do not stay on the
 * device. How many budgets sufficed; -1: other bits, or another failure. */
static int budgets_same(ff_pair_backend *b, const adj_case *q, const adj_result *whole, bool lists)
{
    int n = 0;
    bool equal = true;
    ff_status st = FF_OK;
    int64_t before = ff_cuda_backend_budget(b);
    for (int64_t bytes = lists ? 1 << 20 : 64 << 20; st == FF_OK && equal; bytes = bytes / 4 * 3) {
        adj_result r;
        st = run_within(b, q, bytes, lists ? before : bytes, &r);
        if (st == FF_OK) equal = same(q, &r, whole);
        n += st == FF_OK;
        adj_result_close(&r);
    }
    ff_cuda_backend_set_budget(b, before);
    if (st == FF_E_MEM) ff_error_clear();
    return equal && st == FF_E_MEM ? n : -1;
}

static int run_case(int row, int prec, int units, int most)
{
    ff_pair_backend *b = NULL;
    adj_case q;
    adj_result a = {0}, again = {0};
    bool equal = false, joined = false;
    int budgets = 0, streamed = 0;
    double err = HUGE_VAL;
    ff_status st = adj_case_open(&q, row, units, most);
    if (st == FF_OK) st = ff_cuda_backend_create(0, (ff_cuda_precision)prec, &b);
    if (st == FF_OK) st = adj_case_run(b, &q, q.lists, &a);
    if (st == FF_OK) st = adj_case_run(b, &q, q.lists, &again);
    if (st == FF_OK) st = joined_same(b, &q, &a, &joined);
    if (st == FF_OK) budgets = budgets_same(b, &q, &a, false);
    if (st == FF_OK) streamed = budgets_same(b, &q, &a, true);
    if (st == FF_OK) {
        equal = same(&q, &a, &again);
        err = adj_case_error(&q, &a, tolerance[prec]);
    }
    bool ok =
        st == FF_OK && err <= tolerance[prec] && equal && joined && budgets > 0 && streamed > 0 && !a.bad;
    printf("%-32s %-4s %5lld pairs: error %.2e, used %.2f of %.1e; %s; %s; %d and %d budgets alike%s%s\n",
           table[row].name, mode[prec], (long long)(st == FF_OK ? q.lists->pairs : 0), err,
           err / tolerance[prec], tolerance[prec], equal ? "equal runs" : "RUNS DIFFER",
           joined ? "joined alike" : "JOINED DIFFER", budgets, streamed, ok ? "; ok" : "; FAILED ",
           st == FF_OK ? "" : ff_error_text());
    adj_result_close(&a);
    adj_result_close(&again);
    ff_cuda_backend_destroy(&b);
    adj_case_close(&q);
    return !ok;
}

int main(int argc, char **argv)
{
    int bad = 0;
    ff_gpu_or_skip(1);
    if (ff_gpu_asks_cases(argc, argv)) return ff_gpu_print_cases(N_ROW, 3), 0;
    int only = ff_gpu_pick(argc, argv, 2), only_prec = ff_gpu_pick(argc, argv, 3);
    bool small = ff_gpu_small(argc, argv);
    printf("seed %d\n", (int)SEED);
    for (int row = 0; row < N_ROW; row++) {
        bool wide = table[row].hidden[0] >= 256;
        if (only < 0 ? small && row % 3 != 0 : only != row) continue;
        for (int prec = FF_ADJ_F32; prec <= FF_ADJ_BF16; prec++)
            if (only_prec < 0 || only_prec == prec)
                bad += run_case(row, prec, small ? 2 : wide ? 6 : 12, small ? 6 : wide ? 40 : 120);
    }
    /* A unit of more than one block of pairs: FF_ADJ_BLOCK groups and more. */
    if (!small) bad += run_case(1, FF_ADJ_F32, 2, 700);
    /* Wide kernels: many tiles, some of them not full, and units of several blocks. */
    if (!small) bad += run_case(2, FF_ADJ_BF16, 3, 500);
    printf("%s\n", bad == 0 ? "all cases within tolerance" : "some cases failed");
    return bad != 0;
}
