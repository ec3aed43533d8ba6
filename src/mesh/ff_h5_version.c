#include "ff_h5_version.h"

#include <hdf5.h>
#include <stdio.h>

void ff_h5_version(char *out, size_t n)
{
    unsigned major = 0, minor = 0, release = 0;
    (void)H5get_libversion(&major, &minor, &release);
    (void)snprintf(out, n, "%u.%u.%u", major, minor, release);
}
