/* The n-th allocation of a treecode fails, n = 1, 2, ... until a run passes: each run returns FF_E_MEM and leaks nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "farfield_sum.h"
#include "ff_generate.h"
#include "ff_mem.h"

#include <omp.h>

enum { N = 400 };

static double x[3 * N], q[3 * N], u[3 * N], g[9 * N], dq[3 * N], dx[3 * N];

static ff_status run(const ff_sum_opts *o)
{
    ff_sum *s = NULL;
    ff_sum_error e;
    ff_status st;
    FF_GO(ff_sum_create(x, N / 2, x + 3 * (N / 2), N / 2, o, &s));
    FF_GO(ff_sum_apply(s, q, u, g));
    FF_GO(ff_sum_adjoint(s, u, NULL, dq));
    FF_GO(ff_sum_adjoint_points(s, q, u, dx, dq));
    FF_GO(ff_sum_check(s, q, u, g, 5, &e, NULL));
done:
    ff_sum_destroy(&s);
    return st;
}

static void every_failed_allocation_is_returned(void **state)
{
    (void)state;
    static const ff_sum_kernel kernel[] = {FF_SUM_INV_R, FF_SUM_YUKAWA, FF_SUM_STOKESLET};
    assert_int_equal(ff_generate("uniform", 3, 0, N, 3, x), FF_OK);
    for (int i = 0; i < 3 * N; i++) q[i] = 1 + i % 5;
    for (int k = 0; k < 6; k++) {
        for (int i = 3; i < 3 * N && k == 5; i++) x[i] = x[i % 3]; /* all at one place */
        ff_sum_opts o = FF_SUM_OPTS_INIT;
        o.kernel = kernel[k / 2];
        o.gradient = o.adjoint = true;
        o.single = k == 3;
        o.rtol = 0;
        o.theta = 1.2;
        o.order = k < 4 ? 3 : 0;
        o.leaf_size = 65;
        omp_set_num_threads(1 + k % 2);
        int64_t n = 1;
        for (bool hit = true; hit; n++) {
            ff_error_clear();
            ff_mem_fail_at(n);
            const ff_status st = run(&o);
            hit = ff_mem_fault_hit();
            ff_mem_fail_at(0);
            assert_int_equal(st, hit ? FF_E_MEM : FF_OK);
            assert_int_equal(ff_mem_blocks(), 0);
        }
        print_message("kernel %d, %d threads: %lld allocations\n", (int)o.kernel, 1 + k % 2,
                      (long long)n - 2);
        assert_true(n > 60);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_failed_allocation_is_returned)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
