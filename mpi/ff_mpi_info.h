/* What the header lines say about MPI. */
#ifndef FF_MPI_INFO_H
#define FF_MPI_INFO_H

#include <stddef.h>

void ff_mpi_library(char *out, size_t n); /* name and version of the library, up to the first comma   Local */

#endif
