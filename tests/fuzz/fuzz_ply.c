#include "ff_fuzz_mesh.h"
#include "ff_ply.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return ff_fuzz_parse(ff_ply_parse, data, size);
}
