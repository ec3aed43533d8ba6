/* MPI row of the communicator table (base/ff_comm.h), and start and stop for main programs. */
#ifndef FF_MPI_COMM_H
#define FF_MPI_COMM_H

#include "farfield_mpi.h"
#include "ff_comm.h"

/* Initialises MPI (thread level FUNNELED) unless the caller has, and wraps MPI_COMM_WORLD. Collective */
ff_status ff_mpi_start(int *argc, char ***argv, ff_comm **world);
/* Destroys world and finalises MPI if ff_mpi_start initialised it. Collective */
void ff_mpi_stop(ff_comm **world);

/* Whether this rank is to print what ended the run: rank 0, or on a lost communicator the lowest of those that found it
 * lost within a second. Local */
bool ff_mpi_comm_speaks(ff_comm *comm);

/* The communicator under an MPI row, for libraries that take one (parallel HDF5); MPI_COMM_SELF for the
 * one-rank row. Borrowed. Local */
MPI_Comm ff_mpi_comm_handle(const ff_comm *comm);

/* Messages go in pieces of at most this many bytes (1 GiB unless set; a multiple of 8, equal on all ranks).
 * Tests make it small, so that splitting is exercised without gigabytes. Local */
void ff_mpi_comm_set_piece(ff_comm *comm, size_t bytes);

#endif
