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

/* --small: a test that is cut down for compute-sanitizer, which makes kernels 100 times slower (tools/gpu_check). */
static inline int ff_gpu_small(int argc, char **argv)
{
    return argc > 1 && strcmp(argv[1], "--small") == 0;
}

/* --small K [P]: case K alone, and of it precision P (0 f32, 1 tf32, 2 bf16) alone: what racecheck ends with in a minute.
 * -1: all. */
static inline int ff_gpu_pick(int argc, char **argv, int at)
{
    return argc > at && ff_gpu_small(argc, argv) ? atoi(argv[at]) : -1;
}

#endif
