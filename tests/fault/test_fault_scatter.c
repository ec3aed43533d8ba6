/* The n-th allocation of the zonal scatter fails, n = 1, 2, ... until a run passes: FF_E_MEM and no leak each time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "farfield_scatter.h"
#include "ff_mem.h"

#include <string.h>

enum { N = 6, E = 50, C = 5, LMAX = 2, ROWS = 8 };

static double coupling[E * ROWS], radial[E * LMAX * C], deg[N], cot[N * (ROWS + 1) * C],
    out[N * (ROWS + 1) * C];
static double d_coupling[E * ROWS], d_deg[N];

static ff_status run(ff_scatter_path path)
{
    ff_status st = FF_OK;
    ff_scatter_csr *csr = NULL;
    int64_t dst[E];
    const ff_scatter_shape shape = {N, E, C, LMAX};
    ff_scatter_in_f64 in = FF_SCATTER_IN_F64_INIT;
    ff_scatter_grad_f64 grad = FF_SCATTER_GRAD_F64_INIT;
    in.coupling = coupling, in.radial = radial, in.inv_sqrt_deg = deg;
    grad.coupling = d_coupling, grad.inv_sqrt_deg = d_deg;
    for (int e = 0; e < E; e++) dst[e] = e * 5 % N;
    FF_GO(ff_scatter_csr_create(dst, E, N, &csr));
    FF_GO(ff_scatter_forward_f64(csr, &shape, &in, path, out));
    FF_GO(ff_scatter_backward_f64(csr, &shape, &in, path, cot, &grad));
done:
    ff_scatter_csr_destroy(&csr);
    return st;
}

static void every_failed_allocation_is_returned(void **state)
{
    (void)state;
    for (int path = 0; path < 2; path++) {
        int64_t n = 1;
        for (bool hit = true; hit; n++) {
            ff_error_clear();
            ff_mem_fail_at(n);
            ff_status st = run((ff_scatter_path)path);
            hit = ff_mem_fault_hit();
            ff_mem_fail_at(0);
            assert_int_equal(st, hit ? FF_E_MEM : FF_OK);
            assert_int_equal(ff_mem_blocks(), 0);
            assert_int_equal(ff_mem_used(), 0);
        }
        assert_int_equal(n - 2, 6); /* CSR: itself, three arrays, counts; backward: one */
    }
}

/* The sum's messages would be E ROWS C numbers; a forward call takes no counted memory at all. */
static void a_forward_call_allocates_nothing(void **state)
{
    (void)state;
    ff_scatter_csr *csr = NULL;
    int64_t dst[E] = {0};
    const ff_scatter_shape shape = {N, E, C, LMAX};
    ff_scatter_in_f64 in = FF_SCATTER_IN_F64_INIT;
    in.coupling = coupling, in.radial = radial;
    assert_int_equal(ff_scatter_csr_create(dst, E, N, &csr), FF_OK);
    ff_mem_set_budget(ff_mem_used());
    ff_status st = ff_scatter_forward_f64(csr, &shape, &in, FF_SCATTER_FUSED, out);
    ff_mem_set_budget(0);
    assert_int_equal(st, FF_OK);
    ff_scatter_csr_destroy(&csr);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_failed_allocation_is_returned),
                                       cmocka_unit_test(a_forward_call_allocates_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
