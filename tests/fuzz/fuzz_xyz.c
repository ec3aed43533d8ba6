#include "ff_fuzz_mesh.h"
#include "ff_xyz.h"

static ff_status parse(ff_bytes *b, ff_mesh **out)
{
    const ff_read_opts opts = FF_READ_OPTS_INIT;
    ff_xyz_cell cell;
    return ff_xyz_parse(b, &opts, out, &cell);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return ff_fuzz_parse(parse, data, size);
}
