/* Model files. The HDF5 library itself is not built with the fuzzer's instruments: as in fuzz_vtkhdf.c. */
#include "ff_fuzz.h"
#include "ff_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ff_model *m = NULL;
    ff_error_clear();
    ff_status st = ff_model_read(ff_comm_self(), ff_fuzz_file(data, size), &m);
    if (st == FF_OK)
        FF_FUZZ_CHECK(m->n_tensors > 0 && ff_model_tensor(m, m->tensor[0].name) == &m->tensor[0]);
    else
        ff_fuzz_refused(st);
    ff_model_destroy(&m);
    FF_FUZZ_CHECK(ff_mem_blocks() == 0);
    return 0;
}
