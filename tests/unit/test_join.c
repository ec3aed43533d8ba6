/* Samples that meet at the pair adjoint (ff_join.h): each member's results are those it has alone, bit for bit, also where
 * members have different networks and where some leave early. The backend is the device's text on the host. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "adj_case.h"
#include "ff_adj_backend.h"
#include "ff_join.h"

#include <omp.h>

enum { MEMBERS = 5 };

typedef struct result {
    double *rows;
    int64_t *grad;
    ff_status st;
    bool bad;
} result;

/* Two runs of one job, as two layers ask. */
static ff_status run(const ff_pair_backend *b, const adj_case *q, result *r)
{
    ff_status st = FF_OK;
    ff_adj_job *job = NULL;
    ff_adj_args a = {.rec = q->rec, .strength = q->strength, .out_bar = q->out_bar};
    FF_GO(FF_NEW0(r->rows, q->lists->n_slot * ff_adj_row_len(&q->v)));
    FF_GO(FF_NEW0(r->grad, 2 * q->v.grad_len));
    a.rows = r->rows;
    a.grad = r->grad;
    FF_GO(b->adjoint->job_create(b->impl, q->lists, &job));
    for (int k = 0; k < 2; k++) {
        ff_adj_net *net = NULL;
        FF_GO(b->adjoint->net_create(b->impl, &q->v, &net));
        ff_status ran = b->adjoint->run(b->impl, job, net, &a);
        b->adjoint->net_destroy(b->impl, &net);
        FF_GO(ran);
    }
    r->bad = a.bad;
done:
    if (job != NULL) b->adjoint->job_destroy(b->impl, &job);
    return st;
}

static void result_close(result *r)
{
    FF_FREE(r->rows);
    FF_FREE(r->grad);
}

static bool same(const adj_case *q, const result *a, const result *b)
{
    return memcmp(a->rows, b->rows, (size_t)(q->lists->n_slot * ff_adj_row_len(&q->v)) * sizeof *a->rows) ==
               0 &&
           memcmp(a->grad, b->grad, (size_t)(2 * q->v.grad_len) * sizeof *a->grad) == 0;
}

/* Row of the table and units of each member; row -1: leaves without a run. */
static void check(const int row[MEMBERS], const int units[MEMBERS])
{
    int prec = FF_ADJ_F32, threads = 0;
    adj_case q[MEMBERS];
    result alone[MEMBERS], joined[MEMBERS];
    ff_pair_backend b = ab_backend(&prec);
    ff_join *join = NULL;
    memset(alone, 0, sizeof alone);
    memset(joined, 0, sizeof joined);
    for (int k = 0; k < MEMBERS; k++) {
        if (row[k] < 0) continue;
        assert_int_equal(adj_case_open(&q[k], row[k], units[k], 20), FF_OK);
        assert_int_equal(run(&b, &q[k], &alone[k]), FF_OK);
    }
    assert_int_equal(ff_join_create(&b, MEMBERS, &join), FF_OK);
#pragma omp parallel num_threads(MEMBERS)
    {
        int k = omp_get_thread_num();
#pragma omp single
        threads = omp_get_num_threads();
        if (threads == MEMBERS) {
            if (row[k] >= 0) joined[k].st = run(ff_join_member(join, k), &q[k], &joined[k]);
            ff_join_leave(join, k);
        }
    }
    assert_int_equal(threads, MEMBERS);
    ff_join_destroy(&join);
    for (int k = 0; k < MEMBERS; k++) {
        if (row[k] < 0) continue;
        assert_int_equal(joined[k].st, FF_OK);
        assert_false(joined[k].bad);
        assert_true(same(&q[k], &alone[k], &joined[k]));
        result_close(&alone[k]);
        result_close(&joined[k]);
        adj_case_close(&q[k]);
    }
}

static void members_have_what_they_have_alone(void **state)
{
    (void)state;
    check((int[MEMBERS]){0, 0, 0, 0, 0}, (int[MEMBERS]){3, 1, 4, 2, 3});
}

static void networks_may_differ(void **state)
{
    (void)state;
    check((int[MEMBERS]){0, 1, 0, 1, 0}, (int[MEMBERS]){2, 3, 1, 1, 2});
}

static void some_leave_early(void **state)
{
    (void)state;
    check((int[MEMBERS]){0, -1, 0, -1, -1}, (int[MEMBERS]){2, 0, 3, 0, 0});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_have_what_they_have_alone),
        cmocka_unit_test(networks_may_differ),
        cmocka_unit_test(some_leave_early),
    };
    printf("seed %d\n", (int)SEED);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed != 0 || ff_mem_blocks() != 0;
}
