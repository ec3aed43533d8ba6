/* Which transport a run on GPUs takes, and what it says: every combination of wish and machine. */
#include "../../src/app/app_transport.c"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

static const app_gpu_facts good = {2, -1, -1, -1, ""}, one = {1, -1, -1, 0, "libnccl.so.2 is not found"},
                           shared = {4, 1, 3, -1, ""}, both = {2, 0, 1, 0, "libnccl.so.2 is not found"},
                           bare = {2, -1, -1, 1, "libnccl.so.2 is not found"};

static void expect(const char *wanted, const app_gpu_facts *f, bool nccl, const char *word)
{
    bool got = !nccl;
    char why[200];
    assert_int_equal(app_transport_choose(wanted, f, &got, why, sizeof why), FF_OK);
    assert_int_equal(got, nccl);
    if (word == NULL)
        assert_string_equal(why, "");
    else
        assert_non_null(strstr(why, word));
}

static void expect_refused(const app_gpu_facts *f, const char *word)
{
    bool got = true;
    char why[200];
    ff_error_clear();
    assert_int_equal(app_transport_choose("nccl", f, &got, why, sizeof why), FF_E_UNSUPPORTED);
    assert_false(got);
    assert_non_null(strstr(ff_error_text(), "run.transport = nccl"));
    assert_non_null(strstr(ff_error_text(), word));
    ff_error_clear();
}

static void automatic(void **state)
{
    (void)state;
    expect("auto", &good, true, NULL);
    expect("auto", &one, false, NULL);
    expect("auto", &shared, false, "ranks 1 and 3 are on one GPU");
    expect("auto", &both, false, "ranks 0 and 1 are on one GPU");
    expect("auto", &bare, false, "rank 1: libnccl.so.2 is not found");
}

static void asked_for(void **state)
{
    (void)state;
    expect("nccl", &good, true, NULL);
    expect("nccl", &one, false, NULL); /* nothing to exchange */
    expect("mpi", &good, false, NULL);
    expect("mpi", &shared, false, NULL);
    expect("nccl", &shared, true, NULL); /* NCCL itself decides */
    expect_refused(&both, "rank 0: libnccl.so.2 is not found");
    expect_refused(&bare, "rank 1: libnccl.so.2 is not found");
}

static void refused_by_nccl(void **state)
{
    (void)state;
    ff_error_clear();
    assert_int_equal(ff_fail(FF_E_COMM, "NCCL: invalid usage"), FF_E_COMM);
    assert_int_equal(app_transport_refused(&shared, ff_error_text()), FF_E_UNSUPPORTED);
    assert_non_null(strstr(ff_error_text(), "run.transport = nccl: ranks 1 and 3 are on one GPU"));
    assert_non_null(strstr(ff_error_text(), "--transport mpi (NCCL: invalid usage)"));
    ff_error_clear();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(automatic), cmocka_unit_test(asked_for),
                                       cmocka_unit_test(refused_by_nccl)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
