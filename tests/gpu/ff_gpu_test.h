/* What every test of the label gpu begins with: without a GPU it ends with the code that CTest counts as skipped. */
#ifndef FF_GPU_TEST_H
#define FF_GPU_TEST_H

#ifdef __cplusplus
extern "C" {
#endif
#include "ff_cuda.h"
#ifdef __cplusplus
}
#endif

#include <stdio.h>
#include <stdlib.h>

#include <string.h>

enum { FF_GPU_SKIP = 77 }; /* SKIP_RETURN_CODE of tests/gpu/gpu.cmake */

/* Ends the process where fewer than n GPUs can be used. */
static inline void ff_gpu_or_skip(int n)
{
    int have = ff_cuda_device_count();
    if (have >= n) return;
    printf("skipped: this test needs %d GPU(s) and a driver, found %d\n", n, have);
    exit(FF_GPU_SKIP);
}

/* --small: a test that is cut down for compute-sanitizer, which makes kernels 100 times slower (tools/gpu_check): fewer
 * points, one of several alike cases, each kernel. --small CASE: one case alone. */
static inline int ff_gpu_small(int argc, char **argv)
{
    return argc > 1 && strcmp(argv[1], "--small") == 0;
}

/* --small K [P]: case K alone, and of it precision P (0 f32, 1 tf32, 2 bf16) alone. -1: all. */
static inline int ff_gpu_pick(int argc, char **argv, int at)
{
    return argc > at && ff_gpu_small(argc, argv) ? atoi(argv[at]) : -1;
}

/* --cases: print what may stand for CASE, a line each ("-" for all at once), and do no more. */
static inline int ff_gpu_asks_cases(int argc, char **argv)
{
    return argc > 1 && strcmp(argv[1], "--cases") == 0;
}

/* CASE is "K P" with K = 0, step, ... below n and P = 0, 1, 2. */
static inline void ff_gpu_print_cases(int n, int step)
{
    for (int k = 0; k < n; k += step)
        for (int p = 0; p < 3; p++) printf("%d %d\n", k, p);
}

/* For tests of cmocka, included before: CASE is a test's name. */
#define FF_GPU_RUN_TESTS(argc, argv, tests)                                                                  \
    ff_gpu_run_tests(argc, argv, tests, sizeof(tests) / sizeof *(tests))
#ifdef cmocka_run_group_tests
static inline int ff_gpu_run_tests(int argc, char **argv, const struct CMUnitTest *tests, size_t n)
{
    if (ff_gpu_asks_cases(argc, argv)) {
        for (size_t i = 0; i < n; i++) puts(tests[i].name);
        return 0;
    }
    if (argc > 2 && ff_gpu_small(argc, argv)) cmocka_set_test_filter(argv[2]);
    return _cmocka_run_group_tests("tests", tests, n, NULL, NULL);
}
#endif

#endif
