/* Parallel HDF5 through MPI-IO: fills the access hook of mesh/ff_h5.h. */
#ifndef FF_MPI_IO_H
#define FF_MPI_IO_H

#include "ff_status.h"

#include <mpi.h>

/* Files opened on a communicator of as many ranks as comm are shared through MPI-IO from now on, with
 * collective transfers. Call it with the communicator behind the program's ff_comm. comm is duplicated.
 * Collective Errors: FF_E_COMM. */
ff_status ff_mpi_io_install(MPI_Comm comm);

/* Removes the hook; before MPI_Finalize. Does nothing if none is installed. Collective */
void ff_mpi_io_remove(void);

/* Which MPI-IO layer is in use: "ROMIO", "OMPIO" or "unknown"; for the header lines of a run. Open MPI takes
 * OMPIO unless OMPI_MCA_io=^ompio is set. Local */
const char *ff_mpi_io_layer(void);

#endif
