#include "ff_mpi_info.h"

#include "ff_mpi_comm.h"

#include <mpi.h>
#include <stdio.h>
#include <string.h>

void ff_mpi_library(char *out, size_t n)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int len = 0;
    if (MPI_Get_library_version(text, &len) != MPI_SUCCESS) text[0] = 0;
    text[strcspn(text, ",\n")] = 0;
    (void)snprintf(out, n, "%s", text);
}

ff_status ff_mpi_local_rank(ff_comm *comm, int *rank, int *size)
{
    MPI_Comm local = MPI_COMM_NULL;
    *rank = 0;
    *size = 1;
    if (comm->size == 1) return FF_OK;
    if (MPI_Comm_split_type(ff_mpi_comm_handle(comm), MPI_COMM_TYPE_SHARED, comm->rank, MPI_INFO_NULL,
                            &local) != MPI_SUCCESS ||
        MPI_Comm_rank(local, rank) != MPI_SUCCESS || MPI_Comm_size(local, size) != MPI_SUCCESS ||
        MPI_Comm_free(&local) != MPI_SUCCESS)
        return ff_fail(FF_E_COMM, "MPI: splitting the ranks by host failed");
    return FF_OK;
}
