/* As for VTKHDF: the HDF5 library is not built with the fuzzer's instruments; what is tested is that our
 * checks hold against whatever they hand over. */
#include "ff_cgns.h"
#include "ff_fuzz_mesh.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ff_mesh *m = NULL;
    ff_read_opts opts = FF_READ_OPTS_INIT;
    ff_error_clear();
    ff_status st = ff_cgns_read(ff_fuzz_file(data, size), &opts, &m);
    if (st == FF_OK)
        ff_fuzz_use(m);
    else
        ff_fuzz_refused(st);
    ff_mesh_destroy(&m);
    FF_FUZZ_CHECK(ff_mem_blocks() == 0);
    return 0;
}
