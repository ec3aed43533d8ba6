/* Version of the HDF5 library in use, for the header lines. */
#ifndef FF_H5_VERSION_H
#define FF_H5_VERSION_H

#include <stddef.h>

void ff_h5_version(char *out, size_t n); /* "1.10.8"                                                  Local */

#endif
