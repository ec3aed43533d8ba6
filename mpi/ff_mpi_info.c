#include "ff_mpi_info.h"

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
