/* What all fuzzers share. */
#ifndef FF_FUZZ_H
#define FF_FUZZ_H

#include "ff_log.h"
#include "ff_mem.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FF_FUZZ_CHECK(condition)                                                                             \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "line %d: not true: %s (%s)\n", __LINE__, #condition, ff_error_text());          \
            abort();                                                                                         \
        }                                                                                                    \
    } while (0)

/* Warnings would fill the log and take half of the time. */
__attribute__((constructor)) static void ff_fuzz_quiet(void)
{
    ff_log_set_level(FF_LOG_ERROR);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Wrong input and nothing worse, told in one line. */
static inline void ff_fuzz_refused(ff_status st)
{
    FF_FUZZ_CHECK(ff_exit_code(st) == 2);
    FF_FUZZ_CHECK(ff_error_text()[0] != 0 && strchr(ff_error_text(), '\n') == NULL);
}

static char ff_fuzz_path[64];

static inline void ff_fuzz_unlink(void)
{
    (void)unlink(ff_fuzz_path);
}

/* The name of a file in memory with these bytes, for libraries that open files themselves. HDF5 asks for the real path
 * of a link, which a memfd under /proc has not. */
static inline const char *ff_fuzz_file(const uint8_t *data, size_t size)
{
    static int fd = -1;
    if (fd < 0) {
        (void)strcpy(ff_fuzz_path, "/dev/shm/ff_fuzz_XXXXXX");
        fd = mkstemp(ff_fuzz_path);
        (void)atexit(ff_fuzz_unlink);
    }
    FF_FUZZ_CHECK(fd >= 0 && ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
    return ff_fuzz_path;
}

#endif
