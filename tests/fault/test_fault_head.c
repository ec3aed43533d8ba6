/* The n-th allocation of graph and head fails, n = 1, 2, ... until a run passes: FF_E_MEM and no leak each time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ff_embed.h"
#include "ff_mem.h"
#include "head_case.h"

enum { N = 40, C = 3, LMAX = 2, R = 4, H = 5 };

static double x[3 * N], w1[H * R], w2[LMAX * C * H], cot[N * 9 * C], out[N * 9 * C], dx[3 * N], d1[H * R],
    d2[LMAX * C * H];

static ff_head_opts opts(void)
{
    ff_head_opts o = FF_HEAD_OPTS_INIT;
    o.lmax = LMAX, o.n_channels = C, o.n_radial = R, o.n_hidden = H;
    return o;
}

static ff_status run_alone(void)
{
    ff_status st = FF_OK;
    ff_graph *g = NULL;
    const ff_head_opts o = opts();
    ff_head_grad_f64 grad = FF_HEAD_GRAD_F64_INIT;
    grad.points = dx, grad.w1 = d1, grad.w2 = d2;
    FF_GO(ff_graph_create(x, N, 0.4, head_cell(3), &g));
    FF_GO(ff_head_forward_f64(g, &o, w1, w2, out));
    FF_GO(ff_head_backward_f64(g, &o, w1, w2, cot, &grad));
done:
    ff_graph_destroy(&g);
    return st;
}

/* The distributed head on its one-rank communicator. */
static ff_status run_embed(void)
{
    ff_status st = FF_OK;
    ff_embed *e = NULL;
    const ff_head_opts o = opts();
    FF_GO(ff_embed_create(ff_comm_self(), x, N, 0.4, head_cell(3), NULL, &e));
    FF_GO(ff_embed_forward_f64(e, &o, w1, w2, out));
    FF_GO(ff_embed_backward_f64(e, &o, w1, w2, cot, dx, d1, d2));
done:
    ff_embed_destroy(&e);
    return st;
}

static void every_failure_is_returned(ff_status (*run)(void), int64_t least)
{
    int64_t n = 1;
    for (int i = 0; i < 3 * N; i++) x[i] = head_random(i % 3, i);
    for (bool hit = true; hit; n++) {
        ff_error_clear();
        ff_mem_fail_at(n);
        ff_status st = run();
        hit = ff_mem_fault_hit();
        ff_mem_fail_at(0);
        assert_int_equal(st, hit ? FF_E_MEM : FF_OK);
        assert_int_equal(ff_mem_blocks(), 0);
        assert_int_equal(ff_mem_used(), 0);
    }
    print_message("%lld allocations\n", (long long)n - 2);
    assert_true(n - 2 >= least);
}

static void head_alone(void **state)
{
    (void)state;
    every_failure_is_returned(run_alone, 50);
}

static void head_over_ranks(void **state)
{
    (void)state;
    every_failure_is_returned(run_embed, 80);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(head_alone), cmocka_unit_test(head_over_ranks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
