/* What the header lines say about MPI. */
#ifndef FF_MPI_INFO_H
#define FF_MPI_INFO_H

#include "ff_comm.h"

#include <stddef.h>

void ff_mpi_library(char *out, size_t n); /* name and version of the library, up to the first comma   Local */

/* Place of this rank among those of its host, and their number.                                      Collective */
ff_status ff_mpi_local_rank(ff_comm *comm, int *rank, int *size);

#endif
