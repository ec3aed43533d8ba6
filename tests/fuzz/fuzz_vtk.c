#include "ff_fuzz_mesh.h"
#include "ff_vtk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return ff_fuzz_parse(ff_vtk_parse, data, size);
}
