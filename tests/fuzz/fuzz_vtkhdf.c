/* The HDF5 library itself is not built with the fuzzer's instruments: what is tested is that our checks hold against
 * whatever it hands over, and that it survives the files we let it open. */
#include "ff_fuzz_mesh.h"
#include "ff_vtkhdf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ff_mesh *m = NULL;
    ff_read_opts opts = {1.0, size % 3 == 0, false};
    ff_error_clear();
    ff_status st = ff_vtkhdf_read(ff_fuzz_file(data, size), &opts, &m);
    if (st == FF_OK)
        ff_fuzz_use(m);
    else
        ff_fuzz_refused(st);
    ff_mesh_destroy(&m);
    FF_FUZZ_CHECK(ff_mem_blocks() == 0);
    return 0;
}
