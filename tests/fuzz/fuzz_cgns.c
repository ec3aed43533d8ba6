/* As for VTKHDF: the HDF5 library is not built with the fuzzer's instruments; what is tested is that our
 * checks hold against whatever they hand over. */
#include "ff_cgns.h"
#include "ff_fuzz_mesh.h"

#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1;
    ff_mesh *m = NULL;
    ff_read_opts opts = FF_READ_OPTS_INIT;
    char path[64];
    if (fd < 0) fd = memfd_create("fuzz.cgns", 0);
    FF_FUZZ_CHECK(fd >= 0 && ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ff_error_clear();
    ff_status st = ff_cgns_read(path, &opts, &m);
    FF_FUZZ_CHECK(st == FF_OK || ff_exit_code(st) == 2);
    FF_FUZZ_CHECK(st == FF_OK || (ff_error_text()[0] != 0 && strchr(ff_error_text(), '\n') == NULL));
    if (st == FF_OK) ff_fuzz_use(m);
    ff_mesh_destroy(&m);
    FF_FUZZ_CHECK(ff_mem_blocks() == 0);
    return 0;
}
