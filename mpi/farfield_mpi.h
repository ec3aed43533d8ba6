/* farfield: public additions that take an MPI_Comm. */
#ifndef FARFIELD_MPI_H
#define FARFIELD_MPI_H

#include "farfield.h"

#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ff_comm ff_comm;

/* The MPI row of the communicator table on a duplicate of comm, so that messages never meet the caller's.
 * Collective comm  any intracommunicator of an initialised MPI; threads other than the caller's never call
 * MPI out   new communicator, owned by the caller, freed with ff_mpi_comm_destroy() before MPI_Finalize; NULL
 * on failure Errors: FF_E_ARG MPI not initialised or comm is MPI_COMM_NULL; FF_E_MEM; FF_E_COMM. The same
 * code on all ranks.
 *
 * A rank that is lost (killed, crashed) cannot be seen by the others through MPI 3: they wait. The launcher
 * sees it: mpirun and srun --kill-on-bad-exit end the whole job. A rank that fails alone, outside the agreed
 * places, calls ff_mpi_abort(). */
FF_API ff_status ff_mpi_comm_create(MPI_Comm comm, ff_comm **out);
FF_API void ff_mpi_comm_destroy(ff_comm **comm); /* NULL inside is fine Collective */

/* Ends all ranks of MPI_COMM_WORLD with this exit code; for main programs only. Does not return. Local */
FF_API void ff_mpi_abort(int code);

#ifdef __cplusplus
}
#endif
#endif
