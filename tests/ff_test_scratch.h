/* A folder of its own for files a test writes, in memory where the system has such a place: tests of failing
 * writes flush hundreds of files to the device. */
#ifndef FF_TEST_SCRATCH_H
#define FF_TEST_SCRATCH_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Makes the folder; path [64]. */
static inline bool ff_scratch_make(char *path)
{
    (void)snprintf(path, 64, "%s/ff_test_XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : ".");
    return mkdtemp(path) != NULL;
}

/* Leaves and removes the folder, which must be empty by now: a test that leaves files behind fails. */
static inline bool ff_scratch_remove(const char *path)
{
    return chdir("/") == 0 && rmdir(path) == 0;
}

#endif
