/* The HDF5 library itself is not built with the fuzzer's instruments: what is tested is that our checks hold against
 * whatever it hands over, and that it survives the files we let it open. */
#include "ff_fuzz_mesh.h"
#include "ff_vtkhdf.h"

#include <sys/mman.h>
#include <unistd.h>

static int memory_file(const uint8_t *data, size_t size)
{
    static int fd = -1;
    if (fd < 0) fd = memfd_create("fuzz.vtkhdf", 0);
    FF_FUZZ_CHECK(fd >= 0 && ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
    return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ff_mesh *m = NULL;
    ff_read_opts opts = {1.0, size % 3 == 0, false};
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", memory_file(data, size));
    ff_error_clear();
    ff_status st = ff_vtkhdf_read(path, &opts, &m);
    FF_FUZZ_CHECK(st == FF_OK || ff_exit_code(st) == 2);
    FF_FUZZ_CHECK(st == FF_OK || (ff_error_text()[0] != 0 && strchr(ff_error_text(), '\n') == NULL));
    if (st == FF_OK) ff_fuzz_use(m);
    ff_mesh_destroy(&m);
    FF_FUZZ_CHECK(ff_mem_blocks() == 0);
    return 0;
}
