#include "ff_fuzz_mesh.h"
#include "ff_log.h"
#include "ff_nastran.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ff_log_set_level(FF_LOG_ERROR); /* no line of warning for each input */
    return ff_fuzz_parse(ff_nastran_parse, data, size);
}
