#include "ff_fuzz_mesh.h"
#include "ff_gmsh.h"
#include "ff_log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ff_log_set_level(FF_LOG_ERROR); /* no line of warning for each input */
    return ff_fuzz_parse(ff_gmsh_parse, data, size);
}
